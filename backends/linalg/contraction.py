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
    return f.each_element(tensor.sizes, of, [tensor], lambda x: convert(f, tensor.of, of, x))


@RULES.rule("hlo.dot")
def _dot(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    lhs, rhs = tensors
    sizes = static_shape(op.results[0])
    batch, contract = i64s(op, "lhs_batch"), i64s(op, "lhs_contract")
    rhs_batch, rhs_contract = i64s(op, "rhs_batch"), i64s(op, "rhs_contract")
    left = {d: f"d{n}" for n, d in enumerate(batch)} | {d: f"d{len(sizes) + n}" for n, d in enumerate(contract)}
    right = {d: f"d{n}" for n, d in enumerate(rhs_batch)} | {
        d: f"d{len(sizes) + n}" for n, d in enumerate(rhs_contract)
    }
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
    has_holes = any(
        window.base_dilation != 1 or window.reversed or min(window.low, window.high) < 0 for window in windows
    )
    if 0 in (*sizes, *tensors[0].sizes, *tensors[1].sizes):
        return [f.filled(constant(f, of, 0), sizes, of)]
    if has_holes or i64(op, "batch_groups") > 1:
        return at_index(f, op, tensors)
    lhs, rhs = tensors
    low, high = [0] * len(lhs.sizes), [0] * len(lhs.sizes)
    for window in windows:
        low[window.input], high[window.input] = int(window.low), int(window.high)
    lhs = padded(f, lhs, low, high, constant(f, lhs.of, 0))
    # Groups become a dimension of their own, before the features that they hold.
    names = iter([f"d{number}" for number in range(3 + 2 * len(windows) + (groups > 1))])
    batch = next(names)
    group = [next(names)] if groups > 1 else []
    feature, places, depth = next(names), [next(names) for _ in windows], next(names)
    taps = list(names)
    moved = [
        f"{place} * {window.stride} + {tap} * {window.dilation}"
        for place, tap, window in zip(places, taps, windows, strict=True)
    ]
    left = _map_of(input_dims, [[batch], [*group, depth], *([each] for each in moved)])
    right = _map_of(kernel_dims, [[depth], [*group, feature], *([each] for each in taps)])
    to = _map_of(output_dims, [[batch], [*group, feature], *([each] for each in places)])
    lhs = reshaped(f, lhs, _split(lhs.sizes, input_dims[1], groups))
    rhs = reshaped(f, rhs, _split(rhs.sizes, kernel_dims[1], groups))
    loops = "p" * (2 + len(group) + len(windows)) + "r" * (1 + len(windows))
    total = summed(f, of, _split(sizes, output_dims[1], groups), [(lhs, left), (rhs, right)], to, loops)
    return [reshaped(f, total, sizes)]


def _split(sizes: Sequence[int], dimension: int, groups: int) -> list[int]:
    """Sizes with a dimension parted into groups, where there are several."""
    parts = [groups, sizes[dimension] // groups] if groups > 1 else [sizes[dimension]]
    return [*sizes[:dimension], *parts, *sizes[dimension + 1 :]]


def _map_of(dims: Sequence[int], names: Sequence[Sequence[str]]) -> str:
    """The results of the map of a side: `names` are in the order in which `dims` has its dimensions."""
    found = dict(zip(dims, names, strict=True))
    return ", ".join(name for dimension in range(len(dims)) for name in found[dimension])
