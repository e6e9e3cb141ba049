"""What of a program libraries may compute. Whether they do is decided where it is loaded (choice.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, pointers_of
from stablehlo_py.backends.gpu.libraries.factorizations import copied, finished, library_cholesky
from stablehlo_py.backends.gpu.libraries.products import library_product
from stablehlo_py.backends.gpu.libraries.transforms import library_transform, scaled
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.mlir import ir
from stablehlo_py.options import CUBLASLT, CUFFT, CUSOLVER, LIBRARIES
from stablehlo_py.runtime.library_calls import LibraryCall

C = TypeVar("C", bound=LibraryCall, covariant=True)


@dataclass(frozen=True)
class Matched(Generic[C]):
    """A call, and kernels of ours that start before and behind it: their scratch memory is its workspace."""

    call: C
    before: GpuKernel | None = None
    behind: GpuKernel | None = None

    @property
    def kernels(self) -> Mapping[str, GpuKernel]:
        """Both, by name."""
        parts = {"before": self.before, "behind": self.behind}
        return {f"{self.call.kernel}_{name}": kernel for name, kernel in parts.items() if kernel is not None}


def library_calls(module: ir.Module, libraries: Collection[str], target: GpuTarget) -> dict[str, Matched[LibraryCall]]:
    """Those of a scheduled module that these libraries may compute, by the name of their fusion:
    library by library."""
    found: dict[str, Matched[LibraryCall]] = {}
    for fusion in map(Fusion.read, fusions(module)) if libraries else ():
        matched = _matched(fusion, libraries, target)
        if matched is not None:
            found[fusion.name] = matched
    return dict(sorted(found.items(), key=lambda item: LIBRARIES.index(item[1].call.library)))


def _matched(fusion: Fusion, libraries: Collection[str], target: GpuTarget) -> Matched[LibraryCall] | None:
    def taking(kernel: GpuKernel | None) -> GpuKernel | None:
        return None if kernel is None else replace(kernel, pointers=len(pointers_of(fusion)))

    if fusion.kind == "dot" and CUBLASLT in libraries and (product := library_product(fusion, target)):
        return Matched(product)
    if fusion.kind == "fft" and CUFFT in libraries and (transform := library_transform(fusion)):
        return Matched(transform, behind=taking(scaled(fusion, target, transform)))
    if fusion.kind == "cholesky" and CUSOLVER in libraries and (factor := library_cholesky(fusion)):
        return Matched(factor, taking(copied(fusion, target, factor)), taking(finished(fusion, target, factor)))
    return None
