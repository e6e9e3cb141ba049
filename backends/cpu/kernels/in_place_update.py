"""Kernels of kind `in_place_update`: a phase for each step (backends/common/in_place_update.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.in_place_update import Destination, InPlaceUpdate
from stablehlo_py.backends.common.iteration import cone, refine
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import empty, lanes_for, merge_short, vectors_of_row
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, affine_of, delinearize, delinearized, lane_index
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Generate the kernel. Every result is a `dynamic_update_slice`, or a reshape of one."""
    emitter = _Update(fusion, target)
    emitter.emit_steps()
    return Kernel.of(*emitter.parts, shared_bytes=emitter.scratch_bytes) if emitter.parts else empty(fusion, target)


class _Update(InPlaceUpdate):
    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        super().__init__(fusion)
        self.target = target
        self.parts: list[Part] = []

    def _scratch(self, f: Function) -> Value:
        return f.shared

    def _walk(
        self,
        suffix: str,
        value: ir.Value,
        destination: Destination,
        scratch: IntLike | None = None,
        split: Sequence[IntLike] = (),
    ) -> None:
        """A phase."""
        count = num_elements(value)
        if count == 0:
            return
        space = refine(self.fusion, self.target, [value], list(split) or [count])
        values = cone([value])
        lanes = lanes_for(self.target, [value, *values], count)
        # Loops of different dimensions of the destination stay apart: it would have to divide.
        loops = [loop for loop in zip(space.origin, space.sizes, strict=True) if loop[1] != 1] or [(0, 1)]
        last = loops[-1][0]
        sizes = [size for origin, size in loops if origin != last]
        sizes += merge_short([size for origin, size in loops if origin == last], lanes)
        inner = sizes[-1]
        lanes = lanes_for(self.target, [value, *values], inner)
        f = phase_function(self.fusion, self.target, suffix)

        def vector(outer: Sequence[Affine], start: Index, mask: Value | None = None) -> None:
            e = Elemental(f, self.fusion, self.target, lanes)
            if scratch is not None:
                staged = f.gep(f.shared, scratch, I8)
                e.bind(value, lambda e, place: e.read(element(value), staged, place))
            place = delinearized(sizes, [*outer, lane_index(start, inner, lanes, lanes)])
            result = e.at(value, place, mask)
            pointer, to = destination(f, e, place)
            e.write(element(value), pointer, to, result, mask)

        rows, whole, vectors = math.prod(sizes[:-1]), inner // lanes, -(-inner // lanes)

        def walk(outer: Sequence[Affine], low: Index, high: Index, step: int) -> None:
            """Part of a row, whose vectors are `step` apart."""

            def last() -> None:
                start = f.imul(whole, lanes)
                vector(outer, start, f.tail_mask(f.isub(inner, start), lanes))

            ends = None if inner % lanes == 0 else last
            vectors_of_row(f, low, high, step, whole * step, lambda i: vector(outer, f.imul(i, lanes // step)), ends)

        if rows == 1:
            walk((), f.begin, f.end, 1)
            iterations, vectors = vectors, 1
        else:

            def row(i: Index) -> None:
                outer = delinearize(f, ((rows, affine_of(i, rows - 1)),), sizes[:-1], 1)
                walk(outer, 0, inner, lanes)

            f.loop(f.begin, f.end, 1, row, nonempty=True)
            iterations = rows
        cost = COSTS.phase_ns(self.target, values, 1, 1) * size_hint(vectors) + 1.0
        self.parts.append(phase(f, iterations, cost))
