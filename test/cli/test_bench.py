"""shlo-bench: the table that a person reads."""

from __future__ import annotations

import io

from rich.console import Console

from stablehlo_py.cli import bench
from stablehlo_py.suite.measure import Measurement

RESULTS = [
    Measurement(
        "transform/fft-1000-rows-of-1024", "full", "argument", 2, 1e-4, 1e-7, 1.41e-2, 2.22e-2, 1.57, 1, 1, 1, 1
    ),
    Measurement("bert", "full", "argument", 1, 1e-4, error="UnsupportedError: model.mlir:3: [not known here]"),
]


def shown(width: int, wide: bool) -> list[str]:
    stream = io.StringIO()
    bench.show(RESULTS, Console(file=stream, width=width), wide)
    return stream.getvalue().splitlines()


def test_the_table_is_readable_at_80_columns() -> None:
    lines = shown(80, wide=False)
    assert max(map(len, lines)) <= 80
    (head,) = (line for line in lines if line.split()[:2] == ["model", "threads"])
    assert head.split() == "model threads difference run, ms XLA, ms XLA / ours".split()
    (row,) = (line for line in lines if line.lstrip().startswith("transform"))
    assert row.split()[1:] == ["2", "1.0e-07", "14.1", "22.2", "1.57"]
    assert any(line.split()[:3] == ["bert", "1", "failed"] for line in lines)
    assert "bert, 1 threads: UnsupportedError: model.mlir:3: [not known here]" in lines


def test_wide_shows_every_column() -> None:
    (head,) = (line for line in shown(bench.WIDE, wide=True) if line.split()[:2] == ["model", "threads"])
    assert [name for name in bench.COLUMNS if name not in head] == []
