"""Dimension factors: what is printed for every op, and that slices along factors are what their kinds say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from stablehlo_py.compiler import run_stages
from stablehlo_py.debug.generate import generate
from stablehlo_py.dialect.build import attribute, tensor
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.ops import combiner, record_of, records
from stablehlo_py.dialect.ops.factors import Factors, Kind, Tensor, factors_of, reason
from stablehlo_py.dialect.rounding import integer_info, is_float_dtype, is_integer_dtype
from stablehlo_py.dialect.types import is_tensor, operations, shape
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(0)

# Generic form of ops: operand types, attributes, result types, regions; then what is printed.
ADDED = """({^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = "hlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %s : tensor<f32>})"""
PAIRS = """({^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    stablehlo.return %a, %b : tensor<f32>, tensor<i32>})"""
SECOND = "({^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %b : tensor<f32>})"
LESS = """({^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = "hlo.compare"(%a, %b) {direction = "LT"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>})"""
CONVOLUTION = """strides = array<i64: 1, 2>, padding = array<i64: 0, 0, 1, 1>, lhs_dilation = array<i64: 1, 1>,
    rhs_dilation = array<i64: 1, 1>, reversal = array<i64: 0, 0>, input_dims = array<i64: 0, 3, 1, 2>,
    kernel_dims = array<i64: 2, 3, 0, 1>, output_dims = array<i64: 0, 3, 1, 2>"""
GATHER = """offset_dims = array<i64: 2, 3>, collapsed_slice_dims = array<i64: 1>, operand_batching_dims = array<i64: 0>,
    start_indices_batching_dims = array<i64: 1>, start_index_map = array<i64: 1, 3>, index_vector_dim = 2 : i64,
    slice_sizes = array<i64: 1, 1, 5, 2>"""
SCATTER = """scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false"""
MEETING = 'groups = array<i64: 0, 1>, width = 2 : i64, processes = 2 : i64, barrier = 0 : i64, origin = "here"'
GROUPS = MEETING.replace("barrier", "channel")
PRINTED = [
    ("hlo.add", "2x1x4xf32 2x1x4xf32", "", "2x1x4xf32", "", "([i, j, k], [i, j, k])->([i, j, k]) {i=2, j=1, k=4}"),
    ("hlo.tanh", "f32", "", "f32", "", "([])->([])"),
    (
        "hlo.bitcast_convert",
        "4x2x2xui32",
        "",
        "4x2xui64",
        "",
        "([i, j, k])->([i, j]) {i=4, j=2, k=2} need_replication={k}",
    ),
    ("hlo.iota", "", "dimension = 1 : i64", "4x5xi32", "", "()->([i, j]) {i=4, j=5} need_replication={j}"),
    ("hlo.broadcast", "5xf32", "dimensions = array<i64: 1>", "4x5xf32", "", "([j])->([i, j]) {i=4, j=5}"),
    ("hlo.reshape", "8x3xf32", "", "2x12xf32", "", "([ij, k])->([i, jk]) {i=2, j=4, k=3}"),
    (
        "hlo.reshape",
        "3x4x5xf32",
        "",
        "4x3x1x5xf32",
        "",
        "([i, k, n])->([j, l, m, n]) {i=3, j=4, k=4, l=3, m=1, n=5} need_replication={i, j, k, l, m}",
    ),
    ("hlo.transpose", "2x3xf32", "permutation = array<i64: 1, 0>", "3x2xf32", "", "([j, i])->([i, j]) {i=3, j=2}"),
    (
        "hlo.slice",
        "8x3xf32",
        "start = array<i64: 2, 0>, limit = array<i64: 6, 3>, strides = array<i64: 2, 1>",
        "2x3xf32",
        "",
        "([i, j])->([i, j]) {i=2, j=3} permutation={i}",
    ),
    (
        "hlo.pad",
        "8x3xf32 f32",
        "low = array<i64: 1, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>",
        "9x3xf32",
        "",
        "([i, j], [])->([i, j]) {i=9, j=3} permutation={i}",
    ),
    (
        "hlo.reverse",
        "8x3xf32",
        "dimensions = array<i64: 0>",
        "8x3xf32",
        "",
        "([i, j])->([i, j]) {i=8, j=3} permutation={i}",
    ),
    (
        "hlo.dynamic_slice",
        "8x3xf32 i32 i32",
        "sizes = array<i64: 2, 3>",
        "2x3xf32",
        "",
        "([j, i], [], [])->([k, i]) {i=3, j=8, k=2} need_replication={j, k}",
    ),
    (
        "hlo.dynamic_update_slice",
        "8x3xf32 2x3xf32 i32 i32",
        "",
        "8x3xf32",
        "",
        "([i, j], [k, j], [], [])->([i, j]) {i=8, j=3, k=2} need_replication={i, k}",
    ),
    (
        "stablehlo.concatenate",
        "8x3xf32 2x3xf32",
        "dimension = 0 : i64",
        "10x3xf32",
        "",
        "([i, j], [i, j])->([i, j]) {i=10, j=3} permutation={i}",
    ),
    (
        "hlo.gather",
        "7x6x5x4xf32 3x7x2xi32",
        GATHER,
        "3x7x5x2xf32",
        "",
        "([j, l, k, m], [i, j, n])->([i, j, k, o]) {i=3, j=7, k=5, l=6, m=4, n=2, o=2} need_replication={l, m, n, o}",
    ),
    (
        "hlo.dot",
        "8x32xf32 32x16xf32",
        "lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>",
        "8x16xf32",
        "",
        "([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}",
    ),
    (
        "hlo.convolution",
        "2x5x9x6xf32 1x3x3x8xf32",
        f"{CONVOLUTION}, feature_groups = 2 : i64, batch_groups = 1 : i64",
        "2x5x5x8xf32",
        "",
        "([j, m, n, il], [o, p, l, ik])->([j, m, n, ik]) {i=2, j=2, k=4, l=3, m=5, n=5, o=1, p=3} "
        "reduction={l} need_replication={o, p} permutation={n}",
    ),
    (
        "hlo.convolution",
        "4x5x9x3xf32 1x3x3x8xf32",
        f"{CONVOLUTION}, feature_groups = 1 : i64, batch_groups = 2 : i64",
        "2x5x5x8xf32",
        "",
        "([ij, m, n, l], [o, p, l, ik])->([j, m, n, ik]) {i=2, j=2, k=4, l=3, m=5, n=5, o=1, p=3} "
        "reduction={l} need_replication={o, p} permutation={n}",
    ),
    (
        "hlo.reduce",
        "8x3xf32 f32",
        'kind = "add", dimensions = array<i64: 0>',
        "3xf32",
        "",
        "([i, j], [])->([j]) {i=8, j=3} reduction={i}",
    ),
    (
        "stablehlo.reduce",
        "8x3xf32 8x3xi32 f32 i32",
        "dimensions = array<i64: 1>",
        "8xf32 8xi32",
        PAIRS,
        "([i, j], [i, j], [], [])->([i], [i]) {i=8, j=3} reduction={j}",
    ),
    (
        "hlo.reduce_window",
        "8x9xf32 f32",
        'kind = "add", window = array<i64: 1, 3>, strides = array<i64: 1, 2>, padding = array<i64: 0, 0, 0, 0>, '
        "base_dilation = array<i64: 1, 1>, window_dilation = array<i64: 1, 1>",
        "8x4xf32",
        "",
        "([i, j], [])->([i, j]) {i=8, j=4} permutation={j}",
    ),
    (
        "stablehlo.reduce_window",
        "8x9xf32 f32",
        "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>",
        "8x4xf32",
        ADDED,
        "([i, j], [])->([i, j]) {i=8, j=4} permutation={j}",
    ),
    (
        "stablehlo.select_and_scatter",
        "8x9xf32 8x4xf32 f32",
        "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>",
        "8x9xf32",
        f"({LESS[1:-1]}, {ADDED[1:-1]})",
        "([i, j], [i, j], [])->([i, j]) {i=8, j=4} permutation={j}",
    ),
    (
        "stablehlo.scatter",
        "9x5xf32 3x1xi32 3x5xf32",
        SCATTER,
        "9x5xf32",
        ADDED,
        "([k, j], [i, l], [i, j])->([k, j]) {i=3, j=5, k=9, l=1} reduction={i} need_replication={k, l}",
    ),
    (
        "stablehlo.scatter",
        "9x5xf32 3x1xi32 3x5xf32",
        SCATTER,
        "9x5xf32",
        SECOND,
        "([j, i], [k, l], [m, i])->([j, i]) {i=5, j=9, k=3, l=1, m=3} need_replication={j, k, l, m}",
    ),
    (  # a start that is not 0 puts a window as large as the operand out of bounds: in part
        "stablehlo.scatter",
        "9x5xf32 3x1xi32 3x9x5xf32",
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>",
        "9x5xf32",
        ADDED,
        "([k, j], [i, l], [i, m, j])->([k, j]) {i=3, j=5, k=9, l=1, m=9} reduction={i} need_replication={k, l, m}",
    ),
    (
        "hlo.cholesky",
        "2x4x4xf32",
        "lower = true",
        "2x4x4xf32",
        "",
        "([i, j, k])->([i, j, k]) {i=2, j=4, k=4} need_replication={j, k}",
    ),
    (
        "hlo.triangular_solve",
        "2x4x4xf32 2x4x3xf32",
        'left_side = true, lower = true, unit_diagonal = false, transpose_a = "NO_TRANSPOSE"',
        "2x4x3xf32",
        "",
        "([i, k, l], [i, m, j])->([i, n, j]) {i=2, j=3, k=4, l=4, m=4, n=4} need_replication={k, l, m, n}",
    ),
    (
        "hlo.fft",
        "3x8xf32",
        'kind = "RFFT", length = array<i64: 8>',
        "3x5xcomplex<f32>",
        "",
        "([i, j])->([i, k]) {i=3, j=8, k=5} need_replication={j, k}",
    ),
    (
        "hlo.top_k",
        "3x8xf32",
        "k = 2 : i64",
        "3x2xf32 3x2xi32",
        "",
        "([i, j])->([i, k], [i, l]) {i=3, j=8, k=2, l=2} need_replication={j, k, l}",
    ),
    (
        "stablehlo.sort",
        "3x8xf32",
        "dimension = 1 : i64, is_stable = true",
        "3x8xf32",
        LESS,
        "([i, j])->([i, j]) {i=3, j=8} need_replication={j}",
    ),
    (
        "hlo.rng_bit_generator",
        "2xui64",
        'algorithm = "PHILOX"',
        "2xui64 6xui32",
        "",
        "([i])->([j], [k]) {i=2, j=2, k=6} need_replication={i, j, k}",
    ),
    (
        "stablehlo.optimization_barrier",
        "2xui64 6xui32",
        "",
        "2xui64 6xui32",
        "",
        "([i], [j])->([i], [j]) {i=2, j=6}",
    ),
    (
        "stablehlo.all_reduce",
        "3x4xf32",
        "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>",
        "3x4xf32",
        ADDED,
        "([i, j])->([i, j]) {i=3, j=4}",
    ),
    (
        "stablehlo.reduce_scatter",
        "3x4xf32",
        "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64",
        "3x2xf32",
        ADDED,
        "([i, j])->([i, k]) {i=3, j=4, k=2} need_replication={j, k}",
    ),
    ("hlo.replica_id", "", "", "ui32", "", "()->([])"),
    ("hlo.partition_id", "", "", "ui32", "", "()->([])"),
    ("hlo.all_reduce", "3x4xf32", f'{GROUPS}, kind = "add"', "3x4xf32", "", "([i, j])->([i, j]) {i=3, j=4}"),
    ("hlo.sharding_constraint", "3x4xf32", "", "3x4xf32", "", "([i, j])->([i, j]) {i=3, j=4}"),
    ("hlo.collective_broadcast", "3x4xf32", GROUPS, "3x4xf32", "", "([i, j])->([i, j]) {i=3, j=4}"),
    (
        "hlo.collective_permute",
        "3x4xf32",
        'pairs = array<i64: 0, 1>, processes = 2 : i64, channel = 0 : i64, origin = "here"',
        "3x4xf32",
        "",
        "([i, j])->([i, j]) {i=3, j=4}",
    ),
    (
        "hlo.reduce_scatter",
        "3x4xf32",
        f'{GROUPS}, kind = "add", dimension = 1 : i64',
        "3x2xf32",
        "",
        "([i, j])->([i, k]) {i=3, j=4, k=2} need_replication={j, k}",
    ),
    (
        "hlo.all_gather",
        "3x4xf32",
        f"{GROUPS}, dimension = 1 : i64",
        "3x8xf32",
        "",
        "([i, j])->([i, k]) {i=3, j=4, k=8} need_replication={j, k}",
    ),
    (
        "hlo.all_to_all",
        "3x4x5xf32",
        f"{GROUPS}, split_dimension = 1 : i64, concat_dimension = 0 : i64",
        "6x2x5xf32",
        "",
        "([j, k, i])->([l, m, i]) {i=5, j=3, k=4, l=6, m=2} need_replication={j, k, l, m}",
    ),
    *(
        (
            "hlo.exchange",
            "2xi64 2x4xf32",
            f'{MEETING}, kind = "{kind}", sources = array<i64{sources}>',
            f"{result}xf32",
            "",
            printed,
        )
        for kind, sources, result, printed in (
            ("gather", "", "2x2x4", "([k], [i, j])->([l, i, j]) {i=2, j=4, k=2, l=2} need_replication={k, l}"),
            ("blocks", "", "2x4", "([j], [k, i])->([l, i]) {i=4, j=2, k=2, l=2} need_replication={j, k, l}"),
            ("permute", ": 1, 0", "2x4", "([k], [i, j])->([i, j]) {i=2, j=4, k=2} need_replication={k}"),
        )
    ),
]


def module(name: str, operands: str, attributes: str, results: str, regions: str = "") -> str:
    takes, gives = ([f"tensor<{each}>" for each in types.split()] for types in (operands, results))
    arguments = ", ".join(f"%{number}: {each}" for number, each in enumerate(takes))
    values = ", ".join(f"%{number}" for number in range(len(takes)))
    region = f" {regions}" if regions else ""
    return f"""func.func @main({arguments}) {{
      %r:{len(gives)} = "{name}"({values}){region} {{{attributes}}} : ({", ".join(takes)}) -> ({", ".join(gives)})
      return
    }}"""


def the_op(text: str) -> ir.Operation:
    parsed = ir.Module.parse(text)
    parsed.operation.verify()
    KEPT.append(parsed)
    return next(iter(parsed.body.operations[0].regions[0].blocks[0].operations)).operation


KEPT: list[ir.Module] = []  # an op lives as long as its module


@pytest.fixture(scope="module", autouse=True)
def _context() -> Iterator[None]:
    with make_context(), ir.Location.unknown():
        yield
        KEPT.clear()


@pytest.mark.parametrize(("name", "operands", "attributes", "results", "regions", "printed"), PRINTED)
def test_printed(name: str, operands: str, attributes: str, results: str, regions: str, printed: str) -> None:
    op = the_op(module(name, operands, attributes, results, regions))
    assert str(factors_of(op)) == printed
    assert reason(op) is None


def test_every_op_has_factors_or_a_reason() -> None:
    said = {record.name for record in records() if not isinstance(record.factors, str)}
    assert {name for name, *_ in PRINTED} >= said
    unsaid = [record for record in records() if record.name not in said and not record.elementwise]
    default = record_of("hlo.add").factors
    assert not [record.name for record in unsaid if record.factors == default]


def test_no_factors() -> None:
    op = the_op(
        'func.func @main() { %0 = "hlo.constant"() {value = dense<1> : tensor<2xi32>} : () -> tensor<2xi32> return }'
    )
    assert factors_of(op) is None
    assert reason(op) == "its elements are data"


def test_convolution_that_crops_more_than_there_is() -> None:
    cropping = CONVOLUTION.replace("0, 0, 1, 1", "0, 0, -6, -6")
    op = the_op(
        module(
            "hlo.convolution",
            "2x5x9x3xf32 1x3x3x8xf32",
            f"{cropping}, feature_groups = 1 : i64, batch_groups = 1 : i64",
            "2x5x0x8xf32",
        )
    )
    assert Kind.REDUCED in check(op)


# --- slices along factors --------------------------------------------------------------------------------------------


def part(array: np.ndarray, dimensions: Tensor, rule: Factors, number: int, piece: slice) -> np.ndarray:
    """The slice of a tensor along a factor: its dimensions taken apart into factors and put together again."""
    if not any(number in dimension for dimension in dimensions):
        return array
    fine: list[int] = []
    index: list[slice] = []
    for dimension, size in zip(dimensions, array.shape, strict=True):
        sizes = [rule.factors[each].size for each in dimension] if number in dimension else [size]
        fine += sizes
        index += [piece if number in dimension and each == number else slice(None) for each in dimension[: len(sizes)]]
    taken = array.reshape(fine)[tuple(index)]
    merged, at = [], 0
    for dimension in dimensions:
        count = len(dimension) if number in dimension else 1
        merged.append(int(np.prod(taken.shape[at : at + count], dtype=int)))
        at += count
    return taken.reshape(merged)


def on_slices(op: ir.Operation, rule: Factors, number: int, size: int) -> ir.Operation:
    """The op over another size of a factor."""
    resized = rule.with_sizes({number: size})

    def type_of(value: ir.Value, dimensions: Tensor) -> ir.Type:
        sizes = [
            resized.size(dimension) if number in dimension else whole
            for dimension, whole in zip(dimensions, shape(value), strict=True)
        ]
        return tensor(sizes, value.type.element_type)

    block = ir.Module.create()
    KEPT.append(block)
    clone = op.clone(ir.InsertionPoint(block.body))
    for value, dimensions in zip(clone.results, rule.results, strict=True):
        value.set_type(type_of(value, dimensions))
    for place, dimensions in enumerate(rule.operands):
        wanted = type_of(op.operands[place], dimensions)
        clone.operands[place] = ir.Operation.create(
            "builtin.unrealized_conversion_cast", [wanted], ip=ir.InsertionPoint(clone)
        ).result
    for name, value in resized.attributes_of(op).items():
        clone.attributes[name] = attribute(value)
    if op.name.startswith("hlo."):  # upstream's verifiers object to what legalization makes of StableHLO ops
        clone.verify()
    return clone


def identity(kind: str, dtype: np.dtype) -> object:
    element = combiner(kind).identity
    assert element is not None
    if dtype.kind == "b":
        return element.integer(0, 1) == 1
    return element.integer(*integer_info(dtype)[1:]) if is_integer_dtype(dtype) else element.real


def arguments(op: ir.Operation) -> list[np.ndarray]:
    """Small numbers, that start indices have too: in bounds, and not."""
    found = []
    for value in op.operands:
        dtype, sizes = numpy_dtype(value.type.element_type), shape(value)
        numbers = RNG.integers(0 if dtype.kind in "ub" else -2, 2 if dtype.kind == "b" else 6, sizes)
        scaled = numbers / 2 if is_float_dtype(dtype) or dtype.kind == "c" else numbers
        found.append(np.asarray(scaled).astype(dtype))
    return found


def run(op: ir.Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return Interpreter().leaf(op, operands, {})


def same(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Equal as integers; as floats up to rounding: NumPy's vectors and what is left of them round differently."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype.kind == "c" or is_float_dtype(found.dtype):
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found.astype(object), expected.astype(object))


def check(op: ir.Operation) -> list[Kind]:
    """Holds an op to its factors; the kinds of those that were checked."""
    rule = factors_of(op)
    assert rule is not None
    inputs = arguments(op)
    try:
        whole = run(op, inputs)
    except UnsupportedError:
        return []
    checked = []
    for number, factor in enumerate(rule.factors):
        if factor.kind not in (Kind.PARALLEL, Kind.REDUCED) or factor.size < 2:
            continue
        if factor.kind is Kind.REDUCED and not rule.combiner:
            continue
        cut = int(RNG.integers(1, factor.size))
        pieces = []
        for piece in (slice(0, cut), slice(cut, factor.size)):
            made = on_slices(op, rule, number, piece.stop - piece.start)
            taken = [part(x, tensor_, rule, number, piece) for x, tensor_ in zip(inputs, rule.operands, strict=True)]
            for place in rule.initial if factor.kind is Kind.REDUCED and piece.start else ():
                taken[place] = np.full_like(taken[place], identity(rule.combiner, taken[place].dtype))
            pieces.append((piece, run(made, taken)))
        for result, tensor_ in enumerate(rule.results):
            if factor.kind is Kind.PARALLEL:
                for piece, found in pieces:
                    same(found[result], part(whole[result], tensor_, rule, number, piece), 1e-5)
            else:
                together = combiner(rule.combiner).function(*(found[result] for _, found in pieces))
                same(together, whole[result], 1e-2)
        checked.append(factor.kind)
    return checked


@pytest.mark.parametrize(("name", "operands", "attributes", "results", "regions", "printed"), PRINTED)
def test_slices(name: str, operands: str, attributes: str, results: str, regions: str, printed: str) -> None:
    check(the_op(module(name, operands, attributes, results, regions)))


def test_slices_of_the_ops_of_random_programs() -> None:
    checked: dict[str, int] = {}
    for seed in range(60):
        program = generate(seed)
        if program.variant or "mhlo.num_partitions" in program.case.module:
            continue
        parsed = ir.Module.parse(program.case.module)
        KEPT.append(parsed)
        run_stages(parsed, "", "hlo", program.options)
        for op in operations(parsed.operation):
            if factors_of(op) is None or not all(map(is_tensor, (*op.operands, *op.results))):
                continue
            if any(0 in shape(value) for value in op.operands):
                continue
            checked[op.name] = checked.get(op.name, 0) + len(check(op))
    assert sum(checked.values()) > 500
    assert len([name for name, count in checked.items() if count]) > 40
