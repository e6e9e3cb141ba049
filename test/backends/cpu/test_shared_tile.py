"""Tiles of products: one function of a program for all products that have it, and one height of them where only few
rows are computed twice for it. Neither changes a bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.kernels import product
from stablehlo_py.backends.cpu.kernels.shared_tile import SharedTile
from stablehlo_py.backends.cpu.kernels.tiling import OverlappingTiles, Plan, Split, with_one_height
from stablehlo_py.backends.cpu.listing import disassembly
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import AVX2, AVX512, AVX512_VNNI, BASELINE, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(7)
BEST = here(AVX512, AVX2, BASELINE)[0]
DTYPES = {
    "i8": np.int8,
    "ui8": np.uint8,
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_,
}
SIZES = [
    (64, 64, 64),  # two heights of tiles with AVX-512
    (64, 64, 600),
    (197, 65, 197),  # one tile more than whole ones; a last panel of one element
    (300, 33, 1543),  # chunks of the contracted axis and a rest
    (400, 48, 2048),  # rows a page apart are packed
    (7, 300, 700),
]


def product_of(sizes: tuple[int, int, int], element: str, *, epilogue: str = "", transposed: bool = False) -> str:
    """A product, and after it nothing, an op, or an addition of the last argument (in the memory of the result)."""
    m, n, k = sizes

    def body(x: ir.Value, y: ir.Value, *others: ir.Value) -> ir.Value:
        of = ir.IntegerType.get_signless(32) if element in ("i8", "ui8") else x.type.element_type
        result = build.tensor((m, n), of)
        axes = {"lhs_batch": [], "rhs_batch": [], "lhs_contract": [1], "rhs_contract": [int(transposed)]}
        made = build.value("dot", result, x, y, **axes)
        assert shape(made) == (m, n)
        return build.value(epilogue, result, made, *others) if epilogue else made

    types = [f"tensor<{m}x{k}x{element}>", f"tensor<{n}x{k}x{element}>" if transposed else f"tensor<{k}x{n}x{element}>"]
    if epilogue != "add":
        return build_fusion("dot", types, body)
    return build_fusion("dot", [*types, f"tensor<{m}x{n}x{element}>"], body, {"hlo.inplace": [2, 0]})


def random(*sizes: int, element: str = "f32") -> np.ndarray:
    return (3 * RNG.standard_normal(sizes)).astype(DTYPES[element])


def result_of(text: str, arrays: list[np.ndarray], target: CpuTarget, chunks: int = 1) -> bytes:
    return compile_kernel(text, target).run(arrays, chunks)[0].tobytes()


def calling(target: CpuTarget) -> CpuTarget:
    return replace(target, shares_functions=True)


@pytest.fixture
def two_heights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are cut evenly, as if none might be computed twice."""
    monkeypatch.setattr(product, "with_one_height", lambda plan, stores_twice: plan)


@pytest.mark.every(2)
@pytest.mark.parametrize("target", here(AVX512_VNNI, AVX512, AVX2), ids=lambda target: target.name)
@pytest.mark.parametrize(
    ("element", "epilogue"),
    [
        ("f32", ""),
        ("f32", "tanh"),
        ("f64", "tanh"),
        ("bf16", "tanh"),
        ("i32", ""),
        ("i1", ""),
        ("i8", "negate"),  # sums of pairs in i32
        ("ui8", ""),
    ],
)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_bits(sizes: tuple[int, int, int], element: str, epilogue: str, target: CpuTarget) -> None:
    """A kernel that calls its tiles gives the bits of one that has them itself, at any split of the work."""
    m, n, k = sizes
    arrays = [random(m, k, element=element), random(k, n, element=element)]
    text = product_of(sizes, element, epilogue=epilogue)
    own = result_of(text, arrays, target)
    assert [result_of(text, arrays, calling(target), chunks) for chunks in (1, 3)] == [own, own]


@pytest.mark.every(2)
@pytest.mark.parametrize("epilogue", ["", "tanh"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_one_height(
    sizes: tuple[int, int, int], transposed: bool, epilogue: str, request: pytest.FixtureRequest
) -> None:
    """Rows that are computed twice have the same sums, and those of the product itself."""
    m, n, k = sizes
    arrays = [random(m, k), random(n, k) if transposed else random(k, n)]
    text = product_of(sizes, "f32", epilogue=epilogue, transposed=transposed)
    one = [result_of(text, arrays, BEST, chunks) for chunks in (1, 3)]
    request.getfixturevalue("two_heights")
    assert one == [result_of(text, arrays, BEST)] * 2


@pytest.mark.parametrize("k", [48, 1536])
def test_in_place(k: int, request: pytest.FixtureRequest) -> None:
    """What an epilogue reads where it stores is read once."""
    arrays = [random(197, k), random(k, 64), random(197, 64)]
    text = product_of((197, 64, k), "f32", epilogue="add")
    found = [result_of(text, arrays, target) for target in (BEST, calling(BEST))]
    request.getfixturevalue("two_heights")
    assert found == [result_of(text, arrays, BEST)] * 2


def plan(rows: Split, block: int) -> Plan:
    return Plan(16, 4, rows, block, False, False, False, 0, 64, False)


def test_few_rows_are_repeated() -> None:
    assert with_one_height(plan(Split(784, 131), 131), True).rows == OverlappingTiles(784, 6)
    assert with_one_height(plan(Split(49, 9), 9), True).rows == Split(49, 9)  # it would be 5 of 49 rows
    assert with_one_height(plan(Split(48, 8), 8), True).rows == Split(48, 8)  # there is nothing to gain


def test_no_two_iterations_store_a_row() -> None:
    """The last tile and the one before it, which share rows, are of one iteration, unless each row is stored once."""
    alone = plan(Split(784, 131), 65)  # two blocks and a tile
    assert isinstance(with_one_height(alone, True).rows, Split)
    assert isinstance(with_one_height(alone, False).rows, OverlappingTiles)


@pytest.mark.skipif(not here(AVX512_VNNI), reason="no VNNI here")
def test_pairs_are_multiplied_and_added_by_one_instruction() -> None:
    tile = SharedTile(14, 2, 16, "i32", "i32", "i32", False, 2, (False, False), 2, False, 0, False)
    listing = disassembly([compile_units([Unit((tile.symbol,), tile.text(AVX512_VNNI))])])
    if "vpaddd" in listing or "vpdpwssd" in listing:  # else there is no disassembler here
        assert listing.count("vpdpwssd") == 28 and "vpmaddwd" not in listing


@pytest.mark.skipif(BEST is BASELINE, reason="no AVX2 here")
def test_products_of_integers_share_tiles() -> None:
    lines = [
        f"%d{n} = stablehlo.dot_general %x, %w{n}, contracting_dims = [1] x [0] : "
        f"(tensor<64x2048xi8>, tensor<2048x{width}xi8>) -> tensor<64x{width}xi32>"
        for n, width in enumerate((256, 512))
    ]
    text = (
        "func.func @main(%x: tensor<64x2048xi8>, %w0: tensor<2048x256xi8>, %w1: tensor<2048x512xi8>) -> "
        "(tensor<64x256xi32>, tensor<64x512xi32>) {\n"
        + "\n".join(lines)
        + "\nreturn %d0, %d1 : tensor<64x256xi32>, tensor<64x512xi32>\n}"
    )
    options = shlo.Options(cpu="avx512" if BEST is AVX512 else "avx2")  # not a matrix unit
    kernels = shlo.compile(text, options=options).stages["kernels"]
    tiles = [line for line in kernels.splitlines() if line.startswith("llvm.func @shlo_tile") and line.endswith("{")]
    assert tiles and len(tiles) == len({line.partition("(")[0] for line in tiles})
    assert all("_p2ss" in line for line in tiles)


def test_a_program_has_each_tile_once() -> None:
    widths = [256, 512, 1024, 2048]
    lines, last = [], "x"
    for i, (a, b) in enumerate(pairwise(widths)):
        lines += [
            f"%d{i} = stablehlo.dot_general %{last}, %w{i}, contracting_dims = [1] x [0] : "
            f"(tensor<64x{a}xf32>, tensor<{a}x{b}xf32>) -> tensor<64x{b}xf32>",
            f"%t{i} = stablehlo.tanh %d{i} : tensor<64x{b}xf32>",
        ]
        last = f"t{i}"
    weights = ", ".join(f"%w{i}: tensor<{a}x{b}xf32>" for i, (a, b) in enumerate(pairwise(widths)))
    result = f"tensor<64x{widths[-1]}xf32>"
    body = "\n".join([*lines, f"return %{last} : {result}"])
    executable = shlo.compile(f"func.func @main(%x: tensor<64x{widths[0]}xf32>, {weights}) -> {result} {{\n{body}\n}}")
    lines = executable.stages["kernels"].splitlines()
    tiles = [line.partition("(")[0] for line in lines if line.startswith("llvm.func @shlo_tile") and line.endswith("{")]
    calls = sum("llvm.call @shlo_tile" in line for line in lines)
    assert tiles and len(tiles) == len(set(tiles))
    assert len(tiles) < calls >= len(widths) - 1


@pytest.mark.parametrize(
    ("depth", "epilogue", "calls"),
    [(200, "add", True), (200, "tanh", True), (200, "negate", False), (600, "negate", True), (100, "", False)],
)
def test_sums_go_through_memory_where_the_epilogue_reads_as_much(depth: int, epilogue: str, calls: bool) -> None:
    kernel = compile_kernel(product_of((64, 64, depth), "f32", epilogue=epilogue), calling(BEST)).kernel
    assert any(symbol.startswith("shlo_tile") for symbol in kernel.common) is calls


@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
def test_sums_go_to_the_result_where_they_stay_as_they_are(target: CpuTarget) -> None:
    kernel = compile_kernel(product_of((48, 96, 200), "f32"), calling(target)).kernel
    (function,) = (text for name, text in kernel.functions.items() if "pack" not in name)
    assert "call @shlo_tile" in function
    assert "alloca" not in function and "vector<" not in function  # neither a buffer nor what goes through registers
