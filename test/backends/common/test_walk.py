"""The walk over a program, by a host that does at once what other hosts write code for: NumPy, in planned memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.backends.common.description import describe
from stablehlo_py.backends.common.program import WORTH_LOOP, arena_bytes, repetition
from stablehlo_py.backends.common.walk import Walk
from stablehlo_py.debug.engines import at_stage
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.memory import ARENA, CONSTANT, INPUT, OUTPUT
from stablehlo_py.dialect.types import element_type, shape
from stablehlo_py.mlir import ir

OPTIONS = shlo.Options(cache_dir=None)
SWITCH = """func.func @main(%i: tensor<i32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.add %x, %x : tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }, {
    %1 = stablehlo.negate %x : tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }, {
    stablehlo.return %x : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


class Host(Walk[int]):
    """Runs a program, kernels in NumPy; scalars are Python's."""

    def __init__(self, module: ir.Module, inputs: Sequence[np.ndarray]) -> None:
        super().__init__(module)
        self.interpreter = Interpreter(module)
        program = describe(module, "host", "numpy", OPTIONS)
        self.buffers = {(ARENA, 0): np.zeros(arena_bytes(module), np.uint8)}
        outputs = [np.zeros([size or 0 for size in spec.shape], spec.dtype) for spec in program.outputs]
        for space, arrays in ((INPUT, inputs), (OUTPUT, outputs), (CONSTANT, program.constants)):
            for number, array in enumerate(arrays):
                self.buffers[space, number] = np.frombuffer(bytearray(array.tobytes()), np.uint8)
        self.run()
        *_, returned = self.main.regions[0].blocks[0].operations
        self.results = [self.array(value) for value in returned.operands]

    def array(self, value: ir.Value) -> np.ndarray:
        """The memory of a value."""
        place, dtype, sizes = self.slices[value], numpy_dtype(element_type(value)), shape(value)
        size = int(np.prod(sizes)) * dtype.itemsize
        return self.buffers[place.buffer][place.offset : place.offset + size].view(dtype).reshape(sizes)

    def steps(self, ops: Sequence[ir.OpView]) -> None:
        for op in ops:
            values = [self.array(operand).copy() for operand in op.operands]
            if op.operation.name == "func.call":
                function = self.interpreter.functions[op.attributes["callee"].value]
                values = self.interpreter.function(function, values)
            for result, value in zip(op.results, values, strict=True):
                self.array(result)[...] = value

    def element(self, value: ir.Value) -> int:
        return int(self.array(value)[()])

    def index(self, scalar: int, *, unsigned: bool) -> int:
        return scalar

    def equal(self, scalar: int, number: int) -> int:
        return scalar == number

    def branch(self, condition: int, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        if condition:
            then()
        elif otherwise:
            otherwise()

    def loop(self, condition: Callable[[], int], body: Callable[[], None]) -> None:
        while condition():
            body()


def run(source: str | bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a module's program."""
    inputs = list(map(np.asarray, inputs))
    module = at_stage("scheduled", source, tuple(array.shape for array in inputs), None, OPTIONS, ())
    with module.context, ir.Location.unknown():
        return [result.copy() for result in Host(module, inputs).results]


@pytest.mark.parametrize("name", ["mlp", "attention", "lstm", "newton", "branches", "dormand-prince"])
def test_models(name: str) -> None:
    model = suite.build(name, "small")
    results = run(suite.export(model), model.arrays())
    for result, wanted in zip(results, suite.reference(model), strict=True):
        assert suite.largest_difference(result, wanted) <= model.tolerance


@pytest.mark.parametrize("case", range(-1, 4))
def test_switches(case: int) -> None:
    x = np.array([1, 2], np.float32)
    (result,) = run(SWITCH, [np.array(case, np.int32), x])
    np.testing.assert_array_equal(result, {0: x + x, 1: -x}.get(case, x))


def test_what_repeats_becomes_a_loop_where_that_spares_steps() -> None:
    assert repetition("abcabcabc", 0) == (3, 3)
    assert repetition("xabab", 1) == (1, 1)  # two steps spared
    assert repetition("xaaaa", 1) == (1, 4)
    assert repetition("aabaab", 0) == (3, 2)


def test_repetition_is_what_all_periods_would_find() -> None:
    def longest(steps: str, start: int) -> tuple[int, int]:
        best = (1, 1)
        for period in range(1, (len(steps) - start) // 2 + 1):
            times = 1
            while steps[start + period * times :].startswith(steps[start : start + period]):
                times += 1
            if period * (times - 1) >= WORTH_LOOP and period * (times - 1) > best[0] * (best[1] - 1):
                best = (period, times)
        return best

    random = np.random.default_rng(7)
    for letters, length in ((1, 9), (2, 30), (3, 60), (5, 60)):
        for _ in range(50):
            steps = "".join(chr(letter) for letter in random.integers(0, letters, length))
            start = int(random.integers(0, length))
            assert repetition(steps, start) == longest(steps, start), (steps, start)


def test_steps_that_do_not_repeat_are_not_compared() -> None:
    steps = "".join(map(chr, range(200_000)))
    began = time.perf_counter()
    for start in range(0, 200_000, 2_000):
        assert repetition(steps, start) == (1, 1)
    assert time.perf_counter() - began < 5  # a comparison of every period takes minutes
