"""How native functions of the platform are written: the kernel language, with fields of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stablehlo_py.backends.cpu.pool import WAIT, WAKE, futex
from stablehlo_py.backends.cpu.target import baseline_target
from stablehlo_py.codegen.builder import I1, I8, I32, I64, PTR, Function, Index, ScalarType, Value
from stablehlo_py.pjrt.fields import FIELDS, FORKED, FREE, HANDLES, NEXT, OWN, REFERENCES, is_short

OBJECT = 16  # the object, in the arguments of most functions of the API
_EVERYBODY = (1 << 31) - 1


class Native(Function):
    """One function. `state` is the address of what all of them share (fields.py)."""

    def __init__(
        self,
        name: str,
        state: int,
        parameters: Sequence[tuple[str, ScalarType]] = (("args", PTR),),
        result: ScalarType | None = PTR,
    ) -> None:
        super().__init__(name, list(parameters), baseline_target().emitter(), result=result)
        self.state = state

    # --- memory ------------------------------------------------------------------------------------------------------

    def at(self, block: Value, offset: Index) -> Value:
        """The address of what lies so many bytes behind another."""
        return self.gep(block, offset, I8)

    def get(self, type_: ScalarType, block: Value, offset: Index) -> Value:
        """What lies there."""
        return self.load(type_, self.at(block, offset))

    def put(self, value: Value, block: Value, offset: Index) -> None:
        """Store it there."""
        self.store(value, self.at(block, offset))

    def place(self, block: Value, kind: str, field: str) -> Value:
        """The address of a field."""
        return self.at(block, FIELDS[kind][field])

    def field(self, block: Value, kind: str, field: str, type_: ScalarType | None = None) -> Value:
        """The value of a field."""
        return self.load(type_ or (I32 if is_short(field) else I64), self.place(block, kind, field))

    def set_field(self, value: Value, block: Value, kind: str, field: str) -> None:
        """Store a field."""
        self.store(value, self.place(block, kind, field))

    def cell(self, offset: int) -> Value:
        """The address of a cell of the state."""
        return self.pointer(self.const(self.state + offset))

    def shared(self, offset: int, type_: ScalarType = PTR) -> Value:
        """The value of a cell of the state."""
        return self.load(type_, self.cell(offset))

    def pointer(self, number: Value) -> Value:
        return self.cast("inttoptr", number, PTR)

    def number(self, pointer: Value) -> Value:
        return self.cast("ptrtoint", pointer, I64)

    def allocate(self, size: Index) -> Value:
        """Memory of malloc: of few bytes, which the system always has."""
        return self.call("malloc", [self.index(size)], PTR, external=True)

    def free(self, block: Value) -> None:
        self.call("free", [block], external=True)

    # --- conditions --------------------------------------------------------------------------------------------------

    def is_not_zero(self, a: Value) -> Value:
        """Of an integer."""
        return self.cmp("ne", a, self.const(0, a.type.element))

    def is_zero(self, a: Value) -> Value:
        """Of an integer."""
        return self.cmp("eq", a, self.const(0, a.type.element))

    def no(self, condition: Value) -> Value:
        return self.binary("xor", condition, self.const(True, I1))

    def both(self, *conditions: Value) -> Value:
        first, *others = conditions
        for other in others:
            first = self.binary("and", first, other)
        return first

    def either(self, *conditions: Value) -> Value:
        first, *others = conditions
        for other in others:
            first = self.binary("or", first, other)
        return first

    def is_forked(self) -> Value:
        """Whether this process is a forked child of the one that made the platform."""
        return self.is_not_zero(self.atomic_load(I32, self.cell(FORKED)))

    # --- what threads share ------------------------------------------------------------------------------------------

    def lock(self, place: Value) -> None:
        """Take a lock, for a moment. A forked child does without: who had it may not be there."""
        zero, one = self.const(0, I32), self.const(1, I32)

        def held() -> Value:
            return self.no(self.either(self.compare_exchange(place, zero, one), self.is_forked()))

        self.yield_while(held)

    def yield_while(self, condition: Callable[[], Value]) -> None:
        """Let other threads run while a condition holds, which is not for long."""

        def wait() -> list[Value]:
            self.call("sched_yield", [], I32, external=True)
            return []

        self.while_([], condition, wait)

    def unlock(self, place: Value) -> None:
        self.atomic_store(self.const(0, I32), place)

    def refer(self, block: Value) -> None:
        """One reference more."""
        self.atomic_add(self.at(block, REFERENCES), self.const(1))

    def if_last(self, block: Value, then: Callable[[], None]) -> None:
        """Give a reference back, and do something where that was the last one."""
        before = self.atomic_add(self.at(block, REFERENCES), self.const(-1))
        self.if_(self.cmp("eq", before, self.const(1)), then)

    def count(self, by: int) -> None:
        """Count what native code makes and frees."""
        self.atomic_add(self.cell(HANDLES), self.const(by))

    def push(self, head: Value, block: Value) -> None:
        """Put a block on a list that other threads use, too."""
        place, number = self.at(block, NEXT), self.number(block)

        def attempt(done: Value) -> list[Value]:
            del done
            first = self.atomic_load(I64, head)
            self.store(first, place)
            return [self.compare_exchange(head, first, number)]

        self.while_([self.const(False, I1)], self.no, attempt)

    def discard(self, block: Value) -> None:
        """Free a block that nobody refers to: what Python keeps beside it, Python frees when it runs next."""
        own = self.cmp("eq", self.get(I64, block, NEXT), self.const(OWN))
        self.if_(own, lambda: self.free(block), lambda: self.push(self.cell(FREE), block))

    def sleep(self, place: Value, value: Value) -> None:
        """Until somebody wakes who sleeps there, or at once if the i32 there is another one."""
        futex(self, place, WAIT, value)

    def wake(self, place: Value) -> None:
        """Everybody who sleeps there."""
        futex(self, place, WAKE, self.const(_EVERYBODY, I32))


def closing(state: int, name: str, closed: int, users: int) -> Native:
    """void NAME(): set the cell `closed`, which those ask that have counted themselves in the cell `users`; return when
    nobody is counted."""
    f = Native(name, state, [], None)
    f.atomic_store(f.const(1, I32), f.cell(closed))
    f.yield_while(lambda: f.is_not_zero(f.atomic_load(I64, f.cell(users))))
    f.ret()
    return f


def drop(state: int, kind: str, end: Callable[[Native, Value], None]) -> Native:
    """void KIND_drop(block): give a reference back, and do `end(f, block)` where that was the last one. Passes null."""
    f = Native(f"{kind}_drop", state, [(kind, PTR)], None)
    block = f.parameters[kind]
    f.ret_if(f.is_null(block))
    f.if_last(block, lambda: end(f, block))
    f.ret()
    return f
