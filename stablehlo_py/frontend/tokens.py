"""Tokens among the arguments and results of a program, by which JAX orders programs with effects.

The compiler drops them, for a program runs as a whole; but JAX passes arrays in their places, and expects some.
"""

from __future__ import annotations

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.mlir import ir, stablehlo


def make_tokens_arrays(module: ir.Module) -> None:
    """Let `@main` take and return `tensor<0xi1>` for tokens."""
    function = main_function(module)
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not any(map(_is_token, [*signature.inputs, *signature.results])):
        return
    block = function.regions[0].blocks[0]
    old, last = list(block.arguments), terminator(block)
    with module.context:
        array = ir.RankedTensorType.get([0], ir.IntegerType.get_signless(1), loc=function.location)
        with ir.InsertionPoint.at_block_begin(block), function.location:
            for argument in old:
                is_token = _is_token(argument.type)
                value = block.add_argument(array if is_token else argument.type, argument.location)
                if is_token:
                    value = ir.Operation.create("stablehlo.create_token", results=[argument.type]).result
                argument.replace_all_uses_with(value)
        for _ in old:
            block.erase_argument(0)
        with ir.InsertionPoint(last), last.location:
            nothing = ir.DenseElementsAttr.get_splat(array, ir.BoolAttr.get(False))
            for number, value in enumerate(last.operands):
                if _is_token(value.type):
                    constant = ir.Operation.create("stablehlo.constant", [array], [], {"value": nothing})
                    last.operands[number] = constant.result
        types = [[each.type for each in values] for values in (block.arguments, last.operands)]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def _is_token(type_: ir.Type) -> bool:
    return stablehlo.TokenType.isinstance(type_)
