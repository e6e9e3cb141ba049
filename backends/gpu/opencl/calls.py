"""How native code starts kernels and copies of OpenCL."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.gpu.driver.calls import Calls
from stablehlo_py.backends.gpu.driver.queue import KERNELS
from stablehlo_py.backends.gpu.opencl.queue import OpenClQueue
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, Value

SVM_POINTERS = 0x11B6  # CL_KERNEL_EXEC_INFO_SVM_PTRS


class OpenClCalls(Calls):
    """Every command waits for the event of the last one: the queue is in order, so it waits for nothing new; but one
    that waits for a command that failed fails itself (OpenCL 3.0, 5.11), and a device need not stop for that by itself.

    `last` is the address of that event (`Queue.last`), which every command takes the place of.
    """

    fields = OpenClQueue.fields

    def launch(self, f: Function, kernel: Value) -> None:
        """clSetKernelArgSVMPointer for each operand, clEnqueueNDRangeKernel."""

        def argument(i: Value) -> None:
            self.call(f, "set_argument", [kernel, f.cast("trunc", i, I32), f.load(PTR, f.operands, i)])

        f.loop(0, f.count, 1, argument)
        f.ret_if(self.is_failed(f))  # the arguments may be those of another launch
        everything, block = f.alloca(1, I64), f.alloca(1, I64)
        f.store(f.index(f.imul(f.blocks, f.threads)), everything)
        f.store(f.threads, block)
        self._enqueue(f, "enqueue", [self.field(f, "queue"), kernel, f.const(1, I32), f.null(), everything, block])

    def reach(self, f: Function, number: int, addresses: Value, count: int) -> None:
        """clSetKernelExecInfo, as a part of starting the kernel."""
        self.started(f, f.const(number))
        kernel = f.load(PTR, self.field(f, KERNELS), number)
        self.call(f, "set_reached", [kernel, f.const(SVM_POINTERS, I32), f.const(8 * count), addresses])

    def copy(self, f: Function) -> None:
        """clEnqueueSVMMemcpy."""
        self._enqueue(f, "copy", [self.field(f, "queue"), f.waits, f.target, f.source, f.bytes])

    def _enqueue(self, f: Function, function: str, operands: Sequence[Value]) -> None:
        """Ask for a command behind the last one."""
        last, made = self.field(f, "last"), f.alloca(1, PTR)
        before = f.load(PTR, last)
        f.store(f.null(), made)
        is_first = f.is_null(before)
        events = [f.select(is_first, f.const(0, I32), f.const(1, I32)), f.select(is_first, f.null(), last), made]
        self.call(f, function, [*operands, *events])
        f.ret_if(f.is_null(f.load(PTR, made)))  # one that was waited for may have failed, and have an event
        f.store(f.load(PTR, made), last)
        f.ret_if(is_first)
        f.call_pointer(self.field(f, "release"), [before], I32)
