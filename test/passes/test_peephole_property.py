"""Random programs of exact ops: all passes together change no bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stablehlo_py.dialect import build as b
from stablehlo_py.mlir import ir
from stablehlo_py.passes.peephole import Peephole

FLOAT_UNARY = ("abs", "negate", "floor", "ceil", "sign", "round_nearest_even")
INTEGER_UNARY = ("negate", "not", "popcnt", "abs")
FLOAT_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
INTEGER_BINARY = (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
    "shift_left",
    "shift_right_arithmetic",
    "divide",
)
FLOAT_NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.25, 3.5, float("inf"), float("-inf"))
INTEGER_NUMBERS = (0, 1, -1, 2, 31, 32, 2**31 - 1, -(2**31))


class Program:
    """Grows a program by ops that hypothesis chooses; `values` are all values so far."""

    def __init__(self, draw: Callable, values: list[ir.Value]) -> None:
        self.draw, self.values = draw, values

    def pick(self, choices: list | tuple) -> object:
        return self.draw(st.sampled_from(list(choices)))

    def step(self) -> None:
        x = self.pick(self.values)
        steps = [
            self.unary,
            self.binary,
            self.binary_constant,
            self.choose,
            self.reshape,
            self.transpose,
            self.broadcast,
            self.slice,
        ]
        steps += [self.concatenate, self.pad, self.reduce, self.convert]
        made = self.pick(steps)(x)
        if made is not None and np.prod(b.shape(made), dtype=int) <= 300:
            self.values.append(made)

    def floats(self, x: ir.Value) -> bool:
        return isinstance(x.type.element_type, ir.FloatType)

    def unary(self, x: ir.Value) -> ir.Value:
        return b.like(self.pick(FLOAT_UNARY if self.floats(x) else INTEGER_UNARY), x)

    def partner(self, x: ir.Value) -> ir.Value:
        return self.pick([value for value in self.values if value.type == x.type])

    def binary(self, x: ir.Value) -> ir.Value:
        return b.like(self.pick(FLOAT_BINARY if self.floats(x) else INTEGER_BINARY), x, self.partner(x))

    def binary_constant(self, x: ir.Value) -> ir.Value:
        number = b.splat(self.pick(FLOAT_NUMBERS if self.floats(x) else INTEGER_NUMBERS), x.type)
        operands = (x, number) if self.draw(st.booleans()) else (number, x)
        return b.like(self.pick(FLOAT_BINARY if self.floats(x) else INTEGER_BINARY), *operands)

    def choose(self, x: ir.Value) -> ir.Value:
        predicate = b.tensor(b.shape(x), ir.IntegerType.get_signless(1))
        test = b.value(
            "compare", predicate, x, self.partner(x), direction=self.pick(("EQ", "NE", "LT", "LE", "GT", "GE"))
        )
        return b.value("select", x.type, test, self.partner(x), self.partner(x))

    def reshape(self, x: ir.Value) -> ir.Value:
        sizes = list(b.shape(x))
        if self.draw(st.booleans()) and len(sizes) > 1:
            at = self.draw(st.integers(0, len(sizes) - 2))
            return b.reshape(x, [*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :]])
        at = self.draw(st.integers(0, len(sizes)))
        return b.reshape(x, [*sizes[:at], 1, *sizes[at:]])

    def transpose(self, x: ir.Value) -> ir.Value:
        return b.transpose(x, self.draw(st.permutations(range(x.type.rank))))

    def broadcast(self, x: ir.Value) -> ir.Value:
        sizes, at = list(b.shape(x)), self.draw(st.integers(0, x.type.rank))
        return b.broadcast(
            x, [*sizes[:at], self.pick((1, 2, 3)), *sizes[at:]], [d + (d >= at) for d in range(len(sizes))]
        )

    def slice(self, x: ir.Value) -> ir.Value:
        edges = []
        for size in b.shape(x):
            low = self.draw(st.integers(0, size - 1))
            edges.append((low, self.draw(st.integers(low + 1, size)), self.pick((1, 1, 2))))
        start, limit, strides = ([edge[k] for edge in edges] for k in range(3))
        sizes = [-(-(high - low) // step) for low, high, step in edges]
        return b.value("slice", b.tensor(sizes, x.type.element_type), x, start=start, limit=limit, strides=strides)

    def concatenate(self, x: ir.Value) -> ir.Value | None:
        if not x.type.rank:
            return None
        y, dimension = self.partner(x), self.draw(st.integers(0, x.type.rank - 1))
        sizes = list(b.shape(x))
        sizes[dimension] *= 2
        return b.op(
            "stablehlo.concatenate", [b.tensor(sizes, x.type.element_type)], [x, y], {"dimension": dimension}
        ).result

    def pad(self, x: ir.Value) -> ir.Value | None:
        number = b.splat(
            self.pick(FLOAT_NUMBERS if self.floats(x) else INTEGER_NUMBERS), b.tensor([], x.type.element_type)
        )
        low, high, interior = (
            [self.pick(choices) for _ in b.shape(x)] for choices in ((-1, 0, 1), (-1, 0, 1), (0, 0, 1))
        )
        sizes = [a + n + (n - 1) * i + c for a, n, i, c in zip(low, b.shape(x), interior, high, strict=True)]
        if min(sizes, default=1) < 1:
            return None
        return b.value("pad", b.tensor(sizes, x.type.element_type), x, number, low=low, high=high, interior=interior)

    def reduce(self, x: ir.Value) -> ir.Value | None:
        if not x.type.rank:
            return None
        dimensions = sorted(self.draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1)))
        kind = self.pick(("maximum", "minimum") if self.floats(x) else ("add", "maximum", "multiply"))
        init = b.splat(
            self.pick(FLOAT_NUMBERS if self.floats(x) else INTEGER_NUMBERS), b.tensor([], x.type.element_type)
        )
        sizes = [size for i, size in enumerate(b.shape(x)) if i not in dimensions]
        return b.value("reduce", b.tensor(sizes, x.type.element_type), x, init, kind=kind, dimensions=dimensions)

    def convert(self, x: ir.Value) -> ir.Value:
        target = ir.Type.parse(self.pick(("f32", "i32")))
        return x if target == x.type.element_type else b.value("convert", b.tensor(b.shape(x), target), x)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_random_programs_keep_every_bit(build: Callable, check: Callable, data: st.DataObject) -> None:
    def body(*arguments: ir.Value) -> list[ir.Value]:
        program = Program(data.draw, list(arguments))
        for _ in range(data.draw(st.integers(1, 14))):
            program.step()
        return program.values[-3:]

    check(build(["3x4xf32", "3x4xi32", "2x1x3xf32"], body), Peephole().run, rounds=2)
