"""How arguments and results of an executable are sharded, as PJRT's extension for shardings says it: a serialized
OpShardings (xla/xla_data.proto) for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.frontend.placement import Placement
from stablehlo_py.pjrt.blocks import Memory
from stablehlo_py.pjrt.options import numeric, packed

_TYPE, _TILE_DIMENSIONS, _TILE_DEVICES, _LAST_DIMENSIONS = 1, 3, 4, 8
_REPLICATED, _OTHER, _UNREDUCED = 0, 3, 6


@dataclass(frozen=True)
class Shardings:
    """Of each argument and of each result; none of a program for one device."""

    parameters: tuple[bytes, ...] = ()
    outputs: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, arguments: Sequence[Placement], results: Sequence[Placement]) -> Shardings:
        """Those of placed values."""
        return cls(tuple(map(op_sharding, arguments)), tuple(map(op_sharding, results)))

    def fields(self, memory: Memory) -> dict[str, int]:
        """The fields of an executable's block; the texts live in `memory`."""
        found = {}
        for name, shardings in (("parameter", self.parameters), ("output", self.outputs)):
            texts = [memory.text(sharding) for sharding in shardings]
            if texts:
                found[f"{name}_shardings"] = memory.numbers([address for address, _ in texts])
                found[f"{name}_sharding_sizes"] = memory.numbers([size for _, size in texts])
        return found


def op_sharding(placement: Placement) -> bytes:
    """An OpSharding."""
    if not placement.is_split:
        return numeric(_TYPE, _REPLICATED)
    *counts, same, summands = placement.tiles.shape
    behind = [(count, kind) for count, kind in ((same, _REPLICATED), (summands, _UNREDUCED)) if count > 1]
    content = numeric(_TYPE, _OTHER) + packed(_TILE_DIMENSIONS, [*counts, *(count for count, _ in behind)])
    content += packed(_TILE_DEVICES, placement.tiles.reshape(-1).tolist())
    return content + packed(_LAST_DIMENSIONS, [kind for _, kind in behind])
