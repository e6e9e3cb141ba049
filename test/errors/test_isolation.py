"""No source ends or hangs a process that reads it: it is read in a child process first, within limits."""

from __future__ import annotations

import inspect
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.errors import InternalError, LoadError, ResourceError, UnsupportedError
from stablehlo_py.frontend import isolate
from stablehlo_py.mlir import stablehlo

sys.path.insert(0, str(Path(__file__).parent))
from hostile import HOSTILE, nested_ifs

TEXT = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SPINNING = HOSTILE["a shape of 2^63 - 1 dimensions"][0]
CRASHING = HOSTILE["an empty list of replica groups"][0]


def artifact() -> bytes:
    return stablehlo.serialize_portable_artifact_str(TEXT, "1.0.0")


def worker() -> isolate.Worker:
    return isolate.the_worker()


# --- hostile sources -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused(name: str) -> None:
    text, part = HOSTILE[name]
    for source in (text, text.encode()):
        with pytest.raises((LoadError, UnsupportedError)) as caught:
            shlo.compile(source)
        assert part.replace("<file>", "<text>" if source is text else "<bytes>") in str(caught.value)


def test_nesting_within_the_limits_compiles_and_python_s_own_limit_is_no_defect() -> None:
    text = nested_ifs(150)
    assert shlo.compile(text)(np.array(True), np.float32(2)) == (4,)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 300)
    try:
        with pytest.raises(UnsupportedError, match="nested too deeply for Python's stack"):
            shlo.compile(text)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.every(3)
@pytest.mark.parametrize("tool", ["opt", "run", "compile", "bisect", "reduce"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_by_every_tool(
    name: str, tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, part = HOSTILE[name]
    monkeypatch.setattr(isolate, "CPU_BASE_S", 0.5)
    file = tmp_path / "hostile.mlir"
    file.write_text(text)
    main = __import__(f"stablehlo_py.cli.{tool}", fromlist=["main"]).main
    assert main([str(file)]) in (3, 4)
    said = capsys.readouterr().err
    where = str(file) if tool not in ("bisect", "reduce") else "<bytes>"
    assert said.startswith("error[") and part.replace("<file>", where) in said


def test_a_tool_forks_itself_and_says_nothing_else(tmp_path: Path) -> None:
    """As its users start it: the child's last words, its core file and its status are not the tool's."""
    file = tmp_path / "hostile.mlir"
    file.write_text(f"{TEXT}\n// -----\n{CRASHING}\n// -----\n{TEXT}")
    command = [sys.executable, "-m", "stablehlo_py.cli.opt", "--split-input-file"]
    done = subprocess.run([*command, file], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        f"error[load]: {file}: MLIR crashed (SIGFPE) while reading it",
        "  help: it is damaged, or meets a defect of MLIR: correct it or export it again",
    ]
    assert list(tmp_path.iterdir()) == [file]


def test_mutated_artifacts_end_as_load_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "CPU_BASE_S", 0.3)
    data, numbers = artifact(), random.Random(0)
    outcomes = set()
    for _ in range(40):
        changed = bytearray(data)
        changed[numbers.randrange(20, len(data))] = numbers.randrange(256)
        try:
            shlo.load(bytes(changed))
            outcomes.add("accepted")
        except (LoadError, UnsupportedError) as error:
            assert all(problem.reason for problem in error.problems)
            outcomes.add("refused")
    assert outcomes == {"accepted", "refused"}


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    text = TEXT.replace("{\n", "{ // " + "(" * 2000 + "\n", 1).replace(
        "tensor<4xf32>\n  r", 'tensor<4xf32> loc("' + "[" * 2000 + '")\n  r'
    )
    assert "stablehlo.add" in str(shlo.load(text))
    with pytest.raises(LoadError, match="brackets"):
        shlo.load(text + "(" * 2000)
    assert "stablehlo.add" in str(shlo.load(TEXT * 1 + "// ->" * 2000 + ">" * 2000))


# --- limits ----------------------------------------------------------------------------------------------------------


def test_processor_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "CPU_BASE_S", 0.3)
    monkeypatch.setattr(isolate, "MEMORY_BASE", 1 << 40)
    with pytest.raises(LoadError, match=r"reading its 189 bytes takes more than 0\.3 s") as caught:
        shlo.load(SPINNING)
    assert "isolate=False" in str(caught.value)


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "MEMORY_BASE", 1 << 20)
    monkeypatch.setattr(isolate, "MEMORY_PER_BYTE", 1)
    text = TEXT.replace(
        "tensor<4xf32>\n", "tensor<4xf32>\n" + "  stablehlo.constant dense<1> : tensor<i64>\n" * 100_000, 1
    )
    with pytest.raises(LoadError, match="of memory"):
        shlo.load(text)
    monkeypatch.undo()
    assert len(shlo.load(text).body.operations) == 1


def test_a_child_that_is_stuck_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    shlo.load(TEXT)
    monkeypatch.setattr(isolate, "_WALL_BASE_S", 0.3)
    monkeypatch.setattr(isolate, "_WALL_PER_CPU", 0.0)
    os.kill(worker().pid, signal.SIGSTOP)
    with pytest.raises(LoadError, match="takes more than"):
        shlo.load(TEXT)


# --- the child -------------------------------------------------------------------------------------------------------


def test_the_child_is_kept_and_replaced_when_it_crashes() -> None:
    shlo.load(TEXT)
    first = worker().pid
    shlo.load(TEXT)
    assert worker().pid == first
    with pytest.raises(LoadError, match="SIGFPE"):
        shlo.load(CRASHING)
    assert "stablehlo.add" in str(shlo.load(TEXT))
    assert worker().pid not in (0, first)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_that_somebody_ended_is_started_again(end: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    shlo.load(TEXT)
    os.kill(worker().pid, end)
    assert "stablehlo.add" in str(shlo.load(TEXT))
    monkeypatch.setattr(isolate, "CPU_BASE_S", 0.5)
    timer = threading.Timer(0.2, lambda: os.kill(worker().pid, end))  # perhaps while it reads
    timer.start()
    with pytest.raises(LoadError, match="reading its"):
        shlo.load(SPINNING)
    timer.join()


def test_what_is_trusted_needs_no_child() -> None:
    worker().close()
    shlo.compile(TEXT, options=shlo.Options(isolate=False))
    shlo.compile(shlo.load(TEXT, isolate=False))
    assert worker().pid == 0


def test_an_export_is_trusted() -> None:
    jax = pytest.importorskip("jax")
    worker().close()
    exported = jax.export.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct((3,), "float32"))
    shlo.compile(exported)
    shlo.jit(lambda x: x * 2)(1.0)
    assert worker().pid == 0
    shlo.compile(exported.serialize())
    assert worker().pid != 0


def test_threads_share_the_child() -> None:
    texts = [TEXT.replace("4xf32", f"{each}xf32") for each in range(1, 9)]
    found: dict[int, str] = {}

    def read(number: int) -> None:
        found[number] = str(shlo.load(texts[number]))

    threads = [threading.Thread(target=read, args=(each,)) for each in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f"{each}xf32" in found[each - 1] for each in range(1, 9)] == [True] * 8
    first = worker().pid
    shlo.load(TEXT)  # the end of the thread that started it is not its end
    assert worker().pid == first


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_forked_process_has_a_child_of_its_own() -> None:
    shlo.load(TEXT)
    before = worker().pid
    pid = os.fork()
    if pid == 0:
        try:
            fine = worker().pid == 0 and "stablehlo.add" in str(shlo.load(TEXT)) and worker().pid != before
            worker().close()
        finally:
            os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    shlo.load(TEXT)
    assert worker().pid == before


def test_no_python_to_start_is_a_resource_error(monkeypatch: pytest.MonkeyPatch) -> None:
    worker().close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ResourceError, match="cannot start a child process") as caught:
        shlo.load(TEXT)
    assert "isolate=False" in str(caught.value)


def test_a_child_that_does_not_start_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    worker().close()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(InternalError, match="ended with status 1"):
        shlo.load(TEXT)


# --- the parent's end ------------------------------------------------------------------------------------------------


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_end(pid: int, seconds: float) -> bool:
    """Whether a process that is no child of ours ends in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.02)
    return False


BUSY = """
    import sys, threading
    import stablehlo_py as shlo
    from stablehlo_py.frontend import isolate
    isolate.CPU_BASE_S, isolate.MEMORY_BASE = 60, 1 << 40
    isolate.the_worker().start()
    print(isolate.the_worker().pid, flush=True)
    shlo.load(sys.argv[1])
"""


@pytest.mark.parametrize("source", [SPINNING, TEXT])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_ends_with_its_parent(end: signal.Signals, source: str) -> None:
    wait = "import time; time.sleep(60)"
    process = start(textwrap.dedent(BUSY) + wait, source)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    time.sleep(1.0)  # until it reads
    assert not wait_for_end(child, 0.0)
    process.send_signal(end)
    process.wait(10)
    assert wait_for_end(child, 5.0)
    process.communicate()


def test_nothing_but_the_end_of_the_parent_is_a_signal() -> None:
    """A socket would signal a request too, perhaps after the child has read it, and that would end the child."""
    shlo.load(TEXT)
    files = Path(f"/proc/{worker().pid}/fd")
    signalling = []
    for file in files.iterdir():
        lines = (files.parent / "fdinfo" / file.name).read_text().splitlines()
        (flags,) = (line.split()[1] for line in lines if line.startswith("flags:"))
        if int(flags, 8) & os.O_ASYNC:
            signalling.append(os.readlink(file).partition(":")[0])
    assert signalling == ["pipe"]


def test_ctrl_c_is_answered_while_the_child_reads() -> None:
    process = start(BUSY, SPINNING)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in err
    assert time.monotonic() - began < 5.0  # 0.2 s on an idle machine
    assert wait_for_end(child, 5.0)
