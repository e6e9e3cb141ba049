"""`--version` of every tool: what a report of a defect has to say of the installation."""

from __future__ import annotations

import argparse
import platform
from typing import Any


class VersionAction(argparse.Action):
    """Prints the versions and ends; they are looked up when asked for."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        print(versions())
        parser.exit()


def versions() -> str:
    """Two lines: this package and what it stands on; the CPU that code is generated for."""
    import llvmlite.binding as llvm

    from stablehlo_py import __version__
    from stablehlo_py.backends.cpu.target import NAMED, host_target
    from stablehlo_py.mlir import stablehlo
    from stablehlo_py.options import available_threads

    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    listed = (
        f"stablehlo-py {__version__}",
        f"torch-mlir {_installed('torch-mlir')} (StableHLO {stablehlo.get_current_version()})",
        f"llvmlite {_installed('llvmlite')} (LLVM {llvm_version})",
        f"NumPy {_installed('numpy')}",
        f"JAX {_installed('jax')}",
        f"Python {platform.python_version()}",
    )
    cpu = next(name for name, target in NAMED.items() if target is host_target())
    return f"{', '.join(listed)}\nCPU: {cpu}, on {llvm.get_host_cpu_name()}, {available_threads()} threads"


def _installed(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, which other runs of a tool do without

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
