"""Products with a constant of hardly anything but zeros gather the numbers that they multiply by others.

    %0 = hlo.dot %w, %x {contract [0] x [1]}          (a column of %w has one or two numbers that are not zero)
        ==>  %0 = select %left_out, nan, hlo.gather(%x, %first) * %w0 + hlo.gather(%x, %second) * %w1

So resized images arrive, of which each point is a sum of two or four, and their gradients. Zero times infinity is not
a number, so where %x holds a number that is not finite, sums that would multiply it by zero are none either: those in
whose column of %x there are more such numbers than among those that they gather (%left_out).

The constant may be computed: as `fold` leaves it, from vectors of places that are constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.evaluate import can_evaluate, evaluate_op
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, is_float, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.canonicalize_dot import DotNumbers
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet, defining

PRODUCTS = RuleSet("gather-sparse-products")
_MOST_TERMS = 8  # of a sum
# Numbers of a sum for one that is not zero, at least: vectors gather for less where neighbours lie side by side.
_LEAST_SHARE, _LEAST_SHARE_OF_ROWS, _LONG_ROW = 32, 8, 16
_MOST_ELEMENTS = 1 << 22  # of a constant that is computed
_MOST_OPS = 32  # that compute it


@dataclass(frozen=True)
class GatherSparseProducts(RulePass):
    """Reads what products with sparse constants do not multiply by zero."""

    name: ClassVar[str] = "gather-sparse-products"
    sweeps: ClassVar[bool] = False
    table: ClassVar[RuleSet] = PRODUCTS


@PRODUCTS.rule("hlo.dot", where="floats; w is a constant matrix of which few numbers are not zero")
def sparse_product(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "dot(w, x) -> gather(x) * w0 + gather(x) * w1 ..."
    constant = [side for side, value in enumerate(op.operands) if _is_constant(value)]
    if not constant or not all(is_float(element_type(value)) and is_known(*shape(value)) for value in op.operands):
        return None
    numbers = DotNumbers.of(op)
    if numbers.lhs_batch or len(numbers.lhs_contract) != 1:
        return None
    for side in constant:
        (along,), (dimension,) = numbers.side(side)[1], numbers.side(1 - side)[1]
        terms = _Terms.of(op.operands[side], along, _least_share(op.operands[1 - side], dimension))
        if terms is not None:
            sums = _sums(rewriter, op.operands[1 - side], dimension, terms, element_type(op.result))
            others = [d for d in range(len(shape(sums))) if d != dimension]
            return rewriter.transpose(sums, [*others, dimension] if side else [dimension, *others])
    return None


def _least_share(x: ir.Value, dimension: int) -> int:
    row = math.prod(shape(x)[dimension + 1 :])
    return _LEAST_SHARE_OF_ROWS if row >= _LONG_ROW else _LEAST_SHARE


@dataclass(frozen=True)
class _Terms:
    """The terms of the sums for each column of a matrix: places, numbers, and whether there is that term; [term,
    column]. `element`: the type of the numbers."""

    places: np.ndarray
    numbers: np.ndarray
    exists: np.ndarray
    element: ir.Type

    @staticmethod
    def of(value: ir.Value, along: int, share: int) -> _Terms | None:
        """Of a constant matrix, summed along one dimension. None: it is none, or has too few zeros."""
        if shape(value)[along] < share:
            return None
        matrix = _computed(value, {})
        matrix = matrix if along == 0 else matrix.T
        most = min(_MOST_TERMS, matrix.shape[0] // share)
        if not matrix.size or np.count_nonzero(matrix[:, 0]) > most:
            return None
        counts = np.count_nonzero(matrix, axis=0)
        if counts.max() > most or not np.isfinite(matrix.astype(np.float64)).all():
            return None
        order = np.argsort(matrix == 0, axis=0, kind="stable")[: max(1, counts.max())]
        exists = np.arange(len(order))[:, None] < counts
        return _Terms(order.astype(np.int32), np.take_along_axis(matrix, order, 0), exists, element_type(value))


def _is_constant(value: ir.Value) -> bool:
    """Whether it is a matrix that nothing but constants decides, and little computes."""
    if value.type.rank != 2:
        return False
    pending, seen = [value], {value}
    while pending:
        op = defining(pending.pop())
        if op is None or (name := op.name) == "hlo.dot" or not (name == "hlo.constant" or can_evaluate(name)):
            return False
        if len(seen) > _MOST_OPS or len(op.regions):
            return False
        pending += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)
    return all(num_elements(each) <= _MOST_ELEMENTS for each in seen)


def _computed(value: ir.Value, known: dict[ir.Value, np.ndarray]) -> np.ndarray:
    if value not in known:
        op = defining(value)
        assert op is not None
        operands = [_computed(operand, known) for operand in op.operands]
        known[value] = constant_value(op) if op.name == "hlo.constant" else evaluate_op(op, operands)[0]
    return known[value]


def _sums(rewriter: Rewriter, x: ir.Value, dimension: int, terms: _Terms, element: ir.Type) -> ir.Value:
    """The sums instead of the places along a dimension of x."""
    doubles = [of for of in (element, element_type(x), terms.element) if isinstance(of, ir.F64Type)]
    wide = doubles[0] if doubles else ir.F32Type.get()
    count = ir.IntegerType.get_signless(32)
    products: list[ir.Value] = []
    gathered: list[ir.Value] = []  # whether a number is not finite
    for places, numbers, exists in zip(terms.places, terms.numbers, terms.exists, strict=True):
        part = _gather(rewriter, x, dimension, places)
        sizes = shape(part)
        factors = rewriter.convert(rewriter.constant(numbers, terms.element), wide)
        product = rewriter.like(
            "multiply", rewriter.convert(part, wide), rewriter.broadcast(factors, sizes, [dimension])
        )
        wrong = _is_wrong(rewriter, part)
        if not exists.all():
            truth = rewriter.constant(exists, ir.IntegerType.get_signless(1))
            there = rewriter.broadcast(truth, sizes, [dimension])
            product = rewriter.value("select", product.type, there, product, rewriter.splat(0, product.type))
            wrong = rewriter.like("and", there, wrong)
        products.append(product)
        gathered.append(rewriter.convert(wrong, count))

    def total(values: list[ir.Value]) -> ir.Value:
        return reduce(lambda a, b: rewriter.like("add", a, b), values)

    result = rewriter.convert(total(products), element)
    zero = rewriter.constant(np.int32(0), count)
    all_wrong = rewriter.convert(_is_wrong(rewriter, x), count)
    every = rewriter.made("reduce", all_wrong, zero, kind="add", dimensions=[dimension])
    others = [d for d in range(len(shape(result))) if d != dimension]
    left_out = rewriter.compare(rewriter.broadcast(every, shape(result), others), total(gathered), "GT")
    return rewriter.value("select", result.type, left_out, rewriter.splat(float("nan"), result.type), result)


def _is_wrong(rewriter: Rewriter, x: ir.Value) -> ir.Value:
    truth = tensor(shape(x), ir.IntegerType.get_signless(1))
    return rewriter.like("not", rewriter.value("is_finite", truth, x))


def _gather(rewriter: Rewriter, x: ir.Value, dimension: int, places: np.ndarray) -> ir.Value:
    """The elements of x at places of a dimension."""
    sizes = shape(x)
    return rewriter.made(
        "gather",
        x,
        rewriter.constant(places[:, None], ir.IntegerType.get_signless(32)),
        offset_dims=[d for d in range(len(sizes)) if d != dimension],
        collapsed_slice_dims=[dimension],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=[dimension],
        index_vector_dim=1,
        slice_sizes=[1 if d == dimension else size for d, size in enumerate(sizes)],
    )
