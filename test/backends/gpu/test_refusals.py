"""What has no kernel on a GPU is refused by name, with its place and what to do, when kernels are asked for as when a
model is compiled."""

from __future__ import annotations

import pytest

import stablehlo_py as shlo
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.options import Options

ALL_REDUCE = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
INFEED = """func.func @main(%t: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
  %0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0, %0#1 : tensor<4xf32>, !stablehlo.token
}"""
CUSTOM_CALL = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mine(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
CASES = {
    "all_reduce": (ALL_REDUCE, "hlo.exchange", "it would wait for other processes, or for the host", 2),
    "infeed": (INFEED, "hlo.infeed", "it would wait for other processes, or for the host", 1),
    "custom_call": (CUSTOM_CALL, "stablehlo.custom_call", "the target 'mine' is not known to the GPU backend", 1),
}


@pytest.mark.parametrize("stage", ["kernels", "llvm", "program"])
@pytest.mark.parametrize("name", CASES)
def test_ops_without_a_kernel(name, stage) -> None:
    text, op, why, replicas = CASES[name]
    options = Options(num_replicas=replicas)
    with pytest.raises(UnsupportedError) as caught:
        if stage == "program":
            shlo.compile(text, target="opencl", options=options)
        else:
            run_stages(load(text), "", stage, options, target="opencl")
    problems = caught.value.problems
    assert "no GPU kernel" in str(caught.value)
    assert {problem.op for problem in problems} == {op}
    for problem in problems:
        assert why in problem.reason
        assert problem.location is not None and problem.location.startswith("<text>:2:")
        remedies = "compile the model for the processor: target='cpu'", "bind it with stablehlo_py.register_custom_call"
        assert problem.remedy == remedies[op == "stablehlo.custom_call"]


@pytest.mark.parametrize("stage", ["kernels", "llvm"])
def test_kernels_for_all_shapes(stage) -> None:
    """A kernel for some other shape would be a wrong one."""
    text = "func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n  return %x : tensor<?x3xf32>\n}"
    text = text.replace("  return %x", "  %0 = stablehlo.add %x, %x : tensor<?x3xf32>\n  return %0")
    with pytest.raises(UnsupportedError, match="no kernels for all shapes on opencl") as caught:
        run_stages(load(text), "", stage, target="opencl")
    assert "Options(dynamic='specialize')" in str(caught.value)
