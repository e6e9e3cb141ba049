"""What GPUs decide for the passes: one policy for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from stablehlo_py.backends.gpu.libraries.factorizations import takes
from stablehlo_py.mlir import ir
from stablehlo_py.options import CUSOLVER
from stablehlo_py.passes.buffers import inplace
from stablehlo_py.passes.policy import Blocking, Costs, EpilogueLimits, FusionPolicy

COSTS = Costs(
    expensive_flops=20,
    duplicate_flops=10,  # arithmetic is cheap, memory is not
    constant_subtree_flops=16,
    index_flops=8,
    small_elements=1 << 16,
    gather_saves=1,
    parallel_rows=64,
    shared_row=1 << 14,  # kernels/row.py
    serial_elements=1 << 12,
)

FUSION = FusionPolicy(
    kinds=frozenset(("attention", "scores", "loop", "row", "column", "in_place_update")),
    transposing=frozenset(("loop",)),
    body_ops=128,
    outputs=8,
    concatenated=8,
    alternating=8,
    small_siblings=1 << 18,
    operand_views=frozenset(("broadcast", "convert", "reshape", "reverse", "slice", "transpose")),
    # Arithmetic hides what an epilogue reads: it is read once, where the products are read many times.
    epilogue=EpilogueLimits(inputs=6, streams=6, long_contraction=0, transposes=False),
    immediates={
        "reduce_general": lambda operands: operands // 2,
        "reduce_window": lambda operands: operands // 2,
        "reduce_window_general": lambda operands: operands // 2,
        "select_and_scatter": lambda operands: 2,
    },
    constant_operands=frozenset(("scatter",)),
    in_place={
        "loop": inplace.element_by_element,
        "scatter": inplace.overwritten,
        "in_place_update": inplace.updated,
    },
)


def _is_for(library: str, op: ir.Operation) -> bool:
    return library == CUSOLVER and takes(op)


# One block of threads has a matrix, or some right-hand sides; products of what lies beside it keep all blocks busy. A
# block of f32 fits in shared memory on NVIDIA's machines. With few right-hand sides, blocks only add kernels to start.
BLOCKING = Blocking(rows=128, fewest_sides=32, is_for=_is_for)


@dataclass(frozen=True)
class OneBlock:
    """When a loop is one kernel of one block of threads (loops.py): where its trips take less time so than the host
    takes to start their kernels. The numbers are estimates for one of the 100 or so parts of a machine.

    Attributes:
        threads: of the block, at most.
        kernels: that the loop would start, in its text: they bound code size and compile time.
        launch, wait: seconds that the host takes for a kernel, and for a number that it needs from the device.
        phase: seconds between two barriers, at least.
        bandwidth, rate: bytes and operations in a second of a block; serial_rate: operations of a thread by itself.
        longest: seconds that a kernel may take; then the host starts it again, and the loop goes on. Until then nobody
            can end it, and a display waits.
    """

    threads: int = 512
    kernels: int = 64
    launch: float = 3e-6
    wait: float = 1e-5
    phase: float = 3e-7
    bandwidth: float = 3e10
    rate: float = 5e10
    serial_rate: float = 2e8
    longest: float = 0.05


ONE_BLOCK = OneBlock()
