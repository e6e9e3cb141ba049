"""XLA's FFI as handlers compiled against its headers see it (xla/ffi/api/c_api.h, version 0.5): the structures of a
call, and the functions that a handler may call, in the order of `XLA_FFI_Api`. Later versions add to earlier ones, but
for `_OLDER`: so handlers of every version from OLDEST_MINOR on are called, whichever version of JAX is installed.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from stablehlo_py.options import available_threads
from stablehlo_py.pjrt.blocks import PlatformError, calloc

MAJOR, OLDEST_MINOR, MINOR = 0, 2, 5
# Numbers of element types, by StableHLO's names.
_NUMBERS = """
i1:1 i2:26 i4:21 i8:2 i16:3 i32:4 i64:5 ui2:27 ui4:22 ui8:6 ui16:7 ui32:8 ui64:9
f16:10 f32:11 f64:12 bf16:16 complex<f32>:15 complex<f64>:18 f8E5M2:19 f8E3M4:29 f8E4M3:28 f8E4M3FN:20
f8E4M3B11FNUZ:23 f8E5M2FNUZ:24 f8E4M3FNUZ:25 f4E2M1FN:32 f8E8M0FNU:33
"""
DATA_TYPES = {name: int(number) for name, number in (word.split(":") for word in _NUMBERS.split())}
BUFFER = 1  # XLA_FFI_ArgType, XLA_FFI_RetType
ARRAY, DICTIONARY, SCALAR, STRING = range(1, 5)  # XLA_FFI_AttrType
INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = STAGES = range(4)
METADATA = 1  # XLA_FFI_Extension_Type
CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
_NOT_FOUND, _UNIMPLEMENTED, _INTERNAL = 5, 12, 13

_TYPES = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "l": ctypes.c_int64,
    "i": ctypes.c_int32,
}


def _structure(name: str, fields: str, *, header: bool = True) -> type[ctypes.Structure]:
    """A structure by its fields: names, each with a letter for its type or the name of a structure that it holds."""
    listed: list[tuple[str, Any]] = (
        [("struct_size", ctypes.c_size_t), ("extensions", ctypes.c_void_p)] if header else []
    )
    for word in fields.split():
        field, kind = word.split(":")
        listed.append((field, _TYPES.get(kind) or _STRUCTURES[kind]))
    made = _STRUCTURES[name] = type(name, (ctypes.Structure,), {"_fields_": listed})
    return made


_STRUCTURES: dict[str, type[ctypes.Structure]] = {}
Buffer = _structure("Buffer", "dtype:i data:p rank:l dims:p")
Span = _structure("Span", "text:p size:z", header=False)
Scalar = _structure("Scalar", "dtype:i value:p", header=False)
Array = _structure("Array", "dtype:i size:z data:p", header=False)
Values = _structure("Values", "size:l types:p values:p")
Attributes = _structure("Attributes", "size:l types:p names:p values:p")
Frame = _structure("Frame", "api:p context:p stage:i arguments:Values results:Values attributes:Attributes future:p")
Version = _structure("Version", "major:i minor:i")
MetadataExtension = _structure("MetadataExtension", "size:z type:i next:p metadata:p", header=False)
Metadata = _structure("Metadata", "struct_size:z version:Version traits:i state_type:l", header=False)
for _name, _fields in {
    "Error_Create": "message:p code:i",
    "Error_GetDetails": "error:p message:p code:i",
    "Error_Destroy": "error:p",
    "Type_Register": "name:Span type_id:p info:p",
    "InvokeContext_Get": "context:p type_id:p data:p",
    "State_Set": "context:p stage:i type_id:p state:p",
    "State_Get": "context:p stage:i type_id:p state:p",
    "DeviceMemory_Allocate": "context:p size:z alignment:z data:p",
    "DeviceMemory_Free": "context:p size:z data:p",
    "ThreadPool_Schedule": "context:p task:p data:p",
    "ThreadPool_NumThreads": "context:p number:p",
    "Future_Create": "future:p",
    "Future_SetAvailable": "future:p",
    "Future_SetError": "future:p error:p",
    "RunId_Get": "context:p run_id:l",
    "InvokeContext_FindExtension": "context:p type:l extension:p",
    "CustomOptions_Get": "context:p attributes:p",
}.items():
    _structure(_name, _fields)

#: What handlers compiled with older headers pass, by its size: Error_GetMessage has become Error_GetDetails in 0.4, and
#: states belong to stages since 0.3.
_OLDER = {
    ("Error_GetDetails", 32): _structure("Error_GetMessage", "error:p message:p"),
    ("State_Set", 40): _structure("State_Set_2", "context:p type_id:p state:p"),
    ("State_Get", 40): _structure("State_Get_2", "context:p type_id:p state:p"),
}

# In order; the others are refused.
_FUNCTIONS = tuple(
    """
    Error_Create Error_GetDetails Error_Destroy Handler_Register Stream_Get Type_Register InvokeContext_Get State_Set
    State_Get DeviceMemory_Allocate DeviceMemory_Free ThreadPool_Schedule ThreadPool_NumThreads Future_Create
    Future_SetAvailable Future_SetError RunId_Get DeviceOrdinal_Get InvokeContext_FindExtension CustomOptions_Get
    """.split()
)
Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_libc = ctypes.CDLL(None)
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]
_libc.aligned_alloc.restype, _libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]


class FfiError(PlatformError):
    """What a handler says that failed: a code of `CODES` and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, f"{CODES[code] if 0 <= code < len(CODES) else code}: {message}")


class Context:
    """What a call gives its handlers. `states` are those that stages before the execution have left, by stage."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[int, int]] = {}  # stage -> number of the type, address


class Runtime:
    """The functions that handlers call, and what they have asked for that is not over: numbers stand for objects."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._errors: dict[int, tuple[int, ctypes.Array[ctypes.c_char]]] = {}
        self._futures: dict[int, tuple[threading.Event, list[int]]] = {}
        self._contexts: dict[int, Context] = {}
        self._types: dict[bytes, int] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._no_options = Attributes(struct_size=ctypes.sizeof(Attributes))
        self._kept = [Handler(self._guarded(name)) for name in _FUNCTIONS]
        words = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._kept]
        version_bytes = ctypes.sizeof(Version)
        size = 16 + version_bytes + 8 + 8 * len(words)
        self.address = calloc(size)  # handlers keep it
        ctypes.c_size_t.from_address(self.address).value = size
        version = Version.from_address(self.address + 16)
        version.struct_size, version.major, version.minor = version_bytes, MAJOR, MINOR
        ctypes.memmove(self.address + 16 + version_bytes + 8, (ctypes.c_size_t * len(words))(*words), 8 * len(words))

    def call(self, handler: Callable[[int], int | None], frame: ctypes.Structure, context: Context) -> None:
        """Call a handler, and wait until it is done. Raises FfiError."""
        number = next(self._numbers)
        self._contexts[number] = context
        try:
            frame.api, frame.context = self.address, number
            self._raise(handler(ctypes.addressof(frame)))
            if frame.future:
                event, errors = self._futures[frame.future]
                event.wait()
                del self._futures[frame.future]
                self._raise(errors[0] if errors else None)
        finally:
            del self._contexts[number]

    def _raise(self, error: int | None) -> None:
        if error:
            code, message = self._errors.pop(error)
            raise FfiError(code, message.value.decode(errors="replace"))

    def _guarded(self, name: str) -> Callable[[int], int]:
        function = getattr(self, f"_{name.lower()}", None)

        def call(address: int) -> int:
            try:
                if function is None:
                    raise FfiError(_UNIMPLEMENTED, f"XLA_FFI_{name} is not there on this platform")
                size = ctypes.c_size_t.from_address(address).value
                return function(_OLDER.get((name, size), _STRUCTURES[name]).from_address(address)) or 0
            except FfiError as error:
                return self._error(error.code, str(error))
            except BaseException as error:  # whatever it is, it must not pass through C++
                return self._error(_INTERNAL, f"{type(error).__name__}: {error}")

        return call

    def _error(self, code: int, message: str) -> int:
        number = next(self._numbers)
        self._errors[number] = code, ctypes.create_string_buffer(message.encode(errors="replace"))
        return number

    # --- functions ----------------------------------------------------------------------------------------------------

    def _error_create(self, arguments: Any) -> int:
        message = ctypes.string_at(arguments.message) if arguments.message else b""
        return self._error(arguments.code, message.decode(errors="replace"))

    def _error_getdetails(self, arguments: Any) -> None:
        code, message = self._errors[arguments.error]
        arguments.message, arguments.code = ctypes.addressof(message), code

    def _error_destroy(self, arguments: Any) -> None:
        self._errors.pop(arguments.error, None)

    def _type_register(self, arguments: Any) -> None:
        self.register_type(ctypes.string_at(arguments.name.text, arguments.name.size), arguments.type_id)

    def register_type(self, name: bytes, place: int) -> None:
        """Give a type a number, which is written to `place` unless another one stands there."""
        cell = ctypes.c_int64.from_address(place)
        number = self._types.setdefault(name, cell.value or 1_000_000 + next(self._numbers))
        if cell.value not in (0, number):
            raise FfiError(_INTERNAL, f"the type {name.decode(errors='replace')!r} has another number already")
        cell.value = number

    def _invokecontext_get(self, arguments: Any) -> None:
        raise FfiError(_NOT_FOUND, "JAX passes no user data to this platform's programs")

    def _state_set(self, arguments: Any) -> None:
        number = ctypes.c_int64.from_address(arguments.type_id).value
        self._contexts[arguments.context].states[_stage(arguments)] = number, arguments.state

    def _state_get(self, arguments: Any) -> None:
        asked = ctypes.c_int64.from_address(arguments.type_id).value
        number, state = self._contexts[arguments.context].states.get(_stage(arguments), (0, 0))
        if not number or number != asked:
            raise FfiError(_NOT_FOUND, "the handler has left no state of this type")
        arguments.state = state

    def _devicememory_allocate(self, arguments: Any) -> None:
        alignment = max(arguments.alignment, 16)
        arguments.data = _libc.aligned_alloc(alignment, max(1, -(-arguments.size // alignment)) * alignment)
        if not arguments.data:
            raise MemoryError

    def _devicememory_free(self, arguments: Any) -> None:
        _libc.free(arguments.data)

    def _threadpool_schedule(self, arguments: Any) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(available_threads(), "ffi")
        self._pool.submit(_Task(arguments.task), arguments.data)

    def _threadpool_numthreads(self, arguments: Any) -> None:
        ctypes.c_int64.from_address(arguments.number).value = available_threads()

    def _future_create(self, arguments: Any) -> None:
        number = arguments.future = next(self._numbers)
        self._futures[number] = threading.Event(), []

    def _future_setavailable(self, arguments: Any) -> None:
        self._futures[arguments.future][0].set()

    def _future_seterror(self, arguments: Any) -> None:
        event, errors = self._futures[arguments.future]
        errors.append(arguments.error)
        event.set()

    def _runid_get(self, arguments: Any) -> None:
        arguments.run_id = arguments.context

    def _invokecontext_findextension(self, arguments: Any) -> None:
        arguments.extension = None  # there are none

    def _customoptions_get(self, arguments: Any) -> None:
        arguments.attributes = ctypes.addressof(self._no_options)


def _stage(arguments: Any) -> int:
    """Whose state it is: before 0.3 only instantiation leaves one."""
    return getattr(arguments, "stage", INSTANTIATE)


@cache
def runtime() -> Runtime:
    """That of this process."""
    made = Runtime()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # handlers may call it at exit
    return made
