"""Attention as Triton kernels: their sources executed by Triton's interpreter, as machine code, and in programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from triton_products import BF16, F16, RANDOM, attentions, floats, interpreted, needs_triton

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.target import SM_80, SM_90A, GpuTarget
from stablehlo_py.backends.gpu.triton import attention as attention_module
from stablehlo_py.backends.gpu.triton import build as build_module
from stablehlo_py.backends.gpu.triton import kernel as kernel_module
from stablehlo_py.backends.gpu.triton.build import build
from stablehlo_py.backends.gpu.triton.worker import Built, Request
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.runtime.executable import Executable

Work = Callable[..., jax.Array]
# Of results of about 1. The interpreter's powers of 2 are exact.
TOLERANCES = {"float32": 3e-6, "bfloat16": 2e-2, "float16": 4e-3}


def plain(work: Work = lambda x: x) -> Callable[..., jax.Array]:
    """Attention with such work on its scores, of [batch, queries or keys, depth]."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array, *others: jax.Array) -> jax.Array:
        scores = work(jnp.einsum("bqd,bkd->bqk", q, k), *others)
        return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores, axis=-1), v)

    return function


def of_heads(work: Work) -> Callable[..., jax.Array]:
    """The same of [batch, queries or keys, heads, depth]."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array, *others: jax.Array) -> jax.Array:
        scores = work(jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.25, *others)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)

    return function


def guarded(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """As those write it who know that rows may be empty."""
    scores = jnp.where(mask, -jnp.inf, jnp.einsum("bqd,bkd->bqk", q, k))
    top = scores.max(-1, keepdims=True)
    weights = jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0))
    return jnp.einsum("bqk,bkd->bqd", weights, v) / jnp.maximum(weights.sum(-1, keepdims=True), 1e-9)


def turned(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """With the batch between the other dimensions, and a result that is turned."""
    weights = jax.nn.softmax(jnp.einsum("qbd,kbd->bqk", q, k), axis=-1)
    return jnp.einsum("bqk,kbd->qbd", weights, v)


def of(*shapes: Sequence[int], dtype: Any = np.float32) -> list[np.ndarray]:
    return [floats(*shape, of=dtype) for shape in shapes]


SMALL = [(3, 33, 24), (3, 50, 24), (3, 50, 40)]
HEADS, FEWER = [(2, 40, 4, 16), (2, 70, 4, 16), (2, 70, 4, 16)], [(2, 40, 4, 16), (2, 70, 2, 16), (2, 70, 2, 16)]
EMPTY = np.zeros((33, 50), bool)
EMPTY[5], EMPTY[7, :20] = True, True
UNDEFINED = floats(*SMALL[0])
UNDEFINED[0, 3], UNDEFINED[1, 2, 1] = np.inf, np.nan


def jax_attention(**options: Any) -> Callable[..., jax.Array]:
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options)


CASES: dict[str, tuple[Callable[..., jax.Array], list[np.ndarray]]] = {
    "f32": (plain(), of(*SMALL)),
    "bf16": (jax_attention(), of(*HEADS, dtype=BF16)),
    "f16": (plain(lambda x: x * 0.5), of(*SMALL, dtype=F16)),
    "whole tiles": (plain(), of((2, 64, 32), (2, 128, 32), (2, 128, 64))),
    "one query": (plain(), of((2, 1, 16), (2, 40, 16), (2, 40, 16))),
    "causal": (jax_attention(is_causal=True), of(*HEADS, dtype=BF16)),
    "fewer heads of keys": (jax_attention(is_causal=True), of(*FEWER, dtype=BF16)),
    "bias": (of_heads(lambda x, bias: x + bias), [*of(*HEADS), floats(1, 4, 40, 70)]),
    "mask": (of_heads(lambda x, mask: jnp.where(mask, x, -1e30)), [*of(*HEADS), RANDOM.random((2, 1, 40, 70)) < 0.7]),
    "rounded": (plain(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32)), of(*SMALL)),
    "large scores": (plain(lambda x: x * 900), of(*SMALL)),
    "undefined scores": (plain(), [UNDEFINED, *of(*SMALL[1:])]),
    "empty rows": (plain(lambda x, mask: jnp.where(mask, -jnp.inf, x)), [*of(*SMALL), EMPTY]),
    "guarded rows": (guarded, [*of(*SMALL), EMPTY]),
    "turned": (turned, of((33, 3, 24), (50, 3, 24), (50, 3, 24), dtype=BF16)),
    "turned result": (lambda *a: jnp.transpose(plain()(*a), (1, 0, 2)).reshape(33, 120), of(*SMALL)),
}


@needs_triton
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str, tmp_path: Path) -> None:
    """What the interpreter computes is what the CPU backend does, NaN where that has NaN."""
    function, arrays = CASES[name]
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays)).as_text()
    (wanted,) = shlo.compile(text, options=shlo.Options(cache_dir=None, threads=1))(*arrays)
    with attentions(function, arrays) as ((*_, kernel), given):
        (found,) = interpreted(kernel, given, [np.full(wanted.shape, 77, wanted.dtype)], tmp_path)
    tolerance = TOLERANCES[str(wanted.dtype)]
    np.testing.assert_allclose(found.astype("f8"), wanted.astype("f8"), rtol=tolerance, atol=tolerance)


@needs_triton
def test_what_gradients_need(tmp_path: Path) -> None:
    """The maximum and the sum of each row are stored, too."""
    arrays = of(*SMALL)

    def function(*operands: jax.Array) -> Any:
        return jax.value_and_grad(lambda *each: jnp.sum(plain()(*each) ** 2), argnums=(0, 1, 2))(*operands)

    with attentions(function, arrays) as ((kernel, *_), given):
        outputs = [np.full([int(n) for n in each.type.shape], 77, np.float32) for each in kernel.p.fusion.outputs]
        found = interpreted(kernel, given, outputs, tmp_path)
    scores = np.einsum("bqd,bkd->bqk", *(each.astype("f8") for each in arrays[:2]))
    top = scores.max(-1)
    total = np.exp(scores - top[..., None]).sum(-1)
    wanted = {(3, 33, 40): plain()(*arrays), (3, 33): None}
    assert sorted(each.shape for each in found) == [(3, 33), (3, 33), (3, 33, 40)]
    for each in found:
        if each.ndim == 3:
            np.testing.assert_allclose(each, wanted[each.shape], rtol=1e-4, atol=1e-5)
        else:
            assert any(np.allclose(each, one, rtol=1e-5) for one in (top, total))


@needs_triton
def test_the_exponential(tmp_path: Path) -> None:
    """Next to f64. As exact as f32 is where it is to be, or off by a rounding of the exponent; the machine's estimate
    of a power of 2 adds 2^-22, which the interpreter's has not."""
    numbers = np.linspace(-87, 0, 1 << 12, dtype=np.float32)
    skeleton = (Path(attention_module.__file__).with_name("attention_skeleton.py")).read_text()
    bodies = {exact: f"tl.store(out0 + at, exponential(tl.load(in0 + at), {exact}))" for exact in (True, False)}
    errors = {}
    for exact, body in bodies.items():
        source = f"{skeleton}\n\n@triton.jit\ndef one(in0, out0):\n    at = tl.arange(0, 4096)\n    {body}\n"
        kernel = type("Kernel", (), {"source": lambda self, source=source: source, "symbol": "one", "blocks": 1})()
        (found,) = interpreted(kernel, [numbers], [np.zeros_like(numbers)], tmp_path)
        wanted = np.exp(numbers.astype("f8"))
        errors[exact] = float(np.max(np.abs(found / wanted - 1)))
    assert errors[True] < 2.0**-22.4
    assert 2.0**-22 < errors[False] < 87 * 2.0**-24


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (plain(lambda x: 5 * jnp.tanh(x / 5)), of(*SMALL)),  # Triton's is another one
        (plain(), of((3, 33, 300), (3, 50, 300), (3, 50, 40))),  # registers
        (plain(lambda x: x.astype(jnp.float32)), of(*SMALL, dtype=BF16)),  # values of another type than weights
    ],
)
def test_what_has_no_triton(function: Callable[..., jax.Array], arrays: list[np.ndarray]) -> None:
    with attentions(function, arrays) as (kernels, _):
        assert not kernels or "tanh" not in kernels[0].source()


def test_sources() -> None:
    """A mask by indices is computed; checks are there where a tile goes beyond its array."""
    with attentions(*CASES["causal"]) as ((kernel, *_), _):
        source = kernel.source()
    score = source.partition("def score(")[2].partition("@triton.jit")[0]
    assert "rows[:, None]" in score and "keys[None, :]" in score and "tl.load" not in score
    assert "div_rn" not in source.partition("def weigh(")[2].partition("@triton.jit")[0]  # divisions are of results
    with attentions(*CASES["whole tiles"]) as ((*_, kernel), _):
        own = kernel.source().partition("def queries(")[2]
    assert "mask=" not in own


@needs_triton
@pytest.mark.parametrize(
    ("target", "of_type", "unit"),
    [
        (SM_80, BF16, r"mma\.sync\.aligned\.m16n8k16\S*\.f32\.bf16\.bf16\.f32"),
        (SM_90A, F16, r"wgmma\.mma_async\S*\.f32\.f16\.f16"),
        (SM_90A, np.float32, r"fma\.rn\.f32"),
    ],
)
def test_machine_code(target: GpuTarget, of_type: Any, unit: str) -> None:
    function = plain(lambda x: x * 0.125)
    with attentions(function, of(*[(8, 256, 64)] * 3, dtype=of_type), target) as ((kernel, *_), _):
        made, built = kernel.emit(), build(kernel.request)
    assert re.search(unit, built.ptx) and "ex2.approx" in built.ptx
    assert made.module is not None and made.module.binary == built.cubin and built.cubin.startswith(b"\x7fELF")
    (launch,) = made.launches
    assert launch.blocks == 8 * 256 // kernel.tiling.rows and launch.threads == 32 * kernel.tiling.warps
    assert built.scratch_bytes == 0 and launch.shared_bytes == built.shared_bytes


def test_large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Triton takes of shared memory is known when it has compiled."""
    wanted = Built(b"", "", SM_80.shared_bytes + 1, 128, 0)
    monkeypatch.setattr(kernel_module, "build", lambda request: wanted)
    with (
        attentions(*CASES["bf16"], SM_80) as ((kernel, *_), _),
        pytest.raises(UnsupportedError, match=rf"the plan '{kernel.plan}' of 'fusion_0' takes \d+ bytes of shared"),
    ):
        kernel.emit()


def test_a_program(cuda_device: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a plan: what is launched, and how."""

    def answer(request: Request) -> Built:
        return Built(request.symbol.encode(), "", 4096, request.warps * 32, 0)

    monkeypatch.setattr(kernel_module, "build", answer)
    monkeypatch.setattr(build_module, "require_triton", lambda: "3.9.0")
    function, arrays = CASES["causal"]
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays)).as_text()
    own = shlo.Options(gpu="sm_90a", cache_dir=None)
    said = json.loads(compile_program(text, target="cuda", options=own).stages["plans"])
    assert [each["plan"] for each in said["kernels"]] == ["matrix 64 queries, 64 keys, 128 threads"]
    with attentions(function, arrays) as (kernels, _):
        plans = [kernel.plan for kernel in kernels]
    assert len(set(plans)) == len(plans) > 1
    said["kernels"][0]["plan"] = plans[-1]
    file = tmp_path / "plans.json"
    file.write_text(json.dumps(said))
    program = compile_program(text, target="cuda", options=replace(own, generators=("triton",), plans=file))
    assert program.modules == program.kernels
    source = program.stages["triton"]
    assert isinstance(source, str) and "def weigh(" in source
    assert program.objects[1:] == [b"", program.modules[0].encode()]
    Executable(program)(*arrays)
    ((name, (blocks, threads, shared, _, parameters)),) = cuda_device.launches()
    rows, keys, warps_threads = (int(each) for each in re.findall(r"\d+", plans[-1])[:3])
    assert name == program.modules[0] and keys
    assert (blocks, threads, shared) == (2 * 4 * -(-40 // rows), warps_threads, 4096)
    assert parameters == 8 * (3 + 1 + 1 + 1)
