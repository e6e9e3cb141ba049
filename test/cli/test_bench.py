"""shlo-bench: the table that a person reads, what is written, and what is compared."""

from __future__ import annotations

import io
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.backends.cpu.peaks import Peaks
from stablehlo_py.cli import bench
from stablehlo_py.errors import EXIT_BAD_INPUT
from stablehlo_py.suite.measure import Measurement

MEASURED = [
    Measurement(
        "transform/fft-1000-rows-of-1024", "full", "argument", 2, 1e-4, 1e-7, 1.41e-2, 2.22e-2, 1.57, 1, 1, 1, 1
    ),
    Measurement("bert", "full", "argument", 1, 1e-4, error="UnsupportedError: model.mlir:3: [not known here]"),
]
PEAKS = Peaks(1, Rates(bandwidth=0.01, f64=0.09, f32=0.18, f16=0.18, i8=0.18), {1 << 14: 0.2, 1 << 28: 0.01})
RESULTS = bench.Results("a machine", [PEAKS], MEASURED)


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


def test_measurements_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(RESULTS.text())
    assert bench.Results.read(tmp_path / "before.json") == RESULTS


def test_a_change_is_shown_model_by_model_with_its_mean() -> None:
    now = replace(RESULTS, measurements=[replace(MEASURED[0], seconds=7.05e-3), replace(MEASURED[1], threads=2)])
    stream = io.StringIO()
    bench.show_change(now, RESULTS, Console(file=stream, width=120))
    (row,) = (line for line in stream.getvalue().splitlines() if line.lstrip().startswith("transform"))
    assert row.split()[1:] == ["2", "14.1", "7.05", "0.50", "1.00"]
    assert "geometric mean of now / before: 0.500" in stream.getvalue()


def test_the_page_of_all_suites_says_what_is_behind_slower_with_two_threads_or_larger() -> None:
    one = Measurement(
        "movement/pad", "full", "argument", 1, 1e-4, 0.0, 1e-3, 2e-3, 2.0, 0.2, 0.1, 0.4, 0.1, memory=1, xla_memory=0
    )
    slow = replace(one, model="mlp", speedup=0.5, xla_seconds=5e-4, compile_cold=0.25, xla_compile_cold=0.125)
    one.compile_warm, slow.xla_compile_warm = 0.2, 0.125  # older journals have none
    one.compile_cold = 9.0
    heavy = replace(one, threads=2, seconds=1.5e-3, memory=9 << 20, one_thread=0.625)
    fast = replace(slow, threads=2, seconds=2e-3, speedup=1.0, one_thread=1.25, limit="arithmetic")
    results = replace(RESULTS, measurements=[one, slow, heavy, fast])
    page = bench.markdown(results, "command", bench.ALL)
    tables = {part.partition("\n")[0]: part.splitlines() for part in page.split("### ")}
    assert list(tables)[1:] == [
        "1 thread", "Behind, 1 thread", "2 threads", "Behind, 2 threads", "2 threads next to 1", "Compilation", "Memory"
    ]  # fmt: skip
    rows = {title: [line for line in lines if line.startswith("| ")][1:] for title, lines in tables.items()}
    assert [line.split(" | ")[:3] for line in rows["1 thread"]] == [
        ["| all", "2", "1.00"], ["| operations: movement", "1", "2.00"], ["| models", "1", "0.50"]
    ]  # fmt: skip
    assert [line.split(" | ")[0] for line in rows["Behind, 1 thread"]] == ["| mlp"]
    assert rows["Behind, 2 threads"] == []
    assert rows["2 threads next to 1"] == [
        "| operations: movement | 1 | 1.60 | pad 1.60 | none |",
        "| models | 1 | 0.80 | none | mlp 0.80 |",
    ]
    assert rows["Compilation"][0] == "| more than 300 ms | 1 | 1 | 2.00 | none | movement/pad 0.20 s |"
    assert rows["Compilation"][2] == "| 100 to 300 ms | 1 | 1 | 0.50 | mlp 0.50 | mlp 0.25 s |"
    assert rows["Memory"][:2] == [
        "| operations: movement | 1 | 1 | none |", "| operations: movement | 2 | 1 | movement/pad 9.0 of 0.0 MiB |"
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["[]", "{}", "not JSON", '{"machine": "m", "peaks": [], "measurements": [{"a": 1}]}'])
def test_a_file_that_is_none_of_measurements_is_refused_before_anything_runs(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "before.json").write_text(text)
    assert bench.main(["mlp", "--compare", str(tmp_path / "before.json")]) == EXIT_BAD_INPUT
    assert "before.json holds no measurements" in capsys.readouterr().err
    assert bench.main(["mlp", "--compare", str(tmp_path / "none.json")]) == EXIT_BAD_INPUT
    assert "No such file" in capsys.readouterr().err


def test_what_was_measured_stands_under_the_roofs() -> None:
    pytest.importorskip("matplotlib", reason="stablehlo-py[suite] is not installed")
    from stablehlo_py.suite.roofline_plot import plot

    measured = [replace(MEASURED[0], threads=1, operations=10**7, touched=10**6), MEASURED[1]]
    text = plot([PEAKS, replace(PEAKS, threads=2)], measured)
    words = [each.text for each in xml.etree.ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("fft-1000-rows-of-1024") == 1 and "bert" not in words
    assert {"1 thread", "2 threads", "f32", "bf16", "16 KiB", "256 MiB"} <= set(words)
    assert text == plot([PEAKS, replace(PEAKS, threads=2)], measured), "the same numbers give the same file"
