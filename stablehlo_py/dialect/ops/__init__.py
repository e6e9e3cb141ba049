"""The ops that the compiler has after legalization, one record each: the hlo dialect, and the StableHLO ops that stay.

One file a family. docs/hlo-dialect.md is generated from them, docs/adding-an-op.md says how to add one. Names and
semantics follow the StableHLO specification (github.com/openxla/stablehlo, docs/spec.md); the dialect is smaller than
StableHLO and in normal form (docs/architecture.md). Array attributes are `array<i64: ...>`, integers `i64`, names
strings. Verifiers report at the user's location.
"""

# isort: off
# The order is that of docs/hlo-dialect.md; reductions combine by elementwise ops.
from stablehlo_py.dialect.ops import (  # noqa: F401 - they fill the table of records
    elementwise,
    conversion,
    shape,
    indexing,
    contraction,
    reduction,
    algorithms,
    collectives,
    grid,
    kept,
)

# isort: on
from stablehlo_py.dialect.ops.conversion import COMPARISONS, SWAPPED
from stablehlo_py.dialect.ops.record import Effects, Hlo, Identity, Record, Rounds, Work, record_of, records
from stablehlo_py.dialect.ops.reduction import REDUCTION_KINDS, combiner

__all__ = [
    "COMPARISONS",
    "Effects",
    "Hlo",
    "Identity",
    "REDUCTION_KINDS",
    "Record",
    "Rounds",
    "SWAPPED",
    "Work",
    "combiner",
    "record_of",
    "records",
]
