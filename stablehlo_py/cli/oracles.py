"""What results are compared with: StableHLO's reference interpreter, and XLA through JAX. For tools and tests only: no
model is ever run by them in place of compiled code."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.errors import LoadError, OptionError, UnsupportedError

if TYPE_CHECKING:
    from stablehlo_py.mlir import ir


def expected_results(
    oracle: str, source: str | bytes, entry: str | None, inputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What an oracle gives for a module (a path or its bytes) on these inputs.

    It runs in a process of its own: the interpreter ends its process where it cannot go on.

    Raises:
        OptionError: there is no such oracle. UnsupportedError: it cannot run the module.
    """
    if oracle not in ORACLES:
        raise OptionError(f"there is no oracle '{oracle}'", remedy=f"use {' or '.join(ORACLES)}")
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "stablehlo_py.cli.oracles", oracle],
        input=pickle.dumps((source, entry, list(inputs))),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise UnsupportedError(
            f"the {oracle} oracle cannot run the module (status {done.returncode}): {lines[-1]}",
            remedy=f"compare with {' or '.join(name for name in ORACLES if name != oracle)}",
        )
    return pickle.loads(done.stdout)


def _module(source: str | bytes, entry: str | None, inputs: Sequence[np.ndarray]) -> ir.Module:
    """The loaded module, its symbolic dimensions taken from the inputs."""
    from stablehlo_py.frontend.load import load
    from stablehlo_py.frontend.refine import refine, symbolic_inputs
    from stablehlo_py.mlir import ir

    module = load(source, entry=entry)
    if any(None in sizes for sizes in symbolic_inputs(module)):
        with module.context, ir.Location.unknown():
            refine(module, [array.shape for array in inputs])
    return module


def _reference(source: str | bytes, entry: str | None, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    from stablehlo_py.dialect.constants import element_type_of, from_numpy, to_numpy
    from stablehlo_py.mlir import ir, stablehlo

    module = _module(source, entry, inputs)
    with module.context, ir.Location.unknown():
        arguments = [from_numpy(array, element_type_of(array.dtype, module.context)) for array in inputs]
        return [np.array(to_numpy(result)) for result in stablehlo.eval_module(module, arguments)]


def _jax(source: str | bytes, entry: str | None, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    import jax
    from jaxlib import _jax as bindings
    from jaxlib import xla_client

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    device = jax.devices("cpu")[0]
    text = str(_module(source, entry, inputs))
    executable = device.client.compile_and_load(text, bindings.DeviceList((device,)), xla_client.CompileOptions())
    buffers = [jax.device_put(array, device) for array in inputs]
    shards = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(shard[0]) for shard in shards]


ORACLES: dict[str, Callable[[str | bytes, str | None, Sequence[np.ndarray]], list[np.ndarray]]] = {
    "reference": _reference,
    "jax": _jax,
}


def main() -> None:
    """The child: a request from stdin, results to stdout; whatever libraries print goes to stderr."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        results = ORACLES[sys.argv[1]](*pickle.loads(sys.stdin.buffer.read()))
    except (LoadError, ImportError, RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()
        sys.exit(f"{type(error).__name__}: {first[0] if first else ''}")
    answer.write(pickle.dumps(results))
    answer.flush()


if __name__ == "__main__":
    main()
