"""What of a program libraries may compute. Whether they do is decided where it is loaded (choice.py)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.libraries.convolution_kernels import epilogue_kernel, operand_kernel
from stablehlo_py.backends.gpu.libraries.convolutions import library_convolution
from stablehlo_py.backends.gpu.libraries.factorizations import library_factorization, matched_kernels
from stablehlo_py.backends.gpu.libraries.products import library_product
from stablehlo_py.backends.gpu.libraries.transforms import library_transform, scaled
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.mlir import ir
from stablehlo_py.options import CUBLASLT, CUDNN, CUFFT, CUSOLVER, LIBRARIES
from stablehlo_py.runtime.library_calls import LibraryCall

C = TypeVar("C", bound=LibraryCall, covariant=True)


@dataclass(frozen=True)
class Matched(Generic[C]):
    """A call.

    Attributes:
        in_place_bytes: of the first operand, where the library wants it in the place of the first result; 0: it does
            not. target: the number of that result's pointer.
        before, behind: kernels of ours that start before it and behind it. Their scratch memory is the library's
            workspace.
    """

    call: C
    in_place_bytes: int = 0
    target: int = 1
    before: GpuKernel | None = None
    behind: GpuKernel | None = None

    @property
    def beside(self) -> dict[str, GpuKernel]:
        """Kernels before it and behind it, by what they are called."""
        named = ((self.before_name, self.before), (self.behind_name, self.behind))
        return {name: kernel for name, kernel in named if kernel is not None}

    @property
    def before_name(self) -> str:
        """What the kernel before it is called."""
        return f"{self.call.kernel}_before"

    @property
    def behind_name(self) -> str:
        """What the kernel behind it is called."""
        return f"{self.call.kernel}_behind"


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
    if fusion.kind == "dot" and CUBLASLT in libraries and (product := library_product(fusion, target)):
        return Matched(product)
    if fusion.kind == "fft" and CUFFT in libraries and (transform := library_transform(fusion)):
        return Matched(transform, behind=scaled(fusion, target, transform))
    if CUSOLVER in libraries and (factor := library_factorization(fusion)):
        size = factor.batch * factor.rows * factor.columns * factor.dtype.itemsize
        before, behind = matched_kernels(fusion, target, factor)
        return Matched(factor, size, len(fusion.inputs), before=before, behind=behind)
    if fusion.kind == "convolution" and CUDNN in libraries and (convolution := library_convolution(fusion, target)):
        before, behind = operand_kernel(fusion, target, convolution), epilogue_kernel(fusion, target, convolution)
        return Matched(convolution, before=before, behind=behind)
    return None
