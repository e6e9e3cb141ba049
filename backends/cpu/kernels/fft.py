"""Fourier transforms. Spec: section fft.

An axis at a time, innermost first. A transform along an axis is one phase (fourier.py); a long one, or one without
enough neighbours to fill vectors, is two phases: with n = n1 n2, transforms of length n1 over columns, a
multiplication, transforms of length n2 over rows (Bailey's four-step method). A length with a large prime factor is a
convolution of a length without one (Bluestein). Real transforms of even length are complex ones of half the length
with a phase before or after (spectrum.py). Lengths are static: every factor is in a read-only table, computed in
extended precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stablehlo_py.backends.cpu.kernels import spectrum
from stablehlo_py.backends.cpu.kernels.base import Fusion, Kernel, Phase, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand, the_op
from stablehlo_py.backends.cpu.kernels.fourier import (
    LARGEST_RADIX,
    Array,
    LaneTransform,
    prime_factors,
    require_table,
    roots,
)
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, Function, Value
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.codegen.types import PARTS, element
from stablehlo_py.dialect.size import is_known
from stablehlo_py.dialect.types import i64s, num_elements, shape, tensor_bytes, text

WORK_OF_A_THREAD = 5000.0  # nanoseconds that a range given to a thread should have
SCRATCH = 1 << 19  # bytes of scratch that a group of lanes should not exceed: half of a usual L2 cache


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The phases of `hlo.fft`."""
    op = the_op(fusion, "hlo.fft")
    kind, length, sizes = text(op, "kind"), i64s(op, "length"), shape(op.operands[0])
    plan = FourierPlan(fusion, target)
    result = op.results[0]
    operand(phase_function(fusion, "unused"), fusion, op.operands[0])  # refuses what is not an input
    source, out = Array(f"in{fusion.inputs.index(op.operands[0])}"), Array("out0")
    if num_elements(result) == 0:
        plan.phase("nothing", 0, 1.0, lambda f: None)
    elif num_elements(op.operands[0]) == 0:  # the transform of no numbers is a sum of none
        size = tensor_bytes(result)
        plan.phase("zero", 1, size / 10, lambda f: f.set_memory(f.gep(f.out0, 0, I8), 0, size))
    elif kind in ("FFT", "IFFT"):
        plan.axes(source, out, sizes, len(length), kind == "IFFT", 1.0 / math.prod(length))
    elif kind == "RFFT":
        rows, n = math.prod(sizes[:-1]), sizes[-1]
        spectra = out if n > 1 else plan.room(rows)  # nothing is done in place without neighbours
        spectrum.forward(plan, source, spectra, rows, n)
        plan.axes(spectra, out, shape(result), len(length), False, 1.0, skip=1)
    else:
        rows, n = math.prod(sizes[:-1]), length[-1]
        spectra = source
        if any(size > 1 for size in sizes[len(sizes) - len(length) : -1]):
            spectra = plan.room(num_elements(op.operands[0]))
            plan.axes(source, spectra, sizes, len(length), True, 1.0, skip=1)
        spectrum.inverse(plan, spectra, out, rows, n, 1.0 / math.prod(length))
    return plan.kernel()


class FourierPlan:
    """The phases of a kernel under construction.

    Attributes:
        of: the complex element type.
        lanes: lanes of a full vector of its parts.
    """

    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        self.fusion, self.target = fusion, target
        values = (*fusion.inputs, *fusion.outputs)
        self.of = next(element(value) for value in values if element(value).is_complex)
        self.part = PARTS[self.of.name]
        self.lanes = target.lanes(self.part.bits)
        self.tables: list[str] = []
        self._functions: list[str] = []
        self._phases: list[Phase] = []
        self._scalars = 0
        self._private = 0

    def kernel(self) -> Kernel:
        """The finished kernel. Functions come first: the first symbol of a kernel must be code."""
        shared = self._scalars * self.part.bytes
        return Kernel((*self._functions, *self.tables), tuple(self._phases), shared, self._private)

    def name(self, suffix: str) -> str:
        """A name that no other phase or table of the program has."""
        return f"{self.fusion.name}.{suffix}{len(self._phases)}"

    def table(self, suffix: str, numbers: np.ndarray) -> Callable[[Function], Value]:
        """Add a read-only table; the result gives its address in a function."""
        name = self.name(suffix)
        self.tables.append(constant_table(name, numbers, self.part.storage))
        return lambda f: f.address_of(name)

    def room(self, count: int) -> Array:
        """Shared scratch for complex numbers."""
        start = self._scalars
        self._scalars += -(-2 * count // 16) * 16
        return Array("shared", start)

    def phase(self, suffix: str, iterations: int, cost: float, body: Callable[[Function], None]) -> None:
        """Add a phase; `body` emits the loop over begin..end."""
        symbol = self.name(suffix)
        f = phase_function(self.fusion, symbol)
        body(f)
        f.ret()
        self._functions.append(f.text(self.target.function_attributes))
        grain = max(1, math.ceil(WORK_OF_A_THREAD / max(cost, 0.1)))
        self._phases.append(Phase(symbol, iterations, grain, cost))

    # --- complex transforms ------------------------------------------------------------------------------------------

    def axes(
        self,
        source: Array,
        target: Array,
        sizes: tuple[int, ...],
        count: int,
        inverse: bool,
        scale: float,
        skip: int = 0,
    ) -> None:
        """Transforms along the last `count` dimensions, without the very last `skip` of them.

        The inverse is multiplied by `scale`. Source and target may be one array where an inner dimension is larger
        than one."""
        scale = scale if inverse else 1.0
        chosen = [axis for axis in range(len(sizes) - 1 - skip, len(sizes) - count - 1, -1) if sizes[axis] > 1]
        for axis in chosen:
            outer, inner = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
            self.along(source, target, outer, sizes[axis], inner, inverse, scale)
            source, scale = target, 1.0
        if source != target:
            spectrum.copy(self, source, target, math.prod(sizes), scale)

    def along(
        self, source: Array, target: Array, outer: int, n: int, inner: int, inverse: bool, scale: float = 1.0
    ) -> None:
        """Transforms of length n > 1; element j of one lies at (o n + j) inner + i. In place only where inner > 1."""
        if prime_factors(n)[-1] > LARGEST_RADIX:
            self._bluestein(source, target, outer, n, inner, inverse, scale)
            return
        if inner > 1:
            lanes = self._fitting(n, self.lanes)
            lanes = min(lanes, 1 << (inner - 1).bit_length() if source == target else 1 << (inner.bit_length() - 1))
            self._transform("columns", source, target, n, outer, inner, lanes, inverse=inverse, scale=scale)
            return
        lanes = self._fitting(n, self.lanes)
        halves = _split(n)
        known = is_known(outer)  # else there may be fewer rows than lanes
        if halves and (not known or lanes < self.lanes or outer < self.lanes):
            self._four_steps(source, target, outer, halves, inverse, scale)
            return
        lanes = min(lanes, 1 << (outer.bit_length() - 1)) if known else 1
        self._transform(
            "rows", source, target, n, 1, outer, lanes, source_rows=True, target_rows=True, inverse=inverse, scale=scale
        )

    def _fitting(self, n: int, lanes: int) -> int:
        while lanes > 1 and 4 * n * lanes * self.part.bytes > SCRATCH:
            lanes //= 2
        return lanes

    def _four_steps(
        self, source: Array, target: Array, rows: int, halves: tuple[int, int], inverse: bool, scale: float
    ) -> None:
        n1, n2 = halves
        between = self.room(rows * n1 * n2)
        first, second = (min(self.lanes, 1 << (width.bit_length() - 1)) for width in (n2, n1))
        self._transform("columns", source, between, n1, rows, n2, first, inverse=inverse, twist=n1 * n2)
        self._transform("rows", between, target, n2, rows, n1, second, source_rows=True, inverse=inverse, scale=scale)

    def _transform(
        self, suffix: str, source: Array, target: Array, n: int, outer: int, width: int, lanes: int, **options: Any
    ) -> None:
        transform = LaneTransform(
            self.name(suffix),
            self.of,
            n,
            outer,
            width,
            lanes,
            self.target.registers,
            source,
            target,
            tables=self.tables,
            **options,
        )
        self._private = max(self._private, transform.private_bytes)
        self.phase(suffix, transform.iterations, transform.cost, transform.emit)

    def _bluestein(
        self, source: Array, target: Array, outer: int, n: int, inner: int, inverse: bool, scale: float
    ) -> None:
        # With c_j = exp(-pi i j^2 / n): X_k = c_k sum_j (x_j c_j) conj(c_{k-j}), a cyclic convolution of length m.
        m, rows = 1 << (2 * n - 2).bit_length(), outer * inner
        require_table(m, n)
        squares = np.array([j * j % (2 * n) for j in range(n)])
        chirp = roots(2 * n, squares)
        kernel = np.zeros(m, np.complex128)
        kernel[:n] = chirp.conj()
        kernel[m - n + 1 :] = chirp[:0:-1].conj()
        padded, spectra = self.room(rows * m), self.room(rows * m)
        table = self.table("chirps", _parts(chirp))
        spectrum.chirp_in(self, source, padded, table, n, m, outer, inner, inverse)
        self.along(padded, spectra, rows, m, 1, False)
        spectrum.product(self, spectra, self.table("kernels", _parts(np.fft.fft(kernel) / m)), rows, m)
        self.along(spectra, padded, rows, m, 1, True)
        spectrum.chirp_out(self, padded, target, table, n, m, outer, inner, inverse, scale)


def _parts(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as an array of real parts and one of imaginary parts."""
    return np.concatenate([numbers.real, numbers.imag])


def _split(n: int) -> tuple[int, int] | None:
    """Two factors of n, as equal as possible; None where that is not worth it."""
    if n < 16:
        return None
    small = next(factor for factor in range(math.isqrt(n), 0, -1) if n % factor == 0)
    return (small, n // small) if small > 3 else None
