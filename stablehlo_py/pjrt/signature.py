"""What a program by JAX asks of its arguments and results: their layouts, and the kinds of memory of results.

A layout is the order of an array's dimensions in memory, from the fastest to the slowest. For the compiler arrays are
row-major; so an argument in another order is a transposed array to it, and the program begins with a transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.attributes import ALIASING_OUTPUT
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.edit import terminator
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
    main = main_function(load(source, isolate=False))
    signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    orders = []
    for kind, name, types in (("argument", "arg_attrs", signature.inputs), ("result", "res_attrs", signature.results)):
        modes = list(_said(main, name, _LAYOUT, "default")) or ["default"] * len(types)
        orders.append([_order(mode, type_, kind) for mode, type_ in zip(modes, types, strict=True)])
    layouts = Layouts(*map(tuple, orders))
    return None if layouts.is_row_major else layouts


def _order(mode: str, type_: ir.Type, kind: str) -> Order:
    rank = type_.rank if isinstance(type_, ir.RankedTensorType) else 1  # a token becomes a list
    if not mode.startswith("{"):
        return row_major(rank)
    listed, _, tiles = mode.strip("{}").partition(":")
    order = tuple(int(each) for each in listed.split(",") if each.strip())
    if tiles or sorted(order) != list(range(rank)):
        raise UnsupportedError(
            f"{kind} of type {type_} is to have the layout {mode}", remedy="ask for an order of its dimensions"
        )
    return order


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
    said = {entry.name: entry.attr for entry in ir.DictAttr(attributes)}
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
