"""How native code starts kernels and copies in a stream, and changes those of a graph."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from stablehlo_py.backends.gpu.driver.calls import COPY, Calls
from stablehlo_py.backends.gpu.driver.queue import GRAPH
from stablehlo_py.backends.gpu.driver.stream import Stream
from stablehlo_py.backends.gpu.driver.stream_library import LAUNCH_BUFFER, LAUNCH_SIZE, StreamLibrary
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, Value


class StreamCalls(Calls):
    """A stream is in order, and after a kernel that fails everything fails.

    Attributes:
        library: whose functions they are.
    """

    fields: ClassVar[tuple[str, ...]] = Stream.fields
    library: ClassVar[type[StreamLibrary]]
    has_graphs = True

    def launch(self, f: Function, kernel: Value) -> None:
        """`LaunchKernel`. Operands are pointers, so their array is what the driver takes as a packed buffer."""
        size, extra = f.alloca(1, I64), f.alloca(5, PTR)
        f.store(f.index(f.imul(f.count, 8)), size)
        numbers = {0: LAUNCH_BUFFER, 2: LAUNCH_SIZE, 4: self.library.launch_end}
        for place, number in numbers.items():
            f.store(f.cast("inttoptr", f.const(number), PTR), extra, place)
        f.store(f.operands, extra, 1)
        f.store(size, extra, 3)
        one = f.const(1, I32)
        blocks, threads, shared = (f.cast("trunc", value, I32) for value in (f.blocks, f.threads, f.shared))
        grid = [blocks, one, one, threads, one, one]
        self.call(f, "launch", [kernel, *grid, shared, self.field(f, "stream"), f.null(), extra])

    def reach(self, f: Function, number: int, addresses: Value, count: int) -> None:
        """Nothing: a kernel may access all memory of its device."""

    def copy(self, f: Function) -> None:
        """`MemcpyAsync`, which knows by an address whether it is the host's."""
        stream = self.field(f, "stream")
        kinds = [f.const(kind, I32) for kind in self.library.copy_kinds]
        self.call(f, "copy", [f.target, f.source, f.bytes, *kinds, stream])
        f.ret_if(f.cmp("eq", f.waits, f.const(0, I32)))
        self.call(f, "synchronize", [stream])

    def change(self, f: Function, node: Value, parameters: Value) -> None:
        """`GraphExecKernelNodeSetParams`, whose parameters point to the operands; what the driver has for copies."""
        name, changed = "change_launch", [parameters]
        if f.name == COPY:
            name, changed = "change_copy", self.changed_copy(f, parameters)
        self.call(f, name, [self.field(f, GRAPH), node, *changed])

    @abstractmethod
    def changed_copy(self, f: Function, parameters: Value) -> list[Value]:
        """What `StreamLibrary.change_copy` is told of a copy, behind the graph and the node: it has another `target`
        and `source`."""
