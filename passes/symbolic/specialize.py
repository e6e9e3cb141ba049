"""Concrete shapes: the walk over sizes that are all ints. What it leaves has no dynamic dimension and no dynamic op.

jax.export with symbolic shapes ("b, 4") writes a `@main` whose arguments have dynamic dimensions; it computes the
symbols with `get_dimension_size`, checks them in custom calls `@shape_assertion(condition, values...) {error_message
= "... {0} ..."}`, and hands them as integers to the function proper (docs.jax.dev/en/latest/export/shape_poly.html).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stablehlo_py.dialect.calls import inline_calls, main_function
from stablehlo_py.dialect.census import Census
from stablehlo_py.dialect.dynamic import symbolic_inputs
from stablehlo_py.dialect.edit import fix_argument
from stablehlo_py.dialect.locations import diagnosed
from stablehlo_py.dialect.types import element_type, is_integer, is_tensor
from stablehlo_py.errors import ArgumentError, LoadError, Problem, ShloError, UnsupportedError, elided, shape_text
from stablehlo_py.frontend.limits import check_elements
from stablehlo_py.mlir import ir, run_upstream
from stablehlo_py.passes.symbolic.walk import walked

_MAX_PROBLEMS = 10

Sizes = tuple[int | None, ...]


def specialize(module: ir.Module, shapes: Sequence[Sequence[int]], dimensions: Mapping[int, int] | None = None) -> None:
    """Specialize `module`, in place, to arguments of these shapes (one per argument of `@main`).

    `dimensions` gives the values of integer scalar arguments that hold dimensions, by argument number: exports of
    jax2tf and unwrapped ones take them. The arguments stay in the signature, unused.

    Afterwards all calls are inlined, no type is dynamic, and no shape assertion is left.

    Raises:
      ArgumentError: number, rank or sizes do not fit the signature, the shapes contradict each other, or a shape
        assertion of the export fails (with its message). The module is not usable afterwards unless the signature was
        at fault.
      ResourceError: a tensor would have more elements than any memory holds.
      UnsupportedError: a shape depends on values, so that it stays dynamic.
    """
    signature = symbolic_inputs(module)
    _check_signature(signature, shapes)
    with module.context, ir.Location.unknown():
        for number, value in (dimensions or {}).items():
            _fix_dimension(module, signature, number, value)
        inline_calls(module, keeps=lambda op: False)  # each call may see other shapes
        run_upstream(module, "cse")  # each function computes its sizes
        _resolve(module, shapes, ArgumentError("the shapes do not fit the model's dimensions"))


def make_static(module: ir.Module) -> None:
    """Work out the shapes of a module whose arguments have static shapes, in place.

    Raises:
        LoadError: sizes contradict each other.
        ResourceError, UnsupportedError: as `specialize`.
    """
    shapes = [[size or 0 for size in sizes] for sizes in symbolic_inputs(module)]
    _resolve(module, shapes, LoadError("the operands of dynamic ops do not make valid ops of known shape"))


def _check_signature(signature: Sequence[Sizes], shapes: Sequence[Sequence[int]]) -> None:
    """Refuse shapes that the types of the arguments do not allow; all misfits are named."""
    remedy = f"arguments: {elided(map(shape_text, signature))}"
    if len(shapes) != len(signature):
        raise ArgumentError(f"{len(shapes)} shapes for {len(signature)} arguments", remedy=remedy)
    problems = [
        Problem(
            f"argument {number} has shape {shape_text(given)}, the signature says {shape_text(sizes)}", remedy=remedy
        )
        for number, (sizes, given) in enumerate(zip(signature, shapes, strict=True))
        if len(sizes) != len(given)
        or any(size < 0 or known not in (None, size) for size, known in zip(given, sizes, strict=True))
    ]
    if problems:
        raise ArgumentError("the shapes do not fit the signature", problems=problems)


def _fix_dimension(module: ir.Module, signature: Sequence[Sizes], number: int, value: int) -> None:
    """Replace the uses of an integer scalar argument by a constant."""
    block = main_function(module).regions[0].blocks[0]
    argument = block.arguments[number] if 0 <= number < len(block.arguments) else None
    if argument is None or not is_tensor(argument) or signature[number] or not is_integer(element_type(argument)):
        raise ArgumentError(
            f"argument {number} is not an integer scalar, so it cannot hold a dimension",
            remedy=f"arguments: {elided(map(shape_text, signature))}",
        )
    fix_argument(argument, value)


def _resolve(module: ir.Module, shapes: Sequence[Sequence[int]], contradiction: ShloError) -> None:
    """Give every value its shape, and make dynamic ops static. Sizes that do not agree are a `contradiction`."""
    walk = walked(main_function(module).operation, shapes)
    failed = walk.failed()
    if failed:
        raise type(contradiction)(contradiction.reason, problems=failed)
    if walk.problems:
        raise UnsupportedError("shapes are not known before the program runs", problems=walk.problems[:_MAX_PROBLEMS])
    walk.apply()
    run_upstream(module, "cse,symbol-dce")
    check_elements(Census.of(module).types)
    with diagnosed(module.context, contradiction):
        module.operation.verify()
