"""stablehlo.rng: distributions, and what a number depends on, as docs/random-numbers.md says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.dialect.formats import FORMATS
from stablehlo_py.element_types import ELEMENT_TYPES

COUNT = 1 << 14
OPTIONS = shlo.Options(cache_dir=None)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "random-numbers.md"


def _draw(name: str, distribution: str, count: int = COUNT) -> str:
    return f"""func.func @main(%a: tensor<{name}>, %b: tensor<{name}>) -> tensor<{count}x{name}> {{
      %n = stablehlo.constant dense<{count}> : tensor<1xi64>
      %x = stablehlo.rng %a, %b, %n, distribution = {distribution} :
        (tensor<{name}>, tensor<{name}>, tensor<1xi64>) -> tensor<{count}x{name}>
      return %x : tensor<{count}x{name}>
    }}"""


def _numbers(name: str, distribution: str, a: float, b: float) -> np.ndarray:
    dtype = ELEMENT_TYPES[name]
    (x,) = shlo.compile(_draw(name, distribution), options=OPTIONS)(
        np.array(a).astype(dtype), np.array(b).astype(dtype)
    )
    return x


def _is_close_to(found: np.ndarray, probability: np.ndarray) -> bool:
    """Frequencies of COUNT draws within 5 standard deviations of their probabilities."""
    return bool((abs(found - probability) < 5 * np.sqrt(probability * (1 - probability) / COUNT)).all())


@pytest.mark.parametrize("name", [name for name in ELEMENT_TYPES if re.fullmatch(r"u?i\d+", name) and name != "i1"])
def test_integers_are_uniform(name):
    a, b = {"i2": (-2, 1), "ui2": (0, 3)}.get(name, (1, 7))
    x = _numbers(name, "UNIFORM", a, b).astype(np.int64)
    frequencies = np.bincount(x - a, minlength=b - a) / COUNT
    assert len(frequencies) == b - a
    assert _is_close_to(frequencies, np.full(b - a, 1 / (b - a)))


@pytest.mark.parametrize(
    ("name", "a", "b"), [("i64", -(2**63), 2**62), ("ui64", 0, 3 * 2**62), ("i32", -(2**31), 2**30), ("i8", -128, 64)]
)
def test_integers_of_an_interval_that_signed_numbers_cannot_count(name, a, b):
    """Three quarters of all numbers: each third of them is as frequent."""
    dtype = ELEMENT_TYPES[name]
    (x,) = shlo.compile(_draw(name, "UNIFORM"), options=OPTIONS)(dtype.type(a), dtype.type(b))
    thirds = np.bincount([(int(each) - a) * 3 // (b - a) for each in x], minlength=3) / COUNT
    assert _is_close_to(thirds, np.full(3, 1 / 3))


def test_booleans_of_an_interval_are_its_first():
    assert not _numbers("i1", "UNIFORM", False, True).any()


@pytest.mark.parametrize("name", FORMATS)
def test_floats_are_uniform(name):
    scale = name == "f8E8M0FNU"  # which has powers of two only
    a, b = (0.25, 4) if scale else (-1, 3)
    x = _numbers(name, "UNIFORM", a, b).astype(np.float64)
    assert x.min() >= a
    assert x.max() < b
    if FORMATS[name].bits >= 16:  # narrow ones round to few numbers
        assert _is_close_to(np.histogram(x, np.linspace(a, b, 9))[0] / COUNT, np.full(8, 1 / 8))
        assert x.max() > b - 0.02
    elif not scale:
        assert abs(np.median(x) - 1) <= 0.5


def test_uniform_floats_of_an_interval_that_is_wider_than_the_largest_number():
    largest = float(np.finfo(np.float32).max)
    x = _numbers("f32", "UNIFORM", -largest, largest)
    assert np.isfinite(x).all()
    assert _is_close_to(np.array([(x < 0).mean()]), np.array([0.5]))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_normal_floats(name):
    x = _numbers(name, "NORMAL", 1, 2).astype(np.float64)
    edges = np.array([-2, -1, 0, 1, 2, 3, 4]) / 1.0
    below = np.array([(x < edge).mean() + (x == edge).mean() / 2 for edge in edges])
    assert _is_close_to(below, np.array([0.5 * (1 + math.erf((edge - 1) / 2 / math.sqrt(2))) for edge in edges]))
    assert np.isfinite(x).all()


def test_the_numbers_are_the_documented_ones():
    """u of the words that Philox gives for [key, 0, site << 32 | draw]."""
    bits = shlo.compile(
        """func.func @main(%s: tensor<3xui64>) -> tensor<16xui32> {
          %t, %x = stablehlo.rng_bit_generator %s, algorithm = PHILOX :
            (tensor<3xui64>) -> (tensor<3xui64>, tensor<16xui32>)
          return %x : tensor<16xui32>
        }""",
        options=OPTIONS,
    )
    exe = shlo.compile(LOOP, options=OPTIONS)
    exe.seed(5)
    exe(np.int32(1))
    loop, after = exe(np.int32(3))
    (key,) = np.random.SeedSequence((5, 1, 0)).generate_state(1, np.uint64)
    for site, draw, found in ((0, 0, loop[0]), (0, 2, loop[2]), (1, 0, after)):
        (words,) = bits(np.array([key, 0, site << 32 | draw], np.uint64))
        np.testing.assert_array_equal(found, (words >> 8) / np.float32(2**24))


LOOP = """func.func @main(%n: tensor<i32>) -> (tensor<3x16xf32>, tensor<16xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<16> : tensor<1xi64>
  %x = stablehlo.constant dense<0.0> : tensor<3x16xf32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3x16xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %u = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<16xf32>
    %v = stablehlo.reshape %u : (tensor<16xf32>) -> tensor<1x16xf32>
    %z = stablehlo.dynamic_update_slice %y, %v, %i, %zero :
      (tensor<3x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<3x16xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %z : tensor<i32>, tensor<3x16xf32>
  }
  %w = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<16xf32>
  return %r#1, %w : tensor<3x16xf32>, tensor<16xf32>
}"""


def test_iterations_and_calls_differ_and_repeat_from_a_seed(tmp_path):
    exe, n = shlo.compile(LOOP, options=OPTIONS), np.int32(3)
    first, second = (np.vstack(exe(n)) for _ in range(2))
    assert len(np.unique(np.vstack([first, second]))) == 2 * 64
    exe.seed(0)
    np.testing.assert_array_equal(np.vstack(exe(n)), first)
    exe.seed(1)
    assert not np.isin(np.vstack(exe(n)), first).any()
    exe.save(tmp_path / "saved")
    np.testing.assert_array_equal(np.vstack(shlo.load_executable(tmp_path / "saved")(n)), first)
    with pytest.raises(shlo.ArgumentError, match="the seed is -1"):
        exe.seed(-1)


def test_a_loop_that_is_unrolled_draws_the_same():
    known = LOOP.replace("%i, %n :", "%i, %three :").replace(
        "  %a =", "  %three = stablehlo.constant dense<3> : tensor<i32>\n  %a =", 1
    )
    loop, unrolled = (shlo.compile(text, options=OPTIONS)(np.int32(3)) for text in (LOOP, known))
    np.testing.assert_array_equal(np.vstack(loop), np.vstack(unrolled))


def test_processes_draw_their_own_numbers():
    exe = shlo.compile(LOOP, options=shlo.Options(cache_dir=None, num_replicas=2))
    ((one,), (other,)) = exe.call_grid([[[np.int32(3)]], [[np.int32(3)]]])
    assert not np.isin(np.vstack(one), np.vstack(other)).any()


def test_shapes_share_the_numbers_of_a_symbolic_executable():
    text = _draw("f32", "UNIFORM", 4).replace("%b: tensor<f32>)", "%b: tensor<f32>, %s: tensor<?xf32>)")
    exe = shlo.compile(text, options=OPTIONS)
    a, b = np.float32(0), np.float32(1)
    drawn = [exe(a, b, np.zeros(size, np.float32))[0] for size in (1, 2, 1)]
    assert len(np.unique(drawn)) == 12
    exe.seed(0)
    np.testing.assert_array_equal(exe(a, b, np.zeros(3, np.float32))[0], drawn[0])


def test_the_example_of_the_page_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(example, str(PAGE), "exec"), {})
