"""The only module that imports MLIR's Python bindings (the `torch-mlir` wheel).

Everything else says ``from stablehlo_py.mlir import ir``. There are two ways into MLIR:

* the bindings (`ir`, `PassManager`), used for everything that Python code reads or rewrites;
* `capi`, the same library's C functions through ctypes, which release the GIL: parse, translate and compile
  run on all cores from plain Python threads.
"""

from __future__ import annotations

import ctypes
import io
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from stablehlo_py.errors import InternalError
from stablehlo_py.foreign import new_capsule, pointer_of_capsule
from stablehlo_py.interrupts import deferred

with deferred():  # an exception while C++ registers its classes ends the process
    from torch_mlir import _mlir_libs, ir, rewrite
    from torch_mlir._mlir_libs import _stablehlo as stablehlo
    from torch_mlir._mlir_libs._mlir import ir as _cext_ir
    from torch_mlir.dialects import ext, irdl, quant
    from torch_mlir.dialects import func as func_dialect
    from torch_mlir.dialects import scf as scf_dialect
    from torch_mlir.passmanager import PassManager

T = TypeVar("T")

__all__ = [
    "Diagnostic",
    "MLIRError",
    "PassManager",
    "bytecode",
    "capi",
    "diagnostics",
    "errors_of",
    "ext",
    "func_dialect",
    "heard",
    "ir",
    "irdl",
    "linalg_copy",
    "message_of",
    "quant",
    "rewrite",
    "run_upstream",
    "scf_dialect",
    "stablehlo",
]

MLIRError = _cext_ir.MLIRError if hasattr(_cext_ir, "MLIRError") else ir.MLIRError

# For every op it wraps, the bindings import `torch_mlir.dialects.<namespace>`; a namespace without such a module
# costs a failed import search per op (18 us instead of 0.45). Empty modules end the search.
for _namespace in ("hlo", "stablehlo", "chlo", "vhlo"):
    sys.modules.setdefault(f"torch_mlir.dialects.{_namespace}", types.ModuleType(f"torch_mlir.dialects.{_namespace}"))


def quiet_context() -> ir.Context:
    """A bare context for one thread: upstream dialects only, no multithreading."""
    context = ir.Context()
    context.enable_multithreading(False)
    return context


def bytecode(module: ir.Module) -> bytes:
    """MLIR bytecode of a module."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def run_upstream(module: ir.Module, pipeline: str, verify: bool = False) -> None:
    """Run passes registered in C++ (MLIR's and StableHLO's) on a module, in pipeline syntax without the anchor."""
    manager = PassManager.parse(f"builtin.module({pipeline})", context=module.context)
    manager.enable_verifier(verify)
    manager.run(module.operation)


def linalg_copy(source: ir.Value, target: ir.Value) -> None:
    """A linalg.copy between memrefs, at the insertion point."""
    from torch_mlir.dialects import linalg  # its ops are built from a description of all of them: 0.1 s

    linalg.copy(source, outs=[target])


class _StringRef(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _NamedAttribute(ctypes.Structure):
    _fields_ = (("name", ctypes.c_void_p), ("attribute", ctypes.c_void_p))


class CApi:
    """MLIR's C API by ctypes: the calls that take long, without the GIL. Handles are plain integers."""

    def __init__(self) -> None:
        folder = Path(next(iter(_mlir_libs.__path__)))
        self._library = ctypes.CDLL(str(folder / "libTorchMLIRAggregateCAPI.so"))
        pointer, string, flag, integer = ctypes.c_void_p, _StringRef, ctypes.c_bool, ctypes.c_int
        self._context_create = self.function("mlirContextCreateWithThreading", pointer, flag)
        self._context_destroy = self.function("mlirContextDestroy", None, pointer)
        self._llvm_dialect = self.function("mlirGetDialectHandle__llvm__", pointer)
        self._load_dialect = self.function("mlirDialectHandleLoadDialect", pointer, pointer, pointer)
        self.module_parse = self.function("mlirModuleCreateParse", pointer, pointer, string)
        self.module_operation = self.function("mlirModuleGetOperation", pointer, pointer)
        self.module_destroy = self.function("mlirModuleDestroy", None, pointer)
        self._translate = self.function("mlirTranslateModuleToLLVMIRToString", pointer, pointer)
        self.engine_create = self.function(
            "mlirExecutionEngineCreate", pointer, pointer, integer, integer, pointer, flag, flag
        )
        self.engine_register = self.function("mlirExecutionEngineRegisterSymbol", None, pointer, string, pointer)
        self.engine_lookup = self.function("mlirExecutionEngineLookup", pointer, pointer, string)
        self.engine_dump = self.function("mlirExecutionEngineDumpToObjectFile", None, pointer, string)
        self.engine_destroy = self.function("mlirExecutionEngineDestroy", None, pointer)
        size = ctypes.c_size_t
        self.dense_raw_data = self.function("mlirDenseElementsAttrGetRawData", pointer, pointer)
        self.dense_is_splat = self.function("mlirDenseElementsAttrIsSplat", flag, pointer)
        self.is_dense = self.function("mlirAttributeIsADenseElements", flag, pointer)
        self.dense_from_raw = self.function("mlirDenseElementsAttrRawBufferGet", pointer, pointer, size, pointer)
        self.inherent_attribute = self.function("mlirOperationGetInherentAttributeByName", pointer, pointer, string)
        self._dictionary_size = self.function("mlirDictionaryAttrGetNumElements", ctypes.c_ssize_t, pointer)
        self._dictionary_entry = self.function(
            "mlirDictionaryAttrGetElement", _NamedAttribute, pointer, ctypes.c_ssize_t
        )
        self._identifier_text = self.function("mlirIdentifierStr", _Text, pointer)
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [pointer]
        # A capsule borrows its name: this object keeps it alive.
        self._attribute_capsule = ir.Attribute.__module__.split(".", maxsplit=1)[0].encode() + b".ir.Attribute._CAPIPtr"

    def function(self, name: str, result: object, *arguments: object) -> Any:
        """A function of the library. Raises AttributeError: it has none of that name."""
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, list(arguments)
        return function

    @staticmethod
    def string(text: bytes) -> _StringRef:
        """A borrowed string; `text` must outlive the call."""
        return _StringRef(text, len(text))

    def handle(self, value: ir.Context | ir.Operation | ir.Attribute | ir.Type) -> int:
        """The C handle inside a bindings object; the object must stay alive while the handle is used."""
        return pointer_of_capsule(value._CAPIPtr)

    def attribute(self, handle: int) -> ir.Attribute:
        """The bindings object of an attribute handle. The bindings refuse complex dense elements: TypeError."""
        return ir.Attribute._CAPICreate(new_capsule(handle, self._attribute_capsule))

    def names(self, dictionary: ir.Attribute) -> list[str]:
        """The names of a dictionary's entries, in order. Raises UnicodeDecodeError: one is no text."""
        handle = self.handle(dictionary)
        found = []
        for number in range(self._dictionary_size(handle)):
            text = self._identifier_text(self._dictionary_entry(handle, number).name)
            found.append(ctypes.string_at(text.data, text.length).decode())
        return found

    @contextmanager
    def llvm_context(self) -> Iterator[int]:
        """The handle of a context with the llvm dialect alone: 0.4 ms, where one with every dialect takes 4."""
        context = self._context_create(False)
        try:
            self._load_dialect(self._llvm_dialect(), context)
            yield context
        finally:
            self._context_destroy(context)

    def translate_to_llvm_ir(self, operation: int) -> str:
        """LLVM IR text of a module in the llvm dialect."""
        text = self._translate(operation)
        try:
            return ctypes.string_at(text).decode()
        finally:
            self._free(text)


_capi: CApi | None = None


def capi() -> CApi:
    """The process-wide `CApi`, loaded at the first use."""
    global _capi
    if _capi is None:
        _capi = CApi()
    return _capi


@dataclass(frozen=True)
class Diagnostic:
    """A copy of one MLIR diagnostic: MLIR's own object is dead once its handler has returned."""

    severity: ir.DiagnosticSeverity
    message: str
    location: ir.Location
    notes: tuple[Diagnostic, ...] = ()

    @staticmethod
    def copy(diagnostic: ir.Diagnostic | ir.DiagnosticInfo) -> Diagnostic:
        """Everything that is in MLIR's object, notes included."""
        notes = tuple(Diagnostic.copy(note) for note in diagnostic.notes)
        return Diagnostic(diagnostic.severity, message_of(diagnostic), diagnostic.location, notes)


def message_of(diagnostic: Any) -> str:
    """The message of a diagnostic of any copy of the bindings. They refuse one that quotes bytes which are not
    UTF-8."""
    try:
        return diagnostic.message
    except RuntimeError:
        return "a name is not valid UTF-8"


@contextmanager
def diagnostics(context: ir.Context) -> Iterator[list[Diagnostic]]:
    """Collect MLIR diagnostics instead of letting them go to stderr.

    What the bindings turn into an `MLIRError` (parsing, verifying, passes) travels in the exception's
    `error_diagnostics` and does not come here: see `errors_of`.
    """
    with heard(context, Diagnostic.copy) as collected:
        yield collected


@contextmanager
def heard(context: Any, copy: Callable[[Any], T]) -> Iterator[list[T]]:
    """Collect copies of the diagnostics of a context, of any copy of the bindings.

    The bindings print and drop what a handler raises. So Ctrl-C waits until the end, and a diagnostic that could not
    be copied is an error then.

    Raises:
        InternalError: a diagnostic was lost, and nothing else was raised.
    """
    collected: list[T] = []

    def handler(diagnostic: Any) -> bool:
        collected.append(copy(diagnostic))
        return True

    with deferred():
        handle = context.attach_diagnostic_handler(handler)
        try:
            yield collected
        finally:
            handle.detach()
        if handle.had_error:
            raise InternalError("a diagnostic of MLIR was lost", remedy="report it with what stderr says")


def errors_of(error: Exception, collected: Iterable[Diagnostic] = ()) -> list[Diagnostic]:
    """All error diagnostics: those an `MLIRError` carries and those that `diagnostics` collected."""
    carried = [Diagnostic.copy(each) for each in getattr(error, "error_diagnostics", ())]
    return [each for each in (*carried, *collected) if each.severity == ir.DiagnosticSeverity.ERROR]
