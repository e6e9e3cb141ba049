"""What holds for all tests."""

from __future__ import annotations

import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from stablehlo_py.backends.gpu.opencl.device import OpenClDevice

TESTS = str(Path(__file__).parent)

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: tests of Ctrl-C
# need what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="tests that need an OpenCL device fail where there is none")


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
