"""Random inputs on which a model's values stay in range: each argument is drawn for what the program does with it.

Weights of variance one make the activations of a deep network grow by the square root of the layer's width, layer after
layer: results of -30,000, a softmax of zeros and ones, and differences that are nothing but rounding. So arguments are
followed through the ops that move elements, to the first op in program order that says what they are
(docs/wrong-answers.md has the table).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.debug.engines import at_stage
from stablehlo_py.debug.random_arrays import Role, random_array
from stablehlo_py.debug.settings import Source
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.ops import record_of
from stablehlo_py.dialect.types import (
    element_type,
    i64s,
    is_integer,
    is_tensor,
    num_elements,
    rank,
    shape,
    static_shape,
)
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir, stablehlo
from stablehlo_py.options import Options

# Ops through which integers stay indices.
_INDEX_ARITHMETIC = frozenset(f"hlo.{name}" for name in ("add", "subtract", "maximum", "minimum", "remainder"))
_ROOTS = frozenset(f"hlo.{name}" for name in ("sqrt", "rsqrt", "log", "log_plus_one"))
# What the first operand is, of ops that say so by their name.
_ROLES = dict.fromkeys((f"hlo.{name}" for name in ("asin", "acos", "atanh", "erf_inv")), "inside one")
_ROLES |= {"hlo.acosh": "above one", "hlo.cholesky": "matrix", "hlo.triangular_solve": "matrix"}


@dataclass(frozen=True)
class _Path:
    """A value that holds elements of an argument, and whether a broadcast repeats them."""

    value: ir.Value
    grown: bool = False


def random_inputs(
    source: Source | None, dtypes: Sequence[np.dtype], shapes: Sequence[tuple[int, ...]], entry: str | None, seed: int
) -> list[np.ndarray]:
    """Inputs of a module, the same for the same seed. An artifact (None), or a module that does not compile, says
    nothing about them."""
    try:
        roles = roles_of(source, shapes, entry) if source is not None else [Role()] * len(shapes)
    except UnsupportedError:
        roles = [Role()] * len(shapes)
    generator = np.random.default_rng(seed)
    return [
        random_array(generator, dtype, sizes, role) for dtype, sizes, role in zip(dtypes, shapes, roles, strict=True)
    ]


def roles_of(source: Source, shapes: Sequence[tuple[int, ...]], entry: str | None = None) -> list[Role]:
    """The role of every argument of a module, whose arguments have these shapes. Raises ShloError where it does not
    compile."""
    module = at_stage("hlo", source, tuple(shapes), entry, Options(), ())
    with module.context:
        block = main_function(module).regions[0].blocks[0]
        arguments = list(block.arguments)[: len(shapes)]
        walk = _Walk(block)
        moved = {path.value for argument in arguments for path in walk.paths(argument, None)}
        return [walk.role(argument, moved) for argument in arguments]


class _Walk:
    """What becomes of the arguments of a block."""

    def __init__(self, block: ir.Block) -> None:
        self.order: dict[ir.Operation, int] = {}
        self._number(block)

    def _number(self, block: ir.Block) -> None:
        for view in block.operations:
            self.order[view.operation] = len(self.order)
            for region in view.operation.regions:
                for inner in region.blocks:
                    self._number(inner)

    def role(self, argument: ir.Value, moved: set[ir.Value]) -> Role:
        """The role that the first telling use in program order gives an argument. `moved`: values that hold elements of
        arguments."""
        if not is_tensor(argument):
            return Role()
        if is_integer(element_type(argument)):
            limits = [limit for path in self.paths(argument, _stays_index) for limit in self._limits(path.value)]
            return Role("index", min(limits)) if limits else Role()
        found: list[tuple[int, Role]] = []
        for path in self.paths(argument, None):
            for op, position in _uses(path.value):
                role = _role_of_use(op, position, path, rank(argument), moved)
                if role is not None:
                    found.append((self.order[op], role))
        for path in self.paths(argument, _stays_variance):
            found += [(self.order[op], Role("positive")) for op, _ in _uses(path.value) if op.name in _ROOTS]
        return min(found, key=lambda each: each[0])[1] if found else Role()

    def paths(self, argument: ir.Value, through: Callable[[ir.Operation, int], bool] | None) -> list[_Path]:
        """The values that hold elements of an argument, as it is, or after ops that `through` lets pass."""
        found: dict[ir.Value, _Path] = {argument: _Path(argument)}
        pending = [argument]
        while pending:
            path = found[pending.pop()]
            for op, position in _uses(path.value):
                passes = _keeps_elements(op, position) or (through is not None and through(op, position))
                for value in op.results if passes else _successors(op, position):
                    if value not in found and is_tensor(value):
                        grown = path.grown or (op.name == "hlo.broadcast" and _grows(op))
                        found[value] = _Path(value, grown)
                        pending.append(value)
        return list(found.values())

    def _limits(self, value: ir.Value) -> Iterator[int]:
        """How many indices there are for each use of a value as one."""
        for op, position in _uses(value):
            sizes = static_shape(op.operands[0]) if len(op.operands) and is_tensor(op.operands[0]) else ()
            if op.name == "hlo.gather" and position == 1:
                taken = i64s(op, "slice_sizes")
                yield min((sizes[d] - taken[d] + 1 for d in i64s(op, "start_index_map")), default=1)
            elif op.name == "hlo.dynamic_slice" and position >= 1:
                yield sizes[position - 1] - i64s(op, "sizes")[position - 1] + 1
            elif op.name == "hlo.dynamic_update_slice" and position >= 2:
                yield sizes[position - 2] - static_shape(op.operands[1])[position - 2] + 1
            elif op.name == "stablehlo.scatter" and position == (len(op.operands) - 1) // 2:
                numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
                yield min((sizes[d] for d in numbers.scattered_dims_to_operand_dims), default=1)
            elif op.name == "hlo.compare":
                counted = _iota_size(op.operands[1 - position])
                if counted:
                    yield counted


def _uses(value: ir.Value) -> list[tuple[ir.Operation, int]]:
    return [(use.owner.operation, use.operand_number) for use in value.uses]


def _successors(op: ir.Operation, position: int) -> list[ir.Value]:
    """What an operand of control flow is handed on as."""
    if op.name == "scf.while":
        return [op.regions[0].blocks[0].arguments[position]]
    if op.name not in ("scf.yield", "scf.condition"):
        return []
    around = op.parent.operation
    if around.name != "scf.while":
        return [around.results[position]]
    if op.name == "scf.yield":
        return [around.regions[0].blocks[0].arguments[position]]
    return [around.regions[1].blocks[0].arguments[position - 1], around.results[position - 1]] if position else []


def _keeps_elements(op: ir.Operation, position: int) -> bool:
    """True where the result holds elements of an operand, converted at most."""
    record = record_of(op.name)
    picked = record is not None and record.picks is not None and position in range(len(op.operands))[record.picks]
    return picked or op.name in ("hlo.convert", "hlo.reduce_precision")


def _grows(op: ir.Operation) -> bool:
    return num_elements(op.results[0]) > num_elements(op.operands[0])


def _stays_index(op: ir.Operation, _: int) -> bool:
    return op.name in _INDEX_ARITHMETIC and is_integer(element_type(op.results[0]))


def _stays_variance(op: ir.Operation, position: int) -> bool:
    """Sums with whatever is added, and products with constants: v * 0.999 + g * 0.001."""
    if op.name in ("hlo.add", "hlo.maximum"):
        return True
    if op.name == "hlo.divide":
        return position == 0
    return op.name == "hlo.multiply" and _is_constant(op.operands[1 - position])


def _is_constant(value: ir.Value, depth: int = 8) -> bool:
    if isinstance(value, ir.BlockArgument) or not depth:
        return False
    op = value.owner.operation
    return not op.regions and all(_is_constant(operand, depth - 1) for operand in op.operands)


def _iota_size(value: ir.Value) -> int:
    """How far the numbers of an iota count, that was moved at most; 0 for other values."""
    while not isinstance(value, ir.BlockArgument):
        op = value.owner.operation
        if op.name == "hlo.iota":
            return shape(op.results[0])[op.attributes["dimension"].value]
        if len(op.operands) != 1 or not _keeps_elements(op, 0):
            return 0
        value = op.operands[0]
    return 0


def _role_of_use(op: ir.Operation, position: int, path: _Path, dimensions: int, moved: set[ir.Value]) -> Role | None:
    """What a use says about the argument whose elements are used; None for uses that say nothing."""
    if op.name in ("hlo.dot", "hlo.convolution"):
        if position == 0 and (op.operands[1] in moved or op.name == "hlo.convolution"):
            return Role()  # the other operand is the weight
        if op.name == "hlo.dot":
            sizes = shape(op.operands[0])
            terms = math.prod(sizes[d] for d in i64s(op, "lhs_contract"))
        else:
            kernel = shape(op.operands[1])
            terms = math.prod(kernel) // max(1, kernel[i64s(op, "kernel_dims")[1]])
        return Role("weight", 1 / math.sqrt(max(1, terms)))
    if op.name == "hlo.multiply" and (path.grown or any(_broadcast_later(use) for use, _ in _uses(op.results[0]))):
        return Role("rate" if dimensions == 0 else "scale")
    if op.name in _ROOTS or (op.name == "hlo.power" and position == 0):
        return Role("positive")
    if op.name == "hlo.divide" and position == 1:
        return Role("divisor")
    return Role(_ROLES[op.name]) if op.name in _ROLES and position == 0 else None


def _broadcast_later(op: ir.Operation) -> bool:
    """Whether an op broadcasts its operand, or reshapes it for one that does."""
    if op.name == "hlo.reshape":
        return any(_broadcast_later(use) for use, _ in _uses(op.results[0]))
    return op.name == "hlo.broadcast" and _grows(op)
