"""JAX's cache of compiled programs."""

from __future__ import annotations

from pathlib import Path

from test.helpers.platform_scripts import script

# Prints which events JAX counts while a program is compiled or found.
COMPILE = """
import jax.monitoring
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rsplit("/", 1)[-1]))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
"""
CALL = """
assert jax.jit(lambda x: jnp.sin(x) @ x, donate_argnums=0)(jnp.eye(3)).shape == (3, 3)
print(*[event for event in events if event in ("cache_hits", "cache_misses")])
"""


def test_programs_are_found_again(tmp_path: Path) -> None:
    first = script(COMPILE + CALL, JAX_COMPILATION_CACHE_DIR=str(tmp_path)).split()
    assert first and set(first) == {"cache_misses"}
    assert any(file.name.startswith("jit__lambda") for file in tmp_path.iterdir())
    again = script(COMPILE + CALL, JAX_COMPILATION_CACHE_DIR=str(tmp_path)).split()
    assert again == ["cache_hits"] * len(first)


def test_the_version_tells_compilers_machines_and_threads_apart() -> None:
    """JAX's key of a program holds it."""
    script(
        """
        from stablehlo_py.backends.base import get_backend
        from stablehlo_py.options import Options
        from stablehlo_py.runtime.cache import key_of
        def version(threads):
            return key_of(get_backend("cpu").describe(Options()), Options(threads=threads).key)[:16]
        said = jax.devices()[0].client.platform_version
        assert version(None) in said and version(99) not in said, said
        """
    )


def test_programs_that_call_functions_are_not_kept(tmp_path: Path) -> None:
    script(
        COMPILE
        + """
result = jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), 1.0)
assert jax.jit(lambda x: jax.pure_callback(np.sin, x, x))(jnp.float32(0)) == 0
        """,
        JAX_COMPILATION_CACHE_DIR=str(tmp_path),
    )
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith("jit__lambda")]
