"""einsum and unary_einsum against NumPy."""

import numpy as np
import pytest

import stablehlo_py as shlo

RNG = np.random.default_rng(5)


def run(op, equation, *arrays):
    expected = np.einsum(equation, *arrays)
    types = [f"tensor<{''.join(f'{size}x' for size in a.shape)}i32>" for a in (*arrays, expected)]
    names = [f"%a{number}" for number in range(len(arrays))]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=False))
    text = f"""func.func @main({arguments}) -> {types[-1]} {{
      %0 = "stablehlo.{op}"({", ".join(names)}) <{{einsum_config = "{equation}"}}>
        : ({", ".join(types[:-1])}) -> {types[-1]}
      return %0 : {types[-1]}
    }}"""
    (result,) = shlo.compile(text, options=shlo.Options(cache_dir=None))(*arrays)
    np.testing.assert_array_equal(result, expected)


def whole(*sizes):
    return RNG.integers(-9, 9, sizes).astype(np.int32)


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ii->i", (4, 4)), ("ii->", (4, 4)), ("...ij->...ji", (2, 3, 4))],
)
def test_unary_einsum(equation, sizes):
    run("unary_einsum", equation, whole(*sizes))


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("bij,bjk->kbi", (2, 3, 4), (2, 4, 5)),
        ("ij,kl->il", (3, 4), (2, 5)),
        ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
        ("...ij,jk->...ik", (2, 6, 3, 4), (4, 5)),
        ("ii,ij->ij", (3, 3), (3, 4)),
        ("iij,jkk->ik", (3, 3, 4), (4, 2, 2)),
    ],
)
def test_einsum(equation, left, right):
    run("einsum", equation, whole(*left), whole(*right))
