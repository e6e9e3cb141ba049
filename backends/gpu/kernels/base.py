"""What every kernel template of the GPUs takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.mlir import ir

AHEAD = 8  # reads of a thread that are on their way at once (`read_ahead`)
T = TypeVar("T")


@dataclass(frozen=True)
class Launch:
    """One kernel that a fusion starts: `blocks` blocks of `threads` threads, each block with so many bytes of shared
    memory beside what its code names (on OpenCL: none); whether these threads meet at barriers."""

    symbol: str
    blocks: int
    threads: int
    shared_bytes: int = 0
    meets: bool = False

    @classmethod
    def of(cls, f: Function) -> Launch:
        """Of a finished kernel."""
        shared = f.emit.dynamic_shared_bytes
        return cls(f.name, f.blocks_of_launch, f.threads_of_block, shared, f.barriers > 0)


@dataclass(frozen=True)
class Module:
    """Machine code of a kernel that another generator made.

    Attributes:
        binary: the machine code, as the driver takes it; source: what it was made from, for a person.
        feature: what a GPU must have to run it (capability.py).
        unused_pointers: parameters of the kernel behind those of all (`pointers_of`), of which it reads nothing.
    """

    binary: bytes
    source: str
    feature: str
    unused_pointers: int = 0


@dataclass(frozen=True)
class GpuKernel:
    """Code of a fusion: its launches in order, functions and tables as text by symbol, declarations of what is defined
    elsewhere, bytes of scratch memory that all launches share; how many pointers each launch gets (`pointers_of`),
    and the plan that it was made by. A kernel with a `module` has its last launch in there; functions are those of the
    launches before."""

    launches: tuple[Launch, ...]
    functions: Mapping[str, str]
    externals: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    scratch_bytes: int = 0
    pointers: int = 0
    plan: str = ""
    module: Module | None = None

    def module_of(self, launch: Launch) -> Module | None:
        """The module that a launch's code is in; None: it is one of the functions."""
        return self.module if launch is self.launches[-1] else None

    @classmethod
    def of(cls, *kernels: Function, scratch_bytes: int = 0) -> GpuKernel:
        """Of finished kernels."""
        return cls(
            tuple(map(Launch.of, kernels)),
            {f.name: f.text() for f in kernels},
            {name: text for f in kernels for name, text in f.externals.items()},
            scratch_bytes=scratch_bytes,
        )


def modules_of(kernels: Mapping[str, GpuKernel]) -> dict[str, Module]:
    """The kernels that have machine code of their own, by symbol."""
    return {kernel.launches[-1].symbol: kernel.module for kernel in kernels.values() if kernel.module}


@dataclass(frozen=True)
class Candidate:
    """A kernel that a fusion may have.

    Attributes:
        plan: what it does otherwise than the others, in words; empty where there are no others.
        emit: generates it.
    """

    plan: str
    emit: Callable[[], GpuKernel]


Template = Callable[[Fusion, GpuTarget], GpuKernel]
# A template that has a choice: its candidates, first the one that it chooses itself. No two have the same plan.
ChoosingTemplate = Callable[[Fusion, GpuTarget], Iterator[Candidate]]


def fused_op(function: ir.OpView) -> ir.Operation:
    """The op that a fusion function is about, in messages: its last one."""
    operations = function.regions[0].blocks[0].operations
    return operations[max(0, len(operations) - 2)].operation


def pointers_of(fusion: Fusion) -> list[str]:
    """The parameters of all kernels of a fusion: in0.., out0.., scratch."""
    return [
        *(f"in{number}" for number in range(len(fusion.inputs))),
        *(f"out{number}" for number in range(len(fusion.outputs))),
        "scratch",
    ]


def kernel_name(symbol: str) -> str:
    """The name of a kernel: PTX has no dots in them, and LLVM leaves them as they are."""
    return symbol.replace(".", "_")


def kernel_function(fusion: Fusion, target: GpuTarget, symbol: str, blocks: int, threads: int) -> Function:
    """A kernel of so many blocks of threads, with the signature of all: in0.., out0.., scratch. No pointer promises
    that others point elsewhere where an output lies over an input."""
    pointers = pointers_of(fusion)
    return target.kernel(kernel_name(symbol), pointers, blocks, threads, noalias=() if fusion.aliased else pointers)


def numbered_kernel(
    fusion: Fusion, target: GpuTarget, symbol: str, count: int, body: Callable[[Function, Value], None]
) -> Function:
    """A kernel of a fusion whose threads take the numbers below `count`, neighbours neighbouring ones, and go on by as
    many as there are threads."""
    blocks = min(-(-count // target.block), target.resident // target.block)
    f = kernel_function(fusion, target, symbol, blocks, target.block)
    f.loop(global_number(f), count, blocks * target.block, lambda number: body(f, number))
    f.ret()
    return f


def global_number(f: Function) -> Value:
    """The number of the thread that runs, among those of all blocks: i64."""
    number = f.iadd(f.imul(f.block_number(), f.threads_of_block), f.thread_number())
    assert isinstance(number, Value)
    return number


def read_ahead(
    f: Function, count: int, threads: int, read: Callable[[Index], T], keep: Callable[[Index, T], None]
) -> None:
    """Threads of a block take the numbers below `count`, neighbours neighbouring ones: `keep` gets what `read` returns.
    A thread reads several before it keeps them, whatever that depends on: they are on their way at once."""
    ahead = min(AHEAD, -(-count // threads))

    def some(first: Index) -> None:
        numbers = [f.iadd(first, threads * each) for each in range(ahead)]
        safe = [f.imin(number, count - 1) for number in numbers]
        found = [read(number) for number in safe]
        for number, at, value in zip(numbers, safe, found, strict=True):
            if count % (threads * ahead):
                f.if_(f.cmp("slt", f.index(number), f.const(count)), partial(keep, at, value))
            else:
                keep(at, value)

    f.loop(f.thread_number(), count, threads * ahead, some)
