"""Calls of functions that users have registered: the structures of include/shlo_custom_call.h, filled and handed over.

What is known when compiling (dimensions, attributes, names) is one read-only table; the structures are made on the
stack, for they hold the addresses of the buffers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.base import Kernel, finished, phase_function
from stablehlo_py.backends.cpu.kernels.common import operand
from stablehlo_py.backends.cpu.symbols import call_symbol
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen.builder import I8, I32, I64, Function, Value
from stablehlo_py.codegen.tables import constant_table
from stablehlo_py.dialect.attributes import SITE
from stablehlo_py.dialect.constants import element_name, numpy_dtype, to_numpy
from stablehlo_py.dialect.custom_call import Buffer, read_call
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import is_tensor, tensor_bytes
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.callbacks import (
    ARRAY,
    ATTRIBUTE_WORDS,
    BUFFER_WORDS,
    CALL_WORDS,
    DICTIONARY,
    MESSAGE_BYTES,
    NUMBERS,
    SCALAR,
    SITE_BYTES,
    STRING,
    VERSION,
)


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One phase of one iteration.

    Raises:
        UnsupportedError: a buffer or an attribute has no form in the header.
    """
    op = fusion.op("stablehlo.custom_call")
    if not all(is_tensor(value) for value in (*op.operands, *op.results)):
        raise UnsupportedError("a registered custom call takes and gives tensors, not tokens or tuples")
    call = read_call(op)
    site = op.attributes[SITE].value if SITE in op.attributes else ""
    pairs = fusion.inplace
    f = phase_function(fusion, target, aliased=True)
    table = _Table(f, f"{fusion.name}.table")
    operands = [operand(f, fusion, value) for value in op.operands]
    results = [f.parameters[f"out{number}"] for number in range(len(call.results))]
    for result, number in call.aliases:
        if (fusion.inputs.index(op.operands[number]), result) not in pairs:
            f.copy_memory(results[result], operands[number], tensor_bytes(op.results[result]))
        operands[number] = results[result]
    message = f.gep(f.shared, SITE_BYTES, I8)
    f.store(f.null(), f.shared)
    f.store(f.const(0, I8), message)
    frame = f.alloca(CALL_WORDS, I64)
    words = [
        f.const(VERSION),
        f.const(len(operands)),
        _buffers(f, table, call.operands, operands),
        f.const(len(results)),
        _buffers(f, table, call.results, results),
        f.const(len(call.configuration)),
        _attributes(f, table, list(call.configuration.items())),
        message,
        f.const(MESSAGE_BYTES),
    ]
    _fill(f, frame, words)
    status = f.call(call_symbol(call.target), [frame], I32, external=True)
    where = table.text(f"{call.target}\n{site}".encode())
    f.if_(f.cmp("ne", status, f.const(0, I32)), lambda: f.store(where, f.shared))
    tables = {table.name: table.global_text()}
    return replace(Kernel.of(finished(f), shared_bytes=SITE_BYTES + MESSAGE_BYTES, tables=tables), may_fail=True)


class _Table:
    """Read-only bytes of one kernel, and their addresses in a function of it."""

    def __init__(self, f: Function, name: str) -> None:
        self.f, self.name, self.content = f, name, bytearray()

    def add(self, data: bytes) -> Value:
        """The address of a copy, aligned to 8 bytes."""
        place = len(self.content)
        self.content += data + bytes(-len(data) % 8)
        return self.f.gep(self.f.address_of(self.name), place, I8)

    def text(self, data: bytes) -> Value:
        """The address of a copy with a zero behind it."""
        return self.add(data + b"\0")

    def numbers(self, values: tuple[IntLike, ...]) -> Value:
        """The address of an array of i64."""
        return self.add(np.array(values, "<i8").tobytes())

    def global_text(self) -> str:
        """The global."""
        return constant_table(self.name, np.frombuffer(bytes(self.content), "<i8"), I64, self.f.emit)


def _fill(f: Function, base: Value, words: list[Value]) -> None:
    for position, word in enumerate(words):
        f.store(word, base, position)


def _buffers(f: Function, table: _Table, buffers: tuple[Buffer, ...], pointers: list[Value]) -> Value:
    base = f.alloca(max(1, BUFFER_WORDS * len(buffers)), I64)
    for number, (buffer, pointer) in enumerate(zip(buffers, pointers, strict=True)):
        dense = row_major_strides([buffer.shape[dimension] for dimension in buffer.order])
        strides = tuple(dense[buffer.order.index(dimension)] for dimension in range(len(buffer.shape)))
        words = [
            pointer,
            f.const(_number(buffer.element)),
            f.const(len(buffer.shape)),
            table.numbers(buffer.shape),
            table.numbers(strides),
        ]
        _fill(f, f.gep(base, BUFFER_WORDS * number, I64), words)
    return base


def _attributes(f: Function, table: _Table, attributes: list[tuple[str, ir.Attribute]]) -> Value:
    base = f.alloca(max(1, ATTRIBUTE_WORDS * len(attributes)), I64)
    for number, (name, value) in enumerate(attributes):
        if isinstance(value, ir.DictAttr):
            inner = [(each.name, each.attr) for each in value]
            kind, dtype, count, data = DICTIONARY, 0, len(inner), _attributes(f, table, inner)
        else:
            kind, dtype, count, content = _attribute(name, value)
            data = table.text(content)
        words = [table.text(name.encode()), f.const(kind), f.const(dtype), f.const(count), data]
        _fill(f, f.gep(base, ATTRIBUTE_WORDS * number, I64), words)
    return base


def _number(element: ir.Type) -> int:
    try:
        return NUMBERS[element_name(numpy_dtype(element))]
    except KeyError as error:
        raise UnsupportedError(f"a registered custom call takes no elements of type {element}") from error


def _attribute(name: str, value: ir.Attribute) -> tuple[int, int, int, bytes]:
    """Kind, number of the element type, count, bytes."""
    if isinstance(value, ir.StringAttr):
        data = value.value_bytes
        return STRING, 0, len(data), data
    if isinstance(value, ir.BoolAttr):
        return SCALAR, NUMBERS["i1"], 1, bytes([value.value])
    if isinstance(value, ir.IntegerAttr | ir.FloatAttr):
        dtype = numpy_dtype(value.type)
        return SCALAR, _number(value.type), 1, np.array(value.value).astype(dtype).tobytes()
    array = _array(value)
    if array is None:
        raise UnsupportedError(
            f"the attribute '{name}' is {value}",
            remedy="a registered custom call takes numbers, booleans, strings, arrays of numbers, and dictionaries",
        )
    return ARRAY, NUMBERS[element_name(array.dtype)], math.prod(array.shape), array.tobytes()


_DENSE_ARRAYS = {
    ir.DenseBoolArrayAttr: np.bool_,
    ir.DenseI8ArrayAttr: np.int8,
    ir.DenseI16ArrayAttr: np.int16,
    ir.DenseI32ArrayAttr: np.int32,
    ir.DenseI64ArrayAttr: np.int64,
    ir.DenseF32ArrayAttr: np.float32,
    ir.DenseF64ArrayAttr: np.float64,
}


def _array(value: ir.Attribute) -> np.ndarray | None:
    for kind, dtype in _DENSE_ARRAYS.items():
        if isinstance(value, kind):
            return np.array(list(value), dtype)
    return to_numpy(value) if isinstance(value, ir.DenseElementsAttr) else None
