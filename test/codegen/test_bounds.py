"""Bounds of indices: they hold for all numbers, and indices that fit are computed in 32 bits on GPUs, nowhere else."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.backends.gpu.target import SM_90
from stablehlo_py.codegen.bounds import bounds_of, fits
from stablehlo_py.codegen.builder import I64, PTR, Function, Index, Value
from stablehlo_py.codegen.emitter import Emitter

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
    "smin": min,
    "smax": max,
}
INTERVALS = [(low, high) for low in range(-3, 4) for high in range(low, 4)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_bounds_hold_and_are_reached(name: str) -> None:
    known = 0
    for a, b in itertools.product(INTERVALS, INTERVALS):
        found = bounds_of(name, a, b)
        if name in ("udiv", "urem") and (a[0] < 0 or b[0] <= 0):
            continue  # not for such operands
        assert found is not None
        results = [OPERATIONS[name](x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)]
        assert found[0] <= min(results) and max(results) <= found[1]
        known += found == (min(results), max(results))
    assert known


def test_fits() -> None:
    assert fits((-(1 << 31), (1 << 31) - 1), 32)
    assert not fits((0, 1 << 31), 32) and not fits((-(1 << 31) - 1, 0), 32) and not fits(None, 32)


def text(emitter: Emitter, body: Callable[[Function, Value], Index]) -> str:
    f = Function("f", [("out", PTR), ("n", I64)], emitter)
    f.store(f.index(body(f, f.n)), f.out)
    f.ret()
    return f.text()


def test_short_where_known() -> None:
    def divided(f: Function, n: Value) -> Index:
        return f.idiv(f.imul(f.bounded(n, 0, 1000), 7), 9)

    def too_large(f: Function, n: Value) -> Index:
        return f.imul(f.bounded(n, 0, 1 << 30), 7)

    gpu, cpu = (lambda: SM_90.emitter(32, 5)), host_target().emitter
    assert "llvm.udiv" in text(gpu(), divided) and ": i32" in text(gpu(), divided)
    assert "llvm.trunc" not in text(cpu(), divided)
    assert "llvm.trunc" not in text(gpu(), too_large)
    assert "llvm.trunc" not in text(gpu(), lambda f, n: f.idiv(n, 9))


def test_indices_of_loops_and_threads_are_bounded() -> None:
    f = Function("f", [("out", PTR)], SM_90.emitter(32, 5))
    assert (f.thread_number().bounds, f.block_number().bounds) == ((0, 31), (0, 4))
    seen = []
    f.loop(f.thread_number(), 100, 32, lambda i: seen.append(i.bounds))
    assert seen == [(0, 99)]
