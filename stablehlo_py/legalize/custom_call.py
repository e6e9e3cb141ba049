"""Custom calls stay for the backend to know, except those that do nothing on one device and those that stand for an
hlo op."""

from __future__ import annotations

import re
from collections.abc import Callable

from stablehlo_py.dialect import build
from stablehlo_py.dialect.types import element_type, is_complex, shape, text
from stablehlo_py.legalize.rules import Results, Unsupported, rule
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
    # Shapes are static by now: the assertion was about shapes that the loader has refined.
    return []


def _unary(name: str) -> Callable[[ir.OpView], Results]:
    return lambda op: build.like(name, op.operands[0])


def _top_k(op: ir.OpView) -> Results:
    if "mhlo.attributes" not in op.attributes:
        return None
    attributes = op.attributes["mhlo.attributes"]
    if "largest" in attributes and not attributes["largest"].value:
        raise Unsupported("takes the smallest elements", "use lax.top_k of the negated operand")
    types = [result.type for result in op.results]
    return list(build.op("hlo.top_k", types, list(op.operands), {"k": attributes["k"].value}).results)


# --- LAPACK and BLAS, as JAX calls them on CPU (jaxlib's lapack module) -----------------------------------------------


def _configuration(op: ir.OpView, *names: str) -> list[str]:
    """Entries of the typed backend configuration, which are characters."""
    for key in ("mhlo.backend_config", "backend_config"):
        if key in op.attributes and isinstance(op.attributes[key], ir.DictAttr):
            entries = ir.DictAttr(op.attributes[key])
            return [chr(entries[name].value) for name in names]
    raise Unsupported(
        f"{text(op, 'call_target_name')!r} without a typed configuration", "export the model with JAX 0.5 or newer"
    )


def _potrf(op: ir.OpView) -> Results:
    """The factor, and info: 0, or the number of the first pivot that is not positive. JAX takes its NaN from that."""
    (uplo,) = _configuration(op, "uplo")
    factor = build.like("cholesky", op.operands[0], lower=uplo == "L")
    size, info = shape(factor), op.results[1].type
    element = element_type(factor)
    real = element.element_type if is_complex(element) else element
    part = build.tensor(size, real)
    pivots = build.value("real", part, factor) if is_complex(element) else factor
    flags, numbers = build.tensor(size, ir.IntegerType.get_signless(1)), build.tensor(size, info.element_type)
    positive = build.value("compare", flags, pivots, build.splat(0, part), direction="GT")
    row, column = (build.value("iota", numbers, dimension=len(size) - 2 + axis) for axis in range(2))
    diagonal = build.value("compare", flags, row, column, direction="EQ")
    fails = build.like("and", diagonal, build.like("not", positive))
    none = size[-1] + 1
    number = build.like("add", row, build.splat(1, numbers))
    candidates = build.value("select", numbers, fails, number, build.splat(none, numbers))
    start = build.splat(none, build.tensor([], info.element_type))
    dimensions = [len(size) - 2, len(size) - 1]
    first = build.value("reduce", info, candidates, start, kind="minimum", dimensions=dimensions)
    found = build.tensor(shape(info), ir.IntegerType.get_signless(1))
    is_none = build.value("compare", found, first, build.splat(none, info), direction="EQ")
    return [factor, build.value("select", info, is_none, build.splat(0, info), first)]


def _trsm(op: ir.OpView) -> Results:
    side, uplo, transpose, diagonal = _configuration(op, "side", "uplo", "trans_x", "diag")
    return build.value(
        "triangular_solve",
        op.results[0].type,
        *op.operands,
        left_side=side == "L",
        lower=uplo == "L",
        unit_diagonal=diagonal == "U",
        transpose_a={"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[transpose],
    )


_LIBRARY = re.compile(r"(lapack|blas)_\w+")

# Targets of the form mhlo.* are how exporters before composites wrote ops that StableHLO lacks.
_TARGETS: dict[str, Callable[[ir.OpView], Results]] = {
    "Sharding": _identity,
    "SPMDFullToShardShape": _identity,
    "SPMDShardToFullShape": _identity,
    "annotate_device_placement": _identity,
    "shape_assertion": _dropped,
    "mhlo.erf": _unary("erf"),
    "mhlo.tan": _unary("tan"),
    "mhlo.topk": _top_k,
    **{f"lapack_{letter}potrf_ffi": _potrf for letter in "sdcz"},
    **{f"{library}_{letter}trsm_ffi": _trsm for library in ("lapack", "blas") for letter in "sdcz"},
}


@rule("stablehlo.custom_call")
def custom_call(op: ir.OpView) -> Results:
    """By target; unknown targets stay."""
    target = text(op, "call_target_name")
    known = _TARGETS.get(target)
    if known is None and _LIBRARY.fullmatch(target):
        supported = "Cholesky factorizations and triangular solves are supported"
        raise Unsupported(f"calls the library function {target!r}, which is not implemented", supported)
    return known(op) if known else None
