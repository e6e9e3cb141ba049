"""Whole programs: control flow, copies, constants, donation, and results in unusual places, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import compile as compile_
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.mlir import ir

RNG = np.random.default_rng(5)
LEVELS = pytest.mark.parametrize("opt_level", [0, 1])


def normal(*sizes: int) -> np.ndarray:
    return np.asarray(RNG.standard_normal(sizes)).astype(np.float32)


def scalar(number: float, dtype: type = np.int32) -> np.ndarray:
    return np.array(number, dtype)


def compiled(
    function: Callable[..., object], *arrays: np.ndarray, opt_level: int = 1, **jit: object
) -> shlo.Executable:
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    exported = jax.export.export(jax.jit(function, keep_unused=True, **jit))(*specs)
    return shlo.compile(exported, options=shlo.Options(opt_level=opt_level, threads=2))


def check(function: Callable[..., object], *arrays: np.ndarray, opt_level: int = 1) -> None:
    executable = compiled(function, *arrays, opt_level=opt_level)
    expected = jax.tree.leaves(jax.jit(function)(*arrays))
    for _ in range(2):  # the second call finds the arena as the first left it
        results = executable(*arrays)
        assert len(results) == len(expected)
        for ours, theirs in zip(results, map(np.asarray, expected), strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


# --- control flow ----------------------------------------------------------------------------------------------------


def nested_loops(x: jax.Array, n: jax.Array) -> jax.Array:
    def outer(i: jax.Array, x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, i, lambda j, y: jnp.sin(y) + j.astype(jnp.float32), x * 0.5)

    return lax.fori_loop(0, n, outer, x)


def branch_in_loop(x: jax.Array, n: jax.Array) -> jax.Array:
    def body(i: jax.Array, x: jax.Array) -> jax.Array:
        return lax.cond(i % 2 == 0, lambda x: jnp.tanh(x @ x.T / 50.0), lambda x: jnp.sort(x, 0) * 0.5, x)

    return lax.fori_loop(0, n, body, x)


def loop_in_branch(x: jax.Array, n: jax.Array) -> jax.Array:
    return lax.cond(n > 2, lambda x: lax.fori_loop(0, n, lambda _, y: jnp.tanh(y @ y / 50.0), x), lambda x: x, x)


def loop_in_switch_in_loop(x: jax.Array, n: jax.Array) -> jax.Array:
    def body(i: jax.Array, x: jax.Array) -> jax.Array:
        branches = [
            lambda x: lax.fori_loop(0, 3, lambda _, y: jnp.cos(y @ y.T / 50.0), x),
            lambda x: x,
            lambda x: lax.while_loop(lambda y: jnp.abs(y).max() > 1, lambda y: y * 0.5, x),
        ]
        return lax.switch(i % 3, branches, x)

    return lax.fori_loop(0, n, body, x)


def data_dependent(x: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    def unfinished(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return (jnp.abs(state[0]).sum() > 1.0) & (state[1] < 60)

    return lax.while_loop(unfinished, lambda s: (s[0] @ s[0].T / 40.0, s[1] + 1), (x, n))


def swapped(x: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.fori_loop(0, n, lambda _, s: (s[1], s[0] + 1), (x, x * 2))


def same_start(x: jax.Array, n: jax.Array) -> tuple[jax.Array, ...]:
    return lax.fori_loop(0, n, lambda i, s: (s[0] + s[1], s[1] * 0.5, s[0]), (x, x, x))


def stacked(x: jax.Array, n: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        return carry * 0.5 + row, (carry, jnp.exp(-row))

    return lax.scan(step, jnp.zeros(x.shape[1]) + n, x)


CONTROL = [
    nested_loops, branch_in_loop, loop_in_branch, loop_in_switch_in_loop, data_dependent, swapped, same_start, stacked,
]  # fmt: skip


@pytest.mark.every(2)
@LEVELS
@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("function", CONTROL, ids=lambda function: function.__name__)
def test_control_flow(function: Callable[..., object], count: int, opt_level: int) -> None:
    check(function, normal(24, 24), scalar(count), opt_level=opt_level)


@LEVELS
@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 1000])
def test_a_switch_out_of_range_takes_the_nearest_branch_of_jax(index: int, opt_level: int) -> None:
    function = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x)  # noqa: E731
    check(function, scalar(index), normal(40, 5), opt_level=opt_level)


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 1000])
def test_a_case_out_of_range_takes_the_last_branch(index: int) -> None:
    text = """func.func @main(%i: tensor<i32>, %x: tensor<300xf32>) -> tensor<300xf32> {
      %r = "stablehlo.case"(%i) ({
        %a = stablehlo.negate %x : tensor<300xf32>
        stablehlo.return %a : tensor<300xf32>
      }, {
        stablehlo.return %x : tensor<300xf32>
      }, {
        %c = stablehlo.abs %x : tensor<300xf32>
        stablehlo.return %c : tensor<300xf32>
      }) : (tensor<i32>) -> tensor<300xf32>
      return %r : tensor<300xf32>
    }"""
    x = normal(300)
    (result,) = shlo.compile(text)(scalar(index), x)
    np.testing.assert_array_equal(result, {0: -x, 1: x}.get(index, np.abs(x)))


def test_predicates_computed_from_data_in_either_branch() -> None:
    def function(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        deep = lambda y: lax.cond(y[0, 0] > 0, lambda z: (z, z.sum()), lambda z: (-z, z.max()), y)  # noqa: E731
        return lax.cond(x.sum() > 0, deep, lambda y: (y * 3, y.min()), x)

    for x in (normal(20, 30), normal(20, 30) + 1, normal(20, 30) - 1):
        check(function, x)


# --- results ---------------------------------------------------------------------------------------------------------


@LEVELS
def test_results_that_are_inputs_and_results_twice(opt_level: int) -> None:
    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
        z = jnp.tanh(x) @ y
        return z, y, z, x, x, z.reshape(-1), x.reshape(-1)

    check(function, normal(6, 70), normal(70, 6), opt_level=opt_level)


@LEVELS
def test_views_of_inputs_and_of_each_other(opt_level: int) -> None:
    def function(x: jax.Array) -> tuple[jax.Array, ...]:
        y = jnp.exp(x)
        flat = y.reshape(-1)
        return flat, y, (flat * 2).reshape(10, 50), x.reshape(50, 10), flat.sum()

    check(function, normal(5, 100), opt_level=opt_level)


@LEVELS
def test_constants_as_results(opt_level: int) -> None:
    table = normal(30, 7)

    def function(x: jax.Array) -> tuple[jax.Array, ...]:
        c = jnp.asarray(table)
        return c, c, jnp.zeros((3, 4)), jnp.arange(500), jnp.float32(2.5), x + c, c.reshape(-1)

    check(function, normal(30, 7), opt_level=opt_level)


def test_no_results_and_no_inputs() -> None:
    nothing = shlo.compile("func.func @main() { return }")
    assert nothing() == ()
    ignored = shlo.compile("func.func @main(%x: tensor<4xf32>) { return }")
    assert ignored(normal(4)) == ()
    (result,) = compiled(lambda: jnp.arange(5.0) * 2)()
    np.testing.assert_array_equal(result, np.arange(5.0) * 2)


@LEVELS
def test_arrays_without_elements(opt_level: int) -> None:
    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
        joined = jnp.concatenate([x, y], 0)
        return x, x * 2, x.sum(0), x.sum(1), joined, x @ y.T, y @ jnp.zeros((7, 0)), jnp.sort(x, 0), x.T, x[:, :0]

    check(function, normal(0, 7), normal(3, 7), opt_level=opt_level)


def test_loops_over_arrays_without_elements() -> None:
    function = lambda x, n: lax.fori_loop(0, n, lambda _, y: y * 2, x)  # noqa: E731
    check(function, normal(0, 7), scalar(3))
    check(lambda xs: lax.scan(lambda c, x: (c + x.sum(), x * 2), 0.0, xs), normal(0, 7))


def test_every_element_type_passes_through() -> None:
    for name in "bool int8 uint8 int16 uint16 int32 uint32 float16 bfloat16 float32 complex64".split():
        x = np.asarray(RNG.integers(0, 2, (5, 9))).astype(jnp.dtype(name))
        one, two, three = compiled(lambda x: (x, x.T, jnp.concatenate([x, x])), x)(x)
        for ours, expected in ((one, x), (two, x.T), (three, np.concatenate([x, x]))):
            assert ours.dtype == x.dtype
            np.testing.assert_array_equal(ours, expected)


# --- donation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_of_very_many_buffers(threads: int) -> None:
    count, columns = 600, 200
    types, result = ", ".join([f"tensor<4x{columns}xf32>"] * count), f"tensor<4x{count * columns}xf32>"
    names = [f"%a{number}" for number in range(count)]
    text = f"""func.func @main({", ".join(f"{name}: tensor<4x{columns}xf32>" for name in names)}) -> {result} {{
  %0 = stablehlo.concatenate {", ".join(names)}, dim = 1 : ({types}) -> {result}
  return %0 : {result}
}}"""
    arrays = [np.full((4, columns), number, np.float32) for number in range(count)]
    (found,) = shlo.compile(text, options=shlo.Options(threads=threads))(*arrays)
    np.testing.assert_array_equal(found, np.concatenate(arrays, 1))


def test_donated_memory_becomes_the_result() -> None:
    def update(cache: jax.Array, row: jax.Array, at: jax.Array) -> jax.Array:
        return lax.dynamic_update_slice(cache, row, (at, np.int32(0)))

    cache, row = normal(100, 500), normal(1, 500)
    executable = compiled(update, cache, row, scalar(3), donate_argnums=0)
    buffers = [executable.put(array) for array in (cache, row, scalar(3))]
    address = buffers[0].address
    (result,) = executable.call(buffers)
    assert result.address == address
    expected = cache.copy()
    expected[3] = row
    np.testing.assert_array_equal(result, expected)
    with pytest.raises(shlo.ArgumentError, match="donated"):
        executable.call(buffers)
    buffers[0] = executable.put(result)
    np.testing.assert_array_equal(executable.call(buffers)[0], expected)


def test_donated_inputs_that_are_read_late() -> None:
    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = jnp.tanh(x) @ y
        return x + z.sum(), y * x.max()

    x, y = normal(300, 300), normal(300, 300)
    executable = compiled(function, x, y, donate_argnums=(0, 1))
    expected = jax.jit(function)(x, y)
    mine = x.copy(), y.copy()
    for results in (executable(*mine), executable.call([executable.put(array) for array in mine])):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(mine[0], x)
    np.testing.assert_array_equal(mine[1], y)


def test_exchanged_donations() -> None:
    x, y = normal(40, 500), normal(40, 500)
    executable = compiled(lambda x, y: (y + 1, x * 2), x, y, donate_argnums=(0, 1))
    for a, b in (executable(x, y), executable.call([executable.put(x), executable.put(y, 1)])):
        np.testing.assert_array_equal(a, y + 1)
        np.testing.assert_array_equal(b, x * 2)


def test_a_donated_buffer_is_no_other_input() -> None:
    x = normal(40, 500)
    executable = compiled(lambda x, y: x + y, x, x, donate_argnums=0)
    buffer = executable.put(x)
    with pytest.raises(shlo.ArgumentError, match="also another input"):
        executable.call([buffer, buffer])
    np.testing.assert_array_equal(executable.call([buffer, executable.put(x)])[0], x + x)


# --- memory ----------------------------------------------------------------------------------------------------------


def test_arguments_may_lie_anywhere() -> None:
    """Rows of a larger array, addresses that no element type is aligned to, read-only memory."""
    x = normal(64, 100)
    executable = compiled(lambda x: (jnp.tanh(x), x.sum(0)), x)
    expected = executable(x)
    buffer = np.zeros(x.nbytes + 1, np.uint8)
    odd = buffer[1:].view(np.float32).reshape(x.shape)
    odd[...] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    wide = np.zeros((64, 300), np.float32)
    wide[:, 100:200] = x
    for argument in (odd, fixed, wide[:, 100:200], np.asfortranarray(x), x[::-1][::-1], memoryview(x)):
        for ours, theirs in zip(executable(argument), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_results_are_the_callers_own() -> None:
    x = normal(200, 300)
    executable = compiled(lambda x: x + 1, x)
    first = executable(x)[0]
    second = executable(x * 2)[0]
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, x + 1)
    first[:] = 0
    np.testing.assert_array_equal(executable(x)[0], x + 1)


def test_results_in_reference_cycles_die_at_any_time() -> None:
    x = normal(200, 300)
    executable = compiled(lambda x: x + 1, x)

    class Node:
        pass

    for _ in range(300):
        node = Node()
        node.itself, node.result = node, executable(x)[0]
    np.testing.assert_array_equal(node.result, x + 1)


def test_the_memory_plan_names_values_and_lines() -> None:
    x = normal(64, 64)
    executable = compiled(lambda x: jnp.sort(jnp.sort(x @ x, 0) @ x, 1) @ x, x)
    plan = executable.memory_plan()
    assert plan.arena_bytes >= x.nbytes
    assert plan.entries
    for entry in plan.entries:
        assert entry.offset >= 0
        assert entry.offset + entry.size <= plan.arena_bytes
        assert entry.first <= entry.last
    assert any("test_program.py" in (entry.source or "") for entry in plan.entries)


def test_scratch_lies_where_nothing_lives_at_the_time() -> None:
    x, image, weights = normal(128, 128), normal(1, 8, 8, 32), normal(3, 3, 32, 32)

    def function(x: jax.Array, image: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        padded = jax.lax.conv_general_dilated(
            image, weights, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return x @ x @ x @ x, padded

    executable = compiled(function, x, image, weights)
    plan = executable.memory_plan()
    assert plan.arena_bytes == max(entry.offset + entry.size for entry in plan.entries)
    for result, expected in zip(executable(x, image, weights), function(x, image, weights), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=0.1)


def test_a_loaded_module_is_compiled_any_number_of_times() -> None:
    module = shlo.load("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    before = str(module)
    for _ in range(2):
        np.testing.assert_array_equal(shlo.compile(module)(normal(3) * 0)[0], np.zeros(3))
    assert str(module) == before


@pytest.mark.parametrize("reverse", [False, True])
def test_stacks_that_a_loop_overwrites_are_not_filled_before(reverse: bool) -> None:
    def function(x: np.ndarray, y: np.ndarray) -> object:
        def step(carry: jax.Array, one: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
            carry = jnp.tanh(carry @ y + one)
            return carry, (carry, carry * one)

        return lax.scan(step, jnp.zeros(24), x, reverse=reverse)

    x, y = normal(20, 24), normal(24, 24) / np.float32(24)
    text = str(compiled(function, x, y).stages["scheduled"])
    assert text.count("hlo.unread") == 2
    check(function, x, y)
    check(function, x, y, opt_level=0)


def test_stacks_of_which_places_are_left_out_are_filled() -> None:
    def function(x: np.ndarray) -> jax.Array:
        return lax.fori_loop(0, 7, lambda i, stack: stack.at[i].set(jnp.tanh(x[i] @ x)), jnp.zeros((24, 24)))

    x = normal(24, 24)
    assert "hlo.unread" not in str(compiled(function, x).stages["scheduled"])
    check(function, x)


def test_differences_that_gradients_need_are_not_kept_by_points() -> None:
    """The stack of them goes before `move-short-reductions` looks at what reads them."""

    def energy(x: jax.Array) -> jax.Array:
        def step(_: int, x: jax.Array) -> jax.Array:
            apart = x[None] - x[:, None]
            return x + 0.01 * (apart / ((apart**2).sum(-1, keepdims=True) + 1)).sum(1)

        return (lax.fori_loop(0, 50, step, x) ** 2).sum()

    x = normal(24, 3)
    text = str(compiled(jax.grad(energy), x).stages["optimized"])
    assert "24x3x24xf32" in text
    assert "24x24x3xf32" not in text
    check(jax.grad(energy), x)


def test_the_entry_is_optimized_where_its_loops_call_short_kernels() -> None:
    """LLVM spends no time on calls that nobody notices."""
    x, small = normal(300, 300), normal(24, 24)

    def repeated(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: x[0, 0] < 5, lambda x: jnp.sort(x @ x) + 1, x)

    def nested(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 99, lambda _, y: lax.fori_loop(0, 99, lambda _, z: z @ z / 9, y.at[0].add(1)), x)

    def is_optimized(function: Callable[..., object], x: np.ndarray) -> bool:
        return "optimize_none" not in str(compiled(function, x).stages["kernels"])

    assert not is_optimized(lambda x: jnp.sort(x @ x), x)
    assert not is_optimized(repeated, x)
    assert is_optimized(repeated, small)
    assert not is_optimized(nested, x)  # one step of a trip is short, the loop in it is not
    assert is_optimized(nested, small)


def test_kernels_outside_of_loops_share_the_functions_that_call_them() -> None:
    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        for number in range(4):
            x = jnp.tanh(x @ w) / (number + 2)
            x = x - x.mean(0, keepdims=True)
        x = lax.fori_loop(0, 3, lambda _, y: y * 0.5 + (y @ w) * 1e-3, x)
        x = lax.cond(x[0, 0] > 0, lambda y: jnp.sort(y, 0), lambda y: jnp.cumsum(y, 1), x)
        return x @ w + x.sum(1)

    arrays = normal(300, 300), normal(300, 300) / 10
    executable = compiled(function, *arrays)
    text = executable.stages["kernels"]
    for name in ("shlo_run_", "shlo_share_"):
        assert text.count(f"llvm.call @{name}") > text.count(f"llvm.func private @{name}") > 0
    exported = jax.export.export(jax.jit(function))(*arrays)
    alone = shlo.compile(exported, options=shlo.Options(threads=1))(*arrays)
    assert np.asarray(alone[0]).tobytes() == np.asarray(executable(*arrays)[0]).tobytes()
    check(function, *arrays)


def test_kernels_are_not_written_twice_once_one_is_not_light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for light programs is written in LLVM IR, and that of others then again in the llvm dialect."""
    names: list[str] = []
    emit = compile_.emit_kernel

    def counted(function: ir.OpView, *others: object) -> Kernel:
        names.append(function.attributes["sym_name"].value)
        return emit(function, *others)

    monkeypatch.setattr(compile_, "emit_kernel", counted)
    monkeypatch.setattr(compile_, "COSTS", replace(compile_.COSTS, light_ns=1.0))
    compiled(lambda x: (jnp.sort(x, 0) @ x).sum(0), normal(60, 60))
    assert len(names) == len(set(names)) + 1 > 2


@pytest.mark.parametrize(("trips", "calls"), [(0, 1), (10, 0)])
def test_threads_that_a_loop_lets_sleep_are_not_woken_for_little(trips: int, calls: int) -> None:
    """An outer product, which is worth threads that are awake, after a loop of one thread."""

    def function(x: jax.Array) -> jax.Array:
        y = lax.scan(lambda x, _: (jnp.sin(x[::-1]), None), x, None, trips)[0] if trips else x
        return jnp.exp(y[:, None] - y[None])

    executable = compiled(function, normal(340))
    assert executable.stages["kernels"].count("call @shlo_parallel") == calls
