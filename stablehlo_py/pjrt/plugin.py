"""The platform as JAX takes it: a capsule with the functions of the PJRT C API, registered by name."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache

from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.errors import OptionError, UnsupportedError, shown
from stablehlo_py.foreign import new_capsule
from stablehlo_py.pjrt.api import EXTENSIONS, FUNCTIONS, MAJOR, MINOR, PLATFORM, PYTHON_FUNCTIONS, Api, Extension
from stablehlo_py.pjrt.blocks import FORKED_TEXT, PlatformError, calloc
from stablehlo_py.pjrt.client import Client
from stablehlo_py.pjrt.fields import NATIVE_FIRST, PYTHON

BACKEND = "cpu"
VARIABLE = "SHLO_NUM_DEVICES"
MOST_DEVICES = 1024
OLDEST_JAX, NEWEST_JAX = (0, 10, 1), (0, 10)
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_CAPSULE = b"pjrt_c_api"
_FAILED_PRECONDITION = 9  # absl::StatusCode


def _number_of_devices() -> int:
    given = os.environ.get(VARIABLE, "1")
    if not given.isdecimal() or not 1 <= int(given) <= MOST_DEVICES:
        raise OptionError(f"{VARIABLE} is {shown(given)}", remedy=f"set it to a number from 1 to {MOST_DEVICES}")
    return int(given)


@cache
def _platform() -> tuple[Client, Api, NativeCode, list[object]]:
    """The platform of this process: it is made once, and stays."""
    client = Client(_number_of_devices(), BACKEND)
    code, names = client.blocks.code, client.blocks.functions
    # In memory that outlives the interpreter, as the code does: JAX destroys arrays when it is gone.
    api = Api.from_address(calloc(ctypes.sizeof(Api)))
    api.struct_size, api.version_size, api.major, api.minor = ctypes.sizeof(Api), 24, MAJOR, MINOR
    kept: list[object] = []
    functions = client.functions()
    for name in FUNCTIONS:
        if name in PYTHON_FUNCTIONS:
            callback = _CALLBACK(_guarded(client, name, functions[name]))
            kept.append(callback)
            address = ctypes.cast(callback, ctypes.c_void_p).value
            if name in NATIVE_FIRST:
                ctypes.c_void_p.from_address(client.blocks.state + PYTHON[name]).value = address
                address = code.address(name)
            setattr(api, name, address)
        else:
            setattr(api, name, code.address(name if name in names else "missing"))
    for type_, extended in EXTENSIONS.items():
        extension = Extension.from_address(calloc(ctypes.sizeof(Extension)))
        extension.type, extension.next = type_, api.extensions
        extension.struct_size = Extension.functions.offset + ctypes.sizeof(ctypes.c_void_p) * len(extended)
        extension.functions[: len(extended)] = [code.address(name) for name in extended]
        api.extensions = ctypes.addressof(extension)
    # The last thing that the interpreter does: from then on no thread of ours calls functions of JAX's.
    ctypes.pythonapi.Py_AtExit(ctypes.c_void_p(code.address("stop")))
    for immortal in (client, code, kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
    return client, api, code, kept


def _guarded(client: Client, name: str, function: Callable[[int], None]) -> Callable[[int], int]:
    """A function of the API: what it raises becomes an error of the API."""

    def call(arguments: int) -> int:
        try:
            if client.blocks.is_forked:
                raise PlatformError(_FAILED_PRECONDITION, FORKED_TEXT)
            client.blocks.sweep()
            function(arguments)
        except BaseException as failure:  # whatever it is, it must not pass through C++
            return client.error(failure)
        return 0

    call.__name__ = name
    return call


def handles() -> int:
    """How many arrays, executables and other objects of the PJRT API there are in this process."""
    return _platform()[0].blocks.handles


def capsule() -> object:
    """The PyCapsule that JAX takes."""
    return new_capsule(ctypes.addressof(_platform()[1]), _CAPSULE)


def initialize() -> None:
    """Register the platform with JAX, under the name "shlo", before JAX makes its first array. Where JAX_PLATFORMS has
    that name, JAX does so by itself (discovery.py). It may be registered already.

    Raises:
        UnsupportedError: JAX is older than OLDEST_JAX, or newer than NEWEST_JAX.
        OptionError: SHLO_NUM_DEVICES is no number of devices.
    """
    import jax

    if jax.__version_info__ < OLDEST_JAX or jax.__version_info__[:2] > NEWEST_JAX:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST_JAX, NEWEST_JAX))
        raise UnsupportedError(
            f"the platform '{PLATFORM}' is for JAX from {oldest} on, up to {newest}, and this is {jax.__version__}",
            remedy=f"pip install 'jax>={oldest},=={newest}.*', or use stablehlo_py.jit, which takes other versions",
        )
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    from stablehlo_py.pjrt import branches, callbacks, ffi

    if PLATFORM in xla_bridge._backend_factories:
        return
    xla_bridge._nonexperimental_plugins.add(PLATFORM)  # or JAX says at each start that it knows nothing of it
    xla_bridge.register_plugin(PLATFORM, priority=0, c_api=capsule())
    callbacks.register(PLATFORM, BACKEND)
    ffi.register(PLATFORM, BACKEND)
    branches.register(PLATFORM)
    # What JAX lowers in a way of its own for the CPU (LAPACK, random bits), it lowers so for this platform.
    rules = mlir._platform_specific_lowerings
    for primitive, rule in rules["cpu"].items():
        rules[PLATFORM].setdefault(primitive, rule)
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
