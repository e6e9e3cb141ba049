"""StableHLO's reference interpreter on a process grid: `python reference.py`, requests on stdin, results on stdout.

It runs in a process of its own, which it ends where it cannot go on.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Process = Sequence[np.ndarray]


@dataclass(frozen=True)
class Request:
    """A module whose @main every process of `replicas` x `partitions` runs on its own arguments."""

    text: str
    replicas: int
    partitions: int
    arguments: Sequence[Process]  # by process


def run(requests: Sequence[Request]) -> list[list[list[np.ndarray]]]:
    """Results of every request: of each process, in order."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=pickle.dumps([vars(request) for request in requests]),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def evaluate(request: Request) -> list[list[np.ndarray]]:
    """Results of each process, in this one, which the interpreter may end."""
    from stablehlo_py.conformance.grid_reference import reference_on_grid

    return reference_on_grid(request.text, request.replicas, request.partitions, request.arguments)


def main() -> None:
    """Answer the requests; what libraries print goes to stderr."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = [Request(**each) for each in pickle.load(sys.stdin.buffer)]
    answer.write(pickle.dumps([evaluate(request) for request in requests]))
    answer.flush()


if __name__ == "__main__":
    main()
