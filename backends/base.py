"""What a backend is, and how one is found.

XLA splits this interface in four (Compiler, Executable, TransferManager, StreamExecutor); here it is one class,
found by `stablehlo_py.targets`, and what its `load` returns. Nothing outside of `backends` knows of a backend by name,
but that of the default.

A class may derive from `Backend`: then it has the usual pipeline, and the policy of no machine, until it says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from stablehlo_py.errors import ArgumentError, LoadError, OptionError, UnsupportedError, shown
from stablehlo_py.targets import find_backend

if TYPE_CHECKING:
    from stablehlo_py.mlir import ir
    from stablehlo_py.options import Options
    from stablehlo_py.passes.policy import Blocking, Costs, FusionPolicy
    from stablehlo_py.runtime.buffer import Event, MemorySpace
    from stablehlo_py.runtime.entry import Entry
    from stablehlo_py.runtime.library import Interface, Library
    from stablehlo_py.runtime.memory import ArrayMemory, Layouts
    from stablehlo_py.runtime.program import CompiledProgram


class Code(Protocol):
    """A program in this process, ready to be called. Calls are thread-safe.

    Inputs and results are addresses in its memory, dense and row-major; the program's specs say what lies there
    (`runtime.memory.array_at` makes an array of an address of the host and a spec). A donated input lies where its
    output does.
    """

    @property
    def memory(self) -> MemorySpace | None:
        """Where inputs and results are, None: in the host's memory."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether its device is gone, with what was in its memory: then the program has to be loaded anew."""
        return False

    @property
    def choices(self) -> Sequence[str]:
        """What was decided when it was loaded, a line each, for a person."""
        return ()

    @property
    def entry(self) -> Entry | None:
        """The program as a C function; None: it is none."""
        return None

    @property
    def calls_python(self) -> bool:
        """Whether that function calls Python: then who calls it has to be ready for exceptions."""
        return False

    def fast_call(self, inputs: Layouts, outputs: Layouts, memory: ArrayMemory) -> Callable[..., Any] | None:
        """A function that takes arrays as the program wants them, and returns its results, in arrays of `memory`, or
        None, when the call has to go the long way; it has done nothing then. None: there is no such function.

        Raises what the handler of a signal raises.
        """
        return None

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> Event | None:
        """One call. Returns when it is done (None), or when the device of its memory has been asked for it: then it is
        done behind all that this device was asked for before.

        Raises:
            CallError: a custom call failed.
            ResourceError: there is no memory, or there are no threads, for it.
        """


class SizedCode(Code, Protocol):
    """Code of a program with dynamic dimensions (`CompiledProgram.dynamic`)."""

    def sizes(self, symbols: Sequence[int]) -> Sequence[int]:
        """The table of a call, from the values of `DynamicLayout.symbols`.

        Raises:
            OverflowError: one of them is not in i64.
        """

    def run(self, inputs: Sequence[int], outputs: Sequence[int], table: Sequence[int] | None = None) -> Event | None:
        """As `Code.run`, with the table that `sizes` gave for the call."""


class Grid(Protocol):
    """What the processes of one call share. A process is named by its number, replica * partitions + partition."""

    def run(self, process: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """One process, in the thread that calls; returns early once the grid has failed. Raises as `Code.run`."""

    def stop(self) -> None:
        """Let the grid fail: every process returns from where it waits."""

    def failed(self) -> bool:
        """Whether it was stopped, or a process has noticed that it cannot go on."""

    def failure(self) -> tuple[str, int] | None:
        """What a process has noticed: a sentence with "{}" for that process, and its number."""

    def waits(self, process: int) -> int | None:
        """How often a process has waited, if it waits now, for something that has not come; None if it can go on."""

    def is_waiting(self, process: int) -> bool:
        """Whether it waits, also for something that has come by now."""

    def site(self, process: int) -> int:
        """The op of `GridPlan.sites` that a process is at; their number before the first."""

    def end(self) -> None:
        """Free what was sent and not received, and forget `transfer`. When all processes have ended."""


class GridCode(Code, Protocol):
    """Code of a program that runs as a grid of processes (`CompiledProgram.grid`)."""

    def grid(self, transfer: Callable[[int, int, int], None], random_keys: Sequence[int]) -> Grid:
        """Memory for one call. `transfer(process, port, address)` hands a tensor to the host, or takes one from it;
        what it raises ends the `run` of that process. `random_keys` are 64 bits for each process
        (runtime/random_keys.py)."""


class Backend(Protocol):
    """One target."""

    @property
    def name(self) -> str:
        """The name that `compile(target=...)` takes."""

    @property
    def platform(self) -> str:
        """What JAX calls it: the name in `jax.export.export(..., platforms=[...])`."""

    @property
    def calls_functions_of(self) -> str:
        """The backend whose functions (`register_custom_call`) its programs call."""
        return self.name

    @property
    def costs(self) -> Costs:
        """What work costs; passes and kernels decide by it."""
        from stablehlo_py.passes.policy import Costs  # passes read IR, which a program that is loaded does without

        return Costs()

    @property
    def fusion(self) -> FusionPolicy:
        """What is fused, and what is written in place."""
        from stablehlo_py.passes.policy import FusionPolicy

        return FusionPolicy()

    @property
    def blocking(self) -> Blocking | None:
        """How large factorizations are split, None: not at all."""
        return None

    @property
    def module_stages(self) -> tuple[str, ...]:
        """Names of the stages after `optimized` that passes lead to: modules, which are read back."""
        return USUAL_STAGES

    @property
    def stages(self) -> Mapping[str, str]:
        """Names of the stages after those, which are text, each with how the name of a file with it ends."""

    def pipeline(self, stage: str, options: Options) -> Sequence[str]:
        """The passes that lead to one of `module_stages` from the stage before it, in pipeline syntax: the usual ones;
        masks that are constants become comparisons of indices first where fusions of attention read these."""
        passes = usual_pipeline(stage, options, self.name)
        reads_masks = stage == "fused" and options.opt_level > 0 and "attention" in self.fusion.kinds
        return ["recognize-indices", *passes] if reads_masks else passes

    def describe(self, options: Options) -> str:
        """What code is generated for, in words that go into the cache key."""

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """Text of one of `stages`, of a module at the last of `module_stages`."""

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Code of a module at the last of `module_stages`, ready to be loaded or saved."""

    def library(self, module: ir.Module, options: Options, interface: Interface) -> Library:
        """Code of a module at the last of `module_stages` for programs that are not Python: ahead of time.

        Raises:
            UnsupportedError: this backend makes none, or not of this model.
        """
        raise UnsupportedError(
            f"the backend '{self.name}' makes no libraries", remedy="use the targets 'cpu' or 'c', or save an artifact"
        )

    def memory(self, device: int = 0) -> MemorySpace | None:
        """Where inputs and results of its programs are, as `Code.memory` of those that it loads now for a device says.

        Raises:
            ArgumentError: there is no device of this number; those that there are are listed.
            ResourceError: it cannot be had.
        """
        require_only_device(self.name, device)
        return None

    def load(self, program: CompiledProgram, device: int = 0) -> Code:
        """A program of this backend, in this process: a SizedCode if it has dynamic dimensions, a GridCode if it is a
        grid.

        Raises:
            LoadError: it is for another machine, or calls what this process does not have.
            ArgumentError, ResourceError: as `memory`.
        """

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """Texts of stages that a program does not hold, worked out when they are read."""

    def custom_calls(self) -> frozenset[str]:
        """Targets of custom calls that this backend answers itself."""


#: The module stages of a backend that does not say otherwise.
USUAL_STAGES = ("fused", "scheduled")


def usual_pipeline(stage: str, options: Options, target: str) -> list[str]:
    """The passes that lead to one of `USUAL_STAGES`, with the policy of a target."""
    optimizing = options.opt_level > 0
    fusion = (
        f"fusion{{target={target}}}" if optimizing else f"fusion{{epilogues=false straight-line=false target={target}}}"
    )
    loops = [f"outline-loops{{target={target}}}"] if optimizing else []
    marks = ["bound-angles", "mark-stacks"] if optimizing else []
    batches = [f"outline-batches{{target={target}}}"] if optimizing else []
    schedule, buffers = f"schedule{{target={target}}}", f"buffer-assignment{{target={target}}}"
    return {
        "fused": ["drop-shardings", f"decompose-collectives{{target={target}}}", *loops, *marks, *batches, fusion],
        "scheduled": ["drop-fills", schedule, buffers] if optimizing else [buffers],
    }[stage]


def refuse_gpu_options(backend: str, options: Options) -> None:
    """Of a backend for processors. Raises OptionError: options ask for what only GPUs have."""
    if options.gpu is not None:
        reason = f"the backend '{backend}' generates no code for GPUs, gpu is {shown(options.gpu)}"
        raise OptionError(reason, remedy="pass target='cuda' or 'rocm' too, or leave it out")
    if options.libraries:
        reason = f"programs of the backend '{backend}' use no libraries, libraries is {shown(options.libraries)}"
        raise OptionError(reason, remedy="pass target='cuda' too, or leave it out")
    if options.atomic_scatter:
        reason = f"scatters of the backend '{backend}' combine updates in order, atomic_scatter is True"
        raise OptionError(reason, remedy="pass target='cuda', 'rocm' or 'opencl' too, or leave it out")


def require_only_device(name: str, number: int) -> None:
    """Refuse a device of a backend that has but one. Raises ArgumentError."""
    if number:
        raise ArgumentError(f"there is no device {name}:{number}: there is {name}:0", remedy="choose that one")


def get_backend(name: str) -> Backend:
    """The backend of a target name. Raises OptionError as `targets.find_backend`."""
    return cast(Backend, find_backend(name))


def backend_of(program: CompiledProgram) -> Backend:
    """The backend that made a program, and loads it.

    Raises:
        LoadError: it is not installed here.
    """
    try:
        return get_backend(program.backend)
    except OptionError as error:
        raise LoadError(
            f"the program was compiled by the backend '{program.backend}', which is not installed here",
            remedy="install the package that it comes with",
        ) from error
