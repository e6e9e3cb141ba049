"""Kernels of kind `in_place_update`: a thread for an element of the update, a kernel for each step."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.in_place_update import Destination, InPlaceUpdate
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import affine_of
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernels."""
    emitter = _Update(fusion, target)
    emitter.emit_steps()
    return GpuKernel.of(*emitter.kernels, scratch_bytes=int(emitter.scratch_bytes))


class _Update(InPlaceUpdate):
    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        super().__init__(fusion)
        self.target = target
        self.kernels: list[Function] = []

    def _scratch(self, f: Function) -> Value:
        return f.scratch

    def _walk(
        self,
        suffix: str,
        value: ir.Value,
        destination: Destination,
        scratch: IntLike | None = None,
        split: Sequence[IntLike] = (),
    ) -> None:
        """Elements by their number: an index per dimension is computed where it is needed."""
        count = int(num_elements(value))
        if count == 0:
            return

        def one(f: Function, number: Value) -> None:
            e = Elemental(f, self.fusion, self.target, 1)
            place = ((count, affine_of(number, count - 1)),)
            if scratch is not None:
                staged = f.gep(f.scratch, scratch, I8)
                e.bind(value, lambda e, place: e.read(element(value), staged, place))
            result = e.at(value, place)
            pointer, to = destination(f, e, place)
            e.write(element(value), pointer, to, result)

        self.kernels.append(numbered_kernel(self.fusion, self.target, f"{self.fusion.name}{suffix}", count, one))
