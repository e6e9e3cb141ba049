"""Tokens among the arguments and results of a program, by which JAX orders programs with effects.

The compiler drops them, for a program runs as a whole; but JAX passes arrays in their places, and expects some.
"""

from __future__ import annotations

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.frontend.load import load_marked
from stablehlo_py.frontend.source import read
from stablehlo_py.mlir import ir, stablehlo

# What a program with tokens in its signature holds: an attribute of those by which JAX orders effects, or ops that make
# tokens. A program that only takes or passes on tokens of the user's is not recognized.
_MARKS = (b"jax.token", b"create_token", b"after_all")


def tokens_as_arrays(source: bytes) -> bytes | ir.Module:
    """A program that takes and returns `tensor<0xi1>` for tokens, as `load_marked` reads it; the source where it has
    none."""
    if not any(mark in source for mark in _MARKS):
        return source
    module = load_marked(read(source), make_context(), isolate=False)
    with module.context:
        _rewrite(main_function(module))
    return module


def _rewrite(function: ir.OpView) -> None:
    block = function.regions[0].blocks[0]
    old, last = list(block.arguments), terminator(block)
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
