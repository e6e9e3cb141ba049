"""How native code asks CUDA."""

from __future__ import annotations

from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.stream_asking import StreamAsking
from stablehlo_py.codegen.builder import Function, Value


class CudaAsking(StreamAsking):
    """In the primary context of a device."""

    library = CudaLibrary
    stages = True
    fields = (*StreamAsking.fields, "context", "push", "pop")

    def __init__(self, stream: CudaStream) -> None:
        address = stream.library.address
        functions = {"push": address("cuCtxPushCurrent_v2"), "pop": address("cuCtxPopCurrent_v2")}
        super().__init__(stream, {"context": stream.place, **functions})

    @classmethod
    def enter(cls, f: Function, before: Value) -> Value:
        """cuCtxPushCurrent."""
        return cls.call(f, "push", [cls.field(f, "context")])

    @classmethod
    def leave(cls, f: Function, before: Value) -> None:
        """cuCtxPopCurrent."""
        cls.call(f, "pop", [before])
