"""Whole programs on every element type: one module with an op of each kind, against NumPy.

The numbers are such that f32 (and int32) hold every sum exactly, so the order of summation does not matter and results
are the exact ones, rounded once or wrapped.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.element_types import ELEMENT_TYPES

TYPES = [name for name in ELEMENT_TYPES if name not in ("i1", "f32", "f64", "complex<f32>", "complex<f64>")]
ROWS, COLUMNS, OUT = 37, 70, 90
SCALE = "f8E8M0FNU"


class Inputs:
    """Arguments of the module for one element type, and their exact values."""

    def __init__(self, name: str) -> None:
        self.name, self.dtype, self.is_float = name, ELEMENT_TYPES[name], name in FORMATS
        rng = np.random.default_rng(len(name))
        if name == SCALE:
            numbers = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        elif self.is_float:
            numbers = np.array([-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3])
        else:
            numbers = np.arange(4) if name.startswith("u") else np.arange(-2, 2)
        sizes = {
            "x": (ROWS, COLUMNS),
            "y": (ROWS, COLUMNS),
            "w": (COLUMNS, OUT),
            "u": (5, COLUMNS),
            "image": (1, 10, 10, 3),
            "kernel": (3, 3, 3, 8),
        }
        wide = np.float64 if self.is_float else np.int64
        self.wide = {key: rng.choice(numbers, size).astype(wide) for key, size in sizes.items()}
        self.rows = np.array([3, 0, 36, 3, 7], np.int32)
        self.start = np.array(4, np.int32)
        self.one = self.narrow(np.ones((), wide))

    def narrow(self, exact: np.ndarray) -> np.ndarray:
        """The exact numbers as the type has them: rounded, or wrapped."""
        return cast(exact, self.dtype) if self.is_float else exact.astype(self.dtype)

    def again(self, exact: np.ndarray) -> np.ndarray:
        """The exact numbers after a stop in the type."""
        return self.narrow(exact).astype(exact.dtype)

    def arguments(self) -> list[np.ndarray]:
        return [*map(self.narrow, self.wide.values()), self.rows, self.start, self.one]


Expected = Callable[[Inputs], list[np.ndarray]]
CASES: list[tuple[str, tuple[str, ...], Expected]] = []


def case(text: str, *results: str) -> Callable[[Expected], Expected]:
    """An op: its text, which makes %result (or %result#n) of the arguments; T is the type, W its wide one."""

    def register(function: Expected) -> Expected:
        CASES.append((text, results, function))
        return function

    return register


M = "tensor<37x70xT>"
SUM = "({ ^bb0(%p: tensor<T>, %q: tensor<T>): %r = stablehlo.add %p, %q : tensor<T> stablehlo.return %r : tensor<T> })"


@case(
    f"%1 = stablehlo.add %x, %y : {M} %2 = stablehlo.multiply %1, %y : {M} %result = stablehlo.maximum %2, %x : {M}", M
)
def _chain(given: Inputs) -> list[np.ndarray]:
    x, y = given.wide["x"], given.wide["y"]
    return [given.narrow(np.maximum(given.again(given.again(x + y) * y), x))]


@case(f"%result = stablehlo.compare GT, %x, %y : ({M}, {M}) -> tensor<37x70xi1>", "tensor<37x70xi1>")
def _compare(given: Inputs) -> list[np.ndarray]:
    return [given.wide["x"] > given.wide["y"]]


@case(f"%result = stablehlo.convert %x : ({M}) -> tensor<37x70xW>", "tensor<37x70xW>")
def _convert(given: Inputs) -> list[np.ndarray]:
    return [given.wide["x"].astype(np.float32 if given.is_float else np.int32)]


@case(f"%result = stablehlo.transpose %x, dims = [1, 0] : ({M}) -> tensor<70x37xT>", "tensor<70x37xT>")
def _transpose(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(given.wide["x"].T)]


@case(
    f"%1 = stablehlo.reverse %x, dims = [1] : {M} %2 = stablehlo.concatenate %1, %y, dim = 0 : ({M}, {M}) -> "
    "tensor<74x70xT> %3 = stablehlo.slice %2 [1:74:3, 5:60:2] : (tensor<74x70xT>) -> tensor<25x28xT> "
    "%result = stablehlo.pad %3, %one, low = [1, 2], high = [0, 1], interior = [1, 0] : "
    "(tensor<25x28xT>, tensor<T>) -> tensor<50x31xT>",
    "tensor<50x31xT>",
)
def _moves(given: Inputs) -> list[np.ndarray]:
    both = np.concatenate([given.wide["x"][:, ::-1], given.wide["y"]])[1:74:3, 5:60:2]
    padded = np.ones((50, 31), both.dtype)
    padded[1::2, 2:-1] = both
    return [given.narrow(padded)]


@case(
    '%result = "stablehlo.gather"(%x, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
    "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 70>}> : "
    f"({M}, tensor<5xi32>) -> tensor<5x70xT>",
    "tensor<5x70xT>",
)
def _gather(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(given.wide["x"][given.rows])]


@case(
    f"%1 = stablehlo.dynamic_slice %y, %start, %start, sizes = [6, 33] : ({M}, tensor<i32>, tensor<i32>) -> "
    f"tensor<6x33xT> %result = stablehlo.dynamic_update_slice %x, %1, %start, %start : "
    f"({M}, tensor<6x33xT>, tensor<i32>, tensor<i32>) -> {M}",
    M,
)
def _slices(given: Inputs) -> list[np.ndarray]:
    changed = given.wide["x"].copy()
    changed[4:10, 4:37] = given.wide["y"][4:10, 4:37]
    return [given.narrow(changed)]


@case(
    '%result = "stablehlo.scatter"(%x, %rows, %u) <{scatter_dimension_numbers = #stablehlo.scatter<'
    "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> "
    f"{SUM} : ({M}, tensor<5xi32>, tensor<5x70xT>) -> {M}",
    M,
)
def _scatter(given: Inputs) -> list[np.ndarray]:
    result = given.wide["x"].copy()
    for row, update in zip(given.rows, given.wide["u"], strict=True):  # every addition is stored
        result[row] = given.again(result[row] + update)
    return [given.narrow(result)]


def _reduce(kind: str, dimension: int, size: int) -> str:
    return (
        f"%result = stablehlo.reduce(%x init: %one) applies stablehlo.{kind} across dimensions = [{dimension}] : "
        f"({M}, tensor<T>) -> tensor<{size}xT>"
    )


@case(_reduce("add", 1, ROWS), "tensor<37xT>")
def _sum_rows(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(given.wide["x"].sum(1) + 1)]


@case(_reduce("add", 0, COLUMNS), "tensor<70xT>")
def _sum_columns(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(given.wide["x"].sum(0) + 1)]


@case(_reduce("maximum", 1, ROWS), "tensor<37xT>")
def _largest(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(np.maximum(given.wide["x"].max(1), 1))]


@case(_reduce("minimum", 0, COLUMNS), "tensor<70xT>")
def _smallest(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(np.minimum(given.wide["x"].min(0), 1))]


@case(
    "%places = stablehlo.iota dim = 1 : tensor<37x70xi32> %zero = stablehlo.constant dense<0> : tensor<i32> "
    "%result:2 = stablehlo.reduce(%x init: %one), (%places init: %zero) across dimensions = [1] : "
    f"({M}, tensor<37x70xi32>, tensor<T>, tensor<i32>) -> (tensor<37xT>, tensor<37xi32>) "
    "reducer(%p: tensor<T>, %q: tensor<T>) (%i: tensor<i32>, %j: tensor<i32>) { "
    "%more = stablehlo.compare GT, %q, %p : (tensor<T>, tensor<T>) -> tensor<i1> "
    "%r = stablehlo.select %more, %q, %p : tensor<i1>, tensor<T> "
    "%s = stablehlo.select %more, %j, %i : tensor<i1>, tensor<i32> stablehlo.return %r, %s : tensor<T>, tensor<i32> }",
    "tensor<37xT>",
)
def _largest_of_pairs(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(np.maximum(given.wide["x"].max(1), 1))]


@case(
    '%result = "stablehlo.reduce_window"(%x, %one) <{window_dimensions = array<i64: 2, 3>, '
    f"window_strides = array<i64: 1, 2>}}> {SUM} : ({M}, tensor<T>) -> tensor<36x34xT>",
    "tensor<36x34xT>",
)
def _windows(given: Inputs) -> list[np.ndarray]:
    x = given.wide["x"]
    pairs = x[1:] + x[:-1]
    return [given.narrow(pairs[:, 0:67:2] + pairs[:, 1:68:2] + pairs[:, 2:69:2] + 1)]


@case(
    f'%result:2 = "stablehlo.sort"(%x, %y) <{{dimension = 1 : i64, is_stable = true}}> ({{ ^bb0(%p: tensor<T>, '
    "%q: tensor<T>, %r: tensor<T>, %s: tensor<T>): %less = stablehlo.compare LT, %p, %q : (tensor<T>, tensor<T>) -> "
    f"tensor<i1> stablehlo.return %less : tensor<i1> }}) : ({M}, {M}) -> ({M}, {M})",
    M,
    M,
)
def _sort(given: Inputs) -> list[np.ndarray]:
    order = np.argsort(given.wide["x"], 1, kind="stable")
    return [given.narrow(np.take_along_axis(given.wide[key], order, 1)) for key in "xy"]


def _dot(left: str, rows: str, result: str) -> str:
    return (
        f"%result = stablehlo.dot_general {left}, %w, contracting_dims = [{1 if rows else 0}] x [0] : "
        f"(tensor<{rows}70xT>, tensor<70x90xT>) -> tensor<{rows}90x{result}>"
    )


@case(_dot("%x", "37x", "T"), "tensor<37x90xT>")
def _product(given: Inputs) -> list[np.ndarray]:
    return [given.narrow(given.wide["x"] @ given.wide["w"])]


@case(_dot("%x", "37x", "W"), "tensor<37x90xW>")
def _wide_product(given: Inputs) -> list[np.ndarray]:
    return [(given.wide["x"] @ given.wide["w"]).astype(np.float32 if given.is_float else np.int32)]


@case(
    f"%1 = stablehlo.slice %x [2:3, 0:70] : ({M}) -> tensor<1x70xT> "
    "%2 = stablehlo.reshape %1 : (tensor<1x70xT>) -> tensor<70xT> "
    "%3 = stablehlo.convert %2 : (tensor<70xT>) -> tensor<70xW> "
    "%4 = stablehlo.convert %w : (tensor<70x90xT>) -> tensor<70x90xW> "
    "%result = stablehlo.dot_general %3, %4, contracting_dims = [0] x [0] : (tensor<70xW>, tensor<70x90xW>) -> "
    "tensor<90xW>",
    "tensor<90xW>",
)
def _converted_product(given: Inputs) -> list[np.ndarray]:
    return [(given.wide["x"][2] @ given.wide["w"]).astype(np.float32 if given.is_float else np.int32)]


@case(
    "%result = stablehlo.convolution(%image, %kernel) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
    "window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
    "(tensor<1x10x10x3xT>, tensor<3x3x3x8xT>) -> tensor<1x10x10x8xT>",
    "tensor<1x10x10x8xT>",
)
def _convolution(given: Inputs) -> list[np.ndarray]:
    padded = np.pad(given.wide["image"][0], ((1, 1), (1, 1), (0, 0)))
    kernel = given.wide["kernel"]
    total = sum(padded[i : i + 10, j : j + 10] @ kernel[i, j] for i in range(3) for j in range(3))
    return [given.narrow(np.asarray(total)[None])]


@case(f"%result = stablehlo.iota dim = 0 : {M}", M)
def _iota(given: Inputs) -> list[np.ndarray]:
    exact = np.arange(ROWS).astype(given.wide["x"].dtype)
    return [np.repeat(given.narrow(exact)[:, None], COLUMNS, 1)]


@case(
    "%table = stablehlo.constant dense<TABLE> : tensor<6xT> %1 = stablehlo.constant dense<ONE> : tensor<37x6xT> "
    "%2 = stablehlo.broadcast_in_dim %table, dims = [1] : (tensor<6xT>) -> tensor<37x6xT> "
    f"%3 = stablehlo.slice %x [0:37, 0:6] : ({M}) -> tensor<37x6xT> %4 = stablehlo.multiply %2, %3 : tensor<37x6xT> "
    "%result = stablehlo.add %4, %1 : tensor<37x6xT>",
    "tensor<37x6xT>",
)
def _constants(given: Inputs) -> list[np.ndarray]:
    numbers = np.array([1, 2, 1, 1 if given.name == SCALE else 0, 1, 1])
    table = given.again(numbers.astype(given.wide["x"].dtype))
    return [given.narrow(given.again(table * given.wide["x"][:, :6]) + 1)]


@case(
    f"%zero = stablehlo.constant dense<0> : tensor<i32> %loop:2 = stablehlo.while(%i = %zero, %v = %x) : "
    f"tensor<i32>, {M} cond {{ %n = stablehlo.constant dense<3> : tensor<i32> "
    "%less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1> "
    "stablehlo.return %less : tensor<i1> } do { %o = stablehlo.constant dense<1> : tensor<i32> "
    f"%j = stablehlo.add %i, %o : tensor<i32> %s = stablehlo.add %v, %y : {M} "
    f"stablehlo.return %j, %s : tensor<i32>, {M} }} %result = stablehlo.minimum %loop#1, %loop#1 : {M}",
    M,
)
def _loop(given: Inputs) -> list[np.ndarray]:
    total = given.wide["x"]
    for _ in range(3):
        total = given.again(total + given.wide["y"])
    return [given.narrow(total)]


ARGUMENTS = {
    "x": M,
    "y": M,
    "w": "tensor<70x90xT>",
    "u": "tensor<5x70xT>",
    "image": "tensor<1x10x10x3xT>",
    "kernel": "tensor<3x3x3x8xT>",
    "rows": "tensor<5xi32>",
    "start": "tensor<i32>",
    "one": "tensor<T>",
}


def _module(given: Inputs) -> str:
    """A function for every case, and one that calls them all."""
    parameters = ", ".join(f"%{name}: {type_}" for name, type_ in ARGUMENTS.items())
    operands, types = ", ".join(f"%{name}" for name in ARGUMENTS), ", ".join(ARGUMENTS.values())
    functions, calls, values = [], [], []
    for number, (text, results, _) in enumerate(CASES):
        several = "%result:" in text
        own = [f"%result#{n}" if several else "%result" for n in range(len(results))]
        functions.append(
            f"func.func private @case{number}({parameters}) -> ({', '.join(results)}) {{ {text} "
            f"return {', '.join(own)} : {', '.join(results)} }}"
        )
        calls.append(f"%{number}:{len(results)} = call @case{number}({operands}) : ({types}) -> ({', '.join(results)})")
        values += [f"%{number}#{n}" for n in range(len(results))]
    returned = ", ".join(type_ for _, results, _ in CASES for type_ in results)
    main = [f"func.func @main({parameters}) -> ({returned}) {{", *calls, f"return {', '.join(values)} : {returned} }}"]
    table = [1, 2 if given.name != "i2" else -2, 1, 1 if given.name == SCALE else 0, 1, 1]
    numbers = [f"{number}.0" if given.is_float else str(number) for number in table]
    replacements = {
        "TABLE": f"[{', '.join(numbers)}]",
        "ONE": numbers[0],
        "xT>": f"x{given.name}>",
        "<T>": f"<{given.name}>",
        "xW>": "xf32>" if given.is_float else "xi32>",
    }
    text = "\n".join([*main, *functions])
    for name, value in replacements.items():
        text = text.replace(name, value)
    return text


def _check(given: Inputs, target: str | None) -> None:
    options = shlo.Options(threads=1, cache_dir=None, cpu=target)
    results = iter(shlo.compile(_module(given), options=options)(*given.arguments()))
    for text, _, expected in CASES:
        for array in expected(given):
            result = next(results)
            assert (result.dtype, result.shape) == (array.dtype, array.shape), text
            wide = np.float64 if given.is_float else np.int64
            np.testing.assert_array_equal(result.astype(wide), array.astype(wide), text)


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    _check(Inputs(name), None)


@pytest.mark.skipif(host_target().vector_bits != 512, reason="this host runs AVX2 anyway")
@pytest.mark.parametrize("name", ["i4", "ui2", "f4E2M1FN", "f8E4M3FN", SCALE])
def test_types_on_avx2(name: str) -> None:
    _check(Inputs(name), "avx2")


@pytest.mark.parametrize("size", [9, 900])
def test_unsigned_indices(size: int) -> None:
    """Of 64 bits they may be beyond what signed ones hold: slices end at the end, updates are left out."""
    text = f"""func.func @main(%x: tensor<{size}xf32>, %i: tensor<ui64>, %u: tensor<2xf32>) ->
        (tensor<2xf32>, tensor<{size}xf32>, tensor<1xf32>, tensor<{size}xf32>) {{
      %0 = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<{size}xf32>, tensor<ui64>) -> tensor<2xf32>
      %1 = stablehlo.dynamic_update_slice %x, %u, %i :
        (tensor<{size}xf32>, tensor<2xf32>, tensor<ui64>) -> tensor<{size}xf32>
      %2 = stablehlo.reshape %i : (tensor<ui64>) -> tensor<1xui64>
      %3 = "stablehlo.gather"(%x, %2) <{{dimension_numbers = #stablehlo.gather<offset_dims = [0],
        start_index_map = [0]>, slice_sizes = array<i64: 1>}}> : (tensor<{size}xf32>, tensor<1xui64>) -> tensor<1xf32>
      %4 = "stablehlo.scatter"(%x, %2, %3) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [0], scatter_dims_to_operand_dims = [0]>}}> ({{
        ^bb0(%p: tensor<f32>, %q: tensor<f32>): stablehlo.return %q : tensor<f32>
      }}) : (tensor<{size}xf32>, tensor<1xui64>, tensor<1xf32>) -> tensor<{size}xf32>
      return %0, %1, %3, %4 : tensor<2xf32>, tensor<{size}xf32>, tensor<1xf32>, tensor<{size}xf32>
    }}"""
    x, update = np.arange(size, dtype=np.float32), np.array([-1, -2], np.float32)
    run = shlo.compile(text, options=shlo.Options(threads=1, cache_dir=None))
    for index in (3, 2**63 - 1, 2**63, 2**64 - 1):
        sliced, updated, gathered, scattered = run(x, np.array(index, np.uint64), update)
        start = min(index, size - 2)
        np.testing.assert_array_equal(sliced, x[start : start + 2])
        np.testing.assert_array_equal(updated, np.concatenate([x[:start], update, x[start + 2 :]]))
        assert gathered[0] == x[min(index, size - 1)]
        np.testing.assert_array_equal(scattered, x)
