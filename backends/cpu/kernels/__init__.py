"""Kernel templates: `kernels/<kind>.py`, or the file that `KINDS` says, generates the code of fusions of that kind."""

from __future__ import annotations

from importlib import import_module

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, Template
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.dialect.ops.grid import TRANSFERS
from stablehlo_py.dialect.types import user_location
from stablehlo_py.errors import UnsupportedError, elided
from stablehlo_py.mlir import ir

#: What there is a template for, and its file. The other files are parts of these.
KINDS = {
    kind: kind
    for kind in """attention cholesky column convolution custom_call dot exchange fft in_place_update loop
    random_state reduce_general reduce_window rng_bit_generator row scatter scores select_and_scatter sort
    sparse_product straight_line top_k triangular_solve tridiagonal_perturbed""".split()
} | {
    **dict.fromkeys(TRANSFERS, "transfer"),
    "reduce_window_general": "reduce_window",  # several operands, or a combiner of the user's own
    "batched_loop": "batched_loop",
    "straight_line_loop": "straight_line",  # a kind by itself, as its cost is per trip
}


def template(kind: str) -> Template | None:
    """The `emit` function of a kind, or None when there is no template for it."""
    return import_module(f"{__name__}.{KINDS[kind]}").emit if kind in KINDS else None


def emit_kernel(function: ir.OpView, target: CpuTarget, sizes: SizeTable | None = None) -> Kernel:
    """Generate the kernel of a fusion function.

    Raises:
        UnsupportedError: there is no template for its kind.
    """
    fusion = Fusion.read(function, sizes)
    emit = template(fusion.kind)
    if emit is None:
        names = sorted({op.operation.name for op in fusion.ops})
        raise UnsupportedError(
            f"the CPU backend has no kernel of kind '{fusion.kind}' (ops: {elided(names)})",
            op=names[0] if names else None,
            location=user_location(fusion.ops[0].location) if fusion.ops else None,
            remedy="write it with other ops of StableHLO",
        )
    return emit(fusion, target)
