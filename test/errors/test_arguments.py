"""Wrong arguments of calls, options and jit: what is said, and that every wrong one is named."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo

TEXT = """func.func @main(%x: tensor<3x4xf32>, %n: tensor<i32>, %b: tensor<5xbf16>) -> tensor<3x4xf32> {
  return %x : tensor<3x4xf32>
}"""
X, N, B = np.zeros((3, 4), np.float32), np.int32(1), np.zeros(5, ml_dtypes.bfloat16)


@pytest.fixture(scope="module")
def model() -> shlo.Executable:
    return shlo.compile(TEXT)


def failure(model: shlo.Executable, *arguments: object) -> shlo.ArgumentError:
    with pytest.raises(shlo.ArgumentError) as caught:
        model(*arguments)
    assert caught.value.code == "argument"
    assert isinstance(caught.value, TypeError)
    assert all(problem.remedy for problem in caught.value.problems)
    return caught.value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["got 0 arguments", "takes 3", "float32[3, 4]"]),
        ((X, N), ["got 2 arguments"]),
        ((X, N, B, B), ["got 4 arguments"]),
        ((X.T, N, B), ["shape (4, 3)", "(3, 4)"]),
        ((X[None], N, B), ["shape (1, 3, 4)"]),
        ((X, np.zeros(1, np.int32), B), ["shape (1,)"]),
        ((X.astype(np.float64), N, B), ["dtype float64", "float32", "astype('float32')"]),
        ((X, 1.5, B), ["dtype float64", "int32"]),
        ((X, np.int64(1), B), ["dtype int64"]),
        ((X, N, B.astype(np.float16)), ["dtype float16", "bfloat16"]),
        ((X, N, B.view(np.uint16)), ["dtype uint16"]),
        ((X.astype(">f4"), N, B), ["byte order", "newbyteorder"]),
        ((X.astype(">f8"), N, B), ["dtype"]),
        ((object(), N, B), ["dtype object", "pass an array"]),
        (([[1.0, 2.0], [3.0]], N, B), ["not an array"]),
        ((X, 2**40, B), ["not an array"]),
        ((X, "one", B), ["dtype"]),
        ((X, None, B), ["dtype object"]),
    ],
)
def test_what_is_said(model: shlo.Executable, arguments: tuple[object, ...], words: list[str]) -> None:
    message = str(failure(model, *arguments))
    for word in words:
        assert word in message


def test_all_wrong_arguments_are_named(model: shlo.Executable) -> None:
    error = failure(model, X[0], 1.5, B[:2])
    assert len(error.problems) == 3
    for problem, name in zip(error.problems, model.inputs, strict=True):
        assert name.name in problem.reason


@pytest.mark.parametrize("number", [1, True, np.int32(1), np.array(1, np.int32)])
def test_python_numbers_are_scalars(model: shlo.Executable, number: object) -> None:
    np.testing.assert_array_equal(model(X, number, B)[0], X)


def test_python_numbers_take_the_models_type() -> None:
    text = "func.func @main(%x: tensor<ELEMENT>) -> tensor<ELEMENT> { return %x : tensor<ELEMENT> }"
    for element, number in (("f32", 2), ("bf16", 0.5), ("complex<f32>", 1.5), ("i1", True), ("f64", True)):
        (result,) = shlo.compile(text.replace("ELEMENT", element))(number)
        assert result == number
    for element, number in (("i32", 2.0), ("f32", 1j), ("i1", 1), ("i8", 300)):
        with pytest.raises(shlo.ArgumentError):
            shlo.compile(text.replace("ELEMENT", element))(number)


def test_buffers(model: shlo.Executable) -> None:
    x, n, b = model.put(X), model.put(N), model.put(B)
    for buffers, words in (([x, n], "got 2 buffers"), ([n, x, b], "is not the input")):
        with pytest.raises(shlo.ArgumentError, match=words):
            model.call(buffers)
    with pytest.raises(shlo.ArgumentError):
        model.put(np.zeros(7))
    with pytest.raises(shlo.ArgumentError):
        shlo.compile("func.func @main() { return }").put(X)
    np.testing.assert_array_equal(model.call([x, n, b])[0], X)


SYMBOLIC = """func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %z = stablehlo.add %x, %y : tensor<?x4xf32>
  return %z : tensor<?x4xf32>
}"""


def test_symbolic_shapes() -> None:
    model = shlo.compile(SYMBOLIC)
    assert isinstance(model, shlo.SymbolicExecutable)
    np.testing.assert_array_equal(model(X, X + 1)[0], X + X + 1)
    for arguments in ((X,), (X, X[:, :3]), (X, X.astype(np.float64)), (X[0], X)):
        with pytest.raises(shlo.ArgumentError):
            model(*arguments)
    with pytest.raises(shlo.ArgumentError, match="fits no input"):
        model.put(np.zeros((2, 5), np.float32))
    mine = X.copy()
    buffer = model.put(mine)
    mine += 1
    np.testing.assert_array_equal(model.call([buffer, buffer])[0], X + X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"threads": 129}, "1 to 128"),
        ({"opt_level": 2}, "opt_level"),
        ({"target": "pdp11"}, "avx2"),
        ({"disable": ("no-such-rule",)}, "no pass or rule 'no-such-rule'"),
        ({"disable": ("simplfy",)}, "did you mean 'simplify'"),
        ({"disable": ("fusion",)}, "cannot be disabled"),
    ],
)
def test_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(shlo.OptionError, match=words) as caught:
        shlo.compile(TEXT, options=shlo.Options(**options))  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)


def test_passes_and_rules_can_be_disabled() -> None:
    text = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %z = stablehlo.transpose %y, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %s = stablehlo.sine %z : tensor<4x4xf32>
      %t = stablehlo.sine %z : tensor<4x4xf32>
      %u = stablehlo.add %s, %t : tensor<4x4xf32>
      return %u : tensor<4x4xf32>
    }"""

    def optimized(*disabled: str) -> str:
        return shlo.compile(text, options=shlo.Options(disable=disabled)).stages["optimized"]

    assert (optimized().count("hlo.transpose"), optimized().count("hlo.sine")) == (0, 1)
    assert optimized("transpose-twice").count("hlo.transpose") > 0
    assert optimized("cse").count("hlo.sine") == 2


def test_jit_follows_the_dtypes_of_jax() -> None:
    import jax
    import jax.numpy as jnp

    multiply = lambda x, y: x * y  # noqa: E731
    for x, y in (
        (np.ones(3), 2.0),
        (jnp.ones(3, jnp.bfloat16), 2.0),
        (np.arange(3), True),
        (np.float64(3), 1),
        (np.arange(3, dtype=np.int8), np.int64(3)),
    ):
        ours, theirs = shlo.jit(multiply)(x, y), jax.jit(multiply)(x, y)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    scaled = shlo.jit(lambda n: n * jnp.ones(2, jnp.int32), static_argnums=0)
    assert [scaled(n).dtype.kind for n in (1, 1.0, 1)] == ["i", "f", "i"]
    with pytest.raises(shlo.ArgumentError, match="key_data"):
        shlo.jit(lambda key: jax.random.normal(key))(jax.random.key(0))
