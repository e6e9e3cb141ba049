"""What fusions ask of a machine, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.common.roofline import NO_WORK, Rates, Work, program_work, work_of
from stablehlo_py.backends.gpu.target import SM_90
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load


def works(signature: str, body: str) -> list[Work]:
    """Of the fusions of a function."""
    module = run_stages(load(f"func.func @main({signature} {{\n{body}\n}}"), "", "scheduled", target="cuda")
    return [work_of(Fusion.read(function)) for function in fusions(module)]


@pytest.mark.parametrize(
    ("signature", "body", "bytes_", "operations"),
    [
        (  # two operands and a result; an addition and a negation
            "%x: tensor<100xf32>, %y: tensor<100xf32>) -> tensor<100xf32>",
            "%0 = stablehlo.add %x, %y : tensor<100xf32>\n%1 = stablehlo.negate %0 : tensor<100xf32>\n"
            "return %1 : tensor<100xf32>",
            1200,
            {"f32": 200},
        ),
        (  # a sum of f64
            "%x: tensor<10x100xf64>) -> tensor<10xf64>",
            "%z = stablehlo.constant dense<0.0> : tensor<f64>\n"
            "%0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]"
            " : (tensor<10x100xf64>, tensor<f64>) -> tensor<10xf64>\nreturn %0 : tensor<10xf64>",
            8080,
            {"f64": 1000},
        ),
        (  # 2 * 3 * 8 * 5 * 100 operations in the matrix units
            "%x: tensor<3x8x100xbf16>, %y: tensor<3x100x5xbf16>) -> tensor<3x8x5xbf16>",
            "%0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1]"
            " : (tensor<3x8x100xbf16>, tensor<3x100x5xbf16>) -> tensor<3x8x5xbf16>\nreturn %0 : tensor<3x8x5xbf16>",
            2 * (2400 + 1500 + 120),
            {"f16": 24000},
        ),
        (  # 6 x 6 places, 16 features, each the sum of 3 x 3 x 3 products
            "%x: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x16xf32>) -> tensor<1x6x6x16xf32>",
            "%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
            " window = {stride = [1, 1], pad = [[0, 0], [0, 0]]}"
            " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
            " : (tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x6x6x16xf32>\n"
            "return %0 : tensor<1x6x6x16xf32>",
            4 * (192 + 432 + 576),
            {"f32": 2 * 576 * 27},
        ),
        (  # of a large operand, the slice alone is read
            "%x: tensor<1000xf32>) -> tensor<10xf32>",
            "%0 = stablehlo.slice %x [0:10] : (tensor<1000xf32>) -> tensor<10xf32>\n"
            "%1 = stablehlo.negate %0 : tensor<10xf32>\nreturn %1 : tensor<10xf32>",
            80,
            {"f32": 10},
        ),
        (  # 20 products and sums for each element of the solution, of which there are fewer than in the matrix
            "%a: tensor<20x20xf32>, %b: tensor<20x2xf32>) -> tensor<20x2xf32>",
            '%0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false,'
            " transpose_a = #stablehlo<transpose NO_TRANSPOSE>}"
            " : (tensor<20x20xf32>, tensor<20x2xf32>) -> tensor<20x2xf32>\nreturn %0 : tensor<20x2xf32>",
            4 * (400 + 40 + 40),
            {"f32": 20 * 40},
        ),
    ],
    ids=["elements", "sum", "product", "convolution", "slice", "triangular solve"],
)
def test_work(signature, body, bytes_, operations) -> None:
    (work,) = works(signature, body)
    assert work == Work(bytes_, operations)
    assert work.flops == sum(operations.values())


LOOP = """func.func @main(%x: tensor<100xf32>, %n: tensor<i32>) -> tensor<100xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<100xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %b = stablehlo.multiply %a, %a : tensor<100xf32>
      stablehlo.return %j, %b : tensor<i32>, tensor<100xf32>
    }
  return %r#1 : tensor<100xf32>
}"""


@pytest.mark.parametrize("size", [4, 100, 100_000], ids=lambda size: f"{size}-elements")
def test_the_body_of_a_loop_counts_once_and_is_said_to_loop(size: int) -> None:
    work = program_work(compile_program(LOOP.replace("100x", f"{size}x")))
    assert work is not None and work.loops
    assert size <= work.operations["f32"] <= size + 10  # and what counts the trips


def test_parts_of_a_program_add_up() -> None:
    sum_ = sum([Work(1, {"f32": 2}), Work(3, {"f32": 4, "f64": 5}, loops=True)], NO_WORK)
    assert sum_ == Work(4, {"f32": 6, "f64": 5}, loops=True)


def test_the_time_is_that_of_memory_or_of_arithmetic() -> None:
    rates = Rates(bandwidth=2.0, f32=10.0, f16=100.0)
    assert Work(1000, {"f32": 100}).seconds(rates) == pytest.approx(500e-12)
    assert Work(1000, {"f32": 10000, "f16": 10000}).seconds(rates) == pytest.approx(1000e-12)
    assert Work(0, {"i8": 1000}).seconds(rates) == pytest.approx(100e-12), "a type without a rate is computed in f32"
    assert Work(0, {"f8": 1000}).seconds(rates) == pytest.approx(10e-12), "floats of 8 bits are computed in 16"
    assert Work(0, {"f8": 1000}).seconds(replace(rates, f8=1000.0)) == pytest.approx(1e-12)
    assert Work(0, {"f8_fnuz": 1000}).seconds(replace(rates, f8=1000.0)) == pytest.approx(10e-12)
    assert SM_90.rates.f16 > SM_90.rates.f32
