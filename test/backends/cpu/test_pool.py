"""The thread pool: every iteration once, whatever the number of chunks, threads, callers and processes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress

import numpy as np
import pytest

from stablehlo_py.backends.cpu import helpers, threads
from stablehlo_py.backends.cpu import pool as native
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.backends.cpu.threads import ThreadPool, pool_for
from stablehlo_py.codegen.builder import I64, PTR, Function, Value

# A task is native: a ctypes callback would run Python in the workers.
TASK = "count_task"


@pytest.fixture(scope="module", autouse=True)
def _code_of_pools() -> None:
    helpers.provide(helper_objects())


@pytest.fixture(scope="module")
def task() -> int:
    """Address of a task that adds 1 + thread * 2^32 to context[begin .. end)."""
    f = Function(TASK, [("context", PTR), ("begin", I64), ("end", I64), ("thread", I64)], host_target().emitter())

    def count(i: Value) -> None:
        mark = f.binary("add", f.const(1), f.binary("shl", f.thread, f.const(32)))
        f.store(f.binary("add", f.load(I64, f.context, i), mark), f.context, i)

    f.loop(f.begin, f.end, 1, count)
    f.ret()
    code = NativeCode([compile_units([Unit((TASK,), f.text())])])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code.address(TASK)


def run(pool: ThreadPool, task: int, iterations: int, chunk: int) -> np.ndarray:
    """What the task counted; the pool must be held."""
    counts = np.zeros(max(1, iterations), np.int64)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)
    function(threads._code().address("shlo_pool_try"))(pool.address, task, counts.ctypes.data, iterations, chunk)
    return counts[:iterations]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 33])
@pytest.mark.parametrize(
    ("iterations", "chunk"), [(1, 1), (2, 1), (10, 3), (1000, 7), (1000, 999), (1000, 5000), (0, 5)]
)
def test_every_iteration_runs_once(task: int, count: int, iterations: int, chunk: int) -> None:
    pool = pool_for(count)
    pool.start()
    counts = run(pool, task, iterations, chunk)
    assert ((counts & 0xFFFFFFFF) == 1).all()
    assert ((counts >> 32) < count).all()


def test_many_jobs_in_a_row(task: int) -> None:
    pool = pool_for(3)
    pool.start()
    for number in range(5000):
        iterations = 1 + number % 13
        assert (run(pool, task, iterations, 1 + number % 3) & 0xFFFFFFFF == 1).all()


def test_workers_that_sleep_are_woken(task: int) -> None:
    pool = pool_for(4)
    pool.start()
    run(pool, task, 100, 1)
    sleepers = ctypes.c_int32.from_address(pool.address + native.SLEEPERS)
    deadline = time.monotonic() + 20
    while sleepers.value < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sleepers.value == 3, "idle workers must not spin"
    helpers: set[int] = set()
    while not helpers and time.monotonic() < deadline:
        # Work enough that a worker which was woken finds some left.
        helpers = set((run(pool, task, 2_000_000, 1000) >> 32).tolist()) - {0}
    assert helpers, "no worker ever helped"


def test_a_job_runs_alone_while_the_pool_has_another(task: int) -> None:
    pool = pool_for(2)
    pool.start()
    taken = ctypes.c_int32.from_address(pool.address + native.TAKEN)
    taken.value = 1
    try:
        counts = run(pool, task, 100_000, 10)
    finally:
        taken.value = 0
    assert (counts == 1).all(), "one call of the task, by thread 0"


def test_workers_leave_signals_to_the_main_thread() -> None:
    pool = pool_for(2)
    pool.start()
    blocked = []
    for thread in os.listdir("/proc/self/task"):
        # A thread of an earlier test may end between the two.
        with suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/status") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
            blocked.append(int(fields["SigBlk"], 16) & (1 << 1) != 0)  # SIGINT is signal 2
    assert any(blocked)
    assert not all(blocked)


MODEL = """
    import os, sys, threading
    import numpy as np
    import stablehlo_py as shlo
    text = '''func.func @main(%x: tensor<600x700xf32>) -> (tensor<600x700xf32>, tensor<600xf32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %y = stablehlo.tanh %x : tensor<600x700xf32>
      %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<600x700xf32>, tensor<f32>) -> tensor<600xf32>
      return %y, %s : tensor<600x700xf32>, tensor<600xf32>
    }'''
    model = shlo.compile(text, options=shlo.Options(threads=3))
    assert "used by some phases" in model.report()
    x = np.random.default_rng(0).normal(size=(600, 700)).astype(np.float32)
    expected = model(x)
    def right():
        return all(np.array_equal(a, b) for a, b in zip(model(x), expected))
"""


def in_process(code: str) -> str:
    """Output of a Python process that ends well."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    source = textwrap.dedent(MODEL) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_computes_with_threads_of_its_own() -> None:
    code = """
        results = []
        for attempt in range(3):
            child = os.fork()
            if child == 0:
                good = right() and right() and len(os.listdir("/proc/self/task")) == 3
                os._exit(0 if good else 1)
            results.append(os.waitpid(child, 0)[1])
        assert right()
        print(results)
    """
    assert in_process(code).strip() == "[0, 0, 0]"


def test_a_fork_in_the_middle_of_calls() -> None:
    code = """
        stop = False
        wrong = []
        def work():
            while not stop:
                if not right():
                    wrong.append(1)
        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers: worker.start()
        results = []
        for attempt in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if right() and right() else 1)
            results.append(os.waitpid(child, 0)[1])
        stop = True
        for worker in workers: worker.join()
        print(sum(results), len(wrong))
    """
    assert in_process(code).split() == ["0", "0"]


def test_a_forked_child_has_memory_of_its_own() -> None:
    code = """
        mine = model(x)[0]
        before = mine.copy()
        child = os.fork()
        if child == 0:
            mine[:] = 0  # a result that the child inherited
            for _ in range(5): model(x * 2)
            os._exit(0)
        os.waitpid(child, 0)
        print(np.array_equal(mine, before))
    """
    assert in_process(code).strip() == "True"


def test_the_process_ends_while_workers_are_awake() -> None:
    for _ in range(3):
        assert in_process("print(right())").strip() == "True"


def test_threads_that_call_at_once(task: int) -> None:
    code = """
        wrong = []
        def work():
            for _ in range(50):
                if not right():
                    wrong.append(1)
        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
        print(len(wrong))
    """
    assert in_process(code).strip() == "0"


def test_more_threads_than_cores_give_the_same_bits() -> None:
    code = """
        for threads in (1, 2, 16, 128):
            other = shlo.compile(text, options=shlo.Options(threads=threads))
            assert all(np.array_equal(a, b) for a, b in zip(other(x), expected)), threads
        print("same")
    """
    assert in_process(code).strip() == "same"
