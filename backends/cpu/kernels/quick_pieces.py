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

        def divided(value: Value, front: Value, back: Value, valid: Value | None = None) -> list[Value]:
            less = f.cmp("ult", value, pivots)
            others = f.binary("xor", less, every)
            if valid is not None:
                less, others = f.binary("and", less, valid), f.binary("and", others, valid)
            count = self._ones(f, less)
            rest = f.binary("sub", f.const(width), count) if valid is None else self._ones(f, others)
            # Between front and back there is room for a whole vector: what is written too far is written again.
            f.store(self._compressed(f, value, less), target, front, valid and self.below(f, count))
            back = f.binary("sub", back, rest)
            f.store(self._compressed(f, value, others), target, back, self.below(f, rest))
            return [f.binary("add", front, count), back]

        def several(at: Value, front: Value, back: Value) -> list[Value]:
            for value in [f.load(self.vector, source, f.iadd(at, each * width)) for each in range(UNROLLED)]:
                front, back = divided(value, front, back)
            return [front, back]

        def single(at: Value, front: Value, back: Value) -> list[Value]:
            valid = self.below(f, f.intrinsic("smin", f.index(f.isub(high, at)), f.const(width)))
            return divided(f.masked_load(self.vector, source, at, valid, f.const(0, self.vector)), front, back, valid)

        step = UNROLLED * width
        whole = f.iadd(low, f.imul(f.idiv(f.isub(high, low), step), step))
        ends = f.loop(low, whole, step, several, [low, high])
        return f.loop(whole, high, width, single, ends)[0]


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
        sizes = f.splat(f.cast("trunc", size, self.word), width)
        for number in range(registers):
            places = f.const_lanes(range(number * width, (number + 1) * width), self.word)
            masks.append(f.cmp("slt", places, sizes))
            values.append(f.masked_load(self.vector, source, number * width, masks[-1], greatest))
        found = sorted_registers(f, values) if registers > 1 else [sorted_register(f, values[0])]
        for number, value in enumerate(found):
            f.store(value, target, number * width, masks[number])
