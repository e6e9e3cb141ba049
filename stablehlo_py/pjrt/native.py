"""Functions of the PJRT C API that are native code of our own generator: those that JAX calls for every array, and
those that it calls where Python must not run: while an exception is pending, and when the interpreter has ended.

An object of the API is a block of memory: `FIELDS` says what lies where, for each kind. Reading functions copy fields
of a block into their arguments. Destroying functions count references, and put what nobody refers to any more on a
list, which Python takes when it runs next (`Blocks`).
"""

from __future__ import annotations

from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, ScalarType, Value

BLOCK_BYTES = 192
# Of every block: the next one on a list of blocks that are free, and references to it. Below: what each kind holds.
NEXT, REFERENCES, DROPPED_NEXT = 0, 8, 120
_OBJECT = 16  # the object, in the arguments of most functions

FIELDS: dict[str, dict[str, int]] = {
    "error": {"message": 16, "size": 24, "code": 32},
    "client": {
        "name": 16,
        "name_size": 24,
        "version": 32,
        "version_size": 40,
        "devices": 48,
        "num_devices": 56,
        "memories": 64,
        "num_memories": 72,
    },
    "device": {
        "id": 16,
        "kind": 24,
        "kind_size": 32,
        "text": 40,
        "text_size": 48,
        "memories": 56,
        "memory": 64,
    },
    "memory": {"id": 16, "kind": 24, "kind_size": 32, "text": 40, "text_size": 48, "devices": 56},
    "executable": {
        "name": 16,
        "name_size": 24,
        "devices": 32,
        "num_outputs": 40,
        "code_bytes": 48,
        "types": 56,
        "dims": 64,
        "ranks": 72,
        "kinds": 80,
        "kind_sizes": 88,
        "fingerprint": 96,
        "fingerprint_size": 104,
        "deleted": 112,
        "assignment": 128,
        "assignment_size": 136,
    },
    "buffer": {
        "type": 16,
        "dims": 24,
        "rank": 32,
        "bytes": 40,
        "device": 48,
        "memory": 56,
        "data": 64,
        "deleted": 72,
        "minor_to_major": 80,
    },
}

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
    "DeviceDescription_Attributes": ("device", "p:0 p:0"),
    "DeviceDescription_Kind": ("device", "p:kind p:kind_size"),
    "DeviceDescription_DebugString": ("device", "p:text p:text_size"),
    "DeviceDescription_ToString": ("device", "p:text p:text_size"),
    "Device_GetDescription": ("device", "p:self"),
    "Device_IsAddressable": ("device", "b:1"),
    "Device_LocalHardwareId": ("device", "i:id"),
    "Device_AddressableMemories": ("device", "p:memories p:1"),
    "Device_DefaultMemory": ("device", "p:memory"),
    "Memory_Id": ("memory", "i:id"),
    "Memory_Kind": ("memory", "p:kind p:kind_size"),
    "Memory_Kind_Id": ("memory", "i:0"),
    "Memory_DebugString": ("memory", "p:text p:text_size"),
    "Memory_ToString": ("memory", "p:text p:text_size"),
    "Memory_AddressableByDevices": ("memory", "p:devices p:1"),
    "Executable_Name": ("executable", "p:name p:name_size"),
    "Executable_NumReplicas": ("executable", "p:1"),
    "Executable_NumPartitions": ("executable", "p:1"),
    "Executable_NumOutputs": ("executable", "p:num_outputs"),
    "Executable_SizeOfGeneratedCodeInBytes": ("executable", "p:code_bytes"),
    "Executable_OutputMemoryKinds": ("executable", "p:num_outputs p:kinds p:kind_sizes"),
    "Executable_OutputElementTypes": ("executable", "p:types p:num_outputs"),
    "Executable_OutputDimensions": ("executable", "p:num_outputs p:dims p:ranks"),
    "Executable_Fingerprint": ("executable", "p:fingerprint p:fingerprint_size"),
    "LoadedExecutable_Fingerprint": ("executable", "p:fingerprint p:fingerprint_size"),
    "LoadedExecutable_GetDeviceAssignment": ("executable", "p:assignment p:assignment_size p:0 p:nothing"),
    "LoadedExecutable_AddressableDevices": ("executable", "p:devices p:1"),
    "LoadedExecutable_IsDeleted": ("executable", "b:deleted"),
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
    "Buffer_ReadyEvent": ("buffer", "p:done"),
    "Event_IsReady": ("event", "b:1"),
    "Device_GetAttributes": ("device", "p:0 p:0 p:0 p:nothing"),
}
# What does nothing, and is right so: everything is done when it is asked for, and clients are for ever.
_NOTHING = (
    "Plugin_Initialize",
    "Event_Destroy",
    "Event_Error",
    "Event_Await",
    "Client_Destroy",
    "TopologyDescription_Destroy",
)
_DESTROYING = (
    "Error_Destroy",
    "Executable_Destroy",
    "LoadedExecutable_Destroy",
    "Buffer_Destroy",
    "Buffer_DecreaseExternalReferenceCount",
)
_TYPES = {"p": (I64, 8), "i": (I32, 4), "b": (I8, 1)}
# Cells of the state, which Python makes: heads of the lists, the event that is over, the error of what is missing.
FREE, DROPPED, DONE, MISSING = 0, 8, 16, 24
STATE_BYTES = 32


def native_functions(state: int) -> tuple[NativeCode, list[str]]:
    """The code of the functions, and the names of those of the API; `state` is the address of STATE_BYTES bytes, which
    stay where they are."""
    functions = [_read(name, words, state) for name, (_, words) in _READS.items()]
    functions += [_nothing(name) for name in (*_NOTHING, "nothing")]
    functions += [_destroy(name, state) for name in _DESTROYING]
    functions += [_reference("Buffer_IncreaseExternalReferenceCount", None), _get_executable()]
    functions += [_delete(state), _on_ready(), _missing(state), _take(), _release(state)]
    code = NativeCode([compile_units([Unit.of(*functions)])])
    return code, [f.name for f in functions]


def _function(name: str) -> Function:
    return Function(name, [("args", PTR)], baseline_target().emitter(), result=PTR)


def _cell(f: Function, state: int, offset: int) -> Value:
    return f.cast("inttoptr", f.const(state + offset), PTR)


def _object(f: Function) -> Value:
    return f.load(PTR, f.gep(f.args, _OBJECT, I8))


def _read(name: str, words: str, state: int) -> Function:
    f = _function(name)
    kind, object_, at = _READS[name][0], _object(f), _OBJECT + 8
    for word in words.split():
        letter, _, source = word.partition(":")
        type_, width = _TYPES[letter]
        at = -(-at // width) * width
        f.store(_source(f, kind, object_, source, type_, state), f.gep(f.args, at, I8))
        at += width
    f.ret(f.null())
    return f


def _source(f: Function, kind: str, object_: Value, source: str, type_: ScalarType, state: int) -> Value:
    if source.isdecimal():
        return f.const(int(source), type_)
    if source == "self":
        return f.cast("ptrtoint", object_, I64)
    if source == "nothing":
        return f.cast("ptrtoint", f.address_of("nothing"), I64)
    if source == "done":
        return f.load(I64, _cell(f, state, DONE))
    return f.load(type_, f.gep(object_, FIELDS[kind][source], I8))


def _nothing(name: str) -> Function:
    f = _function(name)
    f.ret(f.null())
    return f


def _missing(state: int) -> Function:
    """Of what this platform does not implement: its error."""
    f = _function("missing")
    f.ret(f.load(PTR, _cell(f, state, MISSING)))
    return f


def _release(state: int) -> Function:
    """void release(block): of what the API has a deleter for."""
    f = Function("release", [("block", PTR)], baseline_target().emitter())
    _push(f, _cell(f, state, FREE), f.block, NEXT)
    f.ret()
    return f


def _on_ready() -> Function:
    """Event_OnReady: at once, in the thread that asks."""
    f = _function("Event_OnReady")
    f.call_pointer(f.load(PTR, f.gep(f.args, 24, I8)), [f.null(), f.load(PTR, f.gep(f.args, 32, I8))])
    f.ret(f.null())
    return f


def _push(f: Function, head: Value, object_: Value, link: int) -> None:
    """Put a block on a list that other threads use, too."""
    block, place = f.cast("ptrtoint", object_, I64), f.gep(object_, link, I8)

    def attempt(done: Value) -> list[Value]:
        del done
        first = f.atomic_load(I64, head)
        f.store(first, place)
        return [f.compare_exchange(head, first, block)]

    f.while_([f.const(False, I1)], lambda done: f.binary("xor", done, f.const(True, I1)), attempt)


def _take() -> Function:
    """i64 take(address): exchange an i64 with 0."""
    f = Function("take", [("place", PTR)], baseline_target().emitter(), result=I64)
    f.ret(f.atomic_exchange(f.place, f.const(0)))
    return f


def _destroy(name: str, state: int) -> Function:
    f = _function(name)
    object_ = _object(f)
    f.ret_if(f.is_null(object_), f.null())
    before = f.atomic_add(f.gep(object_, REFERENCES, I8), f.const(-1))
    last = f.cmp("eq", before, f.const(1))
    f.if_(last, lambda: _push(f, _cell(f, state, FREE), object_, NEXT))
    f.ret(f.null())
    return f


def _reference(name: str, result_at: int | None) -> Function:
    """One reference more; where there is a place for it, the object is the result, too."""
    f = _function(name)
    object_ = _object(f)
    f.atomic_add(f.gep(object_, REFERENCES, I8), f.const(1))
    if result_at is not None:
        f.store(object_, f.gep(f.args, result_at, I8))
    f.ret(f.null())
    return f


def _get_executable() -> Function:
    """An executable is loaded, and one block serves for both."""
    return _reference("LoadedExecutable_GetExecutable", _OBJECT + 8)


def _delete(state: int) -> Function:
    """Buffer_Delete: it counts as deleted at once, and its memory goes when Python runs next."""
    f = _function("Buffer_Delete")
    object_ = _object(f)
    before = f.atomic_exchange(f.gep(object_, FIELDS["buffer"]["deleted"], I8), f.const(1, I32))

    def drop() -> None:
        f.atomic_add(f.gep(object_, REFERENCES, I8), f.const(1))  # while it is on the list
        _push(f, _cell(f, state, DROPPED), object_, DROPPED_NEXT)

    f.if_(f.cmp("eq", before, f.const(0, I32)), drop)
    f.ret(f.null())
    return f
