"""A module at the stage `optimized` becomes one of linalg on tensors: op by op, by the table of rules.

func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {
  %1 = tensor.empty() : tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [...], iterator_types = ["parallel"]} ins(%0 ...) outs(%1 ...) {...}
  return %2 : tensor<4xf32>
}
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.description import is_grid
from stablehlo_py.backends.linalg import (  # noqa: F401 - they fill the table of rules
    contraction,
    elementwise,
    factorizations,
    fourier,
    random_bits,
    reduction,
    scatter,
    shape,
    sorting,
)
from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction, sizes_of
from stablehlo_py.codegen.builder import I1, I64, Value
from stablehlo_py.codegen.emitter import flat
from stablehlo_py.codegen.types import Element, element
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.dynamic import is_symbolic
from stablehlo_py.dialect.regions import TERMINATORS
from stablehlo_py.dialect.symint import SPECIALIZE
from stablehlo_py.dialect.types import is_tensor, user_location
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.mlir import ir

CONTROL_FLOW = ("scf.while", "scf.if", "scf.index_switch", "tensor.extract", "arith.index_cast", "arith.constant")
GOES_ON = "shlo_goes_on"
Values = dict[ir.Value, Value]  # of hlo -> of the function


def to_linalg(module: ir.Module) -> str:
    """The module as text: `@main` on tensors.

    Raises:
        UnsupportedError: for every op that has no meaning as linalg, and for dynamic dimensions.
    """
    f, arguments, results = _lowered(module, TensorFunction("main"))
    types = ", ".join(result.type.text for result in results)
    returned = f" {', '.join(result.ref for result in results)} : {types}" if results else ""
    listed = ", ".join(f"%arg{number}: {each.type}" for number, each in enumerate(arguments))
    head = f"func.func @main({listed}){f' -> ({types})' if results else ''} {{"
    return "\n".join(["module {", head, *f.emit.entry, *flat(f.emit.lines), f"return{returned}", "}", "}", ""])


def to_linalg_on_buffers(module: ir.Module, name: str) -> str:
    """The same as a function of memory, which bufferization begins with: it reads its first arguments, and writes its
    results to the others. Its first one, `%state`, it hands to `@shlo_goes_on` at the end of each trip of a loop of
    unknown length: that says whether to go on. Raises as `to_linalg`."""
    f = TensorFunction("main")
    f.asks = f"func.call @{GOES_ON}(%state) : (i64) -> i1"
    f, arguments, results = _lowered(module, f)
    listed, begin, end = ["%state: i64"], [], []
    for number, tensor in enumerate(arguments):
        memory = _memory(tensor)
        listed.append(f"%in{number}: {memory}")
        begin.append(f"%arg{number} = bufferization.to_tensor %in{number} restrict : {memory} to {tensor.type}")
    for number, result in enumerate(results):
        memory = _memory(result)
        listed.append(f"%out{number}: {memory}")
        written = f"{result.ref} in restrict writable %out{number} : ({result.type}, {memory}) -> ()"
        end.append(f"bufferization.materialize_in_destination {written}")
    head = f"func.func private @{name}({', '.join(listed)}) {{"
    body = [*begin, *f.emit.entry, *flat(f.emit.lines), *end, "return"]
    declaration = f"func.func private @{GOES_ON}(i64) -> i1"
    return "\n".join(["module {", declaration, head, *body, "}", "}", ""])


def _memory(tensor: Value) -> str:
    return tensor.type.text.replace("tensor", "memref", 1)


def _lowered(module: ir.Module, f: TensorFunction) -> tuple[TensorFunction, list[Tensor], list[Value]]:
    """The body of a function, its arguments and its results."""
    if is_symbolic(module):
        raise UnsupportedError("dynamic dimensions have no program of linalg for all shapes", remedy=SPECIALIZE)
    main = main_function(module)
    _check(module, main)
    entry = main.regions[0].blocks[0]
    arguments = [
        Tensor(f"%arg{number}", sizes_of(argument), element(argument), 0)
        for number, argument in enumerate(entry.arguments)
    ]
    values: Values = dict(zip(entry.arguments, arguments, strict=True))
    return f, arguments, block(f, entry, values)


def _check(module: ir.Module, main: ir.OpView) -> None:
    """Name everything that cannot be said, at the user's lines."""
    remedy, problems = "compile the model for target 'cpu'", dict[Problem, None]()
    for op in _leaves(main.regions[0].blocks[0]):
        if op.name not in RULES and op.name not in CONTROL_FLOW:
            called = op.attributes["call_target_name"].value if "call_target_name" in op.attributes else ""
            reason = f"the function '{called}' has no form in linalg" if called else "has no form in linalg"
            problems[Problem(reason, user_location(op.location), op.name, remedy)] = None
    if problems:
        raise UnsupportedError("the model cannot be written as linalg", problems=list(problems))
    if is_grid(module):
        raise UnsupportedError("a program of several processes has no form in linalg", remedy=remedy)


def _leaves(block_: ir.Block) -> list[ir.Operation]:
    """The ops of a block and of the control flow in it, without those inside of other ops."""
    found = []
    for view in block_.operations:
        op = view.operation
        if op.name in TERMINATORS:
            continue
        found.append(op)
        if op.name.startswith("scf."):
            for region in op.regions:
                found += _leaves(region.blocks[0])
    return found


def block(f: TensorFunction, block_: ir.Block, values: Values) -> list[Value]:
    """Write the ops of a block; what its terminator hands on."""
    for view in block_.operations:
        op = view.operation
        if op.name in TERMINATORS:
            return [values[operand] for operand in op.operands]
        f.location = f" {op.location}" if user_location(op.location) else ""
        results = _op(f, view, values)
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("a block without a terminator")


def _op(f: TensorFunction, op: ir.OpView, values: Values) -> Sequence[Value]:
    name = op.operation.name
    operands = [values[operand] for operand in op.operands]
    if name == "scf.while":
        return _while(f, op, operands, values)
    if name == "scf.if":
        return _if(f, op, operands, values)
    if name == "scf.index_switch":
        return _switch(f, op, operands, values)
    if name == "tensor.extract":
        tensor = operands[0]
        assert isinstance(tensor, Tensor)
        lanes = f.element(tensor, operands[1:])
        assert isinstance(lanes, Value)
        return [lanes]
    if name == "arith.index_cast":
        (number,) = operands
        wide = number if number.type.bits == 64 else f.cast("sext", number, I64)
        return [wide]
    if name == "arith.constant":
        return [f.const(op.attributes["value"].value, I1 if str(op.results[0].type) == "i1" else I64)]
    return RULES[name](f, op, operands)  # type: ignore[arg-type]


def _kinds(values: Sequence[ir.Value]) -> list[tuple[tuple[int, ...], Element]]:
    """Sizes and element types of results."""
    return [(sizes_of(value), element(value)) for value in values if is_tensor(value)]


def _while(f: TensorFunction, op: ir.OpView, start: Sequence[Value], values: Values) -> list[Tensor]:
    tensors = [each for each in start if isinstance(each, Tensor)]
    types = ", ".join(each.type.text for each in tensors)
    names, refs = [f.emit.name() for _ in tensors], f.emit.results(len(tensors))
    passed = ", ".join(f"{name} = {each.ref}" for name, each in zip(names, tensors, strict=True))
    with f.region(f"{refs[0]}scf.while ({passed}) : ({types}) -> ({types}) {{"):
        before = _arguments(f, names, tensors)
        condition, *_ = block(f, op.regions[0].blocks[0], _bound(op, 0, before, values))
        if f.asks:
            goes_on = Value(f.emit.define(f.asks), I1, None, f.level)
            condition = f.binary("and", condition, goes_on)
        handed = f" {', '.join(names)} : {types}" if names else ""
        f.emit.lines.append(f"scf.condition({condition.ref}){handed}")
    names = [f.emit.name() for _ in tensors]
    listed = ", ".join(f"{name}: {each.type}" for name, each in zip(names, tensors, strict=True))
    with f.region("} do {"):
        f.emit.lines.append(f"^bb0({listed}):")
        results = block(f, op.regions[1].blocks[0], _bound(op, 1, _arguments(f, names, tensors), values))
        f.emit.yield_(results)
    f.emit.lines.append("}")
    return [Tensor(ref, each.sizes, each.of, f.level) for ref, each in zip(refs[1], tensors, strict=True)]


def _arguments(f: TensorFunction, names: Sequence[str], like: Sequence[Tensor]) -> list[Tensor]:
    return [Tensor(name, each.sizes, each.of, f.level) for name, each in zip(names, like, strict=True)]


def _bound(op: ir.OpView, region: int, arguments: Sequence[Tensor], values: Values) -> Values:
    return {**values, **dict(zip(op.regions[region].blocks[0].arguments, arguments, strict=True))}


def _if(f: TensorFunction, op: ir.OpView, operands: Sequence[Value], values: Values) -> list[Tensor]:
    refs, types = f.emit.results(len(op.results)), _types(op)
    arrow = f" -> ({', '.join(types)})" if types else ""
    with f.region(f"{refs[0]}scf.if {operands[0].ref}{arrow} {{"):
        f.emit.yield_(block(f, op.regions[0].blocks[0], dict(values)))
    if len(op.regions[1].blocks):
        with f.region("} else {"):
            f.emit.yield_(block(f, op.regions[1].blocks[0], dict(values)))
    f.emit.lines.append("}")
    return _results(f, op, refs[1])


def _switch(f: TensorFunction, op: ir.OpView, operands: Sequence[Value], values: Values) -> list[Tensor]:
    """scf.index_switch as branches in branches, which every compiler takes."""
    cases = list(zip(op.attributes["cases"], list(op.regions)[1:], strict=True))
    return _results(f, op, _chain(f, op, operands[0], cases, values))


def _chain(
    f: TensorFunction, op: ir.OpView, selector: Value, cases: Sequence[tuple[int, ir.Region]], values: Values
) -> list[str]:
    """The names of what the first case that fits gives, else of what the default does."""
    if not cases:
        return [value.ref for value in block(f, op.regions[0].blocks[0], dict(values))]
    (number, region), *others = cases
    fits = f.cmp("eq", selector, f.const(number))
    refs, types = f.emit.results(len(op.results)), _types(op)
    arrow = f" -> ({', '.join(types)})" if types else ""
    with f.region(f"{refs[0]}scf.if {fits.ref}{arrow} {{"):
        f.emit.yield_(block(f, region.blocks[0], dict(values)))
    with f.region("} else {"):
        f.emit.yield_(_results(f, op, _chain(f, op, selector, others, values)))
    f.emit.lines.append("}")
    return refs[1]


def _types(op: ir.OpView) -> list[str]:
    return [TensorFunction.empty_type(*kind) for kind in _kinds(list(op.results))]


def _results(f: TensorFunction, op: ir.OpView, refs: Sequence[str]) -> list[Tensor]:
    return [Tensor(ref, *kind, f.level) for ref, kind in zip(refs, _kinds(list(op.results)), strict=True)]
