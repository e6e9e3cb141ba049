"""The system's C compiler, as the assembler of programs that run in this process."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.errors import InternalError, ResourceError

VARIABLE = "CC"
STANDARD = ("-std=c99", "-O3")
# Code is linked by backends/cpu/linker.py: whole addresses, no tables of the dynamic linker, no unwinder.
_PLACED = (
    "-fno-pic",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-w",
)
_LARGE = {"x86_64": ("-mcmodel=large", "-fcf-protection=none"), "aarch64": ("-mcmodel=large",)}


def command() -> list[str]:
    """The compiler that the environment names, else the system's. Raises ResourceError: there is none."""
    words = shlex.split(os.environ.get(VARIABLE, "")) or ["cc"]
    if shutil.which(words[0]) is None:
        raise ResourceError(
            f"the C compiler '{words[0]}' is not here, and the backend 'c' needs one to run a program",
            remedy=f"install one (Debian: apt-get install gcc), or name another in {VARIABLE}",
        )
    return words


def version() -> str:
    """The compiler's first line about itself, with its path. Raises ResourceError: there is none."""
    return _version(tuple(command()))


@cache
def _version(words: tuple[str, ...]) -> str:
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False)
    return f"{shlex.join(words)} {done.stdout.partition(os.linesep)[0]}"


def object_of(text: str, processor: CpuTarget) -> bytes:
    """The object file of a C file, for a processor.

    Raises:
        ResourceError: there is no compiler, or it failed for want of something.
        InternalError: it refused the text.
    """
    words = command()
    machine = [] if processor.name == "generic" else [f"-march={processor.name}"]
    with tempfile.TemporaryDirectory(prefix="shlo-c-") as folder:
        source, made = Path(folder, "model.c"), Path(folder, "model.o")
        try:
            source.write_text(text)
        except OSError as error:
            raise ResourceError(f"the C file cannot be written: {error}", remedy="make room in TMPDIR") from error
        flags = [*STANDARD, *machine, *_PLACED, *_LARGE.get(platform.machine(), ())]
        done = subprocess.run(
            [*words, *flags, "-c", str(source), "-o", str(made)], capture_output=True, text=True, check=False
        )
        if done.returncode or not made.exists():
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise InternalError(
                f"the C compiler '{words[0]}' did not compile the program: {first.strip()}",
                remedy=f"name another compiler in {VARIABLE}, or report it with the model",
            )
        return made.read_bytes()
