"""Errors of the elementary functions on samples stay within the targets; docs/accuracy.md has the exact ones."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest
from flint import arb

from stablehlo_py.accuracy.balls import exact_values
from stablehlo_py.accuracy.compiled import Compiled, digest_of
from stablehlo_py.accuracy.complex_functions import (
    COMPLEX_FUNCTIONS,
    PARTS,
    exact_parts,
    exact_value,
    measure_complex,
    numbers,
)
from stablehlo_py.accuracy.formats import FORMATS, exact_ulp, exact_ulps, ulps
from stablehlo_py.accuracy.functions import FUNCTIONS
from stablehlo_py.accuracy.inputs import samples
from stablehlo_py.accuracy.journal import Journal
from stablehlo_py.accuracy.measure import State, Worst, measure, right_values
from stablehlo_py.api import compile
from stablehlo_py.options import Options

STRIDE = 131_101  # 32,761 of the 2^32 f32 bit patterns


@cache
def compiled(name: str, element: str) -> Compiled:
    """A function for a type, compiled once for all tests."""
    return (COMPLEX_FUNCTIONS[name] if element in PARTS else FUNCTIONS[name]).compiled(element)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_stay_within_the_target(name: str, element: str) -> None:
    function = FUNCTIONS[name]
    count = 1 << 15 if function.arb is None or element == "f32" else 1 << 12
    result = measure(function, element, stride=STRIDE, count=count, rechecked=100, compiled=compiled(name, element))
    if element in function.missed:
        assert not result.met, "the target is met now: remove the entry in `missed`"
        return
    assert result.met, f"{result.error} ulp at {result.where}; allowed are {result.target}"


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_f32_next_to_zeros(name: str) -> None:
    function, of = FUNCTIONS[name], FORMATS["f32"]
    points = np.array(function.near, np.float32).view(np.int32)
    arguments = (points[:, None] + np.arange(-8, 9, dtype=np.int32)).reshape(-1).view(np.float32)
    arguments = arguments[(arguments > 0) | (arguments != np.floor(arguments))]
    results = compiled(name, "f32")(arguments)
    with mpmath.workprec(150):
        errors = [
            exact_ulps(result, function.exact(mpmath.mpf(argument)), of)
            for argument, result in zip(arguments.tolist(), results.tolist(), strict=True)
        ]
    assert max(errors) <= function.targets["f32"]


@pytest.mark.parametrize("element", ["c64", "c128"])
@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
def test_complex_errors_stay_within_the_target(name: str, element: str) -> None:
    function = COMPLEX_FUNCTIONS[name]
    result = measure_complex(function, element, count=1 << 12, rechecked=50, compiled=compiled(name, element))
    if element in function.missed:
        assert not result.met, "the target is met now: remove the entry in `missed`"
        return
    assert result.met, f"{result.error} ulp at {result.where}; allowed are {result.target}"


def difference(value: np.longdouble, exact: mpmath.mpf) -> float:
    """In ulps of f64. Infinity is the first number out of range."""
    top = mpmath.ldexp(1, 1024)
    if np.isfinite(value):
        fraction, exponent = np.frexp(value)
        high = float(fraction)
        ours = mpmath.ldexp(mpmath.mpf(high) + float(fraction - high), int(exponent))
    else:
        ours = top * int(np.sign(value))
    ours, exact = max(-top, min(top, ours)), max(-top, min(top, exact))
    return float(abs(ours - exact) / exact_ulp(exact, FORMATS["f64"]))


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.arb is not None])
def test_arb_and_mpmath_agree(name: str) -> None:
    function = FUNCTIONS[name]
    rows = list(zip(*(argument.tolist() for argument in samples(function, FORMATS["f64"], 60, 3)), strict=True))
    with np.errstate(all="ignore"):
        inside = ~np.isnan(function.wide(*np.array(rows).T))
    rows = [row for row, known in zip(rows, inside, strict=True) if known]
    values = exact_values(function.arb, [[arb(number) for number in row] for row in rows])[:, 0]
    with mpmath.workprec(200):
        exact = [function.exact(*map(mpmath.mpf, row)) for row in rows]
        assert max(map(difference, values, exact)) < 0.001


@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
def test_arb_and_mpmath_agree_on_complex_numbers(name: str) -> None:
    function, of = COMPLEX_FUNCTIONS[name], FORMATS["f64"]
    rng = np.random.default_rng(2)
    arguments = [numbers(rng, 60, function, of) for _ in range(function.arity)]
    for row, value in zip(zip(*arguments, strict=True), exact_parts(function, arguments, of), strict=True):
        exact = exact_value(function, row, of)
        with mpmath.workprec(200):
            for part, right in zip(value, (exact.real, exact.imag), strict=True):
                assert difference(part, right) < 0.001


@pytest.mark.parametrize(("name", "argument"), [(f.name, x) for f in FUNCTIONS.values() for x in f.hard])
def test_hard_arguments_are_hard(name: str, argument: float) -> None:
    with mpmath.workprec(1200):
        turns = mpmath.mpf(argument) / (mpmath.pi / 2)
        if abs(turns - mpmath.nint(turns)) < mpmath.ldexp(1, -61):
            return
        fraction, _ = mpmath.frexp(FUNCTIONS[name].exact(mpmath.mpf(argument)))
        halves = fraction * 2**54
        assert 0 < abs(halves - mpmath.nint(halves)) < mpmath.ldexp(1, -46)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["exponential", "log", "tanh", "logistic"])
def test_small_types_are_rounded_once(name: str, element: str) -> None:
    assert measure(FUNCTIONS[name], element, stride=1, count=0, rechecked=200).met


@pytest.mark.parametrize(
    ("name", "element"),
    [
        *((name, element) for name in FUNCTIONS for element in ("f32", "f64")),
        *((name, element) for name in COMPLEX_FUNCTIONS for element in PARTS),
    ],
)
def test_a_number_by_itself_gets_the_bits_of_a_lane(name: str, element: str) -> None:
    """What digests rest on: the code of a single number stands for that of vectors."""
    if element in PARTS:
        function = COMPLEX_FUNCTIONS[name]
        rng, of = np.random.default_rng(5), FORMATS[PARTS[element]]
        arguments = [numbers(rng, 24, function, of) for _ in range(function.arity)]
    else:
        arguments = list(samples(FUNCTIONS[name], FORMATS[element], 24, 5))
    lanes = compiled(name, element)
    alone = compile(lanes.text(""), options=Options(threads=1, cache_dir=None))
    one_by_one = [alone(*row)[0] for row in zip(*arguments, strict=True)]
    np.testing.assert_array_equal(lanes(*arguments), np.array(one_by_one))


def test_a_digest_is_that_of_what_is_computed() -> None:
    kernel = """llvm.func @fusion_0(%in0: !llvm.ptr, %out0: !llvm.ptr) attributes {target_cpu = "here"} {
%c0 = llvm.mlir.constant(0x3F800000 : f32) : f32
%c1 = llvm.mlir.constant(0x40000000 : f32) : f32
%1 = llvm.load %in0 {alignment = 4 : i64} : !llvm.ptr -> f32
%2 = llvm.fsub %1, %c0 : f32
%3 = llvm.fmul %1, %c1 : f32
%4 = llvm.fcmp "olt" %1, %c0 : f32
llvm.cond_br %4, ^b2(%3 : f32), ^b1(%2 : f32)
^b1(%5: f32):
%6 = llvm.fadd %5, %1 : f32
llvm.br ^b2(%6 : f32)
^b2(%7: f32):
llvm.store %7, %out0 {alignment = 4 : i64} : f32, !llvm.ptr
llvm.return
}
"""
    lines = kernel.splitlines(keepends=True)
    reordered = "".join([lines[0], *lines[2:4], lines[1], lines[5], lines[4], *lines[6:]])
    assert reordered != kernel
    renamed = reordered.replace("%5", "%8").replace("%c1", "%c9").replace("alignment = 4", "alignment = 8")
    assert digest_of(renamed.replace("here", "there") + "llvm.func @shlo_main() {}") == digest_of(kernel)
    for old, new in (
        ("fmul", "fadd"),
        ("llvm.fsub %1, %c0", "llvm.fsub %c0, %1"),
        ("llvm.fadd %5, %1", "llvm.fadd %5, %2"),
        ("^b2(%3 : f32), ^b1(%2 : f32)", "^b2(%2 : f32), ^b1(%3 : f32)"),
        ("store %7", "store %1"),
        ("0x40000000", "0x40000001"),
    ):
        assert digest_of(kernel.replace(old, new)) != digest_of(kernel)
    digests = [Compiled("tanh", element).digest for element in ("f32", "f64", "f16", "bf16")]
    assert len(set(digests)) == len(digests)


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


def test_right_values_of_a_scalar_and_of_nothing():
    of = FUNCTIONS["erf"]
    scalar = right_values(of, [np.float64(0.5)])
    assert scalar.shape == () and float(scalar) == float(mpmath.erf(0.5))
    assert right_values(of, [np.zeros((3, 0))]).shape == (3, 0)
    np.testing.assert_array_equal(right_values(of, [np.array([np.inf, -0.0, np.nan])]), [1, -0.0, np.nan])
