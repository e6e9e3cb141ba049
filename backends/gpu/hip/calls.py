"""How native code starts kernels and copies of HIP, and changes graphs of them."""

from __future__ import annotations

from stablehlo_py.backends.gpu.driver.stream_calls import StreamCalls
from stablehlo_py.backends.gpu.hip.library import DEVICE_TO_DEVICE, HipLibrary
from stablehlo_py.codegen.builder import I32, Function, Value


class HipCalls(StreamCalls):
    """In a stream of HIP."""

    library = HipLibrary

    def changed_copy(self, f: Function, parameters: Value) -> list[Value]:
        """Of hipGraphExecMemcpyNodeSetParams1D."""
        return [f.target, f.source, f.bytes, f.const(DEVICE_TO_DEVICE, I32)]
