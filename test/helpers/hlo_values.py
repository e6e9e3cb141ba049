"""Values of hlo, one call each, for tests of rules; text such as "16xf32" is a type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stablehlo_py.dialect import build as b
from stablehlo_py.mlir import ir


def typed(text: str) -> ir.RankedTensorType:
    return ir.Type.parse(f"tensor<{text}>")


def like(x: ir.Value, number: float) -> ir.Value:
    return b.splat(number, x.type)


def scalar(number: float, element: str = "f32") -> ir.Value:
    return b.splat(number, typed(element))


def constant(values: list, element: str) -> ir.Value:
    array = np.array(values)
    return b.constant(
        array.astype({"f32": np.float32, "i32": np.int32, "i64": np.int64, "ui8": np.uint8}[element]),
        ir.Type.parse(element),
    )


def compare(x: ir.Value, y: ir.Value, direction: str, **attributes: object) -> ir.Value:
    result = b.tensor(b.shape(x), ir.IntegerType.get_signless(1))
    return b.op("hlo.compare", [result], [x, y], {"direction": direction, **attributes}).result


def convert(x: ir.Value, element: str) -> ir.Value:
    return b.value("convert", b.tensor(b.shape(x), ir.Type.parse(element)), x)


def select(p: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.value("select", x.type, p, x, y)


def reduce(x: ir.Value, kind: str, dimensions: list[int], init: ir.Value) -> ir.Value:
    sizes = [size for i, size in enumerate(b.shape(x)) if i not in dimensions]
    return b.value("reduce", b.tensor(sizes, x.type.element_type), x, init, kind=kind, dimensions=dimensions)


def total(x: ir.Value) -> ir.Value:
    return reduce(x, "add", [1], b.splat(0, b.tensor([], x.type.element_type)))


def cut(x: ir.Value, *edges: tuple[int, ...]) -> ir.Value:
    start, limit = [edge[0] for edge in edges], [edge[1] for edge in edges]
    strides = [edge[2] if len(edge) > 2 else 1 for edge in edges]
    sizes = [-(-(high - low) // step) for low, high, step in zip(start, limit, strides, strict=True)]
    return b.value("slice", b.tensor(sizes, x.type.element_type), x, start=start, limit=limit, strides=strides)


def join(dimension: int, *operands: ir.Value) -> ir.Value:
    sizes = list(b.shape(operands[0]))
    sizes[dimension] = sum(b.shape(operand)[dimension] for operand in operands)
    return b.op(
        "stablehlo.concatenate", [b.tensor(sizes, operands[0].type.element_type)], operands, {"dimension": dimension}
    ).result


def pad(x: ir.Value, value: ir.Value, low: list[int], high: list[int], interior: list[int]) -> ir.Value:
    sizes = [a + n + max(n - 1, 0) * i + c for a, n, i, c in zip(low, b.shape(x), interior, high, strict=True)]
    return b.value("pad", b.tensor(sizes, x.type.element_type), x, value, low=low, high=high, interior=interior)


def between_zeros(x: ir.Value, low: int, high: int, element: str = "f32") -> ir.Value:
    """A matrix with so many columns of zeros before and after it."""
    return pad(x, scalar(0, element), [0, low], [0, high], [0, 0])


def dynamic_slice(x: ir.Value, sizes: list[int], *starts: ir.Value) -> ir.Value:
    return b.value("dynamic_slice", b.tensor(sizes, x.type.element_type), x, *starts, sizes=sizes)


def best_place(
    x: ir.Value, direction: str = "GT", first: int = 0, *, is_nan: bool = True, dimension: int | None = None
) -> list[ir.Value]:
    """The largest (smallest) element and its place, as JAX writes argmax; without `is_nan`, NaN loses."""
    dimension = len(b.shape(x)) - 1 if dimension is None else dimension
    floats = isinstance(x.type.element_type, ir.FloatType)
    lowest = {("GT", True): -math.inf, ("LT", True): math.inf, ("GT", False): -(2**31), ("LT", False): 2**31 - 1}
    start = direction == "LT" if str(x.type.element_type) == "i1" else lowest[direction, floats]
    start = b.splat(start, typed(str(x.type.element_type)))
    sizes = [size for number, size in enumerate(b.shape(x)) if number != dimension]
    element = ir.IntegerType.get_signless(32)
    places = b.value("iota", b.tensor(b.shape(x), element), dimension=dimension)
    types = [b.tensor(sizes, x.type.element_type), b.tensor(sizes, element)]
    operands = [x, places, start, scalar(first, "i32")]
    made = b.op("stablehlo.reduce", types, operands, {"dimensions": [dimension]}, regions=1)
    scalars = [start.type, typed("i32")] * 2
    block = made.regions[0].blocks.append(*scalars, arg_locs=[ir.Location.unknown()] * 4)
    with ir.InsertionPoint(block):
        a, i, c, j = block.arguments
        better = compare(a, c, direction)
        if is_nan and floats:
            better = b.like("or", better, compare(a, a, "NE"))
        tie = b.like("and", compare(a, c, "EQ"), compare(i, j, "LT"))
        b.op("stablehlo.return", [], [select(better, a, c), select(b.like("or", better, tie), i, j)])
    return list(made.results)


def in_order(
    dimension: int,
    *operands: ir.Value,
    direction: str = "LT",
    key: Callable[[ir.Value], ir.Value] = lambda x: x,
    turned: bool = False,
    total: bool = True,
) -> list[ir.Value]:
    """Operands sorted by an expression of the first one's elements; `turned`: the right side comes first."""
    attributes = {"dimension": dimension, "is_stable": True}
    made = b.op("stablehlo.sort", [x.type for x in operands], operands, attributes, regions=1)
    scalars = [b.tensor([], x.type.element_type) for x in operands for _ in range(2)]
    block = made.regions[0].blocks.append(*scalars, arg_locs=[ir.Location.unknown()] * len(scalars))
    with ir.InsertionPoint(block):
        left, right = (key(block.arguments[side]) for side in ((1, 0) if turned else (0, 1)))
        floats = isinstance(left.type.element_type, ir.FloatType)
        options = {"total_order": ir.UnitAttr.get()} if floats and total else {}
        b.op("stablehlo.return", [], [b.compare(left, right, direction, **options)])
    return list(made.results)


def one_zero(x: ir.Value) -> ir.Value:
    """x with one zero and one NaN, as JAX compares floats."""
    zero = like(x, 0.0)
    return select(compare(x, x, "NE"), like(x, math.nan), select(compare(x, zero, "EQ"), zero, x))


def iota(text: str, dimension: int = 0) -> ir.Value:
    return b.value("iota", typed(text), dimension=dimension)


def masked(x: ir.Value, first: int, second: int, rest: float, above: float | None = None) -> ir.Value:
    """x where its places along two dimensions are equal, and it is above a number."""
    sizes = b.shape(x)
    element = typed("i32").element_type
    places = b.broadcast(b.value("iota", b.tensor([sizes[first]], element), dimension=0), sizes, [first])
    others = b.value("iota", b.tensor(sizes, element), dimension=second)
    seen = compare(places, others, "EQ")
    if above is not None:
        seen = b.like("and", seen, compare(x, like(x, above), "GT"))
    return select(seen, x, like(x, rest))


def unary(name: str) -> Callable[[ir.Value], ir.Value]:
    return lambda x: b.like(name, x)


def gather(x: ir.Value, indices: ir.Value, result: str, **numbers: object) -> ir.Value:
    names = {
        "offset_dims": [],
        "collapsed_slice_dims": [],
        "operand_batching_dims": [],
        "start_indices_batching_dims": [],
    }
    return b.value("gather", typed(result), x, indices, **{**names, **numbers})


def mul(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("multiply", x, y)


def add(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("add", x, y)


def sub(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("subtract", x, y)


def div(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("divide", x, y)


def power(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("power", x, y)


def most(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("maximum", x, y)


def least(x: ir.Value, y: ir.Value) -> ir.Value:
    return b.like("minimum", x, y)
