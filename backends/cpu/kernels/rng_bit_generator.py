"""Random bits: ThreeFry2x32 and Philox4x32 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3), in XLA's
order, so that bits and states agree with it. DEFAULT is Philox, as on XLA:CPU.

The state is ui64[2] (key, counter), or ui64[3] for Philox (key, low and high half of the counter); the short Philox
state takes the key as the high half. Counter c gives two (ThreeFry) or four (Philox) words of 32 bits. Elements of 64
bits take two words, the low one first; narrower ones the low bits of one word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.builder import I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.types import ELEMENTS, Known, element
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import element_type, shape, text, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_STATE = ELEMENTS["ui64"]


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """A phase over groups of counters, and one for the new state."""
    op = fusion.op("hlo.rng_bit_generator")
    philox = text(op, "algorithm") != "THREE_FRY"
    check(op, philox)
    sizes, bits = shape(op.results[1]), element(op.results[1]).bits
    layout = Layout.of(sizes, bits, 4 if philox else 2)
    parts = []
    outputs = {value: f"out{number}" for number, value in enumerate(fusion.outputs)}
    if op.results[1] in outputs and layout.counters:
        f = phase_function(fusion, target, ".bits")
        _emit_bits(f, operand(f, fusion, op.operands[0]), f.parameters[outputs[op.results[1]]], op, layout, target)
        parts.append(phase(f, -(-layout.counters // target.lanes(32)), 60.0))
    if op.results[0] in outputs:
        f = phase_function(fusion, target, ".state")
        _emit_state(f, operand(f, fusion, op.operands[0]), f.parameters[outputs[op.results[0]]], op, layout.counters)
        parts.append(phase(f, 1, 10.0))
    return Kernel.of(*parts)


def check(op: ir.OpView, philox: bool) -> None:
    """Refuse states and types of elements that have no meaning. Raises UnsupportedError."""
    state, bits = op.operands[0], element(op.results[1])
    length = shape(state)[0]
    if str(element_type(state)) != "ui64" or length not in ((2, 3) if philox else (2,)):
        raise UnsupportedError(
            f"{text(op, 'algorithm')} with a state of type {state.type}",
            op=op.operation.name,
            location=user_location(op.location),
            remedy=f"use a state of type tensor<2xui64>{' or tensor<3xui64>' if philox else ''}",
        )
    if bits.is_complex:
        raise UnsupportedError(
            f"random bits of element type {bits.name}",
            op=op.operation.name,
            location=user_location(op.location),
            remedy="draw ui32 or ui64, and bitcast_convert",
        )


@dataclass(frozen=True)
class Layout:
    """Which words become which elements.

    Attributes:
        counters: how many are used; the state grows by as much.
        words: words that one gives.
        kept: words that are kept, in order, where the result is simply the sequence of words; else None.
        outer, size, half, inner: else, the result is [outer, size, inner], and words 0 and 1 of counter
            (o half + h) inner + i are its elements (o, 2h, i) and (o, 2h + 1, i).
    """

    counters: IntLike
    words: int
    kept: IntLike | None
    outer: IntLike = 1
    size: IntLike = 1
    half: IntLike = 1
    inner: IntLike = 1

    @staticmethod
    def of(sizes: tuple[IntLike, ...], bits: int, words: int) -> Layout:
        """XLA's layout (xla/hlo/builder/lib/prng.cc): ThreeFry halves the first even dimension, else the largest."""
        count = math.prod(sizes)
        kept = count * (2 if bits == 64 else 1)
        if words == 4 or bits == 64 or not sizes:
            return Layout(-(-kept // words), words, kept)
        even = [d for d, size in enumerate(sizes) if size % 2 == 0]
        split = even[0] if even else max(range(len(sizes)), key=lambda d: (sizes[d], -d))
        outer, size, inner = math.prod(sizes[:split]), sizes[split], math.prod(sizes[split + 1 :])
        half = -(-size // 2)
        if inner == 1 and (size % 2 == 0 or outer == 1):
            return Layout(outer * half, words, kept)
        return Layout(outer * half * inner, words, None, outer, size, half, inner)


def _load_state(f: Function, state: Value, number: int) -> Value:
    value: Known = types.load(f, _STATE, state, number)
    return value


def _emit_state(f: Function, state: Value, out: Value, op: ir.OpView, counters: IntLike) -> None:
    key, low = _load_state(f, state, 0), _load_state(f, state, 1)
    grown = f.binary("add", low, f.index(counters))
    f.store(key, out, 0)
    f.store(grown, out, 1)
    if shape(op.operands[0])[0] == 3:
        carry = f.cast("zext", f.cmp("ult", grown, low), I64)
        f.store(f.binary("add", _load_state(f, state, 2), carry), out, 2)


def _emit_bits(f: Function, state: Value, out: Value, op: ir.OpView, layout: Layout, target: CpuTarget) -> None:
    lanes, philox = target.lanes(32), layout.words == 4
    bits = element(op.results[1]).bits
    key, low = _load_state(f, state, 0), _load_state(f, state, 1)
    high = (_load_state(f, state, 2) if shape(op.operands[0])[0] == 3 else key) if philox else None
    width = min(max(bits, 8), 32)  # elements below a byte are the low bits of one
    stored = ScalarType(f"i{width}", width)
    buffer = f.alloca(lanes * layout.words, stored)

    def group(number: Value) -> None:
        first = f.imul(number, lanes)
        counter = f.binary("add", f.splat(f.binary("add", low, f.index(first)), lanes), f.lane_ids(lanes))
        if high is None:
            words = three_fry(f, key, counter)
        else:
            carry = f.cast("zext", f.cmp("ult", counter, f.splat(low, lanes)), I64)
            words = philox_4x32(f, key, counter, f.binary("add", f.splat(high, lanes), carry))
        words = [f.cast("trunc", word, stored) if bits < 32 else word for word in words]
        if bits < 8:
            words = [f.binary("and", word, f.const((1 << bits) - 1, word.type)) for word in words]
        if layout.kept is None:
            _scatter(f, words, buffer, out, first, layout)
            return
        sequence, at = _interleaved(f, words), f.imul(first, layout.words)

        def put(to: Value, at: Index) -> None:
            for number, part in enumerate(sequence):
                f.store(part, to, f.iadd(at, number))

        def some() -> None:
            put(buffer, 0)
            left = f.imul(f.isub(layout.kept or 0, at), stored.bits // 8)
            f.copy_memory(f.gep(out, at, stored), buffer, left)

        whole = f.cmp("sle", f.index(f.iadd(at, lanes * layout.words)), f.index(layout.kept))
        f.if_(whole, lambda: put(out, at), some)

    f.loop(f.begin, f.end, 1, group)


def _interleaved(f: Function, words: list[Value]) -> list[Value]:
    """Word 0 of lane 0, word 1 of lane 0, ..., word 0 of lane 1, ...: one vector, or the words of one lane."""
    lanes = words[0].type.lanes
    if lanes == 1:
        return words
    pairs = [types.interleave(f, a, b) for a, b in zip(words[0::2], words[1::2], strict=True)]
    if len(pairs) == 1:
        return pairs
    order = [2 * (i // 4) + i % 2 + 2 * lanes * (i % 4 // 2) for i in range(4 * lanes)]
    return [f.shuffle(pairs[0], pairs[1], order)]


def _scatter(f: Function, words: list[Value], buffer: Value, out: Value, first: Index, layout: Layout) -> None:
    """Store words lane by lane where they belong in the result."""
    lanes, stored = words[0].type.lanes, words[0].type.element
    for number, word in enumerate(words):
        f.store(word, buffer, number * lanes)

    def one(lane: Value) -> None:
        counter = f.iadd(first, lane)
        i, rest = f.irem(counter, layout.inner), f.idiv(counter, layout.inner)
        h, outer = f.irem(rest, layout.half), f.idiv(rest, layout.half)
        for number in range(2):
            place = f.iadd(f.imul(h, 2), number)
            at = f.iadd(f.imul(f.iadd(f.imul(outer, layout.size), place), layout.inner), i)
            value = f.load(stored, buffer, f.iadd(lane, number * lanes))

            def put(value: Value = value, at: Index = at) -> None:
                f.store(value, out, at)

            f.if_(f.cmp("slt", f.index(place), f.const(layout.size)), put)

    f.loop(0, f.imin(f.isub(layout.counters, first), lanes), 1, one)


def _words_of(f: Function, value: Value) -> tuple[Value, Value]:
    """Low and high 32 bits of lanes of i64."""
    return f.cast("trunc", value, I32), f.cast("trunc", f.binary("lshr", value, f.const(32, value.type)), I32)


def three_fry(f: Function, key: Value, counter: Value) -> list[Value]:
    """ThreeFry2x32, 20 rounds. Key: i64; counter: lanes of i64; result: two words per lane."""
    lanes = counter.type.lanes
    low, high = _words_of(f, key)
    parity = f.binary("xor", f.binary("xor", low, high), f.const(_PARITY, I32))
    keys = [f.splat(word, lanes) for word in (low, high, parity)]
    x, y = (f.binary("add", word, k) for word, k in zip(_words_of(f, counter), keys, strict=False))
    for block in range(5):
        for distance in _ROTATIONS[block % 2]:
            x = f.binary("add", x, y)
            y = f.binary("xor", f.intrinsic("fshl", y, y, f.const(distance, y.type)), x)
        x = f.binary("add", x, keys[(block + 1) % 3])
        y = f.binary("add", f.binary("add", y, keys[(block + 2) % 3]), f.const(block + 1, y.type))
    return [x, y]


def philox_4x32(f: Function, key: Value, low: Value, high: Value) -> list[Value]:
    """Philox4x32, 10 rounds. Key: i64; low and high half of the counter: lanes of i64; result: four words per lane."""
    lanes = low.type.lanes
    keys = list(_words_of(f, key))
    words = [*_words_of(f, low), *_words_of(f, high)]
    for _ in range(10):
        products = []
        for word, factor in zip(words[0::2], _PHILOX_FACTORS, strict=True):
            wide = f.cast("zext", word, I64)
            products.append(_words_of(f, f.binary("mul", wide, f.const(factor, wide.type))))
        (low0, high0), (low1, high1) = products
        first = f.binary("xor", f.binary("xor", high1, words[1]), f.splat(keys[0], lanes))
        third = f.binary("xor", f.binary("xor", high0, words[3]), f.splat(keys[1], lanes))
        words = [first, low1, third, low0]
        keys = [f.binary("add", k, f.const(weyl, I32)) for k, weyl in zip(keys, _PHILOX_WEYL, strict=True)]
    return words
