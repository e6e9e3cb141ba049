"""The sums of a register tile as a function, which all products of a program with such tiles call.

Most of the code of a product is its tiles: two heights of them, for full panels and for the last one. What differs
between products are sizes and strides, which are arguments here. So a program has each tile once, and a process makes
its text once. The function stores the sums, or adds them to what is there; epilogues stay in the kernels, as loops over
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from stablehlo_py.backends.common.contraction import Operand
from stablehlo_py.backends.cpu.kernels.arithmetic import Arithmetic, packed_arithmetic
from stablehlo_py.backends.cpu.kernels.register_tile import MULTIPLES, RegisterTile, contract
from stablehlo_py.backends.cpu.kernels.tiling import Problem, Split
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I64, PTR, Function, Index, Value, vector
from stablehlo_py.codegen.types import ELEMENTS

LEAST_DEPTH = 32  # products of a sum, for which a call does not count
DEEP = 512  # the same where the sums could go from registers to the epilogue
# The same where it reads as many elements: addresses for each vector of a tile take long to compile, and the arrays'
# memory counts more than that of the sums.
READING_DEEP = 128
IN_PLACE_DEEP = 128  # the same where the function stores them to the result


@dataclass(frozen=True)
class SharedTile:
    """What the code of a tile depends on.

    Attributes:
        height, vectors, lanes: rows of the tile, vectors of a row, scalars of a vector.
        a, b, sums: the names of the element types of the operands, and of the sums.
        boolean: sums are or-of-ands.
        packed, unsigned: how many integers a scalar of the operands holds (pairs.py); of four, whether they are
            unsigned, in A and in B.
        levels: how many contracted axes there may be.
        neighbours: the rows of A are neighbours, as in a panel; else they are a stride apart, which is an argument.
        prefetched: scalars of B's next row that are fetched meanwhile.
        adds: the sums are added to those in memory.
    """

    height: int
    vectors: int
    lanes: int
    a: str
    b: str
    sums: str
    boolean: bool
    packed: int
    unsigned: tuple[bool, bool]
    levels: int
    neighbours: bool
    prefetched: int
    adds: bool

    @property
    def symbol(self) -> str:
        """The name of its function."""
        kind = "or" * self.boolean + "n" * self.neighbours + "s" * self.adds
        if self.packed > 1:
            kind += f"p{self.packed}" + "".join("u" if unsigned else "s" for unsigned in self.unsigned)
        numbers = f"{self.height}x{self.vectors}x{self.lanes}_{self.levels}_{self.prefetched}"
        return "_".join(filter(None, ("shlo_tile", numbers, self.a, self.b, self.sums, kind)))

    def text(self, target: CpuTarget) -> str:
        """Its code."""
        return _text(self, target)

    @property
    def multiples(self) -> int:
        """How many multiples of the stride of A's rows are arguments."""
        return 0 if self.neighbours else min(MULTIPLES, self.height - 1)

    def call(
        self,
        f: Function,
        sums: tuple[Value, Index],
        a: tuple[Value, Index, Sequence[Index]],
        b: tuple[Value, Sequence[Index]],
        sizes: Sequence[Index],
    ) -> None:
        """Store the tile's sums, or add them, to where they begin, in rows with a stride. Of A: where it begins, the
        stride of its rows, and those of the contracted axes; of B the first and the last of these. There may be fewer
        contracted axes than `levels`."""
        (a_at, row_stride, a_steps), (b_at, b_steps) = a, b
        missing = self.levels - len(sizes)
        strides = [f.imul(row_stride, count + 1) for count in range(self.multiples)]
        numbers: list[Index] = [sums[1], *strides, *[1] * missing, *sizes]
        for steps in (a_steps, b_steps):
            numbers += [*[0] * missing, *steps]
        f.call(self.symbol, [sums[0], a_at, b_at, *map(f.index, numbers)], external=True)


def shares_tiles(problem: Problem, *, from_registers: bool, in_place: bool, reads_elements: bool) -> bool:
    """Whether a product calls its tiles. `from_registers`: without a call, sums need no memory; `in_place`: with one
    neither, as they lie in the result; `reads_elements`: as of its epilogue."""
    contraction, arithmetic, plan = problem.contraction, problem.arithmetic, problem.plan
    least = LEAST_DEPTH
    if from_registers:
        least = IN_PLACE_DEEP if in_place else READING_DEEP if reads_elements else DEEP
    return (
        isinstance(plan.rows, Split)
        and contraction.is_known
        and not arithmetic.complex
        and not any(axis.tag for axis in contraction.k)  # whose sizes depend on the place
        and (plan.pack_b or contraction.n.size % problem.step == 0)  # B is read without masks
        and contraction.depth >= least
    )


@lru_cache(maxsize=512)
def _text(tile: SharedTile, target: CpuTarget) -> str:
    """The function."""
    levels = range(tile.levels)
    rows = [f"row{count}" for count in range(tile.multiples)]
    names = ["pitch", *rows, *(f"{what}{level}" for what in ("size", "a", "b") for level in levels)]
    parameters = [("sums", PTR), ("operand_a", PTR), ("operand_b", PTR), *((name, I64) for name in names)]
    f = Function(tile.symbol, parameters, target.emitter(), noalias=("sums",))
    arithmetic = Arithmetic(ELEMENTS[tile.sums], boolean=tile.boolean)
    if tile.packed > 1:
        arithmetic = packed_arithmetic(arithmetic, tile.packed, tile.unsigned, target)
    of_a, of_b = (Operand("", 0, ELEMENTS[name]) for name in (tile.a, tile.b))
    multiples = [f.parameters[name] for name in rows]
    row_stride = multiples[0] if multiples else 1
    of_tile = tile.height, tile.vectors, tile.lanes, row_stride, tile.prefetched
    body = RegisterTile(arithmetic, of_a, of_b, *of_tile, multiples=multiples)
    type_ = vector(tile.lanes, arithmetic.accumulator)
    sizes, a_steps, b_steps = ([f.parameters[f"{what}{level}"] for level in levels] for what in ("size", "a", "b"))
    a, b = (f.operand_a, a_steps, of_a), (f.operand_b, b_steps, of_b)
    sums = [f.const(0, type_)] * (tile.height * tile.vectors)
    sums = contract(f, sizes, a, b, sums, lambda at_a, at_b, sums: body.products(f, at_a, at_b, sums), nonempty=True)
    row = f.sums
    for number, value in enumerate(sums):
        vector_number = number % tile.vectors
        if number and not vector_number:
            row = f.gep(row, f.pitch, arithmetic.accumulator)
        at = vector_number * tile.lanes
        f.store(arithmetic.add(f, f.load(type_, row, at), value) if tile.adds else value, row, at)
    f.ret()
    return f.text()
