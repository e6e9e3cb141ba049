"""The autotuner: where a template has a choice, the device at hand says which kernel is the fastest.

Every candidate of a fusion is run by itself (trial.py) and timed; the best of them are timed again, in turns, so that
what slows the machine down for a while slows all of them. One takes the place of the template's own choice only if it
is faster by more than times vary. What was found is kept in the cache, and stands in the program (plans.py).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import perf_counter

import numpy as np

from stablehlo_py import progress
from stablehlo_py.backends.common.description import is_grid
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.common.sizes import size_table
from stablehlo_py.backends.gpu.kernels import candidates
from stablehlo_py.backends.gpu.plans import KernelPlan, Plans, digest, name_of
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.backends.gpu.trial import Bench, Machine, Trial, agree
from stablehlo_py.errors import AutotuneWarning, OptionError, ShloError, UnsupportedError, shown
from stablehlo_py.interrupts import checkpoint
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.cache import CacheEntry, key_of
from stablehlo_py.runtime.records import from_json, to_json

LIMIT_S = 120.0  # of one program
MOST_CANDIDATES = 24  # of one kernel, those first that its template expects most of
FINALISTS, ROUNDS = 4, 8  # candidates that are timed again; how often
FIRST_RUNS = 3  # of which the shortest says who is
GAIN = 0.03  # of the time of the template's own choice
RUN_S, MOST_REPEATS = 2e-3, 32  # of one run; starts of a kernel in it


def tuned(module: ir.Module, machine: Machine, given: Plans | None) -> Plans:
    """The plans of a scheduled module's kernels, those that are `given` among them. Raises OptionError: these are of
    another device."""
    device, target = machine.device, machine.target
    if given is not None and given.device not in ("", device):
        raise OptionError(
            f"the plans are of kernels that were timed on {shown(given.device)}, and this device is {shown(device)}",
            remedy="leave out autotune to take them all the same, or the plans to time anew",
        )
    found = {each.fusion: each for each in (given.kernels if given else ())}
    is_refused = is_grid(module) or size_table(module) is not None  # says who compiles it
    ends, functions = perf_counter() + LIMIT_S, [] if is_refused else fusions(module)
    for number, function in enumerate(functions):
        checkpoint()
        progress.at("autotuning", number, len(functions))
        plans, fusion = _plans(function, target), digest(function)
        if len(plans) < 2 or fusion in found:
            continue
        kept = _Kept(fusion, machine)
        plan = kept.read(plans)
        if plan is None:
            plan = _Search(Bench(function, machine), ends).fastest(plans)
            if plan is None:
                continue
            kept.write(plan)
        found[fusion] = KernelPlan(name_of(function), fusion, plan)
    return Plans(target.name, device, tuple(found.values()))


def _plans(function: ir.OpView, target: GpuTarget) -> list[str]:
    """Those that a fusion's kernel may have, the template's own choice first."""
    return [candidate.plan for candidate in islice(candidates(function, target), MOST_CANDIDATES)]


class _Kept:
    """The plan of a fusion's kernel in the cache, where options name one."""

    def __init__(self, fusion: str, machine: Machine) -> None:
        self._fusion, directory = fusion, machine.options.cache_directory
        self._entry = CacheEntry(directory, key_of("plan", fusion, machine.key)) if directory else None

    def read(self, plans: Sequence[str]) -> str | None:
        """The one of `plans` that is kept; None: there is none."""
        content = self._entry.read() if self._entry else None
        if self._entry is None or content is None:
            return None
        try:
            kept = from_json(KernelPlan, json.loads(content))
            if kept.fusion != self._fusion or kept.plan not in plans:
                raise ValueError("it is of another kernel")
        except ValueError as error:
            self._entry.refuse(f"{self._entry.path} holds no plan: {error}")
            return None
        assert isinstance(kept, KernelPlan)
        return kept.plan

    def write(self, plan: str) -> None:
        """Keep it."""
        if self._entry is not None:
            self._entry.write(json.dumps(to_json(KernelPlan("", self._fusion, plan))).encode())


class _Search:
    """The search for the fastest kernel of a fusion, which ends at a time."""

    def __init__(self, bench: Bench, ends: float) -> None:
        self._bench, self._ends = bench, ends
        self._wanted: list[np.ndarray] | None = None  # what the first kernel computed

    def fastest(self, plans: Sequence[str]) -> str | None:
        """The plan of it: the first one, where no other is clearly faster. None: time is up, or the first kernel does
        not run."""
        own = plans[0]
        once = self._measured(own, 1)
        if once is None:
            return None
        repeats = max(1, min(MOST_REPEATS, int(RUN_S / max(once[0], 1e-9))))
        found: list[tuple[float, Trial]] = []
        for plan in plans:
            checkpoint()
            if perf_counter() > self._ends:
                return None
            measured = self._measured(plan, repeats)
            if measured is not None:
                ordered = sorted([*found, measured], key=lambda each: each[0])
                found = [each for place, each in enumerate(ordered) if place < FINALISTS or each[1].plan == own]
        return self._final([trial for _, trial in found], own)

    def _measured(self, plan: str, repeats: int) -> tuple[float, Trial] | None:
        """A kernel on the device, and its time at first sight; None: it is none to choose."""
        with self._reporting(plan):
            trial = Trial(self._bench, plan, repeats)
            results = trial.results()
            if self._wanted is None:
                self._wanted = results
            if agree(results, self._wanted):
                return min(trial.seconds(perf_counter) for _ in range(FIRST_RUNS)), trial
            self._warn(plan, "its results are not those of the first plan, which is a defect of this compiler")
        return None

    def _final(self, trials: list[Trial], own: str) -> str | None:
        """The plan of the fastest of some, which are timed in turns."""
        times = {trial.plan: list[float]() for trial in trials}
        for _ in range(ROUNDS):
            for trial in trials:
                if trial.plan in times:
                    with self._reporting(trial.plan):
                        times[trial.plan].append(trial.seconds(perf_counter))
                        continue
                    del times[trial.plan]
        shortest = {plan: min(found) for plan, found in times.items()}
        if own not in shortest:
            return None
        fastest = min(shortest, key=lambda plan: shortest[plan])
        return fastest if shortest[fastest] < (1 - GAIN) * shortest[own] else own

    @contextmanager
    def _reporting(self, plan: str) -> Iterator[None]:
        """Errors inside mean that this plan is not taken."""
        try:
            yield
        except UnsupportedError:
            pass
        except ShloError as error:
            self._bench.forget()
            self._warn(plan, error.reason)

    def _warn(self, plan: str, reason: str) -> None:
        name = name_of(self._bench.function)
        warnings.warn(f"the kernel '{name}' by the plan '{plan}' is left out: {reason}", AutotuneWarning, stacklevel=2)
