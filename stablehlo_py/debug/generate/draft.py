"""A random program under construction: values so far, and helpers that draw from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import ml_dtypes
import numpy as np

from stablehlo_py.debug.ops import compared, constant
from stablehlo_py.dialect import build
from stablehlo_py.dialect.build import AttributeValue
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.elements import complex_
from stablehlo_py.mlir import ir

# Element types and how often a program is about them.
ELEMENTS = {
    "f32": 10, "f64": 3, "bf16": 3, "f16": 3, "i32": 5, "i8": 2, "i16": 1, "i64": 2, "ui8": 2, "ui16": 1, "ui32": 2,
    "ui64": 1, "i1": 2, "complex<f32>": 2, "complex<f64>": 1, "i4": 0.7, "ui4": 0.5, "i2": 0.3, "ui2": 0.2,
    "f8E4M3FN": 0.3, "f8E5M2": 0.3, "f8E4M3": 0.2, "f8E3M4": 0.2, "f8E4M3FNUZ": 0.2, "f8E5M2FNUZ": 0.2,
    "f8E4M3B11FNUZ": 0.2, "f8E8M0FNU": 0.2, "f6E2M3FN": 0.15, "f6E3M2FN": 0.15, "f4E2M1FN": 0.2,
}  # fmt: skip
SIZES = (0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
SIZE_WEIGHTS = np.array([0.15, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 0.6, 0.6, 0.3])
MAX_ELEMENTS = 1200
SPECIAL_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-3, -3.5, 100.0)

DYNAMIC = ir.ShapedType.get_dynamic_size()

Fits = Callable[[ir.Value], bool]
T = TypeVar("T")


def letter_of(element: ir.Type) -> str:
    """b, s, u, f, c, 8 for floats of fewer than 16 bits, or e for those that are powers of two only (f8E8M0FNU): the
    classes that tables of ops speak of."""
    if isinstance(element, ir.ComplexType):
        return "c"
    if isinstance(element, ir.FloatType):
        return "f" if element.width >= 16 else "e" if "E8M0" in str(element) else "8"
    return "b" if element.width == 1 else "u" if element.is_unsigned else "s"


def letter(value: ir.Value) -> str:
    """`letter_of` the value's element type."""
    return letter_of(value.type.element_type)


def sizes(value: ir.Value) -> list[int]:
    """The shape of a tensor value."""
    return list(value.type.shape)


def elements(value: ir.Value) -> int:
    """Number of elements of a tensor value."""
    return math.prod(value.type.shape)


class NothingFits(Exception):
    """A family has no operands, or would make too much of them: another one is drawn."""


def require(fits: bool) -> None:
    """Raise NothingFits unless it holds."""
    if not fits:
        raise NothingFits


def found(value: ir.Value | None) -> ir.Value:
    """The value. Raises NothingFits where there is none."""
    if value is None:
        raise NothingFits
    return value


def small(value: ir.Value) -> ir.Value:
    """The value. Raises NothingFits where it is too large."""
    require(elements(value) <= MAX_ELEMENTS)
    return value


class Draft:
    """A program: `inputs` are arrays for `@main`'s arguments, `pool` the values that ops may use at `point`."""

    def __init__(self, random: np.random.Generator, block: ir.Block, point: ir.InsertionPoint) -> None:
        self.random, self.block, self.point = random, block, point
        self.inputs: list[np.ndarray] = []
        self.pool: list[ir.Value] = []
        self.depth = 0  # of regions around
        # "plain"; "grid", for this many replicas and partitions; "symbolic", with a dynamic size that is this one in
        # the inputs.
        self.kind = "plain"
        self.grid: tuple[int, int] | None = None
        self.dynamic_size = 0
        self.channels = 0  # of collectives so far
        names, weights = list(ELEMENTS), np.array(list(ELEMENTS.values()))
        chosen = random.choice(len(names), size=2, replace=False, p=weights / weights.sum())
        # A program is about two types, so that its values meet; i1 and i32 come by comparing and indexing.
        self.types = [ir.Type.parse(names[number]) for number in chosen]
        self.special = random.random() < 0.15

    @property
    def i32(self) -> ir.Type:
        """The type of indices and counts."""
        return ir.IntegerType.get_signless(32)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.random.random() < probability)

    def whole(self, low: int, high: int) -> int:
        """A number in [low, high)."""
        return int(self.random.integers(low, high))

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices. Raises NothingFits where there are none."""
        require(len(choices) > 0)
        return choices[self.whole(0, len(choices))]

    def shape(self, rank: int | None = None) -> list[int]:
        """A small shape."""
        rank = self.whole(0, 5) if rank is None else rank
        drawn = [int(self.random.choice(SIZES, p=SIZE_WEIGHTS / SIZE_WEIGHTS.sum())) for _ in range(rank)]
        while math.prod(drawn) > MAX_ELEMENTS:
            drawn[int(np.argmax(drawn))] //= 2
        return drawn

    def element(self) -> ir.Type:
        """An element type of this program."""
        return self.one_of(self.types)

    def array(self, shape: Sequence[int], element: ir.Type) -> np.ndarray:
        """Random elements; in a program of special values, some of those."""
        dtype, kind, random = numpy_dtype(element), letter_of(element), self.random
        if kind == "b":
            return np.asarray(random.random(shape) < 0.5)
        if kind in "su":
            return self._integers(shape, dtype, kind)
        if kind == "c":
            part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
            return complex_(self._floats(shape, part), self._floats(shape, part))
        return self._floats(shape, dtype)

    def _integers(self, shape: Sequence[int], dtype: np.dtype, kind: str) -> np.ndarray:
        info = ml_dtypes.iinfo(dtype)
        low, high = (
            (int(info.min), int(info.max)) if self.chance(0.3) else (max(-9, int(info.min)), min(9, int(info.max)))
        )
        if kind == "u" or self.chance(0.3):
            low = 0
        wide = np.uint64 if high > np.iinfo(np.int64).max else np.int64
        return np.asarray(self.random.integers(low, high, shape, dtype=wide, endpoint=True)).astype(dtype)

    def _floats(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        values = np.asarray(self.random.normal(size=shape))
        if self.chance(0.2):
            values = np.rint(values * 3)
        if self.special:
            info = ml_dtypes.finfo(dtype)
            tiny = float(info.smallest_normal)
            special = np.array([*SPECIAL_FLOATS, tiny, -tiny])
            values = np.where(self.random.random(shape) < 0.3, self.random.choice(special, shape), values)
        with np.errstate(all="ignore"):
            return np.asarray(values.astype(dtype))

    # --- values ------------------------------------------------------------------------------------------------------

    def argument(self, shape: Sequence[int], element: ir.Type) -> ir.Value:
        """A new input of `@main`; inside a region a constant instead."""
        if self.depth or (letter_of(element) != "c" and DYNAMIC not in shape and self.chance(0.15)):
            return self.constant(self.array(shape, element), element)
        return self.given(
            self.array([self.dynamic_size if size == DYNAMIC else size for size in shape], element), element, shape
        )

    def given(self, array: np.ndarray | int, element: ir.Type, shape: Sequence[int] | None = None) -> ir.Value:
        """A new input of `@main` with these elements; `shape` is that of its type, where sizes are dynamic."""
        self.inputs.append(np.asarray(array).astype(numpy_dtype(element)))
        type_ = self.tensor(self.inputs[-1].shape if shape is None else shape, element)
        return self.block.add_argument(type_, ir.Location.unknown())

    def constant(self, array: np.ndarray | float | int, element: ir.Type) -> ir.Value:
        """A constant; a complex one is made of two."""
        if isinstance(element, ir.ComplexType):
            part = np.asarray(array)
            parts = [self.constant(np.asarray(each), element.element_type) for each in (part.real, part.imag)]
            return self.op("complex", *parts)
        return constant(array, element, self.point)

    def pick(self, fits: Fits = lambda value: True) -> ir.Value | None:
        """A value that fits, rather a late one."""
        fitting = [value for value in self.pool if fits(value)]
        return fitting[int(len(fitting) * self.random.random() ** 0.6)] if fitting else None

    def value(self, letters: str, low: int = 0, high: int = 9) -> ir.Value:
        """A value of one of these classes of types, with between `low` and `high` dimensions; a new input where there
        is none and a type of the program fits. Raises NothingFits where none does."""
        return found(self._value(letters, low, high))

    def values(self, letters: str) -> list[ir.Value]:
        """Two such values, or one. Raises NothingFits where there is none."""
        values = [value for value in (self._value(letters), self._value(letters)) if value is not None]
        require(len(values) > 0)
        return values

    def _value(self, letters: str, low: int = 0, high: int = 9) -> ir.Value | None:
        known = self.pick(lambda value: letter(value) in letters and low <= len(sizes(value)) <= high)
        if known is not None and not self.chance(0.05):
            return known
        fitting = [element for element in self.types if letter_of(element) in letters]
        if not fitting:
            return known
        return self.fresh(self.shape(self.whole(low, min(high, 4) + 1)), self.one_of(fitting))

    def fresh(self, shape: Sequence[int], element: ir.Type) -> ir.Value:
        """A new input (or constant), in the pool."""
        made = self.argument(shape, element)
        self.pool.append(made)
        return made

    def like(self, value: ir.Value, element: ir.Type | None = None) -> ir.Value:
        """Another value of that shape: an earlier one, a broadcast scalar, or a new one."""
        type_ = ir.RankedTensorType.get(sizes(value), element or value.type.element_type)
        known = self.pick(lambda other: other.type == type_ and other != value)
        if known is not None and self.chance(0.8):
            return known
        if self.chance(0.3):
            return self.broadcast(self.constant(self.array((), type_.element_type), type_.element_type), sizes(value))
        return self.fresh(sizes(value), type_.element_type)

    # --- ops ---------------------------------------------------------------------------------------------------------

    def op(
        self, name: str, /, *operands: ir.Value, results: Sequence[ir.Type] | None = None, **attributes: AttributeValue
    ) -> ir.Value:
        """Make an op with one result. Raises MLIRError where the specification does not allow it."""
        return self.make(name, operands, results, attributes).results[0]

    def make(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type] | None,
        attributes: Mapping[str, AttributeValue],
        regions: int = 0,
    ) -> ir.Operation:
        """Make an op; without `results` MLIR infers its types. Attributes: lists are i64 arrays, text is MLIR's."""
        converted = {key: attribute(value) for key, value in attributes.items()}
        full = name if "." in name else f"stablehlo.{name}"
        if results is None:
            return ir.Operation.create(
                full, operands=list(operands), attributes=converted, infer_type=True, ip=self.point
            )
        return ir.Operation.create(
            full, results=list(results), operands=list(operands), attributes=converted, regions=regions, ip=self.point
        )

    def broadcast(self, value: ir.Value, shape: Sequence[int], dimensions: Sequence[int] = ()) -> ir.Value:
        """`broadcast_in_dim`, dynamic where a size is."""
        type_ = ir.RankedTensorType.get(list(shape), value.type.element_type)
        if DYNAMIC in shape:
            return self.op(
                "dynamic_broadcast_in_dim",
                value,
                self._sizes(shape),
                results=[type_],
                broadcast_dimensions=list(dimensions),
            )
        return self.op("broadcast_in_dim", value, results=[type_], broadcast_dimensions=list(dimensions))

    def _sizes(self, shape: Sequence[int]) -> ir.Value:
        """A shape as a value; its dynamic size is that of an input."""
        of = next(value for value in self.block.arguments if DYNAMIC in value.type.shape)
        measured = self.op("get_dimension_size", of, dimension=list(of.type.shape).index(DYNAMIC))
        parts = [measured if size == DYNAMIC else self.constant(size, self.i32) for size in shape]
        flat = [self.op("reshape", part, results=[self.tensor([1], self.i32)]) for part in parts]
        return self.op("concatenate", *flat, dimension=0)

    def compare(self, direction: str, x: ir.Value, y: ir.Value) -> ir.Value:
        """A comparison: EQ, NE, LT, LE, GT or GE."""
        return compared(direction, x, y, self.point)

    def iota(self, shape: Sequence[int], axis: int) -> ir.Value:
        """The index along a dimension, i32."""
        return self.op("iota", results=[self.tensor(shape, self.i32)], iota_dimension=axis)

    def splat(self, number: float, like: ir.Value) -> ir.Value:
        """A number in the shape and type of a value."""
        return self.broadcast(self.constant(np.asarray(number), like.type.element_type), sizes(like))

    def tensor(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """A type."""
        return ir.RankedTensorType.get(list(shape), element)

    def indices(self, shape: Sequence[int], size: int) -> ir.Value:
        """Indices into `size` elements, some of them out of bounds."""
        element = ir.Type.parse(self.one_of(("i32", "i32", "i64", "ui32", "i8")))
        low = 0 if element.is_unsigned else -2
        array = self.random.integers(low, size + 2, shape)
        return self.constant(array, element) if self.depth else self.given(array, element)

    def axes(self, value: ir.Value, low: int = 1) -> list[int]:
        """Some dimensions of a value, in order."""
        rank = len(sizes(value))
        count = self.whole(min(low, rank), rank + 1)
        return sorted(int(axis) for axis in self.random.choice(rank, count, replace=False))


def attribute(value: AttributeValue) -> ir.Attribute:
    """An attribute of a Python value: text is MLIR's."""
    return ir.Attribute.parse(value) if isinstance(value, str) else build.attribute(value)
