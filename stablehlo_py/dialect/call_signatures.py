"""How calls and composites that are known by their name must look: upstream's verifier knows no target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from stablehlo_py.dialect.attributes import MHLO_ATTRIBUTES
from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.types import DYNAMIC, element_type, is_bool, is_complex, is_float, is_integer, is_tensor
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

Op: TypeAlias = ir.OpView | ir.Operation
_CALLED = "called_computations"


def is_function(op: Op, complex_too: bool) -> bool:
    """Whether an op takes a tensor of floats (or of complex numbers) and gives one of the same type."""
    types = _types(op)
    if len(op.operands) != 1 or len(types) != 2 or types[0] != types[1] or not is_tensor(types[0]):
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
    called = op.attributes.get(_CALLED)
    if not isinstance(called, ir.ArrayAttr) or not len(called) or not isinstance(called[0], ir.FlatSymbolRefAttr):
        return False
    module = op.operation
    while module.parent is not None:
        module = module.parent.operation
    for view in module.regions[0].blocks[0]:
        if view.operation.name == "func.func" and view.attributes["sym_name"].value == called[0].value:
            type_ = ir.FunctionType(ir.TypeAttr(view.attributes["function_type"]).value)
            types = [*type_.inputs, *type_.results]
            scalars = all(is_tensor(each) and each.rank == 0 for each in types)
            return scalars and (len(type_.inputs), len(type_.results)) == (operands, results)
    return False


def _without_sizes(op: Op) -> list[ir.Value]:
    """The operands but those that give the shapes of results, which shape refinement takes away."""
    named = op.attributes.get("indices_of_shape_operands")
    sizes = frozenset(named if isinstance(named, ir.DenseIntElementsAttr) else ())
    return [operand for number, operand in enumerate(op.operands) if number not in sizes]


def _approx_top_k(op: Op, dynamic: bool) -> bool:
    """Operands: arrays, an initial value for each, and k where that is not an attribute."""
    count, operands = len(op.results), _without_sizes(op)
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
    return isinstance(attributes, ir.DictAttr) and is_top_k(op, {each.name: each.attr for each in attributes})


_CALLS: dict[str, tuple[str, Callable[[Op], bool]]] = {
    **dict.fromkeys(
        ("Sharding", "annotate_device_placement", "LayoutConstraint"),
        ("as many results as operands, all of them tensors", _passes_on),
    ),
    **dict.fromkeys(
        ("SPMDFullToShardShape", "SPMDShardToFullShape"), ("one operand and one result, both tensors", _passes_one_on)
    ),
    "AllocateBuffer": ("results that are tensors", _of_tensors),
    **dict.fromkeys(("dce_sink", "shape_assertion"), ("no results", _without_results)),
    "ApproxTopK": (
        "arrays and an initial value for each, a reduction_dim and the computation that orders them",
        partial(_approx_top_k, dynamic=False),
    ),
    "stablehlo.dynamic_approx_top_k": (
        "arrays, an initial value for each and k, a reduction_dim and the computation that orders them",
        partial(_approx_top_k, dynamic=True),
    ),
    "mhlo.erf": ("a tensor of floats, and gives one of its type", partial(is_function, complex_too=False)),
    "mhlo.tan": ("a tensor of floats, and gives one of its type", partial(is_function, complex_too=True)),
    "mhlo.topk": ("mhlo.attributes with k, and a tensor; it gives elements and i32 places", _top_k),
    "stablehlo.dynamic_top_k": ("a tensor and k; it gives elements and i32 places", _dynamic_top_k),
    "stablehlo.dynamic_rng_bit_generator": (
        "a state, a shape and an rng_algorithm; it gives the state after it and bits",
        _dynamic_rng_bit_generator,
    ),
    "stablehlo.dynamic_reduce_window": (
        "arrays, an initial value for each, four numbers and two of padding for each dimension, and a computation",
        _dynamic_reduce_window,
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
    takes, fits = _CALLS.get(target, ("", None))
    return None if fits is None or fits(op) else f"'{target}' takes {takes}"


def check_call(op: ir.Operation) -> None:
    """Refuse a custom call that is not one of its target any more, now that its types are known better.

    Raises:
        UnsupportedError: what the target takes.
    """
    reason = what_is_wrong(op)
    if reason is not None:
        raise UnsupportedError(reason, op=op.name, remedy="export the model with JAX")
