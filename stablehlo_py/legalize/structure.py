"""Before any rule runs: asynchronous pairs become synchronous, signatures flat, tuples their elements, tokens tensors.

    %f = async_start(%x) { all_reduce }          %y = all_reduce %x
    %y = async_done %f                      ->

- The body of `async_start` runs where it starts.
- Tuples and tokens among the arguments and results of a function: the elements of a tuple take its place, tokens go.
- A token becomes `tensor<0xi8>`, which takes no memory and keeps every pass from changing the order: what has side
  effects takes the token that the op before it in the block gave, whatever tokens the program had. So ops with side
  effects run in the order of the text, which every order of tokens allows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stablehlo_py.dialect import build
from stablehlo_py.dialect.edit import end_with, inline_block, replace_op, terminator
from stablehlo_py.dialect.ops.grid import TRANSFERS
from stablehlo_py.dialect.types import is_tensor, user_location
from stablehlo_py.errors import Problem
from stablehlo_py.legalize.rules import block_of
from stablehlo_py.legalize.tuples import take_tuples_apart
from stablehlo_py.mlir import ir, stablehlo

# Modules that hold none of these (and no such type in a signature) are left as they are.
_OPS = frozenset(f"stablehlo.{name}" for name in ("after_all", "async_done", "async_start", "create_token", *TRANSFERS))


def flatten(module: ir.Module, names: set[str]) -> list[Problem]:
    """Rewrite the functions of a module that holds ops of these names; returns what could not be."""
    problems: list[Problem] = []
    for function in module.body.operations:
        if function.operation.name != "func.func" or not function.regions[0].blocks:
            continue
        if "stablehlo.async_start" in names:
            problems += make_synchronous(function)
        signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        flat = all(is_tensor(type_) for type_ in (*signature.inputs, *signature.results))
        if not flat:
            _flat_signature(function, signature)
        if not flat or "stablehlo.tuple" in names:
            take_tuples_apart(function.regions[0].blocks[0])
        if not flat or names & _OPS:
            block = function.regions[0].blocks[0]
            _Tokens(block).chain(block, None)
    return problems


# --- asynchronous pairs ----------------------------------------------------------------------------------------------


def make_synchronous(function: ir.OpView) -> list[Problem]:
    """Run the bodies of `async_start` where they start; returns the futures that are not simply awaited."""
    starts: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.async_start":
            starts.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    problems = []
    for start in starts:
        users = [use.owner.operation for use in start.results[0].uses]
        others = [user for user in users if user.name != "stablehlo.async_done"]
        if others:
            reason = f"starts an operation whose future goes to '{others[0].name}'"
            remedy = "let async_done take it in the same block"
            problems.append(Problem(reason, user_location(start.location), start.name, remedy))
            continue
        values = inline_block(block_of(start), start.operands, start)
        for done in users:
            replace_op(done, values)
        start.erase()
    return problems


# --- signatures ------------------------------------------------------------------------------------------------------


def _is_tuple(type_: ir.Type) -> bool:
    return isinstance(type_, ir.TupleType)


def _is_token(type_: ir.Type) -> bool:
    return stablehlo.TokenType.isinstance(type_)


def _leaves(type_: ir.Type) -> Iterator[ir.Type]:
    """What a type holds, without tuples around it and without tokens."""
    if _is_tuple(type_):
        tuple_ = ir.TupleType(type_)
        for number in range(tuple_.num_types):
            yield from _leaves(tuple_.get_type(number))
    elif not _is_token(type_):
        yield type_


def _flat_signature(function: ir.OpView, signature: ir.FunctionType) -> None:
    block = function.regions[0].blocks[0]
    old = list(block.arguments)
    last = terminator(block)
    with ir.InsertionPoint.at_block_begin(block):
        for argument in old:
            argument.replace_all_uses_with(_argument(block, argument.type, argument.location))
    for _ in old:
        block.erase_argument(0)
    with ir.InsertionPoint(last), last.location:
        end_with(block, "func.return", [leaf for value in last.operands for leaf in _elements(value)])
    types = [[leaf for type_ in each for leaf in _leaves(type_)] for each in (signature.inputs, signature.results)]
    attributes = function.attributes
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    for name, each in (("arg_attrs", signature.inputs), ("res_attrs", signature.results)):
        if name in attributes:
            attributes[name] = ir.ArrayAttr.get(list(_flat_attributes(list(attributes[name]), each)))


def _argument(block: ir.Block, type_: ir.Type, location: ir.Location) -> ir.Value:
    """A value of the type, from new arguments of the block."""
    with location:
        if _is_tuple(type_):
            tuple_ = ir.TupleType(type_)
            parts = [_argument(block, tuple_.get_type(number), location) for number in range(tuple_.num_types)]
            return ir.Operation.create("stablehlo.tuple", results=[type_], operands=parts).result
        if _is_token(type_):
            return ir.Operation.create("stablehlo.create_token", results=[type_]).result
    return block.add_argument(type_, location)


def _elements(value: ir.Value) -> Iterator[ir.Value]:
    """The tensors in a value."""
    if _is_tuple(value.type):
        tuple_ = ir.TupleType(value.type)
        for number in range(tuple_.num_types):
            index = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
            element = ir.Operation.create(
                "stablehlo.get_tuple_element",
                results=[tuple_.get_type(number)],
                operands=[value],
                attributes={"index": index},
            )
            yield from _elements(element.result)
    elif not _is_token(value.type):
        yield value


def _flat_attributes(attributes: list[ir.Attribute], types: list[ir.Type]) -> Iterator[ir.Attribute]:
    """Attributes of a tensor stay; what is said of a whole tuple says nothing of its elements."""
    for attribute, type_ in zip(attributes, types, strict=True):
        if is_tensor(type_):
            yield attribute
        else:
            yield from (ir.DictAttr.get({}) for _ in _leaves(type_))


# --- tokens ----------------------------------------------------------------------------------------------------------


class _Tokens:
    """Makes tokens of a function's block tensors, and one chain in every block."""

    def __init__(self, block: ir.Block) -> None:
        self.main = block
        self.type = build.tensor([0], ir.IntegerType.get_signless(8))
        self.tokens: set[ir.Value] = set()
        self.first: ir.Value | None = None

    def _start(self) -> ir.Value:
        """The token of nothing having happened."""
        if self.first is None:
            with ir.InsertionPoint.at_block_begin(self.main):
                self.first = build.constant(np.zeros(0, np.int8), self.type.element_type)
            self.tokens.add(self.first)
        return self.first

    def _adopt(self, value: ir.Value) -> bool:
        if not _is_token(value.type):
            return False
        value.set_type(self.type)
        self.tokens.add(value)
        return True

    def chain(self, block: ir.Block, outer: ir.Value | None) -> None:
        """One chain of a block; `outer` is the last token of the block around it."""
        entering = [argument for argument in block.arguments if self._adopt(argument)]
        latest: ir.Value | None = None
        for view in list(block.operations):
            op = view.operation
            taken = [position for position, operand in enumerate(op.operands) if operand in self.tokens]
            if op.name in ("stablehlo.create_token", "stablehlo.after_all"):
                known = op.operands[taken[0]] if taken else None
                op.results[0].replace_all_uses_with(latest or known or outer or self._start())
                op.erase()
                continue
            for position in taken:
                operand = op.operands[position]
                # Before the first op with a token, one comes from the block's arguments or from outside.
                op.operands[position] = latest or (operand if operand in entering else outer) or operand
            for region in op.regions:
                for inner in region.blocks:
                    self.chain(inner, latest or outer)
            for result in op.results:
                if self._adopt(result):
                    latest = result
