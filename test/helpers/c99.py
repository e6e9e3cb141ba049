"""A second emitter: kernels as C99, with what GCC and Clang add (`__builtin_`, `__atomic_`). It holds the interface to
what it promises: structured control flow stays structured, and no name of the llvm dialect is needed.

Scalars, and vectors as far as they need no masks: kernels that are emitted with one lane need no more. Compile without
contraction of products and sums (`-ffp-contract=off`), else the bits differ."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.codegen.emitter import Emitter, Lines, flat
from stablehlo_py.codegen.values import I1, PTR, ScalarType, Type, Value, VectorType

PRELUDE = """\
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float shlo_bits_f32(uint32_t bits) { float a; memcpy(&a, &bits, sizeof a); return a; }
static inline double shlo_bits_f64(uint64_t bits) { double a; memcpy(&a, &bits, sizeof a); return a; }
/* NaN wins, -0 < +0. */
#define SHLO_EXTREMES(T, suffix) \\
  static inline T shlo_maximum_##suffix(T a, T b) { \\
    return isunordered(a, b) ? a + b : a == b ? (signbit(a) ? b : a) : a > b ? a : b; } \\
  static inline T shlo_minimum_##suffix(T a, T b) { \\
    return isunordered(a, b) ? a + b : a == b ? (signbit(a) ? a : b) : a < b ? a : b; }
SHLO_EXTREMES(float, f32)
SHLO_EXTREMES(double, f64)
"""

_FLOATS = {"f32": ("<I", "<f"), "f64": ("<Q", "<d")}
_OPERATORS = {
    **dict.fromkeys(("add", "fadd"), "+"),
    **dict.fromkeys(("sub", "fsub"), "-"),
    **dict.fromkeys(("mul", "fmul"), "*"),
    **dict.fromkeys(("sdiv", "udiv", "fdiv"), "/"),
    **dict.fromkeys(("srem", "urem"), "%"),
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "lshr": ">>",
    "ashr": ">>",
}
_SIGNED = ("sdiv", "srem", "ashr")
_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MATH = {"sqrt", "fabs", "floor", "ceil", "trunc", "copysign", "fma"}
_MATH_NAMES = {**{name: name for name in _MATH}, "roundeven": "rint", "fmuladd": "fma"}
_ORDERINGS = {"seq_cst": "__ATOMIC_SEQ_CST", "monotonic": "__ATOMIC_RELAXED"}


def _unsigned(type_: Type) -> str:
    """The type in which integers wrap around: at least 32 bits, since C promotes smaller ones to signed."""
    return f"uint{max(32, type_.bits)}_t"


class C99Emitter(Emitter):
    """One function of C99. Values are variables, each assigned once, but those that loops and branches carry."""

    types = {
        **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
        "i1": "_Bool",
        "f32": "float",
        "f64": "double",
        PTR.text: "char *",
    }

    def __init__(self) -> None:
        super().__init__()
        self._names = 0
        self._open: list[tuple[Lines, list[str]]] = []  # of loops and branches: where to declare, what they carry

    def _type(self, type_: Type | None) -> str:
        if type_ is None:
            return "void"
        element = type_.element
        if element.text not in self.types or (element is I1 and type_.lanes > 1):
            raise self.lacks(f"type {type_}")
        vector = f"__attribute__((vector_size({type_.lanes * type_.bits // 8}))) " if type_.lanes > 1 else ""
        return vector + self.types[element.text]

    def _define(self, type_: Type, expression: str) -> str:
        ref = self.name()
        self.lines.append(f"{self._type(type_)} {ref} = {expression};")
        return ref

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
            f"{self._type(value.type)} {'restrict ' if parameter in noalias else ''}{value.ref}"
            for parameter, value in parameters.items()
        )
        text = [f"{'static ' if private else ''}{self._type(result)} {name}({arguments or 'void'}) {{"]
        depth = 1
        for line in [*self.entry, *flat(self.lines)]:
            depth -= line.startswith("}")
            text.append("  " * depth + line)
            depth += line.endswith("{")
        return "\n".join([*text, "}"])

    def declaration(self, name: str, operands: Sequence[Type], result: Type | None) -> str:
        return f"extern {self._type(result)} {name}({', '.join(map(self._type, operands)) or 'void'});"

    @classmethod
    def table(cls, name: str, numbers: np.ndarray, element: ScalarType) -> str:
        listed = ", ".join(number.hex() if element.is_float else f"{number}" for number in numbers.tolist())
        return f"static const {cls.types[element.text]} {name}[] __attribute__((aligned(64))) = {{{listed}}};"

    def parameter(self, name: str) -> str:
        return name

    def name(self) -> str:
        self._names += 1
        return f"_{self._names}"

    def comment(self, text: str) -> None:
        self.lines.append(f"// {text}")

    # --- constants ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _literal(number: int, element: ScalarType) -> str:
        if not element.is_float:
            return f"{number}" if number > -(1 << 63) else f"{number + 1} - 1"
        integer, floating = _FLOATS[element.text]
        (value,) = struct.unpack(floating, struct.pack(integer, number))
        return value.hex() + "f" * (element.bits == 32) if np.isfinite(value) else f"shlo_bits_{element}({number:#x})"

    def constant(self, number: int, type_: Type) -> str:
        if isinstance(type_, VectorType):
            return self.constant_lanes([number] * type_.lanes, type_)
        ref = self.name()
        self.entry.append(f"{self._type(type_)} {ref} = {self._literal(number, type_)};")
        return ref

    def constant_lanes(self, numbers: Sequence[int], type_: VectorType) -> str:
        ref, listed = self.name(), ", ".join(self._literal(number, type_.element) for number in numbers)
        self.entry.append(f"{self._type(type_)} {ref} = {{{listed}}};")
        return ref

    def poison(self, type_: Type) -> str:
        return self.constant(0, type_)

    def null(self, type_: ScalarType) -> str:
        return self.constant(0, type_)

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        type_ = a.type
        if name == "frem":
            return self._define(type_, f"fmod{'f' * (type_.bits == 32)}({a.ref}, {b.ref})")
        if type_.lanes > 1 and not type_.is_float:
            raise self.lacks(f"binary {name} of {type_}")
        operator = _OPERATORS[name]
        if type_.element is I1:
            operator = {"+": "^", "-": "^", "*": "&"}.get(operator, operator)
        elif not type_.is_float and not no_wrap and name not in _SIGNED:
            word, own = _unsigned(type_), f"(uint{type_.bits}_t)"
            return self._define(type_, f"({word}){own}{a.ref} {operator} ({word}){own}{b.ref}")
        return self._define(type_, f"{a.ref} {operator} {b.ref}")

    def checked(self, name: str, a: Value, b: Value) -> tuple[str, str]:
        value = self.name()
        self.lines.append(f"int64_t {value};")
        return value, self._define(I1, f"__builtin_{name[1:]}_overflow({a.ref}, {b.ref}, &{value})")

    def fneg(self, a: Value) -> str:
        return self._define(a.type, f"-{a.ref}")

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        refs, bits = [operand.ref for operand in operands], result.bits
        listed = ", ".join(refs)
        if name in _MATH_NAMES:
            return self._define(result, f"{_MATH_NAMES[name]}{'f' * (bits == 32)}({listed})")
        if name in ("maximum", "minimum"):
            return self._define(result, f"shlo_{name}_{result}({listed})")
        sign = f"(uint{bits}_t)" if name.startswith("u") else ""
        if name[1:] in ("max", "min"):
            a, b = refs
            relation = ">" if name.endswith("max") else "<"
            return self._define(result, f"{sign}{a} {relation} {sign}{b} ? {a} : {b}")
        own = f"(uint{bits}_t)"
        if name == "ctpop":
            return self._define(result, f"__builtin_popcountll({own}{refs[0]})")
        if name == "ctlz":
            return self._define(result, f"{refs[0]} ? __builtin_clzll({own}{refs[0]}) - {64 - bits} : {bits}")
        if name == "fshl":
            a, b, by = refs
            left, right = f"{own}{a} << ({by} & {bits - 1})", f"{own}{b} >> 1 >> (~{by} & {bits - 1})"
            return self._define(result, f"({left}) | ({right})")
        raise self.lacks(f"intrinsic {name}")

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        left, right = a.ref, b.ref
        if not a.type.is_float:
            if predicate.startswith("u"):
                left, right = f"(uint{a.type.bits}_t){left}", f"(uint{a.type.bits}_t){right}"
            return self._define(I1, f"{left} {_RELATIONS[predicate[-2:]]} {right}")
        if predicate in ("ord", "uno"):
            return self._define(I1, f"{'!' * (predicate == 'ord')}isunordered({left}, {right})")
        ordered = (predicate.startswith("o") and predicate != "one") or predicate == "une"
        relation = f"{left} {_RELATIONS[predicate[1:]]} {right}"
        return self._define(I1, relation if ordered else self._unordered(predicate, relation, left, right))

    @staticmethod
    def _unordered(predicate: str, relation: str, left: str, right: str) -> str:
        """In C every relation but != is false of a NaN."""
        if predicate == "one":
            return f"{relation} && !isunordered({left}, {right})"
        return f"{relation} || isunordered({left}, {right})"

    def select(self, condition: Value, a: Value, b: Value) -> str:
        return self._define(a.type, f"{condition.ref} ? {a.ref} : {b.ref}")

    def cast(self, name: str, a: Value, to: Type) -> str:
        source, target = a.type, self._type(to)
        if name == "bitcast":
            return self.bitcast(a, to)
        if name in ("zext", "uitofp") and source.element is not I1:
            return self._define(to, f"({target})(uint{source.bits}_t){a.ref}")
        if name == "fptoui":
            return self._define(to, f"({target})(uint{to.bits}_t){a.ref}")
        if name in ("sext", "sitofp") and source.element is I1:
            return self._define(to, f"({target})-{a.ref}")
        if name == "trunc" and to.element is I1:
            return self._define(to, f"{a.ref} & 1")
        through = "(intptr_t)" if name in ("ptrtoint", "inttoptr") else ""
        return self._define(to, f"({target}){through}{a.ref}")

    def bitcast(self, a: Value, to: Type) -> str:
        ref = self.name()
        self.lines.append(f"{self._type(to)} {ref}; memcpy(&{ref}, &{a.ref}, sizeof {ref});")
        return ref

    # --- vectors -----------------------------------------------------------------------------------------------------

    def insert(self, into: Value, a: Value, lane: Value) -> str:
        ref = self._define(into.type, into.ref)
        self.lines.append(f"{ref}[{lane.ref}] = {a.ref};")
        return ref

    def extract(self, a: Value, lane: Value) -> str:
        return self._define(a.type.element, f"{a.ref}[{lane.ref}]")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> str:
        indices = ", ".join(map(str, lanes))
        return self._define(
            VectorType(len(lanes), a.type.element), f"__builtin_shufflevector({a.ref}, {b.ref}, {indices})"
        )

    # --- memory: bytes, which any type may be copied from and to -----------------------------------------------------

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        by = offset if isinstance(offset, int) else offset.ref
        return self._define(base.type, f"{base.ref} + {by} * (int64_t)sizeof({self._type(element)})")

    def load(self, type_: Type, address: Value, alignment: int, *, invariant: bool = False) -> str:
        ref = self.name()
        self.lines.append(f"{self._type(type_)} {ref}; memcpy(&{ref}, {address.ref}, sizeof {ref});")
        return ref

    def store(self, a: Value, address: Value, alignment: int, *, nontemporal: bool = False) -> None:
        self.lines.append(f"memcpy({address.ref}, &{a.ref}, sizeof {a.ref});")

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        ref = self.name()
        size = f"{count.constant} * sizeof({self._type(element)})"
        self.entry.append(f"char {ref}[{size}] __attribute__((aligned({alignment})));")
        return ref

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        self.lines.append(f"memcpy({to.ref}, {source.ref}, {size.ref});")

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        self.lines.append(f"memset({to.ref}, {byte.ref}, {size.ref});")

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        where = f"({self._type(type_)} *){address.ref}"
        return self._define(type_, f"__atomic_load_n({where}, {_ORDERINGS[ordering]})")

    def atomic_store(self, a: Value, address: Value) -> None:
        self.lines.append(f"__atomic_store_n(({self._type(a.type)} *){address.ref}, {a.ref}, __ATOMIC_SEQ_CST);")

    def atomic_add(self, address: Value, a: Value, ordering: str) -> str:
        where = f"({self._type(a.type)} *){address.ref}"
        return self._define(a.type, f"__atomic_fetch_add({where}, {a.ref}, __ATOMIC_SEQ_CST)")

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        expression = f"{name}({', '.join(operand.ref for operand in operands)})"
        if result is not None:
            return self._define(result, expression)
        self.lines.append(f"{expression};")
        return ""

    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type | None) -> str:
        types = ", ".join(self._type(operand.type) for operand in operands) or "void"
        return self.call(f"(({self._type(result)} (*)({types})){callee.ref})", operands, result)

    def address_of(self, name: str) -> str:
        return self._define(PTR, f"(char *)&{name}")

    def ret(self, value: Value | None) -> None:
        self.lines.append(f"return {value.ref};" if value else "return;")

    def ret_if(self, condition: Value, value: Value | None) -> None:
        self.lines.append(f"if ({condition.ref}) return{f' {value.ref}' if value else ''};")

    # --- control flow ------------------------------------------------------------------------------------------------

    def _assign(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """All at once: what is assigned may be read by another one."""
        changed = [(name, value) for name, value in zip(names, values, strict=True) if name != value.ref]
        if any(value.ref in names for _, value in changed):
            new = [self._define(value.type, value.ref) for _, value in changed]
        else:
            new = [value.ref for _, value in changed]
        self.lines.extend(f"{name} = {ref};" for (name, _), ref in zip(changed, new, strict=True))

    def begin_loop(self, start: Sequence[Value], enter: Value | None) -> list[str]:
        names = [self._define(value.type, value.ref) for value in start]
        self.lines.append("do {" if enter is None else f"if ({enter.ref}) do {{")
        self._open.append(([], names))
        return names

    def end_loop(self, step: Value, high: Value, results: Sequence[Value]) -> list[str]:
        index, *carries = self._open.pop()[1]
        self._assign(carries, results)
        self.lines.append(f"{index} += {step.ref};")
        self.lines.append(f"}} while ({index} < {high.ref});")
        return carries

    def begin_while(self, carries: Sequence[Value]) -> list[str]:
        names = [self._define(value.type, value.ref) for value in carries]
        self.lines.append("for (;;) {")
        self._open.append(([], names))
        return names

    def while_holds(self, condition: Value) -> None:
        self.lines.append(f"if (!{condition.ref}) break;")

    def end_while(self, results: Sequence[Value]) -> list[str]:
        _, names = self._open.pop()
        self._assign(names, results)
        self.lines.append("}")
        return names

    def begin_if(self, condition: Value, *, otherwise: bool, unlikely: bool) -> None:
        declared: Lines = []
        self.lines.append(declared)
        expected = f"__builtin_expect({condition.ref}, 0)" if unlikely else condition.ref
        self.lines.append(f"if ({expected}) {{")
        self._open.append((declared, []))

    def _branch_ends(self, results: Sequence[Value]) -> list[str]:
        declared, names = self._open[-1]
        if not names:
            names.extend(self.name() for _ in results)
            declared.extend(f"{self._type(value.type)} {ref};" for ref, value in zip(names, results, strict=True))
        self._assign(names, results)
        return names

    def begin_else(self, results: Sequence[Value]) -> None:
        self._branch_ends(results)
        self.lines.append("} else {")

    def end_if(self, results: Sequence[Value]) -> list[str]:
        names = self._branch_ends(results)
        self.lines.append("}")
        self._open.pop()
        return names

    def begin_switch(self, selector: Value, count: int) -> None:
        self.lines.append(f"switch ({selector.ref}) {{")
        self._open.append(([], [f"case {number}:" for number in range(count - 1)] + ["default:"]))

    def begin_case(self, number: int) -> None:
        self.lines.append(f"{self._open[-1][1][number]} {{")

    def end_case(self) -> None:
        self.lines.extend(("break;", "}"))

    def end_switch(self) -> None:
        self._open.pop()
        self.lines.append("}")
