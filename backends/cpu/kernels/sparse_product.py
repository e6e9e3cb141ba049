"""Sparse matrix (compressed rows) times dense vector or matrix: `cpu_csr_sparse_dense_ffi`, which
jax.experimental.sparse calls."""

from __future__ import annotations

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import fold, pack, unpack, vectors
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import combine
from stablehlo_py.codegen.builder import I64, Function, Index, Value
from stablehlo_py.codegen.types import Element, Lanes, element
from stablehlo_py.dialect.custom_call import read_call
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.errors import UnsupportedError

TARGET = "cpu_csr_sparse_dense_ffi"
ELEMENTS = ("i32", "f32", "f64", "complex<f32>", "complex<f64>")


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over rows. Operands: the numbers, where rows begin among them (rows + 1 positions), their columns, the
    dense matrix. Numbers whose column the dense matrix lacks (with which JAX pads) count as zero.

    Raises:
        UnsupportedError: the call is not so.
    """
    op = fusion.op("stablehlo.custom_call")
    call = read_call(op)
    if len(call.operands) != 4 or len(call.results) != 1:
        raise UnsupportedError(f"'{TARGET}' takes four operands and gives one result")
    numbers, starts, columns, dense = call.operands
    (result,) = call.results
    kinds = {str(buffer.element) for buffer in (numbers, dense, result)}
    positions = {str(buffer.element) for buffer in (starts, columns)}
    rows, inner = result.shape[:1], dense.shape[:1]
    fits = (
        numbers.shape == columns.shape == numbers.shape[:1]
        and len(rows) == len(inner) == 1
        and starts.shape == (rows[0] + 1,)
        and result.shape == rows + dense.shape[1:2]
        and dense.shape == inner + dense.shape[1:2]
        and len(kinds) == len(positions) == 1
        and kinds <= {*ELEMENTS}
        and positions <= {"i32", "i64"}
    )
    if not fits:
        raise UnsupportedError(
            f"'{TARGET}' takes numbers (of {', '.join(ELEMENTS)}), rows + 1 positions, as many columns as numbers, "
            "and a dense vector or matrix"
        )
    width = dense.shape[1] if len(dense.shape) == 2 else 1
    f = phase_function(fusion, target)
    of = element(op.operands[0])
    if width:
        product = _Product(f, of, element(op.operands[1]), numbers.shape[0], inner[0], width, target)
        pointers = [operand(f, fusion, value) for value in op.operands]
        f.loop(f.begin, f.end, 1, lambda row: product.row(row, pointers, f.parameters["out0"]))
    cost = 10.0 + 2.0 * int(numbers.shape[0]) / max(1, int(rows[0])) * -(-int(width) // 4)
    return Kernel.of(phase(f, rows[0] if width else 0, cost))


class _Product:
    """Code for one row: it is summed up in runs of lanes of the dense matrix's rows."""

    def __init__(
        self,
        f: Function,
        of: Element,
        position: Element,
        count: IntLike,
        inner: IntLike,
        width: IntLike,
        target: CpuTarget,
    ) -> None:
        self.f, self.of, self.position = f, of, position
        self.count, self.inner, self.width = count, inner, width
        self.lanes = min(target.lanes(of.compute.bits), 1 << max(0, (width - 1).bit_length()))

    def row(self, row: Value, pointers: list[Value], out: Value) -> None:
        """Row `row` of the product."""
        f = self.f
        numbers, starts, columns, dense = pointers
        low, high = (self._position(starts, f.iadd(row, edge)) for edge in (0, 1))
        begin, end = f.imax(low, 0), f.imin(high, self.count)

        def run(column: Index, mask: Value | None) -> None:
            def add(place: Value, total: list[Lanes]) -> list[Lanes]:
                at = self._position(columns, place)
                inside = f.cmp("ult", at, f.const(self.inner))
                number = types.load(f, self.of, numbers, place)

                def added() -> list[Value]:
                    base = f.iadd(f.imul(at, self.width), column)
                    other = types.load(f, self.of, dense, base, self.lanes, mask)
                    product = combine(f, "multiply", self.of, types.splat(f, number, self.lanes), other)
                    return list(types.parts(combine(f, "add", self.of, total[0], product)))

                return unpack(f.if_(inside, added, lambda: pack(total)), self.of)

            (total,) = fold(f, begin, end, 1, [types.constant(f, self.of, 0, self.lanes)], add)
            types.store(f, self.of, total, out, f.iadd(f.imul(row, self.width), column), mask)

        vectors(f, self.width, self.lanes, run)

    def _position(self, pointer: Value, place: Index) -> Value:
        value = types.load(self.f, self.position, pointer, place)
        assert isinstance(value, Value)
        return self.f.cast("sext", value, I64)
