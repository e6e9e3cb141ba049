"""How far rounding may move the results of a program on given inputs, and whether that explains a difference.

The one place that answers this for `shlo-run --compare` and `shlo-bisect`, for modules of any size: the program's `hlo`
is run in NumPy with a random error after every operation that rounds (`Disturbed`), a few times, and results are
compared with those of an undisturbed run. Nothing is added to the module, so loops, branches, large constants and
regions are followed like everything else. What NumPy cannot evaluate runs as opt0 instead, with inputs moved by a unit
in the last place.

The fuzzer asks more of small programs (`rounding.py`): a bound for every element, from any engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import ml_dtypes
import numpy as np

from stablehlo_py.debug.compare import Difference, differences, gaps, is_exact, plain_bounds, widened
from stablehlo_py.debug.disturbed import Disturbed
from stablehlo_py.debug.rounding import SAFETY
from stablehlo_py.debug.settings import Noise, Settings, Source
from stablehlo_py.debug.workers import Workers

Array = np.ndarray
Status = Literal["agrees", "within rounding", "cannot tell", "differs"]
# Samples, and the size of their errors: more samples of larger errors before a difference is believed.
TIERS = ((3, 1.0), (6, 8.0))


def moved_inputs(inputs: Sequence[Array], noise: Noise) -> list[Array]:
    """The inputs, floats moved by `noise.scale` units in the last place at random."""
    machine = Disturbed(None, noise)
    return [machine.moved(array, noise.scale) for array in inputs]


# --- what disturbed runs say -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Movement:
    """How far disturbed runs move a result: the largest |a-b| of an element, and the largest mean over the elements of
    one run. `size`: the mean magnitude of the undisturbed result."""

    largest: float = 0.0
    mean: float = 0.0
    size: float = 0.0
    exact: bool = False

    @property
    def unbounded(self) -> bool:
        """Whether rounding alone can make anything of the result: its elements move by about their own size, or lose
        their values altogether."""
        return not math.isfinite(self.largest) or (not self.exact and SAFETY * self.mean >= max(self.size, 1e-30))

    def __str__(self) -> str:
        if not math.isfinite(self.largest):
            return "rounding alone makes this result infinite, or not a number"
        of_size = "" if self.exact else f" (mean {self.mean:.3g}, of values of mean size {self.size:.3g})"
        return f"rounding alone moves this result by {self.largest:.3g}{of_size}"

    def explains(self, left: Array, right: Array) -> bool:
        """Whether results differ no more than disturbed runs do: no element by more than the largest movement, and all
        together by no more than their mean."""
        gap = gaps(left, right)
        digit = 0.0 if self.exact else float(ml_dtypes.finfo(right.dtype).eps) * self.size
        return bool(gap.max(initial=0.0) <= SAFETY * self.largest + digit and gap.mean() <= SAFETY * self.mean + digit)


@dataclass(frozen=True)
class Verdict:
    """What is to be said of result number `result`: how it differs, if its bits differ by more than the plain bounds,
    and by how much rounding alone moves it, where that was found out."""

    result: int
    status: Status
    difference: Difference | None = None
    movement: Movement | None = None

    def __str__(self) -> str:
        if self.difference is None or self.movement is None:
            return str(self.difference or f"result {self.result} agrees")
        return f"{self.difference}; {self.movement}"


# Results with errors, or without for None; None where the program cannot be run in that way.
Sampler = Callable[["Noise | None"], "Sequence[Array] | None"]


@dataclass
class Sensitivity:
    """What rounding does to some results; worked out when first asked for, and kept.

    Attributes:
        samplers: ways to run the program; the first that works is used.
    """

    samplers: Sequence[Sampler]
    progress: Callable[[str], None] = lambda _: None
    _found: dict[int, list[Movement] | None] = field(default_factory=dict)

    def movements(self, tier: int) -> list[Movement] | None:
        """The movement of every result, by the samples of the tiers up to this one. None: nothing can run the
        program."""
        if tier not in self._found:
            self._found[tier] = None
            for sampler in self.samplers:
                found = self._sampled(sampler, tier)
                if found is not None:
                    self.samplers, self._found[tier] = [sampler], found
                    break
        return self._found[tier]

    def _sampled(self, sampler: Sampler, tier: int) -> list[Movement] | None:
        self.progress("what rounding may do")
        exact = sampler(None)
        if exact is None:
            return None
        samples, scale = TIERS[tier]
        found = self._found.get(tier - 1) or [_still(array) for array in exact]
        for number in range(samples):
            self.progress(f"what rounding may do, {number + 1}/{samples}")
            moved = sampler(Noise(100 * tier + number, scale))
            if moved is None:
                return None
            found = [_moved_further(*each) for each in zip(found, moved, exact, strict=True)]
        return found

    def judge(self, left: Sequence[Array], right: Sequence[Array], tolerance: float | None = None) -> list[Verdict]:
        """A verdict on every result of two engines. A tolerance of the caller's own decides alone."""
        found = {each.result: each for each in differences(left, right, plain_bounds(right, tolerance))}
        if len(left) != len(right):
            return [Verdict(0, "differs", found[0])]
        verdicts = [Verdict(n, "differs" if n in found else "agrees", found.get(n)) for n in range(len(right))]
        for tier in range(len(TIERS) if tolerance is None else 0):
            if not any(each.status == "differs" and each.difference and each.difference.left for each in verdicts):
                break
            movements = self.movements(tier)
            if movements is None:
                break
            verdicts = [
                self._reconsidered(
                    tier, verdict, movements[verdict.result], left[verdict.result], right[verdict.result]
                )
                for verdict in verdicts
            ]
        return verdicts

    def _reconsidered(self, tier: int, verdict: Verdict, movement: Movement, left: Array, right: Array) -> Verdict:
        if verdict.status != "differs" or verdict.difference is None or not verdict.difference.left:
            return verdict
        if movement.unbounded:
            # Errors that are larger than those of rounding may take everything with them: that says nothing.
            return replace(verdict, status="cannot tell", movement=movement) if tier == 0 else verdict
        status: Status = "within rounding" if movement.explains(left, right) else "differs"
        return replace(verdict, status=status, movement=movement)


def _still(array: Array) -> Movement:
    values = np.abs(widened(array)).astype(np.float64) if array.dtype.kind != "b" else array.astype(np.float64)
    finite = values[np.isfinite(values)]
    return Movement(size=float(finite.mean()) if finite.size else 0.0, exact=is_exact(array.dtype))


def _moved_further(known: Movement, moved: Array, exact: Array) -> Movement:
    gap = gaps(moved, exact)
    if not gap.size:
        return known
    return replace(known, largest=max(known.largest, float(gap.max())), mean=max(known.mean, float(gap.mean())))


def sensitivity_of_module(
    workers: Workers,
    module: Source,
    inputs: Sequence[Array],
    settings: Settings,
    progress: Callable[[str], None] = lambda _: None,
) -> Sensitivity:
    """What rounding does to the results of a module: its hlo in NumPy says so, or opt0 on inputs that are moved."""
    plain = Settings(settings.entry)

    def in_numpy(noise: Noise | None) -> Sequence[Array] | None:
        answer = workers.run("hlo", module, inputs, replace(plain, noise=noise))
        return answer.results if answer.ok else None

    def moved(noise: Noise | None) -> Sequence[Array] | None:
        given = inputs if noise is None else moved_inputs(inputs, noise)
        answer = workers.run("opt0", module, given, plain)
        return answer.results if answer.ok else None

    return Sensitivity([in_numpy, moved], progress)
