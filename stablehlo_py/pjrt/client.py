"""The platform behind the PJRT C API: devices, arrays, executables; the functions that Python implements.

Everything is done when a function returns, so one event serves for all. Native code (native.py) answers what is asked
of arrays and executables; here is what makes them.
"""

from __future__ import annotations

import ctypes
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import Code, get_backend
from stablehlo_py.backends.cpu.symbols import registered_targets
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import (
    ArgumentError,
    CallError,
    LoadError,
    OptionError,
    ResourceError,
    ShloError,
    UnsupportedError,
)
from stablehlo_py.handlers import is_bound_here
from stablehlo_py.mlir import stablehlo
from stablehlo_py.options import Options
from stablehlo_py.pjrt.api import structure
from stablehlo_py.pjrt.blocks import Blocks, Memory, calloc
from stablehlo_py.pjrt.options import CompileOptions, device_assignment
from stablehlo_py.pjrt.tokens import tokens_as_arrays
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.memory import ArrayMemory
from stablehlo_py.runtime.program import CompiledProgram, Spec

PLATFORM, KIND = "shlo", "device"
# PJRT_Buffer_Type, from 1 on, by StableHLO's names.
_TYPES = (
    *("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64", "bf16", "complex<f32>"),
    *("complex<f64>", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E5M2FNUZ", "f8E4M3FNUZ", "i4", "ui4", "token", "i2"),
    *("ui2", "f8E4M3", "f8E3M4", "f8E8M0FNU", "f4E2M1FN"),
)
_NUMBERS = {name: number for number, name in enumerate(_TYPES, 1)}
_INT64_LIST = 2  # PJRT_NamedValue_Type
# Codes of errors (absl::StatusCode).
_INVALID, _EXHAUSTED, _UNIMPLEMENTED, _INTERNAL = 3, 8, 12, 13
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UnsupportedError, _UNIMPLEMENTED),
    (ResourceError, _EXHAUSTED),
    (MemoryError, _EXHAUSTED),
    (ArgumentError, _INVALID),
    (LoadError, _INVALID),
    (OptionError, _INVALID),
    (ValueError, _INVALID),
)


@dataclass(eq=False)
class _Buffer:
    """An array on a device: what Python keeps beside its block. `foreign` memory is not written."""

    array: np.ndarray
    device: int


@dataclass(eq=False)
class _Executable:
    """A program that is loaded, and what a call of it needs."""

    program: CompiledProgram
    code: Code
    device: int
    memory: Memory  # that its block refers to
    donated: dict[int, int] = field(default_factory=dict)  # output -> input


class Client:
    """One process's devices: `count` of them, which share the processor and its memory."""

    def __init__(self, count: int, target: str) -> None:
        self.blocks = Blocks()
        self._texts = Memory()
        text, numbers = self._texts.text, self._texts.numbers
        self.target = target
        self._memory = ArrayMemory(1 << 30)
        self._memories: list[int] = []
        self._named: ctypes.Array[ctypes.Structure] | None = None
        self.devices = [self._device(number) for number in range(count)]
        self._device_numbers = {address: number for number, address in enumerate(self.devices)}
        name, version = text(PLATFORM), text(f"stablehlo-py on {get_backend(target).describe(Options())}")
        self.address = self.blocks.new(
            "client",
            self,
            name=name[0],
            name_size=name[1],
            version=version[0],
            version_size=version[1],
            devices=numbers(self.devices),
            num_devices=count,
            memories=numbers(self._memories),
            num_memories=count,
        )

    def _device(self, number: int) -> int:
        text, numbers = self._texts.text, self._texts.numbers
        kind, memory_kind = text("cpu"), text(KIND)
        shown, memory_shown = text(f"ShloDevice(id={number})"), text(f"ShloMemory(id={number})")
        memory = self.blocks.new(
            "memory",
            None,
            id=number,
            kind=memory_kind[0],
            kind_size=memory_kind[1],
            text=memory_shown[0],
            text_size=memory_shown[1],
        )
        device = self.blocks.new(
            "device",
            None,
            id=number,
            kind=kind[0],
            kind_size=kind[1],
            text=shown[0],
            text_size=shown[1],
            memories=numbers([memory]),
            memory=memory,
        )
        ctypes.c_int64.from_address(memory + 56).value = numbers([device])
        self._memories.append(memory)
        return device

    # --- functions of the API -----------------------------------------------------------------------------------------

    def functions(self) -> dict[str, Callable[[int], None]]:
        """By their names; each takes the address of its arguments."""
        return {
            "Plugin_Attributes": self._attributes,
            "Client_Create": self._create,
            "Client_LookupDevice": self._lookup,
            "Client_LookupAddressableDevice": self._lookup,
            "Client_Compile": self._compile,
            "Client_DefaultDeviceAssignment": self._default_assignment,
            "Client_BufferFromHostBuffer": self._from_host,
            "LoadedExecutable_Execute": self._execute,
            "LoadedExecutable_Delete": self._delete_executable,
            "Executable_GetCompiledMemoryStats": self._memory_stats,
            "Executable_Serialize": self._serialize,
            "Executable_DeserializeAndLoad": self._deserialize,
            "Buffer_CopyToDevice": self._copy_to_device,
            "Buffer_CopyToMemory": self._copy_to_memory,
            "Buffer_ToHostBuffer": self._to_host,
            "Buffer_CopyRawToHost": self._raw_to_host,
        }

    def error(self, failure: BaseException) -> int:
        """A new error of the API."""
        code = next((code for kinds, code in _CODES if isinstance(failure, kinds)), _INTERNAL)
        said = str(failure) if isinstance(failure, ShloError) else f"{type(failure).__name__}: {failure}"
        if isinstance(failure, CallError) and failure.__cause__ is not None:  # a function of Python raised it
            said += "\n" + "".join(traceback.format_exception(failure.__cause__))
        memory = Memory()
        message, size = memory.text(said)
        return self.blocks.new("error", memory, message=message, size=size, code=code)

    def _attributes(self, address: int) -> None:
        """The versions of StableHLO that are read: JAX writes programs in the newest of them that it knows."""
        arguments = structure("Plugin_Attributes").from_address(address)
        if self._named is None:
            kind = structure("NamedValue")
            versions = {
                "stablehlo_current_version": _version(stablehlo.get_current_version()),
                "stablehlo_minimum_version": _version(stablehlo.get_minimum_version()),
            }
            self._named = (kind * len(versions))()
            for value, (name, version) in zip(self._named, versions.items(), strict=True):
                value.struct_size, value.type = ctypes.sizeof(kind), _INT64_LIST
                value.name, value.name_size = self._texts.text(name)
                value.value, value.value_size = self._texts.numbers(version), len(version)
        arguments.attributes, arguments.count = ctypes.addressof(self._named), len(self._named)

    def _create(self, address: int) -> None:
        structure("Client_Create").from_address(address).client = self.address

    def _lookup(self, address: int) -> None:
        arguments = structure("Client_LookupDevice").from_address(address)
        if not 0 <= arguments.id < len(self.devices):
            raise ArgumentError(f"there is no device {arguments.id}", remedy=f"there are {len(self.devices)}")
        arguments.device = self.devices[arguments.id]

    def _default_assignment(self, address: int) -> None:
        arguments = structure("Client_DefaultDeviceAssignment").from_address(address)
        count = arguments.replicas * arguments.partitions
        if count > len(self.devices):
            raise ArgumentError(
                f"{count} devices are asked for, and there are {len(self.devices)}",
                remedy="set SHLO_NUM_DEVICES to how many there are to be",
            )
        (ctypes.c_int32 * count).from_address(arguments.assignment)[:] = list(range(count))

    # --- executables --------------------------------------------------------------------------------------------------

    def _compile(self, address: int) -> None:
        arguments = structure("Client_Compile").from_address(address)
        program = structure("Program").from_address(arguments.program)
        form = ctypes.string_at(program.format, program.format_size)
        if form != b"mlir":
            raise UnsupportedError(f"programs in the form '{form.decode()}' are not read", remedy="pass StableHLO")
        options = CompileOptions.of(ctypes.string_at(arguments.options, arguments.options_size))
        if options.replicas * options.partitions > 1:
            raise UnsupportedError(
                f"a program for {options.replicas} x {options.partitions} devices is not run by this platform yet",
                remedy="run it on one device, or compile it with stablehlo_py.compile",
            )
        source = tokens_as_arrays(ctypes.string_at(program.code, program.code_size))
        made = compile_program(source, target=self.target, options=Options(isolate=False))
        device = options.devices[0] if options.devices else 0
        arguments.executable = self._executable(made, device)

    def _executable(self, program: CompiledProgram, device: int) -> int:
        code = get_backend(program.backend).load(program)
        outputs = program.outputs
        shapes = [tuple(size or 0 for size in spec.shape) for spec in outputs]
        memory = Memory()
        kind, assignment = memory.text(KIND), memory.text(device_assignment(device))
        name, print_ = memory.text("main"), memory.text(program.digest.hex())
        owner = _Executable(program, code, device, memory, dict(program.donations))
        return self.blocks.new(
            "executable",
            owner,
            name=name[0],
            name_size=name[1],
            devices=memory.numbers([self.devices[device]]),
            num_outputs=len(outputs),
            code_bytes=sum(map(len, program.objects)),
            types=memory.numbers([_NUMBERS[element_name(spec.dtype)] for spec in outputs], 4),
            dims=memory.numbers([size for shape in shapes for size in shape]),
            ranks=memory.numbers([len(shape) for shape in shapes]),
            kinds=memory.numbers([kind[0]] * len(outputs)),
            kind_sizes=memory.numbers([kind[1]] * len(outputs)),
            assignment=assignment[0],
            assignment_size=assignment[1],
            fingerprint=print_[0],
            fingerprint_size=print_[1],
        )

    def _delete_executable(self, address: int) -> None:
        executable = structure("LoadedExecutable_Delete").from_address(address).executable
        self.blocks.mark("executable", executable, "deleted")

    def _memory_stats(self, address: int) -> None:
        arguments = structure("Executable_GetCompiledMemoryStats").from_address(address)
        program = self._executable_of(arguments.executable).program
        arguments.code = sum(map(len, program.objects)) + sum(array.nbytes for array in program.constants)
        arguments.arguments, arguments.results = (
            sum(_bytes(spec) for spec in specs) for specs in (program.inputs, program.outputs)
        )
        arguments.aliases = sum(_bytes(program.outputs[output]) for output, _ in program.donations)
        arguments.workspace = program.arena_bytes
        arguments.total = arguments.code + arguments.arguments + arguments.results + arguments.workspace
        arguments.total -= arguments.aliases
        arguments.peak = arguments.total

    def _serialize(self, address: int) -> None:
        """As an artifact, which JAX's cache of compilations keeps."""
        arguments = structure("Executable_Serialize").from_address(address)
        memory = Memory()
        program = self._executable_of(arguments.executable).program
        if any(is_bound_here(target) for target in registered_targets(program.symbols)):
            raise UnsupportedError(
                "the program calls functions of Python that other processes do not have",
                remedy="call them by a name: jax.ffi.ffi_call in the model, register_custom_call where it runs",
            )
        content = artifact.serialize(program)
        arguments.content, arguments.size = memory.text(content)
        arguments.handle, arguments.deleter = self.blocks.new("bytes", memory), self.blocks.release

    def _deserialize(self, address: int) -> None:
        arguments = structure("Executable_DeserializeAndLoad").from_address(address)
        content = ctypes.string_at(arguments.content, arguments.size)
        arguments.executable = self._executable(artifact.deserialize(content, "JAX's cache"), 0)

    def _executable_of(self, handle: int) -> _Executable:
        owner = self.blocks.owner(handle)
        assert isinstance(owner, _Executable)
        return owner

    def _execute(self, address: int) -> None:
        arguments = structure("LoadedExecutable_Execute").from_address(address)
        executable = self._executable_of(arguments.executable)
        options = structure("ExecuteOptions").from_address(arguments.options)
        count = arguments.num_arguments
        row = ctypes.c_int64.from_address(arguments.arguments).value if count else 0
        handles = list((ctypes.c_int64 * count).from_address(row)) if count else []
        kept = set((ctypes.c_int64 * options.num_kept).from_address(options.kept)) if options.num_kept else set()
        buffers = [self._live(handle) for handle in handles]
        inputs = [buffer.array for buffer in buffers]
        spent = {}
        for output, position in executable.donated.items():
            if position in kept or handles.count(handles[position]) > 1:
                inputs[position] = self._copied(inputs[position])
            else:
                spent[output] = position
        results = []
        for number, spec in enumerate(executable.program.outputs):
            if number in executable.donated:
                results.append(inputs[executable.donated[number]])
            else:
                shape = tuple(size or 0 for size in spec.shape)
                results.append(self._empty(shape, spec.dtype))
        executable.code.run([_place(array) for array in inputs], [_place(array) for array in results])
        for position in spent.values():
            self.blocks.mark("buffer", handles[position], "deleted")
        made = [self._buffer(array, executable.device) for array in results]
        if made:
            row = ctypes.c_int64.from_address(arguments.outputs).value
            ctypes.memmove(row, (ctypes.c_int64 * len(made))(*made), 8 * len(made))
        if arguments.events:
            ctypes.c_int64.from_address(arguments.events).value = self.blocks.done

    # --- arrays -------------------------------------------------------------------------------------------------------

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return self._memory.array(shape, dtype, math.prod(shape) * dtype.itemsize)

    def _copied(self, array: np.ndarray) -> np.ndarray:
        made = self._empty(array.shape, array.dtype)
        np.copyto(made, array)
        return made

    def _live(self, handle: int) -> _Buffer:
        buffer = self.blocks.owner(handle)
        if not isinstance(buffer, _Buffer) or self.blocks.flag("buffer", handle, "deleted"):
            raise ArgumentError("the array has been deleted or donated", remedy="use the result of the later call")
        return buffer

    def _buffer(self, array: np.ndarray, device: int) -> int:
        rank = array.ndim
        return self.blocks.new(
            "buffer",
            _Buffer(array, device),
            type=_NUMBERS[element_name(array.dtype)],
            dims=_dims(array.shape),
            rank=rank,
            bytes=array.nbytes,
            device=self.devices[device],
            memory=self._memories[device],
            data=_place(array),
            minor_to_major=_dims(tuple(reversed(range(rank)))),
        )

    def _from_host(self, address: int) -> None:
        arguments = structure("Client_BufferFromHostBuffer").from_address(address)
        dtype = ELEMENT_TYPES[_TYPES[arguments.type - 1]]
        shape = tuple((ctypes.c_int64 * arguments.num_dims).from_address(arguments.dims)) if arguments.num_dims else ()
        array = self._empty(shape, dtype)
        if array.size:
            strides = None
            if arguments.num_strides:
                strides = tuple((ctypes.c_int64 * arguments.num_strides).from_address(arguments.strides))
            np.copyto(array, _view(arguments.data, shape, dtype, strides))
        arguments.done = self.blocks.done
        device = self._device_numbers[arguments.device] if arguments.device else self._memories.index(arguments.memory)
        arguments.buffer = self._buffer(array, device)

    def _copy_to_device(self, address: int) -> None:
        arguments = structure("Buffer_CopyToDevice").from_address(address)
        device = self._device_numbers[arguments.device]
        arguments.result = self._buffer(self._copied(self._live(arguments.buffer).array), device)

    def _copy_to_memory(self, address: int) -> None:
        arguments = structure("Buffer_CopyToMemory").from_address(address)
        device = self._memories.index(arguments.memory)
        arguments.result = self._buffer(self._copied(self._live(arguments.buffer).array), device)

    def _to_host(self, address: int) -> None:
        arguments = structure("Buffer_ToHostBuffer").from_address(address)
        array = self._live(arguments.buffer).array
        if not arguments.target:
            arguments.size = array.nbytes
            return
        if arguments.size < array.nbytes:
            raise ArgumentError(f"{array.nbytes} bytes do not fit into {arguments.size}", remedy="pass more memory")
        strides = _strides_of(arguments.layout, array) if arguments.layout else None
        if array.size:
            np.copyto(_view(arguments.target, array.shape, array.dtype, strides), array)
        arguments.event = self.blocks.done

    def _raw_to_host(self, address: int) -> None:
        arguments = structure("Buffer_CopyRawToHost").from_address(address)
        array = self._live(arguments.buffer).array
        ctypes.memmove(arguments.target, _place(array) + arguments.offset, arguments.size)
        arguments.event = self.blocks.done


def _bytes(spec: Spec) -> int:
    return math.prod(size or 0 for size in spec.shape) * spec.dtype.itemsize


def _version(text_: str) -> list[int]:
    return [int(part) for part in text_.split(".")]


_KNOWN_DIMS: dict[tuple[int, ...], int] = {}
_DIMS = Memory()


def _dims(shape: tuple[int, ...]) -> int:
    """The address of these numbers, once for all arrays."""
    if shape not in _KNOWN_DIMS:
        _KNOWN_DIMS[shape] = _DIMS.numbers(shape)
    return _KNOWN_DIMS[shape]


_NOWHERE = calloc(64)


def _place(array: np.ndarray) -> int:
    return array.ctypes.data or _NOWHERE


def _view(address: int, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None) -> np.ndarray:
    """Memory that is not ours as an array."""
    described = {"shape": shape, "typestr": f"|V{dtype.itemsize}", "data": (address, False), "version": 3}
    if strides is not None:
        described["strides"] = strides
    holder = type("Memory", (), {"__array_interface__": described})()
    return np.asarray(holder).view(dtype) if dtype.itemsize else np.zeros(shape, dtype)


def _strides_of(layout: int, array: np.ndarray) -> tuple[int, ...] | None:
    """The strides that a PJRT_Buffer_MemoryLayout asks of an array's copy; None: row-major."""
    asked = structure("Layout").from_address(layout)
    if asked.type == 1:
        given = structure("Strides").from_address(layout)
        return tuple((ctypes.c_int64 * given.rank).from_address(given.strides)) if given.rank else None
    if asked.num_tiles:
        raise UnsupportedError("arrays in tiles are not written", remedy="ask for another layout")
    if not asked.rank:
        return None
    order = list((ctypes.c_int64 * asked.rank).from_address(asked.minor_to_major))
    strides, size = [0] * array.ndim, array.dtype.itemsize
    for dimension in order:
        strides[dimension] = size
        size *= array.shape[dimension]
    return tuple(strides)
