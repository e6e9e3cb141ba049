"""Handlers of XLA's FFI, as jax.ffi registers them, as targets of custom calls.

A custom call gives its handler the structure of include/shlo_custom_call.h; here XLA's frame is made of it for each
call, and passed on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stablehlo_py import handlers
from stablehlo_py.custom_calls import is_built_in
from stablehlo_py.errors import OptionError, shown
from stablehlo_py.foreign import pointer_of_capsule
from stablehlo_py.handlers import Handler
from stablehlo_py.pjrt import ffi_api
from stablehlo_py.pjrt.ffi_api import BUFFER, EXECUTE, INITIALIZE, INSTANTIATE, PREPARE, Context, runtime
from stablehlo_py.pjrt.versions import internals
from stablehlo_py.runtime.callbacks import ARRAY, DICTIONARY, DTYPES, NUMBERS, SCALAR, STRING, Call, attributes_in

_jax = internals()
_STAGES = {"instantiate": INSTANTIATE, "prepare": PREPARE, "initialize": INITIALIZE, "execute": EXECUTE}
_TYPED = 1  # jax.ffi's number for handlers of XLA's FFI; others are of older interfaces
_NUMBER_OF = {number: ffi_api.DATA_TYPES[name] for name, number in NUMBERS.items() if name in ffi_api.DATA_TYPES}
_KINDS = {
    SCALAR: ffi_api.SCALAR,
    ARRAY: ffi_api.ARRAY,
    STRING: ffi_api.STRING,
    DICTIONARY: ffi_api.DICTIONARY,
}
# By name: kind, element type, count, and bytes, or what a dictionary holds.
Attributes = tuple[tuple[bytes, int, int, int, Any], ...]
_seen: set[str] = set()


def register(platform: str, backend: str) -> None:
    """Let jax.ffi.register_ffi_target and register_ffi_type register for a platform, whose programs call the functions
    that are bound for a backend."""

    def target(name: str, function: Any, platform_name: str, api_version: int = _TYPED, traits: Any = None) -> None:
        del platform_name, traits
        if api_version != _TYPED:
            raise OptionError(
                f"the custom call '{name}' has api_version={api_version}",
                remedy="write it for XLA's typed FFI (api_version=1); register_custom_call takes other C functions",
            )
        _bind(backend, name, function)

    def type_(name: str, registration: Mapping[str, Any]) -> None:
        runtime().register_type(name.encode(), _pointer(name, registration["type_id"]))

    # As JAX does when it makes its CPU, which a process of this platform alone never makes: else what is registered for
    # "cpu" waits where nobody sees it.
    _jax.register_custom_call_handler("cpu", _jax.register_custom_call_target)
    _jax.register_custom_type_handler("cpu", _jax.register_custom_type)
    _jax.register_custom_call_handler(platform, target)
    _jax.register_custom_type_handler(platform, type_)


def adopt(backend: str) -> None:
    """Bind what is registered for JAX's own CPU, where nothing else is bound."""
    for name, function in _jax.custom_call_targets("cpu").items():
        if name not in _seen:
            _seen.add(name)
            if not is_built_in(backend, name) and handlers.handler_of(name, backend) is None:
                _bind(backend, name, function)


def _bind(backend: str, name: str, function: Any) -> None:
    if is_built_in(backend, name):
        raise OptionError(
            f"the compiler answers the target '{name}' itself", remedy="register the function under another name"
        )
    stages = function if isinstance(function, Mapping) else {"execute": function}
    unknown = [stage for stage in stages if stage not in _STAGES]
    if unknown or "execute" not in stages:
        raise OptionError(
            f"the custom call '{name}' has the stages {shown(list(stages))}",
            remedy=f"register a handler for 'execute', and for others of {', '.join(_STAGES)}",
        )
    made = {_STAGES[stage]: ffi_api.Handler(_pointer(name, capsule)) for stage, capsule in stages.items()}
    handlers.bind(backend, name, Handler(None, _Target(name, made)))


def _pointer(name: str, capsule: object) -> int:
    if type(capsule).__name__ != "PyCapsule":
        raise OptionError(
            f"'{name}' is a {type(capsule).__name__}", remedy="pass a PyCapsule, as jax.ffi.pycapsule makes it"
        )
    return pointer_of_capsule(capsule)


class _Target:
    """The handlers of a target, one for each stage. It takes the address of a call's structure.

    What comes before the execution happens once for each configuration: states depend on attributes only.
    """

    def __init__(self, name: str, stages: Mapping[int, Callable[[int], int | None]]) -> None:
        self._stages = stages
        self._contexts: dict[Attributes, Context] = {}
        self._check_version(name)

    def _check_version(self, name: str) -> None:
        """A handler tells the version of the headers that it was compiled with."""
        metadata = ffi_api.Metadata(struct_size=ctypes.sizeof(ffi_api.Metadata))
        extension = ffi_api.MetadataExtension(
            size=ctypes.sizeof(ffi_api.MetadataExtension),
            type=ffi_api.METADATA,
            metadata=ctypes.addressof(metadata),
        )
        for stage, handler in self._stages.items():
            frame = _Frame(stage).frame
            frame.extensions = ctypes.addressof(extension)
            runtime().call(handler, frame, Context())
            found = metadata.version.major, metadata.version.minor
            if found[0] != ffi_api.MAJOR or not ffi_api.OLDEST_MINOR <= found[1] <= ffi_api.MINOR:
                raise OptionError(
                    f"the handler of '{name}' is made for version {found[0]}.{found[1]} of XLA's FFI",
                    remedy=f"compile it with headers of a version from {ffi_api.MAJOR}.{ffi_api.OLDEST_MINOR} to "
                    f"{ffi_api.MAJOR}.{ffi_api.MINOR}",
                )

    def __call__(self, address: int) -> None:
        call = Call.from_address(address)
        attributes = _attributes(call.attributes[: call.num_attributes])
        context = self._contexts.get(attributes)
        if context is None:
            context = Context()
            if INSTANTIATE in self._stages:
                self._run(INSTANTIATE, context, attributes)
            self._contexts[attributes] = context
        for stage in (PREPARE, INITIALIZE, EXECUTE):
            if stage in self._stages:
                self._run(stage, context, attributes, call)

    def _run(self, stage: int, context: Context, attributes: Attributes, call: Call | None = None) -> None:
        frame = _Frame(stage)
        frame.set_attributes(attributes)
        if call is not None:
            frame.set_buffers(call)
        runtime().call(self._stages[stage], frame.frame, context)


class _Frame:
    """XLA_FFI_CallFrame, and what it points to."""

    def __init__(self, stage: int) -> None:
        self._kept: list[Any] = []
        self.frame = ffi_api.Frame(struct_size=ffi_api.Frame.future.offset, stage=stage)
        for part in (self.frame.arguments, self.frame.results, self.frame.attributes):
            part.struct_size = ctypes.sizeof(part)

    def set_buffers(self, call: Call) -> None:
        """The operands and results of a call."""
        for values, buffers, count in (
            (self.frame.arguments, call.operands, call.num_operands),
            (self.frame.results, call.results, call.num_results),
        ):
            made = [
                ffi_api.Buffer(
                    struct_size=ctypes.sizeof(ffi_api.Buffer),
                    dtype=_NUMBER_OF[buffer.dtype],
                    data=buffer.data,
                    rank=buffer.rank,
                    dims=ctypes.cast(buffer.dims, ctypes.c_void_p),
                )
                for buffer in buffers[:count]
            ]
            values.size, values.types = count, self._numbers([BUFFER] * count)
            values.values = self._pointers(made)

    def set_attributes(self, attributes: Attributes) -> None:
        """Of a call."""
        self._list(self.frame.attributes, attributes)

    def _list(self, listed: ctypes.Structure, attributes: Attributes) -> None:
        names = [ffi_api.Span(text=self._bytes(name), size=len(name)) for name, *_ in attributes]
        values: list[ctypes.Structure] = []
        for _, kind, dtype, count, data in attributes:
            if not isinstance(data, bytes):
                values.append(ffi_api.Attributes(struct_size=ctypes.sizeof(ffi_api.Attributes)))
                self._list(values[-1], data)
            elif kind == SCALAR:
                values.append(ffi_api.Scalar(dtype=_NUMBER_OF[dtype], value=self._bytes(data)))
            elif kind == ARRAY:
                values.append(ffi_api.Array(dtype=_NUMBER_OF[dtype], size=count, data=self._bytes(data)))
            else:
                values.append(ffi_api.Span(text=self._bytes(data), size=count))
        listed.size = len(attributes)
        listed.types = self._numbers([_KINDS[kind] for _, kind, *_ in attributes])
        listed.names, listed.values = self._pointers(names), self._pointers(values)

    def _bytes(self, content: bytes) -> int:
        self._kept.append(ctypes.create_string_buffer(content, len(content) + 1))
        return ctypes.addressof(self._kept[-1])

    def _numbers(self, numbers: list[int]) -> int:
        self._kept.append((ctypes.c_int32 * (len(numbers) + 1))(*numbers))
        return ctypes.addressof(self._kept[-1])

    def _pointers(self, structures: list[Any]) -> int:
        self._kept += structures
        self._kept.append((ctypes.c_void_p * (len(structures) + 1))(*map(ctypes.addressof, structures)))
        return ctypes.addressof(self._kept[-1])


def _attributes(attributes: Sequence[Any]) -> Attributes:
    """The attributes of a call or of a dictionary, sorted, as handlers expect it."""
    found = []
    for attribute in attributes:
        data: bytes | Attributes
        if attribute.kind == DICTIONARY:
            data = _attributes(attributes_in(attribute))
        else:
            width = DTYPES[attribute.dtype].itemsize if attribute.dtype else 1
            data = ctypes.string_at(attribute.data, attribute.count * width)
        found.append((attribute.name, attribute.kind, attribute.dtype, attribute.count, data))
    return tuple(sorted(found))
