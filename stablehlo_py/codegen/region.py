"""Bodies of reductions, sorts and scatters: a region of scalar hlo ops evaluated on lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen import complex as complex_math
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import ARITH, apply
from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.math import muladd
from stablehlo_py.codegen.types import Element, Known, Lanes, element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import user_location
from stablehlo_py.errors import InternalError, UnsupportedError
from stablehlo_py.mlir import ir

Combiner = Callable[[Sequence[Lanes]], list[Lanes]]


def combiner(f: Function, op: ir.OpView, region: int = 0, results: Sequence[ir.Value] | None = None) -> Combiner:
    """The region of `op` as a function of lanes (all with one lane count): arguments in, returned values out, or
    others of the region (`results`).

    Raises (when called): UnsupportedError for an op that is not elementwise.
    """
    block = op.regions[region].blocks[0]
    *ops, terminator = block.operations
    returned = [*terminator.operands] if results is None else results
    ops = ops if results is None else _needed(ops, results)
    taken = [element(argument) for argument in block.arguments]

    def combine(arguments: Sequence[Lanes]) -> list[Lanes]:
        lanes = types.lane_count(arguments[0])
        for of, given in zip(taken, arguments, strict=True):
            _require_lanes(op, of, given)
        values: dict[ir.Value, Lanes] = dict(zip(block.arguments, arguments, strict=True))
        for inner in ops:
            name = inner.operation.name
            if name == "hlo.constant":
                number = constant_value(inner).reshape(-1)[0].item()
                values[inner.results[0]] = types.constant(f, element(inner.results[0]), number, lanes)
            elif len(inner.operands) == 1 and (record := record_of(name)) and record.picks:  # between scalars
                values[inner.results[0]] = values[inner.operands[0]]
            elif name.removeprefix("hlo.") in ARITH:
                operands = [values[operand] for operand in inner.operands]
                values[inner.results[0]] = apply(f, inner, operands)
            else:
                raise UnsupportedError(
                    f"the body of '{op.operation.name}' holds '{name}'", op=name, location=user_location(inner.location)
                )
        return [values[value] for value in returned]

    return combine


def _needed(ops: Sequence[ir.OpView], results: Sequence[ir.Value]) -> list[ir.OpView]:
    """The ops from which these values come."""
    wanted, found = set(results), list[ir.OpView]()
    for inner in reversed(ops):
        if not wanted.isdisjoint(inner.results):
            wanted.update(inner.operands)
            found.append(inner)
    return found[::-1]


def _require_lanes(op: ir.OpView, of: Element, given: Lanes) -> None:
    """Lanes that a kernel loaded are those that a body computes in: a kernel that took memory for another type would
    read, and write, past the end of what is there.

    Raises:
        InternalError: they are not.
    """
    if isinstance(given, tuple) != of.is_complex or types.parts(given)[0].type.element != of.compute:
        held = types.parts(given)[0].type.element
        raise InternalError(f"the body of '{op.operation.name}' takes {of.name}, its kernel has {held}")


def field_arithmetic(f: Function, name: str, a: Known, b: Known) -> Lanes:
    """add, subtract, multiply or divide of real or complex floats, for kernels of whole algorithms."""
    if isinstance(a, tuple):
        return complex_math.FUNCTIONS[name](f, a, b)
    return f.binary({"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}[name], a, b)


def subtract_product(f: Function, c: Known, a: Known, b: Known) -> Lanes:
    """c - a b of real or complex floats, fused where the target can."""
    if isinstance(a, tuple):
        real = muladd(f, a[1], b[1], muladd(f, f.fneg(a[0]), b[0], c[0]))
        return real, muladd(f, f.fneg(a[1]), b[0], muladd(f, f.fneg(a[0]), b[1], c[1]))
    return muladd(f, f.fneg(a), b, c)
