"""Index expressions: where lanes read and write.

An `Affine` is `constant + sum(coefficient * variable) + lane * (number of the lane) + per-lane addends`. Variables
carry bounds and a known multiple, so that reshapes become exact splits and merges of affine expressions; where one is
not exact, a division is emitted.

A `Delinearized` index is a row-major element number in mixed radix: `((size, index), ...)`, most significant digit
first. It says nothing about the shape: a reshape keeps it, `delinearize` brings it to the digits that an operation
needs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from stablehlo_py.codegen.builder import I1, I8, I16, I32, I64, Function, Index, ScalarType, Type, Value, VectorType
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.symint import (
    IntLike,
    SymInt,
    always_at_most,
    always_less,
    content,
    is_known,
    maximum,
    minimum,
)


@dataclass(frozen=True, eq=False)
class Variable:
    """A scalar i64 in registers with low <= value <= high, and value a multiple of `multiple`."""

    value: Value
    low: int
    high: IntLike
    multiple: IntLike = 1

    def known(self, f: Function) -> Index:
        """The value, with its bounds."""
        return f.bounded(self.value, self.low, self.high)


# A tuple, whose hash is quick: what is computed is remembered by where.
class Affine(NamedTuple):
    """An index of every lane. `lane`: the step from lane to lane; `vector`: a vector of i64 of which so many `times`
    are added lane-wise, with the bounds of what is added.
    """

    constant: IntLike = 0
    terms: tuple[tuple[Variable, IntLike], ...] = ()
    lane: IntLike = 0
    vector: Value | None = None
    vector_bounds: tuple[IntLike, IntLike] = (0, 0)
    times: IntLike = 1

    @property
    def uniform(self) -> bool:
        """Every lane has the same index."""
        return self.lane == 0 and self.vector is None

    @property
    def contiguous(self) -> bool:
        """Consecutive lanes have consecutive indices."""
        return self.lane == 1 and self.vector is None

    @property
    def is_constant(self) -> bool:
        return self.uniform and not self.terms

    @property
    def level(self) -> int:
        """The innermost region level among the values used."""
        level = max((variable.value.level for variable, _ in self.terms), default=0)
        return level if self.vector is None else max(level, self.vector.level)

    def bounds(self, lanes: int) -> tuple[IntLike, IntLike]:
        """Smallest and largest value over all lanes."""
        low, high = self.constant + self.vector_bounds[0], self.constant + self.vector_bounds[1]
        for variable, coefficient in self.terms:
            least, most = _ordered(variable.low * coefficient, variable.high * coefficient)
            low, high = low + least, high + most
        before, after = _ordered(self.lane * (lanes - 1), 0)
        return low + before, high + after


def _ordered(a: IntLike, b: IntLike) -> tuple[IntLike, IntLike]:
    """The smaller and the larger one."""
    if always_at_most(a, b):
        return a, b
    return (b, a) if is_known(a, b) else (minimum(a, b), maximum(a, b))


Delinearized: TypeAlias = tuple[tuple[IntLike, Affine], ...]
ZERO = Affine()


def affine(index: Affine | Index, size: IntLike) -> Affine:
    """An index from a number or an i64 value (0 <= value < size)."""
    if isinstance(index, Affine):
        return index
    if isinstance(index, Value) and index.constant is not None:
        return Affine(int(index.constant))
    return affine_of(index, (size or 1 << 62) - 1)


def lane_index(start: Index, size: IntLike, lanes: int, multiple: int = 1) -> Affine:
    """`start + lane`, where all lanes are inside [0, size); `multiple`: of what the start is known to be a multiple."""
    if not isinstance(start, Value):
        return Affine(start, lane=1 if lanes > 1 else 0)
    variable = Variable(start, 0, maximum(size - lanes, 0), multiple)
    return Affine(0, ((variable, 1),), lane=1 if lanes > 1 else 0)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _merge(terms: Iterable[tuple[Variable, IntLike]]) -> tuple[tuple[Variable, IntLike], ...]:
    merged: dict[Variable, IntLike] = {}
    for variable, coefficient in terms:
        merged[variable] = merged.get(variable, 0) + coefficient
    return tuple([(variable, coefficient) for variable, coefficient in merged.items() if coefficient])


def add(f: Function | None, a: Affine, b: Affine | IntLike) -> Affine:
    """a + b."""
    if not isinstance(b, Affine):
        return Affine(a.constant + b, a.terms, a.lane, a.vector, a.vector_bounds, a.times) if b else a
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    vector, times = (a.vector, a.times) if a.vector is not None else (b.vector, b.times)
    if a.vector is not None and b.vector is not None and f is not None:
        with f.at_level(max(a.vector.level, b.vector.level)):
            vector, times = _sum(f, added_lanes(f, a), added_lanes(f, b)), 1
    bounds = a.vector_bounds[0] + b.vector_bounds[0], a.vector_bounds[1] + b.vector_bounds[1]
    terms = _merge(a.terms + b.terms) if a.terms and b.terms else a.terms or b.terms
    return Affine(a.constant + b.constant, terms, a.lane + b.lane, vector, bounds, times)


def scale(f: Function | None, a: Affine, factor: IntLike) -> Affine:
    """a * factor."""
    if factor == 1:
        return a
    if factor == 0:
        return ZERO
    ends = _ordered(a.vector_bounds[0] * factor, a.vector_bounds[1] * factor)
    terms = tuple([(variable, coefficient * factor) for variable, coefficient in a.terms])
    scaled = Affine(a.constant * factor, terms, a.lane * factor, a.vector, ends)
    if a.vector is None:
        return scaled
    scaled = scaled._replace(times=a.times * factor)
    if f is not None and f.known_lanes(a.vector) is not None:
        return scaled._replace(vector=added_lanes(f, scaled), times=1)
    return scaled


def added_lanes(f: Function, a: Affine) -> Value:
    """What an index adds lane-wise."""
    assert a.vector is not None
    if a.times == 1:
        return a.vector
    with f.at_level(a.vector.level):
        known = f.known_lanes(a.vector)
        if known is not None and is_known(a.times):
            return f.const_lanes([lane * int(a.times) for lane in known], I64)
        return f.binary("mul", a.vector, number_like(f, a.times, a.vector))


def _sum(f: Function, a: Value, b: Value) -> Value:
    """Of vectors of i64: a constant where both are."""
    left, right = f.known_lanes(a), f.known_lanes(b)
    if left is None or right is None:
        return f.binary("add", a, b)
    return f.const_lanes([*map(operator.add, left, right)], I64)


def same(f: Function | None, a: Affine, b: Affine) -> bool:
    """Whether two indices are equal for sure."""
    if a.vector is not b.vector or a.times != b.times:
        return False
    left, right = (Affine(index.constant, index.terms, index.lane) for index in (a, b))
    return add(f, left, scale(f, right, -1)) == ZERO


def linearize(f: Function | None, indices: Sequence[Affine], strides: Sequence[IntLike]) -> Affine:
    """sum(index * stride)."""
    total = ZERO
    for index, stride in zip(indices, strides, strict=True):
        total = add(f, total, scale(f, index, stride))
    return total


# --- emission --------------------------------------------------------------------------------------------------------


def scalar(f: Function, a: Affine) -> Index:
    """The index of lane 0 without per-lane addends, as an i64 (a Python int if constant). Emitted level by level, so
    hoisted.
    """
    total: Index = 0
    for variable, coefficient in sorted(a.terms, key=lambda term: term[0].value.level):
        total = f.iadd(total, f.imul(variable.known(f), coefficient))
    return f.iadd(total, a.constant)


def vector_of(f: Function, a: Affine, lanes: int) -> Value:
    """All lanes of the index as a vector of i64 (a scalar for one lane)."""
    base = scalar(f, a)
    if lanes == 1:
        return f.index(base)
    type_ = VectorType(lanes, I64)
    key = ("lanes", a, lanes)
    known = f.recall(key)
    if known is not None:
        return known
    with f.at_level(a.level):
        total = None if a.vector is None else added_lanes(f, a)
        if a.lane:
            steps = _lane_steps(f, a.lane, lanes)
            total = steps if total is None else _sum(f, total, steps)
        if isinstance(base, Value) or base or total is None:
            start = f.splat(f.index(base), lanes)
            total = start if total is None else f.binary("add", total, start)
        if total.type != type_:
            raise ValueError(f"an index of {total.type.lanes} lanes used with {lanes} lanes")
        return f.remember(key, total)


def address(f: Function, base: Value, a: Affine, scalar_type: ScalarType, factor: int = 1) -> tuple[Value, IntLike]:
    """Pointer and remaining constant offset (elements) of lane 0: the variable parts added outermost level first, so
    hoisted.
    """
    pointer = base
    by_level: dict[int, Index] = {}
    for variable, coefficient in a.terms:
        level = variable.value.level
        by_level[level] = f.iadd(by_level.get(level, 0), f.imul(variable.known(f), coefficient * factor))
    for level in sorted(by_level):
        pointer = f.gep(pointer, by_level[level], scalar_type)
    return pointer, a.constant * factor


def number_like(f: Function, number: IntLike, like: Value) -> Value:
    """A number in every lane of a vector of integers like `like` (or as a scalar)."""
    if is_known(number):
        return f.const(number, like.type)
    return f.splat(f.cast("trunc", f.index(number), like.type.element), like.type.lanes)


def _lane_steps(f: Function, step: IntLike, lanes: int) -> Value:
    """<0, step, 2 step, ...>."""
    if is_known(step):
        return f.const_lanes([int(step * lane) for lane in range(lanes)], I64)
    ids = f.lane_ids(lanes)
    return f.binary("mul", ids, number_like(f, step, ids))


# --- division --------------------------------------------------------------------------------------------------------


def divmod_exact(a: Affine, divisor: IntLike, lanes: int) -> tuple[Affine, Affine] | None:
    """(a // divisor, a % divisor) as affine expressions, where the bounds prove them, else None."""
    low, high = a.bounds(lanes)
    if always_at_most(0, low) and always_less(high, divisor):
        return ZERO, a
    if a.vector is not None:
        return None
    whole = tuple((variable, coefficient) for variable, coefficient in a.terms if coefficient % divisor == 0)
    rest = tuple((variable, coefficient) for variable, coefficient in a.terms if coefficient % divisor)
    lane_whole = a.lane if a.lane % divisor == 0 else 0
    quotient, remainder = divmod(a.constant, divisor)
    for shift in (0, divisor):
        candidate = Affine(remainder - shift, rest, a.lane - lane_whole)
        low, high = candidate.bounds(lanes)
        if always_at_most(0, low) and always_less(high, divisor):
            terms = tuple((variable, coefficient // divisor) for variable, coefficient in whole)
            return Affine(quotient + shift // divisor, terms, lane_whole // divisor), candidate
    return None


def known_multiple(a: Affine) -> int:
    """A number that divides the scalar part of an index."""
    result = content(a.constant)
    for variable, coefficient in a.terms:
        result = math.gcd(result, variable.multiple * content(coefficient))
    return result


def _groups(a: Affine, number: IntLike) -> tuple[int, IntLike]:
    """A divisor of `number`, and what the scalar part of an index is more than a multiple of it: less than it."""
    divisor = math.gcd(known_multiple(Affine(0, a.terms)), content(number))
    if divisor and is_known(a.constant):
        return divisor, int(a.constant) % divisor
    return math.gcd(divisor, content(a.constant)), 0


def divmod_(f: Function, a: Affine, divisor: IntLike, lanes: int) -> tuple[Affine, Affine]:
    """(a // divisor, a % divisor) for non-negative a; emits a division only where the bounds do not give the result."""
    if divisor == 1:
        return a, ZERO
    exact = divmod_exact(a, divisor, lanes)
    if exact is not None:
        return exact
    if isinstance(f, DryRun):
        f.divided(a, divisor)
    low, high = a.bounds(lanes)
    moving = Affine(0, a.terms)
    least, most = moving.bounds(1)
    is_whole = known_multiple(moving) % divisor == 0 and always_at_most(0, least) and always_at_most(0, low)
    if lanes > 1 and is_known(divisor, a.constant) and is_whole and (places := known_places(f, a, lanes)) is not None:
        return _divmod_constants(f, a, [int(a.constant) + place for place in places], divisor, most)
    if a.vector is None and always_at_most(0, a.lane):
        multiple, rest = _groups(a, divisor)
        if always_less(rest + a.lane * (lanes - 1), multiple):
            # All lanes fall into one quotient, as what begins their group does: divide that.
            start = scalar(f, Affine(a.constant - rest, a.terms))
            if not always_at_most(0, low):
                start = f.imax(start, 0)
            quotient, remainder = f.idiv(start, divisor), f.irem(start, divisor)
            over = affine_of(quotient, maximum(high // divisor, 0))
            under = affine_of(remainder, divisor - multiple, multiple)
            return over, Affine(under.constant + rest, under.terms, a.lane)
    return _divmod_lanes(f, a, divisor, lanes, high)


def _divmod_constants(
    f: Function, a: Affine, places: Sequence[int], divisor: IntLike, most: IntLike
) -> tuple[Affine, Affine]:
    """divmod_ where what is not constant is a multiple of the divisor, `most` at most: `places` are what is. (LLVM
    would find out too, in some lanes at a time, and its version 22 takes part of the masks that follow from registers
    that it never set.)"""
    pairs = [divmod(place, divisor) for place in places]
    over, under = ([int(pair[side]) for pair in pairs] for side in (0, 1))
    moving = Affine(0, a.terms)
    quotient = affine_of(f.idiv(scalar(f, moving), divisor), most // divisor, known_multiple(moving) // divisor)
    return (
        Affine(quotient.constant, quotient.terms, 0, f.const_lanes(over, I64), (min(over), max(over))),
        Affine(0, (), 0, f.const_lanes(under, I64), (min(under), max(under))),
    )


def affine_of(value: Index, high: IntLike, multiple: IntLike = 1) -> Affine:
    """An index from a value with 0 <= value <= high."""
    if not isinstance(value, Value):
        return Affine(value)
    return Affine(0, ((Variable(value, 0, high, multiple), 1),))


def _divmod_lanes(f: Function, a: Affine, divisor: IntLike, lanes: int, high: IntLike) -> tuple[Affine, Affine]:
    key = ("divmod", a, divisor, lanes)
    known = f.recall(key)
    if known is not None:
        return known
    dividend = vector_of(f, a, lanes)
    with f.at_level(dividend.level):
        # 32-bit lanes divide several times faster; gathers take them through the sign extension.
        narrow = always_at_most(0, a.bounds(lanes)[0]) and always_less(high, 1 << 31)
        element = I32 if narrow else I64
        number = f.cast("trunc", dividend, element) if narrow else dividend
        by = number_like(f, divisor, number)
        quotient = f.binary("udiv", number, by)
        remainder = f.binary("sub", number, f.binary("mul", quotient, by))
        wide = [f.cast("sext", part, I64) for part in (quotient, remainder)] if narrow else [quotient, remainder]
        if not narrow:  # predicated lanes may hold anything: keep what follows inside the tensor
            limits = (maximum(high // divisor, 0), divisor - 1)
            wide = [
                f.intrinsic("umin", part, number_like(f, limit, part)) for part, limit in zip(wide, limits, strict=True)
            ]
    results = (
        Affine(0, (), 0, wide[0], (0, maximum(high // divisor, 0))),
        Affine(0, (), 0, wide[1], (0, divisor - 1)),
    )
    return f.remember(key, results)


# --- delinearized indices --------------------------------------------------------------------------------------------


def delinearized(sizes: Sequence[IntLike], indices: Sequence[Affine | Index]) -> Delinearized:
    """A delinearized index from a shape and an index per dimension. Dimensions of size 1 vanish."""
    return tuple((size, affine(index, size)) for size, index in zip(sizes, indices, strict=True) if size != 1)


def digits(pairs: Iterable[tuple[IntLike, Affine]]) -> Delinearized:
    """A delinearized index from (size, index) pairs, without the sizes of 1."""
    return tuple([pair for pair in pairs if pair[0] != 1])


def total(place: Delinearized) -> IntLike:
    """How many element numbers the digits span."""
    return math.prod(size for size, _ in place)


def linear_index(f: Function | None, place: Delinearized) -> Affine:
    """The row-major element number, linearized."""
    return linearize(f, [index for _, index in place], row_major_strides([size for size, _ in place]))


def delinearize(f: Function, place: Delinearized, sizes: Sequence[IntLike], lanes: int) -> list[Affine]:
    """An index for each dimension of a shape `sizes` (of as many elements): digits are split and merged."""
    digits = list(place)
    result: list[Affine] = []
    for number in range(len(sizes) - 1, -1, -1):
        size = sizes[number]
        if size == 1:
            result.append(ZERO)
            continue
        if all(other == 1 for other in sizes[:number]):
            result.append(linear_index(f, tuple(digits)))
            digits = []
            continue
        low_size, low = digits.pop()
        while low_size % size and digits:
            if (
                size % low_size == 0
                and digits
                and (size // low_size) % digits[-1][0]
                and digits[-1][0] % (size // low_size) == 0
            ):
                upper_size, upper = digits.pop()  # take only a share of the next digit
                want = size // low_size
                over, under = divmod_(f, upper, want, lanes)
                digits.append((upper_size // want, over))
                low, low_size = add(f, scale(f, under, low_size), low), size
                break
            upper_size, upper = digits.pop()
            low, low_size = add(f, scale(f, upper, low_size), low), low_size * upper_size
        if low_size != size:
            over, low = divmod_(f, low, size, lanes)
            # Sizes that are not known to divide: their products are equal all the same (a check of the call).
            exact = low_size % size == 0
            digits.append((low_size // size if exact else math.prod(sizes[:number]), over))
        result.append(low)
    return result[::-1]


# --- comparisons -----------------------------------------------------------------------------------------------------


def below(f: Function, a: Affine, bound: IntLike, lanes: int) -> Value | bool:
    """a < bound: a Python bool where the bounds decide, i1 where all lanes agree for sure, else a vector of i1."""
    low, high = a.bounds(lanes)
    if always_less(high, bound):
        return True
    if always_at_most(bound, low):
        return False
    if isinstance(f, DryRun) and lanes == 1:
        return f.unknown(I1, a.level)
    if a.vector is None:
        multiple, rest = _groups(a, bound)
        if a.lane == 0 or (always_less(0, a.lane) and always_less(rest + a.lane * (lanes - 1), multiple)):
            start = f.index(scalar(f, a))
            with f.at_level(start.level):
                return f.cmp("slt", start, f.index(bound))
    known = _lanes_below(f, a, bound, lanes)
    if known is not None:
        return known
    if a.vector is None and a.lane in (1, -1):
        return _lanes_before(f, a, bound, lanes)
    places = vector_of(f, a, lanes)
    with f.at_level(places.level):
        return f.cmp("slt", places, number_like(f, bound, places))


def _lanes_before(f: Function, a: Affine, bound: IntLike, lanes: int) -> Value:
    """a < bound of neighbours, from how many lanes that are: numbers of lanes fill fewer registers than indices."""
    number = I8 if 32 <= lanes < 128 else I16 if lanes >= 16 else I32
    start = scalar(f, a)
    ascends = a.lane == 1
    limit = f.isub(bound, start) if ascends else f.isub(start, bound)
    limit = f.imin(f.imax(limit, 0), lanes) if ascends else f.imin(f.imax(limit, -1), lanes - 1)
    with f.at_level(a.level):
        limits = f.splat(f.cast("trunc", f.index(limit), number), lanes)
        return f.cmp("slt" if ascends else "sgt", f.lane_ids(lanes, number), limits)


def _lanes_below(f: Function, a: Affine, bound: IntLike, lanes: int) -> Value | None:
    """a < bound where the bounds decide for each lane."""
    places, (low, high) = known_places(f, a, lanes), Affine(a.constant, a.terms).bounds(1)
    if places is None or not is_known(low, high, bound):
        return None
    limits = [bound - place for place in places]
    return (
        None if any(low < limit <= high for limit in limits) else f.const_lanes([high < limit for limit in limits], I1)
    )


def known_places(f: Function, a: Affine, lanes: int) -> list[int] | None:
    """What lanes add to the scalar part of an index, where that is known."""
    added = [0] * lanes if a.vector is None else f.known_lanes(a.vector)
    if added is None or not is_known(a.lane):
        return None
    return [each + int(a.lane) * lane for lane, each in enumerate(added)]


def inside(f: Function, a: Affine, size: IntLike, lanes: int) -> Value | bool:
    """0 <= a < size, as `below`."""
    high = below(f, a, size, lanes)
    negative = below(f, a, 0, lanes)
    if high is False or negative is True:
        return False
    if negative is False:
        return high
    known = f.known_lanes(negative)
    with f.at_level(negative.level):
        if known is None:
            low = f.binary("xor", negative, f.const(True, negative.type))
        else:
            low = f.const_lanes([1 - lane for lane in known], I1)
    return low if isinstance(high, bool) else _conjunction(f, low, high)


def both(f: Function, a: Value | None, b: Value | None) -> Value | None:
    """a and b on conditions, scalar or vector; None stands for true."""
    return _conjunction(f, a, b) if a is not None and b is not None else a or b


def _conjunction(f: Function, a: Value, b: Value) -> Value:
    lanes = max(a.type.lanes, b.type.lanes)
    with f.at_level(max(a.level, b.level)):
        left, right = (f.splat(side, lanes) if side.type.lanes == 1 else side for side in (a, b))
        one, other = f.known_lanes(left), f.known_lanes(right)
        if one is None or other is None:
            return f.binary("and", left, right)
        return f.const_lanes([*map(operator.and_, one, other)], I1)


def as_mask(f: Function, condition: Value, lanes: int) -> Value:
    """A condition as a vector of i1."""
    return condition if condition.type.lanes == lanes else f.splat(condition, lanes)


# --- dry runs --------------------------------------------------------------------------------------------------------


class DryRun(Function):
    """A function that is thrown away: generators run on it to learn which splits of loop variables would make indices
    exact, and which addresses are read.

    Attributes:
        divided: is told the dividend and the divisor of every division that the bounds could not resolve.
        loads: (tensor, element number) of every access to memory.
        within_operands: what operands of a concatenation are read for lies within them: code takes them one by one.
    """

    def __init__(
        self, divided: Callable[[Affine, IntLike], None] = lambda a, divisor: None, *, within_operands: bool = False
    ) -> None:
        super().__init__("dry_run", [])
        self.within_operands = within_operands
        self.divided = divided
        self.loads: list[tuple[object, Affine]] = []

    def _size(self, size: SymInt) -> Value:
        return self.unknown(I64)

    def unknown(self, type_: Type, level: int | None = None) -> Value:
        """A value about which nothing is known, on this level or a given one."""
        return Value(self.emit.name(), type_, None, len(self._regions) - 1 if level is None else level)
