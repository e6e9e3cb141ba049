"""Sorts: merges of runs that double in length, stable, as loops over tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.shape import sliced
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction
from stablehlo_py.codegen.arith import compare
from stablehlo_py.codegen.builder import I32, Index, Value
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Lanes, constant, element, select
from stablehlo_py.dialect.types import i64
from stablehlo_py.mlir import ir

Before = Callable[[list[Lanes], list[Lanes]], Value]


@RULES.rule("stablehlo.sort")
def _sort(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    body = combiner(f, op)

    def before(a: list[Lanes], b: list[Lanes]) -> Value:
        (holds,) = body([x for pair in zip(a, b, strict=True) for x in pair])
        return holds  # type: ignore[return-value]

    rank = len(tensors[0].sizes)
    dimension = i64(op, "dimension") if "dimension" in op.attributes else rank - 1
    return sorted_along(f, tensors, dimension % max(1, rank), before)


@RULES.rule("hlo.top_k")
def _top_k(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    (operand,) = tensors
    sizes, last = operand.sizes, len(operand.sizes) - 1
    places = f.by_index(sizes, element("i32"), lambda at: f.cast("trunc", at[last], I32))

    def before(a: list[Lanes], b: list[Lanes]) -> Value:
        return compare(f, "GT", operand.of, a[0], b[0], total_order=operand.of.is_float)

    found, kept = sorted_along(f, [operand, places], last, before), [*sizes[:-1], i64(op, "k")]
    if 0 in kept:
        return [f.empty(kept, each.of) for each in found]
    return [sliced(f, each, [0] * len(sizes), kept, [1] * len(sizes)) for each in found]


def sorted_along(f: TensorFunction, tensors: Sequence[Tensor], dimension: int, before: Before) -> list[Tensor]:
    """Tensors of one shape, sorted together: an element comes first where it is `before` the other one, or, where
    neither is, where it stood first."""
    sizes, count = tensors[0].sizes, len(tensors)
    if 0 in sizes or not sizes or sizes[dimension] < 2:
        return list(tensors)
    length = sizes[dimension]
    rows = [size for d, size in enumerate(sizes) if d != dimension]
    current = [f.flattened(tensor) for tensor in tensors]
    # Zeros: two tensors without content may become one memory.
    scratch = [f.flattened(f.filled(constant(f, tensor.of, 0), sizes, tensor.of)) for tensor in tensors]

    def merge(width: Value, source: list[Tensor], target: list[Tensor]) -> list[Tensor]:
        def row(at: list[Value], written: list[Tensor]) -> list[Tensor]:
            def place(index: Index) -> list[Index]:
                return [*at[:dimension], index, *at[dimension:]]

            def step(k: Index, left: Value, right: Value, *results: Value) -> Sequence[Value]:
                """Element k of the result is the next one of the left run or of the right one."""
                double = f.imul(width, 2)
                begin = f.index(f.imul(f.idiv(k, double), double))
                middle = f.index(f.imin(f.iadd(begin, width), length))
                end = f.index(f.imin(f.iadd(begin, double), length))
                starts = f.cmp("eq", f.index(k), begin)
                left, right = f.select(starts, begin, left), f.select(starts, middle, right)
                a = [f.element(tensor, place(f.imin(left, length - 1))) for tensor in source]
                b = [f.element(tensor, place(f.imin(right, length - 1))) for tensor in source]
                has_right = f.cmp("slt", right, end)
                left_is_over = f.cmp("sge", left, middle)
                takes = f.binary("and", has_right, f.binary("or", left_is_over, before(b, a)))
                chosen = [select(f, takes, y, x) for x, y in zip(a, b, strict=True)]
                made = [
                    f.with_element(value, tensor.like(result), place(k))
                    for value, tensor, result in zip(chosen, written, results, strict=True)
                ]
                one = f.const(1)
                next_left = f.select(takes, left, f.binary("add", left, one))
                next_right = f.select(takes, f.binary("add", right, one), right)
                return [next_left, next_right, *made]

            _, _, *results = f.loop(0, length, 1, step, [f.const(0), f.const(0), *written])
            return [tensor.like(result) for tensor, result in zip(written, results, strict=True)]

        return f.loops(rows, target, row)

    def a_pass(number: Index, *values: Value) -> Sequence[Value]:
        source = [tensor.like(value) for tensor, value in zip(current, values[:count], strict=True)]
        target = [tensor.like(value) for tensor, value in zip(scratch, values[count:], strict=True)]
        merged = merge(f.binary("shl", f.const(1), f.index(number)), source, target)
        return [*merged, *source]

    results = f.loop(0, (length - 1).bit_length(), 1, a_pass, [*current, *scratch])
    return [f.unflattened(tensor.like(result)) for tensor, result in zip(current, results[:count], strict=True)]
