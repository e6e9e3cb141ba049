"""Computations that run while Python goes on, and what native code does for calls."""

from __future__ import annotations

import pytest

from test.helpers.platform_scripts import script

LONG = """
@jax.jit
def long(x, n):  # about 0.2 s for 100,000
    return jax.lax.fori_loop(0, n, lambda i, v: jnp.sin(v) + 1e-3, x)
x = jnp.ones(500)
long(x, 3).block_until_ready()
step = jax.jit(lambda s: s * 0.5 + 1, donate_argnums=0)
step(jnp.ones(500))
"""


def run(body: str, **environment: str) -> str:
    """What a script prints that has `long`."""
    return script(body, LONG, **environment)


def test_python_goes_on_while_a_program_runs() -> None:
    run(
        """
        y = long(x, 1_000_000)  # about 2 s: on a busy machine this thread may not get on for some tenths
        assert not y.is_ready()
        z = step(y)          # waits in the queue, and has y's memory
        assert y.is_deleted() and not z.is_ready()
        z.copy_to_host_async()
        z.block_until_ready()
        assert z.is_ready()
        np.testing.assert_allclose(z, step(long(x, 1_000_000)))
        """
    )


def test_arrays_that_are_not_there_are_read_when_they_are() -> None:
    run(
        """
        wanted = np.asarray(long(x, 20_000))
        there = lambda a: np.asarray(jax.device_put(a, jax.devices()[1]))
        for read in (np.asarray, jax.device_get, lambda a: np.asarray(a[:]), there):
            assert (read(long(x, 20_000)) == wanted).all()
        deleted, kept = long(x, 20_000), long(x, 20_000)
        both = kept + 0
        deleted.delete()
        kept.delete()
        assert (np.asarray(both) == wanted).all()
        """,
        SHLO_NUM_DEVICES="2",
    )


def test_a_donated_argument_is_read_before_it_is_overwritten() -> None:
    run(
        """
        s = long(x, 50_000)
        place = s.unsafe_buffer_pointer()
        read = jax.jit(lambda a: jax.lax.fori_loop(0, 1000, lambda i, v: v + a, jnp.zeros(500)))
        wanted = np.asarray(read(s))
        earlier = read(s)
        t = step(s)
        assert t.unsafe_buffer_pointer() == place and s.is_deleted()
        assert (np.asarray(earlier) == wanted).all()
        """
    )


def test_memory_that_numpy_sees_is_not_overwritten() -> None:
    run(
        """
        s = jnp.ones(500)
        seen = np.asarray(s)
        t = step(s)
        assert s.is_deleted() and (seen == 1).all() and (np.asarray(t) == 1.5).all()
        kept = jnp.ones(500)
        seen = np.asarray(kept)
        kept.delete()
        junk = [jnp.full(500, 7.0) for _ in range(20)]
        assert (seen == 1).all()
        """
    )


def test_many_calls_in_the_queue() -> None:
    run(
        """
        state = x
        for _ in range(300):  # many more than the queue takes
            state = long(state, 50)
        one = long(x, 15_000)
        np.testing.assert_allclose(state, one, 1e-6)
        """
    )


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import sys; jnp.ones(3); sys.exit(0)"])
def test_a_script_ends_in_the_middle_of_work(ending: str) -> None:
    for _ in range(2):
        run(
            """
            kept = [long(x, 1_000_000) for _ in range(4)]
            late = kept[0] + 1
            late.copy_to_host_async()
            """
            + ending
        )


def test_a_forked_child_says_so() -> None:
    said = run(
        """
        from in_scripts import check_forked_child
        y = long(x, 50_000)
        check_forked_child(lambda: step(x), lambda: jnp.ones(3), y.block_until_ready, lambda: np.asarray(y))
        print((np.asarray(y) == np.asarray(long(x, 50_000))).all())
        """
    )
    assert said == "True\n"


def test_threads_call_compile_and_delete_at_once() -> None:
    """For some seconds; by hand, for a minute: SHLO_SECONDS=60."""
    script(
        """
        import os, time
        from in_scripts import on_threads
        seconds = float(os.environ.get("SHLO_SECONDS", "4"))
        end, trips = time.monotonic() + seconds, []
        shared = jnp.arange(2000.0)
        def work(number):
            trip = 0
            while time.monotonic() < end:
                trip += 1
                f = jax.jit(lambda a, n=number, t=trip: jnp.tanh(a * n) + t)
                step = jax.jit(lambda s, a: s + a, donate_argnums=0)
                s = f(shared)
                wanted = np.tanh(np.arange(2000.0, dtype=np.float32) * number) + trip
                for _ in range(50):
                    s = step(s, shared)
                    wanted = wanted + np.arange(2000.0, dtype=np.float32)
                other = f(shared)
                other.delete()
                np.testing.assert_allclose(s, wanted, 1e-4)
            trips.append(trip)
        on_threads(work, range(1, 5))
        print(trips)
        """
    )


def test_calls_leave_nothing_behind() -> None:
    """By handles and resident memory; 100,000 calls: python benchmarks/bench_platform.py --calls 100000."""
    run(
        """
        import os
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        small, large = jnp.ones(()), jnp.ones(50_000)
        f = jax.jit(lambda a: a + 1)
        def calls(count):
            for _ in range(count):
                f(small), f(large), step(f(x)), long(x, 2), jax.device_put(np.ones(20_000, np.float32))
            long(x, 2).block_until_ready()
        calls(300)
        handles_before, before = handles(), resident()
        calls(5000)
        assert handles() <= handles_before + 4, (handles_before, handles())
        assert resident() < before + (16 << 20), (before, resident())
        """
    )


def test_an_error_of_a_running_program_is_that_of_its_results() -> None:
    """Of a custom call in C, which waits in the queue. What takes its results fails with it; others do not."""
    run(
        """
        import stablehlo_py as shlo
        from stablehlo_py.backends.cpu.native import NativeCode
        from stablehlo_py.backends.cpu.objects import Unit, compile_units
        from stablehlo_py.backends.cpu.target import baseline_target
        from stablehlo_py.codegen.builder import I8, I32, PTR, Function
        from stablehlo_py.runtime.callbacks import Call
        f = Function("refuses", [("given", PTR)], baseline_target().emitter(), result=I32)
        message = f.load(PTR, f.gep(f.given, Call.message.offset, I8))
        for place, letter in enumerate(b"out of luck\\0"):
            f.store(f.const(letter, I8), message, place)
        f.ret(f.const(1, I32))
        code = NativeCode([compile_units([Unit.of(f)])])
        shlo.register_custom_call("refuses", code.address("refuses"))
        refuses = jax.jit(lambda a: jax.ffi.ffi_call("refuses", jax.ShapeDtypeStruct(a.shape, a.dtype))(a))

        def said(attempt):
            try:
                attempt()
            except jax.errors.JaxRuntimeError as error:
                return str(error)
            raise AssertionError("it went well")
        y = refuses(long(x, 20_000))     # returns, since it has not begun
        for attempt in (
            lambda: step(refuses(x)).block_until_ready(),
            lambda: (y + 1).block_until_ready(),
            y.block_until_ready,
            lambda: np.asarray(y),
            lambda: np.asarray(jax.device_put(y, jax.devices()[1])),
        ):
            assert "the custom call 'refuses' failed: out of luck" in said(attempt), said(attempt)
        assert float(step(jnp.ones(500))[0]) == 1.5
        del y
        """,
        SHLO_NUM_DEVICES="2",
    )


def test_random_work_of_threads_on_devices() -> None:
    """Programs that run at once and in queues, donations, copies, deletions and reads, in any order: the values are
    those that Python computes. More of it by hand: SHLO_ROUNDS=20. The C library fills memory that is freed."""
    run(
        """
        import gc, os, random
        from in_scripts import on_threads
        add, double = jax.jit(lambda v: v + 1), jax.jit(lambda v: v * 2, donate_argnums=0)
        later = jax.jit(lambda v: jax.lax.fori_loop(0, 200, lambda i, w: w + 1, v))
        both = jax.jit(lambda a, b: (a - b, b))
        devices = jax.devices()
        def work(seed):
            pick = random.Random(seed)
            size, live = pick.choice([1, 7, 1000, 20_000, 200_000]), []
            def new():
                value = float(pick.randrange(100))
                live.append((jax.device_put(np.full(size, value, np.float32), pick.choice(devices)), value))
            for _ in range(300):
                if not live:
                    new()
                at, what = pick.randrange(len(live)), pick.randrange(9)
                array, value = live.pop(at)
                if what == 0:
                    new()
                elif what == 1:
                    array, value = later(array), value + 200
                elif what == 2:
                    array, value = double(array), value * 2
                elif what == 3:
                    array, value = add(array), value + 1
                elif what == 4:
                    array = jax.device_put(array, pick.choice(devices))
                elif what == 5:
                    array.copy_to_host_async()
                elif what == 6 and live:
                    other, that = live[-1]
                    if other.devices() == array.devices():
                        (array, same), value = both(array, other), value - that
                        live.append((same, that))
                elif what == 7:
                    array.delete()
                    continue
                elif what == 8:
                    assert np.asarray(array)[size // 2] == value, (np.asarray(array)[size // 2], value)
                live = [each for each in [*live, (array, value)] if abs(each[1]) < 1e6][-12:]
            for array, value in live:
                assert (np.asarray(array) == value).all()
        for round in range(int(os.environ.get("SHLO_ROUNDS", "3"))):
            on_threads(work, range(4 * round, 4 * round + 4))
        """,
        SHLO_NUM_DEVICES="3",
        MALLOC_PERTURB_="165",
    )
