"""A model as a library: the functions that its header declares, around the program's own entry (program.py).

What they do is the same for every target, so they are written in the kernel language, as kernels are:

    int    M_call(const shlo_call *call)           the entry, which brings its constants along
    int    M(dims, arguments, results, workspace)  a plain function
    int64  M_workspace_bytes(dims)                 what it needs
    int    M_constants(file, bytes, table)         where the constants lie in a file (`Interface.constants`)
    int64  M_threads_start(memory, threads)        threads of its own (`Interface.threads`)
    void   M_threads_stop(memory)
    void   M_parallel_for(memory, task, ...)

None of them allocates, keeps or prints anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.runtime.entry import CONSTANTS, FIELDS, NULL, OK, OLD_CALL, SIZES, WORKSPACE
from stablehlo_py.runtime.library import Interface
from stablehlo_py.runtime.program import CompiledProgram, DynamicSymbol, Spec

ALIGNMENT = 64  # of the workspace


@dataclass(frozen=True)
class Signature:
    """The parameters of a plain function, in order: dimensions, arguments, those results that have memory of their own.

    Attributes:
        dimensions: the dynamic dimensions that a call has to say, None where there are none.
        aliases: (result, argument) pairs: the result is written into the argument's memory.
    """

    dimensions: tuple[DynamicSymbol, ...]
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    aliases: dict[int, int]

    @classmethod
    def of(cls, program: CompiledProgram) -> Signature:
        """That of a program."""
        symbols = program.dynamic.symbols if program.dynamic else ()
        return cls(_dimensions(symbols), program.inputs, program.outputs, dict(program.donations))

    @cached_property
    def own_results(self) -> tuple[int, ...]:
        """The numbers of the results that have memory of their own."""
        return tuple(number for number in range(len(self.outputs)) if number not in self.aliases)


def _dimensions(symbols: Sequence[DynamicSymbol]) -> tuple[DynamicSymbol, ...]:
    """One symbol for each dimension of an argument, however many symbols are worked out from it."""
    found: dict[tuple[int, int], DynamicSymbol] = {}
    for symbol in symbols:
        if symbol.of_shape:
            found.setdefault((symbol.argument, symbol.position), symbol)
    return tuple(found.values())


def dimension_of(signature: Signature, symbol: DynamicSymbol) -> int:
    """Which of the signature's dimensions a symbol is worked out from."""
    places = [(each.argument, each.position) for each in signature.dimensions]
    return places.index((symbol.argument, symbol.position))


def library_functions(program: CompiledProgram, interface: Interface, emitter: Callable[[], Emitter]) -> list[Function]:
    """The functions of a program's library, which call `shlo_main`, `shlo_sizes` and, with threads of its own, those of
    a pool."""
    signature = Signature.of(program)
    functions = [_call(program, interface, emitter), _plain(program, signature, interface, emitter)]
    functions.append(_workspace_bytes(program, signature, interface, emitter))
    if program.dynamic is not None:
        functions.append(_sizes(interface, emitter))
    if interface.constants == "file":
        functions.append(_find_constants(program, interface, emitter))
    if interface.threads == "own":
        functions += _threads(interface, emitter)
    return functions


# --- the entry --------------------------------------------------------------------------------------------------------


def _call(program: CompiledProgram, interface: Interface, emitter: Callable[[], Emitter]) -> Function:
    """The entry: a call that brings no constants and no interrupt gets those of the library."""
    f = Function(f"{interface.name}_call", [("caller", PTR)], emitter(), result=I32)
    width = f.emit.alignment(PTR)
    size = f.cast("ptrtoint", f.load(PTR, f.caller), I64)
    f.ret_if(f.cmp("ult", size, f.const(len(FIELDS) * width)), f.const(OLD_CALL, I32))
    own = f.alloca(len(FIELDS), PTR)
    f.copy_memory(own, f.caller, len(FIELDS) * width)
    if program.constants and interface.constants == "embed":
        _default(f, own, "constants", lambda: f.address_of(interface.constant_table))
    elif program.constants:
        f.ret_if(f.is_null(_field(f, own, "constants")), f.const(CONSTANTS, I32))
    if program.loops:
        never = _never(f)
        _default(f, own, "interrupt", lambda: never)
    if interface.threads == "off":
        f.store(f.null(), own, FIELDS.index("parallel_for"))
    f.ret(f.call("shlo_main", [own], I32))
    return f


def _field(f: Function, call: Value, name: str) -> Value:
    return f.load(PTR, call, FIELDS.index(name))


def _default(f: Function, call: Value, name: str, value: Callable[[], Value]) -> None:
    """Fill in a field of a call that is null."""
    f.if_(f.is_null(_field(f, call, name)), lambda: f.store(value(), call, FIELDS.index(name)))


def _never(f: Function) -> Value:
    """A block that never ends loops."""
    block = f.alloca(2, I64)
    f.set_memory(block, 0, 16)
    return block


# --- the plain function -----------------------------------------------------------------------------------------------


def _plain(
    program: CompiledProgram, signature: Signature, interface: Interface, emitter: Callable[[], Emitter]
) -> Function:
    parameters = [(f"d{number}", I64) for number in range(len(signature.dimensions))]
    parameters += [(f"a{number}", PTR) for number in range(len(signature.inputs))]
    parameters += [(f"r{number}", PTR) for number in signature.own_results]
    parameters += [("workspace", PTR), ("workspace_bytes", I64)]
    if program.constants and interface.constants == "file":
        parameters.append(("constants", PTR))
    if interface.threads != "off":
        parameters.append(("threads", PTR))
    f = Function(interface.name, parameters, emitter(), result=I32)
    given = f.parameters
    inputs = [given[f"a{number}"] for number in range(len(signature.inputs))]
    results = {number: given[f"r{number}"] for number in signature.own_results}
    used = [a for a, spec in zip(inputs, signature.inputs, strict=True) if holds_anything(spec)]
    used += [given for number, given in results.items() if holds_anything(signature.outputs[number])]
    _refuse_null(f, used)
    table, needed = _table(f, program, signature, inputs)
    _refuse_workspace(f, needed)
    call = f.alloca(len(FIELDS), PTR)
    f.set_memory(call, 0, len(FIELDS) * f.emit.alignment(PTR))
    outputs = [results[n] if n in results else inputs[signature.aliases[n]] for n in range(len(signature.outputs))]
    fields = {
        "size": f.cast("inttoptr", f.const(len(FIELDS) * f.emit.alignment(PTR)), PTR),
        "inputs": _pointers(f, inputs),
        "outputs": _pointers(f, outputs),
        "workspace": f.workspace,
    }
    if table is not None:
        fields["sizes"] = table
    if "constants" in given:
        fields["constants"] = f.constants
    for name, value in fields.items():
        f.store(value, call, FIELDS.index(name))
    if "threads" in given:
        _lend(f, call)
    f.ret(f.call(f"{interface.name}_call", [call], I32))
    return f


def holds_anything(spec: Spec) -> bool:
    """Whether a tensor of a known shape has an element: where it has none, and where that is not known, its address may
    be null."""
    return None not in spec.shape and 0 not in spec.shape


def _refuse_null(f: Function, pointers: Sequence[Value]) -> None:
    if not pointers:
        return
    missing = f.is_null(pointers[0])
    for pointer in pointers[1:]:
        missing = f.binary("or", missing, f.is_null(pointer))
    f.ret_if(missing, f.const(NULL, I32))


def _refuse_workspace(f: Function, needed: Value) -> None:
    """What is too small, or lies at an address that vectors cannot be at."""
    none = f.cmp("eq", needed, f.const(0))
    short = f.cmp("slt", f.workspace_bytes, needed)
    address = f.cast("ptrtoint", f.workspace, I64)
    odd = f.cmp("ne", f.binary("and", address, f.const(ALIGNMENT - 1)), f.const(0))
    wrong = f.binary("or", short, f.binary("or", odd, f.cmp("eq", address, f.const(0))))
    f.ret_if(f.select(none, f.cmp("ne", needed, needed), wrong), f.const(WORKSPACE, I32))


def _pointers(f: Function, pointers: Sequence[Value]) -> Value:
    table = f.alloca(max(1, len(pointers)), PTR)
    for number, pointer in enumerate(pointers):
        f.store(pointer, table, number)
    return table


def _lend(f: Function, call: Value) -> None:
    """The caller's threads, where there are any: a shlo_threads is a parallel_for and its context."""

    def take() -> None:
        for number, name in enumerate(("parallel_for", "parallel_context")):
            f.store(f.load(PTR, f.threads, number), call, FIELDS.index(name))

    f.if_(f.cmp("ne", f.cast("ptrtoint", f.threads, I64), f.const(0)), take)


def _table(
    f: Function, program: CompiledProgram, signature: Signature, inputs: Sequence[Value]
) -> tuple[Value | None, Value]:
    """The filled table of sizes of a call, if there is one; and the bytes of workspace that it needs. Returns from the
    function where the sizes do not fit the model."""
    layout = program.dynamic
    if layout is None:
        return None, f.const(program.arena_bytes)
    symbols, table = f.alloca(max(1, len(layout.symbols)), I64), f.alloca(layout.slots + 1, I64)
    for number, symbol in enumerate(layout.symbols):
        f.store(_symbol(f, symbol, signature, inputs), symbols, number)
    f.call("shlo_sizes", [symbols, table])
    f.ret_if(f.cmp("ne", f.load(I64, table, layout.slots), f.const(1)), f.const(SIZES, I32))
    needed = layout.arena_bytes
    return table, f.const(needed) if needed >= 0 else f.load(I64, table, -1 - needed)


def _symbol(f: Function, symbol: DynamicSymbol, signature: Signature, inputs: Sequence[Value]) -> Value:
    """The value of a symbol in a call."""
    if symbol.of_shape:
        value = f.parameters[f"d{dimension_of(signature, symbol)}"]
    else:
        value = _integer(f, inputs[symbol.argument], symbol.position, signature.inputs[symbol.argument].dtype)
    return value if symbol.divisor == 1 else f.binary("sdiv", value, f.const(symbol.divisor))


def _integer(f: Function, base: Value, position: int, dtype: np.dtype) -> Value:
    """An element of an argument of integers, as an i64."""
    types = {1: I8, 4: I32, 8: I64}
    if dtype.itemsize == 2:
        low, high = (f.cast("zext", f.load(I8, base, 2 * position + part), I64) for part in (0, 1))
        joined = f.binary("or", low, f.binary("shl", high, f.const(8)))
        up = f.binary("shl", joined, f.const(48))
        return f.binary("lshr" if dtype.kind == "u" else "ashr", up, f.const(48))
    loaded = f.load(types[dtype.itemsize], base, position)
    return f.cast("zext" if dtype.kind in "ub" else "sext", loaded, I64)


# --- sizes ------------------------------------------------------------------------------------------------------------


def _workspace_bytes(
    program: CompiledProgram, signature: Signature, interface: Interface, emitter: Callable[[], Emitter]
) -> Function:
    """Bytes of workspace of a call; below 0: these dimensions do not fit the model. Values of arguments that sizes
    depend on are given behind the dimensions, in the order of the arguments."""
    values = value_symbols(program)
    parameters = [(f"d{number}", I64) for number in range(len(signature.dimensions))]
    parameters += [(f"v{number}", I64) for number in range(len(values))]
    f = Function(f"{interface.name}_workspace_bytes", parameters, emitter(), result=I64)
    layout = program.dynamic
    if layout is None:
        f.ret(f.const(program.arena_bytes))
        return f
    symbols, table = f.alloca(max(1, len(layout.symbols)), I64), f.alloca(layout.slots + 1, I64)
    for number, symbol in enumerate(layout.symbols):
        if symbol.of_shape:
            value = _symbol(f, symbol, signature, ())
        else:
            value = f.parameters[f"v{values.index((symbol.argument, symbol.position))}"]
            value = value if symbol.divisor == 1 else f.binary("sdiv", value, f.const(symbol.divisor))
        f.store(value, symbols, number)
    f.call("shlo_sizes", [symbols, table])
    f.ret_if(f.cmp("ne", f.load(I64, table, layout.slots), f.const(1)), f.const(-1))
    needed = layout.arena_bytes
    f.ret(f.const(needed) if needed >= 0 else f.load(I64, table, -1 - needed))
    return f


def value_symbols(program: CompiledProgram) -> list[tuple[int, int]]:
    """(argument, element) of the numbers in arguments that sizes are worked out from."""
    symbols = program.dynamic.symbols if program.dynamic else ()
    return list(dict.fromkeys((each.argument, each.position) for each in symbols if not each.of_shape))


def _sizes(interface: Interface, emitter: Callable[[], Emitter]) -> Function:
    f = Function(f"{interface.name}_sizes", [("symbols", PTR), ("table", PTR)], emitter())
    f.call("shlo_sizes", [f.symbols, f.table])
    f.ret()
    return f


# --- constants in a file ----------------------------------------------------------------------------------------------

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


def _find_constants(program: CompiledProgram, interface: Interface, emitter: Callable[[], Emitter]) -> Function:
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


# --- threads of its own -----------------------------------------------------------------------------------------------


def _threads(interface: Interface, emitter: Callable[[], Emitter]) -> list[Function]:
    """Start and stop a pool in the caller's memory, and hand work to it. A call that finds it at work for another works
    alone, with the same result."""
    name = interface.name
    start = Function(f"{name}_threads_start", [("memory", PTR), ("threads", I64)], emitter(), result=I64)
    threads = start.index(start.imin(start.imax(start.threads, 1), interface.most_threads))
    start.ret(start.binary("add", start.call("shlo_pool_start", [start.memory, threads], I64), start.const(1)))
    stop = Function(f"{name}_threads_stop", [("memory", PTR)], emitter())
    stop.call("shlo_pool_stop", [stop.memory])
    stop.ret()
    parameters = [("memory", PTR), ("task", PTR), ("context", PTR), ("iterations", I64), ("chunk", I64)]
    run = Function(f"{name}_parallel_for", parameters, emitter())
    run.call("shlo_pool_try", [run.memory, run.task, run.context, run.iterations, run.chunk])
    run.ret()
    return [start, stop, run]
