"""Where shapes of a StableHLO module are dynamic: arguments of dynamic shape, ops whose operands' values decide shapes,
and types that say nothing."""

from __future__ import annotations

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.forms import size_operands, takes_sizes
from stablehlo_py.mlir import ir


def is_dynamic(type_: ir.Type) -> bool:
    """Whether a type is a tensor with a dynamic dimension."""
    return isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape


def known_sizes(type_: ir.Type) -> tuple[int | None, ...]:
    """The dimensions of a tensor type, None for a dynamic one; () for what is not a tensor."""
    if not isinstance(type_, ir.RankedTensorType):
        return ()
    return tuple(None if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis) for axis in range(type_.rank))


def symbolic_inputs(module: ir.Module) -> tuple[tuple[int | None, ...], ...]:
    """The shape of each argument of `@main`, with None for a dynamic dimension; () for what is not a tensor."""
    arguments = main_function(module).regions[0].blocks[0].arguments
    return tuple(known_sizes(argument.type) for argument in arguments)


def is_symbolic(module: ir.Module) -> bool:
    """True when `@main` takes an argument with a dynamic dimension."""
    return any(None in sizes for sizes in symbolic_inputs(module))


def has_dynamic_shapes(module: ir.Module) -> bool:
    """Whether shapes have to be worked out: an operand of an op holds sizes, or a result has a dynamic dimension."""
    found = False
    static: set[ir.Type] = set()  # a program has few types, and to look at one takes longer than to find it here

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        for type_ in op.results.types:
            if type_ not in static:
                static.add(type_)
                found = found or is_dynamic(type_)
        found = found or (takes_sizes(op.name) and bool(size_operands(op)))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
