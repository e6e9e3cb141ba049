"""The edge of the package: every public function and method has the guard, and the guard lets through what it must."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import boundary
from stablehlo_py.jitted import Jitted
from stablehlo_py.runtime.streams import Stream

# Without the guard: what the user's own function raises while JAX traces it is the user's to see.
OPEN = {"Jitted.__call__", "Jitted.lower"}
# Calls that are public in spite of their names.
CALLS = ("__call__", "__getitem__")


def public_functions() -> Iterator[tuple[str, Any]]:
    values = [getattr(shlo, name) for name in shlo.__all__]
    classes = [value for value in values if inspect.isclass(value) and not issubclass(value, BaseException)]
    yield from ((value.__name__, value) for value in values if not inspect.isclass(value) and callable(value))
    for class_ in (*classes, Jitted, Stream, type(shlo.compile(TEXT).stages)):
        for owner in (each for each in class_.__mro__ if each.__module__.startswith("stablehlo_py")):
            for name, value in vars(owner).items():
                if isinstance(value, (staticmethod, classmethod)):
                    value = value.__func__
                if isinstance(value, property):
                    value = value.fget
                if inspect.isfunction(value) and (not name.startswith("_") or name in CALLS):
                    yield f"{owner.__name__}.{name}", value


TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.sine %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
SYMBOLIC = TEXT.replace("4x", "?x")
X = np.ones(4, np.float32)


def test_every_public_function_has_the_guard() -> None:
    found = dict(public_functions())
    assert {"compile", "Executable.__call__", "Executable.stages", "Stream.put", "Options.of", "get_include"} <= set(
        found
    )
    abstract = {name for name, each in found.items() if getattr(each, "__isabstractmethod__", False)}
    without = {name for name, each in found.items() if not hasattr(each, boundary.GUARDED)}
    assert without == abstract | OPEN


@pytest.mark.parametrize(
    "call",
    [
        lambda exe, buffer: exe(X),
        lambda exe, buffer: exe.put(X),
        lambda exe, buffer: exe.call([buffer]),
        lambda exe, buffer: exe.memory_plan(),
        lambda exe, buffer: exe.report(),
        lambda exe, buffer: exe.seed(1),
        lambda exe, buffer: exe.stages,
    ],
)
def test_what_nobody_expected_is_an_error_of_ours(
    call: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    exe = shlo.compile(TEXT)
    buffer = exe.put(X)
    for name in ("_loaded", "_program", "random_keys", "_stages"):
        monkeypatch.delattr(exe, name)
    with pytest.raises(shlo.InternalError, match="AttributeError") as caught:
        call(exe, buffer)
    assert isinstance(caught.value.__cause__, AttributeError)


class Alarm:
    """A handler of SIGALRM in every form that Python takes."""

    def method(self, number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the alarm")

    __call__ = method


HANDLERS: dict[str, Any] = {
    "method": Alarm().method,
    "partial": functools.partial(Alarm.method, Alarm()),
    "object": Alarm(),
    "lambda": lambda number, frame: Alarm().method(number, frame),
}


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("source", [TEXT, SYMBOLIC])
def test_what_a_handler_of_a_signal_raises_leaves_as_it_is(
    handler: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it interrupts: while a program is compiled or called. Python drops what is raised while an object is
    finalized: then the alarm comes once more."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: signal.setitimer(signal.ITIMER_REAL, 0.02))
    exe = shlo.compile(source)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: [shlo.compile(source, options=shlo.Options(isolate=False)) for _ in range(1000)],
        lambda: [exe(X) for _ in range(10**6)],
        lambda: [exe.put(X) for _ in range(10**6)],
        lambda: [exe.report() for _ in range(10**6)],
    )
    for call in calls:
        before = signal.signal(signal.SIGALRM, HANDLERS[handler])
        try:
            with pytest.raises(TimeoutError, match="the alarm"):
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_errors_that_explain_others_let_pass_what_must_leave_as_it_is() -> None:
    """Where any exception becomes an error of ours, one that a handler raised may be meant as well."""
    package = Path(shlo.__file__).parent
    found = 0
    for path in (each for each in package.rglob("*.py") if not {"debug", "cli", "suite"} & set(each.parts)):
        for handler in ast.walk(ast.parse(path.read_text())):
            if isinstance(handler, ast.ExceptHandler) and ast.unparse(handler.type or ast.Name("")) == "Exception":
                text = ast.unparse(handler)
                if re.search(r"\braise \w.* from error", text):
                    found += 1
                    assert "is_expected(error)" in text, f"{path}:{handler.lineno}"
    assert found > 8


def test_no_public_name_is_a_submodule() -> None:
    """Importing the submodule would put it in the place of what the name means."""
    assert [name for name in shlo.__all__ if find_spec(f"stablehlo_py.{name}")] == []


def test_other_threads_have_no_handlers() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            boundary.public(lambda: 1 // 0)()
        except shlo.ShloError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [type(each) for each in caught] == [shlo.InternalError]
