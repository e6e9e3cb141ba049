"""Sizes that are known at run time: `SymInt`, a number like `int` as far as it can be.

A `SymInt` is a polynomial with integer coefficients over atoms, in a normal form: equal expressions are equal objects.
An atom is a symbol (a dimension of an argument) or a function that no polynomial says: `floordiv`, `mod`, `max`,
`min`, a comparison, `select`. Arithmetic folds to `int` where it can.

    b = symbol("d0_0")
    (4 * b) // 4 == b;  (b * 4 + 8) % 4 == 0;  str(b * 3 + 1) == "3*d0_0+1"

An order is a bool only where it holds, or fails, for every value that the symbols may take: `b > 0` is True, `b < 16`
raises `GuardError`. `always_less` asks without raising; `size_hint` gives a number to decide about costs by.

polynomial.py has the normal form, size_text.py reads and writes sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, cast

from stablehlo_py.dialect.polynomial import (
    CONSTANT,
    INFINITE,
    Atom,
    Terms,
    bounds_of,
    close_bounds_of,
    combined,
    divided,
    is_constant,
    multiplied,
    ordered,
    text_of,
)
from stablehlo_py.errors import UnsupportedError

# Of a tensor: more than any memory holds, and few enough to calculate with their bytes in i64.
MOST_ELEMENTS = 1 << 44
HINT = 100  # the value of a symbol where only costs depend on it
SPECIALIZE = "specialize to concrete shapes: Options(dynamic='specialize')"


class GuardError(UnsupportedError):
    """Code asked for something about a size that depends on the call: what PyTorch would make a guard of."""

    def __init__(self, question: str) -> None:
        super().__init__(
            f"one program for all shapes would have to know whether {question}",
            remedy=SPECIALIZE,
        )


class SymInt:
    """A polynomial over atoms that is no constant."""

    __slots__ = ("_hash", "terms", "text")

    def __init__(self, terms: Terms) -> None:
        self.terms = tuple(ordered(terms))
        self.text = text_of(self.terms)
        self._hash = hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymInt) and self.text == other.text

    def __bool__(self) -> bool:
        """Not known to be zero."""
        return True

    def __index__(self) -> int:
        raise GuardError(f"what number {self} is")

    __int__ = __index__

    def bit_length(self) -> int:
        raise GuardError(f"how many bits {self} has")

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def __add__(self, other: IntLike) -> IntLike:
        return self._combine(other, 1)

    __radd__ = __add__

    def __sub__(self, other: IntLike) -> IntLike:
        return self._combine(other, -1)

    def __rsub__(self, other: IntLike) -> IntLike:
        return (-self) + other

    def __neg__(self) -> IntLike:
        return self * -1

    def __pos__(self) -> IntLike:
        return self

    def __mul__(self, other: IntLike) -> IntLike:
        if not _is_number(other):
            return NotImplemented
        return _number(multiplied(_terms(self), _terms(other)))

    __rmul__ = __mul__

    def __abs__(self) -> IntLike:
        return self if self >= 0 else -self

    def __floordiv__(self, other: IntLike) -> IntLike:
        return floordiv(self, other) if _is_number(other) else NotImplemented

    def __rfloordiv__(self, other: IntLike) -> IntLike:
        return floordiv(other, self) if _is_number(other) else NotImplemented

    def __mod__(self, other: IntLike) -> IntLike:
        return mod(self, other) if _is_number(other) else NotImplemented

    def __rmod__(self, other: IntLike) -> IntLike:
        return mod(other, self) if _is_number(other) else NotImplemented

    def __divmod__(self, other: IntLike) -> tuple[IntLike, IntLike]:
        return self // other, self % other

    def __rdivmod__(self, other: IntLike) -> tuple[IntLike, IntLike]:
        return other // self, other % self

    def _combine(self, other: IntLike, sign: int) -> IntLike:
        if not _is_number(other):
            return NotImplemented
        return _number(combined(_terms(self), _terms(other), sign))

    # --- order -------------------------------------------------------------------------------------------------------

    def __lt__(self, other: IntLike) -> bool:
        return _decided(self, "<", other, _sign(other - self, strict=True))

    def __gt__(self, other: IntLike) -> bool:
        return _decided(self, ">", other, _sign(self - other, strict=True))

    def __le__(self, other: IntLike) -> bool:
        return _decided(self, "<=", other, _sign(other - self, strict=False))

    def __ge__(self, other: IntLike) -> bool:
        return _decided(self, ">=", other, _sign(self - other, strict=False))


IntLike: TypeAlias = int | SymInt
IntT = TypeVar("IntT", int, IntLike)


class _Arithmetic(Protocol):
    """A function of two numbers: an int of ints, else what may be a SymInt."""

    def __call__(self, a: IntT, b: IntT, /) -> IntT: ...


def _arithmetic(function: Callable[[IntLike, IntLike], IntLike]) -> _Arithmetic:
    return cast(_Arithmetic, function)


def symbol(name: str) -> SymInt:
    """A symbol. Dimensions are at least 1 (calls with an empty one are specialized); one named x... is any number."""
    return SymInt({(Atom(name, low=-INFINITE if name.startswith("x") else 1),): 1})


def positive(name: str) -> str:
    """The name of what a symbol stands for where it is known to be positive: of x0_1 that is v0_1."""
    return name.replace("x", "v", 1)


def is_known(*numbers: IntLike) -> bool:
    """Whether all numbers are plain ints."""
    return SymInt not in map(type, numbers)  # shape inference asks for every value


# --- normal form -----------------------------------------------------------------------------------------------------


def _is_number(value: object) -> bool:
    return isinstance(value, (int, SymInt))


def _terms(number: IntLike) -> Terms:
    if isinstance(number, SymInt):
        return dict(number.terms)
    return {CONSTANT: int(number)} if number else {}


def _number(terms: Terms) -> IntLike:
    return terms.get(CONSTANT, 0) if is_constant(terms) else SymInt(terms)


def _call(function: str, arguments: Sequence[IntLike], low: float, high: float) -> IntLike:
    if low == high:
        return int(low)
    text = f"{function}({','.join(map(str, arguments))})"
    return SymInt({(Atom(text, function, tuple(arguments), low, high),): 1})


# --- bounds and order ------------------------------------------------------------------------------------------------


def bounds(number: IntLike) -> tuple[float, float]:
    """Numbers that the value is between; infinite where there is none."""
    return bounds_of(_terms(number)) if isinstance(number, SymInt) else (number, number)


def _sign(difference: IntLike, strict: bool) -> bool | None:
    """Whether a number is positive (strict) or not negative, for all values of the symbols; None where that depends."""
    low, high = close_bounds_of(_terms(difference))
    if low > 0 or (low == 0 and not strict):
        return True
    if high < 0 or (high == 0 and strict):
        return False
    return None


def _decided(a: IntLike, relation: str, b: IntLike, answer: bool | None) -> bool:
    if answer is None:
        raise GuardError(f"{a} {relation} {b}")
    return answer


def always_less(a: IntLike, b: IntLike) -> bool:
    """a < b for all values of the symbols. False says only that it is not known."""
    return a < b if is_known(a, b) else _sign(b - a, strict=True) is True


def always_at_most(a: IntLike, b: IntLike) -> bool:
    """a <= b for all values of the symbols. False says only that it is not known."""
    return a <= b if is_known(a, b) else _sign(b - a, strict=False) is True


# --- functions -------------------------------------------------------------------------------------------------------


@_arithmetic
def floordiv(a: IntLike, b: IntLike) -> IntLike:
    """a // b, rounded towards minus infinity."""
    if is_known(a, b):
        return a // b if b else _call("floordiv", (a, b), -INFINITE, INFINITE)
    exact, rest = _divide(a, b)
    if rest == 0:
        return exact
    (low, high), (least, most) = bounds(rest), bounds(b)
    if low >= 0 and always_less(rest, b):
        return exact
    if least <= 0:
        return exact + _call("floordiv", (rest, b), -INFINITE, INFINITE)
    ends = [_floor(end / divisor) if abs(end) < INFINITE else end for end in (low, high) for divisor in (least, most)]
    return exact + _call("floordiv", (rest, b), min(ends), max(ends))


def _floor(quotient: float) -> float:
    return math.floor(quotient) if quotient or math.copysign(1, quotient) > 0 else -1  # -0.0: a little below zero


@_arithmetic
def mod(a: IntLike, b: IntLike) -> IntLike:
    """a - b * floordiv(a, b)."""
    if is_known(a, b):
        return a % b if b else 0
    _, rest = _divide(a, b)
    if is_known(rest) and rest == 0:
        return 0
    if always_at_most(0, rest) and always_less(rest, b):
        return rest
    least, most = bounds(b)
    if is_known(rest, b):
        return rest % b
    return _call("mod", (rest, b), 0 if least > 0 else -INFINITE, most - 1 if least > 0 else INFINITE)


def _divide(a: IntLike, b: IntLike) -> tuple[IntLike, IntLike]:
    """(q, r) with a == q * b + r: what of a the leading term of b divides goes into q."""
    quotient, rest = divided(_terms(a), _terms(b))
    return _number(quotient), _number(rest)


def truncdiv(a: IntLike, b: IntLike) -> IntLike:
    """a / b, rounded towards zero (StableHLO's divide)."""
    if is_known(a, b):
        return (
            int(math.copysign(1, a * b)) * (abs(a) // abs(b)) if b else _call("truncdiv", (a, b), -INFINITE, INFINITE)
        )
    if always_at_most(0, a) and always_less(0, b):
        return floordiv(a, b)
    exact, rest = _divide(a, b)
    return exact if rest == 0 else _call("truncdiv", (a, b), -INFINITE, INFINITE)


def remainder(a: IntLike, b: IntLike) -> IntLike:
    """a - b * truncdiv(a, b) (StableHLO's remainder)."""
    if always_at_most(0, a) and always_less(0, b):
        return mod(a, b)
    return a - b * truncdiv(a, b)


@_arithmetic
def maximum(a: IntLike, b: IntLike) -> IntLike:
    """The larger one."""
    if always_at_most(a, b):
        return b
    if always_at_most(b, a):
        return a
    (low, high), (least, most) = bounds(a), bounds(b)
    return _call("max", sorted((a, b), key=str), max(low, least), max(high, most))


@_arithmetic
def minimum(a: IntLike, b: IntLike) -> IntLike:
    """The smaller one."""
    if always_at_most(a, b):
        return a
    if always_at_most(b, a):
        return b
    (low, high), (least, most) = bounds(a), bounds(b)
    return _call("min", sorted((a, b), key=str), min(low, least), min(high, most))


def equal(a: IntLike, b: IntLike) -> IntLike:
    """1 where a == b, else 0."""
    if a == b:
        return 1
    if always_less(a, b) or always_less(b, a):
        return 0
    return _call("eq", sorted((a, b), key=str), 0, 1)


def sides_of(condition: IntLike) -> tuple[IntLike, IntLike] | None:
    """(a, b) of a condition that `equal` made of them, and that depends on the call; None for any other."""
    if not isinstance(condition, SymInt) or len(condition.terms) != 1:
        return None
    ((atoms, coefficient),) = condition.terms
    if coefficient != 1 or len(atoms) != 1 or atoms[0].function != "eq":
        return None
    a, b = atoms[0].arguments
    return a, b


def less(a: IntLike, b: IntLike) -> IntLike:
    """1 where a < b, else 0."""
    if always_less(a, b):
        return 1
    return 0 if always_at_most(b, a) else _call("lt", (a, b), 0, 1)


def select(condition: IntLike, a: IntLike, b: IntLike) -> IntLike:
    """a where the condition (0 or 1) holds, else b."""
    if is_known(condition):
        return a if condition else b
    if a == b:
        return a
    rounded = _rounded_down(condition, a, b)
    if rounded is not None:
        return rounded
    (low, high), (least, most) = bounds(a), bounds(b)
    return _call("select", (condition, a, b), min(low, least), max(high, most))


def _rounded_down(condition: IntLike, a: IntLike, b: IntLike) -> IntLike | None:
    """The floordiv or mod that exporters of JAX write as a choice between what rounding towards zero gives, `b`, and a
    correction of it, `a`, for quotients below zero that are not whole."""
    quotients = {atom for atoms in _terms(b) for atom in atoms if atom.function == "truncdiv"}
    for x, y in (atom.arguments for atom in quotients):
        rest = remainder(x, y)
        is_whole = equal(rest, 0)
        if b == truncdiv(x, y) and a == b - 1:
            signs = (less(0, each) - less(each, 0) for each in (x, y))
            if condition == (1 - equal(*signs)) * (1 - is_whole):
                return floordiv(x, y)
        if b == rest and a == b + y and condition == (1 - equal(less(rest, 0), less(y, 0))) * (1 - is_whole):
            return mod(x, y)
    return None


def content(number: IntLike) -> int:
    """The largest int that is known to divide a number: the greatest common divisor of its coefficients."""
    return math.gcd(*_terms(number).values())


def largest(numbers: Iterable[IntT]) -> IntT:
    """The maximum of several numbers, and 0."""
    result: IntT = 0
    for number in numbers:
        result = maximum(result, number)
    return result


def product(numbers: Iterable[IntT]) -> IntT:
    """The product of several numbers."""
    result: IntT = 1
    for number in numbers:
        result = result * number
    return result


FUNCTIONS: dict[str, Callable[..., IntLike]] = {
    "floordiv": floordiv,
    "mod": mod,
    "truncdiv": truncdiv,
    "max": maximum,
    "min": minimum,
    "eq": equal,
    "lt": less,
    "select": select,
}


# --- values ----------------------------------------------------------------------------------------------------------


def substitute(number: IntLike, values: Mapping[str, IntLike]) -> IntLike:
    """The number with symbols replaced; it is an int where no symbol is left."""
    if not isinstance(number, SymInt):
        return number
    total: IntLike = 0
    for atoms, coefficient in number.terms:
        term: IntLike = coefficient
        for atom in atoms:
            if atom.function:
                arguments = [substitute(argument, values) for argument in atom.arguments]
                term = term * FUNCTIONS[atom.function](*arguments)
            else:
                term = term * values.get(atom.text, SymInt({(atom,): 1}))
        total = total + term
    return total


def symbols(number: IntLike) -> dict[str, Atom]:
    """The symbols in a number, by name."""
    found: dict[str, Atom] = {}
    for atoms in _terms(number):
        for atom in atoms:
            if not atom.function:
                found[atom.text] = atom
            for argument in atom.arguments:
                found |= symbols(argument)
    return found


def size_hint(number: IntLike) -> int:
    """The value with `HINT` for every symbol, for estimates of cost. What is right may never depend on it: two sizes
    with one hint are not equal, and a call may bring any other."""
    if not isinstance(number, SymInt):
        return number
    value = substitute(number, dict.fromkeys(symbols(number), HINT))
    return value if isinstance(value, int) else HINT  # divided by what the hint makes zero
