"""What operations cost, and every threshold that fusion, scheduling and buffer assignment decide by.

The unit is one floating-point operation on one element ("flop"), which an op has in its record. The numbers order
decisions (recompute or store, fuse or not), they do not predict time.
"""

from __future__ import annotations

from stablehlo_py.dialect.ops import Record, Work

EXPENSIVE_FLOPS = 6  # from here on an op is never evaluated twice for the same element
DUPLICATE_FLOPS = 4  # flops on a path that may be recomputed in each consumer instead of stored once
CONSTANT_SUBTREE_FLOPS = 4  # same, for a subtree that reads no memory at all (masks from iotas)

GATHER_SAVES = 4  # a value is computed where it is gathered if at most one element in so many is

MAX_BODY_OPS = 256  # ops in one fusion: bounds code size and compile time
MAX_OUTPUTS = 8  # results of one fusion
MAX_EPILOGUE_INPUTS = 6  # result-sized inputs of a dot or convolution epilogue
MAX_EPILOGUE_STREAMS = 3  # result-sized inputs and outputs of an epilogue after a short contraction
COMPUTE_BOUND_CONTRACTION = 512  # from here on the product hides any epilogue's memory traffic
MAX_EPILOGUE_SEARCH = 64  # users looked at while an epilogue grows
MAX_CONCATENATE = 16  # operands up to which producers are fused into a concatenate
MAX_PATH_SEARCH = 400  # fusions visited before a path is assumed to exist

ONE_ROW_ELEMENTS = 1 << 16  # a row fusion with few rows cannot be split over threads: above this size it only reduces
FEW_ROWS = 8

TINY_ELEMENTS = 64  # values of a tiny fusion
TINY_COST = 256  # scalar operations of a tiny fusion, after unrolling
TINY_LOOP_COST = 3000  # vector instructions of one trip of a loop that becomes one kernel
TINY_LOOP_ELEMENTS = 256  # values of such a loop; bigger ones stay in memory
VECTOR_LANES = 16  # lanes that the two above count by


def flops_per_element(record: Record | None) -> int:
    """Flops for one result element of an elementwise or data-movement op; 0 if it only moves data, 1 if nothing is
    known."""
    if record is None:
        return 1
    return 0 if record.work in (Work.INDICES, Work.MOVES) else record.flops


def is_expensive(record: Record | None) -> bool:
    """True for ops that must not be evaluated more than once for an element; random reads count."""
    return record is not None and (record.random_access or record.flops >= EXPENSIVE_FLOPS)


def row_fusion_pays(rows: int, columns: int) -> bool:
    """May work on whole rows follow the reduction inside one fusion? Not when too few rows are left to share
    between threads."""
    return rows >= FEW_ROWS or rows * columns <= ONE_ROW_ELEMENTS
