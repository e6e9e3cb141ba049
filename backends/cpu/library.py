"""A scheduled module becomes one object file with a public interface (backends/common/library.py), for this machine or
another."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from stablehlo_py import progress
from stablehlo_py.backends.common.library import library_functions
from stablehlo_py.backends.common.library_data import describing_data
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.cpu import pool
from stablehlo_py.backends.cpu.compile import generate
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS
from stablehlo_py.backends.cpu.library_text import ConstantData, data_text
from stablehlo_py.backends.cpu.objects import Unit, render
from stablehlo_py.backends.cpu.symbols import calls_registered, target_of
from stablehlo_py.backends.cpu.target_machine import emit_object
from stablehlo_py.backends.cpu.triples import is_linux, object_target
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
    target, triple = object_target(options.cpu, interface.triple)
    if interface.threads == "own" and not is_linux(triple):
        raise OptionError(
            f"a library for {triple} can have no threads of its own: they sleep and wake by Linux's futex",
            remedy="use threads='callback' or 'off'",
        )
    module.operation.attributes[LINKED] = ir.UnitAttr.get(module.context)
    code = generate(module, target, options)
    program = code.described(module, backend, target, options)
    _refuse_grid(program)
    _refuse_lapack(module, program, triple)
    functions = library_functions(program, interface, target.emitter)
    if interface.threads == "own":
        functions += pool.library_functions(target)
    own = Unit.of(*functions)
    outside = {symbol: _outside_name(symbol) for symbol in program.symbols}
    progress.at("LLVM")
    code_text = llvm_ir("\n".join([_declarations(program, interface), render([*code.units, own])]), target.architecture)
    code_text = _renamed(_without_declarations(code_text, (interface.constant_table, interface.constant_keys)), outside)
    hash_ = _hash(code_text, program)
    described = f"{target.name} ({triple})"
    texts = [code_text, data_text(describing_data(program, interface, hash_, described))]
    constants = None
    if program.constants and interface.constants == "embed":
        constants = ConstantData(interface.constant_table, program.constants, bytes.fromhex(hash_))
        texts.append(constants.text())
    public = tuple(symbol for symbol in interface.public if program.dynamic or symbol != f"{interface.name}_sizes")
    progress.at("machine code")
    content = emit_object("\n".join(texts), target, public=public, triple=triple)
    if constants is not None:
        content = constants.fill(content)
    calls = {target_of(symbol): name for symbol, name in outside.items() if calls_registered([symbol])}
    routines = tuple(name for symbol, name in outside.items() if not calls_registered([symbol]))
    return Library(interface, content, program, hash_, described, triple, public, calls, routines)


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


def _hash(text: str, program: CompiledProgram) -> str:
    """Of everything that the library computes."""
    digest = hashlib.sha256(text.encode())
    for array in program.constants:
        digest.update(array.tobytes())
    return digest.hexdigest()
