"""The table of rules for ops on quantized tensors, and what a rule may ask.

When a rule runs, every value has its storage type already; its `Reading` says how each value is quantized. A
rule returns the values that replace the results of its op (stored integers where the result is quantized), or None:
the op means the same on the storage. It raises `Unsupported` for what the specification refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stablehlo_py.dialect.quantized import Quantized
from stablehlo_py.legalize.rules import Unsupported
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

Reading: TypeAlias = Callable[[ir.Value], Quantized | None]  # how a value is quantized, None where it is not
Results: TypeAlias = ir.Value | Sequence[ir.Value] | None
Rule: TypeAlias = Callable[[ir.OpView, Reading], Results]

RULES: Rules[Rule] = Rules()
rule = RULES.rule


def quantization(value: ir.Value, of: Reading) -> Quantized:
    """How a value is quantized that must be, by its op's definition."""
    found = of(value)
    assert found is not None
    return found


def common(op: ir.OpView, of: Reading) -> Quantized | None:
    """The one way in which all values of an op are quantized; None where they differ or some are not."""
    first, *others = (of(value) for value in (*op.operands, *op.results))
    return first if all(other == first for other in others) else None


def described(quantized: Quantized | None) -> str:
    """A quantized type for a message."""
    return "not quantized" if quantized is None else f"quantized as {quantized.type}"


def require_same(values: Sequence[ir.Value], of: Reading) -> None:
    """Raise Unsupported unless all values are quantized the same way, or not at all. Per-axis values agree where the
    granularity does: upstream's verifier compares their parameters dimension by dimension."""
    first, *others = (of(value) for value in values)
    for other in others:
        same = first == other
        if first is not None and other is not None and first.dimension is not None and other.dimension is not None:
            same = True
        if not same:
            found = f"one is {described(first)}, one is {described(other)}"
            raise Unsupported(
                f"its operands and its result are quantized differently: {found}",
                "requantize them with stablehlo.uniform_quantize first",
            )
