"""Products on AMX, and by instructions of vectors that add up groups: kernels as they are where the machine has these,
and everywhere by other instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from dots import Dot, types_of
from emulated_tiles import EMULATED, EMULATED_DOTS, emulate
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.target import AMX, AVX512, AVX512_BF16, AVX512_VNNI, AVX_VNNI, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

BF16 = (ml_dtypes.bfloat16, ml_dtypes.bfloat16)
S, U = np.int8, np.uint8
NAMES = {EMULATED: "emulated", AMX: "tiles", EMULATED_DOTS: "emulated-dots", AVX512_BF16: "dots"}
TARGETS = [EMULATED, EMULATED_DOTS, *here(AMX, AVX512_BF16)]


def floats(name: str, *args: object, **more: object) -> Dot:
    return Dot(name, *args, dtypes=BF16, **{"result": "f32"} | more)


SHAPES = {
    "one tile": ((16, 64), (64, 16)),
    "two of each": ((32, 128), (128, 32)),
    "odd": ((37, 75), (75, 50)),
    "last strip of one row": ((33, 96), (96, 64)),
    "last panel of one column": ((32, 64), (64, 33)),
    "last step of one": ((32, 129), (129, 48)),
    "several blocks": ((160, 6000), (6000, 40)),
}


@pytest.fixture(params=TARGETS, ids=NAMES.__getitem__)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CpuTarget:
    if request.param in (EMULATED, EMULATED_DOTS):
        emulate(monkeypatch)
    return request.param


def instructions(kernel: Kernel) -> set[str]:
    """Those of units that its functions have."""
    return set(re.findall(r"tdp\w+|vpdpbusd\.\d+|dpbf16ps\.\d+", "".join(kernel.functions.values())))


def check(case: Dot, target: CpuTarget) -> np.ndarray:
    arrays = case.arrays()
    text, expected = case.text(arrays), case.expected(*arrays)
    compiled = compile_kernel(text, target)
    assert compiled.kernel.uses_tiles or target is not AMX
    (result,), (in_pieces,) = compiled.run(arrays), compiled.run(arrays, 3)
    assert result.tobytes() == in_pieces.tobytes()
    if case.result == "i32":
        np.testing.assert_array_equal(result, expected)
        return result
    # Sums of products of neighbours round in f32, as others do: some units in the last place of the sum of magnitudes.
    magnitudes = case.expected(*(np.abs(array.astype(np.float32)).astype(array.dtype) for array in arrays))
    last = 2.0**-8 if case.result == "bf16" else 0
    assert (np.abs(result.astype(np.float64) - expected) <= 2.0**-22 * magnitudes + last * np.abs(expected)).all()
    return result


@pytest.mark.every(2)
@pytest.mark.parametrize("turned", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtypes", [BF16, (S, S)], ids=["floats", "bytes"])
def test_layouts(dtypes: tuple[type, type], name: str, turned: str, target: CpuTarget) -> None:
    lhs, rhs = SHAPES[name]
    lhs, rhs = lhs[:: -1 if turned[0] == "t" else 1], rhs[:: -1 if turned[1] == "t" else 1]
    contract = ((0 if turned[0] == "t" else 1,), (1 if turned[1] == "t" else 0,))
    check(Dot(name, lhs, rhs, contract, dtypes=dtypes, result="f32" if dtypes is BF16 else "i32"), target)


@pytest.mark.parametrize("dtypes", [(U, U), (S, U), (U, S)], ids=["uu", "su", "us"])
def test_unsigned_bytes(dtypes: tuple[type, type], target: CpuTarget) -> None:
    check(Dot("odd", *SHAPES["odd"], dtypes=dtypes), target)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "case",
    [
        floats("batched", (3, 20, 62), (3, 62, 40), ((2,), (1,)), ((0,), (0,))),
        floats("batch in the middle", (20, 3, 62), (62, 40, 3), ((2,), (0,)), ((1,), (2,))),
        floats("batch of whole tiles", (2, 32, 64), (2, 64, 32), ((2,), (1,)), ((0,), (0,))),
        floats("two contracted", (32, 5, 64), (5, 64, 40), ((1, 2), (0, 1))),
        floats("two contracted, crossed", (20, 5, 64), (64, 40, 5), ((2, 1), (0, 2))),
        floats("three contracted", (20, 2, 3, 50), (2, 3, 50, 40), ((1, 2, 3), (0, 1, 2))),
        floats("to bf16", (33, 70), (70, 50), result="bf16"),
        floats("to bf16, several strips", (150, 200), (200, 70), result="bf16"),
        floats("to bf16, several chunks", (132, 1200), (1200, 70), result="bf16"),
        floats("to bf16, several blocks", (160, 8200), (8200, 32), result="bf16"),
        floats("to bf16, one step", (160, 32), (32, 32), result="bf16"),
        floats("stored from tiles after several chunks", (160, 1600), (1600, 64)),
        floats("several chunks and two contracted", (140, 2, 700), (2, 700, 40), ((1, 2), (0, 1)), result="bf16"),
        floats("two contracted, unpacked", (160, 12, 64), (64, 12, 40), ((2, 1), (0, 1)), result="bf16"),
        floats("few rows", (9, 1000), (1000, 70), result="bf16"),
        floats("few rows, several groups", (7, 75), (75, 4200)),
        floats("ten columns", (64, 784), (784, 10), result="bf16"),
        floats("two columns", (130, 784), (784, 2), result="bf16"),
        floats("120 rows", (120, 620), (620, 1100), result="bf16"),
        Dot("128 rows, an odd number of panels", (128, 640), (640, 560)),
        Dot("64 rows, an odd number of panels", (64, 1100), (1100, 232)),
        floats("regions of some steps", (36, 1700), (1700, 300)),
        floats("regions of some panels", (64, 768), (768, 330), result="bf16"),
        floats("regions, batched", (3, 40, 800), (3, 800, 330), ((2,), (1,)), ((0,), (0,)), result="bf16"),
        floats("regions, two contracted", (40, 3, 620), (620, 3, 290), ((1, 2), (1, 0))),
        floats("one B for several products", (20, 5, 64), (64, 300), ((2,), (0,))),
        Dot("regions of bytes", (70, 1800), (1800, 600)),
        floats("few rows, one step", (40, 20), (20, 2100), result="bf16"),
        floats("few rows, batched", (3, 16, 100), (3, 100, 530), ((2,), (1,)), ((0,), (0,)), result="bf16"),
        floats("few rows, two contracted", (33, 3, 70), (70, 3, 90), ((1, 2), (1, 0))),
        floats("two rows, several chunks", (2, 4096), (4096, 65), result="bf16"),
        Dot("few rows of bytes", (5, 1030), (1030, 130)),
        Dot("few rows, unsigned", (50, 70), (70, 100), dtypes=(U, S)),
        Dot("four dimensions", (2, 16, 3, 64), (2, 64, 3, 16), ((3,), (1,)), ((0, 2), (0, 2))),
        Dot("two contracted, bytes", (20, 3, 70), (3, 70, 40), ((1, 2), (0, 1)), dtypes=(U, S)),
        Dot("extreme", (32, 4096), (4096, 32)),
    ],
    ids=lambda case: case.name,
)
def test_axes(case: Dot, target: CpuTarget) -> None:
    check(case, target)


@pytest.mark.parametrize("real", [AMX, AVX512_BF16], ids=NAMES.__getitem__)
@pytest.mark.parametrize("case", [floats("floats", (40, 200), (200, 50)), Dot("bytes", (40, 200), (200, 50))])
def test_the_emulation_gives_the_bits_of_the_instructions(
    case: Dot, real: CpuTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subnormal numbers, infinities and NaN included."""
    if not here(real):
        pytest.skip("this CPU has no such instructions, or lets this process use none")
    a, b = case.arrays()
    if case.result == "f32":
        special = np.array([1e-40, -1e-39, np.inf, np.nan, 3e38, 2.0**-126, -(2.0**-70), 0.0], a.dtype)
        a[:8, 3], b[5, :8], a[:, 9] = special, special, 2.0**-70
        b[9, :] = np.linspace(-(2.0**-55), 2.0**-56, 50).astype(b.dtype)
        a[20:30] = np.where(np.arange(200) == 9, a[20:30], 0)
    text = case.text((a, b))
    (ours,) = run_kernel(text, (a, b), real)
    emulate(monkeypatch)
    (emulated,) = run_kernel(text, (a, b), EMULATED if real is AMX else EMULATED_DOTS)
    nan = np.isnan(ours) if case.result == "f32" else np.zeros(ours.shape, bool)
    assert (nan == (np.isnan(emulated) if nan.any() else nan)).all()
    assert ours[~nan].tobytes() == emulated[~nan].tobytes()


@pytest.mark.parametrize("sizes", [(32, 64, 64), (35, 70, 50)], ids=["whole", "odd"])
def test_epilogues(sizes: tuple[int, int, int], target: CpuTarget) -> None:
    """A bias, a maximum with zero, and a second result of another type."""
    m, k, n = sizes
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    bias = random.standard_normal(n).astype(np.float32)

    def body(lhs: ir.Value, rhs: ir.Value, bias: ir.Value) -> Sequence[ir.Value]:
        f32, bf16 = (build.tensor((m, n), ir.Type.parse(name)) for name in ("f32", "bf16"))
        numbers = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
        product = build.value("dot", f32, lhs, rhs, **numbers)
        total = build.value("add", f32, product, build.value("broadcast", f32, bias, dimensions=(1,)))
        return [total, build.value("convert", bf16, total)]

    first, second = run_kernel(build_fusion("dot", types_of((a, b, bias)), body), (a, b, bias), target)
    expected = a.astype(np.float64) @ b.astype(np.float64) + bias
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-4)
    assert (second == first.astype(ml_dtypes.bfloat16)).all()


@pytest.mark.parametrize("sizes", [(40, 96, 64), (100, 300, 50), (33, 70, 576)], ids=["whole", "odd", "wide"])
def test_long_epilogues(sizes: tuple[int, int, int], target: CpuTarget) -> None:
    """Two vectors at once, where a panel has them, with the bits of the function by itself."""
    m, k, n = sizes
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) / 8 for shape in ((m, k), (k, n)))
    case = floats("plain", a.shape, b.shape)
    (sums,) = run_kernel(case.text((a, b)), (a, b), target)

    def body(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        numbers = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
        return build.like("tanh", build.value("dot", build.tensor((m, n), ir.F32Type.get()), lhs, rhs, **numbers))

    (ours,) = run_kernel(build_fusion("dot", types_of((a, b)), body), (a, b), target)
    tanh = build_fusion("loop", types_of((sums,)), lambda x: build.like("tanh", x))
    (expected,) = run_kernel(tanh, (sums,), target)
    assert ours.tobytes() == expected.tobytes()


def test_subnormal_numbers_are_zero(target: CpuTarget) -> None:
    a, b = np.full((16, 64), 1e-39, ml_dtypes.bfloat16), np.full((64, 16), 2.0**100, ml_dtypes.bfloat16)
    case = floats("subnormal", a.shape, b.shape)
    assert (run_kernel(case.text((a, b)), (a, b), target)[0] == 0).all()


@pytest.mark.parametrize(
    ("case", "tiles", "dots"),
    [
        (Dot("bytes", (16, 64), (64, 16)), True, True),
        (floats("floats", (16, 64), (64, 16)), True, True),
        (Dot("few rows", (15, 640), (640, 60)), True, True),
        (Dot("two rows", (2, 640), (640, 600)), True, True),
        (floats("two rows of floats", (2, 640), (640, 600)), True, False),
        (Dot("few rows of a small product", (15, 640), (640, 16)), False, True),
        (Dot("one row", (1, 640), (640, 2000)), False, False),
        (Dot("few rows, contracted last", (8, 640), (640, 640), ((1,), (1,))), False, True),
        (Dot("few columns", (64, 640), (640, 2)), True, False),
        (Dot("few columns of a small product", (16, 640), (640, 6)), False, False),
        (Dot("one column", (200, 640), (640, 1)), False, False),
        (Dot("short", (64, 16), (16, 64)), False, True),
        (Dot("very short", (64, 7), (7, 64)), False, False),
        (Dot("shorts", (16, 64), (64, 16), dtypes=(np.int16, np.int16)), False, False),
        (Dot("mixed", (16, 64), (64, 16), dtypes=(np.int16, np.int8)), False, False),
        (Dot("four bits", (16, 64), (64, 16), dtypes=(ml_dtypes.int4, ml_dtypes.int4)), False, False),
    ],
    ids=lambda case: case.name if isinstance(case, Dot) else "",
)
def test_which_products_use_it(case: Dot, tiles: bool, dots: bool) -> None:
    """Tiles, else instructions of vectors, where the CPU has them."""
    text = case.text(case.arrays())
    integers = case.result == "i32"
    wanted = {"vpdpbusd" if integers else "dpbf16ps"} if dots else set()
    for target, has_dots in ((AMX, integers), (AVX512_BF16, True), (AVX512_VNNI, integers), (AVX_VNNI, integers)):
        kernel = compile_kernel(text, target).kernel
        is_tiled = tiles and target is AMX
        assert kernel.uses_tiles == is_tiled
        found = {name.partition(".")[0] for name in instructions(kernel) if not name.startswith("tdp")}
        assert found == (wanted if has_dots and not is_tiled else set()), target.name
    assert not instructions(compile_kernel(text, AVX512).kernel)


def test_functions_configure_and_release() -> None:
    """Tiles are configured once, and released; a step loads four of them for four instructions."""
    case = floats("plain", (160, 128), (128, 64))
    kernel = compile_kernel(case.text(case.arrays()), AMX).kernel
    functions = [text for text in kernel.functions.values() if "tdpbf16ps" in text]
    assert len(functions) == 1
    (text,) = functions
    calls = [line.split('"')[1] for line in text.splitlines() if "llvm.x86." in line]
    assert calls[0] == "llvm.x86.ldtilecfg"
    assert calls[-1] == "llvm.x86.tilerelease"
    assert calls.count("llvm.x86.tilerelease") == calls.count("llvm.x86.ldtilecfg") == 1
    assert calls.count("llvm.x86.tdpbf16ps") == 4
    # Tiles of A are loaded past the L1 cache, or not, where they do not begin with cache lines.
    assert (calls.count("llvm.x86.tileloadd64"), calls.count("llvm.x86.tileloaddt164")) == (4, 2)
    assert calls.count("llvm.x86.tilezero") == calls.count("llvm.x86.tilestored64") == 4


@pytest.mark.parametrize(("depth", "columns", "ranges"), [(1024, 4096, 8), (256, 512, 4)], ids=["long", "short"])
def test_ranges_of_threads(depth: int, columns: int, ranges: int) -> None:
    """Where rows of B are read, a thread reads runs of panels: at least an eighth of all, and a grain of work."""
    case = floats("product", (16, depth), (depth, columns), result="bf16")
    arrays = [np.zeros(size, ml_dtypes.bfloat16) for size in (case.lhs, case.rhs)]
    phase = compile_kernel(case.text(arrays), AMX).kernel.phases[-1]
    assert phase.iterations // phase.grain == ranges
