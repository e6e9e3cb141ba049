"""Convolutions of two arrays, as kernels and as jax.lax computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import element_type_of
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import func_dialect, ir


@dataclass(frozen=True)
class Case:
    """A convolution as jax.lax.conv_general_dilated describes it."""

    name: str
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    layout: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC")
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    lhs_dilation: tuple[int, ...] = (1, 1)
    rhs_dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    batch_groups: int = 1
    dtype: str = "f4"

    def reference(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        wide = "c16" if np.dtype(self.dtype).kind == "c" else "f8"
        with jax.enable_x64(True):
            result = jax.lax.conv_general_dilated(
                jnp.asarray(lhs.astype(wide)),
                jnp.asarray(rhs.astype(wide)),
                self.strides,
                self.padding,
                self.lhs_dilation,
                self.rhs_dilation,
                self.layout,
                self.groups,
                self.batch_groups,
                precision=jax.lax.Precision.HIGHEST,
            )
            return np.asarray(result)

    def attributes(self) -> dict[str, object]:
        lhs, rhs, out = self.layout
        spatial = [d for d in lhs if d not in "NC"]
        return {
            "strides": self.strides,
            "padding": [edge for edges in self.padding for edge in edges],
            "lhs_dilation": self.lhs_dilation,
            "rhs_dilation": self.rhs_dilation,
            "reversal": [0] * len(spatial),
            "input_dims": [lhs.index(d) for d in ["N", "C", *spatial]],
            "kernel_dims": [rhs.index(d) for d in ["I", "O", *spatial]],
            "output_dims": [out.index(d) for d in ["N", "C", *spatial]],
            "feature_groups": self.groups,
            "batch_groups": self.batch_groups,
        }


def fusion_text(
    case: Case,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int],
    epilogue: Callable[..., ir.Value] | None = None,
    result: str = "",
) -> str:
    """A fusion of kind convolution, whose result has elements of the type `result`, or of the first array's;
    `epilogue(result, *further inputs)` builds what follows."""
    context = make_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [build.tensor(array.shape, element_type_of(array.dtype, context)) for array in arrays]
        type_ = build.tensor(sizes, ir.Type.parse(result) if result else inputs[0].element_type)
        with ir.InsertionPoint(module.body):
            function = func_dialect.FuncOp("fusion_0", (inputs, []), visibility="private")
            function.attributes["hlo.fusion"] = ir.StringAttr.get("convolution")
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            value = build.value("convolution", type_, *block.arguments[:2], **case.attributes())
            value = epilogue(value, *list(block.arguments)[2:]) if epilogue else value
            func_dialect.ReturnOp([value])
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [value.type]))
        assert module.operation.verify()
        return str(module)
