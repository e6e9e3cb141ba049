"""Shardings as XLA prints them (xla/hlo/ir/hlo_sharding.cc), and the same in Shardy's syntax.

    {devices=[2,1,2]<=[4] last_tile_dim_replicate}    #sdy.sharding<@mesh, [{"axis_0"}, {}]>
                                                      mesh = #sdy.mesh<["axis_0"=2, "axis_1"=2]>

The devices of a tile assignment are a list, or `<=[dims]T(permutation)`, iota reshaped to `dims` and transposed.
Dimensions of the tiles behind those of the value tell devices apart that have the same tile.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_TILES = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")
_REPLICATED_TAIL = re.compile(r"[\d\])]( last_tile_dim_replicate| last_tile_dims=\{replicated\})?\}")
_MANUAL_TAIL = re.compile(r"[\d\])] last_tile_dims=\{((?:(?:manual|replicated)(?:, ?)?)+)\}\}")


@dataclass(frozen=True)
class Tiles:
    """A tile assignment: the number of tiles along every dimension, and which device has which."""

    counts: tuple[int, ...]
    dims: tuple[int, ...]  # of iota; empty where devices are listed
    permutation: tuple[int, ...]
    listed: tuple[int, ...]

    @property
    def devices(self) -> np.ndarray:
        """The devices, as they are listed."""
        if self.listed:
            return np.array(self.listed)
        return np.arange(math.prod(self.dims)).reshape(self.dims).transpose(self.permutation).reshape(-1)


def tiles_of(sharding: str) -> Tiles | None:
    """The tile assignment of a sharding; None where it has none."""
    match = _TILES.match(sharding)
    if match is None:
        return None
    counts, dims, permutation, listed = (
        tuple(int(number) for number in part.split(",")) if part else () for part in match.groups()
    )
    return Tiles(counts, dims, permutation or tuple(range(len(dims))), listed)


class Meshes:
    """Names the meshes of a module's shardings."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """`known`: meshes that the module has, by name."""
        self.names = {mesh: name for name, mesh in (known or {}).items()}  # by text

    def shardy(self, sharding: str, rank: int, open_: Sequence[int] = (), manual: bool = False) -> str:
        """A sharding in Shardy's syntax; as it is where Shardy cannot say it. `open_`: dimensions that may be sharded
        further. `manual`: axes that are partitioned by hand are as those along which the value is replicated."""
        dimensions = [["?"] if dimension in open_ else [] for dimension in range(rank)]
        if sharding == "{replicated}":
            return self._text("#sdy.mesh<[]>", dimensions)
        tiles = tiles_of(sharding)
        match = _REPLICATED_TAIL.search(sharding)
        behind = 1 if match is not None and match[1] else 0
        if manual and match is None:
            match = _MANUAL_TAIL.search(sharding)
            behind = match[1].count(",") + 1 if match is not None else 0
        if tiles is None or match is None or len(tiles.counts) != rank + behind:
            return sharding
        found = _axes(tiles)
        if found is None:
            return sharding
        mesh, axes = found
        return self._text(mesh, [[*own, *more] for own, more in zip(axes, dimensions, strict=False)])

    def _text(self, mesh: str, dimensions: Sequence[Sequence[str]]) -> str:
        if mesh not in self.names:
            numbered = ("mesh" if number == 0 else f"mesh_{number}" for number in itertools.count(len(self.names)))
            self.names[mesh] = next(name for name in numbered if name not in self.names.values())
        name = self.names[mesh]
        return f"#sdy.sharding<@{name}, [{', '.join('{' + ', '.join(each) + '}' for each in dimensions)}]>"


def _axes(tiles: Tiles) -> tuple[str, list[list[str]]] | None:
    """The mesh, and for every dimension of the tiles the axes that it goes along."""
    if tiles.listed:
        taken = [(dimension, count) for dimension, count in enumerate(tiles.counts)]
        places = [[(0, dimension)] if count > 1 else [] for dimension, count in taken]
        factors = [[count for _, count in taken]]
        ids = f", device_ids=[{', '.join(map(str, tiles.listed))}]"
    else:
        split = _split(tiles)
        if split is None:
            return None
        factors, places = split
        ids = ""
    sizes = {(of, number): size for of, row in enumerate(factors) for number, size in enumerate(row) if size > 1}
    names = {place: f'"axis_{number}"' for number, place in enumerate(sizes)}
    mesh = ", ".join(f"{names[place]}={size}" for place, size in sizes.items())
    return f"#sdy.mesh<[{mesh}]{ids}>", [[names[place] for place in row if place in names] for row in places]


def _split(tiles: Tiles) -> tuple[list[list[int]], list[list[tuple[int, int]]]] | None:
    """The factors into which tiles cut the dimensions of iota, slowest first, and for every dimension of the tiles its
    factors, by dimension of iota and position; None where they do not fit into each other."""
    factors: list[list[int]] = [[] for _ in tiles.dims]
    waiting = [[dimension, tiles.dims[dimension]] for dimension in tiles.permutation]
    places: list[list[tuple[int, int]]] = []
    for count in tiles.counts:
        row: list[tuple[int, int]] = []
        while count > 1:
            if not waiting:
                return None
            dimension, size = waiting[0]
            step = math.gcd(count, size)
            if step != min(count, size) and size > 1:
                return None
            if step > 1:
                row.append((dimension, len(factors[dimension])))
                factors[dimension].append(step)
            count //= step
            waiting[0][1] //= step
            if waiting[0][1] == 1:
                waiting.pop(0)
        places.append(row)
    return None if waiting and waiting[0][1] > 1 else (factors, places)
