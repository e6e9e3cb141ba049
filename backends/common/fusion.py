"""Fusions as kernel templates read them."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.dialect.attributes import FUSION, INPLACE
from stablehlo_py.dialect.types import user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Fusion:
    """A fusion to generate code for: a private function of pure hlo ops.

    `inputs` are its block arguments, `outputs` the operands of its return; `ops` everything between, in order.
    """

    name: str
    kind: str
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]
    ops: tuple[ir.OpView, ...]
    attributes: dict[str, ir.Attribute]
    sizes: SizeTable | None = None  # of a program with dynamic dimensions

    @classmethod
    def read(cls, function: ir.OpView, sizes: SizeTable | None = None) -> Fusion:
        """Of a fusion function."""
        block = function.regions[0].blocks[0]
        *ops, terminator = block.operations
        return cls(
            name=function.attributes["sym_name"].value,
            kind=function.attributes[FUSION].value,
            inputs=tuple(block.arguments),
            outputs=tuple(terminator.operands),
            ops=tuple(ops),
            attributes={name: function.attributes[name] for name in function.attributes},
            sizes=sizes,
        )

    def op(self, *names: str) -> ir.OpView:
        """The one op that a fusion of a single op is about, of one of these names."""
        return next(op for op in self.ops if op.operation.name in names)

    def number(self, value: ir.Value) -> int:
        """Which input a value is. Raises UnsupportedError: it is none."""
        if value not in self.inputs:
            location = user_location(value.location)
            raise UnsupportedError(f"an operand of a '{self.kind}' kernel is not an input of it", location=location)
        return self.inputs.index(value)

    @property
    def inplace(self) -> set[tuple[int, int]]:
        """(input, output) pairs that share memory."""
        numbers = tuple(self.attributes[INPLACE]) if self.aliased else ()
        return set(zip(numbers[::2], numbers[1::2], strict=True))

    @property
    def aliased(self) -> bool:
        """Whether an output shares memory with an input."""
        return INPLACE in self.attributes


def fusions(module: ir.Module) -> list[ir.OpView]:
    """The fusion functions of a module."""
    return [function for function in module.body.operations if FUSION in function.attributes]
