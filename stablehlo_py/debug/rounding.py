"""How far rounding alone may move a program's results: Monte Carlo arithmetic over StableHLO.

`perturbed` is the program with a random relative error of a few units in the last place after every op that another
implementation may round differently (transcendental functions), and before every op that may add in another order
(reductions, products). Running a handful of these shows, element by element, how far results move that differ by
rounding only; nothing is assumed about the program. D. S. Parker, "Monte Carlo Arithmetic", 1997; the same idea in
Verrou (Fevotte and Lathuiliere, 2016).

A zero that is a sum may have either sign: the specification lets initial values be added any number of times. So may a
NaN that arithmetic gives (IEEE 754, 6.3), which shows where a sort or a comparison follows the total order.

An op that the specification defines to the bit, such as a real addition, is not perturbed: its results must be equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import ml_dtypes
import numpy as np

from stablehlo_py.debug.compare import gaps, is_exact
from stablehlo_py.debug.ops import compared, constant, create
from stablehlo_py.debug.settings import context
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.ops import record_of, records
from stablehlo_py.mlir import ir

# Units in the last place that implementations of a function may be off by, of ops without a record.
_EXPANDED_ULPS = {
    "batch_norm_inference": 4, "batch_norm_training": 4, "batch_norm_grad": 8, "polygamma": 128, "square": 2,
}  # fmt: skip
# Ops whose sums may be taken in any order: the operands that are summed.
SUMS = frozenset(
    "reduce reduce_window dot_general convolution scatter select_and_scatter cholesky triangular_solve fft "
    "batch_norm_training batch_norm_grad dot dynamic_conv einsum unary_einsum chlo.scan "
    "all_reduce reduce_scatter".split()
)
_A_SUM = re.compile(rf"\b({'|'.join(sorted(SUMS))})\b")
# Ops that give a NaN of no particular sign; those missing here move numbers, or define the sign bit.
ARITHMETIC = (
    frozenset(record.mnemonic for record in records() if record.ulps)
    | frozenset(_EXPANDED_ULPS)
    | SUMS
    | frozenset(
        "add subtract multiply divide remainder sqrt maximum minimum clamp map convert reduce_precision".split()
    )
)
# Ops that tell one NaN from another: only in a program with one of these do signs matter.
SEES_NANS = ("TOTALORDER", "bitcast_convert", "reduce_precision", "chlo.top_k")
# A bound is this many times the largest movement that was seen.
SAFETY = 4.0

Runner = Callable[[str, Sequence[np.ndarray]], "Sequence[np.ndarray] | None"]


def bounds(
    module: str,
    inputs: Sequence[np.ndarray],
    exact: Sequence[np.ndarray],
    run: Runner,
    *,
    samples: int = 4,
    scale: float = 1.0,
    all_ops: bool = False,
    nans: bool = False,
) -> list[np.ndarray | float]:
    """How far each element of each result may be from `exact`: SAFETY times the largest movement in `samples` runs.

    Args:
        run: evaluates a module, None where it cannot.
        scale: multiplies the errors that are put in.
        all_ops: real arithmetic is perturbed as well, and subnormal numbers become zero (for XLA, which keeps neither).
        nans: NaNs get signs at random, where the program can tell.
    """
    nans = nans and any(name in module for name in SEES_NANS)
    found: list[np.ndarray] = [np.zeros(array.shape) for array in exact]
    for sample in range(samples):
        moved = run(perturbed(module, sample, Noise(scale, all_ops, nans)), inputs)
        if moved is None:
            continue
        for number, (a, b) in enumerate(zip(moved, exact, strict=True)):
            found[number] = np.maximum(found[number], gaps(a, b))
    # Relative errors of subnormal numbers vanish, where those of the products of a sum are of the type's least number.
    sums = _A_SUM.search(module) is not None
    result: list[np.ndarray | float] = []
    for movement, array in zip(found, exact, strict=True):
        # What moves by a little may move by the width of its type's last digit.
        moves = (movement > 0) | _subnormal(array, sums)
        digit = 0.0 if is_exact(array.dtype) else np.where(moves, _spacing(array), 0.0)
        result.append(SAFETY * movement + digit)
    return result


def _subnormal(array: np.ndarray, sums: bool) -> np.ndarray | bool:
    """Where results of sums are subnormal numbers, or close to them."""
    if not sums or is_exact(array.dtype):
        return False
    return np.abs(array) < 2 * float(ml_dtypes.finfo(array.dtype).smallest_normal)


def _spacing(array: np.ndarray) -> np.ndarray:
    info = ml_dtypes.finfo(array.dtype)
    with np.errstate(all="ignore"):
        magnitude = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
        return np.nan_to_num(magnitude * float(info.eps), nan=0.0, posinf=0.0) + float(info.smallest_subnormal)


@dataclass(frozen=True)
class Noise:
    """What is put in: see `bounds`."""

    scale: float = 1.0
    all_ops: bool = False
    nans: bool = False


def perturbed(module: str, seed: int, noise: Noise) -> str:
    """The module with random relative errors (see above), another set of them for every seed."""
    random = np.random.default_rng(seed)
    with context(), ir.Location.unknown():
        parsed = ir.Module.parse(module)
        for function in parsed.body.operations:
            block = function.regions[0].blocks[0]
            _perturb_block(block, random, noise)
            if noise.all_ops:
                _flush_arguments(block, random)
        return str(parsed)


# Regions of these see the values around them, and run on whole tensors; those of others work on scalars.
_OPEN_REGIONS = ("stablehlo.while", "stablehlo.if", "stablehlo.case")


def _perturb_block(block: ir.Block, random: np.random.Generator, noise: Noise) -> None:
    scale, all_ops = noise.scale, noise.all_ops
    ops = [view.operation for view in block.operations]
    for op, following in pairwise(ops):
        name = op.name.removeprefix("stablehlo.").replace("chlo.broadcast_", "chlo.")
        if op.name in _OPEN_REGIONS:
            for region in op.regions:
                for inner in region.blocks:
                    _perturb_block(inner, random, noise)
        if name.startswith("chlo.") and _ulps(name, op, op.results[0].type, all_ops):
            for number, operand in enumerate(op.operands):
                op.operands[number] = _noisy(operand, scale, random, ir.InsertionPoint(op))
        if (name in SUMS or (all_ops and name == "map")) and _adds(op):
            for number, operand in enumerate(op.operands):
                if _is_inexact(operand.type):
                    ulps = scale * math.sqrt(1 + math.prod(operand.type.shape))
                    op.operands[number] = _noisy(operand, ulps, random, ir.InsertionPoint(op))
        for result in op.results:
            if not _is_inexact(result.type):
                continue
            ulps = scale * _ulps(name, op, result.type, all_ops)
            zeros = all_ops or (name in SUMS and _adds(op))
            uses = list(result.uses)
            disturbed, point = result, ir.InsertionPoint(following)
            if ulps:
                disturbed = _noisy(disturbed, ulps, random, point)
            if zeros:
                disturbed = _flushed(disturbed, random, point, subnormal=all_ops)
            if noise.nans and name.removeprefix("chlo.") in ARITHMETIC:
                disturbed = _signed_nans(disturbed, random, point)
            _redirect(uses, disturbed)


def _flush_arguments(block: ir.Block, random: np.random.Generator) -> None:
    point = ir.InsertionPoint(block.operations[0])
    for argument in block.arguments:
        if _is_inexact(argument.type):
            uses = list(argument.uses)
            _redirect(uses, _flushed(argument, random, point))


def _redirect(uses: Sequence[ir.OpOperand], value: ir.Value) -> None:
    for use in uses:
        use.owner.operands[use.operand_number] = value


def _by_parts(function: Callable[[ir.Value], ir.Value], value: ir.Value, point: ir.InsertionPoint) -> ir.Value:
    """A function of real numbers, of both parts of a complex one."""
    return create("complex", point, *(function(create(part, point, value)) for part in ("real", "imag")))


def _flushed(
    value: ir.Value, random: np.random.Generator, point: ir.InsertionPoint, subnormal: bool = True
) -> ir.Value:
    """The value with zeros of random signs for its zeros, and for its subnormal numbers."""
    element, sizes = value.type.element_type, list(value.type.shape)
    if isinstance(element, ir.ComplexType):
        return _by_parts(lambda part: _flushed(part, random, point, subnormal), value, point)
    dtype = numpy_dtype(element)
    info = ml_dtypes.finfo(dtype)
    bound = np.full(sizes, float(info.smallest_normal if subnormal else info.smallest_subnormal))
    zeros = np.where(random.random(sizes) < 0.5, 0.0, -0.0)
    small = compared("LT", create("abs", point, value), constant(bound, element, point), point)
    return create("select", point, small, constant(zeros, element, point), value)


def _signed_nans(value: ir.Value, random: np.random.Generator, point: ir.InsertionPoint) -> ir.Value:
    """The value with NaNs of other signs: all positive, all negative, or each its own."""
    element, sizes = value.type.element_type, list(value.type.shape)
    if isinstance(element, ir.ComplexType):
        return _by_parts(lambda part: _signed_nans(part, random, point), value, point)
    if not np.isnan(np.array(np.nan).astype(numpy_dtype(element)).astype(np.float64)):
        return value  # the type has none
    negative = random.random(sizes) < random.choice([0.0, 0.5, 1.0])
    unequal = compared("NE", value, value, point)
    return create("select", point, unequal, constant(np.where(negative, -np.nan, np.nan), element, point), value)


def _adds(op: ir.Operation) -> bool:
    """Whether an op sums or multiplies up; one with a region does where that holds an addition or a product."""
    inner = [view.operation.name for region in op.regions for block in region.blocks for view in block.operations]
    return not inner or "stablehlo.add" in inner or "stablehlo.multiply" in inner


def _ulps(name: str, op: ir.Operation, type_: ir.Type, all_ops: bool) -> float:
    if not _is_inexact(type_):
        return 0.0
    operand = op.operands[0].type if len(op.operands) else type_
    is_complex = isinstance(operand, ir.RankedTensorType) and isinstance(operand.element_type, ir.ComplexType)
    name = name.removeprefix("chlo.")
    known = ulps_of(name, is_complex)
    return 1.0 if all_ops and not known and name in ("add", "subtract", "multiply", "divide", "sqrt") else known


def ulps_of(name: str, is_complex: bool) -> float:
    """Units in the last place that implementations of an op, by its name without the dialect, may be off by."""
    record = record_of(f"hlo.{name}")
    if record is None:
        return _EXPANDED_ULPS.get(name, 0)
    return record.complex_ulps if is_complex and record.complex_ulps else record.ulps


def _is_inexact(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and isinstance(type_.element_type, ir.FloatType | ir.ComplexType)


def _noisy(value: ir.Value, ulps: float, random: np.random.Generator, point: ir.InsertionPoint) -> ir.Value:
    """value * (1 + d), d random with |d| = ulps units in the last place. A complex value's parts get errors of the
    size of the value, as cancellation in either part makes them."""
    element, sizes = value.type.element_type, list(value.type.shape)
    if isinstance(element, ir.ComplexType):
        part = element.element_type
        real = _errors(part, sizes, ulps, 1.0, random, point)
        imaginary = _errors(part, sizes, ulps, 0.0, random, point)
        factor = create("complex", point, real, imaginary)
    else:
        factor = _errors(element, sizes, ulps, 1.0, random, point)
    return create("multiply", point, value, factor)


def _errors(
    element: ir.Type,
    sizes: Sequence[int],
    ulps: float,
    center: float,
    random: np.random.Generator,
    point: ir.InsertionPoint,
) -> ir.Value:
    dtype = numpy_dtype(element)
    eps = float(ml_dtypes.finfo(dtype).eps)
    signs = random.choice([-1.0, 1.0], size=tuple(sizes))
    return constant(center + signs * ulps * eps, element, point)
