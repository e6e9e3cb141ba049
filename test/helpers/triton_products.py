"""Products and attention as Triton kernels, for tests of these."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.gpu.kernels.attention_program import Program
from stablehlo_py.backends.gpu.kernels.product import DotProduct
from stablehlo_py.backends.gpu.target import SM_90A, GpuTarget
from stablehlo_py.backends.gpu.triton.attention import TritonAttention
from stablehlo_py.backends.gpu.triton.attention import kernels as kernels_of_attention
from stablehlo_py.backends.gpu.triton.product import TritonProduct, kernels
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.mlir import ir

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
RANDOM = np.random.default_rng(0)
BF16, F16 = ml_dtypes.bfloat16, np.float16
_INTERPRET = Path(__file__).with_name("interpret_triton.py")


def whole(*sizes: int, of: type = np.float32) -> np.ndarray:
    """Small whole numbers: sums of their products are exact."""
    return RANDOM.integers(-3, 4, sizes).astype(of)


def floats(*sizes: int, of: type = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(sizes).astype(of)


@contextmanager
def products(
    function: Callable[..., jax.Array], arrays: Sequence[np.ndarray], target: GpuTarget = SM_90A
) -> Iterator[list[TritonProduct]]:
    """The kernels of a function whose only fusion is a product."""
    with scheduled(function, arrays) as module:
        (only,) = fusions(module)
        yield kernels(DotProduct(Fusion.read(only), target))


@contextmanager
def attentions(
    function: Callable[..., object], arrays: Sequence[np.ndarray], target: GpuTarget = SM_90A
) -> Iterator[tuple[list[TritonAttention], list[np.ndarray]]]:
    """The kernels of a function's attention, and its arguments, which are some of the function's, or reshapes of
    these."""
    with scheduled(function, arrays) as module:
        (attention,) = (each for each in fusions(module) if each.attributes["hlo.fusion"].value == "attention")
        operations = main_function(module).regions[0].blocks[0].operations
        (call,) = (op for op in operations if _callee(op) == attention.attributes["sym_name"].value)
        given = [_given(operand, arrays) for operand in call.operands]
        yield kernels_of_attention(Program(Fusion.read(attention), target)), given


def _callee(op: ir.OpView) -> str:
    return op.attributes["callee"].value if "callee" in op.attributes else ""


def _given(value: ir.Value, arrays: Sequence[np.ndarray]) -> np.ndarray:
    if isinstance(value.owner, ir.Block):
        return np.ascontiguousarray(arrays[ir.BlockArgument(value).arg_number])
    assert value.owner.name == "hlo.reshape", value.owner
    return _given(value.owner.operands[0], arrays)


@contextmanager
def scheduled(function: Callable[..., object], arrays: Sequence[np.ndarray]) -> Iterator[ir.Module]:
    """The module of a function."""
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays]
    module = run_stages(shlo.load(jax.jit(function).lower(*shapes).as_text()), "", "scheduled", target="cuda")
    with module.context, ir.Location.unknown():
        yield module


def interpreted(
    kernel: TritonProduct | TritonAttention, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray], at: Path
) -> list[np.ndarray]:
    """What a kernel computes, in Triton's interpreter."""
    source, given, found = at / "kernel.py", at / "arrays.npz", at / "results.npz"
    source.write_text(kernel.source())
    named = [(f"in{number}", each) for number, each in enumerate(arrays)]
    named += [(f"out{number}", each) for number, each in enumerate(outputs)]
    np.savez(given, **{f"{name}:{_type(each)}": _bits(each) for name, each in named})
    command = [sys.executable, _INTERPRET, source, kernel.symbol, kernel.blocks, given, found]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = np.load(found)
    return [each.view(like.dtype) for each, like in zip((loaded[name] for name in loaded), outputs, strict=True)]


def _type(array: np.ndarray) -> str:
    names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int8": "i8", "int32": "i32", "bool": "i8"}
    return names[array.dtype.name]


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view({np.dtype(BF16): np.uint16, np.dtype(bool): np.int8}.get(array.dtype, array.dtype))
