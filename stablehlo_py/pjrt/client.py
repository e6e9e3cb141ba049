"""The platform behind the PJRT C API: devices, arrays, executables; the functions that Python implements.

Native code answers what is asked of arrays and executables, runs programs and copies arrays (native.py). Here is what
makes executables, and what native code leaves to Python: programs that call Python, layouts that are not row-major,
errors; on GPUs also the first calls of a program, and new memory (places.py).
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed

import numpy as np

from stablehlo_py.backends.base import Code, get_backend
from stablehlo_py.backends.cpu.symbols import registered_targets
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import ArgumentError, LoadError, UnsupportedError
from stablehlo_py.handlers import is_bound_here
from stablehlo_py.mlir import stablehlo
from stablehlo_py.options import Options
from stablehlo_py.pjrt import analysis, grid
from stablehlo_py.pjrt.api import structure
from stablehlo_py.pjrt.blocks import Blocks, Memory, Storage, calloc, view
from stablehlo_py.pjrt.compilation import compile_given
from stablehlo_py.pjrt.executable import Compiled, Executable
from stablehlo_py.pjrt.fields import PYTHON
from stablehlo_py.pjrt.options import CompileOptions, device_assignment
from stablehlo_py.pjrt.places import Place
from stablehlo_py.pjrt.plans import plan_of
from stablehlo_py.pjrt.serialized import deserialize, serialize
from stablehlo_py.pjrt.signature import (
    Order,
    as_seen,
    in_memory,
    is_row_major,
    row_major,
)
from stablehlo_py.pjrt.strides import dense_strides, is_dense, order_of, strides_of
from stablehlo_py.pjrt.transfers import VIEW_ALIGNMENT
from stablehlo_py.pjrt.types import NUMBERS, TYPES
from stablehlo_py.runtime.cache import key_of
from stablehlo_py.runtime.program import Spec

_ONLY_DURING_CALL = 0  # PJRT_HostBufferSemantics: the caller's memory may change when the call returns


class Client:
    """The devices of a platform, for whose backend (`target`) programs are compiled.

    Attributes:
        python: where native code finds the functions that Python implements (`fields.PYTHON`).
    """

    def __init__(self, platform: str, target: str, places: Sequence[Place], blocks: Blocks) -> None:
        self.blocks = blocks
        self._texts, self.python = Memory(), calloc(8 * len(PYTHON))
        text, numbers = self._texts.text, self._texts.numbers
        self.platform, self.target, self._places = platform, target, places
        self._kinds = places[0].memory_kinds
        self._memory_devices: dict[int, int] = {}  # the number of the device that has a memory, by its address
        self._named: tuple[int, int] | None = None
        self.devices = [self._device(number) for number in range(len(places))]
        self._device_numbers = {address: number for number, address in enumerate(self.devices)}
        # JAX's cache of compilations takes the version for what tells compilers and machines apart.
        own = Options(device=places[0].number)
        key = key_of(get_backend(target).describe(own), own.key)[:16]
        name, version = text(platform), text(f"stablehlo-py {installed('stablehlo-py')} for {target}, key {key}")
        self.address = self.blocks.new(
            "client",
            self,
            name=name[0],
            name_size=name[1],
            version=version[0],
            version_size=version[1],
            devices=numbers(self.devices),
            num_devices=len(places),
            memories=numbers([*self._memory_devices]),
            num_memories=len(self._memory_devices),
        )

    def _device(self, number: int) -> int:
        text, numbers = self._texts.text, self._texts.numbers
        place, called = self._places[number], self.platform.title().replace("_", "")
        kind, shown = text(place.kind), text(f"{called}Device(id={number})")
        attributes = self._texts.named(place.attributes)
        memories = [self._memory(number, called, each) for each in range(len(self._kinds))]
        device = self.blocks.new(
            "device",
            None,
            id=number,
            kind=kind[0],
            kind_size=kind[1],
            text=shown[0],
            text_size=shown[1],
            memories=numbers(memories),
            num_memories=len(memories),
            memory=memories[0],
            queue=self._places[number].queue,
            python=self.python,
            attributes=attributes[0],
            num_attributes=attributes[1],
        )
        for memory in memories:
            self.blocks.set_field("memory", memory, "devices", numbers([device]))
            self._memory_devices[memory] = number
        return device

    def _memory(self, device: int, called: str, kind: int) -> int:
        number, name = device * len(self._kinds) + kind, self._texts.text(self._kinds[kind])
        shown = self._texts.text(f"{called}Memory(id={number}, kind={self._kinds[kind]})")
        return self.blocks.new(
            "memory",
            None,
            id=number,
            kind=name[0],
            kind_size=name[1],
            kind_id=kind,
            text=shown[0],
            text_size=shown[1],
        )

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
            "Client_CreateViewOfDeviceBuffer": self._view,
            "Device_MemoryStats": self._device_memory_stats,
            "LoadedExecutable_Execute": self._execute,
            "LoadedExecutable_Delete": self._delete_executable,
            "Executable_GetCostAnalysis": self._costs,
            "Executable_OptimizedProgram": self._text,
            "Executable_GetCompiledMemoryStats": self._memory_stats,
            "Executable_Serialize": self._serialize,
            "Executable_DeserializeAndLoad": self._deserialize,
            "Buffer_CopyToDevice": self._copy_to_device,
            "Buffer_CopyToMemory": self._copy_to_memory,
            "Buffer_ToHostBuffer": self._to_host,
            "Buffer_CopyRawToHost": self._raw_to_host,
        }

    def _attributes(self, address: int) -> None:
        """The versions of StableHLO that are read: JAX writes programs in the newest of them that it knows."""
        arguments = structure("Plugin_Attributes").from_address(address)
        if self._named is None:
            versions = {
                "stablehlo_current_version": _version(stablehlo.get_current_version()),
                "stablehlo_minimum_version": _version(stablehlo.get_minimum_version()),
            }
            self._named = self._texts.named(versions)
        arguments.attributes, arguments.count = self._named

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
                remedy="set SHLO_NUM_DEVICES to how many there are to be"
                if self._places[0].is_native
                else "ask for fewer",
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
        content = ctypes.string_at(program.code, program.code_size)
        place = self._places[self._assigned(options)[0]]
        arguments.executable = self._executable(compile_given(content, options, self.target, place))

    def _executable(self, made: Compiled) -> int:
        program, options, layouts = made.program, made.options, made.layouts
        if program.backend != self.target:
            raise LoadError(
                f"the program is for the backend '{program.backend}', the platform '{self.platform}' runs those for "
                f"'{self.target}'",
                remedy="compile it on this platform",
            )
        code = self._places[self._assigned(options)[0]].load(program)
        outputs = program.outputs
        shapes = [
            as_seen([size or 0 for size in spec.shape], order)
            for spec, order in zip(outputs, layouts.results, strict=True)
        ]
        of_arguments, of_results = (
            list(map(self.blocks.layout, each)) for each in (layouts.arguments, layouts.results)
        )
        orders = (
            [
                0 if is_row_major(order) else address
                for order, (_, address) in zip(layouts.arguments, of_arguments, strict=True)
            ],
            [address for _, address in of_results],
        )
        memory = Memory()
        devices = options.assigned
        assignment = memory.text(device_assignment(devices, options.replicas))
        names = [memory.text(self._kinds[kind]) for kind in made.kinds]
        name, print_ = memory.text("main"), memory.text(program.digest.hex())
        types = [NUMBERS[element_name(spec.dtype)] for spec in outputs]
        functions = self.blocks.code

        def plan(code: Code, driver: int) -> int:
            return plan_of(program, code, types, made.kinds, orders, shapes, memory, functions, driver)

        owner = Executable(**vars(made), code=code, memory=memory, plan=plan, donated=dict(program.donations))
        block = self.blocks.new(
            "executable",
            owner,
            name=name[0],
            name_size=name[1],
            devices=memory.numbers([self.devices[device] for device in devices]),
            num_devices=len(devices),
            replicas=options.replicas,
            partitions=options.partitions,
            num_parameters=len(program.inputs),
            num_outputs=len(outputs),
            code_bytes=sum(map(len, program.objects)),
            types=memory.numbers(types, 4),
            dims=memory.numbers([size for shape in shapes for size in shape]),
            ranks=memory.numbers([len(shape) for shape in shapes]),
            parameter_layouts=memory.numbers([layout for layout, _ in of_arguments]),
            output_layouts=memory.numbers([layout for layout, _ in of_results]),
            kinds=memory.numbers([address for address, _ in names]),
            kind_sizes=memory.numbers([size for _, size in names]),
            assignment=assignment[0],
            assignment_size=assignment[1],
            fingerprint=print_[0],
            fingerprint_size=print_[1],
            **made.shardings.fields(memory),
        )
        self._plan(block, self._places[devices[0]])
        return block

    def _plan(self, block: int, place: Place) -> None:
        """Let native code make the calls of an executable from now on, if it can. A device that was lost has other code
        now."""
        executable = self._executable_of(block)
        if executable.planned is executable.code:
            return
        plan = executable.plan(executable.code, place.driver(executable.code))
        self.blocks.set_field("executable", block, "plan", plan)
        executable.planned = executable.code if plan else None

    def _assigned(self, options: CompileOptions) -> tuple[int, ...]:
        """The numbers of a program's devices. Raises ArgumentError: there are no such devices."""
        missing = [number for number in options.assigned if not 0 <= number < len(self.devices)]
        if missing:
            raise ArgumentError(
                f"there is no device {missing[0]} on the platform '{self.platform}'",
                remedy=f"there are {len(self.devices)}",
            )
        return options.assigned

    def _delete_executable(self, address: int) -> None:
        executable = structure("LoadedExecutable_Delete").from_address(address).executable
        self.blocks.set_field("executable", executable, "deleted", 1)

    def _costs(self, address: int) -> None:
        arguments = structure("Executable_GetCostAnalysis").from_address(address)
        executable = self._executable_of(arguments.executable)
        if executable.costs is None:
            executable.costs = executable.memory.named(analysis.costs(executable.program))
        arguments.properties, arguments.count = executable.costs

    def _text(self, address: int) -> None:
        """JAX asks for the size first, then for the text."""
        arguments = structure("Executable_OptimizedProgram").from_address(address)
        program = structure("Program").from_address(arguments.program)
        executable = self._executable_of(arguments.executable)
        if executable.text is None:
            executable.text = analysis.text(executable.program).encode()
        program.format, program.format_size = executable.memory.text("mlir")
        if program.code:
            ctypes.memmove(program.code, executable.text, min(program.code_size, len(executable.text)))
        program.code_size = len(executable.text)

    def _memory_stats(self, address: int) -> None:
        arguments = structure("Executable_GetCompiledMemoryStats").from_address(address)
        program = self._executable_of(arguments.executable).program
        arguments.code = sum(map(len, program.objects)) + sum(array.nbytes for array in program.constants)
        arguments.arguments, arguments.results = (
            sum(_bytes(spec) for spec in specs) for specs in (program.inputs, program.outputs)
        )
        arguments.aliases = sum(_bytes(program.outputs[output]) for output, _ in program.donations)
        arguments.workspace = program.arena_bytes
        for place in ("host_code", "host_arguments", "host_results", "host_aliases", "host_workspace"):
            setattr(arguments, place, 0)
        arguments.total = arguments.code + arguments.arguments + arguments.results + arguments.workspace
        arguments.total -= arguments.aliases
        arguments.peak = arguments.total

    def _serialize(self, address: int) -> None:
        """As bytes, which JAX's cache of compilations keeps."""
        arguments = structure("Executable_Serialize").from_address(address)
        memory = Memory()
        executable = self._executable_of(arguments.executable)
        program = executable.program
        if any(is_bound_here(target) for target in registered_targets(program.symbols)):
            raise UnsupportedError(
                "the program calls functions of Python that other processes do not have",
                remedy="call them by a name: jax.ffi.ffi_call in the model, register_custom_call where it runs",
            )
        content = serialize(executable)
        arguments.content, arguments.size = memory.text(content)
        arguments.handle, arguments.deleter = self.blocks.new("bytes", memory), self.blocks.release

    def _deserialize(self, address: int) -> None:
        arguments = structure("Executable_DeserializeAndLoad").from_address(address)
        content = ctypes.string_at(arguments.content, arguments.size)
        options = ctypes.string_at(arguments.options, arguments.options_size) if arguments.options else b""
        arguments.executable = self._executable(deserialize(content, options))

    def _executable_of(self, handle: int) -> Executable:
        owner = self.blocks.owner(handle)
        assert isinstance(owner, Executable)
        return owner

    def _execute(self, address: int) -> None:
        """A call that is not native: see execution.py. Others that its devices were asked for are done before it."""
        arguments = structure("LoadedExecutable_Execute").from_address(address)
        executable = self._executable_of(arguments.executable)
        if self.blocks.field("executable", arguments.executable, "deleted"):
            raise ArgumentError("the program has been deleted", remedy="compile it again")
        options = structure("ExecuteOptions").from_address(arguments.options)
        devices = executable.options.assigned
        if arguments.num_devices != len(devices):
            raise ArgumentError(
                f"{arguments.num_devices} lists of arguments for a program on {len(devices)} devices",
                remedy="pass arguments on every device of the program",
            )
        places = [self._places[device] for device in devices]
        for place, device in zip(places, devices, strict=True):
            place.drain(self.devices[device])
        kept = _numbers(options.kept, options.num_kept)
        rows = _numbers(arguments.arguments, len(devices)) if arguments.num_arguments else [0] * len(devices)
        calls = [
            self._prepare(place, executable, _numbers(row, arguments.num_arguments), kept)
            for place, row in zip(places, rows, strict=True)
        ]
        for *_, spent in calls:
            for handle in spent:
                if not self.blocks.spend(handle):  # another thread was faster
                    raise _deleted()
        event = 0
        if executable.program.grid is None:
            event = places[0].run(executable, *calls[0][:2])
            self._plan(arguments.executable, places[0])
        else:
            inputs = [[each.address for each in taken] for taken, _, _ in calls]
            results = [[each.address for each in made] for _, made, _ in calls]
            grid.run(executable, inputs, results)
        if executable.program.outputs:
            for device, (_, made, _), row in zip(
                devices, calls, _numbers(arguments.outputs, len(devices)), strict=True
            ):
                self._hand_out(executable, made, device, row)
        if arguments.events:
            _write(arguments.events, [event or self.blocks.done] * len(devices))
        elif event:
            self.blocks.call["event_drop"](event)

    def _prepare(
        self, place: Place, executable: Executable, handles: list[int], kept: list[int]
    ) -> tuple[list[Storage], list[Storage], list[int]]:
        """Memory of a call on one device: its arguments, its results, and the handles of arguments that it takes.
        `kept` are positions of arguments that stay, though the program writes them."""
        inputs = [place.hold(handle) for handle in handles]
        self._check_inputs(executable, handles)
        spent, results = [], []
        times = Counter(handles)
        for number, spec in enumerate(executable.program.outputs):
            source = executable.donated.get(number)
            if source is None:
                results.append(place.storage(_bytes(spec)))
                continue
            is_taken = source not in kept
            if is_taken:
                if times[handles[source]] > 1:
                    raise ArgumentError(
                        f"argument {source} is donated, and passed as another argument, too",
                        remedy="pass a copy of it, or do not donate it",
                    )
                spent.append(handles[source])
            if not is_taken or self.blocks.is_shared(handles[source], inputs[source]):
                inputs[source] = place.copied(inputs[source], _bytes(spec), place)
            results.append(inputs[source])
        return inputs, results, spent

    def _hand_out(self, executable: Executable, results: Sequence[Storage], device: int, row: int) -> None:
        """Write the handles of new arrays on a device to the addresses from `row` on."""
        memories = _numbers(self.blocks.field("device", self.devices[device], "memories"), len(self._kinds))
        made = [
            self._buffer(
                storage, spec.dtype, as_seen([size or 0 for size in spec.shape], order), device, memories[kind], order
            )
            for storage, spec, kind, order in zip(
                results, executable.program.outputs, executable.kinds, executable.layouts.results, strict=True
            )
        ]
        _write(row, made)

    def _check_inputs(self, executable: Executable, handles: list[int]) -> None:
        given = [self.blocks.field("buffer", handle, "bytes") for handle in handles]
        wanted = [_bytes(spec) for spec in executable.program.inputs]
        if given != wanted:
            raise ArgumentError(
                f"the program takes arrays of {wanted} bytes, and gets {given}",
                remedy="call what was compiled for them",
            )
        for number, (handle, order) in enumerate(zip(handles, executable.layouts.arguments, strict=True)):
            own = self._order(handle)
            if own != order and not (is_row_major(own) and is_row_major(order)):
                raise ArgumentError(
                    f"argument {number} is to lie in memory in the order {order} of its dimensions, and lies in {own}",
                    remedy="call what was compiled for this layout",
                )

    # --- arrays -------------------------------------------------------------------------------------------------------

    def _place(self, handle: int) -> Place:
        """Where a buffer is."""
        return self._places[self._device_numbers[self.blocks.field("buffer", handle, "device")]]

    def _buffer(
        self,
        storage: Storage,
        dtype: np.dtype,
        shape: Sequence[int],
        device: int,
        memory: int | None = None,
        order: Order | None = None,
    ) -> int:
        """A buffer that takes over the memory; of the device's default kind, where `memory` is None, and row-major,
        where `order` is."""
        number, event = NUMBERS[element_name(dtype)], self._places[device].ready(storage)
        made = self.blocks.buffer(storage, number, shape, dtype.itemsize, self.devices[device], event)
        if memory:
            self.blocks.set_field("buffer", made, "memory", memory)
        if order is not None:
            self.blocks.set_field("buffer", made, "minor_to_major", self.blocks.layout(order)[1])
        return made

    def _described(self, handle: int) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of a buffer."""
        dtype = ELEMENT_TYPES[TYPES[self.blocks.field("buffer", handle, "type") - 1]]
        rank = self.blocks.field("buffer", handle, "rank")
        return tuple((ctypes.c_int64 * rank).from_address(self.blocks.field("buffer", handle, "dims"))), dtype

    def _order(self, handle: int) -> Order:
        """In which order the dimensions of a buffer lie in memory."""
        rank = self.blocks.field("buffer", handle, "rank")
        return tuple(_numbers(self.blocks.field("buffer", handle, "minor_to_major"), rank))

    def _from_host(self, address: int) -> None:
        arguments = structure("Client_BufferFromHostBuffer").from_address(address)
        dtype = ELEMENT_TYPES[TYPES[arguments.type - 1]]
        shape = tuple((ctypes.c_int64 * arguments.num_dims).from_address(arguments.dims)) if arguments.num_dims else ()
        memory = arguments.memory
        device = self._memory_devices[memory] if memory else self._device_numbers[arguments.device]
        place, event = self._places[device], 0
        storage = place.storage(math.prod(shape) * dtype.itemsize)
        order = order_of(arguments.layout, shape, dtype) if arguments.layout else row_major(len(shape))
        if math.prod(shape):
            strides = None
            if arguments.num_strides:
                strides = tuple((ctypes.c_int64 * arguments.num_strides).from_address(arguments.strides))
            array = view(arguments.data, shape, dtype, strides).transpose(order[::-1])
            event = place.write(array, storage, stays=arguments.semantics != _ONLY_DURING_CALL)
        arguments.done = event or self.blocks.done
        arguments.buffer = self._buffer(storage, dtype, shape, device, memory, order)

    def _view(self, address: int) -> None:
        """Somebody else's memory as an array. JAX copies it where this says that an argument is invalid."""
        arguments = structure("Client_CreateViewOfDeviceBuffer").from_address(address)
        dtype = ELEMENT_TYPES[TYPES[arguments.type - 1]]
        shape = _numbers(arguments.dims, arguments.num_dims)
        data, memory = arguments.data or 0, arguments.memory
        device = self._memory_devices[memory] if memory else self._device_numbers[arguments.device]
        if not self._places[device].is_native:
            raise UnsupportedError("memory of others is not taken over to this device", remedy="use jax.device_put")
        if data % VIEW_ALIGNMENT:
            raise ArgumentError(
                f"the memory at {data:#x} is not aligned to {VIEW_ALIGNMENT} bytes", remedy="pass a copy of it"
            )
        if arguments.layout and not is_dense(arguments.layout, shape, dtype):
            raise ArgumentError("the memory is not dense and row-major", remedy="pass a copy of it")
        storage = self.blocks.storage_view(data, arguments.release, arguments.release_argument)
        arguments.buffer = self._buffer(storage, dtype, shape, device, memory)

    def _copy_to(self, handle: int, device: int, memory: int | None = None) -> int:
        place, (shape, dtype) = self._place(handle), self._described(handle)
        size = self.blocks.field("buffer", handle, "bytes")
        storage = place.copied(place.hold(handle), size, self._places[device])
        return self._buffer(storage, dtype, shape, device, memory, self._order(handle))

    def _copy_to_device(self, address: int) -> None:
        arguments = structure("Buffer_CopyToDevice").from_address(address)
        arguments.result = self._copy_to(arguments.buffer, self._device_numbers[arguments.device])

    def _copy_to_memory(self, address: int) -> None:
        arguments = structure("Buffer_CopyToMemory").from_address(address)
        memory = arguments.memory
        arguments.result = self._copy_to(arguments.buffer, self._memory_devices[memory], memory)

    def _to_host(self, address: int) -> None:
        arguments = structure("Buffer_ToHostBuffer").from_address(address)
        place, (shape, dtype) = self._place(arguments.buffer), self._described(arguments.buffer)
        storage, size = place.hold(arguments.buffer), self.blocks.field("buffer", arguments.buffer, "bytes")
        if not arguments.target:
            arguments.size = size
            return
        if arguments.size < size:
            raise ArgumentError(f"{size} bytes do not fit into {arguments.size}", remedy="pass more memory")
        order = self._order(arguments.buffer)
        strides = strides_of(arguments.layout, shape, dtype) if arguments.layout else None
        event = 0
        if (strides or dense_strides(shape, dtype)) == dense_strides(shape, dtype, order):
            event = place.read(storage, 0, size, arguments.target)
        elif size:
            array = place.array(storage, in_memory(shape, order), dtype)
            seen = array.transpose([order[::-1].index(dimension) for dimension in range(len(order))])
            np.copyto(view(arguments.target, shape, dtype, strides), seen)
        arguments.event = event or self.blocks.done

    def _raw_to_host(self, address: int) -> None:
        arguments = structure("Buffer_CopyRawToHost").from_address(address)
        place = self._place(arguments.buffer)
        storage, size = place.hold(arguments.buffer), self.blocks.field("buffer", arguments.buffer, "bytes")
        if arguments.offset < 0 or arguments.size < 0 or arguments.offset + arguments.size > size:
            raise ArgumentError(
                f"bytes {arguments.offset} to {arguments.offset + arguments.size} are asked for, of {size}",
                remedy="ask for bytes of the array",
            )
        event = place.read(storage, arguments.offset, arguments.size, arguments.target)
        arguments.event = event or self.blocks.done

    def _device_memory_stats(self, address: int) -> None:
        arguments = structure("Device_MemoryStats").from_address(address)
        stats = self._places[self._device_numbers[arguments.device]].memory_stats()
        first = type(arguments).bytes_in_use.offset
        ctypes.memset(address + first, 0, arguments.struct_size - first)  # callers do not
        for name, value in stats.items():
            setattr(arguments, name, value)
            if name != "bytes_in_use":  # which is always known
                setattr(arguments, f"{name}_is_set", True)


def _bytes(spec: Spec) -> int:
    return math.prod(size or 0 for size in spec.shape) * spec.dtype.itemsize


def _numbers(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address)) if count else []


def _write(address: int, numbers: Sequence[int]) -> None:
    ctypes.memmove(address, (ctypes.c_int64 * len(numbers))(*numbers), 8 * len(numbers))


def _version(text_: str) -> list[int]:
    return [int(part) for part in text_.split(".")]


def _deleted() -> ArgumentError:
    return ArgumentError("the array has been deleted or donated", remedy="use the result of the later call")
