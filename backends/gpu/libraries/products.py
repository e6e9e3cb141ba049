"""Which products of a program a library may compute: plain ones, whose operands are matrices in memory, with an
epilogue that libraries have (epilogue.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stablehlo_py.backends.common.contraction import Axes, Axis, collapse, dot_axes
from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.views import View, view_of
from stablehlo_py.backends.gpu.kernels.dot import LEAST_DEPTH, LEAST_ELEMENTS, LEAST_SIDE
from stablehlo_py.backends.gpu.libraries.epilogue import epilogue_of
from stablehlo_py.backends.gpu.target import SM_80, GpuTarget
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.dialect.index_map import digits_of
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import num_elements, static_shape, user_location
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.options import CUBLASLT
from stablehlo_py.runtime.library_calls import LibraryProduct, Place, StoredMatrix

# Of the elements of operands: the type that products are added up in, and those that results may have (documentation
# of cublasLtMatmul, tables of supported types).
_OF_F8 = ("f32", frozenset(("f32", "bf16", "f16")))
_TYPES: Mapping[tuple[str, str], tuple[str, frozenset[str]]] = {
    ("f64", "f64"): ("f64", frozenset(("f64",))),
    ("f32", "f32"): ("f32", frozenset(("f32",))),
    ("bf16", "bf16"): ("f32", frozenset(("f32", "bf16"))),
    ("f16", "f16"): ("f32", frozenset(("f32", "f16"))),
    ("f8E4M3FN", "f8E4M3FN"): _OF_F8,
    ("f8E4M3FN", "f8E5M2"): _OF_F8,
    ("f8E5M2", "f8E4M3FN"): _OF_F8,
    ("i8", "i8"): ("i32", frozenset(("i32",))),
}
_SUMMED = {"bf16": "f32", "f16": "f32"}  # what a product of a type may be added up in, if that is another one
# NVIDIA recommends them: with less, the library has fewer algorithms to choose from.
_WORKSPACE, _WORKSPACE_OF_SM_80 = 32 << 20, 4 << 20


def library_product(fusion: Fusion, target: GpuTarget) -> LibraryProduct | None:
    """What a `dot` fusion is to a library; None: nothing."""
    dot = fusion.op("hlo.dot")
    result, of = dot.results[0], element(dot.results[0])
    views = [view for view in (view_of(operand, of) for operand in dot.operands) if view is not None]
    if len(fusion.outputs) != 1 or len(views) != 2 or not num_elements(result):
        return None
    left, right = views
    dtype = element(fusion.outputs[0]).name
    sums, results = _TYPES.get((left.element.name, right.element.name), ("", frozenset()))
    if dtype not in results or _SUMMED.get(of.name, of.name) != sums:
        return None
    axes = _axes(dot_axes(dot, left.layout.dimensions, right.layout.dimensions, digits_of(static_shape(result))))
    if axes is None:
        return None
    batch, rows, columns, depth = axes
    if not _is_large(rows, columns, depth):
        return None
    a = _stored(left, (rows.size, depth.size), (rows.a, depth.a), batch.a)
    b = _stored(right, (depth.size, columns.size), (depth.b, columns.b), batch.b)
    epilogue = epilogue_of(fusion, result, int(columns.size))
    if a is None or b is None or epilogue is None:
        return None
    size = int(rows.size), int(columns.size)
    addend, bias = (None if each is None else Place(each) for each in (epilogue.addend, epilogue.bias))
    return LibraryProduct(
        library=CUBLASLT,
        kernel=fusion.name,
        op=dot.operation.name,
        location=user_location(dot.location) or "",
        batch=int(batch.size),
        a=a,
        b=b,
        result=StoredMatrix(ELEMENT_TYPES[dtype], *size, False, int(rows.c), int(batch.c)),
        sums=ELEMENT_TYPES[sums],
        tf32=target.tf32 and a.dtype == ELEMENT_TYPES["f32"],
        alpha=epilogue.alpha,
        beta=epilogue.beta,
        activation=epilogue.activation,
        workspace_bytes=_WORKSPACE_OF_SM_80 if target.name == SM_80.name else _WORKSPACE,
        places=(_place(left), _place(right), Place(len(fusion.inputs))),
        addend=addend,
        bias=bias,
    )


def _axes(axes: Axes | None) -> Sequence[Axis] | None:
    """The batch, rows, columns and sums of a product, one axis each; None: libraries have none of so many."""
    if axes is None:
        return None
    batch, m, n, k = roles = [collapse(each) for each in (axes.batch, axes.m, axes.n, axes.k)]
    for side in (m, n):  # rows or columns that step unevenly: batches that share the other operand
        if len(side) == 2 and not batch:
            batch.append(side.pop(0))
    even = all(len(role) < 2 for role in roles) and m and n and k and n[0].c == 1
    return [(role or [Axis(1)])[0] for role in roles] if even else None


def _is_large(rows: Axis, columns: Axis, depth: Axis) -> bool:
    """Whether our own kernels would compute the product in tiles: smaller ones are not worth a call."""
    results, side = rows.size * columns.size, min(rows.size, columns.size)
    return bool(results >= LEAST_ELEMENTS and side >= LEAST_SIDE and depth.size >= LEAST_DEPTH)


def _stored(view: View, sizes: Sequence[IntLike], steps: Sequence[IntLike], batch: IntLike) -> StoredMatrix | None:
    """A matrix of so many rows and columns, with steps from one to the next; None: libraries have none like it."""
    by_columns = steps[0] == 1
    stride, least = (steps[1], sizes[0]) if by_columns else (steps[0], sizes[1])
    aligned = view.layout.offset * view.element.bytes % ACCESS_ALIGNMENT == 0
    if 1 not in steps or stride < least or batch < 0 or not aligned:
        return None
    rows, columns = map(int, sizes)
    return StoredMatrix(ELEMENT_TYPES[view.element.name], rows, columns, by_columns, int(stride), int(batch))


def _place(view: View) -> Place:
    return Place(view.argument, int(view.layout.offset) * view.element.bytes)
