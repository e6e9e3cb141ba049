"""What computes products of narrow numbers, the best first: matrix units, then instructions of vectors."""

from __future__ import annotations

from stablehlo_py.backends.common.contraction import Contraction
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.matrix_unit import Unit, tile_unit
from stablehlo_py.backends.cpu.kernels.vector_unit import vector_unit
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.types import Element


def units_of(a: Element, b: Element, arithmetic: Arithmetic, target: CpuTarget) -> list[Unit]:
    """Those for operands of these types that the target has."""
    if arithmetic.complex or arithmetic.boolean or arithmetic.packed != 1:
        return []
    return [unit for of in (tile_unit, vector_unit) if (unit := of(a, b, arithmetic.accumulator, target))]


def fitting_unit(contraction: Contraction, arithmetic: Arithmetic, target: CpuTarget) -> Unit | None:
    """The unit that computes a contraction, where it pays."""
    if not contraction.is_known:
        return None
    units = units_of(contraction.a.factor, contraction.b.factor, arithmetic, target)
    return next((unit for unit in units if unit.fits(contraction)), None)
