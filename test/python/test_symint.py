"""Sizes that are known at run time: arithmetic against that of ints, normal forms, what is decided and what is not."""

import random

import pytest

from stablehlo_py.dialect import symint
from stablehlo_py.dialect.symint import (
    GuardError,
    SymInt,
    always_at_most,
    always_less,
    content,
    size_hint,
    substitute,
    symbol,
)
from stablehlo_py.dialect.symint_text import parse_sizes, sizes_text

B, C = symbol("d0_0"), symbol("d1_0")

OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": symint.floordiv,
    "%": symint.mod,
    "trunc": symint.truncdiv,
    "rem": symint.remainder,
    "max": symint.maximum,
    "min": symint.minimum,
    "==": symint.equal,
    "<": symint.less,
}


def test_expressions_have_the_values_of_ints():
    rng = random.Random(0)
    values = [{"d0_0": b, "d1_0": c} for b in (1, 2, 3, 7, 64) for c in (1, 5, 12)]
    for _ in range(400):
        terms = [(B, [v["d0_0"] for v in values]), (C, [v["d1_0"] for v in values])]
        terms += [(n, [n] * len(values)) for n in (-3, 0, 2, 4, 15)]
        for _ in range(5):
            name = rng.choice(list(OPERATIONS))
            (a, a_values), (b, b_values) = rng.choice(terms), rng.choice(terms)
            if name in ("//", "%", "trunc", "rem") and any(v <= 0 for v in b_values):
                continue
            result = OPERATIONS[name](a, b)
            expected = [OPERATIONS[name](x, y) for x, y in zip(a_values, b_values, strict=True)]
            assert [substitute(result, v) for v in values] == expected, f"({a}) {name} ({b}) = {result}"
            low, high = symint.bounds(result)
            assert all(low <= number <= high for number in expected), f"({a}) {name} ({b}): {low} to {high}"
            if isinstance(result, SymInt):
                assert parse_sizes(str(result)) == (result,)
            terms.append((result, expected))


def test_equal_expressions_are_equal():
    assert (B + 1) * (B - 1) == B * B - 1
    assert B * C - C * B == 0
    assert (4 * B + 8) // 4 == B + 2
    assert (6 * B + 3) % 3 == 0
    assert (B * B * 20) // (B * 4) == 5 * B
    assert (2 * B + 2) // (B + 1) == 2
    assert symint.mod(4 * B + 3, 4) == 3
    assert hash(B + C) == hash(C + B)
    assert B != 1
    assert sizes_text((B * 3 - 4, 7)) == "3*d0_0-4, 7"


def test_truncation_rounds_towards_zero():
    assert (symint.truncdiv(-7, 2), symint.remainder(-7, 2)) == (-3, -1)
    assert substitute(symint.truncdiv(-B, 2), {"d0_0": 7}) == -3
    assert substitute(symint.floordiv(-B, 2), {"d0_0": 7}) == -4


def test_orders_are_known_or_undecided():
    assert B > 0
    assert B > 0
    assert B * C >= B
    assert symint.maximum(B, 0) is B
    assert not always_less(B, 2)
    assert always_at_most(B, 2 * B)
    with pytest.raises(GuardError, match="d0_0 < 16"):
        _ = B < 16
    with pytest.raises(GuardError, match="what number"):
        range(B)
    with pytest.raises(TypeError):
        _ = B * 0.5


def test_values_of_arguments_may_be_negative():
    assert not always_less(0, symbol("x0_0"))
    assert always_less(0, symbol("v0_0"))


def test_hints_and_divisors():
    assert size_hint(2 * B + 1) == 201
    assert size_hint(B // (C - 100)) == 100, "what the hint makes zero divides"
    assert content(12 * B + 8 * C) == 4


@pytest.mark.parametrize("text", ["d0_0 +", "import", "d0_0 ** 2", "f(d0_0)", "b"])
def test_other_texts_hold_no_sizes(text):
    with pytest.raises(TypeError, match="holds no sizes"):
        parse_sizes(text)


def jax_floor_divide(x, y):
    """As JAX writes it in StableHLO, with a division that rounds towards zero."""
    quotient = symint.truncdiv(x, y)
    sign = [symint.less(0, each) - symint.less(each, 0) for each in (x, y)]
    correct = (1 - symint.equal(*sign)) * (1 - symint.equal(symint.remainder(x, y), 0))
    return symint.select(correct, quotient - 1, quotient)


def jax_remainder(x, y):
    rest = symint.remainder(x, y)
    correct = (1 - symint.equal(symint.less(rest, 0), symint.less(y, 0))) * (1 - symint.equal(rest, 0))
    return symint.select(correct, rest + y, rest)


@pytest.mark.parametrize("x", [B - 3, -B, 7 - B * C, B])
@pytest.mark.parametrize("y", [2, 3, C])
def test_rounding_down_as_jax_writes_it_is_one_function(x, y):
    assert jax_floor_divide(x, y) == symint.floordiv(x, y)
    assert jax_remainder(x, y) == symint.mod(x, y)
    for number in range(-9, 9):
        assert (jax_floor_divide(number, 2), jax_remainder(number, 2)) == divmod(number, 2)


def test_another_choice_stays_a_choice():
    quotient = symint.truncdiv(B - 3, 2)
    chosen = symint.select(symint.less(B, C), quotient - 1, quotient)
    assert str(chosen).startswith("select(")
