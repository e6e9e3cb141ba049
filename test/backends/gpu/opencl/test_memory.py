"""Memory of the fake driver: copies in order, blocks that are used again, and what happens when there is none."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from stablehlo_py.backends.gpu.driver.memory import GRANULE, STAGED_BYTES
from stablehlo_py.backends.gpu.opencl import memory as module
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.opencl.library import FUNCTIONS
from stablehlo_py.errors import InternalError, ResourceError, ShloError

X = np.arange(1000, dtype=np.int32)


def launch(device: OpenClDevice, built, block, count: int) -> None:
    """Ask for the kernel that adds 1."""
    kernel = built.kernel("increment")
    device.queue.library.call("clSetKernelArgSVMPointer", kernel, 0, block.address)
    sizes = np.array([count], np.uintp)
    device.queue.call("clEnqueueNDRangeKernel", kernel, 1, None, sizes.ctypes.data, None, 0, None, None)


def read(device: OpenClDevice, block) -> np.ndarray:
    result = np.empty_like(X)
    device.memory.read(block, result)
    return result


def test_there_and_back(driver) -> None:
    device = driver.device()
    block = device.memory.allocate(X.nbytes)
    device.memory.write(X, block)
    assert np.array_equal(read(device, block), X)


def test_an_array_may_change_when_write_has_returned(driver) -> None:
    device = driver.device()
    block, array = device.memory.allocate(X.nbytes), X.copy()
    event = device.memory.write(array, block)
    assert event is not None and not event.is_ready()
    array[:] = -1
    event.wait()
    assert event.is_ready() and np.array_equal(read(device, block), X)


def test_an_array_that_is_large_is_not_copied(driver) -> None:
    device = driver.device()
    large = np.ones(STAGED_BYTES + 1, np.uint8)
    block = device.memory.allocate(large.nbytes)
    assert device.memory.write(large, block) is None


def test_copies_under_way_are_bounded(driver) -> None:
    device = driver.device()
    part = np.ones(STAGED_BYTES // 2, np.uint8)
    block = device.memory.allocate(part.nbytes)
    events = [device.memory.write(part, block) for _ in range(3)]
    assert [event is None for event in events] == [False, False, True]
    assert device.memory.write(part, block) is not None  # the third has waited for the others


def test_a_device_that_is_the_processor_gets_no_copies(driver) -> None:
    driver.set(kind=2)
    device = driver.device()
    block = device.memory.allocate(X.nbytes)
    assert device.memory.write(X, block) is None
    assert np.array_equal(read(device, block), X)


def test_arrays_of_nothing(driver) -> None:
    device = driver.device()
    block, empty = device.memory.allocate(0), np.empty((0, 3), np.float32)
    assert block.address and device.memory.write(empty, block) is None
    device.memory.read(block, empty)
    assert not driver.calls("clEnqueueSVMMemcpy")


def test_programs_run_between_copies(driver) -> None:
    device = driver.device()
    built, block = device.build(b"increment"), device.memory.allocate(X.nbytes)
    device.memory.write(X, block)
    for _ in range(3):
        launch(device, built, block, X.size)
    event = device.queue.marker()
    assert not event.is_ready()
    event.wait()
    assert np.array_equal(read(device, block), X + 3)


def test_memory_goes_behind_the_work_that_uses_it(driver) -> None:
    """The driver counts what is used after its end."""
    device = driver.device()
    device.memory.limit = 0
    built, block = device.build(b"increment"), device.memory.allocate(X.nbytes)
    event = device.memory.write(X, block)
    launch(device, built, block, X.size)
    del block, built
    assert driver.live()["blocks"] == 1
    event.wait()
    assert "blocks" not in driver.live()


def test_blocks_are_used_again(driver) -> None:
    device = driver.device()
    built, block = device.build(b"increment"), device.memory.allocate(X.nbytes)
    address = block.address
    device.memory.write(X, block)
    launch(device, built, block, X.size)
    del block
    again = device.memory.allocate(X.nbytes - 100)  # of the same granules
    assert again.address == address and driver.calls("clSVMAlloc") == 1
    device.memory.write(X + 7, again)  # behind the program
    assert np.array_equal(read(device, again), X + 7)
    assert device.memory.allocate(X.nbytes).address != address


def test_what_is_kept_is_bounded(driver) -> None:
    device = driver.device()
    memory = device.memory
    memory.limit = 3 * GRANULE
    blocks = [memory.allocate(GRANULE), memory.allocate(GRANULE), memory.allocate(2 * GRANULE)]
    while blocks:
        del blocks[0]
    device.queue.finish()
    assert driver.live()["blocks"] == 2 and memory._kept == 3 * GRANULE
    assert {size: len(kept) for size, kept in memory._free.items()} == {GRANULE: 1, 2 * GRANULE: 1}
    memory.trim()
    assert "blocks" not in driver.live() and memory._kept == 0


def test_the_size_that_was_used_longest_ago_makes_room(driver) -> None:
    memory = driver.device().memory
    memory.limit = 4 * GRANULE
    first, second, other = memory.allocate(GRANULE), memory.allocate(GRANULE), memory.allocate(2 * GRANULE)
    del first
    del other
    del second
    memory.allocate(3 * GRANULE)
    assert {size: len(kept) for size, kept in memory._free.items()} == {GRANULE: 1, 3 * GRANULE: 1}


def test_a_block_may_come_and_go_often(driver) -> None:
    memory = driver.device().memory
    memory.limit = 2 * GRANULE
    for _ in range(10):
        memory.allocate(GRANULE)
    assert driver.calls("clSVMAlloc") == 1 and memory._kept == GRANULE


def test_a_queue_that_frees_nothing(driver) -> None:
    """Blocks are freed at once then, when it is done."""
    device = driver.device()
    device.memory.limit = 0
    block = device.memory.allocate(X.nbytes)
    event = device.memory.write(X, block)
    driver.fail("clEnqueueSVMFree", -5)
    del block
    assert event.is_ready() and driver.calls("clSVMFree") == 1 and "blocks" not in driver.live()


def test_copies_outlive_the_commands_that_read_them(driver) -> None:
    device = driver.device()
    event = device.memory.write(X, device.memory.allocate(X.nbytes))
    assert not event.is_ready()
    del device
    assert event.is_ready()  # the memory has waited before it let the copy go


def test_kept_memory_is_a_part_of_the_device(driver) -> None:
    driver.set(global_bytes=GRANULE * module.KEPT_SHARE)
    device = driver.device()
    blocks = [device.memory.allocate(GRANULE) for _ in range(3)]
    blocks.clear()
    device.queue.finish()
    assert driver.live()["blocks"] == 1


def test_what_is_kept_is_freed_before_memory_is_refused(driver) -> None:
    device = driver.device()
    block = device.memory.allocate(GRANULE)
    del block
    driver.fail("clSVMAlloc", -4)
    assert device.memory.allocate(2 * GRANULE).address
    assert driver.calls("clSVMAlloc") == 3 and driver.live()["blocks"] == 1


def test_out_of_memory(driver) -> None:
    device = driver.device()
    block = device.memory.allocate(X.nbytes)
    for nth in (1, 2):
        driver.fail("clSVMAlloc", -4, nth)
    with pytest.raises(ResourceError, match=r"123456 bytes of memory are not to be had on opencl:0\n.*smaller batch"):
        device.memory.allocate(123456)
    device.memory.write(X, block)
    assert np.array_equal(read(device, block), X)
    assert device.memory.allocate(123456).address


def test_more_than_one_block_can_have(driver) -> None:
    driver.set(largest=5000)
    memory = driver.device().memory
    with pytest.raises(ResourceError, match=r"5001 bytes of memory are more than opencl:0 gives at once \(5000\)"):
        memory.allocate(5001)
    assert memory.allocate(5000).address


def test_a_command_that_fails(driver) -> None:
    device = driver.device()
    block = device.memory.allocate(X.nbytes)
    driver.fail("execute", -5)
    event = device.memory.write(X, block)
    for _ in range(2):
        with pytest.raises(ResourceError, match=r"a command on opencl:0 ended with CL_OUT_OF_RESOURCES \(-5\)"):
            event.wait()
    assert event.is_ready() and not device.queue.is_lost
    with pytest.raises(ResourceError, match="CL_OUT_OF_RESOURCES"):
        read(device, block)  # of which nobody may make anything
    device.memory.write(X, block)
    assert np.array_equal(read(device, block), X)


def test_a_device_that_is_lost(driver) -> None:
    device = driver.device()
    built, block = device.build(b"increment"), device.memory.allocate(X.nbytes)
    event = device.memory.write(X, block)
    driver.set(lost=1)
    with pytest.raises(ResourceError, match="a command on opencl:0 ended with CL_DEVICE_NOT_AVAILABLE"):
        event.wait()
    with pytest.raises(ResourceError, match=r"CL_DEVICE_NOT_AVAILABLE \(-2\)\n  help: the device was reset"):
        launch(device, built, block, X.size)
    with pytest.raises(ResourceError, match="CL_DEVICE_NOT_AVAILABLE"):
        device.memory.allocate(1 << 20)
    driver.fail("clFinish", -36)
    with pytest.raises(InternalError, match="CL_INVALID_COMMAND_QUEUE"):
        device.queue.finish()
    assert device.queue.is_lost  # for good
    del block, built, event, device  # all is freed, though the queue takes no command


def test_memory_outlives_the_device(driver) -> None:
    device = driver.device()
    memory = device.memory
    block = memory.allocate(X.nbytes)
    event = memory.write(X, block)
    del device
    result = np.empty_like(X)
    memory.read(block, result)
    assert np.array_equal(result, X)
    del memory, event


def test_blocks_end_while_the_lock_is_held(driver) -> None:
    """As the garbage collector may end them, wherever it runs."""
    device = driver.device()
    block = device.memory.allocate(X.nbytes)
    with device.memory._lock:
        del block
    device.queue.finish()
    assert "blocks" not in driver.live()


def test_a_forked_child_frees_nothing_and_is_refused(driver) -> None:
    device = driver.device()
    block = device.memory.allocate(X.nbytes)
    event = device.memory.write(X, block)
    before = {name: driver.calls(name) for name in ("clFinish", "clReleaseEvent", "clEnqueueSVMMemcpy", "clSVMAlloc")}
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
            except ResourceError as error:
                said.append("forked" in error.reason)
        del block, event, device, work
        after = {name: driver.calls(name) for name in before}
        os.write(write_end, repr((said, after == before)).encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as pipe:
        assert pipe.read() == repr(([True] * 5, True))
    assert np.array_equal(read(device, block), X)


def whole_day(driver) -> np.ndarray:
    """Everything that a program needs of the runtime, once."""
    device = driver.device()
    built = device.build(b"increment")
    block = device.memory.allocate(X.nbytes)
    device.memory.write(X, block)
    kernel = built.kernel("increment")
    device.queue.library.call("clSetKernelArgSVMPointer", kernel, 0, block.address)
    sizes = np.array([X.size], np.uintp)
    device.queue.command("clEnqueueNDRangeKernel", kernel, 1, None, sizes.ctypes.data, None).wait()
    device.queue.marker().wait()
    other = device.memory.allocate(X.nbytes)
    event = device.memory.write(X, other)
    while not event.is_ready():
        device.queue.finish()
    del other
    device.memory.trim()
    return read(device, block)


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(driver) -> None:
    """Every call of every function fails once: what was there is freed, and the next time all is well."""
    assert np.array_equal(whole_day(driver), X + 1)
    functions = [name for name in FUNCTIONS if driver.calls(name)]
    counts = {name: driver.calls(name) for name in [*functions, "execute"]}
    assert len(functions) > 18
    failed = 0
    for name, count in counts.items():
        for nth in range(1, count + 1):
            for status in (-5, -30, -2):
                driver.itself.fake_reset()
                driver.fail(name, status, nth)
                try:
                    assert np.array_equal(whole_day(driver), X + 1), (name, nth)
                except ShloError:
                    failed += 1
                assert (driver.live(), driver.misuses()) == ({}, 0), (name, nth, status)
    driver.itself.fake_reset()
    assert failed > 100 and np.array_equal(whole_day(driver), X + 1)
