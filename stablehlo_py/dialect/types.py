"""Reading helpers over MLIR types, attributes and values. Nothing here builds IR (see build.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.symint_text import parse_sizes
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import capi, ir, quant, rewrite

DYNAMIC = ir.ShapedType.get_dynamic_size()


def shape(value: ir.Value | ir.Type) -> tuple[IntLike, ...]:
    """The shape of a ranked tensor value or type. A dynamic dimension is the `SymInt` that the type's encoding says
    (docs/dynamic-shapes.md), which behaves like an int.

    Raises:
        UnsupportedError: a dynamic dimension without an encoding (`infer-symbolic-shapes` has not run).
    """
    type_ = _tensor(value)
    static = tuple(type_.shape)
    if DYNAMIC not in static:
        return static
    if not isinstance(type_.encoding, ir.StringAttr):
        raise UnsupportedError(
            f"the size of a dimension is not known: {type_}",
            location=None if isinstance(value, ir.Type) else user_location(value.location),
            remedy="load the module with concrete shapes",
        )
    return parse_sizes(type_.encoding.value)


def static_shape(value: ir.Value | ir.Type) -> tuple[int, ...]:
    """The shape of a tensor, for code that only static sizes have.

    Raises:
        GuardError: a dimension is dynamic.
    """
    return tuple(map(int, shape(value)))


def rank(value: ir.Value | ir.Type) -> int:
    """Number of dimensions."""
    return _tensor(value).rank


def element_type(value: ir.Value | ir.Type) -> ir.Type:
    """Element type of a ranked tensor value or type."""
    return _tensor(value).element_type


def num_elements(value: ir.Value | ir.Type) -> IntLike:
    """Product of the dimensions (1 for rank 0)."""
    return math.prod(shape(value))


def is_tensor(value: ir.Value | ir.Type) -> bool:
    """True for ranked tensors."""
    return isinstance(value if isinstance(value, ir.Type) else value.type, ir.RankedTensorType)


def _tensor(value: ir.Value | ir.Type) -> ir.RankedTensorType:
    type_ = value if isinstance(value, ir.Type) else value.type
    if not isinstance(type_, ir.RankedTensorType):
        raise UnsupportedError(
            f"a value is of type {type_}, which is no tensor of known rank",
            location=describe(value.location) if isinstance(value, ir.Value) else None,
            remedy="compute with ranked tensors",
        )
    return type_


def i64s(op: ir.OpView | ir.Operation, name: str) -> tuple[int, ...]:
    """An `array<i64>` attribute as a tuple of ints, such as numbers of dimensions."""
    return _numbers(op.attributes[name])


def _numbers(array: ir.DenseI64ArrayAttr) -> tuple[int, ...]:
    # Not by iteration, whose end is an exception in C++: that takes ten times as long as to read the elements.
    return tuple([array[i] for i in range(len(array))])


def symints(op: ir.OpView | ir.Operation, name: str) -> tuple[IntLike, ...]:
    """An `array<i64>` attribute that depends on sizes: where they are dynamic, it is text, and holds SymInts."""
    attribute = op.attributes[name]
    return parse_sizes(attribute.value) if isinstance(attribute, ir.StringAttr) else _numbers(attribute)


def entries(dictionary: ir.Attribute) -> dict[str, ir.Attribute]:
    """The attributes of a dictionary by their names. Raises UnicodeDecodeError: a name is no text, as in damaged files;
    over such a one the bindings' own `name` ends the process."""
    found = ir.DictAttr(dictionary)
    values = [found[i].attr for i in range(len(found))]  # as in `_numbers`
    return dict(zip(capi().names(dictionary), values, strict=True))


def i64(op: ir.OpView | ir.Operation, name: str) -> int:
    """An integer attribute, such as the number of a dimension.

    Raises:
        GuardError: it depends on dynamic sizes.
    """
    value = op.attributes[name].value
    return value if isinstance(value, int) else int(parse_sizes(value)[0])


def symint(op: ir.OpView | ir.Operation, name: str) -> IntLike:
    """An integer attribute that depends on sizes: where they are dynamic, it is text, and holds a SymInt."""
    value = op.attributes[name].value
    return parse_sizes(value)[0] if isinstance(value, str) else value


def text(op: ir.OpView | ir.Operation, name: str) -> str:
    """A string attribute."""
    return op.attributes[name].value


def flag(op: ir.OpView | ir.Operation, name: str) -> bool:
    """A boolean attribute; false where there is none."""
    return name in op.attributes and bool(op.attributes[name].value)


def is_float(type_: ir.Type) -> bool:
    """True for every floating-point element type, f4 to f64."""
    return isinstance(type_, ir.FloatType)


def is_complex(type_: ir.Type) -> bool:
    """True for complex element types."""
    return isinstance(type_, ir.ComplexType)


def is_integer(type_: ir.Type) -> bool:
    """True for integers, booleans (i1) included."""
    return isinstance(type_, ir.IntegerType)


def is_bool(type_: ir.Type) -> bool:
    """True for i1."""
    return isinstance(type_, ir.IntegerType) and type_.width == 1


def is_unsigned(type_: ir.Type) -> bool:
    """True for ui2..ui64 and for i1: what compares, converts, divides and shifts as unsigned."""
    return isinstance(type_, ir.IntegerType) and (type_.is_unsigned or type_.width == 1)


def byte_size(type_: ir.Type) -> int:
    """Bytes that one element takes in memory: sub-byte types and i1 take one, complex takes two of its part, quantized
    types are stored as integers."""
    if isinstance(type_, ir.ComplexType):
        return 2 * byte_size(type_.element_type)
    if isinstance(type_, quant.QuantizedType):
        return byte_size(type_.storage_type)
    return max(1, -(-type_.width // 8))


def tensor_bytes(value: ir.Value | ir.Type) -> IntLike:
    """Bytes of a dense row-major tensor."""
    type_ = _tensor(value)
    return num_elements(type_) * byte_size(type_.element_type)


def module_of(op: ir.Operation) -> ir.Operation:
    """The module that an op is in."""
    while op.parent is not None:
        op = op.parent.operation
    return op


def operations(root: ir.Operation) -> list[ir.Operation]:
    """All operations inside an operation and then itself, listed before anything is erased."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    return found


def inside(op: ir.Operation, known: dict[str, bool] | None = None) -> Iterator[tuple[str, ir.Operation]]:
    """All operations inside an operation with their names, each before those that it holds, for loops that change none.
    Half the time of a walk that calls Python. Whether an op has regions, its name says (`known`)."""
    known = {} if known is None else known
    for region in op.regions:
        for block in region:
            for view in block:
                inner = view.operation
                name = inner.name
                holds = known.get(name)
                if holds is None:
                    holds = known[name] = len(inner.regions) > 0
                yield name, inner
                if holds:
                    yield from inside(inner, known)


def named(op: ir.Operation, names: Iterable[str]) -> list[ir.Operation]:
    """The operations of these names inside an operation, each after those that it holds. MLIR looks for them, in a
    tenth of the time that `inside` takes; where nothing ever comes it does not look."""
    found: list[ir.Operation] = []

    def keep(view: ir.OpView, _: rewrite.PatternRewriter) -> bool:
        found.append(view.operation)
        return True  # no match: MLIR changes nothing

    patterns = rewrite.RewritePatternSet(op.context)
    for name in names:
        patterns.add(name, keep)
    rewrite.walk_and_apply_patterns(op, patterns.freeze())
    return found


def op_names(module: ir.Module) -> set[str]:
    """The names of all operations in a module. A loop of its own takes 0.8 of the time of `inside`, which yields each
    operation; passes ask for the names often."""
    found: dict[str, bool] = {}  # whether ops of that name have regions
    waiting = [module.operation]
    while waiting:
        for region in waiting.pop().regions:
            for block in region:
                for view in block:
                    op = view.operation
                    name = op.name
                    holds = found.get(name)
                    if holds is None:
                        holds = found[name] = len(op.regions) > 0
                    if holds:
                        waiting.append(op)
    return set(found)


def user_location(location: ir.Location) -> str | None:
    """The user's own "file:line:col" in an MLIR location: the innermost file location that is found, else None."""
    from stablehlo_py.dialect.locations import describe

    return describe(location)
