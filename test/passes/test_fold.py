"""Folding: the right bits on special values, and restraint where compile time and run time could differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fold import Fold

Check = Callable[..., str]
I32, F32, U8 = "tensor<4xi32>", "tensor<4xf32>", "tensor<4xui8>"


def constant(values: str, type_: str, name: str = "%c") -> str:
    return f'{name} = "hlo.constant"() {{value = dense<{values}> : {type_}}} : () -> {type_}\n'


def main(body: str, type_: str) -> str:
    return f"func.func @main() -> {type_} {{\n{body}\nreturn %r : {type_}\n}}"


def folded(text: str, context: ir.Context) -> np.ndarray | None:
    module = ir.Module.parse(text)
    Fold().run(module)
    assert module.operation.verify()
    block = module.body.operations[0].regions[0].blocks[0]
    first = block.operations[0].operation
    return np.array(constant_value(first)) if first.name == "hlo.constant" and len(list(block)) == 2 else None


BINARY = [
    ("add", I32, "[2147483647, -1, 5, -2147483648]", "[1, 1, 6, -1]", [-(2**31), 0, 11, 2**31 - 1]),
    ("multiply", I32, "[65536, -3, 7, 2147483647]", "[65536, 3, 0, 2]", [0, -9, 0, -2]),
    ("divide", I32, "[7, -7, -2147483648, 5]", "[-2, 2, -1, 0]", [-3, -3, -(2**31), -1]),
    ("remainder", I32, "[7, -7, -2147483648, 5]", "[-2, 2, -1, 0]", [1, -1, 0, 5]),
    ("divide", U8, "[7, 255, 254, 5]", "[2, 255, 255, 0]", [3, 1, 0, 255]),
    ("power", I32, "[3, -2, 0, 2147483647]", "[4, 3, 0, 2]", [81, -8, 1, 1]),
    ("shift_left", I32, "[1, -1, 3, 1]", "[31, 32, -1, 4]", [-(2**31), 0, 0, 16]),
    ("shift_right_arithmetic", I32, "[-8, -8, 8, 8]", "[1, 40, 40, 2]", [-4, -1, 0, 2]),
    ("shift_right_logical", I32, "[-8, -8, 8, 8]", "[1, 32, -1, 2]", [2**31 - 4, 0, 0, 2]),
    ("and", I32, "[12, -1, 0, 5]", "[10, 7, 9, 3]", [8, 7, 0, 1]),
    ("xor", I32, "[12, -1, 0, 5]", "[10, 7, 9, 3]", [6, -8, 9, 6]),
    ("maximum", F32, "[0x7FC00000, -0.0, 0.0, 2.0]", "[1.0, 0.0, -0.0, 3.0]", [np.nan, 0.0, 0.0, 3.0]),
    ("minimum", F32, "[1.0, -0.0, 0.0, 2.0]", "[0x7FC00000, 0.0, -0.0, 3.0]", [np.nan, -0.0, -0.0, 2.0]),
    (
        "subtract",
        F32,
        "[0x7F800000, 1.0, -0.0, 0.0]",
        "[0x7F800000, 0.1, 0.0, 0.0]",
        [np.nan, np.float32(1) - np.float32(0.1), -0.0, 0.0],
    ),
    (
        "divide",
        F32,
        "[1.0, -1.0, 0.0, 1.0]",
        "[0.0, 0.0, 0.0, 3.0]",
        [np.inf, -np.inf, np.nan, np.float32(1) / np.float32(3)],
    ),
]


@pytest.mark.parametrize(("name", "type_", "x", "y", "expected"), BINARY)
def test_binary(mlir_context: ir.Context, name: str, type_: str, x: str, y: str, expected: list[float]) -> None:
    body = (
        constant(x, type_, "%x")
        + constant(y, type_, "%y")
        + f'%r = "hlo.{name}"(%x, %y) : ({type_}, {type_}) -> {type_}'
    )
    result = folded(main(body, type_), mlir_context)
    assert result is not None
    np.testing.assert_array_equal(result, np.array(expected, result.dtype))
    if result.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(result[result == 0]), np.signbit(np.array(expected)[result == 0]))


CONVERSIONS = [
    ("tensor<3xf32>", "[1.9, -1.9, 100.0]", "tensor<3xi8>", [1, -1, 100]),
    ("tensor<2xf32>", "[300.0, 1.0]", "tensor<2xi8>", None),
    ("tensor<2xf32>", "[0x7FC00000, 1.0]", "tensor<2xi32>", None),
    ("tensor<2xi32>", "[300, -1]", "tensor<2xui8>", [44, 255]),
    ("tensor<2xi32>", "[16777217, 1]", "tensor<2xf32>", [16777216, 1]),
    ("tensor<2xi32>", "[16777217, 1]", "tensor<2xbf16>", [16777216, 1]),
    ("tensor<2xf64>", "[1.00390625000001, 1.0]", "tensor<2xbf16>", [1.0078125, 1.0]),
    ("tensor<2xf64>", "[1.06250000000001, 500.0]", "tensor<2xf8E4M3FN>", [1.125, np.nan]),
    ("tensor<3xf32>", "[7.9, 0x7FC00000, -0.3]", "tensor<3xf4E2M1FN>", [6.0, -0.0, -0.5]),
    ("tensor<3xf32>", "[-0.0, 3.0, 0x7F800000]", "tensor<3xf8E5M2FNUZ>", [0.0, 3.0, np.nan]),
    ("tensor<3xf32>", "[3.0, 0.0, -1.0]", "tensor<3xf8E8M0FNU>", [4.0, np.nan, np.nan]),
    ("tensor<2xf32>", "[1.00390625, -0.0]", "tensor<2xbf16>", [1.0, -0.0]),
    ("tensor<2xf32>", "[0x7FC00000, 0.0]", "tensor<2xi1>", [True, False]),
    ("tensor<2xi32>", "[9, -9]", "tensor<2xi4>", [-7, 7]),
]


@pytest.mark.parametrize(("source", "values", "target", "expected"), CONVERSIONS)
def test_convert(mlir_context: ir.Context, source: str, values: str, target: str, expected: list[float] | None) -> None:
    body = constant(values, source) + f'%r = "hlo.convert"(%c) : ({source}) -> {target}'
    result = folded(main(body, target), mlir_context)
    assert (result is None) == (expected is None)
    if expected is not None:
        np.testing.assert_array_equal(result.astype(np.float64), np.array(expected, np.float64))


NOT_FOLDED = [
    ('%r = "hlo.exponential"(%c) : (tensor<4xf32>) -> tensor<4xf32>', "tensor<4xf32>"),
    ('%r = "hlo.rsqrt"(%c) : (tensor<4xf32>) -> tensor<4xf32>', "tensor<4xf32>"),
    ('%r = "hlo.power"(%c, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>', "tensor<4xf32>"),
]


@pytest.mark.parametrize(("body", "type_"), NOT_FOLDED)
def test_inexact_ops_stay(mlir_context: ir.Context, body: str, type_: str) -> None:
    assert folded(main(constant("[1.0, 2.0, 3.0, 0.3]", F32) + body, type_), mlir_context) is None


def reduction(values: str, kind: str) -> str:
    body = constant(values, F32) + constant("0.0", "tensor<f32>", "%z")
    return main(
        body
        + f'%r = "hlo.reduce"(%c, %z) {{kind = "{kind}", dimensions = array<i64: 0>}} '
        + f": ({F32}, tensor<f32>) -> tensor<f32>",
        "tensor<f32>",
    )


def test_float_sums_fold_only_where_order_cannot_matter(mlir_context: ir.Context) -> None:
    assert folded(reduction("[1.0, 2.0, 3.0, 4.0]", "add"), mlir_context) == np.float32(10)
    assert folded(reduction("[0.1, 0.2, 0.3, 1.0e8]", "add"), mlir_context) is None
    assert folded(reduction("[0.1, 0.2, 0.3, 1.0e8]", "maximum"), mlir_context) == np.float32(1e8)


def test_big_results_stay_and_big_splats_fold(check: Check) -> None:
    text = """func.func @main() -> (tensor<100x100xi32>, tensor<100x100xi32>) {
      %i = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<100x100xi32>
      %c = "hlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
      %s = "hlo.broadcast"(%c) {dimensions = array<i64>} : (tensor<i32>) -> tensor<100x100xi32>
      %0 = "hlo.add"(%s, %s) : (tensor<100x100xi32>, tensor<100x100xi32>) -> tensor<100x100xi32>
      %1 = "hlo.add"(%i, %i) : (tensor<100x100xi32>, tensor<100x100xi32>) -> tensor<100x100xi32>
      return %0, %1 : tensor<100x100xi32>, tensor<100x100xi32>
    }"""
    after = check(text, Fold().run)
    assert "dense<6>" in after
    assert after.count("hlo.add") == 1


def test_structural_ops(check: Check) -> None:
    text = """func.func @main() -> (tensor<2x2xi32>, tensor<6xi32>, tensor<2xi32>, tensor<2xi32>) {
      %c = "hlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
      %z = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
      %t = "hlo.transpose"(%c) {permutation = array<i64: 1, 0>} : (tensor<2x2xi32>) -> tensor<2x2xi32>
      %f = "hlo.reshape"(%t) : (tensor<2x2xi32>) -> tensor<4xi32>
      %i = "hlo.iota"() {dimension = 0 : i64} : () -> tensor<2xi32>
      %k = "stablehlo.concatenate"(%f, %i) {dimension = 0 : i64} : (tensor<4xi32>, tensor<2xi32>) -> tensor<6xi32>
      %s = "hlo.dynamic_slice"(%k, %z) {sizes = array<i64: 2>} : (tensor<6xi32>, tensor<i32>) -> tensor<2xi32>
      %g = "hlo.gather"(%c, %i) {offset_dims = array<i64>, collapsed_slice_dims = array<i64: 0, 1>,
        operand_batching_dims = array<i64>,
        start_indices_batching_dims = array<i64>, start_index_map = array<i64: 0>, index_vector_dim = 1 : i64,
        slice_sizes = array<i64: 1, 1>} : (tensor<2x2xi32>, tensor<2xi32>) -> tensor<2xi32>
      return %t, %k, %s, %g : tensor<2x2xi32>, tensor<6xi32>, tensor<2xi32>, tensor<2xi32>
    }"""
    after = check(text, Fold().run)
    assert "hlo.gather" not in after
    assert "hlo.dynamic_slice" not in after
    assert "stablehlo.concatenate" not in after


def test_threefry_key_setup_folds(check: Check) -> None:
    text = """func.func @main() -> tensor<ui32> {
      %k = "hlo.constant"() {value = dense<[0, 42]> : tensor<2xui32>} : () -> tensor<2xui32>
      %p = "hlo.constant"() {value = dense<466688986> : tensor<ui32>} : () -> tensor<ui32>
      %r = "hlo.constant"() {value = dense<13> : tensor<ui32>} : () -> tensor<ui32>
      %l = "hlo.constant"() {value = dense<19> : tensor<ui32>} : () -> tensor<ui32>
      %a = "hlo.slice"(%k) {start = array<i64: 0>, limit = array<i64: 1>, strides = array<i64: 1>}
        : (tensor<2xui32>) -> tensor<1xui32>
      %b = "hlo.slice"(%k) {start = array<i64: 1>, limit = array<i64: 2>, strides = array<i64: 1>}
        : (tensor<2xui32>) -> tensor<1xui32>
      %a0 = "hlo.reshape"(%a) : (tensor<1xui32>) -> tensor<ui32>
      %b0 = "hlo.reshape"(%b) : (tensor<1xui32>) -> tensor<ui32>
      %x = "hlo.xor"(%a0, %b0) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      %y = "hlo.xor"(%x, %p) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      %s = "hlo.shift_left"(%y, %r) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      %t = "hlo.shift_right_logical"(%y, %l) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      %o = "hlo.or"(%s, %t) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      %q = "hlo.add"(%o, %y) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      return %q : tensor<ui32>
    }"""
    assert check(text, Fold().run).count("hlo.") == 1
