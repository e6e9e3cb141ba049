"""Kernels of kind `loop` whose sizes are known at run time.

As in loop.py the results are walked in row-major order with as few loops as their indices allow. One iteration is a
block of a row: whole vectors, then one masked vector for the rest. A row of known length is one iteration.

A kernel that reads an input transposed has three phases, of which a call runs one: tiles of whole vectors (tile.py),
small tiles where those do not fit, these loops where neither do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space
from stablehlo_py.backends.common.loops import if_any
from stablehlo_py.backends.cpu.kernels import tile
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import lanes_for, merge_short
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, affine_of, delinearize, delinearized, lane_index
from stablehlo_py.dialect.symint import IntLike, select, size_hint
from stablehlo_py.mlir import ir

BLOCK = 8192  # elements of one iteration, at most


def emit(fusion: Fusion, target: CpuTarget, space: Space, values: Sequence[ir.Value]) -> Kernel:
    """Generate the kernel; `space` has the loops, `values` everything that is computed."""
    sizes = merge_short(space.sizes, lanes_for(target, values or fusion.outputs, 1 << 10))
    cost = COSTS.phase_ns(target, values, len(space.loads), len(fusion.outputs))
    if not tile.applies(fusion, target, space):
        return _SymbolicLoop(fusion, target, sizes).emit(cost)
    lanes = tile.lanes_of(target, space, values)
    kernels: list[Kernel] = []
    left: IntLike = 1
    for number in sorted({lanes, tile.SMALLEST}, reverse=True):
        fits = tile.fits(space, number)
        kernels.append(_only(left * fits, tile.emit(fusion, target, space, values, number, f"_tiles{number}")))
        left = left * (1 - fits)
    kernels.append(_only(left, _SymbolicLoop(fusion, target, sizes, "_rows").emit(cost)))
    return Kernel(
        {symbol: text for kernel in kernels for symbol, text in kernel.functions.items()},
        tuple(phase for kernel in kernels for phase in kernel.phases),
        externals={name: text for kernel in kernels for name, text in kernel.externals.items()},
        common={name: text for kernel in kernels for name, text in kernel.common.items()},
    )


def _only(condition: IntLike, kernel: Kernel) -> Kernel:
    """The kernel without iterations in calls where the condition is 0, not 1."""
    phases = (replace(phase, iterations=select(condition, phase.iterations, 0)) for phase in kernel.phases)
    return replace(kernel, phases=tuple(phases))


class _SymbolicLoop:
    def __init__(self, fusion: Fusion, target: CpuTarget, sizes: Sequence[IntLike], suffix: str = "") -> None:
        self.fusion, self.target, self.sizes, self.suffix = fusion, target, sizes, suffix
        self.outer, self.inner = math.prod(sizes[:-1]), sizes[-1]
        computed = [result for op in fusion.ops for result in op.operation.results]
        self.lanes = lanes_for(target, [*computed, *fusion.outputs], self.inner)

    def emit(self, cost: float) -> Kernel:
        f = phase_function(self.fusion, self.target, self.suffix)
        blocks = -(-self.inner // BLOCK)
        f.loop(f.begin, f.end, 1, lambda i: self._block(f, i, blocks))
        vectors = -(-min(size_hint(self.inner), BLOCK) // self.lanes)
        return Kernel.of(phase(f, self.outer * blocks, cost * vectors + 2.0))

    def _block(self, f: Function, i: Index, blocks: IntLike) -> None:
        row = affine_of(f.idiv(i, blocks), self.outer - 1)
        indices = delinearize(f, ((self.outer, row),), self.sizes[:-1], 1)
        low = f.imul(f.irem(i, blocks), BLOCK)
        high = f.imin(f.iadd(low, BLOCK), self.inner)
        count = f.isub(high, low)
        rest = f.irem(count, self.lanes)
        whole = f.isub(high, rest)
        f.loop(low, whole, self.lanes, lambda j: self._vector(f, indices, j, None))
        if_any(f, rest, lambda count: self._vector(f, indices, whole, f.tail_mask(count, self.lanes)))

    def _vector(self, f: Function, outer: Sequence[Affine], start: Index, mask: Value | None) -> None:
        """One vector of every result, `start` elements into the row. Inputs are read before outputs are written."""
        column = lane_index(start, self.inner, self.lanes, self.lanes)
        place = delinearized(self.sizes, [*outer, column])
        Elemental(f, self.fusion, self.target, self.lanes).write_outputs(self.fusion.outputs, place, mask)
