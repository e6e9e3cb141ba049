"""Memory of the fake driver of CUDA: copies in order, pools, blocks that are used again, and when there is none."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from stablehlo_py.backends.gpu.driver.memory import GRANULE, STAGED_BYTES
from stablehlo_py.errors import InternalError, ResourceError, ShloError

X = np.arange(1000, dtype=np.int32)


def read(device, block) -> np.ndarray:
    result = np.empty_like(X)
    device.memory.read(block, result)
    return result


@pytest.mark.parametrize("pools", [0, 1])
def test_there_and_back(cuda, pools) -> None:
    cuda.set(pools=pools)
    device = cuda.device()
    block, array = device.memory.allocate(X.nbytes), X.copy()
    event = device.memory.write(array, block)
    assert event is not None and not event.is_ready()
    array[:] = -1  # it may change when write has returned
    event.wait()
    assert event.is_ready() and np.array_equal(read(device, block), X)
    large = np.ones(STAGED_BYTES + 1, np.uint8)
    assert device.memory.write(large, device.memory.allocate(large.nbytes)) is None  # it has waited


def test_memory_is_of_the_drivers_pool(cuda) -> None:
    device = cuda.device()
    block = device.memory.allocate(X.nbytes)
    del block
    assert device.memory._kept == 0 and cuda.calls("cuMemFreeAsync") == 1
    assert cuda.live()["blocks"] == 1  # behind the work that uses it
    device.queue.finish()
    assert "blocks" not in cuda.live()


def test_without_pools_blocks_are_used_again(cuda) -> None:
    cuda.set(pools=0)
    device = cuda.device()
    block = device.memory.allocate(X.nbytes)
    address = block.address
    device.memory.write(X, block)
    del block
    again = device.memory.allocate(X.nbytes - 100)
    assert again.address == address and cuda.calls("cuMemAlloc") == 1
    device.memory._limit = 0
    del again
    assert "blocks" not in cuda.live()  # it has waited for the copy


@pytest.mark.parametrize(("pools", "function"), [(0, "cuMemAlloc"), (1, "cuMemAllocFromPoolAsync")])
def test_out_of_memory(cuda, pools, function) -> None:
    cuda.set(pools=pools)
    device = cuda.device()
    block = device.memory.allocate(X.nbytes)
    cuda.fail(function, 2)
    assert device.memory.allocate(2 * GRANULE).address  # after what is kept is freed
    for nth in (1, 2):
        cuda.fail(function, 2, nth)
    with pytest.raises(ResourceError, match=r"123456 bytes of memory are not to be had on cuda:0\n.*smaller batch"):
        device.memory.allocate(123456)
    with pytest.raises(ResourceError, match=r"bytes of memory are more than cuda:0 gives at once"):
        device.memory.allocate(1 << 40)
    device.memory.write(X, block)
    assert np.array_equal(read(device, block), X)
    cuda.fail(function, 400)
    with pytest.raises(InternalError, match=rf"{function}.* on cuda:0 ended with CUDA_ERROR_INVALID_HANDLE"):
        device.memory.allocate(GRANULE)


@pytest.mark.parametrize("pools", [0, 1])
def test_a_fault(cuda, pools) -> None:
    cuda.set(pools=pools)
    device = cuda.device()
    block = device.memory.allocate(X.nbytes)
    cuda.fail("execute", 700)
    event = device.memory.write(X, block)
    assert event is not None
    for _ in range(2):
        with pytest.raises(InternalError, match=r"a command on cuda:0 ended with CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
            event.wait()
    assert event.is_ready() and device.queue.is_lost
    with pytest.raises(InternalError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        read(device, block)
    with pytest.raises(InternalError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        device.memory.allocate(1)
    del block, event, device  # all goes with the context


def test_memory_outlives_the_device(cuda) -> None:
    device = cuda.device()
    memory = device.memory
    block = memory.allocate(X.nbytes)
    event = memory.write(X, block)
    del device
    result = np.empty_like(X)
    memory.read(block, result)
    assert np.array_equal(result, X)
    del memory, event


def test_streams_of_others(cuda) -> None:
    device = cuda.device()
    stream = device.queue
    stream.precede(1)
    assert cuda.waits() == (1, stream.handle)
    stream.follow(2)
    assert cuda.waits() == (stream.handle, 2)
    assert "events" not in cuda.live()


def test_a_forked_child_frees_nothing_and_is_refused(cuda) -> None:
    device = cuda.device()
    block = device.memory.allocate(X.nbytes)
    event = device.memory.write(X, block)
    names = ("cuStreamSynchronize", "cuEventDestroy", "cuMemcpyAsync", "cuMemFreeAsync", "cuDevicePrimaryCtxRelease")
    before = {name: cuda.calls(name) for name in names}
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        said: list[object] = []
        sys.unraisablehook = lambda raised: said.append(str(raised.exc_value))  # by what ends here
        for work in (
            lambda: device.memory.allocate(1),
            lambda: device.memory.write(X, block),
            lambda: device.memory.read(block, X.copy()),
            event.wait,
            lambda: device.build(b"increment"),
        ):
            try:
                work()
                said.append("nothing")
            except ShloError as error:
                if "this process was forked from one that uses CUDA" not in str(error):
                    said.append(str(error))
        del block, event, device, work
        said += [name for name in names if cuda.calls(name) != before[name]]
        os.write(write_end, repr(said).encode())
        os._exit(0)
    os.close(write_end)
    assert os.read(read_end, 10_000) == b"[]"
    os.close(read_end)
    assert os.waitpid(child, 0)[1] == 0
    event.wait()
    assert np.array_equal(read(device, block), X)
