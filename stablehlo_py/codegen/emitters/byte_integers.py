"""Integers of 2 to 7 bits for machines whose smallest has 8: a byte holds one, in registers as in memory.

The bits above it are zero between operations. An operation that depends on the sign extends it first; one whose result
may leave the type cuts it. The types themselves keep their names in the kernel language, so templates do not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.values import I8, Type, Value, VectorType, vector

_OF_SIGNS = frozenset(("ashr", "sdiv", "srem", "sext", "sitofp", "smax", "smin"))  # what depends on the sign
_CLOSED = frozenset(("and", "lshr", "or", "udiv", "umax", "umin", "urem", "xor", "zext"))  # stay in the type
_INTRINSICS = frozenset(("ctlz", "ctpop", "smax", "smin", "umax", "umin"))


def _is_narrow(type_: Type) -> bool:
    """Whether a byte holds it, with bits to spare; not of i1, which every machine has."""
    return not type_.is_float and 1 < type_.bits < 8


def _bytes(type_: Type) -> Type:
    return vector(type_.lanes, I8)


class ByteIntegers(LlvmEmitter):
    """What an emitter of the llvm dialect derives from first, so that it writes none of these types.

    Attributes:
        spelled: how they are called.
    """

    spelled: Mapping[str, str] = {f"i{bits}": I8.text for bits in range(2, 8)}

    def _byte(self, a: Value, *, signed: bool = False) -> Value:
        """The bytes that hold integers, with their signs above them if `signed`; other values pass."""
        if not _is_narrow(a.type):
            return a
        held = Value(a.ref, _bytes(a.type))
        if not signed:
            return held
        free = Value(super().constant(8 - a.type.bits, held.type), held.type)
        return Value(super().binary("ashr", Value(super().binary("shl", held, free), held.type), free), held.type)

    def _cut(self, ref: str, type_: Type) -> str:
        """The lowest bits of bytes: integers of a type."""
        held = _bytes(type_)
        mask = Value(super().constant((1 << type_.bits) - 1, held), held)
        return super().binary("and", Value(ref, held), mask)

    def constant(self, number: int, type_: Type) -> str:
        if _is_narrow(type_):
            return super().constant(number & ((1 << type_.bits) - 1), _bytes(type_))
        return super().constant(number, type_)

    def constant_lanes(self, numbers: Sequence[int], type_: VectorType) -> str:
        if _is_narrow(type_):
            numbers = [number & ((1 << type_.bits) - 1) for number in numbers]
            type_ = VectorType(type_.lanes, I8)
        return super().constant_lanes(numbers, type_)

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        if not _is_narrow(a.type):
            return super().binary(name, a, b, no_wrap=no_wrap)
        # How far to shift has no sign.
        right = self._byte(b, signed=name in _OF_SIGNS and name != "ashr")
        found = super().binary(name, self._byte(a, signed=name in _OF_SIGNS), right)
        return found if name in _CLOSED else self._cut(found, a.type)

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        if not _is_narrow(a.type):
            return super().cmp(predicate, a, b)
        signed = predicate.startswith("s")
        return super().cmp(predicate, self._byte(a, signed=signed), self._byte(b, signed=signed))

    def cast(self, name: str, a: Value, to: Type) -> str:
        if not _is_narrow(a.type) and not _is_narrow(to):
            return super().cast(name, a, to)
        source, held = self._byte(a, signed=name in _OF_SIGNS), _bytes(to) if _is_narrow(to) else to
        found = source.ref if source.type == held else super().cast(name, source, held)
        return self._cut(found, to) if _is_narrow(to) and name not in _CLOSED else found

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        if not _is_narrow(result):
            return super().intrinsic(name, operands, result)
        if name not in _INTRINSICS:
            raise self.lacks(f"{name} of {result}")
        held = _bytes(result)
        found = super().intrinsic(name, [self._byte(each, signed=name in _OF_SIGNS) for each in operands], held)
        if name == "ctlz":
            free = Value(super().constant(8 - result.bits, held), held)
            return super().binary("sub", Value(found, held), free)
        return self._cut(found, result) if name in _OF_SIGNS else found
