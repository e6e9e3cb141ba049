"""What the golden cases can be run on. An engine is a function (module text, arguments) -> results."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

Engine = Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]


def shlo(target: str = "cpu") -> Engine:
    """This project's compiler."""
    import stablehlo_py

    options = stablehlo_py.Options(threads=1, cache_dir=None, isolate=False)  # this process may crash already

    def engine(module: str, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return stablehlo_py.compile(module, target=target, options=options)(*arguments)

    return engine


def xla() -> Engine:
    """XLA:CPU as jaxlib ships it, the baseline: says which cases the runner, or the case itself, gets wrong."""
    return _of_debug("jax")


def reference() -> Engine:
    """StableHLO's reference interpreter, which may end its process."""
    return _of_debug("reference")


def _of_debug(name: str) -> Engine:
    from stablehlo_py.debug.engines import ENGINES as engines
    from stablehlo_py.debug.settings import Settings

    return lambda module, arguments: engines[name](module, arguments, Settings())


OURS = {
    "shlo": shlo,
    "c": partial(shlo, "c"),
    "opencl": partial(shlo, "opencl"),
    "cuda": partial(shlo, "cuda"),
    "linalg": partial(shlo, "linalg"),
}  # this project's compiler, by target
ENGINES = {**OURS, "opencl-races": partial(shlo, "opencl-races"), "xla": xla, "reference": reference}


def make(name: str) -> Engine:
    """An engine by name, or "FILE.py:FUNCTION" for one kept elsewhere. Raises ValueError for any other name."""
    file, separator, function = name.rpartition(":")
    if separator:
        return runpy.run_path(file)[function]()
    if name not in ENGINES:
        raise ValueError(f"no engine is named {name!r}: choose {' or '.join(ENGINES)}, or give FILE.py:FUNCTION")
    return ENGINES[name]()
