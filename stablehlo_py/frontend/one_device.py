"""Custom calls that one device of a grid of partitions makes, though all compute the program: those whose sharding is
that of a single device, as JAX says of functions of Python outside of shard_map.

    %1 = custom_call @f(%0) {hlo.sharding = ["#sdy.sharding<mesh<device_ids=[1]>, []>"]}

becomes, for two partitions:

    %0 = if partition_id == 1 { custom_call @f(%x) } else { zeros }
    %1 = collective_broadcast %0, groups = [[1, 0]]         all devices have what that one has
"""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import MHLO_SHARDING, SHARDING
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.sharding import meshes_of
from stablehlo_py.dialect.sharding_text import single_device
from stablehlo_py.dialect.types import is_tensor, operations
from stablehlo_py.mlir import ir, stablehlo

_CHANNEL = 1


def call_on_one_device(module: ir.Module, partitions: int) -> None:
    """Rewrite the calls of a module, in place, whose values are whole on every device."""
    meshes = meshes_of(module)
    for op in operations(module.operation):
        if op.name == "stablehlo.custom_call":
            device = single_device(_said(op), meshes)
            if device is not None and device < partitions:
                _move(op, device, partitions)


def _said(op: ir.Operation) -> str:
    """Of a call without results the partitioner before Shardy has a sharding, too."""
    texts = [text.value for text in op.attributes[SHARDING]] if SHARDING in op.attributes else []
    if not texts and MHLO_SHARDING in op.attributes:
        texts = [op.attributes[MHLO_SHARDING].value]
    return texts[0] if texts else ""


def _move(op: ir.Operation, device: int, partitions: int) -> None:
    types = [result.type for result in op.results]
    with op.location, ir.InsertionPoint(op):
        number = build.tensor([], ir.IntegerType.get_unsigned(32))
        own = build.op("stablehlo.partition_id", [number], []).result
        wanted = build.stablehlo.constant(np.array(device, np.uint32), number.element_type)
        equal = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
        truth = build.tensor([], ir.IntegerType.get_signless(1))
        is_it = build.op("stablehlo.compare", [truth], [own, wanted], {"comparison_direction": equal}).result
        branch = build.op("stablehlo.if", types, [is_it], regions=2)
        then, otherwise = (region.blocks.append() for region in branch.regions)
        with ir.InsertionPoint(then):
            made = op.clone()
            for name in (SHARDING, MHLO_SHARDING):
                if name in made.attributes:
                    del made.attributes[name]
            build.op("stablehlo.return", [], list(made.results))
        with ir.InsertionPoint(otherwise):
            build.op("stablehlo.return", [], [_nothing(type_) for type_ in types])
        members = [device, *(each for each in range(partitions) if each != device)]
        replace_op(op, [_from_first(result, members) for result in branch.results])


def _nothing(type_: ir.Type) -> ir.Value:
    if not is_tensor(type_):
        return build.op("stablehlo.after_all", [type_], []).result  # a token
    element = type_.element_type
    if isinstance(element, ir.ComplexType):
        part = _nothing(build.tensor(type_.shape, element.element_type))
        return build.op("stablehlo.complex", [type_], [part, part]).result
    return build.stablehlo.constant(np.zeros(type_.shape, numpy_dtype(element)), element)


def _from_first(value: ir.Value, members: list[int]) -> ir.Value:
    """What the first of some devices has. A token says in which order each device works."""
    if not is_tensor(value):
        return value
    attributes = {
        "replica_groups": ir.DenseElementsAttr.get(np.array([members])),
        "channel_handle": stablehlo.ChannelHandle.get(_CHANNEL, 0),
    }
    return build.op("stablehlo.collective_broadcast", [value.type], [value], attributes).result
