"""How JAX lowers primitives for the platform: functions of CHLO are kernels of ours, not arithmetic that jaxlib expands
them to, and what avoids faults of XLA's is not taken over."""

from __future__ import annotations

import pytest

from stablehlo_py.pjrt.lowerings import EXPANDED
from test.helpers.platform_scripts import script


@pytest.mark.parametrize("devices", ["1", "2"])
def test_functions_arrive_as_they_are(devices: str) -> None:
    script(
        f"""
        from functools import partial
        import scipy.special
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        theirs = dict(
            bessel_i1e=scipy.special.i1e, digamma=scipy.special.digamma, erf_inv=scipy.special.erfinv,
            erfc=scipy.special.erfc, lgamma=scipy.special.gammaln,
        )
        of_two = dict(zeta=scipy.special.zeta)
        assert {{*theirs, *of_two}} == set({EXPANDED!r})
        mesh = Mesh(jax.devices(), "d")
        for name, wanted in theirs.items():
            function = getattr(jax.lax, name)
            for dtype, tolerance in ((np.float32, 3e-6), (jnp.bfloat16, 1e-2), (np.float16, 2e-3)):
                x = jnp.linspace(0.05, 0.95, 64, dtype=dtype)
                if len(jax.devices()) > 1:
                    x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("d")))
                compiled = jax.jit(function).lower(x).compile()
                assert "hlo." + name in compiled.as_text(), (name, dtype)
                exact = wanted(np.asarray(x).astype(np.float64))
                np.testing.assert_allclose(np.asarray(compiled(x)).astype(np.float64), exact, tolerance, tolerance)
            rows = jnp.linspace(0.1, 0.9, 12).reshape(3, 4)
            np.testing.assert_array_equal(jax.vmap(function)(rows), function(rows))
            if name != "bessel_i1e":
                slope = (wanted(0.5 + 1e-5) - wanted(0.5 - 1e-5)) / 2e-5
                np.testing.assert_allclose(jax.grad(function)(0.5), slope, 1e-4)
        for name, wanted in of_two.items():
            function = getattr(jax.lax, name)
            for dtype, tolerance in ((np.float32, 3e-6), (jnp.bfloat16, 1e-2), (np.float16, 2e-3)):
                first, x = jnp.full(64, 3, dtype), jnp.linspace(1.05, 2.95, 64, dtype=dtype)
                if len(jax.devices()) > 1:
                    x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("d")))
                compiled = jax.jit(function).lower(first, x).compile()
                assert "hlo.zeta" in compiled.as_text(), (name, dtype)
                exact = wanted(3, np.asarray(x).astype(np.float64))
                np.testing.assert_allclose(np.asarray(compiled(first, x)).astype(np.float64), exact, tolerance)
            rows = jnp.linspace(1.1, 1.9, 12).reshape(3, 4)
            mapped = jax.vmap(function, in_axes=(None, 0))(jnp.full(4, 3.0), rows)
            np.testing.assert_array_equal(mapped, function(jnp.full((3, 4), 3.0), rows))
        np.testing.assert_allclose(jax.grad(jax.lax.digamma)(0.5), scipy.special.polygamma(1, 0.5), 1e-6)
        """,
        SHLO_NUM_DEVICES=devices,
    )


def test_rules_of_all_platforms() -> None:
    script(
        """
        def pooled(x):
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 3), (2, 2), "SAME").sum()
        text = jax.jit(jax.grad(pooled)).lower(jnp.zeros((8, 8))).as_text()
        assert "select_and_scatter" in text and "stablehlo.pad" not in text
        text = jax.jit(jax.random.bits).lower(jax.random.key(0)).as_text()
        assert "threefry2x32" in text and "while" not in text
        """
    )
