"""`hlo.convolution` element by element: for every element of the result a loop over the window and the features.

Slow, and right for every window and any sizes: what is left where no contraction serves (kernels/convolution.py).
StableHLO spec, section convolution.
"""

from __future__ import annotations

from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import Value
from stablehlo_py.codegen.elemental.compute import loops, product
from stablehlo_py.codegen.elemental.core import RULES, Elemental
from stablehlo_py.codegen.elemental.shape import grid
from stablehlo_py.codegen.index import Affine, Delinearized, DryRun, add, both, delinearize, divmod_, scale
from stablehlo_py.codegen.types import Lanes, element, splat
from stablehlo_py.dialect.types import i64, i64s, shape
from stablehlo_py.dialect.window import Window, spatial_windows
from stablehlo_py.mlir import ir


@RULES.rule("convolution")
def _convolution(e: Elemental, op: ir.OpView, place: Delinearized) -> Lanes:
    """Sum over kernel places and input features; the input is zero outside and between its dilated elements."""
    f, of = e.f, element(op.results[0])
    lhs, rhs = op.operands[0], op.operands[1]
    kernel, result = shape(rhs), shape(op.results[0])
    input_dims, kernel_dims, output_dims = (i64s(op, f"{name}_dims") for name in ("input", "kernel", "output"))
    at = delinearize(f, place, result, e.lanes)
    batch, feature = at[output_dims[0]], at[output_dims[1]]
    features = kernel[kernel_dims[0]]
    first_feature = Affine(0)
    if i64(op, "feature_groups") > 1:
        group, _ = divmod_(f, feature, result[output_dims[1]] // i64(op, "feature_groups"), e.lanes)
        first_feature = scale(f, group, features)
    if i64(op, "batch_groups") > 1:
        group, _ = divmod_(f, feature, result[output_dims[1]] // i64(op, "batch_groups"), e.lanes)
        batch = add(f, batch, scale(f, group, result[output_dims[0]]))
    windows = spatial_windows(op)
    counts = [*(kernel[dimension] for dimension in kernel_dims[2:]), features]

    def part(moving: list[Affine], zero: Lanes, lanes: int) -> Lanes:
        *taps, depth = moving
        left = {input_dims[0]: batch, input_dims[1]: add(f, first_feature, depth)}
        right = {kernel_dims[0]: depth, kernel_dims[1]: feature}
        condition: Value | None = None
        outside = False
        for window, tap in zip(windows, taps, strict=True):
            index, holds = input_index(e, window, at[window.output], tap)
            safe, inside, _ = e.clamped(index, window.size)
            left[window.input] = safe
            right[window.kernel] = add(f, scale(f, tap, -1), window.width - 1) if window.reversed else tap
            outside = outside or inside is False
            condition = both(f, condition, holds)
            condition = both(f, condition, inside) if isinstance(inside, Value) else condition
        if outside:
            return zero

        def inner() -> Lanes:
            with e.predicated(condition):
                return product(e, of, ((lhs, left), (rhs, right)), lanes)

        return inner() if isinstance(f, DryRun) or condition is None else e.choose(condition, inner, lambda: zero)

    with e.summed(at) as lanes:
        zero = arith.identity(f, "add", of, lanes)
        total = loops(
            e, counts, zero, lambda moving, sum_: e.combine("add", of, sum_, splat(f, part(moving, zero, lanes), lanes))
        )
        return arith.rounded(f, of, total)


def input_index(e: Elemental, window: Window, output: Affine, tap: Affine) -> tuple[Affine, Value | None]:
    """The input element under a kernel place, maybe outside; the condition that there is one between holes."""
    f = e.f
    moved = add(f, scale(f, output, window.stride), scale(f, tap, window.dilation))
    moved = add(f, moved, -window.low)
    return grid(e, moved, window.base_dilation) if window.base_dilation != 1 else (moved, None)
