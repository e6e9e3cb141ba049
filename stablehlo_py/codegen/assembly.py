"""The text of a function: names, nested regions, hoisting, constants. What is written into it is in operations.py
and builder.py."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.codegen.values import (
    I1,
    I64,
    PTR,
    Index,
    ScalarType,
    Type,
    Value,
    VectorType,
    float_text,
)
from stablehlo_py.dialect.size import Size
from stablehlo_py.errors import InternalError


def _flat(lines: Iterable[str | list]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from _flat(line)


class Assembly:
    """A function's text under construction: nested regions, and where in them code may be hoisted to."""

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        *,
        noalias: Iterable[str] = (),
        result: Type | None = None,
        private: bool = False,
    ) -> None:
        self.name = name
        self.parameters = {parameter: Value(f"%{parameter}", type_) for parameter, type_ in parameters}
        self.externals: dict[str, str] = {}
        self.sizes: tuple[SizeTable, Value] | None = None  # what sizes are where, and the table's address
        self._noalias = frozenset(noalias)
        self._result = result
        self._private = private
        self._entry: list[str] = []  # constants and allocas
        self._lines: list[str | list] = []  # a nested list is code hoisted before the loop or branch that follows
        self._constants: dict[tuple[object, ...], Value] = {}
        self._known: list[dict[Hashable, Any]] = [{}]  # equal pure ops, one dict per dominating region
        self._hoisted: list[list[str | list]] = []  # _hoisted[k]: where code of level k goes while level k + 1 is open
        self._conditional: list[int] = [0]  # levels of the regions that may not run
        self._next = 0
        self._blocks = 0

    def __getattr__(self, name: str) -> Value:
        try:
            return self.__dict__["parameters"][name]
        except KeyError:
            raise AttributeError(name) from None

    # --- rendering ---------------------------------------------------------------------------------------------------

    def text(self, attributes: str = "") -> str:
        """The function as llvm-dialect text. `attributes` goes into its attribute dictionary (target features)."""
        arguments = ", ".join(
            f"{value.ref}: {value.type.text}" + (" {llvm.noalias}" if name in self._noalias else "")
            for name, value in self.parameters.items()
        )
        result = f" -> {self._result.text}" if self._result else ""
        linkage = "private " if self._private else ""
        head = f"llvm.func {linkage}@{self.name}({arguments}){result} attributes {{{attributes}}} {{"
        return "\n".join([head, *self._entry, *_flat(self._lines), "}"])

    def declarations(self) -> dict[str, str]:
        """External functions that the body calls: name -> declaration text."""
        return self.externals

    # --- plumbing ----------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        self._next += 1
        return f"%{self._next}"

    def op(self, text: str, type_: Type) -> Value:
        """Append `%n = text`."""
        ref = self._name()
        self._lines.append(f"{ref} = {text}")
        return Value(ref, type_, None, self.level)

    def _pure(self, key: tuple[object, ...], text: str, type_: Type, level: int | None = None) -> Value:
        known = self.recall(key)
        if known is not None:
            return known
        with self.at_level(self.level if level is None else level):
            return self.remember(key, self.op(text, type_))

    # --- regions and hoisting ----------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """Depth of the region that code is emitted into: 0 is the function's body, each loop and branch adds one."""
        return len(self._known) - 1

    @property
    def barrier(self) -> int:
        """The outermost level to which code that may trap (a load) can be hoisted: the innermost region that may not
        run."""
        return max(level for level in self._conditional if level <= self.level)

    @contextmanager
    def at_level(self, level: int) -> Iterator[None]:
        """Emit into an enclosing region: right before the loop or branch that is open there. Operands must be of
        that level or below."""
        if level >= self.level:
            yield
            return
        saved = self._lines, self._known, self._hoisted
        self._lines, self._known, self._hoisted = self._hoisted[level], self._known[: level + 1], self._hoisted[:level]
        try:
            yield
        finally:
            self._lines, self._known, self._hoisted = saved

    def recall(self, key: Hashable) -> Any:
        """What was remembered under this key in this region or an enclosing one, else None."""
        for known in self._known:
            if key in known:
                return known[key]
        return None

    def remember(self, key: Hashable, value: Any) -> Any:
        """Keep a value for reuse in this region and those inside it; returns it."""
        self._known[-1][key] = value
        return value

    def _preheader(self) -> list[str | list]:
        hoisted: list[str | list] = []
        self._lines.append(hoisted)
        return hoisted

    @contextmanager
    def _region(self, hoisted: list[str | list], *, conditional: bool = True) -> Iterator[None]:
        self._known.append({})
        self._hoisted.append(hoisted)
        if conditional:
            self._conditional.append(self.level)
        try:
            yield
        finally:
            if conditional:
                self._conditional.pop()
            self._known.pop()
            self._hoisted.pop()

    def _here(self, values: Iterable[Value]) -> list[Value]:
        # Values that leave a rotated loop are available in the region around it.
        return [Value(value.ref, value.type, value.constant, min(value.level, self.level)) for value in values]

    def _arguments(self, types: Iterable[Type], level: int) -> list[Value]:
        return [Value(self._name(), type_, None, level) for type_ in types]

    def comment(self, text: str) -> None:
        """A comment line, for the reader of a dump."""
        self._lines.append(f"// {text}")

    def _label(self) -> str:
        self._blocks += 1
        return f"^b{self._blocks}"

    # --- constants ---------------------------------------------------------------------------------------------------

    def const(self, number: float | int | bool, type_: Type = I64) -> Value:
        """A constant of a scalar type, or splat over a vector type. Floats may be NaN or infinite."""
        element = type_.element
        if element.is_float:
            body = float_text(float(number), element)
        elif element is I1:
            body, number = ("true" if number else "false"), int(bool(number))
        else:
            number = int(number) & ((1 << element.bits) - 1)
            number -= (number >> (element.bits - 1)) << element.bits
            body = str(number)
        key = (body, type_)
        value = self._constants.get(key)
        if value is None:
            if type_.lanes > 1:
                text = f"llvm.mlir.constant(dense<{body}> : {type_.text}) : {type_.text}"
            elif element is I1:
                text = f"llvm.mlir.constant({body}) : i1"
            else:
                text = f"llvm.mlir.constant({body} : {type_.text}) : {type_.text}"
            ref = f"%c{len(self._constants)}"
            self._entry.append(f"{ref} = {text}")
            value = self._constants[key] = Value(ref, type_, number if type_.lanes == 1 else None)
        return value

    def const_lanes(self, numbers: Sequence[float | int], element: ScalarType) -> Value:
        """A vector constant with one number per lane."""
        type_ = VectorType(len(numbers), element)
        body = ", ".join(float_text(number, element) if element.is_float else str(int(number)) for number in numbers)
        key = (body, type_)
        value = self._constants.get(key)
        if value is None:
            ref = f"%c{len(self._constants)}"
            self._entry.append(f"{ref} = llvm.mlir.constant(dense<[{body}]> : {type_.text}) : {type_.text}")
            value = self._constants[key] = Value(ref, type_)
        return value

    def poison(self, type_: Type) -> Value:
        """An undefined value, to be overwritten lane by lane."""
        key = ("poison", type_)
        if key not in self._constants:
            ref = f"%c{len(self._constants)}"
            self._entry.append(f"{ref} = llvm.mlir.poison : {type_.text}")
            self._constants[key] = Value(ref, type_)
        return self._constants[key]

    def null(self) -> Value:
        """The null pointer."""
        key = ("null", PTR)
        if key not in self._constants:
            ref = f"%c{len(self._constants)}"
            self._entry.append(f"{ref} = llvm.mlir.zero : !llvm.ptr")
            self._constants[key] = Value(ref, PTR)
        return self._constants[key]

    def index(self, value: Index) -> Value:
        """A Python int as an i64 constant, a Size as a load from the table of sizes; values pass."""
        if isinstance(value, Value):
            return value
        return self._size(value) if isinstance(value, Size) else self.const(value, I64)

    def _size(self, size: Size) -> Value:
        known = self.recall(size)
        if known is not None:
            return known
        if self.sizes is None:
            raise InternalError(f"the function {self.name} has no table for the size {size}")
        table, base = self.sizes
        with self.at_level(0):
            address = f"llvm.getelementptr {base.ref}[{table.slot(size)}] : (!llvm.ptr) -> !llvm.ptr, i64"
            load = f"llvm.load {self.op(address, PTR).ref} invariant {{alignment = 8 : i64}} : !llvm.ptr -> i64"
            return self.remember(size, self.op(load, I64))
