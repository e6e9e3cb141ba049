"""The page of all suites (`shlo-bench --suite all --write FILE`): by class what bounds programs and how they stand next
to their peers, what a second thread brings, how long they compile, what memory they take, and what is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stablehlo_py.markdown import table
from stablehlo_py.suite.measure import Measurement
from stablehlo_py.suite.operations_page import behind_table, class_table, mean

SLOWER = 1.03  # two threads / one, beyond what equal programs differ by
WORTHWHILE = 0.65  # two threads / one, of a program of more than a millisecond whose bound is arithmetic
XLA_MARGIN = 4 << 20  # bytes that its libraries take themselves
_COMPILATIONS = ((0.3, "more than 300 ms"), (0.1, "100 to 300 ms"), (0.0, "less than 100 ms"))  # under XLA, seconds
QUICK = 0.04  # seconds that a compilation may take where XLA's takes less than a tenth of one
_TOO_LONG = f"longer than under XLA, in the last class than {QUICK * 1e3:.0f} ms"
_COMPILATION_COLUMNS = ("XLA takes", "threads", "programs", "XLA / ours", _TOO_LONG, "longest")
_COMPILATION_HEAD = (
    "Compilations in a warm process that knows nothing of the program; the first of all where that took more than a "
    "second or the journal has no other ([models.md](models.md#what-is-measured))."
)
_SCALES_BADLY = f"bound by arithmetic, more than 1 ms, above {WORTHWHILE}"
_MEMORY_COLUMNS = ("class", "threads", "programs", "more than XLA's temporaries and 4 MiB")

Classes = dict[str, list[Measurement]]


def performance_page(measurements: Sequence[Measurement], class_of: Callable[[str], str]) -> str:
    """The tables, in Markdown; `class_of` says of which class a program is, by its name."""
    counts = sorted({m.threads for m in measurements})
    parts = []
    for count in counts:
        title, some = f"{count} thread{'s' * (count > 1)}", [m for m in measurements if m.threads == count]
        classes = [("all", some), *_classes(some, class_of).items()]
        parts += [f"### {title.capitalize()}\n\n{class_table(classes)}", f"### Behind, {title}\n\n{behind_table(some)}"]
    for count in counts:
        several = [m for m in measurements if m.threads == count and m.one_thread]
        if several:
            head = ("class", "programs", f"{count} threads / 1", "slower by more than 3 %", _SCALES_BADLY)
            rows = (_threads(*each) for each in _classes(several, class_of).items())
            parts.append(f"### {count} threads next to 1\n\n{table(head, rows)}")
    compilations = table(_COMPILATION_COLUMNS, _compilations(measurements, counts))
    parts.append(f"### Compilation\n\n{_COMPILATION_HEAD}\n\n{compilations}")
    parts.append(f"### Memory\n\n{table(_MEMORY_COLUMNS, _memory(measurements, class_of, counts))}")
    return "\n".join(parts)


def _classes(measurements: Sequence[Measurement], class_of: Callable[[str], str]) -> Classes:
    found: Classes = {}
    for m in measurements:
        found.setdefault(class_of(m.model), []).append(m)
    return found


def _named(pairs: Sequence[tuple[float, str]]) -> str:
    return ", ".join(f"{name.rpartition('/')[2]} {value:.2f}" for value, name in pairs) or "none"


def _threads(name: str, group: Sequence[Measurement]) -> tuple[object, ...]:
    ratios = [(1 / (m.one_thread or 1.0), m) for m in group]
    slower = [(ratio, m.model) for ratio, m in ratios if ratio > SLOWER]
    long = [(ratio, m.model) for ratio, m in ratios if m.limit == "arithmetic" and (m.seconds or 0.0) / ratio > 1e-3]
    worse = [each for each in long if each[0] > WORTHWHILE]
    several = (_named(sorted(each, reverse=True)) for each in (slower, worse))
    return name, len(ratios), mean(ratio for ratio, _ in ratios), *several


def _compilations(measurements: Sequence[Measurement], counts: Sequence[int]) -> Iterator[tuple[object, ...]]:
    times = [(m, m.compile_seconds or 0.0, m.xla_compile_seconds or 0.0) for m in measurements]
    above = float("inf")
    for least, title in _COMPILATIONS:
        for count in counts:
            some = [
                each
                for each in times
                if each[0].threads == count and each[1] and each[2] > 0 and least <= each[2] < above
            ]
            ratios = [(theirs / ours, m.model) for m, ours, theirs in some]
            long = {m.model for m, ours, theirs in some if ours > (theirs if least else QUICK)}
            longer = _named(sorted(each for each in ratios if each[1] in long))
            longest = max(((ours, m.model) for m, ours, _ in some), default=(0.0, "-"))
            yield (
                title,
                count,
                len(some),
                mean(ratio for ratio, _ in ratios),
                longer,
                f"{longest[1]} {longest[0]:.2f} s",
            )
        above = least


def _memory(
    measurements: Sequence[Measurement], class_of: Callable[[str], str], counts: Sequence[int]
) -> Iterator[tuple[object, ...]]:
    for name, group in _classes(measurements, class_of).items():
        for count in counts:
            some = [
                (m.model, m.memory, m.xla_memory)
                for m in group
                if m.threads == count and m.memory is not None and m.xla_memory is not None
            ]
            if not some:
                continue
            more = [each for each in some if each[1] > each[2] + XLA_MARGIN]
            listed = (f"{model} {_mebibytes(ours)} of {_mebibytes(theirs)} MiB" for model, ours, theirs in more)
            yield name, count, len(some), ", ".join(listed) or "none"


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
