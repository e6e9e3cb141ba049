"""What `@main` takes and returns: tensors of elements that memory holds, by `func.return`."""

from __future__ import annotations

from collections.abc import Iterator

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.mlir import ir, stablehlo

_REMEDY = "take and return ranked tensors of booleans, integers, floats or complex numbers, tuples of them, or tokens"


def check_signature(module: ir.Module) -> None:
    """Raise UnsupportedError for arguments and results of `@main` that are not tensors of known rank and element type,
    tuples of them, or tokens, and for functions that end with another op than `func.return`."""
    main = main_function(module)
    arguments = main.regions[0].blocks[0].arguments
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    values = [(f"argument {number}", value.type, value) for number, value in enumerate(arguments)]
    values += [(f"result {number}", type_, main) for number, type_ in enumerate(results)]
    unknown = {type_ for type_ in {each[1] for each in values} if not _is_known(type_)}
    problems = [
        Problem(f"{name} of @main is of type {type_}", describe(of.location), remedy=_REMEDY)
        for name, type_, of in values
        if type_ in unknown
    ]
    problems += [_ending(end) for end in _ends(module) if end.name != "func.return"]
    if problems:
        raise UnsupportedError("the program cannot be called from outside", problems=problems)


def _ends(module: ir.Module) -> Iterator[ir.Operation]:
    """The last op of every function of one block; of several blocks there are none once calls are inlined."""
    for function in module.body.operations:
        if function.operation.name == "func.func" and len(function.regions[0].blocks) == 1:
            operations = function.regions[0].blocks[0].operations
            yield operations[len(operations) - 1].operation


def _ending(op: ir.Operation) -> Problem:
    return Problem("a function ends with it", describe(op.location), op.name, "end functions with func.return")


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
