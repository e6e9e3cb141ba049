"""Sources of Triton become machine code, by the Triton that is installed; programs that hold it do not need Triton."""

from __future__ import annotations

import os
import pickle
import subprocess
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec

from stablehlo_py.backends.gpu.capability import MACHINE_CODE
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.backends.gpu.triton.worker import Built, IrRequest, Request
from stablehlo_py.errors import ResourceError, UnsupportedError
from stablehlo_py.interrupts import deferred
from stablehlo_py.processes import python_command

INSTALL = "pip install 'stablehlo-py[triton]'"
# Triton adds two pointers to each kernel, to scratch memory and to that of a profiler; the first is where ours is.
UNUSED_POINTERS = 1
_KEPT = 256  # kernels: those that the autotuner has timed are wanted once more
# What makes Triton do otherwise than compile.
_UNSET = ("TRITON_INTERPRET", "TRITON_KERNEL_OVERRIDE")


def triton_version() -> str:
    """The version of Triton; empty: it is not installed."""
    return version("triton") if find_spec("triton") is not None else ""


def require_triton() -> str:
    """The version of Triton. Raises ResourceError: it is not installed."""
    found = triton_version()
    if not found:
        raise ResourceError("Triton is not installed, which generators name", remedy=INSTALL)
    return found


def code_of(target: GpuTarget) -> tuple[int, str]:
    """The machine that Triton compiles for, and what a GPU must have to run that: from 90 on it is that very machine,
    as its matrix units are no later one's."""
    capability = int(target.name.removeprefix(MACHINE_CODE).removesuffix("a"))
    return capability, f"{MACHINE_CODE}{capability}{'a' if capability >= 90 else ''}"


@lru_cache(_KEPT)
def build(request: Request | IrRequest) -> Built:
    """Compile a kernel, in a process of its own.

    Raises:
        ResourceError: Triton is not installed, or there can be no other process.
        UnsupportedError: Triton refuses the kernel; the message is its own.
    """
    require_triton()
    answer, said = _asked(_WORKER, pickle.dumps(request))
    built = pickle.loads(answer) if answer else f"its process ended: {said.strip()}"
    if not isinstance(built, Built):
        raise UnsupportedError(
            f"Triton does not compile the kernel '{request.symbol}': {built}", remedy="leave out generators"
        )
    if built.scratch_bytes:
        raise UnsupportedError(f"the kernel '{request.symbol}' of Triton wants memory of its own")
    return built


@lru_cache(_KEPT)
def text_of(bytecode: bytes) -> str:
    """Triton's IR as text, by the jaxlib that is installed.

    Raises:
        ResourceError: jaxlib is not installed, or there can be no other process.
        UnsupportedError: it does not read the bytecode; the message is its own.
    """
    if find_spec("jaxlib") is None:
        raise ResourceError(
            "jaxlib is not installed, which reads the bytecode of a kernel of Triton",
            remedy="install the version of jaxlib that the model was exported with",
        )
    answer, said = _asked(_READER, bytecode)
    text, wrong = pickle.loads(answer) if answer else ("", f"its process ended: {said.strip()}")
    if not text:
        raise UnsupportedError(
            f"jaxlib {version('jaxlib')} does not read the bytecode of a kernel of Triton: {wrong}",
            remedy="install the version of jaxlib that the model was exported with",
        )
    assert isinstance(text, str)
    return text


_WORKER = "from stablehlo_py.backends.gpu.triton.worker import serve; serve()"
_READER = "from stablehlo_py.backends.gpu.triton.bytecode import serve; serve()"


@deferred()
def _asked(code: str, request: bytes) -> tuple[bytes, str]:
    """What a new process answers, and what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    try:
        done = subprocess.run(python_command(code), input=request, capture_output=True, env=environment)
    except OSError as error:
        raise ResourceError(
            f"cannot start the process that compiles kernels: {error}", remedy="close other processes"
        ) from error
    return done.stdout, done.stderr.decode(errors="replace")[-2000:]
