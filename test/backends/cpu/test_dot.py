"""Kernels of kind `dot` against NumPy: shapes, layouts of operands, element types, epilogues, targets, and any split
of the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
from one_kernel import compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE, CpuTarget
from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import element_type_of
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.types import shape
from stablehlo_py.mlir import func_dialect, ir

RNG = np.random.default_rng(7)
TARGETS = here(AVX512, AVX2)
BEST = here(AVX512, AVX2, BASELINE)[0]
Body = Callable[..., ir.Value | Sequence[ir.Value]]


def fusion_text(kind: str, arrays: Sequence[np.ndarray], body: Body) -> str:
    """A module with one fusion function over inputs like `arrays`; `body` builds its hlo ops."""
    context = make_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [build.tensor(array.shape, element_type_of(array.dtype, context)) for array in arrays]
        with ir.InsertionPoint(module.body):
            function = func_dialect.FuncOp("fusion_0", (inputs, []), visibility="private")
            function.attributes["hlo.fusion"] = ir.StringAttr.get(kind)
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            results = body(*block.arguments)
            results = [results] if isinstance(results, ir.Value) else list(results)
            func_dialect.ReturnOp(results)
        types = [result.type for result in results]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, types))
        assert module.operation.verify()
        return str(module)


def dot(
    lhs: ir.Value,
    rhs: ir.Value,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    element: ir.Type | None = None,
) -> ir.Value:
    """`hlo.dot` with its result type worked out."""
    left, right = shape(lhs), shape(rhs)
    sizes = [left[d] for d in batch[0]]
    sizes += [size for d, size in enumerate(left) if d not in (*contract[0], *batch[0])]
    sizes += [size for d, size in enumerate(right) if d not in (*contract[1], *batch[1])]
    result = build.tensor(sizes, element or lhs.type.element_type)
    return build.value(
        "dot",
        result,
        lhs,
        rhs,
        lhs_batch=batch[0],
        rhs_batch=batch[1],
        lhs_contract=contract[0],
        rhs_contract=contract[1],
    )


def random(*sizes: int, dtype: object = np.float32) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.integers(0, 2, sizes).astype(bool)
    if dtype.kind in "iu":
        return RNG.integers(-100 if dtype.kind == "i" else 0, 100, sizes).astype(dtype)
    if dtype.kind == "c":
        return (RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)).astype(dtype)
    return RNG.standard_normal(sizes).astype(dtype)


def check(
    arrays: Sequence[np.ndarray], body: Body, expected: np.ndarray, target: CpuTarget, tolerance: float = 2e-6
) -> None:
    (result, *_) = run_kernel(fusion_text("dot", arrays, body), arrays, target)
    assert result.shape == expected.shape
    if result.dtype.kind in "iub":
        np.testing.assert_array_equal(result, expected)
        return
    wide = np.complex128 if result.dtype.kind == "c" else np.float64
    difference = np.abs(result.astype(wide) - expected.astype(wide)).max()
    assert difference <= tolerance * max(1.0, np.abs(expected.astype(wide)).max())


SHAPES = [
    (1, 1, 1),
    (1, 7, 1),
    (5, 3, 2),
    (13, 17, 19),
    (16, 32, 33),
    (29, 65, 40),
    (128, 48, 64),
    (1, 300, 50),
    (70, 1, 33),
    (200, 130, 1536),  # three even chunks of the contracted axis
    (60, 70, 1543),  # three chunks and a rest
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("sizes", SHAPES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_layouts(sizes: tuple[int, int, int], layout: str, target: CpuTarget) -> None:
    m, n, k = sizes
    a = random(k, m) if layout[0] == "t" else random(m, k)
    b = random(n, k) if layout[1] == "t" else random(k, n)
    left, right = (a.T if layout[0] == "t" else a), (b.T if layout[1] == "t" else b)
    contract = ([0 if layout[0] == "t" else 1], [1 if layout[1] == "t" else 0])
    check([a, b], lambda x, y: dot(x, y, contract), left.astype(np.float64) @ right, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["f8", "i1", "i2", "i4", "i8", "u1", "u4", "c8", "c16", "?"])
@pytest.mark.parametrize("transposed", [False, True])
def test_element_types(dtype: str, transposed: bool, target: CpuTarget) -> None:
    a, b = random(9, 40, dtype=dtype), random(40, 37, dtype=dtype)
    with np.errstate(over="ignore"):
        expected = a @ b
    stored = np.ascontiguousarray(b.T) if transposed else b
    check([a, stored], lambda x, y: dot(x, y, ([1], [int(transposed)])), expected, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("m", [1, 5, 70])
def test_narrow_floats_accumulate_in_f32(dtype: object, m: int, target: CpuTarget) -> None:
    a, b = random(m, 200, dtype=dtype), random(200, 65, dtype=dtype)
    exact = a.astype(np.float32) @ b.astype(np.float32)
    check([a, b], lambda x, y: dot(x, y, ([1], [0])), exact.astype(dtype), target, 0.01)
    check([a, b], lambda x, y: dot(x, y, ([1], [0]), element=ir.F32Type.get()), exact, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "u8", "?"])
@pytest.mark.parametrize("columns", [2, 3, 4, 8])
def test_few_columns_of_long_sums(columns: int, dtype: str, target: CpuTarget) -> None:
    """Vectors run along the sums, in chunks where the nearest cache does not hold all columns; a batch that shares B, a
    rest of the vectors, and an epilogue with a column's number."""
    a, b, bias = random(3, 70, 1030, dtype=dtype), random(1030, columns, dtype=dtype), random(columns, dtype=dtype)
    with np.errstate(over="ignore"):
        expected = np.matmul(a, b, dtype=np.float32).astype(dtype) if dtype == "f2" else a @ b
        expected = expected | bias if dtype == "?" else expected + bias

    def body(x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        product = dot(x, y, ([2], [0]))
        return build.like("or" if dtype == "?" else "add", product, build.broadcast(z, shape(product), [2]))

    check([a, b, bias], body, expected, target, 2e-2 if dtype == "f2" else 1e-5)


def test_few_columns_are_transposed() -> None:
    def phases(m: int, k: int, n: int) -> list[str]:
        text = fusion_text("dot", [random(m, k), random(k, n)], lambda x, y: dot(x, y, ([1], [0])))
        return [phase.symbol for phase in compile_kernel(text, AVX512).kernel.phases]

    assert phases(200, 512, 8) == ["fusion_0_pack", "fusion_0"]
    assert phases(200, 512, 9) == phases(200, 40, 8) == phases(9, 512, 8) == ["fusion_0"]


def test_bytes_accumulate_in_i32() -> None:
    a, b = random(20, 300, dtype=np.int8), random(300, 33, dtype=np.int8)
    wide = a.astype(np.int32) @ b.astype(np.int32)
    check([a, b], lambda x, y: dot(x, y, ([1], [0]), element=ir.IntegerType.get_signless(32)), wide, BEST)


def test_converted_operand_is_read_where_it_lies() -> None:
    a, b = random(20, 64), random(64, 48, dtype=ml_dtypes.bfloat16)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        return dot(x, build.value("convert", build.tensor(shape(y), ir.F32Type.get()), y), ([1], [0]))

    check([a, b], body, a @ b.astype(np.float32), BEST)


def test_rounding_conversion_is_kept() -> None:
    a, b = random(20, 64), random(64, 48)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        narrow = [build.value("convert", build.tensor(shape(v), ir.BF16Type.get()), v) for v in (x, y)]
        return dot(*narrow, ([1], [0]), element=ir.F32Type.get())

    rounded = [v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (a, b)]
    check([a, b], body, rounded[0] @ rounded[1], BEST)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["?", "u1", "f2", "f8", "c8"])
def test_long_sums(dtype: str, target: CpuTarget) -> None:
    """Sums over chunks of the contracted axis, of every kind of arithmetic; a batch of them, in two places at once."""
    a, b = random(2, 40, 1600, dtype=dtype), random(2, 1600, 50, dtype=dtype)
    if dtype == "f2":
        expected = np.matmul(a, b, dtype=np.float32).astype(dtype)
    else:
        expected = a @ b
    check([a, b], lambda x, y: dot(x, y, ([2], [1]), ([0], [0])), expected, target, 2e-3 if dtype == "f2" else 2e-6)


def test_blocked_summation_bounds_rounding_errors() -> None:
    """One running sum of 2^17 terms is off by 7e-4 here."""
    a, b = np.full((32, 1 << 17), 0.1, np.float32), np.full((1 << 17, 32), 0.1, np.float32)
    check([a, b], lambda x, y: dot(x, y, ([1], [0])), a.astype(np.float64) @ b, AVX2, 5e-6)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_attention_shapes(target: CpuTarget) -> None:
    """Heads are split by a reshape and moved by a transpose; scores are scaled; heads merge again on the way out."""
    batch, length, heads, depth = 2, 10, 3, 16
    q, k = random(batch, length, heads * depth), random(batch, length, heads * depth)
    split = [v.reshape(batch, length, heads, depth).transpose(0, 2, 1, 3) for v in (q, k)]

    def scores(x: ir.Value, y: ir.Value) -> ir.Value:
        parts = [build.transpose(build.reshape(v, [batch, length, heads, depth]), [0, 2, 1, 3]) for v in (x, y)]
        product = dot(*parts, ([3], [3]), ([0, 1], [0, 1]))
        return build.like("multiply", product, build.splat(0.25, product.type))

    check([q, k], scores, 0.25 * np.einsum("bhqd,bhkd->bhqk", *split), target)

    p = random(batch, heads, length, length)

    def mixed(x: ir.Value, y: ir.Value) -> ir.Value:
        values = build.transpose(build.reshape(y, [batch, length, heads, depth]), [0, 2, 1, 3])
        product = dot(x, values, ([3], [2]), ([0, 1], [0, 1]))
        return build.reshape(build.transpose(product, [0, 2, 1, 3]), [batch * length, heads * depth])

    expected = np.einsum("bhqk,bhkd->bqhd", p, split[1]).reshape(batch * length, heads * depth)
    check([p, k], mixed, expected, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("sizes", [(1, 1, 7), (3, 37, 20), (40, 100, 64), (33, 100, 4), (20, 72, 600)])
def test_bias_residual_activation(sizes: tuple[int, int, int], target: CpuTarget) -> None:
    m, n, k = sizes
    a, b, bias, residual = random(m, k), random(k, n), random(n), random(m, n)

    def body(x: ir.Value, y: ir.Value, z: ir.Value, r: ir.Value) -> ir.Value:
        product = dot(x, y, ([1], [0]))
        biased = build.like("add", product, build.broadcast(z, (m, n), [1]))
        return build.like("add", build.like("tanh", build.like("tanh", biased)), r)

    check([a, b, bias, residual], body, np.tanh(np.tanh(a @ b + bias)) + residual, target, 1e-5)


def test_two_outputs() -> None:
    a, b = random(20, 30), random(30, 40)

    def body(x: ir.Value, y: ir.Value) -> list[ir.Value]:
        product = dot(x, y, ([1], [0]))
        return [product, build.like("negate", product)]

    one, two = run_kernel(fusion_text("dot", [a, b], body), [a, b], BEST)
    np.testing.assert_allclose(one, a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(two, -one)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_transposed_result(target: CpuTarget) -> None:
    a, b = random(20, 30), random(30, 40)
    check([a, b], lambda x, y: build.transpose(dot(x, y, ([1], [0])), [1, 0]), (a @ b).T, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_few_channels(target: CpuTarget) -> None:
    """An image resized along its columns: lanes run along those, stores leave gaps for the channels."""
    image, weights = random(5, 20, 3), random(20, 37)

    def body(x: ir.Value, w: ir.Value) -> ir.Value:
        return build.transpose(dot(x, w, ([1], [0])), [0, 2, 1])

    check([image, weights], body, np.einsum("ikc,kn->inc", image, weights), target)


def test_result_with_the_batch_innermost_goes_through_scratch() -> None:
    a, b = random(6, 5, 7), random(6, 7, 9)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        return build.transpose(dot(x, y, ([2], [1]), ([0], [0])), [1, 2, 0])

    check([a, b], body, (a @ b).transpose(1, 2, 0), BEST)


def test_result_used_in_two_places_goes_through_scratch() -> None:
    a, b = random(20, 30), random(30, 20)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        product = dot(x, y, ([1], [0]))
        return build.like("add", product, build.transpose(product, [1, 0]))

    check([a, b], body, a @ b + (a @ b).T, BEST)


def test_operand_that_is_no_view_is_written_first() -> None:
    a, b = random(8, 15), random(30, 11)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        ragged = build.reshape(build.transpose(build.reshape(x, [6, 20]), [1, 0]), [4, 30])
        return dot(build.like("tanh", ragged), y, ([1], [0]))

    check([a, b], body, np.tanh(a.reshape(6, 20).T.reshape(4, 30)) @ b, BEST)


def test_sliced_and_broadcast_operands() -> None:
    a, b = random(9, 40), random(12, 30)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        left = build.value(
            "slice", build.tensor([4, 24], x.type.element_type), x, start=[1, 3], limit=[9, 27], strides=[2, 1]
        )
        right = build.broadcast(y, (2, 12, 30), [1, 2])
        return dot(left, build.reshape(right, [24, 30]), ([1], [0]))

    check([a, b], body, a[1:9:2, 3:27] @ np.concatenate([b, b]), BEST)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    "equation", ["bij,bjk->bik", "bi,bi->b", "ijk,jl->ilk", "ijk,kjl->il", "bij,bkj->bik", "i,j->ij", "ij,ij->"]
)
def test_einsum(equation: str, target: CpuTarget) -> None:
    sizes = dict(zip("bijkl", (50, 6, 6, 5, 70), strict=True))
    left, right = equation.split("->")[0].split(",")
    a, b = random(*(sizes[d] for d in left)), random(*(sizes[d] for d in right))
    out = equation.split("->")[1]
    batch = [d for d in left if d in right and d in out]
    contract = [d for d in left if d in right and d not in out]
    natural = batch + [d for d in left if d not in batch + contract] + [d for d in right if d not in batch + contract]

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        numbers = [[side.index(d) for d in which] for which in (contract, batch) for side in (left, right)]
        product = dot(x, y, (numbers[0], numbers[1]), (numbers[2], numbers[3]))
        return build.transpose(product, [natural.index(d) for d in out])

    expected = np.einsum(equation, a.astype(np.float64), b)
    check([a, b], body, np.asarray(expected), target)


def test_empty_products() -> None:
    check([random(3, 0), random(0, 5)], lambda x, y: dot(x, y, ([1], [0])), np.zeros((3, 5)), BEST)
    empty = run_kernel(
        fusion_text("dot", [random(0, 3), random(3, 5)], lambda x, y: dot(x, y, ([1], [0]))),
        [random(0, 3), random(3, 5)],
        BEST,
    )
    assert empty[0].shape == (0, 5)


def test_plans_pack_what_conflicts_in_the_cache() -> None:
    a, b = random(256, 1024), random(1024, 1024)
    compiled = compile_kernel(fusion_text("dot", [a, b], lambda x, y: dot(x, y, ([1], [0]))), AVX512)
    assert [phase.symbol for phase in compiled.kernel.phases] == ["fusion_0_pack", "fusion_0"]
    small = compile_kernel(fusion_text("dot", [a[:8], b], lambda x, y: dot(x, y, ([1], [0]))), AVX512)
    assert len(small.kernel.phases) == 1


def test_rows_that_stay_in_the_l2_cache_are_one_block() -> None:
    """Also where the last tile has fewer rows than the others: each panel of B has one user, and B is packed by it."""
    depth = BEST.l2 * 3 // 4 // 4 // 256
    arrays = [np.zeros((256, depth), np.float32), np.zeros((depth, 1024), np.float32)]
    kernel = compile_kernel(fusion_text("dot", arrays, lambda x, y: dot(x, y, ([1], [0]))), BEST).kernel
    assert kernel.shared_bytes == 0


@pytest.mark.parametrize("sizes", [(4096, 64, 64), (196, 64, 384), (784, 144, 32), (32, 512, 128), (128, 512, 512)])
def test_threads_get_even_shares(sizes: tuple[int, int, int]) -> None:
    """Also where columns are few panels: rows are several blocks then."""
    m, n, k = sizes
    arrays = [random(m, k), random(k, n)]
    compiled = compile_kernel(fusion_text("dot", arrays, lambda x, y: dot(x, y, ([1], [0]))), BEST)
    phase = compiled.kernel.phases[-1]
    assert phase.iterations >= min(10, phase.nanoseconds // 4000)
    assert phase.iterations // phase.grain >= min(4, phase.nanoseconds // 30_000)
    for chunks in (1, 2, 7):
        np.testing.assert_allclose(compiled.run(arrays, chunks)[0], arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("depth", "columns"), [(128, 3), (131, 3), (18, 5), (700, 3), (40, 16)])
def test_few_sums_are_kept_in_strands(depth: int, columns: int, target: CpuTarget) -> None:
    """Each would wait for its own last addition, in straight-line code and in loops."""
    x, y = random(6, depth), random(6, depth, columns)

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        return dot(a, b, ((1,), (1,)), ((0,), (0,)))

    check([x, y], body, np.einsum("bk,bkn->bn", x, y, dtype=np.float64), target)
    text = "".join(compile_kernel(fusion_text("dot", [x, y], body), target).kernel.functions.values())
    assert text.count("fadd") >= 1  # of the strands, at the end


# --- a matrix and its own transpose, of which one half is computed: the bits of the product with a copy of it ---------

ALL_TARGETS = here(AVX512, AVX2, BASELINE)
Epilogue = Callable[[ir.Value], ir.Value]


def _same(product: ir.Value) -> ir.Value:
    return product


def scaled(product: ir.Value) -> ir.Value:
    """A number times the hyperbolic tangent: too long to be repeated for each vector of a tile."""
    factor = build.splat(0.01, product.type)
    return build.like("multiply", build.like("tanh", build.like("multiply", product, factor)), factor)


def rounded(product: ir.Value) -> ir.Value:
    return build.value("convert", build.tensor(shape(product), ir.BF16Type.get()), product)


def by_row(product: ir.Value) -> ir.Value:
    """Depends on the row: not symmetric."""
    rows = build.value("iota", product.type, dimension=len(shape(product)) - 2)
    return build.like("add", product, rows)


def compare_with_copy(
    array: np.ndarray,
    along: int,
    target: CpuTarget,
    epilogue: Epilogue = _same,
    batch: Sequence[int] = (),
    *,
    is_mirrored: bool = True,
) -> None:
    """The product of an array with itself, and with a copy."""
    both = ([along], [along]), (batch, batch)
    one = compile_kernel(fusion_text("dot", [array], lambda x: epilogue(dot(x, x, *both))), target)
    two = compile_kernel(fusion_text("dot", [array] * 2, lambda x, y: epilogue(dot(x, y, *both))), target)
    assert [phase.symbol for phase in two.kernel.phases if "mirror" in phase.symbol] == []
    assert any("mirror" in phase.symbol for phase in one.kernel.phases) == is_mirrored
    (expected,) = two.run([array, array])
    for chunks in (1, 3):
        (result,) = one.run([array], chunks)
        assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("sizes", [(200, 150), (256, 128), (271, 130), (323, 1543)], ids=str)
def test_symmetric_sizes(sizes: tuple[int, int], along: int, target: CpuTarget) -> None:
    compare_with_copy(random(*(sizes if along else sizes[::-1])), along, target)


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "i2"])
def test_symmetric_types(dtype: str, target: CpuTarget) -> None:
    compare_with_copy(random(261, 140, dtype=dtype), 1, target)


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("epilogue", [scaled, rounded], ids=lambda function: function.__name__)
def test_symmetric_epilogues(epilogue: Epilogue, target: CpuTarget) -> None:
    compare_with_copy(random(233, 140), 1, target, epilogue)


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda target: target.name)
def test_symmetric_batches(target: CpuTarget) -> None:
    compare_with_copy(random(3, 210, 130), 2, target, batch=[0])
    compare_with_copy(random(130, 3, 210), 0, target, batch=[1])


def test_what_is_not_symmetric_is_computed() -> None:
    compare_with_copy(random(256, 140), 1, BEST, by_row, is_mirrored=False)
    compare_with_copy(random(256, 127), 1, BEST, is_mirrored=False)  # a copy takes longer than the products
    compare_with_copy(random(40, 140), 1, BEST, is_mirrored=False)  # less than two panels on any machine
    compare_with_copy(random(256, 140, dtype="c8"), 1, BEST, is_mirrored=False)
    compare_with_copy(random(2, 256, 140, dtype=ml_dtypes.bfloat16), 2, BASELINE, batch=[0], is_mirrored=True)
