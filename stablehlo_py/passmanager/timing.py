"""Where the time of a run went, without gaps: what `shlo-opt --timing` prints."""

from __future__ import annotations

import os
import time

BETWEEN = "between passes"  # verification, records for a failure's report, dumps


def process_start() -> float:
    """When this process began, on the clock of `time.perf_counter`; now, where the system does not tell."""
    now = time.perf_counter()
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])  # field 22 of proc(5), to 10 ms
        return now - max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, AttributeError):
        return now


class Laps:
    """A clock that is never stopped: each lap begins where the one before it ends, so their sum is the wall clock's.

    Attributes:
        laps: what was done, and the seconds that it took, in order.
    """

    def __init__(self, since: float | None = None) -> None:
        self.laps: list[tuple[str, float]] = []
        self._last = time.perf_counter() if since is None else since

    def lap(self, what: str) -> None:
        """Everything since the last lap was `what`."""
        now = time.perf_counter()
        self.laps.append((what, now - self._last))
        self._last = now

    def report(self) -> str:
        """A table, in the order of the laps; what is between passes is one row."""
        rows = [each for each in self.laps if each[0] != BETWEEN]
        between = sum(seconds for what, seconds in self.laps if what == BETWEEN)
        rows += [(BETWEEN, between)] if between else []
        total = sum(seconds for _, seconds in self.laps)
        width = max(len(what) for what, _ in [*rows, ("total", 0.0)])
        lines = [f"{'pass or part':<{width}}  {'ms':>10}  {'share':>6}"]
        for what, seconds in [*rows, ("total", total)]:
            lines.append(f"{what:<{width}}  {seconds * 1e3:>10.2f}  {100 * seconds / (total or 1):>5.1f}%")
        return "\n".join(lines)
