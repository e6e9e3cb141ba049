"""Which stage, pass, rule or kernel changes an answer: stages are evaluated in NumPy, parts are left out one after the
other, kernels are run by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stablehlo_py.compiler import common_passes, pass_name, switches, toggles
from stablehlo_py.debug.delta import minimize
from stablehlo_py.debug.engines import INTERPRETED_STAGES, ORACLES, load_passes
from stablehlo_py.debug.kernels import APART, WrongKernel, wrong_kernels
from stablehlo_py.debug.sensitivity import Sensitivity, Verdict, sensitivity_of_module
from stablehlo_py.debug.settings import Settings, Source
from stablehlo_py.debug.workers import Answer, Workers
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.options import Options

Progress = Callable[[str], None]
OPTIMIZING = frozenset(pass_name(text) for text in common_passes("optimized", Options()))
# Who is asked when we and the oracle disagree from the first stage on.
OTHER_ORACLE = {"reference": "jax", "jax": "reference", "hlo": "jax"}


@dataclass
class Blame:
    """What a bisection found.

    Attributes:
        oracle: whose answer ours is compared with.
        verdicts: on every result of ours next to the oracle's. Where none differs beyond rounding, nothing else is set.
        failure: why we gave no results at all, where that is the defect.
        stages: for each stage that can be evaluated, and for opt0, "right", "wrong" or why it cannot be told.
        stage: the first stage whose answer is wrong: "hlo" (legalization), "optimized", "fused", or "code" (kernels,
            memory, the program around them).
        oracle_alone: another oracle, which gives our answer: the first one is wrong, then.
        kernels: fusions whose kernels are wrong by themselves.
        ops: the same where every op is a fusion of its own.
        passes: the answer is right without these passes, and wrong with any one of them.
        rules: as `passes`, for the rules of those passes that have rules.
        parts: the same for parts of passes that are required: their names, and the passes'.
    """

    oracle: str
    verdicts: list[Verdict] = field(default_factory=list)
    failure: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    stage: str = ""
    oracle_alone: str = ""
    kernels: list[WrongKernel] = field(default_factory=list)
    ops: list[WrongKernel] = field(default_factory=list)
    passes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def disable(self) -> tuple[str, ...]:
        """The option that makes the answer right."""
        return (*(self.rules or self.passes), *(part for part, _ in self.parts))

    @property
    def found(self) -> bool:
        """Whether there is a wrong answer at all."""
        return bool(self.failure) or any(each.status == "differs" for each in self.verdicts)


@dataclass
class Bisection:
    """A module, inputs, and what its results should be."""

    workers: Workers
    module: Source
    inputs: Sequence[np.ndarray]
    settings: Settings
    oracle: str
    expected: Sequence[np.ndarray]
    tolerance: float | None
    sensitivity: Sensitivity
    progress: Progress = lambda _: None

    def differs(self, results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
        """Whether results differ beyond rounding."""
        return any(each.status == "differs" for each in self.sensitivity.judge(results, expected, self.tolerance))

    def right_without(self, names: Sequence[str]) -> bool:
        """Whether the answer is right when passes or rules of these names are left out."""
        self.progress(f"without {', '.join(names) if len(names) < 4 else f'{len(names)} names'}")
        options = replace(self.settings.options, disable=(*self.settings.options.disable, *names))
        answer = self.workers.run("ours", self.module, self.inputs, replace(self.settings, options=options))
        return answer.ok and not self.differs(answer.results, self.expected)

    def verdict_of(self, stage: str) -> tuple[str, Answer]:
        """ "right", "wrong", or why the module cannot be evaluated at a stage in NumPy."""
        self.progress(f"stage {stage}")
        answer = self.workers.run(stage, self.module, self.inputs, self.settings)
        if not answer.ok:
            return f"not evaluated ({answer.detail.splitlines()[0]})", answer
        return ("wrong" if self.differs(answer.results, self.expected) else "right"), answer

    def find(self) -> Blame:
        """Bisect. Every question is one compilation and one run, in a child process."""
        self.progress("as it is")
        blame = Blame(self.oracle)
        ours = self.workers.run("ours", self.module, self.inputs, self.settings)
        if ours.ok:
            blame.verdicts = self.sensitivity.judge(ours.results, self.expected, self.tolerance)
        else:
            blame.failure = f"{ours.status}: {ours.detail}"
        if not blame.found:
            return blame
        if self.settings.options.opt_level and self.oracle != "opt0":
            blame.stages["opt0"] = self._without_optimization()
        blame.stages["hlo"], legalized = self.verdict_of("hlo")
        if blame.stages["hlo"] == "wrong":
            blame.stage = "hlo"
            blame.oracle_alone = self._second_opinion(legalized.results)
            return blame
        blame.stages |= {stage: self.verdict_of(stage)[0] for stage in INTERPRETED_STAGES[1:]}
        wrong = [stage for stage in INTERPRETED_STAGES if blame.stages[stage] == "wrong"]
        blame.stage = wrong[0] if wrong else "code"
        if blame.stage == "code" and blame.stages["fused"] == "right":
            self._find_kernels(blame)
        if not blame.kernels:
            self._find_passes(blame)
        return blame

    def _without_optimization(self) -> str:
        self.progress("opt0")
        options = replace(self.settings.options, opt_level=0)
        answer = self.workers.run("ours", self.module, self.inputs, replace(self.settings, options=options))
        if not answer.ok:
            return f"{answer.status} ({answer.detail.splitlines()[0]})"
        return "wrong" if self.differs(answer.results, self.expected) else "right"

    def _second_opinion(self, legalized: Sequence[np.ndarray]) -> str:
        """An oracle that agrees with the meaning that we gave the program, "" where none does."""
        other = OTHER_ORACLE.get(self.oracle, "")
        if not other:
            return ""
        self.progress(other)
        answer = self.workers.run(other, self.module, self.inputs, Settings(self.settings.entry))
        return other if answer.ok and not self.differs(answer.results, legalized) else ""

    def _find_kernels(self, blame: Blame) -> None:
        """Kernels that are wrong by themselves, and the ops in them that are."""
        find = (self.workers, self.module, self.inputs)
        blame.kernels = wrong_kernels(*find, self.settings, self.progress)
        ops = {op for each in blame.kernels for op in each.ops}
        if not ops:
            return
        options = self.settings.options
        apart = replace(self.settings, options=replace(options, disable=(*options.disable, *APART)))
        blame.ops = wrong_kernels(*find, apart, self.progress, ops)

    def _find_passes(self, blame: Blame) -> None:
        """The smallest set of passes, rules and parts of passes whose absence makes the answer right."""
        known, owners = toggles(self.settings.options.opt_level, self.settings.target), switches(self.settings.target)
        parts = [part for names in owners.values() for part in names]
        candidates = [name for name in (*known, *parts) if name not in self.settings.options.disable]
        if not self.right_without(candidates):
            return
        left = minimize(candidates, self.right_without)
        passes = [name for name in left if name in known]
        others = [name for name in left if name not in known]
        if blame.stages["optimized"] not in ("right", "wrong") and OPTIMIZING & set(passes):
            blame.stage = "optimized"
        fixed = [*others, *(name for name in passes if not known[name])]
        blame.passes = tuple(passes)
        blame.parts = tuple((name, owner) for owner, names in owners.items() for name in names if name in others)
        rules = [rule for name in passes for rule in known[name]]
        if rules and self.right_without([*fixed, *rules]):
            blame.rules = tuple(minimize(rules, lambda part: self.right_without([*fixed, *part])))


def bisect(
    workers: Workers,
    module: Source,
    inputs: Sequence[np.ndarray],
    oracles: Sequence[str],
    settings: Settings,
    tolerance: float | None = None,
    progress: Progress = lambda _: None,
) -> Blame:
    """Find what makes our answer differ from that of the first oracle that has one ("reference", "jax", "hlo" in NumPy,
    or "opt0": ours without optimization).

    Raises:
        UnsupportedError: no oracle can run the module.
    """
    for file in settings.pass_files:
        load_passes(file)
    failures = []
    for oracle in oracles:
        progress(f"the answer of {oracle}")
        answer = workers.run(oracle, module, inputs, Settings(settings.entry))
        if answer.ok:
            break
        failures.append(f"the oracle {oracle} cannot run the module ({answer.status}): {answer.detail.splitlines()[0]}")
    else:
        others = ", ".join(name for name in ORACLES if name not in oracles)
        raise UnsupportedError("; ".join(failures), remedy=f"choose another with --oracle: {others}")
    sensitivity = sensitivity_of_module(workers, module, inputs, settings, progress)
    return Bisection(workers, module, inputs, settings, oracle, answer.results, tolerance, sensitivity, progress).find()
