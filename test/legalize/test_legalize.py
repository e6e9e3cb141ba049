"""Legalization of whole programs: JAX exports keep their values, errors list everything, locations stay."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.ops import records
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.legalize import LegalizeToHlo, is_known_composite, legalize
from stablehlo_py.mlir import ir
from stablehlo_py.passes.inline import Inline

X = np.random.default_rng(0).standard_normal((4, 6), np.float32)
W = np.random.default_rng(1).standard_normal((6, 5), np.float32)
IMAGE = np.random.default_rng(2).standard_normal((2, 8, 8, 3), np.float32)
KERNEL = np.random.default_rng(3).standard_normal((3, 3, 3, 4), np.float32)

KEPT = {record.name for record in records() if record.operation is None} | {"stablehlo.return"}


@pytest.fixture(scope="module")
def context() -> Iterator[ir.Context]:
    made = make_context()
    with made, ir.Location.unknown():
        yield made


def _exported(function, *arguments) -> ir.Module:
    module = load(jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments))
    with module.context:
        Inline().run(module)
    return module


def _names(module: ir.Module) -> set[str]:
    names: set[str] = set()

    def add(op: ir.Operation) -> ir.WalkResult:
        names.add(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(add)
    return names


def _legal(module: ir.Module) -> ir.Module:
    legalize(module)
    assert module.operation.verify()
    leftover = {name for name in _names(module) if name.startswith(("stablehlo.", "chlo."))}
    assert leftover <= KEPT
    return module


# Every op in these has a value in NumPy: the answers are compared with JAX's.
COMPUTED = {
    "mlp": (lambda x, w: jax.nn.softmax(jnp.tanh(x @ w)), (X, W)),
    "normalization": (lambda x: (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5), (X,)),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), (X,)),
    "convolution": (
        lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (IMAGE, KERNEL),
    ),
    "scan": (lambda x: jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(6), x), (X,)),
    "while": (lambda x: jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5), (0, x)), (X,)),
    "cond": (lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), (X,)),
    "gradient": (jax.grad(lambda x, w: jnp.sum(jax.nn.relu(x @ w) ** 2)), (X, W)),
    "threefry": (lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (3, 5)), (np.array([1, 2], np.uint32),)),
    "gather": (lambda x, i: x[i, 1:3], (X, np.array([3, 0, 7, -1], np.int32))),
    "dynamic slices": (
        lambda x, i: jax.lax.dynamic_update_slice(x, jax.lax.dynamic_slice(x, (i, 0), (2, 2)), (0, i)),
        (X, np.int32(1)),
    ),
    "broadcasts": (lambda x: jnp.einsum("ij,kj->jki", x, x[::-1]) + x[0][:, None, None], (X,)),
    "booleans": (lambda x: (jnp.any(x > 1, 0), jnp.all(x > -1, 1), jnp.where(x > 0, x, -1).clip(-0.5, 0.5)), (X,)),
    "complex": (lambda x: jnp.abs(x * (1 + 2j) + jnp.conj(x * 1j)), (X,)),
    "integers": (lambda x: (x << 3) // 7 % 5 ^ jax.lax.population_count(x), (np.arange(-9, 9, dtype=np.int32),)),
    # Exact in bfloat16: XLA may keep more bits between ops than the type has.
    "bfloat16": (lambda x: (jnp.round(x * 4).astype(jnp.bfloat16) * 1.5).astype(jnp.float32), (X,)),
}
STRUCTURAL = {
    "top_k": (lambda x: jax.lax.top_k(x, 3), (X,)),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x, 0)), (X,)),
    "argmax": (lambda x: jnp.argmax(x, 1), (X,)),
    "scatter": (lambda x, i: x.at[i].add(1.0), (X, np.array([0, 2]))),
    "pooling": (
        jax.grad(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum()),
        (IMAGE,),
    ),
    "cumulative": (lambda x: (jnp.cumsum(x, 0), jax.lax.cummax(x, 1), jax.lax.cumlogsumexp(x, 0)), (X,)),
    "fft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), (X,)),
    "solve": (lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True), (np.eye(4, dtype=np.float32), X)),
    "switch": (lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), (np.int32(1), X)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_values_stay(name):
    function, arguments = COMPUTED[name]
    module = _legal(_exported(function, *arguments))
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    with module.context, np.errstate(all="ignore"):
        results = Interpreter().function(module.body.operations[0], [np.asarray(each) for each in arguments])
    for result, right in zip(results, expected, strict=True):
        assert result.shape == right.shape and result.dtype == right.dtype
        np.testing.assert_allclose(result, right, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", STRUCTURAL)
def test_normal_form(name):
    function, arguments = STRUCTURAL[name]
    _legal(_exported(function, *arguments))


@pytest.mark.parametrize("index", [-1, 0, 2, 3, 100])
def test_an_index_out_of_range_takes_the_last_branch(context, index):
    module = ir.Module.parse("""
      func.func @main(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
        %0 = "stablehlo.case"(%i) ({ stablehlo.return %x : tensor<f32> },
          { %1 = stablehlo.negate %x : tensor<f32>
            stablehlo.return %1 : tensor<f32> },
          { %1 = stablehlo.add %x, %x : tensor<f32>
            stablehlo.return %1 : tensor<f32> }) : (tensor<i32>) -> tensor<f32>
        return %0 : tensor<f32>
      }""")
    legalize(module)
    (result,) = Interpreter().function(module.body.operations[0], [np.int32(index), np.float32(3)])
    assert result == {0: 3, 1: -3}.get(index, 6)


def _batch_norm_reference(x, scale, offset, mean, variance, grad, epsilon):
    def normalize(x, scale, offset):
        batch_mean = x.mean((0, 1))
        centered = x - batch_mean
        return centered / jnp.sqrt((centered**2).mean((0, 1)) + epsilon) * scale + offset

    inference = (x - mean) / jnp.sqrt(variance + epsilon) * scale + offset
    training, pullback = jax.vjp(normalize, x, scale, offset)
    return [inference, training, x.mean((0, 1)), x.var((0, 1)), *pullback(grad)]


def test_batch_norm(context):
    x, v = "tensor<3x4x2xf64>", "tensor<2xf64>"
    config = "{epsilon = 1.0e-2 : f32, feature_index = 2 : i64}"
    module = ir.Module.parse(f"""
      func.func @main(%x: {x}, %s: {v}, %o: {v}, %m: {v}, %v: {v}, %g: {x}) -> ({x}, {x}, {v}, {v}, {x}, {v}, {v}) {{
        %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {config} : ({x}, {v}, {v}, {v}, {v}) -> {x}
        %1:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {config} : ({x}, {v}, {v}) -> ({x}, {v}, {v})
        %2:3 = "stablehlo.batch_norm_grad"(%x, %s, %1#1, %1#2, %g) {config}
          : ({x}, {v}, {v}, {v}, {x}) -> ({x}, {v}, {v})
        return %0, %1#0, %1#1, %1#2, %2#0, %2#1, %2#2 : {x}, {x}, {v}, {v}, {x}, {v}, {v}
      }}""")
    legalize(module)
    assert module.operation.verify()
    random = np.random.default_rng(0)
    sizes = [(3, 4, 2), (2,), (2,), (2,), (2,), (3, 4, 2)]
    arguments = [np.abs(random.standard_normal(each)) for each in sizes]
    results = Interpreter().function(module.body.operations[0], arguments)
    with jax.enable_x64(True):
        expected = _batch_norm_reference(*map(jnp.asarray, arguments), float(np.float32(1e-2)))
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-7, atol=1e-9)


def test_torch_index_select_and_einsum(context):
    module = ir.Module.parse("""
      func.func @main(%a: tensor<2x4x5xf32>, %i: tensor<2x3xi32>) -> (tensor<2x3x5xf32>, tensor<5x2xf32>) {
        %0 = "stablehlo.torch_index_select"(%a, %i) {dim = 1 : i64, batch_dims = 1 : i64}
          : (tensor<2x4x5xf32>, tensor<2x3xi32>) -> tensor<2x3x5xf32>
        %1 = "stablehlo.einsum"(%a, %0) {einsum_config = "abc,adc->ca"}
          : (tensor<2x4x5xf32>, tensor<2x3x5xf32>) -> tensor<5x2xf32>
        return %0, %1 : tensor<2x3x5xf32>, tensor<5x2xf32>
      }""")
    legalize(module)
    random = np.random.default_rng(0)
    a, i = random.standard_normal((2, 4, 5)).astype(np.float32), random.integers(0, 4, (2, 3)).astype(np.int32)
    taken, product = Interpreter().function(module.body.operations[0], [a, i])
    expected = np.stack([a[0][i[0]], a[1][i[1]]])
    np.testing.assert_array_equal(taken, expected)
    np.testing.assert_allclose(product, np.einsum("abc,adc->ca", a, expected), rtol=1e-5, atol=1e-5)


def test_locations_stay(context):
    module = ir.Module.parse("""
      func.func @main(%a: tensor<1x3xf32>) -> tensor<2x3xf32> {
        %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32> loc("model.py":7:3)
        %1 = stablehlo.tanh %0 : tensor<2x3xf32> loc("model.py":8:3)
        return %1 : tensor<2x3xf32>
      }""")
    legalize(module)
    reshape, broadcast, tanh, _ = module.body.operations[0].regions[0].blocks[0].operations
    assert '"model.py":7:3' in str(reshape.location) and '"model.py":7:3' in str(broadcast.location)
    assert '"model.py":8:3' in str(tanh.location)


def test_all_unsupported_ops_in_one_error(context):
    module = ir.Module.parse("""
      func.func @main(%s: tensor<1xf32>, %p: tensor<i1>) -> tensor<3xf32> {
        %0 = "stablehlo.all_gather"(%s) {all_gather_dim = 0, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}
          : (tensor<1xf32>) -> tensor<3xf32> loc("model.py":3:1)
        %1 = "stablehlo.if"(%p) ({
          %2 = "stablehlo.collective_permute"(%0) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}
            : (tensor<3xf32>) -> tensor<3xf32> loc("model.py":4:1)
          stablehlo.return %2 : tensor<3xf32>
        }, { stablehlo.return %0 : tensor<3xf32> }) : (tensor<i1>) -> tensor<3xf32>
        %3 = stablehlo.composite "my.op" %1 {decomposition = @mine}
          : (tensor<3xf32>) -> tensor<3xf32> loc("model.py":5:1)
        return %3 : tensor<3xf32>
      }
      func.func private @mine(%a: tensor<3xf32>) -> tensor<3xf32> { return %a : tensor<3xf32> }""")
    with pytest.raises(UnsupportedError) as caught:
        legalize(module)
    found = [(problem.op, problem.location) for problem in caught.value.problems]
    assert found == [
        ("stablehlo.all_gather", "model.py:3:1"),
        ("stablehlo.collective_permute", "model.py:4:1"),
        ("stablehlo.composite", "model.py:5:1"),
    ]
    assert all(problem.remedy for problem in caught.value.problems)
    assert "3 ops cannot be compiled" in str(caught.value)


UNSUPPORTED = {
    "dynamic shape": "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }",
    "quantized type": """func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>)
      -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
      return %a : tensor<2x!quant.uniform<i8:f32, 0.5>> }""",
    "whose future goes to": """func.func @main(%a: tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>> {
      %0 = "stablehlo.async_start"(%a) ({
      ^bb0(%x: tensor<4xf32>):
        %1 = stablehlo.slice %x [0:4] : (tensor<4xf32>) -> tensor<4xf32>
        stablehlo.return %1 : tensor<4xf32>
      }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
      return %0 : !stablehlo.future<tensor<4xf32>> }""",
    "names replica 1, the grid has 1 replica(s)": """func.func @main(%a: tensor<4xf32>) -> tensor<8xf32> {
      %0 = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<4xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32> }""",
    "changes a shape": """func.func @main(%a: tensor<8xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) : (tensor<8xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }""",
    "uses a tensor from outside": """func.func @main(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
       reducer(%x: tensor<f32>, %y: tensor<f32>) {
        %1 = stablehlo.slice %a [1:2] : (tensor<4xf32>) -> tensor<1xf32>
        %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }
      return %0 : tensor<f32> }""",
    "not defined for complex numbers": """func.func @main(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
      %0 = stablehlo.remainder %a, %a : tensor<4xcomplex<f32>>
      return %0 : tensor<4xcomplex<f32>> }""",
    "compares elements of type complex<f32> as TOTALORDER": """func.func @main(%a: tensor<complex<f32>>) -> tensor<i1> {
      %0 = stablehlo.compare EQ, %a, %a, TOTALORDER : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<i1>
      return %0 : tensor<i1> }""",
    "compares elements of type ui8 as SIGNED": """func.func @main(%a: tensor<ui8>) -> tensor<i1> {
      %0 = stablehlo.compare EQ, %a, %a, SIGNED : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
      return %0 : tensor<i1> }""",
    "used as a whole": """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.tuple %a : tuple<tensor<4xf32>>
      %1 = stablehlo.custom_call @theirs(%0) : (tuple<tensor<4xf32>>) -> tensor<4xf32>
      return %1 : tensor<4xf32> }""",
    "equation": """func.func @main(%a: tensor<4xf32>) -> tensor<4x4xf32> {
      %0 = "stablehlo.unary_einsum"(%a) {einsum_config = "i->ii"} : (tensor<4xf32>) -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32> }""",
}


@pytest.mark.parametrize("reason", UNSUPPORTED)
def test_unsupported(context, reason):
    with pytest.raises(UnsupportedError) as caught:
        legalize(ir.Module.parse(UNSUPPORTED[reason]))
    assert reason in str(caught.value)
    assert caught.value.problems[0].remedy


def test_the_pass(context):
    module = ir.Module.parse("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
    assert LegalizeToHlo.name == "legalize-to-hlo"
    LegalizeToHlo().run(module)
    assert module.operation.verify()


def test_legalization_of_hlo_changes_nothing(context):
    module = _exported(COMPUTED["cond"][0], X)
    legalize(module)
    text = str(module)
    legalize(module)
    assert str(module) == text


@pytest.mark.parametrize(
    ("form", "attributes", "known"),
    [
        ("chlo.erf f32 -> f32", "", True),
        ("chlo.erfc f32 -> f32", "", True),
        ("chlo.tan complex<f32> -> complex<f32>", "", True),
        ("chlo.erf complex<f32> -> complex<f32>", "", False),
        ("chlo.erf i32 -> i32", "", False),
        ("chlo.erf f32 -> f64", "", False),
        ("chlo.erf f32 f32 -> f32", "", False),
        ("chlo.erf f32 -> f32 f32", "", False),
        ("chlo.top_k f32 -> f32 i32", "k = 1 : i64", True),
        ("chlo.top_k f32 -> f32 i32", "k = 1 : i64, largest = false", True),
        ("chlo.top_k f32 -> f32 i32", "k = 1 : i64, largest = 0 : i64", False),
        ("chlo.top_k f32 -> f32 i32", "k = 2 : i64", False),
        ("chlo.top_k f32 -> f32 i32", "k = -1 : i64", False),
        ("chlo.top_k f32 -> f32 i32", 'k = "1"', False),
        ("chlo.top_k f32 -> f32 i32", "", False),
        ("chlo.top_k f32 -> f32 i64", "k = 1 : i64", False),
        ("chlo.top_k f32 -> f64 i32", "k = 1 : i64", False),
        ("chlo.top_k f32 -> f32", "k = 1 : i64", False),
        ("chlo.top_k complex<f32> -> complex<f32> i32", "k = 1 : i64", False),
        ("chlo.zeta f32 f32 -> f32", "", True),
        ("chlo.zeta bf16 bf16 -> bf16", "", True),
        ("chlo.zeta f32 -> f32", "", False),
        ("chlo.zeta f32 f64 -> f32", "", False),
        ("chlo.zeta i32 i32 -> i32", "", False),
        ("my.op f32 -> f32", "", False),
    ],
)
def test_known_composites(context, form, attributes, known):
    """One that has the name of an op, and not its signature, is what its decomposition says."""
    name, *types = form.replace("->", "").split()
    count = form.partition("->")[0].count(" ") - 1
    tensors = [f"tensor<1x{each}>" for each in types]
    operands, results = ", ".join(f"%a{i}" for i in range(count)), ", ".join(tensors[count:])
    arguments = ", ".join(f"%a{i}: {tensors[i]}" for i in range(count))
    named = ", ".join(f"%0#{i}" for i in range(len(tensors) - count))
    module = ir.Module.parse(f"""
      func.func @main({arguments}) -> ({results}) {{
        %0:{len(tensors) - count} = stablehlo.composite "{name}" {operands} {{
          composite_attributes = {{{attributes}}}, decomposition = @d
        }} : ({", ".join(tensors[:count])}) -> ({results})
        return {named} : {results}
      }}
      func.func private @d({arguments}) -> ({results})""")
    assert is_known_composite(module.body.operations[0].regions[0].blocks[0].operations[0]) == known
