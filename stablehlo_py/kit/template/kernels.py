"""The kernels: of every op that the device has, a function of arrays. Here they are NumPy's.

`KERNELS` says which ops there are, and for which element types. What is not in it is refused when a model is compiled,
by name and line. To add an op, write a function that takes the op and returns the kernel: it reads the op's attributes,
and may generate code for them. docs/hlo-dialect.md of stablehlo-py says what each op means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.types import element_type, i64s, is_tensor, static_shape, text, user_location
from stablehlo_py.errors import Problem
from stablehlo_py.mlir import ir

Array = np.ndarray
Kernel = Callable[..., Array]

FLOATS = frozenset(("f32", "f64"))
NUMBERS = FLOATS | {"i32", "i64"}
ANY = NUMBERS | {"i1"}
REDUCTIONS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


@dataclass(frozen=True)
class Supported:
    """An op that the device has: `make` gives the kernel of one, whose operands and results are of these types."""

    make: Callable[[ir.OpView], Kernel]
    types: frozenset[str]


def broadcast(op: ir.OpView) -> Kernel:
    """Operand dimension i becomes result dimension `dimensions[i]`."""
    sizes, dimensions = static_shape(op.results[0]), i64s(op, "dimensions")

    def kernel(x: Array) -> Array:
        shape = [1] * len(sizes)
        for dimension, size in zip(dimensions, x.shape, strict=True):
            shape[dimension] = size
        # `dimensions` may be in any order: the operand's come into that of the result first.
        return np.broadcast_to(x.transpose(np.argsort(dimensions)).reshape(shape), sizes)

    return kernel


def transpose(op: ir.OpView) -> Kernel:
    """Result dimension i is operand dimension `permutation[i]`."""
    permutation = i64s(op, "permutation")
    return lambda x: x.transpose(permutation)


def dot(op: ir.OpView) -> Kernel:
    """A product: batch dimensions, the free ones of lhs, the free ones of rhs."""
    batch = [i64s(op, name) for name in ("lhs_batch", "rhs_batch")]
    contract = [i64s(op, name) for name in ("lhs_contract", "rhs_contract")]
    sizes = static_shape(op.results[0])

    def kernel(lhs: Array, rhs: Array) -> Array:
        matrices = []
        for side, x in enumerate((lhs, rhs)):
            free = [n for n in range(x.ndim) if n not in (*batch[side], *contract[side])]
            inner = (*free, *contract[side]) if side == 0 else (*contract[side], *free)
            rows, columns = (free, contract[side]) if side == 0 else (contract[side], free)
            shape = _count(x, batch[side]), _count(x, rows), _count(x, columns)
            matrices.append(x.transpose((*batch[side], *inner)).reshape(shape))
        return np.matmul(*matrices).reshape(sizes)

    return kernel


def _count(x: Array, dimensions: tuple[int, ...] | list[int]) -> int:
    return int(np.prod([x.shape[n] for n in dimensions], dtype=np.int64))


def reduce(op: ir.OpView) -> Kernel:
    """A reduction over `dimensions`, from the scalar `init` on."""
    function, dimensions = REDUCTIONS[text(op, "kind")], i64s(op, "dimensions")
    return lambda x, init: function.reduce(x, axis=dimensions, initial=init[()], dtype=x.dtype)


def reshape(op: ir.OpView) -> Kernel:
    """The same elements in another shape."""
    sizes = static_shape(op.results[0])
    return lambda x: x.reshape(sizes)


def constant(op: ir.OpView) -> Kernel:
    """A constant inside a kernel."""
    value = constant_value(op)
    return lambda: value


KERNELS = {
    "hlo.add": Supported(lambda op: np.add, NUMBERS),
    "hlo.subtract": Supported(lambda op: np.subtract, NUMBERS),
    "hlo.multiply": Supported(lambda op: np.multiply, NUMBERS),
    "hlo.divide": Supported(lambda op: np.divide, FLOATS),
    "hlo.maximum": Supported(lambda op: np.maximum, NUMBERS),
    "hlo.exponential": Supported(lambda op: np.exp, FLOATS),
    "hlo.broadcast": Supported(broadcast, ANY),
    "hlo.transpose": Supported(transpose, ANY),
    "hlo.dot": Supported(dot, NUMBERS),
    "hlo.reduce": Supported(reduce, NUMBERS),
    # These compute nothing.
    "hlo.reshape": Supported(reshape, ANY),
    "hlo.constant": Supported(constant, ANY),
}


def problem(op: ir.OpView) -> Problem | None:
    """Why the device has no kernel for an op; None: it has one."""
    name, reason = op.operation.name, ""
    types = {str(element_type(value)) for value in (*op.operands, *op.results) if is_tensor(value)}
    if name not in KERNELS:
        reason = "newname has no kernel for this op"
    elif missing := types - KERNELS[name].types:
        reason = f"newname has no kernel of type {', '.join(sorted(missing))} for this op"
    elif name == "hlo.reduce" and text(op, "kind") not in REDUCTIONS:
        reason = f"newname has no kernel for reductions by '{text(op, 'kind')}'"
    return Problem(reason, user_location(op.location), name) if reason else None


class FusionKernel:
    """A fusion, the unit of work of a program, made ready to run: the kernels of its ops, one after the other.

    Values are known by number: those of the inputs come first, then that of each op.
    """

    def __init__(self, fusion: Fusion) -> None:
        numbers = {value: number for number, value in enumerate(fusion.inputs)}
        self.steps = []
        for op in fusion.ops:
            operands = [numbers[operand] for operand in op.operands]
            self.steps.append((KERNELS[op.operation.name].make(op), operands))
            numbers[op.results[0]] = len(numbers)
        self.outputs = [numbers[value] for value in fusion.outputs]

    def __call__(self, inputs: list[Array], outputs: list[Array]) -> None:
        """Run it on arrays in the device's memory. An output may lie where an input does: it is written last."""
        values = list(inputs)
        with np.errstate(all="ignore"):
            for kernel, operands in self.steps:
                values.append(np.asarray(kernel(*(values[number] for number in operands))))
        results = [values[number].copy() for number in self.outputs]
        for output, result in zip(outputs, results, strict=True):
            output[...] = result
