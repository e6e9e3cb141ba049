"""Code of JAX that depends on the platform (`jax.lax.platform_dependent`): what is for its CPU is for this platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stablehlo_py.pjrt.versions import internals

_jax = internals()
Branches = tuple[tuple[str, ...] | None, ...]  # names of platforms; None: any other


def register(platform: str) -> None:
    """Let JAX choose the branches of its CPU for a platform that no branch names."""
    for primitive, parameter in (
        (_jax.cond_p, "branches_platforms"),
        (_jax.platform_index_p, "platforms"),
    ):
        usual = _jax._lowerings[primitive].rule
        _jax.register_lowering(primitive, _as_cpu(usual, parameter, platform), platform)


def _as_cpu(usual: Callable[..., Any], parameter: str, platform: str) -> Callable[..., Any]:
    def lower(context: Any, *operands: Any, **parameters: Any) -> Any:
        branches = parameters.get(parameter)
        if branches is not None:
            parameters[parameter] = with_platform(branches, platform)
        return usual(context, *operands, **parameters)

    return lower


def with_platform(branches: Branches, platform: str) -> Branches:
    """Branches for one platform more, which is as the CPU where no branch names it."""
    if any(platform in (names or ()) for names in branches):
        return branches
    return tuple((*names, platform) if names and "cpu" in names else names for names in branches)
