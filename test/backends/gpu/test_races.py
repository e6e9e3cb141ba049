"""Races between threads of a launch: no template has one, and each of its barriers is needed. Races that are planted:
test_planted_races.py.

A new template: a line in TEMPLATES for each road that its code can take, in WITHOUT_BARRIERS if that has none."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from masked_attention import Seen, causal, masked, with_gradients

import stablehlo_py as shlo
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.gpu import kernels
from stablehlo_py.backends.gpu.kernels import candidates
from stablehlo_py.backends.gpu.plans import KernelPlan, Plans, digest, name_of
from stablehlo_py.backends.gpu.races import RaceCheckBackend, RaceError
from stablehlo_py.backends.gpu.target import OPENCL, GpuTarget
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.mlir import ir
from stablehlo_py.targets import register_backend, unregister_backend

OPTIONS = shlo.Options(cache_dir=None, threads=1)
TARGET = "opencl-races"


@pytest.fixture(autouse=True)
def _device(real_device: object) -> None:
    """Skips where there is no device."""


# --- templates -------------------------------------------------------------------------------------------------------


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=1)


def sums(axis: int) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jnp.sum(x, axis=axis) * 2


def extremes(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.max(x, axis=0), jnp.argmin(x, axis=0)


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.tanh(a @ b)


def matrix_product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def narrow_product(a: jax.Array, b: jax.Array) -> jax.Array:
    return (jnp.matmul(a, b, preferred_element_type=jnp.float32) / 64).astype(jnp.bfloat16)


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.softmax(q @ k.T * 0.1, axis=1) @ v


def gradients(q: jax.Array, k: jax.Array, v: jax.Array, of_result: jax.Array) -> tuple[jax.Array, ...]:
    result, backward = jax.vjp(attention, q, k, v)
    return result, *backward(of_result)


def weighted(
    q: jax.Array, k: jax.Array, u: jax.Array, v: jax.Array, seen: Seen = lambda i, j: i >= 0
) -> tuple[jax.Array, jax.Array]:
    """Two products with the weights of a softmax, which nobody shifts."""
    weights = jnp.exp(q @ k.T * 0.01)
    i, j = (lax.broadcasted_iota(jnp.int32, weights.shape, d) for d in range(2))
    weights = jnp.where(seen(i, j), weights, 0)
    weights = weights / jnp.sum(weights, axis=1, keepdims=True)
    return weights.T @ u, weights.T @ v


@dataclass(frozen=True)
class Case:
    """A function, the sizes of its arguments, their type, the machine whose template is run, and words of the plan of
    its one kernel, where that is not what the template chooses."""

    function: Callable[..., object]
    sizes: Sequence[tuple[int, ...]]
    dtype: str = "float32"
    target: GpuTarget = OPENCL
    plan: str = ""


class CaseBackend(RaceCheckBackend):
    """What checks a case."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.target)
        self.case = case

    def plans(self, module: ir.Module, options: shlo.Options) -> Plans | None:
        if not self.case.plan:
            return super().plans(module, options)
        with module.context, ir.Location.unknown():
            (function,) = fusions(module)
            plan = next(each.plan for each in candidates(function, self.case.target) if self.case.plan in each.plan)
            return Plans(self.case.target.name, "", (KernelPlan(name_of(function), digest(function), plan),))


def histogram(i: jax.Array, u: jax.Array) -> jax.Array:
    return jnp.zeros(7, u.dtype).at[i.astype(jnp.int32)].add(u)


def clusters(i: jax.Array, u: jax.Array, count: int = 7) -> jax.Array:
    return jnp.zeros((count, u.shape[1]), u.dtype).at[i.astype(jnp.int32)].add(u)


def beginnings(i: jax.Array, u: jax.Array) -> jax.Array:
    """Updates of parts of rows: they are sorted."""
    of = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lax.scatter_add(jnp.zeros((7, u.shape[1] + 1), u.dtype), i.astype(jnp.int32)[:, None], u, of)


def cholesky(x: jax.Array) -> jax.Array:
    return lax.linalg.cholesky(x / 9 + 9 * jnp.eye(x.shape[-1]), symmetrize_input=False)


def triangular(x: jax.Array, b: jax.Array, **options: bool) -> jax.Array:
    return lax.linalg.triangular_solve(x / 9 + 3 * jnp.eye(x.shape[-1]), b, **{"left_side": True, **options})


nearby = masked(lambda i, j: j - i < 400, -1e30)
EXCHANGES = replace(OPENCL, exchanges=True, most_threads=1024)
MMA, WGMMA = (tuple(name for name in MATRIX_UNITS if name.startswith(unit)) for unit in ("mma", "wgmma"))
ATOMIC = replace(OPENCL, atomic_scatter=True)
MATRIX_UNIT = replace(OPENCL, matrix_units=MMA, copies=True, shared_bytes=48 << 10)
MMA_F8, WGMMA_F8 = (tuple(name for name in units if ".f8" in name) for units in (MMA, WGMMA))
F8_UNIT = replace(MATRIX_UNIT, matrix_units=MMA_F8)
F8_WARPGROUPS = replace(OPENCL, matrix_units=WGMMA_F8, copies=True, shared_bytes=64 << 10)
WARPGROUPS = replace(OPENCL, matrix_units=WGMMA, shared_bytes=48 << 10)
BOXES = replace(OPENCL, matrix_units=WGMMA, resident=1, shared_bytes=96 << 10, maps=True)

TEMPLATES = {
    "row": Case(lambda x: x - jnp.sum(x, axis=1, keepdims=True), [(3, 1000)]),
    "row, few columns": Case(lambda x: x - jnp.max(x, axis=1, keepdims=True), [(3, 5)], "int32"),
    "row, two levels": Case(softmax, [(4, 20)]),
    "row, Booleans": Case(lambda x: jnp.all(x > 0, axis=1, keepdims=True) & (x > 1), [(9, 20)], "float16"),
    "row, complex": Case(lambda x: x / jnp.sum(x, axis=1, keepdims=True), [(2, 20)], "complex64"),
    "row, long, kept": Case(softmax, [(2, 9000)]),
    "row, long, read by every level": Case(softmax, [(2, 70_000)]),
    "row, subgroups": Case(softmax, [(3, 3000)], target=EXCHANGES),
    "row, many subgroups": Case(softmax, [(2, 17_000)], target=EXCHANGES),
    "sort of a tile": Case(jnp.sort, [(3, 40)]),
    "sort, several tiles": Case(jnp.sort, [(2100,)]),
    "radix sort": Case(jnp.sort, [(2100,)], "int8", replace(OPENCL, shared_bytes=14 << 10)),
    "column": Case(sums(0), [(300, 33)]),
    "column, few rows": Case(sums(0), [(3, 40)]),
    "column, several results": Case(extremes, [(129, 7)]),
    "column, two kernels": Case(sums(0), [(70_000, 3)]),
    "column, vectors": Case(sums(0), [(40, 260)]),
    "column, subgroups": Case(extremes, [(300, 36)], target=EXCHANGES),
    "column, two kernels, subgroups": Case(sums(0), [(70_000, 3)], target=EXCHANGES),
    "column, first and last": Case(lambda x: jnp.sum(x, axis=(0, 2)), [(3, 2, 500)]),
    "long rows, two kernels": Case(sums(1), [(3, 70_000)]),
    "transposition": Case(lambda x: x.T + 1, [(64, 68)]),
    "transposition of half floats": Case(lambda x: x.T, [(64, 72)], "bfloat16"),
    "transposition of odd sizes": Case(lambda x: x.T, [(65, 67)], "complex64"),
    "product in tiles": Case(product, [(64, 64), (64, 64)]),
    "product in small tiles, parts of them": Case(product, [(33, 9), (9, 65)]),
    "product of half floats": Case(product, [(100, 33), (33, 70)], "float16"),
    "product of one row": Case(product, [(1, 500), (500, 33)]),
    "product of few columns": Case(product, [(500, 64), (64, 9)]),
    "product of vectors": Case(lambda a, b: product(a, b.T), [(3, 70), (5, 70)], "bfloat16"),
    "scan": Case(lambda x: lax.cumsum(x, 1), [(3, 100)]),
    "scan in several steps": Case(lambda x: lax.cumsum(x, 1), [(2, 4099)]),
    "scan of wide types": Case(lambda x: lax.cumprod(x, 1), [(2, 40)], "complex64"),
    "scan in three kernels": Case(lambda x: lax.cummax(x, 0), [(20_000,)]),
    "reduction in order": Case(lambda x: jnp.argmax(x, 1), [(2, 700)]),
    "scatter in bins": Case(histogram, [(700,), (700,)]),
    "scatter in bins, two kernels": Case(clusters, [(1800,), (1800, 3)]),
    "scatter in bins of groups": Case(partial(clusters, count=90), [(700,), (700, 3)], target=EXCHANGES),
    "scatter in runs": Case(beginnings, [(700,), (700, 32)]),
    "scatter in order": Case(beginnings, [(700,), (700, 3)]),
    "matrix units": Case(matrix_product, [(64, 64), (64, 64)], "bfloat16", MATRIX_UNIT),
    "matrix units, split": Case(matrix_product, [(40, 576), (576, 40)], "bfloat16", MATRIX_UNIT),
    "warpgroups": Case(matrix_product, [(40, 320), (320, 72)], "bfloat16", WARPGROUPS),
    "tensor maps": Case(
        matrix_product,
        [(64, 320), (320, 64)],
        "bfloat16",
        BOXES,
        "tensor maps 64x64x64, 128 threads, 16x64 a subgroup, 3",
    ),
    "matrix units, one step": Case(matrix_product, [(40, 24), (24, 72)], "float16", MATRIX_UNIT),
    "matrix units, f8": Case(lambda a, b: narrow_product(a, b.T), [(64, 128), (64, 128)], "float8_e4m3fn", F8_UNIT),
    "warpgroups, f8": Case(lambda a, b: narrow_product(a, b.T), [(40, 560), (72, 560)], "float8_e5m2", F8_WARPGROUPS),
    "warpgroups, f8, turned": Case(narrow_product, [(40, 560), (560, 72)], "float8_e4m3fn", F8_WARPGROUPS),
    "attention": Case(attention, [(70, 40), (150, 40), (150, 24)]),
    "gradients of attention": Case(gradients, [(70, 20), (70, 20), (70, 24), (70, 24)]),
    "weighted sums, matrix units": Case(
        weighted, [(70, 16), (70, 16), (70, 16), (70, 16)], "bfloat16", replace(MATRIX_UNIT, shared_bytes=100 << 10)
    ),
    "gradients of attention, masked": Case(
        with_gradients(nearby), [(70, 1, 8), (520, 1, 8), (520, 1, 8), (70, 1, 8)], target=EXCHANGES
    ),
    "weighted sums, masked, matrix units": Case(
        partial(weighted, seen=lambda i, j: i - j < 400),
        [(520, 16), (70, 16), (520, 16), (520, 16)],
        "bfloat16",
        replace(MATRIX_UNIT, shared_bytes=100 << 10),
    ),
    "gradients of attention, many columns": Case(gradients, [(20, 8), (20, 8), (20, 300), (20, 300)]),
    "attention of few queries": Case(attention, [(5, 20), (90, 20), (90, 300)], "float16"),
    "attention by matrix units": Case(attention, [(64, 16), (130, 16), (130, 16)], "bfloat16", MATRIX_UNIT),
    "attention by matrix units, wide values": Case(attention, [(64, 16), (70, 16), (70, 144)], "bfloat16", MATRIX_UNIT),
    "attention, masked": Case(causal, [(20, 1, 8), (520, 1, 8), (520, 1, 8)], target=replace(EXCHANGES, resident=0)),
    "attention, masked, parts of the keys": Case(nearby, [(20, 1, 8), (520, 1, 8), (520, 1, 8)], target=EXCHANGES),
    "attention, parts of the keys": Case(attention, [(20, 20), (300, 20), (300, 24)]),
    "loop in one kernel": Case(lambda x: lax.fori_loop(0, 20, lambda _, x: softmax(x), x), [(99, 20)]),
    "transform": Case(lambda x: jnp.fft.fft(x), [(3, 60)], "complex64"),
    "transform, two stages": Case(lambda x: jnp.fft.fft(x), [(3, 32)], "complex64"),
    "Cholesky factorization": Case(cholesky, [(2, 35, 35)]),
    "Cholesky factorization of whole panels": Case(cholesky, [(2, 40, 40)], "complex64"),
    "Cholesky factorization in scratch memory": Case(cholesky, [(2, 40, 40)], target=replace(OPENCL, shared_bytes=512)),
    "triangular solve": Case(lambda x, b: triangular(x, b), [(2, 20, 20), (2, 20, 3)]),
    "triangular solve from the right": Case(
        lambda x, b: triangular(x, b, lower=True, transpose_a=True, left_side=False), [(21, 21), (70, 21)]
    ),
    "triangular solve, triangle in memory": Case(
        lambda x, b: triangular(x, b, lower=True), [(20, 20), (20, 40)], target=replace(OPENCL, shared_bytes=4 << 10)
    ),
    "triangular solve, sides in memory": Case(
        lambda x, b: triangular(x, b), [(20, 20), (20, 40)], target=replace(OPENCL, shared_bytes=512, resident=256)
    ),
    "transform of columns": Case(lambda x: jnp.fft.fft(x, axis=0), [(512, 3)], "complex64"),
}


def updated(x: jax.Array, u: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 3, lambda i, x: lax.dynamic_update_slice(x, u + i, (2 * i, 3)), x)


def replaced(i: jax.Array, u: jax.Array) -> jax.Array:
    return jnp.zeros(7, u.dtype).at[i.astype(jnp.int32)].set(u)


def windows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    pooled = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (2, 2), "SAME")  # noqa: E731
    return pooled(x), jax.grad(lambda x: pooled(x).sum())(x)


def random_bits(x: jax.Array) -> jax.Array:
    return jax.random.uniform(jax.random.key(0), x.shape) + x


WITHOUT_BARRIERS = {
    "elements": Case(lambda x, y: (jnp.exp(x) * y, x > y, jnp.flip(x, 0)), [(70, 30), (70, 30)]),
    "neighbouring elements": Case(lambda x, y: x * y + 1, [(1024, 256), (1024, 256)], "bfloat16"),
    "elements over and over": Case(lambda x: lax.fori_loop(0, 5, lambda i, x: x + jnp.roll(x, i), x), [(300,)]),
    "concatenation": Case(lambda x, y: jnp.concatenate([jnp.pad(x, 2), y], 0), [(30, 8), (5, 12)], "float16"),
    "update in place": Case(updated, [(40, 40), (7, 30)]),
    "scatter that replaces": Case(replaced, [(300,), (300,)]),
    "scatter by instructions": Case(histogram, [(700,), (700,)], "int32", ATOMIC),
    "scatter by exchanges": Case(histogram, [(700,), (700,)], target=ATOMIC),
    "windows": Case(windows, [(33, 40)]),
    "scan of columns": Case(lambda x: lax.cumsum(x, 0), [(100, 300)]),
    "largest elements": Case(lambda x: lax.top_k(x, 5), [(3, 5000)]),
    "convolution": Case(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), [(1, 4, 9, 9), (4, 4, 3, 3)]),
    "decomposition": Case(jnp.linalg.qr, [(3, 12, 12)]),
    "small Cholesky factorizations": Case(cholesky, [(70, 6, 6)]),
    "small triangular solves": Case(lambda x, b: triangular(x, b), [(3, 5, 5), (3, 5, 40)]),
    "random numbers": Case(random_bits, [(500,)]),
    "transform in two passes": Case(lambda x: jnp.fft.fft(x), [(1, 8192)], "complex64"),
    "transform of reals": Case(lambda x: jnp.fft.rfft(x), [(3, 74)]),
}
ALL = TEMPLATES | WITHOUT_BARRIERS
every_template = pytest.mark.parametrize("name", ALL)
every_template_with_barriers = pytest.mark.parametrize("name", TEMPLATES)


@functools.cache
def source(name: str) -> tuple[str, tuple[np.ndarray, ...]]:
    """StableHLO and arguments."""
    case, random = ALL[name], np.random.default_rng(0)
    arguments = tuple((random.standard_normal(each) * 3).astype(case.dtype) for each in case.sizes)
    return jax.jit(case.function).lower(*arguments).as_text(), arguments


def compiled(name: str) -> shlo.Executable:
    """The checked program."""
    register_backend(TARGET, lambda: CaseBackend(ALL[name]))
    try:
        return shlo.compile(source(name)[0], target=TARGET, options=OPTIONS)
    finally:
        unregister_backend(TARGET)


intact = functools.cache(compiled)


@contextmanager
def left_out(executable: shlo.Executable, barrier: int) -> Iterator[None]:
    """A program one of whose barriers orders nothing."""
    executable._loaded.code.leave_out(barrier)
    try:
        yield
    finally:
        executable._loaded.code.leave_out(None)


def barriers(executable: shlo.Executable) -> list[str]:
    """The places of a program's barriers."""
    return json.loads(executable.stages["races"])["barriers"]


@every_template
def test_no_template_has_a_race(name: str) -> None:
    text, arguments = source(name)
    wanted = shlo.compile(text, options=OPTIONS)(*arguments)
    for found, result in zip(intact(name)(*arguments), wanted, strict=True):
        close = {"rtol": 1e-2, "atol": 1e-2} if result.dtype.itemsize == 2 else {"rtol": 1e-4, "atol": 1e-3}
        np.testing.assert_allclose(found.astype(np.complex128), result.astype(np.complex128), **close)
    assert barriers(intact(name)) or name in WITHOUT_BARRIERS


@every_template_with_barriers
def test_each_barrier_is_needed(name: str) -> None:
    unneeded = []
    for number, place in enumerate(barriers(intact(name))):
        try:
            with left_out(intact(name), number):
                intact(name)(*source(name)[1])
            unneeded.append(f"{number}: {place}")
        except RaceError as error:
            assert error.races
    assert not unneeded


def _calls(file: Path) -> Iterator[tuple[ast.FunctionDef | None, ast.Call, str]]:
    """Calls in a file, with the function of the module that each is in, and the name that is called."""
    for part in ast.parse(file.read_text()).body:
        for node in ast.walk(part):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                yield part if isinstance(part, ast.FunctionDef) else None, node, name


# Behind counters of what a copy engine has brought, which no OpenCL device has; by file. test_tensor_maps.py: the code.
OF_ENGINES = {"boxes.py": 1}


def test_all_barriers_are_in_the_templates_above() -> None:
    """Every line of a template that has a barrier, or calls a function for all templates that has one."""
    files = sorted(Path(kernels.__file__).parent.glob("*.py"))
    calls = [(file.name, *call) for file in files for call in _calls(file)]
    names, known = {"barrier"}, 0
    while known != len(names):
        known = len(names)
        names |= {part.name for _, part, _, name in calls if part and name in names and part.name != "emit"}
    wanted = {f"{file}:{call.lineno}" for file, _, call, name in calls if name in names}
    reached = {line for name in TEMPLATES for place in barriers(intact(name)) for line in place.split(" < ")}
    assert len(wanted) > 4
    assert Counter(place.partition(":")[0] for place in wanted - reached) == OF_ENGINES


# --- messages --------------------------------------------------------------------------------------------------------


def test_the_message_names_both_places() -> None:
    executable = intact("column")
    arguments = source("column")[1]
    for _ in range(2):  # it can be called again
        with left_out(executable, 0), pytest.raises(RaceError) as caught:
            executable(*arguments)
        message = str(caught.value)
        assert "fusion_0: a thread reads shared array 0 (f32 x 256) at combining.py:" in message
        assert "another one writes shared array 0 (f32 x 256) at combining.py:" in message
        assert "help: a barrier is missing" in message


def test_programs_that_are_saved_find_races(tmp_path: Path) -> None:
    intact("column").save(tmp_path / "program")
    loaded = shlo.load_executable(tmp_path / "program")
    with left_out(loaded, 0), pytest.raises(RaceError, match=r"column\.py"):
        loaded(*source("column")[1])


def test_blocks_of_a_template_that_write_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.base, "global_number", lambda f: f.thread_number())
    with pytest.raises(RaceError) as caught:
        compiled("elements")(*source("elements")[1])
    message = str(caught.value)
    assert re.search(
        r"a thread writes argument out0 at loop\.py:\d+ .*, one of another block writes argument out0 at", message
    )
    assert "help: blocks of a launch have no order" in message
