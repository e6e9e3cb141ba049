"""Rules on calls of libraries. A routine that is asked for less may take another way to the rest, and round
differently."""

from __future__ import annotations

from stablehlo_py.dialect.attributes import MHLO_CONFIGURATION
from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.types import text
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet

LIBRARY = RuleSet("library")
_EIGEN = {f"lapack_{name}evd_ffi" for name in ("ssy", "dsy", "che", "zhe")}


@LIBRARY.rule("stablehlo.custom_call", where="nobody reads the eigenvectors")
def eigenvalues_alone(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "syevd(x) with vectors -> syevd(x) without"
    if text(op, "call_target_name") not in _EIGEN or next(iter(op.results[0].uses), None) is not None:
        return None
    entries = configuration(op)
    mode = entries.get("mode")
    if not isinstance(mode, ir.IntegerAttr) or mode.value != ord("V"):
        return None
    alone = {**entries, "mode": ir.IntegerAttr.get(mode.type, ord("N"))}
    op.attributes[MHLO_CONFIGURATION] = ir.DictAttr.get(alone)
    return True
