"""Give every dynamic dimension its size, as an expression over the dimensions of the arguments.

Before::

    func.func @main(%n: tensor<i64>, %x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x6xf32> {
      ...                                                         // arithmetic on %n gives %shape
      %4 = stablehlo.dynamic_reshape %x, %shape : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<1x?x3xf32>

After::

    func.func @main(%n: tensor<i64>, %x: tensor<?x3xf32, "d1_0, 3">, %y: tensor<?x3xf32, "d1_0, 3">) -> ...
      %4 = stablehlo.dynamic_reshape %x, %shape : ... -> tensor<1x?x3xf32, "1, d1_0, 3">

`d1_0` is dimension 0 of argument 1, `v0_0` element 0 of argument 0, integers (`x0_0` where it is no dimension).
Operands that must have one shape give equations, and so do shape assertions. They are solved for symbols
(`x0_0 = d1_0`, `d2_0 = d1_0`): until none is new, the walk is repeated.

What a call has to check is listed in `hlo.checks` of the module (see `Check`); shape assertions move there. Operands of
dynamic ops whose values are known become `hlo.size`, a constant that holds sizes. Static modules stay as they are.
Relies on `inline`. docs/dynamic-shapes.md has the design.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import CHECKS
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.forms import form_of, name_of, size_operands
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.size import (
    MOST_ELEMENTS,
    SPECIALIZE,
    IntLike,
    Size,
    always_at_most,
    always_less,
    equal,
    is_known,
    less,
    maximum,
    product,
    sides_of,
    symbol,
)
from stablehlo_py.dialect.size_text import sizes_text
from stablehlo_py.dialect.types import DYNAMIC, i64, is_bool
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.dynamic_calls import REDUCE_WINDOW, replace_call, static_op
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.checks import Check, Kind, at_least, attribute_of, bounded, solved
from stablehlo_py.passes.symbolic.custom_calls import last_shape_operands, without_shape_operands
from stablehlo_py.passes.symbolic.equations import Equations, solve
from stablehlo_py.passes.symbolic.shapes import Scope, result_shapes
from stablehlo_py.passes.symbolic.tuples import take_tuples_apart
from stablehlo_py.passes.symbolic.values import Elements, evaluate, followed
from stablehlo_py.passmanager.base import Pass

_ASSERTION = "shape_assertion"


@dataclass(frozen=True)
class Symbolize(Pass):
    """Give every dynamic dimension its size, as an expression over the dimensions of the arguments."""

    name: ClassVar[str] = "symbolize"

    def run(self, module: ir.Module) -> None:
        """Rewrite the types of `@main`.

        Raises:
            UnsupportedError: sizes that depend on data, or that are not known to agree; all are named.
        """
        main = main_function(module).operation
        if not any(_is_dynamic(argument.type) for argument in main.regions[0].blocks[0].arguments):
            return
        take_tuples_apart(main.regions[0].blocks[0])
        equations = Equations()
        assertions: list[Check] | None = None
        while True:
            equations.changed = False
            walk = _Walk(main, equations)
            walk.run()
            if assertions is None:  # in terms of the arguments, before equations hide what they say
                assertions = walk.assertions
            if not equations.changed:
                break
        if walk.problems:
            raise UnsupportedError("one program for all shapes cannot be made", problems=walk.problems)
        checks = [*assertions, *(bounded(*bound) for bound in walk.bounds)]
        checks += [check for equation in equations.solved for check in solved(equation)]
        checks += [*walk.needed, *(at_least(*each) for each in equations.positive), *walk.representable()]
        walk.apply()
        module.operation.attributes[CHECKS] = ir.ArrayAttr.get([attribute_of(check) for check in checks])


def _is_dynamic(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape


def _bounds_of(type_: ir.RankedTensorType) -> list[int | None]:
    """The bounds of a type `tensor<?xf32, #stablehlo.bounds<10>>`, None where there is none."""
    text = str(type_.encoding) if type_.encoding is not None else ""
    if not text.startswith("#stablehlo.bounds<"):
        return [None] * type_.rank
    listed = text.removeprefix("#stablehlo.bounds<").removesuffix(">").split(",")
    return [None if entry.strip() == "?" else int(entry) for entry in listed]


def _check(
    condition: IntLike, message: str, values: tuple[IntLike, ...], op: ir.Operation, kind: Kind = "argument"
) -> Check:
    return Check(condition, kind, message, values, op.name, describe(op.location) or "")


class _Walk(Scope):
    """One interpretation of `@main` over sizes."""

    def __init__(self, main: ir.Operation, equations: Equations) -> None:
        self.main = main
        self.equations = equations
        self.problems: list[Problem] = []
        self.assertions: list[Check] = []  # of the export
        self.needed: list[Check] = []  # by ops
        self.bounds: list[tuple[str, int]] = []
        self._op_now = main
        self._shapes: dict[ir.Value, tuple[IntLike, ...]] = {}
        self._elements: dict[ir.Value, Elements] = {}
        self._asserting: list[ir.Operation] = []
        self._sizes: list[ir.Operation] = []  # with operands, or a result, that hold sizes
        self._shaped: list[ir.Operation] = []  # custom calls with operands that hold the shapes of results

    # --- what rules ask ----------------------------------------------------------------------------------------------

    def shape(self, value: ir.Value) -> tuple[IntLike, ...]:
        """The shape of a value that was seen."""
        return tuple(map(self.equations.reduced, self._shapes[value]))

    def elements(self, value: ir.Value) -> tuple[IntLike, ...]:
        """The elements of an integer tensor. Raises UnsupportedError where they are not known."""
        found = self._elements.get(value)
        if found is None:
            raise UnsupportedError("takes a shape that depends on data", remedy=SPECIALIZE)
        return tuple(map(self.equations.reduced, found))

    def unite(self, a: IntLike, b: IntLike, *, unless_one: IntLike | None = None) -> IntLike:
        """Let two sizes be equal."""
        op = self._op_now
        return self.equations.unite(a, b, unless_one=unless_one, op=op.name, location=describe(op.location))

    def require_at_most(self, a: IntLike, b: IntLike) -> None:
        """Let a size not exceed another, by a check of the call where that is not known."""
        op = self._op_now
        a, b = self.equations.reduced(a), self.equations.reduced(b)
        message = "{1} is given, and must be at least {0}" if is_known(a) else "{0} must not exceed {1}"
        if is_known(a, b) and a > b:
            raise UnsupportedError(f"has {b}, which must be at least {a}", op=op.name)
        if a == 1:
            self.equations.is_positive(b, 1, op.name, describe(op.location))
        if not always_at_most(a, b):
            self.needed.append(_check(1 - less(b, a), message, (a, b), op))

    def require_equal(self, a: IntLike, b: IntLike) -> None:
        """Let two sizes be equal, by a check of the call where that says nothing about a symbol."""
        a, b = self.equations.reduced(a), self.equations.reduced(b)
        if a == b:
            return
        if solve(a - b) is not None:
            self.unite(a, b)
            return
        self.needed.append(_check(equal(a, b), "the sizes {0} and {1} must be equal", (a, b), self._op_now))

    # --- the walk ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Find the shape of every value. Problems are collected."""
        block = self.main.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            type_ = argument.type
            if not isinstance(type_, ir.RankedTensorType):
                continue
            shape: list[IntLike] = list(type_.shape)
            for dimension, (size, bound) in enumerate(zip(type_.shape, _bounds_of(type_), strict=True)):
                if size == DYNAMIC:
                    shape[dimension] = self.equations.reduced(symbol(f"d{number}_{dimension}"))
                    if bound is not None:
                        self.bounds.append((f"d{number}_{dimension}", bound))
            self._shapes[argument] = tuple(shape)
            if followed(type_) and not is_bool(type_.element_type):
                count = math.prod(type_.shape)
                self._elements[argument] = tuple(self.equations.value(number, element) for element in range(count))
        self._block(block)

    def _block(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            outer, self._op_now = self._op_now, op
            try:
                self._op(op)
            except UnsupportedError as error:
                where = describe(op.location)
                self.problems += [
                    Problem(each.reason, each.location or where, each.op or op.name, each.remedy or SPECIALIZE)
                    for each in error.problems
                ]
                for result in op.results:  # what follows is judged by what its own rule says
                    rank = result.type.rank if isinstance(result.type, ir.RankedTensorType) else 0
                    self._shapes[result] = tuple(symbol(f"u{len(self._shapes)}_{i}") for i in range(rank))
            self._op_now = outer

    def _op(self, op: ir.Operation) -> None:
        if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == _ASSERTION:
            self._assertion(op)
            return
        if op.name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
            self._control_flow(op)
            return
        if not len(op.results):
            return
        if not all(isinstance(result.type, ir.RankedTensorType) for result in op.results):
            raise UnsupportedError("its result is no tensor", op=op.name)
        for result, shape in zip(op.results, result_shapes(self, op), strict=True):
            for size in shape:
                self.equations.is_positive(size, 0, op.name, describe(op.location))
            if DYNAMIC in shape:
                raise UnsupportedError(f"has a result of dynamic shape, {result.type}, that no rule explains")
            declared = result.type.shape
            self._shapes[result] = tuple(
                size if known == DYNAMIC else self.unite(size, known) if isinstance(size, Size) else known
                for size, known in zip(shape, declared, strict=True)
            )
        if op.name == "stablehlo.get_dimension_size":
            self._elements[op.results[0]] = (self._shapes[op.operands[0]][i64(op, "dimension")],)
            self._sizes.append(op)
        elif followed(op.results[0].type):
            found = evaluate(op, [self._elements.get(value) for value in op.operands])
            self._elements[op.results[0]] = found
        if size_operands(op):
            self._sizes.append(op)
        if last_shape_operands(op):
            self._shaped.append(op)

    def _assertion(self, op: ir.Operation) -> None:
        found = [self._elements.get(value) for value in op.operands]
        if None in found:
            raise UnsupportedError("asserts something about data", remedy=SPECIALIZE)
        condition, *values = (each[0] for each in found if each is not None)
        self._asserting.append(op)
        self.assertions.append(_check(condition, op.attributes["error_message"].value, tuple(values), op))
        sides = sides_of(condition)
        if sides is not None:
            self.equations.learn(*sides)

    def _control_flow(self, op: ir.Operation) -> None:
        """Carries keep their shapes; branches agree on them."""
        is_loop = op.name == "stablehlo.while"
        yields = [self.shape(value) for value in op.operands] if is_loop else None
        for number, region in enumerate(op.regions):
            block = region.blocks[0]
            if is_loop:
                self._shapes.update(zip(block.arguments, yields or [], strict=True))
            self._block(block)
            if is_loop and number == 0:
                continue  # its result is the predicate
            *_, terminator = block.operations
            found = [self.shape(value) for value in terminator.operands]
            yields = found if yields is None else yields
            for known, other in zip(yields, found, strict=True):
                for a, b in zip(known, other, strict=True):
                    self.unite(a, b)
        self._shapes.update(zip(op.results, yields or [], strict=True))

    def representable(self) -> list[Check]:
        """No dimension of a result is negative, no result has more elements than any memory, and, which this program
        assumes, none is empty. That symbols are positive is checked in any case."""
        found: dict[IntLike, list[Check]] = {}
        for value in self._shapes:
            op = value.owner
            if isinstance(op, ir.Block):  # arguments are there; those of loops come from outside
                continue
            shape = self.shape(value)
            unsure = [size for size in shape if not always_less(0, size)]
            for size in (each for each in unsure if not is_known(each)):
                message = "a dimension of its result is {0}"
                found[size] = [
                    _check(1 - less(size, 0), message, (size,), op),
                    _check(less(0, size), message, (size,), op, "assumption"),
                ]
            count = product(maximum(size, 1) if size in unsure else size for size in shape)
            if not is_known(count):
                message = "its result has {0} elements"
                found[count] = [_check(1 - less(MOST_ELEMENTS, count), message, (count,), op, "memory")]
        return [check for checks in found.values() for check in checks]

    # --- the result --------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Write what was found into the module."""
        for value, shape in self._shapes.items():
            if _is_dynamic(value.type):
                value.set_type(build.tensor(shape, value.type.element_type))
        for op in self._sizes:
            if op.name == "stablehlo.get_dimension_size":
                op.results[0].replace_all_uses_with(self._size(op, op.results[0]))
                op.erase()
                continue
            if name_of(op) == REDUCE_WINDOW:
                form = form_of(op, self.elements)
                assert form is not None
                replace_call(op, static_op(op, form, [result.type for result in op.results]))
                continue
            for number in size_operands(op):
                op.operands[number] = self._size(op, op.operands[number])
        for op in self._shaped:
            without_shape_operands(op)
        for op in self._asserting:
            op.erase()
        block = self.main.regions[0].blocks[0]
        *_, terminator = block.operations
        inputs = [argument.type for argument in block.arguments]
        results = [value.type for value in terminator.operands]
        self.main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))

    def _size(self, op: ir.Operation, value: ir.Value) -> ir.Value:
        """The value as an `hlo.size`, a constant that holds sizes."""
        with op.location, ir.InsertionPoint(op):
            return build.value("size", value.type, value=sizes_text(self.elements(value)))
