"""Junk for every parameter of every public function: what comes out is a ShloError, and no InternalError.

A message is for reading: at most 2,000 characters, in lines of at most 200.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import handlers

LONGEST_MESSAGE, LONGEST_LINE = 2000, 200

TEXT = """func.func @main(%x: tensor<3x4xf32>, %n: tensor<i32>) -> tensor<3x4xf32> {
  %y = stablehlo.add %x, %x : tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}"""
SYMBOLIC = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = stablehlo.add %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}"""
GRID = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
X = np.zeros((3, 4), np.float32)
TARGET = "test.misuse"


def _raises(self: object, *arguments: object, **keywords: object) -> Any:
    raise ZeroDivisionError("what an object of the user's raises")


_HOOKS = """array array_interface array_struct bool bytes call dlpack dlpack_device eq format fspath getitem hash index
    int iter len lt repr str""".split()
Hostile = type("Hostile", (), {f"__{hook}__": _raises for hook in _HOOKS})
FalsePath = type("FalsePath", (), {"__fspath__": lambda self: 7})
RaisingArray = type("RaisingArray", (), {"__array__": _raises})

JUNK: dict[str, object] = {
    "none": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "huge": 2**70,
    "fraction": 1.5,
    "nan": float("nan"),
    "complex": 1j,
    "empty text": "",
    "text": "text",
    "long text": "x" * 5000,
    "many lines": "line\n" * 500,
    "zero byte": "a\0b",
    "surrogate": "a\udcff",
    "half a pair in text": "func.func @main() {\n return \ud800 }",
    "bytes": b"junk",
    "empty bytes": b"",
    "bytecode": b"ML\xefRjunk",
    "archive": b"PK\x03\x04" + b"junk" * 20,
    "buffer": memoryview(b"junk"),
    "list": [],
    "ragged list": [[1.0], [2.0, 3.0]],
    "list of none": [None, None],
    "tuple": (),
    "dictionary": {},
    "full dictionary": {"threads": 2},
    "set": {1},
    "object": object(),
    "class": dict,
    "function": lambda *arguments: arguments,
    "generator": (each for each in ()),
    "module": np,
    "path": Path("/nowhere/at/all"),
    "folder": Path("/"),
    "false path": FalsePath(),
    "array": np.zeros(3),
    "objects": np.array([object(), None]),
    "texts": np.array(["a", "b"]),
    "times": np.zeros(2, "M8[s]"),
    "records": np.zeros(2, [("a", "i4")]),
    "long doubles": np.zeros(2, np.longdouble),
    "masked": np.ma.masked_array(X, X == 0),
    "matrix": np.asmatrix(X),
    "big-endian": X.astype(">f4"),
    "foreign floats": np.zeros(2, ml_dtypes.float8_e4m3fn),
    "array that raises": RaisingArray(),
    "hostile": Hostile(),
    "hostile class": Hostile,
    "options": shlo.Options(),
    "error": shlo.LoadError("an error"),
}


def check(error: BaseException) -> None:
    """What every error of ours keeps to."""
    assert isinstance(error, shlo.ShloError), f"{type(error).__name__}: {error!r}"
    assert not isinstance(error, shlo.InternalError), str(error)
    message = str(error)
    assert len(message) <= LONGEST_MESSAGE, f"{len(message)} characters: {message[:300]}"
    assert max(map(len, message.splitlines())) <= LONGEST_LINE, message
    assert str(pickle.loads(pickle.dumps(error))) == str(copy.copy(error)) == message


def attempt(function: Callable[..., object], /, *arguments: object, **keywords: object) -> None:
    """Call; whatever it raises is checked."""
    try:
        function(*arguments, **keywords)
    except Exception as error:
        check(error)


FEED = """func.func @main(%t: !stablehlo.token) -> tensor<3xi32> {
  %r:2 = "stablehlo.infeed"(%t) {infeed_config = ""} : (!stablehlo.token) -> (tensor<3xi32>, !stablehlo.token)
  return %r#0 : tensor<3xi32>
}"""
MODELS = {
    "Executable": (TEXT, shlo.Options()),
    "SymbolicExecutable": (SYMBOLIC, shlo.Options()),
    "specializations": (SYMBOLIC, shlo.Options(dynamic="specialize")),
    "GridExecutable": (GRID, shlo.Options(num_replicas=2)),
    "infeed": (FEED, shlo.Options()),
}


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Some junk is the name of a file, of a folder, or of a custom call."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(handlers, "_bound", dict(handlers._bound))


@functools.cache
def model(name: str) -> Any:
    text, options = MODELS[name]
    return shlo.compile(text, options=options)


# Every function, and what its parameters are where it is another one that is tried.
FUNCTIONS: dict[str, dict[str, object]] = {
    "compile": {"source": TEXT, "target": "cpu", "entry": None, "options": None},
    "load": {"source": TEXT, "context": None, "entry": None, "isolate": False},
    "load_executable": {"path": b"", "sha256": "0" * 64},
    "load_library": {"path": "/nowhere/at/all.so", "name": None, "constants": None, "threads": 1},
    "aot.compile": {
        "source": TEXT,
        "name": "model",
        "emit": "object",
        "target": "cpu",
        "triple": None,
        "cpus": (),
        "threads": "off",
        "constants": "embed",
        "bindings": (),
        "entry": None,
        "options": None,
    },
    "register_custom_call": {"name": TARGET, "function": lambda x: x, "platform": "cpu"},
    "unregister_custom_call": {"name": TARGET, "platform": "cpu"},
    **{
        f"{name}.{method}": parameters
        for name in ("Executable", "SymbolicExecutable", "GridExecutable")
        for method, parameters in {
            "put": {"array": X, "position": 0, "copy": True},
            "call": {"buffers": []},
            "seed": {"number": 0},
            "save": {"path": "/nowhere/at/all/x"},
        }.items()
    },
    "GridExecutable.call_grid": {"arguments": [[[X[0]]], [[X[0]]]], "timeout": 10.0},
    "GridExecutable.channel": {"number": 0},
    "infeed.infeed.put": {"replica": 0, "partition": 0, "timeout": 0.1},
    "infeed.outfeed.get": {"replica": 0, "partition": 0, "timeout": 0.01},
    "SymbolicExecutable.specialize": {"values": {}},
}


def function_of(name: str) -> Any:
    first, *rest = name.split(".")
    if first == "aot":
        return getattr(shlo.aot, *rest)
    return functools.reduce(getattr, rest, model(first)) if rest else getattr(shlo, first)


# What would be right, or would wait for ever.
RIGHT = {
    (name, "timeout", kind) for name in ("infeed.outfeed.get", "GridExecutable.call_grid") for kind in ("none", "huge")
}


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, parameter) for name, parameters in FUNCTIONS.items() for parameter in parameters]
)
def test_junk_for_a_parameter(name: str, parameter: str) -> None:
    function, parameters = function_of(name), FUNCTIONS[name]
    for kind, junk in JUNK.items():
        if (name, parameter, kind) not in RIGHT:
            attempt(function, **parameters | {parameter: junk})


@pytest.mark.parametrize("field", [name for name in inspect.signature(shlo.Options).parameters if name != "target"])
def test_junk_for_an_option(field: str) -> None:
    for junk in JUNK.values():
        attempt(lambda junk=junk: shlo.compile(TEXT, options=shlo.Options(**{field: junk})))


@pytest.mark.parametrize("kind", JUNK)
def test_junk_as_an_argument_of_a_call(kind: str) -> None:
    junk, open_ = JUNK[kind], model("SymbolicExecutable")
    for call in (*map(model, MODELS), open_.memory_plan, open_.specialize, model("infeed").infeed.put):
        attempt(call, junk)
        attempt(call, junk, junk)
    attempt(model("Executable"), X, junk)
    for executable in map(model, MODELS):
        attempt(executable.call, [junk, junk])
    for executable in (model("Executable"), open_):
        attempt(executable.stages.__getitem__, junk)
    attempt(model("GridExecutable").call_grid, [[[junk]], [[junk]]])


@pytest.mark.parametrize("kind", JUNK)
def test_junk_for_jit(kind: str) -> None:
    junk = JUNK[kind]
    for parameter in ("static_argnums", "static_argnames", "target", "options"):
        attempt(lambda parameter=parameter: shlo.jit(lambda x: x + 1, **{parameter: junk})(X))
    if not callable(junk):
        attempt(shlo.jit, junk)
    attempt(shlo.jit(lambda x: x), junk)
    attempt(shlo.jit(lambda x, y: x, static_argnums=1), X, junk)


def test_wrong_numbers_and_names_of_arguments_are_pythons_own_errors() -> None:
    for function in (shlo.compile, shlo.load, shlo.load_executable, shlo.register_custom_call):
        with pytest.raises(TypeError, match="argument") as caught:
            function(no_such_parameter=1)  # type: ignore[call-arg]
        assert not isinstance(caught.value, shlo.ShloError)


def test_every_public_function_is_tried() -> None:
    """What is new in the package's list has to be added here."""
    classes = {name for name in shlo.__all__ if inspect.isclass(getattr(shlo, name))}
    assert set(shlo.__all__) - classes - {"get_include", "jit"} <= set(FUNCTIONS)
    for executable in map(model, MODELS):
        for name, method in inspect.getmembers(type(executable), inspect.isfunction):
            if name.startswith("_") or not set(inspect.signature(method).parameters) - {"self"}:
                continue
            tried = {each.partition(".")[2] for each in FUNCTIONS} | {"memory_plan", "of_program"}
            assert name in tried, name
