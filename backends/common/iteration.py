"""Iteration spaces: how the elements of a result are split into loops, and which values they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.codegen.elemental import Elemental, Provider
from stablehlo_py.codegen.elemental.core import TargetLike
from stablehlo_py.codegen.index import Affine, DryRun, Variable, digits
from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir

MAX_LOOPS = 8


@dataclass(frozen=True)
class Space:
    """Loops over the elements of a result, outermost first, and what a dry run saw on them.

    Attributes:
        sizes: trip counts; their product is the number of elements.
        origin: for every loop, the number of the loop that it was split from.
        variables: the dry run's loop variables.
        loads: (tensor, element number) of every access, in terms of `variables`.
    """

    sizes: tuple[IntLike, ...]
    origin: tuple[int, ...]
    variables: tuple[Variable, ...]
    loads: tuple[tuple[object, Affine], ...]

    def coefficient(self, offset: Affine, loop: int) -> IntLike:
        """The step of an element number along a loop."""
        return next((factor for variable, factor in offset.terms if variable is self.variables[loop]), 0)


def unknown_value(f: DryRun, of: Element) -> Provider:
    """Provides a value about which nothing is known, in a dry run."""
    one = f.unknown(of.compute)
    return lambda e, place: (one, one) if of.is_complex else one


def refine(
    fusion: Fusion,
    target: TargetLike,
    values: Sequence[ir.Value],
    sizes: Sequence[IntLike],
    bound: Sequence[ir.Value] = (),
    *,
    within_operands: bool = False,
) -> Space:
    """Split loops of `sizes` until the indices of everything that `values` need are affine in them, as far as splitting
    helps. `bound` values count as known; `within_operands`: as of `DryRun`.
    """

    def divided(dividend: Affine, divisor: IntLike) -> None:
        for variable, factor in dividend.terms:
            if variable not in variables or divisor % abs(factor):
                continue
            if is_known(dividend.constant):
                # What the new loop counts begins with a multiple; what falls ends with one.
                beyond = dividend.constant if factor > 0 else -1 - dividend.constant
                if beyond % divisor >= abs(factor):
                    continue
            loop, low = variables.index(variable), divisor // abs(factor)
            if low not in (1, sizes[loop]) and sizes[loop] % low == 0:
                splits.setdefault(loop, low)
        if splits and len(sizes) == 1:
            raise _AllSplit

    def dry_run() -> Space:
        """Evaluate the values over the loops without emitting anything."""
        e = Elemental(f, fusion, target, 1)
        for value in bound:
            e.bind(value, unknown_value(f, element(value)))
        place = digits((size, Affine(0, ((loop, 1),))) for size, loop in zip(sizes, variables, strict=True))
        for value in values:
            bound_value = e._providers.pop(value, None)  # a bound value is still to be computed itself
            e.value(value, place)
            if bound_value is not None:
                e.bind(value, bound_value)
        return Space(tuple(sizes), tuple(origin), variables, tuple(f.loads))

    origin = list(range(len(sizes)))
    while True:
        f = DryRun(divided, within_operands=within_operands)
        variables = tuple(Variable(f.unknown(f.index(0).type), 0, size - 1) for size in sizes)
        splits: dict[int, IntLike] = {}
        with suppress(_AllSplit):
            space = dry_run()
            if not splits or len(sizes) + len(splits) > MAX_LOOPS:
                return space
        finer: list[IntLike] = []
        for loop, size in enumerate(sizes):
            finer += [size // splits[loop], splits[loop]] if loop in splits else [size]
        origin = [number for loop, number in enumerate(origin) for _ in range(2 if loop in splits else 1)]
        sizes = finer


class _AllSplit(Exception):
    """Every loop of a dry run is to be split: what else it reads does not matter."""


def cone(roots: Iterable[ir.Value], stop: Callable[[ir.Value], bool] = lambda value: False) -> list[ir.Value]:
    """Every op result that the roots depend on, operands first, not looking behind values where `stop` holds."""
    order: list[ir.Value] = []
    seen: set[ir.Value] = set()
    for root in roots:
        _visit(root, stop, seen, order)
    return order


def _visit(value: ir.Value, stop: Callable[[ir.Value], bool], seen: set[ir.Value], order: list[ir.Value]) -> None:
    if value in seen:
        return
    owner = value.owner
    if isinstance(owner, ir.Block):
        return
    seen.add(value)
    if not stop(value):
        for operand in owner.operands:
            _visit(operand, stop, seen, order)
    order.append(value)
