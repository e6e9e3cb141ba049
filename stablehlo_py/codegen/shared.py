"""Long code that rarely runs, written once for all functions that need it.

Where sines and cosines reduce huge angles, that is 170 instructions of 250. A function that may share code
(`Assembly.common`) calls a function for it, which all others of the program with the same types call, too. Operands and
results lie in memory, which every machine passes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from stablehlo_py.codegen.builder import I8, PTR, Function, Index, Type, Value, vector
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.target import TargetDescription

Code = Callable[..., Sequence[Value]]
_ALIGNMENT = 64  # bytes; of each operand and result


def shared_code(f: Function, name: str, code: Code, *operands: Value) -> list[Value]:
    """code(f, *operands): in a function where `f` shares such, whose name begins with `name`, else here. `code` is a
    function at module level, and depends on nothing but its operands. These and the results are of whole bytes."""
    if f.common is None:
        return list(code(f, *operands))
    types = tuple(operand.type for operand in operands)
    symbol = "_".join((name, *(f"{type_.lanes}x{type_.element.text}" for type_ in types)))
    emitter = type(f.emit)
    f.common[symbol], results = _function(symbol, code, types, emitter, f.emit.target)  # type: ignore[arg-type]
    memory, places = _memory(f, (*types, *results))
    for operand, place in zip(operands, places, strict=False):
        f.store(operand, place)
    f.call(symbol, [memory], external=True)
    return [f.load(type_, place) for type_, place in zip(results, places[len(types) :], strict=True)]


def in_parts(f: Function, code: Code, lanes: int, x: Value, results: Sequence[Type]) -> list[Value]:
    """code(f, x), whose results have these types, by a loop over so many lanes at a time: what LLVM would compute in
    two vectors is half as many instructions."""
    if x.type.lanes <= lanes:
        return list(code(f, x))
    _, (source, *targets) = _memory(f, (x.type, *results))
    f.store(x, source)

    def run(first: Index) -> None:
        part = code(f, f.load(vector(lanes, x.type.element), source, first))
        for value, target in zip(part, targets, strict=True):
            f.store(value, target, first)

    f.loop(0, x.type.lanes, lanes, run)
    return [f.load(type_, target) for type_, target in zip(results, targets, strict=True)]


@dataclass(frozen=True)
class Row:
    """Vectors of a type, one after the other in memory."""

    place: Value
    type: Type

    @classmethod
    def of(cls, f: Function, type_: Type, count: int) -> Row:
        """Memory on the stack for so many."""
        return cls(f.alloca(count * type_.lanes, type_.element), type_)

    def load(self, f: Function, first: Index) -> Value:
        """The vector of which this is the first element."""
        return f.load(self.type, self.place, first)

    def store(self, f: Function, first: Index, value: Value) -> None:
        """The same way back."""
        f.store(value, self.place, first)


def in_turns(
    f: Function, code: Code, turns: int, operands: Sequence[Value | Row], results: Sequence[Type]
) -> list[Row]:
    """The results of code(f, *vectors), vectors of these types and of as many lanes, in a loop of so many turns. An
    operand is one vector for each of them, or the same in all."""
    targets = [Row.of(f, type_, turns) for type_ in results]

    def run(first: Index) -> None:
        vectors = [operand.load(f, first) if isinstance(operand, Row) else operand for operand in operands]
        for value, target in zip(code(f, *vectors), targets, strict=True):
            target.store(f, first, value)

    f.loop(0, turns * results[0].lanes, results[0].lanes, run)
    return targets


@lru_cache(maxsize=64)
def _function(
    symbol: str, code: Code, types: tuple[Type, ...], emitter: type[Emitter], target: TargetDescription | None
) -> tuple[str, tuple[Type, ...]]:
    """Its text, and the types of its results, which lie behind the operands."""
    f = Function(symbol, [("memory", PTR)], emitter(target))
    sources = [f.gep(f.memory, place, I8) for place in _places(types)]
    results = code(f, *(f.load(type_, source) for type_, source in zip(types, sources, strict=False)))
    places = [*_places((*types, *(result.type for result in results)))]
    for result, place in zip(results, places[len(types) :], strict=False):
        f.store(result, f.gep(f.memory, place, I8))
    f.ret()
    return f.text(), tuple(result.type for result in results)


def _memory(f: Function, types: Sequence[Type]) -> tuple[Value, list[Value]]:
    """Memory on the stack for values of these types, and where they lie in it."""
    *places, size = _places(types)
    memory = f.alloca(size, I8)
    return memory, [f.gep(memory, place, I8) for place in places]


def _places(types: Sequence[Type]) -> Iterator[int]:
    """At which bytes values lie one after the other, and where the last of them ends."""
    place = 0
    for type_ in types:
        yield place
        size = type_.lanes * type_.bits // 8
        place += size + -size % _ALIGNMENT
    yield place
