"""Which oracles to ask when nobody says so: the interpreter where it is quick enough, else what stands in for it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.debug.disturbed import terms_of_sum
from stablehlo_py.debug.engines import at_stage
from stablehlo_py.debug.settings import Source
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.types import is_tensor, num_elements
from stablehlo_py.errors import ShloError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passmanager.rewrite import defining

# What StableHLO's interpreter takes for an element of a result, or a term of a sum (measured: 0.7 us for what moves
# elements, 2 us for arithmetic and products, 5 us for reductions).
SECONDS_AN_OPERATION = 2e-6
# More than this is too long to wait for, unless the interpreter is asked for by name.
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Choice:
    """The oracles, and a line about why they are not the usual ones ("" where they are)."""

    names: tuple[str, ...]
    note: str = ""


def reference_seconds(source: Source, inputs: Sequence[np.ndarray], entry: str | None) -> float:
    """What the interpreter will take, at least: a loop that does not count to a constant counts once. 0 where the
    module does not compile."""
    try:
        module = at_stage("hlo", source, tuple(array.shape for array in inputs), entry, Options(), ())
    except ShloError:
        return 0.0
    with module.context:
        return SECONDS_AN_OPERATION * sum(
            _operations(block) for function in module.body.operations for block in function.regions[0].blocks
        )


def _operations(block: ir.Block) -> int:
    """Elements of results, and terms of their sums, of all ops of a block."""
    total = 0
    for view in block.operations:
        op = view.operation
        elements = sum(int(num_elements(result)) for result in op.results if is_tensor(result))
        inside = sum(_operations(inner) for region in op.regions for inner in region.blocks)
        total += _trips(op) * inside if op.name.startswith("scf.") else elements * max(1, terms_of_sum(op), inside)
    return total


def _trips(op: ir.Operation) -> int:
    """How far a loop counts; 1 where that is no constant."""
    if op.name != "scf.while":
        return 1
    block = op.regions[0].blocks[0]
    extract = defining(block.operations[len(block.operations) - 1].operation.operands[0], "tensor.extract")
    compare = defining(extract.operands[0], "hlo.compare") if extract else None
    limits = [splat(operand) for operand in compare.operands] if compare else []
    return max([1, *(int(limit) for limit in limits if isinstance(limit, int | np.integer))])


def has_jax() -> bool:
    """Whether XLA can be asked."""
    return importlib.util.find_spec("jax") is not None and importlib.util.find_spec("jaxlib") is not None


def choose(source: Source, inputs: Sequence[np.ndarray], entry: str | None) -> Choice:
    """The oracles to compare with, the best one first: the interpreter and XLA. An interpreter that would take too long
    is replaced by the evaluation of `hlo` in NumPy, which sees no mistake of legalization: XLA comes before it."""
    seconds = reference_seconds(source, inputs, entry)
    jax = ("jax",) if has_jax() else ()
    if seconds <= PATIENCE_S:
        return Choice(("reference", *jax))
    instead = (*jax, "hlo")
    names = {"jax": "XLA", "hlo": "the evaluation of hlo in NumPy"}
    note = f"StableHLO's interpreter would take {duration(seconds)} or more: asking "
    return Choice(instead, note + " and ".join(names[name] for name in instead))


def duration(seconds: float) -> str:
    """Seconds, minutes or hours in words."""
    if seconds < 120:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
