"""Executables on a driver that fails: what is said, that nothing is leaked, and that they work again.

The fake driver's kernels add 1 to the integers at their first argument: a donated input is one more after each call.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from driver_programs import CONSTANT, COUNT, LOOP, MANY, STEP, TWO, X, stepped, with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.errors import ArgumentError, InternalError, LoadError, ResourceError
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram


def fake_program(text: str) -> CompiledProgram:
    """A compiled program, its kernels the fake driver's."""
    return with_fake_kernels(compile_program(text, target="opencl"))


def fake(text: str) -> Executable:
    return Executable(fake_program(text))


def test_a_state_stays_where_it_is(fake_device) -> None:
    executable = fake(STEP)
    state = executable.put(X, 0)
    address, copies = state.address, fake_device.calls("clEnqueueSVMMemcpy")
    for _ in range(10):
        (state,) = executable.call([state])
        assert state.address == address
    assert not state.is_ready()  # nothing has waited: the fake driver works when somebody does
    assert fake_device.calls("clEnqueueSVMMemcpy") == copies
    assert fake_device.live()["events"] <= 3
    assert np.array_equal(np.asarray(state), X + 10)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("function", ["clSetKernelArgSVMPointer", "clEnqueueNDRangeKernel", "clRetainEvent"])
def test_a_failed_launch(fake_device, function, nth) -> None:
    executable = fake(STEP)
    stepped(executable, 3)
    buffer = executable.put(X, 0)
    fake_device.fail(function, -5, nth)
    with pytest.raises(ResourceError, match=r"on opencl:0 ended with CL_OUT_OF_RESOURCES \(-5\)\n  help: free memory"):
        for _ in range(2):
            (buffer,) = executable.call([buffer])
    stepped(executable, 3)


def test_no_kernel_starts_behind_one_that_failed(fake_device) -> None:
    executable = fake(TWO)
    assert len(executable._program.kernels) == 2
    arrays = np.ones((COUNT, COUNT), np.float32), np.ones((COUNT, COUNT), np.float32)
    for function in ("clSetKernelArgSVMPointer", "clEnqueueNDRangeKernel"):
        fake_device.fail(function, -6)
        before = fake_device.calls("clEnqueueNDRangeKernel")
        with pytest.raises(ResourceError, match="CL_OUT_OF_HOST_MEMORY"):
            executable(*arrays)
        assert fake_device.calls("clEnqueueNDRangeKernel") - before <= (function == "clEnqueueNDRangeKernel")
    executable(*arrays)


@pytest.mark.parametrize("nth", [20, 21])  # "execute": a copy to the host, a kernel
@pytest.mark.parametrize(
    "function", ["clSetKernelArgSVMPointer", "clEnqueueNDRangeKernel", "clEnqueueSVMMemcpy", "execute"]
)
def test_a_loop_ends_where_the_driver_fails(fake_device, function, nth) -> None:
    executable = fake(LOOP)
    yes, no, x = executable.put(np.array(True), 0), executable.put(np.array(False), 0), executable.put(MANY, 1)
    fake_device.fail(function, -5, nth)
    fake_device.fail("clEnqueueNDRangeKernel", -30, 10_000)  # else it would never end
    names = "CL_(OUT_OF_RESOURCES|EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)"
    with pytest.raises(ResourceError, match=f"a call.* on opencl:0 ended with {names}"):
        executable.call([yes, x])
    assert fake_device.calls("clEnqueueNDRangeKernel") <= nth + 1
    assert np.array_equal(np.asarray(executable.call([no, x])[0]), np.asarray(x))


def test_a_kernel_that_fails_on_the_device_spoils_what_comes_after(fake_device) -> None:
    """Until somebody is told, no result of later calls passes for one: the last of a chain says it too."""
    executable = fake(STEP)
    state = executable.put(X, 0)
    np.asarray(state)
    fake_device.fail("execute", -5)
    for _ in range(3):
        (state,) = executable.call([state])
    with pytest.raises(ResourceError, match="a command on opencl:0 ended with CL_EXEC_STATUS_ERROR_FOR_EVENTS"):
        np.asarray(state)
    stepped(executable, 3)


def test_the_first_kernel_of_a_call_fails_on_the_device(fake_device) -> None:
    executable = fake(TWO)
    arrays = np.ones((COUNT, COUNT), np.float32), np.ones((COUNT, COUNT), np.float32)
    buffers = [executable.put(array, number) for number, array in enumerate(arrays)]
    for buffer in buffers:
        np.asarray(buffer)
    fake_device.fail("execute", -4)
    (result,) = executable.call(buffers)
    with pytest.raises(ResourceError, match="ended with CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"):
        result.wait()
    executable(*arrays)


def test_a_lost_device(fake_device) -> None:
    executable = fake(STEP)
    state = executable.put(X, 0)
    fake_device.set(lost=1)
    with pytest.raises(ResourceError, match=r"a call, at kernel '\w+', on opencl:0 ended with CL_DEVICE_NOT_AVAILABLE"):
        executable.call([state])
    for _ in range(2):
        with pytest.raises(ResourceError, match="clCreateContext ended with CL_DEVICE_NOT_AVAILABLE"):
            executable(X)
    fake_device.set(lost=0)
    with pytest.raises(ArgumentError, match=r"was in device memory of opencl:0, and is gone: the device was lost\n"):
        executable.call([state])
    stepped(executable, 3)
    with pytest.raises(ResourceError, match="CL_DEVICE_NOT_AVAILABLE"):
        fake_device.set(lost=1)
        np.asarray(executable.put(X, 0))
    fake_device.set(lost=0)
    stepped(executable)


def test_a_device_is_lost_while_it_works(fake_device) -> None:
    executable = fake(STEP)
    (state,) = executable.call([executable.put(X, 0)])
    fake_device.set(lost=1)
    with pytest.raises(ResourceError, match="opencl:0 ended with CL_DEVICE_NOT_AVAILABLE"):
        np.asarray(state)
    fake_device.set(lost=0)
    stepped(executable)


def test_other_executables_of_a_lost_device(fake_device) -> None:
    """Whoever finds out that it is lost, all begin anew."""
    first, second = fake(STEP), fake(STEP)
    state = second.put(X, 0)
    fake_device.set(lost=1)
    with pytest.raises(ResourceError, match="CL_DEVICE_NOT_AVAILABLE"):
        first(X)
    fake_device.set(lost=0)
    with pytest.raises(ArgumentError, match="the device was lost"):
        second.call([state])
    stepped(second)
    stepped(first)
    moved = first.put(X, 0)
    assert np.array_equal(np.asarray(second.call([moved])[0]), X + 1)  # both are on the same one


def test_too_large_an_arena_names_the_values_at_its_peak(fake_device) -> None:
    program = fake_program(TWO)
    fake_device.set(largest=1 << 17)
    message = (
        rf"the intermediate values of a call take {program.arena_bytes} bytes at their peak: {program.arena_bytes} "
        rf"bytes of memory are more than opencl:0 gives at once \(131072\); the largest: {4 * COUNT * COUNT} bytes at 0"
    )
    for _ in range(2):
        with pytest.raises(ResourceError, match=message):
            Executable(program)
    fake_device.set(largest=1 << 28)


@pytest.mark.parametrize("nth", [1, 2])
def test_no_memory_at_load(fake_device, nth) -> None:
    program = fake_program(CONSTANT)
    assert program.constants
    for place in (nth, nth + 1):  # what is kept is freed, and it is tried once more
        fake_device.fail("clSVMAlloc", -4, place)
    with pytest.raises(ResourceError, match=r"bytes of memory are not to be had on opencl:0"):
        Executable(program)
    assert fake_device.live().keys() <= {"contexts", "queues", "blocks"}
    Executable(program)(X)


def test_no_memory_in_a_call(fake_device) -> None:
    executable = fake(CONSTANT)
    buffer = executable.put(X, 0)
    for place in (1, 2):
        fake_device.fail("clSVMAlloc", -4, place)
    with pytest.raises(ResourceError, match=r"1024 bytes of memory are not to be had on opencl:0\n  help: free memory"):
        executable.call([buffer])
    executable.call([buffer])


@pytest.mark.parametrize(("function", "status"), [("clBuildProgram", -6), ("clCreateKernel", -36)])
def test_whatever_fails_at_load_leaves_nothing(fake_device, function, status) -> None:
    program = fake_program(STEP)
    fake_device.fail(function, status)
    with pytest.raises((ResourceError, InternalError)):
        stepped(Executable(program))
    stepped(Executable(program))


def simple(element: str) -> str:
    return f"""func.func @main(%x: tensor<8x{element}>) -> tensor<8x{element}> {{
      %0 = stablehlo.tanh %x : tensor<8x{element}>
      return %0 : tensor<8x{element}>
    }}"""


@pytest.mark.parametrize(("element", "extension"), [("f16", "cl_khr_fp16"), ("f64", "cl_khr_fp64")])
def test_a_device_that_lacks_a_type_is_refused_by_name(fake_device, element, extension) -> None:
    program = fake_program(simple(element))
    assert extension in program.features
    fake_device.set(f16=0, f64=0)
    with pytest.raises(LoadError, match=rf"Fake 0 lacks what this program computes with: {element} \({extension}\)\n"):
        Executable(program)
    assert not any(name.startswith("cl_") for name in fake_program(simple("f32")).features)
    Executable(fake_program(simple("f32")))


def test_a_program_for_another_machine(fake_device) -> None:
    program = fake_program(STEP)
    with pytest.raises(LoadError, match="this program was compiled for vax-vms, this machine is"):
        Executable(replace(program, machine="vax-vms"))
    with pytest.raises(LoadError, match="lacks abacus"):
        Executable(replace(program, features=("abacus",)))


def test_programs_that_are_dropped_leave_nothing(fake_device) -> None:
    program = fake_program(CONSTANT)
    for _ in range(20):
        Executable(program)(X)
    live = fake_device.live()
    assert live.pop("blocks") <= 4  # kept for the next arrays
    assert live == {"contexts": 1, "queues": 1, "events": 1}  # the event: of the last command


PARTS = {
    "the code is cut off": lambda host, code, other: [host, code[: len(code) // 2]],
    "the code is empty": lambda host, code, other: [host, b""],
    "a byte of the code is another": lambda host, code, other: [host, bytes([code[0] ^ 1]) + code[1:]],
    "the code is that of another program": lambda host, code, other: [host, other[1]],
    "the host's part is that of another program": lambda host, code, other: [other[0], code],
    "both are those of another program": lambda host, code, other: other,
    "the host's part is cut off": lambda host, code, other: [host[:-100], code],
    "they are exchanged": lambda host, code, other: [code, host],
    "the code is missing": lambda host, code, other: [host],
    "the host's part is missing": lambda host, code, other: [code],
    "there is none": lambda host, code, other: [],
}


@pytest.mark.parametrize("change", PARTS)
def test_parts_that_do_not_belong_together(fake_device, change) -> None:
    """Of an artifact whose own digest is right; nothing of it reaches the driver."""
    program, other = fake_program(STEP), fake_program(TWO)
    assert Executable(artifact.deserialize(artifact.serialize(program)))(X)[0].shape == X.shape
    built = fake_device.calls("clCreateProgramWithIL")
    changed = replace(program, objects=PARTS[change](*program.objects, other.objects))
    said = (
        r"machine code (is damaged|is not all there|was generated for another description).*\n  help: compile the model"
    )
    with pytest.raises(LoadError, match=said):
        Executable(artifact.deserialize(artifact.serialize(changed)))
    assert fake_device.calls("clCreateProgramWithIL") == built


def test_a_description_of_another_program(fake_device) -> None:
    changed = replace(fake_program(STEP), arena_bytes=1)
    with pytest.raises(LoadError, match="generated for another description"):
        Executable(artifact.deserialize(artifact.serialize(changed)))
