"""Fourier transforms on a device, against NumPy; and what makes them fast."""

from __future__ import annotations

import re

import numpy as np
import pytest
from device_kernels import device_kernels

import stablehlo_py as shlo
from stablehlo_py.backends.gpu.target import SM_90
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load

jax = pytest.importorskip("jax")
RNG = np.random.default_rng(13)
OPTIONS = shlo.Options(cache_dir=None)


def complex_numbers(*sizes: int, dtype: type = np.complex64) -> np.ndarray:
    return (RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)).astype(dtype)


def text(name: str, array: np.ndarray, **options: object) -> str:
    function = getattr(jax.numpy.fft, name)
    with jax.enable_x64(True):
        return jax.jit(lambda x: function(x, **options)).lower(array).as_text()


def check(name: str, array: np.ndarray, **options: object) -> None:
    """The device gives what NumPy gives, and the same bits again."""
    executable = shlo.compile(text(name, array, **options), target="opencl", options=OPTIONS)
    (found,), (again,) = executable(array), executable(array)
    expected = getattr(np.fft, name)(array.astype(np.complex128 if array.dtype.kind == "c" else float), **options)
    np.testing.assert_array_equal(found, again)
    tolerance = 30 * np.finfo(found.dtype).eps * np.abs(expected).max(initial=1)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


# Every radix, several stages of each, primes that are too large, and lengths of one block and of two passes.
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 12, 16, 31, 37, 60, 64, 100, 512, 1000, 2048, 4096, 16384])
def test_lengths(real_device: object, n: int) -> None:
    check("fft", complex_numbers(3, n))


@pytest.mark.parametrize("n", [5, 16, 1024, 2048])
def test_inverse_in_double(real_device: object, n: int) -> None:
    check("ifft", complex_numbers(2, n, dtype=np.complex128))


@pytest.mark.parametrize("sizes", [(4, 6, 10), (3, 64, 33), (2, 37, 5), (4096, 3), (130, 1), (1, 8, 8)], ids=str)
@pytest.mark.parametrize("name", ["fftn", "ifftn"])
def test_several_dimensions(real_device: object, name: str, sizes: tuple[int, ...]) -> None:
    axes = tuple(range(max(0, len(sizes) - 3), len(sizes)))
    check(name, complex_numbers(*sizes), axes=axes)


@pytest.mark.parametrize("n", [2, 3, 8, 9, 64, 1000, 8192])
def test_real_transforms(real_device: object, n: int) -> None:
    check("rfft", RNG.standard_normal((3, n)).astype(np.float32))
    check("irfft", complex_numbers(3, n // 2 + 1), n=n)


def test_many_transforms(real_device: object) -> None:
    check("fft", complex_numbers(1000, 8))
    check("fft", complex_numbers(0, 4))
    check("fft", complex_numbers(8, 1000), axis=0)


@pytest.mark.parametrize("n, launches, barriers", [(1024, 1, 3), (64, 1, 1), (1 << 16, 2, 4)])
def test_kernels(n: int, launches: int, barriers: int) -> None:
    """A kernel for a transform in shared memory, two for a long one; a barrier between two stages; complex numbers are
    accessed as a whole."""
    module = load(text("fft", complex_numbers(64, n)))
    ptx = run_stages(module, "", "ptx", shlo.Options(gpu="sm_90"), target="cuda")
    assert isinstance(ptx, str)
    assert ptx.count(".visible .entry") == launches
    assert len(re.findall(r"\bbar(?:rier)?\b", ptx)) == barriers
    accesses = re.findall(r"\b(?:ld|st)\.global[.\w]*", ptx)
    assert accesses and all(".v2." in each for each in accesses)


def test_much_shared_memory() -> None:
    """What a kernel does not name is asked for by its launch."""
    module = run_stages(load(text("fft", complex_numbers(64, 4096))), "", "scheduled", target="opencl")
    (kernel,) = device_kernels(module, SM_90).values()
    (launch,) = kernel.launches
    named = sum(
        4 * int(count) for count in re.findall(r"shared\d+\(\) \{.*?!llvm.array<(\d+) x f32>", str(kernel.functions))
    )
    assert launch.shared_bytes > 0 and launch.shared_bytes + named == 2 * 8 * 4096
