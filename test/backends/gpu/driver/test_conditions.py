"""Graphs with branches and loops, of which only the device knows where they go, on a driver of CUDA that executes them:
the bits are those of kernels that were started one after the other, in whatever order edges permit.

Kernels of the fake driver hash what programs say that they read, so predicates are by chance; but for one that sets
conditions, which does what the real one does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from driver_programs import LARGE, LOOP, MANY, with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu import loops
from stablehlo_py.backends.gpu.cuda import device as cuda_module
from stablehlo_py.backends.gpu.cuda import graph as graph_module
from stablehlo_py.backends.gpu.policy import ONE_BLOCK
from stablehlo_py.backends.gpu.program import GpuProgram
from stablehlo_py.codegen.builder import Value
from stablehlo_py.errors import InternalError, ShloError
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

SIZE, CALLS, ORDERS = 24, 5, 6
Array = jax.Array


def branches(x: Array, y: Array, which: Array) -> Any:
    """Of two and of four ways, on numbers that kernels compute and on an argument, beside each other."""
    ways = [lambda x: jnp.sort(x, 0), lambda x: jnp.sort(x, 1) + y, lambda x: x * 2 + y, lambda x: x]
    sorted_ = jnp.sort(x, 1)
    one = jax.lax.cond(jnp.sort(y, 0).sum() > 0, lambda: jnp.sort(sorted_, 0), lambda: sorted_ + y)
    return one, jax.lax.switch(which, ways, sorted_), jnp.sort(y, 1)


def looping(x: Array, y: Array, which: Array) -> Any:
    """A loop in a loop, and a branch in both."""

    def inner(state: Any) -> Any:
        x, y = state
        return jnp.sort(x, 0) + y, jax.lax.cond(x[0, 0] > 0, lambda: jnp.sort(y, 1), lambda: y + x)

    def outer(state: Any) -> Any:
        x, y = jax.lax.while_loop(lambda state: jnp.sort(state[0], 1).sum() > which, inner, state)
        return jnp.sort(x, 1), y + x

    return jax.lax.while_loop(lambda state: jnp.sort(state[1], 1).sum() < which, outer, (x, y))


def updates(x: Array, y: Array, which: Array) -> Any:
    """Of memory that stays where it is, in one way; each call has other operands in both."""
    x = jnp.sort(x, 1)
    for number in range(3):
        x = jax.lax.cond(which > number, lambda x: jax.lax.dynamic_update_slice(x, y[:2], (which, 0)), lambda x: x, x)
        x = jnp.sort(x, number % 2)
    return x


PROGRAMS: dict[str, Callable[..., Any]] = {"branches": branches, "loops": looping, "updates": updates}


@cache
def program(name: str) -> CompiledProgram:
    """No loop is one kernel."""
    square = jax.ShapeDtypeStruct((SIZE, SIZE), jnp.float32)
    text = jax.jit(PROGRAMS[name]).lower(square, square, jax.ShapeDtypeStruct((), jnp.int32)).as_text()
    with mock.patch.object(loops, "ONE_BLOCK", replace(ONE_BLOCK, kernels=-1)):
        return with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu="sm_90", cache_dir=None)))


def described(fake, name: str) -> CompiledProgram:
    made = program(name)
    for kernel, accesses in zip(made.kernels, made.accesses, strict=True):
        assert accesses is not None
        fake.describe(kernel, accesses.read, accesses.written)
    return made


def call(executable: Executable, number: int) -> list[np.ndarray]:
    """With other buffers each time."""
    squares = [np.full((SIZE, SIZE), 10 * number + each, np.float32) for each in range(2)]
    arrays = [*squares, np.array((number * 7 % 6) - 1, np.int32)]
    buffers = [executable.put(array, place) for place, array in enumerate(arrays)]
    return [np.array(result).view(np.uint8) for result in executable.call(buffers)]


def results(executable: Executable) -> list[np.ndarray]:
    return [each for number in range(CALLS) for each in call(executable, number)]


@pytest.fixture
def expected(cuda_device) -> Callable[[str], list[np.ndarray]]:
    """Results of kernels that are started one after the other."""

    def found(name: str) -> list[np.ndarray]:
        executable = Executable(described(cuda_device, name))
        executable._loaded.code._replay = None
        return results(executable)

    return found


def are_same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


def graphs(fake) -> int:
    return fake.calls("cuGraphLaunch")


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_orders_give_the_same_bits(cuda_device, expected, name) -> None:
    wanted = expected(name)
    for seed in range(ORDERS):
        cuda_device.set(seed=1000 * seed)
        before, launches = graphs(cuda_device), cuda_device.calls("cuLaunchKernel")
        executable = Executable(described(cuda_device, name))
        assert are_same(results(executable), wanted)
        assert graphs(cuda_device) == before + CALLS - 1  # the host starts them, and reads nothing
        assert cuda_device.calls("cuLaunchKernel") > launches


def test_what_a_graph_has(cuda_device, expected) -> None:
    """A condition and a node for each way, and for each loop; another argument is told to the nodes that read it."""
    expected("branches")
    executable = Executable(described(cuda_device, "branches"))
    call(executable, 0)
    call(executable, 1)
    made = [cuda_device.calls(name) for name in ("cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuMemHostAlloc")]
    assert made == [2 + 4, 2 + 4, 0] and cuda_device.live()["graphs"] == 1
    settings = [numbers for name, numbers in cuda_device.launches() if name == "shlo_set_conditions"]
    assert len(settings) == 2 and all(numbers[:3] == [1, 1, 0] for numbers in settings)
    executable = Executable(described(cuda_device, "loops"))
    call(executable, 0)
    call(executable, 1)
    assert cuda_device.live()["hosts"] == 1


def test_what_cannot_be_written_down(cuda_device, expected, monkeypatch) -> None:
    """A number from another block: the host waits for it, and all that depends on it is as without graphs."""
    wanted = expected("loops")

    def unknown(program: GpuProgram, scalar: Value) -> None:
        program.waits = True

    monkeypatch.setattr(GpuProgram, "_number", unknown)
    made = program.__wrapped__("loops")
    assert not made.graphs and made.accesses == ()
    described(cuda_device, "loops")
    assert are_same(results(Executable(made)), wanted)
    assert graphs(cuda_device) == 0


def test_edges_to_conditions(cuda_device, expected, monkeypatch) -> None:
    """Without what orders a condition and its node, some order gives other bits."""
    from stablehlo_py.backends.gpu.driver import dependencies

    wanted = expected("branches")
    places = iter(range(1 << 40, 1 << 41))
    monkeypatch.setattr(dependencies, "_place", lambda _: (next(places) * 8, next(places) * 8))
    for seed in range(10 * ORDERS):  # one order in five does
        cuda_device.set(seed=1000 * seed)
        if not are_same(results(Executable(described(cuda_device, "branches"))), wanted):
            return
    raise AssertionError("no order gives other bits")


@pytest.mark.parametrize("name, settings", [("branches", {"version": 12030}), ("loops", {"timeout": 1})])
def test_drivers_that_have_no_such_graphs(cuda_device, expected, name, settings) -> None:
    """Older ones, and those that end what takes long."""
    wanted = expected(name)
    cuda_module.DEVICES.clear()
    cuda_device.set(**settings)
    assert are_same(results(Executable(described(cuda_device, name))), wanted)
    assert graphs(cuda_device) == 0


def test_branches_where_a_display_waits(cuda_device, expected) -> None:
    wanted = expected("branches")
    cuda_module.DEVICES.clear()
    cuda_device.set(timeout=1)
    assert are_same(results(Executable(described(cuda_device, "branches"))), wanted)
    assert graphs(cuda_device) == CALLS - 1


MADE = ("cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuMemHostAlloc", "cuGraphAddKernelNode")
USED = ("cuGraphLaunch", "cuGraphExecKernelNodeSetParams")


@pytest.mark.every(3)
@pytest.mark.parametrize("status", [1, 2, 801])
@pytest.mark.parametrize("function", [*MADE, *USED])
def test_a_driver_that_refuses_a_graph(cuda_device, expected, function, status) -> None:
    """Kernels are started one by one from then on; nothing runs twice, and nothing of the graph is left."""
    wanted = expected("loops")
    executable = Executable(described(cuda_device, "loops"))
    cuda_device.fail(function, status, 2 if function in MADE[:2] else 1)
    assert are_same(results(executable), wanted)
    assert executable._loaded.code._replay._graph is None
    assert cuda_device.live().keys().isdisjoint({"graphs", "execs", "hosts"})


@pytest.mark.parametrize("status", [200, 218, 221, 222, 2])
def test_a_driver_that_does_not_take_the_kernel(cuda_device, expected, status) -> None:
    """That sets conditions: its compiler is missing, say."""
    wanted = expected("branches")
    executable = Executable(described(cuda_device, "branches"))
    cuda_device.fail("cuModuleLoadDataEx", status)
    assert are_same(results(executable), wanted)
    assert graphs(cuda_device) == 0


@pytest.mark.parametrize("function", [*MADE, *USED, "cuModuleLoadDataEx", "cuEventQuery"])
def test_a_fault_of_an_earlier_kernel(cuda_device, expected, function) -> None:
    """The device is lost, and the graph with it; the program is loaded anew, and makes another one."""
    wanted = expected("loops")
    executable = Executable(described(cuda_device, "loops"))
    call(executable, 0)
    cuda_device.fail(function, 700)
    with pytest.raises(InternalError, match=r"on cuda:0 ended with \w+ \(700\)"):
        for number in range(3):
            call(executable, number)
    assert are_same(results(executable), wanted)
    assert cuda_device.live()["execs"] == 1


def test_a_loop_without_end_can_be_ended(cuda_device, monkeypatch) -> None:
    """By what comes while the host waits: Ctrl-C raises there."""
    made = with_fake_kernels(compile_program(LOOP, target="cuda", options=Options(gpu="sm_90", cache_dir=None)))
    assert made.graphs
    executable = Executable(made)
    for _ in range(3):
        assert executable(np.array(False), MANY)[0].shape == (LARGE,)
    assert graphs(cuda_device) == 2
    device = cuda_module.DEVICES.get()
    with monkeypatch.context() as patched:
        patched.setattr(graph_module.time, "sleep", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            executable(np.array(True), MANY)
    assert not device.queue.is_lost
    before = cuda_device.calls("cuLaunchKernel")
    assert np.array_equal(executable(np.array(False), MANY)[0], MANY)
    assert graphs(cuda_device) == 4 and cuda_device.calls("cuLaunchKernel") == before


def test_hip_has_no_such_graphs() -> None:
    made = compile_program(LOOP, target="rocm", options=Options(gpu="gfx942", cache_dir=None))
    assert not made.graphs


def test_whatever_fails_leaks_nothing(cuda_device, expected) -> None:
    """Every call of every function of a day with graphs fails once."""
    functions = (*MADE, *USED, "cuModuleLoadDataEx", "cuEventCreate", "cuMemAllocFromPoolAsync", "cuMemcpyAsync")

    def whole_day() -> None:
        executable = Executable(described(cuda_device, "loops"))
        for number in range(3):
            call(executable, number)

    whole_day()
    before = {name: cuda_device.calls(name) for name in functions}
    whole_day()
    counts = {name: cuda_device.calls(name) - count for name, count in before.items()}
    for name, count in counts.items():
        for nth in sorted({1, 2, max(1, count)}):
            for status in (2, 700):
                cuda_module.DEVICES.clear()
                cuda_device.fail(name, status, nth)
                with suppress(ShloError):
                    whole_day()
                cuda_device.itself.fake_forgive()
                whole_day()
                cuda_module.DEVICES.clear()
                assert cuda_device.live() == {}, (name, nth, status)
