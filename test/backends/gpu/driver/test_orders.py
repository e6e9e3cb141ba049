"""Graphs whose nodes run in any order that their edges permit, and side by side, on drivers of CUDA and HIP that choose
one by chance: the bits are those of kernels that were started one after the other.

Kernels of the fake drivers hash here what programs say that they read, and keep it in their scratch memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from driver_programs import with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu import replay
from stablehlo_py.backends.gpu.driver.dependencies import dependencies
from stablehlo_py.backends.gpu.driver.structure import Block
from stablehlo_py.errors import LoadError
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

ORDERS, CALLS = 12, 4
SIZE = 24
SQUARE = f"tensor<{SIZE}x{SIZE}xf32>"
DONATED = "{tf.aliasing_output = 0 : i32}"


def sort(result: str, operand: str, dimension: int) -> str:
    """A kernel that is fused with nothing, and has scratch memory where it goes along columns."""
    return f"""
  {result} = "stablehlo.sort"({operand}) ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) {{dimension = {dimension} : i64}} : ({SQUARE}) -> {SQUARE}"""


def branches(count: int, length: int) -> str:
    """Chains of kernels beside each other, in an arena that they share, and sums of their results; an argument is
    donated, and returned with something added."""
    lines = []
    for branch in range(count):
        before = f"%x{branch % 2}"
        for number in range(length):
            name = f"%b{branch}_{number}"
            lines += [sort(f"{name}s", before, (branch + number) % 2)]
            lines += [f"  {name} = stablehlo.add {name}s, %x{(branch + 1) % 2} : {SQUARE}"]
            before = name
    total = "%x0"
    for branch in range(count):
        lines += [f"  %t{branch} = stablehlo.add {total}, %b{branch}_{length - 1} : {SQUARE}"]
        total = f"%t{branch}"
    outputs = [total, *(f"%b{branch}_{length - 1}" for branch in range(1, count, 2)), "%x1"]
    body, types = "\n".join(lines), ", ".join([SQUARE] * len(outputs))
    return f"""func.func @main(%x0: {SQUARE} {DONATED}, %x1: {SQUARE}) -> ({types}) {{
{body}
  return {", ".join(outputs)} : {types}
}}"""


def long_sorts(size: int = 20_000) -> str:
    """Several launches each, with nothing in common but their scratch memory."""
    sorts = [sort(f"%s{number}", f"%x{number}", 0).replace(SQUARE, f"tensor<{size}xf32>") for number in range(2)]
    type_ = f"tensor<{size}xf32>"
    return f"""func.func @main(%x0: {type_}, %x1: {type_}) -> ({type_}, {type_}) {{
{"".join(sorts)}
  return %s0, %s1 : {type_}, {type_}
}}"""


PROGRAMS = {
    "two branches": branches(2, 3),
    "many branches": branches(6, 2),
    "a chain": branches(1, 6),
    "scratch memory": long_sorts(),
}


@cache
def program(name: str, driver: str) -> CompiledProgram:
    if driver == "HIP":
        return compile_program(PROGRAMS[name], target="rocm", options=Options(gpu="gfx942"))
    return with_fake_kernels(compile_program(PROGRAMS[name], target="cuda", options=Options(gpu="sm_90")))


def described(fake, made: CompiledProgram) -> CompiledProgram:
    for kernel, accesses in zip(made.kernels, made.accesses, strict=True):
        assert accesses is not None
        fake.describe(kernel, accesses.read, accesses.written)
    return made


def results(executable: Executable) -> list[np.ndarray]:
    """Of some calls, each with other buffers."""
    found = []
    for number in range(CALLS):
        arrays = [np.full(spec.shape, 10 * number + each, spec.dtype) for each, spec in enumerate(executable.inputs)]
        buffers = [executable.put(array, place) for place, array in enumerate(arrays)]
        found += [np.array(result).view(np.uint8) for result in executable.call(buffers)]
    return found


def one_after_the_other(made: CompiledProgram) -> list[np.ndarray]:
    executable = Executable(made)
    executable._loaded.code._replay = None
    return results(executable)


def are_same(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


def in_some_order(fake, made: CompiledProgram, expected: list[np.ndarray]) -> bool:
    """Whether some order gives other bits."""
    for seed in range(ORDERS):
        fake.set(seed=1000 * seed)
        launches = fake.calls(fake.own("GraphLaunch"))
        if not are_same(results(Executable(made)), expected):
            return True
        assert fake.calls(fake.own("GraphLaunch")) == launches + CALLS - 1
    return False


@pytest.mark.every(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_orders_give_the_same_bits(streams_device, name) -> None:
    made = described(streams_device, program(name, streams_device.library.driver))
    assert not in_some_order(streams_device, made, one_after_the_other(made))


def edges_of(monkeypatch, made: CompiledProgram, change: Callable[[list[list[int]]], None]) -> list[list[int]]:
    """Let graphs have other edges from now on; those of a program, as they are then."""
    seen: list[list[list[int]]] = []

    def changed(*arguments) -> Block:
        block = dependencies(*arguments)
        change(block.before)
        seen.append(block.before)
        return block

    monkeypatch.setattr(replay, "dependencies", changed)
    results(Executable(made))
    return seen[-1]


def test_branches_are_beside_each_other(streams_device, monkeypatch) -> None:
    made = described(streams_device, program("two branches", streams_device.library.driver))
    edges = edges_of(monkeypatch, made, lambda found: None)
    assert any(not before for before in edges[1:]) and any(len(before) > 1 for before in edges)


def test_a_missing_edge_is_found(cuda_device, monkeypatch) -> None:
    """Every one: without it, some order gives other bits."""
    made = described(cuda_device, program("two branches", "CUDA"))
    expected = one_after_the_other(made)
    edges = edges_of(monkeypatch, made, lambda found: None)
    planted = [(number, before) for number, each in enumerate(edges) for before in each]
    assert planted
    for number, before in planted:
        edges_of(monkeypatch, made, lambda found, number=number, before=before: found[number].remove(before))
        assert in_some_order(cuda_device, made, expected), (number, before)


def without(made: CompiledProgram, number: int, operands: slice) -> CompiledProgram:
    """It does not say of a kernel that it writes what is behind these operands."""
    accesses = made.accesses[number]
    assert accesses is not None
    written = list(accesses.written)
    written[operands] = [0] * len(written[operands])
    forgotten = replace(accesses, written=tuple(written))
    return replace(made, accesses=(*made.accesses[:number], forgotten, *made.accesses[number + 1 :]))


@pytest.fixture
def unsigned(monkeypatch) -> None:
    """Programs are loaded whose code was generated with another description."""
    monkeypatch.setattr("stablehlo_py.backends.gpu.code.require_signature", lambda *_, **__: None)


@pytest.mark.usefixtures("unsigned")
def test_a_missing_access_is_found(cuda_device) -> None:
    """A graph that does not know of the results of a kernel, which others read, gives other bits."""
    made = described(cuda_device, program("two branches", "CUDA"))
    expected = one_after_the_other(made)
    for number in range(len(made.kernels) - 1):
        assert in_some_order(cuda_device, without(made, number, slice(None)), expected), made.kernels[number]


@pytest.mark.usefixtures("unsigned")
def test_missing_scratch_memory_is_found(cuda_device) -> None:
    made = described(cuda_device, program("scratch memory", "CUDA"))
    expected, changed = one_after_the_other(made), made
    for number in range(len(made.kernels)):
        changed = without(changed, number, slice(-1, None))
    assert in_some_order(cuda_device, changed, expected)


def test_an_edge_to_another_graph_is_refused(streams_device, monkeypatch) -> None:
    """The driver says so, and kernels are started one by one."""
    from stablehlo_py.backends.gpu.driver.stream_graph import StreamGraph

    made = described(streams_device, program("a chain", streams_device.library.driver))
    first, add = Executable(made), StreamGraph._added
    expected = one_after_the_other(made)
    assert are_same(results(first), expected)
    node = first._loaded.code._replay._steps[0]

    def added(graph, name, place, *parameters) -> int:
        return add(graph, name, (place[0], (type(place[1])._type_ * 1)(node)), *parameters)

    monkeypatch.setattr(StreamGraph, "_added", added)
    launches = streams_device.calls(streams_device.own("GraphLaunch"))
    assert are_same(results(Executable(made)), expected)
    assert streams_device.calls(streams_device.own("GraphLaunch")) == launches


def test_artifacts_keep_what_kernels_access() -> None:
    made = program("two branches", "HIP")
    read = artifact.deserialize(artifact.serialize(made))
    assert read.accesses == made.accesses and len(read.accesses) == len(read.kernels)
    first, *others = made.accesses
    assert first is not None
    for wrong in (
        tuple(others),
        (*made.accesses, None),
        (replace(first, read=first.read[1:]), *others),
        (replace(first, written=(-1, *first.written[1:])), *others),
    ):
        with pytest.raises(LoadError, match=r"is not a whole executable artifact: (it says what|a kernel reads)"):
            artifact.deserialize(artifact.serialize(replace(made, accesses=wrong)))
    with pytest.raises(LoadError, match="it says what 4 of 4 kernels access"):
        artifact.deserialize(artifact.serialize(replace(made, graphs=False)))
