"""PTX becomes machine code by NVIDIA's assembler, ptxas, where it is installed. Nothing needs it: the driver has one of
its own, which takes its time when a program is loaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from stablehlo_py.errors import InternalError, ResourceError
from stablehlo_py.interrupts import deferred

INSTALL = "pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm"
_TENSOR_MAPS_SINCE = (12, 7)
# What an assembler says that is too old for what it is asked for.
_OLD = re.compile(r"Unsupported \.version|is not defined for option 'gpu-name'")
_LINE = re.compile(r", line (\d+);")
_ENTRY = re.compile(r"\.(?:entry|func)\b[^\n]*?([\w$.]+)\(")


def find_tool(name: str) -> str | None:
    """The path of "ptxas" or "nvdisasm": in the toolkit that CUDA_HOME names, on the PATH, or in NVIDIA's packages for
    this Python; None: it is not installed."""
    return shutil.which(name, path=os.pathsep.join(map(str, _folders())))


def _folders() -> Iterator[str | Path]:
    if home := os.environ.get("CUDA_HOME"):
        yield Path(home) / "bin"
    yield os.environ.get("PATH", os.defpath)
    packages = find_spec("nvidia")
    for place in (packages.submodule_search_locations or ()) if packages else ():
        yield from sorted(Path(place).glob("*/bin"), key=_release, reverse=True)


def _release(folder: Path) -> int:
    """Of CUDA, by the folder of a package: nvidia/cu13/bin; before that they were named otherwise."""
    number = re.fullmatch(r"cu(\d+)", folder.parent.name)
    return int(number[1]) if number else 0


def require_tool(name: str) -> str:
    """As `find_tool`. Raises ResourceError: it is not installed."""
    path = find_tool(name)
    if path is None:
        raise ResourceError(
            f"there is no {name} here, a tool of CUDA", remedy=f"{INSTALL}, or set CUDA_HOME to a toolkit"
        )
    return path


@cache
def _version(path: str, changed: float) -> str:
    """What an assembler says of itself; it may be exchanged for another, at some time."""
    said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"V([\d.]+)", said)
    return found[1] if found else said


def assembler() -> str:
    """The version of ptxas; "" where there is none. Machine code of one program differs by it."""
    path = find_tool("ptxas")
    return _version(path, os.stat(path).st_mtime) if path else ""


def makes_tensor_maps() -> bool:
    """Whether there is a ptxas, and kernels may make tensor maps: that of CUDA 12.6 and those before it take strides in
    bytes for multiples of 16 bytes, and what a driver does with PTX is not known here."""
    version = re.match(r"(\d+)\.(\d+)", assembler())
    return version is not None and (int(version[1]), int(version[2])) >= _TENSOR_MAPS_SINCE


@deferred()
def assemble(ptx: bytes, name: str) -> tuple[bytes, str]:
    """Machine code (a cubin) for the GPU `name` ("sm_90"), and what ptxas reports of it (`usage.of_ptxas`).

    Raises:
        ResourceError: ptxas is not installed, or too old.
        InternalError: it refuses what we have generated.
    """
    ptxas = require_tool("ptxas")
    with open(os.memfd_create("shlo-ptx"), "w+b") as source, open(os.memfd_create("shlo-cubin"), "w+b") as made:
        source.write(ptx)
        source.flush()
        files = [f"/proc/self/fd/{file.fileno()}" for file in (made, source)]
        done = _run([ptxas, "-v", f"-arch={name}", "-o", *files], source.fileno(), made.fileno())
        if done.returncode == 0:
            return made.read(), done.stderr
    if _OLD.search(done.stderr):
        raise ResourceError(
            f"{ptxas} is too old for {name}: {done.stderr.strip()}",
            remedy=f"install a newer one ({INSTALL}), or take it from the PATH: the driver compiles PTX too",
        )
    raise InternalError(
        f"ptxas refused the generated code{_kernel_at(ptx.decode(), done.stderr)}: {done.stderr.strip()}",
        remedy="report it with the model's StableHLO",
    )


def disassembly(cubin: bytes) -> str:
    """The listing of nvdisasm. Raises ResourceError: it is not installed, or knows no such machine code."""
    nvdisasm = require_tool("nvdisasm")
    with open(os.memfd_create("shlo-cubin"), "wb") as file:
        file.write(cubin)
        file.flush()
        done = _run([nvdisasm, "-c", f"/proc/self/fd/{file.fileno()}"], file.fileno())
    if done.returncode:
        raise ResourceError(f"{nvdisasm} failed: {done.stderr.strip()}", remedy=f"install a newer one: {INSTALL}")
    return done.stdout


def _run(command: list[str], *files: int) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, pass_fds=files)
    except OSError as error:
        raise ResourceError(f"{command[0]} cannot be run: {error.strerror}", remedy=INSTALL) from error


def _kernel_at(ptx: str, message: str) -> str:
    """ " of a kernel", by the line that a message names; "" where it names none."""
    line = _LINE.search(message)
    before = "\n".join(ptx.split("\n")[: int(line[1])]) if line else ""
    names = _ENTRY.findall(before)
    return f" of {names[-1]}" if names else ""
