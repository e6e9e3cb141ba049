"""Matrix products that a library of the machine's vendor may compute instead of a program's own kernels, as data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ACTIVATIONS = ("", "relu", "gelu")  # the last by tanh


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix of each batch, where it lies.

    Attributes:
        dtype: of its elements.
        rows, columns: its size.
        by_columns: whether neighbours in memory are of one column; else of one row.
        stride: elements from a row to the next; `by_columns`: from a column.
        batch_stride: elements from the matrix of a batch to that of the next; 0: it is the same one.
    """

    dtype: np.dtype
    rows: int
    columns: int
    by_columns: bool
    stride: int
    batch_stride: int


@dataclass(frozen=True)
class LibraryProduct:
    """result = activation(alpha * a @ b + beta * addend + bias), for each batch. The addend lies as the result does; a
    bias has an element for each column, of the result's type.

    Attributes:
        library: which one is asked, as `Options(libraries=...)` names it.
        kernel: the fusion; its own kernels compute the product where the library does not.
        op, location: of messages.
        sums: the type that products are added up in, and that alpha and beta have.
        tf32: whether operands of f32 may be rounded to TF32.
        beta: 0 where there is no addend.
        activation: one of `ACTIVATIONS`.
        workspace_bytes: memory that the library may use.
    """

    library: str
    kernel: str
    op: str
    location: str
    batch: int
    a: StoredMatrix
    b: StoredMatrix
    result: StoredMatrix
    sums: np.dtype
    tf32: bool
    alpha: float
    beta: float
    has_bias: bool
    activation: str
    workspace_bytes: int
