"""Models with dynamic dimensions, compiled once: against JAX at several sizes, and what a call checks."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import stablehlo_py
from stablehlo_py import Options, SymbolicExecutable
from stablehlo_py.errors import ArgumentError, OptionError, UnsupportedError
from stablehlo_py.runtime.memory import Block

ONCE = Options(threads=2, cache_dir=None, dynamic="once")


def exported(function, shapes, symbols, dtypes=None):
    """jax.export of a function; shapes hold names of symbols and numbers."""
    known = export.symbolic_shape(", ".join(symbols.split()))
    named = dict(zip(symbols.split(), known, strict=True))
    dtypes = dtypes or [np.float32] * len(shapes)
    arguments = [
        jax.ShapeDtypeStruct(tuple(named.get(d, d) for d in shape), dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    return export.export(jax.jit(function))(*arguments)


def inputs(shapes, sizes, dtypes=None, seed=0):
    rng = np.random.default_rng(seed)
    dtypes = dtypes or [np.float32] * len(shapes)
    return [
        rng.standard_normal([sizes.get(d, d) for d in shape]).astype(dtype)
        if np.dtype(dtype).kind == "f"
        else rng.integers(0, 3, [sizes.get(d, d) for d in shape]).astype(dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]


def agrees(function, shapes, symbols, every, dtypes=None):
    """One compilation serves all sizes, with JAX's results."""
    executable = stablehlo_py.compile(exported(function, shapes, symbols, dtypes=dtypes), options=ONCE)
    for numbers in every:
        arrays = inputs(shapes, dict(zip(symbols.split(), numbers, strict=True)), dtypes)
        wanted = jax.tree.leaves(jax.jit(function)(*arrays))
        for got, want in zip(executable(*arrays), wanted, strict=True):
            scale = max(1.0, float(np.abs(want).max())) if want.dtype.kind == "f" else 1
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * scale)
    assert executable.compilations == 1
    return executable


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x, wq, wk, wv):
    def heads(y):
        return y.reshape(*y.shape[:-1], 4, 8)

    q, k, v = (heads(layer_norm(x) @ w) for w in (wq, wk, wv))
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5)
    return x + jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape)


SQUARE = (32, 32)
MODELS = {
    "mlp": (
        lambda x, w, b, v: jax.nn.relu(x @ w + b) @ v,
        [("b", 20), (20, 33), (33,), (33, 5)],
        "b",
        [(1,), (7,), (130,)],
    ),
    "attention": (attention, [("b", "s", 32), SQUARE, SQUARE, SQUARE], "b s", [(1, 1), (2, 9), (3, 40)]),
    "product": (lambda x, y: x @ y.T, [("m", "k"), ("n", "k")], "m n k", [(1, 1, 1), (3, 70, 5), (33, 17, 64)]),
    "product and a diagonal": (
        lambda x: (x @ x.swapaxes(-1, -2) + jnp.diag(jnp.arange(x.shape[-1], dtype=x.dtype))).swapaxes(-1, -2),
        [("b", "n", "n")],
        "b n",
        [(1, 1), (2, 31), (3, 65)],
    ),
    "columns": (lambda x: jax.nn.softmax(x, 0), [("b", "s")], "b s", [(1, 1), (40, 3), (2, 100)]),
    "views": (
        lambda x: jnp.concatenate([x.reshape(-1, 6)[1:], jnp.flip(x.reshape(-1, 6), 0).T.reshape(-1, 6)[:2]], 0),
        [("b", 12)],
        "b",
        [(2,), (5,), (40,)],
    ),
    "pad": (
        lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 2)))[: 2 * x.shape[0], ::2],
        [("b", 5)],
        "b",
        [(1,), (4,), (33,)],
    ),
    "sort": (lambda x: (jnp.sort(x, -1), jnp.argmax(x, 0)), [("b", "s")], "b s", [(2, 3), (3, 100), (1, 17)]),
    "gather": (lambda x, i: x[i], [("b", 6), ("n",)], "b n", [(3, 2), (5, 40), (64, 1)]),
    "scatter": (lambda x, i: x.at[i].add(1.0), [("b", 6), ("n",)], "b n", [(3, 2), (5, 40), (64, 1)]),
    "cumulative": (lambda x: jax.lax.cumsum(x, 1), [("b", 9)], "b", [(1,), (4,), (40,)]),
    "convolution": (
        lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        [("b", 9, 8, 3), (3, 3, 3, 10)],
        "b",
        [(1,), (2,), (9,)],
    ),
    "moving window": (
        lambda x, w: jax.lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")),
        [("b", "s", 3), (3, 3, 4)],
        "b s",
        [(1, 3), (2, 20), (3, 9)],
    ),
    "sizes as values": (
        lambda x: x.sum(0) / x.shape[0] + jnp.arange(x.shape[0]).sum(),
        [("b", 4)],
        "b",
        [(1,), (5,), (40,)],
    ),
    "loop": (lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c * 0.5 + x, x), [("b", 4)], "b", [(1,), (5,), (40,)]),
    "branch": (lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), [("b", 4)], "b", [(1,), (5,), (40,)]),
}
DTYPES = {"gather": [np.float32, np.int32], "scatter": [np.float32, np.int32]}


@pytest.mark.parametrize("name", MODELS)
def test_one_program_serves_all_sizes(name):
    agrees(*MODELS[name], dtypes=DTYPES.get(name))


def test_threads_share_a_large_call():
    x, y = (np.random.default_rng(0).standard_normal((n, 4096)).astype(np.float32) for n in (300, 2))
    executable = stablehlo_py.compile(exported(jnp.tanh, [("b", 4096)], "b"), options=ONCE)
    np.testing.assert_allclose(executable(x)[0], np.tanh(x), atol=1e-6)
    np.testing.assert_allclose(executable(y)[0], np.tanh(y), atol=1e-6)
    assert "used by some phases" in executable.report()


# --- checks -----------------------------------------------------------------------------------------------------------


def test_a_shape_assertion_is_the_exports_own_message():
    executable = stablehlo_py.compile(exported(lambda x: x + 1, [("2*b", 3)], "b 2*b"), options=ONCE)
    assert executable(np.zeros((4, 3), np.float32))[0].shape == (4, 3)
    with pytest.raises(ArgumentError, match="Division had remainder 1 when computing the value of 'b'"):
        executable(np.zeros((5, 3), np.float32))


UNEQUAL = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.add %x, %y : tensor<?x4xf32> loc("model.py":7:3)
  return %0 : tensor<?x4xf32>
}
"""


def test_sizes_that_must_agree_name_the_op_and_the_line():
    executable = stablehlo_py.compile(UNEQUAL, options=ONCE)
    x = np.ones((3, 4), np.float32)
    assert executable(x, x)[0].tolist() == (x + x).tolist()
    with pytest.raises(ArgumentError) as error:
        executable(x, np.ones((5, 4), np.float32))
    (problem,) = error.value.problems
    assert (problem.location, problem.op) == ("model.py:7:3", "stablehlo.add")
    assert problem.reason == "dimension 0 of argument 1 is 5, and must be 3 (dimension 0 of argument 0)"


def test_an_empty_dimension_is_specialized():
    executable = stablehlo_py.compile(UNEQUAL, options=ONCE)
    assert executable(*[np.ones((0, 4), np.float32)] * 2)[0].shape == (0, 4)
    assert executable.compilations == 2


DATA_DEPENDENT = """
func.func @main(%x: tensor<?xf32>, %n: tensor<2xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.convert %n : (tensor<2xf32>) -> tensor<2xi32>
  %1 = stablehlo.dynamic_broadcast_in_dim %x, %0, dims = [1] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""


def test_a_shape_that_depends_on_data_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="depends on data") as error:
        stablehlo_py.compile(DATA_DEPENDENT, options=ONCE)
    assert error.value.op == "stablehlo.dynamic_broadcast_in_dim"
    executable = stablehlo_py.compile(DATA_DEPENDENT, options=Options(cache_dir=None))
    assert "depends on data" in " ".join(executable.report().split())


BOUNDED = """
#b = #stablehlo.bounds<4, ?>
func.func @main(%x: tensor<?x3xf32, #b>, %n: tensor<i32>) -> tensor<?x3xf32, #b> {
  %0 = "stablehlo.set_dimension_size"(%x, %n) {dimension = 0 : i64}
    : (tensor<?x3xf32, #b>, tensor<i32>) -> tensor<?x3xf32, #b>
  %1 = stablehlo.exponential %0 : tensor<?x3xf32, #b>
  return %1 : tensor<?x3xf32, #b>
}
"""


def test_bounded_dimensions():
    executable = stablehlo_py.compile(BOUNDED, options=ONCE)
    x = np.ones((4, 3), np.float32)
    for size in (1, 2, 4):
        (result,) = executable(x, np.int32(size))
        np.testing.assert_allclose(result, np.exp(x[:size]), rtol=1e-6)
    with pytest.raises(ArgumentError, match="dimension 0 of argument 0 is 5, and the model bounds it by 4"):
        executable(np.ones((5, 3), np.float32), np.int32(1))
    with pytest.raises(ArgumentError, match="5 must not exceed 4"):
        executable(x, np.int32(5))


# --- one program, or specializations ----------------------------------------------------------------------------------


def test_specialization_is_an_option():
    executable = stablehlo_py.compile(UNEQUAL, options=Options(cache_dir=None, dynamic="specialize"))
    for rows in (2, 3, 2):
        x = np.ones((rows, 4), np.float32)
        assert executable(x, x)[0].shape == (rows, 4)
    assert executable.compilations == 2
    assert "one program for each shapes" in executable.report()
    with pytest.raises(OptionError, match="dynamic is 'never'"):
        Options(dynamic="never")


@pytest.mark.parametrize("dynamic", ["once", "specialize"])
def test_composites(dynamic):
    text = """
      func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
        %0 = stablehlo.composite "my.sine" %x {decomposition = @sine, version = 1 : i32}
          : (tensor<?x4xf32>) -> tensor<?x4xf32>
        return %0 : tensor<?x4xf32>
      }
      func.func private @sine(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
        %0 = stablehlo.sine %x : tensor<?x4xf32>
        return %0 : tensor<?x4xf32>
      }
    """
    executable = stablehlo_py.compile(text, options=Options(cache_dir=None, dynamic=dynamic))
    x = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(executable(x)[0], np.sin(x), rtol=1e-6)


class GuardedBlock(Block):
    """An arena with a margin that nothing may be written to."""

    MARGIN = 4096
    made: ClassVar[list] = []

    def __init__(self, size):
        super().__init__(size + self.MARGIN)
        self.margin = (ctypes.c_ubyte * self.MARGIN).from_address(self.address + size)
        ctypes.memset(self.margin, 0xAB, self.MARGIN)
        self.made.append(self)

    @property
    def is_whole(self):
        return bytes(self.margin) == b"\xab" * self.MARGIN


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_calls_stay_inside_their_arena(dtype, monkeypatch):
    """Rows that are kept in scratch memory, of all lengths: their last vector is not whole."""
    monkeypatch.setattr("stablehlo_py.backends.cpu.code.Block", GuardedBlock)

    def function(x):
        y = jnp.log(jnp.sin(x) + 2)
        return y.sum(), y, jnp.tanh(y / y.sum())

    executable = stablehlo_py.compile(exported(function, [("n", 5)], "n", [dtype]), options=replace(ONCE, threads=1))
    for n in range(1, 20):
        GuardedBlock.made.clear()
        x = np.random.default_rng(n).standard_normal((n, 5)).astype(dtype)
        total, y, _ = executable(x)
        np.testing.assert_allclose(y, np.log(np.sin(x) + 2), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total, y.sum(), rtol=1e-4)
        executable._once._code._free.clear()
        assert GuardedBlock.made
        assert all(block.is_whole for block in GuardedBlock.made)


def test_buffers_and_the_cache(tmp_path):
    x = np.ones((3, 4), np.float32)
    for _ in range(2):
        executable = stablehlo_py.compile(UNEQUAL, options=Options(cache_dir=tmp_path, dynamic="once"))
        assert np.asarray(executable.call([executable.put(x, 0), executable.put(x, 1)])[0]).tolist() == (x + x).tolist()
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


# --- artifacts --------------------------------------------------------------------------------------------------------


def saved(source: object, path: Path) -> SymbolicExecutable:
    stablehlo_py.compile(source, options=ONCE).save(path)
    loaded = stablehlo_py.load_executable(path)
    assert isinstance(loaded, SymbolicExecutable)
    return loaded


def test_an_artifact_serves_all_shapes(tmp_path: Path) -> None:
    def layer(x, w):
        return jnp.tanh(x @ w).sum(0)

    weights = np.random.default_rng(0).standard_normal((5, 70)).astype(np.float32)
    loaded = saved(exported(layer, [("b", 5), (5, 70)], "b"), tmp_path / "model.shlo")
    assert [spec.shape for spec in loaded.inputs] == [(None, 5), (5, 70)]
    for rows in (1, 2, 300):
        x = np.random.default_rng(rows).standard_normal((rows, 5)).astype(np.float32)
        np.testing.assert_allclose(loaded(x, weights)[0], layer(x, weights), rtol=1e-4, atol=1e-4)
    buffers = [loaded.put(np.ones((2, 5), np.float32)), loaded.put(weights)]
    np.testing.assert_allclose(loaded.call(buffers)[0], layer(np.ones((2, 5)), weights), rtol=1e-4, atol=1e-4)
    assert loaded.compilations == 0
    assert "one program for all shapes" in loaded.report()
    assert '"d0_0, 5"' in loaded.stages["hlo"]


def test_an_artifact_checks_shapes_and_says_what_it_cannot_serve(tmp_path: Path) -> None:
    loaded = saved(UNEQUAL, tmp_path / "model.shlo")
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ArgumentError, match="dimension 0 of argument 1 is 5, and must be 3") as wrong:
        loaded(x, np.ones((5, 4), np.float32))
    assert wrong.value.location == "model.py:7:3"
    for call in (lambda: loaded(x[:0], x[:0]), lambda: loaded.specialize((3, 4), (3, 4))):
        with pytest.raises(UnsupportedError) as refused:
            call()
        assert "stablehlo_py.compile" in refused.value.remedy
    with pytest.raises(UnsupportedError, match="dimension 0 of argument arg0 is 0"):
        loaded(x[:0], x[:0])


def test_what_has_no_program_for_all_shapes_has_no_artifact(tmp_path: Path) -> None:
    executable = stablehlo_py.compile(DATA_DEPENDENT, options=Options(cache_dir=None))
    for ask in (lambda: executable.save(tmp_path / "model.shlo"), lambda: executable.stages):
        with pytest.raises(UnsupportedError, match="depends on data") as error:
            ask()
        assert "specialize" in error.value.remedy
    assert not list(tmp_path.iterdir())


def test_the_memory_plan_is_that_of_a_call(tmp_path: Path) -> None:
    def two_layers(x, w):
        return (x @ w) @ w

    loaded = saved(exported(two_layers, [("b", 8), (8, 8)], "b"), tmp_path / "model.shlo")
    for rows in (3, 200):
        plan = loaded.memory_plan(np.zeros((rows, 8), np.float32), np.zeros((8, 8), np.float32))
        assert plan.entries[0].size == rows * 8 * 4
        assert plan.arena_bytes >= max(entry.offset + entry.size for entry in plan.entries)


WINDOWS = {
    "scatter": """func.func @main(%x: tensor<?x4xf32>, %i: tensor<2x1xi32>, %u: tensor<?x2xf32>) -> tensor<?x4xf32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1],
          index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) : (tensor<?x4xf32>, tensor<2x1xi32>, tensor<?x2xf32>) -> tensor<?x4xf32> loc("model.py":7:3)
      return %0 : tensor<?x4xf32>
    }""",
    "slice": """func.func @main(%x: tensor<?x4xf32>) -> tensor<5x4xf32> {
      %0 = stablehlo.slice %x [0:5, 0:4] : (tensor<?x4xf32>) -> tensor<5x4xf32> loc("model.py":7:3)
      return %0 : tensor<5x4xf32>
    }""",
    "dynamic_slice": """func.func @main(%x: tensor<?x4xf32>, %i: tensor<i32>) -> tensor<5x4xf32> {
      %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [5, 4]
        : (tensor<?x4xf32>, tensor<i32>, tensor<i32>) -> tensor<5x4xf32> loc("model.py":7:3)
      return %0 : tensor<5x4xf32>
    }""",
}


@pytest.mark.parametrize(
    ("name", "fitting", "others"),
    [
        ("scatter", [(3, 4), (2, 1), (3, 2)], [(3, 4), (2, 1), (5, 2)]),
        ("slice", [(6, 4)], [(4, 4)]),
        ("dynamic_slice", [(6, 4), ()], [(4, 4), ()]),
    ],
)
def test_what_must_lie_inside_is_checked(name, fitting, others):
    executable = stablehlo_py.compile(WINDOWS[name], options=ONCE)

    def arrays(shapes):
        return [np.ones(shape, spec.dtype) for shape, spec in zip(shapes, executable.inputs, strict=True)]

    executable(*arrays(fitting))
    with pytest.raises(ArgumentError) as caught:
        executable(*arrays(others))
    (problem,) = caught.value.problems
    assert (problem.op, problem.location) == (f"stablehlo.{name}", "model.py:7:3")
    assert executable.compilations == 1
