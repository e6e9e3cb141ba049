"""Scatter kernels whose indices and updates are computed where they are used, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

TARGETS = here(AVX2, AVX512)
NUMBERS = (
    "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1], "
    "index_vector_dim = 1>"
)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("window", [1, 5, 40])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_computed_indices_and_updates(target, window: int, element: str) -> None:
    """x[|i|, |j|:|j| + window] += u + u, what is out of bounds left out; the last one is a broadcast of numbers."""
    random = np.random.default_rng(0)
    x, u, row = (random.integers(-9, 9, size) for size in ((10, 60), (30, window), (30,)))
    places = np.stack([random.integers(-12, 12, 30), random.integers(-70, 70, 30)], 1)
    expected = x.copy()
    for (i, j), update, number in zip(np.abs(places), u, row, strict=True):
        for column in range(j, min(j + window, 60)):
            if i < 10:
                expected[i, column] += 2 * update[column - j] + number

    def body(x: ir.Value, places: ir.Value, u: ir.Value, row: ir.Value) -> ir.Value:
        repeated = build.broadcast(row, (30, window), [0])
        indices, updates = build.like("abs", places), build.like("add", build.like("add", u, u), repeated)
        attributes = {"scatter_dimension_numbers": ir.Attribute.parse(NUMBERS)}
        op = build.op("stablehlo.scatter", [x.type], [x, indices, updates], attributes, regions=1)
        scalar = build.tensor([], x.type.element_type)
        block = op.regions[0].blocks.append(scalar, scalar, arg_locs=[ir.Location.unknown()] * 2)
        with ir.InsertionPoint(block):
            build.op("stablehlo.return", [], [build.like("add", *block.arguments)])
        return op.result

    inputs = [f"tensor<10x60x{element}>", "tensor<30x2xi32>", f"tensor<30x{window}x{element}>", f"tensor<30x{element}>"]
    text = build_fusion("scatter", inputs, body, None)
    kernel = compile_kernel(text, target)
    arrays = [array.astype(dtype) for array, (_, dtype) in zip((x, places, u, row), kernel.inputs, strict=True)]
    np.testing.assert_array_equal(run_kernel(text, arrays, target)[0].astype(int), expected)
