"""Functions on tensors under construction: the kernel language, and the few ops on whole tensors that rules are
written with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from stablehlo_py.codegen.builder import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Function, Index, ScalarType, Value
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.emitter import Lines
from stablehlo_py.codegen.emitters.tensors import TensorEmitter
from stablehlo_py.codegen.index import Affine, Delinearized, delinearize, scalar
from stablehlo_py.codegen.types import Element, Known, Lanes, element
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.types import static_shape
from stablehlo_py.mlir import ir

# Functions of the kernel language tell these types apart by identity.
_SCALARS = {each.text: each for each in (I1, I8, I16, I32, I64, BF16, F16, F32, F64)}
INDEX = ScalarType("index", 64)


def stored(of: Element) -> ScalarType:
    """What tensors hold of an element type: integers without a sign, everything else as it is."""
    name = f"i{of.bits}" if of.kind in ("int", "bool") else of.name
    return _SCALARS.get(name) or ScalarType(name, of.bits, of.is_float)


def tensor_type(sizes: Sequence[int], of: Element) -> ScalarType:
    """The type of a tensor."""
    return ScalarType(f"tensor<{''.join(f'{size}x' for size in sizes)}{stored(of).text}>", 0)


def accumulator(of: Element) -> Element:
    """What sums of an element type are kept in: f32 for narrower floats, which the result is rounded to once."""
    return element("f32") if of.is_float and of.bits < 32 else of


class Tensor(Value):
    """A tensor: a value that knows its sizes and its element type. One that is `flat` has its elements in row-major
    order along one dimension: loops write such tensors."""

    __slots__ = ("flat", "of", "sizes")

    def __init__(self, ref: str, sizes: Sequence[int], of: Element, level: int, *, flat: bool = False) -> None:
        super().__init__(ref, tensor_type([math.prod(sizes)] if flat else sizes, of), None, level)
        self.sizes, self.of, self.flat = tuple(sizes), of, flat

    def like(self, value: Value) -> Tensor:
        """A value that came out of a loop or branch as the tensor that it is, of this one's type."""
        return Tensor(value.ref, self.sizes, self.of, value.level, flat=self.flat)


Body = Callable[..., Sequence[Lanes]]
One = Callable[..., Lanes]
LoopBody = Callable[[list[Value], "list[Tensor]"], "Sequence[Tensor]"]


class TensorFunction(Function):
    """A function on tensors."""

    emit: TensorEmitter

    def __init__(self, name: str) -> None:
        super().__init__(name, [], TensorEmitter())
        self._between: Lines = []  # where code goes that moves out of the next region of the same op
        self._narrowed: dict[str, Value] = {}  # by the name of the f32 that it was widened to
        self.asks = ""  # the function that says at each trip of a loop whether to go on, and its argument; "": none
        self.location = ""  # of the op that is written now, as text of MLIR

    def cast(self, name: str, a: Value, to: ScalarType) -> Value:
        """As of every function; f16 and bf16 that were widened are remembered."""
        result = super().cast(name, a, to)
        if name == "fpext" and a.type in (F16, BF16):
            self._narrowed[result.ref] = a
        return result

    # --- scalars and elements ----------------------------------------------------------------------------------------

    def loaded(self, of: Element, raw: Value) -> Lanes:
        """The lanes that an element of a tensor stands for."""
        if of.is_complex:
            real, imaginary = (self.emit.define(f"complex.{name} {raw.ref} : {of.name}") for name in ("re", "im"))
            return self._value(real, of.compute), self._value(imaginary, of.compute)
        if of.name in ("f16", "bf16"):
            return self.cast("fpext", raw, F32)
        if of.is_float and of.bits < 16:
            bits = self.bitcast(raw, ScalarType(f"i{of.bits}", of.bits))
            assert of.decode is not None
            return of.decode(self, self.cast("zext", bits, I8))
        return raw

    def kept_as(self, of: Element, value: Known) -> Value:
        """Lanes as an element of a tensor."""
        if of.is_complex:
            real, imaginary = value
            return self._value(self.emit.define(f"complex.create {real.ref}, {imaginary.ref} : {of.name}"), stored(of))
        if of.name in ("f16", "bf16"):
            narrow = self._narrowed.get(value.ref)
            return narrow if narrow and narrow.type == stored(of) else self.cast("fptrunc", value, stored(of))
        if of.is_float and of.bits < 16:
            assert of.encode is not None
            bits = self.cast("trunc", of.encode(self, value), ScalarType(f"i{of.bits}", of.bits))
            return self.bitcast(bits, stored(of))
        return value

    def as_index(self, number: Index) -> Value:
        """An i64 as what tensors are indexed by."""
        number = self._folded(number)
        if isinstance(number, Value):
            return self._pure(("as index", number.ref), INDEX, number.level, self.emit.index_cast, number, INDEX)
        return self._once(("index", number), INDEX, self._index_constant, number)

    def _index_constant(self, number: int) -> str:
        ref = self.emit.name()
        self.emit.entry.append(f"{ref} = arith.constant {number} : index")
        return ref

    def element(self, tensor: Tensor, at: Sequence[Index] = ()) -> Lanes:
        """One element of a tensor; it has to be there."""
        places = self._places(tensor, at)
        raw = self._value(self.emit.define(f"tensor.extract {tensor.ref}[{places}] : {tensor.type}"), stored(tensor.of))
        return self.loaded(tensor.of, raw)

    def with_element(self, value: Lanes, tensor: Tensor, at: Sequence[Index]) -> Tensor:
        """The tensor with another element at a place, which has to be there."""
        places, raw = self._places(tensor, at), self.kept_as(tensor.of, value)
        text = f"tensor.insert {raw.ref} into {tensor.ref}[{places}] : {tensor.type}"
        return tensor.like(self._value(self.emit.define(text), tensor.type))

    @contextmanager
    def region(self, head: str) -> Iterator[None]:
        """A region of control flow; `head` is the line that opens it."""
        hoisted: Lines = []
        if head.startswith("}"):  # nothing stands between the regions of one op
            hoisted = self._between
        else:
            self._between = hoisted
            self.emit.lines.append(hoisted)
        self.emit.lines.append(head)
        with self._region(hoisted):
            yield
            self._between = hoisted

    def _places(self, tensor: Tensor, at: Sequence[Index]) -> str:
        if tensor.flat:
            place: Index = 0
            for index, stride in zip(at, row_major_strides(tensor.sizes), strict=True):
                place = self.iadd(place, self.imul(index, stride))
            at = [place]
        return ", ".join(self.as_index(index).ref for index in at)

    def lookup_table(self, numbers: Sequence[float]) -> Value:
        """A constant tensor."""
        return self._once(("table", tuple(numbers)), tensor_type([len(numbers)], element("f64")), self._table, numbers)

    def _table(self, numbers: Sequence[float]) -> str:
        ref, data = self.emit.name(), np.asarray(numbers, "<f8").tobytes().hex().upper()
        self.emit.entry.append(f'{ref} = arith.constant dense<"0x{data}"> : tensor<{len(numbers)}xf64>')
        return ref

    def looked_up(self, table: Value, at: Value) -> Value:
        """A number of it."""
        return self._value(self.emit.define(f"tensor.extract {table.ref}[{self.as_index(at).ref}] : {table.type}"), F64)

    # --- tensors -----------------------------------------------------------------------------------------------------

    def tensor(self, text: str, sizes: Sequence[int], of: Element) -> Tensor:
        """The result of an op on tensors, given as text without its name."""
        return Tensor(self.emit.define(text + self.location), sizes, of, self.level)

    @staticmethod
    def empty_type(sizes: Sequence[int], of: Element) -> str:
        """The type of a tensor, as text."""
        return tensor_type(sizes, of).text

    def empty(self, sizes: Sequence[int], of: Element) -> Tensor:
        """A tensor whose elements are to be written."""
        return self.tensor(f"tensor.empty() : {tensor_type(sizes, of)}", sizes, of)

    def filled(self, value: Lanes, sizes: Sequence[int], of: Element) -> Tensor:
        """A tensor of equal elements."""
        raw, to = self.kept_as(of, value), self.empty(sizes, of)
        return self.tensor(
            f"linalg.fill ins({raw.ref} : {raw.type}) outs({to.ref} : {to.type}) -> {to.type}", sizes, of
        )

    def generic(
        self,
        inputs: Sequence[tuple[Tensor, str]],
        outputs: Sequence[tuple[Tensor, str]],
        loops: str,
        body: Body,
        *,
        reads_outputs: bool = False,
    ) -> list[Tensor]:
        """A linalg.generic. `inputs` and `outputs` are tensors with the results of their maps, "d0, d1"; `loops` has a
        letter for each dimension, p for parallel and r for reduction. The body gets the lanes of the inputs, with
        `reads_outputs` also those of the outputs so far, and gives those of the outputs."""
        given, kept = [each for each, _ in inputs], [each for each, _ in outputs]
        dims = ", ".join(f"d{number}" for number in range(len(loops)))
        maps = ", ".join(f"affine_map<({dims}) -> ({results})>" for _, results in (*inputs, *outputs))
        kinds = ", ".join('"parallel"' if letter == "p" else '"reduction"' for letter in loops)
        refs, types = self.emit.results(len(kept)), ", ".join(each.type.text for each in kept)
        head = f"{refs[0]}linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
        if given:
            head += f" ins({_listed(given)})"
        hoisted = self._preheader()
        self.emit.lines.append(f"{head} outs({_listed(kept)}) {{")
        with self._region(hoisted):
            names = [self.emit.name() for _ in (*given, *kept)]
            raws = [
                Value(name, stored(each.of), None, self.level)
                for name, each in zip(names, (*given, *kept), strict=True)
            ]
            self.emit.lines.append(f"^bb0({', '.join(f'{raw.ref}: {raw.type}' for raw in raws)}):")
            taken = raws if reads_outputs else raws[: len(given)]
            results = body(*(self.loaded(each.of, raw) for each, raw in zip((*given, *kept), taken, strict=False)))
            encoded = [self.kept_as(each.of, value) for each, value in zip(kept, results, strict=True)]
            listed = ", ".join(value.ref for value in encoded)
            self.emit.lines.append(f"linalg.yield {listed} : {', '.join(value.type.text for value in encoded)}")
        self.emit.lines.append(f"}} -> {types if len(kept) == 1 else f'({types})'}{self.location}")
        level = self.level
        return [
            Tensor(ref, each.sizes, each.of, level, flat=each.flat) for ref, each in zip(refs[1], kept, strict=True)
        ]

    def each_element(self, sizes: Sequence[int], of: Element, inputs: Sequence[Tensor], body: One) -> Tensor:
        """A new tensor, whose elements are computed from those of the inputs at the same place."""
        same = identity(len(sizes))
        (result,) = self.generic(
            [(each, same) for each in inputs],
            [(self.empty(sizes, of), same)],
            "p" * len(sizes),
            lambda *lanes: [body(*lanes)],
        )
        return result

    def by_index(self, sizes: Sequence[int], of: Element, body: Callable[[list[Value]], Lanes]) -> Tensor:
        """A new tensor, whose elements are computed from their indices."""
        return self.each_element(sizes, of, [], lambda: body(self.indices(len(sizes))))

    def indices(self, rank: int) -> list[Value]:
        """In the body of a linalg.generic, where it is."""
        found = []
        for dimension in range(rank):
            raw = Value(self.emit.define(f"linalg.index {dimension} : index"), INDEX, None, self.level)
            found.append(self._value(self.emit.index_cast(raw, I64), I64))
        return found

    def nest(
        self,
        sizes: Sequence[int],
        tensors: Sequence[Tensor],
        body: LoopBody,
    ) -> list[Tensor]:
        """Nested loops in row-major order, that write tensors: flat ones, while they run."""
        written = self.loops(sizes, [self.flattened(tensor) for tensor in tensors], body)
        return [self.unflattened(tensor) for tensor in written]

    def loops(self, sizes: Sequence[int], tensors: Sequence[Tensor], body: LoopBody) -> list[Tensor]:
        """The same, with tensors that are flat already."""
        return _nest(self, sizes, [], tensors, body)

    def flattened(self, tensor: Tensor) -> Tensor:
        """The elements along one dimension."""
        sizes, text = tensor.sizes, tensor.ref
        flat = Tensor(text, sizes, tensor.of, tensor.level, flat=True)
        if len(sizes) == 1 or tensor.flat:
            return flat
        if sizes:
            text = f"tensor.collapse_shape {text} [{list(range(len(sizes)))}] : {tensor.type} into {flat.type}"
        else:
            text = f"tensor.expand_shape {text} [] output_shape [1] : {tensor.type} into {flat.type}"
        return Tensor(self.emit.define(text), sizes, tensor.of, self.level, flat=True)

    def unflattened(self, flat: Tensor) -> Tensor:
        """The inverse of `flattened`."""
        sizes, text = flat.sizes, flat.ref
        if len(sizes) == 1:
            return Tensor(text, sizes, flat.of, flat.level)
        type_ = tensor_type(sizes, flat.of)
        if sizes:
            groups = f"[{list(range(len(sizes)))}] output_shape {list(sizes)}"
            return self.tensor(f"tensor.expand_shape {text} {groups} : {flat.type} into {type_}", sizes, flat.of)
        return self.tensor(f"tensor.collapse_shape {text} [] : {flat.type} into {type_}", sizes, flat.of)


def _nest(
    f: TensorFunction,
    sizes: Sequence[int],
    indices: list[Value],
    tensors: Sequence[Tensor],
    body: LoopBody,
) -> list[Tensor]:
    if len(indices) == len(sizes):
        return list(body(indices, list(tensors)))

    def step(index: Value, *carried: Value) -> Sequence[Value]:
        return _nest(f, sizes, [*indices, index], as_tensors(tensors, carried), body)

    return as_tensors(tensors, f.loop(0, sizes[len(indices)], 1, step, tensors))


def as_tensors(tensors: Sequence[Tensor], values: Sequence[Value]) -> list[Tensor]:
    """Values of a loop as the tensors that they are."""
    return [tensor.like(value) for tensor, value in zip(tensors, values, strict=True)]


def identity(rank: int) -> str:
    """The results of the map that changes nothing."""
    return ", ".join(f"d{number}" for number in range(rank))


def _listed(tensors: Sequence[Tensor]) -> str:
    return f"{', '.join(each.ref for each in tensors)} : {', '.join(each.type.text for each in tensors)}"


class AtIndex(Elemental):
    """hlo ops evaluated at an index, whose operands are tensors."""

    def __init__(self, f: TensorFunction, tensors: dict[ir.Value, Tensor]) -> None:
        self._tensors = tensors
        super().__init__(f, _Nothing(), _Nothing(), 1)
        self._bases = dict(tensors)

    def read(self, of: Element, base: Value, place: Delinearized, source: object = None) -> Lanes:
        """An element of a tensor."""
        f, tensor = self.f, base
        assert isinstance(f, TensorFunction) and isinstance(tensor, Tensor)
        indices = delinearize(f, place, tensor.sizes, 1)
        level = max((index.level for index in indices), default=0)
        level = max(level, f.safe_level, tensor.level, self.predicate.level if self.predicate else 0)
        with f.at_level(level):
            return f.element(
                tensor, [self._inside(index, size) for index, size in zip(indices, tensor.sizes, strict=True)]
            )

    def _inside(self, index: Affine, size: int) -> Index:
        """Where the predicate is off, an index may be outside: the nearest one that is not."""
        low, high = index.bounds(1)
        at = scalar(self.f, index)
        if self.predicate is None or (low >= 0 and high < size):
            return at
        return self.f.imax(self.f.imin(at, size - 1), 0)


class _Nothing:
    inputs: Sequence[ir.Value] = ()
    vector_bits = 64
    masked_bits = 32
    gathers = True


def sizes_of(value: ir.Value | ir.Type) -> tuple[int, ...]:
    """The sizes of a tensor of hlo. Raises GuardError where one is dynamic."""
    return static_shape(value)
