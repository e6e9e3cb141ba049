"""A module of one program for several devices -> the program that each of them runs, by replication.

JAX says how arguments and results are sharded, and leaves the rest to the partitioner (docs/sharding.md):

    @main(%x: tensor<8x4xf32> {hlo.sharding = "... [{\\"d\\"}, {}]"}) -> tensor<8x4xf32> { %y = f(%x)  return %y }

becomes, for four partitions:

    @main(%shard: tensor<2x4xf32>) -> tensor<8x4xf32> { %x = all_gather %shard  %y = f(%x)  return %y }

Every device computes everything, on whole values, and returns its part of the results. It is correct whatever is
between, and takes as much time and memory as one device would. What is done on shards (jax.shard_map) is done on
shards: there values are taken apart and put together only where their shardings differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.attributes import PARTITIONS, REPLICATED, SHARDING
from stablehlo_py.dialect.calls import inline_calls, main_function
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import meshes_of, shardings_of_values
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.placement import Placement, UnknownSharding, placement_of, replicated
from stablehlo_py.frontend.shards import Shards, without_detours
from stablehlo_py.mlir import ir

_REMEDY = "shard over whole axes of one mesh of all devices (NamedSharding), or put the values on one device"


@dataclass(frozen=True)
class Partitioned:
    """How the arguments and results of a program are placed that each device runs."""

    arguments: tuple[Placement, ...]
    results: tuple[Placement, ...]


def partition(module: ir.Module) -> Partitioned:
    """Make arguments and results of `@main` the parts that a device has. The module is loaded, and changes in place.

    Raises:
        UnsupportedError: naming every argument and result whose sharding is not known, or does not divide it.
    """
    attributes = module.operation.attributes
    partitions = attributes[PARTITIONS].value if PARTITIONS in attributes else 1
    with module.context, ir.Location.unknown():
        inline_calls(module, lambda op: op.name != "func.call")
        main = main_function(module).operation
        block = main.regions[0].blocks[0]
        last = terminator(block)
        meshes, problems = meshes_of(module), list[Problem]()

        def placed(name: str, values: Sequence[ir.Value], what: str) -> tuple[Placement, ...]:
            found = []
            for number, text in enumerate(shardings_of_values(main, name, len(values))):
                rank = values[number].type.rank if isinstance(values[number].type, ir.RankedTensorType) else 0
                placement = replicated(rank, partitions)
                try:
                    placement = placement_of(text, meshes, rank, partitions)
                    _require_whole_parts(values[number].type, placement)
                except UnknownSharding as error:
                    where = describe(values[number].location)
                    problems.append(Problem(f"{what} {number}: {error}", where, remedy=_REMEDY))
                found.append(placement)
            return tuple(found)

        arguments = placed("arg_attrs", list(block.arguments), "argument")
        results = placed("res_attrs", list(last.operands), "result")
        if problems:
            raise UnsupportedError("the program is sharded in a way that is not known", problems=problems)
        shards = Shards(ir, partitions)
        with ir.InsertionPoint.at_block_begin(block):
            for argument, placement in zip(block.arguments, arguments, strict=True):
                if placement.is_split:
                    _take_part(argument, placement, shards)
        with ir.InsertionPoint(last):
            for number, placement in enumerate(results):
                if placement.is_split:
                    last.operands[number] = shards.own(last.operands[number], placement.groups, placement.sums)
        without_detours(module, partitions)
        _sign(main, block, last)
        if REPLICATED in attributes:
            del attributes[REPLICATED]
    return Partitioned(arguments, results)


def _require_whole_parts(type_: ir.Type, placement: Placement) -> None:
    for dimension, count in enumerate(placement.counts):
        if type_.shape[dimension] % count:
            raise UnknownSharding(f"{count} devices do not divide dimension {dimension} of {type_}")


def _take_part(argument: ir.BlockArgument, placement: Placement, shards: Shards) -> None:
    """Let an argument be a part, and all that uses it use the whole value."""
    uses = list(argument.uses)
    sizes = [size // count for size, count in zip(argument.type.shape, placement.counts, strict=True)]
    argument.set_type(ir.RankedTensorType.get(sizes, argument.type.element_type))
    if uses:
        whole = shards.whole(argument, placement.groups, placement.sums)
        for use in uses:
            use.owner.operands[use.operand_number] = whole


def _sign(main: ir.Operation, block: ir.Block, last: ir.Operation) -> None:
    """Write the types that arguments and results have now, which say nothing of shardings any more."""
    types = [[value.type for value in values] for values in (block.arguments, last.operands)]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    for name in ("arg_attrs", "res_attrs"):
        if name in main.attributes:
            kept = [
                {entry.name: entry.attr for entry in ir.DictAttr(each) if entry.name != SHARDING}
                for each in main.attributes[name]
            ]
            main.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in kept])
