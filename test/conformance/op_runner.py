"""Running the per-op cases: our compiler in worker processes, and what says the right results in others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import workers as processes
from op_cases import Row

Job = tuple[int, str, list[np.ndarray]]
Answer = tuple[str, Any]
# The results of every function of a row, or (status, why) where it has none.
Results = dict[str, list[np.ndarray] | tuple[str, str]]


@dataclass(frozen=True)
class Finding:
    """What our compiler does with one function of a row. status: ok, refused, wrong, error, crash, timeout, and
    unchecked where nothing says the right result."""

    row: Row
    function: str
    status: str
    detail: str = ""


# --- the worker processes ---------------------------------------------------------------------------------------------


def task(engine: str) -> Callable[[Job], Answer]:
    """What a worker does with a job: ("results", arrays), or ("refused" or "error", message)."""
    from stablehlo_py.errors import UnsupportedError

    run = {"shlo": _shlo, "reference": _reference, "jax": _jax}[engine]()

    def answer(job: Job) -> Answer:
        _, module, arguments = job
        try:
            return "results", run(module, arguments)
        except UnsupportedError as error:
            return "refused", str(error)
        except Exception as error:  # whatever a compiler under test raises is a result
            return "error", f"{type(error).__name__}: {error}"

    return answer


def _shlo() -> Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]:
    import engines

    return engines.make("shlo")


def _jax() -> Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]:
    os.environ["JAX_PLATFORMS"] = "cpu"
    import engines

    return engines.make("xla")


def _reference() -> Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]:
    import engines

    from stablehlo_py.mlir import ir, make_context, run_upstream

    interpreter = engines.make("reference")

    def run(text: str, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        if "!quant" in text:  # of few quantized ops it knows the meaning
            with make_context(), ir.Location.unknown():
                module = ir.Module.parse(text)
                run_upstream(module, "func.func(stablehlo-legalize-quant-to-math)")
                text = str(module)
        return interpreter(text, arguments)

    return run


# --- the parent -------------------------------------------------------------------------------------------------------


def evaluate(rows: Sequence[Row], engine: str, workers: int, timeout: float) -> list[Results]:
    """The results of every function of every row. A row that fails as a whole is run function by function."""
    found: list[Results] = [{} for _ in rows]
    again: list[tuple[int, Row]] = []
    pieces = list(enumerate(rows))
    for last in (False, True):
        jobs = [(place, row.module, row.arguments) for place, (_, row) in enumerate(pieces)]
        for outcome in processes.run(jobs, processes.Task("op_runner", "task", (engine,)), workers, timeout):
            number, row = pieces[outcome.job[0]]
            status, value = outcome.value if outcome.status == "done" else (outcome.status, outcome.value)
            if status == "results":
                found[number].update(_by_function(row, value))
            elif last or len(row.functions) == 1:
                found[number].update(dict.fromkeys(row.functions, (status, value)))
            else:
                again += [(number, piece) for piece in row.split()]
        pieces = again
    return found


def _by_function(row: Row, results: Sequence[np.ndarray]) -> Results:
    found: Results = {}
    first = 0
    for name, flags in row.part_flags.items():
        count = len(flags)
        found[name] = list(results[first : first + count])
        first += count
    return found


def check(rows: Sequence[Row], workers: int, timeout: float) -> list[Finding]:
    """What our compiler does with every function of the rows."""
    ours = evaluate(rows, "shlo", workers, timeout)
    right: list[Results] = [{} for _ in rows]
    for oracle in ("reference", "jax"):
        open_ = [number for number, row in enumerate(rows) if oracle in row.oracles and _lacks(right[number], row)]
        for number, results in zip(open_, evaluate([rows[n] for n in open_], oracle, workers, timeout), strict=True):
            for name, value in results.items():
                if not isinstance(right[number].get(name), list):
                    right[number][name] = value
    return [
        _finding(row, name, mine[name], theirs.get(name))
        for row, mine, theirs in zip(rows, ours, right, strict=True)
        for name in row.functions
    ]


def _lacks(right: Results, row: Row) -> bool:
    return not all(isinstance(right.get(name), list) for name in row.functions)


def _finding(row: Row, name: str, ours: Any, right: Any) -> Finding:
    if isinstance(ours, tuple):
        return Finding(row, name, *ours)
    if not isinstance(right, list):
        return Finding(row, name, "unchecked", f"no oracle runs it: {right}")
    parts = row.part_flags[name]
    differences = [
        difference
        for number, (mine, theirs) in enumerate(zip(ours, right, strict=True))
        if (difference := difference_of(mine, theirs, row.tolerance, _magnitude(row, right, parts, number)))
    ]
    return Finding(row, name, "wrong", "; ".join(differences)) if differences else Finding(row, name, "ok")


def _magnitude(row: Row, right: list[np.ndarray], parts: list[bool], number: int) -> np.ndarray | None:
    """What errors are relative to: the result itself (None), the modulus of a complex number, the largest element."""
    if row.measure == "largest":
        whole = np.abs(right[number].astype(np.float64))
        return np.full(whole.shape, whole.max(initial=0.0))
    if not parts[number]:
        return None
    first = number - sum(parts[:number]) % 2
    return np.hypot(*(right[place].astype(np.float64) for place in (first, first + 1)))


def difference_of(
    ours: np.ndarray, right: np.ndarray, tolerance: int, magnitude: np.ndarray | None = None
) -> str | None:
    """None where results agree (within `tolerance` units in the last place of `magnitude`), else a sentence."""
    if ours.dtype.kind in "iu" and right.dtype.kind in "iu" and ours.dtype.itemsize == right.dtype.itemsize:
        right = right.view(ours.dtype)  # XLA's random bits are unsigned whatever was asked for
    if ours.shape != right.shape or ours.dtype != right.dtype:
        return f"{ours.dtype}{list(ours.shape)} where {right.dtype}{list(right.shape)} is right"
    if ours.dtype.kind in "biu" or ours.dtype.name.startswith(("int", "uint")):
        same = np.asarray(ours == right)
    else:
        wide, exact = ours.astype(np.float64), right.astype(np.float64)
        info = ml_dtypes.finfo(ours.dtype)
        with np.errstate(invalid="ignore"):
            size = np.abs(exact) if magnitude is None else magnitude
            allowed = tolerance * (float(info.eps) * size + float(info.smallest_subnormal))
            near = np.isfinite(exact) & np.isfinite(wide) & (np.abs(wide - exact) <= allowed)
        same = (wide == exact) | (np.isnan(wide) & np.isnan(exact)) | near
    if same.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{int((~same).sum())} of {same.size} differ; at {list(where)} {ours[where]} where {right[where]} is right"


def worst(findings: Iterable[Finding]) -> str:
    """The status of several functions together."""
    order = ("crash", "timeout", "error", "wrong", "refused", "unchecked", "ok")
    statuses = {finding.status for finding in findings}
    return next(status for status in order if status in statuses)
