"""Scatter: updates combined into a copy of the operands (or in place), in index order, so that results never depend on
threads.

Spec: section scatter. For every scatter index the window's in-bounds part is a box (or, where windows count as a whole,
dialect/scatter_windows.py, all of it or nothing); its innermost dimension is
vectorized where it is contiguous in operands and updates, and split over threads where no index moves along it (an
embedding's gradient).
"""

from __future__ import annotations

from functools import partial, reduce

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import nest, offset
from stablehlo_py.backends.common.scatter import ScatterLayout
from stablehlo_py.backends.cpu.kernels.base import Kernel, op_phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import copy_phase, operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import affine_of
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Known, Lanes, element
from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir


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
    lanes = target.lanes(bits) if contiguous else 1
    split = contiguous and last not in layout.index_of
    blocks = -(-layout.window(last) // (4 * lanes)) if split else 1
    indices_pointer, indices_element = operand(f, fusion, op.operands[count]), element(op.operands[count])
    combine = combiner(f, op)
    whole = WHOLE_WINDOWS in op.attributes

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
        if split:
            bounds[last] = (f.imul(f.begin, 4 * lanes), f.imin(f.imul(f.end, 4 * lanes), layout.window(last)))
        outer = bounds[:-1] if contiguous else bounds

        def row(window: list[Index]) -> None:
            to, source = offset(f, starts, operand_strides), update_base
            for dimension, index in enumerate(window):
                to = f.iadd(to, f.imul(index, operand_strides[dimension]))
                if dimension in layout.window_of:
                    source = f.iadd(source, f.imul(index, update_strides[layout.window_of[dimension]]))
            if contiguous:
                low, high = bounds[last]
                f.loop(low, high, lanes, lambda i: element_at(place, f.iadd(to, i), f.iadd(source, i), f.isub(high, i)))
            else:
                element_at(place, to, source, None)

        if inside:
            f.if_(reduce(partial(f.binary, "and"), inside), lambda: nest(f, outer, row))
        else:
            nest(f, outer, row)

    def update(value: ir.Value, place: list[Index], source: Index, lanes: int, mask: Value | None) -> Lanes:
        if value in fusion.inputs:
            return types.load(f, element(value), operand(f, fusion, value), source, lanes, mask)
        # Windows of single elements: an update's indices are its scatter's.
        indices = [affine_of(f.index(at), size - 1) for at, size in zip(place, layout.updates, strict=True)]
        return Elemental(f, fusion, target, lanes).at(value, indices, mask)

    def element_at(place: list[Index], to: Index, source: Index, remaining: Index | None) -> None:
        mask = f.tail_mask(remaining, lanes) if remaining is not None and lanes > 1 else None
        old = [types.load(f, element(op.operands[n]), f.parameters[f"out{n}"], to, lanes, mask) for n in range(count)]
        new = [update(op.operands[count + 1 + n], place, source, lanes, mask) for n in range(count)]
        for n, value in enumerate(combine([*old, *new])):
            types.store(f, element(op.operands[n]), value, f.parameters[f"out{n}"], to, mask)

    nest(f, [(0, layout.updates[d]) for d in layout.update_scatter_dims], one)
    return blocks, 2.0 * size_hint(num_elements(op.operands[count + 1])) / size_hint(blocks) / max(1, lanes // 4)
