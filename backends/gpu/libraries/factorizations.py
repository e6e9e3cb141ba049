"""Which factorizations of a program a library may compute: of matrices that are large and not many. Cholesky's have an
op; all others are calls of LAPACK, whose matrices lie by columns as the library's do."""

from __future__ import annotations

import math
from dataclasses import replace

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS, Routine, batch_of, routine_of
from stablehlo_py.backends.gpu.kernels.base import GpuKernel, numbered_kernel
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, I32, Function, Value
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.custom_call import CustomCall, read_call
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import flag, is_tensor, num_elements, shape, static_shape, text, user_location
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.mlir import ir
from stablehlo_py.options import CUSOLVER
from stablehlo_py.runtime.library_calls import LibraryFactorization

LEAST_SIZE = 256  # rows of a matrix whose Cholesky factors are wanted: our own kernels take smaller ones
LEAST_OF_CALLS = 32  # rows and columns of other matrices
MOST_MATRICES = 64  # which are factorized one after the other
_COLUMNS, _LEAST_WORKSPACE = 512, 4 << 20  # of a matrix that the library works in; it says how many when it is loaded
# Calls of LAPACK -> the library's routine of real numbers.
_ROUTINES = {"getrf": "getrf", "geqrf": "geqrf", "orgqr": "orgqr", "ungqr": "orgqr"}
_ROUTINES |= {"syevd": "syevd", "heevd": "syevd", "gesdd": "gesvd", "gesvd": "gesvd"}


def takes(op: ir.Operation) -> bool:
    """Whether a `cholesky`, or a call of LAPACK, is for a library, where one is asked for: the same on all sides of
    it."""
    if op.name != "hlo.cholesky" and _routine_name(op) is None:
        return False
    if not len(op.operands) or not is_tensor(op.operands[0]):
        return False
    sizes, dtype = shape(op.operands[0]), ELEMENT_TYPES[element(op.operands[0]).name]
    least = LEAST_SIZE if op.name == "hlo.cholesky" else LEAST_OF_CALLS
    if len(sizes) < 2 or not is_known(*sizes) or min(map(int, sizes[-2:])) < least or dtype.itemsize < 4:
        return False
    if int(sizes[-1]) * int(sizes[-2]) > 2**31 - 1:  # the library counts in 32 bits
        return False
    return 0 < math.prod(map(int, sizes[:-2])) <= MOST_MATRICES


def _routine_name(op: ir.Operation) -> str | None:
    """The library's, of a call of LAPACK."""
    target = text(op.opview, "call_target_name") if op.name == "stablehlo.custom_call" else ""
    if target not in TARGETS or not target.startswith("lapack_"):
        return None
    return _ROUTINES.get(target.removeprefix("lapack_").removesuffix("_ffi")[1:])


def library_factorization(fusion: Fusion) -> LibraryFactorization | None:
    """What a fusion of one op is to a library; None: nothing."""
    if fusion.kind not in ("cholesky", "custom_call"):
        return None
    op = fusion.op("hlo.cholesky", "stablehlo.custom_call")
    plain = list(fusion.inputs) == list(op.operands) and list(fusion.outputs) == list(op.results)
    if not plain or not takes(op.operation):
        return None
    if fusion.kind == "cholesky":
        sizes = static_shape(op.operands[0])
        batch = math.prod(map(int, sizes[:-2]))
        return _described(fusion, op, "potrf", (int(sizes[-1]), int(sizes[-1]), batch), lower=flag(op, "lower"))
    name = _routine_name(op.operation)
    assert name is not None
    call = read_call(op)
    return _of_call(fusion, op, name, call, routine_of(call))


def _of_call(
    fusion: Fusion, op: ir.OpView, name: str, call: CustomCall, routine: Routine
) -> LibraryFactorization | None:
    rows, columns = map(int, routine.operands[0].shape)
    batch = math.prod(map(int, batch_of(call, routine)))
    factors, lower, vectors = 0, False, "N"
    if name == "orgqr":
        factors = int(routine.operands[1].shape[0])
    elif name == "syevd":
        lower = chr(call.configuration["uplo"].value) == "L"
    if name in ("syevd", "gesvd"):
        vectors = chr(call.configuration["mode"].value)
    return _described(fusion, op, name, (rows, columns, batch), factors, lower, vectors)


def _described(
    fusion: Fusion,
    op: ir.OpView,
    routine: str,
    sizes: tuple[int, int, int],
    factors: int = 0,
    lower: bool = False,
    vectors: str = "N",
) -> LibraryFactorization:
    rows, columns, batch = sizes
    dtype = ELEMENT_TYPES[element(op.operands[0]).name]
    made = LibraryFactorization(
        library=CUSOLVER,
        kernel=fusion.name,
        op=op.operation.name,
        location=user_location(op.location) or "",
        workspace_bytes=0,
        routine=routine,
        dtype=dtype,
        rows=rows,
        columns=columns,
        batch=batch,
        factors=factors,
        lower=lower,
        vectors=vectors,
    )
    # Divide and conquer has copies of the matrix, what reduces it to two diagonals panels of it.
    copies = {"syevd": 4, "gesvd": 2}.get(routine, 0)
    numbers = _COLUMNS * max(rows, columns) + copies * rows * columns
    room = made.rooms[-1] + max(_LEAST_WORKSPACE, numbers * dtype.itemsize)
    return replace(made, workspace_bytes=room)


def matched_kernels(
    fusion: Fusion, target: GpuTarget, call: LibraryFactorization
) -> tuple[GpuKernel | None, GpuKernel | None]:
    """Ours before a library and behind it."""
    if call.routine == "potrf":
        return None, finished(fusion, target, call)
    before = _transposed(fusion, target, call) if call.is_wide else None
    if call.routine != "gesvd" or not (call.is_wide or call.vectors == "N"):
        return before, None
    return before, _zeros(fusion, target) if call.vectors == "N" else _exchanged(fusion, target, call)


def finished(fusion: Fusion, target: GpuTarget, call: LibraryFactorization) -> GpuKernel:
    """What comes behind it: zeros in the other triangle; NaN in the factors of matrices that have none."""
    part, n = element(fusion.outputs[0]).compute, call.rows
    width = 2 if call.dtype.kind == "c" else 1  # floats of an element

    def one(f: Function, number: Value) -> None:
        place = f.idiv(number, width)
        matrix, row, column = f.idiv(place, n * n), f.irem(f.idiv(place, n), n), f.irem(place, n)
        first, second = (column, row) if call.lower else (row, column)
        inside = f.cmp("sle", f.index(first), f.index(second))
        has_one = f.cmp("eq", f.load(I32, f.scratch, matrix), f.const(0, I32))
        value = f.select(has_one, f.load(part, f.out0, number), f.const(math.nan, part))
        f.store(f.select(inside, value, f.const(0.0, part)), f.out0, number)

    count = width * int(num_elements(fusion.outputs[0]))
    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_finished", count, one))


def _transposed(fusion: Fusion, target: GpuTarget, call: LibraryFactorization) -> GpuKernel:
    """What comes before a gesvd of matrices with more columns than rows: it finds them transposed, behind the first
    room of the workspace."""
    copy = _Transposition(fusion, call, call.rows, call.columns)

    def one(f: Function, number: Value) -> None:
        copy.emit(f, number, f.in0, f.gep(f.scratch, call.rooms[0], I8))

    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_transposed", copy.count, one))


def _exchanged(fusion: Fusion, target: GpuTarget, call: LibraryFactorization) -> GpuKernel:
    """What comes behind it: A^T = U S V with the transposes of V and U for vectors of A."""
    least = call.rows
    of_left = call.columns if call.vectors == "A" else least
    left = _Transposition(fusion, call, least, least)
    right = _Transposition(fusion, call, call.columns, of_left)

    def one(f: Function, number: Value) -> None:
        found_left, found_right = (f.gep(f.scratch, place, I8) for place in call.rooms[1:3])
        f.if_(
            f.cmp("slt", number, f.const(left.count)),
            lambda: left.emit(f, number, found_right, f.out2),
            lambda: right.emit(f, f.index(f.isub(number, left.count)), found_left, f.out3),
        )

    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_exchanged", left.count + right.count, one))


def _zeros(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """What comes behind a gesvd that nobody asks for vectors."""
    part, width = element(fusion.outputs[2]).compute, _parts_of(fusion)
    left, right = (width * int(num_elements(value)) for value in fusion.outputs[2:4])

    def one(f: Function, number: Value) -> None:
        zero = f.const(0.0, part)
        f.if_(
            f.cmp("slt", number, f.const(left)),
            lambda: f.store(zero, f.out2, number),
            lambda: f.store(zero, f.out3, f.isub(number, left)),
        )

    return GpuKernel.of(numbered_kernel(fusion, target, f"{fusion.name}_zeros", left + right, one))


def _parts_of(fusion: Fusion) -> int:
    """Floats of an element."""
    return 2 if ELEMENT_TYPES[element(fusion.outputs[0]).name].kind == "c" else 1


class _Transposition:
    """Copies matrices by columns, of so many rows, to the transposed ones.

    Attributes:
        count: of the floats that are copied.
    """

    def __init__(self, fusion: Fusion, call: LibraryFactorization, rows: int, columns: int) -> None:
        self._part, self._width = element(fusion.outputs[0]).compute, _parts_of(fusion)
        self._rows, self._columns = rows, columns
        self.count = self._width * call.batch * rows * columns

    def emit(self, f: Function, number: Value, source: Value, target: Value) -> None:
        """The float of that number, of the target."""
        place, part = f.idiv(number, self._width), f.irem(number, self._width)
        size = self._rows * self._columns
        matrix, inside = f.idiv(place, size), f.irem(place, size)
        row, column = f.idiv(inside, self._columns), f.irem(inside, self._columns)
        element_ = f.iadd(f.iadd(f.imul(matrix, size), f.imul(column, self._rows)), row)
        of_source = f.iadd(f.imul(element_, self._width), part)
        f.store(f.load(self._part, source, of_source), target, number)
