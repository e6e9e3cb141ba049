"""Products as Triton kernels, for tests of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import jax
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.gpu.kernels.product import DotProduct
from stablehlo_py.backends.gpu.target import SM_90A, GpuTarget
from stablehlo_py.backends.gpu.triton.product import TritonProduct, kernels
from stablehlo_py.compiler import run_stages
from stablehlo_py.mlir import ir

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
RANDOM = np.random.default_rng(0)
BF16, F16 = ml_dtypes.bfloat16, np.float16


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
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays]
    module = run_stages(shlo.load(jax.jit(function).lower(*shapes).as_text()), "", "scheduled", target="cuda")
    with module.context, ir.Location.unknown():
        (only,) = fusions(module)
        yield kernels(DotProduct(Fusion.read(only), target))
