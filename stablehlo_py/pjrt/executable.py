"""An executable: a program that is loaded, and what calls of it need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stablehlo_py.backends.base import Code
from stablehlo_py.pjrt.blocks import Memory
from stablehlo_py.pjrt.options import CompileOptions
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.pjrt.signature import Layouts
from stablehlo_py.runtime.program import CompiledProgram


@dataclass(eq=False)
class Compiled:
    """A program, and what JAX asked for."""

    program: CompiledProgram
    options: CompileOptions
    shardings: Shardings
    kinds: tuple[int, ...]  # of the memory of each result: a number of those that the device has
    layouts: Layouts


@dataclass(eq=False)
class Executable(Compiled):
    """What Python keeps beside the block of an executable."""

    code: Code
    memory: Memory  # that its block refers to
    plan: Callable[[Code, int], int]  # the PLAN of calls (plans.py), of the code on a device
    planned: Code | None = None  # what the block has the PLAN of
    donated: dict[int, int] = field(default_factory=dict)  # output -> input
    text: bytes | None = None  # as JAX may ask for it
    costs: tuple[int, int] | None = None  # where they are, and how many; None until somebody asks
