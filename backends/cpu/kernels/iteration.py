"""Iteration spaces: how the elements of a result are split into loops, how much a place costs, how ranges go to
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, finished, phase_function
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import IntLike, always_less
from stablehlo_py.mlir import ir

GATHERED = 16  # lanes: of 32 bits each, a vector of AVX-512
STRAIGHT = 4  # vectors of a row that need no loop where little is computed


def lanes_for(target: CpuTarget, values: Iterable[ir.Value], limit: IntLike) -> int:
    """Lanes for values: full vectors of the widest element computed, at most the power of two in `limit`."""
    bits = [element(type_).compute.bits for type_ in {value.type for value in values}]
    widest = max((width for width in bits if width > 1), default=8)
    return min(target.lanes(widest), power_of_two(limit)) if isinstance(limit, int) else target.lanes(widest)


def merge_short(sizes: Sequence[IntLike], lanes: int) -> list[IntLike]:
    """Loops whose innermost is long enough for vectors: short ones are merged with the loop around them, at the price
    of divisions by lane, and of elements that are gathered. Numbers of 8 and 16 bits are not gathered but read one by
    one: their rows are short where vectors of 32 bits say so.
    """
    sizes = [size for size in sizes if size != 1] or [1]
    lanes = min(lanes, GATHERED)
    while len(sizes) > 1 and always_less(sizes[-1] * 2, lanes):
        last = sizes.pop()
        sizes[-1] *= last
    return sizes


def vectors_of_row(
    f: Function,
    low: Index,
    high: Index,
    step: IntLike,
    whole: IntLike,
    vector: Callable[[Index], None],
    last: Callable[[], None] | None,
) -> None:
    """`vector` for all of a part of a row, which is not empty, in steps; but `last` for one from `whole` on, where the
    row is no whole vectors and is written in place. Only that one needs a mask: not all CPUs have stores of some
    elements, or quick ones."""
    if last is None:
        f.loop(low, high, step, vector, nonempty=True)
        return
    f.loop(low, f.imin(high, whole), step, vector)
    f.if_(f.cmp("sgt", f.index(high), f.index(whole)), last)


def power_of_two(number: int) -> int:
    """The largest power of two that is not above a positive number."""
    return 1 << (max(1, number).bit_length() - 1)


def empty(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of a fusion without elements."""
    return Kernel.of(finished(phase_function(fusion, target), 0))
