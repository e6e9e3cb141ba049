"""Which ops have side effects: the one answer that dead code elimination, CSE and the rewrite driver share.

The records of the ops say it of what legalization leaves: every hlo op is pure but those that processes of a grid
communicate by (each must pass as often and in the order as the others do), and `hlo.random_state`, which differs every
time. A `stablehlo.custom_call` is pure unless it says `has_side_effect`. Ops with
regions are as pure as what they hold: an `scf.while` without uses goes, as in XLA, even where nobody knows that it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from stablehlo_py.dialect.calls import MAIN, functions_of
from stablehlo_py.dialect.ops import Effects, record_of
from stablehlo_py.dialect.regions import TERMINATORS
from stablehlo_py.mlir import ir

_PURE_NAMESPACES = frozenset({"arith", "chlo", "complex", "math"})
_PURE_TENSOR = frozenset(
    f"tensor.{name}" for name in "cast collapse_shape empty expand_shape extract from_elements splat".split()
)
# Ops that legalization takes away, and that have no hlo op of their name.
_IMPURE_STABLEHLO = frozenset("after_all async_done async_start collective_reduce composite return rng".split())
_REGION_OPS = frozenset({"scf.if", "scf.while", "scf.index_switch", "scf.for"})

PURE, IMPURE, BY_REGIONS, CALL, CUSTOM_CALL = Effects
_cache: dict[str, Effects] = {}


def effect_kind(name: str) -> Effects:
    """How to tell whether an op of this name is pure: PURE, IMPURE, BY_REGIONS, CALL (the callee decides) or
    CUSTOM_CALL (an attribute decides)."""
    kind = _cache.get(name)
    if kind is None:
        kind = _cache[name] = _classify(name)
    return kind


def _classify(name: str) -> Effects:
    if (record := record_of(name)) is not None:
        return record.effects
    namespace, _, mnemonic = name.partition(".")
    if name in _PURE_TENSOR or namespace in _PURE_NAMESPACES:
        return PURE
    if name in _REGION_OPS:
        return BY_REGIONS
    if name == "func.call":
        return CALL
    twin = record_of(f"hlo.{mnemonic}")
    impure = mnemonic in _IMPURE_STABLEHLO or (twin is not None and twin.effects is IMPURE)
    # Bodies of reduce, sort, while, map ... may hold custom calls.
    return BY_REGIONS if namespace == "stablehlo" and not impure else IMPURE


def is_pure(op: ir.Operation, pure_functions: Collection[str] = ()) -> bool:
    """True where an op without uses may be erased. `pure_functions` names the functions whose calls count as pure."""
    return _pure(op, lambda callee: callee in pure_functions)


def _pure(op: ir.Operation, callee_is_pure: Callable[[str], bool]) -> bool:
    kind = effect_kind(op.name)
    if kind == PURE:
        return True
    if kind == IMPURE:
        return False
    if kind == CALL:
        return callee_is_pure(op.attributes["callee"].value)
    if kind == CUSTOM_CALL:
        return "has_side_effect" not in op.attributes or not op.attributes["has_side_effect"].value
    return all(
        nested.name in TERMINATORS or _pure(nested.operation, callee_is_pure)
        for region in op.regions
        for block in region
        for nested in block
    )


def has_uses(op: ir.Operation) -> bool:
    """True where any result is used."""
    for result in op.results:
        for _ in result.uses:
            return True
    return False


def pure_functions(module: ir.Module) -> frozenset[str]:
    """Names of the functions of a module whose bodies are pure, calls of other pure functions included. None where
    there is one function; `@main`, which nobody calls, is not looked at."""
    if len(module.body.operations) == 1:
        return frozenset()
    bodies = functions_of(module)
    known: dict[str, bool] = {MAIN: False}
    return frozenset(name for name in bodies if _function_is_pure(name, bodies, known))


def _function_is_pure(name: str, bodies: Mapping[str, ir.Operation], known: dict[str, bool]) -> bool:
    if name not in known:
        known[name] = False  # a function that calls itself may not end
        function = bodies.get(name)
        known[name] = function is not None and _body_is_pure(
            function, lambda callee: _function_is_pure(callee, bodies, known)
        )
    return known[name]


def _body_is_pure(function: ir.Operation, callee_is_pure: Callable[[str], bool]) -> bool:
    blocks = list(function.regions[0])
    return bool(blocks) and all(
        op.name in TERMINATORS or _pure(op.operation, callee_is_pure) for block in blocks for op in block
    )
