"""Rules that move broadcasts, reshapes and transposes down through the ops that follow them.

Direction: towards the results. Work is done on the smallest shape, and nothing splits a chain of elementwise ops: at
the end a reshape stands before a result, a contraction or whatever else needs the shape, where it is a view.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from stablehlo_py.dialect.build import AttributeValue, tensor
from stablehlo_py.dialect.index_map import reshaped_roles
from stablehlo_py.dialect.ops import Work, record_of, records
from stablehlo_py.dialect.ops.factors import Dimension, Factors, Kind, factors_of
from stablehlo_py.dialect.symint import GuardError, IntLike
from stablehlo_py.dialect.types import element_type, i64s, num_elements, shape
from stablehlo_py.mlir import ir
from stablehlo_py.passes._matchers import ELEMENTWISE_OPS, only_user
from stablehlo_py.passes.shape_rules.views import reshaped_broadcast, reshaped_dimensions
from stablehlo_py.passmanager.rewrite import Replacement, Rewriter, RuleSet, defining, key_of

THROUGH = RuleSet("through")
Role: TypeAlias = "Dimension | Kind | None"

_ELEMENTWISE = tuple(sorted(ELEMENTWISE_OPS))
# What a fusion can compute in place; anything else is in memory, where a reshape is free.
_FUSIBLE = {record.name for record in records() if record.work in (Work.ELEMENTS, Work.INDICES, Work.MOVES)}
_FUSIBLE = (_FUSIBLE | {"hlo.reduce"}) - {"hlo.constant"}
_TAKES_TRANSPOSES = ("hlo.transpose", "hlo.dot")  # by another permutation, or by other dimension numbers


def elementwise_like(rewriter: Rewriter, op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """The elementwise op on other operands, in their shape."""
    return rewriter.again(op, operands, tensor(shape(operands[0]), op.result.type.element_type))


def _producers(op: ir.Operation) -> list[ir.Operation | None]:
    return [defining(operand) for operand in op.operands]


@THROUGH.rule(*_ELEMENTWISE, needs="hlo.broadcast", only="hlo.broadcast", where="together they map to fewer elements")
def elementwise_broadcasts(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(broadcast(x), broadcast(y)) -> broadcast(f(x, y))"
    mapped: list[tuple[int, ...]] = []
    inner: list[ir.Operation] = []
    for producer in _producers(op):
        if producer is None or producer.name != "hlo.broadcast":
            return None
        inner.append(producer)
        mapped.append(i64s(producer, "dimensions"))
    sizes = shape(op.result)
    union = sorted({dimension for dimensions in mapped for dimension in dimensions})
    smaller = [sizes[dimension] for dimension in union]
    if math.prod(smaller) >= num_elements(op.result):
        return None
    operands = [
        rewriter.broadcast(each.operands[0], smaller, [union.index(dimension) for dimension in dimensions])
        for each, dimensions in zip(inner, mapped, strict=True)
    ]
    return rewriter.broadcast(elementwise_like(rewriter, op, operands), sizes, union)


@THROUGH.rule(*_ELEMENTWISE, needs="hlo.reshape", where="other operands take the inverse reshape at no cost")
def elementwise_reshapes(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(reshape(x), reshape(y)) -> reshape(f(x, y)), and so on with the elementwise ops that use it"
    sizes = next(shape(made.operands[0]) for made in _producers(op) if made is not None and made.name == "hlo.reshape")
    if not _takes_reshapes(op, sizes, set()):
        return None
    # At once: each op of a chain would be made anew, and its reshape only to go again.
    chain, moved = [op], {op.result}
    for each in chain:
        for user in [use.owner.operation for use in each.result.uses]:
            if user.name in ELEMENTWISE_OPS and user.result not in moved:
                with suppress(GuardError):
                    if _takes_reshapes(user, sizes, moved):
                        moved.add(user.result)
                        chain.append(user)
    for each in chain:
        rewriter.at(each)
        for number, operand in enumerate(each.operands):
            if operand not in moved:
                rewriter.set_operand(each, number, _inverse(rewriter, operand, defining(operand), sizes))
    for each in chain:
        uses = [use for use in each.result.uses if key_of(use.owner.operation) not in moved]
        rewriter.compute_as(each, tensor(sizes, element_type(each.result)), uses)
    return True


def _takes_reshapes(op: ir.Operation, sizes: tuple[IntLike, ...], moved: Container[ir.Value]) -> bool:
    """Whether an elementwise op may be computed in the shape from which reshapes make its operands, and which those in
    `moved` will have."""
    others = [(operand, defining(operand)) for operand in op.operands if operand not in moved]
    sources = [made.operands[0] for _, made in others if made is not None and made.name == "hlo.reshape"]
    if any(shape(source) != sizes for source in sources):
        return False
    all_fusible = all((made := defining(source)) is not None and made.name in _FUSIBLE for source in sources)
    return all(_takes_inverse(operand, made, sizes, all_fusible) for operand, made in others)


def _takes_inverse(
    operand: ir.Value, producer: ir.Operation | None, sizes: tuple[IntLike, ...], others_fusible: bool
) -> bool:
    """True for such a reshape, for a broadcast that has the other shape too, and for what lies in memory (if the others
    do not)."""
    if producer is not None and producer.name == "hlo.reshape":
        return True
    if producer is not None and producer.name == "hlo.broadcast":
        return reshaped_dimensions(i64s(producer, "dimensions"), shape(operand), sizes) is not None
    return others_fusible and (producer is None or producer.name not in _FUSIBLE)


def _inverse(
    rewriter: Rewriter, operand: ir.Value, producer: ir.Operation | None, sizes: tuple[IntLike, ...]
) -> ir.Value:
    if producer is not None and producer.name == "hlo.reshape":
        return producer.operands[0]
    if producer is not None and producer.name == "hlo.broadcast":
        found = reshaped_broadcast(rewriter, producer.operands[0], i64s(producer, "dimensions"), shape(operand), sizes)
        assert found is not None
        return found
    return rewriter.reshape(operand, sizes)


@THROUGH.rule(
    *_ELEMENTWISE,
    needs="hlo.transpose",
    where="others are transposed alike or broadcast; a single one only where a transpose or a product takes it",
)
def elementwise_transposes(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(transpose(x), transpose(y)) -> transpose(f(x, y))"
    producers = _producers(op)
    transposed = [made for made in producers if made is not None and made.name == "hlo.transpose"]
    permutations = {i64s(made, "permutation") for made in transposed}
    if len(permutations) != 1:
        return None
    if len(transposed) == 1 and ((user := only_user(op.result)) is None or user.name not in _TAKES_TRANSPOSES):
        return None
    (permutation,), sizes = permutations, shape(transposed[0].operands[0])
    mapped: list[list[int]] = []  # of operands that are broadcast: the dimensions before they were transposed
    for made in producers:
        if made is None or made.name not in ("hlo.transpose", "hlo.broadcast"):
            return None
        is_broadcast = made.name == "hlo.broadcast"
        mapped.append([permutation[dimension] for dimension in i64s(made, "dimensions")] if is_broadcast else [])
        if mapped[-1] != sorted(mapped[-1]):
            return None  # it would be transposed itself
    operands = [
        made.operands[0] if made.name == "hlo.transpose" else rewriter.broadcast(made.operands[0], sizes, dimensions)
        for made, dimensions in zip(producers, mapped, strict=True)
        if made is not None
    ]
    return rewriter.transpose(elementwise_like(rewriter, op, operands), permutation)


# --- ops whose attributes number the dimensions of their operands ----------------------------------------------------


def _roles(factors: Factors, operand: int) -> list[Role]:
    """What the dimensions of an operand are to the op: those that other operands have, too, are told apart by their
    factors, all others have the kind of theirs."""
    shared = {each for number, tensor in enumerate(factors.operands) if number != operand for each in tensor}
    return [each if each in shared else factors.factors[each[0]].kind for each in factors.operands[operand]]


def _on_sources(
    rewriter: Rewriter, op: ir.Operation, factors: Factors, sources: Mapping[int, tuple[ir.Value, Sequence[Role]]]
) -> ir.Value:
    """The op on other operands, by number, whose dimensions have these roles."""
    record, operands = record_of(op.name), list(op.operands)
    assert record is not None
    attributes: dict[str, AttributeValue] = {name: op.attributes[name] for name in record.attributes}
    for number, (source, roles) in sources.items():
        operands[number], own = source, _roles(factors, number)
        for name in (name for name, operand in record.numbers.items() if operand == number):
            wanted = dict.fromkeys(own[dimension] for dimension in i64s(op, name))
            attributes[name] = [dimension for each in wanted for dimension, role in enumerate(roles) if role == each]
    return rewriter.made(record.mnemonic, *operands, element=op.result.type.element_type, **attributes)


@THROUGH.rule(
    "hlo.reduce",
    name="reduce-transpose",
    needs="hlo.transpose",
    where="kept dimensions stay in order; only the order of summation changes, which the spec leaves open",
)
def transposed_operands(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(transpose(x), y) -> f(x, y) by other dimension numbers"
    factors, sources = factors_of(op), dict[int, tuple[ir.Value, list[Role]]]()
    assert factors is not None
    for number, operand in enumerate(op.operands):
        if (inner := defining(operand, "hlo.transpose")) is not None:
            permutation, own = i64s(inner, "permutation"), _roles(factors, number)
            free = [permutation[dimension] for dimension, role in enumerate(own) if role is Kind.PARALLEL]
            if free == sorted(free):
                roles = [own[permutation.index(dimension)] for dimension in range(len(own))]
                sources[number] = inner.operands[0], roles
    return _on_sources(rewriter, op, factors, sources) if sources else None


@THROUGH.rule("hlo.reduce", name="reduce-reshape", needs="hlo.reshape", where="no run of dimensions is reduced in part")
def reshaped_operands(op: ir.Operation, rewriter: Rewriter) -> Replacement:
    "f(reshape(x), y) -> reshape(f(x, y)), f(reshape(x), reshape(y)) -> reshape(f(x, y))"
    factors, sources = factors_of(op), dict[int, tuple[ir.Value, list[Role]]]()
    assert factors is not None
    for number, operand in enumerate(op.operands):
        if (inner := defining(operand, "hlo.reshape")) is not None:
            own = _roles(factors, number)
            roles = reshaped_roles(shape(inner.operands[0]), shape(operand), own)
            # What is reduced with another operand cannot be split, whatever that one does.
            if roles is not None and all(roles.count(each) == 1 for each in own if _is_joint(factors, each)):
                sources[number] = inner.operands[0], roles
    singles = [{number: source} for number, source in sources.items()]
    for chosen in (*singles, sources) if len(singles) > 1 else singles:
        if _agree(op, factors, chosen):
            return rewriter.reshape(_on_sources(rewriter, op, factors, chosen), shape(op.result))
    return None


def _is_joint(factors: Factors, role: Role) -> bool:
    """Whether a dimension is reduced together with one of another operand."""
    return isinstance(role, tuple) and factors.factors[role[0]].kind is not Kind.PARALLEL


def _agree(op: ir.Operation, factors: Factors, sources: Mapping[int, tuple[ir.Value, Sequence[Role]]]) -> bool:
    """Whether all that is reduced still is, and dimensions of several operands are one in each, or, where they are not
    reduced, alike."""
    runs: dict[Role, list[list[IntLike]]] = {}
    for number, operand in enumerate(op.operands):
        own = _roles(factors, number)
        value, roles = sources.get(number, (operand, own))
        for each in set(own) - {Kind.PARALLEL}:
            run = [size for size, role in zip(shape(value), roles, strict=True) if role == each]
            runs.setdefault(each, []).append(run)
    for role, (first, *others) in runs.items():
        if not first or any(len(other) != len(first) for other in others):
            return False
        differ = _is_joint(factors, role) or any(other != first for other in others)
        if others and len(first) > 1 and differ:
            return False
    return True
