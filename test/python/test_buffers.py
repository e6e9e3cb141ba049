"""Buffers: what `put` makes, and `call` takes and returns (memory of devices: test/backends/toy)."""

from __future__ import annotations

import gc
import weakref

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.memory import address_of
from stablehlo_py.runtime.program import Spec

X = np.arange(12, dtype=np.float32).reshape(3, 4)
DOUBLE = """func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.add %x, %x : tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}"""
DYNAMIC = DOUBLE.replace("3x4", "?x4")
DONATING = DOUBLE.replace("tensor<3x4xf32>)", "tensor<3x4xf32> {tf.aliasing_output = 0 : i32})", 1)


@pytest.mark.parametrize("text", [DOUBLE, DYNAMIC, DONATING])
def test_results_are_arguments_of_the_next_call(text: str) -> None:
    executable = shlo.compile(text)
    (once,) = executable.call([executable.put(X)])
    (twice,) = executable.call([once])
    np.testing.assert_array_equal(twice, 4 * X)
    (alone,) = executable(twice)  # buffers are arrays
    np.testing.assert_array_equal(alone, 8 * X)


def test_what_a_buffer_says_of_itself() -> None:
    buffer = shlo.compile(DOUBLE).put(X)
    assert (buffer.device, buffer.memory_space) == ("host", "host")
    assert (buffer.dtype, buffer.shape, buffer.layout) == (np.float32, (3, 4), (0, 1))
    assert (buffer.ndim, buffer.size, buffer.nbytes) == (2, 12, 48)
    assert buffer.address == np.asarray(buffer).ctypes.data
    assert buffer.is_ready() and not buffer.is_donated and buffer.wait() is buffer
    assert repr(buffer) == "<Buffer arg0: float32[3, 4] in host memory, ready>"
    assert "float32[3, 4]" in repr(shlo.compile(DYNAMIC).put(X))


def test_an_array_of_a_buffer_is_no_copy_and_read_only() -> None:
    executable = shlo.compile(DOUBLE)
    buffer = executable.put(X)
    view = np.asarray(buffer)
    assert view.ctypes.data == buffer.address and not view.flags.writeable
    assert np.array(buffer).ctypes.data != buffer.address
    assert np.asarray(buffer, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.array(buffer, np.float64, copy=False)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_dlpack_goes_out_without_a_copy() -> None:
    (result,) = shlo.compile(DOUBLE).call([shlo.compile(DOUBLE).put(X)])
    assert np.from_dlpack(result).ctypes.data == result.address
    array = jnp.from_dlpack(result)
    np.testing.assert_array_equal(array, 2 * X)
    if result.address % 64 == 0:  # JAX copies what is less aligned
        assert array.unsafe_buffer_pointer() == result.address


class OnlyDlpack:
    """An array of another library, as PyTorch's are for types that NumPy does not know."""

    def __init__(self, array: np.ndarray) -> None:
        self.buffer = Buffer(array, address_of(array), Spec("x", array.shape, array.dtype), array.shape)

    def __dlpack__(self, **options: object) -> object:
        return self.buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()


@pytest.mark.parametrize(
    "element, name", [("bf16", "bfloat16"), ("f8E5M2", "float8_e5m2"), ("f8E4M3FN", "float8_e4m3fn")]
)
def test_dlpack_knows_the_types_that_numpy_does_not(element: str, name: str) -> None:
    type_ = f"tensor<3x4x{element}>"
    executable = shlo.compile(f"func.func @main(%0: {type_}) -> {type_} {{\nreturn %0 : {type_}\n}}")
    array = X.astype(name)
    buffer = executable.put(OnlyDlpack(array), copy=False)
    assert buffer.address == array.ctypes.data
    (result,) = executable.call([buffer])
    theirs = jnp.from_dlpack(result)
    assert theirs.dtype == name
    assert np.asarray(theirs).tobytes() == array.tobytes()


def test_what_gives_no_capsule_is_no_array() -> None:
    class Wrong:
        def __dlpack__(self, **options: object) -> object:
            return 3

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(shlo.ArgumentError, match="gives a int, not a capsule"):
        shlo.compile(DOUBLE).put(Wrong())


def test_arrays_come_in_without_a_copy_where_they_can() -> None:
    executable, mine, theirs = shlo.compile(DOUBLE), X.copy(), jax.device_put(X)
    for array, address in ((mine, mine.ctypes.data), (theirs, theirs.unsafe_buffer_pointer())):
        buffer = executable.put(array, copy=False)
        assert buffer.address == address
        np.testing.assert_array_equal(executable.call([buffer])[0], 2 * X)
    for text in (DOUBLE, DYNAMIC):
        for array in (np.asfortranarray(X), X[:, ::-1]):
            with pytest.raises(shlo.ArgumentError, match="cannot be used without a copy"):
                shlo.compile(text).put(array, copy=False)


def test_what_others_look_at_is_not_overwritten() -> None:
    """A donated buffer that arrays look at, or that is somebody's array, is copied."""
    executable, mine = shlo.compile(DONATING), X.copy()
    borrowed = executable.put(mine, copy=False)
    np.testing.assert_array_equal(executable.call([borrowed])[0], 2 * X)
    np.testing.assert_array_equal(mine, X)
    seen = executable.put(X)
    view = np.asarray(seen)
    np.testing.assert_array_equal(executable.call([seen])[0], 2 * X)
    np.testing.assert_array_equal(view, X)
    for buffer in (borrowed, seen):
        assert buffer.is_donated
        with pytest.raises(shlo.ArgumentError, match="donated to an earlier call"):
            executable.call([buffer])
    unseen = executable.put(X)
    address = unseen.address
    assert executable.call([unseen])[0].address == address


def test_memory_goes_when_it_is_released() -> None:
    executable, mine = shlo.compile(DOUBLE), X.copy()
    reference, buffer = weakref.ref(mine), executable.put(mine, copy=False)
    del mine
    assert reference() is not None
    buffer.release()
    gc.collect()
    assert reference() is None
    assert "released" in repr(buffer)
    for use in (np.asarray, lambda each: executable.call([each]), lambda each: executable(each)):
        with pytest.raises(shlo.ArgumentError, match="released"):
            use(buffer)


def test_element_types_that_numpy_lacks() -> None:
    text = DOUBLE.replace("f32", "bf16")
    executable, x = shlo.compile(text), X.astype(ml_dtypes.bfloat16)
    (result,) = executable.call([executable.put(x)])
    np.testing.assert_array_equal(np.asarray(result), x + x)
    assert np.asarray(result).ctypes.data == result.address


@pytest.mark.parametrize("text", [DOUBLE, DYNAMIC])
@pytest.mark.parametrize("options", [shlo.Options(), shlo.Options(dynamic="specialize")], ids=["once", "specialize"])
def test_buffers_that_do_not_fit_are_refused(text: str, options: shlo.Options) -> None:
    """Their memory would be read as something else, and behind its end."""
    executable = shlo.compile(text, options=options)
    for shape, type_ in (("3x3", "f32"), ("3x4x1", "f32"), ("4", "f32"), ("3x4", "f16"), ("3x4", "i32")):
        like = f"tensor<{shape}x{type_}>"
        other = shlo.compile(f"func.func @main(%x: {like}) -> {like} {{ return %x : {like} }}")
        spec = other.inputs[0]
        buffer = other.put(np.zeros([size or 0 for size in spec.shape], spec.dtype))
        with pytest.raises(shlo.ArgumentError, match="is not the input"):
            executable.call([buffer])
