"""Random elementwise programs that mix five element types: no rule, folded constant or fusion changes a bit of what the
ops give one by one (stablehlo_py/dialect/elements.py).

A failure names its seed. More programs: RANDOM_TYPES=1000:200 runs 200 of them from seed 1000 on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.dialect.elements import compare, convert
from stablehlo_py.dialect.evaluate import elementwise
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.rounding import cast, codes
from stablehlo_py.element_types import ELEMENT_TYPES

SEEDS, STEPS, SIZE = 12, 25, 19
INTEGERS = [name for name in ELEMENT_TYPES if name.lstrip("u")[0] == "i" and name != "i1"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"]
BITS = ["and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic"]
FLOAT_UNARY = ["negate", "abs", "sign", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sqrt"]
INTEGER_UNARY = ["negate", "not", "popcnt", "count_leading_zeros"]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 1.5, 100.0, 1e-3, np.inf, -np.inf, np.nan]


@dataclass(frozen=True)
class Known:
    """A value of the program: its name in the text, its element type, and what it must be."""

    name: str
    element: str
    array: np.ndarray

    @property
    def type(self) -> str:
        return f"tensor<{SIZE}x{self.element}>"


@dataclass
class Program:
    """Grows a function by ops drawn from `rng`."""

    rng: np.random.Generator
    lines: list[str] = field(default_factory=list)
    values: list[Known] = field(default_factory=list)

    def one_of(self, choices: list[str]) -> str:
        return choices[self.rng.integers(len(choices))]

    def numbers(self, element: str) -> np.ndarray:
        dtype = ELEMENT_TYPES[element]
        if element in FORMATS:
            return cast(self.rng.choice([*NUMBERS, *self.rng.standard_normal(8)], SIZE), dtype)
        return self.rng.integers(-128, 128, SIZE).astype(dtype)

    def constant(self, element: str) -> Known:
        dtype = ELEMENT_TYPES[element]
        if element in FORMATS:
            array = cast(np.full(SIZE, self.rng.choice(NUMBERS)), dtype)
            bits, width = codes(array[:1])
            text = f"0x{int(bits[0]):0{width // 4}X}" if width >= 8 else repr(float(array[0]))
        else:
            array = np.full(SIZE, self.rng.integers(-1, 4)).astype(dtype)
            text = str(int(array[0]))
        known = Known(f"%c{len(self.lines)}", element, array)
        self.lines.append(f"{known.name} = stablehlo.constant dense<{text}> : {known.type}")
        return known

    def pick(self, element: str | None = None) -> Known:
        """An earlier value (of an element type), or now and then a constant."""
        if element is not None and self.rng.random() < 0.3:
            return self.constant(element)
        fitting = [value for value in self.values if element in (None, value.element)]
        return fitting[self.rng.integers(len(fitting))]

    def grow(self, element: str, text: str, array: np.ndarray) -> None:
        known = Known(f"%v{len(self.lines)}", element, array)
        self.lines.append(f"{known.name} = {text}")
        self.values.append(known)

    def step(self, elements: list[str]) -> None:
        x, choice = self.pick(), self.rng.random()
        is_float = x.element in FORMATS
        if choice < 0.25:
            to = self.one_of([element for element in elements if element != x.element])
            result = convert(x.array, ELEMENT_TYPES[to])
            self.grow(to, f"stablehlo.convert {x.name} : ({x.type}) -> tensor<{SIZE}x{to}>", result)
        elif choice < 0.75:
            op, y = self.one_of(BINARY if is_float else BINARY + BITS), self.pick(x.element)
            result = elementwise(f"hlo.{op}", x.array, y.array)
            self.grow(x.element, f"stablehlo.{op} {x.name}, {y.name} : {x.type}", result)
        elif choice < 0.9:
            op = self.one_of(FLOAT_UNARY if is_float else INTEGER_UNARY)
            self.grow(x.element, f"stablehlo.{op} {x.name} : {x.type}", elementwise(f"hlo.{op}", x.array))
        else:
            y, z, direction = self.pick(x.element), self.pick(x.element), self.one_of(["LT", "GE", "EQ", "NE"])
            chosen, predicate = compare(direction, x.array, y.array), f"%p{len(self.lines)}"
            types = f"({x.type}, {x.type}) -> tensor<{SIZE}xi1>"
            self.lines.append(f"{predicate} = stablehlo.compare {direction}, {x.name}, {y.name} : {types}")
            text = f"stablehlo.select {predicate}, {y.name}, {z.name} : tensor<{SIZE}xi1>, {x.type}"
            self.grow(x.element, text, np.where(chosen, y.array, z.array))


def program(seed: int) -> tuple[str, list[Known], list[Known]]:
    """(module, arguments, results)."""
    rng = np.random.default_rng(seed)
    made = Program(rng)
    elements = [*map(str, rng.choice(list(FORMATS), 3, False)), *map(str, rng.choice(INTEGERS, 2, False))]
    made.values = [Known(f"%x{n}", element, made.numbers(element)) for n, element in enumerate(elements)]
    arguments = list(made.values)
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            made.step(elements)
    results = made.values[len(arguments) :]
    parameters = ", ".join(f"{value.name}: {value.type}" for value in arguments)
    types, names = (", ".join(getattr(value, of) for value in results) for of in ("type", "name"))
    head, tail = f"func.func @main({parameters}) -> ({types}) {{", f"return {names} : {types} }}"
    return "\n".join([head, *made.lines, tail]), arguments, results


def seeds() -> range:
    first, _, count = os.environ.get("RANDOM_TYPES", f"0:{SEEDS}").partition(":")
    return range(int(first), int(first) + int(count))


@pytest.mark.parametrize("seed", seeds())
def test_random_types(seed: int) -> None:
    text, arguments, expected = program(seed)
    options = shlo.Options(threads=1, cache_dir=None)
    results = shlo.compile(text, options=options)(*(argument.array for argument in arguments))
    for known, result in zip(expected, results, strict=True):
        assert result.dtype == known.array.dtype
        wide = np.float64 if known.element in FORMATS else np.int64
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(result.astype(wide), known.array.astype(wide), f"{known.name} in\n{text}")
