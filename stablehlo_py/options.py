"""Options of a compilation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, fields
from numbers import Integral
from pathlib import Path
from types import NoneType

from stablehlo_py.boundary import public
from stablehlo_py.errors import OptionError, shown
from stablehlo_py.files import why_no_file_name

MAX_PROCESSES = 1024  # of a grid, each of them a thread
DYNAMIC = ("auto", "once", "specialize")
SCATTER_WINDOWS = ("auto", "whole", "partial")
# What the CPU backend generates code for, best first.
CPUS = ("amx", "znver4", "avx512bf16", "avx512vnni", "avx512", "avxvnni", "znver3", "avx2", "x86-64", "generic")
# CPUs that it generates object files for (docs/cpu-targets.md), and no programs of this process, by architecture.
OTHER_CPUS = (
    *("x86-64-v2", "x86-64-v3", "x86-64-v4", "icelake-server", "sapphirerapids"),
    *("aarch64", "cortex-a53", "cortex-a72", "neoverse-n1", "neoverse-n2", "apple-m1", "neoverse-v1", "a64fx"),
    *("rv64gc", "rv64gcv", "rv64gcv-zvl256b", "rv64gcv-zvl512b"),
    *("wasm32", "wasm32-mvp"),
    *("armv7", "armv7-neon", "cortex-a7", "cortex-a9"),
)
GPUS = ("sm_80", "sm_90", "sm_90a", "sm_100", "gfx90a", "gfx942", "gfx1100")  # what backends of GPUs generate code for
# Libraries that programs for GPUs may use.
CUBLASLT, CUFFT, CUSOLVER, CUDNN = LIBRARIES = ("cublaslt", "cufft", "cusolver", "cudnn")
TRITON = "triton"
GENERATORS = (TRITON,)  # of kernels for GPUs, besides the backends' own templates
MAX_THREADS = 128
CACHE_VARIABLE = "STABLEHLO_PY_CACHE_DIR"


def available_threads() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _configured_cache() -> str | None:
    return os.environ.get(CACHE_VARIABLE) or None


# The types of options, and what is said of another. A bool is a number to Python, and none here.
_PATH: tuple[tuple[type, ...], str] = ((str, os.PathLike, NoneType), "a path, or None")
_FLAG: tuple[tuple[type, ...], str] = ((bool,), "True or False")
_PROCESSES: tuple[tuple[type, ...], str] = ((Integral, NoneType), f"a number from 1 to {MAX_PROCESSES}, or None")
_WANTED: dict[str, tuple[tuple[type, ...], str]] = {
    "threads": ((Integral, NoneType), f"a number from 1 to {MAX_THREADS}, or None for all CPUs"),
    "opt_level": ((Integral,), "0 or 1"),
    "cache_dir": _PATH,
    "dump_dir": _PATH,
    "isolate": _FLAG,
    "cpu": ((str, NoneType), f"one of {', '.join(CPUS)}, or None for this one"),
    "gpu": ((str, NoneType), f"one of {', '.join(GPUS)}, or None for the one of this machine"),
    "tf32": _FLAG,
    "atomic_scatter": _FLAG,
    "device": ((Integral,), "the number of a device, from 0 on"),
    "graphs": _FLAG,
    "disable": ((str, tuple, list, set, frozenset), "a tuple of names of passes and rules"),
    "libraries": ((str, tuple, list, set, frozenset), f"a tuple of names, of {', '.join(LIBRARIES)}"),
    "generators": ((str, tuple, list, set, frozenset), f"a tuple of names, of {', '.join(GENERATORS)}"),
    "verify": _FLAG,
    "num_replicas": _PROCESSES,
    "num_partitions": _PROCESSES,
    "dynamic": ((str,), f"one of {', '.join(DYNAMIC)}"),
    "scatter_windows": ((str,), f"one of {', '.join(SCATTER_WINDOWS)}"),
    "autotune": _FLAG,
    "plans": _PATH,
}


def _names(option: str, names: str | Iterable[str]) -> tuple[str, ...]:
    """The names that an option holds, which may come as one text with commas."""
    found = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    for name in found:
        if not isinstance(name, str):
            raise OptionError(f"{option} holds {shown(name)}", remedy=f"use {_WANTED[option][1]}")
    return tuple(filter(None, found))


@dataclass(frozen=True, repr=False)
class Options:
    """Options of a compilation. Those that decide what code is generated are part of the cache's key.

    Attributes:
        threads: threads that a call may use, the calling one included; None: all CPUs this process may run on. Results
            are bit-identical for any number.
        opt_level: 0 runs only what lowering needs, 1 everything.
        cache_dir: directory of compiled executables, shared by processes (docs/security.md says what is checked);
            "default": this user's cache directory on this system; None: no cache. Left out, it is what the environment
            variable STABLEHLO_PY_CACHE_DIR says.
        dump_dir: directory into which the text of every stage is written.
        isolate: let a child process read bytes, text and files first, so that a damaged or hostile one cannot take this
            process down (docs/errors.md); False: for those that you trust. An `Exported` and a module are trusted.
        cpu: what code for the processor is generated for: "amx", "znver4", "avx512bf16", "avx512vnni", "avx512",
            "avxvnni", "znver3", "avx2", "x86-64" or "generic";
            None: the best for this host, or, of the host's part of a program for a GPU, any. Object files can be
            generated for others too (`OTHER_CPUS`). The backend itself is the argument `target` of `compile`.
        gpu: what the backends "cuda" ("sm_80", "sm_90", "sm_90a", "sm_100") and "rocm" ("gfx90a", "gfx942", "gfx1100")
            generate code for, on a machine with or without a GPU; None: the one that the driver finds here.
        tf32: whether products of f32 may round their operands to TF32 (11 bits of significand, three decimal digits)
            on GPUs that have units for it; else they are as exact as f32 is.
        atomic_scatter: whether scatters on GPUs may combine updates in any order, by atomic operations: sums of floats
            then differ in their last bits from call to call (docs/gpu.md); else every call gives the same bits.
        device: which of the backend's devices runs the program, by number (docs/gpu.md).
        graphs: ask a GPU for all kernels of a call in one go, where its driver has graphs (docs/gpu.md).
        libraries: libraries of the GPU's vendor (of the backend "cuda": "cublaslt", "cufft", "cusolver", "cudnn") that
            compute what they are good at, where a program finds them when it is loaded; results depend on their version
            (docs/gpu.md).
        generators: other generators of kernels ("triton", of the backend "cuda", for matrix products and attention)
            whose kernels `autotune` times beside the backend's own, and `plans` may name; each has to be installed
            (docs/gpu.md).
        disable: passes, rules of the simplifier, and parts of required passes ("fuse", "epilogues",
            "straight-line-fusions", "in-place", "shared-memory"), left out by name (to find the one that changes an
            answer).
        verify: verify the IR after every pass.
        num_replicas, num_partitions: the process grid that the program runs as (docs/collectives.md); None: what the
            module says.
        dynamic: what becomes of a model with dynamic dimensions: "once": one program for all shapes, or an error;
            "specialize": one program for each shapes it is called with; "auto": the first where it can be had.
        scatter_windows: what becomes of windows of a scatter that lie partly out of bounds: "partial": their elements
            that are in bounds are updated, as the specification says; "whole": none of them, as XLA does; "auto":
            "whole" for modules written for XLA, those of JAX among them, and else "partial" (docs/decisions.md).
        autotune: let the device at hand time the kernels that may be had for a part of the model on a GPU, and take the
            fastest (docs/gpu.md): sums of floats may then be in another order, which depends on these times.
        plans: a file that says which kernels to take: a program's stage `plans`. So what was tuned on one machine can
            be compiled on any. With `autotune`, what the file does not say is timed.
        target: the former name of `cpu`, which goes in the next release.

    Raises:
        OptionError: a value is out of range.
    """

    threads: int | None = None
    opt_level: int = 1
    cache_dir: str | os.PathLike[str] | None = field(default_factory=_configured_cache, compare=False)
    dump_dir: str | os.PathLike[str] | None = field(default=None, compare=False)
    isolate: bool = field(default=True, compare=False)
    cpu: str | None = None
    gpu: str | None = None
    tf32: bool = False
    atomic_scatter: bool = False
    device: int = 0
    graphs: bool = True
    libraries: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    verify: bool = False
    num_replicas: int | None = None
    num_partitions: int | None = None
    dynamic: str = "auto"
    scatter_windows: str = "auto"
    autotune: bool = False
    plans: str | os.PathLike[str] | None = None
    target: InitVar[str | None] = None

    def __post_init__(self, target: str | None) -> None:
        if target is not None:
            self._take_former_name(target)
        for each, (kinds, wanted) in _WANTED.items():
            value = getattr(self, each)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise OptionError(f"{each} is {shown(value)}", remedy=f"use {wanted}")
            if isinstance(value, Integral) and not isinstance(value, bool):  # NumPy's too
                object.__setattr__(self, each, int(value))
        for each, what in (("cache_dir", "directory"), ("dump_dir", "directory"), ("plans", "file")):
            path = getattr(self, each)
            reason = None if path is None else why_no_file_name(path)
            if reason is not None:
                raise OptionError(f"{each} is {shown(path)}: {reason}", remedy=f"pass the path of a {what}, or None")
        for each in ("disable", "libraries", "generators"):
            object.__setattr__(self, each, _names(each, getattr(self, each)))
        self._check_values()

    def _check_values(self) -> None:
        unknown = [name for name in self.libraries if name not in LIBRARIES]
        if unknown:
            raise OptionError(f"there is no library {shown(unknown[0])}", remedy=f"use {_WANTED['libraries'][1]}")
        unknown = [name for name in self.generators if name not in GENERATORS]
        if unknown:
            raise OptionError(f"there is no generator {shown(unknown[0])}", remedy=f"use {_WANTED['generators'][1]}")
        if self.generators and not self.autotune and self.plans is None:
            raise OptionError(
                f"generators is {shown(self.generators)}, and nothing chooses their kernels",
                remedy="pass autotune too, to time them on this machine's GPU, or plans that name some",
            )
        allowed = {"threads": range(1, MAX_THREADS + 1), "opt_level": range(2), "dynamic": DYNAMIC}
        allowed["scatter_windows"] = SCATTER_WINDOWS
        if self.device < 0:
            raise OptionError(f"device is {self.device}", remedy=f"use {_WANTED['device'][1]}")
        grid = {name: range(1, MAX_PROCESSES + 1) for name in ("num_replicas", "num_partitions")}
        for name, values in (allowed | grid).items():
            value = getattr(self, name)
            if value is not None and value not in values:
                raise OptionError(f"{name} is {shown(value)}", remedy=f"use {_WANTED[name][1]}")

    def _take_former_name(self, target: str) -> None:
        if target not in CPUS:
            raise OptionError(
                f"Options(target={shown(target)}): the backend is no part of the options",
                remedy=f"write compile(..., target={shown(target)}), or Options(cpu=...) with one of {', '.join(CPUS)}",
            )
        # From the caller's line: this method, __post_init__ and the generated __init__ lie between.
        warnings.warn(f"write Options(cpu={target!r}) for Options(target=...)", DeprecationWarning, stacklevel=4)
        object.__setattr__(self, "cpu", target)

    @staticmethod
    @public
    def of(options: object) -> Options:
        """The options that a caller passed; None stands for the defaults.

        Raises:
            OptionError: it is something else.
        """
        if options is None:
            return Options()
        if not isinstance(options, Options):
            remedy = "pass stablehlo_py.Options(...), or None"
            raise OptionError(f"options is {shown(options)}, a {type(options).__name__}", remedy=remedy)
        return options

    @property
    @public
    def cache_directory(self) -> Path | None:
        """The directory that `cache_dir` stands for."""
        if self.cache_dir == "default":
            from platformdirs import user_cache_path

            return user_cache_path("stablehlo-py")
        return None if self.cache_dir is None else Path(self.cache_dir)

    @property
    @public
    def key(self) -> str:
        """Everything here that decides what code is generated, but for the machine: that is a backend's to describe."""
        grid = f"grid={self.num_replicas}x{self.num_partitions}"
        semantics = f"{grid} scatter_windows={self.scatter_windows} tf32={self.tf32} libraries={sorted(self.libraries)}"
        semantics += f" generators={sorted(self.generators)} atomic_scatter={self.atomic_scatter}"
        effort = f"threads={self.thread_count} opt_level={self.opt_level} graphs={self.graphs}"
        return f"{effort} disable={sorted(self.disable)} {semantics}"

    def __repr__(self) -> str:
        """Only what differs from the defaults."""
        default = type(self)()
        changed = {each.name: getattr(self, each.name) for each in fields(self)}
        listed = [f"{name}={value!r}" for name, value in changed.items() if value != getattr(default, name)]
        return f"Options({', '.join(listed)})"

    @property
    @public
    def thread_count(self) -> int:
        """`threads`, or the CPUs that this process may run on."""
        return self.threads or available_threads()
