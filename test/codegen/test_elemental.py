"""Random chains of shape operations, evaluated by loop kernels and by NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512, BASELINE
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

TARGET = here(AVX512, AVX2, BASELINE)[0]
ELEMENTS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "complex<f32>": np.complex64}
SIZES = (1, 2, 3, 4, 5, 8, 12, 16, 17, 33, 48)
LARGEST = 20_000


@dataclass
class Chain:
    """A random program: `steps` build it, `value` is what it computes, `arrays` are its inputs."""

    seed: int
    element: str
    arrays: list[np.ndarray] = field(default_factory=list)
    steps: list[Callable[[ir.Value, tuple[ir.Value, ...]], ir.Value]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)
        sizes = [self.random.choice(SIZES) for _ in range(self.random.randint(1, 4))]
        while np.prod(sizes) > LARGEST:
            sizes[self.random.randrange(len(sizes))] = 2
        self.value = self.input(sizes)
        for _ in range(self.random.randint(1, 6)):
            if self.value.ndim and 0 < self.value.size <= LARGEST:
                self.random.choice(OPERATIONS)(self)

    def input(self, sizes: list[int]) -> np.ndarray:
        self.arrays.append((self.numbers.standard_normal(sizes) * 4).astype(ELEMENTS[self.element]))
        return self.arrays[-1]

    def type(self, sizes: tuple[int, ...]) -> ir.Type:
        return build.tensor(sizes, ir.Type.parse(self.element))

    def text(self) -> str:
        names = {np.dtype(dtype): name for name, dtype in ELEMENTS.items()}
        inputs = [f"tensor<{''.join(f'{size}x' for size in array.shape)}{names[array.dtype]}>" for array in self.arrays]

        def body(*values: ir.Value) -> ir.Value:
            result = values[0]
            for step in self.steps:
                result = step(result, values)
            return result

        return build_fusion("loop", inputs, body)


def reshape(chain: Chain) -> None:
    left, sizes = chain.value.size, []
    while left > 1 and len(sizes) < 4:
        sizes.append(chain.random.choice([size for size in range(2, left + 1) if left % size == 0]))
        left //= sizes[-1]
    sizes = [*sizes, left]
    chain.random.shuffle(sizes)
    chain.value = chain.value.reshape(sizes)
    chain.steps.append(lambda x, _: build.reshape(x, sizes))


def transpose(chain: Chain) -> None:
    permutation = chain.random.sample(range(chain.value.ndim), chain.value.ndim)
    chain.value = chain.value.transpose(permutation)
    chain.steps.append(lambda x, _: build.transpose(x, permutation))


def slice_(chain: Chain) -> None:
    start = [chain.random.choice([0, chain.random.randrange(size)]) for size in chain.value.shape]
    limit = [
        chain.random.choice([size, chain.random.randint(low + 1, size)])
        for low, size in zip(start, chain.value.shape, strict=True)
    ]
    strides = [chain.random.choice([1, 1, 2, 3]) for _ in start]
    chain.value = chain.value[tuple(map(slice, start, limit, strides))]
    result = chain.value.shape
    chain.steps.append(
        lambda x, _: build.value("slice", chain.type(result), x, start=start, limit=limit, strides=strides)
    )


def pad(chain: Chain) -> None:
    edges = [[chain.random.choice([0, 0, 1, 3, -1 if size > 3 else 0]) for size in chain.value.shape] for _ in "lh"]
    low, high = edges
    interior = [chain.random.choice([0, 0, 0, 1, 2]) for _ in low]
    grown = [size + (size - 1) * inner for size, inner in zip(chain.value.shape, interior, strict=True)]
    spread = np.ones(grown, chain.value.dtype)
    spread[tuple(slice(None, None, inner + 1) for inner in interior)] = chain.value
    spread = np.pad(spread, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], constant_values=1)
    chain.value = spread[
        tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in zip(low, high, spread.shape, strict=True))
    ]
    result, one = chain.value.shape, np.ones((), chain.value.dtype)

    def step(x: ir.Value, _: tuple[ir.Value, ...]) -> ir.Value:
        filler = build.constant(one, ir.Type.parse(chain.element))
        return build.value("pad", chain.type(result), x, filler, low=low, high=high, interior=interior)

    chain.steps.append(step)


def reverse(chain: Chain) -> None:
    dimensions = [dimension for dimension in range(chain.value.ndim) if chain.random.random() < 0.5] or [0]
    chain.value = np.flip(chain.value, dimensions)
    chain.steps.append(lambda x, _: build.like("reverse", x, dimensions=dimensions))


def broadcast(chain: Chain) -> None:
    sizes: list[int] = []
    dimensions: list[int] = []
    for size in chain.value.shape:
        if chain.random.random() < 0.3:
            sizes.append(chain.random.choice([2, 3, 16]))
        dimensions.append(len(sizes))
        sizes.append(size)
    sizes.append(chain.random.choice([1, 2, 16]))
    aligned = [size if dimension in dimensions else 1 for dimension, size in enumerate(sizes)]
    chain.value = np.broadcast_to(chain.value.reshape(aligned), sizes)
    chain.steps.append(lambda x, _: build.broadcast(x, sizes, dimensions))


def concatenate(chain: Chain) -> None:
    dimension, first = chain.random.randrange(chain.value.ndim), chain.random.random() < 0.5
    sizes = list(chain.value.shape)
    sizes[dimension] = chain.random.choice([1, 3, 16, sizes[dimension]])
    number, other = len(chain.arrays), chain.input(sizes)
    chain.value = np.concatenate([other, chain.value] if first else [chain.value, other], dimension)
    result = chain.value.shape

    def step(x: ir.Value, inputs: tuple[ir.Value, ...]) -> ir.Value:
        pair = [inputs[number], x] if first else [x, inputs[number]]
        return build.op("stablehlo.concatenate", [chain.type(result)], pair, {"dimension": dimension}).result

    chain.steps.append(step)


def gather(chain: Chain) -> None:
    dimension = chain.random.randrange(chain.value.ndim)
    sizes = [chain.random.choice([3, 7, 16]) for _ in range(chain.random.randint(1, 2))]
    before = chain.value.shape
    indices = chain.numbers.integers(-2, before[dimension] + 2, sizes).astype(np.int32)
    number = len(chain.arrays)
    chain.arrays.append(indices)
    taken = np.take(chain.value, np.clip(indices, 0, before[dimension] - 1), axis=dimension)
    chain.value = np.moveaxis(taken, range(dimension, dimension + len(sizes)), range(len(sizes)))
    result = chain.value.shape
    window = [1 if axis == dimension else size for axis, size in enumerate(before)]

    def step(x: ir.Value, inputs: tuple[ir.Value, ...]) -> ir.Value:
        return build.value(
            "gather",
            chain.type(result),
            x,
            inputs[number],
            offset_dims=list(range(len(sizes), len(result))),
            collapsed_slice_dims=[dimension],
            operand_batching_dims=[],
            start_indices_batching_dims=[],
            start_index_map=[dimension],
            index_vector_dim=len(sizes),
            slice_sizes=window,
        )

    chain.steps.append(step)


def add_another(chain: Chain) -> None:
    number, other = len(chain.arrays), chain.input(list(chain.value.shape))
    chain.value = chain.value + other
    chain.steps.append(lambda x, inputs: build.like("add", x, inputs[number]))


OPERATIONS = (reshape, transpose, slice_, pad, reverse, broadcast, concatenate, gather, add_another)


@pytest.mark.parametrize("seed", range(60))
def test_random_chain(seed: int) -> None:
    chain = Chain(seed, list(ELEMENTS)[seed % len(ELEMENTS)])
    result = run_kernel(chain.text(), chain.arrays, TARGET)[0]
    assert result.shape == chain.value.shape
    np.testing.assert_allclose(result, chain.value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "i8"])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
def test_strides(element: str, stride: int) -> None:
    """Up to 4 elements apart, lanes are read with what is between them, and nothing behind the last one."""
    count = 37
    array = np.arange(stride * count - stride + 1).astype(
        {"bf16": ml_dtypes.bfloat16}.get(element) or ELEMENTS[element]
    )
    sliced = {"start": [0], "limit": [len(array)], "strides": [stride]}
    text = build_fusion(
        "loop",
        [f"tensor<{len(array)}x{element}>"],
        lambda x: build.value("slice", build.tensor([count], x.type.element_type), x, **sliced),
    )
    (result,) = run_kernel(text, [array], TARGET)
    np.testing.assert_array_equal(result, array[::stride])
    code = "".join(compile_kernel(text, AVX512).kernel.functions.values())
    assert ("masked.gather" in code) == (stride > 4)
