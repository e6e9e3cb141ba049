"""What belongs to an executable ends with the last reference to it, without Python's garbage collector: programs are
compiled, called and dropped with the collector off, and what is left is counted."""

from __future__ import annotations

import gc
import importlib.util
import subprocess
import sys
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.backends.cpu import helpers, host, threads
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.runtime import memory

ROOT = Path(shlo.__file__).resolve().parent.parent
BENCHMARK = ROOT / "benchmarks" / "bench_lifetime.py"
LARGE = "tensor<100000xf32>"


def _benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("bench_lifetime", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bench = _benchmark()


@pytest.fixture(scope="module", autouse=True)
def _what_is_made_once() -> None:
    """Code and threads that live as long as the process."""
    helpers.provide(helper_objects())
    host.interrupts()
    threads.parallel_for()
    helpers.code(helpers.GRID)
    threads.pool_for(2)


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def _of_the_product(thing: object) -> bool:
    """Whether it is an object of a class, or a function, of this package or of MLIR."""
    home = thing.__module__ if isinstance(thing, types.FunctionType) else type(thing).__module__
    return home.partition(".")[0] in ("stablehlo_py", "torch_mlir")


def _circles() -> list[str]:
    """What of the product only the collector finds."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = filter(_of_the_product, gc.garbage)
    return sorted({f"{type(each).__qualname__} {getattr(each, '__qualname__', '')}" for each in found})


@pytest.mark.parametrize("kind", bench.KINDS)
@pytest.mark.usefixtures("_without_collector")
def test_nothing_is_left_of_programs(kind: str) -> None:
    program = bench.KINDS[kind]
    program(0)  # starts the process that reads modules, imports
    gc.collect()
    before = bench.alive()
    for number in (1, 151):  # small and large products, and so different templates
        program(number)
    assert bench.alive() == before
    assert _circles() == []


@pytest.mark.parametrize("name", ["layer-norm", "softmax", "equinox-mlp", "movement/resize-bilinear", "transform/svd"])
@pytest.mark.usefixtures("_without_collector")
def test_no_template_of_a_kernel_leaves_circles(name: str) -> None:
    source = bytes(suite.export(suite.build(name)).mlir_module_serialized)
    shlo.compile(source, options=bench.OPTIONS)
    gc.collect()
    before = bench.alive()
    shlo.compile(source, options=bench.OPTIONS)
    assert bench.alive() == before
    assert _circles() == []


def _double() -> shlo.Executable:
    source = f"func.func @main(%x: {LARGE}) -> {LARGE} {{\n%y = stablehlo.add %x, %x : {LARGE}\nreturn %y : {LARGE}\n}}"
    executable = shlo.compile(source, options=bench.OPTIONS)
    assert isinstance(executable, shlo.Executable)
    return executable


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> memory._Pool:
    """One that nobody else uses."""
    monkeypatch.setattr(memory, "_POOL", memory._Pool())
    return memory._POOL


@pytest.mark.usefixtures("_without_collector")
def test_results_and_buffers_outlive_their_executable() -> None:
    executable = _double()
    reference = weakref.ref(executable)
    buffer = executable.put(np.full(100_000, 3, np.float32))
    (result,) = executable(np.full(100_000, 2, np.float32))
    view = result[1::2]
    del executable, result
    assert reference() is None
    others = [_double()(np.full(100_000, number, np.float32))[0] for number in range(3)]
    np.testing.assert_array_equal(view, 4)
    np.testing.assert_array_equal(buffer, 3)
    for number, other in enumerate(others):
        np.testing.assert_array_equal(other, 2 * number)


@pytest.mark.usefixtures("_without_collector")
def test_memory_of_results_is_reused_while_their_executable_lives(pool: memory._Pool) -> None:
    executable = _double()
    argument = np.ones(100_000, np.float32)
    address = executable(argument)[0].ctypes.data
    assert executable(argument)[0].ctypes.data == address
    (last,) = executable(argument)
    del executable
    assert not pool._kept  # nobody waits for its memory any more
    assert (last == 2).all()


def test_memory_of_ever_new_shapes_is_given_up(pool: memory._Pool) -> None:
    owner = memory.ArrayMemory(sizes=2)
    sizes = [memory.SMALL + 4096 * number for number in range(10)]
    for size in (*sizes, *sizes[-2:]):
        owner.array((size,), np.dtype(np.uint8), size)
    assert [(size, len(memories)) for size, memories in pool._kept.items()] == [(size, 1) for size in sizes[-2:]]
    del owner
    assert not pool._kept


def test_a_full_pool_forgets_what_it_made_longest_ago(pool: memory._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_BYTES", 3 * memory.SMALL)
    sizes = [memory.SMALL, memory.SMALL + 4096, memory.SMALL + 8192]
    owner = memory.ArrayMemory(sizes=3)
    arrays = [owner.array((size,), np.dtype(np.uint8), size) for size in sizes]
    assert [(size, len(memories)) for size, memories in pool._kept.items()] == [*zip(sizes, (0, 1, 1), strict=True)]
    for number, array in enumerate(arrays):
        array[:] = number
    assert [array.sum() for array in arrays] == [number * size for number, size in enumerate(sizes)]


def test_the_pool_keeps_no_more_arrays_of_a_size_than_it_looks_through(pool: memory._Pool) -> None:
    owner = memory.ArrayMemory(sizes=1)
    arrays = [owner.array((memory.SMALL,), np.dtype(np.uint8), memory.SMALL) for _ in range(3 * memory.KEPT_ARRAYS)]
    assert len({memory.address_of(array) for array in arrays}) == len(arrays)
    assert len(pool.kept(memory.SMALL)) == memory.KEPT_ARRAYS


def test_resident_memory_is_flat() -> None:
    # Measured over 1,000 programs: under 5 KB for each. Glibc's heaps and Python's arenas make steps of some hundred
    # KB, which weigh more in 140 programs (30 to 40 KB); what one context of MLIR takes is 3,000 KB.
    command = [sys.executable, str(BENCHMARK), "static", "--programs", "200", "--warm-up", "60", "--every", "10"]
    table = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout
    cells = [cell.strip() for cell in table.splitlines()[-1].split("|")]
    assert float(cells[4]) < 60


# --- how circles come about -------------------------------------------------------------------------------------------


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _reaches(code: types.CodeType, around: types.CodeType) -> set[types.CodeType]:
    """The functions of `around` that a function in it refers to, directly or through others."""
    found: set[types.CodeType] = set()
    pending = [code]
    while pending:
        names = pending.pop().co_freevars
        for other in _inner(around):
            if other.co_name in names and other.co_name in around.co_cellvars and other not in found:
                found.add(other)
                pending.append(other)
    return found


def _selves(code: types.CodeType) -> list[str]:
    """The local functions in some code that refer to themselves."""
    found = [each for each in _inner(code) if each in _reaches(each, code)]
    names = [f"{each.co_filename}:{each.co_firstlineno} {each.co_name}" for each in found]
    return [*names, *(name for each in _inner(code) for name in _selves(each))]


def _compiled(text: str, name: str = "text") -> types.CodeType:
    return compile(text, name, "exec")


def test_no_local_function_refers_to_itself() -> None:
    """Its cell would hold it and what else it uses, a builder or a whole module, until garbage is collected."""
    package = Path(shlo.__file__).parent
    folders = (package, *((package / name).resolve() for name in ("passes", "backends")))
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 300
    assert [name for file in files for name in _selves(_compiled(file.read_text(), str(file)))] == []


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n  def g():\n    g()\n  g()",
        "def f():\n  def g():\n    return lambda: h()\n  def h():\n    g()\n  h()",
    ],
)
def test_one_that_does_is_found(text: str) -> None:
    assert _selves(_compiled(text))


def test_one_that_does_not_is_not() -> None:
    assert _selves(_compiled("def f():\n  def g(x):\n    return x\n  def h():\n    return g(1)\n  return h")) == []
