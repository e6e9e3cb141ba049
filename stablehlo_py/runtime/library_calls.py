"""What a library of the machine's vendor may compute instead of a program's own kernels, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

ACTIVATIONS = ("", "relu", "gelu")  # the last by tanh
CONVOLVED = RESULT, IMAGES, FILTER = ("result", "images", "filter")  # of a convolution
#: Routines of LAPACK.
FACTORIZATIONS = ("potrf", "getrf", "geqrf", "orgqr", "syevd", "gesvd")
ALIGNMENT = 256  # bytes, of pieces of a workspace
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
class LibraryFactorization(LibraryCall):
    """What a routine of LAPACK makes of dense matrices that lie by columns. The first pointers of the kernels are its
    operands, the next ones its results, the first of which begins as a copy of the first operand. How each matrix went
    (0: well) is a result, but of routines that have none: then it is an i32 at the begin of the workspace.

    Attributes:
        routine: one of `FACTORIZATIONS`, of real numbers.
        dtype: of elements; rows, columns: of a matrix; batch: how many matrices there are.
        factors: how many reflections an orgqr multiplies out; else 0.
        lower: which triangle a potrf or a syevd reads.
        vectors: of a syevd whether there are any ("V", "N"); of a gesvd how many ("A" all, "S" as many as values, "N").
    """

    noun = "factorization"
    routine: str
    dtype: np.dtype
    rows: int
    columns: int
    batch: int
    factors: int = 0
    lower: bool = False
    vectors: str = "N"

    @property
    def is_wide(self) -> bool:
        """Whether matrices are transposed for a library that takes none with more columns than rows."""
        return self.routine == "gesvd" and self.rows < self.columns

    @property
    def rooms(self) -> tuple[int, ...]:
        """Where pieces of the workspace end: how each matrix went; where `is_wide`, transposed matrices, their left
        vectors, their right ones. Behind all of these the library works."""
        least = min(self.rows, self.columns)
        left = self.columns * (self.columns if self.vectors == "A" else least)
        counts = [self.rows * self.columns]
        if self.vectors != "N":
            counts += [left, least * least]
        ends = [_aligned(4 * self.batch)]
        for count in counts if self.is_wide else []:
            ends.append(ends[-1] + _aligned(self.batch * count * self.dtype.itemsize))
        return tuple(ends)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


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
