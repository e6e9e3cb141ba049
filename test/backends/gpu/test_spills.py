"""Kernels of attention and of its gradient have enough registers, whatever the heads: nothing is spilled to memory."""

from __future__ import annotations

import re

import jax
import pytest
from masked_attention import with_gradients

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.ptx import find_tool


def causal(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.every(3)
@pytest.mark.skipif(not find_tool("ptxas"), reason="ptxas is not installed")
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("columns", [64, 80, 128])
def test_nothing_is_spilled(columns: int, gpu: str) -> None:
    arrays = [jax.ShapeDtypeStruct((2, 2048, 4, columns), "bfloat16")] * 4
    text = jax.jit(with_gradients(causal)).lower(*arrays).as_text()
    program = compile_program(text, target="cuda", options=shlo.Options(gpu=gpu, cache_dir=None))
    assert "1 attention" in program.report and "3 scores" in program.report
    assert re.search(r"registers of a thread: at most \d+; spills: none", program.report)


@pytest.mark.skipif(not find_tool("ptxas"), reason="ptxas is not installed")
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
def test_nothing_is_spilled_for_wide_heads(gpu: str) -> None:
    arrays = [jax.ShapeDtypeStruct((2, 2048, 4, 256), "bfloat16")] * 3
    program = compile_program(
        jax.jit(causal).lower(*arrays).as_text(), target="cuda", options=shlo.Options(gpu=gpu, cache_dir=None)
    )
    assert "1 attention" in program.report
    assert re.search(r"registers of a thread: at most \d+; spills: none", program.report)
