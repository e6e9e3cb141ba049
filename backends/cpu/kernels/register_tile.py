"""The innermost loops of a product: a tile of sums in registers, to which steps of the contracted axes add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic
from stablehlo_py.codegen.builder import Function, Index, Value

MULTIPLES = 4  # of a stride: rows of A that share an address


@dataclass(frozen=True)
class RegisterTile:
    """`height` rows of `vectors` vectors.

    Attributes:
        a, b: how the scalars of the operands are read.
        row_stride: from a row of A to the next. multiples: it, twice it, and so on to MULTIPLES times, where these are
            arguments: LLVM adds up addresses of rows that it knows to be as far apart, and each waits for the last.
        prefetched: scalars of B's next row that are fetched meanwhile.
        masks: of each vector of B, the valid scalars; None: all.
    """

    arithmetic: Arithmetic
    a: Operand
    b: Operand
    height: int
    vectors: int
    lanes: int
    row_stride: Index
    prefetched: int = 0
    masks: Sequence[Value | None] = field(default=())
    multiples: Sequence[Value] = field(default=())

    def products(self, f: Function, a_at: Value, b_at: Value, sums: Sequence[Value]) -> list[Value]:
        """`sums`, and the products of one step."""
        storage = self.b.element.storage
        for cache_line in range(0, self.prefetched * storage.bits // 8, 64):
            f.prefetch(b_at, self.prefetched + cache_line * 8 // storage.bits, storage)
        masks = self.masks or [None] * self.vectors
        columns = [
            self.arithmetic.load(f, self.b, b_at, v * self.lanes, self.lanes, masks[v]) for v in range(self.vectors)
        ]
        result, parts = list(sums), self.arithmetic.parts
        for line in range(self.height * parts):
            if isinstance(self.row_stride, Value):
                if line and line % MULTIPLES == 0:
                    a_at = f.gep(a_at, self._rows(f, MULTIPLES), self.a.element.storage)
                offset = self._rows(f, line % MULTIPLES)
            else:
                offset = line // parts * self.row_stride + line % parts
            one = f.splat(self.arithmetic.load(f, self.a, a_at, offset, 1), self.lanes)
            for v in range(self.vectors):
                position = line * self.vectors + v
                result[position] = self.arithmetic.multiply_add(f, one, columns[v], result[position])
        return result

    def _rows(self, f: Function, count: int) -> Index:
        """From a row of A to the one that is so many after it."""
        return self.multiples[count - 1] if count and self.multiples else f.imul(self.row_stride, count)


Side = tuple[Value, Sequence[Index], Operand]


def contract(
    f: Function,
    sizes: Sequence[Index],
    a: Side,
    b: Side,
    sums: Sequence[Value],
    products: Callable[[Value, Value, Sequence[Value]], list[Value]],
    *,
    unroll: bool = False,
    nonempty: bool = False,
) -> list[Value]:
    """The nest of loops over contracted axes of these sizes; `products(address of A, address of B, sums)` is its
    innermost body. `nonempty`: no size is 0."""
    (a_at, steps_a, of_a), (b_at, steps_b, of_b) = a, b
    if not sizes:
        return products(a_at, b_at, sums)
    size, *rest = sizes

    def step(at_a: Value, at_b: Value, sums: Sequence[Value]) -> list[Value]:
        a, b = (at_a, steps_a[1:], of_a), (at_b, steps_b[1:], of_b)
        return contract(f, rest, a, b, sums, products, unroll=unroll, nonempty=nonempty)

    def moved(at: Value, count: Index, side: Side) -> Value:
        return f.gep(at, f.imul(count, side[1][0]), side[2].element.storage)

    if unroll and isinstance(size, int):
        for index in range(size):
            sums = step(moved(a_at, index, a), moved(b_at, index, b), sums)
        return list(sums)

    def one(_: Index, at_a: Value, at_b: Value, *sums: Value) -> list[Value]:
        return [moved(at_a, 1, a), moved(at_b, 1, b), *step(at_a, at_b, sums)]

    # Of addresses that are computed from the step's number, LLVM loads all rows of a packed A at once, and lacks
    # registers for them beside 5 by 5 vectors.
    return f.loop(0, size, 1, one, [a_at, b_at, *sums], nonempty=nonempty)[2:]


def contract_in_strands(
    f: Function,
    arithmetic: Arithmetic,
    size: int,
    a: Side,
    b: Side,
    sums: Sequence[Value],
    products: Callable[[Value, Value, Sequence[Value]], list[Value]],
    strands: int,
    *,
    unroll: bool,
) -> list[Value]:
    """`contract` over one axis for few sums, each of which would wait for its own last addition: so many of each add
    every so many-th step, and are added up at the end."""
    (a_at, (step_a,), of_a), (b_at, (step_b,), of_b) = a, b
    count, whole = len(sums), size // strands * strands

    def one(index: Index, strand: Sequence[Value]) -> list[Value]:
        at_a = f.gep(a_at, f.imul(index, step_a), of_a.element.storage)
        at_b = f.gep(b_at, f.imul(index, step_b), of_b.element.storage)
        return products(at_a, at_b, strand)

    def steps(index: Index, *held: Value) -> list[Value]:
        return [
            value
            for strand in range(strands)
            for value in one(f.iadd(index, strand), held[strand * count : (strand + 1) * count])
        ]

    held = [*sums, *[f.const(0, value.type) for value in sums] * (strands - 1)]
    if unroll:
        for index in range(0, whole, strands):
            held = steps(index, *held)
    else:
        held = f.loop(0, whole, strands, steps, held, nonempty=True)
    total = held[:count]
    for strand in range(1, strands):
        total = [arithmetic.add(f, x, y) for x, y in zip(total, held[strand * count :], strict=False)]
    for index in range(whole, size):
        total = one(index, total)
    return total
