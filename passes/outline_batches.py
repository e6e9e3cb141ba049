"""Loops that do the same for each item of a batch become one kernel each, in which items are not written to memory.

Before: kernels for each step of a trip           After: one call; each vector of items runs all trips

    %r:2 = scf.while (%i = %zero, %x = %x0)       %r = call @batch_0(%x0)
        ... elementwise work on tensor<20000xf32>
                                              func.func private @batch_0 attributes {hlo.fusion = "batched_loop"}

What an item of a carry becomes depends on that item alone (dialect/batches.py), and on what is the same for all: a
counter, parameters. Threads share the items, and nothing of a trip is written to memory. Relies on the normal form of
loops (docs/architecture.md). Runs after `outline-loops`, which has kernels for loops over few values, and before
`fusion`, which leaves the calls alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.batches import Batch, batch_of
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes._outlining import outline
from stablehlo_py.passes.policy import BatchLimits, flops_per_element, policy_of
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.targets import DEFAULT_TARGET

KIND = "batched_loop"


@dataclass(frozen=True)
class OutlineBatches(Pass):
    """Turn loops over the items of a batch into one kernel each."""

    name: ClassVar[str] = "outline-batches"
    target: str = DEFAULT_TARGET

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        """Rewrite `@main` and the regions of its control flow."""
        limits = policy_of(self.target).fusion.batches
        if limits is None:
            return False
        loops: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "scf.while":
                loops.append(op)
            return ir.WalkResult.ADVANCE

        for function in functions(module)[0]:
            function.operation.walk(visit)
        count = 0
        for loop in loops:
            batch = batch_of(loop)
            if batch is not None and _is_worth_it(loop, batch, limits):
                _read_constants(loop)
                outline(module, loop, f"batch_{count}", KIND, _is_splat, list(loop.results))
                count += 1
        return count > 0


def _is_worth_it(loop: ir.Operation, batch: Batch, limits: BatchLimits) -> bool:
    """Are an item and its work within the limits?"""
    cost = 0
    if any(batch.elements(value) > limits.elements for value in loop.operands):
        return False
    for view in loop.regions[1].blocks[0].operations:
        op = view.operation
        record = record_of(op.name)
        if record is None:
            continue
        elements = batch.elements(op.results[0])
        if op.name == "hlo.reduce":
            elements *= -(-int(num_elements(op.operands[0])) // max(1, int(num_elements(op.results[0]))))
        if elements > limits.elements and op.name != "hlo.constant":
            return False
        cost += elements * max(1, flops_per_element(record))
    trips = trip_count(loop, {})
    return trips is not None and trips > 1 and cost <= limits.cost and trips * cost * batch.size <= limits.work


def _read_constants(loop: ir.Operation) -> None:
    """Let constants of many numbers be what the kernel reads."""
    for view in list(loop.regions[1].blocks[0].operations):
        if view.operation.name == "hlo.constant" and not _is_splat(view.operation.results[0]):
            view.operation.move_before(loop)


def _is_splat(value: ir.Value) -> bool:
    return splat(value) is not None
