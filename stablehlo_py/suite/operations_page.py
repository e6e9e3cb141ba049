"""What docs/operations.md says about measurements: by class, what is behind, and each operation."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from stablehlo_py.markdown import table
from stablehlo_py.suite.measure import Measurement

# Ratios (theirs / ours) below which an operation counts as behind: not what equal programs differ by.
BEHIND_XLA, BEHIND_PEERS = 0.95, 0.91
_WORST = 5


def operations_page(measurements: Sequence[Measurement]) -> str:
    """The tables, in Markdown."""
    threads = sorted({m.threads for m in measurements})
    return "\n".join(_of_threads([m for m in measurements if m.threads == count], count) for count in threads)


def behind(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Those that take longer than under XLA, or than the fastest peer, most of all first."""
    return sorted((m for m in measurements if _short_of(m) < 1), key=_short_of)


def _short_of(m: Measurement) -> float:
    """The smaller of the ratios, each next to where it counts as behind."""
    return min(_xla(m) / BEHIND_XLA, _peer(m) / BEHIND_PEERS)


def best_peer(m: Measurement) -> str:
    """The ratio of the fastest peer, and its name."""
    best = m.best_peer
    return "-" if best is None else f"{best[1].ratio:.2f} {best[0]}"


def _xla(m: Measurement) -> float:
    return m.speedup if m.speedup is not None else float("inf")


def _peer(m: Measurement) -> float:
    best = m.best_peer
    return best[1].ratio if best is not None and best[1].ratio is not None else float("inf")


def _of_threads(measurements: Sequence[Measurement], threads: int) -> str:
    title = f"{threads} thread{'s' * (threads > 1)}"
    columns = ("operation", "arguments", "ours, ms", *_RATIOS)
    groups = itertools.groupby(measurements, lambda m: m.model.partition("/")[0])
    classes = [("all", measurements), *((name, list(group)) for name, group in groups)]
    parts = [
        f"### By class, {title}\n\n{class_table(classes)}",
        f"### Behind, {title}\n\n{behind_table(measurements)}",
        f"### All, {title}\n\n{table(columns, map(_row, measurements))}",
    ]
    unequal = list(_failed(measurements))
    if unequal:
        parts.append(f"### Not compared, {title}\n\n{table(('operation', 'peer', 'why'), unequal)}")
    return "\n".join(parts)


def _failed(measurements: Iterable[Measurement]) -> Iterable[tuple[str, str, str]]:
    for m in measurements:
        for name, peer in m.peers.items():
            if peer.error:
                yield m.model, name, peer.error.splitlines()[0][:120]  # what follows are places in files


_RATIOS = ("XLA / ours", "best peer / ours", "of the bound", "bound by")
_CLASS_COLUMNS = (
    "class",
    "programs",
    "XLA / ours",
    "best peer / ours",
    "of the bound",
    "bound by",
    "worst next to XLA",
    "worst next to the best peer",
)


def class_table(classes: Iterable[tuple[str, Sequence[Measurement]]]) -> str:
    """For each class its means, what bounds it, and what is worst."""
    return table(_CLASS_COLUMNS, (_class(name, group) for name, group in classes))


def behind_table(measurements: Iterable[Measurement]) -> str:
    """What is behind."""
    return table(("program", *_RATIOS), ((m.model, *_ratios(m)) for m in behind(measurements)))


def _class(name: str, group: Sequence[Measurement]) -> tuple[object, ...]:
    shares = [m.bound / m.seconds for m in group if m.bound and m.seconds]
    limits = Counter(m.limit or "loops" for m in group)
    return (
        name,
        len(group),
        mean(m.speedup for m in group),
        mean(m.best_peer[1].ratio for m in group if m.best_peer),
        f"{statistics.median(shares):.0%}" if shares else "-",
        ", ".join(f"{limit} {count}" for limit, count in limits.most_common()),
        _worst(group, _xla),
        _worst(group, _peer),
    )


def mean(ratios: Iterable[float | None]) -> str:
    """The geometric mean of those that are known."""
    known = [ratio for ratio in ratios if ratio is not None]
    return f"{statistics.geometric_mean(known):.2f}" if known else "-"


def _worst(group: Sequence[Measurement], ratio: Callable[[Measurement], float]) -> str:
    found = sorted((ratio(m), m.model.rpartition("/")[2]) for m in group)[:_WORST]
    return ", ".join(f"{name} {value:.2f}" for value, name in found if value != float("inf"))


def _row(m: Measurement) -> tuple[str, ...]:
    if m.error:
        return (m.model, m.arguments, "failed", *["-"] * 4)
    mark = "" if m.correct else " (differs)"
    time = "-" if m.seconds is None else f"{m.seconds * 1e3:.3g}"
    return (m.model, m.arguments, time + mark, *_ratios(m))


def _ratios(m: Measurement) -> tuple[str, str, str, str]:
    return (
        "-" if m.speedup is None else f"{m.speedup:.2f}",
        best_peer(m),
        "-" if m.bound is None or not m.seconds else f"{m.bound / m.seconds:.0%}",
        m.limit or "-",
    )
