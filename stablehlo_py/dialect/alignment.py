"""How memory of programs is aligned."""

from __future__ import annotations

from stablehlo_py.dialect.symint import IntT

# In bytes.
ALIGNMENT = 64  # of every buffer and of every slice in the arena
ACCESS_ALIGNMENT = (
    16  # that kernels on GPUs rely on, in arrays of other libraries too: what a thread can access at once
)


def aligned(size: IntT) -> IntT:
    """A number of bytes, rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT
