"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.opencl.device import OpenClDevice

TESTS = str(Path(__file__).parent)

# Kernels that find races have words beside each byte of shared memory: more than OpenCL's driver for processors gives.
os.environ.setdefault("CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE", "4MB")

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: tests of Ctrl-C
# need what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="tests that need an OpenCL device fail where there is none")
    parser.addoption("--optimized", action="store_true", help="OpenCL's compiler optimizes for all tests")
    parser.addoption("--whole", action="store_true", help="all cases of the tests of which one in so many runs else")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every(n): one of n cases runs, each value of each axis among them; see --whole")


def _axes(item: pytest.Function) -> dict[str, tuple[int, ...]]:
    """By axis, what tells a case's value from others. Names that get their values together are one axis."""
    together = [mark.args[0] for mark in item.iter_markers("parametrize")]
    names = [tuple(each.replace(",", " ").split()) if isinstance(each, str) else tuple(each) for each in together]
    params = item.callspec.params
    alone = [(name,) for name in params if not any(name in each for each in names)]
    return {axis[0]: tuple(id(params[name]) for name in axis) for axis in (*names, *alone)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests with `every(n)`, the cases run whose numbers on all axes add up to a multiple of n: each pair of values
    of two axes is there where a third has n values. Cases that are named in the command run as well."""
    if config.getoption("whole") or any("[" in given for given in config.args):
        return
    left: list[pytest.Item] = []
    numbers: dict[tuple[str, str], dict[tuple[int, ...], int]] = defaultdict(dict)  # by test and axis, of values
    kept: dict[tuple[str, str], set[int]] = defaultdict(set)
    for item in items:
        mark = item.get_closest_marker("every")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        places = {}
        for axis, value in _axes(item).items():
            known = numbers[item.nodeid.partition("[")[0], axis]
            places[item.nodeid.partition("[")[0], axis] = known.setdefault(value, len(known))
        if sum(places.values()) % mark.args[0]:
            left.append(item)
        else:
            for axis, number in places.items():
                kept[axis].add(number)
    lost = [f"{test}, {axis}" for (test, axis), known in numbers.items() if len(kept[test, axis]) < len(known)]
    if lost:
        raise pytest.UsageError(f"of values of these axes, no case is left: {', '.join(lost)}")
    config.hook.pytest_deselected(items=left)
    gone = set(map(id, left))
    items[:] = [item for item in items if id(item) not in gone]


def pytest_collection_finish() -> None:
    """Modules and tests live as long as the process. Collections of garbage need not look at them: each took 0.4 s, and
    tests of drivers end with one."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def real_device(request: pytest.FixtureRequest) -> OpenClDevice:
    """A device that is there: OpenCL's first."""
    from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
    from stablehlo_py.errors import ResourceError

    try:
        return OpenClDevice()
    except ResourceError as error:
        if request.config.getoption("gpu"):
            raise
        pytest.skip(error.reason)


def _has_subgroups(module: bytes) -> bool:
    """Whether a kernel of a module in SPIR-V asks for a size of subgroups. The header has 5 words; before the first
    function, 54, instructions, 16, set modes of kernels: 35. The upper half of an instruction's first word is its
    length."""
    words = np.frombuffer(module[: len(module) // 4 * 4], np.uint32).tolist()
    at = 5
    while at < len(words) and words[at] & 0xFFFF != 54 and words[at] >> 16:
        if words[at] & 0xFFFF == 16 and words[at + 2] == 35:
            return True
        at += words[at] >> 16
    return False


def _is_optimized(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("optimized") or zlib.crc32(request.node.name.encode()) % 10 == 0


@pytest.fixture
def built_sooner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCL's compiler for processors, which takes ten times as long where it optimizes, does so for a fixed tenth of
    the tests. Where it does not, subgroups compute something else: programs that have them are always optimized."""
    if _is_optimized(request):
        return
    from stablehlo_py.backends.gpu.opencl.device import Built, OpenClDevice

    build = OpenClDevice.build

    def sooner(self: OpenClDevice, binary: bytes, *, optimized: bool = True) -> Built:
        return build(self, binary, optimized=optimized and _has_subgroups(binary))

    monkeypatch.setattr(OpenClDevice, "build", sooner)


@pytest.fixture
def exchanged_through_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """But for a fixed tenth of the tests, subgroups of programs for OpenCL exchange through shared memory: then these
    need no optimizing, and find races besides."""
    from stablehlo_py.backends.gpu.races import RaceCheckBackend
    from stablehlo_py.targets import register_backend, unregister_backend

    if not _is_optimized(request):
        register_backend("opencl", RaceCheckBackend)
    yield
    unregister_backend("opencl")


@pytest.fixture(scope="session")
def _generators() -> list[np.random.Generator]:
    """The random generators that modules of tests and their helpers keep."""
    ours = (vars(m) for m in list(sys.modules.values()) if str(getattr(m, "__file__", "")).startswith(TESTS))
    return [value for module in ours for value in module.values() if isinstance(value, np.random.Generator)]


@pytest.fixture(autouse=True)
def _numbers_of_its_own(request: pytest.FixtureRequest, _generators: list[np.random.Generator]) -> None:
    """The numbers that a test draws follow from its name: not from the tests that ran before it, which differ from run
    to run where several processes share them out."""
    state = np.random.default_rng(zlib.crc32(request.node.name.encode())).bit_generator.state
    for generator in _generators:
        generator.bit_generator.state = state


@pytest.fixture(autouse=True, scope="module")
def _forget_what_jax_compiled() -> Iterator[None]:
    """JAX keeps every function that a test compiled, with all that it closes over: a process of tests grew to 5 GB."""
    yield
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="module")
def _forget_custom_calls() -> Iterator[None]:
    """What a module of tests bound targets of custom calls to, and left so, is not there for the next one."""
    handlers = sys.modules.get("stablehlo_py.handlers")
    before = dict(handlers._bound) if handlers else {}
    yield
    handlers = sys.modules.get("stablehlo_py.handlers")
    for where in set(handlers._bound) - set(before) if handlers else ():
        handlers.unbind(*where)
