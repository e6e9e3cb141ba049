"""Programs on several devices: jit with shardings, shard_map, pmap. Each test runs a script in a process of its own."""

from __future__ import annotations

import numpy as np
import pytest

from stablehlo_py.api import compile_program
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import LoadError
from stablehlo_py.frontend.load import load_marked
from stablehlo_py.frontend.partition import partition
from stablehlo_py.frontend.placement import UnknownSharding, placement_of
from stablehlo_py.frontend.source import read
from stablehlo_py.pjrt.executable import Compiled
from stablehlo_py.pjrt.options import CompileOptions, device_assignment
from stablehlo_py.pjrt.serialized import deserialize, serialize
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.pjrt.signature import Layouts
from test.helpers.platform_scripts import script

MESH = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
def on(*axes):
    return NamedSharding(mesh, P(*axes))
"""


def on_devices(body: str, count: int = 8) -> str:
    head = MESH if count == 8 else MESH.partition("mesh =")[0]
    return script(body, head, SHLO_NUM_DEVICES=str(count), MALLOC_PERTURB_="165")


@pytest.mark.parametrize("inputs", ['"x"', '("x", "y")', '("y", "x")', 'None, "x"', '"y", "x"', ""])
def test_jit_takes_and_gives_parts(inputs: str) -> None:
    on_devices(
        f"""
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        given = jax.device_put(x, on({inputs}))
        for wanted in (on(), on("x"), on("y", "x"), on(None, ("x", "y"))):
            y = jax.jit(lambda a: a @ a.T + 1, out_shardings=wanted)(given)
            assert y.sharding == wanted
            np.testing.assert_allclose(y, x @ x.T + 1, 1e-5, 1e-5)
            for shard in y.addressable_shards:
                assert shard.device.id == shard.data.devices().pop().id
                np.testing.assert_allclose(shard.data, (x @ x.T + 1)[shard.index], 1e-5, 1e-5)
        """
    )


def test_shard_map_runs_on_the_parts_and_communicates() -> None:
    on_devices(
        """
        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        given = jax.device_put(x, on("x", "y"))
        def mapped(f, into, out_of=P("x", "y")):
            return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=out_of, out_specs=into, check_vma=False))
        four = x.reshape(4, 2, 8)
        assert (mapped(lambda a: jax.lax.psum(a, "x"), P(None, "y"))(given) == four.sum(0)).all()
        assert (mapped(lambda a: jax.lax.all_gather(a, "x", tiled=True), P(None, "y"))(given) == x).all()
        rolled = mapped(lambda a: jax.lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]), P("x", "y"))(given)
        assert (rolled == np.roll(x, 2, 0)).all()
        scattered = mapped(lambda a: jax.lax.psum_scatter(a, "y", tiled=True), P(("x", "y")), P("x"))(x)
        assert (scattered == 2 * x).all()
        swapped = mapped(lambda a: jax.lax.all_to_all(a, "x", 1, 0, tiled=True), P(None, ("y", "x")))(given)
        assert (swapped == x).all()
        numbers = mapped(lambda a: (jax.lax.axis_index("x") * 2 + jax.lax.axis_index("y")) + 0 * a, P("x", "y"))(given)
        assert (numbers == np.kron(np.arange(8).reshape(4, 2), np.ones((2, 4)))).all()
        # Parts that are passed on stay parts: nothing is put together.
        twice = jax.jit(lambda a: mapped(lambda b: b * 2, P("x"), P("x"))(mapped(lambda b: b + 1, P("x"), P("x"))(a)),
                        in_shardings=on("x"), out_shardings=on("x"))
        assert (twice(x) == 2 * (x + 1)).all()
        """
    )


def test_results_that_are_left_open_are_sharded_as_what_they_are_computed_from() -> None:
    on_devices(
        """
        x = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), on("x", "y"))
        def given(f):
            y = jax.jit(f)(x)
            np.testing.assert_allclose(y, f(np.asarray(x)))
            return y.sharding
        assert given(lambda a: a * 2 + 1) == on("x", "y")
        assert given(lambda a: a.T) == on("y", "x")
        assert given(lambda a: a.sum(0)) == on("y")
        assert given(lambda a: a @ a) in (on("x"), on("x", None))
        looped = jax.jit(lambda a: jax.lax.fori_loop(0, 3, lambda i, b: b + i, a))
        assert looped(x).sharding == on("x", "y") and (looped(x) == x + 3).all()
        assert given(lambda a: a.reshape(-1)).spec == P("x") and given(lambda a: a.sum()).is_fully_replicated
        double = jax.jit(jax.shard_map(lambda a: a * 2, mesh=mesh, in_specs=P("y"), out_specs=P("y")))
        assert double(x).sharding == on("y")
        constrained = jax.jit(lambda a: jax.lax.with_sharding_constraint(a, on(None, "x")) + 1)
        assert constrained(x).sharding == on(None, "x")
        """
    )


def test_shard_map_over_some_axes_of_a_mesh() -> None:
    on_devices(
        """
        x = np.arange(32, dtype=np.float32).reshape(8, 4)
        f = jax.jit(jax.shard_map(lambda a: a + jax.lax.psum(a, "y"), mesh=mesh, in_specs=P(None, "y"),
                                  out_specs=P(None, "y"), axis_names={"y"}))
        sums = x[:, :2] + x[:, 2:]
        assert (f(jax.device_put(x, on("x"))) == x + np.concatenate([sums, sums], 1)).all()
        """
    )


def test_pmap_and_its_errors() -> None:
    said = on_devices(
        """
        x = np.arange(16, dtype=np.float32).reshape(8, 2)
        f = jax.pmap(lambda a, b: a / jax.lax.psum(b.sum(), "i"), axis_name="i")
        y = f(x, x)
        assert [each.device.id for each in y.addressable_shards] == list(range(8))
        np.testing.assert_allclose(y, x / x.sum(), 1e-6)
        g = jax.pmap(jax.grad(lambda a: jnp.sum(jax.lax.pmean(a, "i") ** 2)), axis_name="i")
        assert g(x).shape == (8, 2)
        chosen = jax.devices()[5:2:-1]
        z = jax.pmap(lambda a: a + jax.lax.axis_index("i"), axis_name="i", devices=chosen)(x[:3])
        assert (z == x[:3] + np.arange(3)[:, None]).all() and [s.device for s in z.addressable_shards] == chosen
        try:
            jax.pmap(lambda a: a)(np.ones((9, 2)))
        except ValueError as error:
            print(error)
        """
    )
    assert "9" in said


def test_the_order_of_devices_is_that_of_the_mesh() -> None:
    on_devices(
        """
        order = [5, 3, 7, 1, 0, 2, 6, 4]
        shuffled = Mesh(np.array(jax.devices())[order].reshape(2, 4), ("a", "b"))
        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        given = jax.device_put(x, NamedSharding(shuffled, P("b", "a")))
        y = jax.jit(lambda a: a.T * 2, out_shardings=NamedSharding(shuffled, P("a", "b")))(given)
        assert (y == 2 * x.T).all()
        assert [s.device.id for s in y.addressable_shards] == order
        for shard in y.addressable_shards:
            assert (shard.data == 2 * x.T[shard.index]).all()
        # One mesh in the arguments, another in the results.
        z = jax.jit(lambda a: a + 1, out_shardings=NamedSharding(
            Mesh(np.array(jax.devices())[order].reshape(4, 2), ("c", "d")), P("c", "d")))(y)
        assert (z == 2 * x.T + 1).all()
        """
    )


def test_arrays_go_from_device_to_device() -> None:
    on_devices(
        """
        x = np.arange(16, dtype=np.float32).reshape(8, 2)
        third = jax.device_put(x, jax.devices()[3])
        assert third.devices() == {jax.devices()[3]} and (third == x).all()
        for sharding in (on("x"), on(None, "y"), on(("x", "y")), on()):
            y = jax.device_put(third, sharding)
            assert y.sharding == sharding and (np.asarray(y) == x).all()
            back = jax.device_put(y, jax.devices()[6])
            assert (np.asarray(back) == x).all() and back.devices() == {jax.devices()[6]}
        parts = [jax.device_put(x[2 * i : 2 * i + 2], mesh.devices[i, j]) for i in range(4) for j in range(2)]
        z = jax.make_array_from_single_device_arrays((8, 2), on("x"), parts)
        assert (z == x).all() and (z.sum() == x.sum())
        made = jax.make_array_from_callback((8, 2), on("y"), lambda index: x[index])
        assert (jax.jit(lambda a: a * 2)(made) == 2 * x).all()
        """
    )


def test_donated_parts_are_the_results() -> None:
    on_devices(
        """
        step = jax.jit(lambda s, x: s * 0.5 + x, donate_argnums=0, out_shardings=on("x"))
        s, x = (jax.device_put(np.ones((8, 512), np.float32), on("x")) for _ in range(2))
        places = [shard.data.unsafe_buffer_pointer() for shard in s.addressable_shards]
        inside = jax.jit(jax.shard_map(lambda a: a + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x")),
                         donate_argnums=0, out_shardings=on("x"))
        t = inside(s)
        assert [shard.data.unsafe_buffer_pointer() for shard in t.addressable_shards] == places
        assert s.is_deleted() and (t == 2).all()
        u = step(t, x)
        assert t.is_deleted() and (u == 2).all() and (x == 1).all()
        """
    )


def test_errors_of_a_device_reach_the_caller() -> None:
    """Nobody hangs where processes wait for one that never comes, and the next program runs."""
    said = on_devices(
        """
        def f(a):
            return jax.lax.cond(jax.lax.axis_index("x") == 0, lambda b: jax.lax.psum(b, "x"), lambda b: b, a)
        g = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        x = np.ones((8, 2), np.float32)
        for _ in range(2):
            try:
                g(x).block_until_ready()
            except Exception as error:
                print(type(error).__name__, error)
        assert (jax.jit(lambda a: a + 1, in_shardings=on("x"))(x) == 2).all()
        """
    )
    assert said.count("processes") >= 2


def test_python_goes_on_while_programs_run_on_all_devices() -> None:
    on_devices(
        """
        def body(a):  # about 2 s: on a busy machine this thread may not get on for some tenths
            return jax.lax.psum(jax.lax.fori_loop(0, 200_000, lambda i, v: jnp.sin(v) + 1e-3, a), ("x", "y"))
        long = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(("x", "y")), out_specs=P()))
        step = jax.jit(lambda a: a * 0.5, donate_argnums=0)
        x = jax.device_put(np.ones((8, 64), np.float32), on(("x", "y")))
        wanted = np.asarray(step(long(x)))
        y = long(x)
        assert not y.is_ready()
        z = step(y)
        assert y.is_deleted() and not z.is_ready()
        assert (np.asarray(z) == wanted).all()
        """
    )


def test_an_error_of_a_device_is_that_of_all_results_and_of_what_is_computed_from_them() -> None:
    said = on_devices(
        """
        def one_waits(a):
            return jax.lax.cond(jax.lax.axis_index("x") == 0, lambda b: jax.lax.psum(b, "x"), lambda b: b, a)
        def all_wait(a):
            return jax.lax.cond(jax.lax.axis_index("x") == 0, lambda b: jax.lax.psum(b, "x"),
                                lambda b: jax.lax.psum(b + 1, "x"), a)
        x = jax.device_put(np.ones((4, 2), np.float32), on("x"))
        for body in (one_waits, all_wait):
            f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
            y = f(x)
            z = jax.jit(lambda a: a.sum() + 1)(y)
            for value in (z, y, *(shard.data for shard in y.addressable_shards)):
                try:
                    value.block_until_ready()
                except Exception as error:
                    print(str(error).splitlines()[0])
                else:
                    raise AssertionError("it has no value")
        total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
        assert (total(x) == 4).all()
        """
    )
    assert said.count("the processes of the grid wait for each other") >= 10
    assert said.count("processes meet at different ops") + said.count("wait for each other") == 20


def test_what_is_refused_has_taken_nothing() -> None:
    on_devices(
        """
        add = jax.jit(jax.shard_map(lambda a, b: a + jax.lax.psum(b, "x"), mesh=mesh, in_specs=P("x"),
                                    out_specs=P("x")), donate_argnums=0)
        a, b = (jax.device_put(np.ones((8, 2), np.float32), on("x")) for _ in range(2))
        for error, wrong in (("passed as another argument", lambda: add(a, a)), ("deleted", lambda: add(a, gone))):
            gone = b + 1
            gone.delete()
            try:
                wrong()
            except RuntimeError as raised:
                assert error in str(raised), raised
            else:
                raise AssertionError(error)
        assert (add(a, b) == 5).all() and a.is_deleted()
        """
    )


def test_random_work_of_threads_on_devices_that_overlap() -> None:
    """Collectives, programs on parts, on one device, donations and copies, on meshes that share devices: the values are
    those that Python computes, and nobody waits for ever."""
    on_devices(
        """
        import random
        from in_scripts import on_threads
        from jax.sharding import SingleDeviceSharding
        orders = ([0, 1, 2, 3], [3, 1], [2, 0, 1, 3], [1, 2])
        places = [NamedSharding(Mesh(np.array(jax.devices())[each], ("d",)), P("d")) for each in orders]
        summed = [
            jax.jit(jax.shard_map(lambda a: a * 0 + jax.lax.pmean(a, "d") + 1, mesh=p.mesh, in_specs=P("d"),
                                  out_specs=P("d"), check_vma=False))
            for p in places
        ]
        places += [SingleDeviceSharding(jax.devices()[0]), SingleDeviceSharding(jax.devices()[3])]
        add, double = jax.jit(lambda v: v + 1), jax.jit(lambda v: v * 2, donate_argnums=0)
        def work(seed):
            pick = random.Random(seed)
            for _ in range(12):
                value, at = float(pick.randrange(9)), pick.randrange(len(places))
                size = pick.choice([4, 40_000])
                array = jax.device_put(np.full((4, size), value, np.float32), places[at])
                for _ in range(12):
                    what = pick.randrange(4)
                    if what == 0 and at < len(summed):
                        array, value = summed[at](array), value + 1
                    elif what == 1:
                        array, value = add(array), value + 1
                    elif what == 2 and value < 1e5:
                        array, value = double(array), value * 2
                    elif what == 3:
                        at = pick.randrange(len(places))
                        array = jax.device_put(array, places[at])
                assert (np.asarray(array) == value).all(), (seed, value, array)
        on_threads(work, range(4))
        """,
        count=4,
    )


def test_calls_on_devices_leave_nothing_behind() -> None:
    on_devices(
        """
        x = jax.device_put(np.ones((4, 2), np.float32), on("x"))
        total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
        add = jax.pmap(lambda a: a + 1)
        whole = np.ones((8, 2), np.float32)
        def calls(number):
            for _ in range(number):
                y, z = total(x), add(whole)
            jax.block_until_ready((y, z))
            del y, z
            return handles()
        calls(10)
        before, after = calls(10), calls(200)
        assert after <= before + 16, (before, after)  # threads give back their last events behind the caller
        """
    )


def test_summands_of_values_are_added_up() -> None:
    on_devices(
        """
        explicit = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
        jax.set_mesh(explicit)
        x = np.arange(16, dtype=np.float32)
        parts = jax.device_put(x, NamedSharding(explicit, P("x")))
        y = jax.jit(jax.shard_map(lambda a: jax.lax.pcast(a, "x", to="unreduced"), in_specs=P("x"),
                                  out_specs=P(unreduced={"x"})))(parts)
        assert y.shape == (2,) and y.sharding.spec == P(None, unreduced={"x"})
        assert (sum(np.asarray(s.data) for s in y.addressable_shards) == x.reshape(8, 2).sum(0)).all()
        z = jax.jit(lambda a: jax.sharding.reshard(a, P()))(y)
        assert (z == x.reshape(8, 2).sum(0)).all()
        """
    )


def test_summands_that_are_passed_on_stay_as_they_are() -> None:
    on_devices(
        """
        explicit = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
        jax.set_mesh(explicit)
        x = jax.device_put(np.arange(8, dtype=np.float32), P())
        def passed(into, out_of):
            return jax.jit(jax.shard_map(lambda a: a, in_specs=into, out_specs=out_of, check_vma=False))
        summands = passed(P(), P(unreduced={"x"}))(x)
        assert summands.sharding.spec == P(None, unreduced={"x"})
        for shard in summands.addressable_shards:
            assert (np.asarray(shard.data) == x).all()
        back = passed(P(unreduced={"x"}), P())(summands)
        for shard in back.addressable_shards:
            assert (np.asarray(shard.data) == x).all()
        both = jax.jit(lambda a: passed(P(unreduced={"x"}), P())(passed(P(), P(unreduced={"x"}))(a)))(x)
        assert (both == x).all()
        """
    )


def test_summands_of_devices_add_up() -> None:
    """Each device's summand is as the partitioner likes: what they sum to is defined, along the axes of the sum."""
    on_devices(
        """
        jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
        def total(array):  # no dimension is split
            return sum(np.asarray(shard.data) for shard in array.addressable_shards)
        numbers = np.arange(8, dtype=np.float32)
        for axes in ({"x"}, {"y"}, {"x", "y"}):
            for spec in (P(), P(tuple(axes))):
                x = jax.device_put(numbers, spec)
                copies = 8 // np.prod([{"x": 4, "y": 2}[axis] for axis in axes])
                same = jax.jit(lambda a: a, out_shardings=P(unreduced=axes))(x)
                np.testing.assert_array_equal(total(same), copies * numbers)
                np.testing.assert_array_equal(jax.sharding.reshard(same, P()), numbers)
        x = jax.device_put(numbers, P("x"))
        summed = jax.jit(lambda a: jax.lax.reduce_sum(a, axes=(0,), out_sharding=P(unreduced={"x"})))(x)
        assert total(summed) == 2 * numbers.sum() and jax.sharding.reshard(summed, P()) == numbers.sum()
        reduced = jax.device_put(numbers, P(None, reduced={"x"}))
        slope = jax.jit(jax.grad(lambda a: (jax.sharding.reshard(a, P("x")) ** 2).sum()))(reduced)
        assert slope.sharding.spec == P(None, unreduced={"x"})
        np.testing.assert_array_equal(total(slope), 2 * 2 * numbers)
        """
    )


def test_many_threads_run_programs_on_all_devices() -> None:
    on_devices(
        """
        from concurrent.futures import ThreadPoolExecutor
        f = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
        def work(n):
            return [float(f(np.full((4, 1), n + k, np.float32))[0, 0]) for k in range(10)]
        with ThreadPoolExecutor(4) as pool:
            for n, values in enumerate(pool.map(work, range(4))):
                assert values == [4.0 * (n + k) for k in range(10)]
        """
    )


def test_programs_are_serialized_with_their_devices_and_shardings() -> None:
    on_devices(
        """
        from jax.experimental import serialize_executable
        x = jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), on("x"))
        compiled = jax.jit(lambda a: (a * 2, a.sum()), out_shardings=(on("x", "y"), None)).lower(x).compile()
        again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
        for mine, theirs in zip(compiled(x), again(x), strict=True):
            assert mine.sharding == theirs.sharding and (mine == theirs).all()
        """
    )


def test_a_program_is_serialized_with_its_device() -> None:
    on_devices(
        """
        from jax.experimental import serialize_executable
        one = jax.device_put(np.ones(3, np.float32), jax.devices()[4])
        compiled = jax.jit(lambda a: a + 1).lower(one).compile()
        parts = serialize_executable.serialize(compiled)
        again = serialize_executable.deserialize_and_load(*parts, execution_devices=[jax.devices()[4]])
        assert again(one).devices() == {jax.devices()[4]}
        """
    )


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import os; f(x); sys.exit(0)"])
def test_a_script_ends_with_live_arrays(ending: str) -> None:
    on_devices(
        "import sys; f = jax.jit(lambda a: a @ a.T, out_shardings=on('x'))\n"
        "x = jax.device_put(np.ones((8, 8), np.float32), on('x')); kept = [f(x) for _ in range(5)]\n" + ending
    )


def test_what_a_program_says_of_itself() -> None:
    on_devices(
        """
        x = jax.device_put(np.ones((8, 2), np.float32), on("x", "y"))
        compiled = jax.jit(lambda a: a + 1, out_shardings=on("x")).lower(x).compile()
        executable = compiled.runtime_executable()
        assert [d.id for d in executable.local_devices()] == list(range(8))
        assert compiled.output_shardings == on("x") and compiled.input_shardings[0][0] == on("x", "y")
        assert len(executable.get_output_shardings()) == len(executable.get_parameter_shardings()) == 1
        """
    )


@pytest.mark.parametrize(("result", "moves"), [('[{"x"}, {}]', False), ('[{}, {"x"}]', True)])
def test_shards_that_are_passed_on_are_not_moved(result: str, moves: bool) -> None:
    rows, mesh = '<@m, [{"x"}, {}]>', 'sdy.mesh @m = <["x"=2, "y"=4]>'
    text = f"""module attributes {{mhlo.num_partitions = 8 : i32}} {{
      {mesh}
      func.func public @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding{rows}}})
          -> (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, {result}>}}) {{
        %0 = func.call @mapped(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
        return %0 : tensor<8x8xf32>
      }}
      func.func private @mapped(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {{
        %0 = sdy.manual_computation(%a) in_shardings=[{rows}] out_shardings=[{rows}] manual_axes={{"x", "y"}}
            (%b: tensor<4x8xf32>) {{
          %1 = stablehlo.add %b, %b : tensor<4x8xf32>
          sdy.return %1 : tensor<4x8xf32>
        }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
        return %0 : tensor<8x8xf32>
      }}
    }}
    """
    module = load_marked(read(text), make_context())
    partition(module)
    made = str(module)
    assert "tensor<4x8xf32>" in made.splitlines()[1] and ("all_gather" in made) == moves == ("dynamic_slice" in made)


# --- texts and tables -------------------------------------------------------------------------------------------------

MESHES = {
    "m": '#sdy.mesh<["x"=2, "y"=4]>',
    "l": '#sdy.mesh<["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>',
    "one": "#sdy.mesh<[], device_ids=[3]>",
}


@pytest.mark.parametrize(
    ("text", "partitions", "tiles"),
    [
        ("", 4, [[[[0], [1], [2], [3]]]]),
        ('#sdy.sharding<@m, [{"x"}, {}]>', 8, [[[[0], [1], [2], [3]]], [[[4], [5], [6], [7]]]]),
        ('#sdy.sharding<@m, [{"y":(2)2}, {"x"}]>', 8, [[[[0], [2]], [[4], [6]]], [[[1], [3]], [[5], [7]]]]),
        (
            '#sdy.sharding<@m, [{"y":(1)2, ?}, {?}], replicated={"x"}>',
            8,
            [[[[0], [1], [4], [5]]], [[[2], [3], [6], [7]]]],
        ),
        ('#sdy.sharding<@l, [{"y", "x"}, {}]>', 4, [[[[3]]], [[[2]]], [[[1]]], [[[0]]]]),
        ('#sdy.sharding<mesh<["x"=2]>, [{}, {"x"}p1]>', 2, [[[[0]], [[1]]]]),
        ('#sdy.sharding<@m, [{}, {"x"}], unreduced={"y"}>', 8, [[[[0, 1, 2, 3]], [[4, 5, 6, 7]]]]),
    ],
)
def test_shardings_are_devices_along_dimensions(text: str, partitions: int, tiles: list[object]) -> None:
    placement = placement_of(text, MESHES, 2, partitions)
    assert placement.tiles.tolist() == tiles
    for dimension, rows in enumerate(placement.groups):
        assert sorted(rows.reshape(-1)) == list(range(partitions))
        where = {int(device): place for place, device in np.ndenumerate(placement.tiles)}
        for row in rows.tolist():
            assert [where[device][dimension] for device in row] == list(range(len(row)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#sdy.sharding<@m, [{"x"}]>', "2 dimensions"),
        ('#sdy.sharding<@l, [{"x"}, {}]>', "8 partitions"),
        ("#sdy.sharding<@one, [{}, {}]>", "of one device"),
        ("{maximal device=0}", "not known"),
        ('#sdy.sharding<@m, [{"z"}, {}]>', "not those of its mesh"),
        ('#sdy.sharding<@m, [{"x"}, {"x"}]>', "not those of its mesh"),
        ('#sdy.sharding<@m, [{"y":(1)3}, {}]>', "not those of its mesh"),
    ],
)
def test_shardings_that_split_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(UnknownSharding, match=message):
        placement_of(text, MESHES, 2, 8)


def test_shardings_are_read_as_they_are_written() -> None:
    placements = [placement_of(text, MESHES, 2, 8) for text in ("", '#sdy.sharding<@m, [{"x"}, {"y"}]>')]
    shardings = Shardings.of(placements, placements[1:])
    asked = CompileOptions.of(b"\x1a\x02\x28\x08")
    program = compile_program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n")
    layouts = Layouts(((0,), (), (1, 0, 2)), ((0,),))
    content = serialize(Compiled(program, asked, shardings, (2,), layouts))
    again = deserialize(content, b"")
    assert again.program.inputs == program.inputs
    assert (again.options, again.shardings, again.kinds, again.layouts) == (asked, shardings, (2,), layouts)
    assert deserialize(content, b"\x1a\x02\x28\x04").options.partitions == 4
    with pytest.raises(LoadError, match="damaged"):
        deserialize(content[:40], b"")


@pytest.mark.parametrize(("devices", "replicas"), [((0, 1, 2, 3), 1), ((4, 300, 1, 0, 2, 5), 2), ((7, 6), 2)])
def test_assignments_of_several_devices_are_read_as_they_are_written(devices: tuple[int, ...], replicas: int) -> None:
    assignment = device_assignment(devices, replicas)
    partitions = len(devices) // replicas
    build = bytes([0x20, replicas, 0x28, partitions, 0x4A, len(assignment)]) + assignment
    assert CompileOptions.of(b"\x1a" + bytes([len(build)]) + build) == CompileOptions(replicas, partitions, devices)
