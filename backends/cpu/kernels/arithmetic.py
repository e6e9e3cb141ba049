"""How products of each element type are accumulated: the type of the accumulator, loads that convert, multiply-add.

Floats of 16 bits and less accumulate in f32 and round once at the end; integers wrap in the result's width; i1 is
or-of-ands on bytes; complex numbers are handled as pairs of reals (see gemm.py), so this module sees their parts.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import F32, I8, I16, I32, Function, Index, ScalarType, Value, vector
from stablehlo_py.codegen.types import ELEMENTS, PARTS, Element, Lanes
from stablehlo_py.mlir import ir

PAIR, QUAD = 2, 4  # integers in a scalar of 32 bits
QUAD_BITS = 128  # of vectors that instructions for four are for


@dataclass(frozen=True)
class Arithmetic:
    """The accumulator of a contraction.

    Attributes:
        element: what sums are kept as (for complex: each part).
        complex: every element is two of them, real part first.
        boolean: multiply-add is or-of-ands.
        packed: how many neighbouring integers of the contracted axis every 32-bit scalar of the operands is, whose
            products are summed (see pairs.py): two of 16 bits, or four of 8; else 1.
        pair_intrinsics: by number of lanes, the target's instruction for two.
        quad_intrinsic: its instruction for four, on a full vector; quad_unsigned: whether the bytes of the two operands
            are unsigned.
    """

    element: Element
    complex: bool = False
    boolean: bool = False
    packed: int = 1
    pair_intrinsics: Mapping[int, str] = field(default_factory=dict)
    quad_intrinsic: str = ""
    quad_unsigned: tuple[bool, bool] = (False, False)

    @property
    def accumulator(self) -> ScalarType:
        """The scalar that sums are kept in."""
        return self.element.storage

    @property
    def parts(self) -> int:
        """Scalars per element."""
        return 2 if self.complex else 1

    def registers_beside(self, target: CpuTarget) -> int:
        """Registers that a tile takes beside its sums and vectors of B: the number of A, and a product that waits to be
        added, where that is an instruction of its own."""
        is_fused = target.fused and self.accumulator.is_float and not self.complex
        return 1 if is_fused or self.packed == QUAD else 2

    def convert(self, f: Function, value: Value, unsigned: bool = False) -> Value:
        """A loaded value as the accumulator's type: exact for floats, extension or truncation for integers."""
        element, target = value.type.element, self.accumulator
        if element == target:
            return value
        if target.is_float and not element.is_float:
            return f.cast("uitofp" if unsigned else "sitofp", value, target)
        if target.is_float:
            return f.cast("fpext" if target.bits > element.bits else "fptrunc", value, target)
        if target.bits < element.bits:
            return f.cast("trunc", value, target)
        return f.cast("zext" if unsigned else "sext", value, target)

    def load(
        self, f: Function, operand: Operand, base: Value, offset: Index, lanes: int, mask: Value | None = None
    ) -> Value:
        """Consecutive scalars of an operand, converted; masked-out lanes are zero."""

        def numbers(offset: Index) -> Value:
            (loaded,) = types.parts(types.load(f, operand.element, base, offset, lanes, mask))
            return self.convert(f, loaded, operand.element.unsigned)

        if not operand.apart:
            return numbers(offset)
        return joined(f, [numbers(f.iadd(offset, part * operand.apart)) for part in range(self.packed)], self.packed)

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """a * b + c (a and b or c for booleans); of floats rounded once where the target has an instruction for it."""
        if self.complex:
            return f.fadd(f.fmul(a, b), c)
        if self.accumulator.is_float:
            return f.intrinsic("fmuladd", a, b, c)
        if self.boolean:
            return f.binary("or", f.binary("and", a, b), c)
        if self.packed == QUAD:
            return self._add_quad_product(f, a, b, c)
        product = self._pair_product(f, a, b) if self.packed == PAIR else f.binary("mul", a, b)
        return f.binary("add", product, c)

    def add(self, f: Function, a: Value, b: Value) -> Value:
        """a + b for two sums, lane by lane."""
        if self.accumulator.is_float:
            return f.fadd(a, b)
        return f.binary("or" if self.boolean else "add", a, b)

    def _pair_product(self, f: Function, a: Value, b: Value) -> Value:
        """The sum of the products of low and of high halves, modulo 2^32."""
        lanes = a.type.lanes
        if lanes in self.pair_intrinsics:
            halves = vector(2 * lanes, I16)
            name = self.pair_intrinsics[lanes]
            return f.target_intrinsic(name, f.bitcast(a, halves), f.bitcast(b, halves), result=a.type)

        if lanes == 1:
            return f.binary("add", f.binary("mul", _low(f, a), _low(f, b)), f.binary("mul", _high(f, a), _high(f, b)))
        # As compilers find it where there are instructions: multiply and widen, then add neighbours.
        a, b = (f.cast("sext", f.bitcast(value, vector(2 * lanes, I16)), I32) for value in (a, b))
        products = f.binary("mul", a, b)
        even, odd = (f.shuffle(products, products, range(start, 2 * lanes, 2)) for start in (0, 1))
        return f.binary("add", even, odd)

    def _add_quad_product(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """c and the sum of the products of four bytes, modulo 2^32."""
        lanes = a.type.lanes
        if 32 * lanes == QUAD_BITS:
            values = (b, a) if self.quad_unsigned == (False, True) else (a, b)
            bytes_ = (f.bitcast(value, vector(QUAD * lanes, I8)) for value in values)
            return f.target_intrinsic(self.quad_intrinsic, c, *bytes_, result=c.type)
        for number in range(QUAD):
            parts = (_byte(f, value, number, of) for value, of in zip((a, b), self.quad_unsigned, strict=True))
            c = f.binary("add", f.binary("mul", *parts), c)
        return c

    def finish(self, f: Function, of: Element, value: tuple[Value, ...]) -> Lanes:
        """A finished sum as a register value of the product's element type: rounded, narrowed."""
        if self.complex:
            return value[0], value[1]
        number = value[0]
        if of.kind == "bool":
            return f.cmp("ne", number, f.const(0, number.type))
        if of.kind == "int":
            return number if number.type.element == of.compute else f.cast("trunc", number, of.compute)
        if number.type.element != of.compute:
            number = f.cast("fptrunc", number, of.compute)
        return of.round(f, number) if of.round else number


def joined(f: Function, parts: Sequence[Value], packed: int) -> Value:
    """Numbers as parts of one of 32 bits, which has room for so many, the first the lowest; those that are missing are
    zero."""
    bits = 32 // packed
    mask = f.const((1 << bits) - 1, parts[0].type)
    shifted = []
    for number, part in enumerate(parts):
        low = part if number == packed - 1 else f.binary("and", part, mask)
        shifted.append(f.binary("shl", low, f.const(bits * number, part.type)) if number else low)
    return functools.reduce(lambda a, b: f.binary("or", a, b), shifted)


def _byte(f: Function, a: Value, number: int, unsigned: bool) -> Value:
    """A byte of 32-bit lanes."""
    high = f.binary("shl", a, f.const(24 - 8 * number, a.type))
    return f.binary("lshr" if unsigned else "ashr", high, f.const(24, a.type))


def _low(f: Function, a: Value) -> Value:
    return f.binary("ashr", f.binary("shl", a, f.const(16, a.type)), f.const(16, a.type))


def _high(f: Function, a: Value) -> Value:
    return f.binary("ashr", a, f.const(16, a.type))


def packed_arithmetic(sums: Arithmetic, packed: int, unsigned: tuple[bool, bool], target: CpuTarget) -> Arithmetic:
    """The same sums of operands whose scalars are so many integers; `unsigned`: whether bytes of the two operands
    are."""
    quad = target.quad_intrinsic(unsigned) if packed == QUAD else ""
    return replace(
        sums, packed=packed, pair_intrinsics=target.pair_intrinsics, quad_intrinsic=quad, quad_unsigned=unsigned
    )


def arithmetic_of(result: ir.Value | ir.Type) -> Arithmetic:
    """The arithmetic of a product with this element type. Raises UnsupportedError for types that generated code cannot
    hold."""
    of = types.element(result)
    if of.is_complex:
        return Arithmetic(PARTS[of.name], complex=True)
    if of.kind == "bool":
        return Arithmetic(ELEMENTS["ui8"], boolean=True)
    if of.kind == "int":
        return Arithmetic(ELEMENTS[f"i{of.storage.bits}"])
    return Arithmetic(ELEMENTS["f32" if of.compute == F32 else of.name])


def memory_element(of: ir.Value | ir.Type | Element) -> Element:
    """How the scalars of a tensor are read: parts of complex numbers, bytes of booleans."""
    of = of if isinstance(of, Element) else types.element(of)
    if of.is_complex:
        return PARTS[of.name]
    return ELEMENTS["ui8"] if of.kind == "bool" else of


def combine_complex(f: Function, by_real: Value, by_imaginary: Value) -> tuple[Value, Value]:
    """(real, imaginary) parts from the sums a.re * (b.re, b.im) and a.im * (b.re, b.im), interleaved."""
    lanes = by_real.type.lanes
    even, odd = list(range(0, lanes, 2)), list(range(1, lanes, 2))

    def pick(value: Value, order: list[int]) -> Value:
        return f.extract(value, order[0]) if len(order) == 1 else f.shuffle(value, value, order)

    real = f.fsub(pick(by_real, even), pick(by_imaginary, odd))
    imaginary = f.fadd(pick(by_real, odd), pick(by_imaginary, even))
    return real, imaginary
