"""What the golden cases can be run on. An engine is a function (module text, arguments) -> results."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence

import numpy as np

Engine = Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]


def shlo() -> Engine:
    """This project's compiler."""
    import stablehlo_py

    options = stablehlo_py.Options(threads=1, cache_dir=None)

    def engine(module: str, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return stablehlo_py.compile(module, options=options)(*arguments)

    return engine


def xla() -> Engine:
    """XLA:CPU as jaxlib ships it, the yardstick: says which cases the runner, or the case itself, gets wrong."""
    import jax
    from jaxlib import _jax, xla_client

    jax.config.update("jax_enable_x64", True)
    device = jax.devices("cpu")[0]
    devices = _jax.DeviceList((device,))

    def engine(module: str, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        executable = device.client.compile_and_load(module, devices, xla_client.CompileOptions())
        buffers = [jax.device_put(argument, device) for argument in arguments]
        results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]

    return engine


ENGINES = {"shlo": shlo, "xla": xla}


def make(name: str) -> Engine:
    """An engine by name, or "FILE.py:FUNCTION" for one kept elsewhere. Raises ValueError for any other name."""
    file, separator, function = name.rpartition(":")
    if separator:
        return runpy.run_path(file)[function]()
    if name not in ENGINES:
        raise ValueError(f"no engine is named {name!r}: choose {' or '.join(ENGINES)}, or give FILE.py:FUNCTION")
    return ENGINES[name]()
