"""Random arrays for an argument whose role in its program is known (inputs.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Role:
    """How an argument is drawn: `kind` names a row of the table in inputs.py; `number` is the deviation of floats, or
    how many indices there are."""

    kind: str = "plain"
    number: float = 1.0


def random_array(
    generator: np.random.Generator, dtype: np.dtype, sizes: Sequence[int], role: Role = Role()
) -> np.ndarray:
    """An array of one argument."""
    if dtype.kind == "b":
        return np.asarray(generator.integers(0, 2, sizes)).astype(dtype)
    if dtype.kind in "iu" or "int" in dtype.name:
        limit = int(role.number) if role.kind == "index" else 2 if dtype.name.endswith("int2") else 5
        return np.asarray(generator.integers(0, max(1, limit), sizes)).astype(dtype)
    values = np.asarray(_floats(generator, sizes, role))
    if dtype.kind == "c":
        return np.asarray(values + 1j * np.asarray(_floats(generator, sizes, role)) * (role.kind == "plain")).astype(
            dtype
        )
    return values.astype(dtype)


def _floats(generator: np.random.Generator, sizes: Sequence[int], role: Role) -> np.ndarray:
    if role.kind in ("plain", "weight"):
        return generator.normal(size=sizes) * role.number
    if role.kind == "scale":
        return 1 + 0.1 * generator.normal(size=sizes)
    if role.kind == "rate":
        return 0.01 + 0.001 * generator.normal(size=sizes)
    if role.kind == "positive":
        return generator.uniform(0.5, 1.5, sizes)
    if role.kind == "divisor":
        return generator.uniform(0.5, 1.5, sizes) * generator.choice((-1.0, 1.0), sizes)
    if role.kind == "inside one":
        return generator.uniform(-0.9, 0.9, sizes)
    if role.kind == "above one":
        return 1 / generator.uniform(0.1, 0.9, sizes)
    noise = generator.normal(size=sizes) / sizes[-1]
    return noise + np.swapaxes(noise, -1, -2) + 2 * np.eye(sizes[-1])  # "matrix": its eigenvalues lie around 2
