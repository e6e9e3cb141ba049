"""Result shapes of StableHLO ops over sizes. Sections of the StableHLO specification give the formulas.

An op that hlo has too has the rule of its record; the rules here are of ops whose operands, or types, say the shape. A
rule takes a `Scope` (shapes and integer values of what comes before) and the op, and returns the shape of each result.
An op without a rule is elementwise: operands and results have one shape. Dimensions that the result's type knows need
not be right in a rule: the type has the last word.
"""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.ops.record import Shape, Shapes
from stablehlo_py.dialect.size import Number, product
from stablehlo_py.dialect.stablehlo import form_of
from stablehlo_py.dialect.types import i64, i64s
from stablehlo_py.dialect.verify import Conditions
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules


class Scope(Conditions):
    """What a rule may ask."""

    def shape(self, value: ir.Value) -> tuple[Number, ...]:
        """The shape of a value that is there."""
        raise NotImplementedError

    def elements(self, value: ir.Value) -> tuple[Number, ...]:
        """The elements of an integer tensor. Raises UnsupportedError where they are not known."""
        raise NotImplementedError

    def unite(self, a: Number, b: Number, *, unless_one: Number | None = None) -> Number:
        """Let two sizes be equal; a call where `unless_one` is 1 may differ, and is not for this program then."""
        raise NotImplementedError


Rule = Callable[[Scope, ir.Operation], Shapes]
RULES: Rules[Rule] = Rules("stablehlo.")


def result_shapes(scope: Scope, op: ir.Operation) -> Shapes:
    """The shapes of an op's results.

    Raises:
        UnsupportedError: they do not follow from sizes.
    """
    if op.name in RULES:
        return RULES[op.name](scope, op)
    form = form_of(op, scope.elements)
    record = record_of(f"hlo.{form.name if form else op.name.partition('.')[2]}") or record_of(op.name)
    if record is None or record.shapes is None:
        return _elementwise(scope, op)
    return record.shapes(scope, form or op, *map(scope.shape, (form or op).operands))


def _elementwise(scope: Scope, op: ir.Operation) -> Shapes:
    if not len(op.results):
        return []
    rank = len(op.results[0].type.shape)
    shapes = [scope.shape(value) for value in op.operands]
    like_result = [shape for shape in shapes if len(shape) == rank]
    # Scalars beside tensors: the predicate of a select, the bounds of a clamp.
    if not like_result or any(len(shape) not in (0, rank) for shape in shapes):
        raise UnsupportedError("the shape of its result does not follow from a rule")
    return [scope.united(like_result)] * len(op.results)


@RULES.rule("constant", "iota", "reshape", "rng")
def declared(scope: Scope, op: ir.Operation) -> Shapes:
    """Ops whose static form says the shape: their types must."""
    return [_static(op, number) for number in range(len(op.results))]


@RULES.rule("rng_bit_generator")
def _rng_bit_generator(scope: Scope, op: ir.Operation) -> Shapes:
    return [scope.shape(op.operands[0]), _static(op, 1)]


def _static(op: ir.Operation, number: int = 0) -> Shape:
    type_ = op.results[number].type
    if not type_.has_static_shape:
        raise UnsupportedError(f"has a result of dynamic shape, {type_}, that no rule explains")
    return tuple(type_.shape)


def _sizes(scope: Scope, op: ir.Operation, operand: int) -> list[Number]:
    """The operand that holds the result's shape."""
    sizes, rank = scope.elements(op.operands[operand]), len(op.results[0].type.shape)
    if len(sizes) != rank:
        raise UnsupportedError(f"has {len(sizes)} sizes for a result of rank {rank}")
    return list(sizes)


@RULES.rule("dynamic_reshape")
def _dynamic_reshape(scope: Scope, op: ir.Operation) -> Shapes:
    sizes = _sizes(scope, op, 1)
    scope.require_equal(product(scope.shape(op.operands[0])), product(sizes))
    return [sizes]


@RULES.rule("dynamic_iota")
def _dynamic_iota(scope: Scope, op: ir.Operation) -> Shapes:
    return [_sizes(scope, op, 0)]


@RULES.rule("broadcast_in_dim", "dynamic_broadcast_in_dim")
def _broadcast(scope: Scope, op: ir.Operation) -> Shapes:
    """A mapped dimension has the result's size, unless it is known to be 1."""
    sizes = _sizes(scope, op, 1) if len(op.operands) > 1 else list(_static(op))
    for extent, dimension in zip(scope.shape(op.operands[0]), i64s(op, "broadcast_dimensions"), strict=True):
        if extent != 1:
            sizes[dimension] = scope.unite(sizes[dimension], extent, unless_one=extent)
    return [sizes]


@RULES.rule("get_dimension_size")
def _scalar(scope: Scope, op: ir.Operation) -> Shapes:
    return [()]


@RULES.rule("set_dimension_size")
def _set_dimension_size(scope: Scope, op: ir.Operation) -> Shapes:
    sizes, dimension = list(scope.shape(op.operands[0])), i64(op, "dimension")
    (size,) = scope.elements(op.operands[1])
    scope.require_within([size], [sizes[dimension]])
    sizes[dimension] = size
    return [sizes]
