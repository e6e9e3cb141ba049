"""JAX on the platform. JAX keeps the platforms of a process, so every test runs a script in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stablehlo_py.pjrt import api, fields, native
from stablehlo_py.pjrt.options import CompileOptions, device_assignment
from test.helpers.platform_scripts import HEAD, script


def test_arrays_and_transformations() -> None:
    script(
        """
        x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
        y = jnp.asarray(x)
        assert y.devices() == {jax.devices("shlo")[0]}
        assert (np.asarray(y) == x).all() and (np.asarray(jnp.asarray(x.T)) == x.T).all()
        np.testing.assert_allclose(y @ y.T, x @ x.T, 1e-5, 1e-5)
        np.testing.assert_allclose(jax.grad(lambda a: jnp.sin(a).sum())(y), np.cos(x), 1e-6, 1e-6)
        np.testing.assert_allclose(jax.vmap(jnp.sum)(y), x.sum(1), 1e-5, 1e-5)
        carry, steps = jax.lax.scan(lambda c, a: (c + a, c * a), 0.0, jnp.arange(4.0))
        assert carry == 6 and steps.tolist() == [0, 0, 2, 9]
        assert jax.jit(lambda a, n: jax.lax.fori_loop(0, n, lambda i, v: v + 1, a))(1, 5) == 6
        assert jax.lax.cond(jnp.any(y > 0), lambda: 1, lambda: 2) == 1
        key = jax.random.key(7)
        cpu = jax.devices("cpu") if "cpu" in [d.platform for d in jax.devices()] else None
        assert jax.random.normal(key, (3,)).shape == (3,) and cpu is None
        """
    )


def test_element_types_come_and_go() -> None:
    script(
        """
        from in_scripts import check_element_types
        check_element_types()
        """
    )


def test_linear_algebra_is_lowered_as_for_the_cpu() -> None:
    script(
        """
        a = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
        s = a @ a.T + 6 * np.eye(6, dtype=np.float32)
        np.testing.assert_allclose(jnp.linalg.eigvalsh(s), np.linalg.eigvalsh(s), 1e-4, 1e-4)
        np.testing.assert_allclose(jnp.linalg.solve(s, a), np.linalg.solve(s, a), 1e-3, 1e-3)
        np.testing.assert_allclose(jnp.linalg.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False), 1e-4, 1e-4)
        q, r = jnp.linalg.qr(a)
        np.testing.assert_allclose(q @ r, a, 1e-4, 1e-4)
        np.testing.assert_allclose(jnp.fft.fft(a), np.fft.fft(a), 1e-4, 1e-4)
        """
    )


def test_donated_memory_is_the_results() -> None:
    script(
        """
        step = jax.jit(lambda s, x: s * 0.5 + x, donate_argnums=0)
        s, x = jnp.ones((64, 64)), jnp.ones((64, 64))
        place = s.unsafe_buffer_pointer()
        t = step(s, x)
        assert t.unsafe_buffer_pointer() == place and s.is_deleted() and float(t[0, 0]) == 1.5
        try:
            s + 1
        except RuntimeError as error:
            assert "deleted" in str(error)
        else:
            raise AssertionError("a donated array was used")
        both = jax.jit(lambda a, b: (a + 1, b), donate_argnums=0)
        y = jnp.zeros(8)
        try:
            both(y, y)
        except RuntimeError as error:
            assert "argument 0 is donated, and passed as another argument, too" in str(error)
        else:
            raise AssertionError("an array was donated that the program also reads")
        assert both(y, jnp.ones(8))[0][0] == 1  # the call that was refused has taken nothing
        y.delete()
        """
    )


def test_an_array_among_many_is_not_donated_twice() -> None:
    script(
        """
        count = 200
        step = jax.jit(lambda *a: [*(v + 1 for v in a[:150]), sum(a[150:])], donate_argnums=tuple(range(150)))
        for first, second in ((0, 149), (3, 4), (149, 199), (150, 199), (None, None)):
            arrays = [jnp.full(3, number, jnp.float32) for number in range(count)]
            twice = first is not None and first < 150
            if first is not None:
                arrays[second] = arrays[first]
            try:
                results = step(*arrays)
            except RuntimeError as error:
                assert twice and f"argument {first} is donated, and passed as another argument, too" in str(error)
                assert not any(array.is_deleted() for array in arrays)
            else:
                assert not twice
                assert [float(r[0]) for r in results[:150]] == [number + 1 for number in range(150)]
        """
    )


def test_errors_are_those_of_jax_with_our_text() -> None:
    said = script(
        """
        try:
            jax.jit(lambda x: jax.ffi.ffi_call("nobody_knows", jax.ShapeDtypeStruct((), np.float32))(x))(1.0)
        except Exception as error:
            print(type(error).__name__, error)
        assert jax.jit(lambda x: x + 1)(1.0) == 2
        """
    )
    assert "JaxRuntimeError UNIMPLEMENTED: error[unsupported]" in said
    assert "nobody_knows" in said


def test_several_devices_each_run_programs() -> None:
    script(
        """
        first, second, third = jax.devices()
        x = jax.device_put(np.arange(4.0, dtype=np.float32), second)
        y = jax.jit(lambda a: a * 2)(x)
        assert y.devices() == {second}
        assert jax.device_put(y, third).devices() == {third} and y.tolist() == [0, 2, 4, 6]
        """,
        SHLO_NUM_DEVICES="3",
    )


def test_executables_are_serialized_and_say_what_memory_they_take() -> None:
    script(
        """
        from jax.experimental import serialize_executable
        x = jnp.ones((32, 32))
        compiled = jax.jit(lambda a: jnp.tanh(a @ a)).lower(x).compile()
        stats = compiled.memory_analysis()
        assert stats.argument_size_in_bytes == stats.output_size_in_bytes == 4096
        again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
        assert (again(x) == compiled(x)).all()
        """
    )


def test_threads_compile_and_call_at_once() -> None:
    script(
        """
        from concurrent.futures import ThreadPoolExecutor
        def work(n):
            f = jax.jit(lambda x: jnp.tanh(x * n).sum())
            return [float(f(jnp.full(50, 0.01 * k))) for k in range(20)]
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, range(1, 9)))
        for n, values in enumerate(results, 1):
            np.testing.assert_allclose(values, [50 * np.tanh(0.01 * k * n) for k in range(20)], 1e-5)
        """
    )


def test_arrays_are_deleted_by_many_threads() -> None:
    script(
        """
        from concurrent.futures import ThreadPoolExecutor
        f = jax.jit(lambda x: x + 1)
        def work(n):
            for _ in range(300):
                y = f(jnp.full(100, float(n)))
                z = f(y)
                y.delete()
                assert float(z[0]) == n + 2
            return True
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(8)))
        import gc; gc.collect()
        before = handles()
        assert before < 300, before  # there were 7,200 arrays
        """
    )


def test_memory_of_arrays_is_given_back() -> None:
    """10,000 calls whose results are dropped; arrays that die while an exception is on its way."""
    script(
        """
        import resource
        f = jax.jit(lambda x: x + 1)
        x = jnp.ones(10_000)
        for _ in range(200):
            f(x)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(10_000):
            f(x)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
        def fails():
            kept = [f(x) for _ in range(10)]
            raise KeyError(kept[0].shape)
        for _ in range(20):
            try:
                fails()
            except KeyError:
                pass
        """
    )


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import os; f(x); sys.exit(0)"])
def test_a_script_ends_with_live_arrays(ending: str) -> None:
    for _ in range(3):
        script(
            "import sys; f = jax.jit(lambda x: x @ x); x = jnp.ones((50, 50)); kept = [f(x) for _ in range(9)]\n"
            + ending
        )


def test_the_number_of_devices_is_checked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD],
        capture_output=True,
        text=True,
        env={**os.environ, "SHLO_NUM_DEVICES": "many"},
        check=False,
    )
    assert done.returncode == 1
    assert "SHLO_NUM_DEVICES is 'many'" in done.stderr


# --- tables -----------------------------------------------------------------------------------------------------------


def test_every_function_that_is_made_is_of_the_api() -> None:
    assert len(set(api.FUNCTIONS)) == len(api.FUNCTIONS)
    made = {*native._READS, *native._NOTHING, *native._DESTROYING, *api.PYTHON_FUNCTIONS}
    assert made <= {*api.FUNCTIONS, *(name for names in api.EXTENSIONS.values() for name in names)}
    assert not {*native._READS, *native._NOTHING, *native._DESTROYING} & set(api.PYTHON_FUNCTIONS)
    assert set(fields.NATIVE_FIRST) <= set(api.PYTHON_FUNCTIONS)


def test_fields_do_not_overlap() -> None:
    for kind, fields_ in fields.FIELDS.items():
        places = sorted(fields_.values())
        assert len(set(places)) == len(places), kind
        assert all(place % 8 == 0 and 16 <= place <= fields.BLOCK_BYTES - 8 for place in places), kind
    assert max(fields.FIELDS["storage"].values()) < fields.STORAGE_BYTES
    assert max(fields.FIELDS["event"].values()) < fields.EVENT_BYTES
    assert max(fields.FIELDS["error"].values()) < fields.ERROR_BYTES
    assert fields.COPY + fields.PLAN_BYTES <= fields.ORDER < fields.HOST_POOL
    assert len(fields.DRIVER) * 8 <= fields.DRIVER_POOL
    assert max(fields.PYTHON.values()) < fields.FORKED


@pytest.mark.parametrize(("inputs", "outputs", "workspace"), [(0, 0, 0), (1, 1, 64), (3, 2, 4096), (2, 5, 1 << 20)])
def test_tables_of_a_job_follow_each_other(inputs: int, outputs: int, workspace: int) -> None:
    places = fields.job_places(inputs, outputs, workspace)
    order = [places[name] for name in ("outputs", "holds", "made", "events")]
    ends = [at + 8 * count for at, count in zip(order, (outputs, inputs, outputs, inputs), strict=True)]
    assert order[0] >= fields.INPUTS + 8 * inputs
    assert ends[:3] == order[1:]
    if workspace <= fields.SMALL_WORKSPACE:
        assert places["workspace"] == ends[3]
        assert places["job_bytes"] >= ends[3] + 63 + workspace
    else:
        assert places["workspace"] == 0
        assert places["job_bytes"] == ends[3]


@pytest.mark.parametrize("device", [0, 5, 300])
def test_device_assignments_are_read_as_they_are_written(device: int) -> None:
    assignment = device_assignment([device])
    build = b"\x20\x01\x28\x01\x4a" + bytes([len(assignment)]) + assignment
    assert CompileOptions.of(b"\x1a" + bytes([len(build)]) + build) == CompileOptions(1, 1, (device,))
    with pytest.raises(ValueError, match="early"):
        CompileOptions.of(b"\x1a\x7f")


def test_kinds_of_memory_are_those_of_jaxs_cpu() -> None:
    script(
        """
        device = jax.devices()[0]
        assert [each.kind for each in device.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
        assert device.default_memory().kind == "device"
        there = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
        here = jax.sharding.SingleDeviceSharding(device, memory_kind="device")
        x = jax.device_put(np.arange(6.0).reshape(2, 3).T, there)
        assert x.sharding == there and (np.asarray(x) == np.arange(6.0).reshape(2, 3).T).all()
        assert jax.device_put(x, here).sharding == here

        both = jax.jit(lambda a: (a * 2, jax.device_put(a + 1, here)), out_shardings=(there, None))
        compiled = both.lower(x).compile()
        for doubled, more in (compiled(x), compiled(x)):
            assert doubled.sharding == there and more.sharding == here
            assert (np.asarray(doubled) == 2 * np.asarray(x)).all() and (np.asarray(more) == np.asarray(x) + 1).all()
        called = jax.jit(lambda a: jax.pure_callback(np.sin, a, a), out_shardings=there)(x)  # not native
        np.testing.assert_allclose(called, np.sin(np.asarray(x)), 1e-6)
        assert called.sharding == there
        """
    )


def test_a_serialized_program_keeps_the_kinds_of_memory() -> None:
    script(
        """
        from jax.experimental.serialize_executable import deserialize_and_load, serialize
        there = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
        compiled = jax.jit(lambda a: a * 2, out_shardings=there).lower(jnp.ones(3)).compile()
        assert deserialize_and_load(*serialize(compiled))(jnp.ones(3)).sharding == there
        """
    )
