"""Calls and composites that are known by their name: how they must look, which upstream's verifiers do not know, and
what a call is that JAX writes where StableHLO has no dynamic form of an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from stablehlo_py.dialect.attributes import MHLO_ATTRIBUTES
from stablehlo_py.dialect.calls import functions_of
from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.stablehlo import keyword
from stablehlo_py.dialect.types import (
    DYNAMIC,
    element_type,
    entries,
    is_bool,
    is_complex,
    is_float,
    is_integer,
    is_tensor,
    module_of,
)
from stablehlo_py.dialect.window import NAMES
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Op: TypeAlias = ir.OpView | ir.Operation
_CALLED = "called_computations"
#: The attribute by which JAX says which operands hold the shapes of results.
SHAPE_OPERANDS = "indices_of_shape_operands"


def is_function(op: Op, complex_too: bool, operands: int = 1) -> bool:
    """Whether an op takes tensors of floats (or of complex numbers) and gives one, all of one type."""
    types = _types(op)
    if len(op.operands) != operands or len(op.results) != 1 or len(set(types)) != 1 or not is_tensor(types[0]):
        return False
    return is_float(element_type(types[0])) or (complex_too and is_complex(element_type(types[0])))


def is_top_k(op: Op, attributes: Mapping[str, ir.Attribute]) -> bool:
    """Whether an op can be a `chlo.top_k` with these attributes."""
    types = _types(op)
    if not _is_top_k_of(types, len(op.operands)):
        return False
    if "k" not in attributes or not isinstance(attributes["k"], ir.IntegerAttr):
        return False
    if "largest" in attributes and not isinstance(attributes["largest"], ir.BoolAttr):
        return False
    (operand, values, places), k = types, attributes["k"].value
    if k < 0 or (operand.shape[-1] != DYNAMIC and k > operand.shape[-1]):
        return False
    wanted = [*operand.shape[:-1], k]
    return all(_fits(each.shape, wanted) for each in (values, places))


def _is_top_k_of(types: Sequence[ir.Type], operands: int) -> bool:
    """Whether these are the types of a tensor, and of elements of it and their places."""
    if operands != 1 or len(types) != 3 or not all(map(is_tensor, types)):
        return False
    operand, values, places = types
    fit = operand.rank > 0 and operand.rank == values.rank == places.rank and not is_complex(operand.element_type)
    return fit and values.element_type == operand.element_type and str(places.element_type) == "i32"


def _fits(sizes: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(sizes) == len(wanted) and all(
        size == other or DYNAMIC in (size, other) for size, other in zip(sizes, wanted, strict=True)
    )


def _types(op: Op) -> list[ir.Type]:
    return [value.type for value in (*op.operands, *op.results)]


# --- custom calls -----------------------------------------------------------------------------------------------------


def _passes_on(op: Op) -> bool:
    return len(op.operands) == len(op.results) and _of_tensors(op)


def _passes_one_on(op: Op) -> bool:
    return _passes_on(op) and len(op.operands) == 1


def _of_tensors(op: Op) -> bool:
    return all(map(is_tensor, _types(op)))


def _without_results(op: Op) -> bool:
    return len(op.results) == 0


def _calls(op: Op, operands: int, results: int) -> bool:
    """Whether the call names a function of the module that takes and gives so many scalars."""
    function = called_function(op)
    if function is None:
        return False
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    scalars = all(is_tensor(each) and each.rank == 0 for each in [*type_.inputs, *type_.results])
    return scalars and (len(type_.inputs), len(type_.results)) == (operands, results)


def called_function(op: Op) -> ir.Operation | None:
    """The function of the module that a call names first, None where there is none."""
    called = op.attributes.get(_CALLED)
    if not isinstance(called, ir.ArrayAttr) or not len(called) or not isinstance(called[0], ir.FlatSymbolRefAttr):
        return None
    return functions_of(module_of(op.operation)).get(called[0].value)


def shape_operands(op: Op) -> tuple[int, ...]:
    """Numbers of the operands of a call that hold the shapes of its results, which
    `infer-symbolic-shapes` takes away."""
    named = op.attributes.get(SHAPE_OPERANDS)
    return tuple(named) if isinstance(named, ir.DenseIntElementsAttr) else ()


def _approx_top_k(op: Op, dynamic: bool) -> bool:
    """Operands: arrays, an initial value for each, and k where that is not an attribute."""
    count, sizes = len(op.results), shape_operands(op)
    operands = [operand for number, operand in enumerate(op.operands) if number not in sizes]
    if not count or len(operands) != 2 * count + dynamic or not _of_tensors(op):
        return False
    if not _calls(op, 2 * count, 1):
        return False
    dimension = configuration(op).get("reduction_dim")
    types = [operand.type for operand in operands]
    arrays, initial = types[:count], types[count : 2 * count]
    results = [result.type for result in op.results]
    first = arrays[0]
    if not isinstance(dimension, ir.IntegerAttr) or not -first.rank <= dimension.value < first.rank:
        return False
    return (
        all(each.shape == first.shape for each in arrays)
        and all(each.rank == 0 for each in initial)
        and [each.element_type for each in arrays] == [each.element_type for each in initial]
        and [each.element_type for each in arrays] == [each.element_type for each in results]
        and all(
            each.rank == first.rank
            and _fits(_without(each.shape, dimension.value), _without(first.shape, dimension.value))
            for each in results
        )
        and all(_at_most(each.shape[dimension.value], first.shape[dimension.value]) for each in results)
        and (not dynamic or _is_number(types[2 * count]))
    )


def _without(sizes: Sequence[int], place: int) -> list[int]:
    return [size for number, size in enumerate(sizes) if number != place % len(sizes)]


def _at_most(size: int, limit: int) -> bool:
    return DYNAMIC in (size, limit) or size <= limit


def _is_number(type_: ir.Type) -> bool:
    """Whether a tensor holds one integer."""
    return list(type_.shape) in ([], [1]) and _holds_integers(type_)


def _holds_integers(type_: ir.Type) -> bool:
    return is_integer(type_.element_type) and not is_bool(type_.element_type)


def _dynamic_top_k(op: Op) -> bool:
    """Operands: a tensor, and how many of its elements are wanted."""
    types = _types(op)
    if len(op.operands) != 2 or len(types) != 4 or not _of_tensors(op) or not _is_number(types[1]):
        return False
    operand, _, *found = types
    batch = list(operand.shape)[:-1]
    return _is_top_k_of([operand, *found], 1) and all(_fits(list(each.shape)[:-1], batch) for each in found)


def _dynamic_rng_bit_generator(op: Op) -> bool:
    """Operands: the state, and the shape of the bits."""
    types = _types(op)
    if len(op.operands) != 2 or len(types) != 4 or not _of_tensors(op):
        return False
    state, sizes, after, bits = types
    algorithm = op.attributes.get("rng_algorithm")
    return (
        state == after
        and state.rank == 1
        and str(state.element_type) == "ui64"
        and list(sizes.shape) == [bits.rank]
        and _holds_integers(sizes)
        and (_holds_integers(bits) or is_float(bits.element_type))
        and "#stablehlo<rng_algorithm" in str(algorithm)
    )


def _dynamic_reduce_window(op: Op) -> bool:
    """Operands: arrays, an initial value for each; sizes, strides and dilations of windows; padding."""
    count = len(op.results)
    if not count or len(op.operands) != 2 * count + 5 or not _of_tensors(op) or not _calls(op, 2 * count, count):
        return False
    types = _types(op)
    arrays, initial, numbers = types[:count], types[count : 2 * count], types[2 * count : -count]
    rank = arrays[0].rank
    return (
        all(each.rank == rank for each in (*arrays, *types[-count:]))
        and all(_fits(each.shape, arrays[0].shape) for each in arrays)
        and all(each.rank == 0 for each in initial)
        and all(map(_holds_integers, numbers))
        and [list(each.shape) for each in numbers] == [[rank]] * 4 + [[rank, 2]]
    )


def _top_k(op: Op) -> bool:
    attributes = op.attributes.get(MHLO_ATTRIBUTES)
    return isinstance(attributes, ir.DictAttr) and is_top_k(op, entries(attributes))


# What an attribute of an hlo op is: an attribute of another name; the elements of an operand (by number, from the last
# one where that is negative), or the only one (in a tuple); or computed.
Source: TypeAlias = "str | int | tuple[int] | Callable[[ir.OpView], int | str | Sequence[int]]"
#: No attribute: what the operand holds is the shape of the last result.
RESULT = ""


@dataclass(frozen=True)
class Call:
    """What is known of a target.

    Attributes:
        takes, fits: in words what a call of it takes; whether one does.
        op, attributes: the hlo op that it is, and where its attributes come from (as in `forms.FORMS`).
    """

    takes: str
    fits: Callable[[Op], bool]
    op: str = ""
    attributes: Mapping[str, Source] = field(default_factory=dict)


_PASSES_ON = Call("as many results as operands, all of them tensors", _passes_on)
_PASSES_ONE_ON = Call("one operand and one result, both tensors", _passes_one_on)
_NOTHING = Call("no results", _without_results)
CALLS = {
    "Sharding": _PASSES_ON,
    "annotate_device_placement": _PASSES_ON,
    "LayoutConstraint": _PASSES_ON,
    "SPMDFullToShardShape": _PASSES_ONE_ON,
    "SPMDShardToFullShape": _PASSES_ONE_ON,
    "AllocateBuffer": Call("results that are tensors", _of_tensors),
    "dce_sink": _NOTHING,
    "shape_assertion": _NOTHING,
    "ApproxTopK": Call(
        "arrays and an initial value for each, a reduction_dim and the computation that orders them",
        partial(_approx_top_k, dynamic=False),
    ),
    "stablehlo.dynamic_approx_top_k": Call(
        "arrays, an initial value for each and k, a reduction_dim and the computation that orders them",
        partial(_approx_top_k, dynamic=True),
        attributes={"k": (-1,)},
    ),
    "mhlo.erf": Call("a tensor of floats, and gives one of its type", partial(is_function, complex_too=False)),
    "mhlo.tan": Call("a tensor of floats, and gives one of its type", partial(is_function, complex_too=True)),
    "mhlo.topk": Call("mhlo.attributes with k, and a tensor; it gives elements and i32 places", _top_k),
    "stablehlo.dynamic_top_k": Call(
        "a tensor and k; it gives elements and i32 places",
        _dynamic_top_k,
        op="top_k",
        attributes={"k": (-1,)},
    ),
    "stablehlo.dynamic_rng_bit_generator": Call(
        "a state, a shape and an rng_algorithm; it gives the state after it and bits",
        _dynamic_rng_bit_generator,
        op="rng_bit_generator",
        attributes={"algorithm": lambda op: keyword(op.attributes["rng_algorithm"]), RESULT: -1},
    ),
    "stablehlo.dynamic_reduce_window": Call(
        "arrays, an initial value for each, four numbers and two of padding for each dimension, and a computation",
        _dynamic_reduce_window,
        op="reduce_window",
        attributes={name: number - len(NAMES) for number, name in enumerate(NAMES)},
    ),
}


def solves_matrices(op: Op, letter: str, operands: int, results: int) -> bool:
    """Whether all operands and all results but an `info` are matrices, or batches of them, of LAPACK's element type."""
    types = _types(op)
    if (len(op.operands), len(op.results)) != (operands, results) or not _of_tensors(op):
        return False
    element = {"s": "f32", "d": "f64", "c": "complex<f32>", "z": "complex<f64>"}[letter]
    first, batch = types[0], list(types[0].shape)[:-2]
    matrices, rest = (types[:2], types[2:]) if results == 2 else (types, [])
    return (
        first.rank >= 2
        and first.shape[-1] == first.shape[-2]
        and all(str(each.element_type) == element and list(each.shape)[:-2] == batch for each in matrices)
        and all(each.rank == first.rank for each in matrices)
        and matrices[-1] == matrices[operands - 1]
        and all(list(each.shape) == batch and str(each.element_type) == "i32" for each in rest)
    )


def what_is_wrong(op: ir.Operation) -> str | None:
    """Why a custom call is not one of its target, where that is known here; None for all others."""
    target = op.attributes["call_target_name"].value
    call = CALLS.get(target)
    return None if call is None or call.fits(op) else f"'{target}' takes {call.takes}"


def check_call(op: ir.Operation) -> None:
    """Refuse a custom call that is not one of its target any more, now that its types are known better.

    Raises:
        UnsupportedError: what the target takes.
    """
    reason = what_is_wrong(op)
    if reason is not None:
        raise UnsupportedError(reason, op=op.name, remedy="export the model with JAX")
