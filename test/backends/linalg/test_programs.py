"""Programs of target `linalg`, compared with those of the CPU backend: every family of ops and of elements."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.element_types import ELEMENT_TYPES

RNG = np.random.default_rng(5)
OPTIONS = shlo.Options(threads=1, cache_dir=None)
bf16, f8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def random(*sizes: int, dtype: object = np.float32) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.integers(0, 2, sizes).astype(bool)
    if dtype.kind in "iu" or "int" in dtype.name:
        return RNG.integers(0 if dtype.name.startswith("u") else -6, 7, sizes).astype(dtype)
    if dtype.kind == "c":
        return (RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)).astype(dtype)
    return RNG.standard_normal(sizes).astype(dtype)


def positive(n: int, dtype: object = np.float32) -> np.ndarray:
    a = random(2, n, n, dtype=dtype)
    return (a @ a.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def convolution(x: jax.Array, w: jax.Array, **options: object) -> jax.Array:
    options = {"window_strides": (1, 1), "padding": ((1, 2), (0, 1)), **options}
    return lax.conv_general_dilated(x, w, **options)


def pooled(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 1)))


def loop(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 7, lambda i, a: jnp.sin(a) + a[i % 5], x)


def branches(number: jax.Array, x: jax.Array) -> jax.Array:
    return lax.switch(number, [jnp.tanh, lambda a: a + 1, lambda a: a * a], x)


i4, u4 = ml_dtypes.int4, ml_dtypes.uint4
CASES: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...]]] = {
    "elementwise": (lambda x, y: jnp.tanh(x) * jnp.exp(y) + lax.rsqrt(jnp.abs(x)), (random(3, 4), random(3, 4))),
    "f16": (lambda x: jnp.exp(x) / 3, (random(9, dtype=np.float16),)),
    "bf16": (lambda x: jnp.exp(x) / 3, (random(9, dtype=bf16),)),
    "f8": (lambda x: x * x + x, (random(9, dtype=f8),)),
    "from f8": (lambda x: x.astype(np.float32), (np.arange(256, dtype=np.uint8).view(f8),)),
    "i4": (lambda x, y: x * y + x, (random(9, dtype=i4), random(9, dtype=i4))),
    "ui4": (lambda x, y: x // y, (random(9, dtype=u4), np.ones(9, u4))),
    "division": (lambda x, y: (lax.div(x, y), lax.rem(x, y)), (random(40, dtype=np.int32), random(40, dtype=np.int32))),
    "unsigned": (lambda x: (x >> 1, lax.max(x, x * 0 + 99), x.astype(np.float32)), (np.arange(256).astype(np.uint8),)),
    "complex": (lambda x: (jnp.exp(x), jnp.log(x), x * x / (x + 1), jnp.tanh(x)), (random(12, dtype=np.complex64),)),
    "special functions": (lambda x: (lax.lgamma(x), lax.digamma(x), lax.erf_inv(x / 9), lax.cbrt(x)), (random(9),)),
    "huge angles": (lambda x: jnp.cos(lax.complex(x, x * 0)), (np.float32([1e5, 1e20, 3e38]),)),
    "logic": (lambda x, y: (x & ~y, x ^ y, x.all(), y.any()), (random(7, dtype=bool), random(7, dtype=bool))),
    "bits": (lambda x: lax.bitcast_convert_type(x, np.int16), (random(3, 2),)),
    "joined bits": (lambda x: lax.bitcast_convert_type(x, np.float32), (random(3, 2, dtype=np.int16),)),
    "shapes": (lambda x: jnp.concatenate([x.T.reshape(3, 8)[:, ::3], x[1:4, ::-1][:, :3]], 1), (random(4, 6),)),
    "ranks": (lambda x: (x.reshape(1, 1), x[None]), (random(),)),
    "pad": (lambda x: lax.pad(x, 7.0, ((1, 2, 0), (0, 1, 0))), (random(3, 4),)),
    "pad with holes": (lambda x: lax.pad(x, 7.0, ((-1, 2, 2), (1, -2, 0))), (random(3, 4),)),
    "nothing": (lambda x: (jnp.pad(x, 1), x.sum(), x.sum(1), jnp.sort(x)), (random(3, 0),)),
    "iota": (lambda: (lax.broadcasted_iota(np.int32, (2, 3), 1), jnp.arange(5.0)), ()),
    "gather": (lambda x, i: jnp.take(x, i, 1, mode="clip"), (random(3, 5), np.int32([[4, 0], [-3, 9]]))),
    "dynamic slices": (
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, i), (2, 3)), (i + 1, 0)),
        (random(5, 6), np.int32(3)),
    ),
    "dot": (lambda x, y: jnp.einsum("bij,bkj->ibk", x, y), (random(2, 3, 4), random(2, 5, 4))),
    "integer dot": (
        lambda x, y: lax.dot(x, y, preferred_element_type=np.int32),
        (random(3, 4, dtype=np.int8), random(4, 5, dtype=np.int8)),
    ),
    "complex dot": (lambda x: x @ x.T, (random(3, 4, dtype=np.complex64),)),
    "long bf16 dot": (lambda x, y: x @ y, (random(3, 600, dtype=bf16), random(600, 2, dtype=bf16))),
    "convolution": (convolution, (random(2, 3, 7, 6), random(4, 3, 3, 2))),
    "strides": (
        partial(convolution, window_strides=(2, 3), rhs_dilation=(2, 1)),
        (random(2, 3, 9, 9), random(4, 3, 3, 2)),
    ),
    "groups": (partial(convolution, feature_group_count=2), (random(2, 4, 7, 6), random(6, 2, 3, 2))),
    "depthwise": (partial(convolution, feature_group_count=4), (random(2, 4, 7, 6), random(4, 1, 3, 2))),
    "batch groups": (partial(convolution, batch_group_count=2), (random(2, 3, 7, 6), random(4, 3, 3, 2))),
    "transposed": (partial(convolution, lhs_dilation=(2, 3)), (random(2, 3, 5, 4), random(4, 3, 3, 2))),
    "reductions": (lambda x: (x.sum(1), x.max((0, 2)), x.prod(), jnp.argmax(x, 1)), (random(3, 4, 5),)),
    "long f16 sum": (lambda x: x.sum(dtype=np.float16), (np.ones(5000, np.float16),)),
    "windows": (pooled, (random(2, 7, 6),)),
    "sums of windows": (lambda x: jnp.cumsum(x, 1), (random(3, 6),)),
    "gradient of windows": (jax.grad(lambda x: (pooled(x) ** 2).sum()), (random(2, 7, 6),)),
    "sort": (lambda x, y: lax.sort((x, y), dimension=0, num_keys=1), (random(9, 4, dtype=np.int32), random(9, 4))),
    "sort of NaN": (jnp.sort, (np.float32([[3, np.nan, -0.0, 0.0, -np.inf], [1, 2, 1, np.inf, -np.nan]]),)),
    "top_k": (lambda x: lax.top_k(x, 3), (random(4, 17),)),
    "scatter": (lambda x, i, u: x.at[i].add(u), (random(6, 3), np.int32([2, -1, 2, 9]), random(4, 3))),
    "scatter of windows": (
        lambda x, i, u: x.at[i].multiply(u, mode="drop"),
        (random(6, 3), np.int32([2, 5, 2, 9]), random(4, 3)),
    ),
    "fft": (lambda x: (jnp.fft.fft2(x), jnp.fft.ifft(x)), (random(3, 6, 5, dtype=np.complex64),)),
    "real fft": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2, (6, 5)), (random(3, 6, 5),)),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), (positive(5),)),
    "complex cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), (positive(4, np.complex64),)),
    "random bits": (lambda k: lax.rng_bit_generator(k, (3, 5), np.uint32), (np.uint32([1, 2, 3, 2**32 - 1]),)),
    "narrow random bits": (lambda k: lax.rng_bit_generator(k, (9,), np.uint8), (np.uint32([1, 2, 3, 4]),)),
    "threefry": (lambda: jax.random.normal(jax.random.key(3), (5, 3)), ()),
    "loop": (loop, (random(5),)),
    "nested loops": (lambda x: lax.fori_loop(0, 3, lambda i, a: loop(a) + i, x), (random(5),)),
    "branches": (branches, (np.int32(2), random(5))),
    "out of range branch": (branches, (np.int32(-4), random(5))),
    "constants": (lambda x: x + np.arange(12, dtype=np.float32).reshape(3, 4) + np.array([True]), (random(3, 4),)),
}  # fmt: skip
for _left in (True, False):
    for _lower in (True, False):
        for _how in ({}, {"transpose_a": True}, {"transpose_a": True, "conjugate_a": True}, {"unit_diagonal": True}):
            CASES[f"solve {_left} {_lower} {_how}"] = (
                partial(lax.linalg.triangular_solve, left_side=_left, lower=_lower, **_how),
                (positive(3, np.complex64), random(2, *((3, 4) if _left else (4, 3)), dtype=np.complex64)),
            )


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_cpu(name: str) -> None:
    function, arguments = CASES[name]
    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments)
    found, expected = (
        shlo.compile(exported, target=target, options=OPTIONS)(*arguments) for target in ("linalg", "cpu")
    )
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype.kind in "biu" or "int" in a.dtype.name:
            np.testing.assert_array_equal(a, b)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            tolerance = {1: 0.07, 2: 0.01}.get(a.dtype.itemsize, 2e-5)
            np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_element_types(name: str) -> None:
    """Every element type goes in and out, moves, is a constant, and is chosen by a comparison."""
    constant = "dense<(1.0, 0.0)>" if "complex" in name else "dense<true>" if name == "i1" else "dense<1.0>"
    constant = "dense<1>" if name[0] in "iu" and name != "i1" else constant
    module = f"""func.func @main(%x: tensor<3x4x{name}>, %i: tensor<i32>) -> (tensor<4x5x{name}>, tensor<0x{name}>) {{
      %one = stablehlo.constant {constant} : tensor<{name}>
      %none = stablehlo.constant dense<> : tensor<0x{name}>
      %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<{name}>) -> tensor<3x4x{name}>
      %0 = stablehlo.compare EQ, %x, %ones : (tensor<3x4x{name}>, tensor<3x4x{name}>) -> tensor<3x4xi1>
      %1 = stablehlo.reverse %x, dims = [1] : tensor<3x4x{name}>
      %2 = stablehlo.select %0, %1, %x : tensor<3x4xi1>, tensor<3x4x{name}>
      %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<3x4x{name}>) -> tensor<4x3x{name}>
      %4 = stablehlo.dynamic_slice %x, %i, %i, sizes = [2, 4] : (tensor<3x4x{name}>, tensor<i32>, tensor<i32>) -> tensor<2x4x{name}>
      %5 = stablehlo.reshape %4 : (tensor<2x4x{name}>) -> tensor<4x2x{name}>
      %6 = stablehlo.concatenate %3, %5, dim = 1 : (tensor<4x3x{name}>, tensor<4x2x{name}>) -> tensor<4x5x{name}>
      return %6, %none : tensor<4x5x{name}>, tensor<0x{name}>
    }}"""  # noqa: E501
    dtype = ELEMENT_TYPES[name]
    numbers = RNG.integers(0, 2, (3, 4)) if name in ("i1", "i2", "ui2") else RNG.integers(0, 4, (3, 4))
    x, number = numbers.astype(np.float32).astype(dtype), np.int32(1)
    found, expected = (shlo.compile(module, target=target, options=OPTIONS)(x, number) for target in ("linalg", "cpu"))
    for a, b in zip(found, expected, strict=True):
        assert (np.asarray(a).dtype, np.asarray(a).shape) == (np.asarray(b).dtype, np.asarray(b).shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", ["mixture-of-experts", "resnet18", "lstm", "train-mlp", "newton", "branches"])
def test_models_agree_with_jax(name: str) -> None:
    """The others do, too: compiling all of them takes a minute."""
    model = suite.build(name, "small")
    results = shlo.compile(suite.export(model), target="linalg", options=OPTIONS)(*model.arrays())
    for actual, wanted in zip(results, suite.reference(model), strict=True):
        assert suite.largest_difference(actual, wanted) <= model.tolerance


def test_memory_of_a_loop_is_freed() -> None:
    """A trip allocates 4 MB: a thousand of them do not stay."""
    import resource

    def body(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 1000, lambda i, a: jnp.flip(a) + 1, x)

    x = np.zeros(1 << 20, np.float32)
    executable = shlo.compile(jax.export.export(jax.jit(body))(x), target="linalg", options=OPTIONS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (result,) = executable(x)
    assert (np.asarray(result) == 1000).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB, of 4 that would stay


class Rang(Exception):
    pass


def ring(number: int, frame: object) -> None:
    raise Rang


def test_a_loop_without_end_is_ended_by_a_signal() -> None:
    def function(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda a: a[0] >= 0, lambda a: a * 0, x) + 1

    x = np.ones(3, np.float32)
    executable = shlo.compile(jax.export.export(jax.jit(function))(x), target="linalg", options=OPTIONS)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Rang):
            executable(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    (result,) = executable(-x)
    assert np.asarray(result).tolist() == [0, 0, 0]


def test_a_program_is_saved_and_loaded(tmp_path: object) -> None:
    x = random(3, 4)
    executable = shlo.compile(jax.export.export(jax.jit(jnp.tanh))(x), target="linalg", options=OPTIONS)
    executable.save(f"{tmp_path}/model.shloexe")
    for each in (executable, shlo.load_executable(f"{tmp_path}/model.shloexe")):
        np.testing.assert_allclose(np.asarray(each(x)[0]), np.tanh(x), rtol=1e-6)
        assert "linalg" in each.report()
    assert "llvm.func private @linalg_main" in executable.stages["kernels"]


def test_a_tensor_that_no_machine_holds_is_refused() -> None:
    module = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1099511627776xf32>
      %1 = stablehlo.cosine %0 : tensor<1099511627776xf32>
      %2 = stablehlo.reduce(%1 init: %x) applies stablehlo.add across dimensions = [0]
        : (tensor<1099511627776xf32>, tensor<f32>) -> tensor<f32>
      return %2 : tensor<f32>
    }"""
    with pytest.raises(shlo.ResourceError, match="a tensor of this model"):
        shlo.compile(module, target="linalg", options=OPTIONS)


def test_dynamic_dimensions_are_specialized() -> None:
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3"), np.float32)
    executable = shlo.compile(jax.export.export(jax.jit(lambda a: a.sum(0)))(x), target="linalg", options=OPTIONS)
    for count in (2, 5):
        np.testing.assert_allclose(np.asarray(executable(np.ones((count, 3), np.float32))[0]), [count] * 3)


REFUSED = {
    "hlo.random_state": """func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<4xf32> {
      %sizes = stablehlo.constant dense<[4]> : tensor<1xi64>
      %0 = stablehlo.rng %a, %b, %sizes, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }""",
    "hlo.infeed": """func.func @main(%t: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
      %0:2 = "stablehlo.infeed"(%t) {infeed_config = ""} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
      return %0#0, %0#1 : tensor<4xf32>, !stablehlo.token
    }""",
    "hlo.replica_id": """module attributes {mhlo.num_replicas = 2 : i32} {
      func.func @main() -> tensor<ui32> {
        %0 = stablehlo.replica_id : tensor<ui32>
        return %0 : tensor<ui32>
      }
    }""",
    None: """module attributes {mhlo.num_replicas = 2 : i32} {
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        return %x : tensor<f32>
      }
    }""",
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_has_no_form_is_named(op: str | None) -> None:
    with pytest.raises(shlo.UnsupportedError) as error:
        shlo.compile(REFUSED[op], target="linalg", options=OPTIONS)
    assert error.value.op == op and error.value.remedy
    assert (error.value.location is not None) == (op is not None)
