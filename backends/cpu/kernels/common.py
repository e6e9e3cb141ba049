"""Pieces that the templates of single ops share: loop nests, offsets, copies, scalar operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.cpu.kernels.base import Fusion, Phase, phase_function
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.attributes import INPLACE
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.size import is_known
from stablehlo_py.dialect.types import tensor_bytes, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

COPY_BLOCK = 1 << 16


def the_op(fusion: Fusion, name: str) -> ir.OpView:
    """The one op that a single-op fusion is about."""
    return next(op for op in fusion.ops if op.operation.name == name)


def nest(f: Function, bounds: Sequence[tuple[Index, Index]], body: Callable[[list[Index]], None]) -> None:
    """Loops over every [low, high), outermost first; body gets the indices."""
    if not bounds:
        body([])
        return
    (low, high), *inner = bounds
    f.loop(low, high, 1, lambda i: nest(f, inner, lambda indices: body([i, *indices])))


def if_any(f: Function, count: int, body: Callable[[Index], None]) -> None:
    """`body(count)` where the count, which may depend on the call, is not zero."""
    if not is_known(count):
        f.if_(f.cmp("ne", f.index(count), f.const(0)), lambda: body(count))
    elif count:
        body(count)


def offset(f: Function, indices: Sequence[Index], strides: Sequence[int]) -> Index:
    """sum(index * stride)."""
    total: Index = 0
    for index, stride in zip(indices, strides, strict=True):
        total = f.iadd(total, f.imul(index, stride))
    return total


def unravel(f: Function, number: Index, sizes: Sequence[int]) -> list[Index]:
    """Row-major digits of a number."""
    digits: list[Index] = []
    for size in reversed(sizes):
        if size == 1:
            digits.append(0)
            continue
        digits.append(f.irem(number, size))
        number = f.idiv(number, size)
    return digits[::-1]


def operand(f: Function, fusion: Fusion, value: ir.Value) -> Value:
    """Pointer of a fusion input."""
    if value not in fusion.inputs:
        location = user_location(value.location)
        raise UnsupportedError(f"an operand of a '{fusion.kind}' kernel is not an input of it", location=location)
    return f.parameters[f"in{fusion.inputs.index(value)}"]


def scalar_operand(f: Function, fusion: Fusion, value: ir.Value, lanes: int = 1) -> Lanes:
    """A scalar: from memory, or a constant that was cloned into the fusion."""
    if value in fusion.inputs:
        return types.splat(f, types.load(f, element(value), operand(f, fusion, value), 0), lanes)
    owner = value.owner
    if owner.name in ("hlo.reshape", "hlo.broadcast"):
        return scalar_operand(f, fusion, owner.operands[0], lanes)
    return types.constant(f, element(value), constant_value(owner).reshape(-1)[0].item(), lanes)


def inplace_pairs(fusion: Fusion) -> set[tuple[int, int]]:
    """(input, output) pairs that share memory."""
    if INPLACE not in fusion.attributes:
        return set()
    numbers = tuple(fusion.attributes[INPLACE])
    return set(zip(numbers[::2], numbers[1::2], strict=True))


def copy_phase(fusion: Fusion, source: ir.Value, output: int, target: CpuTarget) -> tuple[str, Phase] | None:
    """A parallel phase that copies an input (or splats a constant) into an output; None where they share memory."""
    symbol = f"{fusion.name}.copy{output}"
    f = phase_function(fusion, symbol)
    size = tensor_bytes(fusion.outputs[output])
    if size == 0:
        return None
    blocks = -(-size // COPY_BLOCK)
    to = f.parameters[f"out{output}"]
    begin = f.imul(f.begin, COPY_BLOCK)
    length = f.isub(f.imin(f.imul(f.end, COPY_BLOCK), size), begin)
    if source in fusion.inputs:
        if (fusion.inputs.index(source), output) in inplace_pairs(fusion):
            return None
        source_pointer = operand(f, fusion, source)
        f.copy_memory(f.gep(to, begin, I8), f.gep(source_pointer, begin, I8), length)
    else:
        of = element(source)
        filler = scalar_operand(f, fusion, source)
        step = of.bytes
        f.loop(f.idiv(begin, step), f.idiv(f.iadd(begin, length), step), 1, lambda i: types.store(f, of, filler, to, i))
    f.ret()
    return f.text(target.function_attributes), Phase(symbol, blocks, 1, COPY_BLOCK / 10)
