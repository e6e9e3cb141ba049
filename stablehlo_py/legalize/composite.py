"""Composites and CHLO ops that are one hlo op."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import element_type, is_complex
from stablehlo_py.legalize.chlo_structure import smallest
from stablehlo_py.legalize.elementwise import REAL_FUNCTIONS
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.mlir import ir

_Attributes = Mapping[str, ir.Attribute]


def _unary(name: str) -> Callable[[ir.OpView, _Attributes], Results]:
    return lambda op, attributes: build.like(name, op.operands[0])


def _top_k(op: ir.OpView, attributes: _Attributes) -> Results:
    if _takes_smallest(attributes):
        return smallest(op, attributes["k"].value)
    types = [result.type for result in op.results]
    return list(build.op("hlo.top_k", types, list(op.operands), {"k": attributes["k"].value}).results)


_KNOWN: dict[str, Callable[[ir.OpView, _Attributes], Results]] = {
    **{f"chlo.{name}": _unary(name) for name in REAL_FUNCTIONS},
    "chlo.erf": _unary("erf"),
    "chlo.tan": _unary("tan"),
    "chlo.top_k": _top_k,
}


def is_known_composite(op: ir.OpView | ir.Operation) -> bool:
    """True for a `stablehlo.composite` that legalization turns into one hlo op; the others must be inlined before."""
    name = op.attributes["name"].value
    if name.removeprefix("chlo.") in REAL_FUNCTIONS:
        return not is_complex(element_type(op.operands[0]))
    return name in _KNOWN


def _takes_smallest(attributes: _Attributes) -> bool:
    return "largest" in attributes and not attributes["largest"].value


@rule("stablehlo.composite")
def composite(op: ir.OpView) -> Results:
    """One hlo op; the decomposition is not needed."""
    name = op.attributes["name"].value
    if not is_known_composite(op):
        raise Unsupported(f"{name!r} has no hlo op", "run the pass `inline` before")
    return _KNOWN[name](op, op.attributes.get("composite_attributes", {}))


@rule("chlo.top_k")
def top_k(op: ir.OpView) -> Results:
    """The same op."""
    return _top_k(op, op.attributes)
