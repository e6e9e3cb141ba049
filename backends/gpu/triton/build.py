"""Sources of Triton become machine code, by the Triton that is installed; programs that hold it do not need Triton."""

from __future__ import annotations

import os
import pickle
import subprocess
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec

from stablehlo_py.backends.gpu.triton.worker import Built, Request
from stablehlo_py.errors import ResourceError, UnsupportedError
from stablehlo_py.interrupts import deferred
from stablehlo_py.processes import python_command

INSTALL = "pip install 'stablehlo-py[triton]'"
_KEPT = 256  # kernels: those that the autotuner has timed are wanted once more
# What makes Triton do otherwise than compile.
_UNSET = ("TRITON_INTERPRET", "TRITON_KERNEL_OVERRIDE")


def require_triton() -> str:
    """The version of Triton. Raises ResourceError: it is not installed."""
    if find_spec("triton") is None:
        raise ResourceError("Triton is not installed, which generators name", remedy=INSTALL)
    return version("triton")


@lru_cache(_KEPT)
def build(request: Request) -> Built:
    """Compile a kernel, in a process of its own.

    Raises:
        ResourceError: Triton is not installed, or there can be no other process.
        UnsupportedError: Triton refuses the kernel; the message is its own.
    """
    require_triton()
    answer, said = _asked(pickle.dumps(request))
    built = pickle.loads(answer) if answer else f"its process ended: {said.strip()}"
    if not isinstance(built, Built):
        raise UnsupportedError(
            f"Triton does not compile the kernel '{request.symbol}': {built}", remedy="leave out generators"
        )
    if built.scratch_bytes:
        raise UnsupportedError(f"the kernel '{request.symbol}' of Triton wants memory of its own")
    return built


@deferred()
def _asked(request: bytes) -> tuple[bytes, str]:
    """What a new process answers, and what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    command = python_command("from stablehlo_py.backends.gpu.triton.worker import serve; serve()")
    try:
        done = subprocess.run(command, input=request, capture_output=True, env=environment)
    except OSError as error:
        raise ResourceError(
            f"cannot start the process that compiles kernels: {error}", remedy="close other processes"
        ) from error
    return done.stdout, done.stderr.decode(errors="replace")[-2000:]
