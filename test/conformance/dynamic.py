"""Run StableHLO's cases with dynamic dimensions: `python test/conformance/dynamic.py DATA [options]`.

DATA is as for run.py; the cases are those of its folder `dynamic`, which have no expected values. Each is compiled once
and called with three sets of sizes, and what comes out is compared with StableHLO's reference interpreter on the module
refined to those sizes, or with XLA where the interpreter ends its process. Sizes are chosen so that the module's own
equations hold. A case passes when all agree and one compilation served them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

SIZES = ((3, 5, 7), (8, 2, 4), (37, 19, 11))  # of the first, second ... independent dimension
TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "bfloat16": 2e-2, "float16": 4e-3}


# --- sizes and inputs -------------------------------------------------------------------------------------------------


def assignments(text: str) -> list[dict[str, int]]:
    """Values of the symbols of a module: a set for each of SIZES."""
    from stablehlo_py.compiler import run_stages
    from stablehlo_py.dialect.calls import main_function
    from stablehlo_py.dialect.symint import substitute, symbols
    from stablehlo_py.dialect.types import shape
    from stablehlo_py.frontend.load import load
    from stablehlo_py.mlir import ir
    from stablehlo_py.passes.symbolic.checks import checks_of

    module = load(text)
    with module.context, ir.Location.unknown():
        run_stages(module, "", "stablehlo")
        arguments = main_function(module).regions[0].blocks[0].arguments
        sizes = [size for argument in arguments for size in shape(argument)]
        checks = checks_of(module)
    named = [name for size in (*sizes, *(check.condition for check in checks)) for name in symbols(size)]
    solved = {str(check.values[0]): check.values[1] for check in checks if str(check.condition).startswith("eq(")}
    free = [name for name in dict.fromkeys(named) if name not in solved]

    def complete(values: Mapping[str, int]) -> dict[str, int] | None:
        result = dict(values)
        for _ in solved:  # what one is solved for may stand in another
            for name, size in solved.items():
                if name in named and not symbols(size).keys() - result.keys():
                    result[name] = substitute(size, result)
        holds = all(substitute(check.condition, result) for check in checks if symbols(check.condition))
        return result if holds else None

    found = []
    for numbers in SIZES:
        different = {name: numbers[position % len(numbers)] for position, name in enumerate(free)}
        alike = dict.fromkeys(free, numbers[0])
        # Symbols "x..." are integers that are no dimensions, as of starts: zero fits what others do not.
        from_zero = {name: 0 if name.startswith("x") else size for name, size in alike.items()}
        chosen = complete(different) or complete(alike) or complete(from_zero)
        if chosen is None:
            raise ValueError(f"no sizes fit the checks of the module: {[str(check.condition) for check in checks]}")
        found.append(chosen)
    return found


def inputs_for(specs: Sequence[object], values: Mapping[str, int], rng: np.random.Generator) -> list[np.ndarray]:
    """Random arrays; integer arguments hold the dimensions that are read from them, else small numbers."""
    arrays = []
    for number, spec in enumerate(specs):
        sizes = [values.get(f"d{number}_{i}", 1) if size is None else size for i, size in enumerate(spec.shape)]
        kind = spec.dtype.kind
        if kind == "b":
            array = rng.random(sizes) < 0.5
        elif kind in "iu":
            array = rng.integers(0, 3, sizes)
        elif kind == "c":
            array = rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)
        else:
            array = 2 * rng.standard_normal(sizes)
        array = np.asarray(array).astype(spec.dtype)
        for element in range(array.size if array.size <= 8 and kind in "iu" else 0):
            unchecked = next(iter(values.values()), 0)  # maybe the dimension of a result
            array.flat[element] = values.get(f"v{number}_{element}", values.get(f"x{number}_{element}", unchecked))
        arrays.append(array)
    return arrays


def difference(wanted: np.ndarray, got: np.ndarray) -> str | None:
    """What is wrong with a result, None where it agrees."""
    if wanted.shape != got.shape or wanted.dtype != got.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    part = np.zeros(0, wanted.dtype).real.dtype.name
    if part not in TOLERANCE:
        return None if np.array_equal(wanted, got) else "integers differ"
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = wanted.astype(wide), got.astype(wide)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 1.0
    if np.allclose(a, b, rtol=TOLERANCE[part], atol=TOLERANCE[part] * min(scale, 1e3), equal_nan=True):
        return None
    return f"largest difference {np.nanmax(np.abs(a - b)):g}, largest value {scale:g}"


# --- the oracle -------------------------------------------------------------------------------------------------------


def refined(text: str, inputs: Sequence[np.ndarray]) -> object:
    """The module, static: dimensions from the shapes, and from the values of integer scalars where it needs them."""
    from stablehlo_py.errors import UnsupportedError
    from stablehlo_py.frontend.load import load
    from stablehlo_py.passes.symbolic.specialize import specialize

    shapes = [array.shape for array in inputs]
    scalars = {n: int(array) for n, array in enumerate(inputs) if array.shape == () and array.dtype.kind in "iu"}
    for values in (scalars, {}) if scalars else ({},):
        module = load(text)
        try:
            specialize(module, shapes, values)
        except UnsupportedError:
            continue
        return module
    raise ValueError("the module cannot be refined")


class Oracle:
    """The reference interpreter in a process of its own, XLA where that fails."""

    def __init__(self) -> None:
        from stablehlo_py.debug.workers import Workers

        self._workers = Workers()

    def __call__(self, text: str, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        static = str(refined(text, inputs))
        answer = self._workers.run("reference", static, inputs)
        if not answer.ok:
            answer = self._workers.run("jax", static, inputs)
        if not answer.ok:
            raise ValueError(f"no oracle: {answer.detail}")
        return answer.results


# --- the judge --------------------------------------------------------------------------------------------------------


class Judge:
    """What run.py's workers call an engine; it decides about a case itself."""

    def __init__(self) -> None:
        self._oracle = Oracle()

    def judge(self, text: str) -> tuple[str, str]:
        """Status and detail of a case."""
        import stablehlo_py

        executable = stablehlo_py.compile(text, options=stablehlo_py.Options(threads=2, cache_dir=None, dynamic="once"))
        rng = np.random.default_rng(0)
        for values in assignments(text):
            inputs = inputs_for(executable.inputs, values, rng)
            got = executable(*inputs)
            wanted = self._oracle(text, inputs)
            for number, (a, b) in enumerate(zip(wanted, got, strict=True)):
                wrong = difference(a, b)
                if wrong:
                    return "mismatch", f"sizes {values}: result {number}: {wrong}"
        if executable.compilations != 1:
            return "unsupported", f"compiled {executable.compilations} times"
        return "passed", ""


def make() -> Judge:
    """The engine of run.py's workers."""
    return Judge()


def main(argv: list[str] | None = None) -> int:
    """The command line of run.py, for the dynamic cases."""
    import run

    return run.main([*(sys.argv[1:] if argv is None else argv), "--engine", f"{__file__}:make", "--dynamic"])


if __name__ == "__main__":
    sys.exit(main())
