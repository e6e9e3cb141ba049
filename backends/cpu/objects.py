"""From llvm-dialect text to machine code: compiled in shards over threads.

Text is parsed, translated and compiled through MLIR's C API, which releases the GIL; each thread has a context of its
own. The ExecutionEngine is used as a compiler only: its object file is what is cached, saved, and loaded (native.py),
so a program loaded from disk is loaded in the same way as one just compiled.
"""

from __future__ import annotations

import ctypes
import os
import queue
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from stablehlo_py.backends.cpu.elf import ObjectFile
from stablehlo_py.backends.cpu.known_objects import KnownObjects
from stablehlo_py.backends.cpu.split import function_object, remaining_object, section_of
from stablehlo_py.codegen.builder import Function
from stablehlo_py.errors import InternalError
from stablehlo_py.interrupts import checkpoint, deferred
from stablehlo_py.mlir import CApi, capi, ir
from stablehlo_py.options import available_threads

# An engine costs 5-6 ms whatever it holds: shards are filled up to this much text before the next one is begun. The
# first is small, so that threads begin early; what follows fills twice as much.
SHARD_CHARACTERS = 60_000
# With one processor nothing is won by beginning early. Not all in one shard: nobody answers Ctrl-C while LLVM works.
ALONE_CHARACTERS = 600_000


@dataclass(frozen=True)
class Unit:
    """Some functions in llvm-dialect text, and declarations of what they call elsewhere (name -> text). One that
    `is_common` is a function by itself that other programs have, too: it gets an object file of its own."""

    symbols: tuple[str, ...]
    text: str
    externals: tuple[tuple[str, str], ...] = ()
    is_common: bool = False

    @classmethod
    def of(cls, *functions: Function) -> Unit:
        """Of finished functions."""
        externals = {name: text for function in functions for name, text in function.externals.items()}
        texts = [function.text() for function in functions]
        return cls(tuple(function.name for function in functions), "\n".join(texts), tuple(externals.items()))


def render(units: Iterable[Unit]) -> str:
    """One module's text: every declaration once, none of what is defined here."""
    units = list(units)
    defined = {symbol for unit in units for symbol in unit.symbols}
    declared = {name: text for unit in units for name, text in unit.externals if name not in defined}
    return "\n".join([*declared.values(), *(unit.text for unit in units)])


class ObjectCompiler:
    """Compiles units while more are being generated: `add` as they come, `finish` for the object files. What fits into
    one shard is compiled by `finish` itself, in the `context` of the calling thread.

    Raises (from `finish`):
        InternalError: LLVM or MLIR refused the generated code.
    """

    def __init__(self, threads: int, context: ir.Context) -> None:
        self._context = context
        self._queue: queue.SimpleQueue[tuple[int, list[Unit]] | None] = queue.SimpleQueue()
        self._objects: dict[int, bytes] = {}
        self._failures: list[BaseException] = []
        self._pending: list[Unit] = []
        self._pending_size = 0
        self._common: list[Unit] = []
        self._shards = 0
        self._least = SHARD_CHARACTERS if available_threads() > 1 else ALONE_CHARACTERS
        self._stop = False
        self._ended: list[int] = []  # threads that are through
        self._ending: queue.SimpleQueue[None] = queue.SimpleQueue()  # a word from each of them
        self._wanted_threads = min(threads, available_threads())
        self._threads: list[threading.Thread] = []

    def add(self, unit: Unit) -> None:
        """Hand over a unit; it is compiled with others in one shard, if it is not common."""
        if unit.is_common:
            self._common.append(unit)
            return
        self._pending.append(unit)
        self._pending_size += len(unit.text)
        if self._pending_size >= self._least * (2 if self._shards else 1):
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        if not self._threads:
            self._start()
        self._queue.put((self._shards, self._pending))
        self._shards += 1
        self._pending, self._pending_size = [], 0

    def _start(self) -> None:
        for _ in range(self._wanted_threads):
            thread = threading.Thread(target=self._work, name="shlo-compile", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def is_small(self) -> bool:
        """Whether what was added fits into one shard, so that nothing is compiled yet."""
        return not self._shards

    def finish(self) -> list[bytes]:
        """Object files of everything added, in order, those of common units first. Interrupted by Ctrl-C, it ends when
        the shards at work are done."""
        if self.is_small:
            return self._together()
        try:
            self._flush()
            common = self._common_objects()  # while threads are at shards
            self._wait(checkpoint)
        except BaseException:
            self.abandon()
            raise
        if self._failures:
            del self._failures[1:]
            raise self._failures.pop()  # kept here, it would keep this object, by the frames of its traceback
        return [*common, *(self._objects[number] for number in range(self._shards))]

    def _compiled(self, units: list[Unit]) -> bytes:
        return _compiled(capi(), capi().handle(self._context), units)

    def _together(self) -> list[bytes]:
        """All that fits into one shard, common units that the process does not know included: an engine costs more than
        to take its file apart."""
        own = self._pending
        if not own or not self._common:
            return [*self._common_objects(), *([self._compiled(own)] if own else [])]
        remaining: list[bytes] = []

        def make(units: list[Unit]) -> list[bytes]:
            made = ObjectFile(self._compiled([*own, *map(_in_own_section, units)]))
            remaining.append(remaining_object(made, [symbol for unit in own for symbol in unit.symbols]))
            return [function_object(made, unit.symbols[0]) for unit in units]

        common = _common.all_of(self._common, make)
        if not remaining:  # all are known
            make([])
        return [*common, *remaining]

    def _common_objects(self) -> list[bytes]:
        """Of common units: those that the process does not know are compiled together, and taken apart."""

        def make(units: list[Unit]) -> list[bytes]:
            made = ObjectFile(self._compiled([_in_own_section(unit) for unit in units]))
            return [function_object(made, unit.symbols[0]) for unit in units]

        return _common.all_of(self._common, make)

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
        for thread in self._threads:
            thread.join()

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
                self._objects[number] = compile_units(units)
            except BaseException as error:  # raised by `finish` in the caller's thread
                self._failures.append(error)
                self._stop = True


# Bytes; a tile of a product takes 15 KB, nearly all of it text.
_common: KnownObjects[Unit] = KnownObjects(4 << 20, lambda unit: len(unit.text))


def forget_functions() -> None:
    """Know no common ones: what is compiled next is compiled, for those who measure that. Thread-safe."""
    _common.forget()


def _in_own_section(unit: Unit) -> Unit:
    (symbol,) = unit.symbols
    return replace(unit, text=unit.text.replace(_ATTRIBUTES, f'{_ATTRIBUTES}section = "{section_of(symbol)}", ', 1))


_ATTRIBUTES = "attributes {"  # of a function


@deferred()
def compile_units(units: list[Unit]) -> bytes:
    """One object file from some units, in the calling thread and a context of its own."""
    api = capi()
    with api.llvm_context() as context:
        return _compiled(api, context, units)


def _compiled(api: CApi, context: int, units: list[Unit]) -> bytes:
    text = exported(units).encode()
    module = api.module_parse(context, api.string(text))
    if not module:
        raise does_not_parse(text.decode())
    try:
        return _object(api, module, units)
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


def _object(api: CApi, module: int, units: Sequence[Unit]) -> bytes:
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
