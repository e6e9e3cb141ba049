"""Custom calls stay for the backend to know, except those that do nothing on one device and those that stand for an
hlo op."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.attributes import MHLO_ATTRIBUTES, OPERAND_ORDERS, RESULT_ORDERS, SHARDING, SITE
from stablehlo_py.dialect.call_signatures import solves_matrices
from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.symint import is_known
from stablehlo_py.dialect.types import (
    element_type,
    is_complex,
    is_tensor,
    rank,
    shape,
    symint,
    text,
    user_location,
)
from stablehlo_py.handlers import handler_of
from stablehlo_py.legalize import gpu_libraries
from stablehlo_py.legalize.approximate import approx_top_k
from stablehlo_py.legalize.chlo_structure import chosen, first_sorted
from stablehlo_py.legalize.indexing import in_hlo
from stablehlo_py.legalize.rules import Results, Unsupported, by_rule, rule
from stablehlo_py.mlir import ir


def _identity(op: ir.OpView) -> Results:
    operands = list(op.operands)
    if [operand.type for operand in operands] != [result.type for result in op.results]:
        raise Unsupported(
            f"{text(op, 'call_target_name')!r} changes a shape: the program is split over devices", _ONE_DEVICE
        )
    return operands


_ONE_DEVICE = "export the model for one device"


def _dropped(op: ir.OpView) -> Results:
    # An assertion about shapes that the loader has refined; a value that others are not to remove (lax.dce_sink), which
    # has done its work when the module is here.
    return []


def _zeros(op: ir.OpView) -> Results:
    # Memory of any content is asked for (jax.lax.empty); this content is the same in every run.
    return [build.splat(0, result.type) for result in op.results]


def _unary(name: str) -> Callable[[ir.OpView], Results]:
    return lambda op: build.like(name, op.operands[0])


def _top_k(op: ir.OpView) -> Results:
    return chosen(op, op.attributes[MHLO_ATTRIBUTES]) if MHLO_ATTRIBUTES in op.attributes else None


# --- layouts ----------------------------------------------------------------------------------------------------------


def _memory_orders(op: ir.OpView, key: str, values: Sequence[ir.Value]) -> list[list[int]]:
    """For each value its dimensions from the slowest to the fastest in memory; layouts name the fastest first."""
    default = [list(range(rank(value))) if is_tensor(value) else [] for value in values]
    if key not in op.attributes:
        return default
    return [list(ir.DenseIntElementsAttr(layout))[::-1] for layout in op.attributes[key]]


def _in_memory_order(op: ir.OpView) -> Results:
    """A call for the backend, on tensors whose row-major order is that of its layouts; None where it is already."""
    operands = _memory_orders(op, "operand_layouts", list(op.operands))
    results = _memory_orders(op, "result_layouts", list(op.results))
    if all(order == sorted(order) for order in (*operands, *results)):
        return None
    attributes = {
        name: op.attributes[name] for name in op.attributes if name != SHARDING and not name.endswith("_layouts")
    }
    for key, orders in ((OPERAND_ORDERS, operands), (RESULT_ORDERS, results)):
        attributes[key] = ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(order) for order in orders])
    call = ir.Operation.create(
        "stablehlo.custom_call",
        results=[_permuted(result.type, order) for result, order in zip(op.results, results, strict=True)],
        operands=[
            build.transpose(operand, order) if order else operand
            for operand, order in zip(op.operands, operands, strict=True)
        ],
        attributes=attributes,
    )
    return [
        build.transpose(result, np.argsort(order).tolist()) if order else result
        for result, order in zip(call.results, results, strict=True)
    ]


def _permuted(type_: ir.Type, order: Sequence[int]) -> ir.Type:
    return build.tensor([shape(type_)[dimension] for dimension in order], type_.element_type) if order else type_


# --- LAPACK and BLAS, as JAX calls them on CPU: what has an op of its own ---------------------------------------------


def _is_column_major(op: ir.OpView) -> bool:
    """Do rows of matrices follow each other fastest in memory, batch dimensions slowest? So JAX writes its calls; any
    other layout is for the library, which takes memory as it finds it."""
    for key, values in (("operand_layouts", list(op.operands)), ("result_layouts", list(op.results))):
        for order, value in zip(_memory_orders(op, key, values), values, strict=True):
            if rank(value) > 1 and rank(value) == rank(op.operands[0]):
                *batch, row, column = range(rank(value))
                if order != [*batch, column, row]:
                    return False
    return True


def _letters(op: ir.OpView, *names: str) -> list[str]:
    """Characters of the configuration."""
    entries = configuration(op)
    missing = [name for name in names if name not in entries]
    if missing:
        raise Unsupported(
            f"{text(op, 'call_target_name')!r} without {' and '.join(missing)} in a typed configuration",
            "export the model with JAX 0.5 or newer",
        )
    return [chr(entries[name].value) for name in names]


def _potrf(op: ir.OpView) -> Results:
    """The factor, in its triangle; and info: 0, or the number of the first pivot that is not positive."""
    (uplo,) = _letters(op, "uplo")
    factor = build.like("cholesky", op.operands[0], lower=uplo == "L")
    size, info = shape(factor), op.results[1].type
    element = element_type(factor)
    real = element.element_type if is_complex(element) else element
    pivots = build.value("real", build.tensor(size, real), factor) if is_complex(element) else factor
    pivots = _diagonal(pivots)
    positive = build.compare(pivots, build.splat(0, pivots.type), "GT")
    numbers, last = build.tensor(size[:-1], info.element_type), len(size) - 2
    number = build.like("add", build.value("iota", numbers, dimension=last), build.splat(1, numbers))
    none = np.iinfo(np.int32).max
    candidates = build.value("select", numbers, positive, build.splat(none, numbers), number)
    start = build.splat(none, build.tensor([], info.element_type))
    first = build.value("reduce", info, candidates, start, kind="minimum", dimensions=[last])
    # By itself, since most programs ask for no more.
    condition = build.tensor(shape(info), ir.IntegerType.get_signless(1))
    yes = build.splat(True, build.tensor([], condition.element_type))
    is_none = build.value("reduce", condition, positive, yes, kind="and", dimensions=[last])
    triangle = _places(factor, "GE" if uplo == "L" else "LE")
    # LAPACK leaves the other triangle as it was.
    whole = build.value("select", factor.type, triangle, factor, op.operands[0])
    return [whole, build.value("select", info, is_none, build.splat(0, info), first)]


def _places(matrices: ir.Value, direction: str) -> ir.Value:
    """Whether the row of each element compares so with its column."""
    type_, last = build.tensor(shape(matrices), ir.IntegerType.get_signless(32)), len(shape(matrices)) - 1
    row, column = (build.value("iota", type_, dimension=dimension) for dimension in (last - 1, last))
    return build.compare(row, column, direction)


def _diagonal(matrices: ir.Value) -> ir.Value:
    """The diagonals of square matrices."""
    *outer, size, _ = shape(matrices)
    if is_known(size):
        rows = build.reshape(matrices, [*outer, size * size])
        return build.slice_(rows, [0] * (len(outer) + 1), [*outer, size * size], [*[1] * len(outer), size + 1])
    alone = build.value("select", matrices.type, _places(matrices, "EQ"), matrices, build.splat(0, matrices.type))
    type_ = build.tensor([*outer, size], element_type(matrices))
    zero = build.splat(0, build.tensor([], element_type(matrices)))
    return build.value("reduce", type_, alone, zero, kind="add", dimensions=[len(outer) + 1])


def _trsm(op: ir.OpView) -> Results:
    side, uplo, transpose, diagonal = _letters(op, "side", "uplo", "trans_x", "diag")
    return build.value(
        "triangular_solve",
        op.results[0].type,
        *op.operands,
        left_side=side == "L",
        lower=uplo == "L",
        unit_diagonal=diagonal == "U",
        transpose_a={"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[transpose],
    )


# Target -> rule, numbers of operands and results.
_SOLVED_HERE: dict[str, tuple[Callable[[ir.OpView], Results], int, int]] = {
    **{f"lapack_{letter}potrf_ffi": (_potrf, 1, 2) for letter in "sdcz"},
    **{f"{library}_{letter}trsm_ffi": (_trsm, 2, 1) for library in ("lapack", "blas") for letter in "sdcz"},
}

_HOST_CALLBACKS = frozenset(
    ("xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")
)
# Before typed configurations, scalars were operands and workspaces were results.
_OLD_LIBRARY = re.compile(r"(lapack|blas)_(?!\w+_ffi$)\w+")


# Targets of the form mhlo.* are how exporters before composites wrote ops that StableHLO lacks.
def _dynamic(op: ir.OpView) -> Results:
    """An op whose attributes are operands (dialect/forms.py)."""
    form = in_hlo(op)
    if form.name == "top_k" and not is_known(symint(form, "k")):
        return first_sorted(op, symint(form, "k"), "GT")
    types = [result.type for result in op.results]
    return list(build.op(f"hlo.{form.name}", types, form.operands, form.attributes).results)


def _windows_of_data(op: ir.OpView) -> Results:
    """Windows of known size, and those of a module of dynamic sizes, are ops by now."""
    raise Unsupported(
        "has windows that are not given by constants, one number for each dimension (two of padding)",
        "compute their sizes from shapes, or make them constants",
    )


_TARGETS: dict[str, Callable[[ir.OpView], Results]] = {
    "Sharding": _identity,
    "SPMDFullToShardShape": _identity,
    "SPMDShardToFullShape": _identity,
    "annotate_device_placement": _identity,
    "LayoutConstraint": _identity,
    "AllocateBuffer": _zeros,
    "ApproxTopK": approx_top_k,
    "dce_sink": _dropped,
    "shape_assertion": _dropped,
    "stablehlo.dynamic_approx_top_k": approx_top_k,
    "stablehlo.dynamic_reduce_window": _windows_of_data,
    "stablehlo.dynamic_rng_bit_generator": _dynamic,
    "stablehlo.dynamic_top_k": _dynamic,
    "mhlo.erf": _unary("erf"),
    "mhlo.tan": _unary("tan"),
    "mhlo.topk": _top_k,
}


@rule("stablehlo.custom_call")
def custom_call(op: ir.OpView) -> Results:
    """By target; targets that are not known here are for the backend to know."""
    target = text(op, "call_target_name")
    if target in _TARGETS:
        return _TARGETS[target](op)
    if gpu_libraries.is_threefry(target):
        return gpu_libraries.threefry(op)
    if target in gpu_libraries.targets():
        call, chosen = gpu_libraries.in_lapack(op)
        return chosen(by_rule(custom_call, call))
    solve, operands, results = _SOLVED_HERE.get(target, (None, 0, 0))
    if solve and solves_matrices(op, target.split("_")[1][0], operands, results) and _is_column_major(op):
        return solve(op)
    if target in _HOST_CALLBACKS:
        raise Unsupported(
            "calls a Python function of the process that made the model (jax.pure_callback, jax.debug.print ...)",
            "call it by a name: jax.ffi.ffi_call in the model, stablehlo_py.register_custom_call here",
        )
    if _OLD_LIBRARY.fullmatch(target):
        raise Unsupported(f"calls {target!r}, as JAX did before version 0.5", "export the model with JAX 0.5 or newer")
    if (refused := gpu_libraries.refused(target)) and not handler_of(target):
        raise Unsupported(*refused)
    if handler_of(target):
        # For errors at run time; equal calls at different places are different to fusion by this.
        op.attributes[SITE] = ir.StringAttr.get(user_location(op.location) or "")
    return _in_memory_order(op)


def legalized_targets() -> frozenset[str]:
    """Targets that become ops, or nothing."""
    return frozenset({*_TARGETS, *_SOLVED_HERE, *gpu_libraries.targets()})
