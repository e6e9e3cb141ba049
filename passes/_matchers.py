"""What rules ask of the values around an op: constants, splats, element kinds, uses. Shared by the passes of this
folder."""

from __future__ import annotations

import numpy as np

from stablehlo_py.dialect.constants import constant_value, numpy_dtype, splat
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.ops.shape import broadcast_array
from stablehlo_py.dialect.rounding import integer_info
from stablehlo_py.dialect.types import i64, i64s, is_bool, num_elements, shape
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import defining

# Makers of splat constants, for `needs` of rules.
SPLAT = ("hlo.constant", "hlo.broadcast")
_WIDE = (dtype for name, dtype in ELEMENT_TYPES.items() if name[0] in "iu" and name != "i1")
#: The least and the greatest number of every type of integers, as `integer_bounds` gives them.
INTEGER_BOUNDS = ((0, 1), *(integer_info(dtype)[1:] for dtype in _WIDE))
_MOST_STEPPED = 4096  # elements of a constant that is looked at for a sequence

# Ops that compute each result element from the operands' elements at the same place.
ELEMENTWISE_OPS = frozenset(record.name for record in records() if record.elementwise)


def operand_of(value: ir.Value, name: str) -> ir.Value | None:
    """The first operand of the op that makes `value`, if it is one of that name."""
    op = defining(value, name)
    return None if op is None else op.operands[0]


def integer_splat(value: ir.Value) -> int | None:
    """The one element of an integer splat (see `splat`); None for everything else, floats included."""
    found = splat(value)
    return found if isinstance(found, int) else None


def splat_is(value: ir.Value, number: float) -> bool:
    """True for a splat of that number. Zero matches both signs; NaN never matches."""
    found = splat(value)
    return found is not None and bool(found == number)


def constant_array(value: ir.Value, max_elements: int, depth: int = 4) -> np.ndarray | None:
    """Elements of a constant, an iota, or a broadcast / reshape of one (a view where possible); None for anything else,
    and for computed ones of more than `max_elements`."""
    op = defining(value)
    if op is None:
        return None
    name = op.name
    if name == "hlo.constant":
        return constant_value(op)
    if name == "hlo.broadcast" and depth:
        inner = constant_array(op.operands[0], max_elements, depth - 1)
        return None if inner is None else broadcast_array(inner, shape(value), i64s(op, "dimensions"))
    if name == "hlo.reshape" and depth:
        inner = constant_array(op.operands[0], max_elements, depth - 1)
        return None if inner is None else inner.reshape(shape(value))
    if name == "hlo.iota" and num_elements(value) <= max_elements:
        from stablehlo_py.dialect.evaluate import evaluate_op

        return evaluate_op(op, [])[0]
    return None


def has_one_use(value: ir.Value) -> bool:
    """True when exactly one operand of one op is this value."""
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def is_empty(value: ir.Value) -> bool:
    """True for tensors without elements, whatever their dynamic dimensions are."""
    return 0 in value.type.shape


def is_float_value(value: ir.Value) -> bool:
    """True for tensors of real floats."""
    return isinstance(value.type.element_type, ir.FloatType)


def is_integer_value(value: ir.Value) -> bool:
    """True for tensors of integers or booleans."""
    return isinstance(value.type.element_type, ir.IntegerType)


def is_number(value: ir.Value) -> bool:
    """True for tensors of integers other than i1, on which add is or."""
    return is_integer_value(value) and value.type.element_type.width > 1


def integer_bounds(value: ir.Value) -> tuple[int, int]:
    """The least and the greatest number of the type of a tensor of integers or booleans."""
    element = value.type.element_type
    return integer_info(numpy_dtype(element))[1:] if element.width > 1 else (0, 1)


def iota_step(value: ir.Value, max_elements: int = _MOST_STEPPED) -> tuple[int, int] | None:
    """(first, step) of an integer sequence along one dimension, others of size 1: an iota, or a constant that grows
    evenly; else None."""
    op = defining(value)
    if op is None or not is_integer_value(value):
        return None
    if op.name == "hlo.iota":
        count = shape(value)[i64(op, "dimension")]
        wraps = is_bool(value.type.element_type) or count - 1 > integer_bounds(value)[1]
        return (0, 1) if count == num_elements(value) and not wraps else None
    array = constant_array(value, max_elements)
    if array is None or not 0 < array.size <= max_elements or max(array.shape, default=1) != array.size:
        return None
    wide = array.reshape(-1).astype(np.int64)
    step = int(wide[1] - wide[0]) if wide.size > 1 else 1
    return (int(wide[0]), step) if (np.diff(wide) == step).all() else None


def repeated_step(value: ir.Value) -> tuple[int, int, int] | None:
    """(first, step, times) of such a sequence, each number of which comes so many times in a row; else None."""
    single = iota_step(value)
    array = constant_array(value, _MOST_STEPPED) if single is None and is_integer_value(value) else None
    if array is None or array.size != max(array.shape, default=0):
        return None if single is None else (*single, 1)
    wide = array.reshape(-1).astype(np.int64)
    times = int(np.argmax(wide != wide[0])) or wide.size
    if wide.size % times or (wide.reshape(-1, times) != wide[::times, None]).any():
        return None
    steps = np.diff(wide[::times])
    return (int(wide[0]), int(steps[0]), times) if steps.size and (steps == steps[0]).all() else None


def same_scalar(one: ir.Value, two: ir.Value) -> bool:
    """True for one value, and for two constants of the same bits."""
    makers = [defining(value, "hlo.constant") for value in (one, two)]
    bits = [maker.attributes["value"] for maker in makers if maker is not None]
    return one == two or (len(bits) == 2 and bits[0] == bits[1])


def is_scalar_broadcast(value: ir.Value) -> bool:
    """True for the broadcast of a rank-0 value, constant or not."""
    op = defining(value, "hlo.broadcast")
    return op is not None and op.operands[0].type.rank == 0


def only_user(value: ir.Value) -> ir.Operation | None:
    """The op that uses a value, if it is used exactly once."""
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None


def without_reshapes(value: ir.Value) -> ir.Value:
    """What reshapes make a value of."""
    while (op := defining(value, "hlo.reshape")) is not None:
        value = op.operands[0]
    return value
