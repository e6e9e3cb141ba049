"""The functions that a checked kernel calls (race_check.py), and the memory that they share with the host.

What a program's checks share lies in one array of the module, `STATE`: `BEGIN` kernels, one before each launch, count
the launches, and `PROVIDE` says where the host has put the rest. `FOUND` is a table of findings, which the host reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.emitters.gpu import GLOBAL, SUBGROUP, SpirvEmitter
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.values import I1, I32, I64, PTR, Space, Value, pointer

LOCAL = pointer(Space.SHARED)
MOST_THREADS = (1 << 11) - 2  # of a block, and blocks of a launch, that are told apart
MOST_BLOCKS = (1 << 18) - 2

# Findings: what is wrong, the place of the later of two threads, that of the earlier one, in one word; its count in the
# next one.
THREADS, BLOCKS, BARRIERS = 1, 2, 3  # threads of a block race, blocks do, not all threads come to a barrier
KIND, LATER = 30, 15  # where these begin
MOST_PLACES = 1 << LATER  # of a program, that findings tell apart
MOST_SHARED_PLACES, MOST_GLOBAL_PLACES = 1 << 6, 1 << 14  # of a kernel and of a program, that tokens tell apart
FINDINGS = 1 << 10  # rows of the table

STATE = "shlo_race_state"
# Its words: launches so far, bytes of what the running kernel accesses as a whole; then what the host provides: the
# address and the length (a power of two) of a table of arrays, the address and the words of their shadow, the address
# of the findings, and which barrier orders nothing (from 1 on, 0: each does). The table has the addresses of the
# beginnings of arrays in ascending order, then those of their ends, then where in the shadow they begin, in bytes of
# the arrays. Its first array is none.
_LAUNCH, _GRANULE, _ARRAYS, _LENGTH, _SHADOW, _WORDS, _FOUND, _LEFT_OUT = range(8)
PROVIDED = 6
PROVIDE = "shlo_race_provide"

# A token of shared memory: how many barriers came before (from 1 on), which place in the template, whether the access
# is atomic, which thread (from 1 on; _MANY: several). 0 is none.
_ATOMIC, _SITE, _EPOCH = 11, 12, 18  # where these begin
_MANY = (1 << _ATOMIC) - 1
_EPOCHS = 1 << (32 - _EPOCH)
# One of global memory: which launch (from 1 on), which block (from 1 on; all ones: several), how many barriers came
# before (the last number: too many to tell), which place, then as above.
_PLACE, _AGE, _BLOCK, _WHICH = 12, 26, 36, 54
_AGES, _MANY_BLOCKS, _LAUNCHES = 1 << (_BLOCK - _AGE), (1 << (_WHICH - _BLOCK)) - 1, 1 << (64 - _WHICH)

Maker = Callable[[str, TargetDescription], Function]


class _Helper(SpirvEmitter):
    function_attributes = "no_inline"  # there are hundreds of calls in a kernel


def helper(name: str, target: TargetDescription) -> Mapping[str, str]:
    """The text of a function, and those of what it uses, by their names."""
    made = _MAKERS[name](name, target)
    return {name: made.text()} | made.externals


def _state(f: Function) -> Value:
    """The address of the state."""
    array = f"!llvm.array<{2 + PROVIDED} x i64>"
    head = f"llvm.mlir.global internal @{STATE}() {{addr_space = {GLOBAL} : i32, dso_local}} : {array}"
    f.emit.declarations[STATE] = f"{head} {{\n%0 = llvm.mlir.zero : {array}\nllvm.return %0 : {array}\n}}"
    return f.address_of(STATE)


def _call(f: Function, name: str, *operands: Value) -> None:
    assert f.emit.target is not None
    f.emit.declarations |= helper(name, f.emit.target)
    f.call(name, operands)


def _joined(f: Function, *parts: Value) -> Value:
    joined, *rest = parts
    for part in rest:
        joined = f.binary("or", joined, part)
    return joined


# --- kernels ---------------------------------------------------------------------------------------------------------


def provide(target: TargetDescription) -> Mapping[str, str]:
    """PROVIDE(words): the words of the state that the host provides, i64 [PROVIDED]."""
    f = Function(PROVIDE, [("words", PTR)], SpirvEmitter(target, 1, 1))
    state = _state(f)
    f.loop(0, PROVIDED, 1, lambda i: f.store(f.load(I64, f.words, i), state, f.iadd(i, _ARRAYS)))
    f.ret()
    return {PROVIDE: f.text()} | f.externals


def begin(parameters: int, granule: int, target: TargetDescription) -> tuple[str, Mapping[str, str]]:
    """The name and the texts of the kernel of one thread that comes before a launch with so many parameters, which
    accesses so many bytes as a whole."""
    name = f"shlo_race_begin_{parameters}_{granule}"
    f = Function(name, [(f"operand{number}", PTR) for number in range(parameters)], SpirvEmitter(target, 1, 1))
    state = _state(f)
    before = f.load(I64, state, _LAUNCH)
    full = f.cmp("eq", before, f.const(_LAUNCHES - 1))
    f.store(f.const(granule), state, _GRANULE)
    f.store(f.select(full, f.const(1), f.binary("add", before, f.const(1))), state, _LAUNCH)

    def forget() -> None:
        shadow = f.cast("inttoptr", f.load(I64, state, _SHADOW), PTR)
        f.loop(0, f.load(I64, state, _WORDS), 1, lambda i: f.store(f.const(0), shadow, i))

    f.if_(full, forget)
    f.ret()
    return name, {name: f.text()} | f.externals


# --- findings --------------------------------------------------------------------------------------------------------


def _report(name: str, target: TargetDescription) -> Function:
    """name(finding): count it."""
    f = Function(name, [("finding", I32)], _Helper(target), private=True)
    found = f.cast("inttoptr", f.load(I64, _state(f), _FOUND), PTR)
    first = f.binary("lshr", f.binary("mul", f.finding, f.const(0x9E3779B1, I32)), f.const(16, I32))

    def place(trip: Value) -> Value:
        row = f.binary("and", f.binary("add", first, trip), f.const(FINDINGS - 1, I32))
        return f.gep(found, f.imul(f.cast("zext", row, I64), 2), I32)

    def is_taken(trip: Value) -> Value:
        """Whether the row is that of another finding."""
        at = place(trip)
        is_new = f.compare_exchange(at, f.const(0, I32), f.finding)
        is_known = f.cmp("eq", f.atomic_load(I32, at), f.finding)
        is_left = f.cmp("slt", trip, f.const(FINDINGS - 1, I32))
        other = f.binary("xor", f.binary("or", is_new, is_known), f.const(True, I1))
        return f.binary("and", other, is_left)

    (trip,) = f.while_([f.const(0, I32)], is_taken, lambda trip: [f.binary("add", trip, f.const(1, I32))])
    f.atomic_add(f.gep(place(trip), 1, I32), f.const(1, I32))
    f.ret()
    return f


def _report_pair(f: Function, kind: Value, later: Value, earlier: Value) -> None:
    finding = _joined(
        f,
        f.binary("shl", kind, f.const(KIND, I32)),
        f.binary("shl", later, f.const(LATER, I32)),
        earlier,
    )
    _call(f, "shlo_race_report", finding)


# --- between threads -------------------------------------------------------------------------------------------------


def _clear(name: str, target: TargetDescription) -> Function:
    """name(words, count): zeros in i32 of shared memory, as far as this thread writes them."""
    f = Function(name, [("words", LOCAL), ("count", I64)], _Helper(target), private=True)
    f.loop(f.thread_number(), f.count, f.block_size(), lambda i: f.store(f.const(0, I32), f.words, i))
    f.ret()
    return f


def _start(name: str, target: TargetDescription) -> Function:
    """name(passed): what a thread has passed, i32 [3]: barriers, in tokens of shared memory and in those of global
    memory; arrivals."""
    f = Function(name, [("passed", PTR)], _Helper(target), private=True)
    for number, first in enumerate((1, 1, 0)):
        f.store(f.const(first, I32), f.passed, number)
    f.ret()
    return f


def _next(name: str, target: TargetDescription) -> Function:
    """name(passed, number): one more barrier, unless it is left out. Whether the numbers in shared memory begin again,
    so that older tokens must go; those in global memory end."""
    f = Function(name, [("passed", PTR), ("number", I64)], _Helper(target), result=I1, private=True)
    before, age = f.load(I32, f.passed), f.load(I32, f.passed, 1)
    counts = f.cmp("ne", f.load(I64, _state(f), _LEFT_OUT), f.number)
    full = f.binary("and", counts, f.cmp("eq", before, f.const(_EPOCHS - 1, I32)))
    one = f.cast("zext", counts, I32)
    f.store(f.select(full, f.const(1, I32), f.binary("add", before, one)), f.passed)
    f.store(f.intrinsic("umin", f.binary("add", age, one), f.const(_AGES - 1, I32)), f.passed, 1)
    f.ret(full)
    return f


def _arrive(name: str, target: TargetDescription) -> Function:
    """name(passed, arrived, place): a thread comes to a place where all threads of its block have to come. `arrived`:
    of each second arrival, who came last and where."""
    f = Function(name, [("passed", PTR), ("arrived", LOCAL), ("place", I32)], _Helper(target), private=True)
    order = f.binary("add", f.load(I32, f.passed, 2), f.const(1, I32))
    f.store(order, f.passed, 2)
    mine = _joined(f, f.binary("shl", order, f.const(LATER, I32)), f.place)
    row = f.cast("zext", f.binary("and", order, f.const(1, I32)), I64)
    differs = f.binary("xor", f.atomic_exchange(f.gep(f.arrived, row, I32), mine), mine)
    is_elsewhere = f.binary(
        "and", f.cmp("ult", differs, f.const(MOST_PLACES, I32)), f.cmp("ne", differs, f.const(0, I32))
    )

    def report() -> None:
        other = f.binary("xor", differs, f.place)
        _report_pair(f, f.const(BARRIERS, I32), f.place, other)

    f.if_(is_elsewhere, report, unlikely=True)
    f.ret()
    return f


def _give(name: str, target: TargetDescription) -> Function:
    """name(exchange, value): what this thread has for others."""
    f = Function(name, [("exchange", LOCAL), ("value", I64)], _Helper(target), private=True)
    f.store(f.value, f.exchange, f.thread_number())
    f.ret()
    return f


def _take(name: str, target: TargetDescription) -> Function:
    """name(exchange, number): what a thread of this subgroup has, by its number, or what this one's number differs in
    ("shuffle")."""
    f = Function(name, [("exchange", LOCAL), ("number", I32)], _Helper(target), result=I64, private=True)
    thread, number = f.thread_number(), f.cast("zext", f.number, I64)
    first = f.const(-SUBGROUP) if not name.endswith("shuffle") else f.const(-1)
    f.ret(f.load(I64, f.exchange, f.binary("xor", f.binary("and", thread, first), number)))
    return f


# --- accesses --------------------------------------------------------------------------------------------------------


class _SharedCheck:
    """name(address, bytes, site, pool, shadow, granule, base, passed): an access, and the races that it shows; the
    kernel's places have numbers from `base` on."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, name: str, target: TargetDescription) -> Function:
        parameters = [("address", LOCAL), ("bytes", I64), ("site", I32), ("pool", LOCAL), ("shadow", LOCAL)]
        parameters += [("granule", I64), ("base", I32), ("passed", PTR)]
        f = self.f = Function(name, parameters, _Helper(target), private=True)
        inside = f.isub(f.cast("ptrtoint", f.address, I64), f.cast("ptrtoint", f.pool, I64))
        first = f.idiv(inside, f.granule)
        self.token = _joined(
            f,
            f.binary("shl", f.load(I32, f.passed), f.const(_EPOCH, I32)),
            f.binary("shl", f.site, f.const(_SITE, I32)),
            f.const(int(self.kind == "atomic") << _ATOMIC, I32),
            f.cast("trunc", f.index(f.iadd(f.thread_number(), 1)), I32),
        )
        f.loop(first, f.iadd(first, f.idiv(f.bytes, f.granule)), 1, self._element)
        f.ret()
        return f

    def _element(self, number: Value) -> None:
        f, kind = self.f, self.kind
        writer = f.gep(f.shadow, f.imul(number, 2), I32)
        reader = f.gep(writer, 1, I32)
        mine, others = (reader, writer) if kind == "read" else (writer, reader)
        # Those who come at the same time see each other: first everyone says that he is there, then he looks.
        before = f.atomic_exchange(mine, self.token)
        foreign = self._is_foreign(before)
        if kind == "read":
            self._say_if(foreign, mine, _joined(f, self.token, f.const(_MANY, I32)))
        elif kind == "write":
            self._count(foreign, before)
        else:
            is_atomic = f.cmp("ne", f.binary("and", before, f.const(1 << _ATOMIC, I32)), f.const(0, I32))
            is_plain = f.binary("xor", is_atomic, f.const(True, I1))
            self._count(f.binary("and", foreign, is_plain), before)
            self._say_if(f.binary("and", foreign, is_atomic), mine, _joined(f, self.token, f.const(_MANY, I32)))
            # What this thread wrote before, and not as an atomic update, others still race with.
            own = f.binary("and", self._is_recent(before), f.binary("xor", foreign, f.const(True, I1)))
            self._say_if(f.binary("and", own, is_plain), mine, before)
        other = f.atomic_load(I32, others)
        self._count(self._is_foreign(other), other)

    def _say_if(self, condition: Value, place: Value, token: Value) -> None:
        """Put another token in place of the one that this access has put there."""

        def say() -> None:
            self.f.atomic_exchange(place, token)

        self.f.if_(condition, say)

    def _is_recent(self, before: Value) -> Value:
        """Whether no barrier came since a token."""
        f = self.f
        return f.cmp("ult", f.binary("xor", before, self.token), f.const(1 << _EPOCH, I32))

    def _is_foreign(self, before: Value) -> Value:
        """Whether a token is of another thread besides."""
        f = self.f
        differs = f.binary("and", f.binary("xor", before, self.token), f.const(_MANY, I32))
        return f.binary("and", self._is_recent(before), f.cmp("ne", differs, f.const(0, I32)))

    def _count(self, race: Value, before: Value) -> None:
        f = self.f

        def count() -> None:
            site = f.binary("and", f.binary("lshr", before, f.const(_SITE, I32)), f.const(MOST_SHARED_PLACES - 1, I32))
            later, earlier = (f.binary("add", f.base, each) for each in (f.site, site))
            _report_pair(f, f.const(THREADS, I32), later, earlier)

        f.if_(race, count, unlikely=True)


class _GlobalCheck:
    """name(address, bytes, place, passed): an access of memory that may be an array of the device's memory, and the
    races that it shows."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, name: str, target: TargetDescription) -> Function:
        parameters = [("address", PTR), ("bytes", I64), ("place", I32), ("passed", PTR)]
        f = self.f = Function(name, parameters, _Helper(target), private=True)
        state = _state(f)
        arrays, length = f.cast("inttoptr", f.load(I64, state, _ARRAYS), PTR), f.load(I64, state, _LENGTH)
        address = f.cast("ptrtoint", f.address, I64)

        def halve(step: Value, low: Value) -> list[Value]:
            middle = f.binary("add", low, step)
            is_behind = f.cmp("ule", f.load(I64, arrays, middle), address)
            return [f.binary("lshr", step, f.const(1)), f.select(is_behind, middle, low)]

        first = [f.binary("lshr", length, f.const(1)), f.const(0)]
        _, array = f.while_(first, lambda step, _: f.cmp("ne", step, f.const(0)), halve)
        is_inside = f.cmp("ult", address, f.load(I64, arrays, f.iadd(array, length)))
        f.if_(is_inside, lambda: self._check(state, arrays, length, array, address))
        f.ret()
        return f

    def _check(self, state: Value, arrays: Value, length: Value, array: Value, address: Value) -> None:
        f = self.f
        granule = f.load(I64, state, _GRANULE)
        offset = f.load(I64, arrays, f.iadd(array, f.imul(length, 2)))
        begin = f.iadd(offset, f.isub(address, f.load(I64, arrays, array)))
        first, last = f.idiv(begin, granule), f.idiv(f.isub(f.iadd(begin, f.bytes), 1), granule)
        self.shadow = f.cast("inttoptr", f.load(I64, state, _SHADOW), PTR)
        self.age = f.cast("zext", f.load(I32, f.passed, 1), I64)
        self.token = _joined(
            f,
            f.binary("shl", f.load(I64, state, _LAUNCH), f.const(_WHICH)),
            f.binary("shl", f.index(f.iadd(f.block_number(), 1)), f.const(_BLOCK)),
            f.binary("shl", self.age, f.const(_AGE)),
            f.binary("shl", f.cast("zext", f.place, I64), f.const(_PLACE)),
            f.const(int(self.kind == "atomic") << _ATOMIC),
            f.index(f.iadd(f.thread_number(), 1)),
        )
        f.loop(first, f.iadd(last, 1), 1, self._element)

    def _element(self, number: Value) -> None:
        f, kind = self.f, self.kind
        writer = f.gep(self.shadow, f.imul(number, 2), I64)
        reader = f.gep(writer, 1, I64)
        mine, others = (reader, writer) if kind == "read" else (writer, reader)

        def is_late(before: Value) -> Value:
            return f.binary("xor", f.compare_exchange(mine, before, self._said(before)), f.const(True, I1))

        # First everyone says that he is there, then he looks: those who come at the same time see each other.
        (before,) = f.while_([f.atomic_load(I64, mine)], is_late, lambda _: [f.atomic_load(I64, mine)])
        if kind == "write":
            self._count(self._is_foreign(before), before)
        elif kind == "atomic":
            self._count(f.binary("and", self._is_foreign(before), self._is_plain(before)), before)
        other = f.atomic_load(I64, others)
        self._count(self._is_foreign(other), other)

    def _said(self, before: Value) -> Value:
        """The token that stands for this access and for what it does not order itself behind."""
        f = self.f
        blocks = _joined(f, self.token, f.const(_MANY_BLOCKS << _BLOCK))
        threads = _joined(f, self.token, f.const(_MANY))
        said = f.select(self._is_of_block(before), threads, blocks)
        said = f.select(self._is_foreign(before), said, self.token)
        if self.kind != "atomic":
            return said
        # What was written in this block, and not as an atomic update, others still race with.
        plain = f.binary("and", said, f.const(~(1 << _ATOMIC)))
        recent = f.binary("and", self._is_of_block(before), self._is_of_age(before))
        recent = f.binary("and", f.binary("and", self._is_of_launch(before), recent), self._is_plain(before))
        return f.select(recent, plain, said)

    def _differs(self, before: Value, at: int, mask: int) -> Value:
        f = self.f
        differs = f.binary("and", f.binary("xor", before, self.token), f.const(mask << at))
        return f.cmp("ne", differs, f.const(0))

    def _is_of_launch(self, before: Value) -> Value:
        f = self.f
        return f.binary("xor", self._differs(before, _WHICH, _LAUNCHES - 1), f.const(True, I1))

    def _is_of_block(self, before: Value) -> Value:
        f = self.f
        return f.binary("xor", self._differs(before, _BLOCK, _MANY_BLOCKS), f.const(True, I1))

    def _is_of_age(self, before: Value) -> Value:
        """Whether no barrier came since a token of this block, as far as that can be told."""
        f = self.f
        is_known = f.cmp("ne", self.age, f.const(_AGES - 1))
        same = f.binary("xor", self._differs(before, _AGE, _AGES - 1), f.const(True, I1))
        return f.binary("and", is_known, same)

    def _is_plain(self, before: Value) -> Value:
        f = self.f
        return f.cmp("eq", f.binary("and", before, f.const(1 << _ATOMIC)), f.const(0))

    def _is_foreign(self, before: Value) -> Value:
        """Whether a token is of another thread, and nothing orders it and this one."""
        f = self.f
        inside = f.binary("and", self._is_of_age(before), self._differs(before, 0, _MANY))
        unordered = f.select(self._is_of_block(before), inside, f.const(True, I1))
        return f.binary("and", self._is_of_launch(before), unordered)

    def _count(self, race: Value, before: Value) -> None:
        f = self.f

        def count() -> None:
            place = f.binary("and", f.binary("lshr", before, f.const(_PLACE)), f.const(MOST_GLOBAL_PLACES - 1))
            kind = f.select(self._is_of_block(before), f.const(THREADS, I32), f.const(BLOCKS, I32))
            _report_pair(f, kind, f.place, f.cast("trunc", place, I32))

        f.if_(race, count, unlikely=True)


_MAKERS: dict[str, Maker] = {
    "shlo_race_arrive": _arrive,
    "shlo_race_clear": _clear,
    "shlo_race_give": _give,
    "shlo_race_next": _next,
    "shlo_race_read_lane": _take,
    "shlo_race_report": _report,
    "shlo_race_shuffle": _take,
    "shlo_race_start": _start,
    **{f"shlo_race_shared_{kind}": _SharedCheck(kind) for kind in ("read", "write", "atomic")},
    **{f"shlo_race_global_{kind}": _GlobalCheck(kind) for kind in ("read", "write", "atomic")},
}
