"""JAX on a GPU's platform: OpenCL's, on whatever device there is, or the one that SHLO_TEST_PLATFORM names (as
`shlo_cuda`, on a machine with such a GPU). Each test runs scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from test.helpers.platform_scripts import script

PLATFORM = os.environ.get("SHLO_TEST_PLATFORM", "shlo_opencl")

# Products that take long enough to look at them while they run: on a processor few do.
LONG = f"""
@jax.jit
def long(x):
    return jax.lax.fori_loop(0, {6 if PLATFORM == "shlo_opencl" else 3000}, lambda _, x: x @ x * 1e-3, x)
x = jnp.ones((1000, 1000))
long(x).block_until_ready()
step = jax.jit(lambda s: s * 0.5 + 1, donate_argnums=0)
step(x + 0).block_until_ready()
"""


def run(body: str, head: str = "", **environment: str) -> str:
    """What a script prints on the platform, whose name is `$PLATFORM` in it."""
    return script(body.replace("$PLATFORM", PLATFORM), head, PLATFORM, **environment)


pytestmark = [pytest.mark.usefixtures("real_device")] if PLATFORM == "shlo_opencl" else []


def test_arrays_and_transformations() -> None:
    run(
        """
        device = jax.devices()[0]
        assert (device.platform, jax.default_backend()) == ("$PLATFORM", "$PLATFORM")
        assert device.device_kind and device.core_count > 0 and device.device_vendor
        x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
        y = jnp.asarray(x)
        assert y.devices() == {device}
        assert (np.asarray(y) == x).all() and (np.asarray(jnp.asarray(x.T)) == x.T).all()
        np.testing.assert_allclose(y @ y.T, x @ x.T, 1e-5, 1e-5)
        np.testing.assert_allclose(jax.grad(lambda a: jnp.sin(a).sum())(y), np.cos(x), 1e-6, 1e-6)
        np.testing.assert_allclose(jax.vmap(jnp.sum)(y), x.sum(1), 1e-5, 1e-5)
        carry, steps = jax.lax.scan(lambda c, a: (c + a, c * a), 0.0, jnp.arange(4.0))
        assert carry == 6 and steps.tolist() == [0, 0, 2, 9]
        assert jax.jit(lambda a, n: jax.lax.fori_loop(0, n, lambda i, v: v + 1, a))(1, 5) == 6
        assert jax.lax.cond(jnp.any(y > 0), lambda: 1, lambda: 2) == 1
        assert jax.lax.platform_dependent(y, cpu=lambda a: 1, default=lambda a: 2) == 1
        empty = jnp.zeros((0, 3))
        assert (empty + 1).shape == (0, 3) and np.asarray(empty).shape == (0, 3)
        """
    )


def test_element_types_come_and_go() -> None:
    run(
        """
        from in_scripts import check_element_types
        check_element_types()
        for value in range(300):  # memory of the host that is another number's at once
            assert float(jax.device_put(np.float32(value))) == value
        changing = np.zeros(1000, np.float32)
        there = jax.device_put(changing, may_alias=False)
        changing[:] = 1
        assert (np.asarray(there) == 0).all()
        """
    )


def test_random_numbers_are_those_of_the_processor() -> None:
    run(
        """
        stablehlo_py.pjrt.initialize("shlo")
        jax.config.update("jax_platforms", "$PLATFORM,shlo")
        drawn = []
        for platform in ("$PLATFORM", "shlo"):
            with jax.default_device(jax.devices(platform)[0]):
                key = jax.random.key(7)
                drawn.append([np.asarray(jax.random.bits(key, (1000,))), np.asarray(jax.random.uniform(key, (50,)))])
        for ours, theirs in zip(*drawn):
            assert (ours == theirs).all()
        """
    )


def test_linear_algebra() -> None:
    run(
        """
        a = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
        s = a @ a.T + 6 * np.eye(6, dtype=np.float32)
        np.testing.assert_allclose(jnp.linalg.eigvalsh(s), np.linalg.eigvalsh(s), 1e-4, 1e-4)
        np.testing.assert_allclose(jnp.linalg.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False), 1e-4, 1e-4)
        np.testing.assert_allclose(jnp.linalg.cholesky(s), np.linalg.cholesky(s), 1e-4, 1e-4)
        np.testing.assert_allclose(jnp.linalg.solve(s, a), np.linalg.solve(s, a), 1e-3, 1e-3)
        q, r = jnp.linalg.qr(a)
        np.testing.assert_allclose(q @ r, a, 1e-4, 1e-4)
        values = np.sort_complex(np.asarray(jnp.linalg.eig(a)[0]))  # on the host
        np.testing.assert_allclose(values, np.sort_complex(np.linalg.eigvals(a)), 1e-3, 1e-3)
        """
    )


def test_donated_memory_is_the_results() -> None:
    run(
        """
        step = jax.jit(lambda s, a: s * 0.5 + a, donate_argnums=0)
        s, a = jnp.ones(1000), jnp.arange(1000.0)
        place, wanted = s.unsafe_buffer_pointer(), np.ones(1000, np.float32)
        for _ in range(5):
            before, held = s, jnp.ones(1000)
            s = step(s, a)
            wanted = wanted * 0.5 + np.arange(1000, dtype=np.float32)
            assert before.is_deleted() and s.unsafe_buffer_pointer() == place != held.unsafe_buffer_pointer()
            np.testing.assert_allclose(s, wanted, 1e-6)
        for bad in (lambda: before + 1, lambda: step(a, a)):
            try:
                bad()
            except (RuntimeError, ValueError) as error:
                assert "deleted" in str(error) or "argument 0 is donated, and passed as another" in str(error), error
            else:
                raise AssertionError
        assert (np.asarray(a) == np.arange(1000)).all()  # the call that was refused has taken nothing
        """
    )


def test_work_and_transfers_are_asynchronous() -> None:
    run(
        """
        y = long(x)
        assert not y.is_ready()
        z = step(y)                       # behind it, in the memory that it writes
        assert y.is_deleted() and not z.is_ready()
        z.copy_to_host_async()
        assert not z.is_ready() or "$PLATFORM" == "shlo_cuda"  # whose driver waits until a copy is done
        wanted = np.asarray(z)
        assert z.is_ready() and (wanted == np.asarray(step(long(x)))).all()
        late = long(x)
        total = jax.jit(lambda a: a.sum())(late)
        late.delete()                     # its memory stays until it is read
        np.testing.assert_allclose(total, np.asarray(long(x)).sum(), 1e-4)
        """,
        LONG,
    )


def test_calls_and_copies_need_no_python() -> None:
    run(
        """
        from stablehlo_py.pjrt.client import Client
        calls, prepare = [], Client._prepare
        Client._prepare = lambda *given: (calls.append(1), prepare(*given))[1]
        add = jax.jit(lambda a, b: (a + b, a * 2))
        step = jax.jit(lambda s: s + 1, donate_argnums=0)
        from stablehlo_py.pjrt.device_place import DevicePlace
        for name in ("read", "write"):
            function = getattr(DevicePlace, name)
            setattr(DevicePlace, name, lambda *given, f=function, **named: (calls.append(1), f(*given, **named))[1])
        x, s, t = jnp.arange(1000.0), jnp.zeros(1000), None
        for number in range(5):
            y, z = add(x, x)
            s = step(s)
            t = jax.device_put(np.full(1000, number))
        assert calls
        calls.clear()
        for number in range(20):
            y, z = add(x, y)
            s = step(s)
            t = jax.device_put(np.full(1000, number))
            assert (np.asarray(t) == number).all()
        assert not calls
        assert (np.asarray(y) == np.arange(1000) * 22).all() and (np.asarray(s) == 25).all()
        kept = [add(x, x) for number in range(3)]  # takes memory that nobody has kept
        assert calls and all((np.asarray(a) == np.asarray(b)).all() for a, b in kept)
        """
    )


@pytest.mark.skipif(PLATFORM != "shlo_opencl", reason="CUDA's driver stages, others do not")
def test_what_the_driver_stages_is_not_copied_before() -> None:
    run(
        """
        from stablehlo_py.backends.gpu.opencl.asking import OpenClAsking
        OpenClAsking.stages = True  # these arrays do not change
        for size in (4, 100_000, 3_000_000):
            arrays = [np.random.default_rng(number).standard_normal(size).astype(np.float32) for number in range(4)]
            for _ in range(3):
                there = [jax.device_put(array) for array in arrays]
                assert all((np.asarray(a) == b).all() for a, b in zip(there, arrays))
            add = jax.jit(lambda a: a + 1)
            assert all((np.asarray(add(a)) == b + 1).all() for a, b in zip(there, arrays))
        """
    )


def test_many_calls_are_under_way() -> None:
    run(
        """
        add = jax.jit(lambda a: a + 1)
        state, states = jnp.zeros(2000), []
        for number in range(300):
            state = add(state)
            states.append(state)
        for number, state in enumerate(states, 1):
            assert (np.asarray(state) == number).all()
        """
    )


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import sys; jnp.ones(3); sys.exit(0)"])
def test_a_script_ends_in_the_middle_of_work(ending: str) -> None:
    run("kept = [long(x) for _ in range(3)]\nlate = kept[0] + 1\nlate.copy_to_host_async()\n" + ending, LONG)


def test_functions_of_python() -> None:
    run(
        """
        import io, contextlib
        def double(a):
            assert isinstance(a, jax.Array)
            return np.asarray(a) * 2 + np.asarray(jnp.ones(3))  # calls the platform itself
        shape = jax.ShapeDtypeStruct((3,), np.float32)
        f = jax.jit(lambda a: jax.pure_callback(double, shape, a + 1) - 1)
        assert f(jnp.arange(3.0)).tolist() == [2, 4, 6]
        seen = []
        @jax.jit
        def g(a):
            jax.experimental.io_callback(lambda v: seen.append(int(v)), None, a, ordered=True)
            jax.experimental.io_callback(lambda v: seen.append(int(v)), None, a + 1, ordered=True)
            return a
        import jax.experimental
        g(jnp.int32(5)).block_until_ready()
        jax.effects_barrier()
        assert seen == [5, 6], seen
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            jax.jit(lambda a: jax.debug.print("a is {}", a))(3)
            jax.debug.print("outside {}", jnp.int32(4))
            jax.effects_barrier()
        assert said.getvalue() == "a is 3\\noutside 4\\n", said.getvalue()
        def fails(a):
            raise ValueError("out of luck")
        try:
            jax.jit(lambda a: jax.pure_callback(fails, shape, a))(jnp.ones(3)).block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            assert "out of luck" in str(error), error
        else:
            raise AssertionError
        assert f(jnp.arange(3.0)).tolist() == [2, 4, 6]
        """
    )


def test_arrays_go_between_platforms() -> None:
    run(
        """
        stablehlo_py.pjrt.initialize("shlo")
        jax.config.update("jax_platforms", "$PLATFORM,shlo,cpu")
        here, there, other = (jax.devices(name)[0] for name in ("$PLATFORM", "shlo", "cpu"))
        x = jnp.arange(12.0).reshape(3, 4) + 1
        wanted = np.arange(12.0).reshape(3, 4) + 1
        for device in (there, other, here):
            y = jax.device_put(x, device)
            assert y.devices() == {device} and (np.asarray(y) == wanted).all()
            assert (y * 2).devices() == {device}
            back = jax.device_put(y, here)
            assert back.devices() == {here} and (np.asarray(back + 1) == wanted + 1).all()
        copy = jax.device_put(x, here, may_alias=False)
        assert copy.unsafe_buffer_pointer() != x.unsafe_buffer_pointer() and (np.asarray(copy) == wanted).all()
        try:
            copy + jax.device_put(x, there)
        except ValueError as error:
            assert "incompatible devices" in str(error), error
        else:
            raise AssertionError
        """
    )


def test_one_entry_point_serves_several_platforms() -> None:
    body = """
    import jax, jax.numpy as jnp
    assert jax.default_backend() == "$PLATFORM"
    assert [jax.devices(name)[0].platform for name in ("$PLATFORM", "shlo")] == ["$PLATFORM", "shlo"]
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(body).replace("$PLATFORM", PLATFORM)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "JAX_PLATFORMS": f"{PLATFORM},shlo"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_errors_are_those_of_jax_with_our_text() -> None:
    run(
        """
        def said(attempt):
            try:
                attempt()
            except jax.errors.JaxRuntimeError as error:
                return str(error)
            raise AssertionError
        assert "the target 'none_of_ours' is not known" in said(
            lambda: jax.jit(lambda a: jax.ffi.ffi_call("none_of_ours", jax.ShapeDtypeStruct((), np.float32))(a))(1.0)
        )
        limit = jax.devices()[0].memory_stats()["bytes_limit"]
        large = said(lambda: jnp.zeros(limit // 4 * 3).block_until_ready())
        assert "RESOURCE_EXHAUSTED" in large, large
        f = jax.jit(lambda a: a + 1)
        unknown = said(lambda: f.lower(1.0).compile(compiler_options={"no_such": 1}))
        assert "No such compile option" in unknown, unknown
        assert f(1.0) == 2
        """
    )


def test_programs_are_serialized_and_say_what_they_take() -> None:
    run(
        """
        from jax.experimental.serialize_executable import deserialize_and_load, serialize
        stablehlo_py.pjrt.initialize("shlo")
        jax.config.update("jax_platforms", "$PLATFORM,shlo")
        x = jnp.ones((16, 16))
        compiled = jax.jit(lambda a: a @ a, donate_argnums=0).lower(x).compile()
        stats = compiled.memory_analysis()
        assert (stats.argument_size_in_bytes, stats.output_size_in_bytes) == (1024, 1024)
        assert compiled.cost_analysis()["flops"] >= 2 * 16**3 and "dot" in compiled.as_text()
        payload, taken, made = serialize(compiled)
        loaded = deserialize_and_load(payload, taken, made)
        assert (np.asarray(loaded(jnp.ones((16, 16)))) == 16).all()
        client = jax.devices("shlo")[0].client
        raw = compiled.runtime_executable().serialize()
        try:
            client.deserialize_executable(raw, jax.devices("shlo"), None)
        except Exception as error:
            assert "runs those for 'cpu'" in str(error), error
        else:
            raise AssertionError
        """
    )


def test_who_has_the_lock_of_the_device_may_wait_for_that_of_python() -> None:
    run(
        """
        import threading, time
        from stablehlo_py.backends.base import get_backend
        faulthandler.dump_traceback_later(60, exit=True)
        add = jax.jit(lambda a: a + 1)
        x = jnp.arange(1000.0)
        for _ in range(3):
            y = add(x).block_until_ready()
        queue, taken = get_backend("$PLATFORM"[5:]).opened().get(0).queue, threading.Event()
        def hold():
            with queue.lock:
                taken.set()
                time.sleep(0.2)
        for attempt in (lambda: np.asarray(y), lambda: add(x), lambda: jax.device_put(np.ones(1000, np.float32))):
            thread = threading.Thread(target=hold)
            thread.start()
            taken.wait()
            attempt()
            thread.join()
            taken.clear()
        """
    )


def test_memory_is_counted_and_given_back() -> None:
    run(
        """
        device = jax.devices()[0]
        used = lambda: device.memory_stats()["bytes_in_use"]
        f = jax.jit(lambda a: a + 1)
        x = jnp.ones(1 << 20)
        f(x).block_until_ready()
        before, count = used(), handles()
        y = f(x)
        assert used() >= before + (4 << 20) and device.memory_stats()["peak_bytes_in_use"] >= used()
        del y
        for _ in range(200):
            f(x), jax.device_put(np.ones(20_000, np.float32))
        f(x).block_until_ready()
        assert used() == before, (used(), before)
        assert handles() <= count + 4, (handles(), count)
        """
    )


def test_threads_call_compile_and_delete_at_once() -> None:
    run(
        """
        from in_scripts import on_threads
        shared = jnp.arange(2000.0)
        def work(number):
            for trip in range(3):
                f = jax.jit(lambda a, n=number, t=trip: a * n + t)
                step = jax.jit(lambda s, a: s + a, donate_argnums=0)
                s, wanted = f(shared), np.arange(2000.0, dtype=np.float32) * number + trip
                for _ in range(30):
                    s = step(s, shared)
                    wanted = wanted + np.arange(2000.0, dtype=np.float32)
                other = f(shared)
                other.delete()
                np.testing.assert_allclose(s, wanted, 1e-4)
        on_threads(work, range(1, 5))
        """
    )


def test_a_forked_child_says_so() -> None:
    run(
        """
        from in_scripts import check_forked_child
        y = long(x)
        check_forked_child(lambda: step(x), lambda: jnp.ones(3), lambda: np.asarray(y))
        assert (np.asarray(y) == np.asarray(long(x))).all()
        """,
        LONG,
    )
