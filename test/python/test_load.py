"""Every kind of source that `load` takes, Shardy, the entry function, isolation, and refinement of symbolic shapes."""

import inspect
import io
import os
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.dynamic import is_symbolic, symbolic_inputs
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import is_sharded, meshes_of
from stablehlo_py.dialect.types import operations
from stablehlo_py.errors import ArgumentError, LoadError, OptionError, UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir, stablehlo
from stablehlo_py.passes.symbolic.specialize import specialize

TEXT = """module @small {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
TWO = """
func.func public @first(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @second(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func public @second(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
"""


def artifact(text=TEXT, version="1.0.0"):
    return stablehlo.serialize_portable_artifact_str(text, version)


def bytecode(text=TEXT):
    stream = io.BytesIO()
    ir.Module.parse(text, make_context()).operation.write_bytecode(stream)
    return stream.getvalue()


def op_names(module):
    found = []

    def visit(op):
        found.append(op.operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def functions(module):
    return {
        op.attributes["sym_name"].value: op.attributes["sym_visibility"].value
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


# --- kinds of sources ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("content", [TEXT.encode(), artifact(), bytecode()], ids=["text", "artifact", "bytecode"])
def test_bytes_and_files(content, isolate, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    sources = [path] if isolate else [content, bytearray(content), memoryview(content), path, str(path)]
    for source in sources:
        module = load(source, isolate=isolate)
        assert op_names(module) == ["stablehlo.add", "func.return", "func.func", "builtin.module"]


@pytest.mark.parametrize("text", [TEXT, "module {func.func @f() {return}}", "// text\nfunc.func @f() {return}"])
def test_text(text):
    assert "func.func" in op_names(load(text))


def test_a_name_that_starts_like_text_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("module.mlir").write_text(TEXT)
    assert load("module.mlir").operation.attributes["sym_name"].value == "small"


def test_context_is_the_one_that_is_given():
    context = make_context()
    assert load(TEXT, context=context).context is context


def test_another_type_is_refused():
    with pytest.raises(TypeError, match="cannot load a function"):
        load(test_text)


def test_vhlo_bytecode_of_another_producer_becomes_stablehlo():
    data = artifact()
    renamed = data.replace(b"StableHLO_v1.0.0", b"OtherProducer__0")
    assert "stablehlo.add" in op_names(load(renamed))


def test_nothing_is_printed(capfd):
    load(artifact())
    with pytest.raises(LoadError):
        load(artifact()[:200])
    with pytest.raises(LoadError):
        load("func.func @f() { return 3\n }")
    assert capfd.readouterr() == ("", "")


# --- the entry function ----------------------------------------------------------------------------------------------


def test_the_only_public_function_becomes_main():
    module = load(TWO.replace("public @second", "private @second"))
    assert functions(module) == {"main": "public", "second": "private"}


def test_entry_is_renamed_with_its_callers():
    module = load(TWO, entry="second")
    assert functions(module) == {"first": "private", "main": "public"}
    module.operation.verify()
    assert "call @main" in str(module)


def test_entry_displaces_another_main():
    module = load(TWO.replace("@first", "@main"), entry="second")
    assert functions(module) == {"main_0": "private", "main": "public"}
    module.operation.verify()


def test_entry_must_be_chosen_among_several():
    with pytest.raises(OptionError, match="2 public functions") as caught:
        load(TWO)
    assert "first, second" in caught.value.remedy


def test_entry_must_exist():
    with pytest.raises(OptionError, match="no function @third") as caught:
        load(TWO, entry="third")
    assert "first, second" in caught.value.remedy


# --- jax -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def spec(jax, *sizes):
    return jax.ShapeDtypeStruct(sizes, "float32")


def exported(jax, function, *specs):
    from jax import export

    return export.export(jax.jit(function))(*specs)


def inner(x):
    import jax.numpy as jnp

    return jnp.sin(x) * 2  # the innermost line


def outer(x):
    return inner(x) + x


@pytest.mark.parametrize("kind", ["object", "artifact", "flatbuffer", "file", "text"])
def test_jax_export(jax, kind, tmp_path):
    model = exported(jax, outer, spec(jax, 4))
    source = {
        "object": lambda: model,
        "artifact": lambda: model.mlir_module_serialized,
        "flatbuffer": lambda: model.serialize(),
        "file": lambda: tmp_path / "model.jax",
        "text": lambda: model.mlir_module(),
    }[kind]()
    if kind == "file":
        source.write_bytes(model.serialize())
    assert "stablehlo.sine" in op_names(load(source))


def test_a_jax_file_with_gradient_holds_the_function_itself(jax):
    data = exported(jax, outer, spec(jax, 4)).serialize(vjp_order=1)
    assert "stablehlo.cosine" not in op_names(load(data))


def test_locations_are_the_users_innermost_line(jax):
    module = load(exported(jax, outer, spec(jax, 4)))
    lines, first = inspect.getsourcelines(inner)
    expected = first + next(number for number, line in enumerate(lines) if "innermost" in line)
    main = module.body.operations[0]
    sine = next(op for op in main.regions[0].blocks[0].operations if op.operation.name == "stablehlo.sine")
    file, line, _ = describe(sine.location).rsplit(":", 2)
    assert (os.path.basename(file), int(line)) == (os.path.basename(__file__), expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('loc("a.py":3:4)', "a.py:3:4"),
        ('loc("f"("a.py":3:4 to :9))', "a.py:3:4"),
        ('loc(callsite("a.py":3:4 at "b.py":5:6))', "a.py:3:4"),
        ('loc(callsite("/x/site-packages/flax/linear.py":3:4 at "b.py":5:6))', "b.py:5:6"),
        ('loc("/x/site-packages/flax/linear.py":3:4)', "/x/site-packages/flax/linear.py:3:4"),
        ('loc(fused["name", "a.py":3:4])', "a.py:3:4"),
        ('loc("just a name")', "just a name"),
        ('loc("a \\22quoted\\22 file.py":3:4)', 'a "quoted" file.py:3:4'),
        ('loc("-":3:4)', "<text>:3:4"),
        ("loc(unknown)", None),
    ],
)
def test_describe(printed, expected):
    context = make_context()
    text = f"func.func private @f() {printed}\n"
    (function,) = ir.Module.parse(text, context).body.operations
    assert describe(function.location) == expected


# --- Shardy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["artifact", "flatbuffer", "text"])
@pytest.mark.parametrize("isolate", [False, True])
def test_a_sharding_rule_becomes_text(jax, kind, isolate):
    model = exported(jax, jax.numpy.linalg.cholesky, spec(jax, 4, 4))
    source = {"artifact": model.mlir_module_serialized, "flatbuffer": model.serialize(), "text": model.mlir_module()}
    module = load(source[kind], isolate=isolate)
    (call,) = (op for op in operations(module.operation) if op.name == "stablehlo.custom_call")
    assert "i=4" in call.attributes["hlo.sharding_rule"].value
    assert not is_sharded(module)


def test_rules_alone_are_stripped_as_the_rest_of_shardy_is(jax, monkeypatch):
    """An artifact that has no more of Shardy is not legalized by jaxlib."""
    from stablehlo_py.frontend import shardy

    source = exported(
        jax, lambda a, b: jax.numpy.linalg.solve(a, b), spec(jax, 4, 4), spec(jax, 4)
    ).mlir_module_serialized
    plain = str(load(source, isolate=False))
    with monkeypatch.context() as patch:
        patch.setattr(shardy, "_serialize", None)  # not called
        assert str(load(source, isolate=False)) == plain
    monkeypatch.setattr(shardy, "_may_have_rules_alone", lambda source: False)
    assert str(load(source, isolate=False)) == plain


def sharded(jax):
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    split = NamedSharding(mesh, PartitionSpec("d"))

    def function(x):
        x = jax.lax.with_sharding_constraint(x * 2, split)
        body = lambda v: v + 1  # noqa: E731
        return jax.shard_map(body, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec("d"))(x)

    from jax import export

    return export.export(jax.jit(function, in_shardings=split))(spec(jax, 8))


def test_shardings_of_one_device_become_text(jax):
    module = load(sharded(jax))
    assert not [name for name in op_names(module) if name.startswith("sdy.")]
    assert meshes_of(module) == {"mesh": '#sdy.mesh<["d"=1]>'}
    assert main_function(module).attributes["arg_attrs"][0]["hlo.sharding"].value == '#sdy.sharding<@mesh, [{"d"}]>'


MANUAL = """module {
  sdy.mesh @mesh = <["d"=4]>
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}) -> tensor<8xf32> {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"d"}]> : tensor<8xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>]
        manual_axes={"d"} (%arg1: tensor<2xf32>) {
      %2 = stablehlo.add %arg1, %arg1 : tensor<2xf32>
      sdy.return %2 : tensor<2xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
"""


def test_a_computation_on_shards_is_for_a_grid(jax, tmp_path):
    path = tmp_path / "manual.mlir"
    path.write_text(MANUAL)
    module = load(path)
    assert module.operation.attributes["mhlo.num_partitions"].value == 4
    assert {"stablehlo.partition_id", "stablehlo.dynamic_slice", "stablehlo.all_gather"} <= set(op_names(module))


def test_a_mesh_of_another_size_is_refused(jax, tmp_path):
    path = tmp_path / "manual.mlir"
    path.write_text(MANUAL.replace("module {", "module attributes {mhlo.num_partitions = 2 : i32} {"))
    with pytest.raises(
        UnsupportedError, match="has 4 devices up to number 3, and the module is for 2 partitions"
    ) as caught:
        load(path)
    assert caught.value.op == "stablehlo.custom_call"
    assert caught.value.location == f"{path}:5:10"


def test_a_module_without_shardings_says_so():
    assert not is_sharded(load(TEXT))


# --- symbolic shapes -------------------------------------------------------------------------------------------------


def symbolic(jax, function, *shapes):
    from jax import export

    scope = export.SymbolicScope()
    specs = [spec(jax, *export.symbolic_shape(shape, scope=scope)) for shape in shapes]
    return load(export.export(jax.jit(function))(*specs))


def refined(jax, function, shapes, concrete):
    module = symbolic(jax, function, *shapes)
    assert is_symbolic(module)
    specialize(module, concrete)
    assert not is_symbolic(module)
    assert functions(module) == {"main": "public"}
    return module


def results(module):
    main = module.body.operations[0]
    return [tuple(type_.shape) for type_ in ir.FunctionType(main.attributes["function_type"].value).results]


def test_symbolic_inputs(jax):
    assert symbolic_inputs(symbolic(jax, lambda x, y: (x, y), "b, 4", "c, b")) == ((None, 4), (None, None))
    assert symbolic_inputs(load(TEXT)) == ((4,), (4,))
    assert not is_symbolic(load(TEXT))


@pytest.mark.parametrize(
    ("function", "shapes", "concrete", "expected"),
    [
        (lambda np_, x: np_.tanh(x), ["b, 4"], [(3, 4)], [(3, 4)]),
        (lambda np_, x, y: x + y, ["b, 4", "b, 4"], [(3, 4), (3, 4)], [(3, 4)]),
        (lambda np_, x, y: np_.concatenate([x, y]), ["b, 4", "b + 1, 4"], [(3, 4), (4, 4)], [(7, 4)]),
        (lambda np_, x: x.reshape(-1, 2)[: x.shape[0] // 2], ["b, 4"], [(5, 4)], [(2, 2)]),
        (lambda np_, x: np_.arange(x.shape[0]) * x[:, 0] / x.shape[0], ["b, 4"], [(5, 4)], [(5,)]),
        (lambda np_, x: np_.cumsum(x, 0) + 1, ["b, 4"], [(5, 4)], [(5, 4)]),
        (lambda np_, x: (np_.sort(x, 0), np_.max(x)), ["b, c"], [(5, 4)], [(5, 4), ()]),
    ],
    ids=["one", "two share b", "b and b + 1", "computed sizes", "sizes as values", "dynamic window", "two results"],
)
def test_refine(jax, function, shapes, concrete, expected):
    module = refined(jax, lambda *args: function(jax.numpy, *args), shapes, concrete)
    assert results(module) == expected
    assert not [name for name in op_names(module) if "dynamic" in name or name == "stablehlo.custom_call"]


def test_refined_dynamic_window_computes_the_same(jax):
    module = refined(jax, lambda x: jax.numpy.cumsum(x, 0), ["b, 2"], [(5, 2)])
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    with module.context, ir.Location.unknown():
        (result,) = stablehlo.eval_module(module, [ir.DenseElementsAttr.get(values)])
    np.testing.assert_array_equal(np.array(result), np.cumsum(values, 0))


def test_refined_loops_over_a_symbolic_count(jax):
    module = refined(jax, lambda x: jax.lax.scan(lambda c, v: (c + v.sum(), c), 0.0, x), ["b, 4"], [(5, 4)])
    assert results(module) == [(), (5,)] and "stablehlo.while" in op_names(module)


def test_refined_top_k_and_random_bits(jax):
    module = refined(jax, lambda x: jax.lax.top_k(x, x.shape[1]), ["4, b"], [(4, 6)])
    assert results(module) == [(4, 6), (4, 6)] and "chlo.top_k" in op_names(module)
    bits = lambda x: jax.random.bits(jax.random.key(0, impl="rbg"), x.shape)  # noqa: E731
    module = refined(jax, bits, ["b, 4"], [(5, 4)])
    assert results(module) == [(5, 4)] and "stablehlo.rng_bit_generator" in op_names(module)


def test_shapes_that_contradict_the_assertions(jax):
    module = symbolic(jax, lambda x, y: (x, y), "b, 4", "b + 1, 4")
    with pytest.raises(ArgumentError, match=r"args\[1\].shape\[0\] \(= 5\) and the specification 'b \+ 1' \(= 4\)"):
        specialize(module, [(3, 4), (5, 4)])
    module = symbolic(jax, lambda x: x, "b, 4")
    with pytest.raises(ArgumentError, match="Expected value >= 1 for dimension variable 'b'"):
        specialize(module, [(0, 4)])


DYNAMIC = """func.func @main(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.add %a, %b : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(3, 4)], "1 shapes for 2 arguments"),
        ([(3, 4), (3, 5)], r"argument 1 has shape \(3, 5\), the signature says \(\?, 4\)"),
        ([(3, 4), (3,)], r"argument 1 has shape \(3,\)"),
        ([(-1, 4), (3, 4)], "argument 0 has shape"),
    ],
)
def test_shapes_that_do_not_fit_the_signature(shapes, message):
    with pytest.raises(ArgumentError, match=message):
        specialize(load(DYNAMIC), shapes)


def test_refine_text():
    module = load(DYNAMIC)
    specialize(module, [(3, 4), (3, 4)])
    assert results(module) == [(3, 4)]


def test_shapes_that_contradict_each_other_are_refused_with_the_op():
    with pytest.raises(ArgumentError, match="the sizes 3 and 4 must be equal") as caught:
        specialize(load(DYNAMIC), [(3, 4), (4, 4)])
    assert (caught.value.op, caught.value.location) == ("stablehlo.add", "<text>:2:8")


UNWRAPPED = """func.func @main(%n: tensor<i64>, %a: tensor<?x4xf32>) -> tensor<?xf32> {
  %four = stablehlo.constant dense<4> : tensor<i64>
  %size = stablehlo.multiply %n, %four : tensor<i64>
  %shape = stablehlo.reshape %size : (tensor<i64>) -> tensor<1xi64>
  %0 = stablehlo.dynamic_reshape %a, %shape : (tensor<?x4xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


def test_dimension_arguments_are_given_as_numbers():
    module = load(UNWRAPPED)
    assert symbolic_inputs(module) == ((), (None, 4))
    specialize(module, [(), (3, 4)], {0: 3})
    assert results(module) == [(12,)] and "stablehlo.reshape" in op_names(module)


@pytest.mark.parametrize("number", [1, 2, -1])
def test_dimension_arguments_must_be_integers(number):
    with pytest.raises(ArgumentError, match="is not an integer scalar"):
        specialize(load(UNWRAPPED), [(), (3, 4)], {number: 3})


def test_a_slice_of_known_size_at_an_unknown_place(jax):
    function = lambda x, i: jax.lax.dynamic_slice(x, (i, 1), (x.shape[0], 2))  # noqa: E731
    from jax import export

    (b,) = export.symbolic_shape("b")
    model = exported(jax, function, spec(jax, b, 4), jax.ShapeDtypeStruct((), "int32"))
    module = load(model)
    specialize(module, [(5, 4), ()])
    assert results(module) == [(5, 2)] and "stablehlo.real_dynamic_slice" not in op_names(module)
