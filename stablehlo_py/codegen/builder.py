"""The kernel language: one `llvm.func` under construction.

A `Function` has a method per operation. It folds constants, reuses equal index arithmetic, hoists constants to the
entry, and renders llvm-dialect text. Text, not op objects: a kernel's text is its structural key, and it is parsed,
translated and compiled outside the GIL (docs/decisions.md has the measurements). Templates never see the text.

    f = Function("scale", [("x", PTR), ("y", PTR), ("n", I64)])
    def body(i):
        f.store(f.mul(f.load(VectorType(16, F32), f.x, i), two), f.y, i)
    f.loop(0, f.n, 16, body)
    f.ret()

Integers of Python stand for i64 constants wherever an index is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.codegen.operations import Operations
from stablehlo_py.codegen.values import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    Index,
    ScalarType,
    Type,
    Value,
    VectorType,
    constant_array,
    float_text,
    vector,
)
from stablehlo_py.dialect.size import always_less

__all__ = [
    "BF16",
    "F16",
    "F32",
    "F64",
    "Function",
    "I1",
    "I16",
    "I32",
    "I64",
    "I8",
    "Index",
    "PTR",
    "ScalarType",
    "Type",
    "Value",
    "VectorType",
    "constant_array",
    "float_text",
    "vector",
]


class Function(Operations):
    """One function of the llvm dialect. `parameters` are (name, type) pairs, readable as attributes (`f.x`).

    Its operations are in operations.py; here is what moves control: loops, branches, calls.
    """

    # --- control flow ------------------------------------------------------------------------------------------------

    def loop(
        self,
        low: Index,
        high: Index,
        step: Index,
        body: Callable[..., Sequence[Value] | Value | None],
        carries: Sequence[Value] = (),
        *,
        nonempty: bool = False,
    ) -> list[Value]:
        """for i in range(low, high, step): carries = body(i, *carries). Returns the carries after the loop.

        The loop is rotated: one block, its condition at the end, entered behind a guard unless the bounds (or
        `nonempty`) say that it runs at least once. A loop that is known to run exactly once is emitted without a
        branch.
        """
        low, high, step = self._folded(low), self._folded(high), self._folded(step)
        static = False
        if isinstance(low, int) and isinstance(high, int):
            static = True
            if low >= high:
                return list(carries)
            if isinstance(step, int) and low + step >= high:
                return self._carried(body(low, *carries))
        at_least_one = not isinstance(low, Value) and not isinstance(high, Value) and always_less(low, high)
        guarded = not static and not nonempty and not at_least_one
        types = [I64, *(carry.type for carry in carries)]
        head, done = self._label(), self._label()
        start = [self.index(low), *carries]
        hoisted = self._preheader()
        if guarded:
            enter = self.cmp("slt", self.index(low), self.index(high))
            self._lines.append(
                f"llvm.cond_br {enter.ref}, {head}({self._typed(start)}), {done}"
                + (f"({self._typed(carries)})" if carries else "")
            )
        else:
            self._lines.append(f"llvm.br {head}({self._typed(start)})")
        arguments = self._arguments(types, self.level + 1)
        self._open(head, arguments)
        with self._region(hoisted, conditional=guarded):
            results = self._carried(body(*arguments))
            following = self.op(f"llvm.add {arguments[0].ref}, {self.index(step).ref} overflow<nsw, nuw> : i64", I64)
            # An identity that LLVM's loop analysis does not look through: strength reduction takes up to 40 % of the
            # compile time and gains nothing here, as addresses are base pointers with constant offsets already.
            following = self.op(f"llvm.intr.expect {following.ref}, {following.ref} : i64", I64)
            again = self.op(f'llvm.icmp "slt" {following.ref}, {self.index(high).ref} : i64', I1)
            back = self._typed([following, *results])
            leave = f"({self._typed(results)})" if guarded and results else ""
            self._lines.append(f"llvm.cond_br {again.ref}, {head}({back}), {done}{leave}")
        if guarded:
            after = self._arguments([carry.type for carry in carries], self.level)
            self._open(done, after)
            return after
        self._open(done, [])
        return self._here(results)

    def while_(
        self,
        carries: Sequence[Value],
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
    ) -> list[Value]:
        """while condition(*carries): carries = body(*carries)."""
        head, inside, done = self._label(), self._label(), self._label()
        suffix = f"({self._typed(carries)})" if carries else ""
        hoisted = self._preheader()
        self._lines.append(f"llvm.br {head}{suffix}")
        arguments = self._arguments([carry.type for carry in carries], self.level + 1)
        self._open(head, arguments)
        with self._region(hoisted):
            go = condition(*arguments)
            hoisted = self._preheader()
            self._lines.append(f"llvm.cond_br {go.ref}, {inside}, {done}")
            self._open(inside, [])
            with self._region(hoisted):
                results = self._carried(body(*arguments))
                suffix = f"({self._typed(results)})" if results else ""
                self._lines.append(f"llvm.br {head}{suffix}")
        self._open(done, [])
        return self._here(arguments)

    def if_(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | Value | None],
        otherwise: Callable[[], Sequence[Value] | Value | None] | None = None,
        *,
        unlikely: bool = False,
    ) -> list[Value]:
        """if condition: then() else: otherwise(). Both return the same types; returns the merged values. `unlikely`:
        registers and the order of code are chosen for the other case."""
        yes, no, done = self._label(), self._label(), self._label()
        hoisted = self._preheader()
        weights = " weights([1, 1000000])" if unlikely else ""
        self._lines.append(f"llvm.cond_br {condition.ref}{weights}, {yes}, {no if otherwise else done}")
        self._open(yes, [])
        with self._region(hoisted):
            results = self._carried(then())
            suffix = f"({self._typed(results)})" if results else ""
            self._lines.append(f"llvm.br {done}{suffix}")
        if otherwise:
            self._open(no, [])
            with self._region(hoisted):
                suffix_values = self._carried(otherwise())
                suffix = f"({self._typed(suffix_values)})" if suffix_values else ""
                self._lines.append(f"llvm.br {done}{suffix}")
        merged = self._arguments([value.type for value in results], self.level)
        self._open(done, merged)
        return merged

    def switch(self, selector: Value, cases: Sequence[Callable[[], None]]) -> None:
        """Run cases[selector] (i32); the last case also takes every other value."""
        labels, done = [self._label() for _ in cases], self._label()
        table = ", ".join(f"{number}: {label}" for number, label in enumerate(labels[:-1]))
        hoisted = self._preheader()
        self._lines.append(f"llvm.switch {selector.ref} : i32, {labels[-1]} [{table}]")
        for label, case in zip(labels, cases, strict=True):
            self._open(label, [])
            with self._region(hoisted):
                case()
                self._lines.append(f"llvm.br {done}")
        self._open(done, [])

    def call(
        self, name: str, operands: Sequence[Value], result: Type | None = None, *, external: bool = False
    ) -> Value | None:
        """Call a function by name; `external` declares it in this module (libm, or another object)."""
        refs = ", ".join(operand.ref for operand in operands)
        types = ", ".join(operand.type.text for operand in operands)
        if external:
            returns = f" -> {result.text}" if result else ""
            self.externals[name] = f"llvm.func @{name}({types}){returns}"
        text = f"llvm.call @{name}({refs}) : ({types}) -> {result.text if result else '()'}"
        if result is None:
            self._lines.append(text)
            return None
        return self.op(text, result)

    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type | None = None) -> Value | None:
        """Call through a function pointer."""
        refs = ", ".join(operand.ref for operand in operands)
        types = ", ".join(operand.type.text for operand in operands)
        text = f"llvm.call {callee.ref}({refs}) : !llvm.ptr, ({types}) -> {result.text if result else '()'}"
        if result is None:
            self._lines.append(text)
            return None
        return self.op(text, result)

    def address_of(self, name: str) -> Value:
        """The address of a function or global of this module."""
        return self.op(f"llvm.mlir.addressof @{name} : !llvm.ptr", PTR)

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        self._lines.append(f"llvm.return {value.ref} : {value.type.text}" if value else "llvm.return")

    def ret_if(self, condition: Value, value: Value | None = None) -> None:
        """Return (a value) if the condition holds."""
        leave, go_on = self._label(), self._label()
        self._lines.append(f"llvm.cond_br {condition.ref}, {leave}, {go_on}")
        self._open(leave, [])
        self.ret(value)
        self._open(go_on, [])

    @staticmethod
    def _typed(values: Sequence[Value]) -> str:
        if not values:
            return ""
        return f"{', '.join(value.ref for value in values)} : {', '.join(value.type.text for value in values)}"

    @staticmethod
    def _carried(values: Sequence[Value] | Value | None) -> list[Value]:
        if values is None:
            return []
        return [values] if isinstance(values, Value) else list(values)

    def _open(self, label: str, arguments: Sequence[Value]) -> None:
        listed = ", ".join(f"{value.ref}: {value.type.text}" for value in arguments)
        self._lines.append(f"{label}({listed}):" if arguments else f"{label}:")
