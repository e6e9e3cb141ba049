"""What a library of the machine's vendor may compute instead of a program's own kernels, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

ACTIVATIONS = ("", "relu", "gelu")  # the last by tanh
CONVOLVED = RESULT, IMAGES, FILTER = ("result", "images", "filter")  # of a convolution
IN_WORKSPACE = -1  # a pointer that is none of the kernels'


@dataclass(frozen=True)
class Place:
    """Where an array begins: so many bytes behind a pointer of the fusion's kernels."""

    pointer: int
    offset: int = 0


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
class LibraryCall:
    """What all have.

    Attributes:
        library: which one is asked, as `Options(libraries=...)` names it.
        kernel: the fusion; its own kernels compute it where the library does not.
        op, location: of messages.
        workspace_bytes: memory that the library may use.
    """

    library: str
    kernel: str
    op: str
    location: str
    workspace_bytes: int
    noun: ClassVar[str]


@dataclass(frozen=True)
class LibraryProduct(LibraryCall):
    """result = activation(alpha * a @ b + beta * addend + bias), for each batch. The addend lies as the result does; a
    bias has an element for each column, of the result's type.

    Attributes:
        sums: the type that products are added up in, and that alpha and beta have.
        tf32: whether operands of f32 may be rounded to TF32.
        beta: 0 where there is no addend.
        activation: one of `ACTIVATIONS`.
        places: of a, b and the result; addend, bias: of these, where they are.
    """

    noun = "product"
    batch: int
    a: StoredMatrix
    b: StoredMatrix
    result: StoredMatrix
    sums: np.dtype
    tf32: bool
    alpha: float
    beta: float
    activation: str
    places: tuple[Place, ...]
    addend: Place | None
    bias: Place | None


@dataclass(frozen=True)
class LibraryTransform(LibraryCall):
    """A Fourier transform along the last dimensions, of dense arrays: the first pointer of the kernels to the second.
    It is not scaled.

    Attributes:
        operand, result: types of elements; a real operand has half a spectrum for a result.
        lengths: of the operand along these dimensions, one to three.
        batch: how many transforms there are.
        inverse: whether it is that of exp(+i).
    """

    noun = "Fourier transform"
    operand: np.dtype
    result: np.dtype
    lengths: tuple[int, ...]
    batch: int
    inverse: bool


@dataclass(frozen=True)
class LibraryCholesky(LibraryCall):
    """The Cholesky factors of dense square matrices, in place at the second pointer of the kernels. How each one went
    (0: well) is an i32 at the begin of the workspace.

    Attributes:
        dtype: of elements; size: rows of a matrix; batch: how many matrices there are.
        lower: whether the factor is the lower one.
    """

    noun = "factorization"
    dtype: np.dtype
    size: int
    batch: int
    lower: bool


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a convolution, where it lies.

    Attributes:
        sizes: images, features, and those of space.
        strides: elements from one to the next, along each of these dimensions.
        place: where it begins; a pointer that is IN_WORKSPACE is the workspace.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    place: Place


@dataclass(frozen=True)
class LibraryConvolution(LibraryCall):
    """A convolution of two or three spatial dimensions, or the gradient of one of its operands:

        result[n, k, p] = sum over c and r of images[n, c, p * stride + r * dilation - padding] * filter[k, c, r]

    Where there are several groups, features k of a group see the features c of the images that are its own.

    Attributes:
        computes: one of `CONVOLVED`, which the others are operands of.
        dtype: of elements; sums of floats of 16 bits are f32.
        tf32: whether operands of f32 may be rounded to TF32.
        images, result: where they lie.
        filter: sizes of the dense filter, which StableHLO calls kernel: features of the result, of a group of the
            images, and those of space.
        filter_place: where it begins, as a tensor's.
        channels_last: whether the second of these dimensions lies behind those of space.
        strides, padding, dilation: along each spatial dimension.
        own_bytes: of the workspace, at its begin, where our own kernels leave or find something.
    """

    noun = "convolution"
    computes: str
    dtype: np.dtype
    tf32: bool
    images: StoredTensor
    result: StoredTensor
    filter: tuple[int, ...]
    filter_place: Place
    channels_last: bool
    groups: int
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    own_bytes: int

    @property
    def places(self) -> Mapping[str, Place]:
        """Where each of the three begins, by its name in `CONVOLVED`."""
        return {RESULT: self.result.place, IMAGES: self.images.place, FILTER: self.filter_place}


def counted(calls: Sequence[LibraryCall], count: int) -> str:
    """So many of these calls, in words."""
    noun = calls[0].noun
    return f"{count} {noun if count == 1 else f'{noun}s'}"
