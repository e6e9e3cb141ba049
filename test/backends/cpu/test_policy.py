"""The CPU's policy: kinds that have kernels, one place for costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import kernels
from stablehlo_py.backends.cpu.kernels.base import Phase
from stablehlo_py.backends.cpu.policy import FUSION
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.program import CpuProgram
from stablehlo_py.backends.cpu.target import AVX512, ZEN3, ZEN4
from stablehlo_py.dialect import build
from stablehlo_py.dialect.ops import records
from stablehlo_py.mlir import ir
from stablehlo_py.passes.policy import flops_per_element

LGAMMA = """func.func @main(%x: tensor<20000xf32>) -> tensor<20000xf32> {
  %0 = chlo.lgamma %x : tensor<20000xf32> -> tensor<20000xf32>
  return %0 : tensor<20000xf32>
}"""


def test_every_kind_has_a_kernel() -> None:
    for kind in kernels.KINDS:
        assert callable(kernels.template(kind)), kind
    named = FUSION.kinds | FUSION.in_place.keys() | FUSION.immediates.keys() | FUSION.apart.keys()
    assert named <= kernels.KINDS.keys()
    assert kernels.template("iteration") is None


def test_parts_of_kernels_are_no_kinds() -> None:
    files = {path.stem for path in Path(kernels.__file__).parent.glob("[!_]*.py")}
    assert files > set(kernels.KINDS.values())


@pytest.mark.parametrize("name", [record.name for record in records() if flops_per_element(record) > 1])
def test_what_takes_many_instructions_takes_time(name: str) -> None:
    assert COSTS.op_ns(name) > COSTS.flop_ns


def test_measured_costs_are_those_of_ops() -> None:
    assert {*ZEN3.op_ns, *ZEN4.op_ns} <= {record.name for record in records()}


def test_code_does_not_depend_on_measured_costs() -> None:
    """Else results would: the order of sums follows from what a row's values cost."""

    def body(x: ir.Value) -> ir.Value:
        f32 = ir.F32Type.get()
        quotient = build.like("divide", x, build.like("sqrt", x))
        zero = build.constant(np.zeros((), np.float32), f32)
        return build.value("reduce", build.tensor([4000], f32), quotient, zero, kind="add", dimensions=(1,))

    text = build_fusion("row", ["tensor<4000x48xf32>"], body)
    here, slow = (compile_kernel(text, replace(AVX512, op_ns=ns)).kernel for ns in ({}, {"hlo.sqrt": (90.0, 90.0)}))
    assert here.functions == slow.functions
    assert here.phases[0].cost < slow.phases[0].cost


def test_expensive_functions_are_worth_threads() -> None:
    kernels_of = shlo.compile(LGAMMA, options=shlo.Options(threads=2, cache_dir=None)).stages["kernels"]
    assert "shlo_parallel" in kernels_of


@pytest.mark.parametrize("width", [1, 32])
def test_rows_of_large_tables_are_far(width: int) -> None:
    """Lookups in one that no cache holds take longer, and are worth threads earlier."""

    def nanoseconds(rows: int) -> float:
        table, result = f"tensor<{rows}x{width}xf32>", f"tensor<512x{width}xf32>"
        lookup = f"""func.func private @fusion(%table: {table}, %at: tensor<512x1xi32>) -> {result}
            attributes {{hlo.fusion = "loop"}} {{
          %0 = "hlo.gather"(%table, %at) {{collapsed_slice_dims = array<i64: 0>, index_vector_dim = 1 : i64,
            offset_dims = array<i64: 1>, operand_batching_dims = array<i64>, slice_sizes = array<i64: 1, {width}>,
            start_index_map = array<i64: 0>, start_indices_batching_dims = array<i64>}}
            : ({table}, tensor<512x1xi32>) -> {result}
          return %0 : {result}
        }}"""
        return sum(phase.nanoseconds for phase in compile_kernel(lookup, AVX512).kernel.phases)

    assert nanoseconds(1 << 20) > 4 * nanoseconds(1 << 10)


def test_parts_of_a_concatenation_cost_their_own_elements() -> None:
    """Each of three is computed for a third of the result."""

    def nanoseconds(inputs: list[str]) -> float:
        def body(*values: ir.Value) -> ir.Value:
            return build.stablehlo.concatenate([build.like("sine", value) for value in values], 0)

        return compile_kernel(build_fusion("loop", inputs, body), AVX512).kernel.phases[0].nanoseconds

    assert nanoseconds(["tensor<40x160xf32>"] * 3) < 1.2 * nanoseconds(["tensor<120x160xf32>"])


def test_a_grain_holds_the_work_it_is_for() -> None:
    for work in (COSTS.grain_ns, 100_000.0):
        for iteration in (0.0, 0.3, 7.0, 5_000.0, 1e9):
            grain = COSTS.grain(iteration, work)
            assert grain == 1 or (grain - 1) * iteration < work <= grain * max(iteration, 0.01)


@pytest.mark.parametrize(
    ("iterations", "grain", "threads", "chunk"),
    [
        (1024, 288, 2, 512),
        (1024, 200, 2, 256),
        (1024, 300, 4, 342),
        (1024, 140, 4, 256),
        (9, 1, 2, 5),  # twos would give a thread six
        (9, 2, 2, 5),  # threes too
        (1001, 1, 2, 126),
        (3, 1, 8, 1),
        (10, 4, 8, 5),
    ],
)
def test_threads_get_equal_shares(iterations: int, grain: int, threads: int, chunk: int) -> None:
    """As many chunks as threads, or a multiple; fewer where there is less work."""
    program = SimpleNamespace(threads=threads)
    assert CpuProgram._chunk(program, Phase("f", iterations, grain, 10_000.0)) == chunk


def is_shared(text: str) -> bool:
    kernels_of = shlo.compile(text, options=shlo.Options(threads=2, cache_dir=None)).stages["kernels"]
    return "shlo_parallel" in kernels_of


@pytest.mark.parametrize(("rows", "alone", "in_loop"), [(2, False, False), (6, False, True), (16, True, True)])
def test_short_programs_wake_no_threads(rows: int, alone: bool, in_loop: bool) -> None:
    """In a loop they are awake."""

    def is_shared(function: Callable[[jax.Array], jax.Array]) -> bool:
        with jax.enable_x64(True):
            text = jax.jit(function).lower(np.ones((rows, 64))).as_text()
        stages = shlo.compile(text, options=shlo.Options(threads=2, cache_dir=None)).stages
        return "shlo_parallel" in stages["kernels"]

    def ordered(x: jax.Array) -> jax.Array:
        """By their digits, a row at a time."""
        return jax.lax.sort((x, -x), num_keys=1)[1]

    assert is_shared(ordered) is alone
    assert is_shared(lambda x: jax.lax.fori_loop(0, 100, lambda _, x: ordered(x), x)) is in_loop


@pytest.mark.parametrize(
    ("shared", "alone", "mixed"), [(11, 4, True), (22, 5, True), (17, 1, False), (240, 60, False), (10, 0, False)]
)
def test_which_trips_are_mixed(shared: float, alone: float, mixed: bool) -> None:
    """Those of few microseconds, a sixth of them and more by one thread."""
    phases = Phase("f", 100, 10, shared * 10.0), Phase("g", 1, 10, alone * 1000.0)
    program = SimpleNamespace(kernels={"f": SimpleNamespace(phases=phases)}, threads=2)
    program._chunk = lambda phase: CpuProgram._chunk(program, phase)
    program._shared_ns = lambda names: CpuProgram._shared_ns(program, names)
    assert (CpuProgram._is_short(program, ["f"]) and CpuProgram._is_mixed(program, ["f"])) is mixed


@pytest.mark.parametrize(
    ("phases", "threads", "parts"),
    [
        ([(254, 11.4), (254, 4.3)], 2, True),
        ([(254, 11.4), (254, 4.3), (1, 0.001)], 2, True),
        ([(254, 11.4), (254, 4.3)], 4, False),
        ([(254, 11.4), (254, 3.9)], 2, False),
        ([(254, 11.4), (4033, 8.1)], 2, False),
        ([(254, 11.4), (1, 4.3)], 2, False),
        ([(1, 0.001)], 2, False),
    ],
)
def test_which_trips_have_parts(phases: list[tuple[int, float]], threads: int, parts: bool) -> None:
    """Those whose phases go through the same iterations, and are long enough."""
    of = [Phase("f", count, 10, microseconds * 1e3 / count) for count, microseconds in phases]
    program = SimpleNamespace(kernels={"f": SimpleNamespace(phases=of)}, threads=threads)
    program._part = lambda phase: CpuProgram._part(program, phase)
    assert CpuProgram._has_parts(program, ["f"]) is parts
    assert not parts or program._part(of[0]) == 127


def test_updates_that_are_not_made_take_no_time() -> None:
    """The loop computes the rows of its stacks where they lie."""

    def step(x: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        sine = jax.lax.sin(x)
        return x + sine, sine

    function = jax.jit(lambda x: jax.lax.scan(step, x, None, 20))
    assert is_shared(function.lower(np.ones(20_000, np.float32)).as_text())


@pytest.mark.parametrize(
    ("ordered", "microseconds", "shares"),
    [(False, 0.0, True), (False, 1e9, True), (True, 0.0, True), (True, 1e9, False)],
)
def test_short_mixed_trips_ask_for_no_threads_unless_each_has_a_part(
    ordered: bool, microseconds: float, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heat(x: jax.Array) -> jax.Array:
        """What one core writes, the other would read in each trip, where one row is ordered by one of them."""
        around = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
        x = x.at[1:-1, 1:-1].add((around - 4 * x[1:-1, 1:-1]) * 0.1)
        return x.at[0].set(jax.lax.sort(x[0])) if ordered else x

    costs = replace(COSTS, short_trip_ns=microseconds * 1e3, mixed_share=1e9)
    monkeypatch.setattr("stablehlo_py.backends.cpu.program.COSTS", costs)
    function = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, x: heat(x), x))
    text = function.lower(np.ones((1000, 1000), np.float32)).as_text()
    assert is_shared(text) is shares
