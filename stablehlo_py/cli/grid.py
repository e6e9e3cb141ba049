"""`shlo-run` on a grid of processes, each with inputs of its own (docs/collectives.md)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.errors import OptionError

if TYPE_CHECKING:
    from stablehlo_py.runtime.grid import GridExecutable
    from stablehlo_py.runtime.program import Spec

Arrays = Sequence[np.ndarray]


def process(text: str) -> tuple[int, int]:
    """(replica, partition) of an option's text."""
    try:
        replica, partition = map(int, text.split(","))
    except ValueError as error:
        raise OptionError(
            f"'{text}' is no process of a grid", remedy="write REPLICA,PARTITION, as in --process-input 0,1 part.npz"
        ) from error
    return replica, partition


def grid_inputs(
    arguments: argparse.Namespace,
    executable: GridExecutable,
    make: Callable[[argparse.Namespace, Sequence[Spec]], list[np.ndarray]],
) -> list[list[Arrays]]:
    """Inputs of every process: from its own files, else as `make` finds them, random ones from a seed for each.

    Raises:
        OptionError: a process that --process-input names does not exist.
    """
    own: dict[tuple[int, int], list[str]] = {}
    for name, file in arguments.process_input:
        own.setdefault(process(name), []).append(file)
    grid = [(r, p) for r in range(executable.num_replicas) for p in range(executable.num_partitions)]
    unknown = [place for place in own if place not in grid]
    if unknown:
        size = f"{executable.num_replicas} x {executable.num_partitions}"
        raise OptionError(f"there is no process {unknown[0]}", remedy=f"the grid has {size} processes")
    inputs: list[Arrays] = []
    for number, place in enumerate(grid):
        changed = {"input": own.get(place, arguments.input), "seed": arguments.seed + number}
        inputs.append(make(argparse.Namespace(**{**vars(arguments), **changed}), executable.inputs))
    width = executable.num_partitions
    return [inputs[start : start + width] for start in range(0, len(inputs), width)]


def named_results(rows: Sequence[Sequence[Arrays]], names: Sequence[str]) -> list[tuple[str, np.ndarray]]:
    """Results of all processes: "process 0,1: sum" for replica 0, partition 1."""
    return [
        (f"process {replica},{partition}: {name}", result)
        for replica, row in enumerate(rows)
        for partition, results in enumerate(row)
        for name, result in zip(names, results, strict=True)
    ]
