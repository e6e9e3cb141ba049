"""Arrays whose dimensions lie in memory in an order that is asked for."""

from __future__ import annotations

from test.helpers.platform_scripts import script

HEAD = """
from itertools import permutations
from jax.experimental.layout import Format, Layout
here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

def order(x):
    return x.format.layout.major_to_minor
"""


def test_arrays_in_every_order() -> None:
    script(
        """
        for p in permutations(range(3)):
            asked = Format(Layout(p), here)
            x = jax.device_put(a, asked)
            lies = stablehlo_py.pjrt.blocks.view(x.unsafe_buffer_pointer(), tuple(a.shape[d] for d in p), a.dtype, None)
            assert (lies == a.transpose(p)).all() and order(x) == p
            plain = jax.device_put(x, Format(Layout((0, 1, 2)), here))
            assert order(plain) == (0, 1, 2) and (np.asarray(x) == a).all() and (np.asarray(plain) == a).all()
            copy = jnp.array(x, copy=True)
            assert (np.asarray(copy) == a).all()
            assert (np.from_dlpack(x) == a).all()
            doubled = jax.jit(lambda v: v * 2)(x)
            assert order(doubled) == (0, 1, 2) and (np.asarray(doubled) == 2 * a).all()
            doubled = jax.jit(lambda v: v * 2, out_shardings=asked)(a)
            assert order(doubled) == p and (np.asarray(doubled) == 2 * a).all()
            both, row_sums = jax.jit(lambda v: (v + 1, v.sum(0)), in_shardings=asked, out_shardings=(asked, None))(x)
            assert order(both) == p and (np.asarray(both) == a + 1).all() and (np.asarray(row_sums) == a.sum(0)).all()
        """,
        HEAD,
    )


def test_donation_keeps_the_memory_of_an_array_that_lies_the_same_way() -> None:
    script(
        """
        asked = Format(Layout((2, 0, 1)), here)
        step = jax.jit(lambda v: v + 1, in_shardings=asked, out_shardings=asked, donate_argnums=0)
        x = jax.device_put(a, asked)
        where, held = x.unsafe_buffer_pointer(), jax.device_put(a, asked)
        y = step(x)
        assert x.is_deleted() and y.unsafe_buffer_pointer() == where and (np.asarray(y) == a + 1).all()
        turn = jax.jit(lambda v: v + 1, in_shardings=asked, donate_argnums=0)  # to a result that lies otherwise
        assert (np.asarray(turn(y)) == a + 2).all()
        """,
        HEAD,
    )


def test_what_is_compiled_says_and_keeps_its_layouts() -> None:
    script(
        """
        from jax.experimental.serialize_executable import deserialize_and_load, serialize
        asked = Format(Layout((1, 2, 0)), here)
        multiply = jax.jit(lambda v, w: (v * w, w), in_shardings=(asked, None), out_shardings=(None, asked))
        compiled = multiply.lower(a, a).compile()
        for each in (compiled, deserialize_and_load(*serialize(compiled))):
            (first, second), _ = each.input_formats
            assert first.layout.major_to_minor == (1, 2, 0) and second.layout.major_to_minor == (0, 1, 2)
            assert [out.layout.major_to_minor for out in each.output_formats] == [(0, 1, 2), (1, 2, 0)]
            product, same = each(jax.device_put(a, asked), a)
            assert (np.asarray(product) == a * a).all() and (np.asarray(same) == a).all() and order(same) == (1, 2, 0)
        free = Format(Layout.AUTO)
        # A result that is left to the compiler lies as it is computed: nothing is moved for a transpose at the end.
        for function, expected in (
            (lambda v: v.T, (2, 1, 0)),
            (lambda v: v * 2 + 1, (0, 1, 2)),
            (lambda v: jnp.sin(v.transpose(1, 2, 0)) * 2 + 1, (2, 0, 1)),
            (lambda v: (v @ v.transpose(0, 2, 1)).transpose(1, 2, 0) - v.sum(), (2, 0, 1)),
            (lambda v: v.T + v.T * v.T, (0, 1, 2)),
            (lambda v: v.sum(), ()),
        ):
            auto = jax.jit(function, in_shardings=free, out_shardings=free).lower(a).compile()
            assert auto.input_formats[0][0].layout.major_to_minor == (0, 1, 2)
            assert auto.output_formats.layout.major_to_minor == expected, auto.output_formats
            np.testing.assert_allclose(auto(a), jax.jit(function)(a), 1e-6)
        auto = jax.jit(lambda v: v.T, in_shardings=asked, out_shardings=free).lower(a).compile()
        assert auto.output_formats.layout.major_to_minor == (1, 0, 2)
        assert (np.asarray(auto(jax.device_put(a, asked))) == a.T).all()
        assert "transpose(" not in jax.jit(lambda v: v.T, out_shardings=free).lower(a).compile().as_text()
        try:
            jax.jit(lambda v: v, out_shardings=Format(Layout((0, 1, 2), tiling=((8, 128),)), here))(a)
        except Exception as error:
            assert "is to have the layout {2,1,0:T(8,128)}" in str(error), error
        else:
            raise AssertionError("tiles were taken")
        """,
        HEAD,
    )


def test_parts_on_several_devices_lie_as_is_asked() -> None:
    script(
        """
        mesh = jax.make_mesh((2, 2), ("x", "y"))
        sharding = jax.NamedSharding(mesh, jax.P("x", "y"))
        b = np.arange(64, dtype=np.float32).reshape(8, 8)
        asked = Format(Layout((1, 0)), sharding)
        x = jax.device_put(b, asked)
        assert order(x) == (1, 0) and (np.asarray(x) == b).all()
        y = jax.jit(lambda v: v * v + 1, out_shardings=asked)(x)
        assert order(y) == (1, 0) and (np.asarray(y) == b * b + 1).all()
        moved = jax.shard_map(lambda v: jax.lax.ppermute(v, "x", [(0, 1), (1, 0)]), mesh=mesh, in_specs=jax.P("x", "y"),
                              out_specs=jax.P("x", "y"))
        z = jax.jit(moved, in_shardings=asked, out_shardings=asked)(x)
        assert order(z) == (1, 0) and (np.asarray(z) == np.concatenate([b[4:], b[:4]])).all()
        """,
        HEAD,
        SHLO_NUM_DEVICES="4",
    )
