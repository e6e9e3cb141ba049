"""Programs in the gpu dialect: MLIR takes them as they stand, and their launches become calls."""

from __future__ import annotations

import re

import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.launches import device_ir, native_host
from stablehlo_py.codegen.builder import I32, PTR, Function
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir, quiet_context
from stablehlo_py.options import Options

MODEL = """
!m = tensor<64x64xf32>
func.func @main(%x: !m, %y: !m) -> tensor<64xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (!m, !m) -> !m
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [1]
    : (!m, tensor<f32>) -> tensor<64xf32>
  return %s : tensor<64xf32>
}
"""
TARGETS = [("opencl", None), ("cuda", "sm_90"), ("rocm", "gfx942")]


def kernels_of(target: str, gpu: str | None) -> str:
    """The stage's text."""
    text = run_stages(shlo.load(MODEL), "", "kernels", Options(gpu=gpu), target=target)
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(("target", "gpu"), TARGETS)
def test_the_stage_is_a_module_that_mlir_verifies(target: str, gpu: str | None) -> None:
    with quiet_context():
        module = ir.Module.parse(kernels_of(target, gpu))
        device, *host = module.body.operations
        kernels = [
            op.attributes["sym_name"].value for op in device.regions[0].blocks[0] if "gpu.kernel" in op.attributes
        ]
        launched = re.findall(r"gpu.launch_func <%\w+ : !llvm.ptr> @kernels::@(\w+) ", "".join(map(str, host)))
    assert set(kernels) == set(launched) and len(kernels) == 2


def test_llvm_ir_is_that_of_the_kernels_alone() -> None:
    text = device_ir(kernels_of("cuda", "sm_90"))
    assert 'target triple = "nvptx64-nvidia-cuda"' in text
    assert "define ptx_kernel void @fusion_0" in text and "shlo_main" not in text


def program(*shared: int) -> str:
    """A function that launches @k once for each number of bytes of shared memory."""
    f = Function("run", [("caller", PTR), ("x", PTR), ("y", PTR)], result=I32)
    for count, size in enumerate(shared, 1):
        f.launch("@kernels::@k", 7, 32, [f.x, f.y][:count], f.caller, size)
    f.ret(f.const(0, I32))
    called = "llvm.func @shlo_launch(!llvm.ptr, !llvm.ptr, i64, i64, i64, i64, i64)"
    return f"{called}\n{f.text()}"


def test_launches_become_calls_with_one_array_of_operands() -> None:
    text = native_host(program(0, 512), ["other", "k"], [])
    assert "gpu." not in text and text.count("llvm.alloca") == 1
    with quiet_context():
        functions = ir.Module.parse(text).body.operations
        calls = [op for op in functions[1].regions[0].blocks[0] if op.operation.name == "llvm.call"]
        numbers = [[_number(value) for value in op.operands] for op in calls]
    #                   caller, operands, kernel, blocks, threads, shared, count
    assert numbers == [[None, None, 1, 7, 32, 0, 1], [None, None, 1, 7, 32, 512, 2]]


def _number(value: ir.Value) -> int | None:
    """A constant, also behind an extension."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if op.name == "llvm.zext":
        return _number(op.operands[0])
    return op.attributes["value"].value if op.name == "llvm.mlir.constant" else None


def test_a_kernel_that_is_not_there_is_a_defect_with_a_name() -> None:
    with pytest.raises(InternalError, match="kernel function '@kernels::@k' is undefined"):
        native_host(program(0), ["other"], [])
