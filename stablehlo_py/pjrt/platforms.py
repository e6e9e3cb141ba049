"""The platforms that this package has for JAX: one for the processor, and one for each kind of GPU."""

from __future__ import annotations

from collections.abc import Iterable

#: The backend that compiles for a platform, by the name that JAX_PLATFORMS takes.
PLATFORMS = {"shlo": "cpu", "shlo_cuda": "cuda", "shlo_opencl": "opencl", "shlo_rocm": "rocm"}
HOST = "shlo"  # the platform of the processor


def named(names: Iterable[str]) -> list[str]:
    """Those of our platforms that are among these names."""
    return [name for name in names if name in PLATFORMS]
