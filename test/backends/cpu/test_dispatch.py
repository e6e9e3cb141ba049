"""Calls from Python in native code (backends/cpu/dispatch.py): results, what it leaves to Python's own way, memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import Options
from stablehlo_py.backends.cpu import dispatch
from stablehlo_py.errors import ArgumentError
from stablehlo_py.runtime.memory import SMALL

TYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "ui16": np.uint16,
    "i32": np.int32,
    "ui64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}


def compiled(function: object, *arrays: np.ndarray, **options: object) -> shlo.Executable:
    """With one call behind it, which makes the dispatch."""
    exported = jax.export.export(jax.jit(function))(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays))
    executable = shlo.compile(exported, options=Options(**options))  # type: ignore[arg-type]
    executable(*arrays)
    return executable


def fast(executable: shlo.Executable, *arrays: object) -> tuple[np.ndarray, ...] | None:
    """What native code alone gives."""
    assert executable.fast_call is not None
    return executable.fast_call(*arrays)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("sizes", [(), (0,), (3,), (2, 5), (100, 1000), (3, 100, 2000)])
def test_arrays_of_every_type_and_size(name: str, sizes: tuple[int, ...]) -> None:
    text = "x".join([*map(str, sizes), name])
    source = f"func.func @main(%x: tensor<{text}>, %y: tensor<{text}>) -> (tensor<{text}>, tensor<{text}>) {{ "
    source += f"%z = stablehlo.minimum %x, %y : tensor<{text}> return %z, %x : tensor<{text}>, tensor<{text}> }}"
    executable = shlo.compile(source)
    assert isinstance(executable, shlo.Executable)
    rng = np.random.default_rng(0)
    x, y = (np.asarray(rng.integers(0, 2, sizes)).astype(TYPES[name]) for _ in range(2))

    def seen(results: tuple[np.ndarray, ...] | None) -> list[tuple[object, ...]]:
        assert results is not None
        return [(type(each), each.dtype, each.shape, each.flags.num, each.tobytes()) for each in results]

    slow = seen(executable(x, y))  # outside of the assertion, which would keep the results and so their memory
    assert slow == seen(fast(executable, x, y))


def test_what_does_not_fit_goes_the_long_way() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    executable = compiled(lambda x, y: x - y, x, x)
    unaligned = np.frombuffer(bytearray(49), np.uint8)[1:].view(np.float32).reshape(3, 4)
    assert not unaligned.flags.aligned
    subclass = x.view(type("Named", (np.ndarray,), {}))
    swapped = x.astype(">f4")
    for other in (x.T.copy().T, jnp.asarray(x), x.tolist(), unaligned, subclass, swapped):
        assert fast(executable, x, other) is None
    for other in (x.T.copy().T, jnp.asarray(x), unaligned, subclass):
        np.testing.assert_array_equal(executable(x, other)[0], x - np.asarray(other))
    wrong = (x, x.astype(np.float64)), (x, x[:2]), (x, x.reshape(12)), (x,), (x, x, x), (x, None), (), (x, 1.0)
    for arrays in wrong:
        assert fast(executable, *arrays) is None
        with pytest.raises(ArgumentError):
            executable(*arrays)
    np.testing.assert_array_equal(executable(x, x)[0], 0)


@pytest.mark.parametrize("count", [10, SMALL, 1 << 20])
def test_results_do_not_share_memory(count: int) -> None:
    x = np.ones(count, np.float32)
    executable = compiled(lambda x: x + 1, x)
    results = [executable(x * number)[0] for number in range(40)]
    for number, result in enumerate(results):
        assert (result == number + 1).all()
    view = results[7][1:]
    del results, result
    again = [executable(x * 50)[0] for _ in range(40)]
    assert (view == 8).all()
    assert all((result == 51).all() for result in again)


def test_memory_of_a_large_result_serves_the_next() -> None:
    x = np.ones(1 << 20, np.float32)
    executable = compiled(lambda x: x + 1, x)
    addresses = {fast(executable, x)[0].ctypes.data for _ in range(5)}  # type: ignore[index]
    assert len(addresses) == 1


def test_references_are_balanced() -> None:
    x, y = np.ones(100, np.float32), np.ones(SMALL, np.float32)
    executable = compiled(lambda x, y: (x + 1, y * 2), x, y)
    things = (x, y, x.dtype, None, np.ndarray, executable.fast_call)
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(1000):
        executable(x, y)
        fast(executable, x)
        fast(executable, y, x)
    assert all(abs(sys.getrefcount(thing) - count) < 100 for thing, count in zip(things, before, strict=True))


def test_donated_arguments_stay_as_they_are() -> None:
    source = """func.func @main(%x: tensor<20000xf32> {tf.aliasing_output = 1 : i32}, %y: tensor<20000xf32>)
        -> (tensor<20000xf32>, tensor<20000xf32>) {
      %z = stablehlo.add %x, %y : tensor<20000xf32>
      return %y, %z : tensor<20000xf32>, tensor<20000xf32> }"""
    executable = shlo.compile(source)
    assert isinstance(executable, shlo.Executable)
    assert executable.donations == ((1, 0),)
    x, y = np.full(20000, 1, np.float32), np.full(20000, 2, np.float32)
    executable(x, y)
    results = fast(executable, x, y)
    assert results is not None
    assert (x == 1).all()
    assert (results[0] == 2).all()
    assert (results[1] == 3).all()


def test_many_threads_call_at_once() -> None:
    x = np.ones((256, 256), np.float32)
    executable = compiled(lambda x: (jnp.tanh(x @ x), x.sum(0)), x, threads=2)
    expected = executable(x)
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(100):
            results = executable(x)
            if any(not np.array_equal(result, each) for result, each in zip(results, expected, strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_signal_ends_a_loop() -> None:
    def endless(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: x[0] > 0, lambda x: x + 1e-30, x)

    x = np.zeros(4, np.float32)
    executable = compiled(endless, x)

    def interrupt() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):  # which may come before the call
        thread.start()
        fast(executable, x + 1)
    thread.join()
    results = fast(executable, x)
    assert results is not None
    assert (results[0] == 0).all()


def test_unknown_objects_go_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "is_known", lambda: False)
    x = np.ones(3, np.float32)
    executable = compiled(lambda x: x + 1, x)
    assert executable.fast_call is None
    assert (executable(x)[0] == 2).all()


def test_objects_of_this_python_are_known() -> None:
    assert dispatch.is_known()


def test_what_has_to_be_converted_is_called_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is converted: numbers, strided arrays, arrays of JAX."""
    x = np.arange(6, dtype=np.float32)
    executable = compiled(lambda x, k: x * k, x, np.float32(2))
    monkeypatch.delattr(executable._loaded.__class__, "run")
    strided = np.stack([x, x], 1)[:, 0]
    for array in (x, strided, jax.numpy.asarray(x)):
        for factor in (3.0, np.float32(3), np.asarray(3, np.float32)):
            np.testing.assert_array_equal(executable(array, factor)[0], x * 3)
    with pytest.raises(shlo.ArgumentError):
        executable(x, 2.5j)
