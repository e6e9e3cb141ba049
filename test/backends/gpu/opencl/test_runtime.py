"""The runtime on a device of this machine, where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from stablehlo_py.backends.gpu.opencl.device import DEVICES, OpenClDevice
from stablehlo_py.errors import LoadError, ResourceError
from stablehlo_py.runtime.buffer import Placement
from stablehlo_py.runtime.memory import ArrayMemory
from stablehlo_py.runtime.program import Spec

RNG = np.random.default_rng(0)


def launch(device: OpenClDevice, kernel: int, address: int, count: int) -> None:
    device.queue.library.call("clSetKernelArgSVMPointer", kernel, 0, address)
    sizes = np.array([count], np.uintp)
    device.queue.call("clEnqueueNDRangeKernel", kernel, 1, None, sizes.ctypes.data, None, 0, None, None)


def test_descriptions(real_device) -> None:
    found = OpenClDevice.descriptions(OpenClDevice.library())
    description = found[0]
    assert description == real_device.description and description.name and description.vendor
    assert description.compute_units and description.local_bytes >= 1024 and description.alignment >= 64
    assert description.global_bytes >= description.largest_allocation > 0
    assert DEVICES.get() is DEVICES.get() and DEVICES.get().memory.device == "opencl:0"


@pytest.mark.parametrize("count", [0, 1, 3, 1000, 1 << 20, 5_000_000])
def test_there_and_back(real_device, count) -> None:
    memory, array = real_device.memory, RNG.integers(0, 255, count, dtype=np.uint8)
    block, result = memory.allocate(count), np.zeros_like(array)
    expected = array.copy()
    event = memory.write(array, block)
    array[:] = 0
    memory.read(block, result)
    assert np.array_equal(result, expected)
    assert event is None or event.is_ready()
    assert block.address % 128 == 0


def test_buffers(real_device) -> None:
    """What `put` makes of an array."""
    array = RNG.standard_normal((30, 50)).astype(np.float32)
    spec = Spec("x", array.shape, array.dtype)
    placement = Placement(real_device.memory, ArrayMemory(4))
    buffer = placement.put(array, spec)
    assert (buffer.device, buffer.memory_space) == ("opencl:0", "device")
    assert np.array_equal(np.asarray(buffer), array)
    assert np.array_equal(placement.fetch(buffer.wait()), array) and buffer.is_ready()


def test_a_kernel(real_device, increment) -> None:
    memory, array = real_device.memory, RNG.integers(-(2**31), 2**31, 10_000, dtype=np.int32)
    kernel = (built := real_device.build(increment)).kernel("increment")
    block, result = memory.allocate(array.nbytes), np.empty_like(array)
    memory.write(array, block)
    for _ in range(5):
        launch(real_device, kernel, block.address, array.size)
    launch(real_device, kernel, block.address + 4000, 1000)  # inside of a block
    event = real_device.queue.marker()
    event.wait()
    assert event.is_ready()
    memory.read(block, result)
    array += 5
    array[1000:2000] += 1
    assert np.array_equal(result, array)
    del built


def test_what_is_refused(real_device, increment, unresolved) -> None:
    with pytest.raises(LoadError, match="has no kernel 'decrement'"):
        real_device.build(increment).kernel("decrement")
    with pytest.raises(LoadError, match=r"does not build the program: (.|\n)*nowhere"):
        real_device.build(unresolved)
    with pytest.raises(LoadError, match="is no SPIR-V that"):
        real_device.build(b"text that is no module")
    with pytest.raises(ResourceError, match="more than opencl:0 gives at once"):
        real_device.memory.allocate(1 << 60)


def test_arrays_die_while_programs_use_them(real_device, increment) -> None:
    """Blocks are used again, in order: every array has the values of its own calls."""
    memory, kernel = real_device.memory, (built := real_device.build(increment)).kernel("increment")
    for trial in range(200):
        count = 1000 + 1024 * (trial % 3)
        first, second = memory.allocate(4 * count), memory.allocate(4 * count)
        memory.write(np.full(count, trial, np.int32), first)
        memory.write(np.full(count, -trial, np.int32), second)
        launch(real_device, kernel, first.address, count)
        del first
        launch(real_device, kernel, second.address, count)
        result = np.empty(count, np.int32)
        memory.read(second, result)
        assert (result == 1 - trial).all()
    del built


def test_threads(real_device) -> None:
    problems = []

    def work(number: int) -> None:
        generator = np.random.default_rng(number)
        for _ in range(50):
            array = generator.integers(0, 100, generator.integers(1, 100_000), dtype=np.int32)
            block, result = real_device.memory.allocate(array.nbytes), np.empty_like(array)
            real_device.memory.write(array, block)
            real_device.memory.read(block, result)
            if not np.array_equal(result, array):
                problems.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


SCRIPT = """
import os
import numpy as np
from stablehlo_py.backends.gpu.opencl.device import DEVICES
from stablehlo_py.errors import ResourceError

block = DEVICES.get().memory.allocate(4000)
event = DEVICES.get().memory.write(np.zeros(1000, np.int32), block)
child = os.fork()
if not child:
    try:
        DEVICES.get()
    except ResourceError:
        os._exit(7)  # not by an end of the interpreter: the driver waits there for its threads
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
DEVICES.get().memory.allocate(100)  # kept for the next one
kept = [DEVICES.get().memory.allocate(8), DEVICES.get().queue.marker(), block, event]
"""


def test_the_interpreter_ends_with_everything_alive(real_device) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
