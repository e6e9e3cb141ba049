"""Contractions whose lanes run along an axis that all three operands share: depthwise convolutions, products of
interleaved batches.

    C[m, g] = sum over k of A[m, k, g] * B[k, g]        g contiguous in A, B and C

A register tile is a few rows m times a few vectors of g. Contracted axes are unrolled as far as the code stays small;
a vector of A that several rows of the tile read (neighbouring output pixels) is loaded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from stablehlo_py.backends.common.contraction import UNIT, Axis, Contraction, Operand
from stablehlo_py.backends.common.loops import unravel
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.backends.cpu.kernels.finished_tiles import Epilogue, emit_tile
from stablehlo_py.backends.cpu.kernels.register_tile import contract
from stablehlo_py.backends.cpu.kernels.tall_tiles import TallTiles
from stablehlo_py.backends.cpu.kernels.tiling import Split, each_panel, row_axis
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Index, Value, vector
from stablehlo_py.codegen.index import Affine, add, affine_of
from stablehlo_py.dialect.symint import HINT, IntLike, is_known, size_hint

UNROLLED = 128  # multiply-adds in one straight line


def shared_lanes(contraction: Contraction) -> Contraction | None:
    """The contraction with a shared contiguous outer axis as its n axis, if it has one and no better n axis. Else
    None."""
    if 1 not in (contraction.m.size, contraction.n.size):
        return None
    shared = [axis for axis in contraction.outer if axis.a == axis.b == axis.c == 1 and is_known(axis.size)]
    if not shared:
        return None
    rows = contraction.m if contraction.n.size == 1 else contraction.n
    outer = [axis for axis in contraction.outer if axis is not shared[0]]
    if rows.size == 1 and outer:
        # Rows that share B are the best; any outer axis will do.
        rows = max(outer, key=lambda axis: (axis.b == 0 or axis.a == 0, size_hint(axis.size)))
        outer.remove(rows)
    elif not is_known(rows.size):
        outer.insert(0, rows)
        rows = row_axis(axis for axis in outer if axis.a == 0 or axis.b == 0)
        outer.remove(rows)
    return replace(contraction, outer=tuple(outer), m=rows, n=shared[0])


class Prepare(Protocol):
    """What an iteration does before all others of its places of the two first outer axes, which the phase's range goes
    over then."""

    def emit(self, f: Function, image: Index, slab: Index) -> None:
        """At these places."""


class SharedLanes:
    """The compute phase; the contraction comes from `shared_lanes`, so its m axis may step through B as well."""

    def __init__(
        self,
        contraction: Contraction,
        arithmetic: Arithmetic,
        epilogue: Epilogue,
        target: CpuTarget,
        prepare: Prepare | None = None,
    ) -> None:
        self.contraction = contraction
        self.prepare = prepare
        self.arithmetic = arithmetic
        self.epilogue = epilogue
        lanes = target.lanes(arithmetic.accumulator.bits)
        while lanes > 1 and lanes // 2 >= contraction.n.size:
            lanes //= 2
        self.lanes = lanes
        self.vector = vector(lanes, arithmetic.accumulator)
        self.vectors = int(min(2, -(-contraction.n.size // lanes)))
        height = min(8, target.registers // 2 - 2) if self.vectors == 1 else target.registers // 4 - 1
        self.rows = _rows(contraction.m.size, height)
        self.panel = lanes * self.vectors
        self.panels = -(-contraction.n.size // self.panel)

        sizes = [*(axis.size for axis in contraction.outer), self.panels]
        #: Of the digits of an iteration, and of the loop within it.
        self.sizes, self.inner = (sizes[:2], sizes[2:]) if prepare else (sizes, [])

    @property
    def iterations(self) -> IntLike:
        return math.prod(self.sizes)

    @property
    def cost(self) -> float:
        """Nanoseconds of one iteration."""
        m, depth = size_hint(self.contraction.m.size), size_hint(self.contraction.depth)
        return (m * self.vectors * (depth + 3) / 2.5 + 20) * size_hint(math.prod(self.inner))

    def emit(self, f: Function) -> None:
        """The body of the phase function."""

        def one(digits: Sequence[Index]) -> None:
            *outer, panel = digits
            each_panel(
                f, panel, self.contraction.n.size, self.panel, lambda at, valid: self._panel(f, outer, at, valid)
            )

        def iteration(number: Value) -> None:
            digits = unravel(f, number, self.sizes)
            if self.prepare is None:
                one(digits)
                return
            self.prepare.emit(f, *digits)
            inner = math.prod(self.inner)
            f.loop(0, inner, 1, lambda number: one([*digits, *unravel(f, number, self.inner)]))

        f.loop(f.begin, f.end, 1, iteration)

    def _panel(self, f: Function, outer: list[Index], panel: Index, valid: IntLike) -> None:
        contraction = self.contraction
        start = f.imul(panel, self.panel)
        bases = [
            operand.at(f, outer, contraction.outer_steps(side), start)
            for operand, side in ((contraction.a, "a"), (contraction.b, "b"))
        ]
        n = affine_of(start, max(0, contraction.n.size // self.panel - 1) * self.panel, self.panel)
        place = [affine_of(digit, axis.size - 1) for digit, axis in zip(outer, contraction.outer, strict=True)]

        def tile(row: Index, m: Affine, height: int, skip: Index | None) -> None:
            a = f.gep(bases[0], f.imul(row, contraction.m.a), contraction.a.element.storage)
            b = f.gep(bases[1], f.imul(row, contraction.m.b), contraction.b.element.storage)
            self._tile(f, a, b, [*place, m, n], height, int(valid), skip)

        self.rows.emit(f, 0, None, tile)

    def _tile(
        self, f: Function, a: Value, b: Value, place: list[Affine], height: int, valid: int, skip: Index | None
    ) -> None:
        contraction, lanes = self.contraction, self.lanes
        vectors = -(-valid // lanes)
        tail = valid - (vectors - 1) * lanes
        masks = [None] * (vectors - 1) + [f.tail_mask(tail, lanes) if tail < lanes else None]
        axes = contraction.k
        straight = len(axes)
        while straight and is_known(axes[straight - 1].size):
            if math.prod(axis.size for axis in axes[straight - 1 :]) * height * vectors > UNROLLED:
                break
            straight -= 1

        def products(a_at: Value, b_at: Value, sums: Sequence[Value]) -> list[Value]:
            result, known = list(sums), {}

            def load(operand: Operand, base: Value, offset: IntLike, v: int) -> Value:
                key = (operand is contraction.a, offset, v)
                if key not in known:
                    known[key] = self.arithmetic.load(f, operand, base, offset + v * lanes, lanes, masks[v])
                return known[key]

            for steps in _places(axes[straight:]):
                for row in range(height):
                    for v in range(vectors):
                        left = load(contraction.a, a_at, steps[0] + row * contraction.m.a, v)
                        right = load(contraction.b, b_at, steps[1] + row * contraction.m.b, v)
                        position = row * vectors + v
                        result[position] = self.arithmetic.multiply_add(f, left, right, result[position])
            return result

        looped = axes[:straight]
        side_a = a, [axis.a for axis in looped], contraction.a
        side_b = b, [axis.b for axis in looped], contraction.b
        zeros = [f.const(0, self.vector)] * (height * vectors)
        sums = contract(f, [axis.size for axis in looped], side_a, side_b, zeros, products, unroll=False)
        step = Affine(0, lane=1 if lanes > 1 else 0)

        def store(row: Affine, v: Index, value: Value) -> None:
            at = affine_of(f.imul(v, lanes), (vectors - 1) * lanes, lanes)
            m, n = add(f, place[-2], row), add(f, add(f, place[-1], at), step)
            self.epilogue.store(f, [*place[:-2], m, n], (value,), lanes, masks[v] if isinstance(v, int) else None)

        emit_tile(f, sums, vectors, self.epilogue, skip, store, vectors - (masks[-1] is not None))


def _rows(size: IntLike, height: int) -> Split | TallTiles:
    """Tiles of up to `height` rows; the lower ones of a number that comes with the call leave few rows to do twice."""
    if isinstance(size, int):
        return Split(size, -(-size // height))
    return TallTiles(size, (height, *(lower for lower in (4, 2, 1) if lower < height)), HINT)


def _places(axes: Sequence[Axis]) -> list[tuple[IntLike, IntLike]]:
    """Offsets in A and B of every combination of indices."""
    places: list[tuple[IntLike, IntLike]] = [(0, 0)]
    for axis in axes or (UNIT,):
        places = [(a + i * axis.a, b + i * axis.b) for a, b in places for i in range(axis.size)]
    return places
