"""Random programs (test/helpers/random_jax_programs.py) give what XLA gives, the same bits for any number of threads,
and the same again when all memory that a call may use holds garbage.

A failure names its seed. More programs: RANDOM_PROGRAMS=1000:200 runs 200 of them from seed 1000 on.
"""

from __future__ import annotations

import ctypes
import os

import jax
import jax.export
import numpy as np
import pytest
from random_jax_programs import Program

import stablehlo_py as shlo

SEEDS = 40
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "complex64": 2e-4, "bfloat16": 6e-2, "float16": 1e-2}


def seeds() -> range:
    first, _, count = os.environ.get("RANDOM_PROGRAMS", f"0:{SEEDS}").partition(":")
    return range(int(first), int(first) + int(count))


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference relative to the values' magnitude; whole numbers must agree."""
    if ours.dtype.kind in "iub":
        return 0.0 if np.array_equal(ours, theirs) else np.inf
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    size = np.abs(b[finite])
    return (
        float(np.max(np.abs(a[finite] - b[finite]) / (size + np.median(size) + 1e-3), initial=0.0))
        if size.size
        else 0.0
    )


def soiled(executable: shlo.Executable, results: tuple[np.ndarray, ...]) -> None:
    """Fill with ones what the next call will use: its arena, and the memory of results that are given up."""
    for result in results:
        ctypes.memset(result.__array_interface__["data"][0], 0xFF, result.nbytes)
    for frame in executable._loaded.code._frames.values():
        ctypes.memset(frame.arena.address, 0xFF, executable._program.arena_bytes)


@pytest.mark.parametrize("seed", seeds())
def test_random_program(seed: int) -> None:
    program = Program(seed)
    with jax.enable_x64(program.wide), jax.default_matmul_precision("highest"):
        function = jax.jit(program, keep_unused=True)
        specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.inputs]
        exported = jax.export.export(function)(*specs)
        expected = [np.asarray(each) for each in jax.tree_util.tree_leaves(function(*program.inputs))]
    random = np.random.default_rng(seed)
    options = {"opt_level": int(random.random() > 0.15), "target": random.choice([None, None, None, "avx2", "x86-64"])}
    threads = int(random.choice([1, 2, 3]))
    executable = shlo.compile(exported, options=shlo.Options(threads=threads, **options))
    results = [each.copy() for each in executable(*program.inputs)]
    assert len(results) == len(expected)
    for number, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert difference(ours, theirs) <= TOLERANCE.get(ours.dtype.name, 0.0), f"result {number}"
    soiled(executable, executable(*program.inputs))
    other = (
        shlo.compile(exported, options=shlo.Options(threads=threads % 3 + 1, **options))
        if program.large
        else executable
    )
    for number, (once, again) in enumerate(zip(results, other(*program.inputs), strict=True)):
        assert once.tobytes() == again.tobytes(), f"result {number} has other bits with other threads or other memory"
