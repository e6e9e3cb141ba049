"""SIGTERM and SIGHUP to a tool: it ends with 128 + n, and leaves no temporary files, no part of a result, no child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py import suite

LIMIT_S = 120  # of what should take a second


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose compilation takes a while."""
    file = tmp_path_factory.mktemp("model") / "resnet50.mlirbc"
    file.write_bytes(suite.export(suite.build("resnet50")).mlir_module_serialized)
    return file


@pytest.fixture
def temporary() -> Iterator[Path]:
    """With a short name: that of a socket, which the server of children has there, may have 107 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def start(temporary: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run a tool again and again, in a process group of its own."""
    started = []

    def start(tool: str, *arguments: object) -> subprocess.Popen[str]:
        code = f"""
            import sys
            from stablehlo_py.cli.{tool} import main
            print("ready", flush=True)
            status = 0
            while status == 0:
                status = main(sys.argv[1:])
            sys.exit(status)
        """
        command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, **pipes, text=True, env=environment, start_new_session=True)  # type: ignore[call-overload]
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def nobody_is_left(group: int) -> bool:
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("delay", [0.3, 1.0, 2.0])
def test_a_compilation_that_is_ended(
    start: Callable[..., subprocess.Popen[str]],
    model: Path,
    temporary: Path,
    tmp_path: Path,
    number: signal.Signals,
    delay: float,
) -> None:
    output = tmp_path / "out.shloexe"
    process = start("compile", model, "--quiet", "--output", output)
    time.sleep(delay)
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (128 + number, "")
    assert nobody_is_left(process.pid)
    assert list(temporary.iterdir()) == []
    assert set(tmp_path.iterdir()) <= {output}
    if output.exists():
        shlo.load_executable(output)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_engines_in_children_end_with_the_tool(
    start: Callable[..., subprocess.Popen[str]], temporary: Path, number: signal.Signals
) -> None:
    process = start("fuzz", "--seconds", 100)
    limit = time.monotonic() + LIMIT_S
    while not any(temporary.glob("shlo-worker-*/stderr")) and time.monotonic() < limit:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT_S)
    assert nobody_is_left(process.pid)
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number, err
        assert list(temporary.iterdir()) == []


def test_a_signal_that_is_ignored_stays_ignored(model: Path, tmp_path: Path) -> None:
    """As with nohup."""
    code = """
        import os, signal, sys
        from stablehlo_py.cli.compile import main
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGHUP)
        sys.exit(main(sys.argv[1:]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(model), "--quiet", "--output", str(tmp_path / "out")]
    assert subprocess.run(command, timeout=LIMIT_S, check=False).returncode == 0
    assert (tmp_path / "out").exists()


WHERE = {
    "import-of-a-c-module": """
        begin = importlib.machinery.ExtensionFileLoader.exec_module.__code__

        def hook(event, arguments):
            if event == "import" and any(frame.f_code is begin for frame, _ in traceback.walk_stack(None)):
                come()

        sys.addaudithook(hook)
        import numpy
    """,
    "finalizer": "weakref.finalize(set(), come)",
    "call-from-c": "ctypes.CFUNCTYPE(None)(come)()",
    "converted": """
        try:
            come()
        except BaseException:
            raise ImportError("something failed")
    """,
    "dropped": """
        with contextlib.suppress(BaseException):
            come()
    """,
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("where", WHERE)
def test_a_tool_ends_whatever_c_makes_of_the_exception(where: str, number: signal.Signals) -> None:
    """C modules that are being initialized print it and raise ImportError; where C calls Python it is dropped."""
    code = f"""
import argparse, contextlib, ctypes, importlib.machinery, signal, sys, traceback, weakref
from stablehlo_py.cli.common import run_tool

def come():
    signal.raise_signal({int(number)})

def tool(arguments):
{textwrap.indent(textwrap.dedent(WHERE[where]), "    ")}
    return 0

sys.exit(run_tool(argparse.ArgumentParser, tool, []))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (128 + number, "")
