"""Memory of the fake drivers of CUDA and HIP: copies in order, pools, blocks that are used again, none left."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from stablehlo_py.backends.gpu.driver.memory import GRANULE, STAGED_BYTES
from stablehlo_py.errors import InternalError, ResourceError, ShloError

X = np.arange(1000, dtype=np.int32)
FAULT = r"(CUDA_ERROR_ILLEGAL_ADDRESS|hipErrorIllegalAddress) \(700\)"


def read(device, block) -> np.ndarray:
    result = np.empty_like(X)
    device.memory.read(block, result)
    return result


@pytest.mark.parametrize("pools", [0, 1])
def test_there_and_back(streams, pools) -> None:
    streams.set(pools=pools)
    device = streams.device()
    block, array = device.memory.allocate(X.nbytes), X.copy()
    event = device.memory.write(array, block)
    assert event is not None and not event.is_ready()
    array[:] = -1  # it may change when write has returned
    event.wait()
    assert event.is_ready() and np.array_equal(read(device, block), X)
    large = np.ones(STAGED_BYTES + 1, np.uint8)
    assert device.memory.write(large, device.memory.allocate(large.nbytes)) is None  # it has waited


@pytest.mark.parametrize("pools", [0, 1])
def test_blocks_are_used_again(streams, pools) -> None:
    streams.set(pools=pools)
    device = streams.device()
    block = device.memory.allocate(X.nbytes)
    address = block.address
    device.memory.write(X, block)
    del block
    again = device.memory.allocate(X.nbytes - 100)
    allocated = streams.own("MemAllocFromPoolAsync" if pools else "MemAlloc")
    assert again.address == address and streams.calls(allocated) == 1
    device.memory.limit = 0
    del again
    # Of a pool it is freed behind the copy, else when that is done.
    assert ("blocks" in streams.live()) == bool(pools)
    device.queue.finish()
    assert "blocks" not in streams.live()


def test_events_are_used_again(streams) -> None:
    device = streams.device()
    block = device.memory.allocate(X.nbytes)
    for _ in range(3):
        event = device.memory.write(X, block)
        event.wait()
        del event
        device.memory._settle()
    assert streams.calls(streams.own("EventCreate")) == 1
    kept = [device.memory.write(X, block) for _ in range(3)]
    assert len({event.handle for event in kept}) == 3


@pytest.mark.parametrize(("pools", "function"), [(0, "MemAlloc"), (1, "MemAllocFromPoolAsync")])
def test_out_of_memory(streams, pools, function) -> None:
    streams.set(pools=pools)
    device, function = streams.device(), streams.own(function)
    block = device.memory.allocate(X.nbytes)
    streams.fail(function, 2)
    assert device.memory.allocate(2 * GRANULE).address  # after what is kept is freed
    for nth in (1, 2):
        streams.fail(function, 2, nth)
    with pytest.raises(
        ResourceError, match=r"123456 bytes of memory are not to be had on (cuda|rocm):0\n.*smaller batch"
    ):
        device.memory.allocate(123456)
    with pytest.raises(ResourceError, match=r"bytes of memory are more than (cuda|rocm):0 gives at once"):
        device.memory.allocate(1 << 40)
    device.memory.write(X, block)
    assert np.array_equal(read(device, block), X)
    streams.fail(function, 400)
    with pytest.raises(InternalError, match=rf"{function}.* on (cuda|rocm):0 ended with \w+"):
        device.memory.allocate(GRANULE)


@pytest.mark.parametrize("pools", [0, 1])
def test_a_fault(streams, pools) -> None:
    streams.set(pools=pools)
    device = streams.device()
    block = device.memory.allocate(X.nbytes)
    streams.fail("execute", 700)
    event = device.memory.write(X, block)
    assert event is not None
    for _ in range(2):
        with pytest.raises(
            InternalError,
            match=r"a command on (cuda|rocm):0 ended with (CUDA_ERROR_ILLEGAL_ADDRESS|hipErrorIllegalAddress) \(700\)",
        ):
            event.wait()
    assert event.is_ready() and device.queue.is_lost
    with pytest.raises(InternalError, match=FAULT):
        read(device, block)
    with pytest.raises(InternalError, match=FAULT):
        device.memory.allocate(1)
    del block, event, device  # on CUDA, all goes with the context


def test_memory_outlives_the_device(streams) -> None:
    device = streams.device()
    memory = device.memory
    block = memory.allocate(X.nbytes)
    event = memory.write(X, block)
    del device
    result = np.empty_like(X)
    memory.read(block, result)
    assert np.array_equal(result, X)
    del memory, event


def test_streams_of_others(streams) -> None:
    device = streams.device()
    stream, other = device.queue, device.memory.default_stream
    stream.precede(other)
    assert streams.waits() == (other, stream.handle)
    stream.follow(other)
    assert streams.waits() == (stream.handle, other)
    assert streams.live()["events"] == 1  # which the next one is


def test_a_forked_child_frees_nothing_and_is_refused(streams) -> None:
    device = streams.device()
    block = device.memory.allocate(X.nbytes)
    event = device.memory.write(X, block)
    names = ("StreamSynchronize", "EventDestroy", "MemcpyAsync", "MemFreeAsync", "StreamDestroy")
    names = [streams.own(name) for name in names]
    before = {name: streams.calls(name) for name in names}
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
                if f"this process was forked from one that uses {streams.library.driver}" not in str(error):
                    said.append(str(error))
        del block, event, device, work
        said += [name for name in names if streams.calls(name) != before[name]]
        os.write(write_end, repr(said).encode())
        os._exit(0)
    os.close(write_end)
    assert os.read(read_end, 10_000) == b"[]"
    os.close(read_end)
    assert os.waitpid(child, 0)[1] == 0
    event.wait()
    assert np.array_equal(read(device, block), X)
