"""A scheduled module becomes one object file with a public interface (backends/common/library.py), for this machine or
another."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from stablehlo_py import progress
from stablehlo_py.backends.common.library import library_functions
from stablehlo_py.backends.common.library_data import describing_data
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.common.program import ENTRY
from stablehlo_py.backends.cpu import pool
from stablehlo_py.backends.cpu.compile import generate
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS
from stablehlo_py.backends.cpu.library_text import ConstantData, data_text
from stablehlo_py.backends.cpu.objects import Unit, render
from stablehlo_py.backends.cpu.symbols import calls_registered, target_of
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.target_machine import emit_linked_object
from stablehlo_py.backends.cpu.triples import is_linux, object_target
from stablehlo_py.backends.cpu.versions import entry_of_versions, version_symbol, version_targets
from stablehlo_py.codegen.emitters.llvm import external_data
from stablehlo_py.dialect.attributes import LINKED
from stablehlo_py.dialect.types import text, user_location
from stablehlo_py.errors import OptionError, Problem, UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.library import Interface, Library
from stablehlo_py.runtime.program import CompiledProgram


def library(module: ir.Module, backend: str, options: Options, interface: Interface) -> Library:
    """The object file of a model, and what its header has to say.

    Raises:
        OptionError: there is no such CPU or triple, or they do not go together; or the system has no threads as a
            library's own.
        UnsupportedError: the model communicates, which takes our runtime; or as `compile.generate`.
    """
    targets, triple = _targets(options, interface)
    base = targets[0]
    if interface.threads == "own" and not is_linux(triple):
        raise OptionError(
            f"a library for {triple} can have no threads of its own: they sleep and wake by Linux's futex",
            remedy="use threads='callback' or 'off'",
        )
    module.operation.attributes[LINKED] = ir.UnitAttr.get(module.context)
    versions = [generate(module, target, options) for target in targets]
    described = [code.described(module, backend, base, options) for code in versions]
    program = _joined(described)
    _refuse_grid(program)
    _refuse_lapack(module, program, triple)
    functions = library_functions(program, interface, base.emitter)
    if interface.threads == "own":
        functions += pool.library_functions(base)
    outside = {symbol: _outside_name(symbol) for symbol in program.symbols}
    progress.at("LLVM")
    parts: list[tuple[str, CpuTarget]] = []
    if len(versions) > 1:
        functions.append(entry_of_versions(targets, base.emitter))
        for number, (code, target) in enumerate(zip(versions, targets, strict=True)):
            entry = {ENTRY: version_symbol(number)}
            parts.append((_renamed(llvm_ir(render(code.units), target.architecture), outside | entry), target))
        units = [Unit.of(*functions)]
    else:
        units = [*versions[0].units, Unit.of(*functions)]
    glue = llvm_ir("\n".join([_declarations(program, interface), render(units)]), base.architecture)
    glue = _renamed(_without_declarations(glue, (interface.constant_table, interface.constant_keys)), outside)
    hash_ = _hash([*(part for part, _ in parts), glue], program)
    words = f"{', '.join(interface.cpus) or base.name} ({triple})"
    texts = [glue, data_text(describing_data(program, interface, hash_, words))]
    constants = None
    if program.constants and interface.constants == "embed":
        constants = ConstantData(interface.constant_table, program.constants, bytes.fromhex(hash_))
        texts.append(constants.text())
    public = tuple(symbol for symbol in interface.public if program.dynamic or symbol != f"{interface.name}_sizes")
    progress.at("machine code")
    parts.append(("\n".join(texts), base))
    entries = [version_symbol(number) for number in range(len(parts) - 1)]
    content = emit_linked_object(parts, public=public, shared=entries, triple=triple)
    if constants is not None:
        content = constants.fill(content)
    calls = {target_of(symbol): name for symbol, name in outside.items() if calls_registered([symbol])}
    routines = tuple(name for symbol, name in outside.items() if not calls_registered([symbol]))
    return Library(interface, content, program, hash_, words, triple, public, calls, routines)


def _targets(options: Options, interface: Interface) -> tuple[list[CpuTarget], str]:
    if interface.cpus:
        return version_targets(interface.cpus, interface.triple)
    target, triple = object_target(options.cpu, interface.triple)
    return [target], triple


def _joined(versions: Sequence[CompiledProgram]) -> CompiledProgram:
    """What holds of all versions of a program."""
    first, *others = versions
    if others and first.dynamic is not None:
        raise UnsupportedError(
            "a model with symbolic dimensions has code for one CPU: its sizes are worked out in another way for each",
            remedy="pass one cpu, or export the model with concrete shapes",
        )
    for other in others:
        first.arena_bytes = max(first.arena_bytes, other.arena_bytes)
        first.symbols = tuple(sorted({*first.symbols, *other.symbols}))
        first.uses_pool, first.loops = first.uses_pool or other.uses_pool, first.loops or other.loops
    return first


def _refuse_grid(program: CompiledProgram) -> None:
    if program.grid is None:
        return
    reason = "a library has no runtime by which processes meet, the host is fed, or random numbers are kept"
    problems = [Problem(f"{site}: {reason}") for site in program.grid.sites] or [Problem(reason)]
    raise UnsupportedError(
        "the model cannot become a library",
        problems=problems,
        remedy="draw random numbers from a key that is an argument (jax.random), and run one process",
    )


def _refuse_lapack(module: ir.Module, program: CompiledProgram, triple: str) -> None:
    """Where there is no operating system, there is no LAPACK to link with."""
    if all(calls_registered([symbol]) for symbol in program.symbols) or not re.search(r"none|wasm", triple):
        return
    problems: list[Problem] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.custom_call" and text(op, "call_target_name") in TARGETS:
            reason = f"'{text(op, 'call_target_name')}' calls LAPACK, which {triple} does not have"
            problems.append(Problem(reason, op=op.name, location=user_location(op.location)))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    raise UnsupportedError(
        "the model cannot become a library for this system",
        problems=problems,
        remedy="compile for a system that has LAPACK, or factorize without it (Cholesky, triangular solves)",
    )


def _declarations(program: CompiledProgram, interface: Interface) -> str:
    """Of data that is defined in LLVM IR, for MLIR."""
    if not program.constants:
        return ""
    symbol = interface.constant_table if interface.constants == "embed" else interface.constant_keys
    return external_data(symbol)


def _without_declarations(text: str, symbols: Iterable[str]) -> str:
    names = "|".join(map(re.escape, symbols))
    return re.sub(rf"^@(?:{names}) = external .*\n", "", text, flags=re.MULTILINE)


def _outside_name(symbol: str) -> str:
    """What a linker knows a function by: routines of LAPACK as Fortran's compilers name them, custom calls by their
    targets, `_` for what an identifier of C cannot hold."""
    if calls_registered([symbol]):
        return re.sub(r"\W", "_", target_of(symbol), flags=re.ASCII)
    return f"{symbol.rpartition('.')[2]}_"


def _renamed(text: str, names: dict[str, str]) -> str:
    for symbol, name in names.items():
        text = re.sub(rf'@"?{re.escape(symbol)}"?(?=[ (,)])', f"@{name}", text)
    return text


def _hash(texts: Sequence[str], program: CompiledProgram) -> str:
    """Of everything that the library computes."""
    digest = hashlib.sha256("\n".join(texts).encode())
    for array in program.constants:
        digest.update(array.tobytes())
    return digest.hexdigest()
