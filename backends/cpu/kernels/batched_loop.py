"""A loop over the items of a batch: each vector of items runs all trips, its carries in registers.

    for block in [begin, end): carries = load(block)
        while condition(uniform carries): carries = body(carries)
        store(block, carries)

What an item needs of a trip is its own elements, and what is the same for all (dialect/batches.py), so lanes are items.
What does not change from trip to trip is read before them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import pack, unpack
from stablehlo_py.backends.cpu.kernels.base import Kernel, phase, phase_function
from stablehlo_py.backends.cpu.kernels.iteration import lanes_for, power_of_two
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import Function, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, added_lanes, lane_index, linear_index
from stablehlo_py.codegen.types import Known, Lanes, element, splat
from stablehlo_py.dialect.batches import LEAST, Batch, batch_of
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir

# Vectors whose instructions alternate, of those that are carried: one waits for its own operation before, trip after
# trip.
TOGETHER, CARRIED = 4, 12


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase over the vectors of items."""
    return _Emitter(fusion, target).emit()


class _Emitter:
    def __init__(self, fusion: Fusion, target: CpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.loop = fusion.op("scf.while")
        batch = batch_of(self.loop.operation)
        if batch is None:
            raise InternalError("a batched loop has no batch")
        self.batch: Batch = batch
        self.trips = trip_count(self.loop.operation, {}) or 0
        self.condition, self.body = (region.blocks[0] for region in self.loop.regions)
        results = [result for op in self.body.operations for result in op.operation.results]
        self.values = [value for value in results if num_elements(value) >= batch.size]
        carried = sum(batch.elements(value) for value in self._items(self.body.arguments))
        together = power_of_two(min(TOGETHER, CARRIED // carried))  # three vectors are no type of LLVM's
        self.lanes = together * lanes_for(target, [*self.values, *self._items(self.body.arguments)], LEAST // together)
        self.f: Function = phase_function(fusion, target)

    def _items(self, carries: Sequence[ir.Value]) -> list[ir.Value]:
        """Of what is carried, what items have of their own."""
        return [value for value, before in zip(carries, self.batch.before, strict=True) if before is not None]

    def emit(self) -> Kernel:
        f, lanes, size = self.f, self.lanes, self.batch.size
        blocks = -(-size // lanes)

        def block(i: Value) -> None:
            start = f.imin(f.imul(i, lanes), size - lanes)
            multiple = lanes if size % lanes == 0 else 1
            self._block(lane_index(start, size, lanes, multiple), f.cmp("eq", i, f.const(blocks - 1)))

        f.loop(f.begin, f.end, 1, block, nonempty=True)
        trip_ns = sum(COSTS.phase_ns(self.target, [each], 0, 0) * self.batch.elements(each) for each in self.values)
        return Kernel.of(phase(f, blocks, max(1, self.trips) * trip_ns * lanes / self.target.lanes(32)))

    def _places(self, number: int, lane: Affine) -> list[Delinearized]:
        """Where the elements of a carry's items are, of those in the lanes."""
        before, elements = self.batch.before[number], int(num_elements(self.loop.operands[number]))
        if before is None:
            return [((elements, Affine(each)),) for each in range(elements)]
        after = elements // (before * self.batch.size)
        return [
            ((before, Affine(b)), (self.batch.size, lane), (after, Affine(a)))
            for b, a in itertools.product(range(before), range(after))
        ]

    def _at(self, lane: Affine, values: Sequence[ir.Value], bound: Elemental) -> list[Lanes]:
        """The elements of the items of values that are carried, or will be."""
        found = []
        for number, value in enumerate(values):
            for place in self._places(number, lane):
                one = bound.value(value, place)
                found.append(one if self.batch.before[number] is None else splat(self.f, one, self.lanes))
        return found

    def _bound(self, block: ir.Block, lane: Affine, before: int, values: Sequence[Lanes]) -> Elemental:
        """What evaluates a block of the loop, given what is carried. What is the same in all trips is read at the level
        `before` them, if there are any."""
        # What is carried is in registers, which no index of a loop chooses among.
        e, rest = Elemental(self.f, self.fusion, self.target, self.lanes, self.batch.size), iter(values)
        e.certain = (before, self.f.level) if self.trips else None
        for number, argument in enumerate(block.arguments):
            held = {self._key(place): next(rest) for place in self._places(number, lane)}
            e.bind(argument, partial(self._held, held))
        return e

    def _held(self, held: dict[object, Lanes], e: Elemental, place: Delinearized) -> Lanes:
        key = self._key(place)
        if key not in held:
            raise InternalError("an item of a batched loop needs more than its own elements")
        return held[key]

    def _key(self, place: Delinearized) -> object:
        """Equal for places that are the same element of the items."""
        offset = linear_index(self.f, place)
        added = None if offset.vector is None else added_lanes(self.f, offset)
        return offset.constant, offset.terms, offset.lane, added

    def _block(self, lane: Affine, last: Value) -> None:
        """All trips of the items in the lanes; the last block has the results that are the same for all."""
        f = self.f
        initial = self._at(lane, list(self.loop.operands), Elemental(f, self.fusion, self.target, self.lanes))
        before = f.level

        def holds(*carried: Value) -> Value:
            e = self._bound(self.condition, lane, before, unpack(carried, initial))
            go: Known = e.value(_source(terminator(self.condition).operands[0]), ())
            return go

        def trip(*carried: Value) -> list[Value]:
            e = self._bound(self.body, lane, before, unpack(carried, initial))
            return pack(self._at(lane, list(terminator(self.body).operands), e))

        results = unpack(f.while_(pack(initial), holds, trip), initial)
        self._store(lane, results, of_items=True)
        f.if_(last, lambda: self._store(lane, results, of_items=False))

    def _store(self, lane: Affine, results: Sequence[Lanes], *, of_items: bool) -> None:
        e, rest = Elemental(self.f, self.fusion, self.target, self.lanes), iter(results)
        for number, result in enumerate(self.loop.results):
            for place in self._places(number, lane):
                value = next(rest)
                if (self.batch.before[number] is not None) is of_items:
                    e.write(element(result), self.f.parameters[f"out{number}"], place, value)


def _source(condition: ir.Value) -> ir.Value:
    """The tensor that a condition is extracted from."""
    return condition.owner.operands[0]
