"""Products: hlo.dot as one linalg.generic; convolutions as one over a padded input, where the window moves over the
input without holes; else element by element."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.linalg.rules import RULES, at_index
from stablehlo_py.backends.linalg.shape import padded, reshaped
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction, accumulator, identity
from stablehlo_py.codegen import arith
from stablehlo_py.codegen.conversions import convert
from stablehlo_py.codegen.types import Element, Lanes, constant, element
from stablehlo_py.dialect.types import i64, i64s, static_shape
from stablehlo_py.dialect.window import spatial_windows
from stablehlo_py.mlir import ir


def summed(
    f: TensorFunction,
    of: Element,
    sizes: Sequence[int],
    sides: Sequence[tuple[Tensor, str]],
    to: str,
    loops: str,
) -> Tensor:
    """The sums of products of two tensors, of an element type that may differ from theirs."""
    wide = accumulator(of)
    zero = f.filled(constant(f, wide, 0), sizes, wide)

    def body(a: Lanes, b: Lanes, total: Lanes) -> list[Lanes]:
        factors = [convert(f, side.of, wide, value) for (side, _), value in zip(sides, (a, b), strict=True)]
        return [arith.combine(f, "add", wide, total, arith.combine(f, "multiply", wide, *factors))]

    (total,) = f.generic(sides, [(zero, to)], loops, body, reads_outputs=True)
    return narrowed(f, total, of)


def narrowed(f: TensorFunction, tensor: Tensor, of: Element) -> Tensor:
    """The result of a reduction, rounded to its own type."""
    if tensor.of == of:
        return tensor
    return f.each_element(tensor.sizes, of, [tensor], lambda x: convert(f, tensor.of, of, x))  # type: ignore[arg-type, return-value]


@RULES.rule("hlo.dot")
def _dot(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    lhs, rhs = tensors
    sizes, names = static_shape(op.results[0]), {}
    batch, contract = i64s(op, "lhs_batch"), i64s(op, "lhs_contract")
    rhs_batch, rhs_contract = i64s(op, "rhs_batch"), i64s(op, "rhs_contract")
    left = {d: f"d{n}" for n, d in enumerate(batch)} | {d: f"d{len(sizes) + n}" for n, d in enumerate(contract)}
    right = {d: f"d{n}" for n, d in enumerate(rhs_batch)} | {d: f"d{len(sizes) + n}" for n, d in enumerate(rhs_contract)}
    free = iter(range(len(batch), len(sizes)))
    for names, side in ((left, lhs), (right, rhs)):
        for dimension in range(len(side.sizes)):
            if dimension not in names:
                names[dimension] = f"d{next(free)}"
    sides = [(side, _map(names, len(side.sizes))) for side, names in ((lhs, left), (rhs, right))]
    loops = "p" * len(sizes) + "r" * len(contract)
    return [summed(f, element(op.results[0]), sizes, sides, identity(len(sizes)), loops)]


def _map(names: dict[int, str], rank: int) -> str:
    return ", ".join(names[dimension] for dimension in range(rank))


@RULES.rule("hlo.convolution")
def _convolution(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    windows, result, of = spatial_windows(op), op.results[0], element(op.results[0])
    input_dims, kernel_dims, output_dims = (i64s(op, f"{name}_dims") for name in ("input", "kernel", "output"))
    groups, sizes = i64(op, "feature_groups"), static_shape(result)
    has_holes = any(window.base_dilation != 1 or window.reversed or min(window.low, window.high) < 0 for window in windows)
    if has_holes or i64(op, "batch_groups") > 1 or 0 in sizes or 0 in (*tensors[0].sizes, *tensors[1].sizes):
        return at_index(f, op, tensors)
    lhs, rhs = tensors
    low, high = [0] * len(lhs.sizes), [0] * len(lhs.sizes)
    for window in windows:
        low[window.input], high[window.input] = int(window.low), int(window.high)
    lhs = padded(f, lhs, low, high, f.filled(constant(f, lhs.of, 0), (), lhs.of))
    # Groups become a dimension of their own, before the features that they hold.
    count = 3 + 2 * len(windows)  # batch, group, feature, places of the output; input feature, places of the window
    batch, group, feature, depth = "d0", "d1", "d2", f"d{3 + len(windows)}"
    places = [f"d{3 + number}" for number in range(len(windows))]
    taps = [f"d{4 + len(windows) + number}" for number in range(len(windows))]
    moved = [
        f"{place} * {window.stride} + {tap} * {window.dilation}"
        for place, tap, window in zip(places, taps, windows, strict=True)
    ]
    lhs, left = _grouped(f, lhs, input_dims, groups, [batch, depth, *moved], group)
    rhs, right = _grouped(f, rhs, (kernel_dims[1], kernel_dims[0], *kernel_dims[2:]), groups, None, "")
    names = dict(zip((kernel_dims[0], *kernel_dims[2:]), (depth, *taps), strict=True))
    right = ", ".join(
        names[dimension] if dimension in names else f"{group}, {feature}" for dimension in range(len(kernel_dims))
    )
    to_names = dict(zip((output_dims[0], *output_dims[2:]), (batch, *places), strict=True))
    to = ", ".join(
        to_names[dimension] if dimension in to_names else f"{group}, {feature}" for dimension in range(len(sizes))
    )
    loops = "p" * (3 + len(windows)) + "r" * (1 + len(windows))
    split = _split(sizes, output_dims[1], groups)
    assert count + 1 == len(loops)
    total = summed(f, of, split, [(lhs, left), (rhs, right)], to, loops)
    return [reshaped(f, total, sizes)]


def _split(sizes: Sequence[int], dimension: int, groups: int) -> list[int]:
    return [*sizes[:dimension], groups, sizes[dimension] // groups, *sizes[dimension + 1 :]]


def _grouped(
    f: TensorFunction, tensor: Tensor, dims: Sequence[int], groups: int, names: Sequence[str] | None, group: str
) -> tuple[Tensor, str]:
    """A side whose dimension of features, the second one that `dims` names (the first of the kernel's), is split."""
    if names is None:
        return reshaped(f, tensor, _split(tensor.sizes, dims[0], groups)), ""
    named = dict(zip(dims, names, strict=True))
    listed = [named[dimension] for dimension in range(len(dims))]
    listed[dims[1]] = f"{group}, {named[dims[1]]}"
    return reshaped(f, tensor, _split(tensor.sizes, dims[1], groups)), ", ".join(listed)
