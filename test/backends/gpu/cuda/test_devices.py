"""Two devices of the fake driver of CUDA in one process: executables, buffers and faults of each."""

from __future__ import annotations

import pickle
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from driver_programs import STEP, X, stepped, with_fake_kernels

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.cli.run import main
from stablehlo_py.errors import ArgumentError, InternalError, OptionError, ShloError
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.dlpack import imported
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

ANY = """func.func @main(%x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = stablehlo.add %x, %x : tensor<?xi32>
  return %0 : tensor<?xi32>
}"""


@pytest.fixture
def two(cuda_device):
    cuda_device.set(devices=2)
    return cuda_device


@cache
def program() -> CompiledProgram:
    return with_fake_kernels(compile_program(STEP, target="cuda", options=Options(gpu="sm_90")))


def on(device: int) -> Executable:
    return Executable(program(), device)


def test_executables_on_two_devices(two) -> None:
    first, second = on(0), on(1)
    one, other = first.put(X, 0), second.put(X + 100, 0)
    assert (one.device, other.device) == ("cuda:0", "cuda:1")
    for _ in range(3):
        (one,), (other,) = first.call([one]), second.call([other])
    assert np.array_equal(np.asarray(one), X + 3) and np.array_equal(np.asarray(other), X + 103)
    streams = {numbers[3] for _, numbers in two.launches()}
    assert len(streams) == 2 and two.live()["contexts"] == 2


def test_a_buffer_of_another_device(two) -> None:
    first, second = on(0), on(1)
    (result,) = first.call([first.put(X, 0)])
    with pytest.raises(
        ArgumentError, match=r"is in device memory of cuda:0, where the program does not run\n  help: put\(\) it with"
    ):
        second.call([result])
    with pytest.raises(ArgumentError, match=r"cannot be used without a copy: it is in device memory of cuda:0\n"):
        second.put(result, copy=False)
    finished = two.calls("cuStreamSynchronize")
    (moved,) = second.call([second.put(result)])
    assert two.calls("cuStreamSynchronize") == finished and two.calls("cuMemcpyPeerAsync") == 1
    assert two.waits() == (first._placement.space.stream, second._placement.space.stream)
    del first  # with its stream, which frees in its order
    assert moved.device == "cuda:1" and np.array_equal(np.asarray(moved), X + 2)
    assert np.array_equal(np.asarray(result), X + 1)
    result.release()
    with pytest.raises(ArgumentError, match="was released"):
        second.put(result)


@pytest.mark.every(2)
@pytest.mark.parametrize("status", [2, 700])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("function", ["cuMemcpyPeerAsync", "cuStreamWaitEvent", "cuEventRecord", "cuEventCreate"])
def test_a_copy_between_devices_that_fails(two, function, nth, status) -> None:
    first, second = on(0), on(1)
    for executable in (first, second):
        stepped(executable)
    buffer = first.put(X, 0)
    two.fail(function, status, nth)
    with suppress(ShloError):
        second.put(buffer)
    two.itself.fake_forgive()
    del buffer
    assert np.array_equal(np.asarray(second.put(first.put(X, 0))), X)


def test_others_are_told_the_number(two) -> None:
    second = on(1)
    buffer = second.put(X, 0)
    assert buffer.__dlpack_device__() == (2, 1)
    assert imported(buffer, (2, 1), stream=-1).shape == X.shape
    described = buffer.__cuda_array_interface__
    memory = second._placement.space
    assert memory is not None and memory.holds(described["data"][0])
    assert not on(0)._placement.space.holds(described["data"][0])


def test_a_fault_of_one_device(two) -> None:
    first, second = on(0), on(1)
    other = second.put(X, 0)
    np.asarray(other)
    (state,) = first.call([first.put(X, 0)])
    two.fail("execute", 700, 2)
    with pytest.raises(InternalError, match=r"on cuda:0 ended with CUDA_ERROR_ILLEGAL_ADDRESS"):
        np.asarray(state)
    (other,) = second.call([other])
    assert np.array_equal(np.asarray(other), X + 1)
    stepped(first, 2)


def test_numbers_that_no_device_has(two, tmp_path) -> None:
    path = tmp_path / "step.shloexe"
    artifact.save(on(0)._program, path)
    listed = r"there is no device cuda:7: .* finds cuda:0 Fake 0, cuda:1 Fake 1\n"
    with pytest.raises(ArgumentError, match=listed):
        shlo.load_executable(path, device=7)
    compiled = two.calls("cuModuleLoadDataEx")
    for options in (Options(device=7), Options(device=7, gpu="sm_90")):
        with pytest.raises(ArgumentError, match=listed):
            shlo.compile(STEP, target="cuda", options=options)
    assert two.calls("cuModuleLoadDataEx") == compiled
    with pytest.raises(OptionError, match="device is -1"):
        Options(device=-1)
    with pytest.raises(OptionError, match=r"device is 'cuda:1'\n  help: use the number of a device"):
        Options(device="cuda:1")
    with pytest.raises(ArgumentError, match="device is 'cuda:1'"):
        shlo.load_executable(path, device="cuda:1")
    with pytest.raises(ArgumentError, match=r"no device cuda:-1"):
        shlo.load_executable(path, device=-1)
    with pytest.raises(ArgumentError, match="there is no device cpu:1: there is cpu:0"):
        shlo.compile(STEP, options=Options(device=1))


def test_code_is_for_the_device(two) -> None:
    two.set(major1=8)
    assert compile_program(STEP, target="cuda").target == "sm_90a"
    assert compile_program(STEP, target="cuda", options=Options(device=1)).target == "sm_80"


def test_the_device_stays(two, tmp_path, capsys) -> None:
    """In copies, for all shapes, and for artifacts; the command line chooses it, too."""
    assert pickle.loads(pickle.dumps(on(1))).put(X).device == "cuda:1"
    symbolic = shlo.compile(ANY, target="cuda", options=Options(gpu="sm_90", device=1))
    assert symbolic.put(X).device == pickle.loads(pickle.dumps(symbolic)).put(X).device == "cuda:1"
    path = tmp_path / "step.shloexe"
    artifact.save(on(0)._program, path)
    assert shlo.load_executable(path, device=np.int64(1)).put(X).device == "cuda:1"
    started = len(two.launches())
    assert main([str(path), "--device", "1"]) == 0
    assert two.launches()[started][1][3] == shlo.load_executable(path, device=1)._placement.space.stream
    assert main([str(path), "--device", "2"]) != 0 and "cuda:1 Fake 1" in capsys.readouterr().err
