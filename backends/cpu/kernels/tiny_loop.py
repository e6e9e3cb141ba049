"""Whole small loops: the same template as `tiny`, told apart by the fusion pass because its cost is per trip."""

from __future__ import annotations

from stablehlo_py.backends.cpu.kernels.tiny import emit

__all__ = ["emit"]
