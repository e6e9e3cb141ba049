"""JAX's persistent cache of compilations (`jax_compilation_cache_dir`), which JAX has for a list of platforms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stablehlo_py.pjrt.versions import internals

_KNOWN = SimpleNamespace(platform="cpu")  # a client of a platform that JAX lists


def register(platform: str) -> None:
    """Let JAX keep executables of a platform. It finds them again by what they were made of, and by the platform's
    version, which tells compilers, machines and numbers of threads apart."""
    usual = internals().is_cache_used

    def is_cache_used(backend: Any) -> bool:
        return bool(usual(_KNOWN if backend.platform == platform else backend))

    internals().compilation_cache.is_cache_used = is_cache_used
