"""Custom calls: each target has a maker of its own kernel."""

from __future__ import annotations

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.cpu.kernels import lapack, pivots, registered_call, sparse_product, tridiagonal_perturbed
from stablehlo_py.backends.cpu.kernels.base import Kernel, Template
from stablehlo_py.backends.cpu.kernels.lapack_routines import TARGETS as LAPACK_TARGETS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.dialect import triton_calls
from stablehlo_py.dialect.attributes import LINKED
from stablehlo_py.dialect.types import text, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.handlers import bound_to, handler_of
from stablehlo_py.legalize.custom_call import legalized_targets
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.suggest import nearest

_TEMPLATES: dict[str, Template] = {
    **dict.fromkeys(LAPACK_TARGETS, lapack.emit),
    pivots.TARGET: pivots.emit,
    sparse_product.TARGET: sparse_product.emit,
    tridiagonal_perturbed.TARGET: tridiagonal_perturbed.emit,
}
_BIND = "bind it with stablehlo_py.register_custom_call"


def known_targets() -> frozenset[str]:
    """Targets that have a kernel."""
    return frozenset(_TEMPLATES)


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """The kernel of the call's target.

    Raises:
        UnsupportedError: nobody knows the target, or the call is not as its target takes it.
    """
    op = fusion.op("stablehlo.custom_call")
    name = text(op, "call_target_name")
    template = _TEMPLATES.get(name) or (registered_call.emit if handler_of(name) else None)
    if template is None and name not in triton_calls.TARGETS and _is_linked(op):
        template = registered_call.emit
    if template is None and name in triton_calls.TARGETS:
        location = user_location(op.location)
        raise UnsupportedError(
            triton_calls.refusal(name), op=op.operation.name, location=location, remedy=triton_calls.REMEDY
        )
    if template is None:
        raise unknown_target(op, "CPU")
    try:
        return template(fusion, target)
    except UnsupportedError as error:
        raise UnsupportedError(
            error.reason, op=op.operation.name, location=user_location(op.location), remedy=error.remedy
        ) from error


def _is_linked(op: ir.OpView) -> bool:
    """Whether others link the code, and bring the functions that it calls."""
    parent = op.operation
    while parent.parent is not None:
        parent = parent.parent
    return LINKED in parent.attributes


def unknown_target(op: ir.OpView, machine: str) -> UnsupportedError:
    """The error about a call of a target that nobody knows; `machine` is what the backend is for, in messages."""
    name = text(op, "call_target_name")
    known = known_targets() | legalized_targets() | bound_to("cpu")
    return UnsupportedError(
        f"the target '{name}' is not known to the {machine} backend",
        op=op.operation.name,
        location=user_location(op.location),
        remedy=" ".join(filter(None, (nearest(name, known), _BIND))),
    )
