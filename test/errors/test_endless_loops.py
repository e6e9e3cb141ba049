"""Loops that never end by themselves: Ctrl-C, or what else a signal's handler raises, ends them, wherever they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

import stablehlo_py as shlo

# What should take 0.1 s: the machine may be busy.
LIMIT_S = 20


def endless(body: str, type_: str = "tensor<4xf32>") -> str:
    """x = body(x) for as long as 0 < 1, which no pass may know."""
    return f"""func.func @main(%x: {type_}, %on: tensor<i32>) -> {type_} {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%y = %x, %go = %on) : {type_}, tensor<i32>
        cond {{
          %c = stablehlo.compare GT, %go, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          {body}
          stablehlo.return %z, %go : {type_}, tensor<i32>
        }}
      return %r#0 : {type_}
    }}"""


SINE = "%z = stablehlo.sine %y : tensor<4xf32>"
BIG = SINE.replace("4x", "2000x")
OPEN = SINE.replace("4x", "?x")
SORT = """%z = "stablehlo.sort"(%y) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
}) : (tensor<4xf32>) -> tensor<4xf32>"""
INNER = """%i:2 = stablehlo.while(%u = %y, %n = %go) : tensor<4xf32>, tensor<i32>
  cond {
    %d = stablehlo.compare GT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %d : tensor<i1>
  } do {
    %v = stablehlo.cosine %u : tensor<4xf32>
    stablehlo.return %v, %n : tensor<4xf32>, tensor<i32>
  }
  %z = stablehlo.sine %i#0 : tensor<4xf32>"""
BRANCH = """%q = stablehlo.compare GT, %go, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %z = "stablehlo.if"(%q) ({
    stablehlo.return %y : tensor<4xf32>
  }, {
    %v = stablehlo.cosine %y : tensor<4xf32>
    stablehlo.return %v : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>"""
PROGRAMS = {
    "in registers": (endless(SINE), 4),
    "large bodies": (endless(BIG, "tensor<2000xf32>"), 2000),
    "dynamic": (endless(OPEN, "tensor<?xf32>"), 7),
    "another kind": (endless(SORT), 4),
    "nested": (endless(INNER), 4),
    "branches": (endless(BRANCH), 4),
}
ON, OFF = np.int32(1), np.int32(0)


@contextmanager
def sent(number: int = signal.SIGINT, after_s: float = 0.3) -> Iterator[None]:
    """Inside, this process gets a signal after some time; then little time may pass."""
    times: list[float] = []

    def send() -> None:
        times.append(time.monotonic())
        os.kill(os.getpid(), number)

    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        yield
    finally:
        timer.join()
    assert time.monotonic() - times[0] < LIMIT_S


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_an_endless_loop_answers_interrupts(name: str, threads: int) -> None:
    text, size = PROGRAMS[name]
    exe, x = shlo.compile(text, options=shlo.Options(threads=threads)), np.ones(size, np.float32)
    for _ in range(2):
        with sent(), pytest.raises(KeyboardInterrupt):
            exe(x, ON)
        np.testing.assert_array_equal(exe(x, OFF)[0], x)


def test_the_handler_of_any_signal_runs_in_a_loop_and_may_end_it() -> None:
    exe, x = shlo.compile(endless(SINE)), np.ones(4, np.float32)
    came: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 3:
            raise TimeoutError("three alarms")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(TimeoutError, match="three alarms"):
            exe(x, ON)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came == [signal.SIGALRM] * 3


def test_a_saved_program_with_a_loop(tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "model.shlo")
    shlo.compile(endless(SINE)).save(path)
    exe, x = shlo.load_executable(path), np.ones(4, np.float32)
    with sent(), pytest.raises(KeyboardInterrupt):
        exe(x, ON)


NUMBERED = """%id = stablehlo.partition_id : tensor<ui32>
  %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %z = stablehlo.add %y, %b : tensor<4xf32>"""


@pytest.mark.parametrize("body", [SINE, NUMBERED])
def test_a_loop_on_a_grid(body: str) -> None:
    text = "module attributes {mhlo.num_partitions = 2 : i32} {" + endless(body) + "}"
    exe, x = shlo.compile(text, options=shlo.Options(num_partitions=2)), np.ones(4, np.float32)
    arguments = [[[x, ON], [x, OFF]]]
    with sent(), pytest.raises(KeyboardInterrupt):
        exe.call_grid(arguments)
    with pytest.raises(shlo.CommunicationError, match=r"has not finished in 0\.2 seconds"):
        exe.call_grid(arguments, timeout=0.2)


def test_a_call_inside_a_callback_inside_a_loop() -> None:
    inner, x = shlo.compile(endless(SINE)), np.ones(4, np.float32)
    shlo.register_custom_call("test.loop", lambda y: inner(y, ON)[0])
    call = "%z = stablehlo.custom_call @test.loop(%y) : (tensor<4xf32>) -> tensor<4xf32>"
    try:
        outer = shlo.compile(endless(call))
        with sent(), pytest.raises(KeyboardInterrupt):
            outer(x, ON)
    finally:
        shlo.unregister_custom_call("test.loop")


def test_loops_of_other_threads_go_on_while_the_main_thread_is_interrupted() -> None:
    exe, x = shlo.compile(endless(SINE)), np.ones(4, np.float32)
    program = f"""
        import os, signal, threading, time
        import numpy as np
        import stablehlo_py as shlo
        exe, x = shlo.compile({endless(SINE)!r}), np.ones(4, np.float32)
        threads = [threading.Thread(target=exe, args=(x, np.int32(1)), daemon=True) for _ in range(2)]
        for thread in threads: thread.start()
        for _ in range(2):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try: exe(x, np.int32(1))
            except KeyboardInterrupt: pass
        print([thread.is_alive() for thread in threads])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("[True, True]\n", 0), done.stderr
    assert exe(x, OFF)[0].tolist() == x.tolist()


def test_a_loop_in_a_forked_child_answers_interrupts() -> None:
    exe, x = shlo.compile(endless(SINE), options=shlo.Options(threads=1)), np.ones(4, np.float32)
    with sent(), pytest.raises(KeyboardInterrupt):
        exe(x, ON)  # the thread that watches runs here
    child = os.fork()
    if child == 0:
        status = 1
        try:
            exe(x, ON)
        except KeyboardInterrupt:
            status = 42
        finally:
            os._exit(status)
    time.sleep(0.5)
    limit = time.monotonic() + LIMIT_S
    os.kill(child, signal.SIGINT)
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < limit:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 42
