"""What a program by JAX asks of its arguments and results: their layouts, and the kinds of memory of results.

A layout is the order of an array's dimensions in memory, from the fastest to the slowest. For the compiler arrays are
row-major; so an argument in another order is a transposed array to it, and the program begins with a transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.attributes import ALIASING_OUTPUT
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import entries, i64s, rank
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir

#: Kinds of memory, as on JAX's CPU: names that programs move values between. On the processor all of them are the
#: memory of the host; GPUs have the first one, which is the default.
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")

_LAYOUT = "mhlo.layout_mode"  # "default", "auto", or dimensions from the fastest to the slowest: "{1,0}"
_MEMORY = "mhlo.memory_kind"

Order = tuple[int, ...]


def row_major(rank: int) -> Order:
    """The order that all arrays have of which nobody says another one."""
    return tuple(reversed(range(rank)))


def is_row_major(order: Order) -> bool:
    """Whether it is that order."""
    return order == row_major(len(order))


def in_memory(shape: Sequence[int], order: Order) -> list[int]:
    """The shape of an array whose dimensions lie in an order, from the slowest to the fastest."""
    return [shape[dimension] for dimension in reversed(order)]


def as_seen(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """The inverse of `in_memory`."""
    return tuple(size for _, size in sorted(zip(reversed(order), shape, strict=True)))


@dataclass(frozen=True)
class Layouts:
    """The order of each argument and of each result."""

    arguments: tuple[Order, ...]
    results: tuple[Order, ...]

    @property
    def is_row_major(self) -> bool:
        """Whether all of them are."""
        return all(map(is_row_major, (*self.arguments, *self.results)))


def asked_layouts(source: bytes) -> Layouts | None:
    """The layouts that a program asks for; None: row-major ones. Raises UnsupportedError: an array in tiles."""
    if _LAYOUT.encode() not in source:
        return None
    module = load(source, isolate=False)
    main = main_function(module).operation
    block = main.regions[0].blocks[0]
    given, returned = list(block.arguments), list(terminator(block).operands)
    arguments = tuple(_order(mode, value.type, "argument") for mode, value in _modes(main, "arg_attrs", given))
    results = tuple(
        _natural(value, arguments) if mode == "auto" else _order(mode, value.type, "result")
        for mode, value in _modes(main, "res_attrs", returned)
    )
    layouts = Layouts(arguments, results)
    return None if layouts.is_row_major else layouts


def _modes(main: ir.Operation, list_: str, values: Sequence[ir.Value]) -> Iterator[tuple[str, ir.Value]]:
    modes = list(_said(main, list_, _LAYOUT, "default")) or ["default"] * len(values)
    return zip(modes, values, strict=True)


def _order(mode: str, type_: ir.Type, kind: str) -> Order:
    dimensions = type_.rank if isinstance(type_, ir.RankedTensorType) else 1  # a token becomes a list
    if not mode.startswith("{"):
        return row_major(dimensions)
    listed, _, tiles = mode.strip("{}").partition(":")
    order = tuple(int(each) for each in listed.split(",") if each.strip())
    if tiles or sorted(order) != list(range(dimensions)):
        raise UnsupportedError(
            f"{kind} of type {type_} is to have the layout {mode}", remedy="ask for an order of its dimensions"
        )
    return order


def _natural(value: ir.Value, arguments: Sequence[Order]) -> Order:
    """The order in which a value is computed, that of an argument's or row-major: nothing is moved for transposes
    behind it, and none for elementwise ops on it and scalars."""
    permutations = []
    while not isinstance(owner := value.owner, ir.Block):
        record = record_of(owner.name.replace("stablehlo.", "hlo."))
        if owner.name == "stablehlo.transpose":
            permutations.append(i64s(owner, "permutation"))
            value = owner.operands[0]
            continue
        moving = [operand for operand in owner.operands if not _is_splat(operand)]
        if record is None or not record.elementwise or len(moving) != 1:
            break
        (value,) = moving
    if isinstance(owner, ir.Block):
        order = arguments[value.arg_number]
    else:
        order = _order("auto", value.type, "result")
    for permutation in reversed(permutations):
        order = tuple(permutation.index(dimension) for dimension in order)
    return order


def _is_splat(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("stablehlo.constant", "stablehlo.broadcast_in_dim"):
        return False
    return (
        not any(constant_value(owner).strides) if owner.name == "stablehlo.constant" else rank(owner.operands[0]) == 0
    )


def make_physical(module: ir.Module, layouts: Layouts) -> None:
    """Let `@main` take and return arrays as they lie in memory."""
    main = main_function(module).operation
    block = main.regions[0].blocks[0]
    last = terminator(block)
    with module.context, main.location:
        for argument, order in zip(block.arguments, layouts.arguments, strict=True):
            if not is_row_major(order):
                uses, seen = list(argument.uses), argument.type
                argument.set_type(ir.RankedTensorType.get(in_memory(seen.shape, order), seen.element_type))
                with ir.InsertionPoint.at_block_begin(block):
                    back = [order[::-1].index(dimension) for dimension in range(len(order))]
                    whole = _transpose(argument, back, seen)
                for use in uses:
                    use.owner.operands[use.operand_number] = whole
        with ir.InsertionPoint(last):
            for number, order in enumerate(layouts.results):
                if not is_row_major(order):
                    value = last.operands[number]
                    type_ = ir.RankedTensorType.get(in_memory(value.type.shape, order), value.type.element_type)
                    last.operands[number] = _transpose(value, order[::-1], type_)
        arguments, results = ([value.type for value in values] for values in (block.arguments, last.operands))
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results))
        if "arg_attrs" in main.attributes:
            pairs = zip(main.attributes["arg_attrs"], arguments, strict=True)
            main.attributes["arg_attrs"] = ir.ArrayAttr.get([_without_aliases(*pair, results) for pair in pairs])


def _transpose(value: ir.Value, permutation: Sequence[int], type_: ir.Type) -> ir.Value:
    attributes = {"permutation": ir.DenseI64ArrayAttr.get(permutation)}
    return ir.Operation.create("stablehlo.transpose", [type_], [value], attributes).results[0]


def _without_aliases(attributes: ir.Attribute, type_: ir.Type, results: Sequence[ir.Type]) -> ir.Attribute:
    """What is said of an argument, without the result that was to have its memory if that has another type now."""
    said = entries(attributes)
    if ALIASING_OUTPUT in said and results[said[ALIASING_OUTPUT].value] != type_:
        del said[ALIASING_OUTPUT]
    return ir.DictAttr.get(said)


def memory_kinds(source: bytes, known: Sequence[str] = MEMORY_KINDS) -> tuple[int, ...]:
    """The kind of memory of each result, as a number of those that are known; empty where a program says nothing of
    it."""
    if _MEMORY.encode() not in source:
        return ()
    found = []
    main = main_function(load(source, isolate=False))
    for number, kind in enumerate(_said(main, "res_attrs", _MEMORY, MEMORY_KINDS[0])):
        if kind not in known:
            raise UnsupportedError(
                f"result {number} of the program is to be in memory of the kind '{kind}'",
                remedy=f"use one of: {', '.join(known)}",
            )
        found.append(known.index(kind))
    return tuple(found)


def _said(main: ir.OpView, list_: str, name: str, default: str) -> Iterator[str]:
    """An attribute of each argument or result; nothing where the program has no list of them."""
    for attributes in main.attributes.get(list_, ()):
        attributes = ir.DictAttr(attributes)
        yield attributes[name].value if name in attributes else default
