"""Reductions: a linalg.generic with reduction loops; of windows, one whose body has loops over a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.loops import fold
from stablehlo_py.backends.linalg.contraction import narrowed
from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction, accumulator, identity
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I1, Function, Index, Value
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.region import Combiner, combiner
from stablehlo_py.codegen.types import Element, Lanes, select
from stablehlo_py.dialect.types import i64s, static_shape, text
from stablehlo_py.dialect.window import Window, windows_of
from stablehlo_py.mlir import ir


@RULES.rule("hlo.reduce", "stablehlo.reduce")
def _reduce(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    count = len(tensors) // 2
    operands, starts, reduced = tensors[:count], tensors[count:], i64s(op, "dimensions")
    sizes = static_shape(op.results[0])
    kept = [d for d in range(len(operands[0].sizes)) if d not in reduced]
    numbers = {d: n for n, d in enumerate((*kept, *reduced))}
    from_ = ", ".join(f"d{numbers[d]}" for d in range(len(numbers)))
    combine, wide = _combiner(f, op, [operand.of for operand in operands])
    outs = []
    for start, of in zip(starts, wide, strict=True):
        outs.append((f.filled(convert(f, start.of, of, f.element(start)), sizes, of), identity(len(sizes))))

    def body(*lanes: Lanes) -> list[Lanes]:
        given = [convert(f, each.of, of, x) for each, of, x in zip(operands, wide, lanes, strict=False)]
        return combine([*lanes[count:], *given])

    loops = "p" * len(kept) + "r" * len(reduced)
    results = f.generic([(operand, from_) for operand in operands], outs, loops, body, reads_outputs=True)
    return [narrowed(f, each, operand.of) for each, operand in zip(results, operands, strict=True)]


def _combiner(f: TensorFunction, op: ir.OpView, of: Sequence[Element]) -> tuple[Combiner, list[Element]]:
    """What a reduction combines by, and the element types in which it does."""
    if op.operation.name.startswith("stablehlo."):
        return combiner(f, op), list(of)
    kind, wide = text(op, "kind"), accumulator(of[0])
    return lambda lanes: [arith.combine(f, kind, wide, *lanes)], [wide]


@RULES.rule("hlo.reduce_window", "stablehlo.reduce_window")
def _reduce_window(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    count = len(tensors) // 2
    operands, starts, windows = tensors[:count], tensors[count:], windows_of(op)
    combine, wide = _combiner(f, op, [operand.of for operand in operands])
    initial = [convert(f, start.of, of, f.element(start)) for start, of in zip(starts, wide, strict=True)]
    sizes = static_shape(op.results[0])

    def body() -> list[Lanes]:
        at = f.indices(len(sizes))

        def step(taps: list[Index], so_far: list[Lanes]) -> list[Lanes]:
            place, inside = under(f, windows, at, taps)
            found = []
            for operand, of, start in zip(operands, wide, initial, strict=True):
                x = convert(f, operand.of, of, f.element(operand, place))
                found.append(select(f, inside, x, start))
            return combine([*so_far, *found])

        return over_window(f, windows, initial, step)

    if 0 in operands[0].sizes:  # every window is padding
        return [f.filled(f.element(start), sizes, start.of) for start in starts]
    same = identity(len(sizes))
    outs = [(f.empty(sizes, of), same) for of in wide]
    results = f.generic([], outs, "p" * len(sizes), body)
    return [narrowed(f, each, operand.of) for each, operand in zip(results, operands, strict=True)]


def under(
    f: Function, windows: Sequence[Window], at: Sequence[Index], taps: Sequence[Index]
) -> tuple[list[Index], Value]:
    """Which element of the operand is under a place of a window, the nearest one where there is none; and whether there
    is one."""
    inside: Value = f.const(True, I1)
    place: list[Index] = []
    for window, index, tap in zip(windows, at, taps, strict=True):
        moved = f.isub(f.iadd(f.imul(index, window.stride), f.imul(tap, window.dilation)), window.low)
        here = f.index(moved)
        is_there = f.cmp("sge", here, f.const(0))
        if window.base_dilation != 1:
            dilation = f.const(window.base_dilation)
            on_grid = f.cmp("eq", f.binary("srem", here, dilation), f.const(0))
            is_there = f.binary("and", is_there, on_grid)
            here = f.binary("sdiv", here, dilation)
        is_there = f.binary("and", is_there, f.cmp("slt", here, f.const(window.size)))
        inside = f.binary("and", inside, is_there)
        place.append(f.imax(f.imin(here, window.size - 1), 0))
    return place, inside


Step = Callable[[list[Index], list[Lanes]], list[Lanes]]


def over_window(
    f: Function, windows: Sequence[Window], carries: Sequence[Lanes], step: Step, taps: Sequence[Index] = ()
) -> list[Lanes]:
    """Loops over the places of a window in row-major order, with carries."""
    if len(taps) == len(windows):
        return step(list(taps), list(carries))

    def inner(tap: Index, carried: list[Lanes]) -> list[Lanes]:
        return over_window(f, windows, carried, step, [*taps, tap])

    return fold(f, 0, windows[len(taps)].width, 1, list(carries), inner)
