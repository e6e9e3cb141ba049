"""Reductions inside kernels: several at once over the same loops, with accumulators enough to hide latencies.

Order of the sum: lane l of accumulator u takes elements l, l + copies * lanes, ... of its share; then accumulators
pairwise, then lanes in a tree, then the initial value. It depends on shapes and the target only, never on threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from stablehlo_py.backends.common.loops import pack, tree, unpack
from stablehlo_py.backends.common.reduction import Reduction, combined
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I1, Index, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, Variable, affine, lane_index
from stablehlo_py.codegen.math.basics import any_lane
from stablehlo_py.codegen.types import Lanes, parts, select, splat
from stablehlo_py.dialect.ops import combiner
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Sweep:
    """Loops over the reduced elements, the innermost in vectors.

    Attributes:
        e: where values come from. items: the reductions. sizes: loops, outermost first; lanes run along the last.
            lanes: lanes of a vector along the last loop (at most its size); 1 where the lanes of `e` run along
            something else. copies: independent accumulators. place: the operands' position from one index per loop.
            after: called with the position of every vector that has been evaluated (staging).
    """

    e: Elemental
    items: Sequence[Reduction]
    sizes: Sequence[IntLike]
    lanes: int
    copies: int
    place: Callable[[list[Affine]], Delinearized]
    after: Callable[[Delinearized], None] = lambda place: None

    def run(self, low: Index = 0, high: Index | None = None, *, tail: bool = True) -> list[Lanes]:
        """Accumulators, one per reduction, combined over copies but not over lanes.

        `low`, `high`: the range of the outermost loop (multiples of lanes * copies if it is the only one). Without
        `tail`, the elements after the last full group of vectors are left out (`remainder` has them)."""
        identity = [arith.identity(self.e.f, item.kind, item.of, self.e.lanes) for item in self.items]
        start = pack(identity * self.copies)
        total = self._nest([], start, low, self.sizes[0] if high is None else high, tail)
        return self.merged(self._sets(total))

    def remainder(self) -> list[Lanes]:
        """The accumulators of the elements that `run(tail=False)` leaves out of a single loop."""
        identity = [arith.identity(self.e.f, item.kind, item.of, self.e.lanes) for item in self.items]
        return self.merged(self._sets(self._rest([], pack(identity * self.copies))))

    def run_from(self, condition: ir.Value) -> list[Lanes]:
        """`run`, where the first element of a single loop with this condition says all: from that group of vectors on,
        to its end and that of the loop."""
        f, group = self.e.f, self.lanes * self.copies
        whole = self.sizes[0] // group * group

        def missed(index: Value, hit: Value) -> Value:
            return f.binary("and", f.cmp("slt", index, f.index(whole)), f.cmp("eq", hit, f.const(0, I1)))

        def look(index: Value, hit: Value) -> list[Value]:
            starts = [f.iadd(index, copy * self.lanes) for copy in range(self.copies)]
            places = [self.place([self._lane_index(start, copy)]) for copy, start in enumerate(starts)]
            hits = [parts(splat(f, self.e.value(condition, place), self.lanes))[0] for place in places]
            hit = any_lane(f, tree(hits, partial(f.binary, "or")))
            return [f.select(hit, index, f.index(f.iadd(index, group))), hit]

        first, _ = f.while_([f.const(0), f.const(0, I1)], missed, look)
        return self.run(first, f.index(f.iadd(first, group)))

    def merged(self, sets: Sequence[list[Lanes]]) -> list[Lanes]:
        """Copies of accumulators, pairwise."""
        return tree(sets, partial(combined, self.e.f, self.items))

    # --- loops -------------------------------------------------------------------------------------------------------

    def _nest(self, indices: list[Affine], carries: list[Value], low: Index, high: Index, tail: bool) -> list[Value]:
        f, depth = self.e.f, len(indices)
        if depth < len(self.sizes) - 1:

            def outer(index: Value, *inner: Value) -> list[Value]:
                at = [*indices, affine(index, self.sizes[depth])]
                return self._nest(at, list(inner), 0, self.sizes[depth + 1], tail)

            return f.loop(low, high, 1, outer, carries, nonempty=True)
        group = self.lanes * self.copies
        size = self.sizes[-1]
        whole = size // group * group
        if isinstance(high, Value):
            high = f.imin(high, whole)
        elif high == size:
            high = whole

        def main(index: Index, *inner: Value) -> list[Value]:
            sets = self._sets(inner)
            for copy in range(self.copies):
                start = f.iadd(index, copy * self.lanes)
                sets[copy] = self._step(indices, self._lane_index(start, copy), sets[copy])
            return pack([value for one in sets for value in one])

        dynamic = not (isinstance(low, int) and isinstance(high, int))  # a SymInt may be less than a group
        carries = f.loop(low, high, group, main, carries, nonempty=not dynamic)
        return self._rest(indices, carries) if tail else carries

    def _lane_index(self, start: Index, copy: int) -> Affine:
        if self.lanes == 1:
            return affine(start, self.sizes[-1])
        size, lanes = self.sizes[-1], self.lanes
        if not isinstance(start, Value):
            return Affine(start, lane=1)
        return Affine(0, ((Variable(start, copy * lanes, size - lanes, lanes), 1),), 1)

    def _rest(self, indices: list[Affine], carries: list[Value]) -> list[Value]:
        """Vectors after the last full group, and the elements after the last full vector."""
        f, size, lanes = self.e.f, self.sizes[-1], self.lanes
        done = size // (lanes * self.copies) * lanes * self.copies
        vectors = size // lanes * lanes
        sets = self._sets(carries)

        def single(index: Index, *inner: Value) -> list[Value]:
            (one,) = self._sets(inner)
            return pack(self._step(indices, self._lane_index(index, 0), one))

        sets[0] = self._sets(f.loop(done, vectors, lanes, single, pack(sets[0])))[0]
        if not is_known(size):
            sets[-1] = self._masked(indices, lane_index(f.index(vectors), size, lanes, lanes), sets[-1])
        elif vectors < size:
            sets[-1] = self._step(indices, lane_index(size - lanes, size, lanes), sets[-1], lanes - (size - vectors))
        return pack([value for one in sets for value in one])

    def _step(self, indices: list[Affine], index: Affine, totals: list[Lanes], skip: IntLike = 0) -> list[Lanes]:
        """Combine one vector of every operand into the accumulators, without its first `skip` lanes."""
        e, f = self.e, self.e.f
        place = self.place([*indices, index])
        result = []
        for item, total in zip(self.items, totals, strict=True):
            part = splat(f, e.value(item.operand, place), e.lanes)
            if skip and not combiner(item.kind).idempotent:
                fresh = f.const_lanes([int(lane >= skip) for lane in range(self.lanes)], I1)
                part = select(f, fresh, part, arith.identity(f, item.kind, item.of, e.lanes))
            result.append(arith.combine(f, item.kind, item.of, total, part))
        self.after(place)
        return result

    def _masked(self, indices: list[Affine], index: Affine, totals: list[Lanes]) -> list[Lanes]:
        """Combine what is left of a row, less than a vector and maybe nothing, into the accumulators."""
        e, f, size = self.e, self.e.f, self.sizes[-1]
        if self.lanes == 1:
            return totals
        mask = f.tail_mask(f.isub(size, size // self.lanes * self.lanes), self.lanes)
        place = self.place([*indices, index])
        result = []
        with e.predicated(mask):
            for item, total in zip(self.items, totals, strict=True):
                part = splat(f, e.value(item.operand, place), e.lanes)
                part = select(f, mask, part, arith.identity(f, item.kind, item.of, e.lanes))
                result.append(arith.combine(f, item.kind, item.of, total, part))
            self.after(place)
        return result

    # --- sets of accumulators ----------------------------------------------------------------------------------------

    def _sets(self, values: Sequence[Value]) -> list[list[Lanes]]:
        flat = unpack(values, [item.of for item in self.items] * (len(values) // self._width()))
        count = len(self.items)
        return [flat[start : start + count] for start in range(0, len(flat), count)]

    def _width(self) -> int:
        return sum(2 if item.of.is_complex else 1 for item in self.items)
