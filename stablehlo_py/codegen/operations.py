"""Operations of the kernel language: index arithmetic, arithmetic on scalars and vectors, memory, atomics."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.codegen.assembly import Assembly
from stablehlo_py.codegen.values import (
    I1,
    I8,
    I64,
    PTR,
    Index,
    ScalarType,
    Type,
    Value,
    VectorType,
    vector,
)
from stablehlo_py.dialect.size import maximum, minimum


class Operations(Assembly):
    """What a function can compute."""

    # --- integer (index) arithmetic: folded, also over Sizes, and reused ---------------------------------------------

    def iadd(self, a: Index, b: Index) -> Index:
        """a + b on i64 indices (no overflow assumed)."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a + b
        if a == 0 and isinstance(a, int):
            return b
        if b == 0 and isinstance(b, int):
            return a
        return self._index_op("add", a, b, " overflow<nsw>")

    def isub(self, a: Index, b: Index) -> Index:
        """a - b on i64 indices."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return a - b
        if not isinstance(b, Value):
            return self.iadd(a, -b)
        return self._index_op("sub", a, b, " overflow<nsw>")

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
        return self._index_op("mul", a, b, " overflow<nsw>")

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

    def imin(self, a: Index, b: Index) -> Index:
        """min(a, b), signed."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return minimum(a, b)
        return self._call_index("smin", a, b)

    def imax(self, a: Index, b: Index) -> Index:
        """max(a, b), signed."""
        a, b = self._folded(a), self._folded(b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            return maximum(a, b)
        return self._call_index("smax", a, b)

    @staticmethod
    def _folded(value: Index) -> Index:
        known = isinstance(value, Value) and isinstance(value.constant, int) and value.type is I64
        return value.constant if known else value  # type: ignore[union-attr, return-value]

    def _index_op(self, name: str, a: Index, b: Index, flags: str = "") -> Value:
        left, right = self.index(a), self.index(b)
        type_ = left.type
        text = f"llvm.{name} {left.ref}, {right.ref}{flags} : {type_.text}"
        return self._pure((name, left.ref, right.ref), text, type_, max(left.level, right.level))

    def _call_index(self, name: str, a: Index, b: Index) -> Value:
        left, right = self.index(a), self.index(b)
        text = f"llvm.intr.{name}({left.ref}, {right.ref}) : (i64, i64) -> i64"
        return self._pure((name, left.ref, right.ref), text, I64, max(left.level, right.level))

    # --- arithmetic on any type --------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, flags: str = "") -> Value:
        """`llvm.<name>` of two values of one type: fadd fsub fmul fdiv frem add sub mul and or xor shl lshr ashr
        sdiv udiv srem urem."""
        return self.op(f"llvm.{name} {a.ref}, {b.ref}{flags} : {a.type.text}", a.type)

    def checked(self, name: str, a: Value, b: Value) -> tuple[Value, Value]:
        """sadd, ssub or smul of two i64, modulo 2^64; and an i1, whether that is not the exact result."""
        pair, struct = self._name(), "!llvm.struct<(i64, i1)>"
        self._lines.append(f'{pair} = "llvm.intr.{name}.with.overflow"({a.ref}, {b.ref}) : (i64, i64) -> {struct}')
        return (
            self.op(f"llvm.extractvalue {pair}[0] : {struct}", I64),
            self.op(f"llvm.extractvalue {pair}[1] : {struct}", I1),
        )

    def fadd(self, a: Value, b: Value) -> Value:
        return self.binary("fadd", a, b)

    def fsub(self, a: Value, b: Value) -> Value:
        return self.binary("fsub", a, b)

    def fmul(self, a: Value, b: Value) -> Value:
        return self.binary("fmul", a, b)

    def fdiv(self, a: Value, b: Value) -> Value:
        return self.binary("fdiv", a, b)

    def fneg(self, a: Value) -> Value:
        return self.op(f"llvm.fneg {a.ref} : {a.type.text}", a.type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c with one rounding."""
        return self.intrinsic("fma", a, b, c)

    def intrinsic(self, name: str, *operands: Value, result: Type | None = None, attributes: str = "") -> Value:
        """`llvm.intr.<name>(...)`: sqrt, fabs, floor, ceil, roundeven, round, trunc, copysign, fma, maximum, minimum,
        smax, smin, umax, umin, ctpop, bitreverse, maxnum, minnum, sadd.sat ... The result has the first operand's
        type unless given."""
        result = result or operands[0].type
        refs = ", ".join(operand.ref for operand in operands)
        types = ", ".join(operand.type.text for operand in operands)
        return self.op(f"llvm.intr.{name}({refs}){attributes} : ({types}) -> {result.text}", result)

    def target_intrinsic(self, name: str, *operands: Value, result: Type) -> Value:
        """LLVM's intrinsic of that name ("llvm.x86..."), for which the MLIR dialect has no op."""
        refs = ", ".join(operand.ref for operand in operands)
        types = ", ".join(operand.type.text for operand in operands)
        return self.op(f'llvm.call_intrinsic "{name}"({refs}) : ({types}) -> {result.text}', result)

    def cmp(self, predicate: str, a: Value, b: Value) -> Value:
        """i1 (or vector of i1). Float predicates: oeq ogt oge olt ole one ord ueq ... une uno; integer: eq ne slt
        sle sgt sge ult ule ugt uge."""
        name = "fcmp" if a.type.is_float else "icmp"
        return self.op(f'llvm.{name} "{predicate}" {a.ref}, {b.ref} : {a.type.text}', vector(a.type.lanes, I1))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """condition ? a : b; the condition is i1 or a vector of i1 with as many lanes."""
        return self.op(f"llvm.select {condition.ref}, {a.ref}, {b.ref} : {condition.type.text}, {a.type.text}", a.type)

    def cast(self, name: str, a: Value, to: ScalarType) -> Value:
        """Lane-wise cast to another element type: trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast
        ptrtoint inttoptr."""
        result = vector(a.type.lanes, to)
        return a if result == a.type else self.op(f"llvm.{name} {a.ref} : {a.type.text} to {result.text}", result)

    def bitcast(self, a: Value, to: Type) -> Value:
        """Reinterpret the bits as another type of the same total width."""
        return a if to == a.type else self.op(f"llvm.bitcast {a.ref} : {a.type.text} to {to.text}", to)

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
        position = self.index(lane)
        return self.op(f"llvm.insertelement {a.ref}, {into.ref}[{position.ref} : i64] : {into.type.text}", into.type)

    def extract(self, a: Value, lane: Index) -> Value:
        """One lane as a scalar."""
        position = self.index(lane)
        return self.op(f"llvm.extractelement {a.ref}[{position.ref} : i64] : {a.type.text}", a.type.element)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes of a (0..n-1) and b (n..2n-1) in a new order."""
        text = f"llvm.shufflevector {a.ref}, {b.ref} [{', '.join(map(str, lanes))}] : {a.type.text}"
        return self.op(text, VectorType(len(lanes), a.type.element))

    def lane_ids(self, lanes: int, element: ScalarType = I64) -> Value:
        """<0, 1, 2, ...>."""
        return self.const_lanes(range(lanes), element)

    def reduce_lanes(self, kind: str, a: Value) -> Value:
        """Combine the lanes of a vector in a fixed tree: kind is one of fadd fmul fmaximum fminimum add mul and or
        xor smax smin umax umin."""
        if a.type.lanes == 1:
            return a
        element = a.type.element
        if kind in ("fadd", "fmul"):
            # reassoc lets the backend use its tree; the tree depends on the lanes only, so bits are reproducible.
            start = self.const(-0.0 if kind == "fadd" else 1.0, element)
            return self.op(
                f'"llvm.intr.vector.reduce.{kind}"({start.ref}, {a.ref}) '
                "<{fastmathFlags = #llvm.fastmath<reassoc>}> : "
                f"({element.text}, {a.type.text}) -> {element.text}",
                element,
            )
        return self.op(f'"llvm.intr.vector.reduce.{kind}"({a.ref}) : ({a.type.text}) -> {element.text}', element)

    # --- memory ------------------------------------------------------------------------------------------------------

    def gep(self, base: Value, offset: Index, element: ScalarType) -> Value:
        """base + offset elements."""
        offset = self._folded(offset)
        if isinstance(offset, int):
            if offset == 0:
                return base
            text = f"llvm.getelementptr {base.ref}[{offset}] : (!llvm.ptr) -> !llvm.ptr, {element.text}"
            if abs(offset) >= 1 << 29:  # static offsets are i32 in the dialect
                position = self.const(offset)
                text = f"llvm.getelementptr {base.ref}[{position.ref}] : (!llvm.ptr, i64) -> !llvm.ptr, {element.text}"
            return self._pure(("gep", base.ref, offset, element), text, PTR)
        offset = self.index(offset)
        text = f"llvm.getelementptr {base.ref}[{offset.ref}] : (!llvm.ptr, i64) -> !llvm.ptr, {element.text}"
        return self._pure(("gep", base.ref, offset.ref, element), text, PTR, max(base.level, offset.level))

    def load(self, type_: Type, base: Value, offset: Index = 0, *, align: int | None = None) -> Value:
        """Load a scalar or consecutive lanes at base + offset elements. Alignment: the element's, unless given
        (bytes)."""
        address = self.gep(base, offset, type_.element)
        alignment = align or max(1, type_.element.bits // 8)
        return self.op(f"llvm.load {address.ref} {{alignment = {alignment} : i64}} : !llvm.ptr -> {type_.text}", type_)

    def store(
        self, a: Value, base: Value, offset: Index = 0, *, align: int | None = None, nontemporal: bool = False
    ) -> None:
        """Store a scalar or consecutive lanes at base + offset elements."""
        address = self.gep(base, offset, a.type.element)
        alignment = align or max(1, a.type.element.bits // 8)
        extra = ", nontemporal" if nontemporal else ""
        attributes = f"{{alignment = {alignment} : i64{extra}}}"
        self._lines.append(f"llvm.store {a.ref}, {address.ref} {attributes} : {a.type.text}, !llvm.ptr")

    def masked_load(self, type_: VectorType, base: Value, offset: Index, mask: Value, other: Value) -> Value:
        """Lanes whose mask is set; the others come from `other` and touch no memory."""
        address = self.gep(base, offset, type_.element)
        alignment = max(1, type_.element.bits // 8)
        return self.op(
            f"llvm.intr.masked.load {address.ref}, {mask.ref}, {other.ref} {{alignment = {alignment} : i32}} : "
            f"(!llvm.ptr, {mask.type.text}, {type_.text}) -> {type_.text}",
            type_,
        )

    def masked_store(self, a: Value, base: Value, offset: Index, mask: Value) -> None:
        """Store the lanes whose mask is set."""
        address = self.gep(base, offset, a.type.element)
        alignment = max(1, a.type.element.bits // 8)
        self._lines.append(
            f"llvm.intr.masked.store {a.ref}, {address.ref}, {mask.ref} {{alignment = {alignment} : i32}} : "
            f"{a.type.text}, {mask.type.text} into !llvm.ptr"
        )

    def gather(
        self, type_: VectorType, base: Value, offsets: Value, mask: Value | None = None, other: Value | None = None
    ) -> Value:
        """Lane i from base + offsets[i] elements (offsets: vector of i64)."""
        pointers = f"vector<{type_.lanes}x!llvm.ptr>"
        address = self.op(
            f"llvm.getelementptr {base.ref}[{offsets.ref}] : "
            f"(!llvm.ptr, {offsets.type.text}) -> {pointers}, {type_.element.text}",
            I64,
        )
        mask = mask or self.const(True, VectorType(type_.lanes, I1))
        other = other or self.poison(type_)
        alignment = max(1, type_.element.bits // 8)
        return self.op(
            f"llvm.intr.masked.gather {address.ref}, {mask.ref}, {other.ref} {{alignment = {alignment} : i32}} : "
            f"({pointers}, {mask.type.text}, {type_.text}) -> {type_.text}",
            type_,
        )

    def tail_mask(self, remaining: Index, lanes: int) -> Value:
        """Mask whose first `remaining` lanes are set (remaining may exceed lanes)."""
        if isinstance(remaining, int):
            return self.const_lanes([int(lane < remaining) for lane in range(lanes)], I1)
        limit = self.splat(self.index(remaining), lanes)
        return self.cmp("slt", self.lane_ids(lanes), limit)

    def prefetch(
        self, base: Value, offset: Index, element: ScalarType, *, write: bool = False, locality: int = 3
    ) -> None:
        """Hint that base + offset elements will be used."""
        address = self.gep(base, offset, element)
        self._lines.append(
            f'"llvm.intr.prefetch"({address.ref}) '
            f"<{{rw = {int(write)} : i32, hint = {locality} : i32, cache = 1 : i32}}> : (!llvm.ptr) -> ()"
        )

    def alloca(self, count: int, element: ScalarType, align: int = 64) -> Value:
        """Stack memory for `count` elements, allocated once at the entry."""
        size = self.const(count)
        ref = self._name()
        self._entry.append(
            f"{ref} = llvm.alloca {size.ref} x {element.text} {{alignment = {align} : i64}} : (i64) -> !llvm.ptr"
        )
        return Value(ref, PTR)

    def copy_memory(self, to: Value, source: Value, size: Index) -> None:
        """memcpy of `size` bytes between buffers that do not overlap."""
        length = self.index(size)
        self._lines.append(
            f'"llvm.intr.memcpy"({to.ref}, {source.ref}, {length.ref}) <{{isVolatile = false}}> : '
            "(!llvm.ptr, !llvm.ptr, i64) -> ()"
        )

    def set_memory(self, to: Value, byte: int, size: Index) -> None:
        """memset of `size` bytes."""
        length, value = self.index(size), self.const(byte, I8)
        self._lines.append(
            f'"llvm.intr.memset"({to.ref}, {value.ref}, {length.ref}) <{{isVolatile = false}}> : '
            "(!llvm.ptr, i8, i64) -> ()"
        )

    # --- atomics (sequentially consistent) ---------------------------------------------------------------------------

    def atomic_load(self, type_: ScalarType, address: Value, ordering: str = "seq_cst") -> Value:
        """Atomic load."""
        return self.op(
            f"llvm.load {address.ref} atomic {ordering} {{alignment = {type_.bits // 8} : i64}} : "
            f"!llvm.ptr -> {type_.text}",
            type_,
        )

    def atomic_store(self, a: Value, address: Value) -> None:
        """Atomic store."""
        self._lines.append(
            f"llvm.store {a.ref}, {address.ref} atomic seq_cst {{alignment = {a.type.bits // 8} : i64}} : "
            f"{a.type.text}, !llvm.ptr"
        )

    def atomic_add(self, address: Value, a: Value) -> Value:
        """Fetch and add; returns the old value."""
        return self.op(f"llvm.atomicrmw add {address.ref}, {a.ref} seq_cst : !llvm.ptr, {a.type.text}", a.type)

    def compare_exchange(self, address: Value, expected: Value, desired: Value) -> Value:
        """Replace `expected` by `desired`; returns i1: whether it was replaced."""
        type_ = expected.type.text
        pair = self._name()
        self._lines.append(
            f"{pair} = llvm.cmpxchg {address.ref}, {expected.ref}, {desired.ref} seq_cst seq_cst : !llvm.ptr, {type_}"
        )
        return self.op(f"llvm.extractvalue {pair}[1] : !llvm.struct<({type_}, i1)>", I1)

    def fence(self) -> None:
        """Order all earlier memory operations, non-temporal stores included, before all later ones."""
        self._lines.append("llvm.fence seq_cst")

    def pause(self, instruction: str) -> None:
        """Tell the core that this is a spin loop: `instruction` is the target's ("pause", "yield")."""
        self._lines.append(f'llvm.inline_asm has_side_effects asm_dialect = att "{instruction}", "" : () -> ()')
