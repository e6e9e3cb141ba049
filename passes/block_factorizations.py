"""Large Cholesky factorizations and triangular solves become products of blocks.

    %l = hlo.cholesky %a
        ==>  l11 = cholesky(a11)
             l21 = a21 l11^-H                  (a triangular solve)
             l22 = cholesky(a22 - l21 l21^H)

    %x = hlo.triangular_solve %a, %b           (left, lower)
        ==>  x1 = a11^-1 b1
             x2 = a22^-1 (b2 - a21 x1)

Both go through the whole triangle for every group of rows or right-hand sides; a product has most of the arithmetic
after a few splits, and reads its operands block by block. Halves are split again while they have two blocks (Golub and
Van Loan, "Matrix Computations", sections 3.1.4 and 4.2.9). How large a block is, the backend of `target` says, and
which of them stay whole because its own code works by blocks. Its code may also take the matrices of a call of LAPACK
by rows, which saves transposes:

    %t = hlo.transpose %a;  %r = custom_call @lapack_sgetrf_ffi(%t);  %l = hlo.transpose %r
        ==>  %l = custom_call @lapack_sgetrf_ffi(%a) {hlo.by_rows}

Where a matrix is not positive definite, NaNs stand where
they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from stablehlo_py.dialect.attributes import BY_ROWS, OPERAND_ORDERS, RESULT_ORDERS
from stablehlo_py.dialect.build import tensor
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.types import element_type, flag, i64s, rank, shape, text
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import Blocking, policy_of
from stablehlo_py.passes.shape_rules.slices import slice_edges
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RulePass, RuleSet
from stablehlo_py.targets import DEFAULT_TARGET


@dataclass(frozen=True)
class BlockFactorizations(RulePass):
    """Splits Cholesky factorizations and triangular solves of two blocks or more, but what is for one of the libraries.
    `block`: rows, 0 for the target's."""

    name: ClassVar[str] = "block-factorizations"
    block: int = 0
    target: str = DEFAULT_TARGET
    libraries: tuple[str, ...] = ()

    def rules(self) -> RuleSet:
        rules = RuleSet("block-factorizations")
        blocking = policy_of(self.target).blocking
        if blocking is None:
            return rules
        if self.block:
            blocking = replace(blocking, rows=self.block, stays_whole=lambda op: False)

        @rules.rule("hlo.cholesky", where="two blocks of rows or more, and not for a library")
        def split_cholesky(op: ir.Operation, rewriter: Rewriter) -> Replacement:
            "cholesky(a) -> [[l11, 0], [l21, l22]]"
            middle = _middle(op, blocking)
            if middle is None or any(blocking.is_for(library, op) for library in self.libraries):
                return None
            return _cholesky(op, _Blocks(rewriter), middle)

        @rules.rule("hlo.triangular_solve", where="two blocks of rows or more, and enough right-hand sides")
        def split_triangular_solve(op: ir.Operation, rewriter: Rewriter) -> Replacement:
            "triangular_solve(a, b) -> [x1, x2]"
            middle, sizes = _middle(op, blocking), shape(op.result)
            sides = sizes[-1 if flag(op, "left_side") else -2]
            if middle is None or not is_known(*sizes) or sides < blocking.fewest_sides:
                return None
            return _triangular_solve(op, _Blocks(rewriter), middle)

        @rules.rule("stablehlo.custom_call", where="matrices are transposed for it and back, and its code takes rows")
        def take_rows(op: ir.Operation, rewriter: Rewriter) -> Replacement:
            "transpose(call(transpose(a))) -> call(a)"
            if BY_ROWS in op.attributes or not blocking.takes_rows(op):
                return None
            matrices = op.operands[0].owner
            if not (_turns(matrices) and all(_turns(use.owner) for use in op.results[0].uses)):
                return None
            return _by_rows(op, matrices.operands[0], rewriter)

        return rules


def _turns(op: ir.Operation | ir.Block) -> bool:
    """Whether an op makes columns of rows, in every matrix."""
    if isinstance(op, ir.Block) or op.name != "hlo.transpose":
        return False
    *batch, row, column = range(rank(op.operands[0]))
    return i64s(op, "permutation") == (*batch, column, row)


def _by_rows(op: ir.Operation, matrices: ir.Value, rewriter: Rewriter) -> list[ir.Value]:
    """A call with one operand, and its first result, by rows."""
    attributes = {each: op.attributes[each] for each in op.attributes} | {BY_ROWS: ir.UnitAttr.get()}
    for key in (OPERAND_ORDERS, RESULT_ORDERS):
        orders = [list(order) for order in op.attributes[key]]
        orders[0].sort()
        attributes[key] = ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(order) for order in orders])
    turned = [*range(rank(matrices) - 2), rank(matrices) - 1, rank(matrices) - 2]
    types = [matrices.type, *(result.type for result in list(op.results)[1:])]
    call = rewriter.create(op.name, types, [matrices], attributes)
    return [rewriter.transpose(call.results[0], turned), *list(call.results)[1:]]


def _middle(op: ir.Operation, blocking: Blocking) -> int | None:
    """Where the rows are split: near the middle, after a whole number of blocks."""
    sizes = shape(op.operands[0])
    if not is_known(*sizes) or 0 in sizes or sizes[-1] < 2 * blocking.rows or blocking.stays_whole(op):
        return None
    return -(-int(sizes[-1]) // (2 * blocking.rows)) * blocking.rows


Span = tuple[int, IntLike]  # rows or columns from..to
Form = str  # NO_TRANSPOSE, TRANSPOSE or ADJOINT


@dataclass(frozen=True)
class _Blocks:
    """Builds ops on blocks of the last two dimensions; dimensions before them are batch dimensions."""

    rewriter: Rewriter

    def slice(self, x: ir.Value, rows: Span, columns: Span) -> ir.Value:
        """Rows and columns of each matrix."""
        batch = [(0, size, 1) for size in shape(x)[:-2]]
        return slice_edges(self.rewriter, x, [*batch, (*rows, 1), (*columns, 1)])

    def join(self, parts: Sequence[ir.Value], dimension: int) -> ir.Value:
        """Matrices above each other (dimension -2) or side by side (-1)."""
        return self.rewriter.concatenate(parts, dimension + len(shape(parts[0])))

    def subtract_product(self, c: ir.Value, a: ir.Value, form_a: Form, b: ir.Value, form_b: Form) -> ir.Value:
        """c - op(a) op(b)."""
        a, b = (self.rewriter.conjugate(x) if form == "ADJOINT" else x for x, form in ((a, form_a), (b, form_b)))
        batch = list(range(len(shape(c)) - 2))
        inner_a = len(batch) + (form_a == "NO_TRANSPOSE")
        inner_b = len(batch) + (form_b != "NO_TRANSPOSE")
        product = self.rewriter.value(
            "dot", c.type, a, b, lhs_batch=batch, rhs_batch=batch, lhs_contract=[inner_a], rhs_contract=[inner_b]
        )
        return self.rewriter.like("subtract", c, product)

    def solve(self, a: ir.Value, b: ir.Value, left: bool, lower: bool, form: Form, unit: bool) -> ir.Value:
        """op(a)^-1 b, from the right b op(a)^-1."""
        attributes = {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": form}
        return self.rewriter.value("triangular_solve", b.type, a, b, **attributes)


def _cholesky(op: ir.Operation, blocks: _Blocks, middle: int) -> ir.Value:
    """l11 and l22 are factors; the block beside the diagonal solves l21 l11^H = a21, or of an upper factor
    u11^H u12 = a12."""
    a, lower = op.operands[0], flag(op, "lower")
    first, second = (0, middle), (middle, shape(a)[-1])
    one = blocks.slice(a, first, first)
    one = blocks.rewriter.like("cholesky", one, lower=lower)
    beside = blocks.slice(a, second, first) if lower else blocks.slice(a, first, second)
    beside = blocks.solve(one, beside, left=not lower, lower=lower, form="ADJOINT", unit=False)
    forms = ("NO_TRANSPOSE", "ADJOINT") if lower else ("ADJOINT", "NO_TRANSPOSE")
    two = blocks.subtract_product(blocks.slice(a, second, second), beside, forms[0], beside, forms[1])
    two = blocks.rewriter.like("cholesky", two, lower=lower)
    rows, columns = shape(beside)[-1], shape(beside)[-2]  # the other triangle has the transposed block, of zeros
    zeros = blocks.rewriter.splat(0, tensor([*shape(beside)[:-2], rows, columns], element_type(a)))
    above, below = ([one, zeros], [beside, two]) if lower else ([one, beside], [zeros, two])
    return blocks.join([blocks.join(above, -1), blocks.join(below, -1)], -2)


def _triangular_solve(op: ir.Operation, blocks: _Blocks, middle: int) -> ir.Value:
    """One half of the unknowns, and the other from what that leaves of the right-hand sides."""
    (a, b), left, lower = op.operands, flag(op, "left_side"), flag(op, "lower")
    form, unit = text(op, "transpose_a"), flag(op, "unit_diagonal")
    halves: list[Span] = [(0, middle), (middle, shape(a)[-1])]
    # The system's matrix op(a) is lower triangular from the left where its first unknowns depend on no others.
    forward = (lower == (form == "NO_TRANSPOSE")) == left
    early, late = halves if forward else halves[::-1]
    everything = (0, shape(b)[-1 if left else -2])

    def sides(half: Span) -> ir.Value:
        return blocks.slice(b, half, everything) if left else blocks.slice(b, everything, half)

    def solve(half: Span, b: ir.Value) -> ir.Value:
        return blocks.solve(blocks.slice(a, half, half), b, left, lower, form, unit)

    one = solve(early, sides(early))
    beside = blocks.slice(a, halves[1], halves[0]) if lower else blocks.slice(a, halves[0], halves[1])
    if left:
        rest = blocks.subtract_product(sides(late), beside, form, one, "NO_TRANSPOSE")
    else:
        rest = blocks.subtract_product(sides(late), one, "NO_TRANSPOSE", beside, form)
    two = solve(late, rest)
    return blocks.join([one, two] if forward else [two, one], -2 if left else -1)
