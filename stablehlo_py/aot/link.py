"""Shared libraries and WebAssembly modules, by a linker that is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stablehlo_py.codegen.target import host_architecture
from stablehlo_py.errors import ResourceError, UnsupportedError

# The compiler of Debian's package for each architecture, and that package.
_CROSS = {
    "x86_64": ("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
    "aarch64": ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    "riscv64": ("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"),
    "arm": ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
}


def linked(content: bytes, name: str, triple: str, public: Sequence[str], libraries: Sequence[str]) -> bytes:
    """A shared library (a module, of WebAssembly) of an object file, which exports the public symbols; `name` is that
    of its file.

    Raises:
        ResourceError: there is no linker for this system; or it failed, with what it says.
        UnsupportedError: shared libraries of this system are not made here.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "model.o"), Path(folder, "model.out")
        source.write_bytes(content)
        command = _command(name, triple, public)
        result = subprocess.run(
            [*command, str(source), "-o", str(made), *libraries], capture_output=True, text=True, check=False
        )
        if result.returncode:
            said = result.stderr.strip().replace(f"{folder}/", "")[:1000]
            raise ResourceError(f"{command[0]} cannot link the library: {said}", remedy="link the object file yourself")
        return made.read_bytes()


def _command(name: str, triple: str, public: Sequence[str]) -> list[str]:
    architecture = architecture_name(triple)
    if architecture.startswith("wasm"):
        linker = _found(["wasm-ld", *(f"wasm-ld-{n}" for n in range(22, 13, -1))], "lld", triple)
        exports = [f"--export={name}" for name in public]
        return [linker, "--no-entry", "--allow-undefined", "--export=__heap_base", *exports]
    if re.search("darwin|windows|none", triple):
        raise UnsupportedError(
            f"shared libraries for {triple} are not made here", remedy="write an object file, and link it there"
        )
    own = [] if architecture != host_architecture().name else ["cc", "gcc", "clang"]
    cross, package = _CROSS.get(architecture, (f"{architecture}-linux-gnu-gcc", f"gcc-{architecture}-linux-gnu"))
    linker = _found([*own, cross], "gcc" if own else package, triple)
    return [linker, "-shared", "-Wl,--build-id=none", "-Wl,-z,noexecstack", f"-Wl,-soname,{name}"]


def _found(names: Sequence[str], package: str, triple: str) -> str:
    for name in names:
        if shutil.which(name):
            return name
    raise ResourceError(
        f"there is no linker for {triple} here (looked for {', '.join(names[:3])})",
        remedy=f"install one (Debian's package {package}), or write an object file or a static library",
    )


def architecture_name(triple: str) -> str:
    """The architecture of a triple, as the system calls it: "arm" for all of 32 bits."""
    first = triple.partition("-")[0]
    return "arm" if re.match(r"arm|thumb", first) else "aarch64" if first == "arm64" else first
