"""Scatter: updates combined into a copy of the operands (or in place), in index order, so that results never depend on
threads.

Spec: section scatter. For every scatter index the window's in-bounds part is a box (or, where windows count as a whole,
dialect/scatter_windows.py, all of it or nothing); its innermost dimension is
vectorized where it is contiguous in operands and updates. Threads are owners of places: each goes through all indices,
and combines what lies in its part of the operand. It lists those of a few hundred indices first, since which
thread has a place cannot be predicted: a branch for each would take as long as half a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import nest, offset, unravel
from stablehlo_py.backends.common.scatter import ScatterLayout
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, finished, phase_function
from stablehlo_py.backends.cpu.kernels.common import copy_phase, operand
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import F32, F64, I64, Function, Index, Value
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, affine_of, delinearized, lane_index
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Known, Lanes, element
from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike, is_known, size_hint
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir

# For an index, for each vector of its window, and for each further cache line of the operand that it lies in: from a
# cache that is not the nearest.
UPDATE_NS, VECTOR_NS, LINE_NS, LINE_BYTES = 1.5, 0.25, 2.5, 64
TOGETHER = 4  # updates of single elements in a trip of the loop over them
# Owners have every OWNERS-th piece, as popular places lie side by side, of PIECE_BYTES, as processors fetch lines near
# what they write. A thread looks at BLOCK indices at a time, at each for LOOK_NS, and does at least LOOK_SHARE times of
# that.
OWNERS, PIECE_BYTES, BLOCK, LOOK_NS, LOOK_SHARE = 16, 1024, 256, 0.5, 3


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One copy phase per operand that is not updated in place, then the updates."""
    op = fusion.op("stablehlo.scatter")
    count = (len(op.operands) - 1) // 2
    copies = [copy_phase(fusion, op.operands[number], number, target) for number in range(count)]
    parts = [copied for copied in copies if copied]
    are_stored = all(value in fusion.inputs for value in op.operands[count + 1 :])
    layout = ScatterLayout.of(op).flat(merged=are_stored)  # computed, they would be divided by lanes
    if num_elements(op.operands[count + 1]):
        part, room = _updates(fusion, op, count, layout, target)
        return Kernel.of(*parts, part, private_bytes=room)
    return Kernel.of(*parts)


def _updates(fusion: Fusion, op: ir.OpView, count: int, layout: ScatterLayout, target: CpuTarget) -> tuple[Part, int]:
    """The updates, and the bytes that each thread needs for itself."""
    f = phase_function(fusion, target, ".update")
    rank = len(layout.operand)
    operand_strides, update_strides = row_major_strides(layout.operand), row_major_strides(layout.updates)
    index_strides = row_major_strides(layout.indices)
    last = rank - 1
    # Lanes run along the last operand dimension where its window is also the last dimension of the updates.
    contiguous = rank > 0 and layout.window_of.get(last) == len(layout.updates) - 1 and layout.window(last) != 1
    bits = max(element(value).storage.bits for value in op.operands[:count])
    # Not vectors of 64 bytes: arrays of NumPy are aligned to 16, so each row of theirs would lie in two cache lines.
    lanes = min(target.lanes(bits), 256 // bits) if contiguous else 1
    counts = [layout.updates[d] for d in layout.update_scatter_dims]
    updates, elements = math.prod(map(size_hint, counts)), size_hint(num_elements(op.operands[count + 1]))
    lines = max(0, elements * bits // 8 // LINE_BYTES - updates)
    work_ns = UPDATE_NS * updates + VECTOR_NS * elements / lanes + LINE_NS * lines
    owners = _Owners.of(layout, bits, work_ns, updates)
    indices_pointer, indices_element = operand(f, fusion, op.operands[count]), element(op.operands[count])
    combine = combiner(f, op)
    whole = WHOLE_WINDOWS in op.attributes
    computed = cache(partial(Elemental, f, fusion, target))  # by lanes; what vectors have in common is computed once

    def index(at: list[Index]) -> Index:
        loaded: Known = types.load(f, indices_element, indices_pointer, offset(f, at, index_strides))
        return as_index(f, indices_element, loaded)

    def one(place: list[Index]) -> None:
        starts = layout.starts(place, index)
        bounds: list[tuple[Index, Index]] = []
        inside: list[Value] = []  # a test instead of a loop's bounds
        for dimension in range(rank):
            low: Index = 0
            high: Index = layout.window(dimension)
            if dimension in layout.index_of and (whole or high == 1):
                places = f.imax(0, f.isub(layout.operand[dimension], f.isub(high, 1)))
                inside.append(f.cmp("ult", f.index(starts[dimension]), f.index(places)))
            elif dimension in layout.index_of:
                low = f.imax(0, f.isub(0, starts[dimension]))
                high = f.imin(high, f.isub(layout.operand[dimension], starts[dimension]))
            bounds.append((low, high))
        update_base = offset(f, place, [update_strides[dimension] for dimension in layout.update_scatter_dims])
        outer = bounds[:-1] if contiguous else bounds

        def row(window: list[Index]) -> None:
            to, source = offset(f, starts, operand_strides), update_base
            at = dict(zip(layout.update_scatter_dims, place, strict=True))  # by dimension of the updates
            for dimension, index in enumerate(window):
                to = f.iadd(to, f.imul(index, operand_strides[dimension]))
                if dimension in layout.window_of:
                    source = f.iadd(source, f.imul(index, update_strides[layout.window_of[dimension]]))
                    at[layout.window_of[dimension]] = index
            # Made once: vectors have in common what is computed from the same terms.
            place_of = {d: affine_of(f.index(index), layout.updates[d] - 1) for d, index in at.items()}
            if contiguous:
                low, high = bounds[last]
                length = layout.window(last)
                vector = partial(vector_at, place_of, to, source)
                if isinstance(length, int) and (low, high) == (0, length):
                    _row_of_vectors(f, length, lanes, vector)
                else:
                    mask = partial(f.tail_mask, lanes=lanes) if lanes > 1 else lambda remaining: None
                    f.loop(low, high, lanes, lambda i: vector(i, lanes, mask(f.isub(high, i))))
            else:
                elements_at(place_of, to, source, 1, None)

        if inside:
            f.if_(reduce(partial(f.binary, "and"), inside), lambda: nest(f, outer, row))
        else:
            nest(f, outer, row)

    def update(value: ir.Value, at: dict[int, Affine], source: Index, lanes: int, mask: Value | None) -> Lanes:
        if value in fusion.inputs:
            return types.load(f, element(value), operand(f, fusion, value), source, lanes, mask)
        indices = [at[dimension] for dimension in range(len(layout.updates))]
        return computed(lanes).at(value, delinearized(layout.updates, indices), mask)

    def vector_at(
        at: dict[int, Affine], to: Index, source: Index, i: Index, lanes: int, mask: Value | None = None
    ) -> None:
        along = lane_index(i, layout.updates[-1], lanes)
        elements_at({**at, len(layout.updates) - 1: along}, f.iadd(to, i), f.iadd(source, i), lanes, mask)

    def elements_at(at: dict[int, Affine], to: Index, source: Index, lanes: int, mask: Value | None) -> None:
        old = [types.load(f, element(op.operands[n]), f.parameters[f"out{n}"], to, lanes, mask) for n in range(count)]
        new = [update(op.operands[count + 1 + n], at, source, lanes, mask) for n in range(count)]
        for n, value in enumerate(combine([*old, *new])):
            if mask is None and lanes > 1 and isinstance(value, Value) and value.type.element in (F32, F64):
                value = f.opaque(value)  # LLVM stores a choice between what was there and other values with a mask
            types.store(f, element(op.operands[n]), value, f.parameters[f"out{n}"], to, mask)

    if owners:
        owners.each_update(f, counts, lambda place: layout.starts(place, index), one)
        return finished(f, OWNERS, work_ns / OWNERS, owners.grain), BLOCK * I64.bits // 8
    _each_update(f, counts, 1 if contiguous else TOGETHER, one)
    return finished(f, 1, work_ns), 0


@dataclass(frozen=True)
class _Owners:
    """Of the places along a dimension; iterations are owners.

    Attributes:
        dimension: indices move windows along it that are one place long.
        piece: binary logarithm of the places that an owner has side by side.
        grain: owners that are worth a thread.
    """

    dimension: int
    piece: int
    grain: int

    @classmethod
    def of(cls, layout: ScatterLayout, bits: int, work_ns: float, updates: int) -> _Owners | None:
        """For so many updates; None: they are no work for two threads."""
        moved = [d for d in layout.index_of if layout.window(d) == 1]
        dimension = max(moved, key=lambda d: size_hint(layout.operand[d]), default=None)
        grain = COSTS.grain(work_ns / OWNERS, max(COSTS.grain_ns, LOOK_SHARE * LOOK_NS * updates))
        if dimension is None or 2 * grain > OWNERS:
            return None
        place_bytes = max(1, size_hint(row_major_strides(layout.operand)[dimension]) * bits // 8)
        return cls(dimension, max(0, math.ceil(math.log2(PIECE_BYTES / place_bytes))), grain)

    def each_update(
        self,
        f: Function,
        counts: list[IntLike],
        starts: Callable[[list[Index]], list[Index]],
        one: Callable[[list[Index]], None],
    ) -> None:
        """`one` for every place of updates whose window, which begins at `starts`, the owners of this range have."""
        total = math.prod(counts)
        places = f.private  # in a block, of the updates that they have
        have_all = f.cmp("eq", f.index(f.isub(f.end, f.begin)), f.const(OWNERS))

        def list_own(first: Index, size: Index) -> list[Value]:
            def look(i: Value, found: Value) -> Value:
                f.store(i, places, found)
                have = self._have(f, starts(unravel(f, f.iadd(first, i), counts)))
                return f.binary("add", found, f.cast("zext", have, I64))

            return f.loop(0, size, 1, look, [f.const(0)])

        def block(first: Index) -> None:
            size = f.imin(BLOCK, f.isub(total, first))

            def own(n: Value) -> None:
                # A branch, not a choice: nothing waits for a list that is not read.
                (number,) = f.if_(have_all, lambda: n, lambda: f.load(I64, places, n))
                one(unravel(f, f.iadd(first, number), counts))

            (found,) = f.if_(have_all, lambda: f.index(size), lambda: list_own(first, size))
            f.loop(0, found, 1, own)

        f.loop(0, total, BLOCK, block)

    def _have(self, f: Function, starts: Sequence[Index]) -> Value:
        """Whether the owners of this range have a window that begins there."""
        owner = f.binary("lshr", f.index(starts[self.dimension]), f.const(self.piece))
        owner = f.binary("and", owner, f.const(OWNERS - 1))
        return f.cmp("ult", f.binary("sub", owner, f.begin), f.index(f.isub(f.end, f.begin)))


def _each_update(f: Function, counts: list[IntLike], together: int, one: Callable[[list[Index]], None]) -> None:
    """`one` for every place of updates; so many in a trip of the loop, where that comes out even."""
    if together == 1 or not counts or not is_known(counts[-1]) or counts[-1] % together:
        nest(f, [(0, count) for count in counts], one)
        return

    def several(place: list[Index]) -> None:
        first = f.imul(place[-1], together)
        for number in range(together):
            one([*place[:-1], f.iadd(first, number)])

    nest(f, [(0, count) for count in (*counts[:-1], counts[-1] // together)], several)


def _row_of_vectors(f: Function, length: int, lanes: int, vector_at: Callable[[Index, int], None]) -> None:
    """A row of known length. Its end has no mask but vectors of fewer lanes: what a masked store wrote is not forwarded
    to loads, and rows that follow each other often have the same place; some processors take long over such stores."""
    whole = length // lanes * lanes
    if length > 8 * lanes:
        f.loop(0, whole, lanes, lambda i: vector_at(i, lanes))
    else:
        for place in range(0, whole, lanes):
            vector_at(place, lanes)
    while whole < length:
        fitting = 1 << (length - whole).bit_length() - 1
        vector_at(whole, fitting)
        whole += fitting
