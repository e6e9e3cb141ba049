"""Functions on tensors as text of upstream's dialects: arith, math, scf, tensor, linalg, complex.

Scalars are those of the kernel language; tensors are values too, whose type is a `ScalarType` with the text of the
tensor's type. So bodies of linalg.generic and loops over tensors are written in the kernel language, and elementary
functions, conversions and complex numbers come from `codegen` as they do for every target. There is no memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.codegen.emitter import Emitter, Lines
from stablehlo_py.codegen.values import I1, ScalarType, Type, Value

_BINARY = {
    "fadd": "addf", "fsub": "subf", "fmul": "mulf", "fdiv": "divf", "frem": "remf", "add": "addi", "sub": "subi",
    "mul": "muli", "and": "andi", "or": "ori", "xor": "xori", "shl": "shli", "lshr": "shrui", "ashr": "shrsi",
    "sdiv": "divsi", "udiv": "divui", "srem": "remsi", "urem": "remui",
}  # fmt: skip
_INTRINSICS = {
    "fmuladd": "math.fma",  # the same bits on every machine
    "fabs": "math.absf", "floor": "math.floor", "ceil": "math.ceil", "roundeven": "math.roundeven",
    "round": "math.round", "trunc": "math.trunc", "copysign": "math.copysign", "fma": "math.fma", "sqrt": "math.sqrt",
    "ctpop": "math.ctpop", "ctlz": "math.ctlz", "maximum": "arith.maximumf", "minimum": "arith.minimumf",
    "maxnum": "arith.maxnumf", "minnum": "arith.minnumf", "smax": "arith.maxsi", "smin": "arith.minsi",
    "umax": "arith.maxui", "umin": "arith.minui",
}  # fmt: skip
_CASTS = {
    "trunc": "trunci", "zext": "extui", "sext": "extsi", "fptrunc": "truncf", "fpext": "extf", "fptosi": "fptosi",
    "fptoui": "fptoui", "sitofp": "sitofp", "uitofp": "uitofp",
}  # fmt: skip


class TensorEmitter(Emitter):
    """Scalars in arith and math, control flow in scf."""

    rounds_to_bf16 = True

    def __init__(self) -> None:
        super().__init__()
        self._names = 0
        self._open: list[tuple[Lines, Sequence[Value], list[str]]] = []  # of loops and branches: what their ends need

    def parameter(self, name: str) -> str:
        return f"%{name}"

    def name(self) -> str:
        self._names += 1
        return f"%{self._names}"

    def comment(self, text: str) -> None:
        self.lines.append(f"// {text}")

    def define(self, text: str) -> str:
        """A line that defines one value; its name."""
        ref = self.name()
        self.lines.append(f"{ref} = {text}")
        return ref

    # --- constants ---------------------------------------------------------------------------------------------------

    def constant(self, number: int, type_: Type) -> str:
        ref, element = self.name(), type_.element
        if element is I1:
            body = "true" if number else "false"
        else:
            body = f"{f'0x{number:0{element.bits // 4}X}' if element.is_float else number} : {element.text}"
        self.entry.append(f"{ref} = arith.constant {body}")
        return ref

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        return self.define(f"arith.{_BINARY[name]} {a.ref}, {b.ref} : {a.type.text}")

    def fneg(self, a: Value) -> str:
        return self.define(f"arith.negf {a.ref} : {a.type.text}")

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        if name == "fshl":
            return self._funnel_shift(*operands)
        known = _INTRINSICS.get(name) or (name if name.startswith("math.") else None)
        if known is None:
            raise self.lacks(f"intrinsic {name}")
        return self.define(f"{known} {', '.join(operand.ref for operand in operands)} : {result.text}")

    def _funnel_shift(self, high: Value, low: Value, by: Value) -> str:
        """The upper half of two numbers side by side, shifted by less than their width, and not by nothing."""
        text = high.type.text
        rest = self.define(f"arith.subi {self.constant(high.type.bits, high.type)}, {by.ref} : {text}")
        above = self.define(f"arith.shli {high.ref}, {by.ref} : {text}")
        below = self.define(f"arith.shrui {low.ref}, {rest} : {text}")
        return self.define(f"arith.ori {above}, {below} : {text}")

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        name = "cmpf" if a.type.is_float else "cmpi"
        return self.define(f"arith.{name} {predicate}, {a.ref}, {b.ref} : {a.type.text}")

    def select(self, condition: Value, a: Value, b: Value) -> str:
        return self.define(f"arith.select {condition.ref}, {a.ref}, {b.ref} : {a.type.text}")

    def cast(self, name: str, a: Value, to: Type) -> str:
        return self.define(f"arith.{_CASTS[name]} {a.ref} : {a.type.text} to {to.text}")

    def bitcast(self, a: Value, to: Type) -> str:
        return self.define(f"arith.bitcast {a.ref} : {a.type.text} to {to.text}")

    def index_cast(self, a: Value, to: ScalarType) -> str:
        """Between i64 and index."""
        return self.define(f"arith.index_cast {a.ref} : {a.type.text} to {to.text}")

    # --- control flow ------------------------------------------------------------------------------------------------

    def begin_loop(self, start: Sequence[Value], enter: Value | None) -> list[str]:
        head: Lines = []
        self.lines.append(head)
        names = [self.name() for _ in start]
        index = self.define(f"arith.index_cast {names[0]} : index to i64")
        self._open.append((head, start, names))
        return [index, *names[1:]]

    def end_loop(self, step: Value, high: Value, results: Sequence[Value]) -> list[str]:
        head, start, names = self._open.pop()
        bounds = []
        for bound in (start[0], high, step):
            bounds.append(self.name())
            head.append(f"{bounds[-1]} = arith.index_cast {bound.ref} : i64 to index")
        passed, types = self._passed(names[1:], start[1:]), ", ".join(value.type.text for value in results)
        carried = f" iter_args({passed}) -> ({types})" if results else ""
        given, refs = self.results(len(results))
        head.append(f"{given}scf.for {names[0]} = {bounds[0]} to {bounds[1]} step {bounds[2]}{carried} {{")
        self.yield_(results)
        self.lines.append("}")
        return refs

    # The body of a loop stands in the region of its condition, where it sees what that computed.

    def begin_while(self, carries: Sequence[Value]) -> list[str]:
        head: Lines = []
        self.lines.append(head)
        names = [self.name() for _ in carries]
        self._open.append((head, carries, names))
        return names

    def while_holds(self, condition: Value) -> None:
        inner: Lines = []
        self.lines.append(inner)
        self._open.append((inner, [condition], []))

    def end_while(self, results: Sequence[Value]) -> list[str]:
        inner, (condition,), _ = self._open.pop()
        head, carries, names = self._open.pop()
        types = ", ".join(value.type.text for value in carries)
        given, following = self.results(len(results))
        inner.append(f"{given}scf.if {condition.ref} -> ({types}) {{")
        self.yield_(results)
        self.lines.append("} else {")
        self.lines.append(f"scf.yield {', '.join(names)} : {types}")
        self.lines.append("}")
        self.lines.append(f"scf.condition({condition.ref}) {', '.join(following)} : {types}")
        self.lines.append("} do {")
        last = [self.name() for _ in carries]
        listed = ", ".join(f"{name}: {value.type.text}" for name, value in zip(last, carries, strict=True))
        self.lines += [f"^bb0({listed}):", f"scf.yield {', '.join(last)} : {types}", "}"]
        given, refs = self.results(len(results))
        head.append(f"{given}scf.while ({self._passed(names, carries)}) : ({types}) -> ({types}) {{")
        return refs

    def begin_if(self, condition: Value, *, otherwise: bool, unlikely: bool) -> None:
        head: Lines = []
        self.lines.append(head)
        self._open.append((head, [condition], []))

    def begin_else(self, results: Sequence[Value]) -> None:
        self.yield_(results)
        self.lines.append("} else {")

    def end_if(self, results: Sequence[Value]) -> list[str]:
        head, (condition,), _ = self._open.pop()
        given, refs = self.results(len(results))
        types = ", ".join(value.type.text for value in results)
        head.append(f"{given}scf.if {condition.ref}{f' -> ({types})' if results else ''} {{")
        self.yield_(results)
        self.lines.append("}")
        return refs

    def results(self, count: int) -> tuple[str, list[str]]:
        """The left side of an op with so many results, and their names."""
        if not count:
            return "", []
        name = self.name()
        return (f"{name} = ", [name]) if count == 1 else (f"{name}:{count} = ", [f"{name}#{n}" for n in range(count)])

    def yield_(self, results: Sequence[Value]) -> None:
        """End a region of scf with these values; nothing where there are none, as that is understood."""
        if results:
            refs = ", ".join(value.ref for value in results)
            self.lines.append(f"scf.yield {refs} : {', '.join(value.type.text for value in results)}")

    @staticmethod
    def _passed(names: Sequence[str], values: Sequence[Value]) -> str:
        return ", ".join(f"{name} = {value.ref}" for name, value in zip(names, values, strict=True))
