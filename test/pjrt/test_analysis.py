"""What JAX says of compiled programs on the platform, and what it may ask of compilations."""

from __future__ import annotations

from pathlib import Path

import pytest

from stablehlo_py.errors import OptionError
from stablehlo_py.options import Options
from stablehlo_py.pjrt.compiler_options import NAMES, options_of
from test.helpers.platform_scripts import script


def test_costs_memory_and_text() -> None:
    script(
        """
        x, w = jnp.ones((32, 64)), jnp.ones((64, 16))
        compiled = jax.jit(lambda x, w: x @ w).lower(x, w).compile()
        costs = compiled.cost_analysis()
        assert costs["flops"] == 2 * 32 * 64 * 16, costs
        assert costs["bytes accessed"] == 4 * (32 * 64 + 64 * 16 + 32 * 16)
        assert compiled.cost_analysis() == costs
        def loop(x, w, p):
            x = jax.lax.fori_loop(0, p, lambda i, c: (c @ w) @ w.T, x)
            return jax.lax.cond(p > 3, lambda: (x @ w) @ w.T, lambda: x)
        flops = jax.jit(loop).lower(x, w, 5).compile().cost_analysis()["flops"]
        product = 2 * 32 * 64 * 16
        # Two products in the body, which counts once, and two in a branch.
        assert 4 * product <= flops < 4.1 * product, flops / product
        memory = compiled.memory_analysis()
        assert memory.argument_size_in_bytes == x.nbytes + w.nbytes and memory.output_size_in_bytes == 4 * 32 * 16
        assert memory.host_argument_size_in_bytes == memory.host_temp_size_in_bytes == 0
        donating = jax.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile().memory_analysis()
        assert donating.alias_size_in_bytes == x.nbytes
        text = compiled.as_text()
        assert "f32[32,16]" in text and "dot(" in text and "jit(<lambda>)/dot_general" in text, text
        assert len(compiled.runtime_executable().hlo_modules()) == 1
        assert jax.devices()[0].memory_stats() is None
        """
    )


def test_the_text_is_that_of_the_optimized_stage() -> None:
    script(
        """
        def text(function, *arguments):
            return jax.jit(function).lower(*arguments).compile().as_text()
        x = jnp.ones((4, 5))
        def program(x, i):
            y = jnp.cos(x) + jnp.cos(x) * 1 + 0
            z = jax.lax.fori_loop(0, i, lambda n, c: jnp.sin(c) + y, x)
            return jax.lax.cond(i > 2, lambda: jnp.linalg.cholesky(z @ z.T), lambda: x @ x.T), jnp.sort(z)
        shown = text(program, x, 7)
        entry = shown[shown.index("ENTRY"):]
        assert entry.count(" cosine(") == 1, entry  # computed once, and neither multiplied by one nor added to zero
        assert " while(" in entry and " sort(" in entry and " conditional(" in entry and " dot(" in shown
        assert "c64[3]" in text(lambda z: z * np.array([1j, 2, 3], np.complex64), jnp.ones(3, complex))
        big = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
        assert 'custom_call_target="hlo.constant"' in text(lambda v: v + big, big)  # XLA leaves elements out, too
        """
    )


def test_the_text_of_a_program_on_several_devices_shows_how_they_communicate() -> None:
    script(
        """
        from jax.sharding import PartitionSpec as P
        mesh = jax.make_mesh((4,), ("d",))
        def step(x):
            y = jax.lax.ppermute(jax.lax.psum(x, "d"), "d", [(0, 1), (1, 0)])
            return jax.lax.all_gather(y, "d"), jax.lax.psum_scatter(jnp.ones(4), "d", tiled=True)
        mapped = jax.shard_map(step, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
        x = jax.device_put(jnp.ones(8), jax.NamedSharding(mesh, P("d")))
        text = jax.jit(mapped).lower(x).compile().as_text()
        for name in ("all-reduce", "collective-permute", "all-gather", "reduce-scatter"):
            assert f" {name}(" in text, (name, text)
        """,
        SHLO_NUM_DEVICES="4",
    )


def test_options_of_compilations(tmp_path: Path) -> None:
    script(
        f"""
        folder = {str(tmp_path)!r}
        """
        """
        import os
        def run(**options):
            return float(jax.jit(lambda x: jnp.sin(x) * 2, compiler_options=options)(0.5))
        def refused(**options):
            try:
                run(**options)
            except jax.errors.JaxRuntimeError as error:
                return str(error)
            raise AssertionError("it was compiled")
        expected = run()
        assert run(xla_embed_ir_in_executable=True, xla_cpu_enable_fast_math=False) == expected
        assert run(threads=1, opt_level=0, verify=True, disable="cse", dump_dir=folder) == expected
        assert any("optimized" in name for name in os.listdir(folder))
        assert "No such compile option: 'thread'" in refused(thread=1) and "'threads'" in refused(thread=1)
        assert "opt_level is 7" in refused(opt_level=7) and "threads is 1.5" in refused(threads=1.5)
        assert "No such compile option: 'isolate'" in refused(isolate=False)  # that is the platform's to say
        """
    )


def test_every_option_that_may_be_given_is_one() -> None:
    for name in NAMES:
        assert hasattr(Options(), name)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"\x18\x02", 2), (b"\x0a\x012", "2"), (b"\x21" + bytes.fromhex("0000000000000040"), 2.0), (b"\x10\x01", True)],
)
def test_values_of_options(value: bytes, expected: object) -> None:
    content = _field(7, _field(1, b"threads") + _field(2, value))
    if expected == 2 and isinstance(expected, int):
        assert options_of(content).threads == 2
    else:
        with pytest.raises(OptionError, match="threads is"):
            options_of(content)
    assert options_of(_field(7, _field(1, b"xla_any") + _field(2, value))) == Options(isolate=False)


def test_layouts() -> None:
    script(
        """
        from jax.experimental.layout import Format, Layout
        from stablehlo_py.pjrt import analysis
        asked = []
        analysis.text = asked.append  # of which JAX would make HLO, only to see the layouts
        here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for layout in (Layout((0, 1)), Layout.AUTO):
            compiled = jax.jit(lambda v: v.T + 1, in_shardings=Format(layout, here)).lower(x).compile()
            assert compiled.input_formats[0][0].layout.major_to_minor == (0, 1)
            assert compiled.output_formats.layout.major_to_minor == (0, 1)
            assert (compiled(x) == x.T + 1).all()
        assert jnp.asarray(x).format.layout.major_to_minor == (0, 1)
        client = jax.devices()[0].client
        for rank in (0, 1, 5):
            assert str(client.get_default_layout(np.dtype("f4"), (2,) * rank, jax.devices()[0])) == (
                "{" + ",".join(map(str, reversed(range(rank)))) + "}")
        try:
            client.get_default_layout(np.dtype("f4"), (1,) * 65, jax.devices()[0])
        except jax.errors.JaxRuntimeError as error:
            assert "does not implement" in str(error)
        else:
            raise AssertionError("a rank that no array has")
        assert asked == []
        """
    )


def test_a_profile_is_written(tmp_path: Path) -> None:
    script(
        f"""
        with jax.profiler.trace({str(tmp_path)!r}):
            with jax.profiler.TraceAnnotation("work"):
                jax.jit(lambda x: x + 1)(1.0).block_until_ready()
        jax.profiler.device_memory_profile()
        """
    )
    assert list(tmp_path.rglob("*.xplane.pb"))
