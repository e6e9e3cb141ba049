"""Which ops of StableHLO have shapes that their operands' values decide."""

from __future__ import annotations

from collections.abc import Iterable

_PREFIXES = ("stablehlo.dynamic_", "stablehlo.real_dynamic_slice", "stablehlo.set_dimension_size")
_STATIC = frozenset({"stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"})


def any_dynamic(names: Iterable[str]) -> bool:
    """Whether one of these ops is a dynamic twin of a static one, or sets a size."""
    return any(name.startswith(_PREFIXES) and name not in _STATIC for name in names)
