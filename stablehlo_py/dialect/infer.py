"""Result shapes of hlo ops as functions of sizes and attributes, without IR. Sections of the StableHLO spec give the
formulas."""

from __future__ import annotations

from collections.abc import Sequence

Sizes = Sequence[int]


def slice_shape(start: Sizes, limit: Sizes, strides: Sizes) -> tuple[int, ...]:
    """Elements `start + i * strides < limit` per dimension."""
    return tuple(-(-(high - low) // step) for low, high, step in zip(start, limit, strides, strict=True))


def pad_shape(sizes: Sizes, low: Sizes, high: Sizes, interior: Sizes) -> tuple[int, ...]:
    """Sizes after padding at the edges and between elements."""
    edges = zip(sizes, low, high, interior, strict=True)
    return tuple(first + last + size + max(size - 1, 0) * inner for size, first, last, inner in edges)


def dilated(size: int, dilation: int) -> int:
    """Size with `dilation - 1` holes between elements."""
    return (size - 1) * dilation + 1 if size else 0


def window_shape(
    sizes: Sizes, window: Sizes, strides: Sizes, padding: Sizes, base_dilation: Sizes, window_dilation: Sizes
) -> tuple[int, ...]:
    """Number of window positions per dimension (spec, section reduce_window). `padding` is low, high per dimension."""
    result = []
    for i, size in enumerate(sizes):
        padded = dilated(size, base_dilation[i]) + padding[2 * i] + padding[2 * i + 1]
        reach = dilated(window[i], window_dilation[i])
        result.append(0 if padded <= 0 or reach > padded else (padded - reach) // strides[i] + 1)
    return tuple(result)


def dot_shape(lhs: Sizes, rhs: Sizes, batch: tuple[Sizes, Sizes], contract: tuple[Sizes, Sizes]) -> tuple[int, ...]:
    """Batch dimensions, free dimensions of lhs, free dimensions of rhs."""
    sizes = [lhs[dimension] for dimension in batch[0]]
    sizes += [size for i, size in enumerate(lhs) if i not in (*batch[0], *contract[0])]
    sizes += [size for i, size in enumerate(rhs) if i not in (*batch[1], *contract[1])]
    return tuple(sizes)


def convolution_shape(
    lhs: Sizes,
    rhs: Sizes,
    dims: tuple[Sizes, Sizes, Sizes],
    batch_groups: int,
    window: tuple[Sizes, Sizes, Sizes, Sizes],
) -> tuple[int, ...]:
    """Result sizes. `dims` are the input, kernel and output dimensions; `window` is strides, padding, lhs and rhs
    dilation."""
    inputs, kernel, outputs = dims
    strides, padding, lhs_dilation, rhs_dilation = window
    result = [0] * len(outputs)
    result[outputs[0]] = lhs[inputs[0]] // batch_groups
    result[outputs[1]] = rhs[kernel[1]]
    spatial = window_shape(
        [lhs[i] for i in inputs[2:]], [rhs[i] for i in kernel[2:]], strides, padding, lhs_dilation, rhs_dilation
    )
    for dimension, size in zip(outputs[2:], spatial, strict=True):
        result[dimension] = size
    return tuple(result)


def gather_shape(
    indices: Sizes, slice_sizes: Sizes, offset_dims: Sizes, dropped: Sizes, index_vector_dim: int
) -> tuple[int, ...]:
    """Result sizes; `dropped` are the collapsed and the batching dimensions of the operand."""
    batch = [size for i, size in enumerate(indices) if i != index_vector_dim]
    offsets = [size for i, size in enumerate(slice_sizes) if i not in dropped]
    rank = len(batch) + len(offsets)
    batches, inner = iter(batch), iter(offsets)
    return tuple(next(inner) if i in offset_dims else next(batches) for i in range(rank))


def fft_operand_sizes(kind: str, length: Sizes) -> tuple[int, ...]:
    """Sizes of the dimensions that a transform takes (spec, section fft, C4 to C6): the half for an IRFFT."""
    if kind == "IRFFT" and length[-1]:
        return (*length[:-1], length[-1] // 2 + 1)
    return tuple(length)


def fft_shape(sizes: Sizes, kind: str, length: Sizes) -> tuple[int, ...]:
    """Real transforms change the last dimension: RFFT to the half that determines the rest, IRFFT back."""
    if kind == "RFFT" and sizes[-1]:
        return (*sizes[:-1], length[-1] // 2 + 1)
    return (*sizes[:-1], length[-1]) if kind == "IRFFT" else tuple(sizes)
