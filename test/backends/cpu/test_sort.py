"""Sorts on the CPU, against NumPy's stable argsort, bit by bit: all types, lengths around those at which another kernel
is chosen, every comparator of JAX."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.kernels import quick
from stablehlo_py.backends.cpu.kernels.radix import WIDE_DIGITS_FROM
from stablehlo_py.backends.cpu.kernels.records import Order
from stablehlo_py.backends.cpu.kernels.records import order_of as order_of_rows
from stablehlo_py.backends.cpu.kernels.side_by_side import DIGIT_RECORDS, LONGEST, LONGEST_BYTES, exchanges
from stablehlo_py.backends.cpu.kernels.sort import LEAST_ROW
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.types import shape
from stablehlo_py.frontend.load import load

Array = np.ndarray
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TYPES = (*FLOATS, *INTEGERS, "bool")
LENGTHS = (0, 1, 2, 9, LEAST_ROW - 1, LEAST_ROW, 127, 128, 1001, WIDE_DIGITS_FROM - 1, WIDE_DIGITS_FROM, 5003)


def compiled(
    function: Callable[..., object] | str, *arguments: Array, threads: int = 1, cpu: str | None = None
) -> list[Array]:
    """The results of a function of JAX, or of a module."""
    if not isinstance(function, str):
        with jax.enable_x64(True):
            function = jax.jit(function).lower(*arguments).as_text()
    options = shlo.Options(cache_dir=None, threads=threads, **({"cpu": cpu} if cpu else {}))
    results = shlo.compile(function, options=options)(*arguments)
    return [np.asarray(result) for result in (results if isinstance(results, list | tuple) else [results])]


def numbers(dtype: str, *sizes: int, seed: int = 0) -> Array:
    """Many of which are equal; floats with zeros of both signs, infinities, NaN of both signs and denormals."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, sizes).astype(bool)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype.startswith("complex"):
        part = f"float{int(dtype[7:]) // 2}"
        found = np.empty(sizes, dtype)
        found.real, found.imag = numbers(part, *sizes, seed=seed), numbers(part, *sizes, seed=seed + 1)
        return found
    if dtype in INTEGERS:
        low, high = int(ml_dtypes.iinfo(kind).min), int(ml_dtypes.iinfo(kind).max)
        found = random.integers(max(low, -900), min(high, 900), sizes, endpoint=True)
        return np.where(random.random(sizes) < 0.1, random.choice(np.array([low, high], object), sizes), found).astype(
            kind
        )
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40])
    found = random.standard_normal(sizes).round(2)
    return np.where(random.random(sizes) < 0.3, random.choice(special, sizes), found).astype(kind)


def comparable(x: Array) -> Array:
    """Numbers of a type that NumPy sorts."""
    if x.dtype.kind == "V" or x.dtype.name in ("bfloat16", "int4", "uint4"):
        return x.astype(np.float32)
    return x


def order_of(*keys: Array, axis: int = -1) -> Array:
    """The stable order; zeros are equal, and all NaN are, and come last."""
    order = np.argsort(comparable(keys[-1]), axis=axis, kind="stable")
    for key in reversed(keys[:-1]):
        moved = np.take_along_axis(key, order, axis)
        order = np.take_along_axis(order, np.argsort(comparable(moved), axis=axis, kind="stable"), axis)
    return order


def is_sorted(found: list[Array], order: Array, *operands: Array, axis: int = -1) -> None:
    for result, operand in zip(found, operands, strict=True):
        assert result.dtype == operand.dtype
        assert result.tobytes() == np.take_along_axis(operand, order, axis).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_one_operand(dtype: str, length: int) -> None:
    x = numbers(dtype, 2, length, seed=length)
    is_sorted(compiled(jnp.sort, x), order_of(x), x)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_key_and_what_moves_with_it(dtype: str) -> None:
    """Equal ones keep their order: their places move with them."""
    x = numbers(dtype, 2, 2100)
    places = np.broadcast_to(np.arange(2100, dtype=np.int32), x.shape).copy()
    is_sorted(compiled(lambda *all: jax.lax.sort(all, num_keys=1), x, places), order_of(x), x, places)
    (order,) = compiled(lambda x: jnp.argsort(x, descending=True), x)
    backwards = np.flip(order_of(np.flip(x, -1)), -1)
    assert np.array_equal(order, 2099 - backwards)


@pytest.mark.parametrize("carried", ["bool", "int8", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("key", ["int8", "float32", "float64"])
def test_what_moves(key: str, carried: str) -> None:
    x, y = numbers(key, 2, 1500), numbers(carried, 2, 1500, seed=1)
    is_sorted(compiled(lambda *all: jax.lax.sort(all, num_keys=1), x, y), order_of(x), x, y)
    is_sorted(compiled(lambda *all: jax.lax.sort(all, num_keys=1), x, y, x), order_of(x), x, y, x)


@pytest.mark.parametrize(
    "keys",
    [
        ("float32", "int8"),
        ("int8", "float32"),
        ("bool", "int4", "float16"),
        ("float32", "float32"),
        ("float64", "int8"),  # more bits than a record's key has
    ],
)
@pytest.mark.parametrize("length", [LEAST_ROW - 1, 3000, 5000])
def test_several_keys(keys: tuple[str, ...], length: int) -> None:
    operands = [numbers(each, length, seed=seed) for seed, each in enumerate((*keys, "float32"))]
    found = compiled(lambda *all: jax.lax.sort(all, num_keys=len(keys)), *operands)
    is_sorted(found, order_of(*operands[:-1]), *operands)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype: str) -> None:
    x = numbers(dtype, 2, 600)
    order = order_of(x.real, x.imag)
    is_sorted(compiled(jnp.sort, x), order, x)


@pytest.mark.parametrize(("sizes", "axis"), [((300, 7), 0), ((3, 200, 5), 1), ((5, 3, 200), 2), ((4200, 3), 0)])
def test_any_axis(sizes: tuple[int, ...], axis: int) -> None:
    x, y = numbers("float32", *sizes), numbers("int32", *sizes, seed=1)
    is_sorted(compiled(lambda x: jnp.sort(x, axis), x), order_of(x, axis=axis), x, axis=axis)
    found = compiled(lambda *all: jax.lax.sort(all, dimension=axis, num_keys=1), x, y, y)
    is_sorted(found, order_of(x, axis=axis), x, y, y, axis=axis)


# Rows that are neighbours or not, as many as lanes or not, of which all or some have one element for each key.
SHORT_ROWS = [
    ((100, 5), 1),
    ((33, 41), 1),
    ((128, 41), 1),
    ((3, 41, 7), 1),
    ((41, 64), 0),
    ((70, LONGEST_BYTES), 1),
    ((33, LONGEST), 1),
    ((33, LONGEST + 1), 1),
    ((300, 40), 0),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("sizes", "axis"), SHORT_ROWS)
@pytest.mark.parametrize("usual", [True, False])
def test_short_rows_side_by_side(dtype: str, sizes: tuple[int, ...], axis: int, usual: bool) -> None:
    x = numbers(dtype, *sizes)
    if usual and dtype in FLOATS:  # zeros of both signs and NaN in the first third only
        plain = np.random.default_rng(1).standard_normal(sizes).astype(x.dtype)
        x = np.where(np.arange(x.size).reshape(sizes) % 1000 < 300, x, plain)
    threads = 1 + sizes[0] % 2
    is_sorted(compiled(lambda x: jnp.sort(x, axis), x, threads=threads), order_of(x, axis=axis), x, axis=axis)
    if dtype == "float32" and usual:
        for cpu in ("avx2", "x86-64"):
            found = compiled(lambda x: jnp.sort(x, axis), x, cpu=cpu)
            is_sorted(found, order_of(x, axis=axis), x, axis=axis)


def test_full_groups_of_rows_begin_at_known_distances() -> None:
    """No row is looked for behind the last one, but where the last group is not full."""
    minima = []
    for rows in (64, 65):
        sort = jax.jit(jnp.sort).lower(np.zeros((rows, 20), np.float32)).as_text()
        stages = shlo.compile(sort, options=shlo.Options(cache_dir=None, threads=1, cpu="avx2")).stages
        minima.append(stages["kernels"].count("smin"))
    assert minima[0] <= minima[1] - 16


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("sizes", "axis"), [*SHORT_ROWS, ((33, 4 * DIGIT_RECORDS), 1), ((33, 16 * DIGIT_RECORDS), 1), ((64, 70), 0)]
)
def test_what_moves_with_short_rows(dtype: str, sizes: tuple[int, ...], axis: int) -> None:
    """Places, an element of other bits, several, and of those with two keys."""
    x, few, other = numbers(dtype, *sizes), numbers("int8", *sizes, seed=1), numbers("complex64", *sizes, seed=2)
    order, threads = order_of(x, axis=axis), 1 + sizes[0] % 2
    np.testing.assert_array_equal(compiled(lambda x: jnp.argsort(x, axis), x, threads=threads)[0], order)
    pairs = compiled(lambda *all: jax.lax.sort(all, dimension=axis, num_keys=1), x, few)
    is_sorted(pairs, order, x, few, axis=axis)
    several = compiled(lambda *all: jax.lax.sort(all, dimension=axis, num_keys=1), x, few, other, threads=threads)
    is_sorted(several, order, x, few, other, axis=axis)
    two = compiled(lambda *all: jax.lax.sort(all, dimension=axis, num_keys=2), few, x, other)
    is_sorted(two, order_of(few, x, axis=axis), few, x, other, axis=axis)
    for cpu in ("avx2", "x86-64") if dtype in ("float32", "int8", "float16") else ():
        np.testing.assert_array_equal(compiled(lambda x: jnp.argsort(x, axis), x, cpu=cpu)[0], order)


@pytest.mark.parametrize("size", [*range(1, 20), 31, 32, 33, 63, 64, 65, 100, 200, LONGEST])
def test_the_network_sorts(size: int) -> None:
    """All sequences of zeros and ones if they are few: so it sorts all others, too (Knuth, 5.3.4, theorem Z)."""
    random = np.random.default_rng(size)
    bits = np.arange(1 << size)[:, None] >> np.arange(size) & 1 if size < 14 else random.integers(0, 2, (2000, size))
    expected = np.sort(bits, 1)
    for one, other in exchanges(size):
        low, high = np.minimum(bits[:, one], bits[:, other]), np.maximum(bits[:, one], bits[:, other])
        bits[:, one], bits[:, other] = low, high
    np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_give_the_same(threads: int) -> None:
    x = numbers("float32", 30, 5000)
    is_sorted(compiled(jnp.sort, x, threads=threads), order_of(x), x)


@pytest.mark.parametrize("cpu", ["avx2", "x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16"])
def test_other_processors(cpu: str, dtype: str) -> None:
    x, y = numbers(dtype, 2, 5000), numbers("float64", 2, 5000, seed=1)
    is_sorted(compiled(jnp.sort, x, cpu=cpu), order_of(x), x)
    is_sorted(compiled(lambda *all: jax.lax.sort(all, num_keys=1), x, y, cpu=cpu), order_of(x), x, y)


@pytest.mark.parametrize("kind", ["sorted", "reversed", "equal", "few", "zeros", "nan"])
def test_how_keys_lie(kind: str) -> None:
    x = np.sort(np.random.default_rng(0).standard_normal(70_000).astype(np.float32))
    x = {
        "sorted": x,
        "reversed": x[::-1].copy(),
        "equal": np.full_like(x, 3),
        "few": (x * 1000).astype(int).astype(np.float32) % 7,
        "zeros": np.copysign(np.zeros_like(x), np.sin(np.arange(x.size))),
        "nan": np.full_like(x, np.nan),
    }[kind]
    is_sorted(compiled(jnp.sort, x), order_of(x), x)


SORT = """
func.func @main(%x: {type}, %y: {type}) -> ({type}, {type}) {{
  %0:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64, is_stable = false}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    {body}
    stablehlo.return %p : tensor<i1>
  }}) : ({type}, {type}) -> ({type}, {type})
  return %0#0, %0#1 : {type}, {type}
}}"""


def bits_in_order(x: Array) -> Array:
    """Integers that compare as floats do in total order."""
    bits = x.view(np.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


TWO = "(tensor<f32>, tensor<f32>)"
COMPARATORS: dict[str, tuple[str, Callable[[Array, Array], list[Array]]]] = {
    "no place for nan": (f"%p = stablehlo.compare LT, %a, %b, FLOAT : {TWO} -> tensor<i1>", lambda x, _: [x]),
    "total order": (
        f"%p = stablehlo.compare LT, %a, %b, TOTALORDER : {TWO} -> tensor<i1>",
        lambda x, _: [bits_in_order(x)],
    ),
    "descending": (
        f"%p = stablehlo.compare GT, %a, %b, TOTALORDER : {TWO} -> tensor<i1>",
        lambda x, _: [~bits_in_order(x)],
    ),
    "sides exchanged": (
        f"%p = stablehlo.compare GT, %b, %a, TOTALORDER : {TWO} -> tensor<i1>",
        lambda x, _: [bits_in_order(x)],
    ),
    "second operand": (
        f"%p = stablehlo.compare LT, %c, %d, TOTALORDER : {TWO} -> tensor<i1>",
        lambda _, y: [bits_in_order(y)],
    ),
    "computed": (
        f"""%s = stablehlo.abs %a : tensor<f32>
        %t = stablehlo.abs %b : tensor<f32>
        %p = stablehlo.compare LT, %s, %t, TOTALORDER : {TWO} -> tensor<i1>""",
        lambda x, _: [bits_in_order(np.abs(x))],
    ),
    "of two operands": (
        f"""%s = stablehlo.add %a, %c : tensor<f32>
        %t = stablehlo.add %b, %d : tensor<f32>
        %p = stablehlo.compare LT, %s, %t, FLOAT : {TWO} -> tensor<i1>""",
        lambda x, y: [x + y],
    ),
    "zeros of one operand": (  # not the one that is compared
        f"""%0 = stablehlo.constant dense<0.0> : tensor<f32>
        %u = stablehlo.compare EQ, %c, %0, FLOAT : {TWO} -> tensor<i1>
        %v = stablehlo.compare EQ, %d, %0, FLOAT : {TWO} -> tensor<i1>
        %s = stablehlo.select %u, %0, %a : tensor<i1>, tensor<f32>
        %t = stablehlo.select %v, %0, %b : tensor<i1>, tensor<f32>
        %p = stablehlo.compare LT, %s, %t, TOTALORDER : {TWO} -> tensor<i1>""",
        lambda x, y: [bits_in_order(np.where(y == 0, np.float32(0), x))],
    ),
    "only zeros are equal": (
        f"""%0 = stablehlo.constant dense<0.0> : tensor<f32>
        %u = stablehlo.compare EQ, %a, %0, FLOAT : {TWO} -> tensor<i1>
        %v = stablehlo.compare EQ, %b, %0, FLOAT : {TWO} -> tensor<i1>
        %s = stablehlo.select %u, %0, %a : tensor<i1>, tensor<f32>
        %t = stablehlo.select %v, %0, %b : tensor<i1>, tensor<f32>
        %p = stablehlo.compare LT, %s, %t, TOTALORDER : {TWO} -> tensor<i1>""",
        lambda x, _: [bits_in_order(np.where(x == 0, np.float32(0), x))],
    ),
    "one zero for another number": (
        f"""%0 = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.constant dense<1.0> : tensor<f32>
        %u = stablehlo.compare EQ, %a, %1, FLOAT : {TWO} -> tensor<i1>
        %v = stablehlo.compare EQ, %b, %1, FLOAT : {TWO} -> tensor<i1>
        %s = stablehlo.select %u, %0, %a : tensor<i1>, tensor<f32>
        %t = stablehlo.select %v, %0, %b : tensor<i1>, tensor<f32>
        %p = stablehlo.compare LT, %s, %t, TOTALORDER : {TWO} -> tensor<i1>""",
        lambda x, _: [bits_in_order(np.where(x == 1, np.float32(0), x))],
    ),
}


def order(function: Callable[..., object], *arguments: Array) -> Order | None:
    """How a function that is one sort is sorted."""
    with jax.enable_x64(True):
        module = run_stages(load(jax.jit(function).lower(*arguments).as_text()), "", "fused", shlo.Options())
    fusions = [op for op in module.body.operations if "hlo.fusion" in op.attributes]
    (op,) = (each for one in fusions for each in one.body.blocks[0].operations if each.operation.name.endswith(".sort"))
    return order_of_rows(op, shape(op.operands[0])[-1])


def test_which_way_rows_are_sorted() -> None:
    x, y = np.zeros(1000, np.float32), np.zeros(1000)
    both = frozenset(("zero", "nan"))
    one = order(jnp.sort, x)
    assert one is not None
    assert (one.bits, one.restored, one.classes, one.carries) == (32, 0, both, False)
    placed = order(lambda *all: jax.lax.sort(all, num_keys=1), x, x.astype(np.int32))
    assert placed is not None
    assert (placed.restored, placed.moved, placed.gathered) == (0, 1, ())
    gathered = order(lambda *all: jax.lax.sort(all, num_keys=1), x, y, x)
    assert gathered is not None
    assert (gathered.restored, gathered.moved, gathered.gathered) == (0, None, (1, 2))
    two = order(lambda *all: jax.lax.sort(all, num_keys=2), x, x)
    assert two is not None
    assert (two.bits, two.restored, two.gathered) == (64, None, (0, 1))
    whole = order(jnp.sort, x.astype(np.int16))
    assert whole is not None
    assert (whole.bits, whole.classes) == (16, frozenset())
    assert order(lambda *all: jax.lax.sort(all, num_keys=2), y, x) is None  # 96 bits


@pytest.mark.parametrize("name", COMPARATORS)
@pytest.mark.parametrize("size", [LEAST_ROW - 1, 4500])
def test_comparators(name: str, size: int) -> None:
    body, keys = COMPARATORS[name]
    x, y = numbers("float32", size), numbers("float32", size, seed=1)
    found = compiled(SORT.format(type=f"tensor<{size}xf32>", body=body), x, y)
    is_sorted(found, order_of(*keys(x, y)), x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 40_001),
        (40, 1000),
        (700, 64),
        (1200, 33),
        (33, 1001),
        (5000, 7),
        (2100, 16),
        (20_000, 2),
        (200, 49),
        (100, 95),
    ],
)
def test_by_partitions(dtype: str, sizes: tuple[int, int]) -> None:
    """Rows of one network, and longer ones; along both dimensions."""
    x = numbers(dtype, *sizes)
    is_sorted(compiled(jnp.sort, x), order_of(x), x)
    is_sorted(compiled(lambda x: jnp.sort(x, 0), x.T.copy()), order_of(x.T, axis=0), x.T.copy(), axis=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("sizes", "axis", "partitioned"),
    [
        ((2000, 17), 1, False),
        ((500, 100), 1, True),
        ((100, 500), 0, False),
        ((9, 1001), 1, True),
        ((8, 1001), 1, False),
    ],
)
def test_what_is_sorted_by_partitions(dtype: str, sizes: tuple[int, int], axis: int, partitioned: bool) -> None:
    """Rows that are neighbours, and are not so short that lanes sort them in less time."""
    with jax.enable_x64(True):
        text = jax.jit(lambda x: jnp.sort(x, axis)).lower(numbers(dtype, *sizes)).as_text()
    kernels = run_stages(load(text), "", "kernels", shlo.Options(cpu="znver4"))
    assert ("shlo_network" in str(kernels)) == partitioned


@pytest.mark.parametrize("kind", ["random", "least", "greatest", "extremes", "rising", "falling", "organ pipes"])
@pytest.mark.parametrize("depth", [1e9, 2.0, 0.0])
def test_partitions_that_do_not_halve(kind: str, depth: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are still long after many partitions are divided at the middle of the range of their keys."""
    monkeypatch.setattr(quick, "DEPTH", depth)
    random, size = np.random.default_rng(0), 50_000
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    rising = np.arange(size, dtype=np.int32)
    x = {
        "random": random.integers(low, high, size, dtype=np.int32),
        "least": np.full(size, low, np.int32),
        "greatest": np.full(size, high, np.int32),
        "extremes": random.choice(np.array([low, low + 1, high - 1, high], np.int32), size),
        "rising": rising,
        "falling": rising[::-1].copy(),
        "organ pipes": np.minimum(rising, rising[::-1]),
    }[kind]
    is_sorted(compiled(jnp.sort, x), order_of(x), x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint64"])
@pytest.mark.parametrize(("size", "k"), [(70, 3), (129, 1), (1000, 32), (5003, 8)])
def test_few_of_a_long_row(dtype: str, size: int, k: int) -> None:
    """The last ones that are looked through one by one count, too; ties by lower index."""
    x = numbers(dtype, 2, size)
    x = np.where(np.isnan(x.astype(np.float64)) | (x == 0), np.ones_like(x), x)  # total order: no place to choose
    for each in (x, np.sort(comparable(x), -1).astype(x.dtype)):
        values, places = compiled(lambda x: jax.lax.top_k(x, k), each)
        order = size - 1 - np.flip(order_of(np.flip(each, -1)), -1)[:, :k]
        assert np.array_equal(places, order)
        assert values.tobytes() == np.take_along_axis(each, order, -1).tobytes()
