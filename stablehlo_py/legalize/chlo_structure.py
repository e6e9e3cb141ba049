"""CHLO ops that are StableHLO ops around something simple: implicit broadcasts, the smallest elements.

These rules run before upstream's expansions of CHLO and before the main walk: what they make may be StableHLO or CHLO.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import element_type, is_bool, is_complex, is_float, is_integer, rank, shape
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.legalize.shape import broadcast_in_dim
from stablehlo_py.mlir import ir

_CHLO = frozenset(("next_after", "polygamma", "zeta"))
_BINARY = _CHLO.union(record.mnemonic for record in records() if record.elementwise and len(record.operands) == 2)


@rule(*(f"chlo.broadcast_{name}" for name in sorted(_BINARY)))
def broadcast_binary(op: ir.OpView) -> ir.Value:
    """Both operands in the result's shape, then the op without a broadcast. `broadcast_dimensions` says which
    dimensions of the result those of the operand of lower rank are; by default the last ones."""
    name = op.operation.name.removeprefix("chlo.broadcast_")
    _check_elements(name, op)
    sizes, result = shape(op.results[0]), op.results[0].type
    dimensions = list(op.attributes["broadcast_dimensions"]) if "broadcast_dimensions" in op.attributes else None
    operands = [_broadcast(operand, sizes, dimensions) for operand in op.operands]
    attributes = {}
    if name == "compare":
        for key in ("comparison_direction", "compare_type"):
            if key in op.attributes:
                kind = key.replace("compare", "comparison")
                attributes[key] = ir.Attribute.parse(f"#stablehlo<{kind} {keyword(op.attributes[key])}>")
    dialect = "chlo" if name in _CHLO else "stablehlo"
    return build.op(f"{dialect}.{name}", [result], operands, attributes).result


@rule("chlo.broadcast_select")
def broadcast_select(op: ir.OpView) -> ir.Value:
    """All three operands in the result's shape."""
    operands = [_broadcast(operand, shape(op.results[0]), None) for operand in op.operands]
    return build.op("stablehlo.select", [op.results[0].type], operands).result


# What upstream's verifier does not ask of the elements of broadcasting ops; the other ops take any.
_ELEMENTS: dict[str, tuple[Callable[[ir.Type], bool], str]] = {
    **dict.fromkeys(
        ("shift_left", "shift_right_arithmetic", "shift_right_logical"),
        (lambda element: is_integer(element) and not is_bool(element), "integers"),
    ),
    **dict.fromkeys(("next_after", "polygamma"), (is_float, "floating-point numbers")),
    "complex": (lambda element: str(element) in ("f32", "f64"), "f32 or f64"),
    "atan2": (lambda element: is_float(element) or is_complex(element), "floating-point or complex numbers"),
    "power": (lambda element: not is_bool(element), "numbers"),
    "divide": (lambda element: not is_bool(element), "numbers"),
}


def _check_elements(name: str, op: ir.OpView) -> None:
    """Raise Unsupported where the operands' elements are none that the op is defined for."""
    elements = [element_type(operand) for operand in op.operands]
    if elements[0] != elements[1]:
        raise Unsupported(f"has operands of types {elements[0]} and {elements[1]}", "convert one of them")
    allowed, words = _ELEMENTS.get(name, (lambda element: True, ""))
    if not allowed(elements[0]):
        raise Unsupported(f"is not defined for elements of type {elements[0]}", f"pass {words}")


def _broadcast(operand: ir.Value, sizes: Sequence[IntLike], dimensions: Sequence[int] | None) -> ir.Value:
    own = rank(operand)
    if dimensions is None or own == len(sizes):
        dimensions = range(len(sizes) - own, len(sizes))
    increasing = all(a < b for a, b in itertools.pairwise(dimensions))
    if len(dimensions) != own or not increasing or any(not 0 <= each < len(sizes) for each in dimensions):
        raise Unsupported(
            f"has broadcast_dimensions {list(dimensions)} for rank {own} and a result of rank {len(sizes)}",
            "name a dimension of the result for each of the operand's, in increasing order",
        )
    for size, dimension in zip(shape(operand), dimensions, strict=True):
        if is_known(size) and is_known(sizes[dimension]) and size not in (1, sizes[dimension]):
            raise Unsupported(
                f"broadcasts a dimension of size {size} to size {sizes[dimension]}", "sizes must be equal, or 1"
            )
    return broadcast_in_dim(operand, tuple(sizes), tuple(dimensions))


# --- top_k ------------------------------------------------------------------------------------------------------------


def chosen(op: ir.OpView, attributes: Mapping[str, ir.Attribute] | ir.OpAttributeMap | ir.DictAttr) -> Results:
    """The `k` largest elements of the last dimension, or, where `largest` is false, the smallest in ascending order;
    ties by lower index."""
    k = attributes["k"].value
    if "largest" in attributes and not attributes["largest"].value:
        return first_sorted(op, k, "LT")
    return list(build.op("hlo.top_k", [result.type for result in op.results], op.operands, {"k": k}).results)


def first_sorted(op: ir.OpView, k: IntLike, direction: str) -> Results:
    """`k` elements of the first operand's last dimension and their places: the first ones of a stable sort, in total
    order."""
    operand = op.operands[0]
    sizes = shape(operand)
    last = len(sizes) - 1
    places = build.value("iota", build.tensor(sizes, element_type(op.results[1])), dimension=last)
    order = {"total_order": ir.UnitAttr.get()} if is_float(element_type(operand)) else {}
    ordered = stable_sort([operand, places], last, lambda left, right: build.compare(left, right, direction, **order))
    return [build.slice_(value, [0] * len(sizes), [*sizes[:-1], k]) for value in ordered]


def stable_sort(
    operands: Sequence[ir.Value], dimension: int, before: Callable[[ir.Value, ir.Value], ir.Value]
) -> list[ir.Value]:
    """The operands along a dimension in the order that `before` says of two elements of the first one."""
    attributes = {"dimension": dimension, "is_stable": True}
    sort = build.op("stablehlo.sort", [value.type for value in operands], operands, attributes, regions=1)
    scalars = [build.tensor([], element_type(value)) for value in operands for _ in range(2)]
    block = sort.regions[0].blocks.append(*scalars)
    with ir.InsertionPoint(block):
        build.op("stablehlo.return", [], [before(*block.arguments[:2])])
    return list(sort.results)
