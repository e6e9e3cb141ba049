"""Errors of the elementary functions on samples stay within the targets; docs/accuracy.md has the exact ones."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from stablehlo_py.accuracy.complex_functions import COMPLEX_FUNCTIONS, measure_complex
from stablehlo_py.accuracy.formats import FORMATS, exact_ulps, ulps
from stablehlo_py.accuracy.functions import FUNCTIONS
from stablehlo_py.accuracy.journal import Journal
from stablehlo_py.accuracy.measure import State, Worst, measure

STRIDE = 131_101  # 32,761 of the 2^32 f32 bit patterns


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_stay_within_the_target(name: str, element: str) -> None:
    function = FUNCTIONS[name]
    count = 1 << 15 if function.screened or element == "f32" else 500
    result = measure(function, element, stride=STRIDE, count=count, rechecked=100)
    if element in function.missed:
        assert not result.met, "the target is met now: remove the entry in `missed`"
        return
    assert result.met, f"{result.error} ulp at {result.where}; allowed are {result.target}"


@pytest.mark.parametrize("element", ["c64", "c128"])
@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
def test_complex_errors_stay_within_the_target(name: str, element: str) -> None:
    function = COMPLEX_FUNCTIONS[name]
    result = measure_complex(function, element, count=200)
    if element in function.missed:
        assert not result.met, "the target is met now: remove the entry in `missed`"
        return
    assert result.met, f"{result.error} ulp at {result.where}; allowed are {result.target}"


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["exponential", "log", "tanh", "logistic"])
def test_small_types_are_rounded_once(name: str, element: str) -> None:
    assert measure(FUNCTIONS[name], element, stride=1, count=0, rechecked=200).met


@pytest.mark.parametrize("element", FORMATS)
def test_ulps(element: str) -> None:
    of = FORMATS[element]
    one = np.array([1.0], of.dtype)
    step = np.longdouble(2.0 ** (1 - of.precision))
    assert ulps(one, np.array([1 + step / 4]), of)[0] == 0.25
    assert ulps(one, np.array([1 + 3 * step]), of)[0] == 3
    with mpmath.workprec(100):
        assert exact_ulps(1.0, 1 + mpmath.mpf(3) / 4 * float(step), of) == 0.75
    smallest = np.array([1], of.bits).view(of.dtype)
    assert ulps(smallest, np.zeros(1, np.longdouble), of)[0] == 1
    assert ulps(np.array([np.inf], of.dtype), np.array([-np.inf], np.longdouble), of)[0] > 2 ** (of.precision - 1)
    assert np.isinf(ulps(-np.zeros(1, of.dtype), np.zeros(1, np.longdouble), of)[0])
    assert np.isinf(ulps(np.array([np.nan], of.dtype), np.ones(1, np.longdouble), of)[0])


def test_a_stopped_measurement_goes_on(tmp_path, monkeypatch) -> None:
    function = FUNCTIONS["sqrt"]
    whole = measure(function, "f32", stride=STRIDE, count=0, rechecked=50)
    journal = Journal(tmp_path / "journal.json")
    monkeypatch.setattr("stablehlo_py.accuracy.journal._SAVE_EVERY", 0.0)

    def stop(state: State) -> None:
        journal.progress("sqrt", "f32", whole.digest, STRIDE, state)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(function, "f32", stride=STRIDE, count=0, progress=stop)
    again = Journal(tmp_path / "journal.json")
    state = again.resume("sqrt", "f32", whole.digest, STRIDE, FORMATS["f32"].bits)
    assert state is not None and 0 < state.inputs < whole.inputs
    assert measure(function, "f32", stride=STRIDE, count=0, state=state, rechecked=50) == whole
    again.finish(whole)
    assert Journal(tmp_path / "journal.json").covers("sqrt", "f32", whole.digest, whole.inputs) == whole


def test_the_worst_cases_are_kept() -> None:
    worst = Worst()
    rng = np.random.default_rng(0)
    errors = rng.random(100_000)
    for part in np.split(errors, 10):
        worst.add(part, [part.view(np.uint64)])
    worst.cut(100)
    assert sorted(worst.errors) == sorted(errors)[-100:]
    np.testing.assert_array_equal(worst.arguments[0].view(np.float64), worst.errors)
