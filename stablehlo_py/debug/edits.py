"""Smaller versions of a module: what `reduce` tries. Every edit takes a case and makes a new one; none changes its own.

Ops are numbered in the order of their text: those of `@main`'s block (`cut`), or all of them, nested ones included
(`bypass`, `flatten`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stablehlo_py.debug.engines import main_of, set_signature
from stablehlo_py.debug.ops import constant
from stablehlo_py.debug.settings import context
from stablehlo_py.dialect.ops.grid import TRANSFERS
from stablehlo_py.mlir import MLIRError, ir, run_upstream

_SIDE_EFFECTS = ("custom_call", "rng", *TRANSFERS)


@dataclass(frozen=True)
class Case:
    """A module (text with one function, `@main`) and inputs for it."""

    module: str
    inputs: tuple[np.ndarray, ...]

    @property
    def ops(self) -> int:
        """Ops, nested ones included, without functions and terminators: the size that people see."""
        with context():
            module = ir.Module.parse(self.module)  # ops live as long as their module does
            return sum(1 for _ in _walk(main_of(module)))


def top_level_ops(case: Case) -> int:
    """The number of ops in `@main`'s block, without the terminator."""
    with context():
        module = ir.Module.parse(case.module)
        return len(_top(main_of(module)))


def result_count(case: Case) -> int:
    """The number of results of `@main`."""
    with context():
        module = ir.Module.parse(case.module)
        return len(_terminator(main_of(module)).operands)


Values = Mapping[tuple[int, int], np.ndarray]
Edit = Callable[[Any, list[np.ndarray]], bool]


def edited(case: Case, edit: Edit) -> Case | None:
    """The case after `edit(main, inputs)` and the removal of what is then unused; None where the edit says that it does
    not apply (False), or its module does not verify."""
    inputs = list(case.inputs)
    with context(), ir.Location.unknown():
        module = ir.Module.parse(case.module)
        main = main_of(module)
        try:
            if not edit(main, inputs):
                return None
            remove_unused(main, inputs)
            set_signature(main)
            if not module.operation.verify():
                return None
        except (MLIRError, ValueError):
            return None
        return Case(str(module), tuple(inputs))


def flat(module: ir.Module) -> str:
    """Text of a module after calls and composites are inlined."""
    from stablehlo_py.compiler import run_stages

    with module.context, ir.Location.unknown():
        run_stages(module, "", "stablehlo")
        run_upstream(module, "strip-debuginfo")
        return str(module)


def _walk(function: Any) -> Iterator[ir.Operation]:
    """All ops of a function in the order of their text, without terminators."""
    for block in function.regions[0].blocks:
        yield from _walk_block(block)


def _walk_block(block: ir.Block) -> Iterator[ir.Operation]:
    ops = [view.operation for view in block.operations]
    for op in ops[:-1]:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from _walk_block(inner)


def remove_unused(main: Any, inputs: list[np.ndarray]) -> None:
    """Erase ops without uses and side effects, and arguments without uses, with their inputs."""
    for op in reversed(list(_walk(main))):
        if not any(True for result in op.results for _ in result.uses) and not _has_side_effect(op):
            op.erase()
    block = main.regions[0].blocks[0]
    for number in reversed(range(len(block.arguments))):
        if not any(True for _ in block.arguments[number].uses):
            block.erase_argument(number)
            del inputs[number]


def _has_side_effect(op: ir.Operation) -> bool:
    return op.name.removeprefix("stablehlo.") in _SIDE_EFFECTS or not len(op.results)


def keep_results(case: Case, kept: Sequence[int]) -> Case | None:
    """Return only the results of these numbers."""

    def edit(main: Any, inputs: list[np.ndarray]) -> bool:
        _return(main, [_terminator(main).operands[number] for number in kept])
        return bool(kept)

    return edited(case, edit)


def _terminator(main: Any) -> ir.OpView:
    return list(main.regions[0].blocks[0].operations)[-1]


def _return(main: Any, values: Sequence[ir.Value]) -> None:
    last = _terminator(main)
    ir.Operation.create("func.return", operands=list(values), ip=ir.InsertionPoint(last))
    last.operation.erase()


# --- values of the program become inputs -----------------------------------------------------------------------------


def exposed(case: Case) -> tuple[Case, list[tuple[int, int]]]:
    """The case returning every tensor that an op of `@main`'s block makes, and which (op, result) each of them is."""
    keys: list[tuple[int, int]] = []

    def edit(main: Any, inputs: list[np.ndarray]) -> bool:
        values = []
        for number, op in enumerate(_top(main)):
            for position, result in enumerate(op.results):
                if _recordable(result.type):
                    keys.append((number, position))
                    values.append(result)
        _return(main, values)
        return True

    made = edited(case, edit)
    assert made is not None
    # An input that no op uses is gone; `cut` works on the case itself, where it is not.
    return made, keys


def _top(main: Any) -> list[ir.Operation]:
    return [view.operation for view in main.regions[0].blocks[0].operations][:-1]


def _recordable(type_: ir.Type) -> bool:
    if not isinstance(type_, ir.RankedTensorType):
        return False
    return not str(type_.element_type).startswith("!")


def cut(case: Case, kept: Collection[int], values: Values) -> Case | None:
    """Keep only these ops of `@main`'s block. What they use of others becomes an input with the recorded value; what
    others use of them becomes a result."""

    def edit(main: Any, inputs: list[np.ndarray]) -> bool:
        ops = _top(main)
        block = main.regions[0].blocks[0]
        owners = _owners(ops)  # its keys' hashes change with the first edit
        results = [(number, position) for number, op in enumerate(ops) for position in range(len(op.results))]
        users = {
            key: {owners.get(use.owner.operation, -1) in kept for use in ops[key[0]].results[key[1]].uses}
            for key in results
        }
        escaping = [key for key in results if key[0] in kept and False in users[key]]
        missing = [key for key in results if key[0] not in kept and True in users[key]]
        if not escaping or any(key not in values for key in missing):
            return False
        _return(main, [ops[number].results[position] for number, position in escaping])
        for number, position in missing:
            result = ops[number].results[position]
            result.replace_all_uses_with(block.add_argument(result.type, ir.Location.unknown()))
            inputs.append(values[number, position])
        return True

    return edited(case, edit)


def _owners(ops: Sequence[ir.Operation]) -> dict[ir.Operation, int]:
    """Every op, nested ones included -> the number of the op of the block that it is (in)."""
    owners: dict[ir.Operation, int] = {}
    for number, op in enumerate(ops):
        owners[op] = number
        for region in op.regions:
            for block in region.blocks:
                for inner in _walk_block(block):
                    owners[inner] = number
                owners[list(block.operations)[-1].operation] = number
    return owners


# --- single ops ------------------------------------------------------------------------------------------------------


def bypasses(case: Case) -> Iterator[Case]:
    """Cases in which one op's result is one of its operands of the same type, or, with a region, what the region gives
    when it runs once; the last op first."""
    for number in reversed(range(case.ops)):
        for way in range(_WAYS):

            def edit(main: Any, inputs: list[np.ndarray], number: int = number, way: int = way) -> bool:
                return _bypass(list(_walk(main))[number], way)

            made = edited(case, edit)
            if made is not None:
                yield made


_WAYS = 4


def _bypass(op: ir.Operation, way: int) -> bool:
    if op.name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
        return _flatten(op, way)
    same = [operand for operand in op.operands if len(op.results) == 1 and operand.type == op.result.type]
    if way >= len(same):
        return False
    op.result.replace_all_uses_with(same[way])
    return True


def _flatten(op: ir.Operation, region: int) -> bool:
    """Replace a loop by one run of its body, a branch by one of its regions."""
    if op.name == "stablehlo.while":
        region += 1
    if region >= len(op.regions):
        return False
    block = op.regions[region].blocks[0]
    for parameter, operand in zip(block.arguments, op.operands, strict=False):
        parameter.replace_all_uses_with(operand)
    inner = [view.operation for view in block.operations]
    for each in inner[:-1]:
        each.move_before(op)
    for result, value in zip(op.results, inner[-1].operands, strict=True):
        result.replace_all_uses_with(value)
    return True


# --- sizes and inputs ------------------------------------------------------------------------------------------------

_TENSOR = re.compile(r"tensor<((?:\d+x)+)")
_ARRAY = re.compile(r"array<i64: ([-\d, ]+)>")


def sizes_of(case: Case) -> list[int]:
    """Every size of a dimension in the module's types, the largest first, but for 1 and 0."""
    found = {int(size) for match in _TENSOR.finditer(case.module) for size in match[1].split("x") if size}
    return sorted((size for size in found if size > 1), reverse=True)


def with_size(case: Case, old: int, new: int) -> Case | None:
    """Every size `old` in types and integer attributes becomes `new`; inputs are cropped. None where that does not
    verify."""
    with context(), ir.Location.unknown():
        text = ir.Module.parse(case.module).operation.get_asm(print_generic_op_form=True)
        text = _TENSOR.sub(lambda match: "tensor<" + _renamed(match[1], "x", old, new), text)
        text = _ARRAY.sub(lambda match: f"array<i64: {_renamed(match[1], ', ', old, new)}>", text)
        try:
            module = ir.Module.parse(text)
            if not module.operation.verify():
                return None
        except MLIRError:
            return None
        inputs = [array[tuple(slice(0, new if size == old else size) for size in array.shape)] for array in case.inputs]
        expected = [tuple(argument.type.shape) for argument in main_of(module).regions[0].blocks[0].arguments]
        if [array.shape for array in inputs] != expected:
            return None
        return Case(str(module), tuple(np.ascontiguousarray(array).reshape(array.shape) for array in inputs))


def _renamed(sizes: str, separator: str, old: int, new: int) -> str:
    return separator.join(str(new) if size == str(old) else size for size in sizes.split(separator))


def plainer_inputs(case: Case) -> Iterator[tuple[int, Case]]:
    """Cases in which one input, of a number, is all ones, all zeros, or rounded to whole numbers."""
    for number, array in enumerate(case.inputs):
        choices = [np.ones_like(array), np.zeros_like(array)]
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                choices.append(np.rint(array))
        for choice in choices:
            if array.size and choice.tobytes() != array.tobytes():
                yield number, Case(case.module, (*case.inputs[:number], choice, *case.inputs[number + 1 :]))


def with_constant_inputs(case: Case) -> str:
    """The module with its inputs as constants: one file that reproduces a defect without others.

    Complex inputs stay arguments: MLIR's bindings make no complex constants.
    """
    with context(), ir.Location.unknown():
        module = ir.Module.parse(case.module)
        main = main_of(module)
        block = main.regions[0].blocks[0]
        point = ir.InsertionPoint.at_block_begin(block)
        for number in reversed(range(len(case.inputs))):
            array, argument = case.inputs[number], block.arguments[number]
            if array.dtype.kind == "c":
                continue
            argument.replace_all_uses_with(constant(array, argument.type.element_type, point))
            block.erase_argument(number)
        set_signature(main)
        return str(module)
