"""Native code that calls Python: whatever is raised there, at whatever line, ends the call and reaches the caller."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import grid_memory
from stablehlo_py.dialect.context import make_context
from stablehlo_py.errors import CallError, InternalError
from stablehlo_py.mlir import Diagnostic, diagnostics, ir
from stablehlo_py.runtime import callbacks, grid_call

OPTIONS = shlo.Options(threads=1)
CALLS = 50
# x, n times: f(x) + 1.
LOOP = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<{CALLS}> : tensor<i32>
  %ones = stablehlo.constant dense<1.0> : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4xf32>
    cond {{
      %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %c = stablehlo.custom_call @test.callback(%y) {{
        api_version = 4 : i32, backend_config = {{by = 1 : i32, name = "n"}}}} : (tensor<4xf32>) -> tensor<4xf32>
      %z = stablehlo.add %c, %ones : tensor<4xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
    }}
  return %r#1 : tensor<4xf32>
}}"""
ONE = LOOP.replace(f"dense<{CALLS}>", "dense<2>")
ECHO = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t0 = stablehlo.create_token : !stablehlo.token
  %in:2 = "stablehlo.infeed"(%t0) : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  %y = stablehlo.add %x, %in#0 : tensor<4xf32>
  %t1 = "stablehlo.outfeed"(%y, %in#1) : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  return %y : tensor<4xf32>
}"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def _callback() -> Iterator[None]:
    shlo.register_custom_call("test.callback", lambda x, by, name: x + np.float32(by))
    yield
    shlo.unregister_custom_call("test.callback")


class Injected(BaseException):
    """Raised by the tracer."""


class Tracer:
    """Raises at the event of a number (calls, lines and returns) in functions of some modules."""

    def __init__(self, modules: tuple[Any, ...], functions: set[str], number: int, error: BaseException) -> None:
        self._files = {str(Path(module.__file__).resolve()) for module in modules}
        self._functions, self._left, self._error = functions, number, error
        self.raised = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> Tracer | None:
        code = frame.f_code
        if code.co_name not in self._functions or str(Path(code.co_filename).resolve()) not in self._files:
            return None
        if event != "exception" and not self.raised:
            self._left -= 1
            if self._left < 0:
                self.raised = True
                raise self._error
        return self


@contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """In this thread, and in those that are started inside."""
    before = sys.gettrace()
    threading.settrace(tracer)
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]


def count_of_injections(run: Callable[[], None], modules: tuple[Any, ...], functions: set[str]) -> int:
    """Raise at each event in turn, until a run has no more of them. Every exception has to come out of `run`."""
    for number in range(2000):
        error = Injected(number)
        tracer = Tracer(modules, functions, number, error)
        with tracing(tracer):
            try:
                run()
            except Injected as caught:
                assert caught is error
            else:
                assert not tracer.raised, f"lost at event {number}"
                return number
    raise AssertionError("the run does not end")


@pytest.fixture(params=["cpu", "opencl"])
def target(request: pytest.FixtureRequest) -> str:
    """Where the program runs; functions run on the host."""
    if request.param != "cpu":
        request.getfixturevalue("real_device")
    return request.param


def test_no_exception_is_lost_at_any_line_of_a_custom_call(target: str) -> None:
    exe = shlo.compile(ONE, target=target, options=OPTIONS)

    def run() -> None:
        np.testing.assert_array_equal(exe(X)[0], X + 4)

    functions = {"handle", "_array", "_attribute", "_store", "<listcomp>", "<genexpr>"}
    assert count_of_injections(run, (callbacks,), functions) > 60
    run()


def test_no_exception_is_lost_at_any_line_of_a_transfer() -> None:
    exe = shlo.compile(ECHO, options=OPTIONS)

    def run() -> None:
        while len(exe.infeed._in[0]._items):
            exe.infeed.take(0, lambda: False)
        exe.infeed.put(X)
        np.testing.assert_array_equal(exe(X)[0], 2 * X)
        np.testing.assert_array_equal(exe.outfeed.get(timeout=5)[0], 2 * X)

    functions = {"answer", "_answer", "_stream", "_hand_in", "_take_out"}
    assert count_of_injections(run, (grid_memory, grid_call), functions) > 30
    run()


def test_ctypes_has_no_callbacks_of_ours() -> None:
    """It drops exceptions; host.py says what does not."""

    def count() -> int:
        return sum(type(each).__name__ == "CThunkObject" for each in gc.get_objects())

    keep = ctypes.CFUNCTYPE(None)(print)
    before = count()
    assert before > 0, keep
    executables = [shlo.compile(text, options=OPTIONS) for text in (LOOP, ECHO)]
    executables[1].infeed.put(X)
    assert [exe(X)[0][0] for exe in executables] == [2 * CALLS, 0]
    assert count() == before


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals are the main thread's")
def test_no_interrupt_is_lost_and_no_result_is_wrong(target: str, request: pytest.FixtureRequest) -> None:
    exe = shlo.compile(LOOP.replace(f"dense<{CALLS}>", "dense<500>"), target=target, options=OPTIONS)
    expected, chance = X + 1000, random.Random(0)
    begin = time.perf_counter()
    np.testing.assert_array_equal(exe(X)[0], expected)
    duration = time.perf_counter() - begin
    inside = 0
    gc.disable()  # JAX has a callback of the collector's in Python: an interrupt in there is lost
    request.addfinalizer(gc.enable)
    for _ in range(400):
        sender = threading.Timer(chance.uniform(0, duration), os.kill, (os.getpid(), signal.SIGINT))
        limit = time.monotonic() + 60
        returned = False
        with pytest.raises(KeyboardInterrupt):
            sender.start()
            (result,) = exe(X)
            np.testing.assert_array_equal(result, expected)
            returned = True
            while time.monotonic() < limit:  # it came too late for the call
                time.sleep(1e-4)
        inside += not returned
        sender.join()
    assert inside > 20


def test_an_exception_without_a_message() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    def function(x: np.ndarray, by: int, name: str) -> np.ndarray:
        raise Mute

    shlo.register_custom_call("test.callback", function)
    exe = shlo.compile(ONE, options=OPTIONS)
    with pytest.raises(CallError, match=r"failed: Mute: \(a message that cannot be had: RuntimeError\)") as caught:
        exe(X)
    assert isinstance(caught.value.__cause__, Mute)


def test_a_function_that_recurses_without_end() -> None:
    def function(x: np.ndarray, by: int, name: str) -> np.ndarray:
        return exe(x)[0]

    shlo.register_custom_call("test.callback", function)
    exe = shlo.compile(ONE, options=OPTIONS)
    limit = sys.getrecursionlimit()
    gc.disable()  # finalizers of what other tests left would fail at the end of the stack, too
    sys.setrecursionlimit(300)
    try:
        with pytest.raises(CallError) as caught:
            exe(X)
    finally:
        sys.setrecursionlimit(limit)
        gc.enable()
    error: BaseException | None = caught.value
    while isinstance(error, shlo.ShloError):
        error = error.__cause__
    assert isinstance(error, RecursionError)


def test_a_callback_of_ctypes_is_refused() -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda call: 0)
    with pytest.raises(shlo.OptionError, match="register the Python function itself"):
        shlo.register_custom_call("test.callback", function)


def test_a_diagnostic_that_cannot_be_copied_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(diagnostic: object) -> Diagnostic:
        raise Injected

    monkeypatch.setattr(Diagnostic, "copy", copy)
    lost = pytest.raises(InternalError, match="a diagnostic of MLIR was lost")
    with make_context() as context, lost, diagnostics(context):
        ir.Location.unknown().emit_error("something")
