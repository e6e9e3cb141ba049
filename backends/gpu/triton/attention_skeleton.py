"""What all attention kernels by Triton share (flash attention: kernels/attention.py says what it is). This text is a
part of each kernel's source (attention.py), where a kernel's own functions follow: `queries`, `keys` and `values` give
tiles of the operands, `score` what becomes of their products, `weigh` what a score adds to the sum and with which
weight its value counts, `finish` stores what becomes of a row's sums."""

import triton
import triton.language as tl


@triton.jit
def exponential(x, EXACT: tl.constexpr):
    """Of a score below the largest one: a power of 2 by the machine's estimate. Where EXACT says so, what rounding the
    exponent loses is put back: the rest of x times log2(e), from parts whose products are exact."""
    scaled = x * 1.44269502162933349609375
    found = tl.exp2(scaled)
    if EXACT:
        first = x.to(tl.bfloat16).to(tl.float32)
        rest = first * 1.4423828125 - scaled + (x - first) * 1.4423828125 + x * 0.00031222838896340735
        is_normal = (scaled > -126.0) & (scaled < 128.0)
        found += found * tl.where(is_normal, rest * 0.6931471805599453, 0.0)
    return found


@triton.jit
def larger(a, b):
    """The maximum of two scores; NaN where one is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def is_finite(x):
    """Whether a float is."""
    return tl.abs(x) < float("inf")


@triton.jit
def reference_of(largest):
    """What is subtracted of scores while they come: the largest so far, 0 where that is not finite."""
    return tl.where(is_finite(largest), largest, 0.0)


@triton.jit
def through(
    inputs,
    batch,
    rows,
    low,
    high,
    q,
    keys,
    values,
    score,
    weigh,
    COUNT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
    EXACT: tl.constexpr,
):
    """What rows have of the keys between two of them: the largest score, the sum of the weights, that of values."""
    depths = tl.arange(0, BLOCK_DEPTH)
    columns = tl.arange(0, BLOCK_COLUMNS)
    largest = tl.full((BLOCK_ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_ROWS,), tl.float32)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), tl.float32)
    for begin in range(low, high, BLOCK_KEYS):
        at = begin + tl.arange(0, BLOCK_KEYS)
        k = keys(inputs, batch, depths, at)
        products = tl.dot(q, k, input_precision=PRECISION, out_dtype=tl.float32)
        scores = score(inputs, batch, rows, at, products)
        if COUNT % BLOCK_KEYS:
            scores = tl.where((at < COUNT)[None, :], scores, float("-inf"))
        top = larger(largest, tl.reduce(scores, 1, larger))
        reference = reference_of(top)
        # Sums by one largest score become those by another. They are 0, or what no scaling changes, where that is not
        # finite.
        scale = tl.where(is_finite(largest), exponential(reference_of(largest) - reference, EXACT), 1.0)
        added, weight = weigh(inputs, batch, rows, at, scores, reference[:, None])
        total = total * scale + tl.sum(added, 1)
        v = values(inputs, batch, at, columns)
        sums = tl.dot(weight, v, sums * scale[:, None], input_precision=PRECISION, out_dtype=tl.float32)
        largest = top
    return largest, total, sums


@triton.jit
def attention(
    inputs,
    outputs,
    queries,
    keys,
    values,
    score,
    weigh,
    finish,
    ROWS: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
    EXACT: tl.constexpr,
):
    """A tile of the queries of one batch, which goes through the keys tile by tile."""
    down: tl.constexpr = (ROWS + BLOCK_ROWS - 1) // BLOCK_ROWS
    batch = tl.program_id(0) // down
    rows = tl.program_id(0) % down * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    q = queries(inputs, batch, rows, tl.arange(0, BLOCK_DEPTH))
    largest, total, sums = through(
        inputs,
        batch,
        rows,
        0,
        COUNT,
        q,
        keys,
        values,
        score,
        weigh,
        COUNT,
        BLOCK_ROWS,
        BLOCK_KEYS,
        BLOCK_DEPTH,
        BLOCK_COLUMNS,
        PRECISION,
        EXACT,
    )
    columns = tl.arange(0, BLOCK_COLUMNS)
    finish(inputs, outputs, batch, rows, columns, largest[:, None], total[:, None], sums, EXACT)
