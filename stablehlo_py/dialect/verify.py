"""What the verifiers of the hlo ops check. A check takes the op and raises `Malformed`; it must not print the op
(printing verifies)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from stablehlo_py.dialect.symint import GuardError, IntLike, always_less
from stablehlo_py.dialect.types import (
    element_type,
    is_bool,
    is_complex,
    is_float,
    is_integer,
    is_tensor,
    rank,
    shape,
    symints,
    text,
)
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Check = Callable[[ir.OpView], None]


class Malformed(Exception):
    """Raised by a check: the reason why an op is not valid."""


def verifier(attributes: Iterable[str], checks: Iterable[Check]) -> staticmethod:
    """The `verify_invariants` of an op class: reports the first problem at the op's location. Unverified text may lack
    attributes."""

    def verify_invariants(op: ir.OpView) -> bool:
        try:
            missing = [name for name in attributes if name not in op.attributes]
            require(not missing, f"lacks attribute '{missing[0] if missing else ''}'")
            for check in checks:
                with suppress(GuardError):  # what depends on the call is no mistake
                    check(op)
        except Malformed as error:
            op.location.emit_error(f"'{op.operation.name}' op {error}")
            return False
        except UnsupportedError as error:  # a dynamic dimension without a size
            op.location.emit_error(f"'{op.operation.name}' op {error.reason}")
            return False
        except (TypeError, AttributeError, ValueError, KeyError, IndexError) as error:
            # An attribute of another kind than the reading helpers expect.
            op.location.emit_error(f"'{op.operation.name}' op has a malformed attribute or type: {error}")
            return False
        return True

    return staticmethod(verify_invariants)


def require(condition: bool, reason: str) -> None:
    """Raise Malformed unless the condition holds."""
    if not condition:
        raise Malformed(reason)


def require_shape(op: ir.OpView, expected: Sequence[IntLike], result: int = 0) -> None:
    """A result has this shape."""
    require(shape(op.results[result]) == tuple(expected), f"result shape must be {tuple(expected)}")


class Conditions:
    """What a rule for result shapes asks of sizes: here, that nothing is known to be wrong."""

    def unite(self, a: IntLike, b: IntLike) -> IntLike:
        """Let two sizes be equal; returns what both are."""
        require(a == b, f"needs sizes with {a} == {b}")
        return a

    def require_equal(self, a: IntLike, b: IntLike) -> None:
        """Let two sizes be equal, where that says nothing about others."""
        self.unite(a, b)

    def require_at_most(self, a: IntLike, b: IntLike) -> None:
        """Let a size not exceed another."""
        require(not always_less(b, a), f"needs sizes with {a} <= {b}")

    def require_within(self, sizes: Sequence[IntLike], whole: Sequence[IntLike]) -> None:
        """Let every size be one of a part of the whole."""
        for size, bound in zip(sizes, whole, strict=True):
            self.require_at_most(0, size)
            self.require_at_most(size, bound)

    def united(self, shapes: Sequence[Sequence[IntLike]]) -> tuple[IntLike, ...]:
        """Let all shapes be equal; returns what they are."""
        return tuple(functools.reduce(self.unite, along) for along in zip(*shapes, strict=True))


def require_dimensions(dimensions: Sequence[int], limit: int, name: str) -> None:
    """Dimensions are different ones below a limit."""
    inside = all(0 <= dimension < limit for dimension in dimensions)
    require(inside and len(set(dimensions)) == len(dimensions), f"{name} must be different dimensions below {limit}")


def same_elements(op: ir.OpView) -> None:
    """First operand and first result have one element type."""
    source, result = element_type(op.operands[0]), element_type(op.results[0])
    require(source == result, f"must keep the element type: {source} became {result}")


def same_shape(op: ir.OpView) -> None:
    """All operands have the result's shape."""
    for value in op.operands:
        require(is_tensor(value) and shape(value) == shape(op.results[0]), "operands and result must have one shape")


ELEMENT_CLASSES: dict[str, Callable[[ir.Type], bool]] = {
    "integer": lambda type_: is_integer(type_) and not is_bool(type_),
    "integer or i1": is_integer,
    "float": is_float,
    "complex": is_complex,
    "float or complex": lambda type_: is_float(type_) or is_complex(type_),
    "number with a negative": lambda type_: not is_bool(type_) and str(type_) != "f8E8M0FNU",
    "number": lambda type_: not is_bool(type_),
    "real number": lambda type_: not is_bool(type_) and not is_complex(type_),
}


def operand_elements(allowed: str) -> Check:
    """The first operand's element type is of a class of ELEMENT_CLASSES. Normal form has logic, not arithmetic, on
    i1."""
    belongs = ELEMENT_CLASSES[allowed]

    def check(op: ir.OpView) -> None:
        element = element_type(op.operands[0])
        require(belongs(element), f"needs elements of type {allowed}, not {element}")

    return check


def one_of(name: str, choices: Sequence[str]) -> Check:
    """A string attribute is one of these."""
    return lambda op: require(text(op, name) in choices, f"{name} must be one of {' '.join(choices)}")


def alike(first: str, second: str) -> Check:
    """The first two operands, of these names, have one element type and one rank."""

    def check(op: ir.OpView) -> None:
        a, b = op.operands[0], op.operands[1]
        require(element_type(a) == element_type(b), f"{first} and {second} need one element type")
        require(rank(a) == rank(b), f"{first} and {second} need one rank")

    return check


def scalar_like(number: int, name: str) -> Check:
    """An operand is a scalar of the first operand's element type."""

    def check(op: ir.OpView) -> None:
        value = op.operands[number]
        fits = rank(value) == 0 and element_type(value) == element_type(op.operands[0])
        require(fits, f"{name} must be a scalar of the operand's type")

    return check


def entry_per_dimension(*names: str) -> Check:
    """Attributes have an entry for each dimension of the first operand."""

    def check(op: ir.OpView) -> None:
        entries = {len(symints(op, name)) for name in names}
        require(entries == {rank(op.operands[0])}, f"{', '.join(names)} need one entry per dimension")

    return check
