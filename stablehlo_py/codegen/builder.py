"""The kernel language: one function under construction.

A `Function` has a method per operation. It folds constants, reuses equal index arithmetic, and hoists code out of loops
and branches. Its emitter (emitter.py) writes what is left: text of the llvm dialect, unless another one is given.
Templates never see the text, so they are written once for all machines.

    f = Function("scale", [("x", PTR), ("y", PTR), ("n", I64)])
    def body(i):
        f.store(f.mul(f.load(VectorType(16, F32), f.x, i), two), f.y, i)
    f.loop(0, f.n, 16, body)
    f.ret()

Integers of Python stand for i64 constants wherever an index is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from stablehlo_py.codegen.missing_instructions import CompleteOperations
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
    Bounds,
    Index,
    ScalarType,
    Type,
    Value,
    VectorType,
    vector,
)
from stablehlo_py.dialect.symint import always_less

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
    "vector",
]


class Function(CompleteOperations):
    """One function. `parameters` are (name, type) pairs, readable as attributes (`f.x`).

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

        It is entered behind a guard unless the bounds (or `nonempty`) say that it runs at least once. A loop that is
        known to run exactly once is emitted without a branch.
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
        start = [self.index(low), *carries]
        hoisted = self._preheader()
        enter = self.cmp("slt", self.index(low), self.index(high)) if guarded else None
        refs = self.emit.begin_loop(start, enter)
        with self._region(hoisted, conditional=guarded):
            number, *carried = self._renamed(refs, start)
            number.bounds = self._trips(low, high)
            results = self._carried(body(number, *carried))
            refs = self.emit.end_loop(self.index(step), self.index(high), results)
        return self._renamed(refs, results)

    @staticmethod
    def _trips(low: Index, high: Index) -> Bounds | None:
        """Between which numbers the index of a loop is."""
        ends = [each.bounds if isinstance(each, Value) else (each, each) for each in (low, high)]
        first, last = (each if each is None or isinstance(each[0], int) else None for each in ends)
        return None if first is None or last is None else (int(first[0]), int(last[1]) - 1)

    def while_(
        self,
        carries: Sequence[Value],
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
    ) -> list[Value]:
        """while condition(*carries): carries = body(*carries)."""
        hoisted = self._preheader()
        refs = self.emit.begin_while(carries)
        with self._region(hoisted):
            arguments = self._renamed(refs, carries)
            go = condition(*arguments)
            hoisted = self._preheader()
            self.emit.while_holds(go)
            with self._region(hoisted):
                refs = self.emit.end_while(self._carried(body(*arguments)))
        return self._renamed(refs, arguments)

    def if_(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | Value | None],
        otherwise: Callable[[], Sequence[Value] | Value | None] | None = None,
        *,
        unlikely: bool = False,
    ) -> list[Value]:
        """if condition: then() else: otherwise(). Both return the same types; returns the merged values. `unlikely`:
        registers and the order of code are chosen for the other case. Of a condition that is known, one is emitted."""
        if condition.constant is not None:
            taken = then if condition.constant else otherwise
            return self._carried(taken()) if taken else []
        hoisted = self._preheader()
        self.emit.begin_if(condition, otherwise=otherwise is not None, unlikely=unlikely)
        with self._region(hoisted):
            results = self._carried(then())
        if otherwise:
            self.emit.begin_else(results)
            with self._region(hoisted):
                results = self._carried(otherwise())
        return self._renamed(self.emit.end_if(results), results)

    def switch(self, selector: Value, cases: Sequence[Callable[[], None]]) -> None:
        """Run cases[selector] (i32); the last case also takes every other value."""
        hoisted = self._preheader()
        self.emit.begin_switch(selector, len(cases))
        for number, case in enumerate(cases):
            self.emit.begin_case(number)
            with self._region(hoisted):
                case()
                self.emit.end_case()
        self.emit.end_switch()

    @overload
    def call(self, name: str, operands: Sequence[Value], result: Type, *, external: bool = False) -> Value: ...

    @overload
    def call(self, name: str, operands: Sequence[Value], result: None = None, *, external: bool = False) -> None: ...

    def call(
        self, name: str, operands: Sequence[Value], result: Type | None = None, *, external: bool = False
    ) -> Value | None:
        """Call a function by name; `external` declares it in this module (libm, or another object)."""
        if external:
            self.declare(name, [operand.type for operand in operands], result)
        ref = self.emit.call(name, operands, result)
        return None if result is None else self._value(ref, result)

    @overload
    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type) -> Value: ...

    @overload
    def call_pointer(self, callee: Value, operands: Sequence[Value], result: None = None) -> None: ...

    def call_pointer(self, callee: Value, operands: Sequence[Value], result: Type | None = None) -> Value | None:
        """Call through a function pointer."""
        ref = self.emit.call_pointer(callee, operands, result)
        return None if result is None else self._value(ref, result)

    def launch(
        self, kernel: str, blocks: int, threads: int, operands: Sequence[Value], caller: Value, shared_bytes: int = 0
    ) -> None:
        """Start a kernel of a GPU, `@module::@symbol`, as a part of the program that `caller` runs."""
        shared = self.const(shared_bytes, I32) if shared_bytes else None
        self.emit.launch(kernel, self.const(blocks), self.const(threads), shared, operands, caller)

    def address_of(self, name: str) -> Value:
        """The address of a function or global of this module."""
        return self._value(self.emit.address_of(name), PTR)

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        self.emit.ret(value)

    def ret_if(self, condition: Value, value: Value | None = None) -> None:
        """Return (a value) if the condition holds."""
        self.emit.ret_if(condition, value)

    @staticmethod
    def _carried(values: Sequence[Value] | Value | None) -> list[Value]:
        if values is None:
            return []
        return [values] if isinstance(values, Value) else list(values)
