"""Compiled programs as data: what a backend hands to the runtime, and what an artifact file (artifact.py) holds."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from stablehlo_py.runtime.accesses import Accesses
from stablehlo_py.runtime.library_calls import (
    LibraryCall,
    LibraryConvolution,
    LibraryFactorization,
    LibraryProduct,
    LibraryTransform,
)
from stablehlo_py.runtime.quantization import Quantization


def this_machine() -> str:
    """Architecture and system that object files of this process are for."""
    return f"{platform.machine()}-{sys.platform}"


@dataclass(frozen=True)
class Spec:
    """An input or output: name (from the model, else its number), shape (None: symbolic), NumPy or ml_dtypes dtype; for
    a quantized one, whose dtype is that of the stored integers, what they stand for."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype
    quantization: Quantization | None = None

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        quantized = f" ({self.quantization})" if self.quantization else ""
        return f"{self.name}: {self.dtype}[{sizes}]{quantized}"


def fits(sizes: tuple[int, ...], spec: Spec) -> bool:
    """Whether these sizes are of the shape of a spec."""
    if sizes == spec.shape:
        return True
    both = zip(sizes, spec.shape, strict=False)
    return len(sizes) == len(spec.shape) and all(wanted in (None, size) for size, wanted in both)


@dataclass(frozen=True)
class Leaves:
    """The arguments of the call that a model was exported from (the leaves of their trees): how many there are, and
    which of them the model takes. JAX drops those that are not used."""

    count: int
    kept: tuple[int, ...]

    @property
    def dropped(self) -> int:
        """How many the model does not take."""
        return self.count - len(self.kept)


SHOWN = 4  # of inputs, and of outputs


def signature(inputs: Sequence[Spec], outputs: Sequence[Spec]) -> str:
    """Inputs and outputs in one line, the first few of them where there are many."""

    def listed(specs: Sequence[Spec]) -> str:
        hidden = [f"{len(specs) - SHOWN} more"] if len(specs) > SHOWN + 1 else []
        return f"({', '.join([*map(str, specs[:SHOWN] if hidden else specs), *hidden])})"

    return f"{listed(inputs)} -> {listed(outputs)}"


@dataclass(frozen=True)
class Port:
    """Where a program hands one tensor to the host, or takes one: `kind` is infeed, outfeed, send or recv; `part` of
    the `parts` that one op moves; `site` is that op, as messages call it."""

    kind: str
    channel: int
    part: int
    parts: int
    spec: Spec
    site: str


@dataclass(frozen=True)
class GridPlan:
    """The processes that a program runs as, and what they need to meet (docs/collectives.md).

    Attributes:
        replicas, partitions: the size of the grid.
        communicates: whether the entry takes the process as one more input.
        whole: whether all processes have the same arguments and the same results.
        barriers: how many groups of groups meet.
        channels: how many channels there are between processes.
        random_sites: how many ops draw random numbers.
        ports: where the program meets the host.
        sites: the ops that communicate, as messages call them.
    """

    replicas: int
    partitions: int
    communicates: bool = False
    whole: bool = False
    barriers: int = 0
    channels: int = 0
    random_sites: int = 0
    ports: tuple[Port, ...] = ()
    sites: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return self.replicas * self.partitions


class Shaped(Protocol):
    """An array, or something that becomes one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""

    def __array__(self) -> np.ndarray: ...


@dataclass(frozen=True)
class DynamicSymbol:
    """A number that a call brings along: dimension `position` of an argument, divided by `divisor`, or (unless
    `of_shape`) element `position` of an argument of integers. Its `name` stands for it in the texts of stages; one that
    is `positive` has to be."""

    name: str
    argument: int
    position: int
    divisor: int
    of_shape: bool
    positive: bool

    @staticmethod
    def named(name: str) -> DynamicSymbol:
        """What a name (passes/infer_symbolic_shapes.py) says."""
        argument, position, *divisor = map(int, name[1:].split("_"))
        return DynamicSymbol(name, argument, position, divisor[0] if divisor else 1, name[0] == "d", name[0] != "x")

    def value(self, arrays: Sequence[Shaped]) -> int:
        """Its value in a call with these arguments."""
        array = arrays[self.argument]
        found = array.shape[self.position] if self.of_shape else int(np.asarray(array).flat[self.position])
        return found // self.divisor


@dataclass(frozen=True)
class DynamicCheck:
    """What must hold in a call of a program with dynamic dimensions.

    Attributes:
        kind: what a call is where it does not hold: "argument" and "memory", an error; "assumption", one that needs a
            specialization.
        message: what is wrong, "{0}", "{1}" ... standing for all but the first of `sizes`.
        sizes: text (dialect/symint_text.py) of the condition, which is 1 where it holds, and of what the message says.
        op, location: who asks for it; empty where nobody in particular does.
    """

    kind: str
    message: str
    sizes: str
    op: str
    location: str


@dataclass(frozen=True)
class DynamicLayout:
    """What the runtime has to know of a program with dynamic dimensions. A number below 0 is slot `-1 - number` of the
    table that the program's `shlo_sizes` fills at the start of a call; any other is itself.

    Attributes:
        symbols: what the sizes are worked out from.
        slots: slots of the table; behind them is 1 where all checks hold, and no size left i64 on the way.
        outputs: shapes of the results. arena_bytes: memory a call needs.
    """

    symbols: tuple[DynamicSymbol, ...]
    slots: int
    outputs: tuple[tuple[int, ...], ...]
    arena_bytes: int
    checks: tuple[DynamicCheck, ...]

    @staticmethod
    def number(table: Sequence[int], number: int) -> int:
        """What a number stands for in a call."""
        return table[-1 - number] if number < 0 else number


MadeOfOthers: TypeAlias = Callable[[Mapping[str, str | bytes]], str | bytes]


class StageContents(Mapping[str, str | bytes]):
    """Text of stages by name, or MLIR bytecode. A function in place of it makes it of the others when it is first read:
    of most programs nobody reads any."""

    def __init__(self, contents: Mapping[str, str | bytes | MadeOfOthers]) -> None:
        self._contents = dict(contents)

    def __getitem__(self, name: str) -> str | bytes:
        content = self._contents[name]
        if not isinstance(content, (str, bytes)):
            content = self._contents[name] = content(self)
        return content

    def __contains__(self, name: object) -> bool:
        return name in self._contents

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)

    def __or__(self, others: Mapping[str, str | bytes]) -> StageContents:
        more = others._contents if isinstance(others, StageContents) else others
        return StageContents({**self._contents, **more})


@dataclass(repr=False)
class CompiledProgram:
    """Everything needed to run a program in a new process, and what a user may ask about it.

    Attributes:
        backend, target: which backend loads it; the name of the machine it was generated for.
        machine: architecture and system of the object files (`this_machine`).
        features: what the machine must have, by LLVM's names; a device, by its driver's (extensions of OpenCL,
            "sm_90", "compute_90", "gfx942").
        inputs, outputs: specs in call order.
        objects: object files that define `shlo_main`.
        helpers: object files of the runtime that the program brings along, by what its backend calls them.
        symbols: functions that the objects call and that the process must have, e.g. "shlo.lapack.dgetrf".
        kernels: of a program for a device, which the objects behind the first are for, the names of what the host
            starts; modules: those of them that have objects of their own, which are the last ones.
        products, transforms, factorizations, convolutions: those that a library may compute where it is there, instead
            of some of the kernels.
        constants: the arrays behind slices of the constant space.
        donations: (output, input) pairs: the output is written into the input's buffer.
        arena_bytes: memory a call needs, scratch included. host_bytes: of a program for a device, what it needs of the
            host's memory, for calls that run there. uses_pool: whether any phase asks for threads.
        loops: whether it has loops, which may have to be ended.
        graphs: whether a device may be asked for all kernels in one go; accesses: then what each of `kernels` accesses,
            None where that is not known.
        threads: threads a call may use.
        stages: text of stages (or MLIR bytecode, rendered when asked for), in their order.
        grid: for a program that runs as several processes, or exchanges data with the host while it runs.
        dynamic: of a program with dynamic dimensions, what a call works out.
        leaves: which arguments of the call that was exported are the inputs, where that is known.
        digest: SHA-256 of the description that it was read from, or (if its backend marks its code with that) was
            generated with (`artifact.describe`).
    """

    backend: str
    target: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    objects: list[bytes]
    constants: list[np.ndarray]
    donations: tuple[tuple[int, int], ...]
    arena_bytes: int
    uses_pool: bool
    threads: int
    stages: Mapping[str, str | bytes] = field(default_factory=dict)
    report: str = ""
    machine: str = field(default_factory=this_machine)
    features: tuple[str, ...] = ()
    grid: GridPlan | None = None
    symbols: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    products: tuple[LibraryProduct, ...] = ()
    transforms: tuple[LibraryTransform, ...] = ()
    factorizations: tuple[LibraryFactorization, ...] = ()
    convolutions: tuple[LibraryConvolution, ...] = ()
    dynamic: DynamicLayout | None = None
    leaves: Leaves | None = None
    loops: bool = False
    host_bytes: int = 0
    graphs: bool = False
    accesses: tuple[Accesses | None, ...] = ()
    helpers: dict[str, bytes] = field(default_factory=dict)
    digest: bytes = b""

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        """What libraries may compute, in the order in which native code numbers it."""
        return *self.products, *self.transforms, *self.factorizations, *self.convolutions

    def __repr__(self) -> str:
        size = f"{sum(map(len, self.objects)) / 1024:.0f} KiB"
        return f"<CompiledProgram {signature(self.inputs, self.outputs)}, {size} for {self.backend} ({self.target})>"
