"""Kernels as text of MLIR's llvm dialect, for CPUs. Text, not op objects: docs/decisions.md has the measurements.

Loops are rotated: one block, whose condition stands at its end, entered behind a guard unless it is known that they
run at least once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from stablehlo_py.codegen.emitter import Emitter, flat
from stablehlo_py.codegen.target import Architecture, TargetDescription
from stablehlo_py.codegen.values import I1, PTR, ScalarType, Type, Value, VectorType
from stablehlo_py.errors import InternalError


class PointerTypes(dict[str, str]):
    """Types by their names: pointers are spelled in their own way, each address space by its number."""

    def __missing__(self, name: str) -> str:
        if name.startswith("ptr"):
            raise InternalError(f"this target has no address space for {name}")
        self[name] = name
        return name


# What MLIR requires beside the operands of some intrinsics.
_GENERIC_INTRINSICS = dict.fromkeys(("ctlz", "cttz"), "is_zero_poison = false")


@cache
def processor(target: TargetDescription) -> str:
    """Every function says for which processor it is: code does not depend on the machine that compiles it. A list of
    features that is empty says so, too: without one the compiling machine's would be taken."""
    features = ", ".join(f'"{feature}"' for feature in target.features.split(",") if feature)
    return f'target_cpu = "{target.name}", target_features = #llvm.target_features<[{features}]>'


def module_attributes(architecture: Architecture) -> str:
    """What a module says of its architecture."""
    return f'llvm.data_layout = "{architecture.data_layout}", llvm.target_triple = "{architecture.triple}"'


def llvm_module(text: str, architecture: Architecture) -> str:
    """Functions and tables as a module for an architecture."""
    return f"module attributes {{{module_attributes(architecture)}}} {{\n{text}\n}}"


class LlvmEmitter(Emitter):
    """The llvm dialect, for machines with one address space. Emitters for GPUs derive from it: they number the spaces
    and add threads, blocks, barriers."""

    static_offsets = 1 << 29  # in the dialect they are i32
    divides_as_floats = short_nans = True
    types = PointerTypes({PTR.text: "!llvm.ptr"})
    function_convention = ""  # how functions call each other, in the words of the dialect
    table_space = 0

    def __init__(self, target: TargetDescription | None = None) -> None:
        super().__init__(target)
        self._names = self._labels = self._constants = 0
        self._open: list[tuple[str, ...]] = []  # of loops and branches: labels and names that their ends need

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
            f"{value.ref}: {self.types[value.type.text]}" + (" {llvm.noalias}" if parameter in noalias else "")
            for parameter, value in parameters.items()
        )
        returns = f" -> {self.types[result.text]}" if result else ""
        linkage = "private " if private else ""
        attributes = [processor(self.target)] if self.target else []
        if not self.is_optimized:
            attributes.append("no_inline, optimize_none")
        head = f"llvm.func {linkage}@{name}({arguments}){returns} attributes {{{', '.join(attributes)}}} {{"
        return "\n".join([head, *self.entry, *flat(self.lines), "}"])

    def declaration(self, name: str, operands: Sequence[Type], result: Type | None) -> str:
        returns = f" -> {self.types[result.text]}" if result else ""
        types = ", ".join(self.types[type_.text] for type_ in operands)
        return f"llvm.func {self.function_convention}@{name}({types}){returns}"

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        # As bytes, which LLVM writes at once, not number by number. All machines that it is for are little-endian.
        content = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
        attributes = f"{{addr_space = {cls.table_space} : i32, alignment = 64 : i64}}"
        return f"llvm.mlir.global internal constant @{name}({_bytes(content)}) {attributes} : {_array(content)}"

    @classmethod
    def section(cls, name: str, section: str, content: bytes) -> str:
        attributes = f'{{addr_space = {cls.table_space} : i32, section = "{section}"}}'
        return f"llvm.mlir.global external constant @{name}({_bytes(content)}) {attributes} : {_array(content)}"

    def parameter(self, name: str) -> str:
        return f"%{name}"

    def name(self) -> str:
        self._names += 1
        return f"%{self._names}"

    def comment(self, text: str) -> None:
        self.lines.append(f"// {text}")

    def _define(self, text: str) -> str:
        self._names += 1
        ref = f"%{self._names}"
        self.lines.append(f"{ref} = {text}")
        return ref

    # --- constants ---------------------------------------------------------------------------------------------------

    def _constant(self, text: str) -> str:
        ref = f"%c{self._constants}"
        self._constants += 1
        self.entry.append(f"{ref} = {text}")
        return ref

    @staticmethod
    def _number(number: int, element: ScalarType) -> str:
        # Floats by the hex bits of their type: exact, NaN and infinities included.
        return f"0x{number:0{element.bits // 4}X}" if element.is_float else str(number)

    def constant(self, number: int, type_: Type) -> str:
        element, text = type_.element, type_.text
        body = self._number(number, element) if element is not I1 else "true" if number else "false"
        if type_.lanes > 1:
            return self._constant(f"llvm.mlir.constant(dense<{body}> : {text}) : {text}")
        if element is I1:
            return self._constant(f"llvm.mlir.constant({body}) : i1")
        return self._constant(f"llvm.mlir.constant({body} : {text}) : {text}")

    def constant_lanes(self, numbers: Sequence[int], type_: VectorType) -> str:
        body = ", ".join(self._number(number, type_.element) for number in numbers)
        return self._constant(f"llvm.mlir.constant(dense<[{body}]> : {type_.text}) : {type_.text}")

    def poison(self, type_: Type) -> str:
        return self._constant(f"llvm.mlir.poison : {self.types[type_.text]}")

    def null(self, type_: ScalarType) -> str:
        return self._constant(f"llvm.mlir.zero : {self.types[type_.text]}")

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        if no_wrap:
            return self._define(f"llvm.{name} {a.ref}, {b.ref} overflow<nsw> : {a.type.text}")
        return self._define(f"llvm.{name} {a.ref}, {b.ref} : {a.type.text}")

    def checked(self, name: str, a: Value, b: Value) -> tuple[str, str]:
        struct = "!llvm.struct<(i64, i1)>"
        pair = self._define(f'"llvm.intr.{name}.with.overflow"({a.ref}, {b.ref}) : (i64, i64) -> {struct}')
        value = self._define(f"llvm.extractvalue {pair}[0] : {struct}")
        return value, self._define(f"llvm.extractvalue {pair}[1] : {struct}")

    def fneg(self, a: Value) -> str:
        return self._define(f"llvm.fneg {a.ref} : {a.type.text}")

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        refs = ", ".join([operand.ref for operand in operands])
        types = ", ".join([operand.type.text for operand in operands])
        if name == "fmuladd" and self.target is not None and self.target.fused:
            name = "fma"  # LLVM does not fuse it on every processor that could
        if name in _GENERIC_INTRINSICS:
            properties = _GENERIC_INTRINSICS[name]
            return self._define(f'"llvm.intr.{name}"({refs}) <{{{properties}}}> : ({types}) -> {result.text}')
        return self._define(f"llvm.intr.{name}({refs}) : ({types}) -> {result.text}")

    def target_intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        refs, types = self._listed(operands)
        return self._define(f'llvm.call_intrinsic "{name}"({refs}) : ({types}) -> {self.types[result.text]}')

    def target_effect(self, name: str, operands: Sequence[Value]) -> None:
        refs, types = self._listed(operands)
        self.lines.append(f'llvm.call_intrinsic "{name}"({refs}) : ({types}) -> ()')

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        name = "fcmp" if a.type.is_float else "icmp"
        return self._define(f'llvm.{name} "{predicate}" {a.ref}, {b.ref} : {self.types[a.type.text]}')

    def select(self, condition: Value, a: Value, b: Value) -> str:
        types = f"{condition.type.text}, {self.types[a.type.text]}"
        return self._define(f"llvm.select {condition.ref}, {a.ref}, {b.ref} : {types}")

    def cast(self, name: str, a: Value, to: Type) -> str:
        return self._define(f"llvm.{name} {a.ref} : {self.types[a.type.text]} to {self.types[to.text]}")

    def bitcast(self, a: Value, to: Type) -> str:
        return self._define(f"llvm.bitcast {a.ref} : {a.type.text} to {to.text}")

    # --- vectors -----------------------------------------------------------------------------------------------------

    def insert(self, into: Value, a: Value, lane: Value) -> str:
        return self._define(f"llvm.insertelement {a.ref}, {into.ref}[{lane.ref} : i64] : {into.type.text}")

    def extract(self, a: Value, lane: Value) -> str:
        return self._define(f"llvm.extractelement {a.ref}[{lane.ref} : i64] : {a.type.text}")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> str:
        return self._define(f"llvm.shufflevector {a.ref}, {b.ref} [{', '.join(map(str, lanes))}] : {a.type.text}")

    def opaque(self, a: Value) -> str:
        return self.target_intrinsic("llvm.arithmetic.fence", [a], a.type)

    def reduce_lanes(self, kind: str, a: Value, start: Value | None) -> str:
        element = a.type.element.text
        if start is None:
            return self._define(f'"llvm.intr.vector.reduce.{kind}"({a.ref}) : ({a.type.text}) -> {element}')
        # reassoc lets the backend use its tree; the tree depends on the lanes only, so bits are reproducible.
        return self._define(
            f'"llvm.intr.vector.reduce.{kind}"({start.ref}, {a.ref}) '
            f"<{{fastmathFlags = #llvm.fastmath<reassoc>}}> : ({element}, {a.type.text}) -> {element}"
        )

    # --- memory ------------------------------------------------------------------------------------------------------

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        pointer, of = self.types[base.type.text], self.types[element.text]
        if isinstance(offset, int):
            return self._define(f"llvm.getelementptr {base.ref}[{offset}] : ({pointer}) -> {pointer}, {of}")
        return self._define(f"llvm.getelementptr {base.ref}[{offset.ref}] : ({pointer}, i64) -> {pointer}, {of}")

    def load(self, type_: Type, address: Value, alignment: int, *, invariant: bool = False) -> str:
        types = f"{self.types[address.type.text]} -> {self.types[type_.text]}"
        how = " invariant" if invariant else ""
        return self._define(f"llvm.load {address.ref}{how} {{alignment = {alignment} : i64}} : {types}")

    def store(self, a: Value, address: Value, alignment: int, *, nontemporal: bool = False) -> None:
        attributes = f"{{alignment = {alignment} : i64{', nontemporal' if nontemporal else ''}}}"
        types = f"{self.types[a.type.text]}, {self.types[address.type.text]}"
        self.lines.append(f"llvm.store {a.ref}, {address.ref} {attributes} : {types}")

    def masked_load(self, type_: VectorType, address: Value, mask: Value, other: Value) -> str:
        return self._define(
            f"llvm.intr.masked.load {address.ref}, {mask.ref}, {other.ref} "
            f"{{alignment = {self.alignment(type_)} : i32}} : "
            f"({self.types[address.type.text]}, {mask.type.text}, {type_.text}) -> {type_.text}"
        )

    def masked_store(self, a: Value, address: Value, mask: Value) -> None:
        self.lines.append(
            f"llvm.intr.masked.store {a.ref}, {address.ref}, {mask.ref} "
            f"{{alignment = {self.alignment(a.type)} : i32}} : "
            f"{a.type.text}, {mask.type.text} into {self.types[address.type.text]}"
        )

    def gather(self, type_: VectorType, base: Value, offsets: Value, mask: Value, other: Value) -> str:
        pointer = self.types[base.type.text]
        pointers = f"vector<{type_.lanes}x{pointer}>"
        addresses = self._define(
            f"llvm.getelementptr {base.ref}[{offsets.ref}] : "
            f"({pointer}, {offsets.type.text}) -> {pointers}, {type_.element.text}"
        )
        return self._define(
            f"llvm.intr.masked.gather {addresses}, {mask.ref}, {other.ref} "
            f"{{alignment = {self.alignment(type_)} : i32}} : "
            f"({pointers}, {mask.type.text}, {type_.text}) -> {type_.text}"
        )

    def prefetch(self, address: Value, *, write: bool, locality: int) -> None:
        how = f"<{{rw = {int(write)} : i32, hint = {locality} : i32, cache = 1 : i32}}>"
        self.lines.append(f'"llvm.intr.prefetch"({address.ref}) {how} : ({self.types[address.type.text]}) -> ()')

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        ref = self.name()
        type_, pointer = self.types[element.text], self.types[PTR.text]
        self.entry.append(
            f"{ref} = llvm.alloca {count.ref} x {type_} {{alignment = {alignment} : i64}} : (i64) -> {pointer}"
        )
        return ref

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        refs, types = self._listed([to, source, size])
        self.lines.append(f'"llvm.intr.memcpy"({refs}) <{{isVolatile = false}}> : ({types}) -> ()')

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        refs, types = self._listed([to, byte, size])
        self.lines.append(f'"llvm.intr.memset"({refs}) <{{isVolatile = false}}> : ({types}) -> ()')

    # --- between threads ---------------------------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        types = f"{self.types[address.type.text]} -> {self.types[type_.text]}"
        alignment = f"{{alignment = {self.alignment(type_)} : i64}}"
        return self._define(f"llvm.load {address.ref} atomic {ordering} {alignment} : {types}")

    def atomic_store(self, a: Value, address: Value) -> None:
        types = f"{self.types[a.type.text]}, {self.types[address.type.text]}"
        alignment = f"{{alignment = {self.alignment(a.type)} : i64}}"
        self.lines.append(f"llvm.store {a.ref}, {address.ref} atomic seq_cst {alignment} : {types}")

    def atomic_add(self, address: Value, a: Value, ordering: str) -> str:
        return self._atomic("add", address, a, ordering)

    def atomic_exchange(self, address: Value, a: Value) -> str:
        return self._atomic("xchg", address, a)

    def _atomic(self, name: str, address: Value, a: Value, ordering: str = "seq_cst") -> str:
        types = f"{self.types[address.type.text]}, {a.type.text}"
        return self._define(f"llvm.atomicrmw {name} {address.ref}, {a.ref} {ordering} : {types}")

    def compare_exchange(self, address: Value, expected: Value, desired: Value) -> str:
        (done,) = self._compare_exchange(address, expected, desired, "seq_cst seq_cst", (1,))
        return done

    def _compare_exchange(
        self, address: Value, expected: Value, desired: Value, orderings: str, taken: Sequence[int]
    ) -> list[str]:
        """Of what comes back, what is taken: 0: what was there; 1: whether it was replaced."""
        type_ = self.types[expected.type.text]
        refs, pointer = f"{address.ref}, {expected.ref}, {desired.ref}", self.types[address.type.text]
        pair = self._define(f"llvm.cmpxchg {refs} {orderings} : {pointer}, {type_}")
        return [self._define(f"llvm.extractvalue {pair}[{number}] : !llvm.struct<({type_}, i1)>") for number in taken]

    def fence(self) -> None:
        self.lines.append("llvm.fence seq_cst")

    def pause(self, intrinsic: str, operands: Sequence[Value]) -> None:
        refs, types = self._listed(operands)
        self.lines.append(f'llvm.call_intrinsic "{intrinsic}"({refs}) : ({types}) -> ()')

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        refs, types = self._listed(operands)
        return self._called(f"llvm.call {self.function_convention}@{name}({refs}) : ({types})", result)

    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type | None) -> str:
        refs, types = self._listed(operands)
        pointer = self.types[callee.type.text]
        return self._called(f"llvm.call {callee.ref}({refs}) : {pointer}, ({types})", result)

    def launch(
        self, kernel: str, blocks: Value, threads: Value, shared: Value | None, operands: Sequence[Value], caller: Value
    ) -> None:
        one = self.constant(1, blocks.type)
        grid, block = (f"{value.ref}, {one}, {one}" for value in (blocks, threads))
        memory = f"dynamic_shared_memory_size {shared.ref} " if shared is not None else ""
        given = ", ".join(f"{value.ref} : {self.types[value.type.text]}" for value in operands)
        self.lines.append(
            f"gpu.launch_func <{caller.ref} : {self.types[caller.type.text]}> {kernel} blocks in ({grid}) "
            f"threads in ({block}) : {blocks.type.text} {memory}args({given})"
        )

    def _called(self, text: str, result: Type | None) -> str:
        if result is not None:
            return self._define(f"{text} -> {self.types[result.text]}")
        self.lines.append(f"{text} -> ()")
        return ""

    def address_of(self, name: str) -> str:
        return self._define(f"llvm.mlir.addressof @{name} : {self.types[PTR.text]}")

    def ret(self, value: Value | None) -> None:
        self.lines.append(f"llvm.return {value.ref} : {self.types[value.type.text]}" if value else "llvm.return")

    def ret_if(self, condition: Value, value: Value | None) -> None:
        leave, go_on = self._label(), self._label()
        self.lines.append(f"llvm.cond_br {condition.ref}, {leave}, {go_on}")
        self.lines.append(f"{leave}:")
        self.ret(value)
        self.lines.append(f"{go_on}:")

    # --- control flow ------------------------------------------------------------------------------------------------

    def begin_loop(self, start: Sequence[Value], enter: Value | None) -> list[str]:
        head, done = self._label(), self._label()
        if enter is None:
            self.lines.append(f"llvm.br {self._to(head, start)}")
        else:
            self.lines.append(f"llvm.cond_br {enter.ref}, {self._to(head, start)}, {self._to(done, start[1:])}")
        names = self._block(head, start)
        self._open.append((head, done, names[0], "" if enter is None else "guarded"))
        return names

    def end_loop(self, step: Value, high: Value, results: Sequence[Value]) -> list[str]:
        head, done, index, guarded = self._open.pop()
        following = self._define(f"llvm.add {index}, {step.ref} overflow<nsw, nuw> : i64")
        # An identity that LLVM's loop analysis does not look through: strength reduction takes up to 40 % of the
        # compile time and gains nothing here, as addresses are base pointers with constant offsets already.
        following = self._define(f"llvm.intr.expect {following}, {following} : i64")
        again = self._define(f'llvm.icmp "slt" {following}, {high.ref} : i64')
        back = self._to(head, [Value(following, step.type), *results])
        self.lines.append(f"llvm.cond_br {again}, {back}, {self._to(done, results if guarded else ())}")
        if guarded:
            return self._block(done, results)
        self._block(done, ())
        return [value.ref for value in results]

    def begin_while(self, carries: Sequence[Value]) -> list[str]:
        head, inside, done = self._label(), self._label(), self._label()
        self.lines.append(f"llvm.br {self._to(head, carries)}")
        names = self._block(head, carries)
        self._open.append((head, inside, done, *names))
        return names

    def while_holds(self, condition: Value) -> None:
        _, inside, done, *_ = self._open[-1]
        self.lines.append(f"llvm.cond_br {condition.ref}, {inside}, {done}")
        self._block(inside, ())

    def end_while(self, results: Sequence[Value]) -> list[str]:
        head, _, done, *names = self._open.pop()
        self.lines.append(f"llvm.br {self._to(head, results)}")
        self._block(done, ())
        return names

    def begin_if(self, condition: Value, *, otherwise: bool, unlikely: bool) -> None:
        yes, no, done = self._label(), self._label(), self._label()
        weights = " weights([1, 1000000])" if unlikely else ""
        self.lines.append(f"llvm.cond_br {condition.ref}{weights}, {yes}, {no if otherwise else done}")
        self._block(yes, ())
        self._open.append((no, done))

    def begin_else(self, results: Sequence[Value]) -> None:
        no, done = self._open[-1]
        self.lines.append(f"llvm.br {self._to(done, results)}")
        self._block(no, ())

    def end_if(self, results: Sequence[Value]) -> list[str]:
        _, done = self._open.pop()
        self.lines.append(f"llvm.br {self._to(done, results)}")
        return self._block(done, results)

    def begin_switch(self, selector: Value, count: int) -> None:
        labels, done = [self._label() for _ in range(count)], self._label()
        table = ", ".join(f"{number}: {label}" for number, label in enumerate(labels[:-1]))
        self.lines.append(f"llvm.switch {selector.ref} : i32, {labels[-1]} [{table}]")
        self._open.append((*labels, done))

    def begin_case(self, number: int) -> None:
        self._block(self._open[-1][number], ())

    def end_case(self) -> None:
        self.lines.append(f"llvm.br {self._open[-1][-1]}")

    def end_switch(self) -> None:
        self._block(self._open.pop()[-1], ())

    def _label(self) -> str:
        self._labels += 1
        return f"^b{self._labels}"

    def _listed(self, values: Sequence[Value]) -> tuple[str, str]:
        """The names of values, and their types."""
        return ", ".join([value.ref for value in values]), ", ".join([self.types[value.type.text] for value in values])

    def _to(self, label: str, values: Sequence[Value]) -> str:
        """Where a branch goes, with the arguments of the block."""
        if not values:
            return label
        refs, types = self._listed(values)
        return f"{label}({refs} : {types})"

    def _block(self, label: str, values: Sequence[Value]) -> list[str]:
        """Begin a block that takes values of these types; the names of its arguments."""
        names = [self.name() for _ in values]
        listed = ", ".join(f"{name}: {self.types[value.type.text]}" for name, value in zip(names, values, strict=True))
        self.lines.append(f"{label}({listed}):" if values else f"{label}:")
        return names


def _bytes(content: bytes) -> str:
    return f'dense<"0x{content.hex().upper()}"> : tensor<{len(content)}xi8>'


def _array(content: bytes) -> str:
    return f"!llvm.array<{len(content)} x i8>"


def external_data(name: str) -> str:
    """The declaration of read-only data that another module defines."""
    return f"llvm.mlir.global external constant @{name}() {{addr_space = 0 : i32}} : !llvm.ptr"
