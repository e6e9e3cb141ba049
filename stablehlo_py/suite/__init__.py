"""The model suite: real models with random, seeded weights, at a small size (tests) and a full size (benchmarks).

And `operations`, a suite of single operations (docs/operations.md).

Needs the extra `suite`: pip install stablehlo-py[suite]. The sizes and what each model exercises: docs/models.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stablehlo_py.suite.registry import (
        SUITES,
        Model,
        Size,
        Weights,
        build,
        class_of,
        export,
        largest_difference,
        names,
        reference,
    )

__all__ = [
    "SUITES",
    "Model",
    "Size",
    "Weights",
    "build",
    "class_of",
    "export",
    "largest_difference",
    "names",
    "reference",
]


def __getattr__(name: str) -> object:
    # Imported at first use: golden cases and tables of measurements need neither JAX nor flax.
    if name not in __all__:
        raise AttributeError(f"module 'stablehlo_py.suite' has no attribute '{name}'")
    return getattr(import_module("stablehlo_py.suite.registry"), name)
