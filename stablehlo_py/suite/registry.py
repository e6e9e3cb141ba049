"""What a model of the suite is, and how one is named, built, exported and run by JAX as the reference."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import jax
import jax.export
import numpy as np

from stablehlo_py.debug.compare import difference_of
from stablehlo_py.errors import OptionError

Size = Literal["small", "full"]
Weights = Literal["argument", "constant"]
Rng: TypeAlias = np.random.Generator
Form: TypeAlias = "Callable[..., Any]"

SUITES = {
    "models": (
        "perceptrons",
        "blocks",
        "vision",
        "language",
        "sequences",
        "quantized",
        "tables",
        "recurrent",
        "training",
        "numerics",
        "simulations",
    ),
    "operations": tuple(
        f"operations.{family}"
        for family in (
            "elementwise reductions movement indexing products convolutions transforms networks loops".split()
        )
    ),
    "loops": ("loops",),
}
Builder: TypeAlias = "Callable[[Size, Rng], Model]"
_builders: dict[str, dict[str, Builder]] = {suite: {} for suite in SUITES}


@dataclass(frozen=True)
class Model:
    """A function with its weights and inputs, all seeded, nothing downloaded.

    `function(parameters, *inputs)` is pure; parameters and inputs are trees of NumPy arrays. `tolerance` bounds
    max|a-b| / max(1, max|b|) of every output against the reference; `notes` says why where it is not 1e-5. `forms` are
    functions of other libraries that compute the same (suite/peers.py). `build` fills in `name`, `size` and `weights`.
    """

    function: Callable[..., Any]
    parameters: Any
    inputs: tuple[Any, ...]
    tolerance: float = 1e-5
    notes: str = ""
    forms: Mapping[str, Form] = field(default_factory=dict)
    name: str = ""
    size: Size = "small"
    weights: Weights = "argument"

    def callable(self) -> Callable[..., Any]:
        """The function as it is exported: over (parameters, *inputs), or over the inputs with constant weights."""
        if self.weights == "argument":
            return self.function
        function, parameters = self.function, self.parameters

        def with_constants(*inputs: Any) -> Any:
            return function(jax.tree.map(jax.numpy.asarray, parameters), *inputs)

        return with_constants

    def arguments(self) -> tuple[Any, ...]:
        """What `callable()` is called with, as trees."""
        return (self.parameters, *self.inputs) if self.weights == "argument" else self.inputs

    def arrays(self) -> list[np.ndarray]:
        """The arguments in the order of the exported module's inputs (JAX's flattening order)."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self.arguments())]

    def types(self) -> AbstractContextManager[Any]:
        """Inside, JAX keeps types of 64 bits where an argument has one."""
        wide = any(array.real.dtype.itemsize == 8 for array in self.arrays())
        return jax.enable_x64(True) if wide else nullcontext()


def register(name: str, suite: str = "models") -> Callable[[Builder], Builder]:
    """Decorator: enter a builder under a name. A builder takes "small" or "full" and the random numbers of that name,
    and returns the Model."""

    def enter(builder: Builder) -> Builder:
        if any(name in builders for builders in _builders.values()):
            raise OptionError(f"two models are named {name!r}", remedy="give each @register its own name")
        _builders[suite][name] = builder
        return builder

    return enter


def names(suite: str = "models") -> list[str]:
    """The names of all models of a suite, in the order in which its modules define them."""
    for module in SUITES[suite]:
        importlib.import_module(f"stablehlo_py.suite.{module}")
    return list(_builders[suite])


def class_of(name: str) -> str:
    """The suite that has a model of that name; of an operation its family."""
    family, of_operation, _ = name.partition("/")
    return f"operations: {family}" if of_operation else next(suite for suite in SUITES if name in names(suite))


def build(name: str, size: Size = "small", weights: Weights = "argument") -> Model:
    """Build a model by name. Raises OptionError for a name, a size or a kind of weights that does not exist."""
    builders = next((_builders[suite] for suite in SUITES if name in names(suite)), None)
    if builders is None:
        raise OptionError(f"no model is named {name!r}", remedy=f"choose one of: {', '.join(names())}")
    if size not in ("small", "full"):
        raise OptionError(f"no size is named {size!r}", remedy="choose small or full")
    if weights not in ("argument", "constant"):
        raise OptionError(f"weights cannot be {weights!r}", remedy="choose argument or constant")
    return replace(builders[name](size, generator(name)), name=name, size=size, weights=weights)


def export(model: Model) -> jax.export.Exported:
    """Export for CPU, every argument kept: the module's inputs are exactly `model.arrays()`."""
    jitted = jax.jit(model.callable(), keep_unused=True)
    with model.types():
        return jax.export.export(jitted, platforms=["cpu"])(*model.arguments())


def reference(model: Model, arrays: list[np.ndarray] | None = None) -> list[np.ndarray]:
    """What JAX computes for the model (or for other arrays of the same shapes), at the highest matmul precision."""
    arguments = model.arguments()
    if arrays is not None:
        arguments = jax.tree.unflatten(jax.tree.structure(arguments), arrays)
    with model.types(), jax.default_matmul_precision("highest"):
        results = jax.jit(model.callable())(*arguments)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(results)]


def largest_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """max|a-b| / max(1, max|b|) over the elements; NaN and infinities must agree in place and sign, and the types, else
    inf."""
    return difference_of(actual, expected) if actual.dtype == expected.dtype else float("inf")


def generator(name: str) -> Rng:
    """The random numbers of a model: always the same for one name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def normal(rng: Rng, *shape: int) -> np.ndarray:
    """Standard normal float32 numbers."""
    return rng.standard_normal(shape, np.float32)


def flax_model(network: Any, rng: Rng, x: np.ndarray, **facts: Any) -> Model:
    """A flax network on one input, with weights of its own; `facts` are the other fields of the model."""
    parameters = initialize(rng, jax.eval_shape(network.init, jax.random.key(0), x))
    return Model(network.apply, parameters, (x,), **facts)


def initialize(rng: Rng, shapes: Any) -> Any:
    """Weights for a tree of shapes (from `jax.eval_shape`), by the conventional leaf names of flax.

    Drawn with NumPy: a library's own initializers leave biases at zero and norms at identity, which hides mistakes,
    and take long for large models. Variances are positive, kernels scaled by their fan-in.
    """

    def leaf(path: tuple[Any, ...], struct: jax.ShapeDtypeStruct) -> np.ndarray:
        kind = str(getattr(path[-1], "key", getattr(path[-1], "name", path[-1])))
        values = rng.standard_normal(struct.shape, np.float32)
        if kind == "kernel":
            values *= 1.0 / np.sqrt(max(1, int(np.prod(struct.shape[:-1]))))
        elif kind == "var":
            values = 1.0 + 0.5 * np.tanh(values)
        elif kind == "scale":
            values = 1.0 + 0.1 * values
        else:
            values *= 0.1
        return values.astype(struct.dtype)

    return jax.tree_util.tree_map_with_path(leaf, shapes)
