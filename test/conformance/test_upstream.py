"""The runner of StableHLO's own tests, on tests of the same form."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # worker processes import the modules from there, too
import run
import upstream

INTERPRET = """// RUN: stablehlo-translate --interpret -split-input-file %s

func.func @abs() {
  %operand = stablehlo.constant dense<[-2, 0, 2]> : tensor<3xi64>
  %result = stablehlo.abs %operand : tensor<3xi64>
  check.expect_eq_const %result, dense<[2, 0,
                                        2]> :  tensor<3xi64>
  func.return
}

// -----

func.func @wrong() {
  %operand = stablehlo.constant dense<[-2.0, 3.0]> : tensor<2xf64>
  %result = stablehlo.abs %operand : tensor<2xf64>
  check.expect_almost_eq_const %result, dense<[2.0, 4.0]> : tensor<2xf64>
  func.return
}
"""
MATH = """// RUN: stablehlo-opt --chlo-legalize-to-stablehlo %s | stablehlo-translate --interpret
module @square_float32 {
  func.func private @samples() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @expected() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[4.0, 9.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main() {
    %0 = call @samples() : () -> tensor<2xf32>
    %1 = "chlo.square"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = call @expected() : () -> tensor<2xf32>
    check.expect_close %1, %2, max_ulp_difference = 3 : tensor<2xf32>, tensor<2xf32>
    func.return
  }
}
"""


def test_a_folder_of_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, text in (("interpret", INTERPRET), ("math", MATH)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.mlir").write_text(text)
    assert upstream.main([str(tmp_path), "--workers", "1"]) == 1
    written = capsys.readouterr().out
    assert "mismatch: interpret/one#1: almost_eq: 1 of 2 elements off" in written
    assert "2 passed, 1 failed, 0 skipped" in written
    assert upstream.main([str(tmp_path), "--filter", "none"]) == 2


def test_a_pattern_excuses_what_is_refused_and_no_answer() -> None:
    refused, wrong = (run.Result("interpret/probe#1", "probe", status, "", 0.0) for status in ("error", "mismatch"))
    assert upstream.is_excepted(refused, {"interpret/probe*": "why"})
    assert not upstream.is_excepted(wrong, {"interpret/probe*": "why"})
    assert run.load_exceptions(upstream.EXCEPTIONS)
