"""Maxima and minima of floats where a machine's instruction orders no zeros and loses NaN, as x86-64's does.

To repair each of its results takes three instructions more. A reduction repairs its last one alone: next to the
extreme it has the signs of all elements and where there was NaN, which together take one and a half.

The larger of two zeros is +0, so a maximum that is zero has a sign only if all elements have one, as any other maximum
does. So its sign is that of the conjunction of all elements' bits, and a minimum's that of the disjunction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.common.loops import tree
from stablehlo_py.backends.common.reduction import Reduction
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, ScalarType, Value, VectorType
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.math.basics import any_lane
from stablehlo_py.codegen.types import Element, Lanes

MARKS = 2  # a reduction: signs, NaN


def come_apart(e: Elemental, item: Reduction) -> bool:
    """Whether a reduction is one of these."""
    known = item.kind in ("maximum", "minimum") and item.of.is_float and not item.of.is_complex
    return known and e.lanes > 1 and isinstance(e.target, CpuTarget) and e.target.loses_nan


def start(f: Function, item: Reduction, lanes: int) -> list[Value]:
    """The marks of no elements."""
    bits = _integers(item, lanes)
    return [f.const(-1 if item.kind == "maximum" else 0, bits), f.const(0, bits)]


def further(f: Function, kind: str, of: Element, total: Lanes, part: Lanes) -> Value:
    """The extreme of `total`, which is no NaN, and `part`; either zero. One instruction."""
    assert isinstance(total, Value) and isinstance(part, Value) and of.is_float
    return f.select(f.cmp("ogt" if kind == "maximum" else "olt", part, total), part, total)


def marked(f: Function, item: Reduction, marks: Sequence[Value], seen: Sequence[Value]) -> list[Value]:
    """The marks after these vectors; one comparison finds NaN in two of them."""
    if not seen:
        return list(marks)
    signs, nans = marks
    for part in seen:
        signs = f.binary(_sign_rule(item), signs, f.bitcast(part, signs.type))
    found = [f.cmp("uno", a, b) for a, b in zip(seen[::2], [*seen[1::2], seen[-1]], strict=False)]
    return [signs, f.select(tree(found, lambda a, b: f.binary("or", a, b)), f.const(-1, nans.type), nans)]


def joined(f: Function, item: Reduction, total: Lanes, marks: Sequence[Value]) -> Value:
    """The extreme as it is."""
    assert isinstance(total, Value)
    signs, nans = marks
    return _repaired(f, item, total, signs, f.cmp("ne", nans, f.const(0, nans.type)))


def folded(f: Function, item: Reduction, total: Lanes, marks: Sequence[Value]) -> Value:
    """The extreme of all lanes, as it is."""
    assert isinstance(total, Value)
    signs, nans = marks
    found = any_lane(f, f.cmp("ne", nans, f.const(0, nans.type)))
    while (half := total.type.lanes // 2) > 1:
        low, high = (f.shuffle(total, total, list(range(at, at + half))) for at in (0, half))
        total = further(f, item.kind, item.of, low, high)
    total = further(f, item.kind, item.of, f.extract(total, 0), f.extract(total, 1))
    return _repaired(f, item, total, f.reduce_lanes(_sign_rule(item), signs), found)


def _repaired(f: Function, item: Reduction, total: Value, signs: Value, found: Value) -> Value:
    """With its sign, or NaN."""
    sign = 1 << (item.of.compute.bits - 1)
    others = f.const(sign - 1, signs.type) if item.kind == "maximum" else f.const(-sign, signs.type)
    signs = f.binary("or" if item.kind == "maximum" else "and", signs, others)
    repaired = f.bitcast(f.binary(_sign_rule(item), f.bitcast(total, signs.type), signs), total.type)
    return f.select(found, f.const(math.nan, total.type), repaired)


def _sign_rule(item: Reduction) -> str:
    return "and" if item.kind == "maximum" else "or"


def _integers(item: Reduction, lanes: int) -> VectorType:
    bits = item.of.compute.bits
    return VectorType(lanes, ScalarType(f"i{bits}", bits))
