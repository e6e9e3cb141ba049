"""Result shapes of StableHLO ops over sizes. Sections of the StableHLO specification give the formulas.

An op that hlo has too has the rule of its record; the rules here are of ops whose operands, or types, say the shape. A
rule takes a `Scope` (shapes and integer values of what comes before) and the op, and returns the shape of each result.
An op without a rule is elementwise: operands and results have one shape. Dimensions that the result's type knows need
not be right in a rule: the type has the last word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from stablehlo_py.dialect.call_signatures import check_call
from stablehlo_py.dialect.forms import form_of, name_of, size_operands
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.ops.record import Shapes
from stablehlo_py.dialect.stablehlo import optional_i64s
from stablehlo_py.dialect.symint import IntLike, is_known, product
from stablehlo_py.dialect.types import i64, i64s
from stablehlo_py.dialect.verify import Conditions
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules


class Scope(Conditions, ABC):
    """What a rule may ask."""

    @abstractmethod
    def shape(self, value: ir.Value) -> tuple[IntLike, ...]:
        """The shape of a value that is there."""

    @abstractmethod
    def elements(self, value: ir.Value) -> tuple[IntLike, ...]:
        """The elements of an integer tensor. Raises UnsupportedError where they are not known."""

    @abstractmethod
    def unite(self, a: IntLike, b: IntLike, *, unless_one: IntLike | None = None) -> IntLike:
        """Let two sizes be equal; a call where `unless_one` is 1 may differ, and is not for this program then."""


Rule = Callable[[Scope, ir.Operation], Shapes]
RULES: Rules[Rule] = Rules("stablehlo.")


def result_shapes(scope: Scope, op: ir.Operation) -> Shapes:
    """The shapes of an op's results.

    Raises:
        UnsupportedError: they do not follow from sizes.
    """
    name = name_of(op)
    if op.name == "stablehlo.custom_call":
        check_call(op)
    if name in RULES:
        return RULES[name](scope, op)
    if name.startswith("chlo.broadcast_"):
        return _implicit_broadcast(scope, op)
    form = form_of(op, scope.elements)
    record = record_of(f"hlo.{form.name if form else name.partition('.')[2]}") or record_of(name)
    if record is None or record.shapes is None:
        return RULES.get(op.name, _elementwise)(scope, op)
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


@RULES.rule(
    "all_gather", "broadcast", "einsum", "infeed", "recv", "reduce_scatter", "torch_index_select", "unary_einsum"
)
def declared(scope: Scope, op: ir.Operation) -> Shapes:
    """Ops whose static form says the shape: their types must."""
    for result in op.results:
        if not result.type.has_static_shape:
            raise UnsupportedError(f"gives {result.type}, whose shape no rule explains")
    return [tuple(result.type.shape) for result in op.results]


@RULES.rule("constant", "rng", "reshape", "dynamic_reshape", "iota", "dynamic_iota")
def _said(scope: Scope, op: ir.Operation) -> Shapes:
    """The type says the shape, or an operand."""
    numbers = size_operands(op)
    if not numbers:
        return declared(scope, op)
    sizes, rank = scope.elements(op.operands[numbers[0]]), len(op.results[0].type.shape)
    if len(sizes) != rank:
        raise UnsupportedError(f"has {len(sizes)} sizes for a result of rank {rank}")
    if op.name == "stablehlo.dynamic_reshape":
        scope.require_equal(product(scope.shape(op.operands[0])), product(sizes))
    return [sizes]


@RULES.rule("rng_bit_generator", "dynamic_rng_bit_generator")
def _rng_bit_generator(scope: Scope, op: ir.Operation) -> Shapes:
    state, *sizes = op.operands
    return [scope.shape(state), scope.elements(*sizes) if sizes else declared(scope, op)[1]]


@RULES.rule("broadcast_in_dim", "dynamic_broadcast_in_dim")
def _broadcast(scope: Scope, op: ir.Operation) -> Shapes:
    """A mapped dimension has the result's size, unless it is known to be 1."""
    sizes = list(_said(scope, op)[0])
    for extent, dimension in zip(scope.shape(op.operands[0]), i64s(op, "broadcast_dimensions"), strict=True):
        if extent != 1:
            sizes[dimension] = scope.unite(sizes[dimension], extent, unless_one=extent)
    return [sizes]


def _implicit_broadcast(scope: Scope, op: ir.Operation) -> Shapes:
    """Dimensions that meet are equal, or one of them is 1. The first ones of an operand of lower rank are missing, or
    those that `broadcast_dimensions` does not name."""
    rank = len(op.results[0].type.shape)
    sizes: list[IntLike] = [1] * rank
    for shape in map(scope.shape, op.operands):
        named = optional_i64s(op, "broadcast_dimensions", []) if len(shape) < rank else []
        for extent, dimension in zip(shape, named or range(rank - len(shape), rank), strict=True):
            known, sizes[dimension] = sizes[dimension], extent
            if known != 1 and extent == 1:
                sizes[dimension] = known
            elif known not in (1, extent):
                if not is_known(known) and not is_known(extent):
                    raise UnsupportedError(f"broadcasts {known} and {extent}, each of which may be 1")
                dynamic, sizes[dimension] = (extent, known) if is_known(known) else (known, extent)
                sizes[dimension] = scope.unite(sizes[dimension], dynamic, unless_one=dynamic)
    return [sizes]


@RULES.rule("batch_norm_inference", "batch_norm_training", "batch_norm_grad")
def _batch_norm(scope: Scope, op: ir.Operation) -> Shapes:
    """The first result is like the operand, the others hold a number for each feature."""
    operand, scale = map(scope.shape, op.operands[:2])
    scope.unite(operand[i64(op, "feature_index")], scale[0])
    return [operand, *[scale] * (len(op.results) - 1)]


@RULES.rule("all_to_all")
def _all_to_all(scope: Scope, op: ir.Operation) -> Shapes:
    count, shapes = i64(op, "split_count"), [list(scope.shape(operand)) for operand in op.operands]
    for sizes in shapes:
        scope.require_equal(sizes[i64(op, "split_dimension")] % count, 0)
        sizes[i64(op, "split_dimension")] //= count
        sizes[i64(op, "concat_dimension")] *= count
    return shapes


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
