"""Loops that are one kernel: the same bits as loops that the host goes through, whatever is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from driver_programs import with_fake_kernels
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.gpu import loops
from stablehlo_py.backends.gpu.policy import ONE_BLOCK
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.types import operations, tensor_bytes
from stablehlo_py.errors import ResourceError
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable

OPTIONS = shlo.Options(cache_dir=None, threads=1, disable=("unroll-loops",))
RANDOM = np.random.default_rng(0)
HOST = replace(ONE_BLOCK, kernels=-1)


def floats(*sizes: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.standard_normal(sizes).astype(dtype)


def lowered(function: Callable[..., object], *arrays: np.ndarray, donated: Sequence[int] = ()) -> str:
    with jax.enable_x64(True):
        return jax.jit(function, donate_argnums=donated).lower(*arrays).as_text()


def names(executable: shlo.Executable) -> list[str]:
    """The kernels of a program."""
    text = executable.stages["kernels"]
    return [line.split("@")[1].split("(")[0] for line in text.splitlines() if "llvm.func spir_kernelcc" in line]


def check(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., object], *arrays: np.ndarray, kernels: int = 1
) -> shlo.Executable:
    """So many loops of a function are kernels, and give what they give without that."""
    text, wanted = lowered(function, *arrays), None
    with monkeypatch.context() as patched:
        patched.setattr(loops, "ONE_BLOCK", HOST)
        host = shlo.compile(text, target="opencl", options=OPTIONS)
    wanted = host(*arrays)
    whole = shlo.compile(text, target="opencl", options=OPTIONS)
    assert [sum(name.startswith("while_") for name in names(each)) for each in (host, whole)] == [0, kernels]
    for _ in range(2):
        for a, b in zip(whole(*arrays), wanted, strict=True):
            assert a.tobytes() == b.tobytes()
    return whole


device = pytest.mark.usefixtures("real_device")
DTYPES = (
    "bool int4 uint8 int16 int32 uint64 float8_e4m3fn bfloat16 float16 float32 float64 complex64 complex128".split()
)


@pytest.mark.every(3)
@device
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_types(monkeypatch: pytest.MonkeyPatch, dtype: str, size: int) -> None:
    """Neighbours exchange their elements, so every trip needs what others wrote."""

    def body(i: jax.Array, state: Any) -> Any:
        x, y = state
        return jnp.roll(y, 1), jnp.where(i % 3 == 0, jnp.flip(x), x + y if dtype != "bool" else x ^ y)

    x = (np.abs(floats(size)) * 3).astype(jnp.dtype(dtype))
    check(monkeypatch, lambda x, y: lax.fori_loop(0, 20, body, (x, y)), x, x[::-1].copy())


def relaxed(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 12, lambda _, x: jnp.tanh(x @ x.T / 8) @ x - jnp.mean(x, axis=1, keepdims=True), x)


def nested(x: jax.Array) -> jax.Array:
    def inner(i: jax.Array, x: jax.Array) -> jax.Array:
        return x - jnp.sum(x, axis=0) * 0.01 * i

    return lax.fori_loop(0, 9, lambda i, x: jnp.flip(lax.fori_loop(0, 11, inner, x), 1) * 0.5 + i, x)


def stacked(x: jax.Array) -> object:
    """Parts are read, and written, where the counter says."""
    return lax.scan(lambda c, row: (jnp.sin(c) + row, c * row), jnp.zeros(x.shape[1]), x)


def branching(x: jax.Array, which: jax.Array) -> object:
    ways = [
        lambda x: x[::-1] * 0.5,
        lambda x: lax.cond(x.sum() > 0, lambda x: x - x.mean(), lambda x: jnp.roll(x, 1, 0), x),
        lambda x: jnp.sort(x, axis=-1),
        lambda x: x,
    ]
    return lax.scan(lambda x, code: (lax.switch(code, ways, x), jnp.max(x)), x, which)


def drawn(x: jax.Array) -> jax.Array:
    """Random numbers of two kinds."""
    key = jax.random.wrap_key_data(jnp.arange(2, dtype=jnp.uint32))

    def body(i: jax.Array, state: Any) -> Any:
        key, bits, x = state
        key, other = jax.random.split(key)
        bits, drawn = lax.rng_bit_generator(bits, x.shape, jnp.uint32)
        return key, bits, x + jax.random.normal(other, x.shape, x.dtype) * (drawn >> 31).astype(x.dtype)

    return lax.fori_loop(0, 10, body, (key, jnp.arange(4, dtype=jnp.uint32), x))[2]


def summed(x: jax.Array) -> jax.Array:
    """Kernels that take threads of their own."""
    return lax.fori_loop(0, 10, lambda _, x: lax.cumsum(x, 0) * 0.1 + jnp.argmax(x).astype(x.dtype), x)


def ordered(x: jax.Array) -> jax.Array:
    """Sorts, transforms and scatters."""

    def body(i: jax.Array, x: jax.Array) -> jax.Array:
        x = x.at[jnp.sort((x * 10).astype(jnp.int32)) % x.size].set(1.0)
        return lax.top_k(x, x.size // 2)[0].sum() + jnp.abs(jnp.fft.fft(x)).astype(x.dtype) * 0.01

    return lax.fori_loop(0, 10, body, x)


def solved(a: jax.Array, b: jax.Array) -> jax.Array:
    """Kernels without a template."""

    def body(i: jax.Array, x: jax.Array) -> jax.Array:
        root = jnp.linalg.cholesky(a @ a.T + jnp.eye(len(a), dtype=a.dtype) * 10)
        return jax.scipy.linalg.solve_triangular(root, x, lower=True)

    return lax.fori_loop(0, 9, body, b)


@device
@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (relaxed, [floats(5, 5)]),
        (relaxed, [floats(40, 40)]),
        (relaxed, [floats(3, 200)]),
        (nested, [floats(30, 33)]),
        (nested, [floats(1, 1)]),
        (stacked, [floats(21, 13)]),
        (branching, [floats(6, 70), RANDOM.integers(-1, 5, 30).astype(np.int32)]),
        (drawn, [floats(33)]),
        (summed, [np.abs(floats(70))]),
        (ordered, [np.abs(floats(64))]),
        (solved, [floats(6, 6), floats(6, 2)]),
    ],
)
def test_bodies(monkeypatch: pytest.MonkeyPatch, function: Callable[..., object], arrays: Sequence[np.ndarray]) -> None:
    check(monkeypatch, function, *arrays)


def halved(x: jax.Array, most: jax.Array) -> object:
    """Until it is small, or trips are over."""
    return lax.while_loop(
        lambda state: (jnp.max(jnp.abs(state[1])) > 0.1) & (state[0] < most),
        lambda state: (state[0] + 1, state[1] * 0.5 + jnp.roll(state[1], 1) * 0.1),
        (0, x),
    )


@device
@pytest.mark.parametrize("most", [0, 1, 5, 1000])
@pytest.mark.parametrize("longest", [ONE_BLOCK.longest, 3e-6])
def test_no_trip_or_some(monkeypatch: pytest.MonkeyPatch, most: int, longest: float) -> None:
    """With a kernel that ends after a few trips, the host starts it again."""
    monkeypatch.setattr(loops, "ONE_BLOCK", replace(ONE_BLOCK, longest=longest))
    check(monkeypatch, halved, floats(100), np.array(most))


@device
def test_inner_loops_of_unknown_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kernels, the loop around them is the host's."""

    def outer(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 9, lambda i, x: halved(x, i)[1] + 1, x)

    check(monkeypatch, outer, floats(100))


@device
def test_several_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal fusions in them, and outside."""
    check(monkeypatch, lambda x: (relaxed(relaxed(x)), x @ x.T), floats(9, 9), kernels=2)


@device
def test_donated_inputs() -> None:
    """The result lies in the memory of the argument."""
    x = floats(30, 30)
    text = lowered(nested, x, donated=[0])
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert "while_0" in names(executable)
    (buffer,) = executable.call([executable.put(x, 0)])
    assert np.asarray(buffer).tobytes() == shlo.compile(lowered(nested, x), target="opencl")(x)[0].tobytes()


@device
@pytest.mark.parametrize("most", [0, 3])
def test_loops_that_the_host_counts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Of large arrays, with and without trips."""
    x = floats(300_000)
    text = lowered(lambda x: lax.fori_loop(0, most, lambda i, x: jnp.flip(x) * 1.5 + i, x), x)
    executable = shlo.compile(text, target="opencl", options=OPTIONS)
    assert "while_0" not in names(executable)
    wanted = x
    for i in range(most):
        wanted = wanted[::-1] * np.float32(1.5) + np.float32(i)
    assert np.array_equal(executable(x)[0], wanted)


# --- what the driver is asked for ------------------------------------------------------------------------------------


def asked(cuda_device: Any, text: str, *arrays: np.ndarray) -> tuple[list[str], int]:
    """The kernels that a call launches, and how often it waits for the device."""
    program = with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu="sm_90", cache_dir=None)))
    executable = Executable(program)
    buffers = [executable.put(array, number) for number, array in enumerate(arrays)]
    before, waits = len(cuda_device.launches()), cuda_device.calls("cuStreamSynchronize")
    results = executable.call(buffers)
    found = [name for name, _ in cuda_device.launches()][before:], cuda_device.calls("cuStreamSynchronize") - waits
    del results
    return found


def lorenz(x: jax.Array) -> jax.Array:
    def slope(x: jax.Array) -> jax.Array:
        return jnp.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    return lax.fori_loop(0, 1000, lambda _, x: x + 0.001 * slope(x + 0.0005 * slope(x)), x)


def test_one_launch_and_no_wait(cuda_device: Any) -> None:
    """A thousand steps of a differential equation: thousands of launches, and a thousand waits, without that."""
    assert asked(cuda_device, lowered(lorenz, floats(3)), floats(3)) == (["while_0"], 0)


def test_it_is_started_again_until_it_has_ended(cuda_device: Any) -> None:
    """The fake driver's kernels count in the memory where the state is, so this loop ends with the third launch, which
    fails."""
    text, x = lowered(lambda x: halved(x, 50)[1], floats(100)), floats(100)
    cuda_device.fail("cuLaunchKernel", 2, 3)
    waits = cuda_device.calls("cuStreamSynchronize")
    with pytest.raises(ResourceError):
        asked(cuda_device, text, x)
    assert [name for name, _ in cuda_device.launches()] == ["while_0"] * 2
    assert cuda_device.calls("cuStreamSynchronize") - waits >= 2


def test_the_host_does_not_wait_for_what_it_counts(cuda_device: Any) -> None:
    """The sort is there for its scratch memory: the fake driver's kernels write behind the counter."""
    x = floats(300_000)
    text = lowered(lambda x: lax.fori_loop(0, 20, lambda _, x: jnp.flip(x) * 1.5, jnp.sort(x)), x)
    launched, waits = asked(cuda_device, text, x)
    counts = sorted((launched.count(name) for name in set(launched)), reverse=True)
    assert waits == 0
    assert counts[:2] == [20, 20]  # the body and the counter: no predicate
    assert counts[2] < 20
    assert "while_0" not in launched


# --- which loops -----------------------------------------------------------------------------------------------------


def taken(function: Callable[..., object], *arrays: np.ndarray) -> bool:
    """Whether the loop of a function is a kernel on a GPU of NVIDIA."""
    program = compile_program(lowered(function, *arrays), target="cuda", options=Options(gpu="sm_90", cache_dir=None))
    return "while_0" in program.kernels


@pytest.mark.parametrize(("size", "is_taken"), [(10, True), (4096, True), (1 << 19, False)])
def test_loops_with_much_work_are_not(size: int, is_taken: bool) -> None:
    assert taken(lambda x: lax.fori_loop(0, 100, lambda i, x: jnp.roll(x, i) * 0.5, x), floats(size)) is is_taken


@pytest.mark.parametrize(("size", "is_taken"), [(32, True), (512, False)])
def test_loops_with_large_products_are_not(size: int, is_taken: bool) -> None:
    assert taken(lambda x: lax.fori_loop(0, 100, lambda i, x: jnp.tanh(x @ x), x), floats(size, size)) is is_taken


def test_reports() -> None:
    program = compile_program(lowered(lorenz, floats(3)), target="cuda", options=Options(gpu="sm_90"))
    assert "loops that are one kernel: 1" in program.report


@pytest.mark.parametrize("reads", [False, True])
def test_what_a_loop_stacks_is_written_in_place(reads: bool) -> None:
    """No trip copies the whole, also where the update reads what it overwrites."""

    def stacked(x: jax.Array, w: jax.Array) -> object:
        def step(trip: Any, carry: Any) -> Any:
            state, rows = carry
            state = jnp.tanh(state @ w)
            old = lax.dynamic_index_in_dim(rows, trip, 0, keepdims=False) if reads else 0.0
            return state, lax.dynamic_update_index_in_dim(rows, state + old, trip, 0)

        return lax.fori_loop(0, 200, step, (x, jnp.ones((200, 64), jnp.float32)))

    module = load(lowered(stacked, np.zeros(64, np.float32), np.zeros((64, 64), np.float32)), isolate=False)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "scheduled", OPTIONS, target="cuda")
        (loop,) = (op for op in operations(module.operation) if op.name == "scf.while")
        (update,) = (op for op in fusions(module) if op.attributes["hlo.fusion"].value == "in_place_update")
        copied = [op for op in operations(loop) if op.name == "hlo.copy" and tensor_bytes(op.results[0]) > 256]
        assert "hlo.inplace" in update.attributes and not copied
