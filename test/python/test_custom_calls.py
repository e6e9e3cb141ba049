"""Custom calls that users bind: Python functions, and C functions as include/shlo_custom_call.h describes them. So
they are called by programs for the CPU, and by those for a device."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.custom_calls import known_custom_calls
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import CallError, LoadError, OptionError, UnsupportedError
from stablehlo_py.runtime import callbacks

OPTIONS = shlo.Options(threads=2, cache_dir=None)
TARGET: list[str] = []
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _forget_afterwards() -> Iterator[None]:
    from stablehlo_py import handlers

    before = dict(handlers._bound)
    yield
    handlers._bound.clear()
    handlers._bound.update(before)


def one_call(
    operand: str = "tensor<2x3xf32>",
    result: str = "tensor<2x3xf32>",
    configuration: str = "",
    more: str = "",
    target: str = "test.target",
) -> str:
    return f"""func.func @main(%x: {operand}) -> {result} {{
      %0 = stablehlo.custom_call @{target}(%x) {{
        api_version = 4 : i32, backend_config = {{{configuration}}}{more}}} : ({operand}) -> {result}
      return %0 : {result}
    }}"""


@pytest.fixture(autouse=True, params=["cpu", "opencl", "c"])
def _target(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "opencl":
        request.getfixturevalue("real_device")
    TARGET.append(request.param)
    yield
    TARGET.clear()


def compiled(text: str, options: shlo.Options = OPTIONS) -> shlo.Executable:
    """For the target of the test."""
    return shlo.compile(text, target=TARGET[0], options=options)


def run(text: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return compiled(text)(*arrays)


# --- Python -----------------------------------------------------------------------------------------------------------


def test_a_python_function() -> None:
    shlo.register_custom_call("test.target", lambda x: x * 2)
    (result,) = run(one_call(), X)
    np.testing.assert_array_equal(result, 2 * X)


def test_attributes_are_keywords() -> None:
    seen: dict[str, object] = {}

    def function(x: np.ndarray, **attributes: object) -> np.ndarray:
        seen.update(attributes)
        return x

    shlo.register_custom_call("test.target", function)
    configuration = """flag = true, small = -3 : i8, unsigned = 250 : ui8, wide = 5 : i64, half = 1.5 : f32,
        whole = 2.5, name = "café", list = array<i64: 1, 2, 3>, floats = array<f32: 0.5, 1.5>,
        table = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, empty = array<i32>,
        nested = {inner = {number = 7 : i16, name = "deep"}, none = {}, flag = false}"""
    run(one_call(configuration=configuration), X)
    assert seen.pop("nested") == {"inner": {"number": 7, "name": "deep"}, "none": {}, "flag": False}
    arrays = {name: seen.pop(name) for name in ("list", "floats", "table", "empty")}
    assert seen == {
        "flag": True, "small": -3, "unsigned": 250, "wide": 5, "half": 1.5, "whole": 2.5, "name": "café"
    }  # fmt: skip
    assert type(seen["flag"]) is bool and type(seen["wide"]) is int
    for name, expected in {
        "list": np.array([1, 2, 3]),
        "floats": np.array([0.5, 1.5], np.float32),
        "table": np.array([1, 2, 3, 4], np.int32),
        "empty": np.array([], np.int32),
    }.items():
        np.testing.assert_array_equal(arrays[name], expected)
        assert arrays[name].dtype == expected.dtype  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_every_element_type(dtype: str) -> None:
    kind = ELEMENT_TYPES[dtype]
    seen = []

    def function(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x[::-1]

    shlo.register_custom_call("test.target", function)
    x = np.array([0, 1, 1], np.float32).astype(kind)
    (result,) = run(one_call(f"tensor<3x{dtype}>", f"tensor<3x{dtype}>"), x)
    assert seen[0].dtype == result.dtype == kind
    assert seen[0].tobytes() == x.tobytes() and result.tobytes() == x[::-1].tobytes()


def test_several_results_and_operands() -> None:
    text = """func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<i32>, tensor<0x2xf32>) {
      %0:3 = stablehlo.custom_call @test.target(%x, %n, %x) : (tensor<3xf32>, tensor<i32>, tensor<3xf32>)
        -> (tensor<3xf32>, tensor<i32>, tensor<0x2xf32>)
      return %0#0, %0#1, %0#2 : tensor<3xf32>, tensor<i32>, tensor<0x2xf32>
    }"""
    shlo.register_custom_call("test.target", lambda x, n, y: (x + y, n + 1, np.zeros((0, 2), np.float32)))
    x, n, empty = run(text, np.ones(3, np.float32), np.int32(4))
    assert x.tolist() == [2, 2, 2] and n == 5 and empty.shape == (0, 2)


def test_layouts_are_strides() -> None:
    seen = []

    def function(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x + 1

    shlo.register_custom_call("test.target", function)
    layouts = """, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
        result_layouts = [dense<[0, 1]> : tensor<2xindex>]"""
    (result,) = run(one_call(more=layouts), X)
    assert seen[0].flags.f_contiguous and not seen[0].flags.c_contiguous
    np.testing.assert_array_equal(seen[0], X)
    np.testing.assert_array_equal(result, X + 1)


def test_operands_are_copies_of_the_functions_own() -> None:
    kept = []

    def function(x: np.ndarray) -> np.ndarray:
        x += 1
        kept.append(x)
        return x

    shlo.register_custom_call("test.target", function)
    exe, x = compiled(one_call()), X.copy()
    exe(x)
    exe(x + 10)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(kept[0], X + 1)


def test_calls_without_results_run_in_order() -> None:
    text = """func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
      stablehlo.custom_call @test.print(%x) {has_side_effect = true, backend_config = "first"} : (tensor<f32>) -> ()
      %0 = stablehlo.add %x, %y : tensor<f32>
      stablehlo.custom_call @test.print(%y) {has_side_effect = true} : (tensor<f32>) -> ()
      stablehlo.custom_call @test.print(%0) {has_side_effect = true} : (tensor<f32>) -> ()
      %1 = stablehlo.custom_call @test.pure(%0) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    printed: list[tuple[float, dict]] = []
    shlo.register_custom_call("test.print", lambda x, **attributes: printed.append((float(x), attributes)))
    shlo.register_custom_call("test.pure", lambda x: pytest.fail("nobody uses the result"))
    run(text, np.float32(1), np.float32(2))
    assert printed == [(1.0, {"backend_config": "first"}), (2.0, {}), (3.0, {})]


def test_equal_calls_in_a_loop() -> None:
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
        cond {
          %n = stablehlo.constant dense<5> : tensor<i32>
          %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %j = stablehlo.add %i, %one : tensor<i32>
          %w = stablehlo.custom_call @test.target(%v) : (tensor<f32>) -> tensor<f32>
          stablehlo.return %j, %w : tensor<i32>, tensor<f32>
        }
      return %0#1 : tensor<f32>
    }"""
    shlo.register_custom_call("test.target", lambda x: x * np.float32(2))
    assert run(text, np.float32(3)) == (96.0,)


def test_from_several_threads() -> None:
    shlo.register_custom_call("test.target", lambda x: x * 2)
    exe = compiled(one_call())
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(20):
            (result,) = exe(X + number * step)
            if not (result == 2 * (X + number * step)).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_exception_names_the_op_and_the_line() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        raise ValueError("no such luck")

    shlo.register_custom_call("test.target", function)
    exe = compiled(one_call())
    for _ in range(2):
        with pytest.raises(CallError) as caught:
            exe(X)
        assert caught.value.location == "<text>:2:12" and caught.value.op == "stablehlo.custom_call"
        assert caught.value.reason == "the custom call 'test.target' failed: ValueError: no such luck"
        assert isinstance(caught.value.__cause__, ValueError)
    shlo.register_custom_call("test.target", lambda x: x)
    with pytest.raises(CallError):
        exe(X)  # a loaded program keeps its function
    assert (run(one_call(), X)[0] == X).all()


def test_equal_calls_at_different_lines_fail_at_their_own() -> None:
    text = """func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
      %0 = stablehlo.custom_call @test.target(%x) : (tensor<f32>) -> tensor<f32>
      %1 = stablehlo.custom_call @test.target(%0) : (tensor<f32>) -> tensor<f32>
      return %0, %1 : tensor<f32>, tensor<f32>
    }"""

    def function(x: np.ndarray) -> np.ndarray:
        if x > 5:
            raise ValueError("too large")
        return x + np.float32(3)

    shlo.register_custom_call("test.target", function)
    exe = compiled(text)
    assert exe(np.float32(1)) == (4, 7)
    for value, line in ((6, 2), (4, 3)):
        with pytest.raises(CallError) as caught:
            exe(np.float32(value))
        assert caught.value.location == f"<text>:{line}:12"


def test_a_failure_ends_a_loop_that_would_not_end() -> None:
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.while(%v = %x) : tensor<f32>
        cond {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %c = stablehlo.compare GT, %v, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %w = stablehlo.custom_call @test.target(%v) : (tensor<f32>) -> tensor<f32>
          stablehlo.return %w : tensor<f32>
        }
      return %0 : tensor<f32>
    }"""
    calls = []

    def function(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        if len(calls) == 3:
            raise RuntimeError("enough")
        return x

    shlo.register_custom_call("test.target", function)
    with pytest.raises(CallError, match="enough"):
        run(text, np.float32(1))
    assert len(calls) == 3


def test_ctrl_c_inside_a_function_is_ctrl_c() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    shlo.register_custom_call("test.target", function)
    with pytest.raises(KeyboardInterrupt):
        run(one_call(), X)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: None, "the function returned 0 results, the call has 1"),
        (lambda x: (x, x), "the function returned 2 results, the call has 1"),
        (lambda x: x.T, r"result 0 is float32\[3, 2\], the call has float32\[2, 3\]"),
        (lambda x: x.astype(np.float64), r"result 0 is float64\[2, 3\], the call has float32\[2, 3\]"),
        (lambda x, missing: x, "missing 1 required positional argument"),
    ],
)
def test_results_that_do_not_fit(returned: Callable[..., object], message: str) -> None:
    shlo.register_custom_call("test.target", returned)
    with pytest.raises(CallError, match=message):
        run(one_call(), X)


def test_a_long_message_is_cut() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        raise ValueError("é" * 5000)

    shlo.register_custom_call("test.target", function)
    with pytest.raises(CallError, match=r"ValueError: é{50}\.\.\.é"):
        run(one_call(), X)


def test_an_unknown_target_says_what_is_near() -> None:
    shlo.register_custom_call("test.target", lambda x: x)
    with pytest.raises(UnsupportedError) as caught:
        compiled(one_call(target="test.tarket"))
    machine = "GPU" if TARGET == ["opencl"] else "CPU"
    assert f"the target 'test.tarket' is not known to the {machine} backend" in str(caught.value)
    assert "did you mean 'test.target'?" in str(caught.value)
    assert "register_custom_call" in str(caught.value)


def test_attributes_that_have_no_form() -> None:
    shlo.register_custom_call("test.target", lambda x: x)
    with pytest.raises(UnsupportedError, match="the attribute 'nested' is"):
        compiled(one_call(configuration="nested = [1, 2]"))
    with pytest.raises(UnsupportedError, match="the attribute 'inner' is"):
        compiled(one_call(configuration="nested = {inner = unit}"))


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("lapack_sgetrf_ffi", len, "the compiler answers the target 'lapack_sgetrf_ffi' itself"),
        ("Sharding", len, "the compiler answers the target 'Sharding' itself"),
        ("", len, "a custom call's target is a name, not ''"),
        ("f", 0, "0 is no address of a function"),
        ("f", True, "True is not a function"),
        ("f", "text", "str is not a function"),
        ("f", ctypes.CFUNCTYPE(None)(), "the ctypes function is null"),
    ],
)
def test_what_cannot_be_registered(name: str, function: object, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        shlo.register_custom_call(name, function)


def test_platforms_and_names_that_are_not_there() -> None:
    with pytest.raises(OptionError, match="no backend for target 'abacus'"):
        shlo.register_custom_call("f", len, platform="abacus")
    with pytest.raises(OptionError, match="no custom call 'g' is registered"):
        shlo.unregister_custom_call("g")


def test_saved_and_cached_programs_need_their_targets(tmp_path: Path) -> None:
    options = shlo.Options(threads=1, cache_dir=tmp_path / "cache")
    shlo.register_custom_call("test.target", lambda x: x * 2)
    exe = compiled(one_call(), options)
    exe.save(tmp_path / "model.shlo")
    shlo.unregister_custom_call("test.target")
    for load in (
        lambda: shlo.load_executable(tmp_path / "model.shlo"),
        lambda: compiled(one_call(), options),
    ):
        with pytest.raises(LoadError) as caught:
            load()
        assert "the program calls 'test.target', which is not registered in this process" in str(caught.value)
        assert "stablehlo_py.register_custom_call('test.target', ...)" in str(caught.value)
    assert (exe(X)[0] == 2 * X).all()
    shlo.register_custom_call("test.target", lambda x: x * 3)
    assert (shlo.load_executable(tmp_path / "model.shlo")(X)[0] == 3 * X).all()


def test_any_name_is_a_name() -> None:
    shlo.register_custom_call("a.b::c$d é_", lambda x: -x)
    (result,) = run(one_call(target='"a.b::c$d é_"'), X)
    np.testing.assert_array_equal(result, -X)


def test_a_failure_in_one_process_of_a_grid_ends_all() -> None:
    text = """module attributes {mhlo.num_partitions = 2 : i32} {
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.custom_call @test.target(%x) : (tensor<f32>) -> tensor<f32>
        %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %2 = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %2 : tensor<f32>
        }) : (tensor<f32>) -> tensor<f32>
        return %1 : tensor<f32>
      }
    }"""

    def function(x: np.ndarray) -> np.ndarray:
        if x > 5:
            raise ValueError("too large")
        return x

    shlo.register_custom_call("test.target", function)
    exe = shlo.compile(text, options=OPTIONS)
    assert exe.call_grid([[[np.float32(1)], [np.float32(2)]]]) == [[(3,), (3,)]]
    with pytest.raises(CallError, match="too large") as caught:
        exe.call_grid([[[np.float32(1)], [np.float32(6)]]])
    assert caught.value.location == "<text>:3:14"


# --- through JAX ------------------------------------------------------------------------------------------------------


def test_jax_ffi_call() -> None:
    jax = pytest.importorskip("jax")

    def model(x: np.ndarray) -> object:
        y = jax.ffi.ffi_call("test.scale", jax.ShapeDtypeStruct(x.shape, x.dtype))(x + 1, factor=np.float32(3))
        return y.sum()

    shlo.register_custom_call("test.scale", lambda x, factor: x * np.float32(factor))
    assert shlo.jit(model, target=TARGET[0], options=OPTIONS)(X) == 3 * (X + 1).sum()


CAPSULE_NAME, XLA_NAME = b"shlo_custom_call", b"xla._CUSTOM_CALL_TARGET"

# --- C ----------------------------------------------------------------------------------------------------------------

SOURCE = r"""
#include "shlo_custom_call.h"

int32_t scale(const shlo_custom_call *call) {
  const shlo_buffer *x = &call->operands[0], *y = &call->results[0];
  const shlo_attribute *factor = shlo_find_attribute(call, "factor"), *label = shlo_find_attribute(call, "label");
  if (call->version != SHLO_CUSTOM_CALL_VERSION) return shlo_fail(call, "another version");
  if (x->dtype != SHLO_F32 || !factor || factor->kind != SHLO_SCALAR || factor->dtype != SHLO_F32)
    return shlo_fail(call, "scale takes float32 and a float32 attribute 'factor'");
  if (!label || label->kind != SHLO_STRING || strcmp(label->data, "twice")) return shlo_fail(call, "no label");
  for (int64_t i = 0; i < shlo_count(x); i++)
    ((float *)y->data)[i] = ((const float *)x->data)[i] * *(const float *)factor->data;
  return 0;
}

int32_t strides(const shlo_custom_call *call) {  /* result: dims and strides of the operand */
  int64_t *out = call->results[0].data;
  const shlo_buffer *x = &call->operands[0];
  for (int64_t d = 0; d < x->rank; d++) out[d] = x->dims[d], out[x->rank + d] = x->strides[d];
  return 0;
}

int32_t increment(const shlo_custom_call *call) {  /* in place: the result is the operand's alias */
  if (call->operands[0].data != call->results[0].data) return 1;
  float *x = call->results[0].data;
  for (int64_t i = 0; i < shlo_count(&call->results[0]); i++) x[i] += 1;
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("c")
    (folder / "calls.c").write_text(SOURCE)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-I", shlo.get_include()]
    subprocess.run([compiler, *flags, str(folder / "calls.c"), "-o", str(folder / "calls.so")], check=True)
    return ctypes.CDLL(str(folder / "calls.so"))


def _capsule(address: int | None, name: bytes) -> object:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(address, name, None)


@pytest.mark.parametrize("form", ["function", "address", "capsule"])
def test_a_c_function(library: ctypes.CDLL, form: str) -> None:
    address = ctypes.cast(library.scale, ctypes.c_void_p).value
    forms = {"function": library.scale, "address": address, "capsule": _capsule(address, CAPSULE_NAME)}
    shlo.register_custom_call("test.target", forms[form])
    (result,) = run(one_call(configuration='factor = 2.0 : f32, label = "twice"'), X)
    np.testing.assert_array_equal(result, 2 * X)


def test_a_c_function_that_fails(library: ctypes.CDLL) -> None:
    shlo.register_custom_call("test.target", library.scale)
    with pytest.raises(CallError) as caught:
        run(one_call(), X)
    assert str(caught.value).startswith(
        "error[call]: <text>:2:12: 'stablehlo.custom_call': the custom call 'test.target' failed: scale takes float32"
    )
    shlo.register_custom_call("test.target", library.increment)
    with pytest.raises(CallError, match="its function says no more"):
        run(one_call(), X)


def test_dimensions_and_strides_in_c(library: ctypes.CDLL) -> None:
    shlo.register_custom_call("test.target", library.strides)
    text = one_call("tensor<2x3x4xbf16>", "tensor<6xi64>")
    x = np.zeros((2, 3, 4), ml_dtypes.bfloat16)
    assert run(text, x)[0].tolist() == [2, 3, 4, 12, 4, 1]
    layouts = ", operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<0> : tensor<1xindex>]"
    text = one_call("tensor<2x3x4xbf16>", "tensor<6xi64>", more=layouts)
    assert run(text, x)[0].tolist() == [2, 3, 4, 12, 1, 3]


def test_aliases_in_c(library: ctypes.CDLL) -> None:
    alias = """, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0,
        operand_tuple_indices = []>]"""
    shlo.register_custom_call("test.target", library.increment)
    x = X.copy()
    (result,) = run(one_call(more=alias), x)
    np.testing.assert_array_equal(result, X + 1)
    np.testing.assert_array_equal(x, X)


def test_capsules_of_others_are_refused() -> None:
    with pytest.raises(
        OptionError, match=r"the capsule is named 'xla._CUSTOM_CALL_TARGET'\n  help: .*another signature"
    ):
        shlo.register_custom_call("test.target", _capsule(4096, XLA_NAME))


def test_the_header_says_what_the_structures_are() -> None:
    header = (Path(shlo.get_include()) / "shlo_custom_call.h").read_text()
    numbers = dict(re.findall(r"SHLO_(\w+) = (\d+)", header))
    letters = {"C64": "complex<f32>", "C128": "complex<f64>"}
    names = {letters.get(name, name).upper(): int(number) for name, number in numbers.items()}
    kinds = {name: names.pop(name) for name in ("SCALAR", "ARRAY", "STRING", "DICTIONARY")}
    assert kinds == {name: getattr(callbacks, name) for name in kinds}
    assert names == {name.upper(): number for name, number in callbacks.NUMBERS.items()}
    assert all(element_name(dtype) == name for name, dtype in ELEMENT_TYPES.items())
    for structure, type_ in (("shlo_buffer", callbacks._Buffer), ("shlo_attribute", callbacks._Attribute)):
        body = re.search(r"typedef struct \{([^}]*)\} " + structure, header)
        assert body is not None
        declared = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body[1]))
        assert declared == [name for name, _ in type_._fields_]


def test_the_page_lists_every_target() -> None:
    page = (Path(__file__).parents[2] / "docs" / "custom-calls.md").read_text()
    first_cells = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    listed = set()
    for pattern in re.findall(r"`([^`]+)`", " ".join(first_cells)):
        letters = re.search(r"\{([a-z,]+)\}|\?", pattern)
        chosen = (letters[1] or "s,d,c,z").split(",") if letters else [""]
        listed |= {pattern.replace(letters[0], letter) if letters else pattern for letter in chosen}
    assert listed == known_custom_calls()
