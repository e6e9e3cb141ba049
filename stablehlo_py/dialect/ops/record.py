"""What the dialect knows of an op, written once: its record. Everything else that wants to know a fact about an op asks
`record_of`.

A record is made where the op is defined, in the file of its family: `pointwise` (elementwise.py) defines an elementwise
op in a few lines, `op` any other hlo op, `kept` describes a StableHLO op that stays. Reading the package `dialect.ops`
reads all families.
"""

# mypy: disable-error-code="call-arg"
# (the base class takes class keywords and comes from a module without types)

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.dialect.types import shape
from stablehlo_py.dialect.verify import Check, Conditions, require_shape, same_shape, verifier
from stablehlo_py.mlir import ext, ir

Array = np.ndarray
#: What NumPy makes of an op and its operands. Region ops take a third argument: the n-th region as a function of lanes.
Value = Callable[..., Any]
#: True where NumPy's result, of these operands, has the bits that any correct implementation gives at run time.
Exact = Callable[[ir.Operation, Sequence[Array]], bool]
Shape: TypeAlias = Sequence[IntLike]
Shapes: TypeAlias = Sequence[Shape]
#: The shapes of the results, of the op (or its form) and the shapes of its operands; what sizes have to fulfil is asked
#: of the first argument.
ShapeRule = Callable[..., Shapes]
#: Adds the factors of an op to a `factors.Builder`; or why it has none.
FactorRule = Callable[[Any, ir.Operation], None]
T, U = TypeVar("T"), TypeVar("U")
FIRST, ALL = slice(0, 1), slice(None)  # for `picks`
_VALUES = r"\(((?:\w+(?:\.\.\.)?: (?:any|T|U)(?:, (?=\w)|(?=\))))*)\)"
_SIGNATURE = re.compile(rf"(\w+){_VALUES}(?: \{{([^}}]*)\}})? -> {_VALUES}")
_VALUE = re.compile(r"(\w+)(\.\.\.)?: (any|T|U)")
_TYPES: dict[str, Any] = {"any": Any, "T": T, "U": U}


class Hlo(ext.Dialect, name="hlo"):
    """The internal dialect."""


class Effects(enum.Enum):
    """How to tell whether an op may be erased when nobody uses its results."""

    PURE = enum.auto()
    IMPURE = enum.auto()
    BY_REGIONS = enum.auto()  # as pure as the ops of its regions
    CALL = enum.auto()  # the callee decides
    CUSTOM_CALL = enum.auto()  # an attribute decides


class Work(enum.Enum):
    """What it takes to make one element of the result."""

    ELEMENTS = enum.auto()  # arithmetic on an element of each operand, at the same place
    INDICES = enum.auto()  # index arithmetic alone: free
    MOVES = enum.auto()  # an element from elsewhere
    UPDATES = enum.auto()  # few elements are written, the others stay
    WHOLE = enum.auto()  # an algorithm over many elements
    OPAQUE = enum.auto()  # nothing is known


class Rounds(enum.Enum):
    """Where a result computed in a wider type has to be rounded to its element type."""

    ALWAYS = enum.auto()
    NEVER = enum.auto()  # it is a value of the element type already
    # The same, in IEEE formats with integers to spare: -0 is no value of the FNUZ types, 0 and -1 are none of
    # f8E8M0FNU, 15.5 has no ceiling in f8E3M4.
    IN_BYTES = enum.auto()


@dataclass(frozen=True)
class Identity:
    """The element that leaves every other one unchanged.

    Attributes:
        real: of floats, and the real part of complex numbers; None where the op has no floats.
        imaginary: the imaginary part of complex numbers.
        integer: of integers, from the least and the greatest number of their type.
    """

    real: float | None
    imaginary: float
    integer: Callable[[int, int], int]

    @property
    def complex(self) -> complex | None:
        """Of complex numbers."""
        return None if self.real is None else complex(self.real, self.imaginary)


@dataclass(frozen=True, eq=False)
class Record:
    """The facts about one op.

    Attributes:
        name: full, `hlo.add`.
        doc: what it does, for docs/hlo-dialect.md.
        operation: the op's class; None for StableHLO ops that stay.
        signature: `operation`'s operands, attributes and results, as text (see `op`).
        operands: names.
        attributes: names of those that every op of this name has.
        options: names of those that it may have.
        elements: element types of the first operand, a key of `verify.ELEMENT_CLASSES`; "" where the verifier has more
            to say.
        effects: whether an op without uses may go.
        work: what an element of the result takes.
        elementwise: operands and result have one shape; element i of the result needs the elements i of the operands
            and nothing else.
        flops: floating-point operations for one element of the result, where `work` is ELEMENTS; transcendental
            functions count as the instructions of their vector expansion.
        random_access: reads memory in no order.
        picks: the operands that every element of the result is an element of one of, as a slice of all operands.
        relational: only compares, chooses and combines truth values: of numbers, nothing but their order counts.
        commutative: f(x, y) is f(y, x).
        associative: f(f(x, y), z) is f(x, f(y, z)), of floats up to rounding: a combiner of reductions.
        idempotent: f(x, x) is x.
        identity: the element that leaves others unchanged.
        absorbing: the integer that makes the result itself whatever the other operand is, from the least and the
            greatest number of their type.
        rounds: whether the result has to be rounded to its element type.
        ulps: units in the last place that good implementations differ by; 0 where IEEE 754 rounds correctly.
        complex_ulps: the same for complex numbers, whose arithmetic is not defined to the bit; 0: as `ulps`.
        separate: the result is a place in memory of its own: two equal ops stay two.
        function: of elementwise ops without attributes, NumPy's function of the operands' arrays.
        value: NumPy's function of the op and the operands' arrays, as an array.
        region_value: NumPy's function of the op, the list of the operands' arrays and its regions, as a list.
        shapes: of the results, over sizes that are known or not, for the verifier and for `infer-symbolic-shapes`; None
            where all operands and results have one shape, or the result's type says it.
        factors: what the dimensions of operands and results have to do with each other (factors.py); where nothing can
            be said, why. Elementwise ops need none.
        numbers: attributes that number dimensions of an operand, and which operand that is. Dimensions that they do not
            name come in their order, and stay or go by their factors: by these rules move transposes and reshapes.
        exact: where folding may use NumPy's value; None: nowhere.
    """

    name: str
    doc: str
    operation: Any = None
    signature: str = ""
    operands: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    elements: str = ""
    effects: Effects = Effects.PURE
    work: Work = Work.WHOLE
    elementwise: bool = False
    flops: int = 1
    random_access: bool = False
    picks: slice | None = None
    relational: bool = False
    commutative: bool = False
    associative: bool = False
    idempotent: bool = False
    identity: Identity | None = None
    absorbing: Callable[[int, int], int] | None = None
    rounds: Rounds = Rounds.ALWAYS
    ulps: float = 0
    complex_ulps: float = 0
    separate: bool = False
    function: Value | None = None
    value: Value | None = None
    region_value: Value | None = None
    exact: Exact | None = None
    shapes: ShapeRule | None = None
    factors: FactorRule | str = "nobody has said which it has"
    numbers: Mapping[str, int] = field(default_factory=dict)

    @property
    def mnemonic(self) -> str:
        """The name without the dialect."""
        return self.name.partition(".")[2]


_RECORDS: dict[str, Record] = {}
#: The record of an op by its full name ("hlo.add", "stablehlo.sort"); None for ops that no stage after legalization
#: has, for control flow and for other dialects.
record_of: Callable[[str], Record | None] = _RECORDS.get


def records() -> Iterator[Record]:
    """All records, in the order of definition."""
    return iter(tuple(_RECORDS.values()))


def add(record: Record) -> Record:
    """Register a record. Raises ValueError where the op has one."""
    if record.name in _RECORDS:
        raise ValueError(f"{record.name} has a record")
    _RECORDS[record.name] = record
    return record


def remove(record: Record) -> None:
    """The inverse of `add`; contexts made before keep the op."""
    del _RECORDS[record.name]
    if record.operation is not None:
        Hlo.operations.remove(record.operation)


def op(signature: str, doc: str, *, checks: Sequence[Check] = (), **facts: Any) -> Record:
    """Define an op of the hlo dialect, and register its record.

    Args:
        signature: as docs/hlo-dialect.md shows it: `slice(operand: any) {start, limit, strides} -> (result: any)`.
            Values that share a letter (T or U) have one type; a name with `...` stands for any number of operands.
        doc: sentences for that page.
        checks: what the verifier checks, between what follows from `facts`: that all values of an elementwise op have
            one shape, and the shapes of the results, where there is a rule for these.
        facts: the other fields of the record.

    Raises:
        ValueError: the signature has another form, or the op has a record.
    """
    matched = _SIGNATURE.fullmatch(signature)
    if matched is None:
        raise ValueError(f"not the signature of an op: {signature}")
    name, operands, attributes, results = (text or "" for text in matched.groups())
    annotations: dict[str, object] = {}
    for operand, repeated, type_ in _VALUE.findall(operands):
        annotations[operand] = Sequence[ext.Operand[_TYPES[type_]]] if repeated else ext.Operand[_TYPES[type_]]
    names = tuple(annotations)
    annotations |= {result: ext.Result[_TYPES[type_]] for result, _, type_ in _VALUE.findall(results)}
    fields = {attribute: ext.attribute() for attribute in attributes.split(", ") if attribute}
    annotations |= dict.fromkeys(fields, Any)
    implied: list[Check] = []
    if facts.get("elementwise"):
        facts = {"work": Work.ELEMENTS, **facts}
        implied += [same_shape] * ("any" in signature)  # one letter says it already
    verify = verifier(fields, (*implied, *checks, *[check_shapes] * ("shapes" in facts)))
    members = {"__annotations__": annotations, "verify_invariants": verify, **fields}
    keywords = {"name": name, "traits": [ext.Pure] if facts.get("effects", Effects.PURE) is Effects.PURE else []}
    # types.new_class runs the `name=` class keyword that registers the op with the dialect.
    operation = types.new_class(name, (Hlo.Operation,), keywords, lambda body: body.update(members))
    full = f"{Hlo.DIALECT_NAMESPACE}.{name}"
    return add(Record(full, doc, operation, signature, names, tuple(fields), **facts))


def kept(name: str, doc: str, **facts: Any) -> Record:
    """Registers a StableHLO op that stays after legalization."""
    return add(Record(f"stablehlo.{name}", doc, **facts))


def check_shapes(op: ir.OpView) -> None:
    """For verifiers: the results have the shapes that the record's rule gives."""
    record = _RECORDS[op.operation.name]
    assert record.shapes is not None
    for number, sizes in enumerate(record.shapes(Conditions(), op, *map(shape, op.operands))):
        require_shape(op, sizes, number)


# --- where NumPy is exact --------------------------------------------------------------------------------------------


def always(op: ir.Operation, operands: Sequence[Array]) -> bool:
    """Whatever the operands are."""
    return True


def of_reals(op: ir.Operation, operands: Sequence[Array]) -> bool:
    """Unless the numbers are complex."""
    return operands[0].dtype.kind != "c"
