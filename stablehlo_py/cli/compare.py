"""`shlo-run --compare`: our results next to those of the oracles, and who disagrees with whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.cli.common import status_line
from stablehlo_py.debug.compare import difference_of, is_exact, verdict
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, UnsupportedError

if TYPE_CHECKING:
    from stablehlo_py.debug.sensitivity import Verdict
    from stablehlo_py.debug.workers import Workers

AUTO = "auto"
Results = Sequence[np.ndarray]


def compare(
    oracles: Sequence[str],
    source: str | bytes,
    entry: str | None,
    inputs: Sequence[np.ndarray],
    results: Results,
    tolerance: float | None,
) -> int:
    """Print how `results` compare with each oracle's, and with several oracles, whom they leave alone. Returns the exit
    status: oracles that differ among themselves are reported, but it is our difference that counts. One that rounding
    explains, or of a result of which rounding leaves nothing, does not.

    Args:
        oracles: names, or AUTO alone for those that suit the module.

    Raises:
        OptionError: there is no such oracle. UnsupportedError: none of them can run the module.
    """
    from stablehlo_py.debug.oracles import PATIENCE_S, choose
    from stablehlo_py.debug.sensitivity import sensitivity_of_module
    from stablehlo_py.debug.settings import Settings
    from stablehlo_py.debug.workers import Workers

    with status_line("comparing") as show, Workers() as workers:
        if list(oracles) == [AUTO]:
            choice = choose(source, inputs, entry)
            oracles = choice.names
            workers["reference"].timeout_s = 3 * PATIENCE_S  # others can be asked
            if choice.note:
                print(choice.note)
        expected, failures = ask_oracles(workers, oracles, source, entry, inputs, show)
        sensitivity = sensitivity_of_module(workers, source, inputs, Settings(entry), show)
        answers = {"ours": results, **expected}
        pairs = {
            (a, b): sensitivity.judge(answers[a], answers[b], tolerance) for a, b in combinations(answers, 2)
        }  # fmt: skip
    status = EXIT_OK
    for oracle in oracles:
        if oracle in failures:
            print(f"{oracle} cannot run the module: {failures[oracle]}")
        else:
            _print_comparison(oracle, results, expected[oracle], pairs["ours", oracle])
            status = EXIT_MISMATCH if _differ(pairs["ours", oracle]) else status
    _print_not_finite(results)
    if len(expected) > 1:
        for (left, right), verdicts in pairs.items():
            if left != "ours":
                for each in verdicts:
                    if each.status == "differs":
                        print(f"{left} and {right}: {each}")
        print(verdict({pair: _differ(verdicts) for pair, verdicts in pairs.items()}))
    return status


def _differ(verdicts: Sequence[Verdict]) -> bool:
    return any(each.status == "differs" for each in verdicts)


def ask_oracles(
    workers: Workers,
    oracles: Sequence[str],
    source: str | bytes,
    entry: str | None,
    inputs: Sequence[np.ndarray],
    show: Callable[[str], None],
) -> tuple[dict[str, Results], dict[str, str]]:
    """Results by oracle, and for those that failed, why. Raises as `compare`."""
    from stablehlo_py.debug.engines import ORACLES, require_oracle
    from stablehlo_py.debug.oracles import PATIENCE_S, duration, reference_seconds
    from stablehlo_py.debug.settings import Settings

    for oracle in oracles:
        require_oracle(oracle)
    expected: dict[str, Results] = {}
    failures: dict[str, str] = {}
    for oracle in oracles:
        show(oracle)
        worker = workers[oracle]
        if oracle == "reference":
            seconds = reference_seconds(source, inputs, entry)
            show(f"{oracle}, which takes {duration(seconds)} or more")
            if seconds > PATIENCE_S:
                worker.timeout_s = max(worker.timeout_s, 5 * seconds)  # the machine may be busy, and it was asked for
                print(
                    f"{oracle} takes {duration(seconds)} or more; --compare without names asks faster ones", flush=True
                )
        answer = worker.run(source, inputs, Settings(entry))
        if answer.ok:
            expected[oracle] = answer.results
        else:
            failures[oracle] = answer.detail.splitlines()[0]
    if not expected:
        reasons = "; ".join(failures.values())
        others = [name for name in ORACLES if name not in oracles]
        raise UnsupportedError(
            f"no oracle can run the module ({', '.join(oracles)}): {reasons}",
            remedy=f"compare with {' or '.join(others)}" if others else None,
        )
    return expected, failures


def _print_comparison(oracle: str, ours: Results, theirs: Results, verdicts: Sequence[Verdict]) -> None:
    """A line per result, and where it differs."""
    if len(ours) != len(theirs):
        print(f"DIFFERS: {len(ours)} results, {oracle} has {len(theirs)}")
        return
    words = {"differs": "DIFFERS", "cannot tell": "ill-conditioned: cannot tell"}
    for number, (each, a, b) in enumerate(zip(verdicts, ours, theirs, strict=True)):
        head = f"result {number} against {oracle}: {words.get(each.status, each.status)}"
        if each.difference is not None and not each.difference.left:
            print(f"{head}, {each.difference.reason}")
            continue
        print(head if is_exact(a.dtype) else f"{head}, |a-b| / max(1, max|b|) = {difference_of(a, b):.3g}")
        if each.difference is not None:
            place = f"[{', '.join(map(str, each.difference.index))}]"
            print(f"  in {each.difference.count} of {each.difference.size} elements, most at {place}: ", end="")
            print(f"{each.difference.left} where {oracle} has {each.difference.right}")
        if each.movement is not None:
            print(f"  {each.movement}")


def _print_not_finite(results: Results) -> None:
    """Say where there is little to compare."""
    for number, result in enumerate(results):
        if is_exact(result.dtype):
            continue
        count = int((~np.isfinite(result.astype(np.complex128))).sum())
        if count:
            print(f"note: result {number} is infinite or not a number in {count} of {result.size} elements")
