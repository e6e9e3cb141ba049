"""A function under construction: nested regions, hoisting, constants. What is computed in it is in operations.py and
builder.py; what is written, its emitter knows (emitter.py)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from stablehlo_py.codegen.emitter import Emitter, Lines, flat
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.codegen.target import Architecture
from stablehlo_py.codegen.values import (
    I1,
    I64,
    PTR,
    Index,
    ScalarType,
    Type,
    Value,
    VectorType,
    float_bits,
)
from stablehlo_py.dialect.symint import IntLike, SymInt
from stablehlo_py.errors import InternalError

_HERE = nullcontext()  # most code stays where it is: a generator for each would take longer than the code


class Assembly:
    """A function under construction: nested regions, and where in them code may be hoisted to.

    Attributes:
        emit: writes the function, in the language that its class is for; the llvm dialect unless one is given.
        barriers: how many it has in its text.
        common: functions that it calls and others may call, too: their text by name; None: it calls none (shared.py).
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        emitter: Emitter | None = None,
        *,
        noalias: Iterable[str] = (),
        result: Type | None = None,
        private: bool = False,
    ) -> None:
        self.name = name
        self.emit = emitter or LlvmEmitter()
        self.barriers = 0
        self.common: dict[str, str] | None = None
        self.parameters = {parameter: Value(self.emit.parameter(parameter), type_) for parameter, type_ in parameters}
        self.sizes: tuple[SizeTable, Value] | None = None  # what sizes are where, and the table's address
        self._noalias = frozenset(noalias)
        self._result = result
        self._private = private
        self._constants: dict[tuple[object, ...], Value] = {}
        self._lanes: dict[str, list[int]] = {}  # of constants that are vectors
        self._masks: dict[str, int] = {}  # constants that are masks of one value
        self._regions = [object()]  # those that are open, and so dominate what is emitted
        # Equal pure ops by key: the value, its region and the level of that. In one table, as hashes of keys take long.
        self._known: dict[Hashable, tuple[Any, object, int]] = {}
        self._hoisted: list[Lines] = []  # _hoisted[k]: where code of level k goes while level k + 1 is open
        self._conditional: list[int] = [0]  # levels of the regions that may not run

    def __getattr__(self, name: str) -> Value:
        try:
            return self.__dict__["parameters"][name]
        except KeyError:
            raise AttributeError(name) from None

    # --- rendering ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The function in its emitter's language."""
        return self.emit.function(
            self.name,
            self.parameters,
            self._result,
            noalias=self._noalias,
            private=self._private,
        )

    @property
    def length(self) -> int:
        """How many lines its code has, without its constants: about as many instructions."""
        return sum(1 for _ in flat(self.emit.lines))

    @property
    def architecture(self) -> Architecture:
        """What the function is emitted for. Raises InternalError where it is for any machine."""
        if self.emit.target is None:
            raise InternalError(f"the function {self.name} is for no machine in particular")
        return self.emit.target.architecture

    def declare(self, name: str, operands: Sequence[Type] = (), result: Type | None = None) -> None:
        """A function that is defined elsewhere."""
        self.emit.declarations[name] = self.emit.declaration(name, operands, result)

    @property
    def externals(self) -> dict[str, str]:
        """Functions that the body calls and that are defined elsewhere: name -> declaration text."""
        return self.emit.declarations

    # --- plumbing ----------------------------------------------------------------------------------------------------

    def _value(self, ref: str, type_: Type) -> Value:
        """What was just emitted here."""
        return Value(ref, type_, None, len(self._regions) - 1)

    def _pure(
        self, key: tuple[object, ...], type_: Type, level: int, write: Callable[..., str], *operands: object
    ) -> Value:
        """What `write(*operands)` emits, at the level of the operands, and once."""
        known = self.recall(key)
        if known is not None:
            return known
        with self.at_level(level):
            return self.remember(key, self._value(write(*operands), type_))

    # --- regions and hoisting ----------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """Depth of the region that code is emitted into: 0 is the function's body, each loop and branch adds one."""
        return len(self._regions) - 1

    @property
    def safe_level(self) -> int:
        """The outermost level to which code that may trap (a load) can be hoisted: the innermost region that may not
        run."""
        innermost = self.level
        return max([level for level in self._conditional if level <= innermost])

    def at_level(self, level: int) -> AbstractContextManager[None]:
        """Emit into an enclosing region: right before the loop or branch that is open there. Operands must be of
        that level or below."""
        return _HERE if level >= len(self._regions) - 1 else self._hoisting(level)

    @contextmanager
    def _hoisting(self, level: int) -> Iterator[None]:
        emit = self.emit
        saved = emit.lines, self._regions, self._hoisted
        emit.lines, self._regions, self._hoisted = (
            self._hoisted[level],
            self._regions[: level + 1],
            self._hoisted[:level],
        )
        try:
            yield
        finally:
            emit.lines, self._regions, self._hoisted = saved

    def recall(self, key: Hashable) -> Any:
        """What was remembered under this key in this region or an enclosing one, else None."""
        known = self._known.get(key)
        if known is None:
            return None
        value, region, level = known
        return value if level < len(self._regions) and self._regions[level] is region else None

    def remember(self, key: Hashable, value: Any, level: int | None = None) -> Any:
        """Keep a value for reuse in this region, or in the enclosing one of a level, and those inside it; returns
        it."""
        regions = self._regions
        if level is None or level >= len(regions):
            level = len(regions) - 1
        self._known[key] = value, regions[level], level
        return value

    def _preheader(self) -> Lines:
        hoisted: Lines = []
        self.emit.lines.append(hoisted)
        return hoisted

    @contextmanager
    def _region(self, hoisted: Lines, *, conditional: bool = True) -> Iterator[None]:
        self._regions.append(object())
        self._hoisted.append(hoisted)
        if conditional:
            self._conditional.append(self.level)
        try:
            yield
        finally:
            if conditional:
                self._conditional.pop()
            self._regions.pop()
            self._hoisted.pop()

    def _renamed(self, refs: Sequence[str], values: Sequence[Value]) -> list[Value]:
        """Values of these names, available in the region around, of the types that `values` have. Those that keep their
        names are the same: values that leave a loop, where the language lets them."""
        level = self.level
        return [
            Value(value.ref, value.type, value.constant, min(value.level, level), value.bounds)
            if ref == value.ref
            else Value(ref, value.type, None, level)
            for ref, value in zip(refs, values, strict=True)
        ]

    def kept(self, value: Value) -> Value:
        """A value as one of this region: what is computed from it stays here, though it could move out of the loop or
        branch."""
        return Value(value.ref, value.type, value.constant, self.level, value.bounds)

    def comment(self, text: str) -> None:
        """A comment line, for the reader of a dump."""
        self.emit.comment(text)

    # --- constants ---------------------------------------------------------------------------------------------------

    def const(self, number: float | IntLike | bool, type_: Type = I64) -> Value:
        """A constant of a scalar type, or splat over a vector type. Floats may be NaN or infinite."""
        element = type_.element
        bits = float_bits(float(number), element) if element.is_float else number
        key = (bits, type_.text)  # whose hash it knows
        value = self._constants.get(key)
        if value is None:
            value = self._constants[key] = self._constant(number, type_)
        return value

    def _constant(self, number: float | IntLike | bool, type_: Type) -> Value:
        element = type_.element
        if element.is_float:
            bits = float_bits(float(number), element)
        elif element is I1:
            bits = number = int(bool(number))
        else:
            bits = int(number) & ((1 << element.bits) - 1)
            bits -= (bits >> (element.bits - 1)) << element.bits
            number = bits
        value = Value(self.emit.constant(bits, type_), type_, number if type_.lanes == 1 else None)
        if isinstance(value.constant, int):
            value.bounds = (value.constant, value.constant)
        if element is I1:
            self._masks[value.ref] = int(number)
        return value

    def const_lanes(self, numbers: Sequence[float], element: ScalarType) -> Value:
        """A vector constant with one number per lane; a scalar where there is one."""
        if len(numbers) == 1:
            return self.const(numbers[0], element)
        type_ = VectorType(len(numbers), element)
        lanes = [float_bits(number, element) if element.is_float else int(number) for number in numbers]
        value = self._once((*lanes, type_), type_, self.emit.constant_lanes, lanes, type_)
        self._lanes[value.ref] = lanes
        return value

    def known_lanes(self, value: Value) -> Sequence[int] | None:
        """The numbers of a `const_lanes` of integers; None: it is no such constant."""
        return self._lanes.get(value.ref)

    def only_lane(self, mask: Value) -> int | None:
        """The one lane that a constant mask sets; None: it is no such constant."""
        lanes = self._lanes.get(mask.ref, [])
        return lanes.index(1) if sum(lanes) == 1 else None

    def first_lanes(self, mask: Value) -> int:
        """How many lanes a constant mask sets, where these are the first ones; 0: it is no such constant."""
        lanes = self._lanes.get(mask.ref, [])
        count = sum(lanes)
        return count if all(lanes[:count]) else 0

    def poison(self, type_: Type) -> Value:
        """An undefined value, to be overwritten lane by lane."""
        return self._once(("poison", type_), type_, self.emit.poison, type_)

    def null(self, type_: ScalarType = PTR) -> Value:
        """The null pointer."""
        return self._once(("null", type_), type_, self.emit.null, type_)

    def _once(self, key: tuple[object, ...], type_: Type, write: Callable[..., str], *operands: object) -> Value:
        value = self._constants.get(key)
        if value is None:
            value = self._constants[key] = Value(write(*operands), type_)
        return value

    def index(self, value: Index) -> Value:
        """A Python int as an i64 constant, a SymInt as a load from the table of sizes; values pass."""
        if isinstance(value, Value):
            return value
        return self._size(value) if isinstance(value, SymInt) else self.const(value, I64)

    def _size(self, size: SymInt) -> Value:
        known = self.recall(size)
        if known is not None:
            return known
        if self.sizes is None:
            raise InternalError(f"the function {self.name} has no table for the size {size}")
        table, base = self.sizes
        with self.at_level(0):
            address = self._value(self.emit.element_address(base, table.slot(size), I64), base.type)
            return self.remember(size, self._value(self.emit.load(I64, address, 8, invariant=True), I64))
