"""The runner itself: names, splitting into processes, and what a crash or a hang of an engine becomes."""

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("run", Path(__file__).with_name("run.py"))
run = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = run  # pickle finds classes by their module's name
_spec.loader.exec_module(run)

MODULE = """
func.func @main() -> tensor<2xf32> {
  %0 = call @inputs() : () -> tensor<2xf32>
  %1 = call @expected() : () -> tensor<2xf32>
  %2 = stablehlo.add %0, %0 : tensor<2xf32>
  stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return %2 : tensor<2xf32>
}
func.func private @inputs() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @expected() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""

ENGINE = """
import os, time

def make():
    calls = []
    def engine(module, arguments):
        calls.append(module)
        if len(calls) == 2:
            raise ValueError("cannot")
        if len(calls) == 3:
            os.abort()
        if "hang" in module:
            time.sleep(60)
        return [arguments[0] + arguments[0]]
    return engine
"""


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("scatter_add_float32_3_5_4_float32_3_2_4", "scatter_add"),
        ("sign_", "sign"),
        ("iota_2x32_shape__100_100", "iota_2x32_shape"),
        ("quantized/cbrt_shape_float32_20_20_qi8", "quantized/cbrt"),
        ("quantized/multiply_qi8#3", "quantized/multiply"),
        ("quantized/conv_general_dilated_padding_lhs_float32_2_3", "quantized/conv_general_dilated"),
    ],
)
def test_the_operation_is_read_from_the_name(name, operation):
    assert run.operation_of(name) == operation


def test_an_error_a_crash_and_a_hang_are_results(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)  # worker processes import `run` from there
    (tmp_path / "engine.py").write_text(ENGINE)
    folder = tmp_path / "testdata"
    folder.mkdir()
    for number in range(3):
        (folder / f"add_{number}.mlir").write_text(MODULE)
    (folder / "hang.mlir").write_text(f"module @hang {{ {MODULE} }}")
    jobs = list(run.find_jobs(tmp_path, "*", 1))
    results = {r.case: r for r in run.run(jobs, f"{tmp_path / 'engine.py'}:make", workers=1, timeout=2)}
    # The engine fails at its second call and aborts at its third; a new worker starts counting again.
    statuses = [results[name].status for name in ("add_0", "add_1", "add_2", "hang")]
    assert statuses == ["passed", "error", "crash", "timeout"]


def test_a_run_goes_on_where_it_was_ended(tmp_path, capsys):
    output, engine = tmp_path / "results.jsonl", tmp_path / "engine.py"
    engine.write_text(ENGINE.replace("if len(calls) == 2:", "if False:").replace("if len(calls) == 3:", "if False:"))
    for name in "abcd":
        (tmp_path / f"{name}.mlir").write_text(MODULE)
    arguments = [str(tmp_path), "--engine", f"{engine}:make", "--workers", "1", "--output", str(output)]
    assert run.main(arguments) == 0
    first = output.read_text().splitlines(keepends=True)
    assert len(first) == 4
    kept = first[1].replace('"passed"', '"error"')  # it is not run again
    output.write_text(first[0] + kept + first[2][:20])
    assert run.main([*arguments, "--resume"]) == 1
    again = output.read_text().splitlines(keepends=True)
    assert again[:2] == [first[0], kept] and len(again) == 4
    assert "3 passed, 1 failed" in capsys.readouterr().out
    with pytest.raises(ValueError, match="of another engine"):
        run.main([*arguments, "--resume", "--engine", "shlo"])


def test_dynamic_cases_are_left_out(tmp_path):
    (tmp_path / "dynamic").mkdir()
    (tmp_path / "dynamic" / "add_dynamic.mlir").write_text(MODULE)
    (tmp_path / "add_float32.mlir").write_text(MODULE)
    assert [job.name for job in run.find_jobs(tmp_path, "*", 1)] == ["add_float32"]


def test_an_exception_needs_a_reason(tmp_path):
    path = tmp_path / "exceptions.txt"
    path.write_text("# comment\nabs_float32: because\n")
    assert run.load_exceptions(path) == {"abs_float32": "because"}
    path.write_text("abs_float32\n")
    with pytest.raises(ValueError, match="case: reason"):
        run.load_exceptions(path)


def test_a_pattern_excuses_only_what_is_unsupported():
    exceptions = {"quantized/*": "not implemented", "abs_float32": "because"}

    def excepted(case: str, status: str) -> bool:
        return run.is_excepted(run.Result(case, "abs", status, "", 0.0), exceptions)

    assert excepted("quantized/abs_qi8", "unsupported")
    assert excepted("abs_float32", "mismatch")
    assert not excepted("quantized/abs_qi8", "mismatch")
    assert not excepted("quantized/abs_qi8", "crash")
    assert not excepted("abs_float64", "unsupported")


def test_missing_data_says_where_it_can_be_had(capsys, tmp_path):
    assert run.main([str(tmp_path / "nothing")]) == 2
    assert "openxla/stablehlo" in capsys.readouterr().err
