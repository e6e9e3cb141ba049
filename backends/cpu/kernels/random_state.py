"""hlo.random_state: a Philox state that no other draw of the process has."""

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu import grid, layout
from stablehlo_py.backends.cpu.kernels.base import Kernel, finished, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I64, PTR
from stablehlo_py.dialect.types import i64

SITE_SHIFT = 32  # a site draws less than 2^32 times in a call


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase of one iteration, which also counts the draw."""
    op = fusion.op("hlo.random_state")
    site = i64(op, "site")
    f = phase_function(fusion, target)
    record = grid.read(f, operand(f, fusion, op.operands[0]), layout.RECORD, PTR)
    counts = grid.read(f, record, layout.DRAWN, PTR)
    count = f.load(I64, counts, site)
    f.store(f.binary("add", count, f.const(1)), counts, site)
    words = [grid.read(f, record, layout.KEY), f.const(0), f.binary("add", count, f.const(site << SITE_SHIFT))]
    for number, word in enumerate(words):
        f.store(word, f.out0, number)
    return Kernel.of(finished(f))
