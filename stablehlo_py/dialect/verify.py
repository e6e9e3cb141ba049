"""What the verifiers of the hlo ops check. A check takes the op and raises `Malformed`; it must not print the op
(printing verifies)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from stablehlo_py.dialect import infer
from stablehlo_py.dialect.size import UndecidedSize
from stablehlo_py.dialect.types import (
    element_type,
    i64,
    i64s,
    is_bool,
    is_complex,
    is_float,
    is_integer,
    is_tensor,
    num_elements,
    rank,
    shape,
    text,
)
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Check = Callable[[ir.OpView], None]
REDUCTION_KINDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
LOGIC_KINDS = ("and", "or", "xor")
FFT_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
ALGORITHMS = ("DEFAULT", "THREE_FRY", "PHILOX")


class Malformed(Exception):
    """Raised by a check: the reason why an op is not valid."""


def verifier(*checks: Check) -> staticmethod:
    """The `verify_invariants` of an op class: reports the first problem at the op's location."""

    def verify_invariants(op: ir.OpView) -> bool:
        try:
            # The generated class knows its attributes; unverified text may lack them.
            missing = [name for name in declared_attributes(type(op)) if name not in op.attributes]
            require(not missing, f"lacks attribute '{missing[0] if missing else ''}'")
            for check in checks:
                with suppress(UndecidedSize):  # what depends on the call is no mistake
                    check(op)
        except Malformed as error:
            op.location.emit_error(f"'{op.operation.name}' op {error}")
            return False
        except UnsupportedError as error:  # a dynamic dimension without a size
            op.location.emit_error(f"'{op.operation.name}' op {error.reason}")
            return False
        except (TypeError, AttributeError, ValueError, KeyError, IndexError) as error:
            # An attribute of another kind than the reading helpers expect.
            op.location.emit_error(f"'{op.operation.name}' op has a malformed attribute or type: {error}")
            return False
        return True

    return staticmethod(verify_invariants)


def declared_attributes(operation: type) -> list[str]:
    """Names of the attributes that an op class of `ext` declares."""
    return [field.name for field in getattr(operation, "_fields", ()) if type(field).__name__ == "AttributeDef"]


def require(condition: bool, reason: str) -> None:
    """Raise Malformed unless the condition holds."""
    if not condition:
        raise Malformed(reason)


def _require_shape(op: ir.OpView, expected: Sequence[int], result: int = 0) -> None:
    require(shape(op.results[result]) == tuple(expected), f"result shape must be {tuple(expected)}")


def _require_dimensions(dimensions: Sequence[int], limit: int, name: str) -> None:
    inside = all(0 <= dimension < limit for dimension in dimensions)
    require(inside and len(set(dimensions)) == len(dimensions), f"{name} must be different dimensions below {limit}")


def same_elements(op: ir.OpView) -> None:
    """First operand and first result have one element type."""
    source, result = element_type(op.operands[0]), element_type(op.results[0])
    require(source == result, f"must keep the element type: {source} became {result}")


def same_shape(op: ir.OpView) -> None:
    """All operands have the result's shape."""
    for value in op.operands:
        require(is_tensor(value) and shape(value) == shape(op.results[0]), "operands and result must have one shape")


ELEMENT_CLASSES: dict[str, Callable[[ir.Type], bool]] = {
    "integer": lambda type_: is_integer(type_) and not is_bool(type_),
    "integer or i1": is_integer,
    "float": is_float,
    "complex": is_complex,
    "float or complex": lambda type_: is_float(type_) or is_complex(type_),
    "number with a negative": lambda type_: not is_bool(type_) and str(type_) != "f8E8M0FNU",
    "number": lambda type_: not is_bool(type_),
    "real number": lambda type_: not is_bool(type_) and not is_complex(type_),
}


def operand_elements(allowed: str) -> Check:
    """The first operand's element type is of a class of ELEMENT_CLASSES. Normal form has logic, not arithmetic, on
    i1."""
    belongs = ELEMENT_CLASSES[allowed]

    def check(op: ir.OpView) -> None:
        element = element_type(op.operands[0])
        require(belongs(element), f"needs elements of type {allowed}, not {element}")

    return check


def part_type(op: ir.OpView) -> None:
    """real, imag, abs: of complex numbers a part, else the same type."""
    source, result = element_type(op.operands[0]), element_type(op.results[0])
    expected = source.element_type if is_complex(source) else source
    require(result == expected, f"result elements must be {expected}")


def complex_result(op: ir.OpView) -> None:
    """complex: two parts make a complex number."""
    result = element_type(op.results[0])
    require(
        is_complex(result) and result.element_type == element_type(op.operands[0]),
        "result must be complex of the operands' type",
    )


def boolean_result(op: ir.OpView) -> None:
    """Predicates give i1."""
    require(is_bool(element_type(op.results[0])), "result elements must be i1")


def comparison(op: ir.OpView) -> None:
    """compare."""
    require(text(op, "direction") in COMPARISONS, f"direction must be one of {' '.join(COMPARISONS)}")
    element = element_type(op.operands[0])
    require(not is_complex(element) or text(op, "direction") in ("EQ", "NE"), "complex numbers have no order")
    require("total_order" not in op.attributes or is_float(element), "total_order is for floats")


def selection(op: ir.OpView) -> None:
    """select."""
    require(is_bool(element_type(op.operands[0])), "pred elements must be i1")


def bit_width(type_: ir.Type) -> int:
    """Bits of an element."""
    return 2 * bit_width(type_.element_type) if is_complex(type_) else type_.width


def bitcast(op: ir.OpView) -> None:
    """bitcast_convert: the last dimension holds the ratio of the widths."""
    source, result = op.operands[0], op.results[0]
    wide, narrow = bit_width(element_type(source)), bit_width(element_type(result))
    if wide == narrow:
        _require_shape(op, shape(source))
    elif wide > narrow:
        _require_shape(op, (*shape(source), wide // narrow))
    else:
        require(shape(source) == (*shape(result), narrow // wide), f"operand's last dimension must be {narrow // wide}")


def precision(op: ir.OpView) -> None:
    """reduce_precision."""
    require(
        i64(op, "exponent_bits") >= 1 and i64(op, "mantissa_bits") >= 0, "needs exponent_bits >= 1, mantissa_bits >= 0"
    )


def constant(op: ir.OpView) -> None:
    """constant: `value` has the result's type, of complex results the interleaved parts."""
    element, sizes = element_type(op.results[0]), shape(op.results[0])
    if is_complex(element):
        element, sizes = element.element_type, (*sizes, 2)
    try:
        value = op.attributes["value"].type
    except TypeError:
        raise Malformed(
            "holds complex elements; normal form is interleaved parts in a last dimension of size 2"
        ) from None
    require(
        shape(value) == sizes and element_type(value) == element,
        f"value must be of shape {sizes} and elements {element}",
    )


def iota(op: ir.OpView) -> None:
    """iota."""
    require(0 <= i64(op, "dimension") < rank(op.results[0]), "dimension is outside the rank")
    require(not is_bool(element_type(op.results[0])), "elements must be numbers")


def size(op: ir.OpView) -> None:
    """size."""
    # Of any rank before legalization, which reads the operands of dynamic twins (paddings are a matrix).
    require(is_integer(element_type(op.results[0])), "must be integers")
    require(len(i64s(op, "value")) == num_elements(op.results[0]), "value must have one entry per element")


def broadcast(op: ir.OpView) -> None:
    """broadcast."""
    source, target, dimensions = shape(op.operands[0]), shape(op.results[0]), i64s(op, "dimensions")
    require(len(dimensions) == len(source), "needs one entry of dimensions per operand dimension")
    require(list(dimensions) == sorted(set(dimensions)), "dimensions must strictly increase (transpose first)")
    for size, dimension in zip(source, dimensions, strict=True):
        require(0 <= dimension < len(target), "dimensions has an entry outside the result's rank")
        require(size == target[dimension], f"result dimension {dimension} must have the operand's size {size}")


def reshape(op: ir.OpView) -> None:
    """reshape."""
    require(num_elements(op.operands[0]) == num_elements(op.results[0]), "must keep the number of elements")


def transpose(op: ir.OpView) -> None:
    """transpose."""
    source, permutation = shape(op.operands[0]), i64s(op, "permutation")
    require(sorted(permutation) == list(range(len(source))), "permutation must hold every dimension once")
    _require_shape(op, [source[dimension] for dimension in permutation])


def slice_(op: ir.OpView) -> None:
    """slice."""
    start, limit, strides = i64s(op, "start"), i64s(op, "limit"), i64s(op, "strides")
    source = shape(op.operands[0])
    require(
        len(start) == len(limit) == len(strides) == len(source), "start, limit, strides need one entry per dimension"
    )
    for low, high, size in zip(start, limit, source, strict=True):
        require(0 <= low <= high <= size, f"needs 0 <= start <= limit <= {size}")
    require(all(stride > 0 for stride in strides), "strides must be positive")
    _require_shape(op, infer.slice_shape(start, limit, strides))


def pad(op: ir.OpView) -> None:
    """pad."""
    low, high, interior = i64s(op, "low"), i64s(op, "high"), i64s(op, "interior")
    source = shape(op.operands[0])
    require(len(low) == len(high) == len(interior) == len(source), "low, high, interior need one entry per dimension")
    require(all(inner >= 0 for inner in interior), "interior must not be negative")
    _scalar_like(op, 1, "padding_value")
    _require_shape(op, infer.pad_shape(source, low, high, interior))


def _scalar_like(op: ir.OpView, number: int, name: str) -> None:
    value = op.operands[number]
    require(
        rank(value) == 0 and element_type(value) == element_type(op.operands[0]),
        f"{name} must be a scalar of the operand's type",
    )


def reverse(op: ir.OpView) -> None:
    """reverse."""
    _require_dimensions(i64s(op, "dimensions"), rank(op.operands[0]), "dimensions")


def _starts(op: ir.OpView, first: int) -> None:
    starts = list(op.operands)[first:]
    require(len(starts) == rank(op.operands[0]), "needs one start index per dimension")
    scalars = all(rank(start) == 0 and is_integer(element_type(start)) for start in starts)
    require(scalars, "start indices must be integer scalars")


def dynamic_slice(op: ir.OpView) -> None:
    """dynamic_slice."""
    _starts(op, 1)
    sizes = i64s(op, "sizes")
    _require_shape(op, sizes)
    require(
        all(a <= b for a, b in zip(sizes, shape(op.operands[0]), strict=True)), "sizes must not exceed the operand's"
    )


def dynamic_update_slice(op: ir.OpView) -> None:
    """dynamic_update_slice."""
    operand, update = op.operands[0], op.operands[1]
    require(element_type(operand) == element_type(update), "operand and update need one element type")
    require(rank(operand) == rank(update), "operand and update need one rank")
    require(
        all(a <= b for a, b in zip(shape(update), shape(operand), strict=True)), "update must not exceed the operand"
    )
    _starts(op, 2)


def gather(op: ir.OpView) -> None:
    """gather: spec, section gather, constraints C1 to C22."""
    operand, indices = op.operands
    source, places = shape(operand), shape(indices)
    collapsed, batching = i64s(op, "collapsed_slice_dims"), i64s(op, "operand_batching_dims")
    index_batching, index_map = i64s(op, "start_indices_batching_dims"), i64s(op, "start_index_map")
    sizes, vector = i64s(op, "slice_sizes"), i64(op, "index_vector_dim")
    require(is_integer(element_type(indices)), "start_indices must be integers")
    require(0 <= vector <= len(places), "index_vector_dim is outside the rank of start_indices")
    require(len(sizes) == len(source), "slice_sizes needs one entry per operand dimension")
    require(
        all(0 <= a <= b for a, b in zip(sizes, source, strict=True)), "slice_sizes must not exceed the operand's sizes"
    )
    _require_dimensions((*collapsed, *batching), len(source), "collapsed_slice_dims and operand_batching_dims")
    _require_dimensions((*index_map, *batching), len(source), "start_index_map and operand_batching_dims")
    _require_dimensions(index_batching, len(places), "start_indices_batching_dims")
    require(
        len(batching) == len(index_batching), "needs as many batching dimensions of the operand as of start_indices"
    )
    require(all(sizes[i] <= 1 for i in (*collapsed, *batching)), "slice_sizes of dimensions that go away must be 1")
    components = places[vector] if vector < len(places) else 1
    require(len(index_map) == components, f"start_index_map needs {components} entries")
    _require_shape(op, infer.gather_shape(places, sizes, i64s(op, "offset_dims"), (*collapsed, *batching), vector))


def _one_kind(op: ir.OpView) -> None:
    elements = [element_type(value) for value in (*op.operands, *op.results)]
    kinds = [sum(belongs(each) for each in elements) for belongs in (is_integer, is_float, is_complex)]
    require(len(elements) in kinds, "needs operands and results that are all integers, all floats or all complex")


def dot(op: ir.OpView) -> None:
    """dot."""
    _one_kind(op)
    lhs, rhs = shape(op.operands[0]), shape(op.operands[1])
    batch, contract = i64s(op, "lhs_batch"), i64s(op, "lhs_contract")
    rhs_batch, rhs_contract = i64s(op, "rhs_batch"), i64s(op, "rhs_contract")
    _require_dimensions(batch + contract, len(lhs), "lhs_batch and lhs_contract")
    _require_dimensions(rhs_batch + rhs_contract, len(rhs), "rhs_batch and rhs_contract")
    require(
        len(batch) == len(rhs_batch) and len(contract) == len(rhs_contract), "lhs and rhs need as many dimensions each"
    )
    for left, right in zip(batch + contract, rhs_batch + rhs_contract, strict=True):
        require(lhs[left] == rhs[right], f"dimension {left} of lhs and {right} of rhs differ in size")
    _require_shape(op, infer.dot_shape(lhs, rhs, (batch, rhs_batch), (contract, rhs_contract)))


def convolution(op: ir.OpView) -> None:
    """convolution."""
    _one_kind(op)
    lhs, rhs = shape(op.operands[0]), shape(op.operands[1])
    dims = (i64s(op, "input_dims"), i64s(op, "kernel_dims"), i64s(op, "output_dims"))
    rank_ = len(lhs)
    require(len(rhs) == rank_ and rank(op.results[0]) == rank_ >= 2, "lhs, rhs and result need one rank, at least 2")
    for name, each in zip(("input_dims", "kernel_dims", "output_dims"), dims, strict=True):
        require(sorted(each) == list(range(rank_)), f"{name} must hold every dimension once")
    names = ("strides", "padding", "lhs_dilation", "rhs_dilation", "reversal")
    window = [i64s(op, name) for name in names]
    for name, each in zip(names, window, strict=True):
        require(len(each) == (rank_ - 2) * (1 + (name == "padding")), f"{name} has the wrong number of entries")
        require(name in ("padding", "reversal") or all(entry > 0 for entry in each), f"{name} must be positive")
    feature_groups, batch_groups = i64(op, "feature_groups"), i64(op, "batch_groups")
    require(min(feature_groups, batch_groups) == 1, "feature_groups or batch_groups must be 1, both positive")
    inputs, kernel, _ = dims
    require(
        lhs[inputs[1]] == rhs[kernel[0]] * feature_groups,
        "input features must be kernel input features times feature_groups",
    )
    require(lhs[inputs[0]] % batch_groups == 0, "batch must be a multiple of batch_groups")
    require(rhs[kernel[1]] % (feature_groups * batch_groups) == 0, "output features must be a multiple of the groups")
    strides, padding, lhs_dilation, rhs_dilation, _ = window
    sizes = infer.convolution_shape(lhs, rhs, dims, batch_groups, (strides, padding, lhs_dilation, rhs_dilation))
    _require_shape(op, sizes)


def _kind(op: ir.OpView) -> None:
    kind, element = text(op, "kind"), element_type(op.operands[0])
    require(kind in REDUCTION_KINDS, f"kind must be one of {' '.join(REDUCTION_KINDS)}")
    if kind in LOGIC_KINDS:
        require(is_integer(element), f"kind {kind} needs integers or i1, not {element}")
    else:
        require(not is_bool(element), f"kind {kind} on i1 is logic: write and, or")


def reduce(op: ir.OpView) -> None:
    """reduce."""
    _kind(op)
    _scalar_like(op, 1, "init")
    dimensions, source = i64s(op, "dimensions"), shape(op.operands[0])
    _require_dimensions(dimensions, len(source), "dimensions")
    require(bool(dimensions), "dimensions must not be empty: that is an elementwise op")
    _require_shape(op, [size for i, size in enumerate(source) if i not in dimensions])


def reduce_window(op: ir.OpView) -> None:
    """reduce_window."""
    _kind(op)
    _scalar_like(op, 1, "init")
    source = shape(op.operands[0])
    names = ("window", "strides", "padding", "base_dilation", "window_dilation")
    entries = [i64s(op, name) for name in names]
    for name, each in zip(names, entries, strict=True):
        require(len(each) == len(source) * (1 + (name == "padding")), f"{name} has the wrong number of entries")
        require(name == "padding" or all(entry > 0 for entry in each), f"{name} must be positive")
    _require_shape(op, infer.window_shape(source, *entries))


def square_matrices(op: ir.OpView) -> None:
    """cholesky, and `a` of triangular_solve."""
    sizes = shape(op.operands[0])
    require(len(sizes) >= 2 and sizes[-1] == sizes[-2], "needs square matrices in the last two dimensions")
    element = element_type(op.operands[0])
    require(is_float(element) or is_complex(element), f"needs elements of type float or complex, not {element}")


def triangular_solve(op: ir.OpView) -> None:
    """triangular_solve."""
    require(text(op, "transpose_a") in TRANSPOSES, f"transpose_a must be one of {' '.join(TRANSPOSES)}")
    a, b = shape(op.operands[0]), shape(op.operands[1])
    require(element_type(op.operands[0]) == element_type(op.operands[1]), "a and b need one element type")
    left = bool(op.attributes["left_side"].value)
    require(len(a) == len(b) and a[:-2] == b[:-2], "a and b need one rank and the same batch dimensions")
    require(b[-2 if left else -1] == a[-1], "the side of b that is solved for must have the size of a")


def fft(op: ir.OpView) -> None:
    """fft."""
    kind, length, sizes = text(op, "kind"), i64s(op, "length"), shape(op.operands[0])
    require(kind in FFT_KINDS, f"kind must be one of {' '.join(FFT_KINDS)}")
    require(1 <= len(length) <= 3 and len(length) <= len(sizes), "length needs one to three entries, at most the rank")
    require(is_float(element_type(op.operands[0])) == (kind == "RFFT"), f"{kind} of elements of another kind")
    require(is_float(element_type(op.results[0])) == (kind == "IRFFT"), f"{kind} gives elements of another kind")
    _require_shape(op, infer.fft_shape(sizes, kind, length))


def rng_bit_generator(op: ir.OpView) -> None:
    """rng_bit_generator."""
    require(text(op, "algorithm") in ALGORITHMS, f"algorithm must be one of {' '.join(ALGORITHMS)}")
    require(
        rank(op.operands[0]) == 1 and is_integer(element_type(op.operands[0])), "state must be a vector of integers"
    )


def top_k(op: ir.OpView) -> None:
    """top_k."""
    sizes, k = shape(op.operands[0]), i64(op, "k")
    require(len(sizes) >= 1 and 0 <= k <= sizes[-1], "k must be at most the last dimension")
    for number in range(2):
        _require_shape(op, (*sizes[:-1], k), number)
    require(str(element_type(op.results[1])) == "i32", "indices must be i32")
