"""Code that depends on the platform."""

from __future__ import annotations

from test.helpers.platform_scripts import script


def test_lowerings_for_the_cpu_that_come_later_are_for_the_platform() -> None:
    script(
        """
        from functools import partial
        from jax._src import dispatch
        from jax._src.interpreters import mlir
        from jax.extend import core
        twice = core.Primitive("twice")
        twice.def_impl(partial(dispatch.apply_primitive, twice))
        twice.def_abstract_eval(lambda x: x)
        mlir.register_lowering(twice, mlir.lower_fun(lambda x: x * 2, multiple_results=False), platform="cpu")
        assert twice.bind(jnp.ones(2)).tolist() == [2, 2]
        mlir.register_lowering(twice, mlir.lower_fun(lambda x: x * 3, multiple_results=False), platform="shlo")
        jax.clear_caches()
        assert twice.bind(jnp.ones(2)).tolist() == [3, 3]
        """
    )


def test_code_for_the_cpu_is_for_the_platform() -> None:
    script(
        """
        def chosen(**branches):
            return int(jax.jit(lambda x: jax.lax.platform_dependent(x, **branches))(1))
        one, two, three = (lambda x, n=n: x * 0 + n for n in (1, 2, 3))
        assert chosen(cpu=one, cuda=two) == 1
        assert chosen(cuda=two, cpu=one, default=three) == 1
        assert chosen(shlo=two, cpu=one, default=three) == 2
        assert chosen(tpu=one, default=three) == 3
        """,
    )
