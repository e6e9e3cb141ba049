"""How native code starts kernels and copies of CUDA."""

from __future__ import annotations

from stablehlo_py.backends.gpu.cuda.graph import BUFFER, END, SIZE, SOURCE_AT, TARGET_AT
from stablehlo_py.backends.gpu.cuda.stream import CudaStream
from stablehlo_py.backends.gpu.driver.calls import LAUNCH, Calls
from stablehlo_py.backends.gpu.driver.queue import GRAPH
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value


class CudaCalls(Calls):
    """A stream is in order, and a kernel that fails takes its context with it: everything after fails, too."""

    fields, has_graphs = CudaStream.fields, True

    def launch(self, f: Function, kernel: Value) -> None:
        """cuLaunchKernel. Operands are pointers, so their array is what the driver takes as a packed buffer."""
        size, extra = f.alloca(1, I64), f.alloca(5, PTR)
        f.store(f.index(f.imul(f.count, 8)), size)
        numbers = {0: BUFFER, 2: SIZE, 4: END}
        for place, number in numbers.items():
            f.store(f.cast("inttoptr", f.const(number), PTR), extra, place)
        f.store(f.operands, extra, 1)
        f.store(size, extra, 3)
        one = f.const(1, I32)
        blocks, threads, shared = (f.cast("trunc", value, I32) for value in (f.blocks, f.threads, f.shared))
        grid = [blocks, one, one, threads, one, one]
        self.call(f, "launch", [kernel, *grid, shared, self.field(f, "stream"), f.null(), extra])

    def copy(self, f: Function) -> None:
        """cuMemcpyAsync, which knows by an address whether it is the host's."""
        stream = self.field(f, "stream")
        self.call(f, "copy", [f.target, f.source, f.bytes, stream])
        f.ret_if(f.cmp("eq", f.waits, f.const(0, I32)))
        self.call(f, "synchronize", [stream])

    def change(self, f: Function, node: Value, parameters: Value) -> None:
        """cuGraphExecKernelNodeSetParams, whose parameters point to the operands; cuGraphExecMemcpyNodeSetParams."""
        graph = self.field(f, GRAPH)
        if f.name == LAUNCH:
            self.call(f, "change_launch", [graph, node, parameters])
            return
        f.store(f.source, f.gep(parameters, SOURCE_AT, I8))
        f.store(f.target, f.gep(parameters, TARGET_AT, I8))
        self.call(f, "change_copy", [graph, node, parameters, self.field(f, "context")])
