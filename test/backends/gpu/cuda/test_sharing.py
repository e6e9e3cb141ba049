"""Arrays of other libraries on a device of CUDA, and buffers in their hands: DLPack and `__cuda_array_interface__`.

The fake driver's memory is the host's: once it has worked, an array on it may be read here.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from driver_programs import STEP, X, with_fake_kernels

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.cuda import device as module
from stablehlo_py.errors import ArgumentError
from stablehlo_py.options import Options
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.dlpack import exported_from, imported, placed
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.memory import address_of

CUDA = (2, 0)


def loaded() -> Executable:
    return Executable(with_fake_kernels(compile_program(STEP, target="cuda", options=Options(gpu="sm_90"))))


class Foreign:
    """An array of another library: the memory is the device's, the streams are its own."""

    def __init__(self, array: np.ndarray, at: tuple[int, int] = CUDA) -> None:
        self.memory = module.DEVICES.get().memory
        self.block = self.memory.allocate(array.nbytes)
        self.memory.write(array, self.block)
        self.array = placed(self.block, self.block.address, array.shape, array.dtype)
        self.at = at
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.at

    def __dlpack__(self, stream: int | None = None, max_version: tuple[int, int] | None = None) -> object:
        self.asked.append({"stream": stream})
        return exported_from(self.at, self.array)


class Described:
    """An array of another library that has no DLPack."""

    def __init__(self, array: np.ndarray, **changed: Any) -> None:
        self.foreign = Foreign(array)
        described = {"shape": array.shape, "typestr": array.dtype.str, "strides": None, "version": 3, "stream": 1}
        described["data"] = (self.foreign.block.address, False)
        self.__cuda_array_interface__ = {**described, **changed}


def stream() -> int:
    return module.DEVICES.get().queue.handle


def test_a_buffer_in_other_hands(cuda_device) -> None:
    executable = loaded()
    (buffer,) = executable.call([executable.put(X, 0)])
    assert buffer.__dlpack_device__() == CUDA
    array = imported(buffer, CUDA, stream=2)
    assert cuda_device.waits() == (2, stream())  # the consumer's stream works behind what computes it
    assert address_of(array) == buffer.address and array.shape == X.shape and array.dtype == X.dtype
    module.DEVICES.get().queue.finish()
    assert np.array_equal(array, X + 1)
    del buffer
    assert np.array_equal(array, X + 1)  # it keeps the memory
    del array
    assert cuda_device.waits() == (stream(), 2)  # what is done with the memory next works behind the consumer


def test_streams_of_dlpack(cuda_device) -> None:
    executable = loaded()
    buffer = executable.put(X, 0)
    imported(buffer, CUDA)
    assert cuda_device.waits() == (stream(), 1)  # none is named: the legacy default stream, there and back
    waited, synchronized = cuda_device.calls("cuStreamWaitEvent"), cuda_device.calls("cuCtxSynchronize")
    array = imported(buffer, CUDA, stream=-1)
    assert cuda_device.calls("cuStreamWaitEvent") == waited
    del array
    assert cuda_device.calls("cuCtxSynchronize") == synchronized + 1  # nobody knows its stream
    with pytest.raises(BufferError, match="stream 0 may be"):
        buffer.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="is not copied for others"):
        buffer.__dlpack__(copy=True)


def test_the_host_may_ask_for_a_copy(cuda_device) -> None:
    executable = loaded()
    buffer = executable.put(X, 0)
    assert np.array_equal(np.from_dlpack(buffer, device="cpu"), X)
    buffer.release()
    with pytest.raises(ArgumentError, match="was released"):
        buffer.__dlpack__()


def test_a_donated_buffer_that_others_look_at_is_copied_on_the_device(cuda_device) -> None:
    executable = loaded()
    buffer = executable.put(X, 0)
    array, copies = imported(buffer, CUDA, stream=1), cuda_device.calls("cuMemcpyAsync")
    (result,) = executable.call([buffer])
    assert buffer.is_donated and cuda_device.calls("cuMemcpyAsync") == copies + 1
    assert np.array_equal(np.asarray(result), X + 1) and np.array_equal(array, X)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.bool_, np.float16, np.complex64, np.uint8])
def test_types(cuda_device, dtype) -> None:
    name = {"bool": "i1", "bfloat16": "bf16", "float16": "f16", "complex64": "complex<f32>", "uint8": "ui8"}
    type_ = f"tensor<2x3x{name[np.dtype(dtype).name]}>"
    text = f"func.func @main(%x: {type_}) -> {type_} {{\n  return %x : {type_}\n}}"
    executable = Executable(with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu="sm_90"))))
    array = np.arange(6).reshape(2, 3).astype(dtype)
    given = imported(executable.put(array), CUDA, stream=1)
    module.DEVICES.get().queue.finish()
    assert given.dtype == array.dtype and np.array_equal(given, array)
    taken = executable.put(Foreign(array), copy=False)
    assert np.array_equal(np.asarray(taken), array)


@pytest.mark.parametrize("kind", [Foreign, Described])
def test_an_array_of_another_library(cuda_device, kind) -> None:
    executable = loaded()
    foreign = kind(X)
    block = getattr(foreign, "foreign", foreign).block
    copies = cuda_device.calls("cuMemcpyAsync")
    buffer = executable.put(foreign, 0, copy=False)
    assert isinstance(buffer, Buffer) and buffer.address == block.address
    assert cuda_device.calls("cuMemcpyAsync") == copies
    if kind is Foreign:
        assert foreign.asked == [{"stream": stream()}]  # the producer lets our stream wait
    else:
        assert cuda_device.waits() == (stream(), 1)
    (result,) = executable.call([buffer])  # donated: but the memory is not ours to give
    assert np.array_equal(np.asarray(result), X + 1)
    assert np.array_equal(np.asarray(executable.put(foreign, 0)), X)
    assert executable.put(foreign, 0).address != block.address
    finished = cuda_device.calls("cuStreamSynchronize")
    del buffer
    assert cuda_device.calls("cuStreamSynchronize") >= finished  # before the other library has it back


def test_memory_is_given_back_when_nothing_here_uses_it(cuda_device) -> None:
    executable = loaded()
    foreign = Foreign(X)
    buffer = executable.put(foreign, 0, copy=False)
    assert not module.DEVICES.get().queue.last_event().is_ready()
    del buffer
    assert module.DEVICES.get().queue.last_event().wait() is None
    buffer = executable.put(foreign, 0, copy=False)
    finished = cuda_device.calls("cuStreamSynchronize")
    executable.call([buffer])  # it is spent
    assert cuda_device.calls("cuStreamSynchronize") == finished + 1


def test_what_is_refused(cuda_device) -> None:
    executable = loaded()
    strided = Described(X, strides=(8,), shape=(X.size // 2,))
    for wrong, message in (
        (Foreign(X.astype(np.float32)), "has dtype float32"),
        (Foreign(X[:5]), r"has shape \(5,\)"),
        (Described(X[::-1].copy(), strides=(-4,)), "is not dense"),
        (strided, "has shape"),
    ):
        with pytest.raises(ArgumentError, match=message):
            executable.put(wrong, 0, copy=False)
    masked = Described(X, mask=X)
    with pytest.raises(ArgumentError):
        executable.put(masked, 0)
    with pytest.raises((ArgumentError, BufferError, RuntimeError, ValueError)):
        executable.put(Foreign(X, at=(2, 1)), 0)  # another device
    with pytest.raises(ArgumentError, match="cannot be used without a copy"):
        executable.put(X, 0, copy=False)


def test_kernels_get_aligned_arrays(cuda_device) -> None:
    """A part of another library's array, which kernels cannot access 16 bytes at a time, is copied or refused."""
    executable = loaded()
    whole = Foreign(np.concatenate((X[:1], X)))
    part = Described(X)
    part.foreign = whole
    part.__cuda_array_interface__["data"] = (whole.block.address + X.itemsize, False)
    with pytest.raises(ArgumentError, match="its address is no multiple of 16 bytes"):
        executable.put(part, 0, copy=False)
    assert np.array_equal(np.asarray(executable.put(part, 0)), X)


def test_the_cuda_array_interface_of_a_buffer(cuda_device) -> None:
    executable = loaded()
    buffer = executable.put(X, 0)
    described = buffer.__cuda_array_interface__
    expected = {"shape": X.shape, "typestr": "<i4", "strides": None, "version": 3, "stream": stream()}
    assert described == {**expected, "data": (buffer.address, False)}
    assert np.array_equal(np.asarray(buffer), X)
    synchronized = cuda_device.calls("cuCtxSynchronize")
    (result,) = executable.call([buffer])  # donated, and copied
    assert result.address != buffer.address
    del buffer
    module.DEVICES.get().queue.finish()
    assert cuda_device.calls("cuCtxSynchronize") == synchronized + 1


def test_buffers_of_the_host_have_none() -> None:
    executable = shlo.compile(STEP)
    buffer = executable.put(X, 0)
    assert not hasattr(buffer, "__cuda_array_interface__") and buffer.__dlpack_device__() == (1, 0)
    assert np.array_equal(np.from_dlpack(buffer), X)


def test_a_lost_device(cuda_device) -> None:
    executable = loaded()
    buffer = executable.put(X, 0)
    array = imported(buffer, CUDA, stream=1)
    cuda_device.fail("cuStreamSynchronize", 700)
    with pytest.raises(shlo.ShloError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        module.DEVICES.get().queue.finish()
    with pytest.raises(shlo.ShloError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        buffer.__dlpack__()
    del array, buffer
    assert np.array_equal(np.asarray(executable.put(X, 0)), X)
