"""The walk over `@main` that gives every value its shape: the arguments' sizes are given, the rule of each op says what
follows. A size is an int, or a `SymInt` over symbols; so are the integers that shape computations work on.

Where all sizes of the arguments are ints, all others are, or they depend on data. Integers that depend on data are
symbols then, so that the size of a slice is known whose place is not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.dynamic import is_dynamic
from stablehlo_py.dialect.edit import replace_op, terminator
from stablehlo_py.dialect.forms import size_operands
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.symint import (
    MOST_ELEMENTS,
    SPECIALIZE,
    IntLike,
    SymInt,
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
from stablehlo_py.dialect.symint_text import sizes_text
from stablehlo_py.dialect.types import DYNAMIC, element_type, i64, is_bool, is_tensor
from stablehlo_py.errors import Problem, ResourceError, UnsupportedError, shape_text
from stablehlo_py.legalize.tuples import take_tuples_apart
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.checks import Check, Kind, at_least, bounded, solved
from stablehlo_py.passes.symbolic.custom_calls import last_shape_operands, without_shape_operands
from stablehlo_py.passes.symbolic.equations import Equations, solve
from stablehlo_py.passes.symbolic.shapes import Scope, result_shapes
from stablehlo_py.passes.symbolic.static_calls import static_op
from stablehlo_py.passes.symbolic.values import Elements, evaluate, followed

_ASSERTION = "shape_assertion"


def walked(main: ir.Operation, shapes: Sequence[Sequence[int]] | None = None) -> Walk:
    """The walk over a function, repeated until no equation is new. `shapes` are those of the arguments; without them
    the dynamic dimensions of the arguments, and elements of small integer arguments, are symbols."""
    take_tuples_apart(main.regions[0].blocks[0])
    equations = Equations()
    assertions: list[Check] | None = None
    while True:
        equations.changed = False
        walk = Walk(main, equations, shapes)
        walk.run()
        if assertions is None:  # in terms of the arguments, before equations hide what they say
            assertions = walk.assertions
        walk.assertions = assertions
        if not equations.changed or shapes is not None:
            return walk


class _Contradiction(Exception):
    """Sizes that no call can have: the check that says so is noted, and the rule of the op goes no further."""


class Walk(Scope):
    """One interpretation of `@main` over sizes."""

    def __init__(self, main: ir.Operation, equations: Equations, given: Sequence[Sequence[int]] | None) -> None:
        self.main = main
        self.equations = equations
        self.problems: list[Problem] = []
        self.assertions: list[Check] = []  # of the export
        self._needed: list[Check] = []  # by ops
        self._given = given
        self._remedy = SPECIALIZE if given is None else "shapes must follow from those of the arguments, not from data"
        self._numbers = itertools.count()  # of what depends on data
        self._op_now = main
        self._shapes: dict[ir.Value, tuple[IntLike, ...]] = {}
        self._elements: dict[ir.Value, Elements] = {}
        self._asserting: list[ir.Operation] = []
        self._sizes: list[ir.Operation] = []  # with operands, or a result, that hold sizes
        self._shaped: list[ir.Operation] = []  # custom calls with operands that hold the shapes of results

    # --- what rules ask ----------------------------------------------------------------------------------------------

    def shape(self, value: ir.Value) -> tuple[IntLike, ...]:
        """The shape of a value that was seen; () of what is no tensor."""
        return tuple(map(self.equations.reduced, self._shapes[value]))

    def elements(self, value: ir.Value) -> tuple[IntLike, ...]:
        """The elements of an integer tensor. Raises UnsupportedError where they are not known."""
        found = self._elements.get(value)
        if found is None:
            raise UnsupportedError("takes a shape that depends on data")
        return tuple(map(self.equations.reduced, found))

    def unite(self, a: IntLike, b: IntLike, *, unless_one: IntLike | None = None) -> IntLike:
        """Let two sizes be equal."""
        a, b = self.equations.reduced(a), self.equations.reduced(b)
        if is_known(a, b) or self._given is not None:  # nothing is learned of data
            if is_known(a, b) and a != b:
                self._need(0, "the sizes {0} and {1} must be equal", (a, b))
            return a if is_known(a) else b
        op = self._op_now
        return self.equations.unite(a, b, unless_one=unless_one, op=op.name, location=describe(op.location))

    def require_at_most(self, a: IntLike, b: IntLike) -> None:
        """Let a size not exceed another, by a check of the call where that is not known."""
        a, b = self.equations.reduced(a), self.equations.reduced(b)
        message = "{1} is given, and must be at least {0}" if is_known(a) else "{0} must not exceed {1}"
        if a == 1:
            self._is_positive(b, 1)
        if is_known(a, b) and a > b:
            self._refuse(message, (a, b))
        if not always_at_most(a, b):
            self._need(1 - less(b, a), message, (a, b))

    def require_equal(self, a: IntLike, b: IntLike) -> None:
        """Let two sizes be equal, by a check of the call where that says nothing about a symbol."""
        a, b = self.equations.reduced(a), self.equations.reduced(b)
        if a == b:
            return
        if is_known(a, b) or solve(a - b) is not None:
            self.unite(a, b)
            return
        self._need(equal(a, b), "the sizes {0} and {1} must be equal", (a, b))

    def _need(self, condition: IntLike, message: str, values: tuple[IntLike, ...]) -> None:
        self._needed.append(_check(condition, message, values, self._op_now))

    def _refuse(self, message: str, values: tuple[IntLike, ...]) -> NoReturn:
        self._need(0, message, values)
        raise _Contradiction

    def _is_positive(self, size: IntLike, least: int) -> None:
        if self._given is None:
            self.equations.is_positive(size, least, self._op_now.name, describe(self._op_now.location))

    # --- the walk ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Find the shape of every value. Problems are collected. Types of known shape are set at once."""
        block = self.main.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            type_ = argument.type
            sizes: list[IntLike] = list(type_.shape) if is_tensor(type_) else []
            for dimension, bound in enumerate(_bounds_of(type_) if is_dynamic(type_) else []):
                if sizes[dimension] == DYNAMIC:
                    name = f"d{number}_{dimension}"
                    size = symbol(name) if self._given is None else self._given[number][dimension]
                    sizes[dimension] = self.equations.reduced(size)
                    self.assertions += [bounded(name, size, bound)] if bound is not None else []
            self._settle(argument, sizes)
            if self._given is None and followed(type_) and not is_bool(element_type(argument)):
                count = math.prod(type_.shape)
                self._elements[argument] = tuple(self.equations.value(number, element) for element in range(count))
            else:
                self._elements[argument] = self._data(argument)
        self._block(block)

    def _settle(self, value: ir.Value, sizes: Sequence[IntLike]) -> None:
        """Note the shape of a value, and let its type say it where it is known."""
        self._shapes[value] = tuple(sizes)
        if is_dynamic(value.type) and is_known(*sizes):
            if any(size > MOST_ELEMENTS for size in sizes):  # the type might not hold it
                problem = f"a tensor of shape {shape_text(sizes)} has more elements than any memory holds"
                raise ResourceError(problem, location=describe(self._op_now.location), op=self._op_now.name)
            value.set_type(build.tensor(sizes, value.type.element_type))

    def _data(self, value: ir.Value) -> Elements:
        """The elements of a tensor that do not follow from sizes."""
        if self._given is None or not followed(value.type):
            return None
        return tuple(symbol(f"x{next(self._numbers)}_0") for _ in range(math.prod(value.type.shape)))

    def _block(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            outer, self._op_now = self._op_now, op
            try:
                self._op(op)
            except (UnsupportedError, _Contradiction) as error:
                where = describe(op.location)
                self.problems += [
                    Problem(each.reason, each.location or where, each.op or op.name, each.remedy or self._remedy)
                    for each in getattr(error, "problems", ())
                ]
                for result in op.results:  # what follows is judged by what its own rule says
                    rank = result.type.rank if is_tensor(result) else 0
                    self._shapes[result] = tuple(symbol(f"u{next(self._numbers)}_0") for _ in range(rank))
            self._op_now = outer

    def _op(self, op: ir.Operation) -> None:
        if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == _ASSERTION:
            self._assertion(op)
        elif op.name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
            self._control_flow(op)
        elif len(op.results):
            holds_sizes = size_operands(op)
            if not holds_sizes and all(_is_settled(value.type) for value in (*op.operands, *op.results)):
                for result in op.results:
                    self._shapes[result] = tuple(result.type.shape) if is_tensor(result) else ()
            else:
                self._dynamic(op)
            if op.name == "stablehlo.get_dimension_size":
                self._elements[op.results[0]] = (self._shapes[op.operands[0]][i64(op, "dimension")],)
                self._sizes.append(op)
            elif followed(op.results[0].type):
                found = evaluate(op, [self._elements.get(value) for value in op.operands])
                self._elements |= {result: self._data(result) if found is None else found for result in op.results}
            if holds_sizes:
                self._sizes.append(op)
            if last_shape_operands(op):
                self._shaped.append(op)

    def _dynamic(self, op: ir.Operation) -> None:
        """An op whose types do not say everything: its rule does."""
        if not all(map(is_tensor, op.results)):
            raise UnsupportedError("its result is no tensor")
        known_operands = is_known(*itertools.chain(*map(self.shape, op.operands)))
        for result, found in zip(op.results, result_shapes(self, op), strict=True):
            if DYNAMIC in found:
                raise UnsupportedError(f"gives {result.type}, whose shape no rule explains")
            for size in found:
                if is_known(size) and size < 0:
                    self._refuse("a dimension of its result is {0}", (size,))
                self._is_positive(size, 0)
            sizes = [
                size if declared == DYNAMIC else self.unite(size, declared) if isinstance(size, SymInt) else declared
                for size, declared in zip(found, result.type.shape, strict=True)
            ]
            if self._given is not None and known_operands and not is_known(*sizes):
                raise UnsupportedError(f"gives {result.type}, whose shape depends on data")
            self._settle(result, sizes)

    def _assertion(self, op: ir.Operation) -> None:
        found = [self._elements.get(value) for value in op.operands]
        condition, *values = (each[0] for each in found if each is not None)
        if None in found or not (self._given is None or is_known(condition)):
            raise UnsupportedError("asserts something about data")
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
                self._carried(block.arguments, yields or [])
            self._block(block)
            if is_loop and number == 0:
                continue  # its result is the predicate
            found = [self.shape(value) for value in terminator(block).operands]
            yields = found if yields is None else yields
            for known, other in zip(yields, found, strict=True):
                for a, b in zip(known, other, strict=True):
                    self.unite(a, b)
        self._carried(op.results, yields or [])

    def _carried(self, values: Sequence[ir.Value], shapes: Sequence[Sequence[IntLike]]) -> None:
        for value, sizes in zip(values, shapes, strict=True):
            self._settle(value, sizes)
            self._elements[value] = self._data(value)

    # --- the result --------------------------------------------------------------------------------------------------

    def checks(self) -> list[Check]:
        """What has to hold: of the arguments where their sizes are symbols."""
        found = [*self.assertions, *(check for equation in self.equations.solved for check in solved(equation))]
        return found + self._needed + [at_least(*each) for each in self.equations.positive] + self._representable()

    def failed(self) -> list[Problem]:
        """The checks that no call can pass."""
        return [check.problem() for check in self.checks() if check.condition == 0]

    def _representable(self) -> list[Check]:
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

    def apply(self) -> None:
        """Write what was found into the module."""
        for value in self._shapes:
            if is_dynamic(value.type):
                value.set_type(build.tensor(self.shape(value), value.type.element_type))
        for op in self._sizes:
            static = static_op(op, self.elements, symbolic=self._given is None)
            if static is not None:
                replace_op(op, static.results)
            elif op.name == "stablehlo.get_dimension_size":
                replace_op(op, [self._written(op, op.results[0])])
            else:
                for number in size_operands(op):
                    op.operands[number] = self._written(op, op.operands[number])
        for op in self._shaped:
            without_shape_operands(op)
        for op in self._asserting:
            op.erase()
        block = self.main.regions[0].blocks[0]
        inputs = [argument.type for argument in block.arguments]
        results = [value.type for value in terminator(block).operands]
        self.main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))

    def _written(self, op: ir.Operation, value: ir.Value) -> ir.Value:
        """A constant of the elements of a value, before `op`; `hlo.const_size` where these are SymInts. Data stays."""
        elements, element = self.elements(value), element_type(value)
        with op.location, ir.InsertionPoint(op):
            if is_known(*elements):
                array = np.array(elements, np.int64).astype(numpy_dtype(element)).reshape(value.type.shape)
                value = build.stablehlo.constant(array, element)
            elif self._given is None:
                value = build.value("const_size", value.type, value=sizes_text(elements))
        self._elements[value] = elements  # other ops may ask for it
        return value


def _is_settled(type_: ir.Type) -> bool:
    """Whether a type, a tuple or another that is no tensor too, has no dynamic dimension."""
    return type_.has_static_shape if isinstance(type_, ir.RankedTensorType) else "?" not in str(type_)


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
