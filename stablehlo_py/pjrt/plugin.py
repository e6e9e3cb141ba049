"""The platforms as JAX takes them: for each a capsule with the functions of the PJRT C API, registered by name."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

from stablehlo_py.backends.base import get_backend
from stablehlo_py.errors import OptionError, UnsupportedError, shown
from stablehlo_py.foreign import new_capsule
from stablehlo_py.pjrt.api import (
    EXTENSIONS,
    FUNCTIONS,
    LATER_FUNCTIONS,
    MAJOR,
    MINOR,
    PYTHON_FUNCTIONS,
    Api,
    Extension,
    size_used,
)
from stablehlo_py.pjrt.blocks import FORKED_TEXT, Blocks, PlatformError, calloc
from stablehlo_py.pjrt.client import Client
from stablehlo_py.pjrt.errors import error_of
from stablehlo_py.pjrt.fields import PYTHON
from stablehlo_py.pjrt.places import HostPlace, Place
from stablehlo_py.pjrt.platforms import HOST, PLATFORMS
from stablehlo_py.pjrt.types import item_sizes
from stablehlo_py.pjrt.versions import internals

VARIABLE = "SHLO_NUM_DEVICES"
MOST_DEVICES = 1024
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_CAPSULE = b"pjrt_c_api"
_FAILED_PRECONDITION = 9  # absl::StatusCode


def _number_of_devices() -> int:
    given = os.environ.get(VARIABLE, "1")
    if not given.isdecimal() or not 1 <= int(given) <= MOST_DEVICES:
        raise OptionError(f"{VARIABLE} is {shown(given)}", remedy=f"set it to a number from 1 to {MOST_DEVICES}")
    return int(given)


@cache
def _blocks() -> Blocks:
    """What native code and Python share, for all platforms: it is made once, and stays."""
    blocks = Blocks(item_sizes())
    # The last thing that the interpreter does: from then on no thread of ours calls functions of JAX's.
    ctypes.pythonapi.Py_AtExit(ctypes.c_void_p(blocks.code.address("stop")))
    for immortal in (blocks, blocks.code):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
    return blocks


def _places(platform: str) -> Sequence[Place]:
    """The devices of a platform. Raises ResourceError, UnsupportedError: there are none."""
    if platform == HOST:
        return [HostPlace(_blocks(), number) for number in range(_number_of_devices())]
    from stablehlo_py.backends.gpu.backend import GpuBackend
    from stablehlo_py.pjrt.device_place import DevicePlace

    backend = cast(GpuBackend, get_backend(PLATFORMS[platform]))
    numbers = backend.opened().usable()  # before native code is made, which takes longer
    return [DevicePlace(_blocks(), backend, number, lambda failure: error_of(failure, _blocks())) for number in numbers]


@cache
def _platform(platform: str) -> Api:
    """A platform of this process: it is made once, and stays."""
    places = _places(platform)
    client = Client(platform, PLATFORMS[platform], places, _blocks())
    api, kept = api_of(client, places[0])
    for immortal in (client, kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
    return api


def api_of(client: Client, place: Place) -> tuple[Api, list[object]]:
    """The functions of a platform, whose devices are like one of them; and what lives as long as they do."""
    code = client.blocks.code
    # In memory that outlives the interpreter, as the code does: JAX destroys arrays when it is gone.
    api = Api.from_address(calloc(ctypes.sizeof(Api)))
    api.struct_size, api.version_size, api.major, api.minor = Api.later.offset, 24, MAJOR, MINOR
    api.later[:] = [code.address("missing")] * LATER_FUNCTIONS
    kept: list[object] = []
    functions = client.functions()
    for name in FUNCTIONS:
        if name in PYTHON_FUNCTIONS:
            callback = _CALLBACK(_guarded(client, name, functions[name]))
            kept.append(callback)
            address = ctypes.cast(callback, ctypes.c_void_p).value
            if name in place.native_functions:
                ctypes.c_void_p.from_address(client.python + PYTHON[name]).value = address
                address = code.address(name)
            setattr(api, name, address)
        else:
            setattr(api, name, code.address(name if name in client.blocks.functions else "missing"))
    if not place.is_native:
        api.Buffer_IsOnCpu = code.address("on_device")
    for type_, extended in EXTENSIONS.items():
        extension = Extension.from_address(calloc(ctypes.sizeof(Extension)))
        extension.type, extension.next = type_, api.extensions
        extension.struct_size = Extension.functions.offset + ctypes.sizeof(ctypes.c_void_p) * len(extended)
        extension.functions[: len(extended)] = [code.address(name) for name in extended]
        api.extensions = ctypes.addressof(extension)
    return api, kept


def _guarded(client: Client, name: str, function: Callable[[int], None]) -> Callable[[int], int]:
    """A function of the API: what it raises becomes an error of the API."""
    used = size_used(name)

    def call(arguments: int) -> int:
        try:
            if client.blocks.is_forked:
                raise PlatformError(_FAILED_PRECONDITION, FORKED_TEXT)
            client.blocks.sweep()
            if (given := ctypes.c_size_t.from_address(arguments).value) < used:
                raise UnsupportedError(
                    f"jaxlib passes {given} bytes to PJRT_{name}, of which {used} are needed",
                    remedy="install a later version of jaxlib",
                )
            function(arguments)
        except BaseException as failure:  # whatever it is, it must not pass through C++
            return error_of(failure, client.blocks)
        return 0

    call.__name__ = name
    return call


def handles() -> int:
    """How many arrays, executables and other objects of the PJRT API there are in this process."""
    return _blocks().handles


def capsule(platform: str = HOST) -> object:
    """The PyCapsule that JAX takes. Raises as `initialize`."""
    return new_capsule(ctypes.addressof(_platform(platform)), _CAPSULE)


def initialize(platform: str = HOST) -> None:
    """Register a platform with JAX, before JAX makes its first array: "shlo" (the processor), "shlo_cuda",
    "shlo_opencl" or "shlo_rocm". Where JAX_PLATFORMS has that name, JAX does so by itself (discovery.py). It may be
    registered already.

    Raises:
        UnsupportedError: the platforms are not for this version of JAX (versions.py), or programs run on no device.
        OptionError: there is no platform of this name; SHLO_NUM_DEVICES is no number of devices.
        ResourceError: there is no driver, or no device.
    """
    if platform not in PLATFORMS:
        raise OptionError(f"there is no platform {shown(platform)}", remedy=f"use one of {', '.join(PLATFORMS)}")
    jax = internals()
    from stablehlo_py.pjrt import branches, callbacks, ffi, lowerings, patches

    if platform in jax._backend_factories:
        return
    patches.apply(platform)
    jax.register_plugin(platform, priority=0, c_api=capsule(platform))
    functions_of = get_backend(PLATFORMS[platform]).calls_functions_of
    callbacks.register(platform, functions_of)
    ffi.register(platform, functions_of)
    branches.register(platform)
    lowerings.register(platform)
