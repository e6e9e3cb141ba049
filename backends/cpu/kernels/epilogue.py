"""Between a product and the rest of its fusion: hlo ops evaluated on finished tiles, on scratch, and on operands.

`ElementalEpilogue` consumes tiles in registers. `emit_operand` and `emit_outputs` are the general case (rooted.py):
phases that write an operand, or the outputs computed from a raw product, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.contraction import Axis, Operand
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.views import is_elementwise
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.common import fetch_lines
from stablehlo_py.backends.cpu.kernels.finished_tiles import Parts
from stablehlo_py.backends.cpu.kernels.product import KernelBuilder
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    add,
    delinearize,
    lane_index,
    linear_index,
    linearize,
    scalar,
)
from stablehlo_py.codegen.types import Lanes, constant, element, parts
from stablehlo_py.dialect.index_map import Digits
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.symint import GuardError, IntLike, is_known, size_hint
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import flops_per_element

VECTORS_PER_ITERATION = 64
CHEAP_OPS = 3
LONG_FLOPS = 16  # of an element: from here on vectors are taken by a loop
_SPREAD = ("hlo.broadcast", "hlo.constant", "hlo.iota")  # their elements are not in memory, or few of them


class ElementalEpilogue:
    """Evaluates the fusion's outputs on elements of the product and stores them.

    Args:
        fusion: the fusion; all its outputs have one shape.
        root: the product.
        axes: the contraction's outer axes, then m, then n; their steps in C are steps in the outputs.
        arithmetic: how sums become values of the product's type.
        target: the CPU.
    """

    def __init__(
        self, fusion: Fusion, root: ir.OpView, axes: Sequence[Axis], arithmetic: Arithmetic, target: CpuTarget
    ) -> None:
        self.fusion, self.root, self.arithmetic, self.target = fusion, root.results[0], arithmetic, target
        self.of = element(self.root)
        self.order = _by_step(axes)
        self.sizes = [axes[i].size for i in self.order]
        after = list(fusion.ops)[list(fusion.ops).index(root) + 1 :]
        flops = [flops_per_element(record_of(op.operation.name)) for op in after]
        self.inline = sum(map(bool, flops)) <= CHEAP_OPS and max(flops, default=0) <= 1
        self.long = sum(flops) >= LONG_FLOPS
        self.reads_results = bool(fusion.aliased)
        before = [value for op in fusion.ops[: -1 - len(after)] for value in op.results if op.name not in _SPREAD]
        count = num_elements(self.root)
        whole = {value for value in (*fusion.inputs, *before) if num_elements(value) == count}
        self.reads_elements = any(operand in whole for op in after for operand in op.operands)
        of = element(fusion.outputs[0])
        is_pure = len(fusion.outputs) == 1 and not (fusion.aliased or of.is_complex) and _is_pure(self.root, after)
        self.pure = Operand("out0", 0, of) if is_pure else None
        self._elementals: dict[tuple[int, int], Elemental] = {}

    def store(self, f: Function, place: Sequence[Affine], value: Parts, lanes: int, mask: Value | None) -> None:
        """Evaluate and store all outputs on `lanes` neighbouring elements."""
        key = (id(f), lanes)
        if key not in self._elementals:
            self._elementals[key] = Elemental(f, self.fusion, self.target, lanes)
        elemental = self._elementals[key]
        finished = self.arithmetic.finish(f, self.of, value)
        elemental.bind(self.root, lambda e, place: finished)
        elemental.write_outputs(self.fusion.outputs, self._position(place), mask)

    def fetch(self, f: Function, place: Sequence[Affine], count: int) -> None:
        """Have memory ready for so many neighbouring elements of all outputs."""
        at = scalar(f, linear_index(f, self._position(place)))
        for number, output in enumerate(self.fusion.outputs):
            fetch_lines(f, f.parameters[f"out{number}"], at, element(output).storage, count)

    def _position(self, place: Sequence[Affine]) -> Delinearized:
        return tuple((size, place[i]) for size, i in zip(self.sizes, self.order, strict=True))


def _is_pure(root: ir.Value, after: Sequence[ir.OpView]) -> bool:
    """Whether the ops after a product compute each element from that of the product, and from single numbers."""
    equal = {root}  # values with no other elements than such
    for op in after:
        if op.operation.name in ("hlo.broadcast", "hlo.constant"):
            if all(num_elements(value) == 1 for value in op.operands or op.results):
                equal.update(op.results)
        elif is_elementwise(op) and equal.issuperset(op.operands):
            equal.update(op.results)
        else:
            return False
    return True


def _by_step(axes: Sequence[Axis]) -> list[int]:
    """The axes with more than one place from the widest step in the outputs to the narrowest: as they lie densely
    there, these are the digits of an output's element number."""
    used = [i for i, axis in enumerate(axes) if axis.size != 1]
    if is_known(*(axes[i].c for i in used)):
        return sorted(used, key=lambda i: axes[i].c, reverse=True)
    order: list[int] = []
    step: IntLike = 1
    while len(order) < len(used):  # steps that come with the call: each is the product of the sizes that follow
        following = next((i for i in used if axes[i].c == step), None)
        if following is None:
            raise GuardError(f"an axis of a product goes through its result in steps of {step}")
        order.insert(0, following)
        step *= axes[following].size
    return order


def _elementwise_phase(
    builder: KernelBuilder,
    suffix: str,
    sizes: Sequence[IntLike],
    lanes: int,
    body: Callable[[Function, int], Callable[[Delinearized, Value | None], None]],
) -> None:
    """A phase over the elements of a tensor: rows when they fill vectors, else its flat elements. `body(f, lanes)`
    gives the code of one place; it is called again for scalars."""
    total = math.prod(sizes)
    width = sizes[-1] if sizes and size_hint(sizes[-1]) >= lanes else total
    rows = total // width
    several = rows != 1
    chunk = width if several else min(width, lanes * VECTORS_PER_ITERATION, key=size_hint)
    chunks = -(-width // chunk)

    def emit(f: Function) -> None:
        vector_code, scalar_code = body(f, lanes), body(f, 1)

        def iteration(number: Value) -> None:
            row: Index = number if several else 0
            start: Index = 0 if several else f.imul(number, chunk)
            end = f.imin(f.iadd(start, chunk), width)
            whole = f.imin(end, width // lanes * lanes)
            above = ((rows, Affine() if isinstance(row, int) else lane_index(row, rows, 1)),) if several else ()

            def vectors(i: Index) -> None:
                vector_code((*above, (width, lane_index(i, width // lanes * lanes, lanes, lanes))), None)

            def single(i: Index) -> None:
                scalar_code((*above, (width, lane_index(i, width, 1))), None)

            f.loop(start, whole, lanes, vectors)
            if lanes > 1 and width % lanes:
                f.loop(f.imax(whole, start), end, 1, single)

        f.loop(f.begin, f.end, 1, iteration)

    builder.phase(suffix, rows * chunks, size_hint(chunk) * 0.5, emit)


def emit_operand(builder: KernelBuilder, fusion: Fusion, value: ir.Value, room: Operand, suffix: str) -> None:
    """A phase that writes a value of the fusion densely to scratch."""
    of = element(value)
    lanes = builder.target.lanes(max(of.compute.bits, of.storage.bits))

    def body(f: Function, lanes: int) -> Callable[[Delinearized, Value | None], None]:
        elemental = Elemental(f, fusion, builder.target, lanes)
        base = room.at(f)

        def place(position: Delinearized, mask: Value | None) -> None:
            elemental.write(of, base, position, elemental.at(value, position, mask), mask)

        return place

    _elementwise_phase(builder, suffix, shape(value), lanes, body)


def emit_outputs(
    builder: KernelBuilder,
    fusion: Fusion,
    root: ir.OpView,
    arithmetic: Arithmetic,
    room: Operand | None,
    layout: Sequence[Digits],
    origin: Sequence[IntLike] = (),
) -> None:
    """Phases that compute the outputs from the raw product in scratch, one per output. `layout`: one digit, or none,
    per dimension of the product, which starts at `origin`. Without `room` the product is zero."""
    product = element(root.results[0])
    stored = product if product.is_complex else arithmetic.element
    strides = [digits[0][1] if digits else 0 for digits in layout]
    start = sum(index * stride for index, stride in zip(origin, strides, strict=False))
    count = math.prod(digits[0][0] for digits in layout if digits)

    for number, output in enumerate(fusion.outputs):
        lanes = builder.target.lanes(arithmetic.accumulator.bits)

        def body(
            f: Function, lanes: int, number: int = number, output: ir.Value = output
        ) -> Callable[[Delinearized, Value | None], None]:
            elemental = Elemental(f, fusion, builder.target, lanes)
            base = room.at(f) if room else None

            def provide(elemental: Elemental, position: Delinearized) -> Lanes:
                if base is None:
                    return arithmetic.finish(f, product, parts(constant(f, stored, 0)))
                indices = delinearize(f, position, shape(root.results[0]), lanes)
                at = add(f, linearize(f, indices, strides), start)
                return arithmetic.finish(f, product, parts(elemental.read(stored, base, ((count, at),))))

            elemental.bind(root.results[0], provide)

            def place(position: Delinearized, mask: Value | None) -> None:
                result = elemental.at(output, position, mask)
                elemental.write(element(output), f.parameters[f"out{number}"], position, result, mask)

            return place

        _elementwise_phase(builder, f"out{number}", shape(output), lanes, body)
