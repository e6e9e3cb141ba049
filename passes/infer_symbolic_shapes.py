"""Give every dynamic dimension its size, as an expression over the dimensions of the arguments.

Before::

    func.func @main(%n: tensor<i64>, %x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x6xf32> {
      ...                                                         // arithmetic on %n gives %shape
      %4 = stablehlo.dynamic_reshape %x, %shape : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<1x?x3xf32>

After::

    func.func @main(%n: tensor<i64>, %x: tensor<?x3xf32, "d1_0, 3">, %y: tensor<?x3xf32, "d1_0, 3">) -> ...
      %4 = stablehlo.dynamic_reshape %x, %shape : ... -> tensor<1x?x3xf32, "1, d1_0, 3">

`d1_0` is dimension 0 of argument 1, `v0_0` element 0 of argument 0, integers (`x0_0` where it is no dimension).
Operands that must have one shape give equations, and so do shape assertions. They are solved for symbols
(`x0_0 = d1_0`, `d2_0 = d1_0`): until none is new, the walk is repeated.

What a call has to check is listed in `hlo.checks` of the module (see `Check`); shape assertions move there. Operands of
dynamic ops whose values are known become `hlo.const_size`, a constant of sizes. Static modules stay as they are.
Relies on `inline`. docs/dynamic-shapes.md has the design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import CHECKS
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.census import Contents
from stablehlo_py.dialect.dynamic import has_dynamic_shapes, is_dynamic, is_symbolic
from stablehlo_py.dialect.forms import takes_sizes
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.symbolic.checks import attribute_of
from stablehlo_py.passes.symbolic.specialize import make_static
from stablehlo_py.passes.symbolic.walk import walked
from stablehlo_py.passmanager.base import Pass


@dataclass(frozen=True)
class InferSymbolicShapes(Pass):
    """Give every dynamic dimension its size, as an expression over the dimensions of the arguments."""

    name: ClassVar[str] = "infer-symbolic-shapes"
    required: ClassVar[bool] = True

    def concerns(self, contents: Contents) -> bool:
        return any(map(takes_sizes, contents.names)) or any(map(is_dynamic, contents.types))

    def run(self, module: ir.Module) -> bool:
        """Rewrite the types of `@main`.

        Raises:
            UnsupportedError: sizes that depend on data, or that are not known to agree; all are named.
        """
        if not is_symbolic(module):
            found = has_dynamic_shapes(module)
            if found:
                make_static(module)
            return found
        walk = walked(main_function(module).operation)
        problems = [*walk.problems, *walk.failed()]
        if problems:
            raise UnsupportedError("one program for all shapes cannot be made", problems=problems)
        checks = ir.ArrayAttr.get([attribute_of(check) for check in walk.checks()])
        walk.apply()
        module.operation.attributes[CHECKS] = checks
        return True
