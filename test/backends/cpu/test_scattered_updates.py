"""Scatters of single elements and of rows that compute their updates, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.kernels.scatter import OWNERS
from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE

NODES, EDGES = 37, 501
DTYPES = {"f32": np.float32, "i8": np.int8, "complex<f32>": np.complex64}


def text(element: str) -> str:
    nodes, edges, places = f"tensor<{NODES}x{element}>", f"tensor<{EDGES}x{element}>", f"tensor<{EDGES}x1xi32>"
    return f"""
    func.func private @fusion(%sums: {nodes}, %to: {places}, %x: {nodes}, %from: {places}, %y: {edges}) -> {nodes}
        attributes {{hlo.fusion = "scatter"}} {{
      %0 = "hlo.gather"(%x, %from) {{collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64,
        offset_dims = array<i64>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1>,
        start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>}} : ({nodes}, {places}) -> {edges}
      %1 = "hlo.multiply"(%0, %y) : ({edges}, {edges}) -> {edges}
      %2 = "stablehlo.scatter"(%sums, %to, %1) <{{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %3 = "hlo.add"(%a, %b) : (tensor<{element}>, tensor<{element}>) -> tensor<{element}>
        stablehlo.return %3 : tensor<{element}>
      }}) : ({nodes}, {places}, {edges}) -> {nodes}
      return %2 : {nodes}
    }}"""


@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize("element", DTYPES)
def test_products_of_gathered_elements(element: str, target) -> None:
    """Added up in the order of their indices; those out of bounds are not. Gathers clamp theirs."""
    rng = np.random.default_rng(0)
    dtype = DTYPES[element]
    sums, x, y = (rng.integers(-4, 5, size).astype(dtype) for size in (NODES, NODES, EDGES))
    to, start = (rng.integers(-3, NODES + 3, (EDGES, 1), np.int32) for _ in range(2))
    (result,) = run_kernel(text(element), [sums, to, x, start, y], target)
    expected = sums.copy()
    for place, product in zip(to[:, 0], x[np.clip(start[:, 0], 0, NODES - 1)] * y, strict=True):
        if 0 <= place < NODES:
            expected[place] += product
    np.testing.assert_array_equal(result, expected)


def rows(element: str, width: int) -> str:
    nodes, edges = f"tensor<{NODES}x{width}x{element}>", f"tensor<{EDGES}x{width}x{element}>"
    share, places = f"tensor<{EDGES}x{element}>", f"tensor<{EDGES}x1xi32>"
    return f"""
    func.func private @fusion(%sums: {nodes}, %to: {places}, %x: {nodes}, %from: {places}, %y: {share}) -> {nodes}
        attributes {{hlo.fusion = "scatter"}} {{
      %0 = "hlo.gather"(%x, %from) {{collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64,
        offset_dims = array<i64: 1>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1, {width}>,
        start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>}} : ({nodes}, {places}) -> {edges}
      %1 = "hlo.broadcast"(%y) {{dimensions = array<i64: 0>}} : ({share}) -> {edges}
      %2 = "hlo.multiply"(%0, %1) : ({edges}, {edges}) -> {edges}
      %3 = "stablehlo.scatter"(%sums, %to, %2) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %4 = "hlo.add"(%a, %b) : (tensor<{element}>, tensor<{element}>) -> tensor<{element}>
        stablehlo.return %4 : tensor<{element}>
      }}) : ({nodes}, {places}, {edges}) -> {nodes}
      return %3 : {nodes}
    }}"""


@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize("width", [1, 3, 12, 64, 100, 300])  # whole vectors or not, work for several threads or not
@pytest.mark.parametrize("element", DTYPES)
def test_products_of_gathered_rows(element: str, width: int, target) -> None:
    """The same of whole rows, whose vectors share what is one number a row."""
    rng = np.random.default_rng(width)
    dtype = DTYPES[element]
    sums, x = (rng.integers(-4, 5, (NODES, width)).astype(dtype) for _ in range(2))
    y = rng.integers(-4, 5, EDGES).astype(dtype)
    to, start = (rng.integers(-3, NODES + 3, (EDGES, 1), np.int32) for _ in range(2))
    (result,) = run_kernel(rows(element, width), [sums, to, x, start, y], target)
    expected = sums.copy()
    for place, message in zip(to[:, 0], x[np.clip(start[:, 0], 0, NODES - 1)] * y[:, None], strict=True):
        if 0 <= place < NODES:
            expected[place] += message
    np.testing.assert_array_equal(result, expected)


def test_threads_own_places_where_rows_are_long() -> None:
    """Each goes through all indices, so it has to have more to do than that."""
    wide, narrow = (compile_kernel(rows("f32", width), AVX2).kernel.phases[-1] for width in (300, 3))
    assert (wide.iterations, narrow.iterations) == (OWNERS, 1)
    assert wide.iterations >= 2 * wide.grain


def test_vectors_of_a_row_share_its_place() -> None:
    """A row is gathered from one place, and scaled by one number, which are read once however many vectors it has."""
    code = compile_kernel(rows("f32", 64), AVX2).kernel.functions["fusion.update"]
    loaded = [line.rsplit(" ", 1)[-1] for line in code.splitlines() if "llvm.load" in line]
    assert loaded.count("vector<8xf32>") == 2 * 64 // 8
    assert (loaded.count("f32"), loaded.count("i32")) == (1, 2)  # where the row goes, and where it comes from


@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
def test_owners_find_indices_of_several_dimensions(target) -> None:
    """Each thread lists its updates by their number, whatever dimensions the indices have."""
    width, counts = 300, (3, 167)
    nodes, edges = f"tensor<{NODES}x{width}xf32>", f"tensor<3x167x{width}xf32>"
    text = f"""
    func.func private @fusion(%sums: {nodes}, %to: tensor<3x1x167xi32>, %x: {edges}) -> {nodes}
        attributes {{hlo.fusion = "scatter"}} {{
      %0 = "stablehlo.scatter"(%sums, %to, %x) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = "hlo.subtract"(%b, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : ({nodes}, tensor<3x1x167xi32>, {edges}) -> {nodes}
      return %0 : {nodes}
    }}"""
    assert compile_kernel(text, target).kernel.phases[-1].iterations == OWNERS
    rng = np.random.default_rng(0)
    sums, x = (rng.integers(-4, 5, (*of, width)).astype(np.float32) for of in ((NODES,), counts))
    to = rng.integers(-3, NODES + 3, (3, 1, 167), np.int32)
    (result,) = run_kernel(text, [sums, to, x], target)
    expected = sums.copy()
    for place, update in zip(to.ravel(), x.reshape(-1, width), strict=True):
        if 0 <= place < NODES:  # the order counts
            expected[place] = update - expected[place]
    np.testing.assert_array_equal(result, expected)


WINDOWS = [  # of the operand, and of the updates
    ((4, 1), (4, 1)),
    ((1, 33, 1), (1, 33, 1)),
    ((3, 5, 4), (3, 5, 4)),
    ((3, 5, 4), (2, 5, 4)),
    ((3, 5, 4), (3, 2, 4)),
    ((3, 5, 4), (3, 5, 1)),
    ((3, 1, 4), (2, 1, 4)),
    ((1, 1), (1, 1)),
]


def boxes(element: str, of: tuple[int, ...], window: tuple[int, ...]) -> str:
    """Windows of updates, put at one end of what the operand has in a place."""
    nodes, edges = (
        f"tensor<{'x'.join(map(str, (count, *sizes)))}x{element}>" for count, sizes in ((NODES, of), (EDGES, window))
    )
    dimensions = list(range(1, len(of) + 1))
    return f"""
    func.func private @fusion(%sums: {nodes}, %to: tensor<{EDGES}x1xi32>, %x: {edges}) -> {nodes}
        attributes {{hlo.fusion = "scatter"}} {{
      %0 = "stablehlo.scatter"(%sums, %to, %x) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = {dimensions}, inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %1 = "hlo.add"(%a, %b) : (tensor<{element}>, tensor<{element}>) -> tensor<{element}>
        stablehlo.return %1 : tensor<{element}>
      }}) : ({nodes}, tensor<{EDGES}x1xi32>, {edges}) -> {nodes}
      return %0 : {nodes}
    }}"""


@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize(("of", "window"), WINDOWS)
@pytest.mark.parametrize("element", DTYPES)
def test_windows_of_several_dimensions(element: str, of: tuple[int, ...], window: tuple[int, ...], target) -> None:
    """Those of one place, and those that are held whole, are no dimensions to the kernel."""
    rng = np.random.default_rng(len(of))
    sums, x = (
        rng.integers(-4, 5, (count, *sizes)).astype(DTYPES[element]) for count, sizes in ((NODES, of), (EDGES, window))
    )
    to = rng.integers(-3, NODES + 3, (EDGES, 1), np.int32)
    (result,) = run_kernel(boxes(element, of, window), [sums, to, x], target)
    expected = sums.copy()
    for place, update in zip(to[:, 0], x, strict=True):
        if 0 <= place < NODES:
            expected[place][tuple(map(slice, window))] += update
    np.testing.assert_array_equal(result, expected)


def test_windows_of_one_channel_are_rows_of_vectors() -> None:
    """They are estimated to take no longer than those without the channel, as lanes run along the same dimension."""
    flat, channel = (compile_kernel(boxes("f32", of, of), AVX2).kernel.phases[-1].cost for of in ((33,), (33, 1)))
    assert flat == channel
