"""Functions of a program that call its kernels: those with as many operands have them in common, because LLVM takes as
long for a call with a dozen operands as for a small kernel.

A context, which threads get, holds the address of a kernel, the bytes of scratch that each thread has for itself, and
the kernel's operands, of which the last is that scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.program import Gather, given
from stablehlo_py.codegen.builder import I8, I64, PTR, Function, Type, Value
from stablehlo_py.codegen.emitter import Emitter

PARALLEL = "shlo_parallel"
HEAD = 2  # what a context holds before the operands
_TASK = (("context", PTR), ("begin", I64), ("end", I64), ("thread", I64))
_ROW = (("bases", PTR), ("row", PTR), ("caller", PTR))
_ON_ROW = (*_ROW, ("kernel", PTR), ("iterations", I64))


class Callers:
    """Those of a program that were asked for, by name."""

    def __init__(self, emitter: Callable[[], Emitter], gather: Gather) -> None:
        self.functions: dict[str, Function] = {}
        self._emitter = emitter
        self._gather = gather

    @property
    def uses_pool(self) -> bool:
        """Whether any hands iterations to threads."""
        return PARALLEL in self.functions

    def parallel(self, f: Function, context: Value, count: int, iterations: Value, chunk: Value) -> None:
        """Emit the call of the kernel in a context of so many operands, by the threads of the caller of `f`."""

        def task(g: Function) -> None:
            values = [g.load(PTR, g.context, HEAD + position) for position in range(count)]
            values[-1] = g.gep(values[-1], g.imul(g.thread, g.load(I64, g.context, 1)), I8)
            g.call_pointer(g.load(PTR, g.context), [*values, g.begin, g.end])

        more = [("task", PTR), ("context", PTR), ("iterations", I64), ("chunk", I64)]
        parallel = self._function(PARALLEL, [("caller", PTR), *more], _parallel)
        address = f.address_of(self._function(f"shlo_task_{count}", _TASK, task))
        f.call(parallel, [f.caller, address, context, iterations, chunk])

    def run(self, count: int) -> str:
        """run(bases, row, caller, kernel, iterations): calls a kernel of so many operands, whose places are in a row of
        the table, in this thread."""

        def emit(f: Function) -> None:
            room = f.alloca(count, PTR)
            self._gather(f, count, room)
            values = [f.load(PTR, room, position) for position in range(count)]
            f.call_pointer(f.kernel, [*values, f.const(0), f.iterations])

        return self._function(f"shlo_run_{count}", _ON_ROW, emit)

    def share(self, count: int) -> str:
        """share(bases, row, caller, kernel, iterations, chunk, private bytes): the same, by threads."""

        def emit(f: Function) -> None:
            context = f.alloca(HEAD + count, PTR)
            f.store(f.kernel, context)
            f.store(f.private_bytes, context, 1)
            self._gather(f, count, f.gep(context, HEAD, PTR))
            self.parallel(f, context, count, f.iterations, f.chunk)

        return self._function(f"shlo_share_{count}", [*_ON_ROW, ("chunk", I64), ("private_bytes", I64)], emit)

    def _function(self, name: str, parameters: Sequence[tuple[str, Type]], emit: Callable[[Function], None]) -> str:
        if name not in self.functions:
            f = Function(name, parameters, self._emitter(), private=True)
            emit(f)
            f.ret()
            self.functions[name] = f
        return name


def kernel_address(f: Function, symbol: str, count: int) -> Value:
    """The address of a phase with so many operands."""
    declare(f, symbol, count)
    return f.address_of(symbol)


def declare(f: Function, symbol: str, count: int) -> None:
    """Declare a phase with so many operands."""
    f.declare(symbol, [*[PTR] * count, I64, I64], None)


def _parallel(f: Function) -> None:
    """The caller's threads work, or, where it lends none, this one alone."""
    parallel_for, own = given(f, "parallel_for"), given(f, "parallel_context")

    def alone() -> None:
        f.call_pointer(f.task, [f.context, f.const(0), f.iterations, f.const(0)])

    def together() -> None:
        f.call_pointer(parallel_for, [own, f.task, f.context, f.iterations, f.chunk])

    f.if_(f.is_null(parallel_for), alone, together)
