"""Loop fusions that read inputs through a transposition: neighbours of the result are far apart in an input, and lie
side by side there along another dimension.

A block computes a tile of both dimensions. Its threads read the inputs' tiles as they lie in memory, keep them in
shared memory, and compute the results, with all that is fused, as these lie in memory (Ruetsch and Micikevicius,
"Optimizing Matrix Transpose in CUDA", 2009). Rows of shared memory have an odd number of words: threads that write a
row and threads that read a column are in different banks.

Where sizes allow, both sides are accessed 16 bytes at a time, and a word of shared memory has what lies side by side in
the result: four bytes, two halves, or one word; a tile is then 32, 64 or 128 elements wide."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import Space, refine
from stablehlo_py.backends.gpu.kernels.base import kernel_function
from stablehlo_py.backends.gpu.kernels.combining import Accumulators, accumulator_bytes
from stablehlo_py.backends.gpu.kernels.wide import MOST_BYTES
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I32, Function, Index, ScalarType, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.elemental.core import Provider
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    Variable,
    add,
    affine_of,
    delinearize,
    digits,
    linear_index,
    linearize,
    same,
    scalar,
    scale,
)
from stablehlo_py.codegen.types import ELEMENTS, Element, Lanes, decoded, element
from stablehlo_py.dialect.types import num_elements, shape
from stablehlo_py.mlir import ir

SIDE = 32  # of a tile, in words; threads of a subgroup
THREADS = 256
WORD = 4  # bytes
FEWEST = 8  # elements of a dimension for which a tile pays
SMALL = 1 << 12  # elements for which it does not
MOST_OPS = 128  # for all elements that a thread computes at once


@dataclass(frozen=True)
class Read:
    """An access of an input: element number `start` + sum(`steps` * index) of the loops' indices."""

    source: ir.Value
    start: int
    steps: tuple[int, ...]


def plan(fusion: Fusion, target: GpuTarget) -> Tiles | None:
    """How to compute a `loop` fusion in tiles; None: it is not worth it."""
    count = int(num_elements(fusion.outputs[0]))
    sizes = [int(size) for size in shape(fusion.outputs[0]) if size > 1]
    if count < SMALL or len(sizes) < 2:
        return None
    space = refine(fusion, target, fusion.outputs, sizes)
    reads = _reads(space)
    if reads is None:
        return None
    loops, reads = _together([int(size) for size in space.sizes], reads)
    across = len(loops) - 1
    turned = [read for read in reads if read.steps[across] > 1 and 1 in read.steps]
    if not turned:
        return None
    along = turned[0].steps.index(1)
    staged = [read for read in turned if read.steps[along] == 1]
    if min(loops[across], loops[along]) < FEWEST:
        return None
    for wide in (True, False):
        tiles = (_Packed if wide else _Single)(fusion, target, loops, along, staged)
        if tiles.suits:
            return tiles
    return None


def _reads(space: Space) -> list[Read] | None:
    """All accesses; None: of one it is not known where."""
    found = list[Read]()
    for source, offset in space.loads:
        if not isinstance(source, ir.Value) or offset.vector is not None:
            return None
        if any(variable not in space.variables for variable, _ in offset.terms):
            return None
        steps = tuple(int(space.coefficient(offset, loop)) for loop in range(len(space.sizes)))
        read = Read(source, int(offset.constant), steps)
        if read not in found:
            found.append(read)
    return found


def _together(sizes: Sequence[int], reads: Sequence[Read]) -> tuple[list[int], list[Read]]:
    """Loops that every access goes through as through one are one."""
    starts = [0]
    for loop in range(1, len(sizes)):
        if any(read.steps[loop - 1] != read.steps[loop] * sizes[loop] for read in reads):
            starts.append(loop)
    ends = [*starts[1:], len(sizes)]
    joined = [math.prod(sizes[start:end]) for start, end in zip(starts, ends, strict=True)]
    return joined, [Read(read.source, read.start, tuple(read.steps[end - 1] for end in ends)) for read in reads]


class Tiles(ABC):
    """A fusion in tiles of two of its loops: the last one, and `along`, along which `staged` lie side by side.

    Attributes:
        edge: elements of a tile along both.
        wide: elements that a thread accesses at once.
    """

    edge = SIDE
    wide = 1

    def __init__(
        self, fusion: Fusion, target: GpuTarget, sizes: Sequence[int], along: int, staged: Sequence[Read]
    ) -> None:
        self.fusion, self.target, self.sizes, self.along, self.staged = fusion, target, sizes, along, staged

    @property
    @abstractmethod
    def suits(self) -> bool:
        """Whether the tiles fit in shared memory, and the sizes and types are what the accesses need."""

    def written(self) -> Function:
        """The kernel: a block for a tile."""
        across = len(self.sizes) - 1
        counts = [
            -(-size // self.edge) if loop in (self.along, across) else size for loop, size in enumerate(self.sizes)
        ]
        blocks = math.prod(counts)
        f = self.f = kernel_function(self.fusion, self.target, self.fusion.name, blocks, THREADS)
        self.e = Elemental(f, self.fusion, self.target, 1)
        number = ((blocks, affine_of(f.block_number(), blocks - 1)),)
        self.tile = delinearize(f, number, counts, 1)
        self._through_shared_memory()
        f.ret()
        return f

    @abstractmethod
    def _through_shared_memory(self) -> None:
        """What a block does: elements from memory into the tiles, and from these into the outputs."""

    def _inside(self, loop: int, local: Index, step: int, constant: int = 0) -> tuple[Affine, Value | None]:
        """The index of a loop that is `constant` + `local` * `step` inside the tile, a multiple of `step`; with the
        condition that there is one, where there may be none: instead of those, the last one is taken."""
        f, size = self.f, self.sizes[loop]
        most = local.bounds[1] if isinstance(local, Value) and local.bounds else self.edge // step - 1
        inner = add(f, scale(f, affine_of(local, most), step), constant)
        index = add(f, scale(f, self.tile[loop], self.edge), inner)
        if size % self.edge == 0:
            return index, None
        number = f.index(scalar(f, index))
        last = (size - 1) // step * step
        safe = Variable(f.index(f.imin(number, last)), 0, last, step)
        return Affine(0, ((safe, 1),)), f.cmp("slt", number, f.const(size))

    def _offset(self, read: Read, along: Affine, across: Affine) -> Affine:
        """The element number of an access."""
        indices = list(self.tile)
        indices[self.along], indices[-1] = along, across
        return add(self.f, linearize(self.f, indices, read.steps), read.start)

    def _load(self, of: Element, read: Read, along: Affine, across: Affine) -> Lanes:
        """An element of an input, from memory."""
        place = digits([(num_elements(read.source), self._offset(read, along, across))])
        return self.e.read(of, self.e.base(read.source), place)

    def _provide(self, found: Sequence[tuple[Read, Affine, Lanes]]) -> None:
        """Elements of the inputs that were read already are not read again."""
        for source in {read.source for read, _, _ in found}:
            known = [(offset, value) for read, offset, value in found if read.source == source]
            self.e.bind(source, _one_of(known))

    def _compute(
        self, along: Affine, across: Affine, conditions: Sequence[Value | None], staged: Sequence[Sequence[Lanes]]
    ) -> None:
        """`wide` neighbours of each output, from the elements of the inputs: [part][staged]."""
        f, outputs = self.f, self.fusion.outputs
        results = []
        for part in range(self.wide):
            indices = list(self.tile)
            indices[self.along], indices[-1] = along, add(f, across, part)
            place = digits(zip(self.sizes, indices, strict=True))
            offsets = [self._offset(read, along, indices[-1]) for read in self.staged]
            self._provide(list(zip(self.staged, offsets, staged[part], strict=True)))
            results.append((place, [self.e.value(value, place) for value in outputs]))

        def store() -> None:
            for number, value in enumerate(outputs):
                for place, found in results:
                    self.e.write(element(value), f.parameters[f"out{number}"], place, found[number])

        needed = [condition for condition in conditions if condition is not None]
        if needed:
            f.if_(needed[0] if len(needed) == 1 else f.binary("and", *needed), store)
        else:
            store()


def _one_of(known: Sequence[tuple[Affine, Lanes]]) -> Provider:
    """Provides values at some element numbers; other places are computed."""

    def provided(e: Elemental, place: Delinearized) -> Lanes | None:
        here = linear_index(e.f, place)
        return next((value for offset, value in known if same(e.f, here, offset)), None)

    return provided


class _Single(Tiles):
    """An element at a time: 32 threads side by side."""

    @property
    def suits(self) -> bool:
        of = [element(read.source) for read in self.staged]
        return sum(accumulator_bytes(each, SIDE * (SIDE + 1)) for each in of) <= self.target.shared_bytes

    def _through_shared_memory(self) -> None:
        f, across, pitch = self.f, len(self.sizes) - 1, SIDE + 1
        kept = [Accumulators.shared(f, element(read.source), SIDE * pitch) for read in self.staged]
        x, y = f.irem(f.thread_number(), SIDE), f.idiv(f.thread_number(), SIDE)
        rows = range(0, SIDE, THREADS // SIDE)
        along, _ = self._inside(self.along, x, 1)
        for row in rows:
            at, _ = self._inside(across, y, 1, row)
            for read, place in zip(self.staged, kept, strict=True):
                slot = f.iadd(f.imul(f.iadd(y, row), pitch), x)
                place.store(slot, self._load(element(read.source), read, along, at))
        f.barrier()
        at, is_across = self._inside(across, x, 1)
        for row in rows:
            along, is_along = self._inside(self.along, y, 1, row)
            slot = f.iadd(f.imul(x, pitch), f.iadd(y, row))
            self._compute(along, at, (is_along, is_across), [[place.load(slot) for place in kept]])


class _Packed(Tiles):
    """16 bytes at a time, by words that hold what lies side by side in the results."""

    def __init__(
        self, fusion: Fusion, target: GpuTarget, sizes: Sequence[int], along: int, staged: Sequence[Read]
    ) -> None:
        super().__init__(fusion, target, sizes, along, staged)
        self.bytes = element(staged[0].source).bytes
        self.in_word = max(1, WORD // self.bytes)
        self.edge, self.wide = SIDE * self.in_word, WORD * self.in_word
        # Words that a quarter of a subgroup writes are in different banks: those behind each 32 move on by four.
        self.pitch = self.edge + WORD * (self.in_word - 1) + 1

    @property
    def suits(self) -> bool:
        def divided(read: Read) -> bool:
            others = (step for loop, step in enumerate(read.steps) if loop != self.along)
            return read.start % self.wide == 0 and all(step % self.wide == 0 for step in others)

        of = [element(read.source) for read in self.staged]
        return (
            all(each.bytes == self.bytes <= WORD and not each.is_complex for each in of)
            and self.sizes[self.along] % self.wide == self.sizes[-1] % self.wide == 0
            and all(divided(read) for read in self.staged)
            and len(self.fusion.ops) * self.wide <= MOST_OPS
            and len(of) * SIDE * self.pitch * WORD <= self.target.shared_bytes
        )

    def _through_shared_memory(self) -> None:
        f, thread = self.f, self.f.thread_number()
        kept = [f.shared_memory(SIDE * self.pitch, I32) for _ in self.staged]
        pieces = self.edge // self.wide  # of a row: eight
        piece, row = f.irem(thread, pieces), f.idiv(thread, pieces)
        along, _ = self._inside(self.along, piece, self.wide)
        across, _ = self._inside(len(self.sizes) - 1, row, self.in_word)
        start = f.iadd(f.imul(row, self.pitch), f.imul(piece, self.wide))
        start = f.iadd(start, f.imul(f.idiv(piece, SIDE // self.wide), WORD))
        for read, place in zip(self.staged, kept, strict=True):
            rows = [self._row(read, along, add(f, across, number)) for number in range(self.in_word)]
            for number in range(self.wide):
                f.store(self._word([each[number] for each in rows]), place, f.iadd(start, number))
        f.barrier()
        across, is_across = self._inside(len(self.sizes) - 1, piece, self.wide)
        for part in range(self.in_word):
            along, is_along = self._inside(self.along, row, 1, part * SIDE)
            # The words of this piece: as many rows of shared memory as 16 bytes have words.
            first = f.iadd(f.imul(f.imul(piece, MOST_BYTES // WORD), self.pitch), row)
            at = [f.iadd(first, number * self.pitch + part * (SIDE + WORD)) for number in range(MOST_BYTES // WORD)]
            words = [[f.load(I32, place, each) for each in at] for place in kept]
            elements = [
                self._elements(element(read.source), each) for read, each in zip(self.staged, words, strict=True)
            ]
            self._compute(along, across, (is_along, is_across), list(zip(*elements, strict=True)))

    @property
    def _bits(self) -> ScalarType:
        return ScalarType(f"i{self.bytes * 8}", self.bytes * 8)

    def _row(self, read: Read, along: Affine, across: Affine) -> list[Value]:
        """Neighbours in memory, as bits."""
        of, found = ELEMENTS[f"ui{self.bytes * 8}"], list[Value]()
        for number in range(self.wide):
            value = self._load(of, read, add(self.f, along, number), across)
            assert isinstance(value, Value)
            found.append(value)
        return found

    def _word(self, elements: Sequence[Value]) -> Value:
        """Elements, the first one in the low bits."""
        f, word = self.f, self.f.cast("zext", elements[0], I32)
        for number, value in enumerate(elements[1:], 1):
            shift = f.const(number * self._bits.bits, I32)
            word = f.binary("or", word, f.binary("shl", f.cast("zext", value, I32), shift))
        return word

    def _elements(self, of: Element, words: Sequence[Value]) -> list[Lanes]:
        """The elements of words."""
        f, found = self.f, list[Lanes]()
        for word in words:
            for number in range(self.in_word):
                shifted = f.binary("lshr", word, f.const(number * self._bits.bits, I32)) if number else word
                found.append(decoded(f, of, f.bitcast(f.cast("trunc", shifted, self._bits), of.storage)))
        return found
