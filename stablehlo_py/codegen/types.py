"""How tensor elements lie in memory and in registers.

Memory: f32 and f64 as they are, f16 and bf16 in 16 bits, i1 and everything else below a byte one per byte, complex as
interleaved pairs. Registers: floats below 32 bits are f32 that hold a value of the narrow format (every operation
rounds back, as StableHLO asks), i1 is LLVM's i1, sub-byte integers their own LLVM width, complex a Python pair of real
values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from stablehlo_py.codegen import narrow_floats
from stablehlo_py.codegen.builder import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Function,
    Index,
    ScalarType,
    Value,
    VectorType,
    vector,
)
from stablehlo_py.dialect.formats import FORMATS, FloatFormat
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Lanes: TypeAlias = Value | tuple[Value, Value]
Known: TypeAlias = Any  # Lanes of which the element type tells whether they are a Value or a pair


@dataclass(frozen=True)
class Element:
    """An element type.

    Attributes:
        name: as MLIR prints it, e.g. "bf16".
        storage: the scalar in memory (of one part, for complex).
        compute: the scalar in registers (of one part, for complex).
        kind: "float", "int", "bool" or "complex".
        unsigned: compares, divides, converts and shifts as unsigned (i1 too).
        bits: width of the type itself (of one part, for complex).
        decode, encode: between storage and compute values of any lanes; None where they are equal.
        round: brings a compute value to the nearest value of the type; None where every compute value is one.
        round_own: the same for what an operation on values of the type results in: a NaN is one of theirs, or the
            machine's own. None: `round`.
    """

    name: str
    storage: ScalarType
    compute: ScalarType
    kind: str
    unsigned: bool = False
    bits: int = 0
    decode: Callable[[Function, Value], Value] | None = None
    encode: Callable[[Function, Value], Value] | None = None
    round: Callable[[Function, Value], Value] | None = None
    round_own: Callable[[Function, Value], Value] | None = None

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return self.storage.bits // 8 * (2 if self.is_complex else 1)


# --- narrow floats ---------------------------------------------------------------------------------------------------


def _round_bf16(f: Function, a: Value) -> Value:
    if f.emit.pack_bf16 and a.type.lanes == 1:
        pair = f.target_intrinsic(f.emit.pack_bf16, a, f.const(0.0, F32), result=VectorType(2, BF16))
        return f.bitcast(pair, F32)
    if f.emit.rounds_to_bf16:
        return f.cast("fpext", f.cast("fptrunc", a, BF16), F32)
    bits = f.bitcast(a, vector(a.type.lanes, I32))
    quiet = f.binary("or", bits, f.const(0x400000, bits.type))
    quiet = f.binary("and", quiet, f.const(0xFFFF0000, bits.type))
    return f.bitcast(f.select(f.cmp("uno", a, a), quiet, _nearest_bf16(f, bits)), a.type)


def _nearest_bf16(f: Function, bits: Value) -> Value:
    """Round to nearest even on the bits; LLVM's own fptrunc calls a library function per lane where the CPU lacks the
    instruction."""
    odd = f.binary("and", f.binary("lshr", bits, f.const(16, bits.type)), f.const(1, bits.type))
    rounded = f.binary("add", f.binary("add", bits, f.const(0x7FFF, bits.type)), odd)
    return f.binary("and", rounded, f.const(0xFFFF0000, bits.type))


def _round_own_bf16(f: Function, a: Value) -> Value:
    """A NaN whose lower half is zero is rounded to itself."""
    if not f.emit.short_nans:
        return _round_bf16(f, a)
    return f.bitcast(_nearest_bf16(f, f.bitcast(a, vector(a.type.lanes, I32))), a.type)


def _decode_bf16(f: Function, a: Value) -> Value:
    wide = f.cast("zext", a, I32)
    return f.bitcast(f.binary("shl", wide, f.const(16, wide.type)), vector(a.type.lanes, F32))


def _encode_bf16(f: Function, a: Value) -> Value:
    integer = vector(a.type.lanes, I32)
    return f.cast("trunc", f.binary("lshr", f.bitcast(a, integer), f.const(16, integer)), I16)


def _round_f16(f: Function, a: Value) -> Value:
    return f.cast("fpext", f.cast("fptrunc", a, F16), F32)


def _decode_f16(f: Function, a: Value) -> Value:
    return f.cast("fpext", a, F32)


def _encode_f16(f: Function, a: Value) -> Value:
    return f.cast("fptrunc", a, F16)


# --- booleans and sub-byte integers ----------------------------------------------------------------------------------


def _decode_bool(f: Function, a: Value) -> Value:
    return f.cmp("ne", a, f.const(0, a.type))


def _encode_bool(f: Function, a: Value) -> Value:
    return f.cast("zext", a, I8)


def _narrow_float(name: str) -> Element:
    """A float of eight bits or less."""
    decode, encode, round_ = (
        partial(_with_format, function, FORMATS[name])
        for function in (narrow_floats.decode, narrow_floats.encode, narrow_floats.rounded)
    )
    return Element(name, I8, F32, "float", False, FORMATS[name].bits, decode, encode, round_)


def _with_format(
    function: Callable[[Function, FloatFormat, Value], Value], of: FloatFormat, f: Function, a: Value
) -> Value:
    return function(f, of, a)


def _integer(name: str, bits: int, unsigned: bool) -> Element:
    if bits >= 8:
        native = {8: I8, 16: I16, 32: I32, 64: I64}[bits]
        return Element(name, native, native, "int", unsigned, bits)
    narrow = ScalarType(f"i{bits}", bits)
    return Element(
        name,
        I8,
        narrow,
        "int",
        unsigned,
        bits,
        lambda f, a: f.cast("trunc", a, narrow),
        lambda f, a: f.cast("zext", a, I8),  # unused bits are zero, as in ml_dtypes and in MLIR's attributes
    )


ELEMENTS: dict[str, Element] = {
    "f32": Element("f32", F32, F32, "float", bits=32),
    "f64": Element("f64", F64, F64, "float", bits=64),
    "f16": Element("f16", F16, F32, "float", False, 16, _decode_f16, _encode_f16, _round_f16),
    "bf16": Element("bf16", I16, F32, "float", False, 16, _decode_bf16, _encode_bf16, _round_bf16, _round_own_bf16),
    "i1": Element("i1", I8, I1, "bool", True, 1, _decode_bool, _encode_bool),
    "complex<f32>": Element("complex<f32>", F32, F32, "complex", bits=32),
    "complex<f64>": Element("complex<f64>", F64, F64, "complex", bits=64),
}
ELEMENTS |= {name: _narrow_float(name) for name, of in FORMATS.items() if of.bits <= 8}
ELEMENTS |= {f"i{bits}": _integer(f"i{bits}", bits, False) for bits in (2, 4, 8, 16, 32, 64)}
ELEMENTS |= {f"ui{bits}": _integer(f"ui{bits}", bits, True) for bits in (2, 4, 8, 16, 32, 64)}
PARTS = {"complex<f32>": ELEMENTS["f32"], "complex<f64>": ELEMENTS["f64"]}


# Without their texts, which take ten times as long.
_BY_CLASS = {
    ir.F64Type: ELEMENTS["f64"],
    ir.F32Type: ELEMENTS["f32"],
    ir.F16Type: ELEMENTS["f16"],
    ir.BF16Type: ELEMENTS["bf16"],
}
_INTEGERS = {(of.bits, name[0] == "u"): of for name, of in ELEMENTS.items() if name[0] in "iu"}


def element(of: ir.Value | ir.Type | str) -> Element:
    """The `Element` of a tensor value, a tensor type, an element type, or its name. Raises UnsupportedError for types
    without one.
    """
    if isinstance(of, ir.Value):
        of = of.type
    if isinstance(of, ir.RankedTensorType):
        of = of.element_type
    if isinstance(of, ir.IntegerType) and not of.is_signed:
        found = _INTEGERS.get((of.width, of.is_unsigned))
    else:
        found = _BY_CLASS.get(type(of)) or ELEMENTS.get(str(of))
    if found is None:
        raise UnsupportedError(
            f"element type {of} is not supported in generated code",
            remedy=f"convert to one of {', '.join(sorted(ELEMENTS))}",
        )
    return found


# --- lanes -----------------------------------------------------------------------------------------------------------


def parts(a: Lanes) -> tuple[Value, ...]:
    """The values behind Lanes: one, or real and imaginary."""
    return a if isinstance(a, tuple) else (a,)


def each(function: Callable[..., Value], *operands: Lanes) -> Lanes:
    """Apply a function of Values to Lanes, part by part."""
    if isinstance(operands[0], tuple):
        first, second = (function(*part) for part in zip(*(parts(operand) for operand in operands), strict=True))
        return first, second
    return function(*operands)


def lane_count(a: Lanes) -> int:
    """Number of lanes; 1 for scalars."""
    return (a[0] if isinstance(a, tuple) else a).type.lanes


def level_of(*operands: Lanes) -> int:
    """The innermost region level among values."""
    return max([max(a[0].level, a[1].level) if isinstance(a, tuple) else a.level for a in operands])


def splat(f: Function, a: Lanes, lanes: int) -> Lanes:
    """A scalar in every lane; values that already have `lanes` lanes pass."""
    if lane_count(a) == lanes:
        return a
    return each(lambda part: f.splat(part, lanes), a)


def select(f: Function, condition: Value, a: Lanes, b: Lanes) -> Lanes:
    """condition ? a : b; a scalar condition may choose between vectors."""
    return each(lambda left, right: f.select(condition, left, right), a, b)


def constant(f: Function, of: Element, number: complex | float | bool, lanes: int = 1) -> Lanes:
    """A constant of the compute type, splat over the lanes."""
    if of.is_complex:
        number = complex(number)
        return f.const(number.real, vector(lanes, of.compute)), f.const(number.imag, vector(lanes, of.compute))
    return f.const(number.real if isinstance(number, complex) else number, vector(lanes, of.compute))


def constants(f: Function, of: Element, numbers: Sequence[complex | float | bool]) -> Lanes:
    """Constants of the compute type, one a lane."""
    if len(set(map(repr, numbers))) == 1:  # zeros of both signs are equal
        return constant(f, of, numbers[0], len(numbers))
    if of.is_complex:
        parts = ([complex(number).real for number in numbers], [complex(number).imag for number in numbers])
        return f.const_lanes(parts[0], of.compute), f.const_lanes(parts[1], of.compute)
    return f.const_lanes([number.real for number in numbers], of.compute)


# --- bits ------------------------------------------------------------------------------------------------------------


def to_bits(f: Function, of: Element, a: Value) -> Value:
    """The bits of real lanes as integers of the element's own width."""
    if of.kind != "float":
        return a
    stored = _encoded(f, of, a)
    bits = f.bitcast(stored, vector(stored.type.lanes, ScalarType(f"i{of.storage.bits}", of.storage.bits)))
    return f.cast("trunc", bits, ScalarType(f"i{of.bits}", of.bits))


def from_bits(f: Function, of: Element, bits: Value) -> Value:
    """Real lanes from the bits of elements: the inverse of `to_bits`."""
    if of.kind != "float":
        return bits
    stored = f.cast("zext", bits, I8) if of.bits < 8 else bits
    return decoded(f, of, f.bitcast(stored, vector(bits.type.lanes, of.storage)))


# --- memory ----------------------------------------------------------------------------------------------------------


def decoded(f: Function, of: Element, stored: Value) -> Value:
    """Real lanes from what memory has of them."""
    return of.decode(f, stored) if of.decode else stored


def _encoded(f: Function, of: Element, value: Value) -> Value:
    return of.encode(f, value) if of.encode else value


def interleave(f: Function, a: Value, b: Value) -> Value:
    """a0 b0 a1 b1 ..."""
    lanes = a.type.lanes
    if lanes == 1:
        return f.insert(f.insert(f.poison(vector(2, a.type.element)), a, 0), b, 1)
    return f.shuffle(a, b, [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)])


def widen_mask(f: Function, mask: Value, parts: int) -> Value:
    """Every lane `parts` times."""
    return f.shuffle(mask, mask, [lane // parts for lane in range(parts * mask.type.lanes)]) if parts > 1 else mask


def load(
    f: Function,
    of: Element,
    base: Value,
    offset: Index,
    lanes: int = 1,
    mask: Value | None = None,
    *,
    align: int | None = None,
) -> Lanes:
    """Lanes from consecutive elements at base + offset elements. Masked-off lanes are zero and touch no memory. The
    alignment, in bytes, is that of an element unless it is given."""
    if of.is_complex:
        return _load_complex(f, of, base, offset, lanes, mask)
    type_ = vector(lanes, of.storage)
    if mask is None:
        return decoded(f, of, f.load(type_, base, offset, align=align))
    if not isinstance(type_, VectorType):
        raise ValueError("a masked load needs a vector: clamp the offset of a scalar instead")
    return decoded(f, of, f.masked_load(type_, base, offset, mask, f.const(0, type_)))


def _load_complex(f: Function, of: Element, base: Value, offset: Index, lanes: int, mask: Value | None) -> Lanes:
    position = f.imul(offset, 2)
    if lanes == 1:
        return f.load(of.storage, base, position), f.load(of.storage, base, f.iadd(position, 1))
    type_ = VectorType(2 * lanes, of.storage)
    if mask is None:
        pairs = f.load(type_, base, position)
    else:
        pairs = f.masked_load(type_, base, position, widen_mask(f, mask, 2), f.const(0, type_))
    real = f.shuffle(pairs, pairs, range(0, 2 * lanes, 2))
    return real, f.shuffle(pairs, pairs, range(1, 2 * lanes, 2))


def store(
    f: Function,
    of: Element,
    value: Known,
    base: Value,
    offset: Index,
    mask: Value | None = None,
    *,
    nontemporal: bool = False,
    align: int | None = None,
) -> None:
    """Store lanes to consecutive elements at base + offset elements; only lanes whose mask is set, if there is one."""
    if of.is_complex:
        real, imaginary = value
        lanes, offset = real.type.lanes, f.imul(offset, 2)
        if lanes == 1:
            f.store(real, base, offset)
            f.store(imaginary, base, f.iadd(offset, 1))
            return
        stored = interleave(f, real, imaginary)
        mask = widen_mask(f, mask, 2) if mask else None
    else:
        stored = _encoded(f, of, value)
    f.store(stored, base, offset, mask, align=align, nontemporal=nontemporal)


def load_apart(
    f: Function, of: Element, base: Value, offset: Index, places: Sequence[int], mask: Value | None = None
) -> Value:
    """Lane i from base + offset + places[i] elements, real ones: vectors from the first place to the last, shuffled,
    which take a third of a gather's time. Lanes whose mask is off get anything, and touch no memory."""
    lanes, first = len(places), min(places)
    offset, places = f.iadd(offset, first), [place - first for place in places]
    span = max(places) + 1
    width = lanes if mask or span >= lanes else 1 << span.bit_length() - 1
    starts = [*range(0, span, width)]
    if mask is None:
        starts = [min(start, span - width) for start in starts]  # nothing behind the last place is read
    type_ = VectorType(width, of.storage)

    def part(start: int) -> Value:
        at = f.iadd(offset, start)
        if mask is None:
            return f.load(type_, base, at)
        return f.masked_load(
            type_, base, at, _read_from(f, mask, [place - start for place in places]), f.const(0, type_)
        )

    result = part(0)
    for number, start in enumerate(starts[1:], 1):
        other = part(start)
        chosen = []
        for lane, place in enumerate(places):
            if place >= number * width:  # from here, or from a later vector
                chosen.append(width + min(place - start, width - 1))
            else:
                chosen.append(place if number == 1 else lane)
        result = f.shuffle(result, other, chosen)
    return decoded(f, of, result if len(starts) > 1 else f.shuffle(result, result, places))


def _read_from(f: Function, mask: Value, places: Sequence[int]) -> Value:
    """Which elements of a vector are read by lanes whose mask is set, from these places, of which some lie in it."""
    lanes = len(places)
    readers = [[lane for lane, place in enumerate(places) if place == element] for element in range(lanes)]
    wanted = none = f.const(False, mask.type)
    for number in range(max(map(len, readers))):
        chosen = f.shuffle(mask, none, [each[number] if number < len(each) else lanes for each in readers])
        wanted = chosen if number == 0 else f.binary("or", wanted, chosen)
    return wanted


def load_each(f: Function, of: Element, base: Value, offset: Index, places: Sequence[int | None]) -> Lanes:
    """Lane i from base + offset + places[i] elements (complex ones: offset counts parts), lane by lane; 0 where there
    is no place."""
    type_, apart = VectorType(len(places), of.storage), 2 if of.is_complex else 1

    def part(number: int) -> Value:
        used = dict.fromkeys(place for place in places if place is not None)
        loaded = {place: f.load(of.storage, base, f.iadd(offset, place * apart + number)) for place in used}
        result = f.const(0, type_) if None in places else f.poison(type_)
        for lane, place in enumerate(places):
            result = result if place is None else f.insert(result, loaded[place], lane)
        return result

    return (part(0), part(1)) if of.is_complex else decoded(f, of, part(0))


def load_steps(f: Function, of: Element, base: Value, offset: Index, lanes: int, stride: Index) -> Lanes:
    """Lane i from base + offset + i * stride elements (complex ones: offset counts parts), lane by lane."""
    apart = 2 if of.is_complex else 1
    if not isinstance(stride, int):
        stride = f.index(stride)  # so multiples are no sizes of the program, which must not overflow

    def part(number: int) -> Value:
        places = [f.iadd(offset, f.iadd(f.imul(stride, lane * apart), number)) for lane in range(lanes)]
        return f.joined([f.load(of.storage, base, place) for place in places])

    return (part(0), part(1)) if of.is_complex else decoded(f, of, part(0))


def load_places(f: Function, of: Element, base: Value, offset: Index, places: Value, most: int) -> Lanes:
    """Lane i from base + offset + places[i] elements (complex ones: offset counts parts), lane by lane. Places are from
    0 to `most`, which 32 bits hold."""
    apart = 2 if of.is_complex else 1
    each_place = [f.imul(place, apart) for place in _each_place(f, places, most)]

    def part(number: int) -> Value:
        return f.joined([f.load(of.storage, base, f.iadd(place, f.iadd(offset, number))) for place in each_place])

    return (part(0), part(1)) if of.is_complex else decoded(f, of, part(0))


def _each_place(f: Function, places: Value, most: int) -> list[Value]:
    """Lanes of a vector, up to `most`. They leave it in words of as many as fit: to take one out of a vector is a cycle
    or two of the vector units, to shift a word is other units' work."""
    lanes = places.type.lanes
    bits = next(bits for bits in (8, 16, 32) if most < 1 << bits and lanes * bits >= 64)
    whole = f.bitcast(f.cast("trunc", places, {8: I8, 16: I16, 32: I32}[bits]), vector(lanes * bits // 64, I64))
    words = [f.extract(whole, number) for number in range(whole.type.lanes)] if whole.type.lanes > 1 else [whole]
    low = f.const((1 << bits) - 1, I64)
    found = []
    for word in words:
        for shift in range(0, 64, bits):
            shifted = f.binary("lshr", word, f.const(shift, I64)) if shift else word
            found.append(shifted if shift + bits == 64 else f.binary("and", shifted, low))
    return found


def alternating(f: Function, values: Sequence[Lanes], places: range) -> Lanes:
    """A vector of these places of real vectors that alternate: the first lanes of all, then the second ones ..."""
    if len(places) == 1:
        return values[places[0] % len(values)]
    result, lanes = values[0], len(places)
    for number, other in enumerate(values[1:], 1):
        assert isinstance(result, Value)
        assert isinstance(other, Value)
        # From the second step on what is there stays in its lanes.
        chosen = [
            lanes + place // len(values)
            if place % len(values) == number
            else (lane if number > 1 else place // len(values))
            for lane, place in enumerate(places)
        ]
        result = f.shuffle(result, other, chosen)
    return result


def gather(f: Function, of: Element, base: Value, offsets: Value, mask: Value | None = None) -> Lanes:
    """Lane i from base + offsets[i] elements. Masked-off lanes are zero and touch no memory."""
    type_ = VectorType(offsets.type.lanes, of.storage)
    zero = f.const(0, type_) if mask else None
    if of.is_complex:
        doubled = f.binary("shl", offsets, f.const(1, offsets.type))
        following = f.binary("or", doubled, f.const(1, offsets.type))
        return f.gather(type_, base, doubled, mask, zero), f.gather(type_, base, following, mask, zero)
    return decoded(f, of, f.gather(type_, base, offsets, mask, zero))


def scatter(f: Function, of: Element, value: Lanes, base: Value, offset: Index, stride: Index) -> None:
    """Store lane i at base + offset + i * stride elements, lane by lane."""
    for lane in range(lane_count(value)):
        one = each(lambda part, lane=lane: f.extract(part, lane) if part.type.lanes > 1 else part, value)
        store(f, of, one, base, f.iadd(offset, f.imul(stride, lane)))
