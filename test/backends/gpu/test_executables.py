"""Executables on a device of this machine, where there is one: their life, and what is done with them."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import stablehlo_py as shlo

ADD = """func.func @main(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = stablehlo.add %x, %y : tensor<1000xf32>
  return %0 : tensor<1000xf32>
}"""
# It ends where %p is not set.
LOOP = """func.func @main(%p: tensor<i1>, %x: tensor<8xi32>) -> tensor<8xi32> {
  %r:2 = stablehlo.while(%q = %p, %a = %x) : tensor<i1>, tensor<8xi32>
  cond { stablehlo.return %q : tensor<i1> }
  do {
    %b = stablehlo.reverse %a, dims = [0] : tensor<8xi32>
    stablehlo.return %q, %b : tensor<i1>, tensor<8xi32>
  }
  return %r#1 : tensor<8xi32>
}"""
X = np.arange(1000, dtype=np.float32)


@pytest.fixture(scope="module")
def added(real_device) -> shlo.Executable:
    return shlo.compile(ADD, target="opencl")


def test_copies_and_artifacts(added, tmp_path) -> None:
    added.save(tmp_path / "add.shlo")
    options = shlo.Options(cache_dir=str(tmp_path / "cache"))
    cached = [shlo.compile(ADD, target="opencl", options=options) for _ in range(2)]
    assert len(list((tmp_path / "cache").glob("*.shlo"))) == 1
    copies = copy.copy(added), copy.deepcopy(added), pickle.loads(pickle.dumps(added))
    for executable in (*copies, *cached, shlo.load_executable(tmp_path / "add.shlo")):
        assert np.array_equal(executable(X, X)[0], 2 * X)
    assert np.array_equal(np.asarray(copies[0].call([added.put(X, 0), added.put(X, 1)])[0]), 2 * X)


def test_dlpack(added) -> None:
    buffer = added.put(memoryview(X), 0)
    (result,) = added.call([buffer, buffer])
    assert (result.device, result.memory_space) == ("opencl:0", "device")
    assert np.array_equal(np.from_dlpack(result), 2 * X)
    jnp = pytest.importorskip("jax.numpy")
    assert np.array_equal(added.call([added.put(jnp.asarray(X), 0), buffer])[0], jnp.from_dlpack(result))


def test_state_of_many_shapes(real_device) -> None:
    """An executable for the shapes of each call has its buffers where they run."""
    executable = shlo.compile(ADD.replace("1000", "?"), target="opencl")
    for count in (5, 1000, 5):
        state = x = executable.put(X[:count], 0)
        assert (x.device, x.memory_space) == ("opencl:0", "device")
        for _ in range(3):
            (state,) = executable.call([state, x])
        assert state.device == "opencl:0"
        assert np.array_equal(np.asarray(state), 4 * X[:count])
        assert np.array_equal(executable(X[:count], X[:count])[0], 2 * X[:count])
    host = shlo.compile(ADD.replace("1000", "?")).put(X, 0)
    with pytest.raises(shlo.ArgumentError, match="in host memory, where the program does not run"):
        executable.call([host, host])


def test_threads_call_at_once(added) -> None:
    problems = []

    def work(number: int) -> None:
        own, array = (shlo.compile(ADD, target="opencl") if number % 2 else added), X + number
        for _ in range(30):
            buffer = own.put(array, 0)
            (again,) = own.call((*own.call([buffer, buffer]), buffer))
            problems.extend([number] * (not np.array_equal(np.asarray(again), 3 * array)))
            problems.extend([number] * (not np.array_equal(own(array, array)[0], 2 * array)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.parametrize("on_buffers", [False, True])
def test_a_signal_ends_a_loop(real_device, on_buffers) -> None:
    executable, array = shlo.compile(LOOP, target="opencl"), np.arange(8, dtype=np.int32)

    def run(goes_on: bool) -> np.ndarray:
        if not on_buffers:
            return executable(np.array(goes_on), array)[0]
        return np.asarray(executable.call([executable.put(np.array(goes_on), 0), executable.put(array, 1)])[0])

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(True)
    timer.join()
    assert np.array_equal(run(False), array)


SCRIPT = f"""
import copy, os
import numpy as np
import stablehlo_py as shlo

text = '''{ADD.replace("%x: tensor<1000xf32>", "%x: tensor<1000xf32> {tf.aliasing_output = 0 : i32}", 1)}'''
executable, x = shlo.compile(text, target="opencl"), np.ones(1000, np.float32)
first, second = executable.put(x, 0), executable.put(x, 1)
child = os.fork()
if not child:
    refused = 0
    for attempt in (
        lambda: executable(x, x),
        lambda: executable.put(x, 0),
        lambda: executable.call([first, second]),
        lambda: np.asarray(first),
        lambda: copy.copy(executable),
    ):
        try:
            attempt()
        except shlo.ShloError as error:
            refused += "was forked from one that uses OpenCL" in str(error)
    os._exit(refused)  # not by an end of the interpreter: the driver waits there for its threads
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
(first,) = executable.call([first, second])
assert (np.asarray(first) == 2).all()
"""


def test_forked_children_are_refused(real_device) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
