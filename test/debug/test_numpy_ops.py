"""Ops that the reference interpreter does not know, computed in NumPy: against SciPy, XLA and published numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import scipy.linalg

from stablehlo_py.debug.edits import Case
from stablehlo_py.debug.fuzz import Fuzzer
from stablehlo_py.debug.generate import Program
from stablehlo_py.debug.random_bits import philox, threefry
from stablehlo_py.debug.settings import Settings
from stablehlo_py.debug.workers import Workers
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.options import Options

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(60) as made:
        yield made


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def typed(array: np.ndarray) -> str:
    return tensor(array.shape, element_name(array.dtype))


def one_op(op: str, attributes: str, inputs: Sequence[np.ndarray], results: Sequence[str]) -> str:
    names = ", ".join(f"%{number}" for number in range(len(inputs)))
    arguments = ", ".join(f"%{number}: {typed(array)}" for number, array in enumerate(inputs))
    types, outputs = ", ".join(map(typed, inputs)), ", ".join(results)
    returned = ", ".join(f"%r#{number}" for number in range(len(results)))
    return f"""func.func @main({arguments}) -> ({outputs}) {{
      %r:{len(results)} = "stablehlo.{op}"({names}) <{{{attributes}}}> : ({types}) -> ({outputs})
      return {returned} : {outputs}
    }}"""


def numbers(shape: Sequence[int], dtype: type) -> np.ndarray:
    made = RANDOM.normal(size=shape)
    return (made + 1j * RANDOM.normal(size=shape) if np.dtype(dtype).kind == "c" else made).astype(dtype)


def run(workers: Workers, engine: str, module: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    answer = workers.run(engine, module, inputs)
    assert answer.ok, answer.detail
    return list(answer.results)


def same_as_xla(workers: Workers, module: str, inputs: Sequence[np.ndarray], rtol: float = 2e-6) -> None:
    ours, theirs = (run(workers, engine, module, inputs) for engine in ("reference", "jax"))
    for a, b in zip(ours, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(np.abs(b).max(initial=0))))


# --- linear algebra --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_cholesky(workers: Workers, dtype: type, lower: bool) -> None:
    x = numbers((3, 5, 5), dtype)
    a = x @ np.swapaxes(x, -1, -2).conj() + 2 * np.eye(5, dtype=dtype)
    (found,) = run(workers, "reference", one_op("cholesky", f"lower = {str(lower).lower()}", [a], [typed(a)]), [a])
    for matrix, factor in zip(a, found, strict=True):
        expected = scipy.linalg.cholesky(matrix.astype(np.complex128), lower=lower)
        np.testing.assert_allclose(factor, expected, rtol=0, atol=40 * np.finfo(dtype).eps)


def test_cholesky_reads_one_triangle_and_shows_what_is_not_positive(workers: Workers) -> None:
    a = np.array([[4, np.nan, np.nan], [2, 5, np.nan], [2, 1, -1]], np.float32)
    (factor,) = run(workers, "reference", one_op("cholesky", "lower = true", [a], [typed(a)]), [a])
    np.testing.assert_array_equal(factor, np.array([[2, 0, 0], [1, 2, 0], [1, 0, np.nan]], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_triangular_solve(workers: Workers, dtype: type) -> None:
    turns = {"NO_TRANSPOSE": lambda a: a, "TRANSPOSE": lambda a: a.T, "ADJOINT": lambda a: a.T.conj()}
    a = numbers((2, 4, 4), dtype) + 3 * np.eye(4, dtype=dtype)
    for left, lower, unit, transpose in itertools.product([True, False], [True, False], [True, False], turns):
        b = numbers((2, 4, 3) if left else (2, 3, 4), dtype)
        words = {"left_side": left, "lower": lower, "unit_diagonal": unit}
        attributes = ", ".join(f"{name} = {str(value).lower()}" for name, value in words.items())
        attributes += f", transpose_a = #stablehlo<transpose {transpose}>"
        (found,) = run(workers, "reference", one_op("triangular_solve", attributes, [a, b], [typed(b)]), [a, b])
        for matrix, side, x in zip(a, b, found, strict=True):
            triangle = np.tril(matrix) if lower else np.triu(matrix)
            if unit:
                np.fill_diagonal(triangle, 1)
            turned = turns[transpose](triangle.astype(np.complex128))
            expected = np.linalg.solve(turned, side) if left else np.linalg.solve(turned.T, side.T).T
            np.testing.assert_allclose(x, expected, rtol=0, atol=200 * np.finfo(dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize(("kind", "shape", "lengths"), [
    ("FFT", (2, 3, 5), [5]), ("FFT", (4, 3, 5), [4, 3, 5]), ("IFFT", (2, 6, 7), [6, 7]), ("IFFT", (1,), [1]),
    ("RFFT", (2, 3, 8), [3, 8]), ("RFFT", (9,), [9]), ("IRFFT", (2, 3, 5), [3, 8]), ("IRFFT", (2, 3, 5), [3, 9]),
])  # fmt: skip
def test_fft(workers: Workers, kind: str, shape: tuple[int, ...], lengths: list[int]) -> None:
    for single in (True, False):
        real, pair = (np.float32, np.complex64) if single else (np.float64, np.complex128)
        x = numbers(shape, real if kind == "RFFT" else pair)
        sizes = {"RFFT": [*shape[:-1], shape[-1] // 2 + 1], "IRFFT": [*shape[:-1], lengths[-1]]}.get(kind, shape)
        result = tensor(sizes, element_name(np.dtype(real if kind == "IRFFT" else pair)))
        lengths_text = ", ".join(map(str, lengths))
        attributes = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = array<i64: {lengths_text}>"
        same_as_xla(workers, one_op("fft", attributes, [x], [result]), [x], 2e-6 if single else 1e-14)


def test_einsum(workers: Workers) -> None:
    x, y = np.array([[100, 2], [3, 4]], np.int8), np.array([[1, 2], [2, 0]], np.int8)
    module = one_op("einsum", 'einsum_config = "ab,bc->ca"', [x, y], [typed(x)])
    (found,) = run(workers, "reference", module, [x, y])
    np.testing.assert_array_equal(found, np.array([[104, 11], [200 - 256, 6]], np.int8))
    module = one_op("unary_einsum", 'einsum_config = "ab->b"', [x.astype(np.float32)], ["tensor<2xf32>"])
    (found,) = run(workers, "reference", module, [x.astype(np.float32)])
    np.testing.assert_array_equal(found, [103, 6])


# --- batch normalization ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["inference", "training", "grad"])
def test_batch_norm(workers: Workers, kind: str, axis: int) -> None:
    x, y = numbers((4, 5, 3), np.float32), numbers((4, 5, 3), np.float32)
    scale, offset, mean = (numbers(x.shape[axis : axis + 1], np.float32) for _ in range(3))
    variance = np.abs(mean) + 1
    features = [typed(scale), typed(scale)]
    inputs, results = {
        "inference": ([x, scale, offset, mean, variance], [typed(x)]),
        "training": ([x, scale, offset], [typed(x), *features]),
        "grad": ([x, scale, mean, variance, y], [typed(x), *features]),
    }[kind]
    attributes = f"epsilon = 0.001 : f32, feature_index = {axis} : i64"
    same_as_xla(workers, one_op(f"batch_norm_{kind}", attributes, inputs, results), inputs, 2e-5)


# --- random bits -----------------------------------------------------------------------------------------------------


def test_published_numbers() -> None:
    """The known answers of Random123 (kat_vectors of D. E. Shaw Research)."""
    ones = 0xFFFFFFFF
    for key, counter, expected in (
        (0, 0, (0x6B200159, 0x99BA4EFE)),
        (2**64 - 1, 2**64 - 1, (0x1CB996FC, 0xBB002BE7)),
        (0x03707344_13198A2E, 0x85A308D3_243F6A88, (0xC4923A9C, 0x483DF7A0)),
    ):
        assert tuple(int(word[0]) for word in threefry(key, np.array([counter], np.uint64))) == expected
    for key, words, wanted in (
        (0, (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (2**64 - 1, (ones, ones, ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0_A4093822,
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ):
        found = philox(key, [np.array([word], np.uint64) for word in words])
        assert tuple(int(word[0]) for word in found) == wanted


@pytest.mark.parametrize(
    ("algorithm", "element"),
    [*itertools.product(["THREE_FRY", "PHILOX"], ["ui8", "ui16", "ui32", "ui64"]), ("DEFAULT", "ui32")],
)
def test_rng_bit_generator(workers: Workers, algorithm: str, element: str) -> None:
    last = 2**64 - 1  # the counter carries
    for state in ([last - 4, last - 1], [last - 4, last - 1, last])[: 1 if algorithm == "THREE_FRY" else 2]:
        word = tensor([len(state)], "ui64")
        ops, values, types = [], [], []
        for number, shape in enumerate([(), (1,), (3,), (7, 5), (3, 4, 5), (5, 3, 7), (0, 2)]):
            types += [word, tensor(shape, element)]
            values += [f"%{number}#0", f"%{number}#1"]
            ops.append(
                f'%{number}:2 = "stablehlo.rng_bit_generator"(%s) '
                f"<{{rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}}> : ({word}) -> ({', '.join(types[-2:])})"
            )
        returned = f"return {', '.join(values)} : {', '.join(types)}"
        module = "\n".join([f"func.func @main(%s: {word}) -> ({', '.join(types)}) {{", *ops, returned, "}"])
        inputs = [np.array(state, np.uint64)]
        ours, theirs = (run(workers, engine, module, inputs) for engine in ("reference", "jax"))
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


# --- structure -------------------------------------------------------------------------------------------------------


def test_torch_index_select(workers: Workers) -> None:
    x = np.arange(24, dtype=np.int16).reshape(2, 4, 3)
    index = np.array([[2, 0], [9, -1]], np.int32)  # 9 and -1 are clamped
    module = one_op("torch_index_select", "dim = 1 : i64, batch_dims = 1 : i64", [x, index], ["tensor<2x2x3xi16>"])
    (found,) = run(workers, "reference", module, [x, index])
    np.testing.assert_array_equal(found, [[[6, 7, 8], [0, 1, 2]], [[21, 22, 23], [12, 13, 14]]])
    index %= 4
    module = one_op("torch_index_select", "dim = 1 : i64, batch_dims = 0 : i64", [x, index], ["tensor<2x2x2x3xi16>"])
    same_as_xla(workers, module, [x, index])


# --- in programs -----------------------------------------------------------------------------------------------------


IN_REGIONS = """
func.func private @twice(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %t = stablehlo.add %x, %x : tensor<3x3xf32>
  return %t : tensor<3x3xf32>
}
func.func @main(%x: tensor<3x3xf32>, %n: tensor<i32>, %c: tensor<3xcomplex<f32>>)
    -> (tensor<3x3xf32>, tensor<3xcomplex<f32>>, tensor<f32>, tensor<3x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3.0> : tensor<f32>
  %f = "stablehlo.fft"(%c) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 3>}>
    : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
  %g = stablehlo.multiply %f, %c : tensor<3xcomplex<f32>>
  %l:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<3x3xf32>
  cond {
    %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %factor = "stablehlo.cholesky"(%a) <{lower = true}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %sum = stablehlo.add %factor, %x : tensor<3x3xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %sum : tensor<i32>, tensor<3x3xf32>
  }
  %b = "stablehlo.case"(%n) ({
    %t = func.call @twice(%l#1) : (tensor<3x3xf32>) -> tensor<3x3xf32>
    stablehlo.return %t : tensor<3x3xf32>
  }, {
    %s = "stablehlo.triangular_solve"(%l#1, %x) <{left_side = true, lower = true, unit_diagonal = false,
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    stablehlo.return %s : tensor<3x3xf32>
  }) : (tensor<i32>) -> tensor<3x3xf32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%b init: %init) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<3x3xf32>, tensor<f32>) -> tensor<f32>
  %m = stablehlo.maximum %r, %three : tensor<f32>
  return %l#1, %g, %m, %b : tensor<3x3xf32>, tensor<3xcomplex<f32>>, tensor<f32>, tensor<3x3xf32>
}"""


@pytest.mark.parametrize("n", [-1, 0, 2])
def test_in_regions(workers: Workers, n: int) -> None:
    x = np.array([[9, 1, 2], [1, 8, 3], [2, 3, 7]], np.float32)
    same_as_xla(workers, IN_REGIONS, [x, np.int32(n), numbers((3,), np.complex64)])


def test_tokens_and_tuples_stay_in_their_part(workers: Workers) -> None:
    module = """func.func @main(%x: tensor<2xf32>, %i: tensor<1xi32>) -> (tensor<1xf32>, tensor<1xf32>) {
      %t = stablehlo.create_token : !stablehlo.token
      %s = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}>
        : (tensor<2xf32>, tensor<1xi32>) -> tensor<1xf32>
      %u = stablehlo.after_all %t : !stablehlo.token
      %b:2 = stablehlo.optimization_barrier %s, %u : tensor<1xf32>, !stablehlo.token
      %p = stablehlo.tuple %s, %b#0 : tuple<tensor<1xf32>, tensor<1xf32>>
      %a = stablehlo.get_tuple_element %p[0] : (tuple<tensor<1xf32>, tensor<1xf32>>) -> tensor<1xf32>
      %c = stablehlo.get_tuple_element %p[1] : (tuple<tensor<1xf32>, tensor<1xf32>>) -> tensor<1xf32>
      return %a, %c : tensor<1xf32>, tensor<1xf32>
    }"""
    first, second = run(workers, "reference", module, [np.array([3, 4], np.float32), np.array([1], np.int32)])
    assert (first.item(), second.item()) == (4, 4)


def test_random_bits_of_less_than_a_byte_are_refused(workers: Workers) -> None:
    state = np.array([1, 2], np.uint64)
    attributes = "rng_algorithm = #stablehlo<rng_algorithm PHILOX>"
    module = one_op("rng_bit_generator", attributes, [state], [typed(state), "tensor<3xui4>"])
    answer = workers.run("reference", module, [state])
    assert answer.status == "unsupported"
    assert "random bits of type ui4" in answer.detail


class WithoutXla(Workers):
    """XLA is not asked."""

    def run(self, engine: str, *request: object) -> object:
        assert engine != "jax"
        return super().run(engine, *request)


def test_the_interpreter_decides_about_programs_with_such_ops() -> None:
    module = """func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
      %f = "stablehlo.cholesky"(%x) <{lower = true}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
      %e = stablehlo.exponential %f : tensor<3x3xf32>
      return %e : tensor<3x3xf32>
    }"""
    x = np.array([[9, 1, 2], [1, 8, 3], [2, 3, 7]], np.float32)
    program = Program(1, Case(module, (x,)), Options(threads=1, cache_dir=None))
    with WithoutXla(60) as own:
        fuzzer = Fuzzer(own, jax_every=0, reduce_s=0)
        assert fuzzer.run_one(program).status == "same"
        answer = own.run("ours", module, (x,), Settings())
        wrong = answer.results[0] * np.float32(1.01)
        assert fuzzer.beyond_rounding(program.case, [wrong], own.run("reference", module, (x,)).results, "reference")
