"""LLVM's code generator out of MLIR's library, without the JIT around it, and without MLIR for what is LLVM IR.

MLIR's C API has it in an ExecutionEngine only, which makes a JIT and ends it, and for its end compiles a module of its
own (docs/decisions.md). LLVM's C API for it is not in the library. But the C++ functions under that are, by names that
say the types of all arguments. What names do not say, numbers of enumerations and that a value lies at the start of an
`Expected`, is so in the wheels that `WHEELS` lists, one by one. With another one, and on architectures that return such
values in registers, the engine makes the same object files.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from stablehlo_py.backends.cpu.native import once
from stablehlo_py.codegen.target import X86_64, host_architecture
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import CApi, capi

WHEELS = ("20261001",)  # versions of torch-mlir

_DETECT_HOST = "_ZN4llvm3orc23JITTargetMachineBuilder10detectHostEv"
_NEW_MACHINE = "_ZN4llvm3orc23JITTargetMachineBuilder19createTargetMachineEv"
_ADD_PASSES = (
    "_ZN4llvm24CodeGenTargetMachineImpl17addPassesToEmitMC"
    "ERNS_6legacy15PassManagerBaseERPNS_9MCContextERNS_17raw_pwrite_streamEb"
)
_OPEN_STREAM = "_ZN4llvm14raw_fd_ostreamC1EibbNS_11raw_ostream11OStreamKindE"
_SEEK = "_ZN4llvm14raw_fd_ostream4seekEm"
_FILE = 1  # raw_ostream::OStreamKind::OK_FDStream
_VERIFY = "_ZN4llvm12verifyModuleERKNS_6ModuleEPNS_11raw_ostreamEPb"

_Builder = ctypes.c_uint64 * 512  # room for a JITTargetMachineBuilder, which takes 600 bytes
# Passes that find nothing to do in kernels, and analyses that they ask for (docs/decisions.md).
_OPTIONS = (
    b"-disable-constant-hoisting",
    b"-disable-partial-libcall-inlining",
    b"-disable-mergeicmps",
    b"-enable-shrink-wrap=false",
)
_Stream = ctypes.c_uint64 * 64  # for a raw_fd_ostream: 100 bytes
_Made = ctypes.c_uint64 * 2  # an Expected of a machine: its address, and whether it is an error instead


@dataclass(frozen=True)
class _Writer:
    """LLVM's passes that make an object file of a module, and where they write it. They are used for one module after
    another, as by `llc -compile-twice`: to make them takes longer than to compile a few lines. By one thread at a time.
    """

    passes: int
    stream: ctypes.Array[ctypes.c_uint64]
    file: int  # in memory: LLVM ends the process where a disk is full


class CodeGenerator:
    """Object files of modules in the llvm dialect and in LLVM IR. Thread-safe.

    Raises:
        AttributeError: the library lacks a function.
    """

    def __init__(self, api: CApi) -> None:
        function, pointer, flag, integer = api.function, ctypes.c_void_p, ctypes.c_bool, ctypes.c_int
        self._api = api
        for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"):
            function(f"LLVMInitializeX86{part}", None)()
        self._register = function("mlirRegisterAllLLVMTranslations", None, pointer)
        self._translate = function("mlirTranslateModuleToLLVMIR", pointer, pointer, pointer)
        self._context_create = function("LLVMContextCreate", pointer)
        self._context_dispose = function("LLVMContextDispose", None, pointer)
        self._module_dispose = function("LLVMDisposeModule", None, pointer)
        self._buffer_create = function(
            "LLVMCreateMemoryBufferWithMemoryRangeCopy", pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p
        )
        self._parse = function("LLVMParseIRInContext", integer, pointer, pointer, pointer, pointer)
        self._is_invalid = function(_VERIFY, flag, pointer, pointer, pointer)
        self._message_dispose = function("LLVMDisposeMessage", None, pointer)
        self._set_triple = function("LLVMSetTarget", None, pointer, ctypes.c_char_p)
        self._set_layout = function("LLVMSetDataLayout", None, pointer, ctypes.c_char_p)
        self._passes_create = function("LLVMCreatePassManager", pointer)
        self._passes_run = function("LLVMRunPassManager", integer, pointer, pointer)
        self._new_machine = function(_NEW_MACHINE, pointer, pointer, pointer)
        self._add_passes = function(_ADD_PASSES, flag, pointer, pointer, pointer, pointer, flag)
        self._open_stream = function(_OPEN_STREAM, None, pointer, integer, flag, flag, integer)
        self._seek = function(_SEEK, ctypes.c_uint64, pointer, ctypes.c_uint64)
        # The results of both are written where their first argument says.
        self._builder = _Builder()
        function(_DETECT_HOST, pointer, pointer)(self._builder)
        options = [b"", *_OPTIONS]
        function("LLVMParseCommandLineOptions", None, integer, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p)(
            len(options), (ctypes.c_char_p * len(options))(*options), None
        )
        self._writers: list[_Writer] = []
        os.register_at_fork(after_in_child=self._writers.clear)  # parent and child would write into the same files

    def object_of(self, context: int, module: int) -> bytes:
        """The object file of a module, all of whose functions say their processors.

        Raises:
            InternalError: LLVM refuses the module.
        """
        self._register(context)
        with self._own_context() as own:
            translated = self._translate(self._api.module_operation(module), own)
            if not translated:
                raise InternalError("LLVM refused the generated code", remedy="report it with the model's StableHLO")
            return self._object_of(translated)

    def object_of_ir(self, text: bytes) -> bytes:
        """The same of the text of one in LLVM IR, which MLIR takes five times as long to make of its own."""
        with self._own_context() as own:
            source = self._buffer_create(text, len(text), b"kernels")
            module, message = ctypes.c_void_p(), ctypes.c_void_p()
            if self._parse(own, source, ctypes.byref(module), ctypes.byref(message)):
                reason = ctypes.string_at(message.value or b"").decode()
                self._message_dispose(message)
                raise _refused(reason)
            assert module.value is not None
            if self._is_invalid(module, None, None):  # LLVM ends the process over such code
                self._module_dispose(module)
                raise _refused("it is not valid")
            return self._object_of(module.value)

    @contextmanager
    def _own_context(self) -> Iterator[int]:
        own = self._context_create()
        try:
            yield own
        finally:
            self._context_dispose(own)

    def _object_of(self, module: int) -> bytes:
        """Of a module of LLVM's, which ends here."""
        try:
            self._set_triple(module, X86_64.triple.encode())
            self._set_layout(module, X86_64.data_layout.encode())
            with self._lent_writer() as writer:
                self._passes_run(writer.passes, module)
                self._seek(writer.stream, 0)  # writes what is left
                content = os.pread(writer.file, os.fstat(writer.file).st_size, 0)
                os.ftruncate(writer.file, 0)
                return content
        finally:
            self._module_dispose(module)

    @contextmanager
    def _lent_writer(self) -> Iterator[_Writer]:
        try:
            writer = self._writers.pop()
        except IndexError:
            writer = self._new_writer()
        yield writer
        self._writers.append(writer)  # not one that failed

    def _new_writer(self) -> _Writer:
        made = _Made()
        self._new_machine(made, self._builder)
        machine, is_error = made
        if is_error & 1:
            raise InternalError("LLVM has no code generator for this machine")
        writer = _Writer(self._passes_create(), _Stream(), os.memfd_create("shlo-object"))
        self._open_stream(writer.stream, writer.file, False, False, _FILE)
        code_context = ctypes.c_void_p()
        if self._add_passes(machine, writer.passes, ctypes.byref(code_context), writer.stream, True):
            raise InternalError("LLVM has no object files for this machine")
        return writer


def _refused(reason: str) -> InternalError:
    return InternalError(
        f"LLVM refused the generated code: {reason}",
        remedy="this is a defect of the kernel generator; report it with the model's StableHLO",
    )


@once
def code_generator() -> CodeGenerator | None:
    """That of the process; None: MLIR's library has none that is known."""
    with suppress(PackageNotFoundError, AttributeError):
        if host_architecture() is X86_64 and version("torch-mlir") in WHEELS:
            return CodeGenerator(capi())
    return None
