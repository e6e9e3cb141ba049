"""Constants of a library in a file of their own, in the safetensors format: the function that finds them there. Their
names in the file are hashes of their contents (`stablehlo_py/aot/side_file.py` writes it)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.runtime.entry import CONSTANTS, OK
from stablehlo_py.runtime.library import Interface
from stablehlo_py.runtime.program import CompiledProgram

_START, _STEP, _MIX, _SPREAD = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93
# For each constant: the two halves of the 16 hex digits of its hash, as text; the hash; its size; its alignment.
KEY_COLUMNS = 5


def content_hash(data: bytes | memoryview) -> int:
    """A hash of 64 bits that finds damage and mistakes (not malice): a sum over words of 8 bytes, the last one filled
    up with zeros, of a number mixed from the word and its position. Generated code computes the same."""
    size = len(data)
    words = np.frombuffer(bytes(data[: size - size % 8]), np.uint64)
    rest = bytes(data[size - size % 8 :])
    if rest:
        words = np.append(words, np.frombuffer(rest.ljust(8, b"\0"), np.uint64))
    with np.errstate(over="ignore"):
        position = (np.arange(len(words), dtype=np.uint64) + np.uint64(1)) * np.uint64(_STEP)
        mixed = (words ^ position) * np.uint64(_MIX)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(_SPREAD)
        return (int(mixed.sum(dtype=np.uint64)) + _START + size) % (1 << 64)


def constant_keys(constants: Sequence[np.ndarray]) -> np.ndarray:
    """The table that `Interface.constant_keys` names: (constants, KEY_COLUMNS) i64."""
    rows = []
    for array in constants:
        number = content_hash(np.ascontiguousarray(array).tobytes())
        halves = np.frombuffer(f"{number:016x}".encode(), np.int64)
        alignment = math.gcd(array.dtype.itemsize, 16)
        rows.append([*map(int, halves), number - (1 << 64) * (number >> 63), array.nbytes, alignment])
    return np.array(rows, np.int64).reshape(-1, KEY_COLUMNS)


def find_constants(program: CompiledProgram, interface: Interface, emitter: Callable[[], Emitter]) -> Function:
    """The addresses of the constants in a file in the safetensors format (8 bytes with the size of a header in JSON,
    the header, the data), each found by the hash in its name, and checked by it."""
    f = Function(f"{interface.name}_constants", [("file", PTR), ("bytes", I64), ("table", PTR)], emitter(), result=I32)
    wrong = f.const(CONSTANTS, I32)
    if not program.constants:
        f.ret(f.const(OK, I32))
        return f
    f.ret_if(f.binary("or", f.is_null(f.file), f.cmp("slt", f.bytes, f.const(8))), wrong)
    header, begin = f.load(I64, f.file, align=1), f.gep(f.file, 8, I8)
    f.ret_if(f.cmp("ugt", header, f.binary("sub", f.bytes, f.const(8))), wrong)
    data, room = f.gep(begin, header, I8), f.binary("sub", f.binary("sub", f.bytes, f.const(8)), header)
    keys = f.address_of(interface.constant_keys)

    def find(number: Value) -> None:
        row = f.gep(keys, f.imul(number, KEY_COLUMNS), I64)
        first, second, hash_, size, alignment = (f.load(I64, row, column) for column in range(KEY_COLUMNS))
        at = _search(f, begin, header, f.const(0), (first, second))
        f.ret_if(f.cmp("slt", at, f.const(0)), wrong)
        at = _search(f, begin, header, at, _words('"data_offsets":[', f))
        f.ret_if(f.cmp("slt", at, f.const(0)), wrong)
        offset = _number(f, begin, header, f.binary("add", at, f.const(16)))
        f.ret_if(f.cmp("ugt", offset, room), wrong)
        f.ret_if(f.cmp("ugt", size, f.binary("sub", room, offset)), wrong)
        address = f.gep(data, offset, I8)
        odd = f.binary("and", f.cast("ptrtoint", address, I64), f.binary("sub", alignment, f.const(1)))
        f.ret_if(f.cmp("ne", odd, f.const(0)), wrong)
        f.ret_if(f.cmp("ne", _hash(f, address, size), hash_), wrong)
        f.store(address, f.table, number)

    f.loop(0, len(program.constants), 1, lambda number: find(f.index(number)))
    f.ret(f.const(OK, I32))
    return f


def _words(text: str, f: Function) -> tuple[Value, Value]:
    """The halves of a text of 16 bytes as numbers, for `_search`."""
    first, second = np.frombuffer(text.encode(), np.int64)
    return f.const(int(first)), f.const(int(second))


def _search(f: Function, begin: Value, size: Value, start: Value, words: tuple[Value, Value]) -> Value:
    """Where 16 bytes stand in a text, from a position on; below 0: nowhere."""
    last = f.binary("sub", size, f.const(16))

    def differs(at: Value) -> Value:
        differences = [
            f.binary("xor", f.load(I64, f.gep(begin, f.binary("add", at, f.const(8 * n)), I8), align=1), word)
            for n, word in enumerate(words)
        ]
        return f.cmp("ne", f.binary("or", *differences), f.const(0))

    # `found` is -1 while there is something to look at, -2 at the end.
    def trip(at: Value, found: Value) -> list[Value]:
        past = f.cmp("sgt", at, last)

        def look() -> Value:
            return f.select(differs(at), found, at)

        found = f.if_(past, lambda: f.const(-2), look)[0]
        return [f.binary("add", at, f.const(1)), found]

    unknown = f.const(-1)
    _, found = f.while_([start, unknown], lambda at, found: f.cmp("eq", found, f.const(-1)), trip)
    return found


def _number(f: Function, begin: Value, size: Value, at: Value) -> Value:
    """The first decimal number behind a position."""

    def digit(at: Value) -> Value:
        """Its value, above 9 for other characters; a digit of 0 behind the end."""
        inside = f.cmp("slt", at, size)
        safe = f.select(inside, at, f.const(0))
        code = f.binary("sub", f.cast("zext", f.load(I8, begin, safe), I64), f.const(ord("0")))
        return f.select(inside, code, f.const(-1))

    def is_digit(value: Value) -> Value:
        return f.cmp("ult", value, f.const(10))

    (first,) = f.while_(
        [at],
        lambda at: f.binary("and", f.cmp("slt", at, size), f.cmp("uge", digit(at), f.const(10))),
        lambda at: [f.binary("add", at, f.const(1))],
    )

    def more(at: Value, total: Value) -> list[Value]:
        total = f.binary("add", f.binary("mul", total, f.const(10)), digit(at))
        return [f.binary("add", at, f.const(1)), total]

    _, total = f.while_([first, f.const(0)], lambda at, total: is_digit(digit(at)), more)
    return total


def _hash(f: Function, address: Value, size: Value) -> Value:
    """`content_hash` of so many bytes."""
    whole = f.binary("lshr", size, f.const(3))

    def mixed(word: Value, number: Value) -> Value:
        position = f.binary("mul", f.binary("add", number, f.const(1)), f.const(_signed(_STEP)))
        value = f.binary("mul", f.binary("xor", word, position), f.const(_signed(_MIX)))
        return f.binary("mul", f.binary("xor", value, f.binary("lshr", value, f.const(32))), f.const(_signed(_SPREAD)))

    def add(number: Value, total: Value) -> list[Value]:
        number = f.index(number)
        word = f.load(I64, f.gep(address, f.imul(number, 8), I8), align=1)
        return [f.binary("add", total, mixed(word, number))]

    start = f.binary("add", size, f.const(_signed(_START)))
    (total,) = f.loop(0, whole, 1, add, [start])
    done = f.binary("shl", whole, f.const(3))

    def byte(number: Value, word: Value) -> list[Value]:
        number = f.index(number)
        value = f.cast("zext", f.load(I8, address, f.iadd(done, number)), I64)
        return [f.binary("or", word, f.binary("shl", value, f.index(f.imul(number, 8))))]

    rest = f.binary("sub", size, done)
    (word,) = f.loop(0, rest, 1, byte, [f.const(0)])
    is_rest = f.cmp("ne", rest, f.const(0))
    return f.select(is_rest, f.binary("add", total, mixed(word, whole)), total)


def _signed(number: int) -> int:
    return number - (1 << 64) * (number >> 63)
