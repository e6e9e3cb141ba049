"""Operations that a processor may have no instruction for, computed by others there."""

from __future__ import annotations

from stablehlo_py.codegen import fused, half, rounding
from stablehlo_py.codegen.block_operations import BlockOperations
from stablehlo_py.codegen.values import F16, F32, ScalarType, Value


class CompleteOperations(BlockOperations):
    """All operations, whatever the processor has (`TargetDescription`)."""

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        target = self.emit.target
        return super().fma(a, b, c) if target is None or target.fused else fused.multiply_add(self, a, b, c)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        target = self.emit.target
        if name in rounding.KINDS and target is not None and not target.rounds:
            return rounding.rounded(self, name, *operands)
        return super().intrinsic(name, *operands)

    def cast(self, name: str, a: Value, to: ScalarType) -> Value:
        target = self.emit.target
        if target is not None and not target.converts_f16:
            if a.type.element is F16 and (name, to) == ("fpext", F32):
                return half.widened(self, a)
            if a.type.element is F32 and (name, to) == ("fptrunc", F16):
                return half.narrowed(self, a)
        return super().cast(name, a, to)
