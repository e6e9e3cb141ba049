"""Transpositions, pieces, padding and broadcasts: what moves elements without computing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from stablehlo_py.suite.operations.cases import (
    MILLION,
    Case,
    Maker,
    alike,
    bf16,
    case,
    enter,
    f32,
    i8,
    i32,
    scalar,
)


def _transposed(order: tuple[int, ...], x: Maker) -> Case:
    """A permutation of dimensions, whose result lies in memory in its order."""
    return case(
        lambda x: lax.optimization_barrier(x.transpose(order)),
        x,
        torch=lambda t, x: x.permute(order).contiguous(),
        numpy=lambda x: np.ascontiguousarray(x.transpose(order)),
    )


def _shuffled_pixels(_: Any, x: Any) -> Any:
    n, h, w, c = x.shape
    return x.reshape(n, h, w, 2, 2, c // 4).swapaxes(2, 3).reshape(n, 2 * h, 2 * w, c // 4)


TRANSPOSES = {
    "transpose-l1": _transposed((1, 0), f32(64, 64)),
    "transpose": _transposed((1, 0), f32(1024, 1024)),
    "transpose-dram": _transposed((1, 0), f32(4096, 4096)),
    "transpose-tall": _transposed((1, 0), f32(100_000, 10)),
    "transpose-bfloat16": _transposed((1, 0), bf16(1024, 1024)),
    "transpose-int8": _transposed((1, 0), i8(2048, 2048)),
    "rotate-dimensions": _transposed((2, 0, 1), f32(100, 100, 100)),
    "reverse-dimensions": _transposed((3, 2, 1, 0), f32(24, 40, 32, 32)),
    "batched-transpose": _transposed((0, 2, 1), f32(1000, 32, 32)),
    "split-heads": _transposed((0, 2, 1, 3), f32(8, 128, 12, 64)),
    "channels-first": _transposed((0, 3, 1, 2), f32(8, 56, 56, 64)),
    "channels-last": _transposed((0, 2, 3, 1), f32(8, 64, 56, 56)),
    "pixel-shuffle": alike(_shuffled_pixels, f32(1, 112, 112, 64)),
}

PIECES = {
    "reverse": case(
        lambda x: lax.rev(x, (1,)),
        f32(1000, 1000),
        torch=lambda t, x: t.flip(x, (1,)),
        numpy=lambda x: np.ascontiguousarray(x[:, ::-1]),
    ),
    "roll": alike(lambda m, x: m.roll(x, 17, 1), f32(1000, 1000)),
    "slice": case(
        lambda x: lax.slice(x, (100, 100), (900, 900)),
        f32(1000, 1000),
        torch=lambda t, x: x[100:900, 100:900].contiguous(),
        numpy=lambda x: np.ascontiguousarray(x[100:900, 100:900]),
    ),
    "strided-slice": case(
        lambda x: x[::2, ::3] + 0,
        f32(2000, 1500),
        torch=lambda t, x: x[::2, ::3].contiguous(),
        numpy=lambda x: np.ascontiguousarray(x[::2, ::3]),
    ),
    "pad": case(
        lambda x: jnp.pad(x, ((3, 3), (5, 5))),
        f32(1000, 1000),
        torch=lambda t, x: t.nn.functional.pad(x, (5, 5, 3, 3)),
        numpy=lambda x: np.pad(x, ((3, 3), (5, 5))),
    ),
    "pad-images": case(
        lambda x: jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))),
        f32(8, 56, 56, 64),
        torch=lambda t, x: t.nn.functional.pad(x, (0, 0, 1, 1, 1, 1)),
        numpy=lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))),
    ),
    "pad-between": case(lambda x: lax.pad(x, 0.0, ((0, 0, 1), (0, 0, 1))), f32(500, 500)),
    "reflect": case(
        lambda x: jnp.pad(x, ((0, 0), (8, 8)), mode="reflect"),
        f32(1000, 1000),
        torch=lambda t, x: t.nn.functional.pad(x, (8, 8), mode="reflect"),
        numpy=lambda x: np.pad(x, ((0, 0), (8, 8)), mode="reflect"),
    ),
    "concatenate": alike(lambda m, x, y: m.concatenate([x, y], 1), f32(1000, 500), f32(1000, 500)),
    "concatenate-rows": alike(lambda m, x, y: m.concatenate([x, y], 0), f32(500, 1000), f32(500, 1000)),
    "concatenate-64-narrow": alike(lambda m, *x: m.concatenate(x, 1), *[f32(1000, 3)] * 64),
    "concatenate-100-columns": alike(lambda m, *x: m.concatenate(x, 1), *[f32(10_000, 1)] * 100),
    "stack-128": alike(lambda m, *x: m.stack(x), *[f32(64, 64)] * 128),
    "sum-of-stack-128": alike(lambda m, *x: m.stack(x).sum(0), *[f32(32, 32)] * 128),
    "stack-12-computed": alike(
        lambda m, x: m.stack([m.sqrt(x * x + float(number)) for number in range(12)], -1), f32(10_000)
    ),
    "stack-last": alike(lambda m, *x: m.stack(x, -1), *[f32(100_000)] * 4),
    "tile": alike(lambda m, x: m.tile(x, (3, 3)), f32(400, 400)),
    "repeat": case(
        lambda x: jnp.repeat(x, 4, 1),
        f32(1000, 250),
        torch=lambda t, x: t.repeat_interleave(x, 4, 1),
        numpy=lambda x: np.repeat(x, 4, 1),
    ),
    "broadcast-rows": case(
        lambda x: jnp.broadcast_to(x, (4096, 4096)),
        f32(4096),
        torch=lambda t, x: x.expand(4096, 4096).contiguous(),
        numpy=lambda x: np.ascontiguousarray(np.broadcast_to(x, (4096, 4096))),
    ),
    "kron": alike("kron", f32(32, 32), f32(32, 32)),
    "triangle": alike("tril", f32(1000, 1000)),
    "diagonal": case(jnp.diag, f32(1000), torch="diag", numpy=np.diag),
    "one-hot": case(
        lambda i: nn.one_hot(i, 1000),
        i32(1000, 1000),
        torch=lambda t, i: (i[:, None] == t.arange(1000, dtype=t.int32)).float(),
        numpy=lambda i: (i[:, None] == np.arange(1000, dtype=np.int32)).astype(np.float32),
    ),
    "resize-nearest": case(
        lambda x: jax.image.resize(x, (1, 448, 448, 16), "nearest"),
        f32(1, 224, 224, 16),
        torch=lambda t, x: (
            t.nn.functional.interpolate(x.permute(0, 3, 1, 2), scale_factor=2).permute(0, 2, 3, 1).contiguous()
        ),
    ),
    "resize-bilinear": case(
        lambda x: jax.image.resize(x, (1, 448, 448, 3), "bilinear"),
        f32(1, 224, 224, 3),
        torch=lambda t, x: (
            t.nn.functional.interpolate(x.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear")
            .permute(0, 2, 3, 1)
            .contiguous()
        ),
    ),
    "dynamic-update-slice": case(
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, jnp.int32(0))),
        f32(1000, 1000),
        f32(10, 1000),
        scalar(5),
    ),
    "copy-dram": case(lambda x: jnp.negative(x), f32(16 * MILLION), torch="neg", numpy=np.negative),
}

enter("movement", TRANSPOSES | PIECES)
