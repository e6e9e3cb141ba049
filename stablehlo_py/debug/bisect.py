"""Which stage, pass and rule changes an answer, found by leaving them out one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stablehlo_py.compiler import pass_name, stage_passes, toggles
from stablehlo_py.debug.compare import Bounds, Difference, differences, plain_bounds
from stablehlo_py.debug.delta import minimize
from stablehlo_py.debug.engines import INTERPRETED_STAGES, Settings, Source, load_passes
from stablehlo_py.debug.workers import Answer, Workers
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.options import Options

Progress = Callable[[str], None]
OPTIMIZING = frozenset(pass_name(text) for text in stage_passes("optimized", Options()))


@dataclass
class Blame:
    """What a bisection found.

    Attributes:
        differences: how our results differ from the oracle's; empty when they do not (then nothing else is set).
        failure: why we gave no results at all, where that is the defect.
        stages: for each stage that can be evaluated, "right", "wrong" or why it cannot be.
        stage: the first stage whose answer is wrong: "hlo" (legalization), "optimized", or "code" (fusion and kernels).
        passes: the answer is right without these passes, and wrong with any one of them.
        rules: as `passes`, for the rules of those passes that have rules.
    """

    differences: list[Difference] = field(default_factory=list)
    failure: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    stage: str = ""
    passes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether there is a wrong answer at all."""
        return bool(self.differences or self.failure)


@dataclass
class Bisection:
    """A module, inputs, and what its results should be."""

    workers: Workers
    module: Source
    inputs: Sequence[np.ndarray]
    settings: Settings
    expected: Sequence[np.ndarray]
    bounds: Bounds
    progress: Progress = lambda _: None

    def verdict_on(self, answer: Answer) -> tuple[list[Difference], str]:
        """How an answer differs, or why there is none."""
        if not answer.ok:
            return [], f"{answer.status}: {answer.detail}"
        return differences(answer.results, self.expected, self.bounds), ""

    def right_without(self, names: Sequence[str], opt_level: int = 1) -> bool:
        """Whether the answer is right when passes or rules of these names are left out."""
        shown = "" if opt_level else "without optimization"
        self.progress(shown or f"without {', '.join(names) if len(names) < 4 else f'{len(names)} names'}")
        options = replace(self.settings.options, disable=tuple(names), opt_level=opt_level)
        answer = self.workers.run("ours", self.module, self.inputs, replace(self.settings, options=options))
        return self.verdict_on(answer) == ([], "")

    def stage_verdict(self, stage: str) -> str:
        """ "right", "wrong", or why the stage's module cannot be evaluated in NumPy."""
        self.progress(f"stage {stage}")
        answer = self.workers.run(stage, self.module, self.inputs, self.settings)
        if not answer.ok:
            return f"not evaluated ({answer.detail.splitlines()[0]})"
        return "wrong" if differences(answer.results, self.expected, self.bounds) else "right"

    def find(self) -> Blame:
        """Bisect. Every question is one compilation and one run, in a child process."""
        self.progress("as it is")
        blame = Blame()
        blame.differences, blame.failure = self.verdict_on(
            self.workers.run("ours", self.module, self.inputs, self.settings)
        )
        if not blame.found:
            return blame
        blame.stages = {stage: self.stage_verdict(stage) for stage in INTERPRETED_STAGES}
        wrong_stages = [stage for stage, verdict in blame.stages.items() if verdict == "wrong"]
        blame.stage = wrong_stages[0] if wrong_stages else "code"
        known = toggles(self.settings.options.opt_level)
        candidates = [name for name in known if name not in self.settings.options.disable]
        if blame.stage == "hlo" or not candidates or not self.right_without(candidates):
            return blame
        blame.passes = tuple(minimize(candidates, self.right_without))
        if blame.stages["optimized"] not in ("right", "wrong") and OPTIMIZING & set(blame.passes):
            blame.stage = "optimized"
        rules = [rule for name in blame.passes for rule in known[name]]
        if rules and self.right_without([*(name for name in blame.passes if not known[name]), *rules]):
            others = [name for name in blame.passes if not known[name]]
            blame.rules = tuple(minimize(rules, lambda part: self.right_without([*others, *part])))
        return blame


def bisect(
    workers: Workers,
    module: Source,
    inputs: Sequence[np.ndarray],
    oracle: str,
    settings: Settings,
    tolerance: float | None = None,
    progress: Progress = lambda _: None,
) -> Blame:
    """Find what makes our answer differ from the oracle's ("reference", "jax", or "opt0": ours without optimization).

    Raises:
        UnsupportedError: the oracle cannot run the module.
    """
    for file in settings.pass_files:
        load_passes(file)
    progress(f"the answer of {oracle}")
    answer = workers.run(oracle, module, inputs, Settings(settings.entry))
    if not answer.ok:
        raise UnsupportedError(
            f"the oracle {oracle} cannot run the module ({answer.status}): {answer.detail.splitlines()[0]}",
            remedy="choose another with --oracle: reference, jax, or opt0 (this compiler without optimization)",
        )
    bounds = plain_bounds(answer.results, tolerance)
    return Bisection(workers, module, inputs, settings, answer.results, bounds, progress).find()
