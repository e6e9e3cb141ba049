"""The internal `hlo` dialect: its operations, their operands and attributes.

Names and semantics follow the StableHLO specification (github.com/openxla/stablehlo, docs/spec.md); docs/hlo-dialect.md
is generated from this file, the checks are in verify.py. The dialect is smaller than StableHLO and in normal form
(docs/architecture.md).

Array attributes are `array<i64: ...>`, integers `i64`, names strings. Verifiers report at the user's location.
"""

# mypy: disable-error-code="call-arg, name-defined"
# (the base classes take class keywords and come from a module without types)
# No `from __future__ import annotations` here: the ext module reads the annotations as objects.

import types
from collections.abc import Sequence
from typing import Any, TypeVar

from stablehlo_py.dialect import verify, verify_grid
from stablehlo_py.dialect.verify import COMPARISONS, REDUCTION_KINDS, Malformed, verifier
from stablehlo_py.mlir import ext

__all__ = ["BINARY", "COMPARISONS", "REDUCTION_KINDS", "UNARY", "Hlo", "Malformed"]

T = TypeVar("T")
U = TypeVar("U")
PURE = [ext.Pure]


class Hlo(ext.Dialect, name="hlo"):
    """The internal dialect."""


# --- elementwise -----------------------------------------------------------------------------------------------------

# Name: element types of the operand (a key of verify.ELEMENT_CLASSES), description.
_UNARY = {
    "abs": ("number", "Absolute value; of complex numbers the modulus, a real number."),
    "acos": ("float", "Arc cosine."),
    "acosh": ("float", "Inverse hyperbolic cosine."),
    "asin": ("float", "Arc sine."),
    "asinh": ("float", "Inverse hyperbolic sine."),
    "atanh": ("float", "Inverse hyperbolic tangent."),
    "bessel_i1e": ("float", "Modified Bessel function of the first kind and order 1, times e^-|operand|."),
    "cbrt": ("float or complex", "Cube root."),
    "ceil": ("float", "Least integer that is not smaller."),
    "cosh": ("float or complex", "Hyperbolic cosine."),
    "cosine": ("float or complex", "Cosine."),
    "count_leading_zeros": ("integer", "Number of zero bits before the first one."),
    "digamma": ("float", "Derivative of the logarithm of the gamma function."),
    "erf": ("float", "Error function."),
    "erf_inv": ("float", "Inverse of the error function."),
    "erfc": ("float", "One minus the error function, accurate where that is small."),
    "exponential": ("float or complex", "e to the operand."),
    "exponential_minus_one": ("float or complex", "e to the operand, minus one, accurate near zero."),
    "floor": ("float", "Greatest integer that is not greater."),
    "imag": ("complex", "Imaginary part."),
    "is_finite": ("float", "True where neither infinite nor NaN."),
    "lgamma": ("float", "Logarithm of the absolute value of the gamma function."),
    "log": ("float or complex", "Natural logarithm."),
    "log_plus_one": ("float or complex", "Natural logarithm of one plus the operand, accurate near zero."),
    "logistic": ("float or complex", "1 / (1 + e to minus the operand)."),
    "negate": ("number with a negative", "Minus the operand; integers wrap around."),
    "not": ("integer or i1", "Bitwise complement; of i1 logical."),
    "popcnt": ("integer", "Number of one bits."),
    "real": ("complex", "Real part."),
    "round_nearest_afz": ("float", "Nearest integer, halves away from zero."),
    "round_nearest_even": ("float", "Nearest integer, halves to even."),
    "rsqrt": ("float or complex", "One over the square root."),
    "sign": ("number", "-1, 0 or 1; zeros keep their sign, NaN stays, complex numbers go to the unit circle."),
    "sine": ("float or complex", "Sine."),
    "sinh": ("float or complex", "Hyperbolic sine."),
    "sqrt": ("float or complex", "Square root."),
    "tan": ("float or complex", "Tangent."),
    "tanh": ("float or complex", "Hyperbolic tangent."),
}
_BINARY = {
    "add": ("number", "Sum; integers wrap around."),
    "and": ("integer or i1", "Bitwise and; of i1 logical."),
    "atan2": ("float or complex", "Angle of the point (rhs, lhs)."),
    "complex": ("float", "Complex number of a real and an imaginary part."),
    "divide": ("number", "Quotient; of integers truncated, all ones for a zero divisor."),
    "maximum": ("number", "Greater one; NaN if one is NaN; complex numbers in lexicographic order."),
    "minimum": ("number", "Smaller one; NaN if one is NaN; complex numbers in lexicographic order."),
    "multiply": ("number", "Product; integers wrap around."),
    "or": ("integer or i1", "Bitwise or; of i1 logical."),
    "power": ("number", "lhs to the rhs; of integers 0, 1 or -1 for negative exponents."),
    "remainder": ("real number", "Remainder with the dividend's sign; of integers the dividend for a zero divisor."),
    "shift_left": ("integer", "lhs shifted left by rhs bits; zero from the width on."),
    "shift_right_arithmetic": ("integer", "lhs shifted right, repeating the sign bit."),
    "shift_right_logical": ("integer", "lhs shifted right, zeros enter; zero from the width on."),
    "subtract": ("number", "Difference; integers wrap around."),
    "xor": ("integer or i1", "Bitwise exclusive or; of i1 logical."),
    "zeta": ("float", "Hurwitz's zeta function, the sum of (rhs + k) to -lhs for k = 0, 1, 2, ..."),
}
UNARY = tuple(_UNARY)
BINARY = tuple(_BINARY)
_RESULT_CHECKS = {
    "abs": verify.part_type,
    "imag": verify.part_type,
    "real": verify.part_type,
    "is_finite": verify.boolean_result,
    "complex": verify.complex_result,
}


def _define_elementwise(name: str, operands: Sequence[str], elements: str, description: str) -> type:
    result_check = _RESULT_CHECKS.get(name)
    annotations: dict[str, object] = dict.fromkeys(operands, ext.Operand[T])
    annotations["result"] = ext.Result[Any] if result_check else ext.Result[T]
    checks = [verify.operand_elements(elements), *([verify.same_shape, result_check] if result_check else [])]
    members = {
        "__annotations__": annotations,
        "__doc__": description,
        "elements": elements,
        "verify_invariants": verifier(*checks),
    }
    class_name = "".join(part.capitalize() for part in name.split("_"))
    # types.new_class runs the `name=` class keyword that registers the op with the dialect.
    return types.new_class(
        class_name, (Hlo.Operation,), {"name": name, "traits": PURE}, lambda namespace: namespace.update(members)
    )


for _name, (_elements, _description) in _UNARY.items():
    globals()[_name] = _define_elementwise(_name, ("operand",), _elements, _description)
for _name, (_elements, _description) in _BINARY.items():
    globals()[_name] = _define_elementwise(_name, ("lhs", "rhs"), _elements, _description)


class Compare(Hlo.Operation, name="compare", traits=PURE):
    """Elementwise comparison; `direction` EQ NE LT LE GT GE; optional `total_order` (unit) compares floats in total
    order."""

    lhs: ext.Operand[T]
    rhs: ext.Operand[T]
    result: ext.Result[Any]
    direction: Any = ext.attribute()
    verify_invariants = verifier(verify.same_shape, verify.boolean_result, verify.comparison)


class Select(Hlo.Operation, name="select", traits=PURE):
    """Elementwise choice: where `pred` (i1, same shape) holds `on_true`, else `on_false`."""

    pred: ext.Operand[Any]
    on_true: ext.Operand[T]
    on_false: ext.Operand[T]
    result: ext.Result[T]
    verify_invariants = verifier(verify.same_shape, verify.selection)


class Convert(Hlo.Operation, name="convert", traits=PURE):
    """Elementwise conversion of the element type."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    verify_invariants = verifier(verify.same_shape)


class BitcastConvert(Hlo.Operation, name="bitcast_convert", traits=PURE):
    """Reinterprets bits; between widths the last dimension appears or goes away, as in StableHLO."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    verify_invariants = verifier(verify.bitcast)


class ReducePrecision(Hlo.Operation, name="reduce_precision", traits=PURE):
    """Rounds to a float format with `exponent_bits` and `mantissa_bits`, and back."""

    operand: ext.Operand[T]
    result: ext.Result[T]
    exponent_bits: Any = ext.attribute()
    mantissa_bits: Any = ext.attribute()
    verify_invariants = verifier(verify.operand_elements("float"), verify.precision)


# --- creation and shape ----------------------------------------------------------------------------------------------


class Constant(Hlo.Operation, name="constant", traits=PURE):
    """A constant; `value` is a dense or dense_resource elements attribute of the result's type. For a complex result it
    holds the interleaved parts: one more dimension, of size 2."""

    result: ext.Result[Any]
    value: Any = ext.attribute()
    verify_invariants = verifier(verify.constant)


class Iota(Hlo.Operation, name="iota", traits=PURE):
    """Index along `dimension`, as the result's element type."""

    result: ext.Result[Any]
    dimension: Any = ext.attribute()
    verify_invariants = verifier(verify.iota)


class Size(Hlo.Operation, name="size", traits=PURE):
    """A constant that holds sizes: `value` is their text, one per element of the result, a scalar or a vector of
    integers (docs/dynamic-shapes.md)."""

    result: ext.Result[Any]
    value: Any = ext.attribute()
    verify_invariants = verifier(verify.size)


class Broadcast(Hlo.Operation, name="broadcast", traits=PURE):
    """Operand dimension i becomes result dimension `dimensions[i]`, with the same size; the others repeat."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    dimensions: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.broadcast)


class Reshape(Hlo.Operation, name="reshape", traits=PURE):
    """The same elements in row-major order under another shape."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    verify_invariants = verifier(verify.same_elements, verify.reshape)


class Transpose(Hlo.Operation, name="transpose", traits=PURE):
    """Result dimension i is operand dimension `permutation[i]`."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    permutation: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.transpose)


class Slice(Hlo.Operation, name="slice", traits=PURE):
    """Elements `start + i * strides < limit` of every dimension."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    start: Any = ext.attribute()
    limit: Any = ext.attribute()
    strides: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.slice_)


class Pad(Hlo.Operation, name="pad", traits=PURE):
    """Pads with a scalar: `low` and `high` (may be negative: crops) edges and `interior` between elements."""

    operand: ext.Operand[Any]
    padding_value: ext.Operand[Any]
    result: ext.Result[Any]
    low: Any = ext.attribute()
    high: Any = ext.attribute()
    interior: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.pad)


class Reverse(Hlo.Operation, name="reverse", traits=PURE):
    """Reverses the order of elements along `dimensions`."""

    operand: ext.Operand[T]
    result: ext.Result[T]
    dimensions: Any = ext.attribute()
    verify_invariants = verifier(verify.reverse)


class DynamicSlice(Hlo.Operation, name="dynamic_slice", traits=PURE):
    """A slice of static `sizes` at scalar start indices, clamped so that it fits."""

    operand: ext.Operand[Any]
    start_indices: Sequence[ext.Operand[U]]
    result: ext.Result[Any]
    sizes: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.dynamic_slice)


class DynamicUpdateSlice(Hlo.Operation, name="dynamic_update_slice", traits=PURE):
    """`operand` with `update` written at scalar start indices, clamped so that it fits."""

    operand: ext.Operand[T]
    update: ext.Operand[Any]
    start_indices: Sequence[ext.Operand[U]]
    result: ext.Result[T]
    verify_invariants = verifier(verify.dynamic_update_slice)


class Gather(Hlo.Operation, name="gather", traits=PURE):
    """Slices of `slice_sizes` at computed places; dimension numbers as in the StableHLO spec, section gather."""

    operand: ext.Operand[Any]
    start_indices: ext.Operand[Any]
    result: ext.Result[Any]
    offset_dims: Any = ext.attribute()
    collapsed_slice_dims: Any = ext.attribute()
    operand_batching_dims: Any = ext.attribute()
    start_indices_batching_dims: Any = ext.attribute()
    start_index_map: Any = ext.attribute()
    index_vector_dim: Any = ext.attribute()
    slice_sizes: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.gather)


class Copy(Hlo.Operation, name="copy", traits=PURE):
    """The same value in another place of memory; inserted by buffer assignment only."""

    operand: ext.Operand[T]
    result: ext.Result[T]


# --- contractions and reductions -------------------------------------------------------------------------------------


class Dot(Hlo.Operation, name="dot", traits=PURE):
    """General dot product. Result dimensions: batch, free of lhs, free of rhs, each in operand order. Operands and
    result are all integers, all floats or all complex."""

    lhs: ext.Operand[Any]
    rhs: ext.Operand[Any]
    result: ext.Result[Any]
    lhs_batch: Any = ext.attribute()
    rhs_batch: Any = ext.attribute()
    lhs_contract: Any = ext.attribute()
    rhs_contract: Any = ext.attribute()
    verify_invariants = verifier(verify.dot)


class Convolution(Hlo.Operation, name="convolution", traits=PURE):
    """Convolution. `padding` is low, high per spatial dimension; `reversal` 0/1 per spatial dimension. The `*_dims`
    arrays name dimensions: input (batch, feature, spatial...), kernel (input feature, output feature, spatial...),
    output (batch, feature, spatial...)."""

    lhs: ext.Operand[Any]
    rhs: ext.Operand[Any]
    result: ext.Result[Any]
    strides: Any = ext.attribute()
    padding: Any = ext.attribute()
    lhs_dilation: Any = ext.attribute()
    rhs_dilation: Any = ext.attribute()
    reversal: Any = ext.attribute()
    input_dims: Any = ext.attribute()
    kernel_dims: Any = ext.attribute()
    output_dims: Any = ext.attribute()
    feature_groups: Any = ext.attribute()
    batch_groups: Any = ext.attribute()
    verify_invariants = verifier(verify.convolution)


class Reduce(Hlo.Operation, name="reduce", traits=PURE):
    """Reduction over `dimensions` by a simple combiner `kind`, starting from the scalar `init`."""

    operand: ext.Operand[Any]
    init: ext.Operand[Any]
    result: ext.Result[Any]
    kind: Any = ext.attribute()
    dimensions: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.reduce)


class ReduceWindow(Hlo.Operation, name="reduce_window", traits=PURE):
    """Reduction over sliding windows by a simple combiner `kind`; attributes as in StableHLO, `padding` is low, high
    per dimension."""

    operand: ext.Operand[Any]
    init: ext.Operand[Any]
    result: ext.Result[Any]
    kind: Any = ext.attribute()
    window: Any = ext.attribute()
    strides: Any = ext.attribute()
    base_dilation: Any = ext.attribute()
    window_dilation: Any = ext.attribute()
    padding: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.reduce_window)


# --- whole algorithms ------------------------------------------------------------------------------------------------


class Cholesky(Hlo.Operation, name="cholesky", traits=PURE):
    """Cholesky factor of the last two dimensions; the other triangle holds the operand's or zeros (spec: unspecified;
    we write zeros)."""

    operand: ext.Operand[T]
    result: ext.Result[T]
    lower: Any = ext.attribute()
    verify_invariants = verifier(verify.square_matrices)


class TriangularSolve(Hlo.Operation, name="triangular_solve", traits=PURE):
    """Solves op(a) x = b (`left_side`) or x op(a) = b; `transpose_a`: NO_TRANSPOSE TRANSPOSE ADJOINT."""

    a: ext.Operand[Any]
    b: ext.Operand[T]
    result: ext.Result[T]
    left_side: Any = ext.attribute()
    lower: Any = ext.attribute()
    unit_diagonal: Any = ext.attribute()
    transpose_a: Any = ext.attribute()
    verify_invariants = verifier(verify.square_matrices, verify.triangular_solve)


class Fft(Hlo.Operation, name="fft", traits=PURE):
    """Fourier transform of the last len(`length`) dimensions; `kind`: FFT IFFT RFFT IRFFT."""

    operand: ext.Operand[Any]
    result: ext.Result[Any]
    kind: Any = ext.attribute()
    length: Any = ext.attribute()
    verify_invariants = verifier(verify.fft)


class RngBitGenerator(Hlo.Operation, name="rng_bit_generator", traits=PURE):
    """Random bits from a state; `algorithm`: DEFAULT THREE_FRY PHILOX."""

    state: ext.Operand[T]
    new_state: ext.Result[T]
    bits: ext.Result[Any]
    algorithm: Any = ext.attribute()
    verify_invariants = verifier(verify.rng_bit_generator)


class RandomState(Hlo.Operation, name="random_state"):
    """A state for PHILOX that no other draw has: the key of this call of the process, and a counter whose high half
    is the number of the `site` (an op of the user's) in its upper half and how often this site has drawn in its lower
    one."""

    process: ext.Operand[Any]
    state: ext.Result[Any]
    site: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.process, verify_grid.random_state)


class TopK(Hlo.Operation, name="top_k", traits=PURE):
    """The `k` largest elements of the last dimension, in descending (total) order, ties by lower index; and their i32
    indices."""

    operand: ext.Operand[Any]
    values: ext.Result[Any]
    indices: ext.Result[Any]
    k: Any = ext.attribute()
    verify_invariants = verifier(verify.same_elements, verify.top_k)


# --- process grid ----------------------------------------------------------------------------------------------------
# `process` is the last argument of @main, which tells a process of the grid who it is (docs/collectives.md).


class AllGather(Hlo.Operation, name="all_gather"):
    """The operands of all members of the process's group, stacked along a new first dimension; zeros in a process
    without a group. `groups` are rows of `width` numbers of the grid's `processes`, padded with -1; they meet at
    `barrier`. `origin` names the user's op, for messages."""

    process: ext.Operand[Any]
    operand: ext.Operand[Any]
    result: ext.Result[Any]
    groups: Any = ext.attribute()
    width: Any = ext.attribute()
    processes: Any = ext.attribute()
    barrier: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.same_elements, verify_grid.groups, verify_grid.all_gather)


class AllToAll(Hlo.Operation, name="all_to_all"):
    """The operand holds a block for each member of the group along its first dimension; block i of the result is the
    block that member i has for this process. Attributes as for `all_gather`."""

    process: ext.Operand[Any]
    operand: ext.Operand[T]
    result: ext.Result[T]
    groups: Any = ext.attribute()
    width: Any = ext.attribute()
    processes: Any = ext.attribute()
    barrier: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.groups, verify_grid.all_to_all)


class CollectivePermute(Hlo.Operation, name="collective_permute"):
    """The operand of process `sources[process]`, zeros where that is -1. Groups as for `all_gather`: a source and
    all that it goes to are in one."""

    process: ext.Operand[Any]
    operand: ext.Operand[T]
    result: ext.Result[T]
    sources: Any = ext.attribute()
    groups: Any = ext.attribute()
    width: Any = ext.attribute()
    processes: Any = ext.attribute()
    barrier: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.groups, verify_grid.collective_permute)


# A token is a tensor<0xi8>: it orders what it passes through.


class Infeed(Hlo.Operation, name="infeed"):
    """The next tensor from the host at `port` (infeed, or recv from the host)."""

    process: ext.Operand[Any]
    token: ext.Operand[T]
    value: ext.Result[Any]
    done: ext.Result[T]
    port: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.ordered)


class Outfeed(Hlo.Operation, name="outfeed"):
    """Hands the operand to the host at `port` (outfeed, or send to the host)."""

    process: ext.Operand[Any]
    token: ext.Operand[T]
    operand: ext.Operand[Any]
    done: ext.Result[T]
    port: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.ordered)


class Send(Hlo.Operation, name="send"):
    """Puts the operand into the channel of process `targets[process]`, unless that is -1; does not wait."""

    process: ext.Operand[Any]
    token: ext.Operand[T]
    operand: ext.Operand[Any]
    done: ext.Result[T]
    targets: Any = ext.attribute()
    channel: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.ordered, verify_grid.one_to_one("targets"))


class Recv(Hlo.Operation, name="recv"):
    """Waits for the next tensor in this process's channel, sent by `sources[process]`; zeros where that is -1."""

    process: ext.Operand[Any]
    token: ext.Operand[T]
    value: ext.Result[Any]
    done: ext.Result[T]
    sources: Any = ext.attribute()
    channel: Any = ext.attribute()
    origin: Any = ext.attribute()
    verify_invariants = verifier(verify_grid.ordered, verify_grid.one_to_one("sources"))
