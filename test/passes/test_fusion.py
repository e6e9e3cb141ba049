"""Fusion: which ops end in one kernel, and that programs keep their meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from assigned_programs import Generator

from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.mlir import ir
from stablehlo_py.passes.fusing import scores
from stablehlo_py.passes.fusing.graph import DOT as DOT_ROLE
from stablehlo_py.passes.fusing.graph import Graph, Node
from stablehlo_py.passes.fusing.producers import ProducerFusion
from stablehlo_py.passes.fusion import Fusion
from stablehlo_py.passes.policy import Costs
from stablehlo_py.passmanager.pipeline import Pipeline

DOT = "{lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>}"

TURN = "permutation = array<i64: 1, 0>"


class Text:
    """A module under construction, one op a call; values are names with their types."""

    def __init__(self, **arguments: str) -> None:
        self.types = {name: f"tensor<{shape}>" for name, shape in arguments.items()}
        self.arguments = list(arguments)
        self.lines: list[str] = []

    def op(self, name: str, result: str, *operands: str, attributes: str = "") -> str:
        """Append `hlo.name` with a result of that shape."""
        value = f"v{len(self.lines)}"
        types = ", ".join(self.types[operand] for operand in operands)
        listed = ", ".join(f"%{operand}" for operand in operands)
        full = f'"hlo.{name}"({listed}) {{{attributes}}} : ({types}) -> tensor<{result}>'
        self.lines.append(f"  %{value} = {full}")
        self.types[value] = f"tensor<{result}>"
        return value

    def like(self, name: str, *operands: str, attributes: str = "") -> str:
        """An op whose result has the first operand's type."""
        return self.op(name, self.types[operands[0]][7:-1], *operands, attributes=attributes)

    def constant(self, number: float) -> str:
        """A scalar."""
        return self.op("constant", "f32", attributes=f"value = dense<{number:e}> : tensor<f32>")

    def splat(self, number: float, shape: str) -> str:
        """A scalar broadcast to a shape."""
        return self.op("broadcast", shape, self.constant(number), attributes="dimensions = array<i64>")

    def broadcast(self, operand: str, shape: str, *dimensions: int) -> str:
        """A broadcast."""
        listed = ", ".join(map(str, dimensions))
        return self.op(
            "broadcast", shape, operand, attributes=f"dimensions = array<i64{': ' if listed else ''}{listed}>"
        )

    def reduce(self, operand: str, shape: str, *dimensions: int, kind: str = "add") -> str:
        """A reduction from zero (or minus infinity)."""
        start = self.constant(0.0 if kind == "add" else -3e38)
        listed = ", ".join(map(str, dimensions))
        return self.op(
            "reduce", shape, operand, start, attributes=f'dimensions = array<i64: {listed}>, kind = "{kind}"'
        )

    def dot(self, lhs: str, rhs: str, shape: str) -> str:
        """A matrix product."""
        return self.op("dot", shape, lhs, rhs, attributes=DOT[1:-1])

    def module(self, *results: str) -> ir.Module:
        """The fused module. Its text is checked by MLIR's verifier before and after."""
        listed = ", ".join(f"%{name}: {self.types[name]}" for name in self.arguments)
        types = ", ".join(self.types[result] for result in results)
        body = "\n".join(self.lines)
        returned = ", ".join(f"%{result}" for result in results)
        module = ir.Module.parse(
            f"func.func @main({listed}) -> ({types}) {{\n{body}\n  return {returned} : {types}\n}}"
        )
        assert module.operation.verify()
        return module


def fused(module: ir.Module, **options: bool) -> ir.Module:
    """Run the pass."""
    Pipeline([Fusion(**options)]).run(module)
    assert module.operation.verify()
    return module


def calls(module: ir.Module) -> Iterator[ir.Operation]:
    """Calls of @main, in order."""
    for view in module.body.operations[0].regions[0].blocks[0].operations:
        if view.operation.name == "func.call":
            yield view.operation


def functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Fusion functions by name."""
    operations = [view.operation for view in module.body.operations]
    return {op.attributes["sym_name"].value: op for op in operations if "hlo.fusion" in op.attributes}


def kinds(module: ir.Module) -> list[str]:
    """Kinds of the fusions that @main calls, in order."""
    by_name = functions(module)
    return [by_name[call.attributes["callee"].value].attributes["hlo.fusion"].value for call in calls(module)]


def bodies(module: ir.Module) -> list[Counter[str]]:
    """How often each op stands in the fusions that @main calls, in order."""
    by_name = functions(module)
    found = []
    for call in calls(module):
        block = by_name[call.attributes["callee"].value].regions[0].blocks[0]
        found.append(Counter(view.operation.name.removeprefix("hlo.") for view in block.operations))
    return found


def softmax(text: Text, x: str, rows: int, columns: int) -> str:
    shape = f"{rows}x{columns}xf32"
    top = text.broadcast(text.reduce(x, f"{rows}xf32", 1, kind="maximum"), shape, 0)
    exponential = text.like("exponential", text.like("subtract", x, top))
    total = text.broadcast(text.reduce(exponential, f"{rows}xf32", 1), shape, 0)
    return text.like("divide", exponential, total)


def layer_norm(text: Text, x: str, gamma: str, beta: str, rows: int, columns: int) -> str:
    shape, row = f"{rows}x{columns}xf32", f"{rows}xf32"
    count = text.splat(columns, row)
    mean = text.like("divide", text.reduce(x, row, 1), count)
    centred = text.like("subtract", x, text.broadcast(mean, shape, 0))
    variance = text.like("divide", text.reduce(text.like("multiply", centred, centred), row, 1), count)
    scale = text.like("rsqrt", text.like("add", variance, text.splat(1e-5, row)))
    normal = text.like("multiply", centred, text.broadcast(scale, shape, 0))
    scaled = text.like("multiply", normal, text.broadcast(gamma, shape, 1))
    return text.like("add", scaled, text.broadcast(beta, shape, 1))


def test_softmax_is_one_row_fusion(mlir_context: ir.Context) -> None:
    text = Text(x="64x128xf32")
    assert kinds(fused(text.module(softmax(text, "x", 64, 128)))) == ["row"]


def test_layer_norm_with_its_residual_is_one_row_fusion(mlir_context: ir.Context) -> None:
    text = Text(x="64x128xf32", y="64x128xf32", g="128xf32", b="128xf32")
    total = text.like("add", "x", "y")
    module = fused(text.module(layer_norm(text, total, "g", "b", 64, 128), total))
    assert kinds(module) == ["row"]
    assert len(next(calls(module)).results) == 2


def test_a_whole_reduction_leaves_the_full_shape_to_another_fusion(mlir_context: ir.Context) -> None:
    text = Text(x="512x512xf32")
    total = text.reduce("x", "f32", 0, 1)
    scaled = text.like("divide", "x", text.broadcast(total, "512x512xf32"))
    assert kinds(fused(text.module(scaled))) == ["row", "loop"]


def test_a_broadcast_of_a_full_output_is_no_row_shaped_follower(mlir_context: ir.Context) -> None:
    text = Text(x="1x300xf32")
    exponential = text.like("exponential", "x")
    total = text.reduce(exponential, "1xf32", 1)
    repeated = text.broadcast(exponential, "3x1x300xf32", 1, 2)
    assert kinds(fused(text.module(total, exponential, repeated))) == ["row", "loop"]


def test_bias_and_gelu_belong_to_the_dot(mlir_context: ir.Context) -> None:
    text = Text(x="64x256xf32", w="256x512xf32", b="512xf32")
    shape = "64x512xf32"
    z = text.like("add", text.dot("x", "w", shape), text.broadcast("b", shape, 1))
    half = text.like("multiply", z, text.splat(0.5, shape))
    erf = text.like("erf", text.like("multiply", z, text.splat(0.7071, shape)))
    gelu = text.like("multiply", half, text.like("add", erf, text.splat(1.0, shape)))
    module = fused(text.module(gelu))
    assert kinds(module) == ["dot"]
    assert len(list(next(calls(module)).operands)) == 3


def test_a_residual_that_needs_the_dot_stays_outside(mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32", w="64x64xf32")
    first = text.dot("x", "w", "64x64xf32")
    second = text.dot(first, "w", "64x64xf32")
    module = fused(text.module(text.like("add", first, second)))
    assert kinds(module) == ["dot", "dot"]
    assert [body["add"] for body in bodies(module)] == [0, 1]


def test_a_reduction_of_the_epilogue_costs_no_further_output(mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32", w="64x64xf32", p="64x64xf32")
    d = text.dot("x", "w", "64x64xf32")
    total = text.reduce(text.like("multiply", d, "p"), "64xf32", 1)
    module = fused(text.module(text.like("subtract", d, text.broadcast(total, "64x64xf32", 0))))
    assert kinds(module) == ["dot", "row"]
    assert len(next(calls(module)).results) == 1


def test_views_of_operands_belong_to_the_dot(mlir_context: ir.Context) -> None:
    text = Text(x="4x64x96xf32", k="4x64x8x16xf32")
    sliced = text.op(
        "slice",
        "4x64x32xf32",
        "x",
        attributes="start = array<i64: 0, 0, 32>, limit = array<i64: 4, 64, 64>, strides = array<i64: 1, 1, 1>",
    )
    heads = text.op("reshape", "4x64x2x16xf32", sliced)
    turned = text.op("transpose", "4x2x64x16xf32", heads, attributes="permutation = array<i64: 0, 2, 1, 3>")
    batch = "lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>"
    batch += ", lhs_contract = array<i64: 2, 3>, rhs_contract = array<i64: 1, 3>"
    product = text.op("dot", "4x2x8xf32", turned, "k", attributes=batch)
    assert kinds(fused(text.module(product))) == ["dot"]


def test_a_reshape_that_strides_cannot_say_is_materialized(mlir_context: ir.Context) -> None:
    text = Text(x="64x4x16xf32", w="64x32xf32")
    turned = text.op("transpose", "4x64x16xf32", "x", attributes="permutation = array<i64: 1, 0, 2>")
    flat = text.op("reshape", "64x64xf32", turned)
    assert kinds(fused(text.module(text.dot(flat, "w", "64x32xf32")))) == ["loop", "dot"]


def test_an_expensive_value_is_not_recomputed_by_a_broadcast(mlir_context: ir.Context) -> None:
    text = Text(x="64x128xf32", r="128xf32")
    scale = text.like("exponential", "r")
    module = fused(text.module(text.like("multiply", "x", text.broadcast(scale, "64x128xf32", 1))))
    assert kinds(module) == ["loop", "loop"]
    assert [body["exponential"] for body in bodies(module)] == [1, 0]


def test_an_expensive_value_is_not_recomputed_by_shifted_slices(mlir_context: ir.Context) -> None:
    text = Text(x="1024xf32")
    wave = text.like("sine", "x")
    strides = "strides = array<i64: 1>"
    left = text.op("slice", "1022xf32", wave, attributes=f"start = array<i64: 0>, limit = array<i64: 1022>, {strides}")
    right = text.op("slice", "1022xf32", wave, attributes=f"start = array<i64: 2>, limit = array<i64: 1024>, {strides}")
    module = fused(text.module(text.like("subtract", right, left)))
    assert [body["sine"] for body in bodies(module)] == [1, 0]


@pytest.mark.parametrize(("rows", "expected"), [(16, ["loop"]), (64, ["loop", "loop"])])
def test_few_rows_of_a_computed_table_are_computed_alone(
    mlir_context: ir.Context, rows: int, expected: list[str]
) -> None:
    text = Text(x="128x40xf32", i=f"{rows}x1xi32")
    gathered = text.op(
        "gather",
        f"{rows}x40xf32",
        text.like("tanh", "x"),
        "i",
        attributes="offset_dims = array<i64: 1>, collapsed_slice_dims = array<i64: 0>, "
        "operand_batching_dims = array<i64>, start_indices_batching_dims = array<i64>, "
        "start_index_map = array<i64: 0>, index_vector_dim = 1 : i64, "
        "slice_sizes = array<i64: 1, 40>",
    )
    assert kinds(fused(text.module(gathered))) == expected


@pytest.mark.parametrize(("window", "expected"), [(1, ["loop"]), (2, ["loop", "loop"])])
def test_places_that_a_gather_reads_in_order_are_computed_by_it(
    mlir_context: ir.Context, window: int, expected: list[str]
) -> None:
    """Each element has a place, which is compared besides: both need it at the same index. Windows read it again."""
    shape = f"600x{window}"
    text = Text(x="1000xf32", i="600xi32", low=f"{shape}xi32")
    places = text.like("abs", "i")
    gathered = text.op(
        "gather",
        f"{shape}xf32",
        "x",
        text.op("reshape", "600x1xi32", places),
        attributes="offset_dims = array<i64: 1>, collapsed_slice_dims = array<i64>, "
        "operand_batching_dims = array<i64>, start_indices_batching_dims = array<i64>, "
        f"start_index_map = array<i64: 0>, index_vector_dim = 1 : i64, slice_sizes = array<i64: {window}>",
    )
    wide = text.op("broadcast", f"{shape}xi32", places, attributes="dimensions = array<i64: 0>")
    number = text.op("convert", f"{shape}xf32", text.like("add", wide, "low"))
    assert kinds(fused(text.module(text.like("add", gathered, number)))) == expected


def test_an_expensive_value_with_two_readers_becomes_a_second_output(mlir_context: ir.Context) -> None:
    text = Text(x="64x128xf32")
    wave = text.like("sine", "x")
    module = fused(text.module(wave, text.like("add", wave, "x")))
    assert kinds(module) == ["loop"]
    assert len(next(calls(module)).results) == 2


def test_loops_that_read_an_expensive_value_at_different_places_stay_apart(mlir_context: ir.Context) -> None:
    text = Text(x="512x512xf32", y="512x512xf32")
    cosine, sine = text.like("cosine", "x"), text.like("sine", "x")
    turned = text.op("transpose", "512x512xf32", text.like("add", cosine, sine), attributes=TURN)
    product = text.like("multiply", turned, cosine)
    other = text.like("maximum", text.like("abs", "y"), sine)
    with mlir_context:
        module = fused(text.module(product, other))  # it verifies: no fusion reads what a later one makes
    counts = sum(bodies(module), Counter())
    assert counts["sine"] == counts["cosine"] == counts["maximum"] == 1


def test_a_cheap_value_is_recomputed(mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32", w="64x64xf32")
    negated = text.like("negate", "x")
    first = text.like("sine", negated)
    product = text.dot(first, "w", "64x64xf32")
    last = text.op(
        "transpose",
        "64x64xf32",
        text.like("multiply", text.like("cosine", negated), product),
        attributes="permutation = array<i64: 1, 0>",
    )
    module = fused(text.module(last), epilogues=False)
    assert [body["negate"] for body in bodies(module)] == [1, 0, 1]


def test_splats_belong_to_what_reads_them_however_long_it_is(mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32")
    value, splats = "x", [text.splat(number, "64x64xf32") for number in range(300)]
    for splat in splats:
        value = text.like("multiply", text.like("add", value, splat), "x")
    found = bodies(fused(text.module(value)))
    assert len(found) > 1 and min(body["multiply"] for body in found) > 0
    assert sum(body["broadcast"] for body in found) == 300


def test_adam_updates_all_three_in_one_loop(mlir_context: ir.Context) -> None:
    shape = "256x256xf32"
    text = Text(p=shape, m=shape, v=shape, g=shape)
    m = text.like(
        "add", text.like("multiply", "m", text.splat(0.9, shape)), text.like("multiply", "g", text.splat(0.1, shape))
    )
    square = text.like("multiply", "g", "g")
    v = text.like(
        "add",
        text.like("multiply", "v", text.splat(0.99, shape)),
        text.like("multiply", square, text.splat(0.01, shape)),
    )
    step = text.like("divide", m, text.like("add", text.like("sqrt", v), text.splat(1e-8, shape)))
    module = fused(text.module(text.like("subtract", "p", step), m, v))
    assert kinds(module) == ["loop"]
    assert len(next(calls(module)).results) == 3


def test_moments_of_a_batch_are_one_column_fusion(mlir_context: ir.Context) -> None:
    text = Text(x="1024x64xf32")
    row = "64xf32"
    mean = text.like("divide", text.reduce("x", row, 0), text.splat(1024, row))
    squares = text.like("divide", text.reduce(text.like("multiply", "x", "x"), row, 0), text.splat(1024, row))
    variance = text.like("subtract", squares, text.like("multiply", mean, mean))
    module = fused(text.module(mean, variance))
    assert kinds(module) == ["column"]


def test_equal_layers_share_their_functions(mlir_context: ir.Context) -> None:
    text = Text(x="64x128xf32", g="128xf32", b="128xf32", w="128x128xf32")
    x = "x"
    for _ in range(4):
        x = text.like("tanh", text.dot(layer_norm(text, x, "g", "b", 64, 128), "w", "64x128xf32"))
    module = fused(text.module(x))
    assert kinds(module) == ["row", "dot"] * 4
    assert len(functions(module)) == 2


def test_scalar_work_between_kernels_stays_in_registers(mlir_context: ir.Context) -> None:
    text = Text(t="f32", x="64x64xf32")
    one = text.constant(1.0)
    first = text.like("subtract", one, text.like("power", text.constant(0.9), "t"))
    second = text.like("subtract", one, text.like("power", text.constant(0.99), "t"))
    ratio = text.broadcast(text.like("divide", first, second), "64x64xf32")
    module = fused(text.module(text.like("multiply", "x", ratio), text.like("add", "t", one)))
    assert kinds(module) == ["straight_line", "loop"]
    alone = Text(t="f32")
    assert kinds(fused(alone.module(alone.like("add", "t", alone.constant(1.0))), straight_line=False)) == ["loop"]


def test_reshapes_at_the_border_are_views(mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32")
    flat = text.op("reshape", "4096xf32", "x")
    module = fused(text.module(text.op("reshape", "32x128xf32", text.like("tanh", flat))))
    assert [body["reshape"] for body in bodies(module)] == [0]
    names = [view.operation.name for view in module.body.operations[0].regions[0].blocks[0].operations]
    assert names == ["hlo.reshape", "func.call", "hlo.reshape", "func.return"]


def test_an_operand_of_an_update_is_not_read_elsewhere_in_its_fusion(mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32", i="i32")
    row = text.op(
        "slice",
        "1x64xf32",
        "x",
        attributes="start = array<i64: 3, 0>, limit = array<i64: 4, 64>, strides = array<i64: 1, 1>",
    )
    zero = text.op("constant", "i32", attributes="value = dense<0> : tensor<i32>")
    module = fused(text.module(text.op("dynamic_update_slice", "64x64xf32", "x", text.like("tanh", row), "i", zero)))
    assert kinds(module)[-1] == "in_place_update"
    assert bodies(module)[-1]["slice"] == 0


@pytest.mark.parametrize("between", ["tanh", "reverse"])
def test_what_an_update_overwrites_is_read_in_its_fusion_only_in_order(between: str, mlir_context: ir.Context) -> None:
    text = Text(x="64x64xf32", i="i32")
    zero = text.op("constant", "i32", attributes="value = dense<0> : tensor<i32>")
    window = text.op("dynamic_slice", "4x64xf32", "x", "i", zero, attributes="sizes = array<i64: 4, 64>")
    attributes = "dimensions = array<i64: 0>" if between == "reverse" else ""
    made = text.op(between, "4x64xf32", window, attributes=attributes)
    module = fused(text.module(text.op("dynamic_update_slice", "64x64xf32", "x", made, "i", zero)))
    expected = ["in_place_update"] if between == "tanh" else ["loop", "in_place_update"]
    assert kinds(module) == expected


def test_barriers_end_here(mlir_context: ir.Context) -> None:
    text = Text(x="64xf32", y="64xf32")
    total = text.like("add", "x", "y")
    text.lines.append(f"  %b = stablehlo.optimization_barrier %{total} : tensor<64xf32>")
    text.types["b"] = "tensor<64xf32>"
    assert "optimization_barrier" not in str(fused(text.module(text.like("tanh", "b"))))


def test_a_constant_of_the_block_around_is_computed_in_every_branch(mlir_context: ir.Context) -> None:
    text = """
    func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %c = "hlo.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
      %two = "hlo.broadcast"(%c) {dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
      %b = tensor.extract %p[] : tensor<i1>
      %r:2 = scf.if %b -> (tensor<4xf32>, tensor<4xf32>) {
        %0 = "hlo.multiply"(%x, %two) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        scf.yield %0, %two : tensor<4xf32>, tensor<4xf32>
      } else {
        %1 = "hlo.add"(%x, %two) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        scf.yield %two, %1 : tensor<4xf32>, tensor<4xf32>
      }
      return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
    }"""
    fused(ir.Module.parse(text))


def test_ranks_are_an_order_in_which_fusions_can_run(mlir_context: ir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = 0
    run = ProducerFusion.run

    def checked(fusion: ProducerFusion) -> None:
        nonlocal edges
        run(fusion)
        clusters = fusion.clusters
        for cluster in clusters.all():
            for node in cluster.outputs:
                for reader in clusters.outside_readers(node):
                    assert cluster.rank < reader.rank
                    edges += 1

    monkeypatch.setattr(ProducerFusion, "run", checked)
    for seed in range(12):
        fused(ir.Module.parse(Generator(seed).module()))
    assert edges > 100


def test_scores_are_looked_for_in_their_own_layer(mlir_context: ir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would be that of layers x ops."""
    read, seen = scores._Reading.read, list[int]()

    def counted(reading: scores._Reading, nodes: list[Node]) -> scores.Scores | None:
        seen.append(len(nodes))
        return read(reading, nodes)

    monkeypatch.setattr(scores._Reading, "read", counted)
    text = Text(x="64x32xf32", k="32x64xf32", v="64x32xf32")
    value = "x"
    for _ in range(3):
        value = text.dot(softmax(text, text.dot(value, "k", "64x64xf32"), 64, 64), "v", "64x32xf32")
    module = text.module(value)
    graph = Graph(module.body.operations[0].regions[0].blocks[0], Costs())
    scores_of = scores.ScoresOf(graph)
    found = [scores_of(node.index) for node in graph.nodes if node.role == DOT_ROLE and node.elements == 64 * 64]
    assert [each is not None and len(each.axes) for each in found] == seen == [4] * 3


def inline_calls(module: ir.Module) -> None:
    """Put the fusions back where they are called, so that the interpreter of the tests can follow."""
    by_name = functions(module)
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.call":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.body.operations[0].operation.walk(visit)
    for call in found:
        block = by_name[call.attributes["callee"].value].regions[0].blocks[0]
        values = dict(zip(block.arguments, call.operands, strict=True))
        for view in block.operations:
            op = view.operation
            if op.name == "func.return":
                for result, value in zip(call.results, op.operands, strict=True):
                    result.replace_all_uses_with(values[value])
                break
            clone = op.clone(ip=ir.InsertionPoint(call))
            for position, operand in enumerate(op.operands):
                clone.operands[position] = values[operand]
            values.update(zip(op.results, clone.results, strict=True))
    for call in reversed(found):
        call.erase()


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_values(mlir_context: ir.Context, seed: int) -> None:
    random = np.random.default_rng(seed)
    arguments = [random.uniform(-1, 1, shape).astype(np.float32) for shape in ((4, 8), (4, 8), (4,))]
    arguments.append(np.array(seed % 3, np.int32))
    module = ir.Module.parse(Generator(seed).module())
    expected = Interpreter().function(module.body.operations[0], arguments)
    fused(module, straight_line=seed % 2 == 0)
    inline_calls(module)
    for before, after in zip(expected, Interpreter().function(module.body.operations[0], arguments), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
