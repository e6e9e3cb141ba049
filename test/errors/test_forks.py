"""Forks of a process whose other threads compile or run programs: the child can do what the parent can."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py import forks, suite

# What every child does: compile, with two threads, and call; also a program of the parent's. A child that hangs is
# ended by SIGALRM.
PROGRAM = """
    import os, signal, sys, threading, time, traceback
    import numpy as np
    import stablehlo_py as shlo

    TEXT = '''func.func @main(%x: tensor<400x300xf32>) -> tensor<400x300xf32> {
      %y = stablehlo.negate %x : tensor<400x300xf32>
      %z = stablehlo.sine %y : tensor<400x300xf32>
      return %z : tensor<400x300xf32>
    }'''
    X = np.ones((400, 300), np.float32)

    def compiled():
        return shlo.compile(TEXT, options=shlo.Options(threads=2))

    def fork(parents=None):
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            try:
                for exe in filter(None, (parents, compiled())):
                    assert np.allclose(exe(X)[0], np.sin(-X))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def start(function):
        threading.Thread(target=function, daemon=True).start()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose compilation takes a while."""
    file = tmp_path_factory.mktemp("model") / "resnet50.mlirbc"
    file.write_bytes(suite.export(suite.build("resnet50")).mlir_module_serialized)
    return file


def run(code: str, *arguments: object) -> str:
    """What a program printed; and its errors, those of its children among them."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=True)
    return done.stdout


def test_a_child_forked_while_another_thread_compiles_works(model: Path) -> None:
    code = """
        def work():
            while True:
                shlo.compile(sys.argv[1])

        exe = compiled()
        exe(X)
        start(work)
        statuses = []
        for number in range(8):
            time.sleep(0.02 + 0.11 * number)
            statuses.append(fork(exe))
        print(statuses)
        os._exit(0)
    """
    assert run(code, model) == f"{[0] * 8}\n"


def test_a_child_forked_while_another_thread_frees_programs_works() -> None:
    """LLVM frees machine code under a lock, while other threads run."""
    code = """
        import pickle
        exe = compiled()
        copy = pickle.dumps(exe)

        def work():
            while True:
                pickle.loads(copy)

        start(work)
        print([fork() for _ in range(12)])
        os._exit(0)
    """
    assert run(code) == f"{[0] * 12}\n"


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.5, 1.0])
def test_a_child_forked_during_the_first_compilation_works(model: Path, delay: float) -> None:
    """Then modules are being imported."""
    code = """
        start(lambda: shlo.compile(sys.argv[1]))
        time.sleep(float(sys.argv[2]))
        print(fork())
        os._exit(0)
    """
    assert run(code, model, delay) == "0\n"


def test_a_child_forked_while_programs_run_works() -> None:
    code = """
        LOOP = '''func.func @main(%on: tensor<i32>) -> tensor<i32> {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %r = stablehlo.while(%go = %on) : tensor<i32>
            cond {
              %c = stablehlo.compare GT, %go, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              stablehlo.return %go : tensor<i32>
            }
          return %r : tensor<i32>
        }'''
        loop, exe = shlo.compile(LOOP), compiled()

        def work():
            while True:
                exe(X)

        start(lambda: loop(np.int32(1)))
        start(work)
        time.sleep(0.2)
        print([fork(exe) for _ in range(5)])
        os._exit(0)
    """
    assert run(code) == "[0, 0, 0, 0, 0]\n"


def test_a_child_forked_in_a_callback_works() -> None:
    code = """
        shlo.register_custom_call("test.fork", lambda x: (statuses.append(fork(exe)), x)[1])
        call = TEXT.replace("stablehlo.negate %x :", "stablehlo.custom_call @test.fork(%x) : (tensor<400x300xf32>) ->")
        exe, statuses = compiled(), []
        outer = shlo.compile(call, options=shlo.Options(threads=2))
        assert np.allclose(outer(X)[0], np.sin(X))
        print(statuses)
        os._exit(0)
    """
    assert run(code) == "[0]\n"


def test_a_fork_does_not_wait_for_ever_and_the_child_says_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "LIMIT_S", 0.2)
    begun, end = threading.Event(), threading.Event()

    def work() -> None:  # without a checkpoint
        forks.enter()
        begun.set()
        end.wait()
        forks.leave()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            shlo.compile("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }")
        except shlo.ResourceError as error:
            status = 42 if "forked while another thread compiled" in str(error) else 2
        finally:
            os._exit(status)
    assert time.monotonic() - begin > 0.2
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    shlo.compile("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }")
