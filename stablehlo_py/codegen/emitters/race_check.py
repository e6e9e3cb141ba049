"""Kernels that find their own races: SPIR-V in which every access of shared memory is checked.

Two threads of a block race if both access an element, one of them writes it, and no barrier comes between. Each element
has two words beside it in shared memory: who wrote it last and who read it last, and behind which barrier (`_token`).
What a thread finds there of another thread, behind the same barrier, is a race: in whatever order the threads ran, and
whether or not the values differ. Threads of a subgroup are threads as all others: no machine promises that one of them
sees what another one wrote without a barrier.

All arrays of a kernel are parts of one, so an address says which element it is, however it was computed. Races are
counted in global memory, by the two places in the template; a kernel of its own (`READER`) reads the counters.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.emitter import Lines
from stablehlo_py.codegen.emitters.gpu import GLOBAL, SUBGROUP, SpirvEmitter
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.values import I1, I8, I32, I64, PTR, ScalarType, Space, Type, Value, VectorType, pointer
from stablehlo_py.errors import InternalError

MOST_SITES = 64  # places of a kernel that are told apart
READER = "{}_races"  # the kernel that reads the counters of another, and sets them to zero
_CODEGEN = Path(__file__).parents[1]  # where the methods are that templates call
_MOST_FRAMES = 4  # of a template, in the name of a place
_COMPREHENSIONS = ("<dictcomp>", "<genexpr>", "<listcomp>", "<setcomp>")
_LOCAL = pointer(Space.SHARED)
_ALIGNMENT = 64  # of arrays

# A token: how many barriers came before (from 1 on), which place in the template, whether the access is atomic, which
# thread (from 1 on; _MANY: several). 0 is none.
_ATOMIC, _SITE, _EPOCH = 11, 12, 18  # where these begin
_MANY = (1 << _ATOMIC) - 1
_EPOCHS = 1 << (32 - _EPOCH)


@dataclass
class RaceChecks:
    """What is checked in the kernels of a program.

    Attributes:
        without: the number of a barrier that is left out (to see whether it is needed); None: none is.
        barriers: the places of all barriers, in the order in which templates emit them: their numbers.
        sites: the places that access shared memory, and what each of them does, by kernel.
    """

    without: int | None = None
    barriers: list[str] = field(default_factory=list)
    sites: dict[str, list[str]] = field(default_factory=dict)


def _place() -> str:
    """The lines of a template that lead here, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    lines = list[str]()
    while frame is not None and len(lines) < _MOST_FRAMES:
        file, name = Path(frame.f_code.co_filename), frame.f_code.co_name
        if _CODEGEN not in file.parents and name not in _COMPREHENSIONS:
            lines.append(f"{file.name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines)


class RaceCheckEmitter(SpirvEmitter):
    """One function, checked.

    Args:
        checks: is told what is checked.

    Raises:
        InternalError: blocks have more threads than are told apart; when it is used, by what cannot be checked.
    """

    def __init__(self, target: TargetDescription, threads: int, blocks: int, checks: RaceChecks) -> None:
        if threads >= _MANY:
            raise InternalError(f"races are found among {_MANY - 1} threads of a block, and there are {threads}")
        super().__init__(target, threads, blocks)
        self._checks = checks
        self._sites: dict[str, int] = {}
        self._arrays: dict[str, str] = {}  # what pointers point into, as far as that is known
        self._bytes = self._granule = 0  # of all arrays; of what is accessed as a whole
        self._known: dict[tuple[int, ScalarType], Value] = {}  # constants
        self._exchanges = False
        self._prologue: Lines = []
        self.lines.append(self._prologue)

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
        exchange = [("%race.exchange", self.threads, I64, _ALIGNMENT)] if self._exchanges else []
        self._shared = exchange
        if not self._bytes:
            return super().function(name, parameters, result, noalias=noalias, private=private)
        granule = self._granule or _ALIGNMENT
        words = 2 * self._bytes // granule
        pool = [("%race.pool", self._bytes, I8, _ALIGNMENT), ("%race.shadow", words, I32, _ALIGNMENT)]
        self._shared = [*exchange, *pool]
        place, found = f"!llvm.ptr<{GLOBAL}>", f"{name}_found"
        self._prologue[:] = [
            f"%race.granule = llvm.mlir.constant({granule} : i64) : i64",
            f"%race.words = llvm.mlir.constant({words} : i64) : i64",
            f"%race.found = llvm.mlir.addressof @{found} : {place}",
            self._cast_space("%race.counts", "%race.found", GLOBAL, self.generic),
            *self._written(self._begin),
        ]
        counters = f"!llvm.array<{MOST_SITES**2} x i32>"
        head = f"llvm.mlir.global internal @{found}() {{addr_space = {GLOBAL} : i32, dso_local}} : {counters}"
        zeros = f"{head} {{\n%0 = llvm.mlir.zero : {counters}\nllvm.return %0 : {counters}\n}}"
        self._checks.sites[name] = list(self._sites)[:MOST_SITES]
        kernel = super().function(name, parameters, result, noalias=noalias, private=private)
        assert self.target is not None
        return "\n".join((zeros, kernel, _reader(name, self.target)))

    def _written(self, write: Callable[[], None]) -> Lines:
        """The lines that something writes."""
        saved, self.lines = self.lines, []
        write()
        written, self.lines = self.lines, saved
        return written

    def _begin(self) -> None:
        self.store(self._known_constant(1, I32), self._epoch, 4)
        self._cleared()

    def _cleared(self) -> None:
        """No element was accessed by anyone."""
        self._helper("shlo_race_clear", _clear, [Value("%race.shadow", _LOCAL), Value("%race.words", I64)], None)
        super().barrier()

    def _helper(
        self, name: str, make: Callable[[str, TargetDescription], Function], operands: list[Value], result: Type | None
    ) -> str:
        """Call a function that `make` writes."""
        if name not in self.declarations:
            assert self.target is not None
            made = make(name, self.target)
            self.declarations |= {name: made.text()} | made.externals
        return self.call(name, operands, result)

    def _known_constant(self, number: int, type_: ScalarType) -> Value:
        if (number, type_) not in self._known:
            self._known[number, type_] = Value(self.constant(number, type_), type_)
        return self._known[number, type_]

    # --- memory ------------------------------------------------------------------------------------------------------

    def shared_memory(self, count: int, element: ScalarType, alignment: int) -> str:
        if not self._bytes:
            self._epoch = Value(self.alloca(self._known_constant(1, I64), I32, 4), PTR)
        ref, pool = self.name(), self.types[_LOCAL.text]
        self.entry.append(f"{ref} = llvm.getelementptr %race.pool[{self._bytes}] : ({pool}) -> {pool}, i8")
        self._arrays[ref] = f"shared array {len(self._arrays)} ({element} x {count})"
        self._bytes += -(-count * max(8, element.bits) // 8 // _ALIGNMENT) * _ALIGNMENT
        return ref

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        ref = super().element_address(base, offset, element)
        if base.ref in self._arrays:
            self._arrays[ref] = self._arrays[base.ref]
        return ref

    def load(self, type_: Type, address: Value, alignment: int, *, invariant: bool = False) -> str:
        self._check("read", address, type_, alignment)
        return super().load(type_, address, alignment, invariant=invariant)

    def store(self, a: Value, address: Value, alignment: int, *, nontemporal: bool = False) -> None:
        self._check("write", address, a.type, alignment)
        super().store(a, address, alignment, nontemporal=nontemporal)

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str) -> str:
        self._check("atomic", address, type_)
        return super().atomic_load(type_, address, ordering)

    def atomic_store(self, a: Value, address: Value) -> None:
        self._check("atomic", address, a.type)
        super().atomic_store(a, address)

    def _atomic(self, name: str, address: Value, a: Value, ordering: str = "seq_cst") -> str:
        self._check("atomic", address, a.type)
        return super()._atomic(name, address, a, ordering)

    def compare_exchange(self, address: Value, expected: Value, desired: Value) -> str:
        self._check("atomic", address, desired.type)
        return super().compare_exchange(address, expected, desired)

    def masked_load(self, type_: VectorType, address: Value, mask: Value, other: Value) -> str:
        self._not_checked("masked_load", address)
        return super().masked_load(type_, address, mask, other)

    def masked_store(self, a: Value, address: Value, mask: Value) -> None:
        self._not_checked("masked_store", address)
        super().masked_store(a, address, mask)

    def gather(self, type_: VectorType, base: Value, offsets: Value, mask: Value, other: Value) -> str:
        self._not_checked("gather", base)
        return super().gather(type_, base, offsets, mask, other)

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        self._not_checked("copy_memory", to, source)
        super().copy_memory(to, source, size)

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        self._not_checked("set_memory", to)
        super().set_memory(to, byte, size)

    def _not_checked(self, method: str, *addresses: Value) -> None:
        if any(address.type == _LOCAL for address in addresses):
            raise self.lacks(f"{method} of shared memory")

    def _check(self, kind: str, address: Value, type_: Type, alignment: int = 0) -> None:
        """Find out whether an access of shared memory races with those before it."""
        if address.type != _LOCAL:
            return
        if not self._bytes:
            raise self.lacks(f"{kind} of shared memory that another function has")
        size = type_.lanes * max(8, type_.bits) // 8
        self._granule = math.gcd(self._granule, size, alignment or size)
        verb = {"read": "reads", "write": "writes", "atomic": "updates"}[kind]
        site = f"{verb} {self._arrays.get(address.ref, 'shared memory')} at {_place()}"
        number = min(self._sites.setdefault(site, len(self._sites)), MOST_SITES - 1)
        state = [Value(f"%race.{each}", _LOCAL) for each in ("pool", "shadow")]
        state += [Value("%race.granule", I64), Value("%race.counts", PTR), self._epoch]
        operands = [address, self._known_constant(size, I64), self._known_constant(number, I32), *state]
        self._helper(f"shlo_race_{kind}", _CHECKS[kind], operands, None)

    # --- between threads ---------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        self._checks.barriers.append(_place())
        if self._checks.without == len(self._checks.barriers) - 1:
            return
        super().barrier()
        if self._bytes:
            full = self._helper("shlo_race_next", _next, [self._epoch], I1)
            self.begin_if(Value(full, I1), otherwise=False, unlikely=True)
            self._cleared()
            self.end_if([])

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        return self._exchanged("shlo_race_shuffle", a, mask)

    def subgroup_read(self, a: Value, number: Value) -> str:
        return self._exchanged("shlo_race_read_lane", a, number)

    def _exchanged(self, name: str, a: Value, number: Value) -> str:
        """Through shared memory: where the driver does not optimize, a subgroup of a processor is one thread."""
        self._exchanges = True
        place = Value("%race.exchange", _LOCAL)
        bits = ScalarType(f"i{a.type.bits}", a.type.bits)
        given = Value(self.bitcast(a, bits), bits) if a.type.is_float else a
        wide = Value(self.cast("zext", given, I64), I64) if a.type.bits < I64.bits else given
        self._helper("shlo_race_give", _give, [place, wide], None)
        super().barrier()
        taken = Value(self._helper(name, _take, [place, number], I64), I64)
        super().barrier()
        found = Value(self.cast("trunc", taken, bits), bits) if a.type.bits < I64.bits else taken
        return self.bitcast(found, a.type) if a.type.is_float else found.ref


# --- functions that kernels call -------------------------------------------------------------------------------------


class _Helper(SpirvEmitter):
    function_attributes = "no_inline"  # there are hundreds of calls in a kernel


def _clear(name: str, target: TargetDescription) -> Function:
    """name(shadow, words): no element was accessed by anyone, as far as this thread says it."""
    f = Function(name, [("shadow", _LOCAL), ("words", I64)], _Helper(target), private=True)
    f.loop(f.thread_number(), f.words, f.block_size(), lambda i: f.store(f.const(0, I32), f.shadow, i))
    f.ret()
    return f


def _next(name: str, target: TargetDescription) -> Function:
    """name(epoch): whether the numbers of epochs begin again, so that older tokens must go."""
    f = Function(name, [("epoch", PTR)], _Helper(target), result=I1, private=True)
    before = f.load(I32, f.epoch)
    full = f.cmp("eq", before, f.const(_EPOCHS - 1, I32))
    f.store(f.select(full, f.const(1, I32), f.binary("add", before, f.const(1, I32))), f.epoch)
    f.ret(full)
    return f


def _give(name: str, target: TargetDescription) -> Function:
    """name(exchange, value): what this thread has for others."""
    f = Function(name, [("exchange", _LOCAL), ("value", I64)], _Helper(target), private=True)
    f.store(f.value, f.exchange, f.thread_number())
    f.ret()
    return f


def _take(name: str, target: TargetDescription) -> Function:
    """name(exchange, number): what a thread of this subgroup has, by its number, or what this one's number differs in
    ("shuffle")."""
    f = Function(name, [("exchange", _LOCAL), ("number", I32)], _Helper(target), result=I64, private=True)
    thread, number = f.thread_number(), f.cast("zext", f.number, I64)
    first = f.const(-SUBGROUP) if not name.endswith("shuffle") else f.const(-1)
    f.ret(f.load(I64, f.exchange, f.binary("xor", f.binary("and", thread, first), number)))
    return f


class _Check:
    """name(address, bytes, site, pool, shadow, granule, counts, epoch): an access, and the races that it shows."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, name: str, target: TargetDescription) -> Function:
        parameters = [("address", _LOCAL), ("bytes", I64), ("site", I32), ("pool", _LOCAL), ("shadow", _LOCAL)]
        parameters += [("granule", I64), ("counts", PTR), ("epoch", PTR)]
        f = self.f = Function(name, parameters, _Helper(target), private=True)
        inside = f.isub(f.cast("ptrtoint", f.address, I64), f.cast("ptrtoint", f.pool, I64))
        first = f.idiv(inside, f.granule)
        self.token = self._joined(
            f.binary("shl", f.load(I32, f.epoch), f.const(_EPOCH, I32)),
            f.binary("shl", f.site, f.const(_SITE, I32)),
            f.const(int(self.kind == "atomic") << _ATOMIC, I32),
            f.cast("trunc", f.index(f.iadd(f.thread_number(), 1)), I32),
        )
        f.loop(first, f.iadd(first, f.idiv(f.bytes, f.granule)), 1, self._element)
        f.ret()
        return f

    def _joined(self, *parts: Value) -> Value:
        joined, *rest = parts
        for part in rest:
            joined = self.f.binary("or", joined, part)
        return joined

    def _element(self, number: Value) -> None:
        f, kind = self.f, self.kind
        writer = f.gep(f.shadow, f.imul(number, 2), I32)
        reader = f.gep(writer, 1, I32)
        mine, others = (reader, writer) if kind == "read" else (writer, reader)
        # Those who come at the same time see each other: first everyone says that he is there, then he looks.
        before = f.atomic_exchange(mine, self.token)
        foreign = self._is_foreign(before)
        if kind == "read":
            self._say_if(foreign, mine, self._joined(self.token, f.const(_MANY, I32)))
        elif kind == "write":
            self._count(foreign, before)
        else:
            is_atomic = f.cmp("ne", f.binary("and", before, f.const(1 << _ATOMIC, I32)), f.const(0, I32))
            is_plain = f.binary("xor", is_atomic, f.const(True, I1))
            self._count(f.binary("and", foreign, is_plain), before)
            self._say_if(f.binary("and", foreign, is_atomic), mine, self._joined(self.token, f.const(_MANY, I32)))
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
            site = f.binary("and", f.binary("lshr", before, f.const(_SITE, I32)), f.const(MOST_SITES - 1, I32))
            pair = f.binary("add", f.binary("mul", f.site, f.const(MOST_SITES, I32)), site)
            f.atomic_add(f.gep(f.counts, f.cast("zext", pair, I64), I32), f.const(1, I32))

        f.if_(race, count, unlikely=True)


_CHECKS = {kind: _Check(kind) for kind in ("read", "write", "atomic")}


def _reader(name: str, target: TargetDescription) -> str:
    """The kernel that one thread runs: it moves the counters of a kernel to an array of i32 [MOST_SITES, MOST_SITES],
    by the place of the later access, then that of the earlier one."""
    f = Function(READER.format(name), [("out", PTR)], SpirvEmitter(target, 1))
    counts = f.address_of(f"{name}_found")

    def move(i: Value) -> None:
        f.store(f.load(I32, counts, i), f.out, i)
        f.store(f.const(0, I32), counts, i)

    f.loop(0, MOST_SITES**2, 1, move)
    f.ret()
    return f.text()
