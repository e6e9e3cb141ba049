"""What kernels of a device access, as programs and artifacts say it: by that, a graph knows which of them may run side
by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accesses:
    """Of one kernel, whose operands are addresses: how many bytes from each of them on it reads at most, and how many
    it writes. What it writes, it may read too. It accesses nothing else but constants of its own."""

    read: tuple[int, ...]
    written: tuple[int, ...]
