"""What can be watched: prints, times, files, validity, and the report of a failure."""

import io
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from stablehlo_py.errors import InternalError, ResourceError
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.instrumentation import EVERY_PASS, Instrumentation
from stablehlo_py.passmanager.pipeline import Pipeline
from stablehlo_py.passmanager.timing import BETWEEN, Laps

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "hlo.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Fail(Pass):
    """Fails, after a change."""

    name = "fail"

    def run(self, module):
        module.body.operations[0].attributes["touched"] = ir.UnitAttr.get()
        raise ValueError("of no use")


@dataclass(frozen=True)
class Break(Pass):
    """Leaves a module that does not verify."""

    name = "break"

    def run(self, module):
        del module.body.operations[0].attributes["function_type"]


def run(module, text="cse,dce", **options):
    stream = io.StringIO()
    instrumentation = Instrumentation(stream=stream, **options)
    Pipeline.parse(text).run(module, instrumentation)
    return stream.getvalue(), instrumentation


def headers(text):
    return re.findall(r"IR (before|after) (\S+) ", text)


def test_prints_what_is_asked_for(parse):
    assert headers(run(parse(MODULE), print_before=("dce",))[0]) == [("before", "dce")]
    assert headers(run(parse(MODULE), print_after=EVERY_PASS)[0]) == [("after", "cse"), ("after", "dce")]
    assert headers(run(parse(MODULE), print_after_change=True)[0]) == [("after", "dce")]
    assert run(parse(MODULE))[0] == ""


def test_upstream_passes_are_watched_one_by_one(parse):
    text, _ = run(parse(MODULE), "sccp,canonicalize", print_after=EVERY_PASS)
    assert headers(text) == [("after", "sccp"), ("after", "canonicalize")]


def test_the_table_of_times_lists_every_pass(parse):
    laps = Laps()
    run(parse(MODULE), timing=laps)
    assert [line.split()[0] for line in laps.report().split("\n")] == ["pass", "cse", "dce", "between", "total"]


def test_the_table_of_times_accounts_for_all_time():
    began = time.perf_counter()
    laps = Laps(began)
    for what in ("imports", BETWEEN, "cse", BETWEEN):
        time.sleep(0.002)
        laps.lap(what)
    wall = time.perf_counter() - began
    assert sum(seconds for _, seconds in laps.laps) == pytest.approx(wall, abs=0.05)
    *_, between, total = laps.report().split("\n")
    assert float(total.split()[1]) == pytest.approx(1e3 * sum(seconds for _, seconds in laps.laps), abs=0.02)
    assert float(between.split()[2]) >= 4


def test_files_are_numbered_in_order(parse, tmp_path):
    _, instrumentation = run(parse(MODULE), dump_dir=tmp_path / "new")
    Pipeline.parse("symbol-dce,func.func(canonicalize)").run(parse(MODULE), instrumentation)
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["00-cse.mlir", "01-dce.mlir", "02-symbol-dce.mlir", "03-func.func_canonicalize_.mlir"]
    assert "tanh" in (tmp_path / "new" / names[0]).read_text()
    assert "tanh" not in (tmp_path / "new" / names[1]).read_text()


def test_a_directory_that_cannot_be_made_is_a_resource_error(parse, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be made"):
        run(parse(MODULE), dump_dir=tmp_path / "file" / "x")


def test_a_failure_is_reported_with_what_reproduces_it(parse, tmp_path):
    instrumentation = Instrumentation(dump_dir=tmp_path)
    with pytest.raises(InternalError) as caught:
        Pipeline([*Pipeline.parse("cse").steps, Fail()]).run(parse(MODULE), instrumentation)
    message = str(caught.value)
    assert "pass 'fail' failed: ValueError: of no use" in message
    assert "pipeline: builtin.module(cse,fail)" in message
    command = shlex.split(message.partition("reproduce: ")[2].split("\n")[0])
    # Pass files that other tests of this process have loaded are named in between.
    assert (command[0], command[-2]) == ("shlo-opt", "--pass-pipeline=fail")
    assert "touched" not in Path(command[-1]).read_text(), "the module before the pass is kept, not the one it left"
    parse(Path(command[-1]).read_text())


def test_without_a_directory_the_report_names_the_source(parse):
    with pytest.raises(
        InternalError, match=r"reproduce: shlo-opt .*--pass-pipeline='builtin.module\(fail\)' model.mlir"
    ):
        Pipeline([Fail()]).run(parse(MODULE), Instrumentation(source="model.mlir"))


def test_verify_each_names_the_pass_that_broke_the_module(parse):
    with pytest.raises(InternalError, match="pass 'break' left a module that does not verify"):
        Pipeline([Break(), *Pipeline.parse("strip-debug").steps]).run(parse(MODULE), Instrumentation(verify_each=True))
