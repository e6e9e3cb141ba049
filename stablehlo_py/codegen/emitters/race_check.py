"""Kernels that find their own races: SPIR-V in which every access of shared and of global memory is checked.

Two threads race if both access an element, one of them writes it, and nothing orders them: between threads of a block a
barrier does, between blocks only the end of the launch. Each element has two words beside it, in shared memory or in a
shadow of global memory: who wrote it last and who read it last, and behind which barrier (the tokens of
race_helpers.py). What a thread finds there of another thread, behind the same barrier or of another block, is a race:
in whatever order the threads ran, and whether or not the values differ. Threads of a subgroup are threads as all
others: no machine promises that one of them sees what another one wrote without a barrier.

All shared arrays of a kernel are parts of one, and the host says where arrays of global memory are. So an address says
which element it is, however it was computed and whatever else lies in that array.

All threads of a block have to come to the same barriers: each says where it arrives, and finds who has arrived as many
times, but elsewhere. The end of a kernel is such a place, and so are exchanges between threads of a subgroup.

What was found is counted in a table, by two places in the templates, which the host reads.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType

from stablehlo_py.codegen.emitter import Lines
from stablehlo_py.codegen.emitters import race_helpers
from stablehlo_py.codegen.emitters.gpu import SpirvEmitter
from stablehlo_py.codegen.emitters.race_helpers import (
    LOCAL,
    MOST_BLOCKS,
    MOST_GLOBAL_PLACES,
    MOST_PLACES,
    MOST_SHARED_PLACES,
    MOST_THREADS,
)
from stablehlo_py.codegen.target import TargetDescription
from stablehlo_py.codegen.values import I1, I8, I32, I64, PTR, ScalarType, Type, Value, VectorType
from stablehlo_py.errors import InternalError

_CODEGEN = Path(__file__).parents[1]  # where the methods are that templates call
_MOST_FRAMES = 4  # of a template, in the name of a place
_COMPREHENSIONS = ("<dictcomp>", "<genexpr>", "<listcomp>", "<setcomp>")
_ALIGNMENT = 64  # of shared arrays
_VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}
_OF_FUNCTIONS = ("start", *(f"global_{kind}" for kind in _VERBS))  # what they call; the kernels that call them bring it
_ELSEWHERE = ("", "accesses memory at one of too many places")  # the first of all places, for those without a number


@dataclass
class RaceChecks:
    """What is checked in the kernels of a program.

    Attributes:
        barriers: the places of all barriers, in the order in which templates emit them: their numbers.
        places: where threads access memory or meet, by number: the function, what a thread does there.
        begins: the kernel that comes before each launch of a kernel.
        granules: bytes that functions access as a whole, 0: they access nothing.
        granule: those of all kernels.
    """

    barriers: list[str] = field(default_factory=list)
    places: list[tuple[str, str]] = field(default_factory=lambda: [_ELSEWHERE])
    begins: dict[str, str] = field(default_factory=dict)
    granules: dict[str, int] = field(default_factory=dict)
    granule: int = 0


def _place() -> str:
    """The lines of a template that lead here, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    lines = list[str]()
    while frame is not None and len(lines) < _MOST_FRAMES:
        file = _template(frame.f_code.co_filename)
        if file and frame.f_code.co_name not in _COMPREHENSIONS:
            lines.append(f"{file}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines)


@cache
def _template(path: str) -> str:
    """The name of a file; "" where it is one of code generation."""
    file = Path(path)
    return "" if _CODEGEN in file.parents else file.name


class RaceCheckEmitter(SpirvEmitter):
    """One function, checked.

    Args:
        checks: is told what is checked.

    Raises:
        InternalError: a launch has more threads than are told apart; when it is used, by what cannot be checked.
    """

    def __init__(self, target: TargetDescription, threads: int, blocks: int, checks: RaceChecks) -> None:
        for count, most, what in ((threads, MOST_THREADS, "threads of a block"), (blocks, MOST_BLOCKS, "blocks")):
            if count > most:
                raise InternalError(f"races are found among {most} {what}, and there are {count}")
        super().__init__(target, threads, blocks)
        self._checks = checks
        self._is_alone = threads == blocks == 1  # nobody is there to race with
        self._shared_places: dict[str, int] = {}
        self._places: list[str] = []  # the others
        self._accesses: dict[str, Value] = {}  # numbers of those that access memory
        self._arrays: dict[str, str] = {}  # what pointers point into, as far as that is known
        self._own: set[str] = set()  # pointers into memory of this thread, or into constants
        self._bytes = self._shared_granule = 0  # of all shared arrays; of what is accessed as a whole
        self._granule = 0  # the same of global memory
        self._known: dict[tuple[int, ScalarType], Value] = {}  # constants
        self._passed_place: Value | None = None
        self._exchanges = self._meets = False
        self._ends: list[Lines] = []  # what comes before each end
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
        assert self.target is not None
        if self._meets:
            end = self._numbered("ends")
            for lines in self._ends:
                lines[:] = self._written(lambda: self._arrive(end))
        granule = self._shared_granule or _ALIGNMENT
        words = 2 * self._bytes // granule
        self._shared = [("%race.exchange", self.threads, I64, _ALIGNMENT)] if self._exchanges else []
        self._shared += [("%race.arrived", 2, I32, _ALIGNMENT)] if self._meets else []
        if self._bytes:
            self._shared += [("%race.pool", self._bytes, I8, _ALIGNMENT), ("%race.shadow", words, I32, _ALIGNMENT)]
        numbers = {"granule": (granule, I64), "words": (words, I64), "base": (len(self._checks.places), I32)}
        self._checks.places += [(name, place) for place in self._shared_places]
        for number, place in enumerate(self._places):
            at = len(self._checks.places)
            numbers[f"place{number}"] = (at if at < MOST_GLOBAL_PLACES else 0, I32)
            self._checks.places.append((name, place))
        if len(self._checks.places) > MOST_PLACES:
            raise InternalError(f"races are found among {MOST_PLACES} places of a program, and there are more")
        constants = [
            f"%race.{each} = llvm.mlir.constant({number} : {type_}) : {type_}"
            for each, (number, type_) in numbers.items()
        ]
        self._prologue[:] = [*constants, *self._written(self._begin)]
        self._checks.granules[name] = self._granule
        if self.threads and not self._is_alone:
            self._checks.granule = math.gcd(self._checks.granule, self._granule)
            begin, texts = race_helpers.begin(len(parameters), self._granule or 1, self.target)
            self._checks.begins[name] = begin
            self.declarations |= {**texts, **race_helpers.provide(self.target)}
        return super().function(name, parameters, result, noalias=noalias, private=private)

    def _written(self, write: Callable[[], None]) -> Lines:
        """The lines that something writes."""
        saved, self.lines = self.lines, []
        write()
        written, self.lines = self.lines, saved
        return written

    def _begin(self) -> None:
        if self._passed_place is not None:
            self._helper("start", [self._passed_place], None)
        if self._meets:
            self._helper("clear", [Value("%race.arrived", LOCAL), self._known_constant(2, I64)], None)
        if self._bytes:
            self._cleared()
        elif self._meets:
            super().barrier()

    def _cleared(self) -> None:
        """No element of shared memory was accessed by anyone."""
        self._helper("clear", [Value("%race.shadow", LOCAL), Value("%race.words", I64)], None)
        super().barrier()

    def _helper(self, name: str, operands: list[Value], result: Type | None) -> str:
        """Call one of race_helpers.py."""
        if self.threads:
            self._need(name)
        return super().call(f"shlo_race_{name}", operands, result)

    def _need(self, name: str) -> None:
        """The module has one of race_helpers.py."""
        symbol = f"shlo_race_{name}"
        if symbol not in self.declarations:
            assert self.target is not None
            self.declarations |= race_helpers.helper(symbol, self.target)

    def _known_constant(self, number: int, type_: ScalarType) -> Value:
        if (number, type_) not in self._known:
            self._known[number, type_] = Value(self.constant(number, type_), type_)
        return self._known[number, type_]

    @property
    def _passed(self) -> Value:
        """Where a thread counts what it has passed."""
        if self._passed_place is None:
            self._passed_place = Value(super().alloca(self._known_constant(3, I64), I32, 4), PTR)
        return self._passed_place

    def _numbered(self, what: str) -> Value:
        """The number of one more place, among those of the program."""
        self._places.append(what)
        return Value(f"%race.place{len(self._places) - 1}", I32)

    # --- memory ------------------------------------------------------------------------------------------------------

    def parameter(self, name: str) -> str:
        ref = super().parameter(name)
        self._arrays[ref] = f"argument {name}"
        return ref

    def shared_memory(self, count: int, element: ScalarType, alignment: int) -> str:
        ref, pool = self.name(), self.types[LOCAL.text]
        self.entry.append(f"{ref} = llvm.getelementptr %race.pool[{self._bytes}] : ({pool}) -> {pool}, i8")
        number = sum(each.startswith("shared") for each in self._arrays.values())
        self._arrays[ref] = f"shared array {number} ({element} x {count})"
        self._bytes += -(-count * max(8, element.bits) // 8 // _ALIGNMENT) * _ALIGNMENT
        return ref

    def alloca(self, count: Value, element: ScalarType, alignment: int) -> str:
        ref = super().alloca(count, element, alignment)
        self._own.add(ref)
        return ref

    def address_of(self, name: str) -> str:
        ref = super().address_of(name)
        self._own.add(ref)
        return ref

    def element_address(self, base: Value, offset: Value | int, element: ScalarType) -> str:
        ref = super().element_address(base, offset, element)
        if base.ref in self._arrays:
            self._arrays[ref] = self._arrays[base.ref]
        if base.ref in self._own:
            self._own.add(ref)
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

    def atomic_replace(self, address: Value, expected: Value, desired: Value) -> tuple[str, str]:
        self._check("atomic", address, desired.type)
        return super().atomic_replace(address, expected, desired)

    def masked_load(self, type_: VectorType, address: Value, mask: Value, other: Value) -> str:
        raise self.lacks("masked_load")

    def masked_store(self, a: Value, address: Value, mask: Value) -> None:
        raise self.lacks("masked_store")

    def gather(self, type_: VectorType, base: Value, offsets: Value, mask: Value, other: Value) -> str:
        raise self.lacks("gather")

    def copy_memory(self, to: Value, source: Value, size: Value) -> None:
        self._check_bytes("read", source, size)
        self._check_bytes("write", to, size)
        super().copy_memory(to, source, size)

    def set_memory(self, to: Value, byte: Value, size: Value) -> None:
        self._check_bytes("write", to, size)
        super().set_memory(to, byte, size)

    def _check_bytes(self, kind: str, address: Value, size: Value) -> None:
        """Of so many bytes."""
        if address.type == LOCAL:
            raise self.lacks("copies of shared memory")
        known = size.constant if isinstance(size.constant, int) else 1
        self._check_global(kind, address, size, known)

    def _check(self, kind: str, address: Value, type_: Type, alignment: int = 0) -> None:
        """Find out whether an access races with those before it."""
        size = type_.lanes * max(8, type_.bits or 64) // 8
        if address.type != LOCAL:
            self._check_global(kind, address, self._known_constant(size, I64), math.gcd(size, alignment))
            return
        if not self._bytes:
            raise self.lacks(f"{kind} of shared memory that another function has")
        self._shared_granule = math.gcd(self._shared_granule, size, alignment)
        site = f"{_VERBS[kind]} {self._arrays.get(address.ref, 'shared memory')} at {_place()}"
        if site not in self._shared_places and len(self._shared_places) >= MOST_SHARED_PLACES - 1:
            site = "accesses shared memory at one of too many places"
        number = self._shared_places.setdefault(site, len(self._shared_places))
        state = [Value(f"%race.{each}", LOCAL) for each in ("pool", "shadow")]
        state += [Value("%race.granule", I64), Value("%race.base", I32), self._passed]
        operands = [address, self._known_constant(size, I64), self._known_constant(number, I32), *state]
        self._helper(f"shared_{kind}", operands, None)

    def _check_global(self, kind: str, address: Value, size: Value, granule: int) -> None:
        if self._is_alone or address.ref in self._own:
            return
        self._granule = math.gcd(self._granule, granule)
        what = f"{_VERBS[kind]} {self._arrays.get(address.ref, 'memory')} at {_place()}"
        if what not in self._accesses:
            self._accesses[what] = self._numbered(what)
        self._helper(f"global_{kind}", [address, size, self._accesses[what], self._passed], None)

    # --- calls and control flow --------------------------------------------------------------------------------------

    def call(self, name: str, operands: Sequence[Value], result: Type | None) -> str:
        # What a function accesses that was not written yet is not known.
        self._granule = math.gcd(self._granule, self._checks.granules.get(name, 1))
        if self.threads:
            for each in _OF_FUNCTIONS:
                self._need(each)
        return super().call(name, operands, result)

    def ret(self, value: Value | None) -> None:
        lines: Lines = []
        self._ends.append(lines)
        self.lines.append(lines)
        super().ret(value)

    # --- between threads ---------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        self._checks.barriers.append(_place())
        self._arrive(self._numbered(f"waits at {_place()}"))
        super().barrier()
        full = self._helper("next", [self._passed, Value(self.constant(len(self._checks.barriers), I64), I64)], I1)
        if self._bytes:
            self.begin_if(Value(full, I1), otherwise=False, unlikely=True)
            self._cleared()
            self.end_if([])

    def _arrive(self, place: Value) -> None:
        """This is a place where all threads of the block have to come."""
        if not self.threads:
            raise self.lacks("barriers in functions")
        self._meets = True
        self._helper("arrive", [self._passed, Value("%race.arrived", LOCAL), place], None)

    def subgroup_shuffle(self, a: Value, mask: Value) -> str:
        return self._exchanged("shuffle", a, mask)

    def subgroup_read(self, a: Value, number: Value) -> str:
        return self._exchanged("read_lane", a, number)

    def _exchanged(self, name: str, a: Value, number: Value) -> str:
        """Through shared memory: where the driver does not optimize, a subgroup of a processor is one thread."""
        self._exchanges = True
        self._arrive(self._numbered(f"exchanges at {_place()}"))
        place = Value("%race.exchange", LOCAL)
        bits = ScalarType(f"i{a.type.bits}", a.type.bits)
        given = Value(self.bitcast(a, bits), bits) if a.type.is_float else a
        wide = Value(self.cast("zext", given, I64), I64) if a.type.bits < I64.bits else given
        self._helper("give", [place, wide], None)
        super().barrier()
        taken = Value(self._helper(name, [place, number], I64), I64)
        super().barrier()
        found = Value(self.cast("trunc", taken, bits), bits) if a.type.bits < I64.bits else taken
        return self.bitcast(found, a.type) if a.type.is_float else found.ref
