"""Ctrl-C while a model compiles: it ends, it leaves no part of a file, no thread, and a process that can go on."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.cli.common import run_tool
from stablehlo_py.interrupts import checkpoint, deferred

LIMIT_S = 120  # of what should take a second: a process that hangs fails its test


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose compilation takes a while."""
    file = tmp_path_factory.mktemp("model") / "resnet50.mlirbc"
    file.write_bytes(suite.export(suite.build("resnet50")).mlir_module_serialized)
    return file


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt(process: subprocess.Popen[str], delay: float) -> tuple[str, str]:
    """Wait for the process's first line, then `delay`, then send SIGINT; the rest of its output."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()


# The import of the MLIR wheel (C++ that an exception would end), the stages, the generation and compilation of code.
@pytest.mark.parametrize("delay", [0, 0.04, 0.08, 0.12, 0.16, 0.3, 0.6, 0.9])
def test_a_process_ends(model: Path, tmp_path: Path, delay: float) -> None:
    code = """
        import sys
        import stablehlo_py as shlo
        print("ready", flush=True)
        while True:  # however fast the machine is, something is being compiled
            shlo.compile(sys.argv[1], options=shlo.Options(cache_dir=sys.argv[2]))
            for file in __import__("pathlib").Path(sys.argv[2]).iterdir(): file.unlink()
    """
    process = start(code, model, tmp_path)
    _, err = interrupt(process, delay)
    assert process.returncode == -signal.SIGINT, err
    assert "KeyboardInterrupt" in err
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".shlo"] == []
    for file in tmp_path.iterdir():  # an entry is whole or absent
        shlo.load_executable(file)


def test_a_process_can_go_on(model: Path) -> None:
    code = """
        import sys, threading
        import numpy as np
        import stablehlo_py as shlo
        before = threading.active_count()
        print("ready", flush=True)
        try:
            while True:
                shlo.compile(sys.argv[1])
        except KeyboardInterrupt:
            print(threading.active_count() - before)
        text = '''func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
          %y = stablehlo.negate %x : tensor<3xf32>
          return %y : tensor<3xf32>
        }'''
        print(shlo.compile(text)(np.ones(3, np.float32))[0].tolist())
    """
    process = start(code, model)
    out, err = interrupt(process, 0.7)
    assert process.returncode == 0, err
    assert out.splitlines() == ["0", "[-1.0, -1.0, -1.0]"]


@pytest.mark.parametrize("arguments", [(), ("--no-isolate",)])
def test_the_tool_ends_with_130_and_leaves_no_part_of_a_file(
    model: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    output = tmp_path / "out.shloexe"
    code = """
        import sys
        from stablehlo_py.cli.compile import main
        print("ready", flush=True)
        status = 0
        while status == 0:
            status = main(sys.argv[1:])
        sys.exit(status)
    """
    process = start(code, model, "--quiet", "--output", output, *arguments)
    _, err = interrupt(process, 0.6)
    assert (process.returncode, err) == (130, "")
    assert set(tmp_path.iterdir()) <= {output}
    if output.exists():
        shlo.load_executable(output)


def test_the_tool_ends_with_130_before_its_arguments_are_read(capfd: pytest.CaptureFixture[str]) -> None:
    def parser() -> argparse.ArgumentParser:
        raise KeyboardInterrupt

    assert run_tool(parser, lambda arguments: 0, []) == 130
    assert capfd.readouterr() == ("", "")


def test_a_killed_process_leaves_a_cache_that_works(model: Path, tmp_path: Path) -> None:
    (tmp_path / ".partial-1234-abcdef").write_bytes(b"what a killed process was writing")
    text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    for _ in range(2):
        shlo.compile(text, options=shlo.Options(cache_dir=tmp_path))
    assert len([file for file in os.listdir(tmp_path) if not file.startswith(".partial-")]) == 1


def test_deferred_waits_for_a_checkpoint() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), deferred():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # where the signal would be answered
        reached.append("after the signal")
        with deferred():  # of two, the outer one decides
            pass
        reached.append("after the inner one")
        checkpoint()
        reached.append("after the checkpoint")
    assert reached == ["after the signal", "after the inner one"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_deferred_answers_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), deferred():
        os.kill(os.getpid(), signal.SIGINT)
        raise RuntimeError("a child that got the signal too")


def test_deferred_calls_the_handler_that_was_there() -> None:
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with deferred():
            os.kill(os.getpid(), signal.SIGINT)
            assert came == []
        assert came == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
