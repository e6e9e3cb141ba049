"""Delta debugging of a module: the smallest one that still shows what is wrong."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stablehlo_py.debug import edits
from stablehlo_py.debug.delta import minimize
from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.engines import ORACLES, static_module
from stablehlo_py.debug.sensitivity import sensitivity_of_module
from stablehlo_py.debug.settings import Settings, Source
from stablehlo_py.debug.workers import Answer, Workers
from stablehlo_py.errors import OptionError, ResourceError, UnsupportedError
from stablehlo_py.files import whole_file

Shows = Callable[[Case], bool]
Progress = Callable[[str], None]


# --- what must be kept -----------------------------------------------------------------------------------------------


@dataclass
class Mismatch:
    """Holds for a case on which our results differ from the oracle's, by more than rounding explains."""

    workers: Workers
    oracle: str
    settings: Settings = field(default_factory=Settings)
    tolerance: float | None = None

    def __call__(self, case: Case) -> bool:
        ours, theirs = self.workers["ours"], self.workers[self.oracle]
        ours.ask(case.module, case.inputs, self.settings)
        theirs.ask(case.module, case.inputs, Settings())
        return self.differ(case, ours.answer(), theirs.answer())

    def differ(self, case: Case, ours: Answer, theirs: Answer) -> bool:
        """Whether both have results, and these differ."""
        if not (ours.ok and theirs.ok):
            return False
        sensitivity = sensitivity_of_module(self.workers, case.module, case.inputs, self.settings)
        return any(each.status == "differs" for each in sensitivity.judge(ours.results, theirs.results, self.tolerance))


@dataclass
class Failure:
    """Holds for a case on which our compiler fails: with a status ("crash", "timeout", "error", "unsupported"), and a
    message that contains `text`."""

    workers: Workers
    status: str | None
    text: str = ""
    settings: Settings = field(default_factory=Settings)

    def __call__(self, case: Case) -> bool:
        answer = self.workers.run("ours", case.module, case.inputs, self.settings)
        return not answer.ok and self.status in (None, answer.status) and self.text in answer.detail


@dataclass
class Script:
    """Holds for a case for which a user's command ends with status 0. The command gets two paths: the module's text,
    and its inputs (.npz, keys input0, input1 ...)."""

    command: str

    def __call__(self, case: Case) -> bool:
        with tempfile.TemporaryDirectory() as directory:
            module, inputs = Path(directory, "module.mlir"), Path(directory, "inputs.npz")
            module.write_text(case.module)
            save_inputs(inputs, case)
            try:
                done = subprocess.run([self.command, module, inputs], capture_output=True, check=False)
            except OSError as error:
                raise ResourceError(
                    f"'{self.command}' cannot be run: {error.strerror}", remedy="give the path of an executable file"
                ) from error
            return done.returncode == 0


def save_inputs(path: Path, case: Case) -> None:
    """Write a case's inputs: keys input0, input1 ..., types that NumPy does not know as their bytes."""
    with whole_file(path) as file:
        np.savez(file, **{f"input{number}": array for number, array in enumerate(case.inputs)})  # type: ignore[arg-type]


def what_is_wrong(
    workers: Workers, case: Case, oracle: str, settings: Settings, tolerance: float | None = None
) -> Mismatch | Failure:
    """What a case shows with our compiler: a failure, or a difference from the oracle.

    Raises:
        OptionError: nothing is wrong. UnsupportedError: the oracle cannot run the module.
    """
    ours = workers.run("ours", case.module, case.inputs, settings)
    if not ours.ok:
        reason = ours.detail.splitlines()[0] if ours.status in ("error", "unsupported") else ""
        return Failure(workers, ours.status, reason.partition("error[")[2].partition("]")[0], settings)
    theirs = workers.run(oracle, case.module, case.inputs)
    if not theirs.ok:
        raise UnsupportedError(
            f"the oracle {oracle} cannot run the module: {theirs.detail.splitlines()[0]}",
            remedy=f"choose another with --oracle: {', '.join(name for name in ORACLES if name != oracle)}",
        )
    mismatch = Mismatch(workers, oracle, settings, tolerance)
    if not mismatch.differ(case, ours, theirs):
        raise OptionError(
            f"there is nothing to reduce: the answer is that of {oracle}, or rounding explains the difference",
            remedy="choose another --oracle, smaller --tolerance, other inputs, or --script",
        )
    return mismatch


# --- the reduction ---------------------------------------------------------------------------------------------------


def case_of(source: Source, inputs: Sequence[np.ndarray], entry: str | None = None) -> Case:
    """The case of a user's module: loaded, its symbolic sizes those of the inputs, calls inlined."""
    return Case(edits.flat(static_module(source, inputs, entry)), tuple(inputs))


SMALL = 100  # ops


@dataclass
class Reduction:
    """Makes a case smaller as long as `shows` holds.

    Attributes:
        shows: what must be kept; it must hold for the case that `run` gets.
        workers, recorder: the engine that gives values of the program in between, which become inputs.
        seconds: after this time the best case so far is returned.
    """

    shows: Shows
    workers: Workers
    recorder: str = "reference"
    seconds: float = 600.0
    progress: Progress = lambda _: None
    questions: int = 0

    def run(self, case: Case) -> Case:
        """The smallest case that was found."""
        self._deadline = time.monotonic() + self.seconds
        if edits.top_level_ops(case) < SMALL:  # in a large module ops go first: every question takes long
            case = self.fewer_results(case)
        while True:
            before = case
            case = self.fewer_ops(case)
            case = self.fewer_results(case)
            case = self.first_that_shows(case, edits.bypasses)
            case = self.smaller_sizes(case)
            if case.module == before.module:
                return self.plainer_inputs(case)

    def ask(self, case: Case | None) -> bool:
        """Whether a smaller case shows it too; never, once time is over."""
        if case is None or time.monotonic() > self._deadline:
            return False
        self.questions += 1
        self.progress(f"{case.ops} ops, {self.questions} tries")
        return self.shows(case)

    def fewer_results(self, case: Case) -> Case:
        """Leave out results."""
        numbers = list(range(edits.result_count(case)))
        kept = minimize(numbers, lambda part: self.ask(edits.keep_results(case, part)))
        return case if len(kept) == len(numbers) else edits.keep_results(case, kept) or case

    def fewer_ops(self, case: Case) -> Case:
        """Cut ops of the main block out; what they gave becomes inputs."""
        values = self.recorded(case)
        numbers = list(range(edits.top_level_ops(case)))
        kept = minimize(numbers, lambda part: self.ask(edits.cut(case, part, values)))
        if len(kept) == len(numbers):
            return case
        return edits.cut(case, kept, values) or case

    def recorded(self, case: Case) -> edits.Values:
        """Values that ops of the main block have; none of those that the recorder cannot give."""
        made, keys = edits.exposed(case)
        for engine in (self.recorder, "opt0"):
            answer = self.workers.run(engine, made.module, made.inputs)
            if answer.ok:
                return dict(zip(keys, answer.results, strict=True))
        return {}

    def first_that_shows(self, case: Case, smaller: Callable[[Case], Iterable[Case]]) -> Case:
        """Go to the first smaller case that shows it, again and again."""
        while True:
            found = next((each for each in smaller(case) if self.ask(each)), None)
            if found is None:
                return case
            case = found

    def smaller_sizes(self, case: Case) -> Case:
        """Shrink dimensions, all of one size together."""
        for old in edits.sizes_of(case):
            for new in dict.fromkeys((1, 2, 3, old // 2)):
                if new < old:
                    made = edits.with_size(case, old, new)
                    if made is not None and self.ask(made):
                        case = made
                        break
        return case

    def plainer_inputs(self, case: Case) -> Case:
        """Ones, zeros or whole numbers as inputs."""
        done: set[int] = set()
        while True:
            step = next(
                (
                    (number, each)
                    for number, each in edits.plainer_inputs(case)
                    if number not in done and self.ask(each)
                ),
                None,
            )
            if step is None:
                return case
            done.add(step[0])
            case = step[1]
