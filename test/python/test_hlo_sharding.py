"""Shardings of XLA in Shardy's syntax: the same devices have the same parts."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from stablehlo_py.frontend.hlo_sharding import Meshes, tiles_of

CASES = [
    ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2),
    ("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 2),
    ("{devices=[2,1,2]<=[4] last_tile_dims={replicated}}", 2),
    ("{devices=[2,2]<=[4]}", 2),
    ("{devices=[2,2]2,0,3,1}", 2),
    ("{devices=[8,1]<=[2,4]}", 2),
    ("{devices=[8,1]<=[2,4]T(1,0)}", 2),
    ("{devices=[2,4]<=[4,2]T(1,0)}", 2),
    ("{devices=[4,3]<=[2,3,2]T(0,2,1)}", 2),
    ("{devices=[2,2,6]<=[24] last_tile_dim_replicate}", 2),
    ("{devices=[1,4]<=[1,4]}", 2),
]
# Of these Shardy has no word, or no mesh has such axes.
KEPT = ["{manual}", "{maximal device=0}", "{devices=[2,3]<=[3,2]}", "{devices=[2,2]<=[4] last_tile_dims={manual}}"]


def _parts_in_xla(sharding: str, rank: int) -> dict[int, tuple[int, ...]]:
    """Device -> the part that it has along every dimension."""
    tiles = tiles_of(sharding)
    assert tiles is not None
    devices = tiles.devices.reshape(tiles.counts)
    return {int(devices[place]): place[:rank] for place in np.ndindex(devices.shape)}


def _parts_in_shardy(sharding: str, mesh: str) -> dict[int, tuple[int, ...]]:
    axes = {name: int(size) for name, size in re.findall(r'"(\w+)"=(\d+)', mesh)}
    listed = re.search(r"device_ids=\[([\d, ]+)\]", mesh)
    count = int(np.prod(list(axes.values())))
    devices = [int(each) for each in listed[1].split(",")] if listed else range(count)
    dimensions = [re.findall(r'"(\w+)"', each) for each in re.findall(r"\{([^{}]*)\}", sharding)]
    parts = {}
    for device, place in zip(devices, itertools.product(*map(range, axes.values())), strict=True):
        at = dict(zip(axes, place, strict=True))
        numbers = []
        for names in dimensions:
            number = 0
            for name in names:
                number = number * axes[name] + at[name]
            numbers.append(number)
        parts[device] = tuple(numbers)
    return parts


@pytest.mark.parametrize(("sharding", "rank"), CASES)
def test_the_same_parts(sharding: str, rank: int) -> None:
    meshes = Meshes()
    text = meshes.shardy(sharding, rank)
    assert text.startswith("#sdy.sharding<@mesh, [")
    (mesh,) = meshes.names
    assert _parts_in_shardy(text, mesh) == _parts_in_xla(sharding, rank)


@pytest.mark.parametrize("sharding", KEPT)
def test_others_stay_as_they_are(sharding: str) -> None:
    assert Meshes().shardy(sharding, 2) == sharding


def test_open_dimensions() -> None:
    text = Meshes().shardy("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2, [1])
    assert text == '#sdy.sharding<@mesh, [{"axis_0"}, {?}]>'
    assert Meshes().shardy("{replicated}", 2) == "#sdy.sharding<@mesh, [{}, {}]>"


def test_shardy_reads_them() -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    sdy = pytest.importorskip("jaxlib.mlir.dialects.sdy")
    context = ir.Context()
    sdy.register_dialect(context)
    meshes = Meshes()
    texts = [meshes.shardy(sharding, rank) for sharding, rank in [*CASES, ("{replicated}", 3)]]
    for text in (*texts, *meshes.names):
        assert str(ir.Attribute.parse(text, context)) == text
