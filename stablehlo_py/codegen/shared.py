"""Long code that rarely runs, written once for all functions that need it.

Where sines and cosines reduce huge angles, that is 170 instructions of 250. A function that may share code
(`Assembly.common`) calls a function for it, which all others of the program with the same types call, too. Operands and
results lie in memory, which every machine passes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


def in_turns(f: Function, code: Callable[..., Value], rows: Sequence[Sequence[Value]]) -> list[Value]:
    """code(*row) for each row of operands, by a loop. They and the results are vectors of one type."""
    type_ = rows[0][0].type
    columns = list(zip(*rows, strict=True))
    _, (*sources, target) = _memory(f, [vector(len(rows) * type_.lanes, type_.element)] * (len(columns) + 1))
    moving = [any(value is not column[0] for value in column) for column in columns]
    for column, source, moves in zip(columns, sources, moving, strict=True):
        for number, value in enumerate(column if moves else ()):
            f.store(value, source, number * type_.lanes)

    def run(first: Index) -> None:
        row = [
            f.load(type_, source, first) if moves else column[0]
            for column, source, moves in zip(columns, sources, moving, strict=True)
        ]
        f.store(code(*row), target, first)

    f.loop(0, len(rows) * type_.lanes, type_.lanes, run)
    return [f.load(type_, target, number * type_.lanes) for number in range(len(rows))]


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
