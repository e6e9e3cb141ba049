"""Composites and CHLO ops that are one hlo op."""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.call_signatures import is_function, is_top_k
from stablehlo_py.legalize.chlo_structure import chosen
from stablehlo_py.legalize.elementwise import REAL_FUNCTIONS
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.mlir import ir

_FUNCTIONS = {f"chlo.{name}": name for name in (*REAL_FUNCTIONS, "erf", "tan", "zeta")}


def known_composites() -> frozenset[str]:
    """Names of composites that become one hlo op."""
    return frozenset((*_FUNCTIONS, "chlo.top_k"))


def is_known_composite(op: ir.OpView | ir.Operation) -> bool:
    """True for a `stablehlo.composite` that legalization turns into one hlo op; the others must be inlined before. Its
    name is that of a CHLO op, and its signature as well: upstream's verifier only compares a composite with its
    decomposition."""
    name = op.attributes["name"].value
    if name in _FUNCTIONS:
        return is_function(op, complex_too=name == "chlo.tan", operands=2 if name == "chlo.zeta" else 1)
    return name == "chlo.top_k" and is_top_k(op, op.attributes.get("composite_attributes", {}))


@rule("stablehlo.composite")
def composite(op: ir.OpView) -> Results:
    """One hlo op; the decomposition is not needed."""
    name = op.attributes["name"].value
    if not is_known_composite(op):
        raise Unsupported(f"{name!r} has no hlo op", "run the pass `inline` before")
    if name in _FUNCTIONS:
        return build.like(_FUNCTIONS[name], *op.operands)
    return chosen(op, op.attributes["composite_attributes"])


@rule("chlo.top_k")
def top_k(op: ir.OpView) -> Results:
    """The same op."""
    if not is_top_k(op, op.attributes):  # upstream's verifier takes k = -2^63 for a size that is not known
        raise Unsupported(f"has k = {op.attributes['k'].value}, which is not the size of its results", "give that size")
    return chosen(op, op.attributes)
