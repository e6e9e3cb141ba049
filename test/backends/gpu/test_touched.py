"""What kernels access, as graphs know it: on a device that is there, kernels in any order that this permits give the
bits that they give one after the other."""

from __future__ import annotations

import array
import ctypes
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu import compile as module
from stablehlo_py.backends.gpu import loops
from stablehlo_py.backends.gpu.driver.recording import COPY, Graph, Step
from stablehlo_py.backends.gpu.driver.structure import Block, Conditional, Setting
from stablehlo_py.backends.gpu.opencl.calls import OpenClCalls
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.policy import ONE_BLOCK
from stablehlo_py.backends.gpu.target import SPIRV64
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.options import Options
from stablehlo_py.runtime.accesses import Accesses
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.suite import registry

ORDERS = 5


class RecordingCalls(OpenClCalls):
    """Steps are written down. Their nodes have no handles, so native code changes none."""

    has_graphs = has_conditions = True

    def change(self, f: Function, node: Value, parameters: Value) -> None:
        """Nothing: the graph finds operands where they are written down."""


class OrderedGraph(Graph):
    """Asks a queue of OpenCL for the steps, in an order that the edges permit.

    Attributes:
        bodies: how often each one ran in the last call, by the number of its condition.
    """

    handle = 1

    def __init__(self, device: OpenClDevice, steps: array.array[int], kernels: Sequence[int], block: Block) -> None:
        self._queue, self._steps, self._kernels, self.block = device.queue, steps, kernels, block
        self.orders = random.Random(1)
        self.bodies: Counter[int] = Counter()
        self._holds: dict[int, bool] = {}

    @property
    def before(self) -> list[list[int]]:
        return self.block.before

    def start(self) -> int:
        self.bodies.clear()
        self._queue.finish()
        self._run(self.block)
        self._queue.finish()
        return 0

    def _run(self, block: Block) -> None:
        nodes, ended = block.nodes, set[int]()
        while len(ended) < len(nodes):
            ready = [n for n in range(len(nodes)) if n not in ended and ended.issuperset(block.before[n])]
            chosen = self.orders.choice(ready)
            self._ask(nodes[chosen])
            ended.add(chosen)

    def _ask(self, node: Step | Setting | Conditional) -> None:
        if isinstance(node, Step):
            self._launch(node)
        elif isinstance(node, Setting):
            place, size = self._steps[node.step.operands], node.step.bytes
            read = np.zeros(size, np.uint8)
            self._queue.call("clEnqueueSVMMemcpy", 1, read.ctypes.data, place, size, 0, None, None)
            number = int.from_bytes(read.tobytes(), "little")
            self._holds |= {each.number: min(number, each.last) == each.way for each in node.conditions}
        else:
            while self._holds[node.condition.number]:
                self.bodies[node.condition.number] += 1
                self._run(node.body)
                if not node.is_loop:
                    break

    def _launch(self, step: Step) -> None:
        queue, operands = self._queue, self._steps[step.operands : step.operands + step.count]
        if step.kernel == COPY:
            queue.call("clEnqueueSVMMemcpy", 1, *operands, step.bytes, 0, None, None)
            return
        kernel = self._kernels[step.kernel]
        for place, operand in enumerate(operands):
            queue.library.call("clSetKernelArgSVMPointer", kernel, place, operand)
        everything, block = (ctypes.byref(ctypes.c_size_t(n)) for n in (step.blocks * step.threads, step.threads))
        queue.call("clEnqueueNDRangeKernel", kernel, 1, None, everything, block, 0, None, None)


@pytest.fixture
def graphs(real_device, monkeypatch) -> list[OrderedGraph]:
    """Those that programs for OpenCL make."""
    made: list[OrderedGraph] = []

    def graph(device: OpenClDevice, steps: array.array[int], kernels: Sequence[int], block: Block) -> OrderedGraph:
        made.append(OrderedGraph(device, steps, kernels, block))
        return made[-1]

    monkeypatch.setitem(module.CALLS, SPIRV64, RecordingCalls())
    monkeypatch.setattr(OpenClDevice, "graph", graph)
    return made


def program(text: str | bytes) -> CompiledProgram:
    return compile_program(text, target="opencl", options=Options(cache_dir=None, disable=("unroll-loops",)))


def check(graphs: list[OrderedGraph], text: str | bytes, *calls: Sequence[np.ndarray]) -> OrderedGraph:
    """The first call starts kernels one by one, the others are graphs: one for all arguments."""
    executable = Executable(program(text))
    expected = []
    for arrays in calls:
        launched = executable if not expected else Executable(program(text))
        expected.append([np.array(result) for result in launched(*arrays)])
    for _ in range(ORDERS):
        for arrays, all_wanted in zip(calls, expected, strict=True):
            for result, wanted in zip(executable(*arrays), all_wanted, strict=True):
                assert np.array_equal(np.asarray(result).view(np.uint8), wanted.view(np.uint8))
    (graph,) = graphs
    return graph


def lowered(function: Callable[..., Any], *arrays: np.ndarray) -> str:
    return jax.jit(function).lower(*arrays).as_text()


def branches(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
    """Kernels of many kinds, several with scratch memory and several launches."""
    rows = jax.nn.softmax(x @ y, axis=1)
    columns = jnp.cumsum(jnp.sort(y, axis=0), axis=0)
    large = jnp.sort(jnp.tile(x.reshape(-1), 12))
    ranked = jax.lax.top_k(x.reshape(-1), 100)[0]
    scattered = jnp.zeros(500).at[(x.reshape(-1) * 1e4).astype(jnp.int32) % 500].add(1.0)
    factor = jnp.linalg.cholesky(x @ x.T + 100 * jnp.eye(x.shape[0]))
    solved = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
    spectrum = jnp.abs(jnp.fft.rfft(y, axis=1))
    moved = jax.lax.dynamic_update_slice(rows @ columns, jnp.transpose(x)[:5, :5], (3, 2))
    turned = y[::-1]  # from an argument to a result: it waits for nobody
    return rows.sum(0), columns, large[::7], ranked, scattered, solved, spectrum, moved, x.sum(0) + y.mean(1), turned


def test_branches_of_all_kinds(graphs) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(48, 48)).astype(np.float32) for _ in range(2)]
    graph = check(graphs, lowered(branches, *arrays), arrays)
    assert sum(not before for before in graph.before) > 1


@pytest.mark.parametrize("name", ["unet", "resnet18", "gpt2-prefill", "mixture-of-experts"])
def test_models(graphs, name) -> None:
    model = registry.build(name, "small")
    check(graphs, registry.export(model).mlir_module_serialized, model.arrays())


@pytest.fixture
def host_loops(monkeypatch) -> None:
    """No loop is one kernel."""
    monkeypatch.setattr(loops, "ONE_BLOCK", replace(ONE_BLOCK, kernels=-1))


def scanned(x: jax.Array, layers: jax.Array) -> tuple[jax.Array, ...]:
    """Layers one after the other, what each of them gives, and a loop in each."""

    def layer(state: tuple[jax.Array, jax.Array], weights: jax.Array) -> tuple[Any, jax.Array]:
        x, other = state
        x = jax.nn.softmax(x @ weights, axis=1)
        x = jax.lax.fori_loop(0, 3, lambda i, x: jnp.cumsum(x, axis=0) * 0.1 + weights[i], x)
        return (other + weights.sum(), x), x.max(axis=0)

    (x, other), found = jax.lax.scan(layer, (x, x + 1), layers)
    return x.T, other, found, jnp.sort(layers[0], axis=0)


@pytest.mark.usefixtures("host_loops")
def test_counted_loops(graphs) -> None:
    """Every trip is written down; carries change places from trip to trip."""
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=sizes).astype(np.float32) for sizes in ((32, 32), (6, 32, 32))]
    graph = check(graphs, lowered(scanned, *arrays), arrays)
    assert len(graph.before) > 6 * (1 + 3) and sum(not before for before in graph.before) > 1


def branching(x: jax.Array, which: jax.Array, count: jax.Array) -> tuple[jax.Array, ...]:
    """Branches of two and four ways in a loop of unknown length, in which are a counted one and another."""

    def ways(x: jax.Array, number: jax.Array) -> jax.Array:
        halved = jax.lax.cond(x.sum() > 0, lambda x: x - x.mean(), lambda x: jnp.roll(x, 1, 0), x)
        found = [lambda x: x[::-1] * 0.5, lambda x: halved, lambda x: jnp.sort(x, axis=-1), lambda x: x]
        return jax.lax.switch(number, found, x)

    def body(state: Any) -> Any:
        i, x, y = state
        x, found = jax.lax.scan(lambda x, number: (ways(x, number), jnp.max(x)), x, which)
        y = jax.lax.while_loop(lambda y: y.max() < 100, lambda y: y * 2 + jnp.abs(x), y)
        return i + 1, x + i, y / 50 + found.mean()

    i, x, y = jax.lax.while_loop(lambda state: state[0] < count, body, (0, x, jnp.abs(x)))
    return x.T, y, jax.lax.cond(i > 2, lambda: x @ y, lambda: x + y)


@pytest.mark.usefixtures("host_loops")
def test_branches_and_loops(graphs) -> None:
    """One graph for all ways: the device decides."""
    rng = np.random.default_rng(1)
    x, whiches = rng.normal(size=(16, 16)).astype(np.float32), ([0, 1, 2, 3], [3, 3, -7, 1], [900, 1, 1, 0])
    calls = [(x * k, np.array(which, np.int32), np.int32(k)) for k, which in enumerate(whiches)]
    graph = check(graphs, lowered(branching, *calls[0]), *calls)
    found = graph.block.conditionals
    outer, _ = (each for each in found if each.is_loop)
    others = [each for each in found if not each.is_loop]
    assert len(others) == 4 * (2 + 4) + 2
    ran = graph.bodies[outer.condition.number]
    assert ran == 2 and sum(graph.bodies[each.condition.number] for each in others) == ran * 4 * 2 + 1


def test_what_is_said(graphs) -> None:
    """Of a kernel with an operand that it reads, a result and scratch memory, and of one that updates a donated
    argument."""
    made = program(
        """func.func @main(%x: tensor<3x5xf32>, %y: tensor<4xbf16> {tf.aliasing_output = 1 : i32})
             -> (tensor<3x5xi1>, tensor<4xbf16>) {
  %0 = stablehlo.is_finite %x : (tensor<3x5xf32>) -> tensor<3x5xi1>
  %1 = stablehlo.add %y, %y : tensor<4xbf16>
  return %0, %1 : tensor<3x5xi1>, tensor<4xbf16>
}"""
    )
    assert set(made.accesses) == {Accesses((60, 0, 0), (0, 15, 0)), Accesses((8, 0, 0), (0, 8, 0))}


def test_what_is_not_known(graphs, monkeypatch) -> None:
    """Loops that are kernels find what they access by themselves."""
    made = program(
        lowered(lambda x: jax.lax.while_loop(lambda c: c[0] < 100, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))[1],
                np.ones(64, np.float32))
    )  # fmt: skip
    assert made.graphs and None in made.accesses


def test_programs_without_graphs_say_nothing() -> None:
    made = shlo.api.compile_program(
        lowered(lambda x: x + 1, np.ones(4, np.float32)), target="cuda", options=Options(gpu="sm_90", graphs=False)
    )
    assert made.accesses == ()
