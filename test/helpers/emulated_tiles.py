"""AMX, and instructions of vectors that add up groups, by others: kernels for them run on any CPU, and give the same
bits.

What these are: Intel, "Software Developer's Manual", volume 2, TDPBF16PS, TDPBSSD, VDPBF16PS and VPDPBUSD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, partialmethod

import pytest
from one_kernel import here

from stablehlo_py.backends.cpu.target import AMX, AVX2, AVX512, AVX512_BF16, CpuTarget, baseline_target
from stablehlo_py.codegen.builder import F32, I8, I32, I64, Function, Index, Type, Value, VectorType

SIDE, NUMBERS = 16, 256  # rows of a tile; numbers of 32 bits in it
FLOATS, INTEGERS = VectorType(SIDE, F32), VectorType(SIDE, I32)
PREFIX = "llvm.x86."
# The best CPU without tiles that this machine is, described as if it had them.
EMULATED: CpuTarget = replace((*here(AVX512, AVX2), baseline_target())[0], matrix_units=AMX.matrix_units)
# One with half as long vectors, described as if it had the others; kernels call functions for their strips.
EMULATED_DOTS: CpuTarget = replace((*here(AVX2), baseline_target())[0], dots=AVX512_BF16.dots, shares_functions=True)


def emulate(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on kernels have other code for tiles; the names of the instructions that it stands for are returned as
    they come."""
    tiles: dict[str, Value] = {}  # by function: the memory that its tiles are, and their numbers of rows
    heights: dict[str, Value] = {}
    written: list[str] = []

    def target_effect(f: Function, name: str, *operands: Value) -> None:
        name = name.removeprefix(PREFIX)
        written.append(name)
        if name == "ldtilecfg":
            if f.name not in tiles:
                tiles[f.name], heights[f.name] = f.alloca(8 * NUMBERS, I32), f.alloca(8, I8)
            f.store(f.load(VectorType(8, I8), operands[0], 48), heights[f.name])
        elif name == "tilerelease":
            del tiles[f.name], heights[f.name]
        elif name == "tilezero":
            f.set_memory(_tile(f, tiles[f.name], operands[0]), 0, 4 * NUMBERS)
        elif name in ("tileloadd64", "tileloaddt164", "tilestored64"):
            rows = _rows(f, heights[f.name], operands[0])
            _copy(f, name != "tilestored64", _tile(f, tiles[f.name], operands[0]), operands[1], operands[2], rows)
        else:
            sums, a, b = (_tile(f, tiles[f.name], operand) for operand in operands)
            f.loop(0, _rows(f, heights[f.name], operands[0]), 1, partial(_row, f, name, sums, a, b))

    monkeypatch.setattr(Function, "target_effect", target_effect)
    monkeypatch.setattr(Function, "target_intrinsic", partialmethod(_target_intrinsic, Function.target_intrinsic))
    return written


def _target_intrinsic(f: Function, others: Callable[..., Value], name: str, *operands: Value, result: Type) -> Value:
    """Products of the groups of two vectors, added to a third one."""
    if "vpdpbusd" in name:
        sums, a, b = operands
        a, b = (f.bitcast(value, sums.type) for value in (a, b))
        for number in range(4):
            sums = f.binary("add", sums, f.binary("mul", _byte(f, a, number, "u"), _byte(f, b, number, "s")))
        return sums
    if "dpbf16ps" in name:
        sums, a, b = operands
        numbers = VectorType(sums.type.lanes, I32)
        a, b = (f.bitcast(value, numbers) for value in (a, b))
        sums = _flushed(f, sums)
        for half in (_high, _low):
            sums = _flushed(f, f.intrinsic("fma", half(f, a), half(f, b), sums))
        return sums
    return others(f, name, *operands, result=result)


def _tile(f: Function, tiles: Value, number: Value) -> Value:
    return f.gep(tiles, f.imul(number.constant, NUMBERS), I32)


def _rows(f: Function, heights: Value, number: Value) -> Value:
    return f.cast("zext", f.load(I8, heights, number.constant), I64)


def _copy(f: Function, loads: bool, tile: Value, memory: Value, stride: Value, rows: Value) -> None:
    def row(number: Index) -> None:
        at, beside = f.gep(tile, f.imul(number, SIDE), I32), f.gep(memory, f.imul(number, stride), I8)
        source, to = (beside, at) if loads else (at, beside)
        f.store(f.load(INTEGERS, source), to)

    f.loop(0, rows, 1, row)


def _row(f: Function, name: str, sums: Value, a: Value, b: Value, row: Index) -> None:
    """A row of sums, to which the products of a row of A with all columns of B are added."""
    at = f.imul(row, SIDE)
    if name == "tdpbf16ps":
        zero = f.const(0, FLOATS)

        def pair(k: Index, *so_far: Value) -> list[Value]:
            left, right = f.splat(f.load(I32, a, f.iadd(at, k)), SIDE), f.load(INTEGERS, b, f.imul(k, SIDE))
            halves = ((_low(f, left), _low(f, right)), (_high(f, left), _high(f, right)))
            return [_flushed(f, f.intrinsic("fma", x, y, z)) for (x, y), z in zip(halves, so_far, strict=True)]

        even, odd = f.loop(0, SIDE, 1, pair, [zero, zero])
        before = _flushed(f, f.load(FLOATS, sums, at))
        f.store(_flushed(f, f.fadd(before, _flushed(f, f.fadd(even, odd)))), sums, at)
        return

    def quad(k: Index, so_far: Value) -> list[Value]:
        left, right = f.splat(f.load(I32, a, f.iadd(at, k)), SIDE), f.load(INTEGERS, b, f.imul(k, SIDE))
        for number in range(4):
            x, y = (_byte(f, value, number, sign) for value, sign in zip((left, right), name[4:6], strict=True))
            so_far = f.binary("add", so_far, f.binary("mul", x, y))
        return [so_far]

    (total,) = f.loop(0, SIDE, 1, quad, [f.load(INTEGERS, sums, at)])
    f.store(total, sums, at)


def _low(f: Function, pairs: Value) -> Value:
    return _flushed(f, f.bitcast(f.binary("shl", pairs, f.const(16, pairs.type)), _floats(pairs)))


def _high(f: Function, pairs: Value) -> Value:
    return _flushed(f, f.bitcast(f.binary("and", pairs, f.const(-(1 << 16), pairs.type)), _floats(pairs)))


def _floats(numbers: Value) -> VectorType:
    return VectorType(numbers.type.lanes, F32)


def _flushed(f: Function, value: Value) -> Value:
    """Zero for subnormal numbers."""
    bits = f.bitcast(value, VectorType(value.type.lanes, I32))
    tiny = f.cmp("eq", f.binary("and", bits, f.const(0x7F80_0000, bits.type)), f.const(0, bits.type))
    return f.bitcast(f.select(tiny, f.binary("and", bits, f.const(-(1 << 31), bits.type)), bits), value.type)


def _byte(f: Function, quads: Value, number: int, sign: str) -> Value:
    high = f.binary("shl", quads, f.const(24 - 8 * number, quads.type))
    return f.binary("ashr" if sign == "s" else "lshr", high, f.const(24, quads.type))
