"""What `@main` takes and returns: tensors of elements that memory holds."""

from __future__ import annotations

from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.entry import main_function
from stablehlo_py.mlir import ir, stablehlo

_REMEDY = "take and return ranked tensors of booleans, integers, floats or complex numbers, tuples of them, or tokens"


def check_signature(module: ir.Module) -> None:
    """Raise UnsupportedError for arguments and results of `@main` that are not tensors of known rank and element type,
    tuples of them, or tokens."""
    main = main_function(module)
    arguments = main.regions[0].blocks[0].arguments
    problems = [
        Problem(f"argument {number} of @main is of type {value.type}", describe(value.location), remedy=_REMEDY)
        for number, value in enumerate(arguments)
        if not _is_known(value.type)
    ]
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    problems += [
        Problem(f"result {number} of @main is of type {type_}", describe(main.location), remedy=_REMEDY)
        for number, type_ in enumerate(results)
        if not _is_known(type_)
    ]
    if problems:
        raise UnsupportedError("the program cannot be called from outside", problems=problems)


def _is_known(type_: ir.Type) -> bool:
    waiting = [type_]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ir.TupleType):
            waiting += [each.get_type(number) for number in range(each.num_types)]
        elif isinstance(each, ir.RankedTensorType):
            if quantized_of(each) is None and not _has_dtype(each.element_type):
                return False
        elif not stablehlo.TokenType.isinstance(each):
            return False
    return True


def _has_dtype(element: ir.Type) -> bool:
    try:
        numpy_dtype(element)
    except KeyError:
        return False
    return True
