"""Questions about shapes that decide on fusions: strided views, prefix broadcasts, how a reduction splits its
operand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stablehlo_py.passes.fusing.graph import Node


@dataclass(frozen=True)
class Split:
    """How a reduction sees its operand: `rows` results of `columns` elements each, adjacent in memory (`is_row`),
    or strided."""

    rows: int
    columns: int
    is_row: bool


def reduction_split(operand: tuple[int, ...], dimensions: tuple[int, ...]) -> Split:
    """The split of a reduction of `operand` over `dimensions`. Dimensions of size one fit anywhere."""
    reduced = {dimension for dimension in dimensions if operand[dimension] != 1}
    kept = [dimension for dimension, size in enumerate(operand) if size != 1 and dimension not in reduced]
    rows = math.prod(operand[dimension] for dimension in kept)
    columns = math.prod(operand[dimension] for dimension in reduced)
    return Split(rows, columns, not kept or not reduced or max(kept) < min(reduced))


def is_prefix_broadcast(node: Node, operand: tuple[int, ...]) -> bool:
    """True when a broadcast repeats every operand element over adjacent result elements: operand index = result
    index // repetitions."""
    mapped = [dimension for dimension, size in zip(node.attributes["dimensions"], operand, strict=True) if size != 1]
    used = set(mapped)
    leading = [dimension for dimension, size in enumerate(node.shape) if size != 1][: len(mapped)]
    return mapped == leading and len(used) == len(mapped)


def moves_minor_dimension(node: Node) -> bool:
    """True when a transpose changes which dimension is adjacent in memory."""
    permutation = node.attributes["permutation"]
    large = [position for position, size in enumerate(node.shape) if size != 1]
    if not large:
        return False
    sources = [permutation[position] for position in large]
    return sources[-1] != max(sources)


Strided = tuple[tuple[int, ...], tuple[int, ...]]  # sizes, strides in elements


def contiguous(shape: tuple[int, ...]) -> Strided:
    """A dense row-major tensor as sizes and strides."""
    strides = [1] * len(shape)
    for dimension in range(len(shape) - 2, -1, -1):
        strides[dimension] = strides[dimension + 1] * shape[dimension + 1]
    return shape, tuple(strides)


def apply_view(view: Strided, node: Node) -> Strided | None:
    """The sizes and strides after one more view op (reshape, transpose, slice, broadcast, convert); None when
    strides cannot say it."""
    sizes, strides = view
    if node.name == "transpose":
        permutation = node.attributes["permutation"]
        return node.shape, tuple(strides[dimension] for dimension in permutation)
    if node.name == "slice":
        return node.shape, tuple(
            stride * step for stride, step in zip(strides, node.attributes["strides"], strict=True)
        )
    if node.name == "broadcast":
        result = [0] * len(node.shape)
        for dimension, stride in zip(node.attributes["dimensions"], strides, strict=True):
            result[dimension] = stride
        return node.shape, tuple(result)
    if node.name == "reshape":
        return _reshape(sizes, strides, node.shape)
    return (node.shape, strides) if node.name == "convert" else None


def _reshape(sizes: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> Strided | None:
    """Reshape without a copy, as NumPy decides it: groups of source dimensions that split or merge with one stride.
    What is empty has no strides to keep."""
    if 0 in target:
        return None
    source = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    result: list[int] = []
    position = 0
    pending: list[tuple[int, int]] = []  # what is left of the current merged source group: one (size, stride)
    for size in target:
        if size == 1:
            result.append(0)
            continue
        if not pending:
            if position >= len(source):
                return None
            pending.append(source[position])
            position += 1
        group_size, group_stride = pending.pop()
        while group_size < size or group_size % size:
            if position >= len(source):
                return None
            next_size, next_stride = source[position]
            if group_stride != next_size * next_stride:
                return None
            group_size, group_stride = group_size * next_size, next_stride
            position += 1
        inner = group_size // size
        result.append(group_stride * inner)
        if inner > 1:
            pending.append((inner, group_stride))
    return target, tuple(result)
