"""Libraries: what a backend makes of a model for programs that are not Python (backends/common/library.py), as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stablehlo_py.runtime.program import CompiledProgram

ABI = 1  # SHLO_MODEL_ABI of include/shlo_model.h
THREADS_BYTES = 4096  # SHLO_THREADS_BYTES


@dataclass(frozen=True)
class Interface:
    """What a library offers.

    Attributes:
        name: of the model, a C identifier: all public symbols begin with it.
        threads: "off", "own" or "callback".
        constants: "embed", or "file": they are in a file of their own, which the caller maps.
        most_threads: numbers of threads are below this.
        cpus: those that there is code for, where there is for several; a call takes the last that the machine has.
        triple: system and object format, as LLVM writes them; None: those that the processor usually has.
    """

    name: str
    threads: str = "off"
    constants: str = "embed"
    most_threads: int = 1
    triple: str | None = None
    cpus: tuple[str, ...] = ()

    @property
    def public(self) -> tuple[str, ...]:
        """The functions and data that others may use."""
        own = ("threads_start", "threads_stop", "parallel_for") if self.threads == "own" else ()
        file = ("constants",) if self.constants == "file" else ()
        suffixes = ("call", "workspace_bytes", "sizes", "model", *file, *own)
        return self.name, *(f"{self.name}_{suffix}" for suffix in suffixes)

    @property
    def constant_table(self) -> str:
        """The symbol of the addresses of embedded constants."""
        return f"{self.name}_constant_table"

    @property
    def constant_keys(self) -> str:
        """The symbol of what is looked for in a file of constants: rows of `KEY_COLUMNS` numbers."""
        return f"{self.name}_constant_keys"


@dataclass(frozen=True)
class Library:
    """A model as code that a linker takes.

    Attributes:
        interface: what it offers.
        code: an object file, or a source file.
        program: what the model takes and gives.
        hash: of all that it computes, in hexadecimal digits.
        target: what it was compiled for, for people; triple: its system and object format.
        public: the symbols that it defines for others.
        custom_calls: functions that whoever links it has to bring: the name of each by the target of the custom call.
        routines: those of LAPACK and BLAS.
    """

    interface: Interface
    code: bytes = field(repr=False)
    program: CompiledProgram
    hash: str
    target: str
    triple: str
    public: tuple[str, ...]
    custom_calls: Mapping[str, str] = field(default_factory=dict)
    routines: tuple[str, ...] = ()
