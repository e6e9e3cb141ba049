"""Programs on a driver of CUDA that fails: what is said, that nothing is leaked, and that they work again.

The fake driver's kernels add 1 to the integers at their first argument: a donated input is one more after each call.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from driver_programs import CONSTANT, COUNT, LOOP, MANY, STEP, TWO, X, stepped, with_fake_kernels
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.errors import ArgumentError, InternalError, LoadError, OptionError, ResourceError
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

SUM = f"""func.func @main(%x: tensor<{COUNT}xf32>, %y: tensor<{COUNT}xf32>) -> tensor<{COUNT}xf32> {{
  %0 = stablehlo.add %x, %y : tensor<{COUNT}xf32>
  return %0 : tensor<{COUNT}xf32>
}}"""


def fake_program(text: str, gpu: str = "sm_90") -> CompiledProgram:
    """A compiled program, its kernels the fake driver's."""
    return with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu=gpu)))


def fake(text: str) -> Executable:
    return Executable(fake_program(text))


def test_a_state_stays_where_it_is(cuda_device) -> None:
    executable = fake(STEP)
    state = executable.put(X, 0)
    address, copies = state.address, cuda_device.calls("cuMemcpyAsync")
    for _ in range(10):
        (state,) = executable.call([state])
        assert state.address == address
    assert not state.is_ready()  # nothing has waited: the fake driver works when somebody does
    assert cuda_device.calls("cuMemcpyAsync") == copies
    assert cuda_device.live()["events"] <= 3
    assert np.array_equal(np.asarray(state), X + 10)


def test_launches(cuda_device) -> None:
    """The kernel of a sum of two arrays, from the host's native function."""
    program = fake_program(SUM)
    (symbol,) = program.kernels
    executable = Executable(program)
    x, y = np.arange(COUNT, dtype=np.float32), np.ones(COUNT, np.float32)
    executable(x, y)
    ((name, (blocks, threads, shared, stream, parameters)),) = cuda_device.launches()
    assert name == symbol and blocks * threads == COUNT and shared == 0
    assert stream == executable._loaded.code._queue.handle
    assert parameters == 8 * 4  # two inputs, a result, scratch memory


def test_programs_for_other_machines(cuda_device) -> None:
    with pytest.raises(LoadError, match=r"compiled for \w+_100, and does not run on Fake 0, which is sm_90\n"):
        Executable(fake_program(STEP, gpu="sm_100"))
    stepped(Executable(fake_program(STEP)))


def test_the_gpu_of_this_machine_is_what_code_is_for(cuda_device) -> None:
    assert compile_program(STEP, target="cuda").target == "sm_90a"
    cuda_device.set(minor=0, major=8)
    assert compile_program(STEP, target="cuda").target == "sm_80"


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuEventRecord", "cuEventCreate"])
def test_a_call_that_fails(cuda_device, function, nth) -> None:
    """With a status that leaves the context as it is."""
    executable = fake(STEP)
    if function != "cuEventCreate":  # one that was made is used again
        stepped(executable, 3)
    cuda_device.fail(function, 2, nth)
    with pytest.raises(
        ResourceError, match=r"on cuda:0 ended with CUDA_ERROR_OUT_OF_MEMORY \(2\)(.|\n)*help: free memory"
    ):
        buffer = executable.put(X, 0)
        for _ in range(2):
            (buffer,) = executable.call([buffer])
    stepped(executable, 3)


def test_a_launch_that_fails_names_its_kernel(cuda_device) -> None:
    executable = fake(TWO)
    first, second = executable._loaded.program.kernels
    arrays = np.ones((COUNT, COUNT), np.float32), np.ones((COUNT, COUNT), np.float32)
    for nth, kernel in enumerate((first, second), 1):
        cuda_device.fail("cuLaunchKernel", 701, nth)
        before = cuda_device.calls("cuLaunchKernel")
        with pytest.raises(
            InternalError, match=rf"a call, at kernel '{kernel}', on cuda:0 ended with CUDA_ERROR_LAUNCH_"
        ):
            executable(*arrays)
        assert cuda_device.calls("cuLaunchKernel") - before == nth  # none behind one that failed
    executable(*arrays)


@pytest.mark.parametrize("status", [700, 719, 702, 214, 999])
def test_a_kernel_that_faults(cuda_device, status) -> None:
    """The context is gone, and with it all buffers; the program is loaded anew into the next one."""
    executable = fake(STEP)
    state, other = executable.put(X, 0), executable.put(X, 0)
    np.asarray(state)
    cuda_device.fail("execute", status)
    (state,) = executable.call([state])
    with pytest.raises((InternalError, ResourceError), match=rf"on cuda:0 ended with CUDA_ERROR_\w+ \({status}\): "):
        np.asarray(state)
    with pytest.raises((InternalError, ResourceError), match=rf"CUDA_ERROR_\w+ \({status}\): "):
        np.asarray(state)
    with pytest.raises(ArgumentError, match=r"was in device memory of cuda:0, and is gone: the device was lost\n"):
        executable.call([other])
    stepped(executable, 3)


def test_a_fault_while_others_hold_the_context(cuda_device) -> None:
    executable = fake(STEP)
    cuda_device.set(held=1)
    cuda_device.fail("execute", 700)
    (state,) = executable.call([executable.put(X, 0)])
    with pytest.raises(InternalError, match="what was on the device is gone"):
        np.asarray(state)
    for _ in range(2):
        with pytest.raises(InternalError, match=r"ended with CUDA_ERROR_ILLEGAL_ADDRESS"):
            stepped(executable)
    cuda_device.itself.fake_reset()  # the process has ended


@pytest.mark.parametrize("nth", [20, 21])  # "execute": a copy to the host, a kernel
@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuMemcpyAsync", "cuStreamSynchronize", "execute"])
def test_a_loop_ends_where_the_driver_fails(cuda_device, function, nth) -> None:
    executable = fake(LOOP)
    yes, no, x = np.array(True), np.array(False), MANY
    cuda_device.fail(function, 700, nth)
    cuda_device.fail("cuLaunchKernel", 1, 10_000)  # else it would never end
    with pytest.raises(
        InternalError, match=r"a call, at kernel '\w+', on cuda:0 ended with CUDA_ERROR_ILLEGAL_ADDRESS"
    ):
        executable(yes, x)
    assert cuda_device.calls("cuLaunchKernel") <= nth + 1
    assert np.array_equal(executable(no, x)[0], x)


def test_no_memory(cuda_device) -> None:
    program = fake_program(TWO)
    cuda_device.set(bytes=1 << 17)
    message = rf"the intermediate values of a call take {program.arena_bytes} bytes at their peak: .*; the largest: "
    with pytest.raises(ResourceError, match=message):
        Executable(program)
    del program
    cuda_device.set(bytes=1 << 28)
    executable = fake(CONSTANT)
    buffer = executable.put(X, 0)
    for place in (1, 2):
        cuda_device.fail("cuMemAllocFromPoolAsync", 2, place)
    with pytest.raises(ResourceError, match=r"1024 bytes of memory are not to be had on cuda:0\n  help: free memory"):
        executable.call([buffer])
    executable.call([buffer])


def test_programs_that_are_dropped_leave_nothing(cuda_device) -> None:
    """But memory and events, which the next ones have."""
    from stablehlo_py.backends.gpu.cuda.device import DEVICES

    program = fake_program(CONSTANT)
    for _ in range(3):
        Executable(program)(X)
    queue, kept = DEVICES.get().queue, cuda_device.live()
    for _ in range(20):
        Executable(program)(X)
    assert cuda_device.live() == kept
    DEVICES.get().memory.trim()
    queue.finish()
    assert cuda_device.live() == {"contexts": 1, "streams": 1, "pools": 1, "events": len(queue.spare_events)}


def whole_day() -> None:
    """Everything that a program needs of the driver, once."""
    executable = fake(STEP)
    stepped(executable, 2)
    executable.put(X, 0).wait()
    executable(X)


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(cuda_device, monkeypatch) -> None:
    """Every call of every function fails once: what was there is freed, and the next time all is well."""
    from stablehlo_py.backends.gpu.cuda.device import DEVICES
    from stablehlo_py.backends.gpu.cuda.library import FUNCTIONS

    program = fake_program(STEP)
    monkeypatch.setattr(sys.modules[__name__], "fake_program", lambda text: program)
    names = {name.split("_v")[0] for name in FUNCTIONS} - {"cuGetErrorName", "cuGetErrorString"}
    ending = {"cuStreamDestroy", "cuEventDestroy", "cuMemFreeAsync", "cuMemPoolDestroy", "cuModuleUnload"}
    ending |= {"cuCtxPopCurrent", "cuDevicePrimaryCtxRelease", "cuInit"}
    whole_day()
    DEVICES.clear()
    before = {name: cuda_device.calls(name) for name in [*sorted(names - ending), "execute"]}
    whole_day()
    counts = {name: cuda_device.calls(name) - count for name, count in before.items()}
    failed = 0
    for name, count in counts.items():
        for nth in range(1, min(count, 12) + 1):
            for status in (2, 400, 700):
                DEVICES.clear()
                cuda_device.fail(name, status, nth)
                try:
                    whole_day()
                except shlo.ShloError:
                    failed += 1
                cuda_device.itself.fake_forgive()
                whole_day()
                DEVICES.clear()
                assert cuda_device.live() == {}, (name, nth, status)
    assert failed > 100


SCRIPT = """
import os, sys
import numpy as np
from stablehlo_py.backends.gpu.cuda.device import DEVICES
from stablehlo_py.errors import ResourceError

block = DEVICES.get().memory.allocate(4000)
event = DEVICES.get().memory.write(np.zeros(1000, np.int32), block)
child = os.fork()
if not child:
    try:
        DEVICES.get()
    except ResourceError:
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
DEVICES.get().memory.allocate(100)
kept = [DEVICES.get().memory.allocate(8), DEVICES.get().queue.last_event(), block, event, DEVICES.get().build(b"names")]
kept.append(kept)  # the garbage collector's
"""


def test_the_interpreter_ends_with_everything_alive(cuda) -> None:
    environment = {**os.environ, "SHLO_CUDA_LIBRARY": str(Path(cuda.path))}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


WITHOUT_COMPILER = """
import ctypes, os
fake = ctypes.CDLL(os.environ["SHLO_CUDA_LIBRARY"])
x = np.arange(256, dtype=np.int32)
step, loop, constant = (shlo.load_executable(path) for path in sys.argv[1:])
buffer = step.put(x, 0)
for _ in range(3):
    (buffer,) = step.call([buffer])
many = np.zeros(1 << 18, np.int32)
print((np.asarray(buffer) == x + 3).all(), loop(np.bool_(False), many)[0].shape, constant(x)[0].shape)
fake.fake_fail(b"cuLaunchKernel", 1, 2)
try:
    constant(x)
except shlo.ResourceError as error:
    print(error.reason)
assert not compiling(), compiling()
"""


def test_programs_run_without_a_compiler(cuda_device, tmp_path) -> None:
    """With loops, constants and an error of the driver."""
    paths = []
    for name, text in (("step", STEP), ("loop", LOOP), ("constant", CONSTANT)):
        paths.append(tmp_path / f"{name}.shloexe")
        artifact.save(fake_program(text), paths[-1])
    first, second = alone(WITHOUT_COMPILER, *paths, SHLO_CUDA_LIBRARY=cuda_device.path).splitlines()
    assert first == "True (262144,) (256,)"
    assert "CUDA_ERROR_OUT_OF_MEMORY" in second


def test_the_hosts_part_is_for_every_processor() -> None:
    """Unless options name one."""
    assert fake_program(STEP).features == ("sm_90",) or fake_program(STEP).features == ("compute_90",)
    named = compile_program(STEP, target="cuda", options=Options(gpu="sm_90", cpu="avx2"))
    assert {"avx2", "fma"} < set(named.features)
    with pytest.raises(OptionError, match="there is no CPU description 'vax'"):
        compile_program(STEP, target="cuda", options=Options(gpu="sm_90", cpu="vax"))
