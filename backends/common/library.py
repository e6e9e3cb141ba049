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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stablehlo_py.backends.common.library_constants import find_constants
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.runtime.entry import CONSTANTS, FIELDS, NULL, OLD_CALL, SIZES, WORKSPACE
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
        functions.append(find_constants(program, interface, emitter))
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
