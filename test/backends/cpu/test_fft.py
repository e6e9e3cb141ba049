"""Fourier transforms of every kind, rank and length class, against NumPy in a wider type.

A module of one `stablehlo.fft` is compiled for every CPU description the host can run; the error is the root mean
square relative to that of the result, in units of the element type's epsilon.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.fft

import stablehlo_py
from stablehlo_py.backends.cpu.features import missing_features
from stablehlo_py.backends.cpu.kernels import fourier_prime
from stablehlo_py.backends.cpu.kernels.fourier import prime_factors, radices
from stablehlo_py.backends.cpu.kernels.fourier_stage import roots
from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE, required_features

TARGETS = {"avx512": AVX512, "avx2": AVX2, "x86-64": BASELINE}
PRESENT = [name for name, target in TARGETS.items() if not missing_features(required_features(target))]
RNG = np.random.default_rng(5)
KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
LIMIT = 3.0  # epsilons


def operand(kind: str, sizes: tuple[int, ...], length: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random numbers of the operand's shape; `sizes` is the shape of the values (not of the half spectrum)."""
    real, cplx = {"f32": (np.float32, np.complex64), "f64": (np.float64, np.complex128)}[dtype]
    if kind == "RFFT":
        return RNG.standard_normal(sizes).astype(real)
    if kind == "IRFFT":
        sizes = (*sizes[:-1], length[-1] // 2 + 1)
    return (RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)).astype(cplx)


def type_of(array: np.ndarray) -> str:
    part = "f32" if array.dtype in (np.float32, np.complex64) else "f64"
    element = f"complex<{part}>" if array.dtype.kind == "c" else part
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{element}>"


def expected(kind: str, x: np.ndarray, length: tuple[int, ...]) -> np.ndarray:
    wide = {
        np.float32: np.float64,
        np.complex64: np.complex128,
        np.float64: np.longdouble,
        np.complex128: np.clongdouble,
    }
    axes = tuple(range(x.ndim - len(length), x.ndim))
    function = {"FFT": scipy.fft.fftn, "IFFT": scipy.fft.ifftn, "RFFT": scipy.fft.rfftn, "IRFFT": scipy.fft.irfftn}[
        kind
    ]
    return function(x.astype(wide[x.dtype.type]), s=length, axes=axes)


def transform(kind: str, x: np.ndarray, result: np.ndarray, length: tuple[int, ...], **options: object) -> np.ndarray:
    numbers = ", ".join(map(str, length))
    text = f"""func.func @main(%x: {type_of(x)}) -> {type_of(result)} {{
      %0 = stablehlo.fft %x, type = {kind}, length = [{numbers}] : ({type_of(x)}) -> {type_of(result)}
      return %0 : {type_of(result)}
    }}"""
    options = {"threads": 1, "cache_dir": None, **options}
    return stablehlo_py.compile(text, options=stablehlo_py.Options(**options))(x)[0]


def check(kind: str, sizes: tuple[int, ...], length: tuple[int, ...], dtype: str = "f32", **options: object) -> None:
    x = operand(kind, sizes, length, dtype)
    exact = expected(kind, x, length)
    narrow = {"f32": (np.float32, np.complex64), "f64": (np.float64, np.complex128)}[dtype]
    ours = transform(kind, x, exact.astype(narrow[exact.dtype.kind == "c"]), length, **options)
    scale = np.sqrt((np.abs(exact) ** 2).mean()) * np.finfo(narrow[0]).eps
    error = np.sqrt((np.abs(ours - exact) ** 2).mean()) / scale
    assert error < LIMIT, f"{error} epsilons"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 31, 32, 37, 60, 62, 97, 128, 210])
def test_lengths(kind: str, n: int) -> None:
    for rows in (1, 5, 33):
        check(kind, (rows, n), (n,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1024, 1009, 1000, 4096])
def test_long_rows(kind: str, n: int) -> None:
    check(kind, (n,), (n,), "f64")
    check(kind, (20, n), (n,))


@pytest.mark.every(2)
@pytest.mark.parametrize("target", PRESENT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sizes", "axes"),
    [
        ((3, 4, 5), 2),
        ((4, 5, 6), 3),
        ((2, 7, 33), 2),
        ((2, 37, 3), 2),  # a chirp along columns
        ((3, 5, 1), 2),
        ((2, 5, 1, 1), 3),
        ((2, 1, 6), 2),
        ((41, 2), 2),
        ((2, 8, 16, 20), 3),
    ],
)
def test_several_dimensions(sizes: tuple[int, ...], axes: int, kind: str, target: str) -> None:
    for dtype in ("f32", "f64"):
        check(kind, sizes, sizes[len(sizes) - axes :], dtype, target=target)


@pytest.mark.every(2)
@pytest.mark.parametrize("target", PRESENT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sizes", "axes"), [((33, 37), 1), ((16, 1009), 1), ((2, 61, 19), 2), ((41, 43), 2)])
def test_prime_lengths(sizes: tuple[int, ...], axes: int, kind: str, target: str) -> None:
    """By Rader's convolution: of rows, and of columns, whose last vector is not full."""
    assert fourier_prime.is_served(37) and not fourier_prime.is_served(83) and not fourier_prime.is_served(74)
    for dtype in ("f32", "f64"):
        check(kind, sizes, sizes[len(sizes) - axes :], dtype, target=target)


def test_threads_do_not_change_bits_of_prime_lengths() -> None:
    x = operand("FFT", (100, 97), (97,), "f32")
    one, two, four = (transform("FFT", x, x, (97,), threads=count) for count in (1, 2, 4))
    assert one.tobytes() == two.tobytes() == four.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(0, 8), (3, 0, 6)])
def test_of_nothing(kind: str, sizes: tuple[int, ...]) -> None:
    x = operand(kind, sizes, sizes[-1:], "f32")
    last = {"RFFT": sizes[-1] // 2 + 1}.get(kind, sizes[-1])
    result = np.zeros((*sizes[:-1], last), np.float32 if kind == "IRFFT" else np.complex64)
    assert transform(kind, x, result, sizes[-1:]).shape == result.shape


@pytest.mark.parametrize("n", [8, 9])
def test_an_inverse_real_transform_does_not_look_at_parts_that_must_be_zero(n: int) -> None:
    x = operand("IRFFT", (3, n), (n,), "f32")
    other = x.copy()
    other[:, 0] += 7j
    if n % 2 == 0:
        other[:, -1] += 5j
    result = np.zeros((3, n), np.float32)
    np.testing.assert_array_equal(transform("IRFFT", x, result, (n,)), transform("IRFFT", other, result, (n,)))


def test_rows_do_not_touch_each_other() -> None:
    x = operand("RFFT", (40, 64), (64,), "f32")
    x[7, 3] = np.nan
    result = transform("RFFT", x, np.zeros((40, 33), np.complex64), (64,))
    assert np.isnan(result[7]).all()
    assert np.isfinite(np.delete(result, 7, 0)).all()


def test_threads_do_not_change_bits() -> None:
    x = operand("FFT", (64, 1000), (1000,), "f32")
    one, many = (transform("FFT", x, x, (1000,), threads=count) for count in (1, 4))
    assert one.tobytes() == many.tobytes()


def test_real_transforms_of_both_directions_are_the_same_functions() -> None:
    """The inverse one is a forward one of numbers in reverse order."""
    text = """func.func @main(%x: tensor<16x4096xf32>) -> tensor<16x4096xf32> {
      %0 = stablehlo.fft %x, type = RFFT, length = [4096] : (tensor<16x4096xf32>) -> tensor<16x2049xcomplex<f32>>
      %1 = stablehlo.fft %0, type = IRFFT, length = [4096] : (tensor<16x2049xcomplex<f32>>) -> tensor<16x4096xf32>
      return RETURNED
    }"""
    both = functions_of(text.replace("RETURNED", "%1 : tensor<16x4096xf32>"))
    spectra = text.replace("RETURNED", "%0 : tensor<16x2049xcomplex<f32>>").replace(
        "-> tensor<16x4096xf32> {", "-> tensor<16x2049xcomplex<f32>> {"
    )
    assert both == functions_of(spectra) != set()


def functions_of(text: str) -> set[str]:
    """Of all programs, that one has."""
    executable = stablehlo_py.compile(text, options=stablehlo_py.Options(threads=1, cache_dir=None))
    return set(re.findall(r"@(shlo_fft\w+)", executable.stages["kernels"]))


def test_what_calls_stages_alone_is_not_optimized() -> None:
    def kernels(n: int) -> str:
        type_ = f"tensor<16x{n}xcomplex<f32>>"
        text = f"""func.func @main(%x: {type_}) -> {type_} {{
          %0 = stablehlo.fft %x, type = FFT, length = [{n}] : ({type_}) -> {type_}
          return %0 : {type_}
        }}"""
        executable = stablehlo_py.compile(text, options=stablehlo_py.Options(threads=1, cache_dir=None))
        return "\n".join(line for line in executable.stages["kernels"].splitlines() if ".rows" in line)

    assert "optimize_none" in kernels(256)
    assert "optimize_none" not in kernels(32)


def test_roots_are_exact_where_they_can_be() -> None:
    assert roots(12, [0, 3, 6, 9, 12]).tolist() == [1, -1j, -1, 1j, 1]
    assert np.abs(roots(7, range(7)) - np.exp(-2j * np.pi * np.arange(7) / 7)).max() < 3e-16


def test_radices() -> None:
    assert prime_factors(360) == [2, 2, 2, 3, 3, 5]
    assert radices(1024, 32) == [4, 8, 8, 4]
    assert radices(1024, 16) == [4] * 5
    for n in (2, 6, 30, 128, 729, 1000):
        for registers in (16, 32):
            assert np.prod(radices(n, registers)) == n
