"""Races between threads of a launch: no template has one, each of its barriers is needed, and the detector finds what
is planted.

A new template: a line in TEMPLATES for each road that its code can take, in WITHOUT_BARRIERS if that has none."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from masked_attention import causal

import stablehlo_py as shlo
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu import kernels
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.races import CheckedTarget, Detector, RaceCheckBackend, RaceError
from stablehlo_py.backends.gpu.target import OPENCL, GpuTarget
from stablehlo_py.codegen.builder import F32, I8, I16, I32, I64, PTR, Function, Index, Value, vector
from stablehlo_py.codegen.emitters.race_check import RaceChecks
from stablehlo_py.codegen.emitters.race_helpers import BLOCKS
from stablehlo_py.codegen.matrix_units import MATRIX_UNITS
from stablehlo_py.errors import InternalError
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


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.softmax(q @ k.T * 0.1, axis=1) @ v


@dataclass(frozen=True)
class Case:
    """A function, the sizes of its arguments, their type, and the machine whose template is run."""

    function: Callable[..., object]
    sizes: Sequence[tuple[int, ...]]
    dtype: str = "float32"
    target: GpuTarget = OPENCL


def histogram(i: jax.Array, u: jax.Array) -> jax.Array:
    return jnp.zeros(7, u.dtype).at[i.astype(jnp.int32)].add(u)


EXCHANGES = replace(OPENCL, exchanges=True, most_threads=1024)
MMA, WGMMA = (tuple(name for name in MATRIX_UNITS if name.startswith(unit)) for unit in ("mma", "wgmma"))
MATRIX_UNIT = replace(OPENCL, matrix_units=MMA, copies=True, shared_bytes=48 << 10)
WARPGROUPS = replace(OPENCL, matrix_units=WGMMA, shared_bytes=48 << 10)

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
    "product of vectors": Case(lambda a, b: product(a, b.T), [(3, 70), (5, 70)], "bfloat16"),
    "scan": Case(lambda x: lax.cumsum(x, 1), [(3, 100)]),
    "scan in several steps": Case(lambda x: lax.cumsum(x, 1), [(2, 4099)]),
    "scan of wide types": Case(lambda x: lax.cumprod(x, 1), [(2, 40)], "complex64"),
    "scan in three kernels": Case(lambda x: lax.cummax(x, 0), [(20_000,)]),
    "reduction in order": Case(lambda x: jnp.argmax(x, 1), [(2, 700)]),
    "scatter": Case(histogram, [(700,), (700,)]),
    "matrix units": Case(matrix_product, [(64, 64), (64, 64)], "bfloat16", MATRIX_UNIT),
    "matrix units, split": Case(matrix_product, [(40, 576), (576, 40)], "bfloat16", MATRIX_UNIT),
    "warpgroups": Case(matrix_product, [(40, 320), (320, 72)], "bfloat16", WARPGROUPS),
    "matrix units, one step": Case(matrix_product, [(40, 24), (24, 72)], "float16", MATRIX_UNIT),
    "attention": Case(attention, [(70, 40), (150, 40), (150, 24)]),
    "attention of few queries": Case(attention, [(5, 20), (90, 20), (90, 300)], "float16"),
    "attention by matrix units": Case(attention, [(64, 16), (130, 16), (130, 16)], "bfloat16", MATRIX_UNIT),
    "attention, masked": Case(causal, [(20, 1, 8), (520, 1, 8), (520, 1, 8)], target=replace(EXCHANGES, resident=0)),
    "attention, parts of the keys": Case(attention, [(20, 20), (300, 20), (300, 24)]),
    "loop in one kernel": Case(lambda x: lax.fori_loop(0, 20, lambda _, x: softmax(x), x), [(99, 20)]),
    "transform": Case(lambda x: jnp.fft.fft(x), [(3, 60)], "complex64"),
    "transform, two stages": Case(lambda x: jnp.fft.fft(x), [(3, 32)], "complex64"),
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
    "windows": Case(windows, [(33, 40)]),
    "scan of columns": Case(lambda x: lax.cumsum(x, 0), [(100, 300)]),
    "largest elements": Case(lambda x: lax.top_k(x, 5), [(3, 5000)]),
    "convolution": Case(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), [(1, 4, 9, 9), (4, 4, 3, 3)]),
    "decomposition": Case(jnp.linalg.qr, [(3, 12, 12)]),
    "phases of the processor": Case(lambda x: jnp.linalg.cholesky(x @ x.swapaxes(1, 2) + 9 * jnp.eye(6)), [(2, 6, 6)]),
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


def compiled(name: str, without: int | None = None) -> shlo.Executable:
    """The checked program, without one of its barriers."""
    register_backend(TARGET, lambda: RaceCheckBackend(without, ALL[name].target))
    try:
        return shlo.compile(source(name)[0], target=TARGET, options=OPTIONS)
    finally:
        unregister_backend(TARGET)


intact = functools.cache(compiled)


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
            compiled(name, number)(*source(name)[1])
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
    assert not wanted - reached


# --- planted races ---------------------------------------------------------------------------------------------------

THREADS = 64
READ_WRITE = "0 read, 0 write"
Body = Callable[[Function], None]


def found_in(device: OpenClDevice, body: Body, blocks: int = 2, launches: int = 1, inside: bool = False) -> set[str]:
    """The races of a kernel of (x, y): what two threads do, in any order, as "0 read, 0 write" of shared array 0, or
    "x read, y write" of arguments; "blocks: " before those of two blocks. `inside`: y lies in x."""
    target = CheckedTarget.of(OPENCL, RaceChecks())
    f = Function("kernel", [("x", PTR), ("y", PTR)], target.emitter(THREADS, blocks))
    body(f)
    f.ret()
    text = f.text()
    built = device.build(machine_code(llvm_ir("\n".join([*f.externals.values(), text]), target.architecture), target))
    size = 8 * blocks * THREADS
    held = [device.memory.allocate(size) for _ in range(2)]
    arguments = [held[0].address, held[0].address + size // 2 if inside else held[1].address]
    detector = Detector(device, built, target.checks, 2, 2 * size)
    detector.watch([(each.address, size) for each in held])

    def launch(name: str, count: int, threads: int) -> None:
        kernel, sizes, local = built.kernel(name), np.array([count * threads], np.uintp), np.array([threads], np.uintp)
        for number, address in enumerate(arguments):
            device.queue.library.call("clSetKernelArgSVMPointer", kernel, number, address)
        places = sizes.ctypes.data, local.ctypes.data
        device.queue.call("clEnqueueNDRangeKernel", kernel, 1, None, *places, 0, None, None)

    for block in held:
        device.memory.write(np.arange(blocks * THREADS), block)
    for _ in range(launches):
        launch(target.checks.begins["kernel"], 1, 1)
        launch("kernel", blocks, THREADS)
    found = detector.found()
    assert detector.found() == []  # they are told once
    accesses = re.compile(r"(?:(read|write|update)s (?:shared array (\d)|argument (\w)|(?:shared )?(memory))|(\w+))")
    named = set()
    for race in found:
        pair = [accesses.match(each) for each in (race.later, race.earlier)]
        said = [each[5] or f"{each[2] or each[3] or each[4]} {each[1]}" for each in pair if each]
        named.add(("blocks: " if race.kind == BLOCKS else "") + ", ".join(sorted(said)))
    return named


def element(f: Function) -> Value:
    """The number of a thread among all."""
    return f.index(f.iadd(f.imul(f.block_number(), THREADS), f.thread_number()))


def mirrored(f: Function, *, first: bool = True, second: bool = True, distance: int | None = None) -> None:
    """Threads of a block change places, twice, by one array: three barriers are needed, or two."""
    place, thread = f.shared_memory(THREADS, I64), f.thread_number()
    value = f.load(I64, f.x, element(f))
    for trip in range(2):
        f.store(value, place, thread)
        if first:
            f.barrier()
        other = f.isub(THREADS - 1, thread) if distance is None else f.binary("xor", thread, f.const(distance))
        value = f.load(I64, place, other)
        if second and not trip:
            f.barrier()
    f.store(value, f.y, element(f))


def test_what_is_right_has_no_race(real_device: OpenClDevice) -> None:
    assert found_in(real_device, mirrored) == set()


def test_missing_barriers_are_found(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: mirrored(f, first=False)) == {READ_WRITE}
    assert found_in(real_device, lambda f: mirrored(f, second=False)) == {READ_WRITE}


def test_threads_of_a_subgroup_need_a_barrier(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: mirrored(f, first=False, distance=1))


@pytest.mark.parametrize("are_equal", [True, False])
def test_two_writers_are_found(real_device: OpenClDevice, are_equal: bool) -> None:
    def body(f: Function) -> None:
        place = f.shared_memory(1, I64)
        f.store(f.const(7) if are_equal else f.thread_number(), place)
        f.barrier()
        f.store(f.load(I64, place), f.y, element(f))

    assert found_in(real_device, body) == {"0 write, 0 write"}


def test_a_value_that_one_thread_writes_and_all_read(real_device: OpenClDevice) -> None:
    def body(f: Function, barrier: bool) -> None:
        other, place = f.shared_memory(3, I8), f.shared_memory(1, I64)
        f.if_(f.cmp("eq", f.thread_number(), f.const(0)), lambda: f.store(f.const(7), place))
        if barrier:
            f.barrier()
        f.store(f.load(I64, place), f.y, element(f))
        f.if_(f.cmp("eq", f.thread_number(), f.const(1)), lambda: f.store(f.const(7, I8), other, 1))

    assert found_in(real_device, lambda f: body(f, True)) == set()
    assert found_in(real_device, lambda f: body(f, False)) == {"1 read, 1 write"}


def test_neighbours_in_one_word_are_no_race_and_vectors_over_them_are(real_device: OpenClDevice) -> None:
    def body(f: Function, wide: bool) -> None:
        place, thread = f.shared_memory(THREADS, I8), f.thread_number()
        f.store(f.cast("trunc", thread, I8), place, thread)
        read = f.load(vector(4 if wide else 1, I8), place, f.imul(f.idiv(thread, 4), 4) if wide else thread, align=1)
        f.store(f.cast("zext", f.extract(read, 0) if wide else read, I64), f.y, element(f))

    assert found_in(real_device, lambda f: body(f, False)) == set()
    assert found_in(real_device, lambda f: body(f, True)) == {READ_WRITE}


def test_elements_of_several_types(real_device: OpenClDevice) -> None:
    """Halves of an element are of that element, by whatever pointer."""

    def body(f: Function, half: int) -> None:
        place, thread = f.shared_memory(2 * THREADS, I64), f.thread_number()
        pointer = f.select(f.cmp("slt", thread, f.const(7)), place, f.gep(place, 2, I64))
        pointer = f.select(f.cmp("slt", thread, f.const(1)), f.gep(place, half, F32), pointer)
        writes = f.cmp("slt", thread, f.const(2))
        f.if_(writes, lambda: f.store(f.const(1, I32), f.select(writes, pointer, place)))

    assert found_in(real_device, lambda f: body(f, 0)) == {"memory write, memory write"}
    assert found_in(real_device, lambda f: body(f, 1)) == set()


def test_atomic_updates_race_with_others_only(real_device: OpenClDevice) -> None:
    def body(f: Function, barriers: int) -> None:
        place, thread = f.shared_memory(1, I32), f.thread_number()
        f.if_(f.cmp("eq", thread, f.const(0)), lambda: f.store(f.const(0, I32), place))
        for number in range(2):
            if barriers > number:
                f.barrier()
            if not number:
                f.atomic_add(place, f.const(1, I32))
        f.store(f.cast("zext", f.load(I32, place), I64), f.y, element(f))

    assert found_in(real_device, lambda f: body(f, 2)) == set()
    assert found_in(real_device, lambda f: body(f, 1)) == {"0 read, 0 update"}
    assert "0 update, 0 write" in found_in(real_device, lambda f: body(f, 0))


def test_more_barriers_than_a_token_counts(real_device: OpenClDevice) -> None:
    def body(f: Function, barrier: bool) -> None:
        place, thread = f.shared_memory(THREADS, I64), f.thread_number()
        last = f.const(THREADS - 1)

        def trip(i: Value, value: Value) -> list[Value]:
            f.store(value, place, thread)
            f.barrier()
            read = f.load(I64, place, f.isub(last, thread))
            f.barrier()
            return [read]

        (value,) = f.loop(0, 9000, 1, trip, [thread])
        f.store(value, place, thread)
        if barrier:
            f.barrier()
        f.store(f.load(I64, place, f.isub(last, thread)), f.y, element(f))

    assert found_in(real_device, lambda f: body(f, True), 1) == set()
    assert found_in(real_device, lambda f: body(f, False), 1) == {READ_WRITE}


# --- planted races in global memory ---------------------------------------------------------------------------------


def test_own_elements_are_no_race(real_device: OpenClDevice) -> None:
    """Also where one array lies in another, and from launch to launch."""

    def body(f: Function) -> None:
        f.store(f.load(I64, f.x, element(f)), f.x, element(f))
        f.store(f.load(I64, f.x, element(f)), f.y, element(f))

    def other(f: Function) -> None:
        f.store(f.load(I64, f.x, element(f)), f.y, f.isub(2 * THREADS - 1, element(f)))

    assert found_in(real_device, body) == set()
    assert found_in(real_device, other, launches=3) == set()


@pytest.mark.parametrize("barrier", [True, False])
def test_what_another_thread_of_the_block_wrote(real_device: OpenClDevice, barrier: bool) -> None:
    def body(f: Function) -> None:
        f.store(f.thread_number(), f.y, element(f))
        if barrier:
            f.barrier()
        begin = f.imul(f.block_number(), THREADS)
        found = f.load(I64, f.y, f.iadd(begin, f.isub(THREADS - 1, f.thread_number())))
        if barrier:
            f.barrier()
        f.store(found, f.y, element(f))

    assert found_in(real_device, body) == (set() if barrier else {"y read, y write"})


@pytest.mark.parametrize("barrier", [True, False])
def test_no_barrier_orders_blocks(real_device: OpenClDevice, barrier: bool) -> None:
    def read(f: Function) -> None:
        f.store(f.thread_number(), f.y, element(f))
        if barrier:
            f.barrier()
        found = f.load(I64, f.y, f.isub(2 * THREADS - 1, element(f)))
        f.store(found, f.x, element(f))

    def write(f: Function) -> None:
        is_first = f.cmp("eq", f.thread_number(), f.const(0))
        if barrier:
            f.barrier()
        f.if_(is_first, lambda: f.store(f.const(7), f.y))

    assert found_in(real_device, read) == {"blocks: y read, y write"}
    assert found_in(real_device, write) == {"blocks: y write, y write"}
    assert found_in(real_device, write, 1, launches=2) == set()


def test_arrays_that_lie_in_others(real_device: OpenClDevice) -> None:
    def body(f: Function) -> None:
        f.store(f.load(I64, f.x, element(f)), f.y, f.thread_number())

    assert found_in(real_device, body, 1, inside=False) == set()
    assert found_in(real_device, body, 2, inside=True) == {"blocks: x read, y write", "blocks: y write, y write"}


def test_neighbours_in_global_memory(real_device: OpenClDevice) -> None:
    """Parts of a word are no race, a wide access over them is one."""

    def body(f: Function, lanes: int) -> None:
        number = element(f)
        f.store(f.const(1, I8), f.y, number)
        read = f.load(vector(lanes, I8), f.y, f.imul(f.idiv(number, lanes), lanes), align=1)
        f.store(read, f.x, f.imul(number, lanes), align=1)

    assert found_in(real_device, lambda f: body(f, 1)) == set()
    assert found_in(real_device, lambda f: body(f, 4)) == {"y read, y write"}


def test_wide_accesses_that_overlap(real_device: OpenClDevice) -> None:
    def body(f: Function, distance: int) -> None:
        place = f.imul(f.thread_number(), distance)
        f.store(f.load(vector(4, I16), f.x, place, align=2), f.y, place, align=2)

    assert found_in(real_device, lambda f: body(f, 4), 1) == set()
    assert found_in(real_device, lambda f: body(f, 3), 1) == {"y write, y write"}


def test_atomic_updates_of_all_blocks(real_device: OpenClDevice) -> None:
    def body(f: Function, reads: bool) -> None:
        f.atomic_add(f.y, f.const(1))
        if reads:
            f.store(f.load(I64, f.y), f.x, element(f))

    assert found_in(real_device, lambda f: body(f, False)) == set()
    assert found_in(real_device, lambda f: body(f, True)) == {"y read, y update", "blocks: y read, y update"}


def test_more_launches_than_a_token_counts(real_device: OpenClDevice) -> None:
    """What a launch wrote is not mistaken for what one wrote whose number was the same."""

    def body(f: Function) -> None:
        f.store(f.const(1), f.y, f.isub(THREADS - 1, f.thread_number()))

    assert found_in(real_device, body, 1, launches=1200) == set()


# --- barriers that not all threads reach -----------------------------------------------------------------------------


def divergent(f: Function, otherwise: Callable[[], None] | None) -> None:
    """The first thread of a block waits for the others, which do something else."""
    is_first = f.cmp("eq", f.thread_number(), f.const(0))
    f.if_(is_first, f.barrier, otherwise)


def test_threads_that_end_while_others_wait(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: divergent(f, None), 1) == {"ends, waits"}

    def early(f: Function) -> None:
        f.ret_if(f.cmp("eq", f.thread_number(), f.const(3)))
        f.barrier()

    assert found_in(real_device, early, 1) == {"ends, waits"}


def test_threads_that_wait_elsewhere(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: divergent(f, f.barrier), 1) == {"waits, waits"}


def test_threads_that_wait_more_often(real_device: OpenClDevice) -> None:
    def body(f: Function, count: Index) -> None:
        f.loop(0, count, 1, lambda _: f.barrier())

    assert found_in(real_device, lambda f: body(f, 5), 1) == set()
    assert found_in(real_device, lambda f: body(f, f.idiv(f.thread_number(), 32)), 1) == {"ends, waits"}


def test_exchanges_that_not_all_threads_reach(real_device: OpenClDevice) -> None:
    def body(f: Function) -> None:
        is_first = f.cmp("eq", f.thread_number(), f.const(0))
        f.if_(is_first, lambda: exchange(f))

    def exchange(f: Function) -> None:
        f.subgroup_shuffle(f.const(1, I32), f.const(1, I32))

    assert "ends, exchanges" in found_in(real_device, body, 1)


# --- messages --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_checked_is_said() -> None:
    f = Function("kernel", [("x", PTR)], CheckedTarget.of(OPENCL, RaceChecks()).emitter(THREADS))
    with pytest.raises(InternalError, match="copies of shared memory"):
        f.copy_memory(f.shared_memory(8, I64), f.x, 64)
    with pytest.raises(InternalError, match="races are found among 2046 threads"):
        CheckedTarget.of(OPENCL, RaceChecks()).emitter(4096)
    with pytest.raises(InternalError, match="races are found among 262142 blocks"):
        CheckedTarget.of(OPENCL, RaceChecks()).emitter(64, 1 << 18)


def test_the_message_names_both_places() -> None:
    executable = compiled("column", 0)
    arguments = source("column")[1]
    for _ in range(2):  # it can be called again
        with pytest.raises(RaceError) as caught:
            executable(*arguments)
        message = str(caught.value)
        assert "fusion_0: a thread writes shared array 0 (f32 x 256) at combining.py:" in message
        assert "another one reads shared array 0 (f32 x 256) at combining.py:" in message
        assert "help: a barrier is missing" in message


def test_programs_that_are_saved_find_races(tmp_path: Path) -> None:
    compiled("column", 0).save(tmp_path / "program")
    with pytest.raises(RaceError, match=r"column\.py"):
        shlo.load_executable(tmp_path / "program")(*source("column")[1])


def test_blocks_of_a_template_that_write_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.base, "global_number", lambda f: f.thread_number())
    with pytest.raises(RaceError) as caught:
        compiled("elements")(*source("elements")[1])
    message = str(caught.value)
    assert re.search(
        r"a thread writes argument out0 at loop\.py:\d+ .*, one of another block writes argument out0 at", message
    )
    assert "help: blocks of a launch have no order" in message
