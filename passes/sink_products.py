"""Products whose results a loop adds up, or only stacks, become one product after the loop.

    scf.while (%i, %dw) { ... } do { %dz = ... ; %p = hlo.dot %x_i, %dz ; yield ..., hlo.add %dw, %p }
        ==>  scf.while (%i, %dzs) { ... } do { %dz = ... ; yield ..., dynamic_update_slice %dzs, %dz, %i }
             %dw = hlo.add %init, hlo.dot %xs, %dzs          (contracting over the steps too)

    do { ... ; %dx = hlo.dot %dz, %w ; yield ..., dynamic_update_slice %dxs, %dx, %i }
        ==>  do { ... ; yield ..., dynamic_update_slice %dzs, %dz, %i } ; %dxs = hlo.dot %dzs, %w

So the gradient of a scan reads and writes the gradients of its weights once, not once for each step. The operands are
stacked, where they are no slices of what is stacked already. Terms of a sum come in another order, as products take
them.

Relies on the normal form of loops, and on `licm`, which moves weights out of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect import build
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.symint import IntLike, is_known
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import i64s, is_tensor, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._loops import Loop, Trips, change_loops, rebuilt
from stablehlo_py.passes._matchers import has_one_use, integer_splat
from stablehlo_py.passes.canonicalize_dot import DotNumbers
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.rewrite import defining

_MOVES = ("hlo.reshape", "hlo.transpose")  # commute with sums over steps


@dataclass(frozen=True)
class SinkProducts(Pass):
    """Computes products after a loop that adds them up or stacks them.

    Options:
        least: elements of a sum too large for a step to keep at hand.
        share: elements stacked in a step per element of the sum, at most one for so many.
        rows: the most rows of a step whose product leaves with an operand that nothing else stacks.
        max_growth, memory: elements stacked per element of what is stacked already, and how many always.
    """

    name: ClassVar[str] = "sink-products"
    least: int = 1 << 11
    share: int = 2
    rows: int = 4
    max_growth: int = 4
    memory: int = 1 << 20

    def roots(self) -> tuple[str, ...]:
        return ("scf.while",)

    def run(self, module: ir.Module) -> bool:
        return change_loops(module, self._sink)

    def _sink(self, op: ir.Operation) -> bool:
        loop, trips = Loop.of(op), trip_count(op, {})
        if loop is None or trips is None or trips < 2:
            return False
        stacks = _Stacks(loop, trips)
        sums = [found for number in range(len(op.results)) if (found := _Sum.of(number, stacks)) is not None]
        sunk: list[_Sum | _Stacked] = [each for each in sums if self._pays(each, stacks)]
        for each in sunk:
            stacks.need(each.needs)
        for number in range(len(op.results)):
            stacked = _Stacked.of(number, stacks)
            if stacked is not None and (stacked.needs.keys() <= stacks.made.keys() or stacked.rows <= self.rows):
                stacks.need(stacked.needs)
                sunk.append(stacked)
        if not sunk:
            return False
        _rebuild(stacks, {each.number: each.after for each in sunk})
        return True

    def _pays(self, found: _Sum, stacks: _Stacks) -> bool:
        total = num_elements(found.product.result)
        new = sum(num_elements(value) for value, index in found.needs if (value, index) not in stacks.made)
        limit = max(self.memory, self.max_growth * stacks.trips * found.sliced)
        return total >= self.least and self.share * new <= total and stacks.trips * new <= limit


@dataclass
class _Stacks(Trips):
    """What the body of a loop computes, one below the other: place `index` of a stack is that of one trip."""

    inside: set[ir.Value] = field(init=False)
    made: dict[tuple[ir.Value, ir.Value], None] = field(default_factory=dict)  # (value, index)
    values: dict[tuple[ir.Value, ir.Value], ir.Value] = field(default_factory=dict)  # after the loop

    def __post_init__(self) -> None:
        self.inside = defined_values(self.loop.op)

    def need(self, wanted: dict[tuple[ir.Value, ir.Value], None]) -> None:
        self.made |= wanted


@dataclass(frozen=True)
class _Slice:
    """A value that is one place along the first dimension of a value from outside, in any shape."""

    source: ir.Value
    index: ir.Value

    @staticmethod
    def of(value: ir.Value, stacks: _Stacks) -> _Slice | None:
        made = defining(value)
        while made is not None and made.name == "hlo.reshape":
            made = defining(made.operands[0])
        if made is None or made.name != "hlo.dynamic_slice":
            return None
        source, index, *others = made.operands
        sizes = shape(source)
        if source in stacks.inside or sizes[0] != stacks.trips or shape(made.result) != (1, *sizes[1:]):
            return None
        zero = all(integer_splat(other) == 0 for other in others)
        return _Slice(source, index) if zero and stacks.is_index(index) else None


@dataclass
class _Sum:
    """A carry to which each trip adds a product of two values of the trip."""

    number: int
    stacks: _Stacks
    added: ir.Operation
    moves: list[ir.Operation]  # from the product to what is added
    product: ir.Operation
    numbers: DotNumbers
    permutation: list[int]  # of the dot's dimensions
    operands: list[_Slice | tuple[ir.Value, ir.Value]]  # or what is stacked, and at which index

    @staticmethod
    def of(number: int, stacks: _Stacks) -> _Sum | None:
        loop = stacks.loop
        carry, value = loop.after.arguments[number], loop.yielded.operands[number]
        if not is_tensor(carry) or not has_one_use(carry) or not has_one_use(value):
            return None
        last = _through(value, ("hlo.reshape",))[0]
        added = defining(last, "hlo.add")
        if added is None or not stacks.in_body(last):
            return None
        sides = [_through(operand, ("hlo.reshape",))[0] == carry for operand in added.operands]
        if sum(sides) != 1:
            return None
        made, moves = _through(added.operands[1 - sides.index(True)], _MOVES)
        product = defining(made)
        if product is None or not has_one_use(made) or not stacks.in_body(made) or not _is_static(product):
            return None
        factors = _factors(product)
        if factors is None:
            return None
        (*values, numbers, permutation) = factors
        operands = _operands(values, stacks)
        if operands is None:
            return None
        return _Sum(number, stacks, added, moves, product, numbers, permutation, operands)

    @property
    def needs(self) -> dict[tuple[ir.Value, ir.Value], None]:
        """What is to be stacked."""
        return {operand: None for operand in self.operands if isinstance(operand, tuple)}

    @property
    def sliced(self) -> int:
        """Elements a trip of what is stacked already."""
        sliced = [operand.source for operand in self.operands if isinstance(operand, _Slice)]
        return sum(int(num_elements(source)) for source in sliced) // self.stacks.trips

    def after(self, init: ir.Value) -> ir.Value:
        """What the loop's result is, computed after it."""
        values, trips = [], self.stacks.trips
        for operand, wanted in zip(self.operands, self._shapes(), strict=True):
            stack = operand.source if isinstance(operand, _Slice) else self.stacks.values[operand]
            values.append(build.reshape(stack, (trips, *wanted)))
        numbers = {name: [each + 1 for each in dimensions] for name, dimensions in vars(self.numbers).items()}
        for name in ("lhs_contract", "rhs_contract"):
            numbers[name] = [0, *numbers[name]]
        total = build.made("dot", *values, element=self.product.result.type.element_type, **numbers)
        total = build.transpose(total, self.permutation)
        for move in reversed(self.moves):
            total = build.again(move, [total])
        total = build.like("add", build.reshape(init, shape(self.added.result)), total)
        return build.reshape(total, shape(init))

    def _shapes(self) -> list[tuple[IntLike, ...]]:
        factors = _factors(self.product)
        assert factors is not None
        return [shape(value) for value in factors[:2]]


def _factors(product: ir.Operation) -> tuple[ir.Value, ir.Value, DotNumbers, list[int]] | None:
    """Two values whose dot, with these numbers and then transposed, a product is."""
    if product.name == "hlo.dot":
        return *product.operands, DotNumbers.of(product), list(range(len(shape(product.result))))
    if product.name != "hlo.multiply":
        return None
    made = (defining(operand, "hlo.broadcast") for operand in product.operands)
    spread = [op for op in made if op is not None]
    if len(spread) != 2:
        return None
    places = [place for op in spread for place in i64s(op, "dimensions")]
    if len(set(places)) != len(places) or len(places) != len(shape(product.result)):
        return None
    permutation = [places.index(dimension) for dimension in range(len(places))]
    return *(op.operands[0] for op in spread), DotNumbers([], [], [], []), permutation


def _operands(values: list[ir.Value], stacks: _Stacks) -> list[_Slice | tuple[ir.Value, ir.Value]] | None:
    """Slices with one index, and what is to be stacked at that index too."""
    if any(value not in stacks.inside for value in values):
        return None
    slices = [_Slice.of(value, stacks) for value in values]
    index = next((each.index for each in slices if each is not None), None) or stacks.counter()
    if index is None:
        return None
    found = [
        each if each is not None and each.index == index else (value, index)
        for each, value in zip(slices, values, strict=True)
    ]
    return found if all(isinstance(each, _Slice) or stacks.in_body(each[0]) for each in found) else None


@dataclass
class _Stacked:
    """A carry whose place of a trip is a product with a value from outside of the loop."""

    number: int
    stacks: _Stacks
    product: ir.Operation
    side: int  # of the operand that trips compute
    index: ir.Value

    @staticmethod
    def of(number: int, stacks: _Stacks) -> _Stacked | None:
        update = stacks.filling(number)
        if update is None:
            return None
        _, part, index, *_ = update.operands
        made, _ = _through(part, ("hlo.reshape",))
        product = defining(made, "hlo.dot")
        if product is None or not has_one_use(made) or not stacks.in_body(made) or not _is_static(product):
            return None
        sides = [operand in stacks.inside for operand in product.operands]
        if sum(sides) != 1 or not stacks.in_body(product.operands[sides.index(True)]):
            return None
        return _Stacked(number, stacks, product, sides.index(True), index)

    @property
    def needs(self) -> dict[tuple[ir.Value, ir.Value], None]:
        """What is to be stacked."""
        return {(self.product.operands[self.side], self.index): None}

    @property
    def rows(self) -> int:
        """Elements of the operand for which the other one is read once."""
        value = self.product.operands[self.side]
        batch, contract = DotNumbers.of(self.product).side(self.side)
        rows = 1
        for dimension, size in enumerate(shape(value)):
            rows *= 1 if dimension in (*batch, *contract) else int(size)
        return rows

    def after(self, init: ir.Value) -> ir.Value:
        """What the loop's result is, computed after it; all of what it starts with is overwritten."""
        numbers, operands = DotNumbers.of(self.product), list(self.product.operands)
        value = operands[self.side]
        operands[self.side] = build.reshape(self.stacks.values[value, self.index], (self.stacks.trips, *shape(value)))
        for dimensions in numbers.side(self.side):
            dimensions[:] = [each + 1 for each in dimensions]
        place = len(numbers.lhs_batch)
        if self.side:
            place += len(numbers.free(0, len(shape(operands[0]))))
        total = build.made("dot", *operands, element=self.product.result.type.element_type, **vars(numbers))
        rank = len(shape(total))
        total = build.transpose(total, [place, *(each for each in range(rank) if each != place)])
        return build.reshape(total, shape(init))


def _through(value: ir.Value, names: tuple[str, ...]) -> tuple[ir.Value, list[ir.Operation]]:
    """The value that ops of one use make this one of, and these ops, the last one first."""
    ops: list[ir.Operation] = []
    while (made := defining(value)) is not None and made.name in names and has_one_use(value):
        ops.append(made)
        value = made.operands[0]
    return value, ops


def _is_static(op: ir.Operation) -> bool:
    return all(is_known(size) for value in (*op.operands, *op.results) if is_tensor(value) for size in shape(value))


def _rebuild(stacks: _Stacks, after: dict[int, Callable[[ir.Value], ir.Value]]) -> None:
    """The loop with stacks for the carries that are computed after it."""
    loop, old = stacks.loop, stacks.loop.op
    inits = [old.operands[number] for number in sorted(after)]
    types = [build.tensor((stacks.trips, *shape(value)), value.type.element_type) for value, _ in stacks.made]
    with ir.InsertionPoint(old), old.location:
        started = [build.splat(0, type_) for type_ in types]

    def ends(arguments: list[ir.BlockArgument]) -> list[ir.Value]:
        written = []
        for (value, index), stack in zip(stacks.made, arguments, strict=True):
            part = build.reshape(value, (1, *shape(value)))
            zero = build.splat(0, index.type)
            starts = [index, *[zero] * len(shape(value))]
            written.append(build.like("dynamic_update_slice", stack, part, *starts))
        return written

    results, values = rebuilt(loop, set(after), started, ends)
    stacks.values.update(zip(stacks.made, values, strict=True))
    with ir.InsertionPoint(old), old.location:
        for number, init in zip(sorted(after), inits, strict=True):
            results[number] = after[number](init)
    for result, value in zip(old.results, results, strict=True):
        assert value is not None
        result.replace_all_uses_with(value)
    old.erase()
