"""What all products by Triton share. This text is a part of each kernel's source (product.py), where a kernel's own
functions follow: `left` and `right` give tiles of the operands, `finish` stores what becomes of the sums."""

import triton
import triton.language as tl


@triton.jit
def product(
    inputs,
    outputs,
    left,
    right,
    finish,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
    SUMS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A tile of the result. Programs whose numbers are neighbours share rows and columns, which are then in the cache:
    they go down GROUP tiles before they go across."""
    down: tl.constexpr = (ROWS + BLOCK_ROWS - 1) // BLOCK_ROWS
    across: tl.constexpr = (COLUMNS + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    batch = tl.program_id(0) // (down * across)
    number = tl.program_id(0) % (down * across)
    above = number // (GROUP * across) * GROUP
    height = tl.minimum(down - above, GROUP)
    inside = number % (GROUP * across)
    rows = (above + inside % height) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = inside // height * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), SUMS)
    for start in range(0, DEPTH, BLOCK_DEPTH):
        depths = start + tl.arange(0, BLOCK_DEPTH)
        a = left(inputs, batch, rows, depths)
        b = right(inputs, batch, depths, columns)
        sums = tl.dot(a, b, sums, input_precision=PRECISION, out_dtype=SUMS)
    finish(inputs, outputs, batch, rows, columns, sums)
