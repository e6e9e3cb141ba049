"""Shardings are forgotten: what is left is a program for one device, or for one process of a grid.

Before::

    %0 = "hlo.dot"(%x, %y) {hlo.sharding = ["#sdy.sharding<@mesh, [{}, {}]>"], ...} : ...
    %1 = "hlo.sharding_constraint"(%0) {hlo.sharding = ["#sdy.sharding<@other, [{}, {}]>"]} : ...

After::

    %0 = "hlo.dot"(%x, %y) {...} : ...

So kernels are those of the program without shardings. Arguments and results of functions keep theirs: they say what the
callers have. A backend that partitions programs leaves the pass out (docs/sharding.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import SHARDING, SHARDING_RULE
from stablehlo_py.dialect.edit import replace_op
from stablehlo_py.dialect.sharding import CONSTRAINT, is_sharded
from stablehlo_py.dialect.types import operations
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass


@dataclass(frozen=True)
class DropShardings(Pass):
    """Forget the shardings of ops."""

    name: ClassVar[str] = "drop-shardings"
    required: ClassVar[bool] = True

    def run(self, module: ir.Module) -> bool:
        """Nothing to do for a module without any."""
        if not is_sharded(module):
            return False
        for op in operations(module.operation):
            if op.name == CONSTRAINT:
                replace_op(op, op.operands)
                continue
            for name in (SHARDING, SHARDING_RULE):
                if name in op.attributes:
                    del op.attributes[name]
        return True
