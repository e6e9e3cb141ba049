"""What passes ask of the machine that they compile for. The mechanism stands in the passes; its backend decides.

A pass that asks has an option `target`, the name of a backend, and finds its policy with `policy_of`. The defaults
here are those of no machine: nothing is computed twice, nothing but loops over elements is fused. A backend states
what it can do better.

The unit of work is one floating-point operation on one element ("flop"), which an op has in its record. The numbers
order decisions (recompute or store, fuse or not); they do not predict time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from stablehlo_py.dialect.index_map import Layout
from stablehlo_py.dialect.ops import Record, Work
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.mlir import ir
from stablehlo_py.passes.buffers.inplace import InPlaceRule
from stablehlo_py.targets import DEFAULT_TARGET, find_backend

_NO_OPS = frozenset[str]()


def flops_per_element(record: Record | None) -> int:
    """Flops for one result element of an elementwise or data-movement op; 0 if it only moves data, 1 if nothing is
    known."""
    if record is None:
        return 1
    return 0 if record.work in (Work.INDICES, Work.MOVES) else record.flops


@dataclass(frozen=True)
class Costs:
    """When work is done again instead of stored, and when it is left to be shared out.

    Attributes:
        expensive_flops: from here on an op is never evaluated twice for the same element.
        duplicate_flops: flops on a path that may be computed again by each reader instead of stored once.
        constant_subtree_flops: the same for a subtree that reads no memory at all (masks from iotas).
        index_flops: flops of an index that may be computed for every element that is gathered by it.
        small_elements: elements up to which `duplicate_flops` may be computed for each, instead of once for all that
            read one number, by a kernel of their own.
        repeated_flops: flops of what neighbours are read of (a stencil's), computed at each of up to `REPEATED` places.
        gather_saves: a value is computed where it is gathered if at most one of its elements in so many is.
        early_bytes: elements of a value of so many bytes, few of them, are gathered by a kernel of their own where
            other work would keep it alive for them until another reader is done; 0: never.
        parallel_rows: rows that occupy the whole machine.
        shared_row: elements of a row that the whole machine reduces where there are fewer rows, if the fusion writes
            nothing of its size; 0: none are.
        serial_elements: elements of which fewer rows than that may be worked on as whole rows.
        shared_reduction: elements from which on the members of a group share the work of an all_reduce.
    """

    expensive_flops: int = 2
    duplicate_flops: int = 0
    constant_subtree_flops: int = 0
    index_flops: int = 0
    small_elements: int = 0
    repeated_flops: int = 0
    gather_saves: int = 1
    early_bytes: int = 0
    parallel_rows: int = 1
    shared_row: int = 0
    serial_elements: int = 0
    shared_reduction: int = 1

    def is_expensive(self, record: Record | None) -> bool:
        """Must an op not be evaluated more than once for an element? Random reads count."""
        return record is not None and (record.random_access or record.flops >= self.expensive_flops)

    def row_fusion_pays(self, rows: IntLike, columns: IntLike) -> bool:
        """May work on whole rows follow the reduction inside one fusion? Not when too few rows are left to share
        out."""
        return size_hint(rows) >= self.parallel_rows or size_hint(rows * columns) <= self.serial_elements

    def row_output_pays(self, rows: IntLike, columns: IntLike) -> bool:
        """May a fusion of whole rows write what it reduces, for others?"""
        few = self.shared_row > 0 and size_hint(rows) < self.parallel_rows
        return not (few and size_hint(columns) >= self.shared_row)


@dataclass(frozen=True)
class EpilogueLimits:
    """What a dot or a convolution takes with it of the elementwise work on its result.

    Attributes:
        inputs: arrays of the result's size that the work reads.
        streams: arrays of that size that it reads and writes, after a contraction that is not long.
        long_contraction: products of one sum from which on arithmetic hides the memory traffic of the work.
        transposes: whether the result may be stored transposed.
    """

    inputs: int
    streams: int
    long_contraction: int
    transposes: bool


@dataclass(frozen=True)
class AttentionLimits:
    """Attention that is one fusion; other attention is left as products.

    Attributes:
        queries, keys: how many there are at least, queries along their longest dimension.
        columns: of the result, at most.
        bits: of an element of every operand, at least; sums_bits: of all sums over scores that are one fusion.
        flat: whether keys have to be one dimension.
        whole: whether all sums over scores, those over queries and over keys, and the reductions that they need, are
            one fusion; they are left as products where that cannot be.
        scores: how many a batch has at least whose sums are fused.
    """

    queries: int = 1
    keys: int = 1
    columns: int | None = None
    bits: int = 0
    sums_bits: int = 0
    flat: bool = False
    whole: bool = False
    scores: int = 0


@dataclass(frozen=True)
class StraightLineLimits:
    """Work on few elements that becomes one fusion without loops over them.

    Attributes:
        elements: of every value.
        cost: element operations of one fusion, reductions by their operands.
    """

    elements: int
    cost: int


@dataclass(frozen=True)
class LoopLimits:
    """Loops over few values that become one kernel each.

    Attributes:
        elements: of every value that is not read or updated where it lies in memory.
        cost: instructions of one trip.
        width: elements that one instruction computes.
        holds: whether such a kernel has code for an op on its values, and for one that reads, or updates, what lies in
            memory. Loops and branches it has.
    """

    elements: int
    cost: int
    width: int
    holds: Callable[[ir.Operation], bool]


@dataclass(frozen=True)
class BatchLimits:
    """Loops over the items of a batch that become one kernel each.

    Attributes:
        elements: of an item of every value.
        cost: operations of one trip for one item.
        work: operations of all trips for all items: such a kernel is not ended before it is done.
    """

    elements: int
    cost: int
    work: int


@dataclass(frozen=True)
class WeightLayout:
    """How a constant matrix is stored: with its dimensions `split` into these sizes, transposed by `permutation`."""

    split: tuple[int, ...]
    permutation: tuple[int, ...]


@dataclass(frozen=True)
class FusionPolicy:
    """Which fusions there are and what each may hold.

    Attributes:
        kinds: of "attention", "scores", "loop", "row", "column" and "in_place_update" those that ops are fused into
            (docs/architecture.md, Fusions). A reduction or an update for whose kind there is no place is a fusion by
            itself, of the op's name.
        names: what the backend calls a kind, where it is not the name here.
        apart: by kind, ops that its fusions neither take in nor look behind.
        transposing: kinds that take in transposes which move the minor dimension.
        strided: whether neighbours are read together along strides, but computed one by one at other places.
        body_ops, outputs: of one fusion; they bound code size and compile time.
        scattered: flops up to which a scatter of single elements or rows computes each of its updates itself, gathered
            ones among them (0: none). scattered_row: elements of the shortest of these rows.
        general: flops up to which a reduction with a combiner of its own computes each element of an operand itself (0:
            none).
        concatenated, alternating: operands up to which producers are fused into a concatenate, and into one whose
            operands are one element wide, so that their elements alternate.
        small_siblings: elements of a reduction's operand up to which it is fused with others over that shape that have
            any input in common.
        operand_views: ops on operands of a dot that are part of how it reads them.
        rounded_operands: types of numbers that a dot rounds its operands to, if nothing else reads these arguments.
        operand_layout: whether a dot reads an operand that lies so, where that is not how it lies in memory.
        weights: how the right operand of a dot is stored where it is a constant; None: as it is.
        immediates: by kind of one op, which constants of one element it takes as numbers, not from memory: from the
            operand on whose position is calculated from the number of operands.
        constant_operands: kinds of one op that compute operands which are one number repeated, or indices.
        attention: limits of "attention" and "scores" fusions.
        epilogue: of dots and convolutions, None for none.
        straight_line, loops: limits of "straight_line" fusions and of "straight_line_loop" kernels, None where there
            are none.
        batches: limits of "batched_loop" kernels, None where there are none.
        in_place: by kind, as the backend calls it, which outputs may be written over which inputs.
    """

    kinds: frozenset[str] = frozenset(("loop",))
    names: Mapping[str, str] = field(default_factory=dict)
    apart: Mapping[str, frozenset[str]] = field(default_factory=dict)
    transposing: frozenset[str] = frozenset(("loop",))
    strided: bool = False
    body_ops: int = 64
    outputs: int = 4
    scattered: int = 0
    scattered_row: int = 3
    general: int = 0
    concatenated: int = 4
    alternating: int = 4
    small_siblings: int = 0
    operand_views: frozenset[str] = frozenset()
    rounded_operands: frozenset[str] = frozenset()
    operand_layout: Callable[[Layout], bool] = lambda layout: True
    weights: Callable[[ir.Operation], WeightLayout | None] = lambda dot: None
    immediates: Mapping[str, Callable[[int], int]] = field(default_factory=dict)
    constant_operands: frozenset[str] = frozenset()
    attention: AttentionLimits = AttentionLimits()
    epilogue: EpilogueLimits | None = None
    straight_line: StraightLineLimits | None = None
    loops: LoopLimits | None = None
    batches: BatchLimits | None = None
    in_place: Mapping[str, InPlaceRule] = field(default_factory=dict)

    def not_held(self, kind: str) -> frozenset[str]:
        """The ops, by their names without the dialect, that a fusion of that kind takes in neither themselves nor
        their operands."""
        return self.apart.get(kind, _NO_OPS)


@dataclass(frozen=True)
class Blocking:
    """How large factorizations and triangular solves are split.

    Attributes:
        rows: of a block; a matrix with less than two blocks of them stays whole.
        fewest_sides: right-hand sides below which a solve stays whole.
        is_for: whether a library of that name (`Options(libraries=...)`) may compute an op, which stays whole then.
        stays_whole: whether the backend's own code for an op works by blocks.
        takes_rows: whether the backend's own code for a call of LAPACK takes matrices that lie by rows as well.
    """

    rows: int
    fewest_sides: int
    is_for: Callable[[str, ir.Operation], bool] = lambda library, op: False
    stays_whole: Callable[[ir.Operation], bool] = lambda op: False
    takes_rows: Callable[[ir.Operation], bool] = lambda op: False


class Policy(Protocol):
    """The part of a backend that passes see (`backends.base.Backend`)."""

    @property
    def costs(self) -> Costs:
        """When recomputation pays."""

    @property
    def fusion(self) -> FusionPolicy:
        """What is fused."""

    @property
    def blocking(self) -> Blocking | None:
        """How factorizations are split; None: not at all."""


def policy_of(target: str = DEFAULT_TARGET) -> Policy:
    """The policy of a target's backend. Raises OptionError: there is no such backend."""
    return cast(Policy, find_backend(target))
