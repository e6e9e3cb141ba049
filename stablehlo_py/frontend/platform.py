"""Modules that were exported for several platforms: the one that they are compiled for is chosen, or, where that is
none of them, another one, as a module that was exported for that one alone compiles too.

Such a module's functions take the number of the platform in an argument, marked as a global constant, and branch on it
where the platforms' lowerings differ: to custom calls that only one of them has, for instance. So the branches of the
others go before anything else looks at the module.
"""

from __future__ import annotations

from collections.abc import Iterator

from stablehlo_py.dialect.attributes import GLOBAL_CONSTANT
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.edit import fix_argument, inline_block, replace_op
from stablehlo_py.frontend.jax_export import platforms_of
from stablehlo_py.mlir import ir
from stablehlo_py.targets import DEFAULT_TARGET

_PLATFORM_INDEX = "_platform_index"


def choose_platform(module: ir.Module, platform: str) -> bool:
    """Put the number of `platform` for the arguments that ask for it, inline the branches that it takes, and remove the
    argument of `@main`. Modules that were exported for one platform, or that nobody knows the platforms of, stay as
    they are. Of other platforms than `platform`, the default target's is taken, else the first. Returns whether the
    module has changed."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func" and op.regions[0].blocks]
    asking = [(function, number) for function in functions for number in _platform_arguments(function)]
    platforms = platforms_of(module)
    if not asking or not platforms:
        return False
    chosen = next(name for name in (platform, DEFAULT_TARGET, *platforms) if name in platforms)
    main = main_function(module)
    with module.context, ir.Location.unknown():
        for function, number in asking:
            fix_argument(function.regions[0].blocks[0].arguments[number], platforms.index(chosen))
            _inline_branches(function.operation)
            if function == main:
                _erase_argument(function, number)
    return True


def _platform_arguments(function: ir.OpView) -> Iterator[int]:
    if "arg_attrs" not in function.attributes:
        return
    for number, described in enumerate(ir.ArrayAttr(function.attributes["arg_attrs"])):
        mark = ir.DictAttr(described)
        if GLOBAL_CONSTANT in mark and ir.StringAttr(mark[GLOBAL_CONSTANT]).value == _PLATFORM_INDEX:
            yield number


def _inline_branches(op: ir.Operation) -> None:
    """Replace every `case` inside whose index is a constant by the branch that it takes, outer ones first."""
    for region in op.regions:
        for block in region.blocks:
            waiting = [each.operation for each in block.operations]
            for each in waiting:  # grows: what was inlined may branch too
                index = each.operands[0].owner if each.name == "stablehlo.case" else block
                if not isinstance(index, ir.Block) and index.name == "stablehlo.constant":
                    waiting += _inline_branch(each, int(constant_value(index)))
                else:
                    _inline_branches(each)


def _inline_branch(case: ir.Operation, index: int) -> list[ir.Operation]:
    """Put a branch's ops where its `case` is; the last one is taken for an index out of range (spec, section case)."""
    count = len(case.regions)
    (block,) = case.regions[index if 0 <= index < count else count - 1].blocks
    *moved, _ = [each.operation for each in block.operations]
    replace_op(case, inline_block(block, [], case))
    return moved


def _erase_argument(function: ir.OpView, number: int) -> None:
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = [type_ for position, type_ in enumerate(signature.inputs) if position != number]
    described = [
        each for position, each in enumerate(ir.ArrayAttr(function.attributes["arg_attrs"])) if position != number
    ]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, signature.results))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(described)
    function.regions[0].blocks[0].erase_argument(number)
