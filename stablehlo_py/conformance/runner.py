"""Running the per-op cases: our compiler and the oracles in worker processes, and the comparison of their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

from stablehlo_py.conformance.cases import CLASS_OF, Row
from stablehlo_py.conformance.oracles import ORACLES, Job, of_target, on_integers, task
from stablehlo_py.conformance.workers import Pool, Task
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.targets import DEFAULT_TARGET

# The results of every function of a row (of one process after the other), or (status, why) where it has none.
Results = dict[str, list[np.ndarray] | tuple[str, str]]
Prepared = tuple[str, list[list[np.ndarray]]]  # module, arguments


@dataclass(frozen=True)
class Finding:
    """What our compiler does with one function of a row. status: ok, refused, wrong, error, crash, timeout, and
    unchecked where nothing says the right result, memory where it takes too much."""

    row: Row
    function: str
    status: str
    detail: str = ""


# --- results ----------------------------------------------------------------------------------------------------------


def _as_it_is(row: Row) -> Prepared:
    return row.module, row.arguments


def _widened(row: Row) -> Prepared:
    """The functions on the wide type, and the same arguments."""
    wide = row.of_type(_wide_type(row.type))
    return wide.module, [
        [array.astype(dtype) for array, dtype in zip(arguments, wide.dtypes, strict=True)]
        for arguments in row.arguments
    ]


def _wide_type(type_: str) -> str:
    """f64, complex<f64>, i32 or ui32; nothing for types that are as wide."""
    if type_.startswith("complex"):
        return "complex<f64>" if type_ != "complex<f64>" else ""
    if CLASS_OF[type_] in ("small-int", "small-uint"):
        return "ui32" if type_.startswith("u") else "i32"
    return "f64" if type_.startswith(("f", "bf")) and type_ != "f64" else ""


def evaluate(
    rows: Sequence[Row], engine: str, pool: Pool, prepare: Callable[[Row], Prepared] = _as_it_is
) -> list[Results]:
    """The results of every function of every row. A row that fails as a whole is run function by function; collectives
    at once, because the reference interpreter confuses those that follow each other."""
    found: list[Results] = [{} for _ in rows]
    again: list[tuple[int, Row]] = []
    pieces = [
        (number, piece)
        for number, row in enumerate(rows)
        for piece in (row.split() if row.section.replicas > 1 else [row])
    ]
    for last in (False, True):
        jobs = [Job(place, *prepare(row)) for place, (_, row) in enumerate(pieces)]
        for outcome in pool.run(jobs, Task(ORACLES, "task", (engine,))):
            number, row = pieces[outcome.job.number]
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
    """Take results apart: those of all functions, in all processes."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in row.functions}
    rest = iter(results)
    for _ in range(row.section.replicas):
        for name, flags in row.part_flags.items():
            found[name] += [next(rest) for _ in flags]
    return {**found}


def check(rows: Sequence[Row], workers: int, timeout: float, target: str = DEFAULT_TARGET) -> list[Finding]:
    """What our compiler, for a target, does with every function of the rows, in worker processes of its own."""
    with Pool(workers, timeout) as pool:
        return check_in(pool, rows, target)


def check_in(pool: Pool, rows: Sequence[Row], target: str) -> list[Finding]:
    """What our compiler, for a target, does with every function of the rows. Oracles are asked for what it runs."""
    ours = evaluate(rows, of_target(target), pool)
    right: list[Results] = [{} for _ in rows]
    longest = max((len(row.oracles) for row in rows), default=0)
    for place in range(longest):
        for oracle in dict.fromkeys(row.oracles[place] for row in rows if len(row.oracles) > place):
            asked = [
                number
                for number, row in enumerate(rows)
                if row.oracles[place : place + 1] == (oracle,) and _lacks(right[number], ours[number])
            ]
            answers = _ask(oracle, [rows[n] for n in asked], [ours[n] for n in asked], pool)
            for number, results in zip(asked, answers, strict=True):
                for name, value in results.items():
                    if not isinstance(right[number].get(name), list):
                        right[number][name] = value
    return [
        _finding(row, name, mine[name], theirs.get(name))
        for row, mine, theirs in zip(rows, ours, right, strict=True)
        for name in row.functions
    ]


def check_here(row: Row, target: str) -> list[Finding]:
    """What our compiler, for a target, does with every function of a row, in this process, against the dialect's own
    evaluation."""
    job = Job(0, row.module, row.arguments)
    status, mine = task(of_target(target))(job)
    if status != "results":
        if len(row.functions) > 1:
            return [finding for piece in row.split() for finding in check_here(piece, target)]
        return [Finding(row, name, status, mine) for name in row.functions]
    known, right = task("evaluate")(job)
    if known != "results":
        return [Finding(row, name, "unchecked", right) for name in row.functions]
    ours, theirs = _by_function(row, mine), _by_function(row, right)
    return [_finding(row, name, ours[name], theirs[name]) for name in row.functions]


def _ask(oracle: str, rows: Sequence[Row], ours: Sequence[Results], pool: Pool) -> list[Results]:
    """What an oracle says; of `wide` results those that fit ours."""
    if oracle == "arguments":
        return [
            {piece: [a for each in one.arguments for a in each] for one in row.split() for piece in one.functions}
            for row in rows
        ]
    if oracle == "true":
        return [{name: [np.ones_like(a) for a in found] for name, found in _had(mine)} for mine in ours]
    if oracle == "exact":
        return [_exact(row) if row.type == "f64" else {} for row in rows]
    if oracle == "integers":
        first, second = (
            _evaluate_if_there(rows, engine, pool, lambda row: (on_integers(row.module), row.arguments))
            for engine in ("reference", "jax")
        )
        return [late | dict(_had(early)) for early, late in zip(first, second, strict=True)]
    if oracle != "wide":
        return _evaluate_if_there(rows, oracle, pool)
    found: list[Results] = [{} for _ in rows]
    for place, engine in itertools.product(range(2), ("jax", "reference")):
        asked = [
            n for n, row in enumerate(rows) if _widest(row)[place : place + 1] == [engine] and _lacks(found[n], ours[n])
        ]
        answers = _evaluate_if_there([rows[n] for n in asked], engine, pool, _widened)
        for number, results in zip(asked, answers, strict=True):
            for name, mine in _had(ours[number]):
                value = results.get(name)
                if isinstance(value, list) and not isinstance(found[number].get(name), list):
                    found[number][name] = [_rounded(a, m.dtype) for a, m in zip(value, mine, strict=True)]
    return found


def _evaluate_if_there(
    rows: Sequence[Row], engine: str, pool: Pool, prepare: Callable[[Row], Prepared] = _as_it_is
) -> list[Results]:
    """As `evaluate`; nothing from JAX where it is not installed."""
    return [{} for _ in rows] if engine == "jax" and find_spec("jax") is None else evaluate(rows, engine, pool, prepare)


def _widest(row: Row) -> list[str]:
    """What runs a row on a wider type: the section's choice first, and of several processes the interpreter only."""
    if not _wide_type(row.type):
        return []
    if row.section.replicas > 1:
        return ["reference"]
    return sorted(("jax", "reference"), key=(*row.section.oracles, "jax", "reference").index)


def _exact(row: Row) -> Results:
    """Each function's results are the op's, elementwise. Nothing where the packages of shlo-accuracy are not there."""
    try:
        from stablehlo_py.accuracy.functions import FUNCTIONS
        from stablehlo_py.accuracy.measure import right_values
    except ModuleNotFoundError:
        return {}
    reference = FUNCTIONS.get(row.op.partition(".")[2])
    if reference is None:
        return {}
    return {
        name: [right_values(reference, arguments).astype(np.float64) for arguments in one.arguments]
        for one in row.split()
        for name in one.functions
    }


def _had(results: Results) -> Iterable[tuple[str, list[np.ndarray]]]:
    return [(name, value) for name, value in results.items() if isinstance(value, list)]


def _rounded(wide: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if wide.dtype.kind in "iu":
        return wide.astype(dtype)  # modulo its width
    with np.errstate(over="ignore", invalid="ignore"):
        return cast(wide, dtype) if wide.dtype == np.float64 and dtype != np.float64 else wide


def _lacks(right: Results, ours: Results) -> bool:
    """Whether there is a function with results, and no right ones."""
    return not all(isinstance(right.get(name), list) for name, _ in _had(ours))


# --- comparison -------------------------------------------------------------------------------------------------------


def _finding(row: Row, name: str, ours: Any, right: Any) -> Finding:
    if isinstance(ours, tuple):
        return Finding(row, name, *ours)
    if not isinstance(right, list):
        return Finding(row, name, "unchecked", f"no oracle runs it: {right}")
    parts = row.part_flags[name] * row.section.replicas
    differences = [
        difference
        for number, (mine, theirs) in enumerate(zip(ours, right, strict=True))
        if (difference := difference_of(mine, theirs, row.tolerance, _magnitude(row, right, parts, number)))
    ]
    return Finding(row, name, "wrong", "; ".join(differences)) if differences else Finding(row, name, "ok")


def _magnitude(row: Row, right: list[np.ndarray], parts: list[bool], number: int) -> np.ndarray | None:
    """What errors are relative to: the result itself (None), the modulus of a complex number, the largest element."""
    if row.section.measure == "largest":
        whole = np.abs(right[number].astype(np.float64))
        return np.full(whole.shape, whole.max(initial=0.0, where=np.isfinite(whole)))
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
        info = ml_dtypes.finfo(ours.dtype)
        with np.errstate(invalid="ignore"):
            kind = np.complex128 if ours.dtype.kind == "c" else np.float64
            wide, exact = ours.astype(kind), right.astype(kind)
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
    order = ("crash", "timeout", "memory", "error", "wrong", "refused", "unchecked", "ok")
    statuses = {finding.status for finding in findings}
    return next(status for status in order if status in statuses)
