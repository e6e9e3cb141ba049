"""Row interchanges as a permutation: `lu_pivots_to_permutation`, which JAX's exports for GPUs call after an LU
factorization (of other platforms they hold a loop)."""

from __future__ import annotations

import math

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I32, I64, Index, Value
from stablehlo_py.dialect.custom_call import read_call
from stablehlo_py.dialect.symint import is_known, less, size_hint
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.legalize.gpu_libraries import PIVOTS as TARGET

__all__ = ["TARGET", "emit"]


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the factorizations. Operand: i32, k pivots from 0 of each: row i was exchanged with row pivots[i],
    one after the other; numbers of no row exchange nothing. Result: i32, the n rows (n >= k) in the order that they
    have then.

    Raises:
        UnsupportedError: the call is not so.
    """
    op = fusion.op("stablehlo.custom_call")
    call = read_call(op)
    shapes = [buffer.shape for buffer in (*call.operands, *call.results)]
    of_i32 = all(str(buffer.element) == "i32" for buffer in (*call.operands, *call.results))
    fits: bool = (len(call.operands), len(call.results)) == (1, 1) and of_i32 and all(shapes)
    if fits:
        too_many = less(shapes[1][-1], shapes[0][-1])
        fits = shapes[0][:-1] == shapes[1][:-1] and not (is_known(too_many) and too_many)
    if not fits:
        raise UnsupportedError(f"'{TARGET}' takes i32 pivots, and gives i32 rows, at least as many")
    (*batch, count), n = shapes[0], shapes[1][-1]
    f = phase_function(fusion, target)
    pivots, out = operand(f, fusion, op.operands[0]), f.parameters["out0"]

    def factorization(number: Value) -> None:
        first = f.imul(number, n)

        def at(row: Index) -> Index:
            return f.iadd(first, row)

        def exchange(step: Index) -> None:
            other = f.cast("sext", f.load(I32, pivots, f.iadd(f.imul(number, count), step)), I64)

            def swap() -> None:
                row, there = f.load(I32, out, at(step)), f.load(I32, out, at(other))
                f.store(there, out, at(step))
                f.store(row, out, at(other))

            f.if_(f.cmp("ult", other, f.index(n)), swap)

        f.loop(0, n, 1, lambda row: f.store(f.cast("trunc", f.index(row), I32), out, at(row)))
        f.loop(0, count, 1, exchange)

    f.loop(f.begin, f.end, 1, factorization)
    return Kernel.of(phase(f, math.prod(batch), 2.0 * size_hint(n)))
