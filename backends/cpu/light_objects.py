"""Object files of light programs: their functions are LLVM IR (codegen/emitters/llvm_ir.py). A file serves all programs
with the same functions.

They come from the LLVM in MLIR's library where it is known (code_generator.py); large code is several files then, which
threads make. Elsewhere they come from llvmlite's, which lets one thread work at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from stablehlo_py.backends.common.meanwhile import Meanwhile
from stablehlo_py.backends.cpu.code_generator import code_generator
from stablehlo_py.backends.cpu.known_objects import KnownObjects
from stablehlo_py.codegen.target import host_architecture
from stablehlo_py.dialect.context import ContextPool
from stablehlo_py.errors import InternalError
from stablehlo_py.interrupts import deferred
from stablehlo_py.options import available_threads

if TYPE_CHECKING:
    import llvmlite.binding


@deferred()
def object_of(text: str) -> bytes:
    """An object file from functions and tables in LLVM IR.

    Raises:
        InternalError: LLVM refused the generated code.
    """
    generator = code_generator()
    return generator.object_of_ir(text.encode()) if generator else _object_of_llvmlite(text)


def _object_of_llvmlite(text: str) -> bytes:
    import llvmlite.binding as llvm

    machine, head = _machine()
    try:
        with _contexts.lent(len(text)) as context:
            module = llvm.parse_assembly(head + text, context)
            module.verify()  # LLVM ends the process over what is not valid
            made: bytes = machine.emit_object(module)
            del module  # before the context goes to another thread
            return made
    except RuntimeError as error:  # llvmlite's, for all that LLVM reports
        raise InternalError(
            f"LLVM refused the generated code: {error}",
            remedy="this is a defect of the kernel generator; report it with the model's StableHLO",
        ) from error


def known_objects_of(texts: Sequence[str]) -> list[bytes]:
    """The same of some, each in a thread, made once for equal texts, as long as they are known. Thread-safe."""
    return _known.all_of(texts, _objects_of)


def _objects_of(texts: Sequence[str]) -> list[bytes]:
    others = [Meanwhile(partial(object_of, text)) for text in texts[1:]]
    return [object_of(texts[0]), *(other.result() for other in others)]


def parts_of(threads: int) -> int:
    """In how many files code is made sooner than in one, where it is large."""
    return min(threads, available_threads()) if code_generator() else 1


# Bytes; a program of one operation takes 5 KB, with its text.
_known: KnownObjects[str] = KnownObjects(4 << 20, len)


def forget_objects() -> None:
    """Know none: what is compiled next is compiled, for those who measure that. Thread-safe."""
    _known.forget()


def _new_context() -> llvmlite.binding.ContextRef:
    import llvmlite.binding as llvm

    return llvm.create_context()


_contexts = ContextPool(_new_context)  # a context keeps every constant


@cache
def _machine() -> tuple[llvmlite.binding.TargetMachine, str]:
    """Of this architecture: functions say themselves for which of its processors they are. How modules for it begin."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = host_architecture().triple
    machine = llvm.Target.from_triple(triple).create_target_machine(
        opt=3, reloc="static", codemodel="large", abiname=host_architecture().abi
    )
    return machine, f'target datalayout = "{machine.target_data}"\ntarget triple = "{triple}"\n'
