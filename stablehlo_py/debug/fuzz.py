"""One random program after the other, run three ways; whatever cannot be explained by rounding is a finding.

A program's results must be those of the reference interpreter, within what rounding alone may do to this very program
(`rounding.py`). Where they are not, or there are none, JAX is asked: if it gives what we give, the interpreter
disagrees with both, and the finding is about that oracle.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from stablehlo_py.compiler import toggles
from stablehlo_py.debug import rounding
from stablehlo_py.debug.compare import Difference, differences, is_exact
from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.generate import Program, generate
from stablehlo_py.debug.reduce import Reduction
from stablehlo_py.debug.settings import Settings, context
from stablehlo_py.debug.workers import CONTEXT_MODULES, Answer, Workers
from stablehlo_py.targets import DEFAULT_TARGET

# What may become of a program. "same": as the oracle says. The next ones need no explanation: our compiler says that
# it does not support something; no oracle runs the program; one oracle disagrees with the other and with us.
FINE = ("same", "unsupported", "no oracle", "oracle alone")
# Defects until explained.
FINDINGS = ("crash", "error", "difference")


@dataclass(frozen=True)
class Outcome:
    """What became of a program: a word of FINE or FINDINGS, a line about it, and for a finding the reduced module."""

    seed: int
    status: str
    detail: str = ""
    oracle: str = ""
    reduced: str = ""
    disable: tuple[str, ...] = ()

    @property
    def is_finding(self) -> bool:
        """Whether it is a defect until explained."""
        return self.status in FINDINGS


class StandInFailed(Exception):
    """Our compiler failed on a module that was to show what rounding does."""

    def __init__(self, module: str, answer: Answer) -> None:
        super().__init__(answer.detail)
        self.module, self.answer = module, answer


@dataclass
class Fuzzer:
    """Runs programs by their seeds.

    Attributes:
        jax_every: JAX also runs every program whose seed this divides, next to the interpreter; 0: only where needed.
        linalg_every: the target linalg also runs every program whose seed this divides; 0: none.
        reduce_s: seconds spent on reducing a finding; 0: findings stay as they are.
        pass_files, target: as of `Settings`.
        cpu: the CPU of every program, in place of the one that it draws.
    """

    workers: Workers
    jax_every: int = 1
    reduce_s: float = 20.0
    pass_files: tuple[str, ...] = ()
    target: str = "cpu"
    cpu: str | None = None
    linalg_every: int = 0
    _programs: dict[int, Program] = field(default_factory=dict)

    def run(self, seeds: Sequence[int]) -> Iterator[Outcome]:
        """The outcomes of these seeds. The next program is drawn while the engines run the last one."""
        following = generate(seeds[0]) if seeds else None
        for number in range(len(seeds)):
            assert following is not None
            program = following
            self._ask(program, program.case)
            if number % CONTEXT_MODULES == 0:
                context.cache_clear()
            following = generate(seeds[number + 1]) if number + 1 < len(seeds) else None
            yield self._outcome(program)

    def run_one(self, program: Program) -> Outcome:
        """The outcome of a program."""
        self._ask(program, program.case)
        return self._outcome(program)

    def _outcome(self, program: Program) -> Outcome:
        """What becomes of a program whose first case has been asked about; the other cases follow while all is well."""
        outcome = self.judge(program, program.case, self._answers(program))
        for case in program.more:
            if outcome.is_finding:
                break
            self._ask(program, case)
            other = self.judge(program, case, self._answers(program))
            outcome = other if other.is_finding or outcome.status == "same" else outcome
        return outcome

    def oracles(self, program: Program) -> list[str]:
        """Who says what is right."""
        on_grid = program.variant is not None and program.variant.grid is not None
        second = not on_grid and self.jax_every and program.seed % self.jax_every == 0
        third = not on_grid and self.linalg_every and program.seed % self.linalg_every == 0
        return ["reference", *["jax"] * bool(second), *["linalg"] * bool(third)]

    def _ask(self, program: Program, case: Case) -> None:
        self.workers["ours"].ask(case.module, case.inputs, self._settings(program))
        for oracle in self.oracles(program):
            self.workers[oracle].ask(case.module, case.inputs, Settings())

    def _answers(self, program: Program) -> dict[str, Answer]:
        return {engine: self.workers[engine].answer() for engine in ("ours", *self.oracles(program))}

    def _settings(self, program: Program) -> Settings:
        options = replace(program.options, cpu=self.cpu) if self.cpu else program.options
        if self.target != DEFAULT_TARGET:  # programs are drawn with passes of the default target left out
            known = toggles(options.opt_level, self.target)
            names = {*known, *itertools.chain.from_iterable(known.values())}
            options = replace(options, disable=tuple(name for name in options.disable if name in names))
        settings = Settings(None, options, self.pass_files, target=self.target)
        variant = program.variant
        return replace(settings, source=variant.source, grid=variant.grid) if variant else settings

    # --- judging -----------------------------------------------------------------------------------------------------

    def judge(self, program: Program, case: Case, answers: dict[str, Answer]) -> Outcome:
        """What the answers about a case mean; a finding is reduced, but for variants."""
        if answers["ours"].status == "timeout":
            settings = self._settings(program)
            answers["ours"] = self.workers["ours"].run_patiently(case.module, case.inputs, settings)
        try:
            status, detail, oracle = self._status(case, answers)
        except StandInFailed as failure:
            answer = failure.answer
            return Outcome(
                program.seed, answer.status, f"disturbed, at opt_level 0: {answer.detail}", "", failure.module
            )
        reduced = ""
        if status in FINDINGS and self.reduce_s and answers["ours"].status != "timeout":
            reduced = program.variant.source if program.variant else self._reduced(program, status, detail, oracle)
        return Outcome(program.seed, status, detail, oracle, reduced, program.options.disable)

    def _status(self, case: Case, answers: dict[str, Answer]) -> tuple[str, str, str]:
        ours = answers["ours"]
        if not ours.ok:
            status = "crash" if ours.status == "timeout" else ours.status
            return status, ours.detail.replace("\n", " "), ""
        apart: dict[str, list[Difference]] = {}
        for oracle in ("reference", "jax", "linalg"):
            if oracle not in answers:
                # JAX is asked where the interpreter gave no answer, or another one.
                if oracle != "jax" or any(not found for found in apart.values()):
                    continue
                answers[oracle] = self.workers.run("jax", case.module, case.inputs)
            if answers[oracle].ok:
                apart[oracle] = self.beyond_rounding(case, ours.results, answers[oracle].results, oracle)
        if not apart:
            failed = "; ".join(f"{name}: {answer.detail}" for name, answer in answers.items() if name != "ours")
            return "no oracle", failed.replace("\n", " ")[:300], ""
        wrong = [name for name, found in apart.items() if found]
        if not wrong:
            return "same", "", ""
        detail = f"{wrong[0]}: {apart[wrong[0]][0]}"
        return ("difference" if len(wrong) == len(apart) else "oracle alone"), detail, wrong[0]

    def beyond_rounding(
        self, case: Case, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], oracle: str
    ) -> list[Difference]:
        """The differences that rounding does not explain. Bounds are worked out only where bits differ, and again with
        more samples of larger errors before a difference is believed."""
        found = differences(ours, theirs, [0.0] * len(theirs))
        for samples, scale in ((1, 1.0), (4, 1.0), (12, 4.0), (24, 64.0)):
            if not found:
                break
            limits = self.bounds(case, theirs, oracle, samples, scale)
            found = differences(ours, theirs, limits)
        return found

    def bounds(
        self, case: Case, theirs: Sequence[np.ndarray], oracle: str, samples: int, scale: float
    ) -> list[np.ndarray | float]:
        """How far rounding may move each element. What an engine says about this need not be right, so for JAX, which
        takes long to compile and shows nothing of subnormal numbers, the evaluation of hlo in NumPy stands in, or our
        compiler at opt_level 0."""
        exact, engine = theirs, oracle
        for stand_in in ("hlo", "opt0") if oracle == "jax" else ():
            answer = self.workers.run(stand_in, case.module, case.inputs)
            if answer.ok:
                exact, engine = answer.results, stand_in
                break

        def run(module: str, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray] | None:
            answer = self.workers.run(engine, module, inputs)
            if engine == "opt0" and answer.status in ("error", "crash"):  # a disturbed program is one like others
                raise StandInFailed(module, answer)
            return answer.results if answer.ok else None

        limits = rounding.bounds(
            case.module,
            case.inputs,
            exact,
            run,
            samples=samples,
            scale=scale,
            all_ops=oracle == "jax",
            nans=samples > 4,
        )
        if oracle == "jax":  # XLA:CPU takes subnormal numbers for zero
            limits = [limit + _smallest_normal(array) for limit, array in zip(limits, theirs, strict=True)]
        return limits

    # --- reducing ----------------------------------------------------------------------------------------------------

    def _reduced(self, program: Program, status: str, detail: str, oracle: str) -> str:
        wanted = _signature(status, detail)

        def shows(case: Case) -> bool:
            self.workers["ours"].ask(case.module, case.inputs, self._settings(program))
            answers = {"ours": self.workers["ours"].answer()}
            if status == "difference":
                answers["reference"] = self.workers.run("reference", case.module, case.inputs)
            now = self._status(case, answers)
            return _signature(*now[:2]) == wanted

        reduction = Reduction(shows, self.workers, oracle or "reference", self.reduce_s)
        return reduction.run(program.case).module


def _smallest_normal(array: np.ndarray) -> float:
    return 0.0 if is_exact(array.dtype) else float(ml_dtypes.finfo(array.dtype).smallest_normal)


def _signature(status: str, detail: str) -> tuple[str, str]:
    """What must stay the same while a finding is made smaller: for errors the message's first words."""
    return status, " ".join(detail.split()[:2]) if status == "error" else ""
