"""What the processes of a grid exchange. Every process meets every one of these: none stands in a loop or branch."""

from __future__ import annotations

from stablehlo_py.debug.generate.draft import MAX_ELEMENTS, Draft, elements, require, sizes
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.generate.regions import body, combiner, combining, computed_in, each
from stablehlo_py.debug.generate.shapes import ANY
from stablehlo_py.dialect.build import AttributeValue
from stablehlo_py.mlir import ir

Groups = list[list[int]]


def _split(d: Draft, count: int) -> Groups:
    """The numbers below `count` in groups of one size, in any order."""
    size = d.one_of([each for each in range(1, count + 1) if count % each == 0])
    order = [int(number) for number in d.random.permutation(count)]
    return [order[begin : begin + size] for begin in range(0, count, size)]


def _dense(rows: Groups) -> str:
    return f"dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _channel(d: Draft, used: bool) -> str:
    d.channels += 1
    return f"#stablehlo.channel_handle<handle = {d.channels if used else 0}, type = {int(used)}>"


def _reduction_groups(d: Draft) -> tuple[int, dict[str, AttributeValue]]:
    """Groups in one of the three ways of reductions and gathers: the number of members, and the attributes."""
    assert d.grid is not None
    replicas, partitions = d.grid
    way = d.whole(0, 3)
    if way == 0:  # cross_replica
        groups = _split(d, replicas)
        return len(groups[0]), {"replica_groups": _dense(groups), "channel_handle": _channel(d, False)}
    if way == 1:  # cross_replica_and_partition
        groups = _split(d, replicas)
        return len(groups[0]) * partitions, {"replica_groups": _dense(groups), "channel_handle": _channel(d, True)}
    groups = _split(d, replicas * partitions)  # flattened_ids
    attributes = {"replica_groups": _dense(groups), "channel_handle": _channel(d, True)}
    return len(groups[0]), attributes | {"use_global_device_ids": ir.UnitAttr.get()}


def _exchange_groups(d: Draft) -> tuple[int, Groups, dict[str, AttributeValue]]:
    """Groups of replicas, or of partitions: how many there are in all, the groups, the channel."""
    assert d.grid is not None
    across = d.whole(0, 2)  # cross_replica, cross_partition
    return d.grid[across], _split(d, d.grid[across]), {"channel_handle": _channel(d, bool(across))}


@family(4, in_regions=False, only="grid")
def all_reduce(d: Draft) -> Made:
    """One or two operands."""
    x = d.value("bsufc")
    name = combiner(d, x)
    values = [x, d.like(x)] if d.chance(0.3) else [x]
    _, attributes = _reduction_groups(d)
    element = computed_in(d, x)
    made = d.make("all_reduce", values, [d.tensor(sizes(x), element)] * len(values), attributes, regions=1)
    body(made, 0, [d.tensor([], element)] * 2, each([name]))
    return list(made.results)


@family(2, in_regions=False, only="grid")
def reduce_scatter(d: Draft) -> Made:
    """Each member of a group gets a part of the combined values."""
    x = d.value("bsufc", low=1)
    name = combiner(d, x)
    members, attributes = _reduction_groups(d)
    fitting = [axis for axis, size in enumerate(sizes(x)) if size % members == 0]
    axis = d.one_of(fitting)
    shape = [size // members if number == axis else size for number, size in enumerate(sizes(x))]
    attributes["scatter_dimension"] = axis
    element = computed_in(d, x)
    return combining(d, "reduce_scatter", [x], [d.tensor(shape, element)], attributes, name)


@family(3, in_regions=False, only="grid")
def all_gather(d: Draft) -> Made:
    """The parts of all members, one after the other along a dimension."""
    x = d.value(ANY, low=1)
    members, attributes = _reduction_groups(d)
    axis = d.whole(0, len(sizes(x)))
    shape = [size * members if number == axis else size for number, size in enumerate(sizes(x))]
    require(members * elements(x) <= MAX_ELEMENTS)
    attributes["all_gather_dim"] = axis
    return d.make("all_gather", [x], [d.tensor(shape, x.type.element_type)], attributes).result


@family(3, in_regions=False, only="grid")
def all_to_all(d: Draft) -> Made:
    """Parts along one dimension go to the members, and are put together along another."""
    x = d.value(ANY, low=1)
    _, groups, attributes = _exchange_groups(d)
    members = len(groups[0])
    fitting = [axis for axis, size in enumerate(sizes(x)) if size % members == 0]
    split, concat = d.one_of(fitting), d.whole(0, len(sizes(x)))
    shape = sizes(x)
    shape[split] //= members
    shape[concat] *= members
    attributes |= {"split_dimension": split, "concat_dimension": concat, "split_count": members}
    attributes["replica_groups"] = _dense(groups)
    return d.make("all_to_all", [x], [d.tensor(shape, x.type.element_type)], attributes).result


@family(3, in_regions=False, only="grid")
def collective_permute(d: Draft) -> Made:
    """Values go from process to process; who gets none has zeros."""
    x = d.value(ANY.replace("e", ""))
    count, _, attributes = _exchange_groups(d)
    sources, targets = ([int(number) for number in d.random.permutation(count)] for _ in range(2))
    pairs = [list(pair) for pair in zip(sources, targets, strict=True)][: d.whole(1, count + 1)]
    attributes["source_target_pairs"] = _dense(pairs)
    return d.make("collective_permute", [x], [x.type], attributes).result


@family(2, in_regions=False, only="grid")
def collective_broadcast(d: Draft) -> Made:
    """The first of each group gives its value to all."""
    x = d.value(ANY.replace("e", ""))
    _, groups, attributes = _exchange_groups(d)
    attributes["replica_groups"] = _dense(groups)
    return d.make("collective_broadcast", [x], [x.type], attributes).result


@family(1.5, in_regions=False, only="grid")
def process_id(d: Draft) -> Made:
    """The number of the replica, or of the partition."""
    type_ = d.tensor([], ir.Type.parse("ui32"))
    return d.op(d.one_of(("replica_id", "partition_id")), results=[type_])
