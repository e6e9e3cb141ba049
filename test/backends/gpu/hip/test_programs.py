"""Programs for AMD's GPUs on a driver of HIP that fails: what is said, nothing is leaked, and they work again.

They are loaded as they are: the fake driver reads their code objects. Its kernels add 1 to the integers at their first
argument: a donated input is one more after each call.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from driver_programs import CONSTANT, COUNT, LOOP, MANY, STEP, TWO, X, stepped
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.hip import device as device_module
from stablehlo_py.backends.gpu.hip.library import FUNCTIONS, VARIABLE
from stablehlo_py.cli.run import main
from stablehlo_py.errors import ArgumentError, InternalError, LoadError, OptionError, ResourceError
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.dlpack import exported_from, imported, placed
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.memory import address_of
from stablehlo_py.runtime.program import CompiledProgram

ROCM = (10, 0)


@cache
def program(text: str, gpu: str = "gfx942") -> CompiledProgram:
    return compile_program(text, target="rocm", options=Options(gpu=gpu))


def loaded(text: str) -> Executable:
    return Executable(program(text))


def test_a_state_stays_where_it_is(hip_device) -> None:
    executable = loaded(STEP)
    state = executable.put(X, 0)
    assert state.device == "rocm:0"
    address, copies = state.address, hip_device.calls("hipMemcpyAsync")
    for _ in range(10):
        (state,) = executable.call([state])
        assert state.address == address
    assert not state.is_ready()  # nothing has waited: the fake driver works when somebody does
    assert hip_device.calls("hipMemcpyAsync") == copies
    assert np.array_equal(np.asarray(state), X + 10)


def test_launches(hip_device) -> None:
    """From the host's native function."""
    executable = loaded(STEP)
    executable(X)
    ((name, (blocks, threads, shared, stream, parameters)),) = hip_device.launches()
    assert (name,) == program(STEP).kernels
    assert blocks * threads <= COUNT and shared == 0 and parameters == 8 * 3  # an input, a result, scratch memory
    assert stream == executable._loaded.code._queue.handle


def test_programs_for_other_gpus(hip_device) -> None:
    other = program(STEP, "gfx1100")
    with pytest.raises(
        LoadError, match=r"for gfx1100, and does not run on Fake 0, which is gfx942\n.*Options\(gpu='gfx942'\)"
    ):
        Executable(other)
    hip_device.set(processor=2)
    device_module.DEVICES.clear()
    with pytest.raises(LoadError, match=r"for gfx942, and does not run on Fake 0, which is gfx1100\n"):
        loaded(STEP)
    stepped(Executable(other))


def test_the_gpu_of_this_machine_is_what_code_is_for(hip_device) -> None:
    assert compile_program(STEP, target="rocm").target == "gfx942"
    hip_device.set(processor=1)
    assert compile_program(STEP, target="rocm").target == "gfx90a"
    hip_device.set(processor=3)
    with pytest.raises(OptionError, match="generates no code for gpu='gfx906'"):
        compile_program(STEP, target="rocm")


@pytest.mark.parametrize("function", ["hipModuleLaunchKernel", "hipEventRecord", "hipEventCreateWithFlags"])
def test_a_call_that_fails(hip_device, function) -> None:
    """With a status that is no fault."""
    executable = loaded(STEP)
    buffer = executable.put(X, 0)
    hip_device.fail(function, 2)
    with pytest.raises(ResourceError, match=r"on rocm:0 ended with hipErrorOutOfMemory \(2\)(.|\n)*help: free memory"):
        executable.call([buffer])
    stepped(executable, 3)


def test_a_launch_that_fails_names_its_kernel(hip_device) -> None:
    executable, arrays = loaded(TWO), [np.ones((COUNT, COUNT), np.float32)] * 2
    second = program(TWO).kernels[-1]
    nth = len(program(TWO).kernels)
    hip_device.fail("hipModuleLaunchKernel", 1, nth)
    with pytest.raises(
        InternalError, match=rf"a call, at kernel '{second}', on rocm:0 ended with hipErrorInvalidValue"
    ):
        executable(*arrays)
    executable(*arrays)


@pytest.mark.parametrize("status", [700, 719, 702, 214, 999])
def test_a_kernel_that_faults(hip_device, status) -> None:
    """Buffers are gone; the program is loaded anew."""
    executable = loaded(STEP)
    state, other = executable.put(X, 0), executable.put(X, 0)
    np.asarray(state)
    hip_device.fail("execute", status)
    (state,) = executable.call([state])
    for _ in range(2):
        with pytest.raises((InternalError, ResourceError), match=rf"on rocm:0 ended with hipError\w+ \({status}\): "):
            np.asarray(state)
    with pytest.raises(ArgumentError, match=r"was in device memory of rocm:0, and is gone: the device was lost\n"):
        executable.call([other])
    stepped(executable, 3)


@pytest.mark.parametrize("function", ["hipModuleLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize", "execute"])
def test_a_loop_ends_where_the_driver_fails(hip_device, function) -> None:
    executable = loaded(LOOP)
    yes, no = np.array(True), np.array(False)
    hip_device.fail(function, 700, 20)
    hip_device.fail("hipModuleLaunchKernel", 1, 10_000)  # else it would never end
    with pytest.raises(InternalError, match=r"at kernel '\w+', on rocm:0 ended with hipErrorIllegalAddress"):
        executable(yes, MANY)
    assert np.array_equal(executable(no, MANY)[0], MANY)


def test_no_memory(hip_device) -> None:
    hip_device.set(bytes=1 << 17)
    with pytest.raises(ResourceError, match=r"intermediate values of a call take \d+ bytes at their peak: "):
        loaded(TWO)
    hip_device.set(bytes=1 << 28)
    executable = loaded(CONSTANT)
    executable.call([executable.put(X, 0)])


def whole_day() -> None:
    """Everything that a program needs of the driver, once."""
    executable = loaded(STEP)
    stepped(executable, 2)
    executable.put(X, 0).wait()
    executable(X)


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(hip_device) -> None:
    """Every call of every function fails once: what was there is freed, and the next time all is well."""
    ending = {"hipStreamDestroy", "hipEventDestroy", "hipFreeAsync", "hipMemPoolDestroy", "hipModuleUnload", "hipInit"}
    whole_day()
    device_module.DEVICES.clear()
    names = [*sorted({*FUNCTIONS} - ending - {"hipSetDevice"}), "execute"]
    before = {name: hip_device.calls(name) for name in names}
    whole_day()
    counts = {name: hip_device.calls(name) - count for name, count in before.items()}
    failed = 0
    for name, count in counts.items():
        for nth in range(1, min(count, 8) + 1):
            for status in (2, 400, 700):
                device_module.DEVICES.clear()
                hip_device.fail(name, status, nth)
                try:
                    whole_day()
                except shlo.ShloError:
                    failed += 1
                hip_device.itself.fake_forgive()
                whole_day()
                device_module.DEVICES.clear()
                assert hip_device.live() == {}, (name, nth, status)
    assert failed > 100


def test_two_devices(hip_device) -> None:
    """A buffer of the other one is copied from there."""
    hip_device.set(devices=2)
    first, second = (Executable(program(STEP), device) for device in (0, 1))
    (one,), (other,) = first.call([first.put(X, 0)]), second.call([second.put(X + 100, 0)])
    assert (one.device, other.device) == ("rocm:0", "rocm:1") and other.__dlpack_device__() == (10, 1)
    (moved,) = second.call([second.put(one)])
    assert hip_device.calls("hipMemcpyPeerAsync") == 1
    assert [np.asarray(each)[0] for each in (one, other, moved)] == [1, 101, 2]


SCRIPT = """
import os, sys
import numpy as np
from stablehlo_py.backends.gpu.hip.device import DEVICES
from stablehlo_py.errors import ResourceError

device = DEVICES.get()
block = device.memory.allocate(4000)
event = device.memory.write(np.zeros(1000, np.int32), block)
child = os.fork()
if not child:
    try:
        DEVICES.get()
    except ResourceError:
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
kept = [device.memory.allocate(8), device.queue.last_event(), block, event]
kept.append(kept)  # the garbage collector's
"""


def test_the_interpreter_ends_with_everything_alive(hip) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, VARIABLE: hip.path},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


WITHOUT_COMPILER = """
import ctypes, os
fake = ctypes.CDLL(os.environ["SHLO_HIP_LIBRARY"])
x, many = (np.arange(count, dtype=np.int32) for count in (256, 1 << 18))
step, loop, constant = (shlo.load_executable(path) for path in sys.argv[1:])
buffer = step.put(x, 0)
for _ in range(3):
    (buffer,) = step.call([buffer])
print((np.asarray(buffer) == x + 3).all(), loop(np.bool_(False), many)[0].shape, constant(x)[0].shape)
fake.fake_fail(b"hipModuleLaunchKernel", 1, 2)
try:
    constant(x)
except shlo.ResourceError as error:
    print(error.reason)
assert not compiling(), compiling()
"""


def test_programs_run_without_a_compiler(hip_device, tmp_path) -> None:
    """With loops, constants and an error of the driver."""
    paths = []
    for name, text in (("step", STEP), ("loop", LOOP), ("constant", CONSTANT)):
        paths.append(tmp_path / f"{name}.shloexe")
        artifact.save(program(text), paths[-1])
    first, second = alone(WITHOUT_COMPILER, *paths, SHLO_HIP_LIBRARY=hip_device.path).splitlines()
    assert first == "True (262144,) (256,)"
    assert "hipErrorOutOfMemory" in second


def test_the_command_line_says_what_is_missing(no_hip_library, tmp_path, capsys) -> None:
    no_hip_library.setenv(VARIABLE, str(tmp_path / "libamdhip64.so"))
    artifact.save(program(STEP), tmp_path / "step.shloexe")
    assert main([str(tmp_path / "step.shloexe")]) != 0
    said = capsys.readouterr().err
    assert "there is no HIP here" in said and "install AMD's driver and ROCm" in said


# --- arrays of other libraries ----------------------------------------------------------------------------------------


class Foreign:
    """An array of another library: the memory is the device's, the streams are its own."""

    def __init__(self, array: np.ndarray) -> None:
        memory = device_module.DEVICES.get().memory
        self.block = memory.allocate(array.nbytes)
        memory.write(array, self.block)
        self.array = placed(self.block, self.block.address, array.shape, array.dtype)
        self.asked: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return ROCM

    def __dlpack__(self, stream: int | None = None, max_version: tuple[int, int] | None = None) -> object:
        self.asked.append(stream)
        return exported_from(ROCM, self.array)


def test_a_buffer_in_other_hands(hip_device) -> None:
    executable = loaded(STEP)
    (buffer,) = executable.call([executable.put(X, 0)])
    queue = device_module.DEVICES.get().queue
    assert buffer.__dlpack_device__() == ROCM
    array = imported(buffer, ROCM)
    assert hip_device.waits() == (0, queue.handle)  # the default stream works behind what computes it
    assert address_of(array) == buffer.address and array.shape == X.shape and array.dtype == X.dtype
    queue.finish()
    assert np.array_equal(array, X + 1)
    del buffer, array
    assert hip_device.waits() == (queue.handle, 0)  # what is done with the memory next works behind the consumer
    buffer = executable.put(X, 0)
    for stream in (1, 2):
        with pytest.raises(BufferError, match=f"stream {stream} may be one of several: the default stream is 0"):
            buffer.__dlpack__(stream=stream)
    assert not hasattr(buffer, "__cuda_array_interface__")
    assert np.array_equal(np.from_dlpack(buffer, device="cpu"), X)


def test_an_array_of_another_library(hip_device) -> None:
    executable, foreign = loaded(STEP), Foreign(X)
    copies = hip_device.calls("hipMemcpyAsync")
    buffer = executable.put(foreign, 0, copy=False)
    assert buffer.address == foreign.block.address and hip_device.calls("hipMemcpyAsync") == copies
    assert foreign.asked == [device_module.DEVICES.get().queue.handle]  # the producer lets our stream wait
    (result,) = executable.call([buffer])  # donated: but the memory is not ours to give
    assert np.array_equal(np.asarray(result), X + 1)
    assert np.array_equal(np.asarray(executable.put(foreign, 0)), X)


def test_types(hip_device) -> None:
    type_, array = "tensor<2x3xbf16>", np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    executable = loaded(f"func.func @main(%x: {type_}) -> {type_} {{\n  return %x : {type_}\n}}")
    given = imported(executable.put(array), ROCM)
    device_module.DEVICES.get().queue.finish()
    assert given.dtype == array.dtype and np.array_equal(given, array)
    assert np.array_equal(np.asarray(executable.put(Foreign(array), copy=False)), array)
