"""Kernels as C99: structured loops and branches, a local variable for each value.

A vector is an array, and what is done to it a loop over its lanes (c_lanes.py). What a function points to is typed by
how it is used (c_lines.py), so no two types read the same memory. Values have no names in the kernel language: v are
results, i indices of loops, c what loops carry, m what branches give, w vectors, p addresses, a arrays on the stack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stablehlo_py.codegen.emitter import Lines, flat
from stablehlo_py.codegen.emitters.c_arithmetic import FEW, CArithmetic
from stablehlo_py.codegen.emitters.c_lanes import in_loops
from stablehlo_py.codegen.emitters.c_lines import (
    LANES,
    Access,
    Line,
    Memory,
    c_type,
    indented,
    lanes_of,
    literal,
    live,
    parameters_read,
    raw,
    renumbered,
    sum_of,
)
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.values import I1, PTR, ScalarType, Type, Value, VectorType, float_bits

_PER_LINE = 8  # numbers of a table
_ACCESS = "\0"
_PREFIX = "shlo."  # of functions that others define, by their library


def symbol(name: str) -> str:
    """A name of the kernel language as one of C. Routines of LAPACK and BLAS are called as Fortran's compilers call
    them, functions of users by the name of their target."""
    if name.startswith(_PREFIX):
        library, _, routine = name.removeprefix(_PREFIX).partition(".")
        return re.sub(r"\W", "_", routine) if library == "call" else f"{routine}_"
    return re.sub(r"\W", "_", name)


def comment(text: str) -> str:
    """A line of a comment: what would go on behind its end is taken out."""
    return "// " + text.replace("??", "? ?").replace("\\", "/").replace("\n", " ")


def numbers_of(numbers: np.ndarray, element: ScalarType) -> list[str]:
    """The numbers of an array as literals, some to a line. NaN of any kind is NAN: calls are no constants."""

    def text(number: np.generic) -> str:
        if element.is_float and element.bits > 16:
            return "NAN" if np.isnan(number) else literal(float_bits(float(number), element), element)
        return literal(int(number), element)

    listed = [text(number) for number in numbers.reshape(-1)]
    return [", ".join(listed[i : i + _PER_LINE]) for i in range(0, len(listed), _PER_LINE)]


class CEmitter(CArithmetic):
    """C99."""

    def __init__(self, target: TargetDescription | None = None) -> None:
        super().__init__(target)
        # Of addresses that are computed: what they are computed from, elements of which type, and how many of them.
        self._addresses: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self._open: list[list[object]] = []

    # --- the whole ---------------------------------------------------------------------------------------------------

    def function(
        self,
        name: str,
        parameters: Mapping[str, Value],
        result: Type | None,
        *,
        noalias: frozenset[str],
        private: bool,
    ) -> str:
        parameters = {value.ref: value for value in parameters.values()}
        lines = live([*self.entry, *flat(self.lines)])
        memory = Memory(parameters, lines)
        body = renumbered(in_loops([(line, memory.render(line)) for line in lines], noalias))
        while body and body[-1] == "return;":
            body.pop()
        read = parameters_read(parameters, body)
        unused = [f"(void){parameter};" for parameter in parameters if parameter not in read]
        # A pointer that nothing reads may be the same as another.
        head = self._head(name, parameters, result, noalias & read, memory)
        return "\n".join([f"{head} {{", *indented([*unused, *body]), "}"])

    def _head(
        self,
        name: str,
        parameters: Mapping[str, Value],
        result: Type | None,
        noalias: frozenset[str],
        memory: Memory,
    ) -> str:
        listed = []
        for parameter, value in parameters.items():
            if value.type.text != PTR.text:
                listed.append(f"{c_type(value.type.element)} {parameter}")
                continue
            pointee = memory.pointee(parameter)
            const = "const " if pointee != "char" and parameter not in memory.stored else ""
            listed.append(f"{const}{pointee} *{'restrict ' if parameter in noalias else ''}{parameter}")
        returns = c_type(result.element) if result else "void"
        return f"static {returns} {symbol(name)}({', '.join(listed)})"

    def declaration(self, name: str, operands: Sequence[Type], result: Type | None) -> str:
        types = ", ".join("void *" if each.text == PTR.text else c_type(each.element) for each in operands)
        returns = c_type(result.element) if result else "void"
        return f"extern {returns} {symbol(name)}({types or 'void'});"

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        rows = ",\n".join(f"  {row}" for row in numbers_of(numbers, element))
        return f"static const {c_type(element)} {symbol(name)}[{numbers.size}] = {{\n{rows}\n}};"

    def parameter(self, name: str) -> str:
        return name

    def name(self) -> str:
        return self._new()

    def comment(self, text: str) -> None:
        self.lines.append(Line.of(comment(text)))

    # --- memory ------------------------------------------------------------------------------------------------------

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        name, type_ = self._new("p"), c_type(element)
        term = str(offset) if isinstance(offset, int) else offset.ref
        root, terms = base.ref, tuple[str, ...]((term,))
        known = self._addresses.get(base.ref)
        if known is not None and known[1] == type_:
            root, terms = known[0], (*known[2], term)
        self._addresses[name] = root, type_, terms
        index = sum_of(terms)
        size = "(int64_t)sizeof(char *)" if type_.endswith("*") else str(element.bits // 8)
        if size != "1":
            index = f"{size} * ({index})" if " " in index else f"{size} * {index}"
        self.lines.append(Line.of("", name, declares=f"{raw(root)} + {index}".replace("+ -", "- ")))
        return name

    def _access(
        self, address: str, element: ScalarType, alignment: int, lane: int = 0, *, store: bool = False
    ) -> Access:
        type_ = c_type(element)
        root, terms = address, tuple[str, ...]()
        known = self._addresses.get(address)
        if known is not None and known[1] == type_:
            root, terms = known[0], known[2]
        if lane:
            terms = (*terms, str(lane))
        return Access(root, type_, terms, alignment * 8 >= element.bits, store)

    def _each(self, address: str, element: ScalarType, alignment: int, *, store: bool = False) -> Access:
        """The memory at an address, and as many elements behind it as the lane's number."""
        access = self._access(address, element, alignment, store=store)
        return replace(access, terms=(*access.terms, "l"))

    def _loaded(self, access: Access, element: ScalarType, text: str = _ACCESS) -> str:
        return self._define(text, element, access)

    def load(self, type_: Type, address: Value, alignment: int, *, invariant: bool = False) -> str:
        element = type_.element
        if type_.lanes > FEW:
            return self._vector(_ACCESS, type_, self._each(address.ref, element, alignment))
        accesses = [self._access(address.ref, element, alignment, lane) for lane in range(type_.lanes)]
        return LANES.join(self._loaded(access, element) for access in accesses)

    def store(self, a: Value, address: Value, alignment: int, *, nontemporal: bool = False) -> None:
        element = a.type.element
        if a.type.lanes > FEW:
            access = self._each(address.ref, element, alignment, store=True)
            self.lines.append(Line.of(f"{_ACCESS} = {self._lane(a)};", access=access, lanes=a.type.lanes))
            return
        for lane, name in enumerate(self._few(a)):
            access = self._access(address.ref, element, alignment, lane, store=True)
            self.lines.append(Line.of(f"{_ACCESS} = {self._stored(name, element)};", access=access))

    @staticmethod
    def _stored(name: str, element: ScalarType) -> str:
        return raw(name) if element.text == PTR.text else name

    def masked_load(self, type_: VectorType, address: Value, mask: Value, other: Value) -> str:
        element, names = type_.element, []
        if type_.lanes > FEW:
            access = self._each(address.ref, element, self.alignment(type_))
            return self._vector(f"{self._lane(mask)} ? {_ACCESS} : {self._lane(other)}", type_, access)
        for lane, (set_, default) in enumerate(zip(lanes_of(mask), lanes_of(other), strict=True)):
            access = self._access(address.ref, element, self.alignment(type_), lane)
            names.append(self._loaded(access, element, f"{set_} ? {_ACCESS} : {default}"))
        return LANES.join(names)

    def masked_store(self, a: Value, address: Value, mask: Value) -> None:
        element = a.type.element
        if a.type.lanes > FEW:
            access = self._each(address.ref, element, self.alignment(a.type), store=True)
            text = f"if ({self._lane(mask)}) {_ACCESS} = {self._lane(a)};"
            self.lines.append(Line.of(text, access=access, lanes=a.type.lanes))
            return
        for lane, (set_, name) in enumerate(zip(lanes_of(mask), lanes_of(a), strict=True)):
            access = self._access(address.ref, element, self.alignment(a.type), lane, store=True)
            self.lines.append(Line.of(f"if ({set_}) {_ACCESS} = {name};", access=access))

    def gather(self, type_: VectorType, base: Value, offsets: Value, mask: Value, other: Value) -> str:
        element, names = type_.element, []
        if type_.lanes > FEW:
            access = Access(base.ref, c_type(element), (self._lane(offsets),))
            text = _ACCESS if mask.ref == literal(1, I1) else f"{self._lane(mask)} ? {_ACCESS} : {self._lane(other)}"
            return self._vector(text, type_, access)
        listed = zip(lanes_of(offsets), lanes_of(mask), lanes_of(other), strict=True)
        for offset, set_, default in listed:
            access = Access(base.ref, c_type(element), (offset,))
            text = _ACCESS if set_ == literal(1, I1) else f"{set_} ? {_ACCESS} : {default}"
            names.append(self._loaded(access, element, text))
        return LANES.join(names)

    def prefetch(self, address: Value, *, write: bool, locality: int) -> None:
        """Left to the processor."""

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        name, type_ = self._new("a"), c_type(element)
        self.entry.append(
            Line.of(f"{type_}{'' if type_.endswith('*') else ' '}{name}[{count.ref}];", name, array=type_)
        )
        return name

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        self.lines.append(Line.of(f"memcpy({raw(to.ref)}, {raw(source.ref)}, (size_t){self._grouped(size.ref)});"))

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        self.lines.append(Line.of(f"memset({raw(to.ref)}, {byte.ref}, (size_t){self._grouped(size.ref)});"))

    @staticmethod
    def _grouped(text: str) -> str:
        return text if re.fullmatch(r"\w+", text) else f"({text})"

    # --- one thread --------------------------------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        return self._define(f"*(volatile {c_type(type_)} *){raw(address.ref)}", type_)

    def fence(self) -> None:
        """One thread sees its own stores."""

    def pause(self, intrinsic: str, operands: Sequence[Value]) -> None:
        """Nothing to wait for."""

    def asked_to_end(self, block: Value) -> str:
        return self._define(f"shlo_is_ended({raw(block.ref)})", I1)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        listed = ", ".join(self._passed(a) for a in operands)
        text = f"{symbol(name)}({listed})"
        if result is None:
            self.lines.append(Line.of(f"{text};"))
            return ""
        called = self._new()
        self.lines.append(Line.of(f"const {c_type(result.element)} {called} = {text};"))
        self.lines.append(Line.of(f"(void){called};"))
        return called

    @staticmethod
    def _passed(a: Value) -> str:
        """An operand of a call: a pointer as one of any type, which functions have as they use it."""
        return f"(void *){raw(a.ref).removeprefix('(char *)')}" if a.type.text == PTR.text else a.ref

    def address_of(self, name: str) -> str:
        return self._define(f"(char *){symbol(name)}", PTR)

    def ret(self, value: Value | None) -> None:
        self.lines.append(Line.of(f"return {value.ref.removesuffix('u')};" if value else "return;"))

    def ret_if(self, condition: Value, value: Value | None) -> None:
        returned = f" {value.ref.removesuffix('u')}" if value else ""
        self.lines.append(Line.of(f"if ({condition.ref}) return{returned};"))

    # --- control flow ------------------------------------------------------------------------------------------------

    def _variables(self, letter: str, values: Sequence[Value], into: Lines, *, initial: bool = True) -> list[str]:
        """Variables that are assigned to, as the lanes of values of these types."""
        names = []
        for value in values:
            type_, lanes = c_type(value.type.element), list[str]()
            if value.type.lanes > FEW:
                name = self._new(letter)
                self._vectors[name] = value.type.lanes
                into.append(Line.of(f"{type_} {name}[{value.type.lanes}];", name))
                if initial:
                    into.append(Line.of(f"{name}[l] = {self._lane(value)};", name, lanes=value.type.lanes))
                names.append(name)
                continue
            for given in lanes_of(value):
                name = self._new(letter)
                lanes.append(name)
                start = f" = {self._stored(given, value.type.element)}" if initial else ""
                space = "" if type_.endswith("*") else " "
                into.append(Line.of(f"{type_}{space}{name}{start};", name))
            names.append(LANES.join(lanes))
        return names

    def _assign(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """All at once: what is assigned and read is read before."""
        pairs: list[tuple[str, str, Value]] = []
        for name, value in zip(names, values, strict=True):
            lanes = [name] if name in self._vectors else name.split(LANES)
            sources = [value.ref] if name in self._vectors else self._few(value)
            pairs += [(to, one, value) for to, one in zip(lanes, sources, strict=True) if to != one]
        targets = {to for to, _, _ in pairs}
        moved: dict[str, str] = {}
        for _, source, value in pairs:
            if source in targets and source not in moved:
                if source in self._vectors:
                    moved[source] = self._vector(f"{source}[l]", value.type)
                else:
                    moved[source] = self._define(self._stored(source, value.type.element), value.type.element)
        # Vectors first: their loops are one then.
        for to, source, value in sorted(pairs, key=lambda pair: pair[0] not in self._vectors):
            source = moved.get(source, source)
            if to in self._vectors:
                lane = f"{source}[l]" if source in self._vectors else source
                self.lines.append(Line.of(f"{to}[l] = {lane};", to, lanes=self._vectors[to]))
            else:
                self.lines.append(Line.of(f"{to} = {self._stored(source, value.type.element)};", to))

    def begin_loop(self, start: Sequence[Value], enter: Value | None) -> list[str]:
        carries = self._variables("c", start[1:], self.lines)
        head: Lines = []
        self.lines.append(head)
        index = self._new("i")
        self._open.append([head, index, start[0].ref, carries])
        return [index, *carries]

    def end_loop(self, step: Value, high: Value, results: Sequence[Value]) -> list[str]:
        head, index, first, carries = self._open.pop()
        self._assign(carries, results)  # type: ignore[arg-type]
        following = f"{index}++" if step.ref == "1" else f"{index} += {step.ref}"
        text = f"for (int64_t {index} = {first}; {index} < {high.ref}; {following}) {{"
        head.append(Line.of(text))  # type: ignore[attr-defined]
        self.lines.append(Line.of("}"))
        return carries  # type: ignore[return-value]

    def begin_while(self, carries: Sequence[Value]) -> list[str]:
        names = self._variables("c", carries, self.lines)
        self.lines.append(Line.of("for (;;) {"))
        self._open.append([names])
        return names

    def while_holds(self, condition: Value) -> None:
        self.lines.append(Line.of(f"if (!{condition.ref}) break;"))

    def end_while(self, results: Sequence[Value]) -> list[str]:
        (names,) = self._open.pop()
        self._assign(names, results)  # type: ignore[arg-type]
        self.lines.append(Line.of("}"))
        return names  # type: ignore[return-value]

    def begin_if(self, condition: Value, *, otherwise: bool, unlikely: bool) -> None:
        merged: Lines = []
        self.lines.append(merged)
        self.lines.append(Line.of(f"if ({condition.ref}) {{"))
        self._open.append([merged, None])

    def begin_else(self, results: Sequence[Value]) -> None:
        opened = self._open[-1]
        opened[1] = self._variables("m", results, opened[0], initial=False)  # type: ignore[arg-type]
        self._assign(opened[1], results)  # type: ignore[arg-type]
        self.lines.append(Line.of("} else {"))

    def end_if(self, results: Sequence[Value]) -> list[str]:
        _, names = self._open.pop()
        self._assign(names or [], results if names else [])  # type: ignore[arg-type]
        self.lines.append(Line.of("}"))
        return names or []  # type: ignore[return-value]

    def begin_switch(self, selector: Value, count: int) -> None:
        self._open.append([count])
        self.lines.append(Line.of(f"switch ({selector.ref}) {{"))

    def begin_case(self, number: int) -> None:
        (count,) = self._open[-1]
        self.lines.append(Line.of("default: {" if number == count - 1 else f"case {number}: {{"))  # type: ignore[operator]

    def end_case(self) -> None:
        self.lines.append(Line.of("break;"))
        self.lines.append(Line.of("}"))

    def end_switch(self) -> None:
        self._open.pop()
        self.lines.append(Line.of("}"))
