"""Scatter: updates combined into a copy of the operands (or in place), in index order, so that results never depend on
threads.

Spec: section scatter. For every scatter index the window's in-bounds part is a box (or, where windows count as a whole,
dialect/scatter_windows.py, all of it or nothing); its innermost dimension is
vectorized where it is contiguous in operands and updates, and split over threads where no index moves along it (an
embedding's gradient).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial, reduce

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import nest, offset
from stablehlo_py.backends.common.scatter import ScatterLayout
from stablehlo_py.backends.cpu.kernels.base import Kernel, op_phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import copy_phase, operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import F32, F64, Function, Index, Value
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import affine_of, lane_index
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


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One copy phase per operand that is not updated in place, then the updates."""
    op = fusion.op("stablehlo.scatter")
    count = (len(op.operands) - 1) // 2
    copies = [copy_phase(fusion, op.operands[number], number, target) for number in range(count)]
    parts = [copied for copied in copies if copied]
    layout = ScatterLayout.of(op)
    if num_elements(op.operands[count + 1]):
        f = phase_function(fusion, target, ".update")
        parts.append(op_phase(f, *_emit_updates(f, fusion, op, count, layout, target)))
    return Kernel.of(*parts)


def _emit_updates(
    f: Function, fusion: Fusion, op: ir.OpView, count: int, layout: ScatterLayout, target: CpuTarget
) -> tuple[IntLike, float]:
    rank = len(layout.operand)
    operand_strides, update_strides = row_major_strides(layout.operand), row_major_strides(layout.updates)
    index_strides = row_major_strides(layout.indices)
    last = rank - 1
    # Lanes run along the last operand dimension where its window is also the last dimension of the updates.
    contiguous = rank > 0 and layout.window_of.get(last) == len(layout.updates) - 1 and layout.window(last) != 1
    bits = max(element(value).storage.bits for value in op.operands[:count])
    # Not vectors of 64 bytes: arrays of NumPy are aligned to 16, so each row of theirs would lie in two cache lines.
    lanes = min(target.lanes(bits), 256 // bits) if contiguous else 1
    split, share = contiguous and last not in layout.index_of, 8 * target.lanes(bits)
    blocks = -(-layout.window(last) // share) if split else 1
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
        if blocks != 1:
            bounds[last] = (f.imul(f.begin, share), f.imin(f.imul(f.end, share), layout.window(last)))
        outer = bounds[:-1] if contiguous else bounds

        def row(window: list[Index]) -> None:
            to, source = offset(f, starts, operand_strides), update_base
            at = dict(zip(layout.update_scatter_dims, place, strict=True))  # by dimension of the updates
            for dimension, index in enumerate(window):
                to = f.iadd(to, f.imul(index, operand_strides[dimension]))
                if dimension in layout.window_of:
                    source = f.iadd(source, f.imul(index, update_strides[layout.window_of[dimension]]))
                    at[layout.window_of[dimension]] = index
            if contiguous:
                low, high = bounds[last]
                length = layout.window(last)
                vector = partial(vector_at, at, to, source)
                if isinstance(length, int) and (split or (low, high) == (0, length)):
                    _row_of_vectors(f, length, 0 if blocks == 1 else share, lanes, vector)
                else:
                    mask = partial(f.tail_mask, lanes=lanes) if lanes > 1 else lambda remaining: None
                    f.loop(low, high, lanes, lambda i: vector(i, lanes, mask(f.isub(high, i))))
            else:
                elements_at(at, to, source, 1, None)

        if inside:
            f.if_(reduce(partial(f.binary, "and"), inside), lambda: nest(f, outer, row))
        else:
            nest(f, outer, row)

    def update(value: ir.Value, at: dict[int, Index], source: Index, lanes: int, mask: Value | None) -> Lanes:
        if value in fusion.inputs:
            return types.load(f, element(value), operand(f, fusion, value), source, lanes, mask)
        indices = [affine_of(f.index(at[dimension]), size - 1) for dimension, size in enumerate(layout.updates)]
        if contiguous:
            indices[-1] = lane_index(at[len(indices) - 1], layout.updates[-1], lanes)
        return computed(lanes).at(value, indices, mask)

    def vector_at(at: dict[int, Index], to: Index, source: Index, i: Index, lanes: int, mask: Value | None) -> None:
        elements_at({**at, len(layout.updates) - 1: i}, f.iadd(to, i), f.iadd(source, i), lanes, mask)

    def elements_at(at: dict[int, Index], to: Index, source: Index, lanes: int, mask: Value | None) -> None:
        old = [types.load(f, element(op.operands[n]), f.parameters[f"out{n}"], to, lanes, mask) for n in range(count)]
        new = [update(op.operands[count + 1 + n], at, source, lanes, mask) for n in range(count)]
        for n, value in enumerate(combine([*old, *new])):
            if mask is None and lanes > 1 and isinstance(value, Value) and value.type.element in (F32, F64):
                value = f.opaque(value)  # LLVM stores a choice between what was there and other values with a mask
            types.store(f, element(op.operands[n]), value, f.parameters[f"out{n}"], to, mask)

    counts = [layout.updates[d] for d in layout.update_scatter_dims]
    _each_update(f, counts, 1 if contiguous else TOGETHER, one)
    updates = math.prod(map(size_hint, counts))
    elements = size_hint(num_elements(op.operands[count + 1]))
    lines = max(0, elements * bits // 8 // LINE_BYTES - updates)
    return blocks, UPDATE_NS * updates + (VECTOR_NS * elements / lanes + LINE_NS * lines) / size_hint(blocks)


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


def _row_of_vectors(
    f: Function, length: int, share: int, lanes: int, vector_at: Callable[[Index, int, Value | None], None]
) -> None:
    """A row of known length, or those of its shares that an iteration is, of whole vectors but for its end. Masks only
    where no vector fits: what a masked store wrote is not forwarded to loads, and rows that follow each other often
    have the same place."""
    whole, rest = length // lanes * lanes, length % lanes

    def tail() -> None:
        exact = rest & (rest - 1) == 0
        vector_at(whole, rest if exact else lanes, None if exact else f.tail_mask(rest, lanes))

    def vectors(low: Index, count: int) -> None:
        for number in range(count):
            vector_at(f.iadd(low, number * lanes), lanes, None)

    def end_of_row(low: int) -> None:
        vectors(low, (whole - low) // lanes)
        if rest:
            tail()

    def shares_of_row() -> None:
        shares = length // share
        f.loop(f.begin, f.imin(f.end, shares), 1, lambda number: vectors(f.imul(number, share), share // lanes))
        if shares * share < length:
            f.if_(f.cmp("sgt", f.index(f.end), f.index(shares)), lambda: end_of_row(shares * share))

    def whole_row() -> None:
        if length > 8 * lanes:
            f.loop(0, whole, lanes, lambda i: vector_at(i, lanes, None))
        end_of_row(whole if length > 8 * lanes else 0)

    if not share:
        whole_row()
    else:
        all_of_it = f.cmp("eq", f.index(f.isub(f.end, f.begin)), f.index(-(-length // share)))
        f.if_(all_of_it, whole_row, shares_of_row)
