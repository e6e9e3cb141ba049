"""From text to machine code: compiled in shards over threads.

LLVM IR is parsed and compiled by LLVM, text of the llvm dialect parsed and translated by MLIR before, without the GIL;
each thread has a context of its own.
LLVM's code generator (code_generator.py) makes an object file, or an ExecutionEngine where that is not to be had. It is
what is cached, saved, and loaded (native.py), so a program from disk is loaded in the same way as one just compiled.
"""

from __future__ import annotations

import ctypes
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property

from stablehlo_py import forks
from stablehlo_py.backends.cpu.code_generator import code_generator
from stablehlo_py.backends.cpu.elf import ObjectFile
from stablehlo_py.backends.cpu.known_objects import KnownObjects
from stablehlo_py.backends.cpu.split import function_object, remaining_object, section_of
from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.emitters.llvm_ir import LlvmIrEmitter
from stablehlo_py.errors import InternalError
from stablehlo_py.interrupts import checkpoint, deferred
from stablehlo_py.mlir import CApi, capi, ir
from stablehlo_py.options import available_threads

# Shards grow, in lines: the first are small, so that threads begin while kernels are being written. Later ones hold
# twice as much as the one before, up to the last number.
FIRST_LINES, MOST_LINES = 200, 1_500
LEAST_LINES = 200  # of shards that threads share in the end
# LLVM takes 20 to 25 us for a line, and for a shard, whatever it holds, as long as for so many (docs/decisions.md).
SHARD_LINES = 100
WRITTEN = 0.4  # lines that a thread compiles while one is written
# With one processor nothing is won by beginning early. Not all in one shard: nobody answers Ctrl-C while LLVM works.
ALONE_LINES = 10_000


@dataclass(frozen=True)
class Unit:
    """Some functions in llvm-dialect text, and declarations of what they call elsewhere (name -> text). One that
    `is_common` is a function by itself that other programs have, too: it gets an object file of its own. `is_ir`: text
    and declarations are LLVM IR, which only a code generator reads (code_generator.py)."""

    symbols: tuple[str, ...]
    text: str
    externals: tuple[tuple[str, str], ...] = ()
    is_common: bool = False
    is_ir: bool = False

    @cached_property
    def size(self) -> int:
        """Lines of its code, by which the time that LLVM takes is estimated."""
        return self.text.count("\n") + 1

    @classmethod
    def of(cls, *functions: Function) -> Unit:
        """Of finished functions."""
        externals = {name: text for function in functions for name, text in function.externals.items()}
        texts = [function.text() for function in functions]
        is_ir = all(isinstance(function.emit, LlvmIrEmitter) for function in functions)
        symbols = tuple(function.name for function in functions)
        return cls(symbols, "\n".join(texts), tuple(externals.items()), is_ir=is_ir)


def render(units: Iterable[Unit]) -> str:
    """One module's text: every declaration once, none of what is defined here."""
    units = list(units)
    defined = {symbol for unit in units for symbol in unit.symbols}
    declared = {name: text for unit in units for name, text in unit.externals if name not in defined}
    return "\n".join([*declared.values(), *(unit.text for unit in units)])


class _ShortTurns:
    """Meanwhile, threads that wait for the interpreter get it within a tenth of a millisecond, not five: between two
    calls of LLVM a thread needs it ten times, while another one writes kernels. For the whole process. Thread-safe."""

    SECONDS = 1e-4

    def __init__(self) -> None:
        self._lock = forks.Lock()
        self._users = 0
        self._before = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._users:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, self.SECONDS))
            self._users += 1

    def end(self) -> None:
        """As often as `begin`."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._before)


_short_turns = _ShortTurns()


class ObjectCompiler:
    """Compiles units while more are being generated: `add` as they come, `finish` for the object files. The calling
    thread is one of the `threads`, from `finish` on, and compiles in its own `context`: alone what fits into one shard.

    Raises (from `finish`):
        InternalError: LLVM or MLIR refused the generated code.
    """

    def __init__(self, threads: int, context: ir.Context) -> None:
        self._context = context
        self._queue: queue.SimpleQueue[tuple[int, list[Unit]] | None] = queue.SimpleQueue()
        self._objects: dict[int, list[bytes]] = {}
        self._failures: list[BaseException] = []
        self._pending: list[Unit] = []
        self._pending_size = 0
        self._ahead = 0.0  # lines that threads have to do yet, by estimates: shards must not depend on the clock
        self._lines: list[int] = []  # of each shard
        is_alone = available_threads() == 1
        self._full, self._fullest = (ALONE_LINES,) * 2 if is_alone else (FIRST_LINES, MOST_LINES)
        self._stop = False
        self._ended: list[int] = []  # threads that are through
        self._ending: queue.SimpleQueue[None] = queue.SimpleQueue()  # a word from each of them
        self._wanted_threads = min(threads, available_threads())
        self._threads: list[threading.Thread] = []

    def add(self, unit: Unit) -> None:
        """Hand over a unit; it is compiled with others in one shard."""
        self._pending.append(unit)
        self._pending_size += unit.size
        if not unit.is_common:  # those are known mostly
            self._ahead = max(0.0, self._ahead - WRITTEN * unit.size * len(self._threads))
        if self._pending_size >= self._full:
            self._flush(self._pending)
            self._pending, self._pending_size = [], 0
            self._full = min(3 * self._full // 2, self._fullest)

    def pause(self) -> None:
        """Nothing comes for a while: threads need not wait for more. What is not worth a shard waits."""
        if not self.is_small and self._pending_size >= LEAST_LINES:
            self._share_pending()

    def _share_pending(self) -> None:
        """What is left in shards with which all threads, the calling one among them, end at the same time."""
        busy = self._busy()
        for units in shares(self._pending, len(busy) * -(-self._pending_size // MOST_LINES), busy):
            self._flush(units)
        self._pending, self._pending_size = [], 0

    def _busy(self) -> list[float]:
        """Lines that each thread has to do yet, the calling one first, which does its part of the shards that no other
        one has begun."""
        ahead, left = self._ahead, list[float]()
        for lines in reversed(self._lines):
            if ahead <= 0:
                break
            left.insert(0, min(lines, ahead))
            ahead -= lines
        others = len(self._threads)
        busy = [0.0, *left[:others], *(0.0,) * (others - len(left))]
        for waiting in left[others:]:
            busy[busy.index(min(busy))] += waiting
        return busy

    def _flush(self, units: list[Unit]) -> None:
        if not self._threads:
            self._start()
        self._queue.put((len(self._lines), units))
        self._lines.append(SHARD_LINES + sum(unit.size for unit in units))
        self._ahead += self._lines[-1]

    def _start(self) -> None:
        for _ in range(max(1, self._wanted_threads - 1)):  # the calling thread writes kernels, and then helps
            thread = threading.Thread(target=self._work, name="shlo-compile", daemon=True)
            thread.start()
            self._threads.append(thread)
            _short_turns.begin()

    @property
    def is_small(self) -> bool:
        """Whether what was added fits into one shard, so that nothing is compiled yet."""
        return not self._lines

    def finish(self) -> list[bytes]:
        """Object files of everything added, in order, those of common units of a shard first. Interrupted by Ctrl-C, it
        ends when the shards at work are done."""
        if self.is_small:
            return self._compiled_here(self._pending)
        try:
            self._share_pending()
            self._help()
            self._wait(checkpoint)
        except BaseException:
            self.abandon()
            raise
        if self._failures:
            del self._failures[1:]
            raise self._failures.pop()  # kept here, it would keep this object, by the frames of its traceback
        return [content for number in range(len(self._lines)) for content in self._objects[number]]

    def _compiled_here(self, units: list[Unit]) -> list[bytes]:
        return _compiled_apart(capi(), capi().handle(self._context), units)

    def _help(self) -> None:
        """Compile shards that no thread has begun."""
        for _ in range(len(self._threads) + 1):  # to each, and to this one
            self._queue.put(None)
        while not self._stop and (job := self._queue.get()) is not None:
            number, units = job
            self._objects[number] = self._compiled_here(units)
            checkpoint()

    def abandon(self) -> None:
        """Stop the threads, each after the shard it is at: LLVM must not be at work when the process ends."""
        self._stop = True
        self._wait()

    def _wait(self, meanwhile: Callable[[], None] | None = None) -> None:
        for _ in self._threads:
            self._queue.put(None)
        # Not by Thread.join: one that is interrupted takes the thread for ended ever after (Python 3.11).
        while len(self._ended) < len(self._threads):
            if meanwhile:
                meanwhile()
            # In short waits: a signal is noted during them, and answered after.
            with suppress(queue.Empty):
                self._ending.get(timeout=0.1)
        while self._threads:
            self._threads.pop().join()
            _short_turns.end()

    def _work(self) -> None:
        try:
            self._compile()
        finally:
            self._ended.append(threading.get_ident())
            self._ending.put(None)

    def _compile(self) -> None:
        while not self._stop and (job := self._queue.get()) is not None:
            number, units = job
            try:
                with deferred(), _context_for(units) as context:
                    self._objects[number] = _compiled_apart(capi(), context, units)
            except BaseException as error:  # raised by `finish` in the caller's thread
                self._failures.append(error)
                self._stop = True


def _context_for(units: Sequence[Unit]) -> AbstractContextManager[int | None]:
    """A context of the calling thread's own; None for LLVM IR, which needs none."""
    return nullcontext() if all(unit.is_ir for unit in units) else capi().llvm_context()


def shares(units: Sequence[Unit], count: int, busy: Sequence[float] = ()) -> list[list[Unit]]:
    """Some units in at most so many shards, the largest first, for threads of which some are `busy` with so many lines:
    the longest unit goes to the thread that will have done it first (longest processing time first, Graham 1969)."""
    count = max(1, min(count, sum(unit.size for unit in units) // LEAST_LINES))
    lines = [*busy, *(0.0,) * count][:count]
    shards: list[list[int]] = [[] for _ in lines]

    def before(shard: int) -> float:
        return lines[shard] + (0 if shards[shard] else SHARD_LINES)

    for number in sorted(range(len(units)), key=lambda number: -units[number].size):
        first = min(range(count), key=before)
        lines[first] = before(first) + units[number].size
        shards[first].append(number)
    made = [[units[number] for number in sorted(numbers)] for numbers in shards if numbers]
    return sorted(made, key=lambda shard: -sum(unit.size for unit in shard))


def _compiled_apart(api: CApi, context: int | None, units: list[Unit]) -> list[bytes]:
    """Object files of some units: of each common one, of which those are made that the process does not know, and of
    the others together. All are compiled as one module, which costs more than to take its file apart."""
    own = [unit for unit in units if not unit.is_common]
    common = [unit for unit in units if unit.is_common]
    if not common:
        return [_compiled(api, context, own)] if own else []
    remaining: list[bytes] = []

    def make(unknown: list[Unit]) -> list[bytes]:
        made = ObjectFile(_compiled(api, context, [*own, *map(_in_own_section, unknown)]))
        if own:
            remaining.append(remaining_object(made, [symbol for unit in own for symbol in unit.symbols]))
        return [function_object(made, unit.symbols[0]) for unit in unknown]

    files = _common.all_of(common, make)
    if own and not remaining:  # all are known
        make([])
    return [*files, *remaining]


# Bytes; a tile of a product takes 15 KB, nearly all of it text.
_common: KnownObjects[Unit] = KnownObjects(4 << 20, lambda unit: len(unit.text))


def forget_functions() -> None:
    """Know no common ones: what is compiled next is compiled, for those who measure that. Thread-safe."""
    _common.forget()


def _in_own_section(unit: Unit) -> Unit:
    (symbol,) = unit.symbols
    if unit.is_ir:
        return replace(unit, text=unit.text.replace(_BODY, f' section "{section_of(symbol)}"{_BODY}', 1))
    return replace(unit, text=unit.text.replace(_ATTRIBUTES, f'{_ATTRIBUTES}section = "{section_of(symbol)}", ', 1))


_ATTRIBUTES = "attributes {"  # of a function in the llvm dialect
_BODY = " {\n"  # where it begins in LLVM IR, behind them


@deferred()
def compile_units(units: list[Unit]) -> bytes:
    """One object file from some units, in the calling thread and a context of its own."""
    api = capi()
    with api.llvm_context() as context:
        return _compiled(api, context, units)


def _compiled(api: CApi, context: int | None, units: list[Unit]) -> bytes:
    generator = code_generator()
    if units[0].is_ir:
        assert generator is not None
        return generator.object_of_ir(render(units).encode())
    assert context is not None
    text = exported(units).encode()
    module = api.module_parse(context, api.string(text))
    if not module:
        raise does_not_parse(text.decode())
    try:
        return generator.object_of(context, module) if generator else _object_of_engine(api, module, units)
    finally:
        api.module_destroy(module)


def exported(units: Sequence[Unit]) -> str:
    """One module's text, made for the ExecutionEngine: it writes a second function around each external one, which
    takes as long to compile as a small kernel. So functions are private, and exported by aliases."""
    text = render(units)
    symbols = [symbol for unit in units for symbol in unit.symbols]
    defined = set(symbols)

    def renamed(name: re.Match[str]) -> str:
        if name[1] not in defined:
            return name[0]
        is_definition = text.endswith("llvm.func ", 0, name.start())
        return f"{'private ' if is_definition else ''}@{name[1]}.code"

    aliases = [
        f"llvm.mlir.alias external @{symbol} : !llvm.func<void ()> {{\n"
        f"%0 = llvm.mlir.addressof @{symbol}.code : !llvm.ptr\nllvm.return %0 : !llvm.ptr\n}}"
        for symbol in symbols
    ]
    return "\n".join([re.sub(r"@([\w.$-]+)(?=[( ])", renamed, text), *aliases])


def _object_of_engine(api: CApi, module: int, units: Sequence[Unit]) -> bytes:
    # opt level 0: templates emit what should run; LLVM's mid-end gains nothing (docs/decisions.md). Third flag: keep
    # the object.
    engine = api.engine_create(module, 0, 0, None, True, False)
    if not engine:
        raise InternalError("LLVM refused the generated code", remedy="report it with the model's StableHLO")
    try:
        defined = {symbol for unit in units for symbol in unit.symbols}
        for name in {*_COMPILERS_OWN, *(name for unit in units for name, _ in unit.externals)} - defined:
            # Only the object file is wanted: any address will do for what other objects define.
            if not hasattr(_PROCESS, name):
                encoded = name.encode()
                api.engine_register(engine, api.string(encoded), 4096)
        symbol = units[0].symbols[0].encode()
        if not api.engine_lookup(engine, api.string(symbol)):
            raise InternalError(f"LLVM produced no code for {units[0].symbols[0]}")
        # LLVM writes to files alone, and ends the process where a disk is full: this file is memory.
        with open(os.memfd_create("shlo-object"), "rb") as file:
            path = f"/proc/self/fd/{file.fileno()}".encode()
            api.engine_dump(engine, api.string(path))
            return file.read()
    finally:
        api.engine_destroy(engine)


def does_not_parse(text: str) -> InternalError:
    """The error for generated code that MLIR does not read, with MLIR's reason."""
    try:
        with ir.Context():
            ir.Module.parse(text)
        reason = "unknown reason"
    except Exception as error:  # the bindings' own class; its text is what is wanted
        reason = str(error)
    return InternalError(
        f"generated code does not parse: {reason}",
        remedy="this is a defect of the kernel generator; report it with the model's StableHLO",
    )


_PROCESS = ctypes.CDLL(None)
# What LLVM calls for conversions that a processor lacks: functions of libgcc, between f16 and f32 or f64.
_COMPILERS_OWN = ("__extendhfsf2", "__truncdfhf2", "__truncsfhf2")
