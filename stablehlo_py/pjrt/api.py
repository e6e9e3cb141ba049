"""The PJRT C API as a table: its functions in the order of `PJRT_Api`, and the arguments of those that this platform
implements (xla/pjrt/c/pjrt_c_api.h, version 0.94, which later versions only add to, as it adds to earlier ones).

Every function takes the address of one structure: its size, a pointer for extensions, then these fields. Types are
those of C: p a pointer, z size_t, l int64_t, i int, b bool.
"""

from __future__ import annotations

import ctypes
from functools import cache

MAJOR, MINOR = 0, 94
OLDEST_MINOR = 93  # of a jaxlib that asks for all that EXTENSIONS has: JAX learns from it how results are sharded
LATER_FUNCTIONS = 64  # that a later version of the API may ask for behind ours: they are answered as missing ones

_TYPES = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "l": ctypes.c_int64,
    "i": ctypes.c_int32,
    "b": ctypes.c_bool,
}

#: What functions are called, without PJRT_, in order.
FUNCTIONS = tuple(
    """
    Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy Event_IsReady
    Event_Error Event_Await Event_OnReady Client_Create Client_Destroy Client_PlatformName Client_ProcessIndex
    Client_PlatformVersion Client_Devices Client_AddressableDevices Client_LookupDevice Client_LookupAddressableDevice
    Client_AddressableMemories Client_Compile Client_DefaultDeviceAssignment Client_BufferFromHostBuffer
    DeviceDescription_Id DeviceDescription_ProcessIndex DeviceDescription_Attributes DeviceDescription_Kind
    DeviceDescription_DebugString DeviceDescription_ToString Device_GetDescription Device_IsAddressable
    Device_LocalHardwareId Device_AddressableMemories Device_DefaultMemory Device_MemoryStats Memory_Id Memory_Kind
    Memory_DebugString Memory_ToString Memory_AddressableByDevices Executable_Destroy Executable_Name
    Executable_NumReplicas Executable_NumPartitions Executable_NumOutputs Executable_SizeOfGeneratedCodeInBytes
    Executable_GetCostAnalysis Executable_OutputMemoryKinds Executable_OptimizedProgram Executable_Serialize
    LoadedExecutable_Destroy LoadedExecutable_GetExecutable LoadedExecutable_AddressableDevices LoadedExecutable_Delete
    LoadedExecutable_IsDeleted LoadedExecutable_Execute Executable_DeserializeAndLoad LoadedExecutable_Fingerprint
    Buffer_Destroy Buffer_ElementType Buffer_Dimensions Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices
    Buffer_GetMemoryLayout Buffer_OnDeviceSizeInBytes Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted
    Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
    Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount Buffer_OpaqueDeviceMemoryDataPointer
    CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize
    CopyToDeviceStream_CurrentBytes TopologyDescription_Create TopologyDescription_Destroy
    TopologyDescription_PlatformName TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions
    TopologyDescription_Serialize TopologyDescription_Attributes Compile Executable_OutputElementTypes
    Executable_OutputDimensions Buffer_CopyToMemory Client_CreateViewOfDeviceBuffer Executable_Fingerprint
    Client_TopologyDescription Executable_GetCompiledMemoryStats Memory_Kind_Id ExecuteContext_Create
    ExecuteContext_Destroy Buffer_CopyRawToHost AsyncHostToDeviceTransferManager_Destroy
    AsyncHostToDeviceTransferManager_TransferData Client_CreateBuffersForAsyncHostToDevice
    AsyncHostToDeviceTransferManager_RetrieveBuffer AsyncHostToDeviceTransferManager_Device
    AsyncHostToDeviceTransferManager_BufferCount AsyncHostToDeviceTransferManager_BufferSize
    AsyncHostToDeviceTransferManager_SetBufferError AsyncHostToDeviceTransferManager_AddMetadata Client_DmaMap
    Client_DmaUnmap Client_CreateUninitializedBuffer Client_UpdateGlobalProcessInfo TopologyDescription_Deserialize
    Client_CreateAliasBuffer Client_FulfillAliasBuffer LoadedExecutable_GetDeviceAssignment Client_CreateErrorBuffer
    AsyncHostToDeviceTransferManager_TransferLiteral Buffer_CopyRawToHostFuture Device_PoisonExecution
    Device_CreateAsyncTrackingEvent AsyncTrackingEvent_Destroy Executable_GetCompileOptions
    Buffer_DonateWithControlDependency Event_Create Event_Set Device_GetAttributes
    """.split()
)

# What Python implements: fields behind the size and the extensions.
_ARGUMENTS = {
    "Plugin_Attributes": "attributes:p count:z",
    "Client_Create": "create_options:p num_options:z kv_get:p kv_get_arg:p kv_put:p kv_put_arg:p client:p",
    "Client_LookupDevice": "client:p id:i device:p",
    "Client_LookupAddressableDevice": "client:p id:i device:p",
    "Client_Compile": "client:p program:p options:p options_size:z executable:p",
    "Client_DefaultDeviceAssignment": "client:p replicas:i partitions:i size:z assignment:p",
    "Client_BufferFromHostBuffer": "client:p data:p type:i dims:p num_dims:z strides:p num_strides:z semantics:i "
    "device:p memory:p layout:p done:p buffer:p",
    "Client_CreateViewOfDeviceBuffer": "client:p data:p dims:p num_dims:z type:i layout:p device:p release:p "
    "release_argument:p stream:p buffer:p memory:p",
    "LoadedExecutable_Execute": "executable:p options:p arguments:p num_devices:z num_arguments:z outputs:p events:p "
    "device:p",
    "LoadedExecutable_Delete": "executable:p",
    "Device_MemoryStats": "device:p bytes_in_use:l peak_bytes_in_use:l peak_bytes_in_use_is_set:b num_allocs:l "
    "num_allocs_is_set:b largest_alloc_size:l largest_alloc_size_is_set:b bytes_limit:l bytes_limit_is_set:b",
    "Executable_GetCostAnalysis": "executable:p count:z properties:p",
    "Executable_OptimizedProgram": "executable:p program:p",
    "Executable_GetCompiledMemoryStats": "executable:p code:l arguments:l results:l aliases:l workspace:l host_code:l "
    "host_arguments:l host_results:l host_aliases:l host_workspace:l peak:l total:l",
    "Executable_Serialize": "executable:p content:p size:z handle:p deleter:p",
    "Executable_DeserializeAndLoad": "client:p content:p size:z executable:p options:p options_size:z",
    "Buffer_CopyToDevice": "buffer:p device:p result:p",
    "Buffer_CopyToMemory": "buffer:p memory:p result:p",
    "Buffer_ToHostBuffer": "buffer:p layout:p target:p size:z event:p",
    "Buffer_CopyRawToHost": "buffer:p target:p offset:l size:l event:p",
}
_STRUCTURES = {
    "NamedValue": "name:p name_size:z type:i value:p value_size:z",
    "Program": "code:p code_size:z format:p format_size:z",
    "ExecuteOptions": "send:p receive:p sends:z receives:z launch:i kept:p num_kept:z context:p",
    "Layout": "tiled_size:z tiled_extensions:p minor_to_major:p rank:z tile_dims:p tile_sizes:p num_tiles:z type:i",
    "Strides": "strides_size:z strides_extensions:p strides:p rank:z unused1:p unused2:p unused3:z type:i",
}


@cache
def structure(name: str) -> type[ctypes.Structure]:
    """The arguments of a function, or another structure of the API, with its size and extensions in front."""
    text = _ARGUMENTS.get(name) or _STRUCTURES[name]
    fields = [("struct_size", ctypes.c_size_t), ("extensions", ctypes.c_void_p)]
    fields += [(field, _TYPES[kind]) for field, kind in (word.split(":") for word in text.split())]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


@cache
def size_used(name: str) -> int:
    """How many bytes of a function's arguments, or of another structure, this platform reads and writes."""
    made = structure(name)
    last = made._fields_[-1][0]
    return getattr(made, last).offset + getattr(made, last).size


PYTHON_FUNCTIONS = tuple(_ARGUMENTS)

#: Functions of the extensions that this platform has, by the number of the extension (PJRT_Extension_Type).
EXTENSIONS = {
    # Without it JAX takes the layouts of arguments and results from the program's text, three times: 20 ms.
    4: (
        *("Layout_Destroy", "Layout_Serialize", "Client_DefaultLayout", "Buffer_Layout", "Topology_DefaultLayout"),
        *("Executable_OutputLayouts", "Executable_ParameterLayouts"),
    ),
    19: ("Executable_ParameterShardings", "Executable_OutputShardings"),
}


class Extension(ctypes.Structure):
    """PJRT_Extension_Base, and behind it addresses of functions."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * max(map(len, EXTENSIONS.values()))),
    )


class Api(ctypes.Structure):
    """PJRT_Api: size, extensions, the version (a structure of its own), and the functions. `later` is behind it."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("version_size", ctypes.c_size_t),
        ("version_extensions", ctypes.c_void_p),
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in FUNCTIONS),
        ("later", ctypes.c_void_p * LATER_FUNCTIONS),
    )
