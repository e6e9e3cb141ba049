"""Devices of JAX's platforms for GPUs (stablehlo_py/pjrt/device_place.py) on fake drivers, which fail when they are
told to. What runs on a device that is there: test/pjrt/test_gpu_platform.py."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from driver_programs import STEP, X, with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import get_backend
from stablehlo_py.errors import InternalError
from stablehlo_py.pjrt.blocks import Blocks, PlatformError, Storage
from stablehlo_py.pjrt.client import item_sizes
from stablehlo_py.pjrt.device_place import DevicePlace
from stablehlo_py.pjrt.errors import error_of


@pytest.fixture(scope="module")
def blocks() -> Blocks:
    return Blocks(item_sizes())


def place_of(blocks: Blocks, target: str, number: int = 0) -> DevicePlace:
    backend: Any = get_backend(target)
    return DevicePlace(blocks, backend, number, lambda failure: error_of(failure, blocks))


def put(place: DevicePlace, array: np.ndarray, *, stays: bool = False) -> Storage:
    storage = place.storage(array.nbytes)
    finish(place, place.write(array, storage, stays=stays))
    return storage


def finish(place: DevicePlace, event: int) -> None:
    """Wait for an event, and give it back."""
    if event:
        try:
            place.blocks.wait(event)
        finally:
            place.blocks.call["event_drop"](event)


def end(blocks: Blocks) -> None:
    """What was dropped is freed."""
    gc.collect()
    blocks.sweep()


@pytest.mark.parametrize("stays", [False, True])
def test_arrays_go_to_a_device_with_streams_and_back(streams_device, blocks, stays) -> None:
    target = "cuda" if streams_device.library.driver == "CUDA" else "rocm"
    place = place_of(blocks, target)
    assert place.kind and place.attributes["core_count"]
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    first, turned = put(place, array, stays=stays), put(place, array.T, stays=stays)
    assert np.array_equal(place.array(first, (4, 6), array.dtype), array)
    assert np.array_equal(place.array(turned, (6, 4), array.dtype), array.T)
    copy = place.copied(first, array.nbytes, place)
    assert copy.address != first.address and np.array_equal(place.array(copy, (4, 6), array.dtype), array)
    part = np.empty(2, np.float32)
    finish(place, place.read(first, 8, 8, part.ctypes.data))
    assert part.tolist() == [2, 3]
    used = place.memory_stats()["bytes_in_use"]
    del copy
    assert place.memory_stats()["bytes_in_use"] < used <= place.memory_stats()["peak_bytes_in_use"]
    del first, turned, place
    end(blocks)


def test_a_call_that_fails_on_the_device_is_the_error_of_what_depends_on_it(fake_device, blocks) -> None:
    place = place_of(blocks, "opencl")
    program = with_fake_kernels(compile_program(STEP, target="opencl"))
    executable: Any = SimpleNamespace(program=program, code=place.load(program))

    state = put(place, X)
    for _ in range(3):
        finish(place, place.run(executable, [state], [state]))
    assert np.array_equal(place.array(state, X.shape, X.dtype), X + 3)
    fake_device.fail("execute", -5)
    with pytest.raises(PlatformError, match="opencl:0 ended with CL_"):
        finish(place, place.run(executable, [state], [state]))
    with pytest.raises(PlatformError, match="opencl:0 ended with CL_"):  # what it computes is worth nothing
        place.array(state, X.shape, X.dtype)
    other = put(place, X)
    finish(place, place.run(executable, [other], [other]))
    assert np.array_equal(place.array(other, X.shape, X.dtype), X + 1)
    del state, other, executable, place
    end(blocks)


def test_a_lost_device_takes_its_arrays_along(streams_device, blocks) -> None:
    target = "cuda" if streams_device.library.driver == "CUDA" else "rocm"
    place = place_of(blocks, target)
    state = put(place, X)
    streams_device.fail(streams_device.own("StreamSynchronize"), 719)  # a launch failed
    backend: Any = get_backend(target)
    with pytest.raises(InternalError):
        backend.memory(0).finish()
    with pytest.raises(Exception, match="is gone: the device was lost"):
        place.array(state, X.shape, X.dtype)
    again = put(place, X)
    assert np.array_equal(place.array(again, X.shape, X.dtype), X)
    del state, again, place
    end(blocks)
