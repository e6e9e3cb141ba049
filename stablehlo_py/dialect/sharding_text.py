"""Shardings and meshes in Shardy's syntax (docs/sharding.md), read and written.

#sdy.sharding<@mesh, [{"x", "y"}, {"z":(1)2, ?}], replicated={"w"}>     #sdy.mesh<["x"=2, "y"=2], device_ids=[3, 1]>
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_SHARDING = re.compile(r'^#sdy\.sharding<(?:@(\w+|"[^"]*")|(mesh<.*?>(?=,)))\s*,\s*\[(.*?)\](.*)>$')
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_AXIS = re.compile(r'"([^"]*)"(?::\((\d+)\)(\d+))?')
_AXIS_SIZE = re.compile(r'"([^"]+)"\s*=\s*(\d+)')
_DEVICES = re.compile(r"(?:maximal=|device_ids=\[)([\d, ]*)")
_MAXIMAL = re.compile(r"^\{+maximal device=(\d+)\}")
_UNREDUCED = re.compile(r"unreduced=\{([^{}]*)\}")


@dataclass(frozen=True)
class Axis:
    """An axis of a mesh, or (unless `size` is 0) a part of one: that many devices, behind `before` of them."""

    name: str
    before: int = 1
    size: int = 0

    def __str__(self) -> str:
        return f'"{self.name}":({self.before}){self.size}' if self.size else f'"{self.name}"'


Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Sharding:
    """A sharding: a mesh, by name or as text, the axes along every dimension, which dimensions may be sharded further,
    and the axes along which the value is yet to be summed up."""

    mesh: str
    dimensions: tuple[Axes, ...]
    open: tuple[bool, ...] = ()
    unreduced: Axes = ()

    @property
    def is_split(self) -> bool:
        """Whether it names axes."""
        return any(self.dimensions)

    def __str__(self) -> str:
        dimensions = ", ".join("{" + ", ".join(map(str, axes)) + "}" for axes in self.dimensions)
        return f"#sdy.sharding<{self.mesh}, [{dimensions}]>"


@dataclass(frozen=True)
class Mesh:
    """A mesh: sizes by name, the slowest first, and its devices where it lists them."""

    sizes: Mapping[str, int]
    devices: tuple[int, ...] | None

    def count(self, axes: Sequence[Axis]) -> int:
        """How many devices there are along some axes."""
        return math.prod(axis.size or self.sizes[axis.name] for axis in axes)


def read_sharding(text: str) -> Sharding | None:
    """A sharding; None where the text is none."""
    match = _SHARDING.match(text)
    if match is None:
        return None
    name, inline, dimensions, behind = match.groups()
    unreduced = _UNREDUCED.search(behind)
    split = _DIMENSION.findall(dimensions)
    return Sharding(
        inline or f"@{name}",
        tuple(map(_axes, split)),
        tuple("?" in each for each in split),
        _axes(unreduced[1]) if unreduced else (),
    )


def leaves_open(text: str) -> bool:
    """Whether a value may be sharded in some way that is not said: nothing is, or a dimension is open."""
    sharding = read_sharding(text)
    return not text or (sharding is not None and any(sharding.open))


def filled(text: str, proposed: Sharding | None) -> Sharding | None:
    """What is said of a value, sharded as proposed in dimensions that are open: axes behind those that it has. Closed
    dimensions stay, as do all where summands are left, or the axes are of another mesh. None: nothing is known."""
    said = read_sharding(text)
    if proposed is None or said is None:
        return said if text else proposed
    is_same_mesh = said.mesh == proposed.mesh or not said.is_split
    if not any(said.open) or said.unreduced or not is_same_mesh or len(said.dimensions) != len(proposed.dimensions):
        return said
    used = {axis.name for axes in said.dimensions for axis in axes}
    dimensions = []
    for own, is_open, more in zip(said.dimensions, said.open, proposed.dimensions, strict=True):
        fits = is_open and more[: len(own)] == own and not used & {axis.name for axis in more[len(own) :]}
        dimensions.append(more if fits else own)
    return replace(said, mesh=proposed.mesh, dimensions=tuple(dimensions))


def single_device(text: str, meshes: Mapping[str, str]) -> int | None:
    """The device of a sharding that names one, and no axes, in Shardy's words or in XLA's; else None."""
    if found := _MAXIMAL.match(text):
        return int(found[1])
    sharding = read_sharding(text)
    if sharding is None:
        return None
    mesh = read_mesh(sharding.mesh, meshes)
    return mesh.devices[0] if not mesh.sizes and mesh.devices is not None and len(mesh.devices) == 1 else None


def read_mesh(mesh: str, meshes: Mapping[str, str]) -> Mesh:
    """The mesh that a sharding names, or holds."""
    text = meshes.get(mesh[1:].strip('"'), "") if mesh.startswith("@") else mesh
    listed = _DEVICES.search(text)
    devices = tuple(int(each) for each in listed[1].split(",") if each.strip()) if listed else None
    return Mesh({name: int(size) for name, size in _AXIS_SIZE.findall(text)}, devices)


def _axes(text: str) -> Axes:
    return tuple(Axis(name, int(before or 1), int(size or 0)) for name, before, size in _AXIS.findall(text))
