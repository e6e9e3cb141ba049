"""From what a user passes to what a program reads: checked, contiguous, native arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from stablehlo_py.boundary import is_expected, number
from stablehlo_py.errors import ArgumentError, Problem, ResourceError, clipped, elided, shape_text
from stablehlo_py.runtime.buffer import Buffer
from stablehlo_py.runtime.dlpack import imported
from stablehlo_py.runtime.memory import ArrayMemory
from stablehlo_py.runtime.program import Leaves, Spec, fits

# A Python number stands for every dtype of its rank and above: 2 for a float, never 2.5 for an integer.
_SCALARS = {bool: 0, int: 1, float: 2, complex: 3}


def _rank(dtype: np.dtype) -> int:
    if dtype.kind == "V":  # ml_dtypes
        return 1 if "int" in dtype.name else 2
    return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[dtype.kind]


def as_array(value: object, spec: Spec) -> np.ndarray:
    """A value (NumPy, ml_dtypes, JAX, DLPack, or a Python scalar) as a NumPy array; nothing is checked yet.

    Raises:
        ArgumentError: it is no array.
        ResourceError: there is no memory for it.
    """
    try:
        return _array_of(value, spec)
    except MemoryError as error:
        raise ResourceError(f"there is no memory for argument {spec.name}", remedy="pass a smaller array") from error
    except Exception as error:  # NumPy's own, and whatever a conversion that the value defines raises
        if is_expected(error):
            raise
        reason, remedy = f"argument {spec.name} is not an array: {_first_line(error)}", "pass a NumPy or DLPack array"
        jax = sys.modules.get("jax")
        if jax is not None and isinstance(value, jax.core.Tracer):
            reason = f"argument {spec.name} is a tracer of JAX, without a value"
            remedy = "call compiled models outside of functions that JAX transforms, or through jax.pure_callback"
        raise ArgumentError(reason, remedy=remedy) from error


def _first_line(error: Exception) -> str:
    try:
        return clipped(str(error).partition("\n")[0], 120)
    except Exception:  # its own __str__
        return type(error).__name__


def _array_of(value: object, spec: Spec) -> np.ndarray:
    if type(value) in _SCALARS and spec.shape == () and _SCALARS[type(value)] <= _rank(spec.dtype):
        return np.asarray(value, spec.dtype)
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__") and not hasattr(value, "__array_interface__"):
        return imported(value)
    return np.asarray(value)


def _is_ready(array: np.ndarray, spec: Spec) -> bool:
    """Whether an array can be used as it is: most are."""
    flags = array.flags
    return array.dtype == spec.dtype and flags.c_contiguous and flags.aligned and fits(array.shape, spec)


def problem_with(array: np.ndarray, spec: Spec) -> Problem | None:
    """What keeps an array from being this input, or None."""
    if array.dtype != spec.dtype:
        if array.dtype.newbyteorder("=") == spec.dtype:
            remedy = "convert it: array.astype(array.dtype.newbyteorder('='))"
            return Problem(f"argument {spec.name} has another byte order ({array.dtype.str})", remedy=remedy)
        remedy = f"convert it: array.astype('{spec.dtype.name}')" if array.dtype != object else "pass an array"
        if spec.quantization and array.dtype.name == spec.quantization.expressed:
            remedy = "pass its stored integers: executable.inputs[i].quantization.quantize(array)"
        return Problem(f"argument {spec.name} has dtype {array.dtype}, the model wants {spec.dtype}", remedy=remedy)
    if not fits(array.shape, spec):
        return Problem(
            f"argument {spec.name} has shape {tuple(array.shape)}, the model wants {shape_text(spec.shape)}",
            remedy="? stands for any size, a number for itself"
            if None in spec.shape
            else "shapes are fixed when a model is exported; export it with symbolic dimensions to vary them",
        )
    return None


T = TypeVar("T")


def taken(values: Sequence[T], specs: Sequence[Spec], leaves: Leaves | None, what: str = "arguments") -> Sequence[T]:
    """The values that a model takes, one for each spec, of those or of all leaves of the call that it was exported
    from.

    Raises:
        ArgumentError: there are as many as neither has.
    """
    if len(values) == len(specs):
        return values
    if leaves is not None and len(values) == leaves.count:
        return [values[position] for position in leaves.kept]
    takes = f"the model takes {len(specs)}"
    if leaves is not None and leaves.dropped:
        takes += f" (or {leaves.count}, with those of the exported call that it does not use)"
    raise ArgumentError(f"got {len(values)} {what}, {takes}", remedy=f"pass {elided(specs)}")


def candidates(specs: Sequence[Spec], position: int | None) -> Sequence[Spec]:
    """The inputs that an array may be put for.

    Raises:
        ArgumentError: there is none at `position`.
    """
    if position is None:
        return specs
    place = number(position, "position")
    if not -len(specs) <= place < len(specs):
        remedy = f"use a number below {len(specs)}" if specs else "the model takes no inputs"
        raise ArgumentError(f"there is no input at position {place}", remedy=remedy)
    return (specs[place],)


def not_buffers(buffers: object) -> ArgumentError:
    """The error of a `call` with something else than buffers."""
    wrong = buffers
    if isinstance(buffers, (list, tuple)):
        wrong = next((each for each in buffers if not isinstance(each, Buffer)), buffers)
    return ArgumentError(
        f"a {type(wrong).__name__} is passed where a buffer is wanted",
        remedy="pass a list of what put() returned; for arrays call the executable: exe(*arrays)",
    )


def usable(value: object, array: np.ndarray, spec: Spec) -> np.ndarray:
    """The array that was made of a value, if it has the value's own memory.

    Raises:
        ArgumentError: it is a copy.
    """
    if array is value or np.may_share_memory(array, as_array(value, spec)):
        return array
    raise ArgumentError(
        f"argument {spec.name} cannot be used without a copy", remedy="pass a dense array, or put it with copy=True"
    )


def convert(values: Sequence[object], specs: Sequence[Spec], leaves: Leaves | None = None) -> list[np.ndarray]:
    """All arguments of a call, checked together.

    Raises:
        ArgumentError: naming every argument that does not fit.
    """
    values = taken(values, specs, leaves)
    arrays: list[np.ndarray] = []
    problems: list[Problem] = []
    misfits: list[tuple[np.ndarray, Spec]] = []
    cause: BaseException | None = None
    for value, spec in zip(values, specs, strict=True):
        if type(value) is np.ndarray and _is_ready(value, spec):
            arrays.append(value)
            continue
        try:
            array = as_array(value, spec)
        except ArgumentError as error:
            problems += error.problems
            cause = cause or error.__cause__
            continue
        if _is_ready(array, spec):
            arrays.append(array)
            continue
        problem = problem_with(array, spec)
        if problem:
            problems.append(problem)
            misfits.append((array, spec))
        else:
            arrays.append(np.require(array, requirements=("C", "ALIGNED")))
    if problems:
        problems = _swapped(misfits) or problems
        raise ArgumentError("the arguments do not fit the model", problems=problems) from cause
    return arrays


def _swapped(misfits: Sequence[tuple[np.ndarray, Spec]]) -> list[Problem]:
    """What to say where two arguments, the only ones that do not fit, are each other's."""
    if len(misfits) != 2:
        return []
    (first, first_spec), (second, second_spec) = misfits
    if problem_with(first, second_spec) or problem_with(second, first_spec):
        return []
    names = f"{first_spec.name} and {second_spec.name}"
    return [Problem(f"arguments {names} fit when swapped", remedy=f"pass {first_spec}, then {second_spec}")]


def aligned_copy(array: np.ndarray, memory: ArrayMemory | None = None) -> np.ndarray:
    """A dense copy, aligned where it is large; in memory of an owner, else in memory that nobody else ever has."""
    result = (memory or ArrayMemory(0)).array(array.shape, array.dtype, array.nbytes)
    np.copyto(result, array)
    return result
