"""Results of two engines side by side: where they differ, by how much, and who disagrees with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

Bounds = Sequence[np.ndarray | float]
# |a-b| / max(1, max|b|) of floats that counts as equal where nobody has worked out a bound.
PLAIN_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """Result number `result` differs: how (a sentence without numbers of its own), in how many elements, and where
    most. `left` and `right` are the two values there, "" where shapes or types differ."""

    result: int
    reason: str
    count: int = 0
    size: int = 0
    index: tuple[int, ...] = ()
    left: str = ""
    right: str = ""

    def __str__(self) -> str:
        if not self.left:
            return f"result {self.result}: {self.reason}"
        place = f"[{', '.join(map(str, self.index))}]"
        return (
            f"result {self.result}: {self.reason} in {self.count} of {self.size} elements, "
            f"most at {place}: {self.left} and {self.right}"
        )


def is_exact(dtype: np.dtype) -> bool:
    """Whether values of a type are compared bit for bit: booleans and integers, NumPy's and ml_dtypes'."""
    return dtype.kind in "iub" or "int" in dtype.name


def relative_tolerance(dtype: np.dtype) -> float:
    """The tolerance relative to the largest value, for results of which nothing is known but their type."""
    return 0.0 if is_exact(dtype) else max(PLAIN_TOLERANCE, 4 * float(ml_dtypes.finfo(dtype).eps))


def plain_bounds(expected: Sequence[np.ndarray], tolerance: float | None = None) -> list[float]:
    """A bound on |a-b| for each result: `tolerance` (or its type's) times max(1, largest finite value)."""
    bounds = []
    for array in expected:
        wanted = 0.0 if is_exact(array.dtype) else relative_tolerance(array.dtype) if tolerance is None else tolerance
        bounds.append(wanted * max(1.0, largest(array)))
    return bounds


def widened(array: np.ndarray) -> np.ndarray:
    """The values in double precision; integers stay what they are."""
    if is_exact(array.dtype):
        return array.astype(np.int64) if array.dtype.kind not in "iub" else array
    with np.errstate(invalid="ignore"):  # a signalling NaN is made quiet
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def largest(array: np.ndarray) -> float:
    """The largest finite magnitude, 0 if there is none."""
    if is_exact(array.dtype):
        return float(np.abs(array.astype(np.float64)).max(initial=0.0))
    magnitudes = np.abs(widened(array))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))


def gaps(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """|a-b| by element: 0 for equal values and for two NaNs, infinite where only one is NaN or infinite.

    Complex numbers are compared part by part: the larger gap counts.
    """
    if left.dtype.kind == "c":
        return np.maximum(gaps(left.real, right.real), gaps(left.imag, right.imag))
    if is_exact(left.dtype):
        return np.where(left == right, 0.0, np.abs(widened(left).astype(np.float64) - widened(right)).clip(1.0))
    a, b = widened(left), widened(right)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(gap), np.inf, gap)


def differences(left: Sequence[np.ndarray], right: Sequence[np.ndarray], bounds: Bounds) -> list[Difference]:
    """Every result whose gap exceeds its bound (a number, or an array with one bound per element)."""
    if len(left) != len(right):
        return [Difference(0, f"{len(left)} results where there should be {len(right)}")]
    found = []
    for number, (a, b, bound) in enumerate(zip(left, right, bounds, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            reason = f"{a.dtype}{list(a.shape)} where {b.dtype}{list(b.shape)} is expected"
            found.append(Difference(number, reason))
            continue
        gap = gaps(a, b)
        bad = ~(gap <= bound)
        if bad.any():
            excess = np.where(bad, gap, -1.0)
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), gap.shape))
            reason = "not equal" if is_exact(a.dtype) else f"off by {float(gap[index]):.3g}"
            found.append(Difference(number, reason, int(bad.sum()), bad.size, index, str(a[index]), str(b[index])))
    return found


def difference_of(left: np.ndarray, right: np.ndarray) -> float:
    """max|a-b| / max(1, max|b|); NaN agrees with NaN, an infinity only with itself; inf where shapes differ."""
    if left.shape != right.shape:
        return float("inf")
    return float(gaps(left, right).max(initial=0.0) / max(1.0, largest(right)))


def verdict(pairs: Mapping[tuple[str, str], bool]) -> str:
    """One sentence: who disagrees with whom, from whether each two engines do."""
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    apart = {pair for pair, found in pairs.items() if found}
    if not apart:
        return f"{', '.join(names)}: all agree"
    for name in names:
        with_it = {pair for pair in pairs if name in pair}
        if apart == with_it and len(names) > 2:
            others = " and ".join(other for other in names if other != name)
            both = "both" if len(names) == 3 else "all others"
            return f"{name} disagrees with {both}: {others} agree with each other"
    disagree = ", ".join(f"{a} and {b}" for a, b in sorted(apart))
    agree = ", ".join(f"{a} and {b}" for a, b in pairs if (a, b) not in apart)
    return f"{disagree} disagree" + (f"; {agree} agree" if agree else "")
