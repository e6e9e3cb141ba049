"""Programs for CUDA that may use a vendor's libraries, on the fake driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest
from driver_programs import with_fake_kernels

from stablehlo_py.api import compile_program
from stablehlo_py.backends.gpu.libraries import vendor
from stablehlo_py.options import Options
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

Function = Callable[..., Any]


def says(executable: Executable, words: str) -> bool:
    """Whether the report has these words, however its lines are broken."""
    return "".join(words.split()) in "".join(executable.report().split())


def program_of(function: Function | str, *arrays: np.ndarray, gpu: str = "sm_90", **options: Any) -> CompiledProgram:
    """A compiled program, its kernels the fake driver's."""
    text = function if isinstance(function, str) else jax.jit(function).lower(*arrays).as_text()
    return with_fake_kernels(compile_program(text, target="cuda", options=Options(gpu=gpu, **options)))


@contextmanager
def found_in(path: str, monkeypatch: pytest.MonkeyPatch, *libraries: type[vendor.VendorLibrary]) -> Iterator[None]:
    """These libraries are in one file."""
    for library in libraries:
        monkeypatch.setenv(library.variable, path)
    vendor.found.cache_clear()
    yield
    vendor.found.cache_clear()
