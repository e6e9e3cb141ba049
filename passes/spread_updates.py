"""Updates of small tensors at constant places are computed for the whole tensor.

    %1 = hlo.dynamic_update_slice %x, %u, 0, 3      (%x: [4, 8], %u: [4, 2])
        ==>  %1 = select(pad(true), pad(%u), %x)

    %0 = hlo.slice %x {[0:4, 3:5]}  %1 = hlo.add %0, %u  %2 = hlo.dynamic_update_slice %x, %1, 0, 3
        ==>  %2 = select(pad(true), add(%x, pad(%u)), %x)

The one writes what is in the window alone, the other is elementwise work, which fusion joins with updates before and
behind it and with other work on the tensor: a chain of updates is one kernel. That pays where it takes longer to start
a kernel than to copy the tensor. What an update computes from the place that it overwrites is computed from the whole
tensor, so that no element is read at two places.

For backends of such machines, right before `fusion`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.constants import splat
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import element_type, i64s, shape, tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import integer_splat
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet, defining


@dataclass(frozen=True)
class SpreadUpdates(RulePass):
    """Makes updates elementwise work. `bytes`: of the tensor, at most; `ops`: on the way from the tensor to its
    update."""

    name: ClassVar[str] = "spread-updates"
    bytes: int = 1 << 20
    ops: int = 16

    def rules(self) -> RuleSet:
        rules = RuleSet("spread-updates")

        @rules.rule("hlo.dynamic_update_slice", where="the place is constant, and the tensor is small")
        def spread_update(op: ir.Operation, rewriter: Rewriter) -> Replacement:
            "dynamic_update_slice(x, y, i) -> select(pad(true), pad(y), x)"
            x, update = op.operands[0], op.operands[1]
            sizes, window = shape(x), shape(update)
            if window == sizes:
                return update
            starts = [integer_splat(start) for start in list(op.operands)[2:]]
            if not is_known(*sizes, *window) or 0 in window or None in starts or tensor_bytes(x) > self.bytes:
                return None
            # Starts are clamped, as the specification says.
            ends = [int(size) - int(part) for size, part in zip(sizes, window, strict=True)]
            low = [max(0, min(start or 0, end)) for start, end in zip(starts, ends, strict=True)]
            spread = _Spread(rewriter, op, low, [end - start for end, start in zip(ends, low, strict=True)])
            new = spread.whole(update, self.ops)
            return rewriter.value("select", x.type, spread.inside(), new, x)

        return rules


@dataclass
class _Spread:
    """Values of a window, computed for the whole tensor. What they are outside of the window does not matter.

    Attributes:
        low, high: elements before and behind the window, in every dimension.
    """

    rewriter: Rewriter
    update: ir.Operation
    low: list[int]
    high: list[int]

    def inside(self) -> ir.Value:
        """Whether an element is in the window."""
        build, of = self.rewriter, ir.IntegerType.get_signless(1)
        window = build.splat(True, tensor(shape(self.update.operands[1]), of))
        return self._padded(window)

    def whole(self, value: ir.Value, ops: int) -> ir.Value:
        """A value of the window."""
        build = self.rewriter
        result = tensor(shape(self.update.result), element_type(value))
        op = defining(value)
        if op is not None and splat(value) is not None:
            return build.broadcast(op.operands[0] if op.name == "hlo.broadcast" else value, shape(result), [])
        source = self._at_this_place(value)
        if source is not None:
            return source
        if op is not None and ops > 0 and self._reads(value, ops):
            return build.again(op, [self.whole(operand, ops - 1) for operand in op.operands], result)
        return self._padded(value)

    def _padded(self, value: ir.Value) -> ir.Value:
        build, of = self.rewriter, element_type(value)
        zero, interior = build.splat(0, tensor([], of)), [0] * len(self.low)
        result = tensor(shape(self.update.result), of)
        return build.value("pad", result, value, zero, low=self.low, high=self.high, interior=interior)

    def _at_this_place(self, value: ir.Value) -> ir.Value | None:
        """The tensor of which a value is the same window."""
        op = defining(value)
        if op is None or op.name not in ("hlo.slice", "hlo.dynamic_slice"):
            return None
        source = op.operands[0]
        if shape(source) != shape(self.update.result):
            return None
        if op.name == "hlo.slice":
            same = [*i64s(op, "start")] == self.low and set(i64s(op, "strides")) <= {1}
        else:
            same = [integer_splat(start) for start in list(op.operands)[1:]] == self.low
        return source if same else None

    def _reads(self, value: ir.Value, ops: int) -> bool:
        """Whether elementwise work on the window computes a value from the place that is overwritten."""
        source = self._at_this_place(value)
        if source is not None and source == self.update.operands[0]:
            return True
        op = defining(value)
        record = record_of(op.name) if op is not None else None
        if op is None or ops == 0 or record is None or record.work is not Work.ELEMENTS or len(op.results) != 1:
            return False
        if any(shape(operand) != shape(value) for operand in op.operands):
            return False
        return any(self._reads(operand, ops - 1) for operand in op.operands)
