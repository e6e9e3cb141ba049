"""Symbolic dimensions made concrete: `refine` specializes a module with dynamic shapes to the shapes of one call.

jax.export with symbolic shapes ("b, 4") writes a `@main` whose arguments have dynamic dimensions; it computes the
symbols with `get_dimension_size`, checks them in custom calls `@shape_assertion(condition, values...) {error_message
= "... {0} ..."}`, and hands them as integers to the function proper (docs.jax.dev/en/latest/export/shape_poly.html).
The steps are those of JAX's own refinement: argument types, inlining (each call may see other shapes), shape
refinement, dynamic ops turned static, assertions checked and removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from stablehlo_py.dialect.calls import inline_calls, main_function
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.dialect.types import element_type, is_integer, operations
from stablehlo_py.errors import ArgumentError, Problem, ShloError, UnsupportedError, elided, shape_text
from stablehlo_py.frontend.dynamic_calls import make_static
from stablehlo_py.frontend.limits import check_elements
from stablehlo_py.mlir import MLIRError, diagnostics, errors_of, ir, run_upstream

_ASSERTION = "shape_assertion"
_MAX_PROBLEMS = 10
# Sizes that are computed twice must be one value for a slice of known size to be recognized.
_REFINE = "stablehlo-refine-shapes,cse,func.func(stablehlo-canonicalize-dynamism)"


def symbolic_inputs(module: ir.Module) -> tuple[tuple[int | None, ...], ...]:
    """The shape of each argument of `@main`, with None for a dynamic dimension; () for what is not a tensor."""
    return tuple(_sizes(type_) for type_ in _input_types(module))


def is_symbolic(module: ir.Module) -> bool:
    """True when `@main` takes an argument with a dynamic dimension."""
    return any(None in sizes for sizes in symbolic_inputs(module))


def refine(module: ir.Module, shapes: Sequence[tuple[int, ...]], dimensions: Mapping[int, int] | None = None) -> None:
    """Specialize `module`, in place, to arguments of these shapes (one per argument of `@main`).

    `dimensions` gives the values of integer scalar arguments that hold dimensions, by argument number: exports of
    jax2tf and unwrapped ones take them. The arguments stay in the signature, unused.

    Afterwards all calls are inlined, no type is dynamic, and no shape assertion is left.

    Raises:
      ArgumentError: number, rank or sizes do not fit the signature, the shapes contradict each other, or a shape
        assertion of the export fails (with its message). The module is not usable afterwards unless the signature was
        at fault.
      ResourceError: a tensor would have more elements than any memory holds.
      UnsupportedError: a shape depends on values, so that it stays dynamic; there is an argument of dynamic shape and a
        quantized one.
    """
    types = _refined_types(module, shapes)
    known = types == _input_types(module)
    # Upstream's option parser splits the names of quantized types at spaces.
    if not known and any(quantized_of(type_) for type_ in types):
        raise UnsupportedError(
            "a model with symbolic dimensions takes a quantized argument",
            remedy="export it with concrete shapes, or let it take floats and begin with stablehlo.uniform_quantize",
        )
    for number, value in (dimensions or {}).items():
        _fix_dimension(module, number, value)
    arguments = "" if known else f"stablehlo-refine-arguments{{types={','.join(map(str, types))}}}"
    if arguments:
        _run(module, arguments)
    with module.context, ir.Location.unknown():
        # Shape refinement goes into no composite, and each call may see other shapes.
        inline_calls(module, keeps=lambda op: False)
        _run(module, _REFINE)
        # An op made static can make the next one refinable. Each round must leave fewer dynamic ops.
        remaining = len(_dynamic(module))
        while make_static(operations(module.operation)) or remaining:
            _run(module, _REFINE)
            before, remaining = remaining, len(_dynamic(module))
            if remaining >= before:
                break
        _check_assertions(module)
        _run(module, "cse,symbol-dce")
        _check_static(module)
        with contradictions(module, ArgumentError("the shapes of the arguments contradict each other")):
            module.operation.verify()
        check_elements(module)


def _fix_dimension(module: ir.Module, number: int, value: int) -> None:
    """Replace the uses of an integer scalar argument by a constant."""
    block = main_function(module).regions[0].blocks[0]
    argument = block.arguments[number] if 0 <= number < len(block.arguments) else None
    if argument is None or _sizes(argument.type) != () or not is_integer(element_type(argument)):
        raise ArgumentError(
            f"argument {number} is not an integer scalar, so it cannot hold a dimension",
            remedy=f"arguments: {_signature(_input_types(module))}",
        )
    with module.context:
        constant = ir.Operation.create(
            "stablehlo.constant",
            results=[argument.type],
            attributes={
                "value": ir.DenseElementsAttr.get_splat(
                    argument.type, ir.IntegerAttr.get(element_type(argument), value)
                )
            },
            loc=argument.location,
            ip=ir.InsertionPoint.at_block_begin(block),
        )
    argument.replace_all_uses_with(constant.results[0])


def _run(module: ir.Module, pipeline: str) -> None:
    with contradictions(module, ArgumentError("the shapes of the arguments contradict each other")):
        run_upstream(module, pipeline)


@contextmanager
def contradictions(module: ir.Module, error: ShloError) -> Iterator[None]:
    """What upstream finds wrong with shapes is an error of this class and reason, with upstream's findings."""
    with diagnostics(module.context) as collected:
        try:
            yield
        except MLIRError as raised:
            found = errors_of(raised, collected)
            problems = [Problem(each.message, describe(each.location)) for each in found] or [Problem(str(raised))]
            raise type(error)(error.reason, problems=problems) from None


def _input_types(module: ir.Module) -> list[ir.Type]:
    return list(ir.FunctionType(main_function(module).attributes["function_type"].value).inputs)


def _sizes(type_: ir.Type) -> tuple[int | None, ...]:
    if not isinstance(type_, ir.RankedTensorType):
        return ()
    return tuple(None if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis) for axis in range(type_.rank))


def _refined_types(module: ir.Module, shapes: Sequence[tuple[int, ...]]) -> list[ir.Type]:
    """The argument types with their dynamic dimensions replaced. Collects every misfit, then raises once."""
    types = _input_types(module)
    if len(shapes) != len(types):
        raise ArgumentError(
            f"{len(shapes)} shapes for {len(types)} arguments",
            remedy=f"give one shape per argument: {_signature(types)}",
        )
    problems = []
    for number, (type_, shape) in enumerate(zip(types, shapes, strict=True)):
        sizes = _sizes(type_)
        fits = len(shape) == len(sizes) and all(
            given >= 0 and expected in (None, given) for given, expected in zip(shape, sizes, strict=True)
        )
        if not fits:
            problems.append(
                Problem(
                    f"argument {number} has shape {shape_text(shape)}, the signature says {shape_text(sizes)}",
                    remedy=f"arguments: {_signature(types)}",
                )
            )
    if problems:
        raise ArgumentError("the shapes do not fit the signature", problems=problems)
    with ir.Location.unknown(module.context):
        return [
            ir.RankedTensorType.get(shape, type_.element_type)  # bounds, the only encoding, are those of open sizes
            if isinstance(type_, ir.RankedTensorType)
            else type_
            for type_, shape in zip(types, shapes, strict=True)
        ]


def _signature(types: Sequence[ir.Type]) -> str:
    return elided(shape_text(_sizes(type_)) for type_ in types)


def _check_assertions(module: ir.Module) -> None:
    """Evaluate and erase the shape assertions; raise one ArgumentError for all that fail."""
    problems = []
    for op in operations(module.operation):
        if op.name != "stablehlo.custom_call" or op.attributes["call_target_name"].value != _ASSERTION:
            continue
        values = [_integer(op, operand) for operand in op.operands]
        if not values[0]:
            # The template's {0} is the first value after the condition.
            message = op.attributes["error_message"].value
            for number, value in enumerate(values[1:]):
                message = message.replace(f"{{{number}}}", str(value))
            problems.append(Problem(message))  # JAX gives these calls no line of the user's
        op.erase()
    if problems:
        raise ArgumentError("the shapes do not fit the export's symbolic shapes", problems=problems)


def _integer(op: ir.Operation, operand: ir.Value) -> int:
    owner = operand.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.constant":
        raise UnsupportedError(
            "a shape assertion depends on values, not only on shapes", location=describe(op.location), op=op.name
        )
    return int(constant_value(owner))


def _check_static(module: ir.Module) -> None:
    dynamic = _dynamic(module)
    if dynamic:
        problems = [_still_dynamic(op) for op in dynamic[:_MAX_PROBLEMS]]
        raise UnsupportedError("shapes are not known before the program runs", problems=problems)


def _dynamic(module: ir.Module) -> list[ir.Operation]:
    return [op for op in operations(module.operation) if any(None in _sizes(result.type) for result in op.results)]


def _still_dynamic(op: ir.Operation) -> Problem:
    operands = elided(operand.type for operand in op.operands)
    results = elided(result.type for result in op.results)
    return Problem(
        f"({operands}) gives {results}",
        describe(op.location),
        op.name,
        "shapes must agree, and must follow from the shapes of the arguments, not from their values",
    )
