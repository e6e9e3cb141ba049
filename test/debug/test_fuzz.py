"""Random programs: they mean what the oracles say, a seed is one program, and what is wrong is found.

A failure names its seed: `shlo-fuzz --seed N --count 1 --print` shows it. FUZZ=1000:200 runs 200 programs from seed
1000 on. By hand there are few of them, on CI as many as two minutes hold.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stablehlo_py.cli import fuzz as cli
from stablehlo_py.debug import rounding
from stablehlo_py.debug.compare import differences
from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.engines import reference
from stablehlo_py.debug.fuzz import FINDINGS, Fuzzer, Outcome
from stablehlo_py.debug.fuzz_page import write_page
from stablehlo_py.debug.generate import VERSION, Program, generate
from stablehlo_py.debug.generate.coverage import NOT_DRAWN, coverage, missing, table, universe
from stablehlo_py.debug.generate.draft import ELEMENTS
from stablehlo_py.debug.generate.families import FAMILIES
from stablehlo_py.debug.journal import Journal
from stablehlo_py.debug.settings import Settings
from stablehlo_py.debug.workers import Answer, Workers
from stablehlo_py.errors import LoadError
from stablehlo_py.options import Options

HERE = Path(__file__).parent
PROGRAMS = 600 if os.environ.get("CI") else 60
CRASH = """import os
from dataclasses import dataclass
from stablehlo_py.passes.cse import Cse

@dataclass(frozen=True)
class Crashing(Cse):
    def run(self, module):
        os.abort()
"""
NEGATED = """func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %t = stablehlo.tanh %x : tensor<3xf32>
  %n = stablehlo.negate %t : tensor<3xf32>
  %s = stablehlo.subtract %y, %n : tensor<3xf32>
  return %t, %s : tensor<3xf32>, tensor<3xf32>
}"""
INPUTS = (np.array([1, 2, 3], np.float32), np.array([5, 6, 7], np.float32))


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(60) as made:
        yield made


def seeds() -> range:
    first, _, count = os.environ.get("FUZZ", f"0:{PROGRAMS}").partition(":")
    return range(int(first), int(first) + int(count))


def test_random_programs(workers: Workers) -> None:
    outcomes = list(Fuzzer(workers, jax_every=0, reduce_s=0).run(seeds()))
    assert [outcome for outcome in outcomes if outcome.is_finding] == []
    compared = sum(outcome.status in ("same", "oracle alone") for outcome in outcomes)
    assert compared >= 0.8 * len(outcomes)


def test_a_seed_is_one_program() -> None:
    first, again = generate(7), generate(7)
    assert (first.case.module, first.options) == (again.case.module, again.options)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first.case.inputs, again.case.inputs, strict=True))
    assert generate(8).case.module != first.case.module


def test_every_op_is_drawn() -> None:
    found = coverage(range(1000))
    assert missing(found) == []
    assert set(NOT_DRAWN) <= universe()
    assert not set(NOT_DRAWN) & set(found)
    assert "| stablehlo.add |" in table(found)
    elements = frozenset().union(*found.values())
    assert set(ELEMENTS) | {"quantized"} <= elements
    assert len({each.name for each in FAMILIES}) == len(FAMILIES)


def test_programs_of_every_kind() -> None:
    variants = [program.variant for program in map(generate, range(60)) if program.variant]
    assert any(variant.grid for variant in variants)
    (symbolic, *_) = (program for program in map(generate, range(60)) if program.more)
    assert "?x" in symbolic.variant.source
    assert "?x" not in symbolic.case.module
    assert len({tuple(array.shape for array in case.inputs) for case in symbolic.cases}) > 1


@pytest.mark.parametrize(("planted", "status"), [("planted/rule.py", "difference"), ("crash.py", "crash")])
def test_what_is_planted_is_found(planted: str, status: str, tmp_path: Path) -> None:
    file = HERE / planted if planted == "planted/rule.py" else tmp_path / planted
    if status == "crash":
        file.write_text(CRASH)
    case = Case(NEGATED, INPUTS)
    program = Program(0, case, Options(threads=1, cache_dir=None))
    with Workers(60) as own:
        outcome = Fuzzer(own, jax_every=0, pass_files=(str(file),)).run_one(program)
    assert outcome.status == status
    if status == "difference":
        assert outcome.reduced.count(" = ") == 2
        assert "result 1" in outcome.detail
    else:
        assert "SIGABRT" in outcome.detail


class Broken(Workers):
    """Our compiler runs the program, and fails on what bounds are worked out with; nothing else runs."""

    def run(self, engine: str, *request: Any) -> Answer:
        if engine == "opt0" and "stablehlo.multiply" not in request[0]:
            return Answer("ok", (np.sin(request[1][0]),))
        return Answer("error" if engine == "opt0" else "unsupported", detail=f"{engine} fails")


def test_a_failure_while_working_out_bounds_is_a_finding() -> None:
    module = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %s = stablehlo.sine %x : tensor<2xf32>
      return %s : tensor<2xf32>
    }"""
    x = np.array([1, 2], np.float32)
    program = Program(7, Case(module, (x,)), Options(threads=1, cache_dir=None))
    answers = {"ours": Answer("ok", (np.sin(x),)), "jax": Answer("ok", (np.sin(x) + np.float32(1e-6),))}
    outcome = Fuzzer(Broken(), jax_every=0).judge(program, program.case, answers)
    assert (outcome.status, outcome.seed) == ("error", 7)
    assert "opt0 fails" in outcome.detail
    assert "stablehlo.multiply" in outcome.reduced  # the disturbed program


# --- tolerance -------------------------------------------------------------------------------------------------------


def run_reference(module: str, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    return reference(module, inputs, Settings())


def test_bounds_follow_the_program() -> None:
    module = """func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
      %a = stablehlo.add %x, %x : tensor<4xf32>
      %e = stablehlo.exponential %x : tensor<4xf32>
      %big = stablehlo.constant dense<64.0> : tensor<4xf32>
      %b = stablehlo.add %e, %big : tensor<4xf32>
      %c = stablehlo.subtract %b, %big : tensor<4xf32>
      return %a, %e, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }"""
    inputs = (np.array([0.1, 0.7, 1.3, 2.2], np.float32), np.int32(1))
    exact = run_reference(module, inputs)
    plain, function, cancelled = rounding.bounds(module, inputs, exact, run_reference, samples=6)
    assert np.all(plain == 0)  # an addition has one right result
    assert np.all(function > 0)
    assert np.all(function < 1e-4 * exact[1])
    assert np.max(cancelled) > np.max(function)  # steps of the last place of 64
    assert differences([exact[0] + np.float32(1e-6)], [exact[0]], [plain])
    assert not differences([np.nextafter(exact[1], np.float32(9))], [exact[1]], [function])


def test_sums_may_be_taken_in_any_order() -> None:
    x = np.random.default_rng(0).normal(size=200).astype(np.float32)
    module = """func.func @main(%x: tensor<200xf32>) -> (tensor<f32>, tensor<f32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<200xf32>, tensor<f32>) -> tensor<f32>
      %m = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0]
        : (tensor<200xf32>, tensor<f32>) -> tensor<f32>
      return %s, %m : tensor<f32>, tensor<f32>
    }"""
    exact = run_reference(module, (x,))
    total, largest = rounding.bounds(module, (x,), exact, run_reference)
    assert abs(x[::-1].sum(dtype=np.float32) - exact[0]) <= total < 1e-3
    assert largest == 0


def test_a_sum_of_zero_has_any_sign() -> None:
    module = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %d = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [] x []
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %r = stablehlo.rsqrt %d : tensor<4xf32>
      return %d, %r : tensor<4xf32>, tensor<4xf32>
    }"""
    inputs = (np.array([0, 0, 0, 4], np.float32), np.ones(4, np.float32))
    exact = run_reference(module, inputs)
    total, root = rounding.bounds(module, inputs, exact, run_reference, samples=6)
    assert not differences([-exact[0][:3]], [exact[0][:3]], [total[:3]])
    assert np.isinf(root[:3]).any()  # 1 / sqrt(-0) is -inf
    assert root[3] < 1e-5


def test_products_may_underflow_by_the_least_number() -> None:
    module = """func.func @main(%x: tensor<2xf32>) -> tensor<f32> {
      %d = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
      return %d : tensor<f32>
    }"""
    inputs = (np.array([1e-22, 2e-22], np.float32),)
    exact = run_reference(module, inputs)
    (bound,) = rounding.bounds(module, inputs, exact, run_reference)
    assert 1.4e-45 <= bound < 1e-43


def test_subnormal_numbers_are_zero_to_xla() -> None:
    module = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %s = stablehlo.sign %x : tensor<2xf32>
      return %s : tensor<2xf32>
    }"""
    inputs = (np.array([1e-40, 1], np.float32),)
    exact = run_reference(module, inputs)
    (bound,) = rounding.bounds(module, inputs, exact, run_reference, all_ops=True)
    assert bound[0] >= 1
    assert bound[1] == 0


def test_a_nan_has_any_sign() -> None:
    module = """func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
      %d = stablehlo.subtract %x, %x : tensor<3xf32>
      %a = "stablehlo.sort"(%d) <{dimension = 0 : i64}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %c = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) : (tensor<3xf32>) -> tensor<3xf32>
      return %a, %x : tensor<3xf32>, tensor<3xf32>
    }"""
    inputs = (np.array([np.inf, 2, 3], np.float32),)
    exact = run_reference(module, inputs)
    ordered, untouched = rounding.bounds(module, inputs, exact, run_reference, samples=12, nans=True)
    for order in ([np.nan, 0, 0], [0, 0, np.nan]):
        assert not differences([np.array(order, np.float32)], [exact[0]], [ordered])
    assert np.isinf(ordered[[0, 2]]).all()
    assert np.all(untouched == 0)
    assert not np.any(rounding.bounds(module, inputs, exact, run_reference)[0])


# --- the journal and its page ----------------------------------------------------------------------------------------


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "fuzz.jsonl")
    for seed in range(250):
        status = {3: "difference", 7: "unsupported"}.get(seed, "same")
        journal.add(Outcome(seed, status, detail="" if status == "same" else "off by 1"))
    journal.checkpoint()
    summary = Journal(journal.path).read()
    assert (summary.programs, summary.following) == (250, 250)
    (campaign,) = summary.campaigns
    assert campaign.counts == {"same": 248, "difference": 1, "unsupported": 1}
    assert summary.unexplained == [(VERSION, 3)]
    journal.explain((VERSION, 3), "the oracle is wrong")
    assert journal.read().unexplained == []
    with pytest.raises(LoadError, match="no finding with seed 4"):
        journal.explain((VERSION, 4), "?")
    journal.path.write_text("{")
    with pytest.raises(LoadError, match="not a line of a journal"):
        journal.read()
    journal.path.write_text(json.dumps({"counts": {}}))
    with pytest.raises(LoadError, match="it has no version"):
        journal.read()


def test_a_compact_journal_says_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "fuzz.jsonl")
    for seed in range(500):
        reason = "error[unsupported]: 1 op   <text>:3:4: no such thing   help: do without"
        status = "difference" if seed in (3, 4) else "unsupported" if seed % 50 == 7 else "same"
        journal.add(Outcome(seed, status, detail="" if status == "same" else reason, reduced="module {}"))
    journal.explain((VERSION, 3), "fixed")
    before, lines = journal.read(), journal.path.read_text().count("\n")
    journal.compact()
    after = journal.read()
    assert (after.campaigns, after.others, after.explanations) == (before.campaigns, before.others, before.explanations)
    assert after.others == {(VERSION, "unsupported", "no such thing"): (10, 7)}
    assert after.unexplained == [(VERSION, 4)]
    assert journal.path.read_text().count("\n") == 5 < lines
    assert journal.path.read_text().count("module {}") == 1  # the reduced module of what is not explained


def test_the_page(tmp_path: Path) -> None:
    page, journal = tmp_path / "fuzzing.md", Journal(tmp_path / "fuzz.jsonl")
    journal.path.write_text('{"version": 0, "from": 100, "to": 120, "date": "2026-01-01", "counts": {"same": 20}}\n')
    for seed in range(50):
        journal.add(Outcome(seed, "difference" if seed == 4 else "same"))
    journal.checkpoint()
    write_page(page, journal.read())
    text = page.read_text()
    assert re.findall(r"\| (\d+-\d+) \|", text) == ["100-119", "0-49"]
    assert "Programs in all: 70." in text
    assert f"- generator {VERSION}, seed 4: difference: not explained yet" in text
    with pytest.raises(LoadError, match="no programs"):
        write_page(page, Journal(None).read())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "fuzz.jsonl"
    arguments = ["--journal", str(journal), "--count", "2", "--jax-every", "0"]
    assert cli.main([*arguments, "--print"]) == 0
    assert "seed 1: " in capsys.readouterr().out
    assert cli.main(arguments) == 0
    assert "2 programs from seed 2: " in capsys.readouterr().out
    assert cli.main(["--journal", str(journal), "--summary", str(tmp_path / "page.md")]) == 0
    assert "| 0-3 |" in (tmp_path / "page.md").read_text()
    assert cli.main(["--summary", "page.md"]) == 2
    assert cli.main(["--journal", str(journal), "--explain", "1", "why"]) == 3
    assert set(FINDINGS) == {"crash", "error", "difference"}
