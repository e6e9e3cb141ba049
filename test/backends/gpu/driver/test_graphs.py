"""Calls as graphs, on drivers of CUDA and HIP that execute them: results, what a call costs, faults.

The fake driver's kernels add 1 to the integers at their first argument, which is here a donated input, updated where it
is: a graph that kept the address of an earlier call would add to the wrong array.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
from driver_programs import DONATED_AS, LARGE, LOOP, MANY, SIZES, STEP, TWO, steps, with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.cuda import device as cuda_device
from stablehlo_py.backends.gpu.driver import recording
from stablehlo_py.backends.gpu.driver.device import Opened
from stablehlo_py.backends.gpu.hip import device as hip_device
from stablehlo_py.errors import InternalError, ShloError
from stablehlo_py.options import Options
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram


@cache
def fake_program(text: str, driver: str, **options: bool) -> CompiledProgram:
    """For the fake driver of CUDA, or of HIP, which reads code objects as they are."""
    if driver == "HIP":
        return compile_program(text, target="rocm", options=Options(gpu="gfx942", **options))
    return with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu="sm_90", **options)))


def fake(driver, text: str, **options: bool) -> Executable:
    return Executable(fake_program(text, driver.library.driver, **options))


def devices(driver) -> Opened[Any]:
    return (hip_device if driver.library.driver == "HIP" else cuda_device).DEVICES


def state(executable: Executable, start: int = 0) -> tuple[Buffer, ...]:
    arrays = [np.arange(start, start + size, dtype=np.int32) for size in SIZES]
    return tuple(executable.put(array, number) for number, array in enumerate(arrays))


def check(buffers: tuple[Buffer, ...], start: int) -> None:
    for buffer, size in zip(buffers, SIZES, strict=False):
        assert np.array_equal(np.asarray(buffer), np.arange(start, start + size))


ADD_COPY, CHANGE_COPY = "a copy is added", "a copy is changed"
COPIES = {
    "CUDA": {ADD_COPY: "cuGraphAddMemcpyNode", CHANGE_COPY: "cuGraphExecMemcpyNodeSetParams"},
    "HIP": {ADD_COPY: "hipGraphAddMemcpyNode1D", CHANGE_COPY: "hipGraphExecMemcpyNodeSetParams1D"},
}
NAMES = ("LaunchKernel", "GraphLaunch", "GraphExecKernelNodeSetParams", CHANGE_COPY)


def own(driver, name: str) -> str:
    """What the driver calls a function."""
    copies = COPIES[driver.library.driver]
    return copies[name] if name in copies else driver.own(name)


def asked(driver) -> tuple[int, ...]:
    return tuple(driver.calls(own(driver, name)) for name in NAMES)


def test_the_second_call_becomes_a_graph(streams_device) -> None:
    executable = fake(streams_device, steps())
    buffers, count = state(executable), len(SIZES)
    buffers = executable.call(buffers)
    assert asked(streams_device) == (count, 0, 0, 0)
    for number in range(1, 6):
        buffers = executable.call(buffers)
        assert asked(streams_device) == (count, number, 0, 0)  # the buffers are where they were
    check(buffers, 6)
    launches = streams_device.launches()
    assert sorted(launches) == sorted(launches[:count] * 6)  # the same kernels, blocks, threads, in the same stream
    assert launches != launches[:count] * 6  # they do not wait for each other
    assert streams_device.live()["graphs"] == streams_device.live()["execs"] == 1
    del executable, buffers
    devices(streams_device).get().memory.trim()
    assert streams_device.live().keys().isdisjoint({"graphs", "execs", "modules", "blocks"})


def test_other_addresses(streams_device) -> None:
    """Only the nodes that have others are changed."""
    executable = fake(streams_device, steps())
    one, other = state(executable), state(executable, 1000)
    for _ in range(4):
        one = executable.call(one)
        other = executable.call(other)
    check(one, 4)
    check(other, 1004)
    launched, graphs, changed, _ = asked(streams_device)
    assert (launched, graphs, changed) == (len(SIZES), 7, 6 * len(SIZES))
    one = executable.call(one)
    before = asked(streams_device)[2]
    mixed = executable.call((other[0], *one[1:]))
    assert asked(streams_device)[2] == before + 1
    assert np.array_equal(np.asarray(mixed[0]), np.arange(1005, 1005 + SIZES[0]))
    assert np.array_equal(np.asarray(mixed[1]), np.arange(6, 6 + SIZES[1]))
    assert np.array_equal(np.asarray(one[0]), np.arange(5, 5 + SIZES[0]))


def test_copies(streams_device) -> None:
    executable = fake(streams_device, steps(copied=True))
    found = []
    buffers = state(executable)
    for number in range(5):
        given = executable.put(np.full(7, number, np.int32), len(SIZES))
        *buffers, result = executable.call([*buffers, given])
        found.append((given, result))
    assert asked(streams_device) == (len(SIZES), 4, 0, 3)
    for number, (given, result) in enumerate(found):
        assert result.address != given.address
        assert np.asarray(result).tolist() == np.asarray(given).tolist() == [number] * 7
    check(tuple(buffers), 5)


def test_a_graph_that_runs_is_not_changed(streams_device) -> None:
    """What was asked for before keeps its operands: the fake driver works when somebody waits."""
    executable = fake(streams_device, steps())
    sets = [state(executable, 1000 * number) for number in range(4)]
    for _ in range(3):
        sets = [executable.call(buffers) for buffers in sets]
    for number, buffers in enumerate(sets):
        check(buffers, 1000 * number + 3)


def test_it_can_be_switched_off(streams_device, monkeypatch) -> None:
    executable = fake(streams_device, steps(), graphs=False)
    buffers = state(executable)
    for _ in range(3):
        buffers = executable.call(buffers)
    assert asked(streams_device) == (3 * len(SIZES), 0, 0, 0)
    # By which drivers tell which kernel failed:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("AMD_SERIALIZE_KERNEL", "3")
    executable = fake(streams_device, steps())
    for _ in range(3):
        buffers = executable.call(buffers)
    assert asked(streams_device) == (6 * len(SIZES), 0, 0, 0)
    check(buffers, 6)


@pytest.mark.parametrize("text", [STEP, TWO, LOOP])
def test_what_becomes_no_graph(streams_device, text) -> None:
    """Few kernels, and programs for HIP whose host waits for what they compute (test_conditions.py)."""
    program = fake_program(text, driver := streams_device.library.driver)
    assert program.graphs == (text is not LOOP or driver == "CUDA")
    if text is LOOP and driver == "CUDA":
        return
    executable = Executable(program)
    arrays = [np.zeros(spec.shape, spec.dtype) for spec in executable.inputs]
    for _ in range(3):
        executable(*arrays)
    assert streams_device.calls(own(streams_device, "GraphCreate")) == 0


def test_steps_without_room(streams_device, monkeypatch) -> None:
    monkeypatch.setattr("stablehlo_py.backends.gpu.replay.ROOM", 3 * (len(recording.STEP) + 2))
    executable = fake(streams_device, steps())
    buffers = state(executable)
    for _ in range(4):
        buffers = executable.call(buffers)
    assert asked(streams_device) == (4 * len(SIZES), 0, 0, 0)
    check(buffers, 4)


def repeated(trips: int) -> str:
    """A counted loop, each of whose trips is two kernels: updates of the counter, and of a donated argument."""
    return f"""func.func @main(%x: tensor<{LARGE}xi32> {DONATED_AS % 0}) -> tensor<{LARGE}xi32> {{
  %start = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<{trips}> : tensor<i32>
  %r:2 = stablehlo.while(%i = %start, %a = %x) : tensor<i32>, tensor<{LARGE}xi32>
  cond {{
    %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.add %a, %a : tensor<{LARGE}xi32>
    stablehlo.return %j, %b : tensor<i32>, tensor<{LARGE}xi32>
  }}
  return %r#1 : tensor<{LARGE}xi32>
}}"""


def check_repeated(buffers: tuple[Buffer, ...], more: int) -> None:
    """Threads of the fake drivers have one number each, where the program's have four."""
    assert np.array_equal(np.asarray(buffers[0])[: LARGE // 4], MANY[: LARGE // 4] + more)


def test_counted_loops(streams_device) -> None:
    """Each kernel of each trip is a node; those that have other operands are changed."""
    executable = fake(streams_device, repeated(20))
    one, other = ((executable.put(MANY + start, 0),) for start in (0, 1000))
    for number in range(4):
        one, other = executable.call(one), executable.call(other)
        check_repeated(one, 20 * (number + 1))
    check_repeated(other, 1000 + 20 * 4)
    assert executable._program.loops
    launched, graphs, changed, _ = asked(streams_device)
    assert (launched, graphs, changed) == (2 * 20, 7, 6 * 20)  # the counter stays where it is


@pytest.mark.parametrize("bound, most", [("MOST", 39), ("ROOM", 20 * (len(recording.STEP) + 3))])
def test_more_steps_than_a_graph_has(streams_device, monkeypatch, bound, most) -> None:
    monkeypatch.setattr(f"stablehlo_py.backends.gpu.replay.{bound}", most)
    executable = fake(streams_device, repeated(20))
    buffers = (executable.put(MANY, 0),)
    for _ in range(3):
        buffers = executable.call(buffers)
    check_repeated(buffers, 60)
    assert asked(streams_device) == (2 * 60, 0, 0, 0)


MADE = ("GraphCreate", "GraphAddKernelNode", ADD_COPY, "GraphInstantiate")
USED = ("GraphLaunch", "GraphExecKernelNodeSetParams", CHANGE_COPY)


@pytest.mark.every(4)
@pytest.mark.parametrize("status", [1, 2, 400, 801])
@pytest.mark.parametrize("function", [*MADE, *USED])
def test_a_driver_that_refuses_a_graph(streams_device, function, status) -> None:
    """Kernels are started one by one from then on; nothing runs twice, and nothing of the graph is left."""
    executable = fake(streams_device, steps(copied=True))
    buffers, calls = state(executable), 0
    streams_device.fail(own(streams_device, function), status, 1 if function in MADE else 2)
    for _ in range(6):
        given = executable.put(np.full(7, calls, np.int32), len(SIZES))
        other = state(executable, 1000)
        *buffers, result = executable.call([*buffers, given])
        *other, _ = executable.call([*other, given])
        calls += 1
        assert np.asarray(result).tolist() == [calls - 1] * 7
        check(tuple(other), 1001)
    check(tuple(buffers), calls)
    assert streams_device.live().keys().isdisjoint({"graphs", "execs"})


@pytest.mark.every(2)
@pytest.mark.parametrize("function", [*MADE, *USED])
def test_a_fault_of_an_earlier_kernel(streams_device, function) -> None:
    """The device is lost, and the graph with it; the program is loaded anew, and makes another one."""
    executable = fake(streams_device, steps(copied=True))

    def call() -> None:
        given = executable.put(np.zeros(7, np.int32), len(SIZES))
        buffers = executable.call([*state(executable), given])
        check(tuple(buffers), 1)

    call()
    streams_device.fail(own(streams_device, function), 700)
    with pytest.raises(InternalError, match=r"on (cuda|rocm):0 ended with \w+ \(700\)"):
        for _ in range(3):
            call()
    for _ in range(4):
        call()
    assert streams_device.live()["execs"] == 1


def test_a_kernel_that_faults_in_a_graph(streams_device) -> None:
    executable = fake(streams_device, steps())
    buffers = executable.call(executable.call(state(executable)))
    streams_device.fail("execute", 719, 3 * len(SIZES))
    with pytest.raises(InternalError, match=r"ended with \w+ \(719\)"):
        for _ in range(3):
            buffers = executable.call(buffers)
            np.asarray(buffers[0])
    for _ in range(3):
        check(executable.call(state(executable)), 1)


def test_a_launch_that_fails_names_its_kernel(streams_device) -> None:
    """Where a graph is refused, the launches say why."""
    executable = fake(streams_device, steps())
    buffers = state(executable)
    for _ in range(3):
        buffers = executable.call(buffers)
    streams_device.fail(own(streams_device, "GraphLaunch"), 701)
    streams_device.fail(own(streams_device, "LaunchKernel"), 701, 3)
    third = executable._program.kernels[2]
    with pytest.raises(InternalError, match=rf"a call, at kernel '{third}', on \w+:0 ended with \w+ \(701\)"):
        executable.call(buffers)


def test_threads(streams_device) -> None:
    executable = fake(streams_device, steps())
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
    launched, graphs, _, _ = asked(streams_device)
    assert (launched, graphs) == (len(SIZES), 79)


def test_a_forked_child_is_refused_and_frees_nothing(streams_device) -> None:
    executable = fake(streams_device, steps())
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
        ended = [streams_device.calls(own(streams_device, name)) for name in ("GraphExecDestroy", "GraphDestroy")]
        os.write(write_end, f"{said} {ended}".encode())
        os._exit(0)
    os.close(write_end)
    said = os.read(read_end, 10_000).decode()
    assert said.startswith("this process was forked from one that uses ") and said.endswith(" [0, 0]")
    os.close(read_end)
    assert os.waitpid(child, 0)[1] == 0
    graphs = asked(streams_device)[1]
    check(executable.call(buffers), 4)
    assert asked(streams_device)[1] == graphs + 1


def test_whatever_fails_leaks_nothing(streams_device, monkeypatch) -> None:
    """Every call of every function of a day with graphs fails once."""
    program = fake_program(steps(copied=True), streams_device.library.driver)
    chosen = "hipGetDevice" if streams_device.library.driver == "HIP" else "cuCtxPushCurrent"
    functions = (*MADE, *USED, "EventCreate", "EventRecord", "MemAllocFromPoolAsync")
    names = [chosen, *(own(streams_device, function) for function in functions)]

    def whole_day() -> None:
        executable = Executable(program)
        for start in range(3):
            buffers = state(executable, start)
            *buffers, _ = executable.call([*buffers, executable.put(np.zeros(7, np.int32), len(SIZES))])
            check(tuple(buffers), start + 1)

    whole_day()
    devices(streams_device).clear()
    before = {name: streams_device.calls(name) for name in names}
    whole_day()
    counts = {name: streams_device.calls(name) - count for name, count in before.items()}
    assert min(counts.values()) > 0
    for name, count in counts.items():
        # What is freed last stays where its device cannot be chosen.
        for nth in sorted({1, 2, count // 2 if name == chosen else count}):
            for status in (2, 700):
                devices(streams_device).clear()
                streams_device.fail(name, status, nth)
                with suppress(ShloError):
                    whole_day()
                streams_device.itself.fake_forgive()
                whole_day()
                devices(streams_device).clear()
                assert streams_device.live() == {}, (name, nth, status)
