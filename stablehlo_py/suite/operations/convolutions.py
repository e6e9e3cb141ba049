"""Convolutions of one, two and three dimensions, their gradients and transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import scipy.signal
from jax import lax

from stablehlo_py.suite.operations.cases import Case, Maker, bf16, case, enter, f32, i8

KERNELS = {"NHWC": "HWIO", "NHC": "HIO", "NDHWC": "DHWIO", "NCHW": "OIHW", "NCH": "OIH"}


def _jax(dimensions: str = "NHWC", stride: int = 1, groups: int = 1, dilation: int = 1, **options: Any) -> Any:
    numbers = (dimensions, KERNELS[dimensions], dimensions)
    steps, holes = ((count,) * (len(dimensions) - 2) for count in (stride, dilation))
    options |= {"rhs_dilation": holes, "dimension_numbers": numbers, "feature_group_count": groups}
    return lambda x, w: lax.conv_general_dilated(x, w, steps, "SAME", **options)


def _torch(dimensions: str = "NHWC", stride: int = 1, groups: int = 1, dilation: int = 1) -> Callable[..., Any]:
    """The same by PyTorch, on views of the same arrays."""
    space = [each for each in dimensions if each not in "NC"]
    into, kernel = ([names.index(each) for each in ends + "".join(space)] for names, ends in (
        (dimensions, "NC"), (KERNELS[dimensions], "OI")))  # fmt: skip
    back = [("NC" + "".join(space)).index(each) for each in dimensions]

    def convolve(t: Any, x: Any, w: Any) -> Any:
        x, w = x.permute(into), w.permute(kernel)
        sides: list[int] = []
        for size, window in zip(reversed(x.shape[2:]), reversed(w.shape[2:]), strict=True):
            all_ = max(0, (-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size)
            sides += [all_ // 2, all_ - all_ // 2]
        padding: Any = sides[-2::-2]
        if sides[::2] != sides[1::2]:
            x, padding = t.nn.functional.pad(x, sides), 0
        function = getattr(t.nn.functional, f"conv{len(space)}d")
        y = function(x, w, None, stride, padding, dilation, groups)
        return y.permute(back).contiguous()

    return convolve


def _both(x: Maker, w: Maker, tolerance: float = 1e-3, **facts: Any) -> Case:
    return case(_jax(**facts), x, w, torch=_torch(**facts), tolerance=tolerance)


def _transposed(stride: int, x: Maker, w: Maker) -> Case:
    """PyTorch has the kernel the other way round, and pads what the result loses."""

    def by_torch(t: Any, x: Any, w: Any) -> Any:
        space = w.ndim - 2
        order = [space, space + 1, *range(space)]
        flipped = w.flip(tuple(range(space))).permute(order)
        function = getattr(t.nn.functional, f"conv_transpose{space}d")
        y = function(x.movedim(-1, 1), flipped, None, stride, (w.shape[0] - stride) // 2)
        return y.movedim(1, -1).contiguous()

    return case(lambda x, w: lax.conv_transpose(x, w, (stride,) * (x.ndim - 2), "SAME"), x, w, torch=by_torch)


def _gradient(number: int) -> Callable[..., Any]:
    return jax.grad(lambda *arguments: (_jax()(*arguments) ** 2).mean(), number)


def _torch_gradient(number: int) -> Callable[..., Any]:
    return lambda t, x, w: t.func.grad(lambda *arguments: (_torch()(t, *arguments) ** 2).mean(), number)(
        x, w
    ).contiguous()


FORWARD = {
    "1x1": _both(f32(1, 56, 56, 64), f32(1, 1, 64, 256)),
    "1x1-strided": _both(f32(1, 56, 56, 256), f32(1, 1, 256, 512, scale=0.1), stride=2),
    "1x1-7x7": _both(f32(1, 7, 7, 512), f32(1, 1, 512, 2048, scale=0.1)),
    "1x1-bf16": _both(bf16(1, 56, 56, 64), bf16(1, 1, 64, 256, scale=0.1), 3e-2),
    "3x3": _both(f32(1, 56, 56, 64), f32(3, 3, 64, 64)),
    "3x3-14x14": _both(f32(1, 14, 14, 256), f32(3, 3, 256, 256)),
    "3x3-7x7": _both(f32(1, 7, 7, 512), f32(3, 3, 512, 512)),
    "3x3-strided": _both(f32(1, 56, 56, 64), f32(3, 3, 64, 128), stride=2),
    "3x3-of-images": _both(f32(4, 112, 112, 3), f32(3, 3, 3, 32)),
    "3x3-bf16": _both(bf16(1, 56, 56, 64), bf16(3, 3, 64, 64, scale=0.1), 3e-2),
    "3x3-channels-first": _both(f32(1, 64, 56, 56), f32(64, 64, 3, 3), dimensions="NCHW"),
    "3x3-int8": case(
        _jax(preferred_element_type=jnp.int32), i8(1, 28, 28, 64), i8(3, 3, 64, 64)
    ),  # PyTorch's are of its quantized types
    "5x5": _both(f32(1, 28, 28, 32), f32(5, 5, 32, 64)),
    "7x7-strided": _both(f32(1, 224, 224, 3), f32(7, 7, 3, 64), stride=2),
    "16x16-patches": _both(f32(1, 224, 224, 3), f32(16, 16, 3, 768), stride=16),
    "dilated": _both(f32(1, 56, 56, 64), f32(3, 3, 64, 64), dilation=2),
    "groups": _both(f32(1, 56, 56, 64), f32(3, 3, 16, 64), groups=4),
    "depthwise": _both(f32(1, 112, 112, 32), f32(3, 3, 1, 32), groups=32),
    "depthwise-strided": _both(f32(1, 112, 112, 96), f32(3, 3, 1, 96), groups=96, stride=2),
    "depthwise-5x5": _both(f32(1, 28, 28, 240), f32(5, 5, 1, 240), groups=240),
    "depthwise-7x7": _both(f32(1, 56, 56, 96), f32(7, 7, 1, 96), groups=96),
    "depthwise-channels-first": _both(f32(1, 32, 112, 112), f32(32, 1, 3, 3), dimensions="NCHW", groups=32),
    "1d": _both(f32(4, 1000, 64), f32(7, 64, 64), dimensions="NHC"),
    "1d-dilated": _both(f32(1, 4000, 64), f32(2, 64, 64), dimensions="NHC", dilation=16),
    "1d-window-of-501": case(
        _jax(dimensions="NCH"),
        f32(1, 1, 100_000),
        f32(1, 1, 501, scale=0.1),
        torch=_torch(dimensions="NCH"),
        numpy=lambda x, w: scipy.signal.oaconvolve(x, w[:, :, ::-1], mode="same", axes=2),
        tolerance=1e-3,
    ),
    "3d": _both(f32(1, 16, 32, 32, 16), f32(3, 3, 3, 16, 16), dimensions="NDHWC"),
    "direct-2d-filter": case(
        _jax(),
        f32(1, 512, 512, 1),
        f32(5, 5, 1, 1),
        torch=_torch(),
        numpy=lambda x, w: scipy.signal.correlate2d(x[0, :, :, 0], w[:, :, 0, 0], "same")[None, :, :, None],
        tolerance=1e-3,
    ),
}

BACKWARD = {
    "transposed": _transposed(2, f32(1, 56, 56, 64), f32(4, 4, 64, 32)),
    "transposed-stride-256": _transposed(256, f32(1, 128, 64), f32(512, 64, 32)),
    "weights-gradient": case(_gradient(1), f32(4, 56, 56, 32), f32(3, 3, 32, 32, scale=0.1), torch=_torch_gradient(1)),
    "weights-gradient-14x14": case(
        _gradient(1), f32(8, 14, 14, 128), f32(3, 3, 128, 128, scale=0.1), torch=_torch_gradient(1)
    ),
    "input-gradient": case(_gradient(0), f32(4, 56, 56, 32), f32(3, 3, 32, 32, scale=0.1), torch=_torch_gradient(0)),
}

enter("convolution", FORWARD | BACKWARD)
