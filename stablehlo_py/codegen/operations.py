"""Operations of the kernel language: index arithmetic, arithmetic on scalars and vectors, memory, atomics."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from stablehlo_py.codegen.assembly import Assembly
from stablehlo_py.codegen.bounds import bounds_of, fits
from stablehlo_py.codegen.values import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    Index,
    ScalarType,
    Type,
    Value,
    VectorType,
    vector,
)
from stablehlo_py.dialect.symint import IntLike, is_known, maximum, minimum

# Comparisons of indices that are known.
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "sge": operator.ge,
    "sgt": operator.gt,
    "sle": operator.le,
    "slt": operator.lt,
}


class Operations(Assembly):
    """What a function can compute."""

    # --- integer (index) arithmetic: folded, also over SymInts, and reused -------------------------------------------

    def iadd(self, a: Index, b: Index) -> Index:
        """a + b on i64 indices (no overflow assumed)."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        if isinstance(b, int) and b == 0:
            return a
        return self._index_op("add", a, b, no_wrap=True)

    def isub(self, a: Index, b: Index) -> Index:
        """a - b on i64 indices."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a - b
        if not isinstance(b, Value):
            return self.iadd(a, -b)
        return self._index_op("sub", a, b, no_wrap=True)

    def imul(self, a: Index, b: Index) -> Index:
        """a * b on i64 indices."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if b == 0:
                return 0
            if b == 1:
                return a
        return self._index_op("mul", a, b, no_wrap=True)

    def idiv(self, a: Index, b: Index) -> Index:
        """a // b for non-negative a and positive b."""
        a, b = self._folded(a), self._folded(b)
        if isinstance(b, int) and b == 1:
            return a
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a // b
        return self._index_op("udiv", a, b)

    def irem(self, a: Index, b: Index) -> Index:
        """a % b for non-negative a and positive b."""
        a, b = self._folded(a), self._folded(b)
        if isinstance(b, int) and b == 1:
            return 0
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a % b
        return self._index_op("urem", a, b)

    def ixor(self, a: Index, b: Index) -> Index:
        """a ^ b for non-negative a and b."""
        a, b = self._folded(a), self._folded(b)
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        if isinstance(a, int) and a == 0:
            return b
        if isinstance(b, int) and b == 0:
            return a
        return self._index_op("xor", a, b)

    def imin(self, a: Index, b: Index) -> Index:
        """min(a, b), signed."""
        return self._call_index("smin", minimum, a, b)

    def imax(self, a: Index, b: Index) -> Index:
        """max(a, b), signed."""
        return self._call_index("smax", maximum, a, b)

    @staticmethod
    def _folded(value: Index) -> Index:
        if isinstance(value, Value) and value.type is I64 and isinstance(value.constant, int):
            return value.constant
        return value

    def _index_op(self, name: str, a: Index, b: Index, *, no_wrap: bool = False) -> Value:
        def write(left: Value, right: Value, is_short: bool) -> str:
            return self.emit.binary(name, left, right, no_wrap=no_wrap and not is_short)

        return self._bounded_op(name, self.index(a), self.index(b), write)

    def _call_index(self, name: str, exact: Callable[[IntLike, IntLike], IntLike], a: Index, b: Index) -> Index:
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return exact(a, b)

        def write(left: Value, right: Value, is_short: bool) -> str:
            return self.emit.intrinsic(name, (left, right), I32 if is_short else I64)

        return self._bounded_op(name, self.index(a), self.index(b), write)

    def _bounded_op(self, name: str, left: Value, right: Value, write: Callable[[Value, Value, bool], str]) -> Value:
        """An operation on indices, in fewer bits where its operands and its result are known to fit. Then it has no
        promise not to overflow: what is computed for elements that are not there may be out of bounds."""
        key, level = (name, left.ref, right.ref), max(left.level, right.level)
        known = self.recall(key)
        if known is not None:
            return known
        bounds = bounds_of(name, left.bounds, right.bounds) if self.emit.index_bits < 64 else None
        is_short = bounds is not None and all(fits(each, 32) for each in (left.bounds, right.bounds, bounds))
        with self.at_level(level):
            if is_short:
                narrow = self._value(write(self._short(left), self._short(right), True), I32)
                result = self.cast("sext", narrow, I64)
                self.remember(("short", result.ref), narrow)
            else:
                result = self._value(write(left, right, False), left.type)
            result.bounds = bounds
            return self.remember(key, result)

    def _short(self, a: Value) -> Value:
        """An index that fits in 32 bits."""
        if isinstance(a.constant, int):
            return self.const(a.constant, I32)
        return self._pure(("short", a.ref), I32, a.level, self.emit.cast, "trunc", a, I32)

    def bounded(self, a: Index, low: IntLike, high: IntLike) -> Index:
        """An index that is known to be between two numbers."""
        if not isinstance(a, Value) or self.emit.index_bits == 64 or not is_known(low, high):
            return a
        if a.bounds is not None:
            low, high = max(low, a.bounds[0]), min(high, a.bounds[1])
        return Value(a.ref, a.type, a.constant, a.level, (int(low), int(high)))

    # --- arithmetic on any type --------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """Two values of one type: fadd fsub fmul fdiv frem add sub mul and or xor shl lshr ashr sdiv udiv srem urem."""
        return self._value(self.emit.binary(name, a, b), a.type)

    def checked(self, name: str, a: Value, b: Value) -> tuple[Value, Value]:
        """sadd, ssub or smul of two i64, modulo 2^64; and an i1, whether that is not the exact result."""
        target = self.emit.target
        if name == "smul" and target is not None and target.architecture.pointer_bits < 64:
            return self._checked_product(a, b)
        value, overflows = self.emit.checked(name, a, b)
        return self._value(value, I64), self._value(overflows, I1)

    def _checked_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        """smul by a division: for the instruction, LLVM calls a product of 128 bits in a library where registers are
        narrow."""
        product = self.binary("mul", a, b)
        zero, negative = self.cmp("eq", a, self.const(0)), self.cmp("eq", a, self.const(-1))
        special = self.binary("or", zero, negative)
        quotient = self.binary("sdiv", product, self.select(special, self.const(1), a))
        inexact = self.cmp("ne", quotient, b)
        least = self.binary("and", negative, self.cmp("eq", b, self.const(-(1 << 63))))
        return product, self.select(special, least, inexact)

    def fadd(self, a: Value, b: Value) -> Value:
        return self.binary("fadd", a, b)

    def fsub(self, a: Value, b: Value) -> Value:
        return self.binary("fsub", a, b)

    def fmul(self, a: Value, b: Value) -> Value:
        return self.binary("fmul", a, b)

    def fdiv(self, a: Value, b: Value) -> Value:
        return self.binary("fdiv", a, b)

    def fneg(self, a: Value) -> Value:
        return self._value(self.emit.fneg(a), a.type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c with one rounding."""
        return self.intrinsic("fma", a, b, c)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """sqrt, fabs, floor, ceil, roundeven, round, trunc, copysign, fma, maximum, minimum, smax, smin, umax, umin,
        ctpop, ctlz, cttz, bitreverse, fshl, maxnum, minnum, sadd.sat ... The result has the first operand's type."""
        result = operands[0].type
        return self._value(self.emit.intrinsic(name, operands, result), result)

    def target_intrinsic(self, name: str, *operands: Value, result: Type) -> Value:
        """An instruction of one machine, by the name that its compiler gives it ("llvm.x86...")."""
        return self._value(self.emit.target_intrinsic(name, operands, result), result)

    def target_effect(self, name: str, *operands: Value) -> None:
        """The same of an instruction without a result."""
        self.emit.target_effect(name, operands)

    def cmp(self, predicate: str, a: Value, b: Value) -> Value:
        """i1 (or vector of i1). Float predicates: oeq ogt oge olt ole one ord ueq ... une uno; integer: eq ne slt
        sle sgt sge ult ule ugt uge. Of indices that are known it is known."""
        left, right = self._folded(a), self._folded(b)
        if predicate in _COMPARED and not isinstance(left, Value) and not isinstance(right, Value):
            return self.const(_COMPARED[predicate](left, right), I1)
        return self._value(self.emit.cmp(predicate, a, b), vector(a.type.lanes, I1))

    def is_null(self, pointer: Value) -> Value:
        """i1: the null pointer."""
        return self.cmp("eq", self.cast("ptrtoint", pointer, I64), self.const(0))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """condition ? a : b; the condition is i1 or a vector of i1 with as many lanes."""
        if condition.constant is not None:
            return a if condition.constant else b
        if condition.ref in self._masks:
            return a if self._masks[condition.ref] else b
        return self._value(self.emit.select(condition, a, b), a.type)

    def cast(self, name: str, a: Value, to: ScalarType) -> Value:
        """Lane-wise cast to another element type: trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast
        ptrtoint inttoptr."""
        result = vector(a.type.lanes, to)
        return a if result == a.type else self._value(self.emit.cast(name, a, result), result)

    def bitcast(self, a: Value, to: Type) -> Value:
        """Reinterpret the bits as another type of the same total width."""
        return a if to == a.type else self._value(self.emit.bitcast(a, to), to)

    # --- vectors -----------------------------------------------------------------------------------------------------

    def splat(self, a: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1:
            return a
        if a.constant is not None:
            return self.const(a.constant, VectorType(lanes, a.type.element))
        key = ("splat", a.ref, lanes)
        known = self.recall(key)
        if known is not None:
            return known
        with self.at_level(a.level):
            first = self.insert(self.poison(VectorType(lanes, a.type.element)), a, 0)
            return self.remember(key, self.shuffle(first, first, [0] * lanes))

    def insert(self, into: Value, a: Value, lane: Index) -> Value:
        """`into` with scalar `a` at a lane."""
        return self._value(self.emit.insert(into, a, self.index(lane)), into.type)

    def extract(self, a: Value, lane: Index) -> Value:
        """One lane as a scalar."""
        return self._value(self.emit.extract(a, self.index(lane)), a.type.element)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes of a (0..n-1) and b (n..2n-1) in a new order."""
        if a.type.element is I1 and len(lanes) > 1:
            one, other = self.known_lanes(a), self.known_lanes(b)
            if one and other:  # LLVM may lose such a mask (docs/decisions.md)
                return self.const_lanes([[*one, *other][lane] for lane in lanes], I1)
        return self._value(self.emit.shuffle(a, b, lanes), VectorType(len(lanes), a.type.element))

    def opaque(self, a: Value) -> Value:
        """The same vector, of at least 32 bits, through which a compiler does not look when it combines shuffles."""
        element = a.type.element if a.type.element in (F32, F64) else F32  # LLVM has this for floats only
        floats = self.bitcast(a, VectorType(a.type.lanes * a.type.bits // element.bits, element))
        return self.bitcast(self._value(self.emit.opaque(floats), floats.type), a.type)

    def lane_ids(self, lanes: int, element: ScalarType = I64) -> Value:
        """<0, 1, 2, ...>."""
        return self.const_lanes(range(lanes), element)

    def reduce_lanes(self, kind: str, a: Value) -> Value:
        """Combine the lanes of a vector in a fixed tree: kind is one of fadd fmul fmaximum fminimum add mul and or
        xor smax smin umax umin."""
        if a.type.lanes == 1:
            return a
        element = a.type.element
        start = self.const(-0.0 if kind == "fadd" else 1.0, element) if kind in ("fadd", "fmul") else None
        return self._value(self.emit.reduce_lanes(kind, a, start), element)

    # --- memory ------------------------------------------------------------------------------------------------------

    def gep(self, base: Value, offset: Index, element: ScalarType) -> Value:
        """base + offset elements."""
        offset = self._folded(offset)
        level = base.level
        by: Value | int
        key: tuple[object, ...]
        if isinstance(offset, int):
            if offset == 0:
                return base
            by, level = offset if abs(offset) < self.emit.static_offsets else self.const(offset), self.level
            key = ("gep", base.ref, offset, element.text)
        else:
            by = self.index(offset)
            level, key = max(level, by.level), ("gep", base.ref, by.ref, element.text)
        return self._pure(key, base.type, level, self.emit.element_address, base, by, element)

    def load(self, type_: Type, base: Value, offset: Index = 0, *, align: int | None = None) -> Value:
        """Load a scalar or consecutive lanes at base + offset elements. Alignment: the element's, unless given
        (bytes)."""
        address = self.gep(base, offset, type_.element)
        return self._value(self.emit.load(type_, address, align or self.emit.alignment(type_)), type_)

    def store(
        self,
        a: Value,
        base: Value,
        offset: Index = 0,
        mask: Value | None = None,
        *,
        align: int | None = None,
        nontemporal: bool = False,
    ) -> None:
        """Store a scalar or consecutive lanes at base + offset elements; only lanes whose mask is set, if there is
        one."""
        lane = None if mask is None else self.only_lane(mask)
        if lane is not None:
            # LLVM would store as many bits as a lane had before the vector was truncated: also what lies behind it.
            self.store(self.extract(a, lane), base, self.iadd(offset, lane))
            return
        target = self.emit.target
        if mask is not None and target is not None and not target.masked_stores and self.first_lanes(mask):
            self._store_first(a, base, offset, self.first_lanes(mask))
            return
        address = self.gep(base, offset, a.type.element)
        if mask is not None:
            self.emit.masked_store(a, address, mask)
        else:
            self.emit.store(a, address, align or self.emit.alignment(a.type), nontemporal=nontemporal)

    def _store_first(self, a: Value, base: Value, offset: Index, count: int) -> None:
        """Store the first lanes, in pieces of a power of two."""
        start = 0
        while start < count:
            size = 1 << (count - start).bit_length() - 1
            piece = self.extract(a, start) if size == 1 else self.shuffle(a, a, range(start, start + size))
            self.store(piece, base, self.iadd(offset, start))
            start += size

    def masked_load(self, type_: VectorType, base: Value, offset: Index, mask: Value, other: Value) -> Value:
        """Lanes whose mask is set; the others come from `other` and touch no memory."""
        address = self.gep(base, offset, type_.element)
        return self._value(self.emit.masked_load(type_, address, mask, other), type_)

    def gather(
        self, type_: VectorType, base: Value, offsets: Value, mask: Value | None = None, other: Value | None = None
    ) -> Value:
        """Lane i from base + offsets[i] elements (offsets: vector of i64)."""
        mask = mask or self.const(True, VectorType(type_.lanes, I1))
        return self._value(self.emit.gather(type_, base, offsets, mask, other or self.poison(type_)), type_)

    def joined(self, numbers: Sequence[Value]) -> Value:
        """A vector of scalars."""
        result = self.poison(vector(len(numbers), numbers[0].type.element))
        for lane, number in enumerate(numbers):
            result = self.insert(result, number, lane)
        return result

    def tail_mask(self, remaining: Index, lanes: int) -> Value:
        """Mask whose first `remaining` lanes are set (remaining may exceed lanes)."""
        remaining = self._folded(remaining)
        if isinstance(remaining, int):
            return self.const_lanes([int(lane < remaining) for lane in range(lanes)], I1)
        limit = self.splat(self.index(remaining), lanes)
        return self.cmp("slt", self.lane_ids(lanes), limit)

    def prefetch(
        self, base: Value, offset: Index, element: ScalarType, *, write: bool = False, locality: int = 3
    ) -> None:
        """Hint that base + offset elements will be used."""
        self.emit.prefetch(self.gep(base, offset, element), write=write, locality=locality)

    def alloca(self, count: IntLike, element: ScalarType, align: int = 64) -> Value:
        """Stack memory for `count` elements, allocated once at the entry."""
        return Value(self.emit.alloca(self.const(count), element, align), PTR)

    def lookup_table(self, numbers: Sequence[float]) -> Value:
        """Numbers of f64 that `looked_up` reads. They are stored where they are needed: code that never comes here pays
        nothing for them."""
        lanes = 8
        padded = [*numbers, *[0.0] * (-len(numbers) % lanes)]
        memory = self.alloca(len(padded), F64)
        for start in range(0, len(padded), lanes):
            self.store(self.const_lanes(padded[start : start + lanes], F64), memory, start)
        return memory

    def looked_up(self, table: Value, at: Value) -> Value:
        """Numbers of a `lookup_table`, by lanes of i64."""
        wide = isinstance(at.type, VectorType)
        return self.gather(VectorType(at.type.lanes, F64), table, at) if wide else self.load(F64, table, at)

    def copy_memory(self, to: Value, source: Value, size: Index) -> None:
        """memcpy of `size` bytes between buffers that do not overlap."""
        self.emit.copy_memory(to, source, self.index(size))

    def set_memory(self, to: Value, byte: int, size: Index) -> None:
        """memset of `size` bytes."""
        length = self.index(size)
        self.emit.set_memory(to, self.const(byte, I8), length)

    # --- atomics (sequentially consistent) ---------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str = "seq_cst") -> Value:
        """Atomic load."""
        return self._value(self.emit.atomic_load(type_, address, ordering), type_)

    def atomic_store(self, a: Value, address: Value) -> None:
        """Atomic store."""
        self.emit.atomic_store(a, address)

    def atomic_add(self, address: Value, a: Value, ordering: str = "seq_cst") -> Value:
        """Fetch and add; returns the old value."""
        return self._value(self.emit.atomic_add(address, a, ordering), a.type)

    def atomic_exchange(self, address: Value, a: Value) -> Value:
        """Replace what is there by `a`; returns the old value."""
        return self._value(self.emit.atomic_exchange(address, a), a.type)

    def compare_exchange(self, address: Value, expected: Value, desired: Value) -> Value:
        """Replace `expected` by `desired`; returns i1: whether it was replaced."""
        return self._value(self.emit.compare_exchange(address, expected, desired), I1)

    def atomic_update(self, name: str, address: Value, a: Value) -> None:
        """Combine `a` into what is there, by an operation of LLVM's atomicrmw ("add", "fadd", "umax", ...): one step to
        all threads of the device, which orders nothing else (monotonic)."""
        self.emit.atomic_update(name, address, a)

    def atomic_replace(self, address: Value, expected: Value, desired: Value) -> tuple[Value, Value]:
        """Write `desired` where `expected` is: what was there, and i1, whether it was that. Ordered as
        `atomic_update`."""
        found, done = self.emit.atomic_replace(address, expected, desired)
        return self._value(found, expected.type), self._value(done, I1)

    def fence(self) -> None:
        """Order all earlier memory operations, non-temporal stores included, before all later ones."""
        self.emit.fence()

    def pause(self) -> None:
        """Tell the core that this is a spin loop."""
        if self.architecture.spin_hint is not None:
            intrinsic, operands = self.architecture.spin_hint
            self.emit.pause(intrinsic, [self.const(number, I32) for number in operands])
