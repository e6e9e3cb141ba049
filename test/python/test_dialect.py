"""The hlo dialect: what its verifiers accept and refuse, its page, the guide for adding an op."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stablehlo_py.dialect import docs
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.dialect.ops import Hlo, record_of, records
from stablehlo_py.dialect.ops.record import op
from stablehlo_py.mlir import MLIRError, ir

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def context() -> Iterator[ir.Context]:
    made = make_context()
    with made, ir.Location.unknown():
        yield made


F, F2, F23, B4, C4, INDEX = (
    "tensor<4xf32>",
    "tensor<2xf32>",
    "tensor<2x3xf32>",
    "tensor<4xi1>",
    "tensor<4xcomplex<f32>>",
    "tensor<i32>",
)
S = "tensor<f32>"
GATHER = (
    "offset_dims = array<i64: 1>, collapsed_slice_dims = array<i64: 0>, operand_batching_dims = array<i64>, "
    "start_indices_batching_dims = array<i64>, start_index_map = array<i64: {map}>, index_vector_dim = 1 : i64, "
    "slice_sizes = array<i64: {sizes}>"
)
CONVOLUTION = (
    "strides = array<i64: 1>, padding = array<i64: 0, 0>, lhs_dilation = array<i64: 1>, rhs_dilation = array<i64: 1>, "
    "reversal = array<i64: 0>, input_dims = array<i64: 0, 1, 2>, kernel_dims = array<i64: 1, 0, 2>, "
    "output_dims = array<i64: 0, 1, 2>, feature_groups = {groups} : i64, batch_groups = 1 : i64"
)
WINDOW = (
    'kind = "{kind}", window = array<i64: {window}>, strides = array<i64: 1>, base_dilation = array<i64: 1>, '
    "window_dilation = array<i64: 1>, padding = array<i64: 0, 0>"
)
SOLVE = 'left_side = {left}, lower = true, unit_diagonal = false, transpose_a = "{transpose}"'
TOKEN, ORIGIN = "tensor<0xi8>", 'origin = "stablehlo.send", '
PROCESS, PAIR = "tensor<2xi64>", "tensor<2x4xf32>"
GROUP = (
    "groups = array<i64: {groups}>, width = {width} : i64, processes = 4 : i64, channel = 0 : i64, "
    'origin = "stablehlo.all_reduce"'
)
GROUPED = GROUP.format(groups="1, 0, 2, 3", width=2)
RAGGED = GROUP.format(groups="1, 0, 2, -1", width=2)
PAIRS = 'pairs = array<i64: {}>, processes = 4 : i64, channel = 0 : i64, origin = "stablehlo.collective_permute"'
EXCHANGE = 'barrier = 0 : i64, kind = "{kind}", sources = array<i64{sources}>, ' + RAGGED

# op, operand types, attributes, result types
VALID = [
    ("infeed", [PROCESS, TOKEN], ORIGIN + "port = 0 : i64", f"{F}, {TOKEN}"),
    ("outfeed", [PROCESS, TOKEN, F], ORIGIN + "port = 0 : i64", TOKEN),
    ("send", [PROCESS, TOKEN, F], ORIGIN + "targets = array<i64: 1, -1>, channel = 0 : i64", TOKEN),
    ("recv", [PROCESS, TOKEN], ORIGIN + "sources = array<i64: -1, 0>, channel = 0 : i64", f"{F}, {TOKEN}"),
    ("replica_id", [], "", "tensor<ui32>"),
    ("all_reduce", [F], f'kind = "add", {RAGGED}', F),
    ("reduce_scatter", [F], f'kind = "add", dimension = 0 : i64, {GROUPED}', F2),
    ("all_gather", [F], f"dimension = 0 : i64, {GROUPED}", "tensor<8xf32>"),
    ("all_to_all", [F23], f"split_dimension = 0 : i64, concat_dimension = 1 : i64, {GROUPED}", "tensor<1x6xf32>"),
    ("collective_broadcast", [F], RAGGED, F),
    ("collective_permute", [F], PAIRS.format("0, 1, 1, 0"), F),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="gather", sources=""), PAIR),
    ("exchange", [PROCESS, PAIR], EXCHANGE.format(kind="blocks", sources=""), PAIR),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="permute", sources=": 1, 0, -1, -1"), F),
    ("add", [F, F], "", F),
    ("and", [B4, B4], "", B4),
    ("abs", [C4], "", F),
    ("complex", [F, F], "", C4),
    ("is_finite", [F], "", B4),
    ("compare", [F, F], 'direction = "LT", total_order', B4),
    ("select", [B4, F, F], "", F),
    ("bitcast_convert", ["tensor<2xi32>"], "", "tensor<2x4xi8>"),
    ("bitcast_convert", ["tensor<2x4xi8>"], "", "tensor<2xi32>"),
    ("constant", [], "value = dense<1.0> : tensor<2xf32>", "tensor<complex<f32>>"),
    ("pad", [F, S], "low = array<i64: -1>, high = array<i64: 2>, interior = array<i64: 1>", "tensor<8xf32>"),
    ("dynamic_slice", [F23, INDEX, INDEX], "sizes = array<i64: 1, 2>", "tensor<1x2xf32>"),
    ("gather", [F23, "tensor<5x1xi32>"], GATHER.format(map=0, sizes="1, 3"), "tensor<5x3xf32>"),
    ("convolution", ["tensor<1x2x8xf32>", "tensor<4x2x3xf32>"], CONVOLUTION.format(groups=1), "tensor<1x4x6xf32>"),
    ("reduce", [F23, S], 'kind = "add", dimensions = array<i64: 1>', F2),
    ("reduce_window", [F, S], WINDOW.format(kind="maximum", window=2), "tensor<3xf32>"),
    ("cholesky", ["tensor<5x3x3xf64>"], "lower = true", "tensor<5x3x3xf64>"),
    (
        "triangular_solve",
        ["tensor<3x3xf32>", "tensor<3x2xf32>"],
        SOLVE.format(left="true", transpose="ADJOINT"),
        "tensor<3x2xf32>",
    ),
    ("fft", ["tensor<8xf32>"], 'kind = "RFFT", length = array<i64: 8>', "tensor<5xcomplex<f32>>"),
    ("fft", ["tensor<5xcomplex<f32>>"], 'kind = "IRFFT", length = array<i64: 8>', "tensor<8xf32>"),
    ("rng_bit_generator", ["tensor<2xui64>"], 'algorithm = "PHILOX"', "tensor<2xui64>, tensor<3xui8>"),
    ("random_state", [PROCESS], "site = 0 : i64", "tensor<3xui64>"),
    ("top_k", [F23], "k = 2 : i64", "tensor<2x2xf32>, tensor<2x2xi32>"),
]
INVALID = [
    ("infeed", [PROCESS, F], ORIGIN + "port = 0 : i64", f"{F}, {F}", "token must be a tensor<0xi8>"),
    ("infeed", [F, TOKEN], ORIGIN + "port = 0 : i64", f"{F}, {TOKEN}", "process must be a tensor<2xi64>"),
    ("send", [PROCESS, TOKEN, F], ORIGIN + "targets = array<i64: 1, 1>, channel = 0 : i64", TOKEN, "be different"),
    ("recv", [PROCESS, TOKEN], ORIGIN + "sources = array<i64: 2>, channel = 0 : i64", f"{F}, {TOKEN}", "or -1"),
    ("partition_id", [], "", "tensor<i64>", "result must be a tensor<ui32>"),
    ("all_reduce", [F], f'kind = "subtract", {GROUPED}', F, "kind must be one of"),
    ("all_reduce", [F], 'kind = "add", ' + GROUP.format(groups="0, 1, 2", width=2), F, "rows of `width`"),
    ("all_reduce", [F], 'kind = "add", ' + GROUP.format(groups="0, 4", width=2), F, "numbers of processes"),
    ("all_reduce", [F], 'kind = "add", ' + GROUP.format(groups="0, 0", width=2), F, "in two groups"),
    ("reduce_scatter", [F], f'kind = "add", dimension = 1 : i64, {GROUPED}', F2, "dimension must be below 1"),
    ("reduce_scatter", ["tensor<3xf32>"], f'kind = "add", dimension = 0 : i64, {GROUPED}', F2, "divisible by 2"),
    ("reduce_scatter", [F], f'kind = "add", dimension = 0 : i64, {GROUPED}', F, "result shape must be (2,)"),
    ("all_gather", [F], f"dimension = 0 : i64, {GROUPED}", F, "result shape must be (8,)"),
    ("all_gather", [F], f"dimension = 0 : i64, {GROUPED}", "tensor<8xf64>", "must keep the element type"),
    ("all_gather", [F], f"dimension = 0 : i64, {RAGGED}", "tensor<8xf32>", "groups must be of one size"),
    ("all_to_all", [F], f"split_dimension = 0 : i64, concat_dimension = 1 : i64, {GROUPED}", F, "must be below 1"),
    ("all_to_all", [F], f"split_dimension = 0 : i64, concat_dimension = 0 : i64, {GROUPED}", F2, "must be (4,)"),
    ("collective_permute", [F], PAIRS.format("0"), F, "source and target in turn"),
    ("collective_permute", [F], PAIRS.format("0, 4"), F, "numbers of processes"),
    ("collective_permute", [F], PAIRS.format("0, 1, 0, 2"), F, "sends once at most"),
    ("exchange", [F, F], EXCHANGE.format(kind="gather", sources=""), PAIR, "process must be a tensor<2xi64>"),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="swap", sources=""), F, "kind must be one of"),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="gather", sources=""), "tensor<3x4xf32>", "must be (2, 4)"),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="gather", sources=""), "tensor<2x4xf64>", "keep the element type"),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="blocks", sources=""), F, "dimension must have `width` blocks"),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="permute", sources=": 1, 0"), F, "a source for each process"),
    ("exchange", [PROCESS, F], EXCHANGE.format(kind="permute", sources=": 2, 0, 2, 2"), F, "not in the group"),
    ("random_state", [F], "site = 0 : i64", "tensor<3xui64>", "process must be a tensor<2xi64>"),
    ("random_state", [PROCESS], "site = 0 : i64", "tensor<2xui64>", "state must be a tensor<3xui64>"),
    ("random_state", [PROCESS], "site = -1 : i64", "tensor<3xui64>", "site must be a number"),
    ("add", [B4, B4], "", B4, "needs elements of type number, not i1"),
    ("floor", [C4], "", C4, "needs elements of type float"),
    ("popcnt", [F], "", F, "needs elements of type integer"),
    ("abs", [C4], "", C4, "result elements must be f32"),
    ("complex", [F, F], "", F, "result must be complex"),
    ("is_finite", [F], "", F, "result elements must be i1"),
    ("is_finite", [F], "", "tensor<3xi1>", "one shape"),
    ("compare", [F, F], "", B4, "lacks attribute 'direction'"),
    ("compare", [F, F], 'direction = "LESS"', B4, "direction must be one of"),
    ("compare", [C4, C4], 'direction = "LT"', B4, "no order"),
    ("compare", [B4, B4], 'direction = "LT", total_order', B4, "total_order is for floats"),
    ("select", [F, F, F], "", F, "pred elements must be i1"),
    ("convert", [F], "", "tensor<3xi8>", "one shape"),
    ("bitcast_convert", ["tensor<2xi32>"], "", "tensor<2x2xi8>", "result shape must be (2, 4)"),
    ("bitcast_convert", ["tensor<2x2xi8>"], "", "tensor<2xi32>", "sizes with 2 == 4"),
    ("reduce_precision", [F], "exponent_bits = 0 : i64, mantissa_bits = 3 : i64", F, "exponent_bits >= 1"),
    ("constant", [], "value = dense<1.0> : tensor<3xf32>", F2, "value must be of shape (2,)"),
    ("constant", [], "value = dense<1> : tensor<2xi32>", F2, "elements f32"),
    ("constant", [], "value = dense<(1.0, 2.0)> : tensor<complex<f32>>", "tensor<complex<f32>>", "interleaved"),
    ("iota", [], "dimension = 1 : i64", F, "outside the rank"),
    ("iota", [], "dimension = 0 : i64", B4, "must be numbers"),
    ("broadcast", [F], "dimensions = array<i64: 0>", F23, "must have the operand's size 4"),
    ("broadcast", ["tensor<2x3xf32>"], "dimensions = array<i64: 1, 0>", "tensor<3x2xf32>", "strictly increase"),
    ("broadcast", [F], "dimensions = array<i64: 2>", F23, "outside the result's rank"),
    ("broadcast", [F], "dimensions = array<i64>", F23, "one entry of dimensions"),
    ("reshape", [F], "", F23, "number of elements"),
    ("reshape", [F], "", "tensor<4xi32>", "keep the element type"),
    ("transpose", [F23], "permutation = array<i64: 0, 0>", F23, "every dimension once"),
    ("transpose", [F23], "permutation = array<i64: 1, 0>", F23, "result shape must be (3, 2)"),
    ("slice", [F], "start = array<i64: 1>, limit = array<i64: 5>, strides = array<i64: 1>", F, "sizes with 5 <= 4"),
    (
        "slice",
        [F],
        "start = array<i64: 1>, limit = array<i64: 3>, strides = array<i64: 0>",
        F2,
        "sizes with 1 <= 0",
    ),
    (
        "slice",
        [F],
        "start = array<i64: 1>, limit = array<i64: 4>, strides = array<i64: 2>",
        S,
        "result shape must be (2,)",
    ),
    ("slice", [F], 'start = "x", limit = array<i64: 4>, strides = array<i64: 2>', S, "'hlo.slice' op"),
    (
        "pad",
        [F, F],
        "low = array<i64: 0>, high = array<i64: 0>, interior = array<i64: 0>",
        F,
        "padding_value must be a scalar",
    ),
    (
        "pad",
        [F, S],
        "low = array<i64: 0>, high = array<i64: 1>, interior = array<i64: 0>",
        F,
        "result shape must be (5,)",
    ),
    ("reverse", [F], "dimensions = array<i64: 1>", F, "different dimensions below 1"),
    ("dynamic_slice", [F, INDEX, INDEX], "sizes = array<i64: 2>", F2, "one start index per dimension"),
    ("dynamic_slice", [F, INDEX], "sizes = array<i64: 5>", "tensor<5xf32>", "sizes with 5 <= 4"),
    ("dynamic_slice", [F, S], "sizes = array<i64: 2>", F2, "integer scalars"),
    ("dynamic_update_slice", [F2, F, INDEX], "", F2, "sizes with 4 <= 2"),
    ("dynamic_update_slice", [F, "tensor<2xi32>", INDEX], "", F, "one element type"),
    (
        "gather",
        [F23, "tensor<5x1xi32>"],
        GATHER.format(map=0, sizes="1, 4"),
        "tensor<5x4xf32>",
        "sizes with 4 <= 3",
    ),
    ("gather", [F23, "tensor<5x1xi32>"], GATHER.format(map=0, sizes="2, 3"), "tensor<5x3xf32>", "go away must be 1"),
    ("gather", [F23, "tensor<5x2xi32>"], GATHER.format(map=0, sizes="1, 3"), "tensor<5x3xf32>", "needs 2 entries"),
    (
        "gather",
        [F23, "tensor<5x1xi32>"],
        GATHER.format(map=0, sizes="1, 3"),
        "tensor<3x5xf32>",
        "result shape must be (5, 3)",
    ),
    (
        "dot",
        [F23, F23],
        "lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>",
        "tensor<2x3xf32>",
        "sizes with 3 == 2",
    ),
    (
        "dot",
        ["tensor<2x3xi8>", "tensor<3x2xi8>"],
        "lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>",
        "tensor<2x2xf32>",
        "all integers, all floats or all complex",
    ),
    (
        "convolution",
        ["tensor<1x2x8xf32>", "tensor<4x2x3xf32>"],
        CONVOLUTION.format(groups=2),
        "tensor<1x4x6xf32>",
        "sizes with 2 == 4",
    ),
    (
        "convolution",
        ["tensor<1x2x8xf32>", "tensor<4x2x3xf32>"],
        CONVOLUTION.format(groups=1),
        "tensor<1x4x8xf32>",
        "(1, 4, 6)",
    ),
    ("reduce", [F23, S], 'kind = "sum", dimensions = array<i64: 1>', F2, "kind must be one of"),
    ("reduce", [F23, F2], 'kind = "add", dimensions = array<i64: 1>', F2, "init must be a scalar"),
    ("reduce", [F23, S], 'kind = "add", dimensions = array<i64: 2>', F2, "different dimensions below 2"),
    ("reduce", [F, S], 'kind = "add", dimensions = array<i64>', F, "must not be empty"),
    ("reduce", [F, S], 'kind = "and", dimensions = array<i64: 0>', S, "needs integers or i1"),
    ("reduce", [B4, "tensor<i1>"], 'kind = "add", dimensions = array<i64: 0>', "tensor<i1>", "is logic"),
    ("reduce_window", [F, S], WINDOW.format(kind="add", window=2), F, "result shape must be (3,)"),
    ("reduce_window", [F, S], WINDOW.format(kind="add", window="2, 2"), F, "window has the wrong number"),
    ("cholesky", [F23], "lower = true", F23, "square matrices"),
    ("cholesky", ["tensor<3x3xi32>"], "lower = true", "tensor<3x3xi32>", "needs elements of type float or complex"),
    (
        "triangular_solve",
        ["tensor<3x3xf32>", "tensor<3x2xf32>"],
        SOLVE.format(left="true", transpose="T"),
        "tensor<3x2xf32>",
        "transpose_a must",
    ),
    (
        "triangular_solve",
        ["tensor<3x3xf32>", "tensor<3x2xf32>"],
        SOLVE.format(left="false", transpose="ADJOINT"),
        "tensor<3x2xf32>",
        "sizes with 3 == 2",
    ),
    ("fft", ["tensor<8xf32>"], 'kind = "FFT", length = array<i64: 8>', "tensor<8xf32>", "elements of another kind"),
    (
        "fft",
        ["tensor<8xf32>"],
        'kind = "RFFT", length = array<i64: 8>',
        "tensor<8xcomplex<f32>>",
        "result shape must be (5,)",
    ),
    (
        "rng_bit_generator",
        ["tensor<2xui64>"],
        'algorithm = "MINE"',
        "tensor<2xui64>, tensor<3xui8>",
        "algorithm must be one of",
    ),
    ("top_k", [F23], "k = 4 : i64", "tensor<2x4xf32>, tensor<2x4xi32>", "sizes with 4 <= 3"),
    ("top_k", [F23], "k = 2 : i64", "tensor<2x2xf32>, tensor<2x2xi64>", "indices must be i32"),
]


def _parse(op: str, operands: list[str], attributes: str, results: str) -> ir.Module:
    arguments = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(operands))
    values = ", ".join(f"%a{i}" for i in range(len(operands)))
    body = f'"hlo.{op}"({values}) {{{attributes}}} : ({", ".join(operands)}) -> ({results})'
    return ir.Module.parse(f"func.func @f({arguments}) {{\n  %r:{results.count('tensor<')} = {body}\n  return\n}}")


@pytest.mark.parametrize(("op", "operands", "attributes", "results"), VALID)
def test_accepted(context, op, operands, attributes, results):
    assert _parse(op, operands, attributes, results).operation.verify()


@pytest.mark.parametrize(("op", "operands", "attributes", "results", "reason"), INVALID)
def test_refused(context, op, operands, attributes, results, reason):
    with pytest.raises(MLIRError) as caught:
        _parse(op, operands, attributes, results)
    assert f"'hlo.{op}' op" in str(caught.value)
    assert reason in str(caught.value)


def test_operands_of_one_type(context):
    with pytest.raises(MLIRError):
        _parse("add", [F, F2], "", F)


def test_every_op_has_a_verifier_and_a_description():
    assert {record.operation for record in records()} - {None} == set(Hlo.operations)
    for record in records():
        assert record.doc
        assert record.operation is None or "verify_invariants" in vars(record.operation)


def test_signatures_are_read():
    update, top_k = record_of("hlo.dynamic_update_slice"), record_of("hlo.top_k")
    assert update.operands == ("operand", "update", "start_indices")
    assert (top_k.operands, top_k.attributes) == (("operand",), ("k",))


@pytest.mark.parametrize(
    "text", ["", "bad", "bad(x: any)", "bad(x: any) -> (y: S)", "bad(x) -> (y: any)", "bad(x: any, ) -> ()"]
)
def test_what_is_no_signature_is_refused(text):
    with pytest.raises(ValueError, match="signature"):
        op(text, "Nothing.")
    assert record_of("hlo.bad") is None


def test_the_page_is_current():
    assert docs.PAGE.read_text() == docs.generate(), "run `python -m stablehlo_py.dialect.docs`"
    assert docs.main(["--check"]) == 0


def test_a_page_that_is_not_current_is_found(tmp_path):
    page = tmp_path / "page.md"
    assert docs.main(["--check", "--output", str(page)]) == 1
    assert docs.main(["--output", str(page)]) == 0
    assert docs.main(["--check", "--output", str(page)]) == 0


def test_page_of_types_holds_the_formats() -> None:
    rows = [
        row.split("|")[1:-1] for row in (ROOT / "docs" / "types.md").read_text().splitlines() if row.count("|") == 10
    ]
    found = {row[0].strip(" `"): [cell.strip(" `") for cell in row[1:]] for row in rows[2:]}
    expected = {
        name: [
            numpy_dtype(ir.Type.parse(name, make_context())).name,
            *map(str, (of.bits, of.exponent_bits, of.mantissa_bits, of.bias)),
            f"{of.largest:.6g}",
            f"{of.smallest:.6g}",
            of.specials.name,
        ]
        for name, of in FORMATS.items()
    }
    assert found == expected
