"""Calls as graphs, on a driver of CUDA that executes them: results, what a call costs, faults.

The fake driver's kernels add 1 to the integers at their first argument, which is here a donated input, updated where it
is: a graph that kept the address of an earlier call would add to the wrong array.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from driver_programs import LOOP, STEP, TWO, with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.cuda import device as module
from stablehlo_py.backends.gpu.driver import recording
from stablehlo_py.errors import InternalError, ShloError
from stablehlo_py.options import Options
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

SIZES = range(100, 160, 10)  # different ones are not fused
DONATED = "{tf.aliasing_output = %d : i32}"


def steps(copied: bool = False) -> str:
    """A kernel for each donated argument; the last argument is a result if it is `copied`, and not donated."""
    types = [f"tensor<{size}xi32>" for size in SIZES]
    arguments = [f"%x{i}: {type_} {DONATED % i}" for i, type_ in enumerate(types)]
    lines = [f"%r{i} = stablehlo.add %x{i}, %x{i} : {type_}" for i, type_ in enumerate(types)]
    values = [f"%r{i}" for i in range(len(types))]
    if copied:
        arguments, types, values = [*arguments, "%y: tensor<7xi32>"], [*types, "tensor<7xi32>"], [*values, "%y"]
    body, results = "\n  ".join(lines), ", ".join(types)
    return f"""func.func @main({", ".join(arguments)}) -> ({results}) {{
  {body}
  return {", ".join(values)} : {results}
}}"""


@cache
def fake_program(text: str, **options: bool) -> CompiledProgram:
    return with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu="sm_90", **options)))


def fake(text: str, **options: bool) -> Executable:
    return Executable(fake_program(text, **options))


def state(executable: Executable, start: int = 0) -> tuple[Buffer, ...]:
    arrays = [np.arange(start, start + size, dtype=np.int32) for size in SIZES]
    return tuple(executable.put(array, number) for number, array in enumerate(arrays))


def check(buffers: tuple[Buffer, ...], start: int) -> None:
    for buffer, size in zip(buffers, SIZES, strict=False):
        assert np.array_equal(np.asarray(buffer), np.arange(start, start + size))


NAMES = ("cuLaunchKernel", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams", "cuGraphExecMemcpyNodeSetParams")


def asked(driver) -> tuple[int, ...]:
    return tuple(driver.calls(name) for name in NAMES)


def test_the_second_call_becomes_a_graph(cuda_device) -> None:
    executable = fake(steps())
    buffers, count = state(executable), len(SIZES)
    buffers = executable.call(buffers)
    assert asked(cuda_device) == (count, 0, 0, 0)
    for number in range(1, 6):
        buffers = executable.call(buffers)
        assert asked(cuda_device) == (count, number, 0, 0)  # the buffers are where they were
    check(buffers, 6)
    launches = cuda_device.launches()
    assert launches == launches[:count] * 6  # the same kernels, blocks, threads, in the same stream
    assert cuda_device.live()["graphs"] == cuda_device.live()["execs"] == 1
    del executable, buffers
    module.DEVICES.get().queue.finish()
    assert cuda_device.live() == {"contexts": 1, "streams": 1, "pools": 1}


def test_other_addresses(cuda_device) -> None:
    """Only the nodes that have others are changed."""
    executable = fake(steps())
    one, other = state(executable), state(executable, 1000)
    for _ in range(4):
        one = executable.call(one)
        other = executable.call(other)
    check(one, 4)
    check(other, 1004)
    launched, graphs, changed, _ = asked(cuda_device)
    assert (launched, graphs, changed) == (len(SIZES), 7, 6 * len(SIZES))
    one = executable.call(one)
    before = asked(cuda_device)[2]
    mixed = executable.call((other[0], *one[1:]))
    assert asked(cuda_device)[2] == before + 1
    assert np.array_equal(np.asarray(mixed[0]), np.arange(1005, 1005 + SIZES[0]))
    assert np.array_equal(np.asarray(mixed[1]), np.arange(6, 6 + SIZES[1]))
    assert np.array_equal(np.asarray(one[0]), np.arange(5, 5 + SIZES[0]))


def test_copies(cuda_device) -> None:
    executable = fake(steps(copied=True))
    found = []
    buffers = state(executable)
    for number in range(5):
        given = executable.put(np.full(7, number, np.int32), len(SIZES))
        *buffers, result = executable.call([*buffers, given])
        found.append((given, result))
    assert asked(cuda_device) == (len(SIZES), 4, 0, 3)
    for number, (given, result) in enumerate(found):
        assert result.address != given.address
        assert np.asarray(result).tolist() == np.asarray(given).tolist() == [number] * 7
    check(tuple(buffers), 5)


def test_a_graph_that_runs_is_not_changed(cuda_device) -> None:
    """What was asked for before keeps its operands: the fake driver works when somebody waits."""
    executable = fake(steps())
    sets = [state(executable, 1000 * number) for number in range(4)]
    for _ in range(3):
        sets = [executable.call(buffers) for buffers in sets]
    for number, buffers in enumerate(sets):
        check(buffers, 1000 * number + 3)


def test_it_can_be_switched_off(cuda_device, monkeypatch) -> None:
    executable = fake(steps(), graphs=False)
    buffers = state(executable)
    for _ in range(3):
        buffers = executable.call(buffers)
    assert asked(cuda_device) == (3 * len(SIZES), 0, 0, 0)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")  # by which the driver tells which kernel failed
    executable = fake(steps())
    for _ in range(3):
        buffers = executable.call(buffers)
    assert asked(cuda_device) == (6 * len(SIZES), 0, 0, 0)
    check(buffers, 6)


@pytest.mark.parametrize("text", [STEP, TWO, LOOP])
def test_what_becomes_no_graph(cuda_device, text) -> None:
    """Few kernels, and programs whose host waits for what they compute."""
    program = fake_program(text)
    assert program.graphs == (text is not LOOP)
    executable = Executable(program)
    arrays = [np.zeros(spec.shape, spec.dtype) for spec in executable.inputs]
    for _ in range(3):
        executable(*arrays)
    assert cuda_device.calls("cuGraphCreate") == 0


def test_steps_without_room(cuda_device, monkeypatch) -> None:
    monkeypatch.setattr("stablehlo_py.backends.gpu.replay.ROOM", 3 * (len(recording.STEP) + 2))
    executable = fake(steps())
    buffers = state(executable)
    for _ in range(4):
        buffers = executable.call(buffers)
    assert asked(cuda_device) == (4 * len(SIZES), 0, 0, 0)
    check(buffers, 4)


MADE = ("cuGraphCreate", "cuGraphAddKernelNode", "cuGraphAddMemcpyNode", "cuGraphInstantiate")
USED = ("cuGraphLaunch", "cuGraphExecKernelNodeSetParams", "cuGraphExecMemcpyNodeSetParams")


@pytest.mark.parametrize("status", [1, 2, 400, 801])
@pytest.mark.parametrize("function", [*MADE, *USED])
def test_a_driver_that_refuses_a_graph(cuda_device, function, status) -> None:
    """Kernels are started one by one from then on; nothing runs twice, and nothing of the graph is left."""
    executable = fake(steps(copied=True))
    buffers, calls = state(executable), 0
    cuda_device.fail(function, status, 1 if function in MADE else 2)
    for _ in range(6):
        given = executable.put(np.full(7, calls, np.int32), len(SIZES))
        other = state(executable, 1000)
        *buffers, result = executable.call([*buffers, given])
        *other, _ = executable.call([*other, given])
        calls += 1
        assert np.asarray(result).tolist() == [calls - 1] * 7
        check(tuple(other), 1001)
    check(tuple(buffers), calls)
    assert cuda_device.live().keys().isdisjoint({"graphs", "execs"})


@pytest.mark.parametrize("function", [*MADE, *USED])
def test_a_fault_of_an_earlier_kernel(cuda_device, function) -> None:
    """The context is gone, and the graph with it; the program is loaded anew, and makes another one."""
    executable = fake(steps(copied=True))

    def call() -> None:
        given = executable.put(np.zeros(7, np.int32), len(SIZES))
        buffers = executable.call([*state(executable), given])
        check(tuple(buffers), 1)

    call()
    cuda_device.fail(function, 700)
    with pytest.raises(InternalError, match=r"on cuda:0 ended with CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
        for _ in range(3):
            call()
    for _ in range(4):
        call()
    assert cuda_device.live()["execs"] == 1


def test_a_kernel_that_faults_in_a_graph(cuda_device) -> None:
    executable = fake(steps())
    buffers = executable.call(executable.call(state(executable)))
    cuda_device.fail("execute", 719, 3 * len(SIZES))
    with pytest.raises(InternalError, match=r"CUDA_ERROR_LAUNCH_FAILED"):
        for _ in range(3):
            buffers = executable.call(buffers)
            np.asarray(buffers[0])
    for _ in range(3):
        check(executable.call(state(executable)), 1)


def test_a_launch_that_fails_names_its_kernel(cuda_device) -> None:
    """Where a graph is refused, the launches say why."""
    executable = fake(steps())
    buffers = state(executable)
    for _ in range(3):
        buffers = executable.call(buffers)
    cuda_device.fail("cuGraphLaunch", 701)
    cuda_device.fail("cuLaunchKernel", 701, 3)
    third = executable._program.kernels[2]
    with pytest.raises(InternalError, match=rf"a call, at kernel '{third}', on cuda:0 ended with CUDA_ERROR_LAUNCH_"):
        executable.call(buffers)


def test_threads(cuda_device) -> None:
    executable = fake(steps())
    found: dict[int, tuple[Buffer, ...]] = {}

    def work(number: int) -> None:
        buffers = state(executable, 1000 * number)
        for _ in range(20):
            buffers = executable.call(buffers)
        found[number] = buffers

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        check(found[number], 1000 * number + 20)
    launched, graphs, _, _ = asked(cuda_device)
    assert (launched, graphs) == (len(SIZES), 79)


def test_a_forked_child_is_refused_and_frees_nothing(cuda_device) -> None:
    executable = fake(steps())
    buffers = state(executable)
    for _ in range(3):
        buffers = executable.call(buffers)
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        said = "nothing"
        try:
            executable.call(buffers)
        except ShloError as error:
            said = error.reason
        del executable, buffers
        gc.collect()
        ended = [cuda_device.calls(name) for name in ("cuGraphExecDestroy", "cuGraphDestroy")]
        os.write(write_end, f"{said} {ended}".encode())
        os._exit(0)
    os.close(write_end)
    said = os.read(read_end, 10_000).decode()
    assert said.startswith("this process was forked from one that uses CUDA") and said.endswith(" [0, 0]")
    os.close(read_end)
    assert os.waitpid(child, 0)[1] == 0
    graphs = asked(cuda_device)[1]
    check(executable.call(buffers), 4)
    assert asked(cuda_device)[1] == graphs + 1


def test_whatever_fails_leaks_nothing(cuda_device, monkeypatch) -> None:
    """Every call of every function of a day with graphs fails once."""
    program = fake_program(steps(copied=True))
    names = (*MADE, *USED, "cuCtxPushCurrent", "cuEventCreate", "cuEventRecord", "cuMemAllocFromPoolAsync")

    def whole_day() -> None:
        executable = Executable(program)
        for start in range(3):
            buffers = state(executable, start)
            *buffers, _ = executable.call([*buffers, executable.put(np.zeros(7, np.int32), len(SIZES))])
            check(tuple(buffers), start + 1)

    whole_day()
    before = {name: cuda_device.calls(name) for name in names}
    whole_day()
    counts = {name: cuda_device.calls(name) - count for name, count in before.items()}
    assert min(counts.values()) > 0
    for name, count in counts.items():
        for nth in sorted({1, 2, count}):
            for status in (2, 700):
                module.DEVICES.clear()
                cuda_device.fail(name, status, nth)
                with suppress(ShloError):
                    whole_day()
                cuda_device.itself.fake_forgive()
                whole_day()
                module.DEVICES.clear()
                assert cuda_device.live() == {}, (name, nth, status)
