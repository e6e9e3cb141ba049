"""Random bits agree with XLA's bit for bit, and with the generators written out on Python integers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stablehlo_py
from stablehlo_py.errors import UnsupportedError

WORD = (1 << 32) - 1
ELEMENTS = {"ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64}


def module(algorithm: str, words: int, sizes: tuple[int, ...], element: str, state: str = "ui64") -> str:
    bits = f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"
    state = f"tensor<{words}x{state}>"
    return f"""func.func @main(%s: {state}) -> ({state}, {bits}) {{
      %0, %1 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : ({state}) -> ({state}, {bits})
      return %0, %1 : {state}, {bits}
    }}"""


def draw(
    algorithm: str, state: list[int], sizes: tuple[int, ...], element: str, **options: object
) -> tuple[np.ndarray, np.ndarray]:
    options = {"threads": 1, "cache_dir": None, **options}
    compiled = stablehlo_py.compile(
        module(algorithm, len(state), sizes, element), options=stablehlo_py.Options(**options)
    )
    grown, bits = compiled(np.array(state, np.uint64))
    return grown, bits


def philox(counter: int, key: int) -> list[int]:
    """Ten rounds of Philox4x32."""
    c, k = [counter >> (32 * i) & WORD for i in range(4)], [key & WORD, key >> 32]
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(q >> 32) ^ c[1] ^ k[0], q & WORD, (p >> 32) ^ c[3] ^ k[1], p & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


@pytest.mark.parametrize("element", ELEMENTS)
def test_philox_words(element: str) -> None:
    low, high, key = 2**64 - 2, 2**64 - 1, 0x123456789ABCDEF0
    grown, bits = draw("PHILOX", [key, low, high], (40,), element)
    words = [word for i in range(20) for word in philox((low + (high << 64) + i) % 2**128, key)]
    stream = np.array(words, np.uint32)
    wanted = stream.view(np.uint64) if element == "ui64" else stream.astype(ELEMENTS[element])
    np.testing.assert_array_equal(bits, wanted[:40])
    used = 20 if element == "ui64" else 10
    assert grown.tolist() == [key, (low + used) % 2**64, 0]


@pytest.mark.parametrize("algorithm", ["PHILOX", "THREE_FRY"])
@pytest.mark.parametrize(("element", "bits"), [("i4", 4), ("f6E2M3FN", 6), ("f8E5M2", 8), ("bf16", 16)])
def test_small_elements_are_the_low_bits(algorithm: str, element: str, bits: int) -> None:
    """Of the words that wider elements get."""
    _, drawn = draw(algorithm, [5, 7], (6, 11), element)
    _, wide = draw(algorithm, [5, 7], (6, 11), "ui32")
    np.testing.assert_array_equal(drawn.view(f"u{drawn.dtype.itemsize}"), wide % (1 << bits))


def test_the_short_philox_state_takes_the_key_as_the_high_half() -> None:
    _, short = draw("PHILOX", [9, 5], (8,), "ui32")
    _, long = draw("PHILOX", [9, 5, 9], (8,), "ui32")
    np.testing.assert_array_equal(short, long)
    np.testing.assert_array_equal(draw("DEFAULT", [9, 5], (8,), "ui32")[1], short)


@pytest.mark.parametrize("algorithm", [lax.RandomAlgorithm.RNG_THREE_FRY, lax.RandomAlgorithm.RNG_PHILOX])
@pytest.mark.parametrize("sizes", [(), (1,), (7,), (3, 5), (4, 3), (3, 2, 6), (33, 7, 3), (129,), (2, 0), (257, 3)])
def test_against_jax(algorithm: lax.RandomAlgorithm, sizes: tuple[int, ...]) -> None:
    name = "THREE_FRY" if algorithm == lax.RandomAlgorithm.RNG_THREE_FRY else "PHILOX"
    with jax.enable_x64(True):
        for element, dtype in ELEMENTS.items():
            key = np.array([7, 0, WORD, WORD], np.uint32)  # the counter carries
            state, wanted = lax.rng_bit_generator(jnp.asarray(key), sizes, dtype, algorithm)
            grown, bits = draw(name, key.view(np.uint64).tolist(), sizes, element)
            np.testing.assert_array_equal(bits, np.asarray(wanted))
            np.testing.assert_array_equal(grown, np.asarray(state).view(np.uint64))


def test_threads_do_not_change_bits() -> None:
    for algorithm in ("THREE_FRY", "PHILOX"):
        one, many = (draw(algorithm, [1, 2], (100_000,), "ui8", threads=count) for count in (1, 4))
        np.testing.assert_array_equal(one[1], many[1])


def test_a_generic_target() -> None:
    for sizes in ((41,), (3, 5), (6, 7)):
        here, there = (draw("THREE_FRY", [1, 2], sizes, "ui16", **options) for options in ({}, {"target": "x86-64"}))
        np.testing.assert_array_equal(here[1], there[1])


def test_states_made_of_narrow_words() -> None:
    """JAX keeps the state as ui32[4]: the bitcasts around the generator delinearize bits."""

    def function(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state, bits = lax.rng_bit_generator(key, (5, 3), jnp.uint32)
        return state + jnp.uint32(1), bits

    key = np.array([1, 2, 3, 4], np.uint32)
    with jax.enable_x64(True):
        compiled = stablehlo_py.compile(jax.export.export(jax.jit(function))(key))
        for ours, theirs in zip(compiled(key), jax.jit(function)(key), strict=True):
            np.testing.assert_array_equal(ours, np.asarray(theirs))


@pytest.mark.parametrize(
    ("algorithm", "words", "state", "element", "reason"),
    [
        ("THREE_FRY", 3, "ui64", "ui32", "tensor<2xui64>"),
        ("PHILOX", 4, "ui64", "ui32", "tensor<3xui64>"),
        ("DEFAULT", 4, "ui32", "ui32", "a state of type"),
    ],
)
def test_states_that_xla_refuses(algorithm: str, words: int, state: str, element: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        stablehlo_py.compile(
            module(algorithm, words, (4,), element, state), options=stablehlo_py.Options(cache_dir=None)
        )
