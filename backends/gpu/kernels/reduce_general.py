"""Reductions of several operands at once, or with a combiner of the user's own (argmax): totals of sequences, whose
elements are combined in ascending order, as the specification has it (scanning.py). A block takes a result where what
is reduced lies side by side, a thread takes one where results do; few results of many elements are two kernels."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.kernels.scanning import Sequences, combined_in_order
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Delinearized, delinearize, delinearized
from stablehlo_py.codegen.region import combiner
from stablehlo_py.codegen.types import Lanes, element
from stablehlo_py.dialect.types import i64s, num_elements, shape


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel, or two."""
    op = fusion.op("stablehlo.reduce")
    if num_elements(op.results[0]) == 0:
        return GpuKernel((), {})
    count, sizes = len(op.results), [int(size) for size in shape(op.operands[0])]
    reduced = sorted(i64s(op, "dimensions"))
    lines = [d for d in range(len(sizes)) if d not in reduced and d < max(reduced, default=0)]
    columns = [d for d in range(len(sizes)) if d not in reduced and d not in lines]
    order = [*lines, *reduced, *columns]

    def at(e: Elemental, place: Delinearized) -> Delinearized:
        """The place of an operand."""
        if order == sorted(order):
            return place
        found = dict(zip(order, delinearize(e.f, place, [sizes[d] for d in order], 1), strict=True))
        return delinearized(sizes, [found[d] for d in range(len(sizes))])

    def write(e: Elemental, place: Delinearized, values: list[Lanes]) -> None:
        for number, (result, value) in enumerate(zip(op.results, values, strict=True)):
            e.write(element(result), e.f.parameters[f"out{number}"], place, value)

    work = Sequences(
        lines=math.prod(sizes[d] for d in lines),
        length=math.prod(sizes[d] for d in reduced),
        columns=math.prod(sizes[d] for d in columns),
        of=[element(value) for value in op.operands[:count]],
        read=lambda e, place: [e.value(value, at(e, place)) for value in op.operands[:count]],
        combine=lambda e, a, b: combiner(e.f, op)([*a, *b]),
        start=lambda e: [e.value(value, ()) for value in op.operands[count:]],
        finish=write,
    )
    kernels, scratch = combined_in_order(work, fusion, target)
    return GpuKernel.of(*kernels, scratch_bytes=scratch)
