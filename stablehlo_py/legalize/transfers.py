"""infeed, outfeed, send and recv: one hlo op for each tensor, in order.

What goes to the host or comes from it passes a port, which the runtime knows: `hlo.ports` on the function describes
them. What goes to another process passes a channel: an endless queue for each receiver.
"""

from __future__ import annotations

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import CHANNELS, PORTS
from stablehlo_py.dialect.grid import function_of, grid_of, process
from stablehlo_py.dialect.types import user_location
from stablehlo_py.legalize.grid import channel, pairs
from stablehlo_py.legalize.rules import Results, Unsupported, rule
from stablehlo_py.mlir import ir, stablehlo

_DEVICE_TO_HOST, _HOST_TO_DEVICE = 2, 3  # channel types (spec, section send)


def _port(op: ir.OpView, kind: str, part: int, parts: int, type_: ir.Type) -> int:
    """The number of a new port; `part` of the `parts` tensors that the op moves."""
    function = function_of(op)
    known = list(function.attributes[PORTS]) if PORTS in function.attributes else []
    described = {
        "kind": kind,
        "channel": channel(op) if kind in ("send", "recv") else 0,
        "part": part,
        "parts": parts,
        "site": f"'{op.operation.name}' at {user_location(op.location) or 'an unknown place'}",
    }
    attributes = {name: build.attribute(value) for name, value in described.items()}
    known.append(ir.DictAttr.get({**attributes, "type": ir.TypeAttr.get(type_)}))
    function.attributes[PORTS] = ir.ArrayAttr.get(known)
    return len(known) - 1


def _from_host(op: ir.OpView, kind: str) -> Results:
    *types, token_type = [result.type for result in op.results]
    token, values = op.operands[0], []
    # An op that moves nothing waits for an item all the same.
    for part, type_ in enumerate(types or [token_type]):
        port = _port(op, kind, part, len(types), type_)
        attributes = {"port": port, "origin": op.operation.name}
        made = build.op("hlo.infeed", [type_, token_type], [process(op), token], attributes)
        value, token = made.results
        values.append(value)
    return [*values[: len(types)], token]


def _to_host(op: ir.OpView, kind: str) -> ir.Value:
    *values, token = op.operands
    for part, value in enumerate(values or [token]):
        port = _port(op, kind, part, len(values), value.type)
        attributes = {"port": port, "origin": op.operation.name}
        token = build.op("hlo.outfeed", [token.type], [process(op), token, value], attributes).result
    return token


@rule("stablehlo.infeed")
def infeed(op: ir.OpView) -> Results:
    """Its tensors one after the other."""
    return _from_host(op, "infeed")


@rule("stablehlo.outfeed")
def outfeed(op: ir.OpView) -> Results:
    """Its tensors one after the other."""
    return _to_host(op, "outfeed")


@rule("stablehlo.send")
def send(op: ir.OpView) -> Results:
    """To the host through a port, to other processes through a channel."""
    if _with_host(op, _DEVICE_TO_HOST):
        return _to_host(op, "send")
    linked = dict(_pairs(op))
    targets = [linked.get(number, -1) for number in range(grid_of(op).processes)]
    *values, token = op.operands
    for value in values:
        attributes = {"targets": targets, "channel": _channel(op), "origin": op.operation.name}
        token = build.op("hlo.send", [token.type], [process(op), token, value], attributes).result
    return token


@rule("stablehlo.recv")
def recv(op: ir.OpView) -> Results:
    """From the host through a port, from other processes through a channel; zeros where nobody sends."""
    if _with_host(op, _HOST_TO_DEVICE):
        return _from_host(op, "recv")
    linked = {target: source for source, target in _pairs(op)}
    sources = [linked.get(number, -1) for number in range(grid_of(op).processes)]
    *types, token_type = [result.type for result in op.results]
    token, values = op.operands[0], []
    for type_ in types:
        attributes = {"sources": sources, "channel": _channel(op), "origin": op.operation.name}
        value, token = build.op("hlo.recv", [type_, token_type], [process(op), token], attributes).results
        values.append(value)
    return [*values, token]


def _with_host(op: ir.OpView, type_: int) -> bool:
    says = "is_host_transfer" in op.attributes and op.attributes["is_host_transfer"].value
    return bool(says) or stablehlo.ChannelHandle(op.attributes["channel_handle"]).channel_type == type_


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
