"""`shlo-run --compare`: our results next to those of the oracles, and who stands alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.debug.compare import difference_of, differences, is_exact, pairs_that_differ, plain_bounds, verdict
from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, UnsupportedError


def compare(
    oracles: Sequence[str],
    source: str | bytes,
    entry: str | None,
    inputs: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    tolerance: float | None,
) -> int:
    """Print how `results` compare with each oracle's, and with several oracles, whom they leave alone. Returns the exit
    status: oracles that differ among themselves are reported, but it is our difference that counts.

    Raises:
        OptionError: there is no such oracle. UnsupportedError: none of them can run the module.
    """
    expected, failures = ask_oracles(oracles, source, entry, inputs)
    status = EXIT_OK
    for oracle in oracles:
        if oracle in failures:
            print(f"{oracle} cannot run the module: {failures[oracle]}")
        elif _print_comparison(oracle, results, expected[oracle], tolerance):
            status = EXIT_MISMATCH
    if len(expected) > 1:
        pairs = pairs_that_differ({"ours": results, **expected}, tolerance)
        for (left, right), found in pairs.items():
            if left != "ours":
                for difference in found:
                    print(f"{left} and {right}: {difference}")
        print(verdict(pairs))
    return status


def ask_oracles(
    oracles: Sequence[str], source: str | bytes, entry: str | None, inputs: Sequence[np.ndarray]
) -> tuple[dict[str, Sequence[np.ndarray]], dict[str, str]]:
    """Results by oracle, and for those that failed, why. Raises as `compare`."""
    from stablehlo_py.debug.engines import ORACLES, Settings, require_oracle
    from stablehlo_py.debug.workers import Workers

    for oracle in oracles:
        require_oracle(oracle)
    expected: dict[str, Sequence[np.ndarray]] = {}
    failures: dict[str, str] = {}
    with Workers() as workers:
        for oracle in oracles:
            answer = workers.run(oracle, source, inputs, Settings(entry))
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


def _print_comparison(
    oracle: str, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], tolerance: float | None
) -> bool:
    """A line per result, and where it differs; returns whether one does."""
    if len(ours) != len(theirs):
        print(f"DIFFERS: {len(ours)} results, {oracle} has {len(theirs)}")
        return True
    found = {each.result: each for each in differences(ours, theirs, plain_bounds(theirs, tolerance))}
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        head = f"result {number} against {oracle}: {'DIFFERS' if number in found else 'agrees'}"
        difference = found.get(number)
        if difference is not None and not difference.left:
            print(f"{head}, {difference.reason}")
            continue
        print(head if is_exact(a.dtype) else f"{head}, |a-b| / max(1, max|b|) = {difference_of(a, b):.3g}")
        if difference is not None:
            place = f"[{', '.join(map(str, difference.index))}]"
            print(f"  in {difference.count} of {difference.size} elements, most at {place}: ", end="")
            print(f"{difference.left} where {oracle} has {difference.right}")
    return bool(found)
