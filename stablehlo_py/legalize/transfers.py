"""infeed, outfeed, send and recv: one hlo op for each tensor, in order.

What goes to the host or comes from it passes a port, which the runtime knows: `hlo.ports` on the function describes
them. What goes to another process passes a channel: an endless queue for each receiver.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import CHANNELS, PORTS
from stablehlo_py.dialect.build import AttributeValue
from stablehlo_py.dialect.grid import function_of, grid_of, process
from stablehlo_py.dialect.types import flag, user_location
from stablehlo_py.legalize.grid import channel, pairs
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.mlir import ir, stablehlo

_DEVICE_TO_HOST, _HOST_TO_DEVICE = 2, 3  # channel types (spec, section send)


@rule("stablehlo.infeed", "stablehlo.recv")
def take(op: ir.OpView) -> Results:
    """Its tensors one after the other: from the host through a port, from other processes through a channel; zeros
    where nobody sends. An op of the host's that moves nothing waits for an item all the same."""
    *types, token_type = [result.type for result in op.results]
    moved = types
    if _with_host(op, _HOST_TO_DEVICE):
        moved = types or [token_type]
        name, where = "infeed", _ports(op, moved, len(types))
    else:
        linked = {target: source for source, target in _pairs(op)}
        name, where = "recv", [_over_channel(op, "sources", linked) for _ in types]
    token, values = op.operands[0], []
    for type_, attributes in zip(moved, where, strict=True):
        value, token = build.op(f"hlo.{name}", [type_, token_type], [process(op), token], attributes).results
        values.append(value)
    return [*values[: len(types)], token]


@rule("stablehlo.outfeed", "stablehlo.send")
def give(op: ir.OpView) -> Results:
    """Its tensors one after the other: to the host through a port, to other processes through a channel."""
    *values, token = op.operands
    moved = values
    if _with_host(op, _DEVICE_TO_HOST):
        moved = values or [token]
        name, where = "outfeed", _ports(op, [value.type for value in moved], len(values))
    else:
        linked = dict(_pairs(op))
        name, where = "send", [_over_channel(op, "targets", linked) for _ in values]
    for value, attributes in zip(moved, where, strict=True):
        token = build.op(f"hlo.{name}", [token.type], [process(op), token, value], attributes).result
    return token


def _ports(op: ir.OpView, types: Sequence[ir.Type], parts: int) -> list[dict[str, AttributeValue]]:
    """Attributes of the ops that move tensors of these types through new ports; `parts`: how many the program moves."""
    function, kind = function_of(op), op.operation.name.removeprefix("stablehlo.")
    known = list(function.attributes[PORTS]) if PORTS in function.attributes else []
    first = len(known)
    for part, type_ in enumerate(types):
        described = {
            "kind": kind,
            "channel": channel(op),
            "part": part,
            "parts": parts,
            "site": f"'{op.operation.name}' at {user_location(op.location) or 'an unknown place'}",
        }
        attributes = {name: build.attribute(value) for name, value in described.items()}
        known.append(ir.DictAttr.get({**attributes, "type": ir.TypeAttr.get(type_)}))
    function.attributes[PORTS] = ir.ArrayAttr.get(known)
    return [{"port": first + part, "origin": op.operation.name} for part in range(len(types))]


def _over_channel(op: ir.OpView, name: str, linked: dict[int, int]) -> dict[str, AttributeValue]:
    """Attributes of an op between processes, of which each one's partner is `linked`."""
    partners = [linked.get(number, -1) for number in range(grid_of(op).processes)]
    return {name: partners, "channel": _channel(op), "origin": op.operation.name}


def _with_host(op: ir.OpView, type_: int) -> bool:
    if "channel_handle" not in op.attributes or flag(op, "is_host_transfer"):  # infeed and outfeed have no channel
        return True
    return stablehlo.ChannelHandle(op.attributes["channel_handle"]).channel_type == type_


def _pairs(op: ir.OpView) -> list[tuple[int, int]]:
    """(source, target): partitions where there are several, else replicas (the specification leaves it open)."""
    if "source_target_pairs" not in op.attributes:
        raise Unsupported("does not say who sends to whom", "give it source_target_pairs")
    return pairs(op, across_partitions=grid_of(op).partitions > 1)


def _channel(op: ir.OpView) -> int:
    """The number of the op's channel among those of the program."""
    function = function_of(op)
    known = list(function.attributes[CHANNELS]) if CHANNELS in function.attributes else []
    if channel(op) not in known:
        known.append(channel(op))
        function.attributes[CHANNELS] = ir.DenseI64ArrayAttr.get(known)
    return known.index(channel(op))
