"""Loops over few values become one kernel each, with carries that stay out of memory.

Before: a loop whose body touches few elements   After: one call; the loop runs inside a `straight_line_loop`

    %r:2 = scf.while (%i = %zero, %x = %x0)      %r:2 = call @loop_0(%zero, %x0)
        ... twenty ops on tensor<3xf32> ...
                                             func.func private @loop_0 attributes {hlo.fusion = "straight_line_loop"}

A loop qualifies when every value in it is small, its unrolled body is short, and a kernel can hold its ops, as the
backend of `target` says (`LoopLimits` in passes/policy.py); without limits no loop does.
Bigger values may take part as memory: read by slice and dynamic_slice, and, as carries, written by one
dynamic_update_slice after their last read, the way a scan reads its inputs and stacks its outputs. Outermost loops
are tried first.

Relies on the normal form of loops (docs/architecture.md). Runs before `fusion`, which leaves the calls alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.carries import READS_MEMORY, kept_in_place
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import IntLike, always_at_most
from stablehlo_py.dialect.types import is_tensor, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes._outlining import outline
from stablehlo_py.passes.policy import LoopLimits, flops_per_element, policy_of
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.targets import DEFAULT_TARGET

_CONTROL = frozenset(("scf.while", "scf.if", "scf.condition", "scf.yield", "tensor.extract", "arith.index_cast"))


@dataclass(frozen=True)
class OutlineLoops(Pass):
    """Turn loops over few values into one kernel each."""

    name: ClassVar[str] = "outline-loops"
    target: str = DEFAULT_TARGET

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        """Rewrite `@main` and the regions of its control flow."""
        policy = policy_of(self.target).fusion
        if policy.loops is None:
            return False
        outliner = _Outliner(module, policy.loops, policy.names.get("straight_line_loop", "straight_line_loop"))
        for function in functions(module)[0]:
            for block in function.regions[0].blocks:
                outliner.block(block)
        return outliner.count > 0


_TOO_MUCH = 1 << 30


class _Loop:
    """What a loop would cost as one kernel."""

    def __init__(self, op: ir.Operation, limits: LoopLimits) -> None:
        self.op = op
        self.limits = limits

    def big(self, value: ir.Value) -> bool:
        return is_tensor(value) and not always_at_most(num_elements(value), self.limits.elements)

    def cost(self) -> IntLike:
        """Instructions of one trip; _TOO_MUCH when the template cannot hold the loop."""
        for region in self.op.regions:
            for number, argument in enumerate(region.blocks[0].arguments):
                if self.big(argument) and not kept_in_place(region.blocks[0], argument, number):
                    return _TOO_MUCH
        return sum(self._block(region.blocks[0]) for region in self.op.regions)

    def _block(self, block: ir.Block) -> IntLike:
        return sum(self._op(view.operation) for view in block.operations)

    def _op(self, op: ir.Operation) -> IntLike:
        name = op.name.removeprefix("hlo.")
        if op.name == "scf.while" and op != self.op:
            return _Loop(op, self.limits).cost()
        if op.name == "scf.if":
            if any(self.big(result) for result in op.results):
                return _TOO_MUCH
            return sum(self._block(region.blocks[0]) for region in op.regions)
        if op.name not in _CONTROL and not self.limits.holds(op):
            return _TOO_MUCH
        if op.name in ("scf.condition", "scf.yield"):
            return 0
        for position, operand in enumerate(op.operands):
            if self.big(operand) and not (
                position == 0 and (op.name in READS_MEMORY or op.name == "hlo.dynamic_update_slice")
            ):
                return _TOO_MUCH
        big_result = any(self.big(result) for result in op.results)
        if big_result:
            return self._chunks(op.operands[1]) if op.name == "hlo.dynamic_update_slice" else _TOO_MUCH
        if name == "reduce":
            return 2 * self._chunks(op.operands[0])
        if name == "dot":
            trips = math.prod(shape(op.operands[0])[d] for d in op.attributes["lhs_contract"])
            return 3 * trips * self._chunks(op.results[0])
        if not len(op.results) or not is_tensor(op.results[0]):
            return 1
        return self._chunks(op.results[0]) * max(1, flops_per_element(record_of(op.name)))

    def _chunks(self, value: ir.Value) -> IntLike:
        return -(-num_elements(value) // self.limits.width)


class _Outliner:
    """Makes functions of loops."""

    def __init__(self, module: ir.Module, limits: LoopLimits, kind: str) -> None:
        self.module, self.limits, self.kind = module, limits, kind
        self.count = 0

    def _is_cloned(self, value: ir.Value) -> bool:
        """Is it a splat constant? But for big ones, which the kernel has no memory for."""
        return splat(value) is not None and always_at_most(num_elements(value), self.limits.elements)

    def _wanted(self, loop: ir.Operation) -> list[ir.Value]:
        """Results that somebody reads, and big ones, which the kernel has no memory for but theirs."""
        return [
            result
            for result in loop.results
            if any(True for _ in result.uses) or not always_at_most(num_elements(result), self.limits.elements)
        ]

    def block(self, block: ir.Block) -> None:
        for view in list(block.operations):
            op = view.operation
            if op.name == "scf.while" and _Loop(op, self.limits).cost() <= self.limits.cost:
                outline(self.module, op, f"loop_{self.count}", self.kind, self._is_cloned, self._wanted(op))
                self.count += 1
                continue
            for region in op.regions:
                for inner in region.blocks:
                    if op.name.startswith("scf."):
                        self.block(inner)
