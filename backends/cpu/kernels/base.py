"""What every kernel template takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
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


@dataclass(frozen=True)
class Kernel:
    """Code of a fusion: functions as text, phases in order, scratch sizes in bytes, declarations of what is
    defined elsewhere, read-only tables, all texts by their symbols; for one that meets other processes of the grid, or
    the host, the user's op that it is.

    One that `may_fail` begins its shared scratch with a pointer: null, or, when it has failed, where it stands in the
    program (`failure_of` in runtime/callbacks.py has the rest). The program then returns at once.

    One that `loops` finds there the address of the block that may end it (interrupt.py), and leaves null, or, when it
    was ended, the address. Again the program returns at once.

    `checks` are what dynamic sizes must hold to beyond what the module's own checks say.
    """

    functions: Mapping[str, str]
    phases: tuple[Phase, ...]
    shared_bytes: IntLike = 0
    private_bytes: IntLike = 0
    externals: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    communicates: str | None = None
    may_fail: bool = False
    loops: bool = False
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(
        cls,
        functions: Sequence[Function],
        phases: Sequence[Phase],
        *,
        shared_bytes: IntLike = 0,
        private_bytes: IntLike = 0,
        tables: Mapping[str, str] | None = None,
        communicates: str | None = None,
    ) -> Kernel:
        """Of finished functions."""
        externals = {name: text for function in functions for name, text in function.externals.items()}
        texts = {function.name: function.text() for function in functions}
        return cls(texts, tuple(phases), shared_bytes, private_bytes, externals, tables or {}, communicates)


def op_phase(symbol: str, iterations: IntLike, cost: float) -> Phase:
    """A phase of an op that is a kernel of its own; `cost`: nanoseconds of one iteration."""
    return Phase(symbol, iterations, COSTS.grain(cost, COSTS.op_grain_ns), cost)


def op_kernel(f: Function, iterations: IntLike, cost: float, private_bytes: IntLike = 0) -> Kernel:
    """The kernel of such an op in one phase, whose function lacks its return only."""
    f.ret()
    return Kernel.of([f], [op_phase(f.name, iterations, cost)], private_bytes=private_bytes)


Template = Callable[[Fusion, CpuTarget], Kernel]


def phase_function(fusion: Fusion, target: CpuTarget, symbol: str, *, aliased: bool = False) -> Function:
    """A function with the phase signature: in0.., out0.., (sizes,) shared, private, begin, end.

    `aliased`: an output may share memory with an input (in-place), so no pointer promises noalias.
    """
    pointers = [f"in{i}" for i in range(len(fusion.inputs))] + [f"out{i}" for i in range(len(fusion.outputs))]
    pointers += ["sizes"] if fusion.sizes is not None else []
    pointers += ["shared", "private"]
    parameters = [(pointer, PTR) for pointer in pointers] + [("begin", I64), ("end", I64)]
    f = Function(symbol, parameters, target.emitter(), noalias=() if aliased else pointers)
    if fusion.sizes is not None:
        f.sizes = fusion.sizes, f.parameters["sizes"]
    return f
