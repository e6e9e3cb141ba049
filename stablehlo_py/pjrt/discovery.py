"""What JAX calls when it looks for platforms (the entry point `jax_plugins`), in every process that uses JAX where this
package is installed. So nothing is imported, and nothing changes, unless the platform is asked for by name."""

from __future__ import annotations

PLATFORM = "shlo"


def initialize() -> None:
    """Register the platform if JAX_PLATFORMS, or `jax.config.update("jax_platforms", ...)`, names it."""
    import jax

    if PLATFORM in (jax.config.jax_platforms or "").split(","):
        from stablehlo_py.pjrt import plugin

        plugin.initialize()
