"""What all engines share: how one is to run a module, and the context of the modules of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir, stablehlo
from stablehlo_py.options import Options

Source = str | bytes


@dataclass(frozen=True)
class Noise:
    """Random errors: another set for every seed, of `scale` times the size that rounding has."""

    seed: int
    scale: float = 1.0


@dataclass(frozen=True)
class Settings:
    """How an engine runs a module.

    Attributes:
        entry: the function to run, where that is not `@main`.
        options: options of our compiler; other engines have none.
        pass_files: Python files whose passes are loaded first (`--load-pass`).
        source: what our compiler compiles instead of the module: the same program with dynamic sizes, or that of one
            process.
        target: the backend of our compiler.
        noise: errors that the evaluation of `hlo` puts on what it computes (`disturbed.py`).
        grid: replicas and partitions that our compiler's program runs as; the inputs, and the results, are those of one
            process after the other.
    """

    entry: str | None = None
    options: Options = field(default_factory=lambda: Options(threads=1, cache_dir=None))
    pass_files: tuple[str, ...] = ()
    source: Source | None = None
    target: str = "cpu"
    noise: Noise | None = None
    grid: tuple[int, int] | None = None


@cache
def context() -> ir.Context:
    """One context for all modules of this process: making one takes 10 ms. It keeps every type and attribute that it
    has seen: `context.cache_clear()` now and then, between two modules, gives that memory back."""
    made = make_context()
    stablehlo.register_interpreter_dialect(made)
    return made
