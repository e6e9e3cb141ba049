"""A scheduled module becomes object files of native code.

The order of work, as a table of contents: `generate` makes one kernel per distinct fusion, then the program that calls
them; `compile_module` compiles kernels on other threads as they come, and describes the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from stablehlo_py import progress
from stablehlo_py.backends.common.description import describe, is_grid
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.common.kernels import kernels_of, kinds_of
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.common.program import ENTRY, arena_bytes
from stablehlo_py.backends.common.sizes import emit_sizes, size_table
from stablehlo_py.backends.cpu import helpers
from stablehlo_py.backends.cpu.code_generator import code_generator
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.backends.cpu.kernels import emit_kernel
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.light_objects import known_objects_of, parts_of
from stablehlo_py.backends.cpu.objects import ObjectCompiler, Unit, compile_units, render, shares
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.program import CpuProgram, may_be_light
from stablehlo_py.backends.cpu.signature import global_of, signature, stamped
from stablehlo_py.backends.cpu.symbols import calls_registered, outside_symbols
from stablehlo_py.backends.cpu.table_objects import object_of_tables
from stablehlo_py.backends.cpu.target import CpuTarget, required_features
from stablehlo_py.codegen.emitters.llvm_ir import LlvmIrEmitter, LlvmIrWithoutTables, TableApart, unoptimized
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.symint import SPECIALIZE, IntLike
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passes.symbolic.checks import checks_of
from stablehlo_py.runtime.memory import require
from stablehlo_py.runtime.program import CompiledProgram, DynamicLayout, StageContents


@dataclass(frozen=True)
class Generated:
    """The native code of a module, not yet compiled: units of its kernels, which came first, and of its entries; tables
    that are not in their texts; the program, and of one with dynamic dimensions the layout of its sizes."""

    kernels: list[Unit]
    entries: list[Unit]
    tables: dict[str, bytes]
    program: CpuProgram
    layout: DynamicLayout | None

    @property
    def units(self) -> list[Unit]:
        """All of them."""
        return [*self.kernels, *self.entries]

    def described(self, module: ir.Module, backend: str, target: CpuTarget, options: Options) -> CompiledProgram:
        """The program as the runtime knows it, without machine code."""
        made = describe(module, backend, target.name, options, self.program.sites)
        made.features = required_features(target, tiles=self.program.uses_tiles)
        made.symbols = outside_symbols(name for unit in self.units for name, _ in unit.externals)
        made.arena_bytes = 0 if self.layout else int(self.program.arena_bytes)
        made.uses_pool, made.loops, made.threads = self.program.uses_pool, self.program.loops, options.thread_count
        made.dynamic = self.layout
        return made


def generate(
    module: ir.Module,
    target: CpuTarget,
    options: Options,
    compiler: ObjectCompiler | None = None,
    look: Callable[[Kernel], None] = lambda kernel: None,
) -> Generated:
    """Generate everything that a call will run. A `compiler` gets the kernels as they come; `look` does, too, and may
    end it with an exception.

    Raises:
        UnsupportedError: naming every fusion without a kernel.
        ResourceError: the arena exceeds the machine's memory.
    """
    sizes = size_table(module)
    if sizes is not None and is_grid(module):
        raise UnsupportedError("a grid of processes has no program for all shapes", remedy=SPECIALIZE)
    if sizes is None:
        require(int(arena_bytes(module)), "the arena of this model")
    layout = None
    units, kernels, tables = _kernels(module, target, sizes, compiler, look)
    if compiler:
        compiler.pause()
    program = CpuProgram(module, kernels, target, options.thread_count, sizes)
    tables |= _apart(program.constant_tables)
    externals = tuple(program.externals().items())
    entries = [Unit((ENTRY,), program.text(), externals, is_ir=issubclass(target.emits, LlvmIrEmitter))]
    if sizes is not None:
        checks = [*checks_of(module), *(check for kernel in kernels.values() for check in kernel.checks)]
        function, layout = emit_sizes(module, sizes, program.arena_bytes, checks, target.emitter())
        entries.append(Unit.of(function))
    return Generated(units, entries, tables, program, layout)


def lower(module: ir.Module, stop: str, target: CpuTarget, options: Options) -> str:
    """Text of `kernels`, `llvm` or `object`."""
    from stablehlo_py.backends.cpu import listing

    units = generate(module, target, options).units
    text = render(units)
    if stop == "kernels":
        return text
    progress.at("LLVM")
    return llvm_ir(text, target.architecture) if stop == "llvm" else listing.disassembly([compile_units(units)])


def compile_module(module: ir.Module, backend: str, target: CpuTarget, options: Options) -> CompiledProgram:
    """Generate and compile everything that a call will run. Raises as `generate`."""
    code = _light_code(module, target, options)
    if code is not None:
        made = code.described(module, backend, target, options)
        made.stages = StageContents({"kernels": partial(_kernels_stage, target, options)})
        made.helpers = helper_objects(_helpers(made))
        made.objects = _light_objects(code, signature(made), options.thread_count)
    else:
        compiler = ObjectCompiler(options.thread_count, module.context)
        try:
            emitted = target if options.cache_dir else _as_compiled(target)
            code = generate(module, emitted, options, compiler)
            made = code.described(module, backend, target, options)
            again = partial(_kernels_stage, target, options)
            made.stages = StageContents({"kernels": render(code.units) if emitted is target else again})
            made.helpers = helper_objects(_helpers(made))
            made.objects = _objects(compiler, code, global_of(signature(made), emitted.emits))
            if code.tables:
                made.objects.append(object_of_tables(code.tables, target.architecture))
        except BaseException:
            compiler.abandon()
            raise
    made.report = _report(module, code.program, made.objects, options)
    return made


def _as_compiled(target: CpuTarget) -> CpuTarget:
    """The target with what writes code that is compiled at once: in LLVM IR, where LLVM reads that itself. The same in
    the llvm dialect is a stage, which a cache keeps."""
    return _in_llvm_ir(target, LlvmIrWithoutTables) if code_generator() else target


def _objects(compiler: ObjectCompiler, code: Generated, signed: str) -> list[bytes]:
    """The object files of a program whose kernels the compiler has; one of them has the global of its signature."""
    first, *others = code.entries
    for unit in (replace(first, text=f"{signed}\n{first.text}"), *others):
        compiler.add(unit)
    progress.at("machine code")
    return compiler.finish()


# --- programs that call for little work: how fast they compile counts more than how fast they are ---------------------

# Nobody answers Ctrl-C while LLVM works, and other threads wait.
LIGHT_CHARACTERS = 120_000


class _NotLight(Exception):
    """Kernels take too long, or are too large."""


def _light_code(module: ir.Module, target: CpuTarget, options: Options) -> Generated | None:
    """The code of a light program, in LLVM IR; None: it is not light, or long. The first kernels
    may say that, and the others are not written then."""
    if not may_be_light(module):
        return None
    nanoseconds, characters = 0.0, 0

    def look(kernel: Kernel) -> None:
        nonlocal nanoseconds, characters
        nanoseconds += sum(phase.nanoseconds for phase in kernel.phases)
        characters += sum(map(len, kernel.functions.values()))
        if nanoseconds >= COSTS.light_ns or characters >= LIGHT_CHARACTERS:
            raise _NotLight

    try:
        code = generate(module, _in_llvm_ir(target, LlvmIrEmitter, is_light=True), options, look=look)
    except _NotLight:
        return None
    size = sum(len(unit.text) for unit in code.units)
    return code if code.program.is_light and size < LIGHT_CHARACTERS else None


@cache
def _in_llvm_ir(target: CpuTarget, emitter: type[LlvmIrEmitter], *, is_light: bool = False) -> CpuTarget:
    return replace(target, emits=emitter, is_light=is_light)


def _light_objects(code: Generated, data: bytes, threads: int) -> list[bytes]:
    """Its object files: entries, which programs with as many arguments and results have in common, and kernels. Kernels
    serve other programs, too: they are compiled with a signature that is none."""
    placeholder = Unit((), global_of(b"\xff" * len(data), LlvmIrEmitter))
    progress.at("machine code")
    *others, last = shares(code.kernels, parts_of(threads)) or [[]]
    texts = [*map(render, others), render([*last, placeholder])]
    *files, signed = known_objects_of([*map(unoptimized, texts)] if code.program.is_quick else texts)
    return [*known_objects_of([render(code.entries)]), *files, stamped(signed, data)]


@deferred()
def _kernels_stage(target: CpuTarget, options: Options, stages: Mapping[str, str | bytes]) -> str:
    """The stage of that name, of the one before it."""
    with make_context(), ir.Location.unknown():
        return lower(ir.Module.parse(stages["scheduled"]), "kernels", target, options)


def _kernels(
    module: ir.Module,
    target: CpuTarget,
    sizes: SizeTable | None = None,
    compiler: ObjectCompiler | None = None,
    look: Callable[[Kernel], None] = lambda kernel: None,
) -> tuple[list[Unit], dict[str, Kernel], dict[str, bytes]]:
    kernels: dict[str, Kernel] = {}
    units: list[Unit] = []
    tables: dict[str, bytes] = {}

    def add(*added: Unit) -> None:
        for unit in added:
            units.append(unit)
            if compiler:
                compiler.add(unit)

    common: set[str] = set()
    known: dict[tuple[str, ...], str] = {}
    # A network's convolutions of one pixel, which are products, share tiles with the others.
    levels = 2 if any(function.attributes[FUSION].value == "convolution" for function in fusions(module)) else 1
    target, is_ir = replace(target, shares_functions=True, tile_levels=levels), issubclass(target.emits, LlvmIrEmitter)
    for name, kernel in kernels_of(module, lambda function: emit_kernel(function, target, sizes), "CPU"):
        look(kernel)
        # A kernel's functions travel together: phases may call helpers of the same kernel.
        text = "\n".join((*kernel.functions.values(), *kernel.tables.values()))
        owner = _owner(name, kernel, known)
        kernels[name] = kernel if owner == name else _with_functions_of(kernel, name, owner)
        if not kernel.functions or owner != name:  # nothing to do, as in a scatter of nothing, or nothing new
            continue
        tables |= _apart(kernel.tables)
        add(Unit(tuple(kernel.functions), text, tuple(kernel.externals.items()), is_ir=is_ir))
        unknown = [(symbol, text) for symbol, text in kernel.common.items() if symbol not in common]
        add(*(Unit((symbol,), text, is_common=True, is_ir=is_ir) for symbol, text in unknown))
        common.update(kernel.common)
    return units, kernels, tables


def _apart(tables: Mapping[str, str]) -> dict[str, bytes]:
    """The contents of those that are only declared, by their names."""
    return {name: text.content for name, text in tables.items() if isinstance(text, TableApart)}


def _owner(name: str, kernel: Kernel, known: dict[tuple[str, ...], str]) -> str:
    """The first kernel with these functions and tables, but for its name: of fusions whose shapes differ, functions may
    be the same, and only the numbers of iterations others."""
    own = _own(name)
    functions = (own.sub("", text) for text in kernel.functions.values())
    # Tables may be long, and begin with their names.
    tables = (own.sub("", text, count=1) for text in kernel.tables.values())
    return known.setdefault((*functions, *tables), name)


def _with_functions_of(kernel: Kernel, name: str, owner: str) -> Kernel:
    """A kernel by that name that runs the functions of another one."""
    own = _own(name)
    phases = tuple(replace(phase, symbol=own.sub(owner, phase.symbol)) for phase in kernel.phases)
    return replace(kernel, functions={}, tables={}, externals={}, common={}, phases=phases)


def _own(name: str) -> re.Pattern[str]:
    """Finds a kernel's own name, with which those of its functions begin."""
    return re.compile(rf"{re.escape(name)}(?!\d)")


def _helpers(program: CompiledProgram) -> list[str]:
    """What a program needs of the runtime's native code."""
    calls = calls_registered(program.symbols)
    needed = {
        helpers.CALLS: calls or program.loops or program.grid is not None,
        helpers.CLOSURE: calls,
        helpers.POOL: program.uses_pool,
        helpers.GRID: program.grid is not None,
        helpers.FASTCALL: not calls and program.grid is None and program.dynamic is None,
    }
    return [kind for kind, is_needed in needed.items() if is_needed]


def _report(module: ir.Module, program: CpuProgram, objects: list[bytes], options: Options) -> str:
    return "\n".join(
        (
            kinds_of(module),
            f"code: {sum(map(len, objects)) / 1024:.0f} KiB in {len(objects)} object files",
            f"memory: {_mebibytes(program.arena_bytes)} for a call, "
            f"{program.private_bytes} bytes of it private to each thread",
            f"threads: {options.thread_count}, "
            + ("used by some phases" if program.uses_pool else "no phase is worth more than one"),
        )
    )


def _mebibytes(size: IntLike) -> str:
    return f"{size / 2**20:.2f} MiB" if isinstance(size, int) else f"{size} bytes"
