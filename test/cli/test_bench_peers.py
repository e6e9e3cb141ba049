"""shlo-bench --peers and --journal: what is timed next to what, what is given up, and what docs/operations.md says."""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.roofline import Rates
from stablehlo_py.backends.cpu.peaks import Peaks
from stablehlo_py.cli import bench
from stablehlo_py.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_USAGE, LoadError, OptionError
from stablehlo_py.options import Options
from stablehlo_py.suite import measure, peers
from stablehlo_py.suite.journal import Journal
from stablehlo_py.suite.measure import Measurement, compiled_again, interleaved, is_same_code
from stablehlo_py.suite.operations_page import behind, operations_page
from stablehlo_py.suite.peers import Peer, PeerTime, Prepared, check_peers, disagreement

BEHIND = Measurement(
    "sorting/sort",
    "full",
    "argument",
    1,
    1e-4,
    0.0,
    seconds=2e-3,
    xla_seconds=8e-3,
    speedup=4.0,
    bound=1e-3,
    limit="memory",
    arguments="float32[1000]",
    peers={
        "numpy": PeerTime(1e-3, 0.5),
        "torch": PeerTime(4e-3, 2.0),
        "iree": PeerTime(error="takes more than 20 s\nin a file"),
    },
)
AHEAD = replace(BEHIND, model="sorting/top-8", peers={"numpy": PeerTime()}, limit=None, bound=None)
PEAKS = Peaks(1, Rates(bandwidth=0.01, f32=0.18), {1 << 14: 0.2})


# --- what agrees ------------------------------------------------------------------------------------------------------

ONE = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (ONE, None),
        (ONE.astype(np.float64), None),
        (ONE + np.float32(1e-5), None),
        (ONE + np.float32(1), "differs by"),
        (ONE[None], "is of shape"),
        (np.asfortranarray(ONE), "row-major"),
    ],
)
def test_results_agree_in_shape_value_and_order(result: np.ndarray, reason: str | None) -> None:
    found = disagreement([result], [ONE], 1e-4)
    assert found is None if reason is None else reason in str(found)


def test_indices_may_be_wider_and_numbers_are_compared_exactly() -> None:
    assert disagreement([np.array([3])], [np.array([3], np.int32)], 1e-4) is None
    assert "differs" in str(disagreement([np.array([4])], [np.array([3], np.int32)], 1e-4))
    assert "differs" in str(disagreement([np.array([0.5])], [np.array([0], np.int32)], 1e-4))
    assert "gives 2 results" in str(disagreement([ONE, ONE], [ONE], 1e-4))


def test_a_peer_that_overwrites_its_arguments_is_another_program() -> None:
    given = ONE.copy()
    called = Prepared(lambda: np.negative(given, out=given), lambda result: [result.copy()], lambda: [given])
    assert called.disagreement([ONE], [-ONE], 1e-4) == "overwrites its arguments"
    kept = Prepared(lambda: np.negative(ONE), lambda result: [result], lambda: [ONE])
    assert kept.disagreement([ONE], [-ONE], 1e-4) is None


def test_tensors_of_pytorch_hold_the_same_bits() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'stablehlo-py[peers]'")
    for type_ in (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.complex64):
        array = ONE.astype(type_)
        (back,) = peers._of_tensors(torch, peers._tensor(torch, array))
        assert back.dtype == type_ and back.tobytes() == array.tobytes()


# --- what is asked for ------------------------------------------------------------------------------------------------


def test_peers_that_are_unknown_or_absent_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert bench.main(["mlp", "--peers", "numpy,matlab"]) == EXIT_USAGE
    assert "no peer is named 'matlab'" in capsys.readouterr().err
    assert bench.main(["mlp", "--processor", "--threads", "1,2"]) == EXIT_USAGE
    assert "that of all threads" in capsys.readouterr().err
    monkeypatch.setattr(peers, "PEERS", {"other": Peer("a-package-that-nobody-has", peers._numpy)})
    with pytest.raises(OptionError, match=r"needs a-package.*\n.*stablehlo-py\[peers\]"):
        check_peers(["other"])


# --- what is timed ----------------------------------------------------------------------------------------------------


def test_calls_take_turns_and_slow_ones_get_few_rounds() -> None:
    order: list[int] = []

    def call(number: int) -> None:
        order.append(number)
        time.sleep(0.03)

    calls = [lambda number=number: call(number) for number in range(3)]
    seconds, ratios = interleaved(calls, 9, budget=0.01)
    assert order == [0, 1, 2, 0, 1, 2, 1, 2, 0, 2, 0, 1]  # a first look, and three rounds
    assert len(seconds) == len(ratios) == 3 and ratios[0] == 1.0
    ticks = iter(range(100))
    assert interleaved(calls[:2], 1, clock=lambda: float(next(ticks))) == ([1.0, 1.0], [1.0, 1.0])


def test_what_is_timed_on_a_disturbed_machine_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_PAUSE", 0.0)
    ticks = itertools.accumulate([0, 9, 0, 1, 0, 2])  # of measurements: 9, 1 and 2 seconds
    answers = iter([False, True, False, True, True, True, True])  # before the first, and after it, it was disturbed
    call = functools.partial(time.sleep, 0.03)
    seconds, ratios = interleaved([call, call], 1, clock=lambda: float(next(ticks)), undisturbed=lambda: next(answers))
    assert seconds == [1.0, 2.0] and ratios == [1.0, 2.0]
    assert list(answers) == []
    ticks = itertools.count()
    assert interleaved([call], 1, clock=lambda: float(next(ticks)), undisturbed=lambda: False) == ([1.0], [1.0])


@pytest.mark.parametrize(("size", "same"), [(100, True), (1_000_000, False)])
def test_programs_that_ask_for_no_threads_are_one_whose_calls_are_compared_with_themselves(
    size: int, same: bool
) -> None:
    tensor = f"tensor<{size}xf32>"
    text = f"""func.func @main(%x: {tensor}) -> {tensor} {{
        %y = stablehlo.exponential %x : {tensor}
        return %y : {tensor}
    }}"""
    one, two = (compile_program(text, options=Options(threads=threads, cache_dir=None)) for threads in (1, 2))
    assert two.uses_pool is not same
    assert is_same_code(one, two) is same


def test_compilations_after_the_first_are_of_a_process_that_has_forgotten() -> None:
    done = []

    def prepare():
        time.sleep(0.02)  # which nobody counts
        done.append("forgotten")
        return lambda: done.append("compiled")

    seconds = compiled_again(0.1, prepare)
    assert seconds is not None and seconds < 0.02
    assert done == ["forgotten", "compiled"] * 3
    assert compiled_again(1.5, prepare) is None and len(done) == 6


@pytest.mark.parametrize(("ends", "why"), [("time.sleep(600)", "takes more than 0 s"), ("raise SystemExit(7)", "7")])
def test_a_peer_that_does_not_come_back_is_given_up_and_its_model_is_measured(
    ends: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = []

    def child(request: dict) -> subprocess.Popen[str]:
        requests.append(json.loads(json.dumps(request)))
        lines: list[dict] = [{"peaks": asdict(PEAKS)}, {"peer": "iree", "model": BEHIND.model}]
        if request["given_up"]:
            lines[1] = {"measurement": asdict(BEHIND)}
        program = "".join(f"print({json.dumps(json.dumps(line))}, flush=True)\n" for line in lines)
        program += "" if request["given_up"] else f"import time; {ends}"
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(bench, "_child", child)
    patience = 0.0 if "sleep" in ends else 60.0
    monkeypatch.setitem(bench.PEERS, "iree", replace(peers.PEERS["iree"], patience=patience))
    options = bench.parser().parse_args(["--suite", "operations"])
    options.peers = ["iree"]
    found: dict[int, Peaks] = {}
    assert list(bench.measurements([BEHIND.model], 1, options, found)) == [BEHIND]
    first, second = requests
    assert first["given_up"] == {} and why in second["given_up"][BEHIND.model]["iree"]
    assert found == {1: PEAKS} and second["peaks"] == json.loads(json.dumps(asdict(PEAKS)))


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_a_journal_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Journal(path, "a machine").add(BEHIND, PEAKS)
    Journal(path, "a machine").add(AHEAD, PEAKS)
    again = Journal(path, "a machine")
    assert again.peaks == {1: PEAKS}
    assert again.found("full", "argument", 1, ["numpy"]) == [BEHIND, AHEAD]
    assert again.found("full", "argument", 1, ["numpy", "torch"]) == [BEHIND], "the other was not asked for it"
    assert again.found("full", "argument", 2, []) == again.found("small", "argument", 1, []) == []
    assert again.found("full", "argument", 1, [], processor=True) == []
    newer = {"compile_warm", "xla_compile_warm"}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["measurement"] = {key: each for key, each in line.get("measurement", {}).items() if key not in newer}
    older = [line if line["measurement"] else {k: v for k, v in line.items() if k != "measurement"} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in older))
    assert Journal(path, "a machine").found("full", "argument", 1, ["numpy"]) == [BEHIND, AHEAD]
    with pytest.raises(OptionError, match="measured elsewhere: a machine, not another"):
        Journal(path, "another")


def test_a_journal_goes_on_with_other_peers(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Journal(path, "a machine; jax 1, torch-mlir 2").add(BEHIND, PEAKS)
    assert Journal(path, "a machine; jax 1, scipy 3").machine == "a machine; jax 1, torch-mlir 2, scipy 3"
    again = Journal(path, "")
    assert again.machine == Journal(path, "a machine; jax 1").machine == "a machine; jax 1, torch-mlir 2, scipy 3"
    assert again.found("full", "argument", 1, ["numpy"]) == [BEHIND]
    for other in ("a machine; jax 1, scipy 4", "another machine; jax 1"):
        with pytest.raises(OptionError, match="measured elsewhere"):
            Journal(path, other)


def test_a_page_of_what_a_journal_has(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Nothing is measured, of whatever machine it is."""
    path, page, before = tmp_path / "run.jsonl", tmp_path / "page.md", "head"
    Journal(path, "a machine of old").add(BEHIND, PEAKS)
    lines = path.read_text()
    page.write_text(f"{before}{bench.BEGIN}{bench.END}")
    command = ["--suite", "operations", "--threads", "1,2", "--peers", "numpy,torch", "--journal", str(path)]
    assert bench.main([*command, "--measured", "--write", str(page)]) == EXIT_OK
    found = page.read_text()
    assert "on a machine of old." in found and BEHIND.model.partition("/")[2] in found and str(PEAKS) in found
    assert path.read_text() == lines
    assert bench.main(["--measured"]) == EXIT_USAGE
    assert bench.main(["--measured", "--journal", str(tmp_path / "none")]) == EXIT_BAD_INPUT
    told = capsys.readouterr().err
    assert "none is named" in told and "cannot read" in told


@pytest.mark.parametrize("text", ["[]", "", "no JSON", '{"machine": "m"}\n{"measurement": {"a": 1}}'])
def test_a_file_that_is_no_journal_is_refused_before_anything_runs(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(LoadError, match="is no journal"):
        Journal(path, "m")
    assert bench.main(["mlp", "--journal", str(path)]) == EXIT_BAD_INPUT
    assert bench.main(["mlp", "--journal", str(tmp_path / "none" / "run.jsonl")]) == EXIT_BAD_INPUT
    assert "cannot write" in capsys.readouterr().err


# --- what is said -----------------------------------------------------------------------------------------------------


def test_what_is_behind_is_listed_and_each_class_is_summed_up() -> None:
    assert behind([AHEAD, BEHIND]) == [BEHIND]
    text = operations_page([BEHIND, AHEAD])
    assert "| sorting | 2 | 4.00 | 0.50 | 50% | memory 1, loops 1 | sort 4.00, top-8 4.00 | sort 0.50 |" in text
    assert "| sorting/sort | 4.00 | 0.50 numpy | 50% | memory |" in text
    assert "| sorting/sort | float32[1000] | 2 | 4.00 | 0.50 numpy | 50% | memory |" in text
    assert "| sorting/sort | iree | takes more than 20 s |" in text
    assert "### By class, 1 thread\n" in text


def test_the_higher_of_two_measured_peaks_counts() -> None:
    other = Peaks(1, Rates(bandwidth=0.02, f32=0.1), {1 << 14: 0.1})
    assert PEAKS.best(other) == Peaks(1, Rates(bandwidth=0.02, f32=0.18), {1 << 14: 0.2})
    assert PEAKS.best(None) == PEAKS
