"""A module of one program for several devices -> the program that each of them runs, by replication.

JAX says how arguments and results are sharded, and leaves the rest to the partitioner (docs/sharding.md):

    @main(%x: tensor<8x4xf32> {hlo.sharding = "... [{\\"d\\"}, {}]"}) -> tensor<8x4xf32> { %y = f(%x)  return %y }

becomes, for four partitions:

    @main(%shard: tensor<2x4xf32>) -> tensor<8x4xf32> { %x = all_gather %shard  %y = f(%x)  return %y }

Every device computes everything, on whole values, and returns its part of the results. It is correct whatever is
between, and takes as much time and memory as one device would. What is done on shards (jax.shard_map) is done on
shards: there values are taken apart and put together only where their shardings differ (frontend/shards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.attributes import PARTITIONS, REPLICATED, SHARDING
from stablehlo_py.dialect.calls import inline_calls, main_function
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import meshes_of, shardings_of_values
from stablehlo_py.dialect.types import entries
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.one_device import call_on_one_device
from stablehlo_py.frontend.placement import Placement, UnknownSharding, placement_of, replicated
from stablehlo_py.frontend.shards import TO_FULL, TO_SHARD, expand, marked
from stablehlo_py.mlir import ir

_REMEDY = "shard over whole axes of one mesh of all devices (NamedSharding), or put the values on one device"


@dataclass(frozen=True)
class Partitioned:
    """How the arguments and results of a program are placed that each device runs."""

    arguments: tuple[Placement, ...]
    results: tuple[Placement, ...]


def partition(module: ir.Module) -> Partitioned:
    """Make arguments and results of `@main` the parts that a device has. The module was read by `load_marked`, and
    changes in place.

    Raises:
        UnsupportedError: naming every argument and result whose sharding is not known, or does not divide it; or as
            `shards.expand`.
    """
    attributes = module.operation.attributes
    partitions = attributes[PARTITIONS].value if PARTITIONS in attributes else 1
    with module.context, ir.Location.unknown():
        inline_calls(module, lambda op: op.name != "func.call")
        call_on_one_device(module, partitions)
        main = main_function(module).operation
        block = main.regions[0].blocks[0]
        last = terminator(block)
        meshes, problems = meshes_of(module), list[Problem]()

        def placed(name: str, values: Sequence[ir.Value], what: str) -> tuple[list[str], list[Placement]]:
            texts, found = shardings_of_values(main, name, len(values)), list[Placement]()
            for number, text in enumerate(texts):
                rank = values[number].type.rank if isinstance(values[number].type, ir.RankedTensorType) else 0
                placement = replicated(rank, partitions)
                try:
                    placement = placement_of(text, meshes, rank, partitions)
                    _require_whole_parts(values[number].type, placement)
                except UnknownSharding as error:
                    where = describe(values[number].location)
                    problems.append(Problem(f"{what} {number}: {error}", where, remedy=_REMEDY))
                found.append(placement)
            return texts, found

        in_texts, arguments = placed("arg_attrs", list(block.arguments), "argument")
        out_texts, results = placed("res_attrs", list(last.operands), "result")
        if problems:
            raise UnsupportedError("the program is sharded in a way that is not known", problems=problems)
        with ir.InsertionPoint.at_block_begin(block):
            for argument, text, placement in zip(block.arguments, in_texts, arguments, strict=True):
                if placement.is_split:
                    _take_part(argument, text, placement)
        with ir.InsertionPoint(last):
            for number, (text, placement) in enumerate(zip(out_texts, results, strict=True)):
                if placement.is_split:
                    whole = last.operands[number]
                    last.operands[number] = marked(ir, TO_SHARD, whole, _part_of(whole.type, placement), text)
        expand(module)
        _sign(main, block, last)
        if REPLICATED in attributes:
            del attributes[REPLICATED]
    return Partitioned(tuple(arguments), tuple(results))


def _require_whole_parts(type_: ir.Type, placement: Placement) -> None:
    for dimension, count in enumerate(placement.counts):
        if type_.shape[dimension] % count:
            raise UnknownSharding(f"{count} devices do not divide dimension {dimension} of {type_}")


def _part_of(type_: ir.Type, placement: Placement) -> ir.Type:
    sizes = [size // count for size, count in zip(type_.shape, placement.counts, strict=True)]
    return ir.RankedTensorType.get(sizes, type_.element_type)


def _take_part(argument: ir.BlockArgument, text: str, placement: Placement) -> None:
    """Let an argument be a part, and all that uses it use the whole value."""
    uses, type_ = list(argument.uses), argument.type
    argument.set_type(_part_of(type_, placement))
    if uses:
        whole = marked(ir, TO_FULL, argument, type_, text)
        for use in uses:
            use.owner.operands[use.operand_number] = whole


def _sign(main: ir.Operation, block: ir.Block, last: ir.Operation) -> None:
    """Write the types that arguments and results have now, which say nothing of shardings any more."""
    types = [[value.type for value in values] for values in (block.arguments, last.operands)]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    for name in ("arg_attrs", "res_attrs"):
        if name in main.attributes:
            kept = [
                {name: value for name, value in entries(each).items() if name != SHARDING}
                for each in main.attributes[name]
            ]
            main.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in kept])
