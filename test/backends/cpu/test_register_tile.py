"""The innermost loop of a product: nothing of it is in memory but what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from dots import Dot
from one_kernel import compile_kernel

from stablehlo_py.backends.cpu.listing import disassembly
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE, CpuTarget

TYPES = [
    (np.float32, "f32"),
    (np.float64, "f64"),
    (np.float16, "f32"),
    (ml_dtypes.bfloat16, "f32"),
    (np.int8, "i32"),
    (np.int16, "i32"),
]


def innermost_loops(listing: str) -> Iterator[list[str]]:
    """Instructions of loops without a jump inside."""
    lines = [(int(found[1], 16), found[2]) for found in re.finditer(r"(?m)^\s*([0-9a-f]+):\s+(.*)$", listing)]
    places = {address: number for number, (address, _) in enumerate(lines)}
    for number, (address, text) in enumerate(lines):
        jump = re.match(r"j\w+\s+(?:0x)?([0-9a-f]+)", text)
        first = places.get(int(jump[1], 16)) if jump else None
        if first is not None and lines[first][0] < address:
            body = [line for _, line in lines[first:number]]
            if not any(line.startswith("j") for line in body):
                yield body


SHAPES = [((60, 64), (64, 96)), ((20, 401), (401, 320))]  # of the second, AVX-512 makes 5 by 5 vectors


@pytest.mark.parametrize("target", [AVX2, AVX512, BASELINE], ids=lambda target: target.name)
@pytest.mark.parametrize("shapes", SHAPES, ids=["96 columns", "320 columns"])
@pytest.mark.parametrize(("dtype", "result"), TYPES, ids=[np.dtype(dtype).name for dtype, _ in TYPES])
def test_sums_stay_in_registers(dtype: type, result: str, shapes: tuple, target: CpuTarget) -> None:
    case = Dot("large", *shapes, dtypes=(dtype, dtype), result=result)
    kernel = compile_kernel(case.text(case.arrays()), target).kernel
    units = [Unit((symbol,), text) for symbol, text in {**kernel.functions, **kernel.common}.items()]
    listings = [disassembly([compile_units([unit])]) for unit in units]
    if not any(listings):
        pytest.skip("no disassembler here")
    products = 0
    for listing in listings:
        stack = "[sb]" if re.search(r"mov\s+%rsp,%rbp", listing) else "s"  # %rbp holds an operand's address, too
        for body in innermost_loops(listing):
            if any(re.search(r"\b(vfmadd|v?mulp|v?pmaddwd)", line) for line in body):
                products += 1
                kept = rf"[xyz]mm.*\(%r{stack}p\)|\(%r{stack}p\).*[xyz]mm"
                assert not [line for line in body if re.search(kept, line)]
    assert products
