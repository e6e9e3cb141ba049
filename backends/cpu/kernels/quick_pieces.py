"""What sorting by partitions consists of (quick.py): functions that all sorts of keys of one width call."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.backends.cpu.kernels.bitonic import sorted_register, sorted_registers
from stablehlo_py.codegen.builder import I1, I8, I16, I64, Function, ScalarType, Value, VectorType

UNROLLED = 4


@dataclass(frozen=True)
class Keys:
    """Unsigned integers of 32 or 64 bits in vectors of 512."""

    word: ScalarType

    @property
    def width(self) -> int:
        """Keys in a vector."""
        return 512 // self.word.bits

    @property
    def vector(self) -> VectorType:
        """A vector of keys."""
        return VectorType(self.width, self.word)

    @property
    def mask(self) -> VectorType:
        """Which of them."""
        return VectorType(self.width, I1)

    @property
    def bits(self) -> ScalarType:
        """A mask as an integer."""
        return I16 if self.width == 16 else I8

    def below(self, f: Function, count: Value) -> Value:
        """The mask of the first lanes, so many."""
        bits = f.binary("xor", f.binary("shl", f.const(-1), count), f.const(-1))
        return f.bitcast(f.cast("trunc", bits, self.bits), self.mask)

    def _compressed(self, f: Function, value: Value, mask: Value) -> Value:
        name = f"llvm.x86.avx512.mask.compress.v{self.width}i{self.word.bits}"
        return f.target_intrinsic(name, value, value, mask, result=self.vector)

    def _ones(self, f: Function, mask: Value) -> Value:
        return f.cast("zext", f.intrinsic("ctpop", f.bitcast(mask, self.bits)), I64)


@dataclass(frozen=True)
class Partition(Keys):
    """Of a part of one memory, into another one."""

    @property
    def symbol(self) -> str:
        """What the function is called."""
        return f"shlo_partition_{self.word.text}"

    def emit(self, f: Function, *arguments: Value) -> Value:
        """Write the records below the pivot to the front of the part's place in `target`, the others to its back;
        returns where these begin."""
        source, target, low, high, pivot = arguments
        width = self.width
        pivots, every = f.splat(pivot, width), f.const(1, self.mask)

        def vectors(start: Value, many: int, front: Value, back: Value) -> list[Value]:
            for value in [f.load(self.vector, source, f.iadd(start, each * width)) for each in range(many)]:
                less = f.cmp("ult", value, pivots)
                count = self._ones(f, less)
                # Between front and back there is room for this vector: what is written too far is written again.
                f.store(self._compressed(f, value, less), target, front)
                rest = f.binary("sub", f.const(width), count)
                front, back = f.binary("add", front, count), f.binary("sub", back, rest)
                others = self._compressed(f, value, f.binary("xor", less, every))
                f.store(others, target, back, self.below(f, rest))
            return [front, back]

        size, step = f.isub(high, low), UNROLLED * width
        several = f.iadd(low, f.imul(f.idiv(size, step), step))
        single = f.iadd(low, f.imul(f.idiv(size, width), width))
        ends = f.loop(low, several, step, lambda i, *ends: vectors(i, UNROLLED, *ends), [low, high])
        front, back = f.loop(several, single, width, lambda i, *ends: vectors(i, 1, *ends), ends)
        valid = self.below(f, f.index(f.isub(high, single)))
        value = f.masked_load(self.vector, source, single, valid, f.const(0, self.vector))
        less = f.cmp("ult", value, pivots)
        first, others = f.binary("and", less, valid), f.binary("and", f.binary("xor", less, every), valid)
        count, rest = self._ones(f, first), self._ones(f, others)
        f.store(self._compressed(f, value, first), target, front, self.below(f, count))
        f.store(self._compressed(f, value, others), target, f.isub(back, rest), self.below(f, rest))
        return f.binary("add", front, count)


@dataclass(frozen=True)
class Network(Keys):
    """Sorts at most so many registers of keys."""

    registers: int

    @property
    def symbol(self) -> str:
        """What the function is called."""
        return f"shlo_network_{self.registers}_{self.word.text}"

    def emit(self, f: Function, *arguments: Value) -> None:
        """From one memory, where so many keys are, to another one or the same."""
        source, target, size = arguments
        registers, width = self.registers, self.width
        greatest, values, masks = f.const(-1, self.vector), [], []
        for number in range(registers):
            left = f.intrinsic("smax", f.index(f.isub(size, number * width)), f.const(0))
            masks.append(self.below(f, f.intrinsic("smin", left, f.const(width))))
            values.append(f.masked_load(self.vector, source, number * width, masks[-1], greatest))
        found = sorted_registers(f, values) if registers > 1 else [sorted_register(f, values[0])]
        for number, value in enumerate(found):
            f.store(value, target, number * width, masks[number])


@dataclass(frozen=True)
class Heap(Keys):
    """Sorts however many keys, in a time that no input makes long."""

    @property
    def symbol(self) -> str:
        """What the function is called."""
        return f"shlo_heap_{self.word.text}"

    def emit(self, f: Function, *arguments: Value) -> None:
        """Sort so many records in place, and bring them to `target`."""
        source, target, size = arguments

        def sift(record: Value, start: Value, count: Value) -> None:
            """Put a record where it belongs below a place of the heap, whose own one is free."""

            def child(at: Value) -> Value:
                """The greater of the two, if both are there."""
                left = f.iadd(f.imul(at, 2), 1)
                right = f.imin(f.iadd(left, 1), f.isub(count, 1))
                a, b = f.load(self.word, source, left), f.load(self.word, source, right)
                return f.select(f.cmp("ult", a, b), f.index(right), f.index(left))

            def sinks(at: Value) -> Value:
                has_child = f.cmp("slt", f.index(f.iadd(f.imul(at, 2), 1)), f.index(count))
                greater = f.if_(
                    has_child,
                    lambda: f.cmp("ult", record, f.load(self.word, source, child(at))),
                    lambda: f.const(False, I1),
                )
                return greater[0]

            def move(at: Value) -> list[Value]:
                below = child(at)
                f.store(f.load(self.word, source, below), source, at)
                return [below]

            (place,) = f.while_([start], sinks, move)
            f.store(record, source, place)

        half = f.idiv(size, 2)

        def step(number: Value) -> None:
            """Make one heap more of two, then take the greatest record of it, again and again."""
            builds = f.cmp("slt", number, f.index(half))
            place = f.index(f.isub(f.isub(half, 1), number))
            last = f.index(f.isub(f.isub(f.iadd(size, half), 1), number))
            at = f.select(builds, place, last)
            record = f.load(self.word, source, at)
            f.store(f.select(builds, record, f.load(self.word, source, 0)), source, at)
            sift(record, f.select(builds, place, f.const(0)), f.select(builds, f.index(size), last))

        f.loop(0, f.iadd(half, f.isub(size, 1)), 1, step)
        f.loop(0, size, 1, lambda i: f.store(f.load(self.word, source, i), target, i))
