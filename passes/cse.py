"""Common subexpression elimination: of equal pure ops, the first one serves all.

Before::

    %0 = "hlo.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "hlo.add"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "hlo.multiply"(%0, %1) : ...

After::

    %0 = "hlo.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "hlo.multiply"(%0, %0) : ...

Equal: the same name, operands (in any order for commutative ops), attributes, result types and, for ops with regions,
bodies that are equal up to the names of their values. Of shardings (docs/sharding.md) one may be open that the other
says; two that differ keep both ops. An op in a loop or branch may be served by one outside; an op in a region that may
not use outside values (`stablehlo.reduce`, `stablehlo.sort` ...) only by one in that region. Works on
StableHLO too. MLIR's own pass does the same but asks Python about every op's side effects; this one is a hash table.

With `stablehlo`, before legalization, it is MLIR's own pass. There ops say themselves what has side effects, and C++
takes a microsecond an op: what is equal is legalized once. JAX broadcasts a scalar anew for every use, which is a
quarter of the ops of a training step. That pass knows of no region that may not use outside values: where one holds a
constant, which an equal one outside could serve, nothing is done; nor where there are shardings.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import ClassVar

from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.ops import Effects, records
from stablehlo_py.dialect.regions import OPEN_REGIONS
from stablehlo_py.dialect.sharding import annotate, is_sharded, shardings_of, take
from stablehlo_py.dialect.types import named
from stablehlo_py.mlir import ir, run_upstream
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import IMPURE, PURE, effect_kind, is_pure, pure_functions

_COMMUTATIVE = frozenset(
    f"{dialect}.{record.mnemonic}" for record in records() if record.commutative for dialect in ("hlo", "stablehlo")
)
_SEPARATE = frozenset(record.name for record in records() if record.separate)
# What may have no operands, and no side effects: only with these does it begin that a region uses outside values.
_ROOTS = frozenset(
    {"chlo.constant"}
    | {
        f"stablehlo.{name}"
        for name in "after_all constant create_token custom_call iota partition_id replica_id tuple".split()
    }
)


_Known = dict[Hashable, ir.Operation]


@dataclass(frozen=True)
class Cse(Pass):
    """Merge equal pure ops."""

    name: ClassVar[str] = "cse"
    only_erases: ClassVar[bool] = True

    stablehlo: bool = field(default=False, metadata={"help": "of StableHLO, by MLIR's own pass, where that may be"})

    def run(self, module: ir.Module) -> bool | None:
        """One forward sweep: when an op is looked up, its operands are merged already."""
        if self.stablehlo:
            return _by_mlir(module)
        sweep = _Sweep(pure_functions(module), is_sharded(module))
        for function in module.body:
            for region in function.regions:
                for block in region:
                    sweep.block(block, {})
        return sweep.changed


class _Sweep:
    """One sweep over a module. `changed`: whether ops were merged."""

    def __init__(self, pure: Collection[str], sharded: bool) -> None:
        self.pure, self.sharded, self.changed = pure, sharded, False

    def block(self, block: ir.Block, known: _Known) -> list[Hashable]:
        """Merge within a block. `known` holds the ops that may serve; the keys of those that this block adds are
        returned, to be taken out at its end."""
        added = []
        for view in block:  # as the bindings do it, this op may go
            op = view.operation
            name = op.name
            kind = effect_kind(name)
            if kind != PURE:  # only these have regions
                for region in op.regions:
                    outside = known if name in OPEN_REGIONS else {}
                    for inner in region:
                        for key in self.block(inner, outside):
                            del outside[key]
                if kind == IMPURE or not is_pure(op, self.pure):
                    continue
            elif name in _SEPARATE:
                continue
            if self.sharded and SHARDING in op.attributes:
                key, first = _first_sharded(known, op, name, kind)
            else:
                key, first = _first(known, op, name, kind)
            if first is op:
                added.append(key)
            else:
                replace_op(op, first.results)
                self.changed = True
        return added


def _first(known: _Known, op: ir.Operation, name: str, kind: Effects) -> tuple[Hashable, ir.Operation]:
    """The key of an op, and the op that serves."""
    attributes = op.attributes
    # A hash, since most ops serve for no other one: to keep the values in a key takes longer than to make it. What
    # regions hold is compared where the rest is equal.
    key = hash(_key(op, name, PURE, tuple(attributes.items()) if len(attributes) else ()))
    first = known.setdefault(key, op)
    while first is not op and not _are_equal(first, op, name, kind):
        key += 1
        first = known.setdefault(key, op)
    return key, first


def _are_equal(first: ir.Operation, op: ir.Operation, name: str, kind: Effects) -> bool:
    """Whether two ops compute the same, however that is sharded."""
    if first.name != name or _types(first) != _types(op):
        return False
    one, two = (_key(each, name, kind, _unsharded(each)) for each in (first, op))
    return one == two


def _first_sharded(known: _Known, op: ir.Operation, name: str, kind: Effects) -> tuple[Hashable, ir.Operation]:
    """The same of an op that has a sharding. The op that serves says of its results what both know; where they
    disagree, both stay."""
    said = shardings_of(op)
    del op.attributes[SHARDING]
    key, first = _first(known, op, name, kind)
    annotate(op, said)
    agree = (not text or take(result, text) for result, text in zip(first.results, said, strict=True))
    if first is not op and not all(agree):
        key = (_key(op, name, kind, _unsharded(op)), *_types(op), *said)
        first = known.setdefault(key, op)
    return key, first


def _unsharded(op: ir.Operation) -> tuple[tuple[str, ir.Attribute], ...]:
    """The attributes of an op, but for how its results are sharded."""
    return tuple([each for each in op.attributes.items() if each[0] != SHARDING])


def _key(op: ir.Operation, name: str, kind: Effects, named: tuple[tuple[str, ir.Attribute], ...]) -> Hashable:
    """Equal for ops with these attributes that differ in the types of their results at most."""
    operands: Hashable = frozenset(op.operands) if name in _COMMUTATIVE else tuple(op.operands)
    if kind == PURE:
        return name, operands, named
    local: dict[ir.Value, int] = {}
    return name, operands, named, tuple([_region_key(region, local) for region in op.regions])


def _types(op: ir.Operation) -> list[ir.Type]:
    return list(op.results.types)


def _region_key(region: ir.Region, local: dict[ir.Value, int]) -> Hashable:
    """What a region computes, with its own values numbered in order (`local`), so that equal bodies have equal keys."""
    blocks = []
    for block in region:
        for argument in block.arguments:
            local[argument] = len(local)
        ops = []
        for view in block:
            op = view.operation
            operands = tuple([local.get(operand, operand) for operand in op.operands])
            named = tuple(op.attributes.items())
            nested = tuple([_region_key(inner, local) for inner in op.regions])
            for result in op.results:
                local[result] = len(local)
            ops.append((op.name, operands, named, tuple([result.type for result in op.results]), nested))
        blocks.append((tuple([argument.type for argument in block.arguments]), tuple(ops)))
    return tuple(blocks)


def _by_mlir(module: ir.Module) -> bool:
    """MLIR's own pass, where no region is in its way; whether it ran."""
    if is_sharded(module) or _roots_are_isolated(module):
        return False
    run_upstream(module, "cse")
    return True


def _roots_are_isolated(module: ir.Module) -> bool:
    """Whether a region that may not use outside values holds an op of `_ROOTS`."""
    return not all(map(_is_open, named(module.operation, _ROOTS)))


def _is_open(op: ir.Operation) -> bool:
    """Whether all regions that an op is in may use outside values."""
    around = op.parent.operation
    while around.name != "func.func":
        if around.name not in OPEN_REGIONS:
            return False
        around = around.parent.operation
    return True
