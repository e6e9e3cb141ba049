"""Devices of JAX's platforms for GPUs (stablehlo_py/pjrt/device_place.py) on fake drivers, which fail when they are
told to. What runs on a device that is there: test/pjrt/test_gpu_platform.py."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from driver_programs import SIZES, STEP, X, steps, with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import get_backend
from stablehlo_py.errors import InternalError
from stablehlo_py.options import Options
from stablehlo_py.pjrt.api import structure
from stablehlo_py.pjrt.blocks import Blocks, PlatformError, Storage
from stablehlo_py.pjrt.client import Client
from stablehlo_py.pjrt.device_place import DevicePlace
from stablehlo_py.pjrt.errors import error_of
from stablehlo_py.pjrt.executable import Compiled
from stablehlo_py.pjrt.options import CompileOptions
from stablehlo_py.pjrt.plugin import api_of
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.pjrt.signature import Layouts, row_major
from stablehlo_py.pjrt.types import item_sizes
from stablehlo_py.runtime.program import CompiledProgram


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


class Calls:
    """Calls of a program through the API, on the device of a place."""

    def __init__(self, place: DevicePlace, program: CompiledProgram) -> None:
        self.place, self.blocks, self.program = place, place.blocks, program
        target = program.backend
        self.client = Client(f"shlo_{target}", target, [place], place.blocks)
        self.api, self._kept = api_of(self.client, place)
        ranks = ([len(spec.shape) for spec in specs] for specs in (program.inputs, program.outputs))
        layouts = Layouts(*(tuple(map(row_major, each)) for each in ranks))
        made = Compiled(program, CompileOptions(), Shardings(), (0,) * len(program.outputs), layouts)
        self.executable = self.client._executable(made)

    @property
    def is_native(self) -> bool:
        return bool(self.blocks.field("executable", self.executable, "plan"))

    def put(self, array: np.ndarray) -> int:
        return self.client._buffer(put(self.place, array), array.dtype, array.shape, 0)

    def __call__(self, *buffers: int) -> list[int]:
        """The results; raises what the call says at once."""
        options, events = structure("ExecuteOptions")(), (ctypes.c_int64 * 1)()
        row, made = (ctypes.c_int64 * len(buffers))(*buffers), (ctypes.c_int64 * len(self.program.outputs))()
        rows, outputs = (ctypes.c_int64 * 1)(ctypes.addressof(row)), (ctypes.c_int64 * 1)(ctypes.addressof(made))
        arguments = structure("LoadedExecutable_Execute")()
        arguments.struct_size = ctypes.sizeof(arguments)
        arguments.executable, arguments.num_devices, arguments.num_arguments = self.executable, 1, len(buffers)
        addresses = {"options": options, "arguments": rows, "outputs": outputs, "events": events}
        for name, value in addresses.items():
            setattr(arguments, name, ctypes.addressof(value))
        execute = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(self.api.LoadedExecutable_Execute)
        self.blocks._raise(execute(ctypes.addressof(arguments)))
        self.drop(*buffers)
        self.event = events[0]
        return list(made)

    def wait(self) -> None:
        """For the last call. Raises PlatformError: it has failed."""
        finish(self.place, self.event)

    def array(self, buffer: int, like: np.ndarray) -> np.ndarray:
        return self.place.array(self.place.hold(buffer), like.shape, like.dtype)

    def drop(self, *buffers: int) -> None:
        for buffer in buffers:
            self.blocks.call["buffer_drop"](buffer)

    def end(self) -> None:
        execute = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(self.api.LoadedExecutable_Destroy)
        arguments = (ctypes.c_int64 * 3)(24, 0, self.executable)
        execute(ctypes.addressof(arguments))
        self.blocks._objects.pop(self.client.address)  # else a client is there for ever


def test_native_calls_of_a_graph(streams_device, blocks) -> None:
    target, gpu = ("cuda", "sm_90") if streams_device.library.driver == "CUDA" else ("rocm", "gfx942")
    program = compile_program(steps(), target=target, options=Options(gpu=gpu))
    calls = Calls(place_of(blocks, target), with_fake_kernels(program) if target == "cuda" else program)
    arrays = [np.arange(size, dtype=np.int32) for size in SIZES]
    state, launched = [calls.put(array) for array in arrays], streams_device.own("GraphLaunch")
    natively = []
    for number in range(6):
        natively.append(calls.is_native)
        state = calls(*state)
        calls.wait()
        assert streams_device.calls(launched) == number  # not of the first call
    assert natively == [False, False, True, True, True, True]
    for buffer, array in zip(state, arrays, strict=True):
        assert np.array_equal(calls.array(buffer, array), array + 6)
    streams_device.fail(streams_device.own("GraphExecKernelNodeSetParams"), 1)  # refused: one by one from now on
    moved = [calls.put(array) for array in arrays]
    for _ in range(3):
        moved = calls(*moved)
        calls.wait()
    assert streams_device.calls(launched) == 5
    for buffer, array in zip(moved, arrays, strict=True):
        assert np.array_equal(calls.array(buffer, array), array + 3)
    calls.drop(*state, *moved)
    calls.end()
    del calls
    end(blocks)


def test_a_native_call_that_fails(fake_device, blocks) -> None:
    program = with_fake_kernels(compile_program(STEP, target="opencl"))
    calls = Calls(place_of(blocks, "opencl"), program)
    (state,) = calls(calls.put(X))
    assert calls.is_native
    calls.wait()
    fake_device.fail("execute", -5)
    (state,) = calls(state)
    first = calls.event
    (state,) = calls(state)  # of what has failed
    for event in (first, calls.event):
        with pytest.raises(PlatformError, match="a command on opencl:0 ended with CL_OUT_OF_RESOURCES"):
            finish(calls.place, event)
    with pytest.raises(PlatformError, match="opencl:0 ended with CL_OUT_OF_RESOURCES"):
        calls.array(state, X)
    (other,) = calls(calls.put(X))
    assert np.array_equal(calls.array(other, X), X + 1)
    fake_device.fail("clEnqueueNDRangeKernel", -5)
    with pytest.raises(PlatformError, match="a call, at kernel 'fusion_0', on opencl:0 ended with CL_OUT_OF_RESOURCES"):
        calls(other)
    (third,) = calls(calls.put(X))
    assert np.array_equal(calls.array(third, X), X + 1)
    calls.drop(state, other, third)
    calls.end()
    del calls
    end(blocks)


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
