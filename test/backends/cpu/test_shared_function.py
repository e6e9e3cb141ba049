"""Pieces of kernels that are functions of a program: the bits of kernels that do them in place, one text a program."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from convolutions import Case, fusion_text
from one_kernel import compile_kernel, here

import stablehlo_py as shlo
from stablehlo_py.backends.cpu.target import AVX2, AVX512, AVX512_VNNI, BASELINE, CpuTarget

RNG = np.random.default_rng(5)
DTYPES = {"i32": np.int32, "f64": np.float64, "complex<f32>": np.complex64, "complex<f64>": np.complex128}


def transform(type_: str, kind: str, length: str) -> str:
    attributes = f'{{kind = "{kind}", length = array<i64: {length}>}}'
    return f"""func.func @fusion(%x: {type_}) -> {type_} attributes {{hlo.fusion = "fft"}} {{
      %0 = "hlo.fft"(%x) {attributes} : ({type_}) -> {type_}
      return %0 : {type_}
    }}"""


def sort(type_: str, element: str, compare: str) -> str:
    return f"""func.func @fusion(%x: {type_}) -> {type_} attributes {{hlo.fusion = "sort"}} {{
      %0 = "stablehlo.sort"(%x) ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %1 = "hlo.compare"(%a, %b) {{{compare}}} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}) {{dimension = 1 : i64, is_stable = true}} : ({type_}) -> {type_}
      return %0 : {type_}
    }}"""


def same_bits(text: str, sizes: tuple[int, ...], element: str, target: CpuTarget) -> None:
    array = (1000 * RNG.standard_normal(sizes)).astype(DTYPES[element])
    own, calls = (
        compile_kernel(text, replace(target, shares_functions=shares)).run([array], 1)[0].tobytes()
        for shares in (False, True)
    )
    assert own == calls


@pytest.mark.every(2)
@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("sizes", [(64, 64), (96, 70), (3, 16384), (2, 1009), (2, 10007)], ids=str)
def test_transforms(sizes: tuple[int, ...], element: str, kind: str, target: CpuTarget) -> None:
    length = sizes if sizes[0] > 3 else sizes[1:]
    type_ = f"tensor<{'x'.join(map(str, sizes))}x{element}>"
    same_bits(transform(type_, kind, ", ".join(map(str, length))), sizes, element, target)


@pytest.mark.parametrize("target", here(AVX512, AVX2), ids=lambda target: target.name)
@pytest.mark.parametrize("sizes", [(2, 20_000), (400, 100)], ids=str)
@pytest.mark.parametrize(
    ("element", "compare"), [("i32", 'direction = "LT"'), ("f64", 'compare_type = "TOTALORDER", direction = "LT"')]
)
def test_sorts(element: str, compare: str, sizes: tuple[int, ...], target: CpuTarget) -> None:
    type_ = f"tensor<{'x'.join(map(str, sizes))}x{element}>"
    same_bits(sort(type_, element, compare), sizes, element, target)


@pytest.mark.every(2)
@pytest.mark.parametrize("target", here(AVX512_VNNI, AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize("type_", ["i8", "f32"])
@pytest.mark.parametrize("padding", [((1, 1), (2, 1)), ((-1, 2), (1, -2)), ((0, 0), (3, 0)), ((2, 0), (0, 0))], ids=str)
@pytest.mark.parametrize("features", [5, 32])
def test_padded_convolutions(
    features: int, padding: tuple[tuple[int, int], ...], type_: str, target: CpuTarget
) -> None:
    """Copies with padding, and sums of rows of bytes, by functions of all programs."""
    case = Case("", (2, 9, 20, features), (3, 3, features, 32), padding=padding)
    arrays = [
        (100 * RNG.uniform(-1, 1, size)).astype({"i8": np.int8, "f32": np.float32}[type_])
        for size in (case.lhs, case.rhs)
    ]
    text = fusion_text(case, arrays, case.reference(*arrays).shape, result={"i8": "i32"}.get(type_, type_))
    own, calls = (compile_kernel(text, replace(target, shares_functions=shares)) for shares in (False, True))
    assert any(name.startswith("shlo_padded") for name in calls.kernel.common)
    assert own.run(arrays, 3)[0].tobytes() == calls.run(arrays, 3)[0].tobytes()


@pytest.mark.parametrize("target", here(AVX512, AVX2, BASELINE), ids=lambda target: target.name)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", ["rsqrt", "tanh"])
def test_functions_of_several_vectors(name: str, element: str, target: CpuTarget) -> None:
    type_ = f"tensor<40x{element}>"
    text = f"""func.func @fusion(%x: {type_}) -> {type_} attributes {{hlo.fusion = "straight_line"}} {{
      %0 = "hlo.{name}"(%x) : ({type_}) -> {type_}
      return %0 : {type_}
    }}"""
    array = np.abs(RNG.standard_normal(40)).astype({"f32": np.float32, "f64": np.float64}[element])
    own, calls = (compile_kernel(text, replace(target, shares_functions=shares)) for shares in (False, True))
    assert any(symbol.startswith(f"shlo_{name}") for symbol in calls.kernel.common)
    assert own.run([array], 1)[0].tobytes() == calls.run([array], 1)[0].tobytes()


def test_a_program_has_a_stage_once() -> None:
    """For transforms of several lengths."""
    kernels = shlo.compile("""
      func.func @main(%x: tensor<32x512xcomplex<f32>>, %y: tensor<16x4096xcomplex<f32>>)
          -> (tensor<32x512xcomplex<f32>>, tensor<16x4096xcomplex<f32>>) {
        %0 = stablehlo.fft %x, type = FFT, length = [512] : (tensor<32x512xcomplex<f32>>) -> tensor<32x512xcomplex<f32>>
        %1 = stablehlo.fft %y, type = FFT, length = [4096]
          : (tensor<16x4096xcomplex<f32>>) -> tensor<16x4096xcomplex<f32>>
        return %0, %1 : tensor<32x512xcomplex<f32>>, tensor<16x4096xcomplex<f32>>
      }""").stages["kernels"]
    stages = re.findall(r"^(?:llvm.func|define void) @(shlo_fft\w*).*\{$", kernels, re.MULTILINE)
    assert stages and len(set(stages)) == len(stages)
    assert any(kernels.count(f"call @{stage}(") > 1 for stage in stages)
