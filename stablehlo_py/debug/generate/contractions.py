"""Products: dot_general, convolution, and what is built on them."""

from __future__ import annotations

from itertools import chain

from stablehlo_py.debug.generate.draft import Draft, elements, letter, letter_of, require, sizes, small
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.generate.shapes import padding
from stablehlo_py.dialect.window import window_shape
from stablehlo_py.mlir import ir

MAX_PRODUCTS = 20_000


@family(5)
def dot_general(d: Draft) -> Made:
    """Batch and contracting dimensions anywhere. Complex numbers are finite: the specification does not say which parts
    of a product of infinite ones are infinite, and which are NaN."""
    x = d.value("sufc", low=1)
    if letter(x) == "c":
        x = moderate(d, x)
    rank = len(sizes(x))
    order = [int(axis) for axis in d.random.permutation(rank)]
    batches = d.whole(0, min(2, rank) + 1)
    contracted = d.whole(0, rank - batches + 1)
    batch, contract = order[:batches], order[batches : batches + contracted]
    free = d.shape(d.whole(0, 3))
    wanted = [("b", axis) for axis in batch] + [("c", axis) for axis in contract] + [("f", size) for size in free]
    places = [wanted[int(number)] for number in d.random.permutation(len(wanted))]
    shape = [place if kind == "f" else sizes(x)[place] for kind, place in places]
    y = d.fresh(shape, x.type.element_type)
    if letter(x) == "c":
        y = moderate(d, y)
    rhs_batch = [places.index(("b", axis)) for axis in batch]
    rhs_contract = [places.index(("c", axis)) for axis in contract]
    kept = [size for axis, size in enumerate(sizes(x)) if axis not in (*batch, *contract)]
    result = [*(sizes(x)[axis] for axis in batch), *kept, *(place for kind, place in places if kind == "f")]
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {batch}, rhs_batching_dimensions = {rhs_batch}, "
        f"lhs_contracting_dimensions = {contract}, rhs_contracting_dimensions = {rhs_contract}>"
    )
    type_ = d.tensor(result, x.type.element_type)
    work = elements(x) * elements(y)
    require(max(work, 1) <= MAX_PRODUCTS * 10)
    return small(d.op("dot_general", x, y, results=[type_], dot_dimension_numbers=numbers))


@family(2.5)
def convolution(d: Draft) -> Made:
    """One to three spatial dimensions, groups, strides, dilations of both sides, reversal, any layout. Numbers are
    finite: products with padding are zero, whether they are formed or not."""
    element = d.element()
    require(letter_of(element) in "suf" and element.width >= 8)
    spatial = d.whole(1, 4)
    groups, batch_groups = d.one_of([(1, 1)] * 5 + [(2, 1), (3, 1), (1, 2)])
    inputs, outputs = d.whole(1, 4), d.whole(1, 4) * groups * batch_groups
    image = [d.whole(1, 7) for _ in range(spatial)]
    kernel = [d.whole(1, 4) for _ in range(spatial)]
    batch = d.whole(1, 4) * batch_groups
    strides, left, right = ([(1, 1, 2)[d.whole(0, 3)] for _ in range(spatial)] for _ in range(3))
    edges = [(d.whole(-1, 3), d.whole(-1, 3)) for _ in range(spatial)]
    lhs_order, rhs_order, out_order = ([int(n) for n in d.random.permutation(spatial + 2)] for _ in range(3))
    lhs = _placed([batch, inputs * groups, *image], lhs_order)
    rhs = _placed([inputs, outputs, *kernel], rhs_order)
    result = map(int, window_shape(image, kernel, strides, [*chain(*edges)], left, right))
    shape = _placed([batch // batch_groups, outputs, *result], out_order)
    numbers = (
        f"#stablehlo.conv<raw input_batch_dimension = {lhs_order[0]}, input_feature_dimension = {lhs_order[1]}, "
        f"input_spatial_dimensions = {lhs_order[2:]}, kernel_input_feature_dimension = {rhs_order[0]}, "
        f"kernel_output_feature_dimension = {rhs_order[1]}, kernel_spatial_dimensions = {rhs_order[2:]}, "
        f"output_batch_dimension = {out_order[0]}, output_feature_dimension = {out_order[1]}, "
        f"output_spatial_dimensions = {out_order[2:]}>"
    )
    reverse = ", ".join(str(d.chance(0.2)).lower() for _ in range(spatial))
    return small(
        d.op(
            "convolution",
            *(_finite(d, d.fresh(each, element)) for each in (lhs, rhs)),
            results=[d.tensor(shape, element)],
            window_strides=strides,
            padding=padding(edges),
            lhs_dilation=left,
            rhs_dilation=right,
            window_reversal=f"array<i1: {reverse}>",
            dimension_numbers=numbers,
            feature_group_count=groups,
            batch_group_count=batch_groups,
        )
    )


def _placed(values: list[int], places: list[int]) -> list[int]:
    """values[i] at places[i]."""
    shape = [0] * len(values)
    for value, place in zip(values, places, strict=True):
        shape[place] = value
    return shape


def moderate(d: Draft, x: ir.Value) -> ir.Value:
    """The value without infinities and NaN, whose spreading in an algorithm is not specified: within [-4, 4]."""
    if letter(x) == "c":
        return d.op("complex", *(moderate(d, d.op(part, x)) for part in ("real", "imag")))
    is_number = d.compare("EQ", x, x)
    return d.op("clamp", d.splat(-4.0, x), d.op("select", is_number, x, d.splat(1.0, x)), d.splat(4.0, x))


def _finite(d: Draft, x: ir.Value) -> ir.Value:
    return moderate(d, x) if d.special and letter(x) == "f" else x


@family(0.15, in_regions=False)
def fft(d: Draft) -> Made:
    """Every kind, over one to three dimensions."""
    kind = d.one_of(("FFT", "IFFT", "RFFT", "IRFFT"))
    single = d.chance(0.6)
    element = ir.Type.parse(
        ("f32" if single else "f64") if kind == "RFFT" else f"complex<{'f32' if single else 'f64'}>"
    )
    lengths = [d.whole(1, 10) for _ in range(d.whole(1, 4))]
    shape = [*(d.whole(1, 4) for _ in range(d.whole(0, 2))), *lengths]
    if kind == "IRFFT":
        shape[-1] = lengths[-1] // 2 + 1
    x = moderate(d, d.fresh(shape, element))
    return d.op("fft", x, fft_type=f"#stablehlo<fft_type {kind}>", fft_length=lengths)


@family(0.15, in_regions=False)
def triangular_solve(d: Draft) -> Made:
    """Both sides, both triangles, transposed or not; the diagonal is far from zero."""
    element = ir.Type.parse(d.one_of(("f32", "f64", "complex<f32>")))
    size, other, batch = d.whole(1, 7), d.whole(1, 5), [d.whole(1, 3) for _ in range(d.whole(0, 2))]
    left = d.chance(0.5)
    a = d.fresh([*batch, size, size], element)
    rows, columns = (d.iota(sizes(a), len(batch) + axis) for axis in (0, 1))
    a = d.op("select", d.compare("EQ", rows, columns), d.splat(3.0, a), moderate(d, a))
    b = moderate(d, d.fresh([*batch, size, other] if left else [*batch, other, size], element))
    return d.op(
        "triangular_solve",
        a,
        b,
        left_side=left,
        lower=d.chance(0.5),
        unit_diagonal=d.chance(0.3),
        transpose_a=f"#stablehlo<transpose {d.one_of(('NO_TRANSPOSE', 'TRANSPOSE', 'ADJOINT'))}>",
    )


@family(0.1, in_regions=False)
def cholesky(d: Draft) -> Made:
    """Of a matrix that is positive definite: x x^T + 2 I, with a zero in the half that is not read."""
    element = ir.Type.parse(d.one_of(("f32", "f64")))
    size = d.whole(1, 7)
    x = moderate(d, d.fresh([size, size], element))
    numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>"
    product = d.op("dot_general", x, x, results=[x.type], dot_dimension_numbers=numbers)
    rows, columns = (d.iota(sizes(x), axis) for axis in (0, 1))
    equal = d.compare("EQ", rows, columns)
    shifted = d.op("select", equal, d.op("add", product, d.splat(2.0, x)), product)
    lower = d.chance(0.5)
    factor = d.op("cholesky", shifted, lower=lower)
    return d.op("select", d.compare("GE" if lower else "LE", rows, columns), factor, d.splat(0.0, x))
