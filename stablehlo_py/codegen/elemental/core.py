"""The walk of an evaluation at an index, and the table of rules that the other modules of the package fill.

`Elemental` evaluates any value of a fusion at a place of its tensor, for one scalar or for lanes of consecutive places,
by walking from the value to the fusion's inputs: shape operations become index arithmetic, elementwise operations
become instructions, inputs become loads. What does not depend on the lanes is computed once as a scalar; what does not
depend on an inner loop is emitted before it.

    e = Elemental(f, fusion, target, lanes=16)
    x = e.at(fusion.outputs[0], (row, lane_index(column, columns, 16)))

Values can be overridden (`bind`): results of reductions and contractions, rows staged in scratch memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from stablehlo_py.codegen import arith
from stablehlo_py.codegen.builder import I32, I64, Function, Index, Value, vector
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.index import (
    Affine,
    Delinearized,
    DryRun,
    Variable,
    address,
    as_mask,
    both,
    delinearized,
    inside,
    known_multiple,
    known_places,
    linear_index,
    number_like,
    scalar,
    total,
    vector_of,
)
from stablehlo_py.codegen.types import (
    Element,
    Known,
    Lanes,
    each,
    element,
    gather,
    lane_count,
    level_of,
    load,
    load_apart,
    load_each,
    load_places,
    load_steps,
    parts,
    splat,
    store,
)
from stablehlo_py.dialect.symint import IntLike, always_at_most, always_less, is_known
from stablehlo_py.dialect.types import shape, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.rules import Rules

# Gets the Elemental that asks: one that held it would make a circle, which keeps all IR until Python collects garbage.
Provider = Callable[["Elemental", Delinearized], Lanes | None]
Rule = Callable[["Elemental", ir.OpView, Delinearized], Lanes]
RULES: Rules[Rule] = Rules()  # of ops that are not elementwise, by names without `hlo.`

UNROLLED = 4  # reductions of up to this many elements are straight-line code
NEAR = 4  # lanes that are at most so many elements apart are read with what is between them

_serials = itertools.count()  # tells the remembered values of several Elementals in one function apart


class FusionLike(Protocol):
    """What Elemental reads of a fusion."""

    @property
    def inputs(self) -> Sequence[ir.Value]: ...


class TargetLike(Protocol):
    """What Elemental reads of a target."""

    @property
    def vector_bits(self) -> int: ...

    @property
    def masked_bits(self) -> int: ...

    @property
    def gathers(self) -> bool: ...


class Elemental:
    """Evaluates values of a fusion into a function under construction.

    Args:
        f: the function that code is emitted into.
        fusion: its `inputs` are read through the parameters in0, in1 ...
        target: the CPU; its masks and gathers decide how loads are done.
        lanes: lanes of a vector evaluation; 1 for scalar code.
        unrolled: reductions of up to this many elements are straight-line code.
    """

    def __init__(
        self, f: Function, fusion: FusionLike, target: TargetLike, lanes: int, unrolled: int = UNROLLED
    ) -> None:
        self.f, self.target, self.lanes, self.unrolled = f, target, lanes, unrolled
        self.predicate: Value | None = None
        # What is read in regions of levels up to the second one may be read in one of the first level: they run.
        self.certain: tuple[int, int] | None = None
        self._bases: dict[ir.Value, Value] = {}
        for number, value in enumerate(fusion.inputs):
            self._bases[value] = f.null() if isinstance(f, DryRun) else f.parameters[f"in{number}"]
        self._providers: dict[ir.Value, Provider] = {}
        self._numbers: dict[ir.Value, int] = {}
        self._serial = next(_serials)

    # --- public ------------------------------------------------------------------------------------------------------

    def at(self, value: ir.Value, indices: Delinearized | Sequence[Affine | Index], mask: Value | None = None) -> Lanes:
        """The value at a Delinearized, or at one index per dimension, as `lanes` lanes (a scalar for lanes=1).

        Lanes whose `mask` is off read nothing and hold anything.
        """
        with self.predicated(mask):
            return splat(self.f, self.value(value, self.place(value, indices)), self.lanes)

    def bind(self, value: ir.Value, provider: Provider | None) -> None:
        """From now on take this value from `provider(self, position)` (scalar or `lanes` lanes); None ends that.

        A provider that returns None for a position leaves it to be computed. Results already computed in an enclosing
        region stay remembered: bind before the first use."""
        if provider is None:
            self._providers.pop(value, None)
        else:
            self._providers[value] = provider

    def place(self, value: ir.Value, indices: Delinearized | Sequence[Affine | Index]) -> Delinearized:
        """A Delinearized from indices, one per dimension of the value; Positions pass."""
        given: Any = indices
        if all(type(index) is tuple for index in given):
            return tuple(given)
        return delinearized(shape(value), given)

    def value(self, value: ir.Value, place: Delinearized) -> Lanes:
        """The value as it comes: a scalar where it is the same in every lane."""
        number = self._numbers.setdefault(value, len(self._numbers))
        key = (self._serial, number, place, self.predicate.ref if self.predicate else None)
        known = self.f.recall(key)
        if known is not None:
            return known
        provider = self._providers.get(value)
        provided = provider(self, place) if provider else None
        if provided is not None:
            result = provided
        elif value in self._bases:
            result = self.read(element(value), self._bases[value], place, source=value)
        else:
            result = self._operation(value, place)
        return self.f.remember(key, result, level_of(result))

    def is_stored(self, value: ir.Value) -> bool:
        """Whether the value is read from memory (an input)."""
        return value in self._bases

    def base(self, value: ir.Value) -> Value:
        """Where a value that is stored begins."""
        return self._bases[value]

    # --- evaluation --------------------------------------------------------------------------------------------------

    def _operation(self, value: ir.Value, place: Delinearized) -> Lanes:
        op = value.owner
        name = op.name.removeprefix("hlo.")
        rule = RULES.get(name)
        if rule is not None:
            return rule(self, op, place)
        if name not in arith.ARITH:
            raise UnsupportedError(
                "has no meaning element by element",
                op=op.name,
                location=user_location(op.location),
                remedy="this is a defect of fusion: the op needs a kernel of its own",
            )
        return self.elementwise(op, [self.value(operand, place) for operand in op.operands])

    def elementwise(self, op: ir.OpView | ir.Operation, operands: Sequence[Lanes]) -> Lanes:
        """An elementwise op on evaluated operands, emitted at the outermost level where they are available."""
        lanes = max([lane_count(operand) for operand in operands])
        if isinstance(self.f, DryRun):
            return self._unknown(self.f, element(op.results[0]), lanes)
        spread = [splat(self.f, operand, lanes) for operand in operands]
        with self.f.at_level(level_of(*spread)):
            return arith.apply(self.f, op, spread)

    def combine(self, kind: str, of: Element, a: Lanes, b: Lanes) -> Lanes:
        """`arith.combine`; nothing in a dry run."""
        return a if isinstance(self.f, DryRun) else arith.combine(self.f, kind, of, a, b)

    @contextmanager
    def summed(self, indices: Sequence[Affine], *values: Lanes) -> Iterator[int]:
        """Inside, a loop is emitted at the outermost level where indices and values are available and loads are safe;
        gives the lanes that its sums need."""
        level = max([self.f.safe_level, *(index.level for index in indices), *map(level_of, values)])
        with self.f.at_level(max(level, self.predicate.level if self.predicate else 0)):
            yield 1 if all(index.uniform for index in indices) else self.lanes

    def _unknown(self, f: DryRun, of: Element, lanes: int) -> Lanes:
        one = f.unknown(vector(lanes, of.compute))
        return (one, one) if of.is_complex else one

    # --- memory ------------------------------------------------------------------------------------------------------

    def read(self, of: Element, base: Value, place: Delinearized, source: object = None) -> Lanes:
        """Load from a dense row-major tensor: a scalar, consecutive lanes, or a gather."""
        f = self.f
        offset = linear_index(f, place)
        lanes = 1 if offset.uniform else self.lanes
        if isinstance(f, DryRun):
            f.loads.append((source, offset))
            return self._unknown(f, of, lanes)
        safe = f.safe_level
        if self.certain is not None and safe <= self.certain[1]:
            safe = self.certain[0]
        level = max(offset.level, self.predicate.level if self.predicate else 0, safe, base.level)
        with f.at_level(level):
            if offset.uniform:
                return self._read_uniform(of, base, offset, total(place))
            masked = self.predicate is not None
            narrow = masked and of.storage.bits < self.target.masked_bits
            known = f.known_lanes(self.predicate) if self.predicate is not None else [1] * self.lanes
            if abs(offset.lane) == 1 and offset.vector is None:
                if not narrow:
                    return self._read_run(of, base, offset, self.predicate)
                if not known and is_known(total(place)) and total(place) >= self.lanes:
                    return self._read_within(of, base, offset, total(place))
            near = None if of.is_complex or (narrow and not known) else self._near(offset, known)
            if near is not None:
                pointer, rest = address(f, base, offset._replace(lane=0, vector=None), of.storage, 1)
                mask = None if self.predicate is None or known else as_mask(f, self.predicate, self.lanes)
                return load_apart(f, of, pointer, rest, near, mask)
            places = known_places(f, offset, self.lanes) if known else None
            if places and known and (not self.target.gathers or 2 * sum(known) <= self.lanes):
                pointer, rest = address(f, base, offset._replace(lane=0, vector=None), of.storage, 1 + of.is_complex)
                wanted = [place if reads else None for place, reads in zip(places, known, strict=True)]
                return load_each(f, of, pointer, rest, wanted)
            if offset.vector is None and self.predicate is None and not self.target.gathers:
                pointer, rest = address(f, base, offset._replace(lane=0), of.storage, 2 if of.is_complex else 1)
                return load_steps(f, of, pointer, rest, self.lanes, offset.lane)
            if self.predicate is None and not self.target.gathers:
                moving, part = offset._replace(constant=0, terms=()), 2 if of.is_complex else 1
                low, high = moving.bounds(self.lanes)
                if self.lanes > 1 and is_known(low, high) and low >= 0 and high < 1 << 32:
                    pointer, rest = address(f, base, offset._replace(lane=0, vector=None), of.storage, part)
                    return load_places(f, of, pointer, rest, vector_of(f, moving, self.lanes), int(high))
            return self._gather(of, base, offset, total(place))

    def _gather(self, of: Element, base: Value, offset: Affine, count: IntLike) -> Lanes:
        f, constant, lanes = self.f, offset.constant, self.lanes
        shares = always_at_most(0, constant) and always_less(constant, count)
        if shares:  # so loads have vectors of places in common
            base = f.gep(base, constant * (2 if of.is_complex else 1), of.storage)
            offset = offset._replace(constant=0)
        places = vector_of(f, offset, lanes)
        if self.predicate is not None:
            places = f.select(as_mask(f, self.predicate, lanes), places, f.const(0, places.type))
        low, high = offset.bounds(lanes)
        if shares and not self.target.gathers and lanes > 1 and is_known(low, high) and low >= 0 and high < 1 << 32:
            return load_places(f, of, base, 0, places, int(high))
        return gather(f, of, base, places)

    def _near(self, offset: Affine, mask: Sequence[int] | None) -> list[int] | None:
        """Where lanes read, but for what they have in common, if that is known, and they are so few elements apart that
        all between them are read, too. `mask`: which lanes read, where that is known; any place does for others."""
        lanes = self.lanes
        places = known_places(self.f, offset, lanes) if lanes > NEAR else None
        if places is None or (mask and not any(mask)):
            return None
        if mask:
            one = places[mask.index(1)]
            places = [place if reads else one for place, reads in zip(places, mask, strict=True)]
        span = max(places) - min(places) + 1
        several = 1 if mask else max(map(places.count, places))  # lanes that may read one place
        return places if 1 < span <= NEAR * lanes and several <= NEAR else None

    def _read_uniform(self, of: Element, base: Value, offset: Affine, count: IntLike) -> Lanes:
        f = self.f
        low, high = offset.bounds(1)
        inside_always = always_at_most(0, low) and always_less(high, count)
        if self.predicate is not None and not inside_always:
            # The predicate may be off: stay inside the tensor.
            return load(f, of, base, f.imax(f.imin(scalar(f, offset), count - 1), 0))
        pointer, rest = address(f, base, offset, of.storage, 2 if of.is_complex else 1)
        return load(f, of, pointer, rest // 2 if of.is_complex else rest, align=self._alignment(of, offset))

    def _read_within(self, of: Element, base: Value, offset: Affine, count: IntLike) -> Lanes:
        """Neighbours of which some are not wanted, where no instruction leaves these out: all are read, but at the ends
        of the tensor."""
        f, lanes = self.f, self.lanes
        first = scalar(f, offset._replace(constant=offset.constant + min(0, offset.lane) * (lanes - 1), lane=0))
        inside = f.cmp("ult", f.index(first), f.index(count - lanes + 1))
        found = f.if_(
            inside,
            lambda: parts(self._read_run(of, base, offset, None)),
            lambda: parts(self._gather(of, base, offset, count)),
        )
        return (found[0], found[1]) if of.is_complex else found[0]

    def _read_run(self, of: Element, base: Value, offset: Affine, predicate: Value | None) -> Lanes:
        f, lanes = self.f, self.lanes
        backwards = offset.lane < 0
        mask = as_mask(f, predicate, lanes) if predicate is not None else None
        turned = list(range(lanes - 1, -1, -1))
        if backwards:
            offset = Affine(offset.constant - (lanes - 1), offset.terms, 1)
            mask = f.shuffle(mask, mask, turned) if mask is not None else None
        pointer, rest = address(f, base, offset, of.storage, 2 if of.is_complex else 1)
        result = load(f, of, pointer, rest // 2 if of.is_complex else rest, lanes, mask)
        return each(lambda part: f.shuffle(part, part, turned), result) if backwards else result

    def _alignment(self, of: Element, offset: Affine) -> int | None:
        """Bytes to which an element of an array is known to be aligned, where the target wants to know."""
        whole = self.f.emit.array_alignment
        if not whole or of.is_complex:
            return None
        return max(of.bytes, math.gcd(known_multiple(offset) * of.bytes, whole))

    def write(
        self,
        of: Element,
        base: Value,
        place: Delinearized,
        value: Lanes,
        mask: Value | None = None,
        *,
        nontemporal: bool = False,
    ) -> None:
        """Store lanes, or a scalar, at a place; lanes that are not consecutive there are stored one by one."""
        f = self.f
        offset = linear_index(f, place)
        if lane_count(value) > 1 and not offset.contiguous:
            self._write_lanes(of, base, offset, value, mask)
            return
        pointer, rest = address(f, base, offset, of.storage, 2 if of.is_complex else 1)
        rest = rest // 2 if of.is_complex else rest
        align = self.target.vector_bits // 8 if nontemporal else self._alignment(of, offset)
        store(f, of, value, pointer, rest, mask, nontemporal=nontemporal, align=align)

    def write_outputs(
        self, outputs: Sequence[ir.Value], place: Delinearized, mask: Value | None = None, *, nontemporal: bool = False
    ) -> None:
        """Evaluate the outputs at a place, then store them all: an input that an output overwrites is read before."""
        results = [self.at(value, place, mask) for value in outputs]
        for number, (value, result) in enumerate(zip(outputs, results, strict=True)):
            base = self.f.parameters[f"out{number}"]
            self.write(element(value), base, place, result, mask, nontemporal=nontemporal)

    def _write_lanes(self, of: Element, base: Value, offset: Affine, value: Lanes, mask: Value | None) -> None:
        f, lanes = self.f, lane_count(value)
        places = vector_of(f, offset, lanes)
        for lane in range(lanes):
            one = each(lambda part, lane=lane: f.extract(part, lane), value)
            position = f.extract(places, lane)

            def put(one: Lanes = one, position: Value = position) -> None:
                store(f, of, one, base, position)

            if mask is None:
                put()
            else:
                f.if_(f.extract(mask, lane), put)

    # --- predicates --------------------------------------------------------------------------------------------------

    @contextmanager
    def predicated(self, condition: Value | None) -> Iterator[None]:
        """Inside, loads touch memory only where the condition (scalar or per lane) holds."""
        saved = self.predicate
        self.predicate = both(self.f, saved, condition)
        try:
            yield
        finally:
            self.predicate = saved

    def clamped(self, index: Affine, size: IntLike) -> tuple[Affine, Value | bool, Value | None]:
        """An index that may be outside [0, size): (safe index, whether it is inside, the predicate that its use needs).

        Where all lanes agree the index is moved inside, which needs no predicate; else that is the condition itself.
        """
        f = self.f
        condition = inside(f, index, size, self.lanes)
        if isinstance(condition, bool):
            return index, condition, None
        if condition.type.lanes > 1:
            return index, condition, condition
        if isinstance(f, DryRun):
            safe = f.unknown(I64, max(index.level, condition.level))
        else:
            start = f.index(scalar(f, index))
            with f.at_level(max(start.level, condition.level)):
                safe = f.select(condition, start, f.const(0))
        high = size - 1 - index.lane * (self.lanes - 1)
        return Affine(0, ((Variable(safe, 0, high, known_multiple(index)), 1),), index.lane), condition, None

    def choose(self, condition: Value | bool, a: Callable[[], Lanes], b: Callable[[], Lanes]) -> Lanes:
        """a() where the condition holds, else b()."""
        if condition is True:
            return a()
        if condition is False:
            return b()
        f = self.f
        left, right = a(), b()
        lanes = max(condition.type.lanes, lane_count(left), lane_count(right))
        left, right = splat(f, left, lanes), splat(f, right, lanes)
        with f.at_level(max(condition.level, level_of(left, right))):
            return each(lambda x, y: f.select(condition, x, y), left, right)

    def _clamped_short(self, of: Element, raw: Value, low: int, high: IntLike) -> Value | None:
        """Lanes of i64 clamped to [low, high], from lanes and to limits of up to 32 bits: vectors of these are half as
        many. None where they are wider, or one lane."""
        f, kind = self.f, "u" if of.unsigned else "s"
        fits = of.bits <= 32 and low >= 0 and always_less(high, 1 << 31)
        if isinstance(f, DryRun) or raw.type.lanes == 1 or not fits:
            return None
        short = f.cast("zext" if of.unsigned else "sext", raw, I32)
        short = f.intrinsic(f"{kind}max", short, number_like(f, low, short)) if low or kind == "s" else short
        return f.cast("zext", f.intrinsic(f"{kind}min", short, number_like(f, high, short)), I64)

    def index_value(
        self, value: ir.Value, place: Delinearized, low: int, high: IntLike, *, in_bounds: bool = False
    ) -> Affine:
        """An integer value as an index, clamped to [low, high]; as it is where it is `in_bounds`."""
        f = self.f
        raw: Known = self.value(value, place)
        with f.at_level(raw.level):
            short = None if in_bounds else self._clamped_short(element(value), raw, low, high)
            if short is not None:
                return Affine(0, (), 0, short, (low, high))
            wide = as_index(f, element(value), raw)
            if in_bounds:
                clamped: Index = wide
            elif isinstance(f, DryRun) or wide.type.lanes == 1:
                clamped = f.imin(f.imax(wide, low), high) if wide.type.lanes == 1 else wide
            else:
                floor, ceiling = number_like(f, low, wide), number_like(f, high, wide)
                clamped = f.intrinsic("smin", f.intrinsic("smax", wide, floor), ceiling)
        if not isinstance(clamped, Value):
            return Affine(clamped)
        if clamped.type.lanes == 1:
            return Affine(0, ((Variable(clamped, low, high), 1),))
        return Affine(0, (), 0, clamped, (low, high))
