"""What `jax.export` says beside the module: the platforms it is for, the arguments of the call that was exported.

A module exported for several platforms takes the number of the one that it runs on as its first argument
(frontend/platform.py). And a module lacks the arguments that its function does not use, though users pass them.

`Exported.serialize()` writes a flatbuffer. Four of its fields are read directly, so that neither jax nor the
flatbuffers package is needed to load one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from stablehlo_py.dialect.attributes import KEPT, LEAVES, PLATFORMS
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.program import Leaves

# Slots of jax's `Exported` table; stable since the format's first version (2023), the last since April 2026.
_IN_AVALS, _PLATFORMS, _MODULE, _KEPT, _IN_AVAL_INDICES = 10, 22, 30, 34, 48


@dataclass(frozen=True)
class Export:
    """The fields of an `Exported` that a compiler needs beside its module."""

    platforms: tuple[str, ...]
    leaves: Leaves

    @staticmethod
    def of(exported: Any) -> Export:
        """The fields of a `jax.export.Exported`."""
        kept = tuple(int(position) for position in exported.module_kept_var_idx)
        return Export(tuple(exported.platforms), Leaves(len(exported.in_avals), kept))


def read_flatbuffer(data: bytes) -> tuple[bytes, Export] | None:
    """The module inside `Exported.serialize()`'s flatbuffer, and what is said beside it; None when `data` is no such
    flatbuffer. Every step is checked, since `data` may be anything."""
    try:
        table = _Table(data)
        module = table.vector(_MODULE, 1)
        if module is None:
            return None
        platforms = table.strings(_PLATFORMS)
        kept = tuple(struct.iter_unpack("<H", table.vector(_KEPT, 2) or b""))
        count = len(table.vector(_IN_AVAL_INDICES, 4) or table.vector(_IN_AVALS, 4) or b"") // 4
    except (struct.error, UnicodeDecodeError):  # an offset that points outside: not a flatbuffer
        return None
    return module, Export(platforms, Leaves(count, tuple(position for (position,) in kept)))


class _Table:
    """The root table of a flatbuffer (flatbuffers.dev/internals): it starts with the distance back to its vtable, which
    holds the offset of every field. Raises struct.error where an offset points outside."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        (self._root,) = struct.unpack_from("<I", data, 0)
        (distance,) = struct.unpack_from("<i", data, self._root)
        self._vtable = self._root - distance
        if self._vtable < 0:
            raise struct.error("the vtable lies before the data")
        (self._vtable_size,) = struct.unpack_from("<H", data, self._vtable)

    def _vector_at(self, place: int, size: int) -> bytes:
        (relative,) = struct.unpack_from("<I", self._data, place)
        (length,) = struct.unpack_from("<I", self._data, place + relative)
        start = place + relative + 4
        if start + length * size > len(self._data):
            raise struct.error("a vector ends outside the data")
        return self._data[start : start + length * size]

    def _field(self, slot: int) -> int | None:
        """Where a field lies."""
        if self._vtable_size < slot + 2:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._vtable + slot)
        return self._root + offset if offset else None

    def vector(self, slot: int, size: int) -> bytes | None:
        """The bytes of a vector whose elements have `size` bytes; None when it is absent."""
        place = self._field(slot)
        return None if place is None else self._vector_at(place, size)

    def strings(self, slot: int) -> tuple[str, ...]:
        """A vector of strings: offsets, each relative to itself."""
        place = self._field(slot)
        if place is None:
            return ()
        count = len(self._vector_at(place, 4)) // 4
        (relative,) = struct.unpack_from("<I", self._data, place)
        first = place + relative + 4
        return tuple(self._vector_at(first + 4 * number, 1).decode() for number in range(count))


def attach(module: ir.Module, export: Export) -> None:
    """Write into the module what its source says beside it."""
    attributes, context = module.operation.attributes, module.context
    with context:
        attributes[PLATFORMS] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in export.platforms])
        attributes[LEAVES] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), export.leaves.count)
        attributes[KEPT] = ir.DenseI64ArrayAttr.get(export.leaves.kept)


def leaves_of(module: ir.Module) -> Leaves | None:
    """The arguments of the call that the module was exported from; None where that is not known."""
    attributes = module.operation.attributes
    if LEAVES not in attributes:
        return None
    return Leaves(ir.IntegerAttr(attributes[LEAVES]).value, tuple(ir.DenseI64ArrayAttr(attributes[KEPT])))


def platforms_of(module: ir.Module) -> tuple[str, ...]:
    """The platforms that the module was exported for; none where that is not known."""
    attributes = module.operation.attributes
    names = ir.ArrayAttr(attributes[PLATFORMS]) if PLATFORMS in attributes else ()
    return tuple(ir.StringAttr(name).value for name in names)
