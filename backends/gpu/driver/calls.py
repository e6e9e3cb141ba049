"""How the host's native function calls a driver: through a structure of functions and handles, `shlo_call.stream`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from stablehlo_py.backends.common.program import given
from stablehlo_py.backends.gpu.driver.queue import KERNELS, STARTED, STATUS
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, ScalarType, Value
from stablehlo_py.codegen.emitter import Emitter

LAUNCH, COPY = "shlo_launch", "shlo_copy"


class Calls(ABC):
    """One driver's.

    Attributes:
        fields: of the structure, as the driver's queue has them (`Queue.fields`).
    """

    fields: ClassVar[tuple[str, ...]]

    def functions(self, emitter: Callable[[], Emitter]) -> list[Function]:
        """Those that programs call:

        shlo_launch(caller, operands, kernel, blocks, threads of a block, bytes of dynamic shared memory, operands,
            reached), the last: how many addresses behind the operands are of memory that the kernel finds by itself
        shlo_copy(caller, target, source, bytes, whether to wait for it)
        """
        numbers = ("kernel", "blocks", "threads", "shared", "count", "reached")
        launch = self._function(LAUNCH, [("operands", PTR), *((name, I64) for name in numbers)], emitter())
        launch.store(launch.index(launch.iadd(launch.kernel, 1)), self._place(launch, STARTED))
        self.launch(launch, launch.load(PTR, self.field(launch, KERNELS), launch.kernel))
        launch.ret()
        copy = self._function(COPY, [("target", PTR), ("source", PTR), ("bytes", I64), ("waits", I32)], emitter())
        self.copy(copy)
        copy.ret()
        return [launch, copy]

    @abstractmethod
    def launch(self, f: Function, kernel: Value) -> None:
        """Emit what starts a kernel, which is given as a handle."""

    @abstractmethod
    def copy(self, f: Function) -> None:
        """Emit a copy."""

    def field(self, f: Function, name: str, type_: ScalarType = PTR) -> Value:
        """A field of the structure."""
        return f.load(type_, self._place(f, name))

    def is_failed(self, f: Function) -> Value:
        """Whether the driver has failed: what comes after would work on what is not there."""
        return f.cmp("ne", self.field(f, STATUS, I64), f.const(0))

    def call(self, f: Function, name: str, operands: Sequence[Value]) -> None:
        """Call a function of the driver, and keep its first error."""
        status = f.call_pointer(self.field(f, name), operands, I32)
        place = self._place(f, STATUS)
        before = f.load(I64, place)
        f.store(f.select(f.cmp("eq", before, f.const(0)), f.cast("sext", status, I64), before), place)

    def _function(self, name: str, parameters: Sequence[tuple[str, ScalarType]], emitter: Emitter) -> Function:
        f = Function(name, [("caller", PTR), *parameters], emitter, private=True)
        f.ret_if(self.is_failed(f))
        return f

    def _place(self, f: Function, name: str) -> Value:
        return f.gep(given(f, "stream"), self.fields.index(name), I64)
