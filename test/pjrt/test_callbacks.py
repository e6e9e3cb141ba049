"""Functions of Python that programs on the platform call."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.helpers.platform_scripts import script

HEAD = """
from jax.experimental import io_callback
f32 = jax.ShapeDtypeStruct((), np.float32)
"""


def test_pure_callbacks_in_transformations_and_control_flow() -> None:
    script(
        """
        def sine(x):
            assert isinstance(x, jax.Array) and x.devices() == {jax.devices("shlo")[0]}
            return np.sin(x)
        def call(x, **how):
            return jax.pure_callback(sine, jax.ShapeDtypeStruct(x.shape, x.dtype), x, **how)
        x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_allclose(jax.jit(call)(x), np.sin(x), 1e-6)
        np.testing.assert_allclose(call(x), np.sin(x), 1e-6)
        for method in ("sequential", "expand_dims", "broadcast_all"):
            mapped = jax.vmap(lambda row: call(row, vmap_method=method))
            np.testing.assert_allclose(mapped(x), np.sin(x), 1e-6)
        steps = jax.lax.scan(lambda c, row: (c + call(row).sum(), c), 0.0, jnp.asarray(x))
        np.testing.assert_allclose(steps[0], np.sin(x).sum(), 1e-6)
        chosen = jax.jit(lambda p, v: jax.lax.cond(p, call, lambda v: v, v))
        np.testing.assert_allclose(chosen(True, x), np.sin(x), 1e-6)
        assert (chosen(False, x) == x).all()
        root = jax.jit(lambda v: jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, call(c[1])), (0, v)))
        np.testing.assert_allclose(root(x)[1], np.sin(np.sin(np.sin(np.sin(np.sin(x))))), 1e-6)

        @jax.custom_jvp
        def smooth(v):
            return call(v)
        smooth.defjvp(lambda primals, tangents: (smooth(primals[0]), jnp.cos(primals[0]) * tangents[0]))
        np.testing.assert_allclose(jax.grad(lambda v: smooth(v).sum())(x), np.cos(x), 1e-6)
        """,
        HEAD,
    )


def test_results_of_all_kinds() -> None:
    script(
        """
        import ml_dtypes
        jax.config.update("jax_enable_x64", True)
        for dtype in (bool, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
                      ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
            for shape in ((), (3,), (0, 2), (2, 3)):
                x = np.ones(shape, dtype)
                y = jax.jit(lambda v: jax.pure_callback(lambda w: w, jax.ShapeDtypeStruct(v.shape, v.dtype), v))(x)
                assert (y.dtype, y.shape) == (x.dtype, x.shape) and np.asarray(y).tobytes() == x.tobytes()
        tree = {"a": (jax.ShapeDtypeStruct((2,), np.float32), f32), "b": jax.ShapeDtypeStruct((), np.int64)}
        got = jax.jit(lambda v: jax.pure_callback(
            lambda w: {"a": (np.full(2, w, np.float32), np.float32(w)), "b": 7}, tree, v))(np.float32(1.5))
        assert got["a"][0].tolist() == [1.5, 1.5] and got["a"][1] == 1.5 and got["b"] == 7
        jax.config.update("jax_enable_x64", False)
        assert jax.jit(lambda v: jax.pure_callback(lambda w: 0.25, f32, v))(1.0) == 0.25  # a number of Python
        transposed = jax.ShapeDtypeStruct((3, 2), np.float32)
        z = np.arange(6, dtype=np.float32).reshape(2, 3)
        assert (jax.jit(lambda v: jax.pure_callback(lambda w: np.asarray(w).T, transposed, v))(z) == z.T).all()
        """,
        HEAD,
    )


def test_effects_keep_their_order() -> None:
    said = script(
        """
        seen = []
        def note(i):
            seen.append(int(i))
            return np.float32(i)
        @jax.jit
        def ordered(n):
            return jax.lax.fori_loop(0, n, lambda i, c: c + io_callback(note, f32, i, ordered=True), 0.0)
        assert ordered(4) == 6 and ordered(2) == 1
        jax.effects_barrier()
        assert seen == [0, 1, 2, 3, 0, 1], seen
        @jax.jit
        def unused(x):
            io_callback(note, f32, x)
            jax.pure_callback(note, f32, x + 50)  # pure, and nobody uses it
            jax.debug.callback(note, x + 1)
            return x
        unused(7)
        jax.effects_barrier()
        assert seen[6:] == [7, 8], seen
        @jax.jit
        def prints(x):
            jax.debug.print("first {} {y}", x, y=x * 2, ordered=True)
            jax.lax.scan(lambda c, v: (c, jax.debug.print("in a loop {}", v)), 0, jnp.arange(2))
            jax.lax.cond(x > 0, lambda: jax.debug.print("positive"), lambda: None)
            jax.debug.print("last", ordered=True)
        prints(3)
        jax.vmap(lambda v: jax.debug.print("mapped {}", v))(jnp.arange(2))
        jax.debug.print("outside of programs {}", jnp.float32(1))
        jax.debug.callback(lambda v: print("called", v), 5)
        jax.effects_barrier()
        """,
        HEAD,
    )
    lines = said.splitlines()
    assert lines.index("first 3 6") < lines.index("last")
    assert [line for line in lines if "loop" in line] == ["in a loop 0", "in a loop 1"]
    assert lines[-4:] == ["mapped 0", "mapped 1", "outside of programs 1.0", "called 5"]
    assert "positive" in lines


def test_what_functions_raise_becomes_an_error_of_jax() -> None:
    script(
        """
        import logging
        logging.disable(logging.CRITICAL)
        def said(function, *arguments):
            try:
                jax.block_until_ready(jax.jit(function)(*arguments))
            except jax.errors.JaxRuntimeError as error:
                return str(error)
            raise AssertionError("it went well")
        class Odd(Exception):
            def __str__(self):
                raise ValueError
        def fails(x):
            raise KeyError("no such thing", float(x))
        def odd(x):
            raise Odd
        text = said(lambda x: jax.pure_callback(fails, f32, x) + 1, 2.5)
        assert "KeyError: ('no such thing', 2.5)" in text and "in fails" in text and "jax.pure_callback" in text, text
        assert "Odd" in said(lambda x: io_callback(odd, f32, x, ordered=True), 1.0)
        assert "KeyError" in said(lambda x: jax.debug.callback(fails, x), 1.0)
        assert "Ctrl-C" in said(lambda x: jax.debug.callback(interrupted, x), 1.0)
        assert "(3,), and () is expected" in said(lambda x: jax.pure_callback(lambda v: np.zeros(3), f32, x), 1.0)
        assert "int32, and float32 is" in said(lambda x: jax.pure_callback(lambda v: np.int32(1), f32, x), 1.0)
        assert "2, and 1 are expected" in said(lambda x: jax.pure_callback(lambda v: (1.0, 2.0), f32, x), 1.0)
        assert jax.jit(lambda x: jax.pure_callback(np.sin, f32, x))(0.0) == 0
        """,
        HEAD + '\ndef interrupted(x):\n    raise KeyboardInterrupt("Ctrl-C")\n',
    )


def test_functions_that_call_jax_and_threads() -> None:
    script(
        """
        from concurrent.futures import ThreadPoolExecutor
        inner = jax.jit(lambda v: jnp.cos(v) * 2)
        def deep(depth, v):
            return inner(v) if not depth else jax.jit(lambda w: jax.pure_callback(
                lambda u: deep(depth - 1, u), f32, w) + 1)(v)
        np.testing.assert_allclose(deep(4, jnp.float32(0.5)), 2 * np.cos(0.5) + 4, 1e-6)
        call = jax.jit(lambda v: jax.pure_callback(lambda w: inner(w) + jnp.float32(1), f32, v))
        with ThreadPoolExecutor(4) as pool:
            values = list(pool.map(lambda k: float(call(np.float32(k))), range(80)))
        np.testing.assert_allclose(values, 2 * np.cos(np.arange(80)) + 1, 1e-5)
        """,
        HEAD,
    )


def test_a_function_lives_as_long_as_what_calls_it() -> None:
    script(
        """
        import gc, weakref
        from stablehlo_py import handlers
        def made():
            def function(x):
                return np.sin(x)
            return weakref.ref(function), jax.jit(lambda x: jax.pure_callback(function, f32, x))
        function, call = made()
        call(1.0)
        gc.collect()
        assert function() is not None and len(handlers._kept_elsewhere) == 1 and call(0.0) == 0
        del call
        jax.clear_caches()
        gc.collect()
        jax.jit(lambda x: x + 1)(1.0)  # Python frees here what JAX gave back
        gc.collect()
        assert not handlers._kept_elsewhere, list(handlers._kept_elsewhere)
        assert function() is None
        """,
        HEAD,
    )


def test_programs_that_call_functions_are_not_serialized() -> None:
    script(
        """
        call = jax.jit(lambda x: jax.pure_callback(np.sin, f32, x))
        try:
            call.lower(1.0).compile().runtime_executable().serialize()
        except jax.errors.JaxRuntimeError as error:
            assert "other processes do not have" in str(error), error
        else:
            raise AssertionError("it was serialized")
        """,
        HEAD,
    )


def test_stored_programs_call_the_functions_of_the_process_that_runs_them(tmp_path: Path) -> None:
    """Modules of both processes are equal, and the second finds the first one's program."""
    for value in ("1", "2"):
        said = script(
            f"print(float(jax.jit(lambda x: jax.pure_callback(lambda v: np.float32({value}), f32, x))(0.0)))",
            HEAD,
            STABLEHLO_PY_CACHE_DIR=str(tmp_path),
        )
        assert float(said) == float(value)


def test_checks_at_run_time() -> None:
    script(
        """
        import logging
        logging.disable(logging.CRITICAL)
        from jax.experimental import checkify
        jax.config.update("jax_experimental_unsafe_xla_runtime_errors", True)
        @jax.jit
        def positive(x):
            checkify.check(x > 0, "x is {x}", x=x)
            return x + 1
        assert positive(1.0) == 2
        try:
            positive(-1.0).block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            assert "x is -1.0" in str(error)
        else:
            raise AssertionError("the check passed")
        """,
        HEAD,
    )


def test_tokens_that_a_program_takes_are_passed_on_or_dropped() -> None:
    script(
        """
        token = jax.lax.create_token()
        y, out = jax.jit(lambda x, token: (x, token))(jnp.ones(3), token)
        assert y.tolist() == [1, 1, 1] and type(out).__name__ == "Token" and out is not token
        for donate in ((), 0):
            z, out = jax.jit(lambda x, token: (x + 1, token), donate_argnums=donate)(jnp.ones(3), token)
            assert z.tolist() == [2, 2, 2] and type(out).__name__ == "Token"

        from functools import partial
        from jax._src import dispatch
        from jax._src.interpreters import mlir
        from jax.extend import core
        taking = core.Primitive("taking")
        taking.def_impl(partial(dispatch.apply_primitive, taking))
        taking.def_abstract_eval(lambda x, token: x)
        mlir.register_lowering(taking, lambda context, x, token: [x])
        assert taking.bind(jnp.arange(3), token).tolist() == [0, 1, 2]
        """
    )


def test_tokens_that_a_program_makes_are_returned() -> None:
    script(
        """
        token = jax.jit(jax.lax.create_token)()
        assert type(token).__name__ == "Token"
        y, other = jax.jit(lambda x: (x + 2, token))(7)
        assert y == 9 and type(other).__name__ == "Token"
        """
    )


def test_on_several_devices_each_calls_the_function() -> None:
    script(
        """
        from jax.sharding import PartitionSpec as P
        seen = []
        mesh = jax.make_mesh((2,), ("d",))
        x = jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, P("d")))
        def part(v):
            io_callback(lambda w: seen.append(np.asarray(w).tolist()), None, v)
            return jax.pure_callback(lambda w: np.asarray(w) * 2, jax.ShapeDtypeStruct(v.shape, v.dtype), v)
        doubled = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P("d"), out_specs=P("d")))(x)
        assert doubled.tolist() == [0, 2, 4, 6]
        jax.effects_barrier()
        assert sorted(seen) == [[0, 1], [2, 3]], seen
        """,
        HEAD,
        SHLO_NUM_DEVICES="2",
    )


@pytest.mark.parametrize("shardy", ["1", "0"])
def test_outside_of_shard_map_one_device_calls_the_function(shardy: str) -> None:
    script(
        """
        from jax.sharding import PartitionSpec as P
        seen, shape = [], jax.ShapeDtypeStruct((4,), np.complex64)
        mesh = jax.make_mesh((2,), ("d",))
        x = jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, P("d")))
        def noted(w):
            seen.append(np.asarray(w).tolist())
            return np.asarray(w) * 2 - 0j
        def program(v):
            jax.debug.callback(lambda w: seen.append("once"), v)
            step = lambda n, c: c + io_callback(noted, shape, c, ordered=True).real
            return jax.lax.fori_loop(0, 3, step, v), jax.pure_callback(lambda w: w[::-1], v, v)
        there = jax.sharding.SingleDeviceSharding(jax.devices()[1])
        for _ in range(2):
            grown, turned = jax.jit(program)(x)
            assert grown.tolist() == [0, 27, 54, 81] and turned.tolist() == [3, 2, 1, 0]
            jax.effects_barrier()
            assert seen.count("once") == 1, seen
            seen.remove("once")
            assert seen == [[0, 1, 2, 3], [0, 3, 6, 9], [0, 9, 18, 27]], seen
            seen.clear()
        on_second = jax.jit(lambda v: io_callback(noted, shape, v, sharding=there))(x)
        assert (on_second == 2 * x).all() and seen == [[0, 1, 2, 3]]
        def failing(w):
            raise ValueError("it failed")
        try:
            jax.block_until_ready(jax.jit(lambda v: io_callback(failing, v, v))(x))
        except jax.errors.JaxRuntimeError as error:
            assert "it failed" in str(error)
        else:
            raise AssertionError("nobody called it")
        """,
        HEAD,
        SHLO_NUM_DEVICES="2",
        JAX_USE_SHARDY_PARTITIONER=shardy,
    )


def test_functions_that_get_memory() -> None:
    script(
        """
        from jax.experimental.buffer_callback import ExecutionStage, buffer_callback
        x, seen = jnp.arange(6.0).reshape(2, 3), []
        def double(context, out, tree, offset):
            given = np.asarray(tree["x"])
            assert not given.flags.writeable and not tree["x"].writeable and out[0].writeable
            assert (out[0].shape, out[0].dtype, out[0].ndim) == ((2, 3), np.dtype("f4"), 2)
            assert context.stage == ExecutionStage.EXECUTE
            try:
                context.stream
            except jax.errors.JaxRuntimeError as error:
                assert "GPU context is not available" in str(error)
            assert (np.from_dlpack(tree["x"]) == given).all()
            np.asarray(out[0])[...] = given * 2 + np.asarray(offset)
        call = buffer_callback(double, [x])
        assert (jax.jit(lambda v: call({"x": v}, offset=jnp.float32(1)))(x)[0] == 2 * x + 1).all()
        def in_place(context, out, given):
            seen.append(np.asarray(out).ctypes.data == np.asarray(given).ctypes.data)
            np.asarray(out)[...] += 1
        assert (jax.jit(buffer_callback(in_place, x, input_output_aliases={0: 0}))(x) == x + 1).all() and seen == [True]
        assert x[0, 1] == 1
        try:
            jax.block_until_ready(jax.jit(buffer_callback(lambda *_: 1, x))(x))
        except jax.errors.JaxRuntimeError as error:
            assert "must not return any values" in str(error)
        else:
            raise AssertionError("it returned a value")
        """,
        HEAD,
    )
