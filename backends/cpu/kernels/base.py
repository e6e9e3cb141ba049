"""What every kernel template takes and returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.backends.cpu.tiles import CONFIGURE
from stablehlo_py.codegen.builder import I64, PTR, Function
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.passes.symbolic.checks import Check


@dataclass(frozen=True)
class Phase:
    """One function of a kernel: iterations [0, iterations), at least `grain` of them per thread.

    `cost` estimates nanoseconds for one iteration; the program uses it to decide whether threads pay.
    """

    symbol: str
    iterations: IntLike = 1
    grain: IntLike = 1
    cost: float = 0.0

    @property
    def nanoseconds(self) -> float:
        """Of the whole phase; infinite where the number of iterations is not known."""
        return self.iterations * self.cost if isinstance(self.iterations, int) else math.inf


class SharedFunction(Protocol):
    """A function that kernels of a program have in common: as data, equal where the code is."""

    @property
    def symbol(self) -> str:
        """Its name."""

    def text(self, target: CpuTarget) -> str:
        """Its code."""


@dataclass(frozen=True)
class Kernel:
    """Code of a fusion: functions as text, phases in order, scratch sizes in bytes, declarations of what is
    defined elsewhere, read-only tables, all texts by their symbols; for one that meets other processes of the grid, or
    the host, the user's op that it is.

    One that `may_fail` begins its shared scratch with a pointer: null, or, when it has failed, where it stands in the
    program (`failure_of` in runtime/callbacks.py has the rest). The program then returns at once.

    One that `loops` finds there the address of the block that may end it (interrupt.py), and leaves null, or, when it
    was ended, the address. Again the program returns at once.

    `common` are functions that kernels of a program have in common: each is called by its symbol, and `externals`
    declares it. Only where the target `shares_functions`.

    `checks` are what dynamic sizes must hold to beyond what the module's own checks say.
    """

    functions: Mapping[str, str]
    phases: tuple[Phase, ...]
    shared_bytes: IntLike = 0
    private_bytes: IntLike = 0
    externals: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    common: Mapping[str, str] = field(default_factory=dict)
    communicates: str | None = None
    may_fail: bool = False
    loops: bool = False
    checks: tuple[Check, ...] = ()

    @property
    def uses_tiles(self) -> bool:
        """Whether it needs leave of the system (tiles.py)."""
        return any(CONFIGURE in text for text in self.functions.values())

    @classmethod
    def of(
        cls,
        *parts: Part,
        shared_bytes: IntLike = 0,
        private_bytes: IntLike = 0,
        tables: Mapping[str, str] | None = None,
        common: Mapping[str, str] | None = None,
        communicates: str | None = None,
    ) -> Kernel:
        """Of finished functions, in the order of their phases."""
        functions = [function for function, _ in parts]
        externals = {name: text for function in functions for name, text in function.externals.items()}
        texts = {function.name: function.text() for function in functions}
        phases = tuple(phase for _, phase in parts)
        shared = {name: text for function in functions for name, text in (function.common or {}).items()}
        common = {**shared, **(common or {})}
        return cls(texts, phases, shared_bytes, private_bytes, externals, tables or {}, common, communicates)


Part: TypeAlias = tuple[Function, Phase]


def finished(f: Function, iterations: IntLike = 1, cost: float = 0.0, grain: IntLike = 1) -> Part:
    """A function that lacks its return only, and its phase."""
    f.ret()
    return f, Phase(f.name, iterations, grain, cost)


def phase(f: Function, iterations: IntLike, cost: float) -> Part:
    """The same of one that is worth threads, where it takes long enough; `cost`: nanoseconds of one iteration."""
    return finished(f, iterations, cost, COSTS.grain(cost))


Template = Callable[[Fusion, CpuTarget], Kernel]


def phase_function(fusion: Fusion, target: CpuTarget, suffix: str = "", *, aliased: bool = False) -> Function:
    """A function with the phase signature: in0.., out0.., (sizes,) shared, private, begin, end.

    `aliased`: an output may share memory with an input besides those that the fusion names (in-place), so no pointer
    promises noalias.
    """
    pointers = [f"in{i}" for i in range(len(fusion.inputs))] + [f"out{i}" for i in range(len(fusion.outputs))]
    pointers += ["sizes"] if fusion.sizes is not None else []
    pointers += ["shared", "private"]
    parameters = [(pointer, PTR) for pointer in pointers] + [("begin", I64), ("end", I64)]
    noalias = () if aliased or fusion.aliased else pointers
    f = Function(fusion.name + suffix, parameters, target.emitter(), noalias=noalias)
    f.common = {} if target.shares_functions else None
    if fusion.sizes is not None:
        f.sizes = fusion.sizes, f.parameters["sizes"]
    return f
