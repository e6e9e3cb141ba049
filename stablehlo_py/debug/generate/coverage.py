"""Which ops random programs hold, and with which element types: counted over the programs of some seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from stablehlo_py import markdown
from stablehlo_py.debug.generate import generate
from stablehlo_py.debug.settings import context
from stablehlo_py.debug.workers import CONTEXT_MODULES
from stablehlo_py.mlir import ir

# Programs of each op, by its name, then by the element type of its first operand (without operands: first result).
Coverage = dict[str, Counter[str]]

# Ops that no random program holds, and why.
NOT_DRAWN = {
    "chlo.is_inf": "younger than the generator: stablehlo_py/conformance/ops/chlo.mlir",
    "chlo.is_neg_inf": "younger than the generator: stablehlo_py/conformance/ops/chlo.mlir",
    "chlo.is_pos_inf": "younger than the generator: stablehlo_py/conformance/ops/chlo.mlir",
    "stablehlo.collective_reduce": "the interpreter does not know it: test/grid/test_collectives.py",
    "stablehlo.cross-replica-sum": "of older exporters: stablehlo_py/conformance/ops/communication.mlir",
    "stablehlo.infeed": "meets the host: test/grid/test_transfers.py",
    "stablehlo.outfeed": "meets the host: test/grid/test_transfers.py",
    "stablehlo.recv": "meets another process by a channel: test/grid/test_transfers.py",
    "stablehlo.rng": "every implementation draws numbers of its own: test/run/test_rng.py",
    "stablehlo.send": "meets another process by a channel: test/grid/test_transfers.py",
    "stablehlo.set_dimension_size": "its result has a dynamic size: test/python/test_dynamic.py",
}


def coverage(seeds: Iterable[int]) -> Coverage:
    """In how many programs of these seeds each op appears with each type."""
    found: Coverage = defaultdict(Counter)
    for number, seed in enumerate(seeds, 1):
        with context():
            seen: set[tuple[str, str]] = set()

            def visit(op: ir.Operation, seen: set[tuple[str, str]] = seen) -> ir.WalkResult:
                seen.add((op.name, _element(op)))
                return ir.WalkResult.ADVANCE

            ir.Module.parse(generate(seed).case.module).operation.walk(visit)
        for name, element in seen:
            found[name][element] += 1
        if number % CONTEXT_MODULES == 0:
            context.cache_clear()
    return found


def _element(op: ir.Operation) -> str:
    for value in (*op.operands, *op.results):
        if isinstance(value.type, ir.RankedTensorType):
            element = str(value.type.element_type)
            return "quantized" if "quant" in element else element
    return ""


def universe() -> set[str]:
    """Every op that the compiler knows, by its full name."""
    from stablehlo_py.legalize import driver  # noqa: F401 - fills the table of rules
    from stablehlo_py.legalize.rules import RENAMED, RULES

    return set(RULES) | set(RENAMED)


def missing(found: Coverage) -> list[str]:
    """Ops that no program holds, without those of NOT_DRAWN."""
    return sorted(universe() - set(found) - set(NOT_DRAWN))


def table(found: Coverage) -> str:
    """A Markdown table: an op, the programs that hold it, and how many of them with which element type."""
    rows = []
    for name in sorted(universe() & set(found)):
        counts = found[name]
        types = ", ".join(f"{element} {number}" for element, number in counts.most_common() if element)
        rows.append((name, counts.total(), types))
    return markdown.table(("op", "programs", "by element type"), rows).rstrip()
