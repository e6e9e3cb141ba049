"""Kernels of kind `in_place_update`: `hlo.dynamic_update_slice` written in place.

Only the elements of the update are written. Where the result does not share memory with the operand, a first phase
copies the operand. Where the update is computed from the operand that it overwrites, a phase before the last computes
it into scratch memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import cone, refine
from stablehlo_py.backends.cpu.kernels.base import Kernel, Part, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import empty, lanes_for, merge_short, phase
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.shape import start_indices
from stablehlo_py.codegen.index import Affine, Delinearized, add, affine_of, delinearize, delinearized, lane_index
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.dialect.types import num_elements, shape, tensor_bytes
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Generate the kernel. Every result is a `dynamic_update_slice`, or a reshape of one."""
    emitter = _Update(fusion, target)
    pairs = fusion.inplace
    for output in range(len(fusion.outputs)):
        emitter.output(output, {source for source, result in pairs if result == output})
    return Kernel.of(*emitter.parts, shared_bytes=emitter.shared_bytes) if emitter.parts else empty(fusion, target)


class _Update:
    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.parts: list[Part] = []
        self.shared_bytes: IntLike = 0

    def output(self, number: int, shared_inputs: set[int]) -> None:
        """The phases of one result."""
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
        if in_place and self._reads(update, source):
            scratch = self.shared_bytes
            self.shared_bytes += -(-tensor_bytes(update) // 64) * 64
            self._walk(f".stage{number}", update, lambda f, e, place: (f.gep(f.shared, scratch, I8), place))
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
        op = root.owner
        sizes, update = shape(root), op.operands[1]
        window = shape(update)

        def destination(f: Function, e: Elemental, place: Delinearized) -> tuple[Value, Delinearized]:
            moved = []
            origin = start_indices(e, starts, sizes, window)
            for size, part, first, index in zip(
                sizes, window, origin, delinearize(f, place, window, e.lanes), strict=True
            ):
                del part
                if size != 1:
                    moved.append((size, add(f, index, first)))
            return self._target(f, number), tuple(moved)

        self._walk(f".write{number}", update, destination, scratch, split=window)

    def _walk(
        self,
        suffix: str,
        value: ir.Value,
        destination: Callable[[Function, Elemental, Delinearized], tuple[Value, Delinearized]],
        scratch: IntLike | None = None,
        split: Sequence[IntLike] = (),
    ) -> None:
        """A phase that evaluates a value everywhere and stores it where `destination` says; `scratch`: where it lies
        already.

        `split`: the loops to begin with, where the destination needs an index per dimension."""
        count = num_elements(value)
        if count == 0:
            return
        space = refine(self.fusion, self.target, [value], list(split) or [count])
        values = cone([value])
        lanes = lanes_for(self.target, [value, *values], count)
        sizes = merge_short(space.sizes, 1 if split else lanes)
        inner = sizes[-1]
        lanes = lanes_for(self.target, [value, *values], inner)
        f = phase_function(self.fusion, self.target, suffix)

        def vector(outer: Sequence[Affine], start: Index) -> None:
            e = Elemental(f, self.fusion, self.target, lanes)
            if scratch is not None:
                staged = f.gep(f.shared, scratch, I8)
                e.bind(value, lambda e, place: e.read(element(value), staged, place))
            mask = None if inner % lanes == 0 else f.tail_mask(f.isub(inner, start), lanes)
            place = delinearized(sizes, [*outer, lane_index(start, inner, lanes, lanes)])
            result = e.at(value, place, mask)
            pointer, to = destination(f, e, place)
            e.write(element(value), pointer, to, result, mask)

        rows, vectors = math.prod(sizes[:-1]), -(-inner // lanes)
        if rows == 1:
            f.loop(f.begin, f.end, 1, lambda i: vector((), f.imul(i, lanes)), nonempty=True)
            iterations, vectors = vectors, 1
        else:

            def row(i: Index) -> None:
                outer = delinearize(f, ((rows, affine_of(i, rows - 1)),), sizes[:-1], 1)
                f.loop(0, inner, lanes, lambda start: vector(outer, start))

            f.loop(f.begin, f.end, 1, row, nonempty=True)
            iterations = rows
        self.parts.append(phase(f, iterations, COSTS.vector_ns(values, 1, 1) * size_hint(vectors) + 1.0))
