"""How native code starts kernels and copies of HIP."""

from __future__ import annotations

from stablehlo_py.backends.gpu.driver.stream_calls import StreamCalls
from stablehlo_py.backends.gpu.hip.library import HipLibrary


class HipCalls(StreamCalls):
    """In a stream of HIP."""

    library = HipLibrary
