"""Kernels of one transfer: infeed and outfeed at a port, send and recv through a channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu import grid, layout
from stablehlo_py.backends.cpu.kernels.base import Kernel, finished, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.dialect.ops.grid import NOBODY
from stablehlo_py.dialect.types import i64, i64s, tensor_bytes, text

Body = Callable[[Function, Value, Value], None]


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """At a port, or out of this process's own channel, or into that of its target."""
    if fusion.kind == "recv":
        return _through_channel(fusion, target, "sources", "shlo_grid_recv")
    if fusion.kind == "send":
        return _through_channel(fusion, target, "targets", "shlo_grid_send")
    return _at_port(fusion, target)


def _transfer(fusion: Fusion, target: CpuTarget, body: Body, tables: Mapping[str, str] | None = None) -> Kernel:
    """A kernel whose body takes the process and the address of the tensor: the operand after the token, else the first
    result."""
    op = fusion.ops[0]
    f = phase_function(fusion, target)
    outgoing = len(op.operands) > 2
    data = operand(f, fusion, op.operands[2]) if outgoing else f.parameters["out0"]
    body(f, operand(f, fusion, op.operands[0]), data)
    return Kernel.of(finished(f), tables=tables, communicates=text(op, "origin"))


def _at_port(fusion: Fusion, target: CpuTarget) -> Kernel:
    """Let the runtime read or write the tensor."""
    port = i64(fusion.ops[0], "port")

    def body(f: Function, process: Value, data: Value) -> None:
        header = grid.read(f, grid.read(f, process, layout.RECORD, PTR), layout.HEADER, PTR)
        words = f.alloca(3, I64)
        for position, word in enumerate(
            (grid.read(f, process, layout.NUMBER), f.const(port), f.cast("ptrtoint", data, I64))
        ):
            f.store(word, words, position)
        status = f.call_pointer(
            grid.read(f, header, layout.CALL, PTR), [grid.read(f, header, layout.TRANSFER, PTR), words], I32
        )
        f.if_(f.cmp("ne", status, f.const(0, I32)), lambda: grid.fail(f, process, layout.STOPPED))

    return _transfer(fusion, target, body)


def _through_channel(fusion: Fusion, target: CpuTarget, others: str, function: str) -> Kernel:
    """Call `function` on the channel of the receiver; `others` names the attribute that says who the other one is. A
    process without one sends nothing, and receives zeros."""
    op = fusion.ops[0]
    numbers = np.array(i64s(op, others))
    processes, number = len(numbers), i64(op, "channel")
    sends = others == "targets"
    receivers = numbers if sends else np.where(numbers == NOBODY, NOBODY, np.arange(processes))
    offsets = np.where(receivers == NOBODY, NOBODY, layout.CHANNEL_BYTES * (number * processes + receivers))
    table = f"{fusion.name}.channels"
    size = tensor_bytes(op.operands[2] if sends else op.results[0])

    def body(f: Function, process: Value, data: Value) -> None:
        header = grid.read(f, grid.read(f, process, layout.RECORD, PTR), layout.HEADER, PTR)
        offset = f.load(I64, f.address_of(table), grid.read(f, process, layout.NUMBER))

        def call() -> None:
            channel = f.gep(grid.read(f, header, layout.CHANNELS, PTR), offset, I8)
            f.call(function, [process, channel, data, f.const(size)], external=True)

        def nothing() -> None:
            if not sends:
                f.set_memory(data, 0, size)

        f.if_(f.cmp("eq", offset, f.const(NOBODY)), nothing, call)

    return _transfer(fusion, target, body, {table: constant_table(table, offsets, I64, target.emits)})
