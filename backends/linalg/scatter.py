"""Scatter and select-and-scatter: loops over the updates in row-major order, each of which writes one element of the
result. An update that is outside writes what is there already."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.scatter import ScatterLayout
from stablehlo_py.backends.linalg.reduction import over_window, under
from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction
from stablehlo_py.codegen.builder import I1, Index, Value
from stablehlo_py.codegen.conversions import as_index, convert
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Known, Lanes, element, select
from stablehlo_py.dialect.attributes import WHOLE_WINDOWS
from stablehlo_py.dialect.types import static_shape
from stablehlo_py.dialect.window import windows_of
from stablehlo_py.mlir import ir


@RULES.rule("stablehlo.scatter")
def _scatter(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    count = len(op.results)
    inputs, indices, updates = tensors[:count], tensors[count], tensors[count + 1 :]
    layout, combine, whole = ScatterLayout.of(op), combiner(f, op), WHOLE_WINDOWS in op.attributes
    if 0 in (*inputs[0].sizes, *updates[0].sizes):
        return list(inputs)

    def index(at: list[Index]) -> Index:
        number: Known = f.element(indices, at)
        return as_index(f, indices.of, number)

    def one(at: list[Value], results: list[Tensor]) -> list[Tensor]:
        starts = layout.starts([at[dimension] for dimension in layout.update_scatter_dims], index)
        inside: Value = f.const(True, I1)
        place: list[Index] = []
        for dimension, (start, size) in enumerate(zip(starts, inputs[0].sizes, strict=True)):
            spot = start
            if dimension in layout.window_of:
                spot = f.iadd(start, at[layout.window_of[dimension]])
            if dimension in layout.index_of:
                # Unsigned comparisons: what is negative is large.
                last = size - int(layout.window(dimension)) + 1 if whole else size
                test = start if whole else spot
                inside = f.binary("and", inside, f.cmp("ult", f.index(test), f.const(max(0, last))))
                spot = f.imax(f.imin(spot, size - 1), 0)
            place.append(spot)
        old = [f.element(tensor, place) for tensor in results]
        given = [
            convert(f, update.of, tensor.of, f.element(update, at))
            for update, tensor in zip(updates, inputs, strict=True)
        ]
        new = combine([*old, *given])
        chosen = [select(f, inside, a, b) for a, b in zip(new, old, strict=True)]
        return [f.with_element(value, tensor, place) for value, tensor in zip(chosen, results, strict=True)]

    return f.nest(updates[0].sizes, inputs, one)


@RULES.rule("stablehlo.select_and_scatter")
def _select_and_scatter(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    operand, source, start = tensors
    windows, chooses, combine = windows_of(op), combiner(f, op, 0), combiner(f, op, 1)
    of, rank = element(op.results[0]), len(operand.sizes)
    result = f.filled(convert(f, start.of, of, f.element(start)), static_shape(op.results[0]), of)
    if 0 in (*operand.sizes, *source.sizes):
        return [result]

    def one(at: list[Value], results: list[Tensor]) -> list[Tensor]:
        """Among the elements that are there, the last one that won against those before it."""

        def step(taps: list[Index], carried: list[Lanes]) -> list[Lanes]:
            best, found, *place = carried
            here, inside = under(f, windows, at, taps)
            x: Lanes = f.element(operand, here)
            (keeps,) = chooses([best, x])
            loses = f.binary("xor", keeps, f.const(True, I1))  # type: ignore[arg-type]
            first = f.binary("xor", found, f.const(True, I1))  # type: ignore[arg-type]
            takes = f.binary("and", inside, f.binary("or", first, loses))
            chosen = [select(f, takes, f.index(a), b) for a, b in zip(here, place, strict=True)]
            return [select(f, takes, x, best), f.binary("or", found, inside), *chosen]  # type: ignore[arg-type]

        carries = [f.element(operand, [0] * rank), f.const(False, I1), *[f.const(0)] * rank]
        _, found, *place = over_window(f, windows, carries, step)
        spot: Known = place
        old = f.element(results[0], spot)
        (new,) = combine([old, convert(f, source.of, of, f.element(source, at))])
        return [f.with_element(select(f, found, new, old), results[0], spot)]  # type: ignore[arg-type]

    return f.nest(source.sizes, [result], one)
