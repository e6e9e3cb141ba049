"""A light graph of one block: plain integers and tuples, read from MLIR once, so that deciding on fusions touches
no MLIR object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from stablehlo_py.dialect.index_map import VIEW_OPS
from stablehlo_py.dialect.ops import Work, record_of
from stablehlo_py.dialect.regions import captured_values
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import byte_size, shape, symints
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import Costs, flops_per_element
from stablehlo_py.passmanager.effects import CUSTOM_CALL, IMPURE, effect_kind

#: What a node may do in a fusion.
LOOP, REDUCE, DOT, UPDATE, CONSTANT, ALONE, CONTROL = range(7)

#: Ops that stay at the top level, and what else is not a fusion.
_CONTROL = frozenset(
    """scf.while scf.if scf.index_switch scf.yield scf.condition func.return func.call tensor.extract arith.index_cast
    arith.constant arith.index_castui""".split()
)
#: Fusion kinds of ops that are alone in their fusion, where it is not the op's own name.
ALONE_KINDS = {
    "stablehlo.reduce": "reduce_general",
    "stablehlo.reduce_window": "reduce_window_general",
}
_LOOP_WORK = (Work.ELEMENTS, Work.INDICES, Work.MOVES)

_NONE: Mapping[str, tuple[IntLike, ...]] = MappingProxyType({})


@dataclass(frozen=True)
class TensorInfo:
    """What is read from a tensor type."""

    shape: tuple[IntLike, ...]
    elements: IntLike
    bytes: IntLike


@dataclass(frozen=True)
class Facts:
    """What the name of an op says: `role` and `name` of its node, what it does, whether element i of the result comes
    from element i of each operand, whether it reads no memory, its flops for an element, whether it must not be
    evaluated twice, whether it stays without users, and which of its attributes are read."""

    role: int
    name: str
    work: Work
    in_order: bool
    free: bool
    flops: int
    expensive: bool
    stays: bool
    attributes: tuple[str, ...]


class Node:
    """One op. `operands` and `results` are value ids, `producers` the nodes that make the operands (-1: none);
    `role` says what it may do in a fusion; `name` has no dialect prefix."""

    __slots__ = (
        "attributes", "elements", "expensive", "flops", "free", "in_order", "index", "name", "op", "operands",
        "outside", "producers", "results", "role", "shape", "stays", "work",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        op: ir.Operation,
        facts: Facts,
        operands: list[int],
        producers: list[int],
        results: list[int],
        info: TensorInfo | None,
        outside: bool,
    ) -> None:
        self.index = index
        self.op = op
        self.name = facts.name
        self.role = facts.role
        self.operands = operands
        self.producers = producers
        self.outside = outside  # a constant expression of an enclosing block, cloned where it is used
        self.results = results
        self.shape, self.elements = (info.shape, info.elements) if info else ((), 0)  # of the first result
        self.work = facts.work
        self.flops = facts.flops
        self.expensive = facts.expensive
        self.free = facts.free
        self.in_order = facts.in_order
        self.stays = facts.stays
        self.attributes: Mapping[str, tuple[IntLike, ...]] = _NONE


class Graph:
    """The ops of one block, `dots` those that are products and convolutions. Values are numbered: `info`, `producer`
    (node index, -1 for values from outside), `users` (each once, in order) by value id."""

    def __init__(self, block: ir.Block, costs: Costs, ops: Iterable[ir.Operation] | None = None) -> None:
        """Of all ops of a block, in order; `ops` are these, for a caller that looks at each before."""
        self.block = block
        self.costs = costs
        self.nodes: list[Node] = []
        self.dots: list[Node] = []
        self.values: list[ir.Value] = []
        self.info: list[TensorInfo | None] = []
        self.types: list[ir.Type] = []
        self.producer: list[int] = []
        self.users: list[list[int]] = []
        self._ids: dict[ir.Value, int] = {}
        self._types: dict[ir.Type, tuple[ir.Type, TensorInfo | None]] = {}  # each once, and what it says
        self._facts: dict[str, Facts] = {}  # by name
        for argument in block.arguments:
            self._value(argument, -1)
        for op in ops or (view.operation for view in block.operations):
            self._add(op)

    # --- building ----------------------------------------------------------------------------------------------------

    def _value(self, value: ir.Value, producer: int) -> int:
        number = len(self.values)
        type_ = value.type
        known = self._types.get(type_)
        if known is None:
            known = self._types[type_] = type_, _tensor_info(type_)
        type_, info = known  # one object for equal types, which compares fast
        self._ids[value] = number
        self.values.append(value)
        self.types.append(type_)
        self.info.append(info)
        self.producer.append(producer)
        self.users.append([])
        return number

    def _outside(self, value: ir.Value) -> int:
        """A value of an enclosing block: constant expressions become nodes (they are cloned), the rest is an input."""
        owner = value.owner
        if isinstance(owner, ir.Block) or not _is_constant_expression(owner.operation):
            return self._value(value, -1)
        self._add(owner.operation, outside=True)
        return self._ids[value]

    def _facts_of(self, op: ir.Operation) -> Facts:
        name = op.name
        facts = self._facts.get(name)
        if facts is None:
            facts = self._facts[name] = _facts(self.costs, name)
        if facts.role == CONSTANT and not is_small_constant(op):
            return replace(facts, role=CONTROL)
        return facts

    def _add(self, op: ir.Operation, outside: bool = False) -> None:
        facts = self._facts_of(op)
        known = self._ids.get
        operands = []
        for value in op.operands:
            number = known(value)
            operands.append(self._outside(value) if number is None else number)
        if facts.role == CONTROL and len(op.regions):
            seen = set(operands)
            for value in captured_values(op):
                number = each if (each := known(value)) is not None else self._outside(value)
                if number not in seen:
                    seen.add(number)
                    operands.append(number)
        index, producer, users = len(self.nodes), self.producer, self.users
        producers = []
        for operand in operands:
            producers.append(producer[operand])
            readers = users[operand]
            if not readers or readers[-1] != index:
                readers.append(index)
        # One result is read without the list of all.
        found = (op.result,) if facts.role == LOOP else op.results
        results = [self._value(result, index) for result in found]
        info = self.info[results[0]] if results else None
        node = Node(index, op, facts, operands, producers, results, info, outside)
        self.nodes.append(node)
        if facts.role == DOT:
            self.dots.append(node)
        if facts.name in ("broadcast", "bitcast_convert"):
            node.in_order = self.elements(operands[0]) == node.elements
        if facts.attributes:
            node.attributes = {key: symints(op, key) for key in facts.attributes}

    # --- reading -----------------------------------------------------------------------------------------------------

    def elements(self, value: int) -> IntLike:
        """Number of elements of a value (0 when it is not a tensor)."""
        info = self.info[value]
        return info.elements if info else 0

    def shape(self, value: int) -> tuple[IntLike, ...]:
        """Shape of a tensor value."""
        info = self.info[value]
        assert info is not None
        return info.shape

    def bytes(self, value: int) -> IntLike:
        """Bytes of a value (0 when it is not a tensor)."""
        info = self.info[value]
        return info.bytes if info else 0

    def node_users(self, node: Node) -> list[int]:
        """Node indices that use any result of a node, in order, without repetition."""
        if len(node.results) == 1:
            return self.users[node.results[0]]
        return sorted({user for result in node.results for user in self.users[result]})


_ATTRIBUTES = {
    **VIEW_OPS,
    "dot": ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"),
    "reduce": ("dimensions",),
}


def _tensor_info(type_: ir.Type) -> TensorInfo | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    sizes = shape(type_)
    elements = math.prod(sizes)
    return TensorInfo(sizes, elements, elements * byte_size(type_.element_type))


def is_small_constant(op: ir.Operation) -> bool:
    """True for constants that are cloned into the fusions that use them: one element, or one element repeated."""
    if math.prod(op.result.type.shape) <= 1:
        return True
    value = op.attributes["value"]
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


def _facts(costs: Costs, name: str) -> Facts:
    role, short = _role(name)
    record = record_of(name)
    work = Work.OPAQUE if record is None else record.work
    return Facts(
        role=role,
        name=short,
        work=work,
        in_order=work is Work.ELEMENTS or short == "reshape",
        free=work is Work.INDICES,
        flops=flops_per_element(record),
        expensive=costs.is_expensive(record),
        stays=role == ALONE and effect_kind(name) in (CUSTOM_CALL, IMPURE),
        attributes=_ATTRIBUTES.get(short, ()),
    )


def _role(name: str) -> tuple[int, str]:
    if name == "hlo.constant":
        return CONSTANT, "constant"
    if name.startswith("hlo."):
        short = name[4:]
        record = record_of(name)
        if record is not None and record.work in _LOOP_WORK:
            return LOOP, short
        if short == "reduce":
            return REDUCE, short
        if short in ("dot", "convolution"):
            return DOT, short
        if short == "dynamic_update_slice":
            return UPDATE, short
        return ALONE, short
    if name == "stablehlo.concatenate":
        return LOOP, "concatenate"
    if name in _CONTROL:
        return CONTROL, name
    return ALONE, ALONE_KINDS.get(name, name.rpartition(".")[2])


def _is_constant_expression(op: ir.Operation) -> bool:
    name = op.name
    if name == "hlo.constant":
        return is_small_constant(op)
    if name == "hlo.iota":
        return True
    if name == "hlo.broadcast":
        owner = op.operands[0].owner
        return not isinstance(owner, ir.Block) and _is_constant_expression(owner.operation)
    return False
