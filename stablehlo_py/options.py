"""Options of a compilation."""

from __future__ import annotations

import os
import warnings
from dataclasses import InitVar, dataclass, field, fields
from pathlib import Path

from stablehlo_py.errors import OptionError
from stablehlo_py.files import why_no_file_name

MAX_PROCESSES = 1024  # of a grid, each of them a thread
DYNAMIC = ("auto", "once", "specialize")
SCATTER_WINDOWS = ("auto", "whole", "partial")
CPUS = ("avx512vnni", "avx512", "avx2", "x86-64", "generic")  # what the CPU backend generates code for, best first
MAX_THREADS = 128
CACHE_VARIABLE = "STABLEHLO_PY_CACHE_DIR"


def available_threads() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _configured_cache() -> str | None:
    return os.environ.get(CACHE_VARIABLE) or None


@dataclass(frozen=True, repr=False)
class Options:
    """Options of a compilation. Those that decide what code is generated are part of the cache's key.

    Attributes:
        threads: threads that a call may use, the calling one included; None: all CPUs this process may run on. Results
            are bit-identical for any number.
        opt_level: 0 runs only what lowering needs (one op, one kernel), 1 everything.
        cache_dir: directory of compiled executables, shared by processes (docs/security.md says what is checked);
            "default": this user's cache directory on this system; None: no cache. Left out, it is what the environment
            variable STABLEHLO_PY_CACHE_DIR says.
        dump_dir: directory into which the text of every stage is written.
        isolate: let a child process read bytes, text and files first, so that a damaged or hostile one cannot take this
            process down (docs/errors.md); False: for those that you trust. An `Exported` and a module are trusted.
        cpu: what the CPU backend generates code for: "avx512vnni", "avx512", "avx2", "x86-64" or "generic"; None: the
            best for this host. The backend itself is the argument `target` of `compile`.
        disable: passes, rules of the simplifier, and parts of required passes ("fuse", "epilogues", "tiny-fusions",
            "in-place", "shared-memory"), left out by name (to find the one that changes an answer).
        verify: verify the IR after every pass.
        num_replicas, num_partitions: the process grid that the program runs as (docs/collectives.md); None: what the
            module says.
        dynamic: what becomes of a model with dynamic dimensions: "once": one program for all shapes, or an error;
            "specialize": one program for each shapes it is called with; "auto": the first where it can be had.
        scatter_windows: what becomes of windows of a scatter that lie partly out of bounds: "partial": their elements
            that are in bounds are updated, as the specification says; "whole": none of them, as XLA does; "auto":
            "whole" for modules written for XLA, those of JAX among them, and else "partial" (docs/decisions.md).
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
    disable: tuple[str, ...] = ()
    verify: bool = False
    num_replicas: int | None = None
    num_partitions: int | None = None
    dynamic: str = "auto"
    scatter_windows: str = "auto"
    target: InitVar[str | None] = None

    def __post_init__(self, target: str | None) -> None:
        if target is not None:
            self._take_former_name(target)
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise OptionError(
                f"threads is {self.threads}", remedy=f"use a number from 1 to {MAX_THREADS}, or None for all CPUs"
            )
        if self.opt_level not in (0, 1):
            raise OptionError(f"opt_level is {self.opt_level}", remedy="use 0 or 1")
        for name, choices in (("dynamic", DYNAMIC), ("scatter_windows", SCATTER_WINDOWS)):
            if getattr(self, name) not in choices:
                raise OptionError(f"{name} is {getattr(self, name)!r}", remedy=f"use one of {', '.join(choices)}")
        for name in ("cache_dir", "dump_dir"):
            path = getattr(self, name)
            reason = None if path is None else why_no_file_name(path)
            if reason is not None:
                raise OptionError(f"{name} is {path!r}: {reason}", remedy="pass the path of a directory, or None")
        for name in ("num_replicas", "num_partitions"):
            size = getattr(self, name)
            if size is not None and not 1 <= size <= MAX_PROCESSES:
                raise OptionError(f"{name} is {size}", remedy=f"use a number from 1 to {MAX_PROCESSES}, or None")

    def _take_former_name(self, target: str) -> None:
        if target not in CPUS:
            raise OptionError(
                f"Options(target={target!r}): the backend is no part of the options",
                remedy=f"write compile(..., target={target!r}), or Options(cpu=...) with one of {', '.join(CPUS)}",
            )
        # From the caller's line: this method, __post_init__ and the generated __init__ lie between.
        warnings.warn(f"write Options(cpu={target!r}) for Options(target=...)", DeprecationWarning, stacklevel=4)
        object.__setattr__(self, "cpu", target)

    @property
    def cache_directory(self) -> Path | None:
        """The directory that `cache_dir` stands for."""
        if self.cache_dir == "default":
            from platformdirs import user_cache_path

            return user_cache_path("stablehlo-py")
        return None if self.cache_dir is None else Path(self.cache_dir)

    @property
    def key(self) -> str:
        """Everything here that decides what code is generated, but for the CPU: that is a backend's to describe."""
        grid = f"grid={self.num_replicas}x{self.num_partitions}"
        semantics = f"{grid} scatter_windows={self.scatter_windows}"
        return f"threads={self.thread_count} opt_level={self.opt_level} disable={sorted(self.disable)} {semantics}"

    def __repr__(self) -> str:
        """Only what differs from the defaults."""
        default = type(self)()
        changed = {each.name: getattr(self, each.name) for each in fields(self)}
        listed = [f"{name}={value!r}" for name, value in changed.items() if value != getattr(default, name)]
        return f"Options({', '.join(listed)})"

    @property
    def thread_count(self) -> int:
        """`threads`, or the CPUs that this process may run on."""
        return self.threads or available_threads()
