"""Code that depends on the platform."""

from __future__ import annotations

from test.helpers.platform_scripts import script


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
