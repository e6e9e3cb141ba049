"""What the elementwise ops behind a product compute, where it is an epilogue that libraries have.

    result = activation(alpha * product + beta * addend + bias)

Ops are read as polynomials, so it does not matter how a model writes them, nor in which order passes have brought them.
Conversions between floats are left out: a library computes the whole epilogue in the type of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.views import view_of
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.index_map import merge_digits
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir

# A product of unknowns, by number, in order; sums of such with factors. Inputs of the fusion have their own numbers.
Monomial = tuple[int, ...]
Polynomial = Mapping[Monomial, float]
_PRODUCT, _X, _TANH = -1, -2, -3
_DEGREE = 4
_ROUNDED = frozenset(("f32", "bf16", "f16"))  # floats of sums in f32, however they are stored
# x (0.5 + 0.5 tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
_GELU = {(_X,): 0.5, (_TANH, _X): 0.5}
_GELU_ARGUMENT = {(_X,): math.sqrt(2 / math.pi), (_X, _X, _X): math.sqrt(2 / math.pi) * 0.044715}


@dataclass(frozen=True)
class Epilogue:
    """`addend` and `bias` are numbers of inputs of the fusion; None: there is none."""

    alpha: float
    beta: float
    addend: int | None
    bias: int | None
    activation: str


def epilogue_of(fusion: Fusion, product: ir.Value, columns: int) -> Epilogue | None:
    """That of the only output of a fusion, whose product has so many columns; None: libraries have none like it."""
    output = fusion.outputs[0]
    linear = _Reader(fusion, columns, {product: {(_PRODUCT,): 1.0}})
    for activation, operand in (("", output), ("relu", _relu(output)), ("gelu", _gelu(fusion, linear))):
        terms = None if operand is None else linear.read(operand)
        if terms is not None and _is_linear(terms):
            return _epilogue(fusion, product, terms, activation)
    return None


def _epilogue(fusion: Fusion, product: ir.Value, terms: Polynomial, activation: str) -> Epilogue | None:
    """Of what the activation is computed of."""
    inputs = {powers[0]: factor for powers, factor in terms.items() if powers and powers[0] >= 0}
    addends = [each for each in inputs if num_elements(fusion.inputs[each]) == num_elements(product)]
    biases = [each for each in inputs if each not in addends]
    if terms.get((), 0.0) or len(addends) > 1 or len(biases) > 1 or any(inputs[each] != 1.0 for each in biases):
        return None
    addend, bias = (next(iter(each), None) for each in (addends, biases))
    return Epilogue(terms[_PRODUCT,], 0.0 if addend is None else inputs[addend], addend, bias, activation)


def _is_linear(terms: Polynomial) -> bool:
    return bool(terms.get((_PRODUCT,))) and all(len(powers) < 2 and _TANH not in powers for powers in terms)


def _relu(value: ir.Value) -> ir.Value | None:
    """What it is the relu of."""
    inner = _through(value)
    if inner is not None:
        return _relu(inner)
    if _name(value) == "hlo.maximum":
        for one, other in ((0, 1), (1, 0)):
            if _number(value.owner.operands[other]) == 0.0:
                return value.owner.operands[one]
    return None


def _gelu(fusion: Fusion, linear: _Reader) -> ir.Value | None:
    """What the output is the gelu of: it is linear in the product, and as near to the output as can be."""
    output = fusion.outputs[0]
    tolerance = 1e-5 if all(element(op.results[0]).bits >= 32 for op in fusion.ops) else 2.0**-7  # of its constants
    for op in reversed(fusion.ops):
        terms = linear.read(op.results[0])
        if terms is None or not _is_linear(terms):
            continue
        reader = _Reader(fusion, linear.columns, {op.results[0]: {(_X,): 1.0}})
        found = reader.read(output)
        if found is not None and _close(found, _GELU, tolerance) and _close(reader.argument, _GELU_ARGUMENT, tolerance):
            return op.results[0]
    return None


def _close(found: Polynomial, wanted: Polynomial, tolerance: float) -> bool:
    return found.keys() == wanted.keys() and all(
        math.isclose(factor, wanted[powers], rel_tol=tolerance) for powers, factor in found.items()
    )


@dataclass
class _Reader:
    """Values of a fusion as polynomials in its inputs, what is `known`, and the tanh of one, its `argument`."""

    fusion: Fusion
    columns: int
    known: dict[ir.Value, Polynomial | None]
    argument: Polynomial = field(default_factory=dict)

    def read(self, value: ir.Value) -> Polynomial | None:
        """None: it is none, or one of many terms."""
        if value not in self.known:
            self.known[value] = self._read(value)
        return self.known[value]

    def _read(self, value: ir.Value) -> Polynomial | None:
        number = _number(value)
        if number is not None:
            return {(): number} if number else {}
        argument = self._input(value)
        if argument is not None:
            return {(argument,): 1.0}
        inner = _through(value)
        if inner is not None:
            return self.read(inner)
        name = _name(value)
        if name not in _READ:
            return None
        operands = [self.read(operand) for operand in value.owner.operands]
        known = [operand for operand in operands if operand is not None]
        return _READ[name](self, *known) if len(known) == len(operands) else None

    def _input(self, value: ir.Value) -> int | None:
        """The input of the output's type that has the value's elements, or one for each column; None: none has."""
        view = view_of(value, element(value))
        if view is None or view.layout.offset or view.element != element(self.fusion.outputs[0]):
            return None
        digits = merge_digits(tuple(digit for dimension in view.layout.dimensions for digit in dimension))
        total = int(num_elements(self.fusion.outputs[0]))
        fits = digits in (((total, 1),), ((total // self.columns, 0), (self.columns, 1)))
        return view.argument if fits else None

    def add(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """a + b."""
        sums = {powers: a.get(powers, 0.0) + b.get(powers, 0.0) for powers in (*a, *b)}
        return {powers: factor for powers, factor in sums.items() if factor}

    def subtract(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """a - b."""
        return self.add(a, self.negate(b))

    def negate(self, a: Polynomial) -> Polynomial:
        """-a."""
        return {powers: -factor for powers, factor in a.items()}

    def multiply(self, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """a * b."""
        result: Polynomial = {}
        for left, factor in a.items():
            result = self.add(result, {tuple(sorted(left + right)): factor * other for right, other in b.items()})
        return result if all(len(powers) <= _DEGREE for powers in result) else None

    def divide(self, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """a / b, by a number."""
        return {powers: factor / b[()] for powers, factor in a.items()} if b.keys() == {()} else None

    def tanh(self, a: Polynomial) -> Polynomial | None:
        """Once."""
        if self.argument or any(_TANH in powers for powers in a):
            return None
        self.argument = a
        return {(_TANH,): 1.0}


_READ: Mapping[str, Callable[..., Polynomial | None]] = {
    "hlo.add": _Reader.add,
    "hlo.divide": _Reader.divide,
    "hlo.multiply": _Reader.multiply,
    "hlo.negate": _Reader.negate,
    "hlo.subtract": _Reader.subtract,
    "hlo.tanh": _Reader.tanh,
}


def _name(value: ir.Value) -> str:
    return "" if isinstance(value, ir.BlockArgument) else value.owner.operation.name


def _through(value: ir.Value) -> ir.Value | None:
    """What a reshape, or a conversion that rounds at most, is of; None: it is neither."""
    name = _name(value)
    if name == "hlo.reshape":
        return value.owner.operands[0]
    if name != "hlo.convert":
        return None
    source = value.owner.operands[0]
    return source if {element(source).name, element(value).name} <= _ROUNDED else None


def _number(value: ir.Value) -> float | None:
    """The number that all elements of a value are; None: they are none."""
    name = _name(value)
    if name in ("hlo.broadcast", "hlo.reshape"):
        return _number(value.owner.operands[0])
    if name != "hlo.constant" or not element(value).is_float:
        return None
    array = constant_value(value.owner)
    first = float(array.flat[0]) if array.size else math.nan
    return first if math.isfinite(first) and (array == array.flat[0]).all() else None
