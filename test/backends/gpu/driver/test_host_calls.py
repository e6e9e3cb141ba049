"""Calls that run on the host, on drivers of OpenCL, CUDA and HIP that fail where they are told to: what is copied, and
waited for, before a function is called and behind it; that nothing is leaked, and that programs work again.

The fake drivers' kernels add 1 to the integers at their first argument, and work when somebody waits: what a function
sees before that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from driver_programs import COUNT, X, with_fake_kernels

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.errors import CallError, ShloError
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

TYPE = f"tensor<{COUNT}xi32>"
# A kernel adds 1 to x; the function sees that; a kernel adds 1 to what the function gives.
BETWEEN = f"""func.func @main(%x: {TYPE}) -> ({TYPE}, {TYPE}) {{
  %0 = stablehlo.add %x, %x : {TYPE}
  %1 = stablehlo.custom_call @test.target(%x, %0) : ({TYPE}, {TYPE}) -> {TYPE}
  %2 = stablehlo.add %1, %1 : {TYPE}
  return %1, %2 : {TYPE}, {TYPE}
}}"""
# Two functions, one after the other: the second one has what the first one gave, and an argument.
TWICE = f"""func.func @main(%x: {TYPE}, %y: {TYPE}) -> ({TYPE}, {TYPE}, {TYPE}) {{
  %0:2 = stablehlo.custom_call @test.first(%x, %y) : ({TYPE}, {TYPE}) -> ({TYPE}, {TYPE})
  %1 = stablehlo.custom_call @test.second(%0#1, %y) : ({TYPE}, {TYPE}) -> {TYPE}
  return %0#0, %0#1, %1 : {TYPE}, {TYPE}, {TYPE}
}}"""
# The function says in each trip whether there is another one.
LOOP = f"""func.func @main(%p: tensor<i1>, %x: {TYPE}) -> {TYPE} {{
  %r:2 = stablehlo.while(%q = %p, %a = %x) : tensor<i1>, {TYPE}
  cond {{ stablehlo.return %q : tensor<i1> }}
  do {{
    %0:2 = stablehlo.custom_call @test.trip(%a) : ({TYPE}) -> (tensor<i1>, {TYPE})
    stablehlo.return %0#0, %0#1 : tensor<i1>, {TYPE}
  }}
  return %r#1 : {TYPE}
}}"""
TRIPS = 4
NAMES = {
    "OpenCL": ("clEnqueueSVMMemcpy", "clEnqueueNDRangeKernel", ""),
    "CUDA": ("cuMemcpyAsync", "cuLaunchKernel", "cuStreamSynchronize"),
    "HIP": ("hipMemcpyAsync", "hipModuleLaunchKernel", "hipStreamSynchronize"),
}
OUT_OF = r"OUT_OF|OutOf"
FAILED = {"OpenCL": -5, "CUDA": 2, "HIP": 2}  # there is no memory: the device stays


@pytest.fixture(params=["OpenCL", "CUDA", "HIP"])
def fake(request: pytest.FixtureRequest) -> Any:
    """Each of the fake drivers, which is that of this process."""
    return request.getfixturevalue({"OpenCL": "fake_device", "CUDA": "cuda_device", "HIP": "hip_device"}[request.param])


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[np.ndarray]]:
    """What functions were called with."""
    arrays: list[np.ndarray] = []

    def between(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        arrays.append(x)
        return 2 * x

    def first(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        arrays.append(x)
        return x + y, x - y

    def second(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        arrays.append(x)
        return x * y

    def trip(x: np.ndarray) -> tuple[np.ndarray, ...]:
        arrays.append(x)
        return np.array(len(arrays) % TRIPS != 0), x + 1

    functions = {"test.target": between, "test.first": first, "test.second": second, "test.trip": trip}
    for name, function in functions.items():
        shlo.register_custom_call(name, function)
    yield arrays
    for name in functions:
        shlo.unregister_custom_call(name)


@cache
def program(text: str, driver: str) -> CompiledProgram:
    """Its kernels the fake driver's."""
    target, gpu = {"OpenCL": ("opencl", None), "CUDA": ("cuda", "sm_90"), "HIP": ("rocm", "gfx942")}[driver]
    made = compile_program(text, target=target, options=Options(gpu=gpu))
    return made if driver == "HIP" or not made.kernels else with_fake_kernels(made)


def executable_of(text: str, fake: Any) -> Executable:
    return Executable(program(text, fake.library.driver))


def calls(fake: Any) -> list[int]:
    """Copies, launches, and times that somebody waited for the stream."""
    return [fake.calls(name) if name else 0 for name in NAMES[fake.library.driver]]


def between(executable: Executable) -> np.ndarray:
    result, _ = executable.call([executable.put(X, 0)])
    return np.asarray(result)


def test_a_function_sees_what_kernels_before_it_give(fake, seen) -> None:
    executable = executable_of(BETWEEN, fake)
    for _ in range(3):
        np.testing.assert_array_equal(between(executable), 2 * (X + 1) + 1)
        np.testing.assert_array_equal(seen.pop(), X + 1)
    assert not seen


def test_copies_and_waits(fake, seen) -> None:
    """The operands are asked for, and waited for once, then the results: no more is copied than that."""
    executable = executable_of(TWICE, fake)
    buffers = [executable.put(X, 0), executable.put(X + 3, 1)]
    executable.call(buffers)
    before = calls(fake)
    results = executable.call(buffers)
    copies, launches, waits = np.subtract(calls(fake), before)
    assert (copies, launches) == (7, 0)  # two operands and two results, two and one
    assert waits == (0 if fake.library.driver == "OpenCL" else 4)
    for result, expected in zip(results, (2 * X + 3, X - X - 3, -3 * (X + 3)), strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_a_driver_that_fails_at_any_step(fake, seen) -> None:
    """No function is called whose operands are not there; the call says what failed, and the next one works."""
    executable, driver = executable_of(TWICE, fake), fake.library.driver
    buffers = [executable.put(X, 0), executable.put(X + 3, 1)]
    executable.call(buffers)
    steps = [("copy", 7), ("wait", 0 if driver == "OpenCL" else 4)]
    called = {"copy": (0, 0, 1, 1, 1, 1, 2), "wait": (0, 1, 1, 2)}
    for kind, count in steps:
        function = NAMES[driver][0 if kind == "copy" else 2]
        for nth in range(count):
            seen.clear()
            fake.fail(function, FAILED[driver], nth + 1)
            with pytest.raises(ShloError, match=OUT_OF):
                executable.call(buffers)
            assert len(seen) == called[kind][nth]
            fake.itself.fake_forgive()
            results = executable.call(buffers)
            np.testing.assert_array_equal(np.asarray(results[2]), -3 * (X + 3))


def test_a_command_that_fails_on_the_device(fake, seen) -> None:
    """One before the function is called: it is told when the operands are waited for."""
    driver = fake.library.driver
    executable = executable_of(BETWEEN, fake)
    between(executable)
    buffer = executable.put(X, 0)
    np.asarray(buffer)
    seen.clear()
    fake.fail("execute", {"OpenCL": -5, "CUDA": 700, "HIP": 700}[driver])
    with pytest.raises(ShloError, match=r"a call, at kernel '\w+', on "):
        executable.call([buffer])
    assert not seen
    fake.itself.fake_forgive()
    np.testing.assert_array_equal(between(executable), 2 * (X + 1) + 1)


def test_a_loop_ends_where_the_driver_fails(fake, seen) -> None:
    executable = executable_of(LOOP, fake)
    yes, x = executable.put(np.array(True), 0), executable.put(X, 1)
    np.testing.assert_array_equal(np.asarray(executable.call([yes, x])[0]), X + TRIPS)
    copy = NAMES[fake.library.driver][0]
    for nth in range(1, 13):
        seen.clear()
        fake.fail(copy, FAILED[fake.library.driver], nth)
        with pytest.raises(ShloError, match=OUT_OF):
            executable.call([yes, x])
        assert len(seen) <= TRIPS
        fake.itself.fake_forgive()
        seen.clear()
        np.testing.assert_array_equal(np.asarray(executable.call([yes, x])[0]), X + TRIPS)


def test_a_function_that_fails(fake, seen) -> None:
    """Nothing is asked for behind it."""
    fails = [False]

    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if fails[0]:
            raise ValueError("no")
        return 2 * x

    shlo.register_custom_call("test.target", function)
    executable = executable_of(BETWEEN, fake)
    between(executable)
    for _ in range(3):
        buffer = executable.put(X, 0)
        before, fails[0] = calls(fake), True
        with pytest.raises(CallError, match="ValueError: no"):
            executable.call([buffer])
        copies, launches, _ = np.subtract(calls(fake), before)
        assert (copies, launches) == (2, 1)
        fails[0] = False
        np.testing.assert_array_equal(between(executable), 2 * (X + 1) + 1)
