"""Which device of a mesh has which part of a value: shardings in Shardy's syntax, as arrays of devices.

#sdy.sharding<@mesh, [{"x", "y"}, {}]>     mesh = #sdy.mesh<["x"=2, "y"=2]>     devices 0 1 2 3 along dimension 0
#sdy.sharding<@mesh, [{}, {"y":(1)2}]>     an axis of the mesh in parts: the first 2 of its devices, then the rest
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stablehlo_py.dialect.sharding_text import Axis, Mesh, read_mesh, read_sharding


class UnknownSharding(Exception):
    """Why a sharding is not one that values can be split by."""


@dataclass(frozen=True)
class Placement:
    """A value's parts.

    Attributes:
        groups: for every dimension, rows of devices that differ along it only, in the order of their parts.
        sums: rows of devices whose parts are to be added up. Rows are sorted by their first devices.
        tiles: the devices, in the shape of the parts, and two dimensions more: those that have the same part, and those
            that have summands of it.
    """

    groups: tuple[np.ndarray, ...]
    sums: np.ndarray
    tiles: np.ndarray

    @property
    def is_split(self) -> bool:
        """Whether there is more than one part, or summand."""
        return any(rows.shape[1] > 1 for rows in (*self.groups, self.sums))

    @property
    def has_summands(self) -> bool:
        """Whether parts are to be added up."""
        return self.sums.shape[1] > 1

    @property
    def counts(self) -> tuple[int, ...]:
        """How many parts there are along every dimension."""
        return tuple(rows.shape[1] for rows in self.groups)

    def without(self, other: Placement) -> Placement:
        """What of this placement another one does not have: along which dimensions, and in which summands, values are
        split otherwise. `tiles` stay."""
        alone = np.arange(self.tiles.size).reshape(-1, 1)
        *groups, sums = (
            alone if np.array_equal(mine, its) else mine
            for mine, its in zip((*self.groups, self.sums), (*other.groups, other.sums), strict=True)
        )
        return replace(self, groups=tuple(groups), sums=sums)


def replicated(rank: int, partitions: int) -> Placement:
    """Every device has the whole value."""
    devices = np.arange(partitions)
    alone = devices.reshape(-1, 1)
    return Placement((alone,) * rank, alone, devices.reshape([1] * rank + [partitions, 1]))


def placement_of(
    sharding: str, meshes: Mapping[str, str], rank: int, partitions: int, only: Collection[str] | None = None
) -> Placement:
    """Where a sharding puts the parts of a value of a rank; "": everywhere. `only`: the axes that are looked at.

    Raises UnknownSharding: it is not for all partitions.
    """
    if not sharding:
        return replicated(rank, partitions)
    read = read_sharding(sharding)
    if read is None:
        raise UnknownSharding(f"the sharding {sharding} is not known")
    dimensions = read.dimensions or ((),) * rank
    if len(dimensions) != rank:
        raise UnknownSharding(f"the sharding {sharding} is not for {rank} dimensions")
    mesh = read_mesh(read.mesh, meshes)
    if not mesh.sizes and mesh.devices is not None:
        raise UnknownSharding(f"the sharding {sharding} is that of one device")
    *split, unreduced = (
        [axis for axis in axes if only is None or axis.name in only] for axes in (*dimensions, read.unreduced)
    )
    if not any(split) and not unreduced:
        return replicated(rank, partitions)
    devices = np.arange(math.prod(mesh.sizes.values())) if mesh.devices is None else np.array(mesh.devices)
    if sorted(devices) != list(range(partitions)):
        raise UnknownSharding(
            f"the mesh of the sharding {sharding} has {len(devices)} devices up to number {max(devices)}, "
            f"and the module is for {partitions} partitions"
        )
    axes = [axis for each in (*split, unreduced) for axis in each]
    factors, places = _factors(mesh, axes)
    if len(set(axes)) != len(axes) or not places.keys() >= set(axes) or math.prod(factors) != len(devices):
        raise UnknownSharding(f"the axes of the sharding {sharding} are not those of its mesh")
    devices = devices.reshape(factors)
    *along, summed = ([place for axis in axes for place in places[axis]] for axes in (*split, unreduced))
    taken = [place for each in along for place in each]
    rest = [place for place in range(len(factors)) if place not in taken + summed]
    counts = [math.prod(factors[place] for place in each) for each in (*along, rest, summed)]
    tiles = devices.transpose([*taken, *rest, *summed]).reshape(counts)
    return Placement(tuple(_groups_along(devices, each) for each in along), _groups_along(devices, summed), tiles)


def _groups_along(devices: np.ndarray, dimensions: Sequence[int]) -> np.ndarray:
    """Rows of the devices of a mesh that differ along some of its dimensions only, in their order."""
    fixed = [dimension for dimension in range(devices.ndim) if dimension not in dimensions]
    width = math.prod(devices.shape[dimension] for dimension in dimensions)
    rows = devices.transpose([*fixed, *dimensions]).reshape(-1, width)
    return rows[np.argsort(rows[:, 0])]


def groups_of_axes(mesh: Mesh, axes: Sequence[Axis]) -> np.ndarray:
    """Rows of the devices of a mesh that differ along some of its axes only, in their order."""
    factors, places = _factors(mesh, axes)
    devices = np.arange(math.prod(factors)) if mesh.devices is None else np.array(mesh.devices)
    return _groups_along(devices.reshape(factors), [place for axis in axes for place in places.get(axis, ())])


def _factors(mesh: Mesh, axes: Sequence[Axis]) -> tuple[list[int], dict[Axis, list[int]]]:
    """The axes of a mesh, cut where parts of them are used: the size of every piece, and which pieces make an axis."""
    factors: list[int] = []
    places: dict[Axis, list[int]] = {}
    for name, whole in mesh.sizes.items():
        used = [axis for axis in axes if axis.name == name]
        ends = {axis: (axis.before, axis.before * (axis.size or whole)) for axis in used}
        cuts = sorted({1, whole}.union(*ends.values()))
        for low, high in zip(cuts, cuts[1:] or [whole], strict=False):
            for axis, (first, last) in ends.items():
                if first <= low < last or (whole == 1 and not axis.size):
                    places.setdefault(axis, []).append(len(factors))
            factors.append(high // low)
    return factors, places
