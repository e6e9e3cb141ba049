"""Memory: random programs run on real bytes, and the checker finds what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from assigned_programs import FULL, Generator, Machine

from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import ir
from stablehlo_py.passes.buffer_assignment import BufferAssignment, memory_plan
from stablehlo_py.passes.buffers.arena import Interval, assign_offsets, free_memory
from stablehlo_py.passes.buffers.verify import verify_buffers
from stablehlo_py.passes.fusion import Fusion
from stablehlo_py.passes.schedule import Schedule
from stablehlo_py.passmanager.pipeline import Pipeline


def assigned(text: str, **options: bool) -> ir.Module:
    """Fuse, schedule and assign a module."""
    module = ir.Module.parse(text)
    assert module.operation.verify()
    Pipeline([Fusion(), Schedule(), BufferAssignment(**options)]).run(module)
    assert module.operation.verify()
    return module


def arguments_of(seed: int) -> list[np.ndarray]:
    """Arguments of a random program."""
    random = np.random.default_rng(seed)
    shapes = ((4, 8), (4, 8), (4,))
    return [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes] + [np.array(seed % 3, np.int32)]


@pytest.mark.parametrize("seed", range(80))
def test_random_programs_keep_their_values(mlir_context: ir.Context, seed: int) -> None:
    text = Generator(seed).module()
    arguments = arguments_of(seed)
    original = ir.Module.parse(text)
    expected = Interpreter().function(original.body.operations[0], arguments)
    module = assigned(text, inplace=seed % 4 != 3)
    verify_buffers(module)
    for before, after in zip(expected, Machine(module).run(arguments), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_with_donated_inputs(mlir_context: ir.Context, seed: int) -> None:
    text = Generator(1000 + seed).module()
    donated = text.replace(f"%y: {FULL}", f"%y: {FULL} {{jax.buffer_donor = true}}", 1)
    donated = donated.replace(f"%x: {FULL}", f"%x: {FULL} {{tf.aliasing_output = 1 : i32}}", 1)
    arguments = arguments_of(seed)
    original = ir.Module.parse(text)
    expected = Interpreter().function(original.body.operations[0], arguments)
    module = assigned(donated)
    verify_buffers(module)
    for before, after in zip(expected, Machine(module).run(arguments), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


DOT = "{lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>}"

DONATED = """
func.func @main(%p: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "hlo.subtract"(%p, %g) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}"""


def test_a_donated_input_becomes_the_output(mlir_context: ir.Context) -> None:
    module = assigned(DONATED)
    assert list(module.operation.attributes["hlo.donations"]) == [0, 0]
    call = module.body.operations[0].regions[0].blocks[0].operations[0]
    assert list(call.attributes["hlo.slices"]) == [1, 0, 0, 64 * 64 * 4]
    assert list(module.body.operations[1].attributes["hlo.inplace"]) == [0, 0]


def test_a_donated_input_that_is_read_elsewhere_is_kept(mlir_context: ir.Context) -> None:
    text = DONATED.replace('"hlo.subtract"(%p, %g)', '"hlo.subtract"(%t, %g)')
    turned = (
        '%t = "hlo.transpose"(%p) {permutation = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>\n  %0'
    )
    module = assigned(text.replace("%0", turned, 1))
    assert "hlo.donations" not in module.operation.attributes


def test_the_plan_names_values_and_where_they_live(mlir_context: ir.Context) -> None:
    text = """
    func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %0 = "hlo.dot"(%x, %x) {dot} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("model.py":7:3)
      %1 = "hlo.dot"(%0, %x) {dot} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      return %1 : tensor<64x64xf32>
    }"""
    (entry,) = memory_plan(assigned(text.replace("{dot}", DOT)))
    assert (entry.value, entry.offset, entry.size) == ("fusion_0 (dot)", 0, 64 * 64 * 4)
    assert entry.first < entry.last
    assert entry.source == "model.py:7:3"


def chain() -> tuple[ir.Module, list[ir.OpView]]:
    """A program of four products, each of the one before, and its calls."""
    type_ = "tensor<64x64xf32>"
    lines = [f'%{i} = "hlo.dot"(%{i - 1}, %0) {DOT} : ({type_}, {type_}) -> {type_}' for i in range(1, 5)]
    module = assigned(f"func.func @main(%0: {type_}) -> {type_} {{\n" + "\n".join(lines) + f"\nreturn %4 : {type_} }}")
    verify_buffers(module)
    operations = module.body.operations[0].regions[0].blocks[0].operations
    return module, [op for op in operations if op.operation.name == "func.call"]


def test_the_checker_finds_scratch_over_a_value(mlir_context: ir.Context) -> None:
    module, calls = chain()
    name, arena = calls[1].attributes["callee"].value, module.operation.attributes["hlo.arena_bytes"].value
    for places, reported in (([64], f"64 to {arena}"), ([0, 128, arena], "0 to 128")):
        free = {name: ir.DenseI64ArrayAttr.get(places)}
        module.operation.attributes["hlo.free_memory"] = ir.DictAttr.get(free)
        with pytest.raises(InternalError, match=f"its scratch, from {reported}, overlaps an operand or a result"):
            verify_buffers(module)


def test_the_checker_finds_an_overlap(mlir_context: ir.Context) -> None:
    module, calls = chain()
    first, second = (list(call.attributes["hlo.slices"]) for call in calls[:2])
    assert first[2] != second[2]
    calls[1].attributes["hlo.slices"] = ir.DenseI64ArrayAttr.get(first)
    with pytest.raises(InternalError, match="written over operand"):
        verify_buffers(module)


def test_the_checker_finds_a_missing_slice(mlir_context: ir.Context) -> None:
    module = assigned(DONATED)
    call = module.body.operations[0].regions[0].blocks[0].operations[0]
    del call.attributes["hlo.slices"]
    with pytest.raises(InternalError, match="four numbers"):
        verify_buffers(module)


def lower_bound(intervals: list[Interval]) -> int:
    """The most bytes that are live at one position: no assignment needs less."""
    events = [(interval.first, interval.bytes) for interval in intervals] + [
        (interval.last + 1, -interval.bytes) for interval in intervals
    ]
    live = most = 0
    for _, change in sorted(events):
        live += change
        most = max(most, live)
    return most


def test_offsets_fill_gaps() -> None:
    intervals = [Interval(640, 0, 9), Interval(64, 0, 3), Interval(128, 2, 5), Interval(64, 4, 9), Interval(1, 6, 9)]
    offsets, total = assign_offsets(intervals)
    assert all(offset % 64 == 0 for offset in offsets)
    for i, one in enumerate(intervals):
        for j in range(i):
            other = intervals[j]
            apart = one.first > other.last or other.first > one.last
            assert apart or offsets[i] >= offsets[j] + other.bytes or offsets[j] >= offsets[i] + one.bytes
    assert lower_bound(intervals) <= total <= 640 + 64 + 128


def test_scratch_may_lie_where_nothing_lives() -> None:
    intervals = [Interval(640, 2, 3), Interval(60, 0, 9), Interval(128, 5, 5), Interval(0, 0, 9), Interval(64, 3, 5)]
    calls = {"early": [1], "late": [10], "gap": [4], "all": [2, 5], "ends": [3, 9], "one": [5]}
    assert free_memory(intervals, [64, 0, 64, 0, 256], calls) == {
        "early": [64],
        "late": [0],
        "gap": [64, 256, 320],
        "all": [704],
        "ends": [704],
        "one": [192, 256, 320],
    }


def test_a_scan_writes_its_results_in_place(mlir_context: ir.Context) -> None:
    text = """
    func.func @main(%h: tensor<128xf32>, %ys: tensor<100x128xf32>) -> (tensor<128xf32>, tensor<100x128xf32>) {
      %zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
      %one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
      %n = "hlo.constant"() {value = dense<100> : tensor<i32>} : () -> tensor<i32>
      %r:3 = scf.while (%i = %zero, %a = %h, %b = %ys) : (tensor<i32>, tensor<128xf32>, tensor<100x128xf32>)
          -> (tensor<i32>, tensor<128xf32>, tensor<100x128xf32>) {
        %p = "hlo.compare"(%i, %n) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %e = tensor.extract %p[] : tensor<i1>
        scf.condition(%e) %i, %a, %b : tensor<i32>, tensor<128xf32>, tensor<100x128xf32>
      } do {
      ^bb0(%j: tensor<i32>, %c: tensor<128xf32>, %d: tensor<100x128xf32>):
        %s = "hlo.sine"(%c) : (tensor<128xf32>) -> tensor<128xf32>
        %u = "hlo.reshape"(%s) : (tensor<128xf32>) -> tensor<1x128xf32>
        %v = "hlo.dynamic_update_slice"(%d, %u, %j, %zero)
          : (tensor<100x128xf32>, tensor<1x128xf32>, tensor<i32>, tensor<i32>) -> tensor<100x128xf32>
        %k = "hlo.add"(%j, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        scf.yield %k, %s, %v : tensor<i32>, tensor<128xf32>, tensor<100x128xf32>
      }
      return %r#1, %r#2 : tensor<128xf32>, tensor<100x128xf32>
    }"""
    module = assigned(text)
    verify_buffers(module)
    loop = next(
        op for op in module.body.operations[0].regions[0].blocks[0].operations if op.operation.name == "scf.while"
    )
    slices = list(loop.attributes["hlo.slices"])
    assert [tuple(slices[i : i + 2]) for i in (4, 8)] == [(2, 0), (2, 1)]
    body = loop.regions[1].blocks[0]
    assert not [op for op in body.operations if op.operation.name == "hlo.copy"]
