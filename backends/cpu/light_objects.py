"""Object files of light programs: their functions are LLVM IR (codegen/emitters/llvm_ir.py), and llvmlite's target
machine, which is kept, makes machine code of it, in the calling thread.

No text of MLIR is read and written for that, as in objects.py. But llvmlite's LLVM is older: the results are the same,
and here and there code has some instructions more. And it lets one thread work at a time.

What runs for some nanoseconds only is compiled without optimization (`QUICK`), in half the time.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from stablehlo_py.backends.cpu.known_objects import KnownObjects
from stablehlo_py.codegen.target import host_architecture
from stablehlo_py.dialect.context import ContextPool
from stablehlo_py.errors import InternalError
from stablehlo_py.interrupts import deferred

if TYPE_CHECKING:
    import llvmlite.binding

# Levels of instruction selection and register allocation; of the mid-end nothing is asked, as by the ExecutionEngine.
# QUICK has the selector and the allocator that go through a function once.
QUICK, BEST = 0, 3


@deferred()
def object_of(text: str, level: int = BEST) -> bytes:
    """An object file from functions and tables in LLVM IR.

    Raises:
        InternalError: LLVM refused the generated code.
    """
    import llvmlite.binding as llvm

    machine, head = _machine(level)
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


def known_object_of(text: str, level: int = BEST) -> bytes:
    """The same, made once for equal texts, as long as they are known. Thread-safe."""
    return _known.all_of([(text, level)], lambda keys: [object_of(*key) for key in keys])[0]


# Bytes; a program of one operation takes 5 KB, with its text.
_known: KnownObjects[tuple[str, int]] = KnownObjects(4 << 20, lambda key: len(key[0]))


def forget_objects() -> None:
    """Know none: what is compiled next is compiled, for those who measure that. Thread-safe."""
    _known.forget()


def _new_context() -> llvmlite.binding.ContextRef:
    import llvmlite.binding as llvm

    return llvm.create_context()


_contexts = ContextPool(_new_context)  # a context keeps every constant


@cache
def _machine(level: int) -> tuple[llvmlite.binding.TargetMachine, str]:
    """Of this architecture: functions say themselves for which of its processors they are. How modules for it begin."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = host_architecture().triple
    machine = llvm.Target.from_triple(triple).create_target_machine(
        opt=level, reloc="static", codemodel="large", abiname=host_architecture().abi
    )
    return machine, f'target datalayout = "{machine.target_data}"\ntarget triple = "{triple}"\n'
