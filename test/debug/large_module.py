"""A module of about a thousand ops, one pair of which meets the planted rule (`planted/rule.py`)."""

from __future__ import annotations

import numpy as np

UNARY = ("tanh", "abs", "cosine", "logistic", "sine")
BINARY = ("add", "multiply", "maximum", "subtract", "minimum")


def large_module(ops: int = 1000, seed: int = 0) -> str:
    """Text of a module that takes two 4x6 floats: elementwise chains, reductions and transposes. `abs` keeps negated
    values out of subtractions but for one in the middle."""
    random = np.random.default_rng(seed)
    lines, values, made = [], ["%x", "%y"], 0

    def emit(text: str) -> str:
        nonlocal made
        made += 1
        lines.append(f"  %{made} = {text}")
        return f"%{made}"

    zero = emit("stablehlo.constant dense<0.0> : tensor<f32>")
    matrix = "tensor<4x6xf32>"
    while made < ops:
        first, second = (values[-int(random.integers(1, min(12, len(values)) + 1))] for _ in range(2))
        if made >= ops // 2 and "%bug" not in values:
            lines.append(f"  %neg = stablehlo.negate {first} : {matrix}")
            lines.append(f"  %bug = stablehlo.subtract {second}, %neg : {matrix}")
            values.append("%bug")
            made += 2
        kind = random.random()
        if kind < 0.35:
            values.append(emit(f"stablehlo.{random.choice(UNARY)} {first} : {matrix}"))
        elif kind < 0.8:
            combined = emit(f"stablehlo.{random.choice(BINARY)} {first}, {second} : {matrix}")
            values.append(emit(f"stablehlo.tanh {combined} : {matrix}"))
        elif kind < 0.9:
            turned = emit(f"stablehlo.transpose {first}, dims = [1, 0] : ({matrix}) -> tensor<6x4xf32>")
            values.append(emit(f"stablehlo.reshape {turned} : (tensor<6x4xf32>) -> {matrix}"))
        else:
            row = emit(
                f"stablehlo.reduce({first} init: {zero}) applies stablehlo.add across dimensions = [1] : "
                f"({matrix}, tensor<f32>) -> tensor<4xf32>"
            )
            values.append(emit(f"stablehlo.broadcast_in_dim {row}, dims = [0] : (tensor<4xf32>) -> {matrix}"))
    results = [*values[-2:], emit(f"stablehlo.add {values[-1]}, %bug : {matrix}")]
    body = "\n".join(lines)
    returned = f"  return {', '.join(results)} : {', '.join([matrix] * 3)}"
    types = ", ".join([matrix] * 3)
    return f"func.func @main(%x: {matrix}, %y: {matrix}) -> ({types}) {{\n{body}\n{returned}\n}}\n"
