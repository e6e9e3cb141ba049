"""Systems that object files are for, as LLVM's triples say them, and which CPU goes with which."""

from __future__ import annotations

from stablehlo_py.backends.cpu.target import NAMED, OTHERS, CpuTarget, host_target, named_target
from stablehlo_py.codegen.target import AARCH64, ARMV7, RISCV64, WASM32, X86_64, Architecture
from stablehlo_py.errors import OptionError

# By architecture, the default first: as LLVM spells them.
TRIPLES: dict[str, tuple[str, ...]] = {
    X86_64.name: (
        X86_64.triple,
        "x86_64-unknown-linux-musl",
        "x86_64-apple-macosx",
        "x86_64-apple-darwin",
        "x86_64-pc-windows-msvc",
        "x86_64-unknown-none-elf",
    ),
    AARCH64.name: (
        AARCH64.triple,
        "aarch64-unknown-linux-musl",
        "aarch64-unknown-linux-android",
        "aarch64-apple-macosx",
        "aarch64-apple-darwin",
        "aarch64-pc-windows-msvc",
        "aarch64-unknown-none-elf",
    ),
    RISCV64.name: (RISCV64.triple, "riscv64-unknown-linux-musl", "riscv64-unknown-none-elf"),
    WASM32.name: (WASM32.triple, "wasm32-unknown-wasi"),
    ARMV7.name: (
        ARMV7.triple,
        "armv7-unknown-linux-gnueabi",
        "armv7-unknown-linux-musleabihf",
        "armv7-unknown-none-eabihf",
        "armv7-unknown-none-eabi",
    ),
}
_ARCHITECTURES = {each.name: each for each in (X86_64, AARCH64, RISCV64, WASM32, ARMV7)}
# The CPU that is meant where only the system is said: what all processors of the architecture can run, with vectors
# where most have them.
_DEFAULT_CPUS = {
    X86_64.name: "x86-64",
    AARCH64.name: "aarch64",
    RISCV64.name: "rv64gcv",
    WASM32.name: "wasm32",
    ARMV7.name: "armv7-neon",
}
# Other spellings of the parts of a triple: vendors mean nothing here.
_VENDORS = ("unknown", "pc", "none", "apple")
_SYSTEMS = {"macos": "macosx", "wasip1": "wasi", "elf": "none-elf", "eabi": "none-eabi"}
_SYSTEMS |= {"eabihf": "none-eabihf", "linux": "linux-gnu"}
_VERSIONED = ("macosx", "darwin", "linux-android")
_SPELLED = {"arm64": "aarch64", "amd64": "x86_64", "arm": "armv7", "armv7a": "armv7", "armv7l": "armv7"}


def object_target(cpu: str | None, triple: str | None) -> tuple[CpuTarget, str]:
    """The description and the triple of what an object file is for.

    Args:
        cpu: a name of a description; None: the usual one of the triple's architecture, or this machine's own.
        triple: with or without vendor, e.g. "aarch64-linux-gnu"; None: Linux on the CPU.

    Raises:
        OptionError: there is no such CPU or triple, or the one is not of the other's architecture.
    """
    if triple is None:
        target = named_target(cpu, host_target())
        return target, target.architecture.triple
    architecture, full = _read(triple)
    if cpu is None:
        return named_target(_DEFAULT_CPUS[architecture.name], host_target()), full
    target = named_target(cpu, host_target())
    if target.architecture.name != architecture.name:
        raise OptionError(
            f"the CPU '{cpu}' is one of {target.architecture.name}, and the triple '{triple}' of {architecture.name}",
            remedy=f"use one of {', '.join(cpus_of(architecture))}; or leave one of them out",
        )
    if target.matrix_units and not is_linux(full):
        raise OptionError(
            f"code for the CPU '{cpu}' is for Linux, which it asks for leave to use AMX; the triple is '{triple}'",
            remedy="use cpu='avx512bf16'",
        )
    return target, full


def is_linux(triple: str) -> bool:
    """Whether the system is Linux, Android included."""
    return "-linux-" in triple


def cpus_of(architecture: Architecture) -> list[str]:
    """The names of the descriptions of an architecture."""
    return [name for name, target in (NAMED | OTHERS).items() if target.architecture is architecture]


def _read(triple: str) -> tuple[Architecture, str]:
    name, *rest = triple.split("-")
    name = _SPELLED.get(name, name)
    known = TRIPLES.get(name)
    if known is None:
        listed = ", ".join(each[0] for each in TRIPLES.values())
        raise OptionError(f"there is no target triple '{triple}'", remedy=f"use one such as {listed}")
    if not rest:
        return _ARCHITECTURES[name], known[0]
    version = rest[-1].lstrip("abcdefghijklmnopqrstuvwxyz")
    system = _system("-".join(rest).removesuffix(version))
    for each in known:
        if _system(each.partition("-")[2]) == system:
            return _ARCHITECTURES[name], each + (version if system in _VERSIONED else "")
    raise OptionError(f"there is no target triple '{triple}'", remedy=f"use one of {', '.join(known)}")


def _system(text: str) -> str:
    """A triple without architecture and vendor."""
    first, _, rest = text.partition("-")
    if first in _VENDORS:
        text = rest
    return _SYSTEMS.get(text, text)
