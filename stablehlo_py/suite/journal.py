"""Measurements in a file of lines of JSON, so that a long run goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from stablehlo_py.backends.cpu.peaks import Peaks
from stablehlo_py.errors import LoadError, OptionError, ResourceError
from stablehlo_py.suite.measure import Measurement


class Journal:
    """Of one machine: its name and versions (`machine`; "" takes those of the file, which is to be read only), its
    peaks by the number of threads, measurements. Without a path, in memory only. Runs with other peers may go on with
    it, as long as the versions of what both name are the same.

    Raises LoadError for a file that is none, OptionError for one of another machine or of other versions, ResourceError
    for one that cannot be read.
    """

    def __init__(self, path: Path | None, machine: str) -> None:
        self._path = path
        self.machine = machine
        self.peaks: dict[int, Peaks] = {}
        self._measurements: list[Measurement] = []
        if path is None:
            return
        if path.exists() or not machine:
            self._read(path)
        else:
            self._append({"machine": machine})

    def found(
        self, size: str, weights: str, threads: int, peers: Sequence[str], processor: bool = False
    ) -> list[Measurement]:
        """What was measured so, with these peers at least."""
        wanted = (size, weights, threads, processor)
        return [
            m
            for m in self._measurements
            if (m.size, m.weights, m.threads, m.processor) == wanted and (m.error or set(peers) <= set(m.peers))
        ]

    def add(self, measurement: Measurement, peaks: Peaks | None) -> None:
        """Keep a measurement, and the peaks that were known then."""
        if peaks is not None and peaks != self.peaks.get(peaks.threads):
            self.peaks[peaks.threads] = peaks
            self._append({"peaks": asdict(peaks)})
        self._measurements.append(measurement)
        self._append({"measurement": asdict(measurement)})

    def _append(self, entry: object) -> None:
        if self._path is None:
            return
        try:
            with self._path.open("a") as lines:
                lines.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise ResourceError(
                f"cannot write {self._path}: {error.strerror}", remedy="name a file that can be written"
            ) from error

    def _read(self, path: Path) -> None:
        try:
            first, *entries = [json.loads(line) for line in path.read_text().splitlines()]
            machine = first["machine"]
            for entry in entries:
                if "peaks" in entry:
                    peaks = Peaks.of(entry["peaks"])
                    self.peaks[peaks.threads] = peaks
                elif "machine" in entry:
                    machine = entry["machine"]
                else:
                    self._measurements.append(Measurement.of(entry["measurement"]))
        except OSError as error:
            raise ResourceError(f"cannot read {path}: {error.strerror}", remedy="name a file that exists") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LoadError(f"{path} is no journal", remedy="name one that shlo-bench --journal wrote") from error
        together = _together(machine, self.machine or machine)
        if together is None:
            raise OptionError(
                f"{path} was measured elsewhere: {machine}, not {self.machine}", remedy="begin another journal"
            )
        self.machine = together
        if together != machine:
            self._append({"machine": together})


def _together(*machines: str) -> str | None:
    """The name that machines have, and all packages of any; None where names or versions differ."""
    names = {text.partition("; ")[0] for text in machines}
    packages = dict.fromkeys(each for text in machines for each in text.partition("; ")[2].split(", ") if each)
    agree = len(names) == 1 and len({each.rpartition(" ")[0] for each in packages}) == len(packages)
    return "; ".join([*names, *[", ".join(packages)] * bool(packages)]) if agree else None
