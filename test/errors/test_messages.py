"""What errors say to a person: short, with what to do; and what they are to a program."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.boundary import public
from stablehlo_py.errors import Problem, elided

TEXT = """func.func @main(%x: tensor<3x4xf32>, %y: tensor<5xi32>) -> tensor<3x4xf32> {
  return %x : tensor<3x4xf32>
}"""
X, Y = np.zeros((3, 4), np.float32), np.zeros(5, np.int32)


def test_a_model_with_hundreds_of_inputs_called_without_arguments_says_so_in_a_few_lines() -> None:
    arguments = ", ".join(f"%a{number}: tensor<16x16xf32>" for number in range(300))
    model = shlo.compile(f"func.func @main({arguments}) -> tensor<16x16xf32> {{ return %a0 : tensor<16x16xf32> }}")
    with pytest.raises(shlo.ArgumentError, match="got 0 arguments, the model takes 300") as caught:
        model()
    assert "and 292 more" in str(caught.value) and len(str(caught.value)) < 500
    with pytest.raises(shlo.ArgumentError) as caught:
        model(*[np.zeros(3)] * 300)
    assert len(caught.value.problems) == 300
    assert "and 292 more: the error's `problems` holds all" in str(caught.value) and len(str(caught.value)) < 2000


def test_swapped_arguments_are_told_from_wrong_ones() -> None:
    model = shlo.compile(TEXT)
    with pytest.raises(shlo.ArgumentError, match="arguments arg0 and arg1 fit when swapped"):
        model(Y, X)
    with pytest.raises(shlo.ArgumentError) as caught:
        model(Y, Y[:2])
    assert "swapped" not in str(caught.value) and len(caught.value.problems) == 2


def test_shapes_of_symbolic_models_are_printed_with_question_marks() -> None:
    model = shlo.compile("func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> { return %x : tensor<?x4xf32> }")
    with pytest.raises(shlo.ArgumentError) as caught:
        model(X.T)
    assert "the model wants (?, 4)" in str(caught.value)
    assert "None" not in str(caught.value) and "export" not in str(caught.value)


def test_a_compiled_executable_given_to_compile_names_load_executable(tmp_path: Path) -> None:
    file = tmp_path / "model.shloexe"
    shlo.compile(TEXT).save(file)
    with pytest.raises(shlo.LoadError, match="load_executable"):
        shlo.compile(file)
    (tmp_path / "model.mlir").write_text(TEXT)
    with pytest.raises(shlo.LoadError, match=r"call stablehlo_py\.compile"):
        shlo.load_executable(tmp_path / "model.mlir")


def test_an_unknown_custom_call_is_told_what_to_do_not_seventy_names() -> None:
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %y = stablehlo.custom_call @qqqqqqqq(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %y : tensor<3xf32>
    }"""
    with pytest.raises(shlo.UnsupportedError) as caught:
        shlo.compile(text)
    assert str(caught.value).endswith("help: bind it with stablehlo_py.register_custom_call")


def test_a_stage_that_does_not_exist_is_a_near_miss_and_a_key_error() -> None:
    stages = shlo.compile(TEXT).stages
    with pytest.raises(KeyError, match="did you mean 'fused'"):
        stages["fuse"]
    assert stages.get("fuse") is None and "fuse" not in stages


@pytest.mark.parametrize("disable", ["licm, cse", ["licm", "cse"], {"licm", "cse"}])
def test_names_of_passes_may_come_in_one_text_or_any_collection(disable: object) -> None:
    options = shlo.Options(disable=disable)  # type: ignore[arg-type]
    assert sorted(options.disable) == ["cse", "licm"]
    shlo.compile(TEXT, options=options)


def test_options_that_are_no_options_are_refused() -> None:
    with pytest.raises(shlo.OptionError, match=r"pass stablehlo_py\.Options"):
        shlo.compile(TEXT, options={})  # type: ignore[arg-type]
    with pytest.raises(shlo.OptionError, match="threads is '2'"):
        shlo.Options(threads="2")  # type: ignore[arg-type]
    assert shlo.Options(threads=np.int64(2)) == shlo.Options(threads=2)  # type: ignore[arg-type]


def test_arrays_where_handles_are_wanted_and_positions_that_are_none() -> None:
    model = shlo.compile(TEXT)
    with pytest.raises(shlo.ArgumentError, match="a ndarray is passed where a buffer is wanted"):
        model.call([X, Y])  # type: ignore[list-item]
    with pytest.raises(shlo.ArgumentError, match="no input at position 7"):
        model.put(X, 7)


def test_a_tracer_of_jax_is_named() -> None:
    import jax

    model = shlo.compile(TEXT)
    with pytest.raises(shlo.ArgumentError, match="is a tracer of JAX"):
        jax.jit(lambda x: model(x, Y))(X)


def test_an_array_conversion_that_raises_is_the_cause() -> None:
    class Broken:
        def __array__(self) -> None:
            raise ZeroDivisionError("broken")

    with pytest.raises(shlo.ArgumentError, match="argument arg1 is not an array: broken") as caught:
        shlo.compile(TEXT)(X, Broken())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_half_a_surrogate_pair_in_text_has_a_line() -> None:
    with pytest.raises(shlo.LoadError) as caught:
        shlo.compile("func.func @main() {\n  \ud800\n  return\n}")
    assert caught.value.location == "<text>:2"


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("3x4", "?x4")])
def test_executables_are_copied_and_pickled_with_code_of_their_own(text: str) -> None:
    model = shlo.compile(text)
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copied(X, Y)[0], X)


def test_buffers_are_not_copied_since_calls_may_give_their_memory_away() -> None:
    buffer = shlo.compile(TEXT).put(X)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(shlo.ArgumentError, match="cannot be copied"):
            duplicate(buffer)


def test_errors_are_pickled_whole() -> None:
    error = shlo.LoadError("a title", problems=[Problem("first", "a.py:1:2", "add", "do"), Problem("second")])
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is shlo.LoadError and str(copied) == str(error) and copied.problems == error.problems


def test_lists_are_elided() -> None:
    assert elided("abc") == "a, b, c"
    assert elided("abcde", most=2) == "a, b and 3 more"


def test_what_nobody_expected_leaves_a_public_function_as_an_error_of_ours() -> None:
    @public
    def function(error: BaseException) -> None:
        raise error

    for raised, kind, words in (
        (KeyError("x"), shlo.InternalError, "defect of stablehlo-py"),
        (MemoryError(), shlo.ResourceError, "memory ran out"),
        (RecursionError(), shlo.UnsupportedError, "nested too deeply"),
        (ModuleNotFoundError("no", name="jaxlib.mlir"), shlo.ResourceError, "'jaxlib' is missing"),
    ):
        with pytest.raises(kind, match=words) as caught:
            function(raised)
        assert caught.value.__cause__ is raised
    for raised in (KeyboardInterrupt(), DeprecationWarning(), shlo.LoadError("bad")):
        with pytest.raises(type(raised)) as untouched:
            function(raised)
        assert untouched.value is raised
    with pytest.raises(TypeError, match="unexpected keyword"):
        function(wrong=1)  # type: ignore[call-arg]
