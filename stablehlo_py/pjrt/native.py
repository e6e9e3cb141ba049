"""Functions of the PJRT C API that are native code of our own generator: those that JAX calls for every array, and
those that it calls where Python must not run: while an exception is pending, and when the interpreter has ended.

An object of the API is a block of memory: `FIELDS` (fields.py) says what lies where, for each kind. Here are functions
that copy fields of a block into their arguments, and those that destroy blocks which Python made: they count
references, and put what nobody refers to any more on a list, which Python takes when it runs next (`Blocks`). What
makes and runs is in memory.py, events.py, execution.py, processes.py, queue.py and transfers.py.
"""

from __future__ import annotations

from stablehlo_py.backends.cpu import pool
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, ScalarType, Value
from stablehlo_py.pjrt import device_calls, donation, events, execution, layouts, memory, processes, queue, transfers
from stablehlo_py.pjrt.code import OBJECT, Native
from stablehlo_py.pjrt.fields import FREE, MISSING

# What reading functions write, in order behind the object: type and field of the block, or a constant.
_READS: dict[str, tuple[str, str]] = {
    "Error_GetCode": ("error", "i:code"),
    "Error_Message": ("error", "p:message p:size"),
    "Client_PlatformName": ("client", "p:name p:name_size"),
    "Client_ProcessIndex": ("client", "i:0"),
    "Client_PlatformVersion": ("client", "p:version p:version_size"),
    "Client_Devices": ("client", "p:devices p:num_devices"),
    "Client_AddressableDevices": ("client", "p:devices p:num_devices"),
    "Client_AddressableMemories": ("client", "p:memories p:num_memories"),
    "Client_TopologyDescription": ("client", "p:self"),
    "TopologyDescription_PlatformName": ("client", "p:name p:name_size"),
    "TopologyDescription_PlatformVersion": ("client", "p:version p:version_size"),
    "TopologyDescription_GetDeviceDescriptions": ("client", "p:devices p:num_devices"),
    "TopologyDescription_Attributes": ("client", "p:0 p:0"),
    "DeviceDescription_Id": ("device", "i:id"),
    "DeviceDescription_ProcessIndex": ("device", "i:0"),
    "DeviceDescription_Attributes": ("device", "p:num_attributes p:attributes"),
    "DeviceDescription_Kind": ("device", "p:kind p:kind_size"),
    "DeviceDescription_DebugString": ("device", "p:text p:text_size"),
    "DeviceDescription_ToString": ("device", "p:text p:text_size"),
    "Device_GetDescription": ("device", "p:self"),
    "Device_IsAddressable": ("device", "b:1"),
    "Device_LocalHardwareId": ("device", "i:id"),
    "Device_AddressableMemories": ("device", "p:memories p:num_memories"),
    "Device_DefaultMemory": ("device", "p:memory"),
    "Memory_Id": ("memory", "i:id"),
    "Memory_Kind": ("memory", "p:kind p:kind_size"),
    "Memory_Kind_Id": ("memory", "i:kind_id"),
    "Memory_DebugString": ("memory", "p:text p:text_size"),
    "Memory_ToString": ("memory", "p:text p:text_size"),
    "Memory_AddressableByDevices": ("memory", "p:devices p:1"),
    "Executable_Name": ("executable", "p:name p:name_size"),
    "Executable_NumReplicas": ("executable", "p:replicas"),
    "Executable_NumPartitions": ("executable", "p:partitions"),
    "Executable_NumOutputs": ("executable", "p:num_outputs"),
    "Executable_SizeOfGeneratedCodeInBytes": ("executable", "p:code_bytes"),
    "Executable_OutputMemoryKinds": ("executable", "p:num_outputs p:kinds p:kind_sizes"),
    "Executable_OutputElementTypes": ("executable", "p:types p:num_outputs"),
    "Executable_OutputDimensions": ("executable", "p:num_outputs p:dims p:ranks"),
    "Executable_Fingerprint": ("executable", "p:fingerprint p:fingerprint_size"),
    "LoadedExecutable_Fingerprint": ("executable", "p:fingerprint p:fingerprint_size"),
    "LoadedExecutable_GetDeviceAssignment": ("executable", "p:assignment p:assignment_size p:0 p:nothing"),
    "LoadedExecutable_AddressableDevices": ("executable", "p:devices p:num_devices"),
    "LoadedExecutable_IsDeleted": ("executable", "b:deleted"),
    "Executable_ParameterShardings": (
        "executable",
        "p:num_parameters p:parameter_shardings p:parameter_sharding_sizes",
    ),
    "Executable_OutputShardings": ("executable", "p:num_outputs p:output_shardings p:output_sharding_sizes"),
    "Executable_ParameterLayouts": ("executable", "p:num_parameters p:parameter_layouts"),
    "Executable_OutputLayouts": ("executable", "p:num_outputs p:output_layouts"),
    "Layout_Serialize": ("layout", "p:text p:text_size p:0 p:nothing"),
    "Buffer_ElementType": ("buffer", "i:type"),
    "Buffer_Dimensions": ("buffer", "p:dims p:rank"),
    "Buffer_UnpaddedDimensions": ("buffer", "p:dims p:rank"),
    "Buffer_DynamicDimensionIndices": ("buffer", "p:0 p:0"),
    # PJRT_Buffer_MemoryLayout: two sizes and extensions, order of dimensions, no tiles, type 0.
    "Buffer_GetMemoryLayout": ("buffer", "p:88 p:0 p:56 p:0 p:minor_to_major p:rank p:0 p:0 p:0 i:0"),
    "Buffer_OnDeviceSizeInBytes": ("buffer", "p:bytes"),
    "Buffer_Device": ("buffer", "p:device"),
    "Buffer_Memory": ("buffer", "p:memory"),
    "Buffer_IsDeleted": ("buffer", "b:deleted"),
    "Buffer_IsOnCpu": ("buffer", "b:1"),
    "Buffer_UnsafePointer": ("buffer", "p:data"),
    "Buffer_OpaqueDeviceMemoryDataPointer": ("buffer", "p:data"),
    "Device_GetAttributes": ("device", "p:attributes p:num_attributes p:0 p:nothing"),
}
# What does nothing, and is right so: clients and layouts are for ever.
_NOTHING = ("Plugin_Initialize", "Client_Destroy", "TopologyDescription_Destroy", "Layout_Destroy")
_DESTROYING = ("Executable_Destroy", "LoadedExecutable_Destroy")
_TYPES = {"p": (I64, 8), "i": (I32, 4), "b": (I8, 1)}


def native_functions(state: int) -> tuple[NativeCode, list[str]]:
    """The code of the functions, and their names; `state` is the address of STATE_BYTES bytes, which stay where they
    are."""
    functions = [_read(name, words, state) for name, (_, words) in _READS.items()]
    functions += [_nothing(name, state) for name in (*_NOTHING, "nothing")]
    functions += [_destroy(name, state) for name in _DESTROYING]
    functions += [_get_executable(state), _missing(state), _on_device(state), _take(state), _release(state)]
    for part in (memory, events, execution, donation, device_calls, layouts, processes, queue, transfers):
        functions += part.functions(state)
    threads = pool.library_functions(baseline_target())
    code = NativeCode([compile_units([Unit.of(*functions, *threads)])])
    return code, [f.name for f in functions]


def _read(name: str, words: str, state: int) -> Native:
    f = Native(name, state)
    kind, object_, at = _READS[name][0], f.get(PTR, f.args, OBJECT), OBJECT + 8
    for word in words.split():
        letter, _, source = word.partition(":")
        type_, width = _TYPES[letter]
        at = -(-at // width) * width
        f.put(_source(f, kind, object_, source, type_), f.args, at)
        at += width
    f.ret(f.null())
    return f


def _source(f: Native, kind: str, object_: Value, source: str, type_: ScalarType) -> Value:
    if source.isdecimal():
        return f.const(int(source), type_)
    if source == "self":
        return f.number(object_)
    if source == "nothing":
        return f.number(f.address_of("nothing"))
    return f.field(object_, kind, source, type_)


def _nothing(name: str, state: int) -> Native:
    f = Native(name, state)
    f.ret(f.null())
    return f


def _missing(state: int) -> Native:
    """Of what this platform does not implement: its error."""
    f = Native("missing", state)
    error = f.shared(MISSING)
    f.refer(error)
    f.ret(error)
    return f


def _on_device(state: int) -> Native:
    """Buffer_IsOnCpu of platforms of GPUs: it is not."""
    f = Native("on_device", state)
    f.put(f.const(0, I8), f.args, OBJECT + 8)
    f.ret(f.null())
    return f


def _release(state: int) -> Native:
    """void release(block): of what the API has a deleter for."""
    f = Native("release", state, [("block", PTR)], None)
    f.push(f.cell(FREE), f.block)
    f.ret()
    return f


def _take(state: int) -> Native:
    """i64 take(address): exchange an i64 with 0."""
    f = Native("take", state, [("head", PTR)], I64)
    f.ret(f.atomic_exchange(f.head, f.const(0)))
    return f


def _destroy(name: str, state: int) -> Native:
    f = Native(name, state)
    block = f.get(PTR, f.args, OBJECT)
    f.ret_if(f.is_null(block), f.null())
    f.if_last(block, lambda: f.discard(block))
    f.ret(f.null())
    return f


def _get_executable(state: int) -> Native:
    """An executable is loaded, and one block serves for both: with one reference more."""
    f = Native("LoadedExecutable_GetExecutable", state)
    block = f.get(PTR, f.args, OBJECT)
    f.refer(block)
    f.put(block, f.args, OBJECT + 8)
    f.ret(f.null())
    return f
