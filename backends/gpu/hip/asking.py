"""How native code asks HIP."""

from __future__ import annotations

from stablehlo_py.backends.gpu.driver.stream_asking import StreamAsking
from stablehlo_py.backends.gpu.hip.library import HipLibrary
from stablehlo_py.backends.gpu.hip.stream import HipStream
from stablehlo_py.codegen.builder import I32, I64, Function, Value


class HipAsking(StreamAsking):
    """On a device."""

    library = HipLibrary
    fields = (*StreamAsking.fields, "device", "get_device", "set_device")

    def __init__(self, stream: HipStream) -> None:
        address = stream.library.address
        functions = {"get_device": address("hipGetDevice"), "set_device": address("hipSetDevice")}
        super().__init__(stream, {"device": stream.place, **functions})

    @classmethod
    def enter(cls, f: Function, before: Value) -> Value:
        """hipGetDevice, which `leave` goes back to, and hipSetDevice."""
        status = cls.call(f, "get_device", [before])
        return cls.unless(f, status, "set_device", [f.cast("trunc", cls.field(f, "device", I64), I32)])

    @classmethod
    def leave(cls, f: Function, before: Value) -> None:
        """hipSetDevice."""
        cls.call(f, "set_device", [f.load(I32, before)])
