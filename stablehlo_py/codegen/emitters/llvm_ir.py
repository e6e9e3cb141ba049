"""Kernels as LLVM IR, for CPUs, as LLVM reads it from version 22 on: intrinsics go without their declarations and
without the types in their names.

The llvm dialect (emitters/llvm.py) becomes the same IR. MLIR takes a quarter of the time for that in which LLVM makes
machine code, so what is compiled at once is written here.

Blocks take no arguments here: they begin with a phi for each, which names the blocks that lead there. Which block a
branch ends is known when all code is in its place: what is hoisted later may have blocks of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from stablehlo_py.codegen.emitter import Emitter, flat
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.values import BF16, F16, F32, I1, PTR, ScalarType, Type, Value, VectorType
from stablehlo_py.errors import InternalError


class _Types(dict[str, str]):
    """Types by their names."""

    def __missing__(self, name: str) -> str:
        if name.startswith("vector<"):
            lanes, _, element = name[len("vector<") : -1].partition("x")
            made = f"<{lanes} x {self[element]}>"
        elif name.startswith("ptr"):
            raise InternalError(f"this target has no address space for {name}")
        else:
            made = name
        self[name] = made
        return made


_TYPES = _Types({"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", PTR.text: "ptr"})
_PREFIXES = {F16: "0xH", BF16: "0xR"}
ALIGNMENT = 64  # bytes, of tables
# What LLVM requires beside the operands of some intrinsics.
_FLAGS = dict.fromkeys(("ctlz", "cttz"), "i1 false")


@cache
def _processor(target: TargetDescription) -> str:
    """What a function says of the processor that it is for."""
    return f'"target-cpu"="{target.name}" "target-features"="{target.features}"'


def _typed(value: Value) -> str:
    return f"{_TYPES[value.type.text]} {value.ref}"


def _listed(values: Sequence[Value]) -> str:
    return ", ".join([f"{_TYPES[value.type.text]} {value.ref}" for value in values])


@dataclass(frozen=True)
class _Block:
    """A block, and by the labels of those that lead to it what they pass on."""

    label: str
    names: Sequence[str] = ()
    types: Sequence[str] = ()
    passed: dict[str, Sequence[Value]] = field(default_factory=dict)

    def text(self) -> str:
        """How it begins. What leads to it last comes first, as MLIR has it: registers depend on the order."""
        lines, passed = [f"{self.label}:"], [*reversed(self.passed.items())]
        for number, (name, type_) in enumerate(zip(self.names, self.types, strict=True)):
            sources = ", ".join(f"[ {values[number].ref}, %{label} ]" for label, values in passed)
            lines.append(f"{name} = phi {type_} {sources}")
        return "\n".join(lines)


class _Begin(str):
    """The line where a block begins."""

    block: _Block


class _Branch(str):
    """The line that ends one, and what it passes on to others."""

    passed: Sequence[tuple[_Block, Sequence[Value]]]


def _joined(lines: Iterable[str]) -> list[str]:
    """The lines, with what blocks begin with."""
    lines, label = list(lines), "entry"
    begins: list[tuple[int, _Block]] = []
    for number, line in enumerate(lines):
        if type(line) is str:
            continue
        if isinstance(line, _Begin):
            label = line.block.label
            begins.append((number, line.block))
        elif isinstance(line, _Branch):
            for block, values in line.passed:
                block.passed[label] = values
    for number, block in begins:
        lines[number] = block.text()
    return lines


_OPTIMIZED, _UNOPTIMIZED = " nounwind", " nounwind noinline optnone"  # attributes of functions


def unoptimized(text: str) -> str:
    """Functions, as LLVM is to compile them in less time."""
    return text.replace(f"){_OPTIMIZED} ", f"){_UNOPTIMIZED} ")


class LlvmIrEmitter(Emitter):
    """LLVM IR, for machines with one address space."""

    static_offsets = 1 << 29  # as in the llvm dialect
    divides_as_floats = short_nans = True

    def __init__(self, target: TargetDescription | None = None) -> None:
        super().__init__(target)
        self._names = self._labels = 0
        self._open: list[tuple[_Block, ...]] = []  # of loops and branches: blocks that their ends need

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
        arguments = ", ".join(
            f"{_TYPES[value.type.text]}{' noalias' if parameter in noalias else ''} {value.ref}"
            for parameter, value in parameters.items()
        )
        linkage, processor = "private " if private else "", _processor(self.target) if self.target else ""
        returned = _TYPES[result.text] if result else "void"
        # No exception goes through generated code, and frames of the unwinder would be left out (linker.py).
        effort = _OPTIMIZED if self.is_optimized else _UNOPTIMIZED
        head = f"define {linkage}{returned} @{name}({arguments}){effort} {processor} {{"
        return "\n".join([head, "entry:", *self.entry, *_joined(flat(self.lines)), "}"])

    def declaration(self, name: str, operands: Sequence[Type], result: Type | None) -> str:
        types = ", ".join(_TYPES[type_.text] for type_ in operands)
        return f"declare {_TYPES[result.text] if result else 'void'} @{name}({types})"

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        little = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
        return f"@{name} = internal constant {_bytes(little)}, align {ALIGNMENT}"

    @classmethod
    def section(cls, name: str, section: str, content: bytes) -> str:
        return f'@{name} = constant {_bytes(content)}, section "{section}"'

    def parameter(self, name: str) -> str:
        return f"%{name}"

    def name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def comment(self, text: str) -> None:
        self.lines.append(f"; {text}")

    def _define(self, text: str) -> str:
        self._names += 1
        ref = f"%v{self._names}"
        self.lines.append(f"{ref} = {text}")
        return ref

    # --- constants: no code, they stand where they are used ----------------------------------------------------------

    @staticmethod
    def _number(number: int, element: ScalarType) -> str:
        """Floats by their bits, those of f32 by the double of the same value."""
        if element is I1:
            return "true" if number else "false"
        if not element.is_float:
            return str(number)
        if element is F32:
            return f"0x{double_bits(number):016X}"
        return f"{_PREFIXES.get(element, '0x')}{number:0{element.bits // 4}X}"

    def constant(self, number: int, type_: Type) -> str:
        body = self._number(number, type_.element)
        return f"splat ({_TYPES[type_.element.text]} {body})" if type_.lanes > 1 else body

    def constant_lanes(self, numbers: Sequence[int], type_: VectorType) -> str:
        element = _TYPES[type_.element.text]
        return f"<{', '.join([f'{element} {self._number(number, type_.element)}' for number in numbers])}>"

    def poison(self, type_: Type) -> str:
        return "poison"

    def null(self, type_: ScalarType) -> str:
        return "null"

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        return self._define(f"{name}{' nsw' if no_wrap else ''} {_typed(a)}, {b.ref}")

    def checked(self, name: str, a: Value, b: Value) -> tuple[str, str]:
        pair = self._define(f"call {{ i64, i1 }} @llvm.{name}.with.overflow({_listed([a, b])})")
        return self._part(pair, "{ i64, i1 }", 0), self._part(pair, "{ i64, i1 }", 1)

    def _part(self, pair: str, type_: str, number: int) -> str:
        return self._define(f"extractvalue {type_} {pair}, {number}")

    def fneg(self, a: Value) -> str:
        return self._define(f"fneg {_typed(a)}")

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        if name == "fmuladd" and self.target is not None and self.target.fused:
            name = "fma"  # LLVM does not fuse it on every processor that could
        flags = f", {_FLAGS[name]}" if name in _FLAGS else ""
        return self._define(f"call {_TYPES[result.text]} @llvm.{name}({_listed(operands)}{flags})")

    def target_intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        return self._define(f"call {_TYPES[result.text]} @{name}({_listed(operands)})")

    def target_effect(self, name: str, operands: Sequence[Value]) -> None:
        self.lines.append(f"call void @{name}({_listed(operands)})")

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        return self._define(f"{'fcmp' if a.type.is_float else 'icmp'} {predicate} {_typed(a)}, {b.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> str:
        return self._define(f"select {_typed(condition)}, {_typed(a)}, {_typed(b)}")

    def cast(self, name: str, a: Value, to: Type) -> str:
        return self._define(f"{name} {_typed(a)} to {_TYPES[to.text]}")

    def bitcast(self, a: Value, to: Type) -> str:
        return self._define(f"bitcast {_typed(a)} to {_TYPES[to.text]}")

    # --- vectors -----------------------------------------------------------------------------------------------------

    def insert(self, into: Value, a: Value, lane: Value) -> str:
        return self._define(f"insertelement {_typed(into)}, {_typed(a)}, {_typed(lane)}")

    def extract(self, a: Value, lane: Value) -> str:
        return self._define(f"extractelement {_typed(a)}, {_typed(lane)}")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> str:
        return self._define(f"shufflevector {_typed(a)}, {_typed(b)}, {_lane_numbers(tuple(lanes))}")

    def opaque(self, a: Value) -> str:
        return self.target_intrinsic("llvm.arithmetic.fence", [a], a.type)

    def reduce_lanes(self, kind: str, a: Value, start: Value | None) -> str:
        element = _TYPES[a.type.element.text]
        if start is None:
            return self._define(f"call {element} @llvm.vector.reduce.{kind}({_typed(a)})")
        # reassoc lets LLVM use its tree; the tree depends on the lanes only, so bits are reproducible.
        return self._define(f"call reassoc {element} @llvm.vector.reduce.{kind}({_typed(start)}, {_typed(a)})")

    # --- memory ------------------------------------------------------------------------------------------------------

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        by = f"i32 {offset}" if isinstance(offset, int) else _typed(offset)
        return self._define(f"getelementptr {_TYPES[element.text]}, {_typed(base)}, {by}")

    def load(self, type_: Type, address: Value, alignment: int, *, invariant: bool = False) -> str:
        how = ", !invariant.load !{}" if invariant else ""
        return self._define(f"load {_TYPES[type_.text]}, {_typed(address)}, align {alignment}{how}")

    def store(self, a: Value, address: Value, alignment: int, *, nontemporal: bool = False) -> None:
        how = ", !nontemporal !{i32 1}" if nontemporal else ""
        self.lines.append(f"store {_typed(a)}, {_typed(address)}, align {alignment}{how}")

    def masked_load(self, type_: VectorType, address: Value, mask: Value, other: Value) -> str:
        place = f"{_TYPES[address.type.text]} align {self.alignment(type_)} {address.ref}"
        return self._define(f"call {_TYPES[type_.text]} @llvm.masked.load({place}, {_listed([mask, other])})")

    def masked_store(self, a: Value, address: Value, mask: Value) -> None:
        place = f"{_TYPES[address.type.text]} align {self.alignment(a.type)} {address.ref}"
        self.lines.append(f"call void @llvm.masked.store({_typed(a)}, {place}, {_typed(mask)})")

    def gather(self, type_: VectorType, base: Value, offsets: Value, mask: Value, other: Value) -> str:
        addresses = self._define(f"getelementptr {_TYPES[type_.element.text]}, {_listed([base, offsets])}")
        place = f"<{type_.lanes} x {_TYPES[base.type.text]}> align {self.alignment(type_)} {addresses}"
        return self._define(f"call {_TYPES[type_.text]} @llvm.masked.gather({place}, {_listed([mask, other])})")

    def prefetch(self, address: Value, *, write: bool, locality: int) -> None:
        self.lines.append(f"call void @llvm.prefetch({_typed(address)}, i32 {int(write)}, i32 {locality}, i32 1)")

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        ref = self.name()
        self.entry.append(f"{ref} = alloca {_TYPES[element.text]}, {_typed(count)}, align {alignment}")
        return ref

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        self.lines.append(f"call void @llvm.memcpy({_listed([to, source, size])}, i1 false)")

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        self.lines.append(f"call void @llvm.memset({_listed([to, byte, size])}, i1 false)")

    # --- between threads ---------------------------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        alignment = self.alignment(type_)
        return self._define(f"load atomic {_TYPES[type_.text]}, {_typed(address)} {ordering}, align {alignment}")

    def atomic_store(self, a: Value, address: Value) -> None:
        self.lines.append(f"store atomic {_typed(a)}, {_typed(address)} seq_cst, align {self.alignment(a.type)}")

    def atomic_add(self, address: Value, a: Value, ordering: str) -> str:
        return self._define(f"atomicrmw add {_typed(address)}, {_typed(a)} {ordering}")

    def atomic_exchange(self, address: Value, a: Value) -> str:
        return self._define(f"atomicrmw xchg {_typed(address)}, {_typed(a)} seq_cst")

    def compare_exchange(self, address: Value, expected: Value, desired: Value) -> str:
        pair = self._define(f"cmpxchg {_listed([address, expected, desired])} seq_cst seq_cst")
        return self._part(pair, f"{{ {_TYPES[expected.type.text]}, i1 }}", 1)

    def fence(self) -> None:
        self.lines.append("fence seq_cst")

    def pause(self, intrinsic: str, operands: Sequence[Value]) -> None:
        self.target_effect(intrinsic, operands)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        return self._called(f"@{name}({_listed(operands)})", result)

    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type | None) -> str:
        return self._called(f"{callee.ref}({_listed(operands)})", result)

    def _called(self, text: str, result: Type | None) -> str:
        if result is not None:
            return self._define(f"call {_TYPES[result.text]} {text}")
        self.lines.append(f"call void {text}")
        return ""

    def address_of(self, name: str) -> str:
        return f"@{name}"

    def ret(self, value: Value | None) -> None:
        self.lines.append(f"ret {_typed(value)}" if value else "ret void")

    def ret_if(self, condition: Value, value: Value | None) -> None:
        leave, go_on = self._block(), self._block()
        self._branch(condition, leave, go_on)
        self._begin(leave)
        self.ret(value)
        self._begin(go_on)

    # --- control flow ------------------------------------------------------------------------------------------------

    def begin_loop(self, start: Sequence[Value], enter: Value | None) -> list[str]:
        head, done = self._block(start), self._block(start[1:] if enter is not None else ())
        if enter is None:
            self._jump(head, start)
        else:
            self._branch(enter, head, done, start, start[1:])
        self._begin(head)
        self._open.append((head, done))
        return list(head.names)

    def end_loop(self, step: Value, high: Value, results: Sequence[Value]) -> list[str]:
        head, done = self._open.pop()
        following = self._define(f"add nuw nsw i64 {head.names[0]}, {step.ref}")
        # An identity that LLVM's loop analysis does not look through: strength reduction takes up to 40 % of the
        # compile time and gains nothing here, as addresses are base pointers with constant offsets already.
        following = self._define(f"call i64 @llvm.expect(i64 {following}, i64 {following})")
        again = Value(self._define(f"icmp slt i64 {following}, {high.ref}"), I1)
        self._branch(again, head, done, [Value(following, step.type), *results], results if done.names else ())
        self._begin(done)
        return list(done.names) or [value.ref for value in results]

    def begin_while(self, carries: Sequence[Value]) -> list[str]:
        head, inside, done = self._block(carries), self._block(), self._block()
        self._jump(head, carries)
        self._begin(head)
        self._open.append((head, inside, done))
        return list(head.names)

    def while_holds(self, condition: Value) -> None:
        _, inside, done = self._open[-1]
        self._branch(condition, inside, done)
        self._begin(inside)

    def end_while(self, results: Sequence[Value]) -> list[str]:
        head, _, done = self._open.pop()
        self._jump(head, results)
        self._begin(done)
        return list(head.names)

    def begin_if(self, condition: Value, *, otherwise: bool, unlikely: bool) -> None:
        yes, no, done = self._block(), self._block(), self._block()
        self._branch(condition, yes, no if otherwise else done, unlikely=unlikely)
        self._begin(yes)
        self._open.append((no, done))

    def begin_else(self, results: Sequence[Value]) -> None:
        no, done = self._open.pop()
        merged = self._block(results, done.label)
        self._jump(merged, results)
        self._begin(no)
        self._open.append((no, merged))

    def end_if(self, results: Sequence[Value]) -> list[str]:
        _, done = self._open.pop()
        self._jump(done, results)
        self._begin(done)
        return list(done.names)

    def begin_switch(self, selector: Value, count: int) -> None:
        cases, done = [self._block() for _ in range(count)], self._block()
        table = " ".join(f"i32 {number}, label %{case.label}" for number, case in enumerate(cases[:-1]))
        self.lines.append(f"switch {_typed(selector)}, label %{cases[-1].label} [ {table} ]")
        self._open.append((*cases, done))

    def begin_case(self, number: int) -> None:
        self._begin(self._open[-1][number])

    def end_case(self) -> None:
        self._jump(self._open[-1][-1])

    def end_switch(self) -> None:
        self._begin(self._open.pop()[-1])

    def _block(self, values: Sequence[Value] = (), label: str = "") -> _Block:
        """A block that takes values of these types."""
        if not label:
            self._labels += 1
            label = f"block{self._labels}"
        return _Block(label, [self.name() for _ in values], [_TYPES[value.type.text] for value in values])

    def _begin(self, block: _Block) -> None:
        line = _Begin(f"{block.label}:")
        line.block = block
        self.lines.append(line)

    def _jump(self, block: _Block, values: Sequence[Value] = ()) -> None:
        line = _Branch(f"br label %{block.label}")
        line.passed = [(block, values)]
        self.lines.append(line)

    def _branch(
        self,
        condition: Value,
        yes: _Block,
        no: _Block,
        values: Sequence[Value] = (),
        others: Sequence[Value] = (),
        *,
        unlikely: bool = False,
    ) -> None:
        weights = ', !prof !{!"branch_weights", i32 1, i32 1000000}' if unlikely else ""
        line = _Branch(f"br {_typed(condition)}, label %{yes.label}, label %{no.label}{weights}")
        line.passed = [(yes, values), (no, others)]
        self.lines.append(line)


def double_bits(bits: int) -> int:
    """The bits of the double of the same value as those of an f32; the payload of a NaN stays."""
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return sign << 63 | 0x7FF << 52 | mantissa << 29
    if exponent:
        return sign << 63 | (exponent + 896) << 52 | mantissa << 29
    if not mantissa:
        return sign << 63
    lead = mantissa.bit_length() - 1  # a subnormal one: 2^(lead - 149) and a fraction
    return sign << 63 | (lead + 874) << 52 | (mantissa ^ 1 << lead) << (52 - lead)


@lru_cache(maxsize=1024)
def _lane_numbers(lanes: tuple[int, ...]) -> str:
    """The last operand of a shuffle. A number in all lanes has one word, which is read in less time."""
    if any(lanes):
        listed = ", ".join([f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in lanes])
        return f"<{len(lanes)} x i32> <{listed}>"
    return f"<{len(lanes)} x i32> zeroinitializer"


def _bytes(content: bytes) -> str:
    escape = "\\"
    listed = f"{escape}{content.hex(escape)}" if content else ""
    return f'[{len(content)} x i8] c"{listed}"'


class TableApart(str):
    """The declaration of a table that another object file has. It names a digest of the `content`: where that differs,
    so does the text."""

    content: bytes


class LlvmIrWithoutTables(LlvmIrEmitter):
    """The same, but long tables are declared only (`TableApart`): LLVM takes 8 ms for a megabyte that it would read,
    and write as it is."""

    LONG = 4096  # bytes

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        if numbers.nbytes < cls.LONG:
            return super().table(name, numbers, element)
        content = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
        digest = hashlib.blake2b(content).hexdigest()
        declared = TableApart(f"@{name} = external constant [{len(content)} x i8], align {ALIGNMENT} ; {digest}")
        declared.content = content
        return declared
