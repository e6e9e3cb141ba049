"""Which oracles are asked, and that no tool accuses anybody where there is nothing to blame."""

from __future__ import annotations

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablehlo_py.cli import compare
from stablehlo_py.debug import oracles
from stablehlo_py.debug.bisect import bisect
from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.reduce import what_is_wrong
from stablehlo_py.debug.settings import Settings
from stablehlo_py.debug.workers import Answer, Workers
from stablehlo_py.errors import OptionError, UnsupportedError

HERE = Path(__file__).parent
X = np.ones((4, 4), np.float32)


def product(size: int) -> str:
    matrix = f"tensor<{size}x{size}xf32>"
    return (
        f"func.func @main(%x: {matrix}) -> {matrix} {{\n"
        f"  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {matrix}\n"
        f"  return %y : {matrix}\n}}\n"
    )


def test_the_interpreter_is_asked_where_it_is_quick_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.ones((500, 500), np.float32)
    assert oracles.choose(product(4), [X], None) == oracles.Choice(("reference", "jax"))
    choice = oracles.choose(product(500), [large], None)
    assert choice.names == ("jax", "hlo")
    assert choice.note == (
        "StableHLO's interpreter would take 4 min or more: asking XLA and the evaluation of hlo in NumPy"
    )
    monkeypatch.setattr(oracles, "has_jax", lambda: False)
    assert oracles.choose(product(500), [large], None).names == ("hlo",)
    assert oracles.choose(product(4), [X], None).names == ("reference",)


def test_loops_that_count_to_a_constant_count() -> None:
    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 1000, lambda _, y: jnp.tanh(y @ x), x)

    module = bytes(jax.export.export(jax.jit(loop), platforms=["cpu"])(X).mlir_module_serialized)
    seconds = oracles.reference_seconds(module, [X], None)
    assert 1000 * 5 * 16 * oracles.SECONDS_AN_OPERATION < seconds < 1.2 * 1000 * 5 * 16 * oracles.SECONDS_AN_OPERATION


def test_a_bisection_asks_the_next_oracle_where_one_fails() -> None:
    with Workers() as workers:
        workers["reference"].timeout_s = 0.0
        blame = bisect(workers, product(4), [X], ("reference", "hlo"), Settings())
        assert (blame.oracle, blame.found) == ("hlo", False)
        workers["reference"].timeout_s = 0.0
        with pytest.raises(UnsupportedError, match="the oracle reference cannot run the module"):
            bisect(workers, product(4), [X], ("reference",), Settings())


def test_durations() -> None:
    assert [oracles.duration(seconds) for seconds in (0.2, 104, 600, 36000)] == ["1 s", "104 s", "10 min", "10 h"]


class Instead:
    """Stands for a worker that would take minutes."""

    timeout_s = 120.0

    def run(self, *_: object) -> Answer:
        return Answer("ok", (X,))


def test_a_slow_oracle_that_is_named_says_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    worker, shown = Instead(), list[str]()
    inputs = [np.ones((500, 500), np.float32)]
    expected, _ = compare.ask_oracles(
        {"reference": worker},  # type: ignore[arg-type]
        ["reference"],
        product(500),
        None,
        inputs,
        shown.append,
    )
    assert expected == {"reference": (X,)}
    assert capsys.readouterr().out == "reference takes 4 min or more; --compare without names asks faster ones\n"
    assert shown[-1] == "reference, which takes 4 min or more"
    assert worker.timeout_s > 1000


def test_there_is_nothing_to_reduce_where_rounding_explains_a_difference() -> None:
    chaos = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %e = stablehlo.exponential %x : tensor<4x4xf32>
      %s = stablehlo.sine %e : tensor<4x4xf32>
      return %s : tensor<4x4xf32>
    }"""

    class Both:
        """Our results, and the oracle's: what NumPy gives, moved by a little; and NumPy itself."""

        def __init__(self) -> None:
            from stablehlo_py.debug.engines import ENGINES

            self.engines = ENGINES

        def run(self, engine: str, module: str, inputs: list[np.ndarray], settings: Settings | None = None) -> Answer:
            (result,) = self.engines["hlo"](module, inputs, settings or Settings())
            return Answer("ok", (result + np.float32(0.01 * (engine == "ours")),))

    with pytest.raises(OptionError, match="rounding explains the difference"):
        what_is_wrong(Both(), Case(chaos, (X * 11,)), "jax", Settings())  # type: ignore[arg-type]
    assert what_is_wrong(Both(), Case(chaos, (X,)), "jax", Settings())  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["mixture-of-experts", "train-mlp", "gru", "dormand-prince"])
def test_nobody_is_accused_of_a_right_model(model: str) -> None:
    run = runpy.run_path(str(HERE / "innocent_models.py"))["run"]
    bisected = run(model, "small", "bisect", seed=1, timeout_s=300)
    assert bisected["status"] == 0, bisected
    assert bisected["said"][-1].startswith("nothing to blame"), bisected


def test_comparison_without_names_accuses_nobody() -> None:
    run = runpy.run_path(str(HERE / "innocent_models.py"))["run"]
    compared = run("train-mlp", "small", "compare", seed=1, timeout_s=300)
    assert compared["status"] == 0, compared
    assert compared["said"][-1] == "ours, reference, jax: all agree", compared
