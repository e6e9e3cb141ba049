"""Which Fourier transforms of a program a library may compute: those of one to three dimensions to complex numbers.
Where it transforms these to real ones, it overwrites its operand."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import i64s, num_elements, static_shape, text, user_location
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.options import CUFFT
from stablehlo_py.runtime.library_calls import LibraryTransform

LEAST_NUMBERS = 1 << 12  # of all transforms together: less is not worth a call
# Its workspace is as large as the numbers, or twice that where a length has large primes (documentation of cuFFT, 2.1).
_WORKSPACES, _LEAST_WORKSPACE = 4, 1 << 20


def library_transform(fusion: Fusion) -> LibraryTransform | None:
    """What an `fft` fusion is to a library; None: nothing."""
    op = fusion.op("hlo.fft")
    operand, result = op.operands[0], op.results[0]
    kind, lengths = text(op, "kind"), i64s(op, "length")
    numbers = int(num_elements(result))
    plain = list(fusion.inputs) == [operand] and list(fusion.outputs) == [result]
    if not plain or kind == "IRFFT" or not 1 <= len(lengths) <= 3 or numbers < LEAST_NUMBERS:
        return None
    sizes = static_shape(operand)
    dtypes = [ELEMENT_TYPES[element(value).name] for value in (operand, result)]
    return LibraryTransform(
        library=CUFFT,
        kernel=fusion.name,
        op=op.operation.name,
        location=user_location(op.location) or "",
        workspace_bytes=max(_LEAST_WORKSPACE, _WORKSPACES * numbers * dtypes[1].itemsize),
        operand=dtypes[0],
        result=dtypes[1],
        lengths=tuple(map(int, lengths)),
        batch=math.prod(map(int, sizes[: len(sizes) - len(lengths)])),
        inverse=kind == "IFFT",
    )


def scaled(fusion: Fusion, target: GpuTarget, call: LibraryTransform) -> GpuKernel | None:
    """What comes behind the library: it does not divide inverse transforms by their length."""
    if not call.inverse:
        return None
    part = element(fusion.outputs[0]).compute
    factor = 1.0 / math.prod(call.lengths)

    def one(f: Function, number: Value) -> None:
        f.store(f.fmul(f.load(part, f.out0, number), f.const(factor, part)), f.out0, number)

    count = 2 * int(num_elements(fusion.outputs[0]))
    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_scaled", count, one))
