"""Channels between processes, emitted as native code by our own builder.

A channel is a queue without a limit from one sender to one receiver: a linked list whose last node the sender holds,
and whose first one, already read, the receiver. They share nothing but the count of what was sent, which the receiver
waits for, and the link that was written before it.
"""

from __future__ import annotations

from stablehlo_py.backends.cpu.grid import fail, field, has_failed, read
from stablehlo_py.backends.cpu.layout import FIRST, HEAD, HEADER, MISFIT, NO_MEMORY, RECEIVED, RECORD, SENT, TAIL
from stablehlo_py.backends.cpu.pool import WAKE, futex
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I32, I64, PTR, Function, Value

# A node: the link to the next one, the size of what follows.
_NEXT, _SIZE, _DATA = 0, 8, 16


def _link(f: Function, channel: Value, node: Value) -> Value:
    """Where the link behind a node is; a null node stands before the first one."""
    return f.select(f.is_null(node), field(f, channel, FIRST), field(f, node, _NEXT))


def _send_function(target: CpuTarget) -> Function:
    """void shlo_grid_send(process, channel, data, size): put a copy of `size` bytes into the channel."""
    f = Function("shlo_grid_send", [("process", PTR), ("channel", PTR), ("data", PTR), ("size", I64)], target.emitter())
    node = f.call("malloc", [f.index(f.iadd(f.size, _DATA))], PTR, external=True)

    def put() -> None:
        f.store(f.null(), field(f, node, _NEXT))
        f.store(f.size, field(f, node, _SIZE))
        f.copy_memory(field(f, node, _DATA), f.data, f.size)
        f.store(node, _link(f, f.channel, read(f, f.channel, TAIL, PTR)))
        f.store(node, field(f, f.channel, TAIL))
        f.atomic_add(field(f, f.channel, SENT), f.const(1, I32))
        futex(f, field(f, f.channel, SENT), WAKE, f.const(1, I32))

    f.if_(f.is_null(node), lambda: fail(f, f.process, NO_MEMORY), put)
    f.ret()
    return f


def _recv_function(target: CpuTarget) -> Function:
    """void shlo_grid_recv(process, channel, data, size): wait for the next entry of the channel and copy it."""
    f = Function("shlo_grid_recv", [("process", PTR), ("channel", PTR), ("data", PTR), ("size", I64)], target.emitter())
    record = read(f, f.process, RECORD, PTR)
    received = read(f, f.channel, RECEIVED, I32)
    f.call("shlo_grid_wait", [record, field(f, f.channel, SENT), received], external=True)

    def take() -> None:
        before = read(f, f.channel, HEAD, PTR)
        node = f.load(PTR, _link(f, f.channel, before))
        f.call("free", [before], external=True)
        f.store(node, field(f, f.channel, HEAD))
        f.store(f.binary("add", received, f.const(1, I32)), field(f, f.channel, RECEIVED))
        fits = f.cmp("eq", read(f, node, _SIZE), f.size)
        copy = lambda: f.copy_memory(f.data, field(f, node, _DATA), f.size)  # noqa: E731 - a branch
        f.if_(fits, copy, lambda: fail(f, f.process, MISFIT))

    f.if_(has_failed(f, read(f, record, HEADER, PTR)), lambda: None, take)
    f.ret()
    return f


def _drain_function(target: CpuTarget) -> Function:
    """void shlo_grid_drain(channel): free what was not received. When all processes have ended."""
    f = Function("shlo_grid_drain", [("channel", PTR)], target.emitter())
    head = read(f, f.channel, HEAD, PTR)
    first = f.select(f.is_null(head), read(f, f.channel, FIRST, PTR), head)

    def free(node: Value) -> list[Value]:
        following = read(f, node, _NEXT, PTR)
        f.call("free", [node], external=True)
        return [following]

    f.while_([first], lambda node: f.cmp("ne", f.cast("ptrtoint", node, I64), f.const(0)), free)
    f.ret()
    return f


def functions(target: CpuTarget) -> list[Function]:
    """What kernels call, and `shlo_grid_drain`."""
    return [_send_function(target), _recv_function(target), _drain_function(target)]
