"""What happens when processes do not meet: an error that says where each of them is, and never a hang."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import stablehlo_py as shlo

REDUCE = """%{0} = "stablehlo.all_reduce"(%{1}) ({{
    ^bb0(%l: tensor<f32>, %m: tensor<f32>):
      %r = stablehlo.add %l, %m : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }}) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xf32>) -> tensor<4xf32>"""
PERMUTE = """%{0} = "stablehlo.collective_permute"(%{1}) {{
      source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}} : (tensor<4xf32>) -> tensor<4xf32>"""


def _branching(first: str, second: str) -> str:
    """Process 0 runs the first branch, process 1 the second."""
    return f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %id = stablehlo.replica_id : tensor<ui32>
  %zero = stablehlo.constant dense<0> : tensor<ui32>
  %p = stablehlo.compare EQ, %id, %zero : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
  %v = "stablehlo.if"(%p) ({{
    {first}
    stablehlo.return %f : tensor<4xf32>
  }}, {{
    {second}
    stablehlo.return %s : tensor<4xf32>
  }}) : (tensor<i1>) -> tensor<4xf32>
  {REDUCE.format("w", "v")}
  return %w : tensor<4xf32>
}}"""


NOTHING = "%{0} = stablehlo.negate %{1} : tensor<4xf32>"
# Ends when the maximum of all processes is zero; each process counts down for itself.
COUNTDOWN = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %step = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w = stablehlo.while(%x = %a) : tensor<4xf32> cond {{
    %s = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %go = stablehlo.compare GT, %s, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %d = stablehlo.subtract %x, %step : tensor<4xf32>
    {REDUCE.format("t", "d")}
    %h = stablehlo.maximum %d, %zeros : tensor<4xf32>
    %u = stablehlo.multiply %t, %zeros : tensor<4xf32>
    %n = stablehlo.add %h, %u : tensor<4xf32>
    stablehlo.return %n : tensor<4xf32>
  }}
  return %w : tensor<4xf32>
}}"""
A, B = np.ones(4, np.float32), np.full(4, 2, np.float32)


def _compile(text: str, replicas: int = 2) -> shlo.GridExecutable:
    made = shlo.compile(text, options=shlo.Options(num_replicas=replicas))
    assert isinstance(made, shlo.GridExecutable)
    return made


def test_one_process_waits_for_another_that_has_ended() -> None:
    made = _compile(COUNTDOWN)
    np.testing.assert_array_equal(made.call_grid([[[A]], [[A]]])[0][0][0], np.zeros(4))
    with pytest.raises(shlo.CommunicationError, match="wait for each other") as caught:
        made.call_grid([[[A]], [[B]]])
    assert "process (0, 0) has ended" in str(caught.value)
    assert "process (1, 0) waits at 'stablehlo.all_reduce' at <text>:" in str(caught.value)
    np.testing.assert_array_equal(made.call_grid([[[B]], [[B]]])[0][0][0], np.zeros(4))  # a call leaves nothing behind


def test_processes_at_different_ops_of_one_group() -> None:
    made = _compile(_branching(REDUCE.format("f", "a"), REDUCE.format("s", "a")))
    with pytest.raises(shlo.CommunicationError, match="meet at different ops"):
        made.call_grid([[[A]], [[B]]])


def test_a_process_that_skips_a_collective_meets_the_next_one() -> None:
    made = _compile(_branching(REDUCE.format("f", "a"), NOTHING.format("s", "a")))
    with pytest.raises(shlo.CommunicationError, match="different ops"):
        made.call_grid([[[A]], [[B]]])


def test_a_time_limit() -> None:
    made = _compile(COUNTDOWN)
    long = np.full(4, 1e9, np.float32)
    started = time.monotonic()
    with pytest.raises(shlo.CommunicationError, match="has not finished in"):
        made.call_grid([[[long]], [[long]]], timeout=0.3)
    assert time.monotonic() - started < 30


def test_ctrl_c_ends_a_call() -> None:
    made = _compile(COUNTDOWN)
    long = np.full(4, 1e9, np.float32)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        made.call_grid([[[long]], [[long]]], timeout=60)  # a limit: without an answer the test fails, and ends
    np.testing.assert_array_equal(made.call_grid([[[B]], [[B]]])[0][0][0], np.zeros(4))


def test_arguments_of_every_process_are_checked() -> None:
    made = _compile(COUNTDOWN)
    with pytest.raises(shlo.ArgumentError, match="replicas of"):
        made.call_grid([[[A]]])
    with pytest.raises(shlo.ArgumentError) as caught:
        made.call_grid([[[A]], [[np.ones(3, np.float32)]]])
    assert "process (1, 0)" in str(caught.value)
    with pytest.raises(shlo.ArgumentError, match="call_grid"):
        made(A)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (REDUCE, "names replica 1, the grid has 1 replica"),
        (REDUCE.replace("[[0, 1]]> : tensor<1x2", "[[0]]> : tensor<1x1"), None),
        (PERMUTE, "names replica 1"),
    ],
)
def test_groups_must_fit_the_grid(text: str, reason: str | None) -> None:
    module = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  {text.format("v", "a")}
  return %v : tensor<4xf32>
}}"""
    if reason is None:
        np.testing.assert_array_equal(shlo.compile(module)(A)[0], A)
        return
    with pytest.raises(shlo.UnsupportedError, match=reason) as caught:
        shlo.compile(module)
    assert "num_replicas" in str(caught.value)


def test_the_size_of_the_grid_is_checked() -> None:
    with pytest.raises(shlo.OptionError, match="num_replicas is 0"):
        shlo.Options(num_replicas=0)


def test_an_artifact_keeps_its_grid(tmp_path: object) -> None:
    made = _compile(COUNTDOWN)
    made.save(f"{tmp_path}/grid.shlo")
    loaded = shlo.load_executable(f"{tmp_path}/grid.shlo")
    assert isinstance(loaded, shlo.GridExecutable)
    assert (loaded.num_replicas, loaded.num_partitions) == (2, 1)
    np.testing.assert_array_equal(loaded.call_grid([[[B]], [[B]]])[1][0][0], np.zeros(4))


def test_a_program_that_does_not_communicate_runs_on_a_grid_that_is_asked_for() -> None:
    module = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n %v = stablehlo.negate %a : tensor<4xf32>\n"
    made = _compile(module + " return %v : tensor<4xf32>\n}")
    results = made.call_grid([[[A]], [[B]]])
    np.testing.assert_array_equal(results[1][0][0], -B)
