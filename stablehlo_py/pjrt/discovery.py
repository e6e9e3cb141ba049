"""What JAX calls when it looks for platforms (the entry point `jax_plugins`), in every process that uses JAX where this
package is installed. So nothing is imported, and nothing changes, unless a platform is asked for by name."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from stablehlo_py.pjrt.platforms import named


def initialize() -> None:
    """Register the platforms that JAX_PLATFORMS, or `jax.config.update("jax_platforms", ...)`, names. JAX's error says
    why one cannot be had."""
    import jax

    asked = named((jax.config.jax_platforms or "").split(","))
    if not asked:
        return
    from stablehlo_py.errors import ShloError
    from stablehlo_py.pjrt.versions import internal

    for platform in asked:
        try:
            from stablehlo_py.pjrt import plugin

            plugin.initialize(platform)
        except ShloError as error:
            # What leaves this function is only logged, and JAX would say that it knows no such platform.
            internal("register_backend_factory")(platform, partial(_refuse, error), fail_quietly=False)


def _refuse(error: Exception) -> NoReturn:
    raise error
