"""What a fusion asks of a machine, and the time that a machine's roofline allows for that (Williams, Waterman and
Patterson, 2009): none can be faster than its memory, and than its arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.ops import Work as Kind
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import element_type, i64s, is_complex, num_elements, shape, tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions

if TYPE_CHECKING:
    from stablehlo_py.runtime.program import CompiledProgram

_PART_READERS = ("hlo.slice", "hlo.dynamic_slice", "hlo.gather", "stablehlo.gather")  # read what they give, no more
_IN_PLACE = ("hlo.dynamic_update_slice", "stablehlo.scatter")
_MATRIX = ("hlo.dot", "hlo.convolution")
# Rates of products, by the elements that are multiplied; every other operation on less than 64 bits is one of f32.
_PRODUCTS = {
    **{name: name for name in ("f64", "f32", "f16", "i8")},
    **dict.fromkeys(("f8E4M3FN", "f8E5M2"), "f8"),
    **dict.fromkeys(("f8E4M3FNUZ", "f8E5M2FNUZ"), "f8_fnuz"),
    "bf16": "f16",
    "ui8": "i8",
}
_NARROW = ("f8", "f6", "f4")  # how other types begin that are multiplied as numbers of 16 bits


@dataclass(frozen=True)
class Rates:
    """What a machine can do in a second at most, as its vendor says or as it was measured: bytes of its memory that are
    read or written, and operations on numbers of each type (a multiplication with an addition is two), with matrix
    units where these give the result of that type: f32 is computed without them. Types of 8 bits come in two families,
    of which a machine has one: f8E4M3FN and f8E5M2, and those without infinities and -0. Dense, in 10^12; 0: not known,
    or not there."""

    bandwidth: float = 0.0
    f64: float = 0.0
    f32: float = 0.0
    f16: float = 0.0
    f8: float = 0.0
    f8_fnuz: float = 0.0
    i8: float = 0.0


@dataclass(frozen=True)
class Work:
    """What a fusion takes.

    Attributes:
        bytes: that are read and written, each once, in the device's memory.
        operations: on numbers, by the rate (`Rates`) at which machines do them.
        loops: whether some of it is done more than once, as often as numbers decide.
    """

    bytes: int
    operations: Mapping[str, int]
    loops: bool = False

    def __add__(self, other: Work) -> Work:
        operations = Counter(self.operations) + Counter(other.operations)
        return Work(self.bytes + other.bytes, operations, self.loops or other.loops)

    @property
    def flops(self) -> int:
        """All operations."""
        return sum(self.operations.values())

    def seconds(self, rates: Rates) -> float:
        """The least time that it takes."""
        parts = [self.bytes / rates.bandwidth]
        for name, count in self.operations.items():
            wider = rates.f16 if name.startswith("f8") else 0.0
            parts.append(count / (getattr(rates, name) or wider or rates.f32))
        return max(parts) / 1e12


NO_WORK = Work(0, {})


def work_of(fusion: Fusion) -> Work:
    """Of a fusion whose sizes are known. An operand of which parts are read counts with these, a result that is written
    where an operand lies with what is written."""
    moved = sum(_read(value, fusion) for value in fusion.inputs) + sum(map(_written, fusion.outputs))
    operations: Counter[str] = Counter()
    ops, loops = [op.operation for op in fusion.ops], False
    while ops:
        op = ops.pop()
        if op.name == "scf.while":  # a loop that is a kernel: its body counts once
            loops = True
            ops += [each.operation for region in op.regions for each in region.blocks[0].operations]
        rate, count = _operations(op)
        operations[rate] += count
    return Work(moved, {rate: count for rate, count in operations.items() if count}, loops)


def program_work(program: CompiledProgram) -> Work | None:
    """Of all fusions of a program. A loop's body counts once, of branches the one with most operations. None: the
    program does not hold the stage that says it, as with large constants."""
    stage = program.stages.get("scheduled")
    if not isinstance(stage, bytes):  # text without the elements of large constants
        return None
    with make_context():
        module = ir.Module.parse(stage)
        (main, *_), fusions = functions(module)
        work = {name: work_of(Fusion.read(function)) for name, function in fusions.items()}
        return _of_region(main.regions[0], work)


def _of_region(region: ir.Region, fusions: Mapping[str, Work]) -> Work:
    parts = []
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            if op.name == "func.call":
                parts.append(fusions.get(op.attributes["callee"].value, NO_WORK))
            elif len(op.regions):
                inner = [_of_region(each, fusions) for each in op.regions]
                if op.name == "scf.while":
                    parts += [*inner, Work(0, {}, loops=True)]
                else:
                    parts.append(max(inner, key=lambda each: (each.flops, each.bytes)))
    return sum(parts, NO_WORK)


def _read(value: ir.Value, fusion: Fusion) -> int:
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    if uses and all(op.name in _PART_READERS and number == 0 for op, number in uses):
        parts = sum(int(tensor_bytes(op.results[0])) for op, _ in uses)
        return min(parts, int(tensor_bytes(value)))
    if uses and fusion.aliased and all(op.name in _IN_PLACE and number == 0 for op, number in uses):
        return 0
    return int(tensor_bytes(value)) if uses else 0


def _written(value: ir.Value) -> int:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return int(tensor_bytes(value))
    op = owner.operation
    if op.name in _IN_PLACE and isinstance(op.operands[0].owner, ir.Block):
        return int(tensor_bytes(op.operands[-1 if op.name.endswith("scatter") else 1]))
    return int(tensor_bytes(value))


def _operations(op: ir.Operation) -> tuple[str, int]:
    """At which rate, and how many."""
    name, record = op.name, record_of(op.name)
    if not op.results or record is None or record.work in (Kind.INDICES, Kind.MOVES, Kind.UPDATES):
        return "f32", 0
    element = element_type(op.operands[0] if len(op.operands) else op.results[0])
    parts = 4 if is_complex(element) else 1  # real products of a complex one
    bits = str(element.element_type if is_complex(element) else element)
    results = sum(int(num_elements(result)) for result in op.results)
    if name in _MATRIX:
        return _PRODUCTS.get(bits, "f16" if bits.startswith(_NARROW) else "f32"), 2 * parts * results * _summed(op)
    rate = "f64" if bits == "f64" else "f32"
    if record.work is Kind.ELEMENTS:
        return rate, parts * results * record.flops
    # The solution of a triangular system may have far fewer elements than the matrix.
    values = op.results if name.endswith("triangular_solve") else (*op.operands, *op.results)
    largest = max((int(num_elements(value)) for value in values), default=0)
    return rate, parts * largest * _steps(op)


def _summed(op: ir.Operation) -> int:
    """Products that an element of a product of matrices, or of a convolution, is the sum of."""
    left, right = (shape(operand) for operand in op.operands)
    if op.name == "hlo.dot":
        return math.prod(int(left[dimension]) for dimension in i64s(op, "lhs_contract"))
    outputs = i64s(op, "kernel_dims")[1]
    return math.prod(int(size) for dimension, size in enumerate(right) if dimension != outputs)


def _steps(op: ir.Operation) -> int:
    """Operations for an element of an algorithm, as textbooks count them."""
    sizes = [int(size) for size in shape(op.operands[0])]
    last = sizes[-1] if sizes else 1
    kind = op.name.partition(".")[2]
    if kind == "sort":
        return max(1, math.ceil(math.log2(max(sizes, default=2))))
    if kind == "fft":
        return max(1, math.ceil(2.5 * math.log2(max(2, last))))
    if kind in ("cholesky", "triangular_solve"):
        return max(1, last // (3 if kind == "cholesky" else 1))
    return 1
