"""A scheduled module becomes one C file, and, where it is to run in this process, an object file of it."""

from __future__ import annotations

from stablehlo_py import progress
from stablehlo_py.backends.c.compiler import object_of
from stablehlo_py.backends.c.file import Unit, file_of
from stablehlo_py.backends.c.program import CProgram, PublicEmitter
from stablehlo_py.backends.c.target import CTarget
from stablehlo_py.backends.common.description import describe, is_grid
from stablehlo_py.backends.common.kernels import kernels_of, kinds_of
from stablehlo_py.backends.common.program import ENTRY, arena_bytes
from stablehlo_py.backends.common.sizes import ENTRY as SIZES
from stablehlo_py.backends.common.sizes import emit_sizes, size_table
from stablehlo_py.backends.cpu import helpers, listing
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.backends.cpu.kernels import emit_kernel
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.signature import SECTION, SYMBOL, signature
from stablehlo_py.backends.cpu.symbols import calls_registered, outside_symbols
from stablehlo_py.backends.cpu.target import required_features
from stablehlo_py.dialect.symint import SPECIALIZE
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passes.symbolic.checks import checks_of
from stablehlo_py.runtime.memory import require
from stablehlo_py.runtime.program import CompiledProgram, DynamicLayout


def source(module: ir.Module, target: CTarget, options: Options, *, name: str = ENTRY, embedded: bool = True) -> str:
    """The C file of a scheduled module: the entry `int NAME(const shlo_call *call)`, and with dynamic dimensions
    `void NAME_sizes(const int64_t *symbols, int64_t *table)`. Constants are `embedded`, or come with the call.

    Raises:
        UnsupportedError: it runs as a grid of processes, or parts of it have no kernel; all are named.
    """
    return Generated(module, target, name, embedded=embedded).text()


def lower(module: ir.Module, stop: str, target: CTarget, options: Options) -> str:
    """Text of `kernels`, `c` or `object`."""
    generated = Generated(module, target, ENTRY, embedded=stop == "c")
    if stop == "kernels":
        return "\n\n".join(unit.text for unit in generated.units) + "\n"
    if stop == "c":
        return generated.text()
    return listing.disassembly([object_of(generated.text(), target.processor)])


def compile_module(module: ir.Module, backend: str, target: CTarget, options: Options) -> CompiledProgram:
    """Generate and compile everything that a call will run.

    Raises:
        UnsupportedError: as `source`.
        ResourceError: the arena exceeds the machine's memory, or there is no C compiler.
    """
    if size_table(module) is None:
        require(int(arena_bytes(module)), "the arena of this model")
    generated = Generated(module, target, ENTRY, embedded=False)
    program = generated.program
    made = describe(module, backend, target.processor.name, options, program.sites)
    made.features = required_features(target.processor)
    made.symbols = outside_symbols(generated.externals)
    made.arena_bytes = 0 if generated.layout else int(program.arena_bytes)
    made.uses_pool, made.loops, made.threads = False, program.loops, 1
    made.stages = {"c": generated.text()}
    made.dynamic = generated.layout
    calls = calls_registered(made.symbols)
    needed = {helpers.CALLS: calls or program.loops, helpers.CLOSURE: calls}
    made.helpers = helper_objects([kind for kind, is_needed in needed.items() if is_needed])
    data = ", ".join(map(str, signature(made)))
    note = f'__attribute__((section("{SECTION}"), used)) const uint8_t {SYMBOL}[] = {{{data}}};'
    progress.at("machine code")
    made.objects = [object_of(f"{generated.text(bound=True)}\n{note}\n", target.processor)]
    made.report = "\n".join(
        (
            kinds_of(module),
            f"code: {len(made.objects[0]) / 1024:.0f} KiB of {len(str(made.stages['c'])) / 1024:.0f} KiB of C",
            f"memory: {program.arena_bytes} bytes for a call",
            "threads: 1",
        )
    )
    return made


class Generated:
    """What a module becomes.

    Attributes:
        units: the functions and tables of the file, in order, the entry last. externals: what others define, by the
            names that kernels have for it. layout: of a program with dynamic dimensions.
    """

    def __init__(self, module: ir.Module, target: CTarget, name: str, *, embedded: bool) -> None:
        if is_grid(module):
            raise UnsupportedError("the backend 'c' runs one process, which meets no other", remedy=SPECIALIZE)
        self._module, self._name, self._embedded = module, name, embedded
        sizes = size_table(module)
        kernels: dict[str, Kernel] = {}
        self.units: list[Unit] = []
        self.externals: dict[str, str] = {}
        for fusion, kernel in kernels_of(module, lambda function: emit_kernel(function, target, sizes), "C"):
            kernels[fusion] = kernel
            self.units.append(Unit.of(module, fusion, kernel))
            self.externals |= kernel.externals
        self.program = CProgram(module, kernels, target, sizes, name, embedded=embedded)
        self.layout: DynamicLayout | None = None
        if sizes is not None:
            public = SIZES if name == ENTRY else f"{name.removesuffix('_call')}_sizes"
            checks = [*checks_of(module), *(check for kernel in kernels.values() for check in kernel.checks)]
            emitter = PublicEmitter(target, public)
            function, self.layout = emit_sizes(module, sizes, self.program.arena_bytes, checks, emitter)
            self.units.append(Unit((), function.text()))
        self.units.append(Unit((), self.program.text()))
        own = {symbol for unit in self.units for symbol in unit.symbols}
        self.externals |= self.program.externals()
        self.externals = {symbol: text for symbol, text in self.externals.items() if symbol not in own}

    def text(self, *, bound: bool = False) -> str:
        """The file; `bound`: what others define keeps the names that this process knows it by."""
        return file_of(self._module, self.units, self.externals, bound=bound, embedded=self._embedded)
