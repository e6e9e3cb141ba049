"""What operations cost, and every threshold that fusion, scheduling and buffer assignment decide by.

The unit is one floating-point operation on one element ("flop"); transcendental functions count as the number of
instructions that their vector expansion takes. The numbers order decisions (recompute or store, fuse or not), they
do not predict time.
"""

from __future__ import annotations

#: Flops for one element of ops that are more than one instruction. Everything elementwise that is not here costs 1.
FLOPS: dict[str, int] = {
    "acos": 80,
    "acosh": 80,
    "asin": 80,
    "asinh": 80,
    "atan2": 40,
    "atanh": 80,
    "bessel_i1e": 100,
    "cbrt": 30,
    "cosh": 60,
    "cosine": 30,
    "count_leading_zeros": 2,
    "divide": 6,
    "digamma": 400,
    "erf": 30,
    "erf_inv": 60,
    "erfc": 100,
    "exponential": 14,
    "exponential_minus_one": 18,
    "lgamma": 400,
    "log": 16,
    "log_plus_one": 20,
    "logistic": 20,
    "popcnt": 2,
    "power": 40,
    "reduce_precision": 3,
    "remainder": 12,
    "round_nearest_afz": 2,
    "rsqrt": 6,
    "sine": 30,
    "sinh": 80,
    "sqrt": 6,
    "tan": 40,
    "tanh": 18,
    "zeta": 2000,
}

#: Elementwise ops: one result element needs one element, at the same index, of every operand.
ELEMENTWISE = frozenset(
    """abs acos acosh add and asin asinh atan2 atanh bessel_i1e bitcast_convert cbrt ceil compare complex convert copy
    cosh cosine count_leading_zeros digamma divide erf erf_inv erfc exponential exponential_minus_one floor imag
    is_finite lgamma log log_plus_one logistic maximum minimum multiply negate not or popcnt power real
    reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select shift_left shift_right_arithmetic
    shift_right_logical sign sine sinh sqrt subtract tan tanh xor zeta""".split()
)
#: Ops that compute nothing: index arithmetic alone. They are cloned into every fusion that uses them.
FREE = frozenset(("broadcast", "constant", "iota", "reshape", "size", "slice"))
#: Ops that move elements; fused like elementwise ops, but their operands are read at other indices.
MOVES = frozenset(("concatenate", "dynamic_slice", "gather", "pad", "reverse", "transpose"))

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

ALIGNMENT = 64  # of every slice in the arena


def flops_per_element(name: str) -> int:
    """Flops for one result element of an elementwise or data-movement op, by its name without the dialect; 0 if it
    only moves data."""
    if name in FREE or name in MOVES:
        return 0
    return FLOPS.get(name, 1)


def is_expensive(name: str) -> bool:
    """True for ops that must not be evaluated more than once for an element. Gathers count: their reads are random."""
    return name == "gather" or FLOPS.get(name, 1) >= EXPENSIVE_FLOPS


def row_fusion_pays(rows: int, columns: int) -> bool:
    """May work on whole rows follow the reduction inside one fusion? Not when too few rows are left to share
    between threads."""
    return rows >= FEW_ROWS or rows * columns <= ONE_ROW_ELEMENTS
