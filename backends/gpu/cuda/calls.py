"""How native code starts kernels and copies of CUDA, and changes graphs of them."""

from __future__ import annotations

from stablehlo_py.backends.gpu.cuda.graph import SOURCE_AT, TARGET_AT
from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.stream_calls import StreamCalls
from stablehlo_py.codegen.builder import I8, Function, Value


class CudaCalls(StreamCalls):
    """In a stream of CUDA."""

    library, fields, has_conditions = CudaLibrary, CudaStream.fields, True

    def changed_copy(self, f: Function, parameters: Value) -> list[Value]:
        """Of cuGraphExecMemcpyNodeSetParams: the parameters, with other addresses, and the context."""
        f.store(f.source, f.gep(parameters, SOURCE_AT, I8))
        f.store(f.target, f.gep(parameters, TARGET_AT, I8))
        return [parameters, self.field(f, "context")]
