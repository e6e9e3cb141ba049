"""How native code starts kernels and copies of CUDA, and changes graphs of them."""

from __future__ import annotations

from stablehlo_py.backends.gpu.cuda.graph import SOURCE_AT, TARGET_AT
from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.calls import LAUNCH
from stablehlo_py.backends.gpu.driver.queue import GRAPH
from stablehlo_py.backends.gpu.driver.stream_calls import StreamCalls
from stablehlo_py.codegen.builder import I8, Function, Value


class CudaCalls(StreamCalls):
    """In a stream of CUDA."""

    library, fields, has_graphs = CudaLibrary, CudaStream.fields, True

    def change(self, f: Function, node: Value, parameters: Value) -> None:
        """cuGraphExecKernelNodeSetParams, whose parameters point to the operands; cuGraphExecMemcpyNodeSetParams."""
        graph = self.field(f, GRAPH)
        if f.name == LAUNCH:
            self.call(f, "change_launch", [graph, node, parameters])
            return
        f.store(f.source, f.gep(parameters, SOURCE_AT, I8))
        f.store(f.target, f.gep(parameters, TARGET_AT, I8))
        self.call(f, "change_copy", [graph, node, parameters, self.field(f, "context")])
