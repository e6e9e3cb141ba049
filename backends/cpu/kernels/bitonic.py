"""Records in registers of 512 bits, sorted by a network: first those of each lane, then by Batcher's bitonic merges.

A record's place in the order has as many bits as registers and lanes have together. A step compares records whose
places differ in one bit, and is two instructions for two registers where that bit is one of the register's number. So
each step brings its bit there: two shuffles for two registers, by which it changes places with a bit of the lane's
number. Which one leaves is the one that is wanted latest (Belady). Steps within registers would be a shuffle, both
comparisons and a selection for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stablehlo_py.codegen.builder import I1, Function, Value


def sorted_register(f: Function, value: Value) -> Value:
    """The records of one register in order."""
    width, size = value.type.lanes, 2
    while size <= width:
        value, distance = _exchanged(f, value, size - 1), size // 4
        while distance:
            value, distance = _exchanged(f, value, distance), distance // 2
        size *= 2
    return value


def _exchanged(f: Function, value: Value, differs: int) -> Value:
    """Each lane the lesser of itself and its partner where that follows, else the greater. The numbers of partners
    differ in these bits."""
    lanes = [lane ^ differs for lane in range(value.type.lanes)]
    other = f.shuffle(value, value, lanes)
    is_lower = f.const_lanes([int(lane < lanes[lane]) for lane in range(value.type.lanes)], I1)
    return f.select(is_lower, f.intrinsic("umin", value, other), f.intrinsic("umax", value, other))


def sorted_registers(f: Function, values: Sequence[Value]) -> list[Value]:
    """The records of several registers, a power of two, in order."""
    network = _Network(f, list(values))
    network.sort_lanes()
    for top in range(len(network.numbers), len(network.numbers) + len(network.lanes)):
        network.merge(top)
    return network.in_order()


@dataclass
class _Network:
    """Registers, and which bits of the place of a record the bits of its register's number and of its lane are, lowest
    first. Runs are as long as there are registers to begin with, one in each lane."""

    f: Function
    values: list[Value]
    numbers: list[int] = field(init=False)
    lanes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        registers, lanes = (count.bit_length() - 1 for count in (len(self.values), self.values[0].type.lanes))
        self.numbers, self.lanes = list(range(registers)), list(range(registers, registers + lanes))

    def sort_lanes(self) -> None:
        """Sort the records of each lane."""
        for low, high in _merge_exchanges(len(self.values)):
            self.values[low], self.values[high] = self._ordered(self.values[low], self.values[high])

    def merge(self, top: int) -> None:
        """Make runs twice as long of such whose places have so many bits."""
        for bit in range(top, -1, -1):
            self._bring(bit)
            values, distance = self.values, 1 << self.numbers.index(bit)
            across, turned = distance, 0
            if bit == top:  # the second of two runs backwards
                across = sum(1 << at for at, number in enumerate(self.numbers) if number <= top)
                turned = sum(1 << at for at, lane in enumerate(self.lanes) if lane <= top)
            self.values = list(values)
            for low, value in enumerate(values):
                if not low & distance:
                    partner = self._turned(values[low ^ across], turned)
                    self.values[low], self.values[low | distance] = self._ordered(value, partner)

    def in_order(self) -> list[Value]:
        """The registers as their numbers and lanes say."""
        lanes = len(self.lanes)
        high = next(at for at, number in enumerate(self.numbers) if number < lanes)
        self._exchange(high, next(at for at, lane in enumerate(self.lanes) if lane >= lanes), sorted_lanes=True)
        order = sorted(range(len(self.values)), key=self._number)
        return [self.values[register] for register in order]

    def _number(self, register: int) -> int:
        return sum((register >> at & 1) << number for at, number in enumerate(self.numbers))

    def _bring(self, bit: int) -> None:
        """Make a bit one of the registers' numbers, for the one of them that is wanted latest."""
        if bit in self.numbers:
            return
        # Lower bits are wanted in this merge, higher ones in the next; each begins with its highest.
        leaves = min([number for number in self.numbers if number > bit] or self.numbers)
        self._exchange(self.numbers.index(leaves), self.lanes.index(bit))

    def _exchange(self, number: int, lane: int, *, sorted_lanes: bool = False) -> None:
        """Let a bit of the registers' numbers and one of the lanes change places."""
        leaves, comes = self.numbers[number], self.lanes[lane]
        following = [leaves if bit == comes else bit for bit in self.lanes]
        if sorted_lanes:
            following.sort()
        picks: list[list[int]] = [[], []]
        for each in range(1 << len(self.lanes)):
            held = {bit: each >> at & 1 for at, bit in enumerate(following)}
            for side in range(2):
                source = sum((side if bit == comes else held[bit]) << at for at, bit in enumerate(self.lanes))
                picks[side].append(source + (held[leaves] << len(self.lanes)))
        values = list(self.values)
        taken = [self._indices(lanes) for lanes in picks]
        for low, value in enumerate(values):
            if not low >> number & 1:
                high = low | 1 << number
                for register, indices in zip((low, high), taken, strict=True):
                    self.values[register] = self._picked(value, indices, values[high])
        self.numbers[number], self.lanes = comes, following

    def _indices(self, lanes: Sequence[int]) -> Value:
        """What lanes a shuffle picks. LLVM does not know that they are constants: it would look at whatever the
        shuffle's operands come from."""
        return self.f.opaque(self.f.const_lanes(lanes, self.values[0].type.element))

    def _picked(self, a: Value, indices: Value, b: Value) -> Value:
        kind = "d" if a.type.element.bits == 32 else "q"
        return self.f.target_intrinsic(f"llvm.x86.avx512.vpermi2var.{kind}.512", a, indices, b, result=a.type)

    def _turned(self, value: Value, differs: int) -> Value:
        lanes = range(value.type.lanes)
        return self.f.shuffle(value, value, [lane ^ differs for lane in lanes]) if differs else value

    def _ordered(self, a: Value, b: Value) -> tuple[Value, Value]:
        return self.f.intrinsic("umin", a, b), self.f.intrinsic("umax", a, b)


def _merge_exchanges(count: int) -> Iterator[tuple[int, int]]:
    """The comparisons of Batcher's odd-even merge sort of a power of two."""
    run = 1
    while run < count:
        distance = run
        while distance:
            for start in range(distance % run, count - distance, 2 * distance):
                for low in range(start, start + distance):
                    if low // (2 * run) == (low + distance) // (2 * run):
                        yield low, low + distance
            distance //= 2
        run *= 2
