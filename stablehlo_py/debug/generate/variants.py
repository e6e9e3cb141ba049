"""Programs that are more than one run: on a grid of processes, or at several sizes of a dimension that is left open.

Our compiler gets the program as it is (`Variant.source`); the oracles get cases that they can run: the whole grid as
one module of the reference interpreter, the program with each of the sizes filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.engines import main_of, run_on_grid, static_module
from stablehlo_py.debug.generate.draft import DYNAMIC
from stablehlo_py.debug.settings import context
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Variant:
    """What our compiler compiles instead of a case's module: `source`, for a grid of this many replicas and partitions
    (None: one process)."""

    source: str
    grid: tuple[int, int] | None = None


def on_grid(module: str, inputs: Sequence[np.ndarray], replicas: int, partitions: int) -> Case:
    """`@main` of every process, by the interpreter's `run_parallel`: the arguments and results of one process after the
    other. Each process gets the inputs turned by its number."""
    with context(), ir.Location.unknown():
        parsed = ir.Module.parse(module)
        run_on_grid(parsed, replicas, partitions)
        count = replicas * partitions
        turned = [np.roll(array.ravel(), number).reshape(array.shape) for number in range(count) for array in inputs]
        return Case(str(parsed), tuple(turned))


def at_sizes(module: str, inputs: Sequence[np.ndarray], sizes: Sequence[int]) -> list[Case]:
    """The program with its dynamic dimensions filled in, once for each size; the inputs are cut to it.

    Raises ShloError where the sizes cannot be filled in.
    """
    with context():
        parsed = ir.Module.parse(module)
        shapes = [list(argument.type.shape) for argument in main_of(parsed).regions[0].blocks[0].arguments]
        dynamic_axes = [[axis for axis, size in enumerate(shape) if size == DYNAMIC] for shape in shapes]
    cases = []
    for size in sizes:
        cut = [
            array[tuple(slice(size) if axis in axes else slice(None) for axis in range(array.ndim))]
            for array, axes in zip(inputs, dynamic_axes, strict=True)
        ]
        with context():
            cases.append(Case(str(static_module(module, cut)), tuple(array.copy() for array in cut)))
    return cases
