"""Measurements kept in a file, finished and under way, so that a long one goes on where it was stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stablehlo_py.accuracy.measure import Measurement, State, Worst
from stablehlo_py.errors import ResourceError
from stablehlo_py.files import write_whole

_SAVE_EVERY = 20.0  # seconds


class Journal:
    """Measurements by function, element type, digest of the code, and stride. Without a path, in memory only. What
    other journals have finished counts too, and is not written."""

    def __init__(self, path: Path | None, others: Sequence[Path] = ()) -> None:
        self._path = path
        self._finished: list[Measurement] = []
        self._running: dict[str, dict] = {}
        self._saved = time.monotonic()
        if path is not None and path.exists():
            self._finished, self._running = _read(path)
        self._others = [measurement for other in others for measurement in _read(other)[0]]

    def best(self, function: str, element: str, digest: str) -> Measurement | None:
        """The measurement of this code with the most inputs."""
        known = [*self._finished, *self._others]
        found = [m for m in known if (m.function, m.element, m.digest) == (function, element, digest)]
        return max(found, key=lambda m: m.inputs, default=None)

    def covers(self, function: str, element: str, digest: str, inputs: int) -> Measurement | None:
        """A measurement of this code with at least so many inputs."""
        best = self.best(function, element, digest)
        return best if best is not None and best.inputs >= inputs else None

    def finish(self, measurement: Measurement) -> None:
        """Keep a result."""
        self._finished.append(measurement)
        self._running.pop(_key(measurement.function, measurement.element, measurement.digest, measurement.stride), None)
        self.save()

    def resume(self, function: str, element: str, digest: str, stride: int, bits: np.dtype) -> State | None:
        """Where a measurement stopped."""
        entry = self._running.get(_key(function, element, digest, stride))
        if entry is None:
            return None
        arguments = [np.array(patterns, bits) for patterns in entry["arguments"]]
        return State(entry["position"], Worst(np.array(entry["errors"]), arguments, entry["floor"]), entry["inputs"])

    def progress(self, function: str, element: str, digest: str, stride: int, state: State) -> None:
        """Keep where a measurement is, now and then."""
        if self._path is None or time.monotonic() - self._saved < _SAVE_EVERY:
            return
        state.worst.cut()
        self._running[_key(function, element, digest, stride)] = {
            "position": state.position,
            "inputs": state.inputs,
            "floor": state.worst.floor,
            "errors": state.worst.errors.tolist(),
            "arguments": [patterns.tolist() for patterns in state.worst.arguments],
        }
        self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self._saved = time.monotonic()
        if self._path is None:
            return
        content = {"finished": [m.as_json() for m in self._finished], "running": self._running}
        write_whole(self._path, json.dumps(content))


def _read(path: Path) -> tuple[list[Measurement], dict[str, dict]]:
    """What a journal has finished, and what was under way."""
    try:
        content = json.loads(path.read_text())
        return [Measurement.from_json(entry) for entry in content["finished"]], content["running"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResourceError(f"'{path}' is not a journal of shlo-accuracy: {error}", remedy="delete it") from error


def _key(function: str, element: str, digest: str, stride: int) -> str:
    return f"{function} {element} {digest} {stride}"
