"""Shardings: how the front end says that values are distributed over the devices of a mesh (docs/sharding.md).

    module attributes {hlo.meshes = {mesh = "#sdy.mesh<[\\"x\\"=2]>"}}
    func.func @main(%x: tensor<8x4xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\\"x\\"}, {}]>"})
    %0 = "hlo.tanh"(%x) {hlo.sharding = ["#sdy.sharding<@mesh, [{\\"x\\"}, {}]>"]}

On an op one text for each result, "" where nothing is said; on arguments and results of a function one text. A module
that has any has `hlo.meshes`, empty where no sharding names a mesh: all others are asked nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stablehlo_py.dialect.attributes import MESHES, SHARDING
from stablehlo_py.dialect.types import entries
from stablehlo_py.mlir import ir

CONSTRAINT = "hlo.sharding_constraint"


def is_sharded(module: ir.Module | ir.Operation) -> bool:
    """Whether anything in the module may have a sharding."""
    return MESHES in module.operation.attributes


def declare_meshes(module: ir.Module, meshes: Mapping[str, str]) -> None:
    """Say that the module has shardings, and what the meshes are that they name."""
    with module.context:
        texts = {name: ir.StringAttr.get(text) for name, text in meshes.items()}
        module.operation.attributes[MESHES] = ir.DictAttr.get(texts)


def meshes_of(module: ir.Module) -> dict[str, str]:
    """The meshes that shardings name, by name, in Shardy's syntax."""
    if not is_sharded(module):
        return {}
    return {name: text.value for name, text in entries(module.operation.attributes[MESHES]).items()}


def shardings_of(op: ir.OpView | ir.Operation) -> list[str]:
    """The sharding of every result; "" where nothing is said, or nothing that can be read: passes of users, and what
    was loaded, may have written anything."""
    nothing = [""] * len(op.results)
    if SHARDING not in op.attributes:
        return nothing
    said = op.attributes[SHARDING]
    if not isinstance(said, ir.ArrayAttr) or len(said) != len(nothing):
        return nothing
    return [_text(each) for each in said]


def _text(attribute: ir.Attribute) -> str:
    return attribute.value if isinstance(attribute, ir.StringAttr) else ""


def shardings_of_values(function: ir.OpView | ir.Operation, name: str, count: int) -> list[str]:
    """The same of the `count` arguments ("arg_attrs") or results ("res_attrs") of a function."""
    if name not in function.attributes:
        return [""] * count
    return [_text(each[SHARDING]) if SHARDING in each else "" for each in function.attributes[name]]


def annotate(op: ir.OpView | ir.Operation, shardings: Sequence[str]) -> None:
    """Say how the results of an op are sharded."""
    op.attributes[SHARDING] = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in shardings])


def take(value: ir.Value, sharding: str) -> bool:
    """Let the op that makes a value say that it is sharded so. False where it says otherwise, and where no op makes
    it, unless it is an argument that is sharded so: how arguments are is for the callers of a function to say."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return shardings_of_values(owner.owner, "arg_attrs", len(owner.arguments))[value.arg_number] == sharding
    shardings, number = shardings_of(owner), value.result_number
    if not shardings[number]:
        shardings[number] = sharding
        annotate(owner, shardings)
    return shardings[number] == sharding


def carried(value: ir.Value, sharding: str) -> ir.Value:
    """The value, sharded so: by the op that makes it, else by an `hlo.sharding_constraint` behind that."""
    if take(value, sharding):
        return value
    return constrained(value, sharding)


def constrained(value: ir.Value, sharding: str, point: ir.InsertionPoint | None = None) -> ir.Value:
    """An `hlo.sharding_constraint` behind what makes a value, or at `point`."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        behind, location = ir.InsertionPoint.at_block_begin(owner), owner.owner.location
    else:
        behind, location = ir.InsertionPoint.after(owner), owner.location
    constraint = ir.Operation.create(
        CONSTRAINT, results=[value.type], operands=[value], loc=location, ip=point or behind
    )
    annotate(constraint, [sharding])
    return constraint.result


def detach(op: ir.Operation) -> None:
    """Say behind an op how its results are sharded, before something takes its place that looks at no shardings."""
    said = shardings_of(op)
    del op.attributes[SHARDING]
    for result, sharding in zip(op.results, said, strict=True):
        if sharding:
            uses = list(result.uses)
            constraint = constrained(result, sharding)
            for use in uses:
                use.owner.operands[use.operand_number] = constraint


def replace(old: ir.Value, new: ir.Value) -> None:
    """Let the uses of a value use another one, which takes its sharding."""
    owner = old.owner
    if not isinstance(owner, ir.Block) and SHARDING in owner.attributes:
        sharding = shardings_of(owner)[old.result_number]
        if sharding:
            new = carried(new, sharding)
    old.replace_all_uses_with(new)
