"""The public API: executables, buffers, artifacts, caches, threads, symbolic shapes, jit."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import api
from stablehlo_py.backends.base import get_backend
from stablehlo_py.compiler import module_stages

STAGES = [*module_stages(get_backend("cpu")), *get_backend("cpu").stages]
X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.ones((4, 5), np.float32)


def mlp(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = jnp.tanh(x @ w)
    return y, y.sum()


def export(function: object, *arrays: np.ndarray, **options: object) -> jax.export.Exported:
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    return jax.export.export(jax.jit(function, **options))(*specs)


@pytest.fixture(scope="module")
def executable() -> shlo.Executable:
    return shlo.compile(export(mlp, X, W))


def test_results_are_a_tuple_of_numpy_arrays(executable: shlo.Executable) -> None:
    results = executable(X, W)
    assert isinstance(results, tuple)
    np.testing.assert_allclose(results[0], np.tanh(X @ W), rtol=1e-6)
    single = shlo.compile(export(lambda x: x + 1, X))(X)
    assert isinstance(single, tuple)
    assert len(single) == 1


def test_specs(executable: shlo.Executable) -> None:
    assert [(spec.name, spec.shape, spec.dtype) for spec in executable.inputs] == [
        ("x", (3, 4), np.float32),
        ("w", (4, 5), np.float32),
    ]
    assert [spec.shape for spec in executable.outputs] == [(3, 5), ()]


def test_buffers(executable: shlo.Executable) -> None:
    buffers = [executable.put(array) for array in (X, W)]
    for _ in range(3):
        np.testing.assert_array_equal(executable.call(buffers)[0], executable(X, W)[0])


@pytest.mark.parametrize(
    "make", [lambda a: jnp.asarray(a), lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, 1)[:, ::2]]
)
def test_accepts_jax_and_strided_arrays(executable: shlo.Executable, make: object) -> None:
    np.testing.assert_array_equal(executable(make(X), make(W))[0], executable(X, W)[0])  # type: ignore[operator]


def test_arguments_are_not_changed_by_donation() -> None:
    donating = shlo.compile(export(lambda x: x.at[0].set(9.0), X, donate_argnums=0))
    argument = X.copy()
    (result,) = donating(argument)
    np.testing.assert_array_equal(argument, X)
    assert (result[0] == 9).all()
    buffer = donating.put(X)
    assert (np.asarray(donating.call([buffer])[0])[0] == 9).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X,), "takes 2"),
        ((X, W[:3]), "shape"),
        ((X.astype(np.float64), W), "dtype"),
        ((X.astype(">f4"), W), "byte order"),
        ((X[0], W.astype(np.int32)), "argument w"),
        ((object(), W), "argument x"),
    ],
)
def test_wrong_arguments_are_named(executable: shlo.Executable, arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(shlo.ArgumentError, match=words):
        executable(*arguments)


def test_every_wrong_argument_is_named(executable: shlo.Executable) -> None:
    with pytest.raises(shlo.ArgumentError) as caught:
        executable(X[0], W.astype(np.int32))
    assert len(caught.value.problems) == 2


def test_save_and_load(executable: shlo.Executable, tmp_path: Path) -> None:
    file = tmp_path / "model.shloexe"
    executable.save(file)
    loaded = shlo.load_executable(file)
    np.testing.assert_array_equal(loaded(X, W)[0], executable(X, W)[0])
    assert loaded.inputs == executable.inputs
    assert "hlo.dot" in loaded.stages["hlo"]


def test_save_leaves_nothing_behind(executable: shlo.Executable, tmp_path: Path) -> None:
    with pytest.raises(shlo.ResourceError):
        executable.save(tmp_path / "missing" / "model.shloexe")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 truncated", b"something else"])
def test_damaged_artifacts(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.shloexe"
    file.write_bytes(content)
    with pytest.raises(shlo.LoadError):
        shlo.load_executable(file)


def test_truncated_artifact(executable: shlo.Executable, tmp_path: Path) -> None:
    file = tmp_path / "model.shloexe"
    executable.save(file)
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(shlo.LoadError):
        shlo.load_executable(file)


def test_stages_and_report(executable: shlo.Executable) -> None:
    assert list(executable.stages) == STAGES
    assert "stablehlo.dot_general" in executable.stages["stablehlo"]
    assert "llvm.func" in executable.stages["kernels"]
    assert "define" in executable.stages["llvm"]
    assert "kernels:" in executable.report()
    assert executable.memory_plan().arena_bytes >= 0


def test_constants_are_part_of_the_program() -> None:
    weights = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    x = np.ones((2, 40), np.float32)
    (result,) = shlo.compile(export(lambda x: x @ weights, x))(x)
    np.testing.assert_allclose(result, x @ weights, rtol=1e-5)


def test_narrow_types_round_trip() -> None:
    x = np.array([1.5, -2.25], ml_dtypes.bfloat16)
    (result,) = shlo.compile(export(lambda x: x + x, x))(x)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result, x + x)


def test_cache_holds_whole_programs(tmp_path: Path) -> None:
    exported = export(mlp, X, W)
    first = shlo.compile(exported, options=shlo.Options(cache_dir=tmp_path))
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    second = shlo.compile(exported, options=shlo.Options(cache_dir=tmp_path))
    assert list(tmp_path.iterdir()) == files
    np.testing.assert_array_equal(first(X, W)[0], second(X, W)[0])
    shlo.compile(exported, options=shlo.Options(cache_dir=tmp_path, opt_level=0))
    assert len(list(tmp_path.iterdir())) == 2


def test_unwritable_directories(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for options in (shlo.Options(cache_dir=file / "x"), shlo.Options(dump_dir=file / "x")):
        with pytest.raises(shlo.ResourceError):
            shlo.compile(export(mlp, X, W), options=options)


def test_dump_directory(tmp_path: Path) -> None:
    shlo.compile(export(mlp, X, W), options=shlo.Options(dump_dir=tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir())[0] == "0-stablehlo.mlir"
    assert len(list(tmp_path.iterdir())) == len(STAGES)


@pytest.mark.parametrize("options", [{"threads": 0}, {"opt_level": 7}])
def test_wrong_options(options: dict[str, int]) -> None:
    with pytest.raises(shlo.OptionError):
        shlo.Options(**options)  # type: ignore[arg-type]


def test_unknown_target_and_entry() -> None:
    with pytest.raises(shlo.OptionError, match="cpu"):
        shlo.compile(export(mlp, X, W), target="abacus")
    with pytest.raises(shlo.OptionError):
        shlo.compile(export(mlp, X, W), entry="missing")


def test_an_arena_larger_than_memory_is_refused() -> None:
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %big = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1000000x1000000xf32>
      %sorted = "stablehlo.sort"(%big) <{dimension = 1 : i64}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %less : tensor<i1>
      }) : (tensor<1000000x1000000xf32>) -> tensor<1000000x1000000xf32>
      %sum = stablehlo.reduce(%sorted init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<1000000x1000000xf32>, tensor<f32>) -> tensor<f32>
      return %sum : tensor<f32>
    }"""
    with pytest.raises(shlo.ResourceError, match="GiB"):
        shlo.compile(text)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(300, 400)).astype(np.float32), rng.normal(size=(400, 500)).astype(np.float32)

    def model(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        y = jax.nn.softmax(x @ w)
        return y, y.sum(), y.sum(0), jnp.cumsum(y, 0)

    exported = export(model, x, w)
    one, two, three = (shlo.compile(exported, options=shlo.Options(threads=n))(x, w) for n in (1, 2, 3))
    for a, b, c in zip(one, two, three, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_concurrent_calls() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(256, 256)).astype(np.float32)
    xs = rng.normal(size=(8, 200, 256)).astype(np.float32)
    model = shlo.compile(export(lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w), xs[0], w), options=shlo.Options(threads=2))
    expected = [model(x, w)[0] for x in xs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            if not np.array_equal(model(xs[number], w)[0], expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_survive_later_calls(executable: shlo.Executable) -> None:
    big = np.ones((300, 400), np.float32)
    model = shlo.compile(export(lambda x: x * 2, big))
    first = model(big)[0]
    view = first[:10]
    del first
    model(big * 5)
    assert (view == 2).all()


def test_symbolic_batch() -> None:
    (batch,) = jax.export.symbolic_shape("b")
    specs = jax.ShapeDtypeStruct((batch, 4), jnp.float32), jax.ShapeDtypeStruct((4, 5), jnp.float32)
    model = shlo.compile(jax.export.export(jax.jit(mlp))(*specs))
    assert model.inputs[0].shape == (None, 4)
    assert model.outputs[0].shape == (None, 5)
    for size in (1, 3, 7):
        x = np.full((size, 4), 0.1, np.float32)
        np.testing.assert_allclose(model(x, W)[0], np.tanh(x @ W), rtol=1e-5)
    with pytest.raises(shlo.ArgumentError):
        model(np.zeros((3, 5), np.float32), W)


def test_jit() -> None:
    @shlo.jit
    def step(state: dict[str, jax.Array], *, scale: float) -> dict[str, jax.Array]:
        return {"x": state["x"] * scale, "y": state["y"] + 1}

    out = step({"x": X, "y": W}, scale=2.0)
    np.testing.assert_array_equal(out["x"], X * 2)
    np.testing.assert_array_equal(out["y"], W + 1)


def test_jit_of_arrays_alone_takes_the_executables_fast_call() -> None:
    function = shlo.jit(lambda state, scale: {"scaled": state["x"] * scale, "sum": state["x"].sum() + state["y"]})
    small, large, one = np.ones(3, np.float32), np.ones((4, 5), np.float32), np.ones((), np.float32)
    for _ in range(3):  # in turns, and with what are no such arrays in between
        for array in (small, small, large, large):
            result = function({"x": array, "y": one}, scale=one + 1)
            assert result["scaled"].shape == array.shape
            assert (result["scaled"] == 2).all()
            assert result["sum"] == array.size + 1
        assert (function({"x": small, "y": one}, one)["scaled"] == 1).all()
        assert (function({"x": small.astype(np.float64), "y": one}, 3)["scaled"] == 3).all()
        assert (function({"x": np.arange(3, dtype=np.float32)[::-1], "y": one}, one)["scaled"] == [2, 1, 0]).all()
        assert function({"x": 2.5, "y": 1}, 2)["scaled"] == 5
        with pytest.raises(KeyError):
            function({"x": small, "z": one}, one)
    function({"x": large, "y": one}, one)
    assert function._last is not None
    assert function._last[1].fast_call(large, one, one) is not None


def test_jit_static_arguments() -> None:
    def power(x: jax.Array, n: int) -> jax.Array:
        return x**n if n > 1 else x

    by_number = shlo.jit(power, static_argnums=1)
    by_name = shlo.jit(power, static_argnames="n")
    np.testing.assert_array_equal(by_number(X, 2), X**2)
    np.testing.assert_array_equal(by_name(X, n=2), X**2)
    np.testing.assert_array_equal(by_name(X, 1), X)
    with pytest.raises(shlo.OptionError):
        by_number(X, [2])


def test_the_former_name_of_the_cpu_warns_and_works() -> None:
    with pytest.warns(DeprecationWarning, match=r"write Options\(cpu='avx2'\)") as caught:
        options = shlo.Options(target="avx2")
    assert caught[0].filename == __file__
    assert options == shlo.Options(cpu="avx2") == dataclasses.replace(options)
    with pytest.raises(shlo.OptionError, match="the backend is no part of the options") as error:
        shlo.Options(target="abacus")
    assert "compile(..., target='abacus')" in (error.value.remedy or "")


def test_one_line_says_what_an_object_is(executable: shlo.Executable) -> None:
    signature = (
        r"\(x: float32\[3, 4\], w: float32\[4, 5\]\) -> \(result\[0\]: float32\[3, 5\], result\[1\]: float32\[\]\)"
    )
    assert re.fullmatch(rf"<Executable {signature}, cpu \([\w-]+\)>", repr(executable))
    assert re.fullmatch(
        rf"<CompiledProgram {signature}, \d+ KiB for cpu \([\w-]+\)>", repr(api.compile_program(export(mlp, X, W)))
    )
    assert repr(executable.stages).startswith("<stages stablehlo, hlo, ")
    assert repr(shlo.Options()) == "Options()"
    assert repr(shlo.Options(threads=1, cpu="avx2")) == "Options(threads=1, cpu='avx2')"
    function = shlo.jit(mlp)
    assert repr(function) == "<shlo.jit of mlp, compiled for 0 signatures>"
    function(X, W)
    assert repr(function) == "<shlo.jit of mlp, compiled for 1 signature>"
    many = export(lambda *xs: sum(xs), *[X] * 100)
    assert len(repr(shlo.compile(many))) < 250 and "96 more" in repr(shlo.compile(many))
    symbolic = shlo.compile("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    assert re.fullmatch(
        r"<SymbolicExecutable \(\w+: float32\[\?\]\) -> \(result0: float32\[\?\]\), one program for all shapes>",
        repr(symbolic),
    )


def test_dir_lists_the_public_names() -> None:
    script = "import stablehlo_py as shlo; print(*dir(shlo))"
    names = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert names == sorted([*shlo.__all__, "aot", "__version__"])
    assert all(getattr(shlo, name) is not None for name in names)


def test_every_kind_of_executable_has_one_interface(executable: shlo.Executable) -> None:
    text = "func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> { return %x : tensor<?x8xf32> }"
    symbolic = shlo.compile(text)
    x = np.ones((3, 8), np.float32)
    for model, arguments in ((executable, (X, W)), (symbolic, (x,)), (symbolic.specialize((3, 8)), (x,))):
        assert isinstance(model, shlo.CompiledModel)
        plan = model.memory_plan(*arguments)
        assert plan.input_bytes == sum(argument.nbytes for argument in arguments)
        assert plan.output_bytes == sum(result.nbytes for result in model(*arguments))
        assert plan.arena_bytes >= 0 and plan.constant_bytes == 0
        assert len(repr(plan)) < 200
    assert executable.memory_plan() == executable.memory_plan(X, W)
    with pytest.raises(shlo.ArgumentError):
        executable.memory_plan(X)


def test_a_memory_plan_is_printed_a_value_a_line() -> None:
    x = np.ones((64, 64), np.float32)
    plan = shlo.compile(export(lambda x: jnp.sort(jnp.sort(x @ x, 0) @ x, 1) @ x, x)).memory_plan()
    head, *lines = str(plan).splitlines()
    assert head == f"arena {plan.arena_bytes} bytes, inputs 16384, outputs 16384, constants 0"
    assert len(lines) == len(plan.entries) > 0 and max(map(len, lines)) < 200
