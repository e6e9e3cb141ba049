"""Where a StableHLO module leaves sizes open: ops whose operands' values decide shapes, and types that say nothing."""

from __future__ import annotations

from collections.abc import Iterable

from stablehlo_py.dialect.types import is_tensor, operations
from stablehlo_py.mlir import ir

_PREFIXES = ("stablehlo.dynamic_", "stablehlo.real_dynamic_slice", "stablehlo.set_dimension_size")
_STATIC = frozenset({"stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"})


def any_dynamic(names: Iterable[str]) -> bool:
    """Whether one of these ops is a dynamic twin of a static one, or sets a size."""
    return any(name.startswith(_PREFIXES) and name not in _STATIC for name in names)


def open_types(module: ir.Module) -> list[ir.RankedTensorType]:
    """The types of results that have a dynamic dimension."""
    types = (result.type for op in operations(module.operation) for result in op.results if is_tensor(result))
    return [type_ for type_ in types if not type_.has_static_shape]
