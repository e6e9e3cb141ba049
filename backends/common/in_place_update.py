"""The steps of a kernel of kind `in_place_update`: `hlo.dynamic_update_slice` written in place.

Only the elements of the update are written. Where the result does not share memory with the operand, a first step
copies the operand. Where the update is computed from other elements of the operand than those whose place its own take,
a step before the last computes it into scratch memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import cone
from stablehlo_py.codegen.builder import I8, Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.shape import products, start_indices, whole_suffix
from stablehlo_py.codegen.index import Delinearized, add, delinearize, digits, scale
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import num_elements, shape, tensor_bytes
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.buffers.inplace import ELSEWHERE, update_reads

Destination = Callable[[Function, Elemental, Delinearized], tuple[Value, Delinearized]]


class InPlaceUpdate(ABC):
    """What the templates of all machines do. Every result is a `dynamic_update_slice`, or a reshape of one.

    Attributes:
        scratch_bytes: for updates that are computed before they are written."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.scratch_bytes: IntLike = 0

    @abstractmethod
    def _walk(
        self,
        suffix: str,
        value: ir.Value,
        destination: Destination,
        scratch: IntLike | None = None,
        split: Sequence[IntLike] = (),
    ) -> None:
        """A step that evaluates a value everywhere and stores it where `destination` says; `scratch`: where it lies
        already.

        `split`: the loops to begin with, where the destination needs an index per dimension."""

    @abstractmethod
    def _scratch(self, f: Function) -> Value:
        """Scratch memory that all threads see."""

    def emit_steps(self) -> None:
        """All steps of all results."""
        pairs = self.fusion.inplace
        for output in range(len(self.fusion.outputs)):
            self._output(output, {source for source, result in pairs if result == output})

    def _output(self, number: int, shared_inputs: set[int]) -> None:
        """The steps of one result."""
        root = self.fusion.outputs[number]
        while root.owner.name == "hlo.reshape":
            root = root.owner.operands[0]
        if root.owner.name != "hlo.dynamic_update_slice":
            raise InternalError(f"result {number} of in-place update {self.fusion.name} is no dynamic_update_slice")
        operand, update, *starts = root.owner.operands
        source = operand
        while not isinstance(source.owner, ir.Block) and source.owner.name == "hlo.reshape":
            source = source.owner.operands[0]
        in_place = source in self.fusion.inputs and self.fusion.inputs.index(source) in shared_inputs
        if not in_place:
            self._walk(f".copy{number}", operand, lambda f, e, place: (self._target(f, number), place))
        if num_elements(update) == 0:
            return
        if in_place and self._reads(update, source) and update_reads(root.owner.operation) == ELSEWHERE:
            scratch = self.scratch_bytes
            self.scratch_bytes += -(-tensor_bytes(update) // 64) * 64
            self._walk(f".stage{number}", update, lambda f, e, place: (f.gep(self._scratch(f), scratch, I8), place))
            self._write(number, root, starts, scratch)
        else:
            self._write(number, root, starts, None)

    def _target(self, f: Function, number: int) -> Value:
        return f.parameters[f"out{number}"]

    def _reads(self, value: ir.Value, source: ir.Value) -> bool:
        """Whether computing a value reads the tensor that is overwritten."""
        if value == source:
            return True
        return any(operand == source for one in cone([value]) for operand in one.owner.operands)

    def _write(self, number: int, root: ir.Value, starts: Sequence[ir.Value], scratch: IntLike | None) -> None:
        """Write the update to its place in the result."""
        update = root.owner.operands[1]
        sizes, window = shape(root), shape(update)
        groups = whole_suffix(sizes, lambda dimension: sizes[dimension] == window[dimension], lambda dimension: True)
        counts = products(window, groups)

        def destination(f: Function, e: Elemental, place: Delinearized) -> tuple[Value, Delinearized]:
            moved = []
            origin = start_indices(e, starts, sizes, window)
            for group, index in zip(groups, delinearize(f, place, counts, e.lanes), strict=True):
                first, inner = group[0], math.prod(sizes[dimension] for dimension in group[1:])
                moved.append((sizes[first] * inner, add(f, index, scale(f, origin[first], inner))))
            return self._target(f, number), digits(moved)

        self._walk(f".write{number}", update, destination, scratch, split=counts)
