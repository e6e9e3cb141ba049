"""Processes that make machine code: what LLVM refuses, what ends them, who else asks meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.common import llvm_process as module
from stablehlo_py.backends.gpu import device_code as device_code_module
from stablehlo_py.backends.gpu import machine_code as numbers
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.target import GFX942, OPENCL, SM_90, GpuTarget
from stablehlo_py.errors import InternalError, ResourceError, UnsupportedError

TARGETS = [OPENCL, SM_90, GFX942]
# LLVM's SPIR-V emitter ends the process: SPIR-V has integers of at most 64 bits.
FATAL = "define spir_kernel void @k(ptr addrspace(1) %x) {\n  store i128 7, ptr addrspace(1) %x\n  ret void\n}"


def ir(name: str = "k", number: int = 1, functions: int = 1) -> str:
    return "\n".join(
        f"define spir_kernel void @{name}{place or ''}(ptr addrspace(1) %x) {{\n  %1 = load i32, ptr addrspace(1) %x\n"
        f"  %2 = add i32 %1, {number + place}\n  store i32 %2, ptr addrspace(1) %x\n  ret void\n}}"
        for place in range(functions)
    )


# Where an element lies takes a remainder by 512, which a thread computes from the numbers of its block and its own.
CONCATENATE = """
func.func @main(%a: tensor<16x1xf32>, %b: tensor<16x511xf32>) -> tensor<16x512xf32> {
  %0 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<16x1xf32>, tensor<16x511xf32>) -> tensor<16x512xf32>
  return %0 : tensor<16x512xf32>
}
"""


def instructions(spirv: bytes) -> Iterator[tuple[int, np.ndarray]]:
    """Codes and operands of a module. Raises AssertionError: it is no SPIR-V."""
    words, at = np.frombuffer(spirv, np.uint32), 5
    assert words[0] == 0x07230203
    while at < len(words):
        size, code = divmod(int(words[at]), 1 << 16)
        assert size and at + size <= len(words)
        yield code, words[at + 1 : at + size]
        at += size


def entries(spirv: bytes) -> list[str]:
    """The names of a module's kernels. Raises AssertionError: it is no SPIR-V."""
    entry_point = 15
    found = [operands for code, operands in instructions(spirv) if code == entry_point]
    return [operands[2:].tobytes().partition(b"\0")[0].decode() for operands in found]


def server() -> int:
    """The number of the process that waits for modules."""
    assert module._process is not None and module._process.poll() is None
    return module._process.pid


def ends(pid: int) -> bool:
    """Whether a process ends within ten seconds."""
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_is_no_llvm_ir(target) -> None:
    before = machine_code("", target), server()
    for text, problem in (("nothing", "expected top-level entity"), (ir().replace("%1,", "%7,"), "undefined value")):
        with pytest.raises(InternalError, match=rf"refused the generated code for {target.name}: (.|\n)*{problem}"):
            machine_code(text, target)
    assert (machine_code("", target), server()) == before


def test_what_ends_llvm() -> None:
    """It ends a child of the process that waits, which goes on."""
    machine_code(ir(), OPENCL)
    before = server()
    said = r"LLVM cannot generate code for opencl: OpTypeInt type with a width other than 8, 16, 32 or 64 .*\n.*rep"
    with pytest.raises(UnsupportedError, match=said):
        machine_code(FATAL, OPENCL)
    assert entries(machine_code(ir("after"), OPENCL)) == ["after"]
    assert server() == before


TWO_KERNELS = """func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  %1 = "stablehlo.sort"(%b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}"""


@pytest.mark.parametrize("alone", [True, False])
def test_the_kernel_that_has_no_code_is_named(monkeypatch, alone) -> None:
    """With its line; or, where each has code without the others, that all together have none."""

    def without_one(ir: str, target: GpuTarget) -> bytes:
        is_refused = "@fusion_1(" in ir and (alone or "@fusion_0(" in ir)
        return machine_code(FATAL if is_refused else ir, target)

    monkeypatch.setattr(device_code_module, "machine_code", without_one)
    with pytest.raises(UnsupportedError) as caught:
        compile_program(TWO_KERNELS, target="opencl", options=shlo.Options(cache_dir=None))
    (problem,) = caught.value.problems
    assert "LLVM cannot generate code for opencl: OpTypeInt" in problem.reason
    assert (problem.op, problem.location) == (("stablehlo.sort", "<text>:3:8") if alone else (None, None))


def test_the_process_was_killed_between_two_modules() -> None:
    machine_code(ir(), OPENCL)
    before = server()
    os.kill(before, signal.SIGKILL)
    assert entries(machine_code(ir("after"), OPENCL)) == ["after"]
    assert server() != before


def test_the_process_is_killed_whenever_it_starts(monkeypatch) -> None:
    started = module._started

    def killed() -> subprocess.Popen[bytes]:
        process = started()
        process.kill()
        return process

    module._end()
    monkeypatch.setattr(module, "_started", killed)
    with pytest.raises(ResourceError, match=r"the process that compiles kernels was ended twice\n.*free memory"):
        machine_code(ir(), OPENCL)
    assert module._process is None
    monkeypatch.undo()
    assert entries(machine_code(ir("after"), OPENCL)) == ["after"]


def test_a_process_that_cannot_start(monkeypatch) -> None:
    module._end()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ResourceError, match="cannot start the process that compiles kernels: No such file"):
        machine_code(ir(), OPENCL)


def test_many_threads() -> None:
    found: dict[str, list[str]] = {}

    def work(number: int) -> None:
        for trial in range(3):
            name = f"k{number}x{trial}"
            found[name] = entries(machine_code(ir(name), OPENCL))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"k{number}x{trial}": [f"k{number}x{trial}"] for number in range(8) for trial in range(3)}


def test_a_hundred_modules() -> None:
    """The numbers of each are unique, and it has what was asked for."""
    for number in range(100):
        made = machine_code(ir(f"k{number}", number, functions=1 + number % 7), OPENCL)
        assert numbers._numbers_are_unique(made)
        assert len(entries(made)) == 1 + number % 7 and entries(made)[0] == f"k{number}"


def test_numbers_that_are_not_unique() -> None:
    """Every result of a module, given the number of another one, is found."""
    made = machine_code(ir(functions=2), OPENCL)
    words = np.frombuffer(made, np.uint32)
    results = list(numbers._results(memoryview(made).cast("I")))
    assert len(results) > 10 and sorted(results) == sorted(set(results))
    assert max(results) < words[3]  # its bound
    at, planted = 5, 0
    while at < len(words):
        size, code = divmod(int(words[at]), 1 << 16)
        place = at + 1 if code in numbers._RESULT_FIRST else at + 2 if code in numbers._RESULT_SECOND else 0
        if place:
            changed = words.copy()
            changed[place] = next(number for number in results if number != words[place])
            assert not numbers._numbers_are_unique(changed.tobytes())
            planted += 1
        at += size
    assert planted == len(results)


ATOMICS = """
declare spir_func float @_Z21sub_group_shuffle_xorfj(float, i32)
define spir_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
  store i32 1, ptr addrspace(1) %x
  store i32 2, ptr addrspace(1) %y
  %a = atomicrmw add ptr addrspace(1) %x, i32 3 seq_cst
  %b = cmpxchg ptr addrspace(1) %y, i32 4, i32 %a seq_cst seq_cst
  %c = load i32, ptr addrspace(1) %x
  %d = bitcast i32 %c to float
  %e = call spir_func float @_Z21sub_group_shuffle_xorfj(float %d, i32 1)
  %f = atomicrmw fadd ptr addrspace(1) %x, float %e seq_cst
  store float %f, ptr addrspace(1) %y
  %same = icmp eq ptr addrspace(1) %x, %y
  %word = zext i1 %same to i32
  store i32 %word, ptr addrspace(1) %x
  ret void
}"""


def test_numbers_of_atomics_and_shuffles() -> None:
    """Stores have no number; whatever has one is known, and is named by it."""
    words = np.frombuffer(machine_code(ATOMICS, OPENCL), np.uint32)
    known, at, seen = set(numbers._results(memoryview(words.tobytes()).cast("I"))), 5, set()
    while at < len(words):
        size, code = divmod(int(words[at]), 1 << 16)
        seen.add(code)
        if code == 62:  # OpStore
            assert set(words[at + 1 : at + 3].tolist()) <= known
        at += size
    assert {230, 234, 346, 401, 6035} <= seen


class Pressed(Exception):
    """As KeyboardInterrupt, which would end pytest."""


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.01, 0.03])
def test_a_signal_in_the_middle_of_a_request(after_s) -> None:
    """Its handler raises at once; the next request gets its own answer."""

    def press(number: int, frame: object) -> None:
        raise Pressed

    machine_code(ir(), OPENCL)
    before = signal.signal(signal.SIGALRM, press)
    try:
        with pytest.raises(Pressed):
            signal.setitimer(signal.ITIMER_REAL, after_s or 1e-6)
            for _ in range(1000):
                machine_code(ir("first", functions=200), OPENCL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert entries(machine_code(ir("second"), OPENCL)) == ["second"]


def test_a_signal_while_an_answer_is_read(monkeypatch) -> None:
    """Half of the answer stays in the pipe, which nobody reads any more."""
    machine_code(ir(), OPENCL)
    before, receive = server(), module._receive

    def interrupted(stream) -> bytes | None:
        assert stream.read(3)
        raise Pressed

    monkeypatch.setattr(module, "_receive", interrupted)
    with pytest.raises(Pressed):
        machine_code(ir("first"), OPENCL)
    monkeypatch.setattr(module, "_receive", receive)
    assert ends(before)
    assert entries(machine_code(ir("second"), OPENCL)) == ["second"]


def test_a_terminal_does_not_interrupt_the_process() -> None:
    """Ctrl-C is sent to all processes of a terminal's group."""
    machine_code(ir(), OPENCL)
    assert os.getsid(server()) == server() != os.getsid(0)


SCRIPT = """
import os, sys
from stablehlo_py.backends.common import llvm_process as module
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.target import OPENCL

text = "define spir_kernel void @k(ptr addrspace(1) %x) {{ store i32 7, ptr addrspace(1) %x ret void }}"
machine_code(text, OPENCL)
print(module._process.pid, flush=True)
{then}
"""
CHILD = """
child = os.fork()
if not child:
    assert module._process is None
    assert machine_code(text, OPENCL)
    print(module._process.pid, flush=True)
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert machine_code(text, OPENCL) and module._process.poll() is None
print(module._process.pid)
"""


def script(then: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-c", SCRIPT.format(then=then)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("then", "status"),
    [("", 0), ("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("sys.exit(4)", 4)],
    ids=["end", "_exit", "kill", "exit"],
)
def test_the_process_ends_with_the_interpreter(then, status) -> None:
    done = script(then)
    assert (done.returncode, done.stderr) == (status, "")
    assert ends(int(done.stdout))


def test_a_forked_child_has_a_process_of_its_own() -> None:
    """The parent keeps its own."""
    done = script(CHILD)
    assert (done.returncode, done.stderr) == (0, "")
    first, childs, again = map(int, done.stdout.split())
    assert first == again != childs
    assert ends(first) and ends(childs)


def test_a_forked_child_does_not_keep_the_process_alive() -> None:
    """It has closed its end of the pipe, although it lives on."""
    child = "import time\nif not os.fork(): os.close(1); os.close(2); time.sleep(20); os._exit(0)\nos._exit(0)"
    done = script(child)
    assert (done.returncode, done.stderr) == (0, "")
    assert ends(int(done.stdout))


def test_threads_fork_and_compile() -> None:
    """A child finds the lock free although another thread asked meanwhile."""
    then = """
import threading
from stablehlo_py.interrupts import deferred
stop = threading.Event()
@deferred()
def compiled(): assert machine_code(text, OPENCL)
def work():
    while not stop.is_set(): compiled()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(5):
    child = os.fork()
    if not child:
        compiled()
        module._end()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
for thread in threads: thread.join()
"""
    done = script(then)
    assert (done.returncode, done.stderr) == (0, "")
    assert ends(int(done.stdout))


def test_requests_and_answers_larger_than_a_pipe() -> None:
    made = machine_code(ir(functions=3000), OPENCL)
    assert len(made) > 1 << 18 and len(entries(made)) == 3000


def test_integers_of_a_kernel_have_the_widths_that_it_was_written_with() -> None:
    program = compile_program(CONCATENATE, target="opencl", options=shlo.Options(cache_dir=None))
    integer_type = 21
    widths = {int(operands[1]) for code, operands in instructions(program.objects[1]) if code == integer_type}
    assert widths <= {8, 32, 64}  # bytes: what pointers point to
