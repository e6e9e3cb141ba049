"""Pieces of kernels as functions that all kernels of a program call.

A piece whose code takes long to compile, and which runs long enough for a call not to count, is a function where the
kernel's target shares such. Its name says what it does; sizes are arguments. So a program has it once, and a process
makes its text once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from stablehlo_py.codegen.builder import PTR, Function, Type, Value
from stablehlo_py.codegen.emitter import Emitter


class Piece(Protocol):
    """Code for given values; as data, equal where the code is."""

    @property
    def symbol(self) -> str:
        """What the function is called."""
        ...

    def emit(self, f: Function, *arguments: Value) -> Value | None:
        """Write it into a function; the result."""
        ...


def call_piece(
    f: Function, piece: Piece, arguments: Sequence[Value], result: Type | None = None, *, apart: bool = False
) -> Value | None:
    """Do a piece's work: by a call where `f` shares functions, else in place. `apart`: what it writes through one
    pointer it reads through no other."""
    if f.common is None:
        return piece.emit(f, *arguments)
    if piece.symbol not in f.common:
        types = tuple(argument.type for argument in arguments)
        f.common[piece.symbol] = _text(piece, types, result, apart, type(f.emit), f.emit.target)  # type: ignore[arg-type]
    return f.call(piece.symbol, arguments, result, external=True)


@lru_cache(maxsize=256)
def _text(
    piece: Piece, types: Sequence[Type], result: Type | None, apart: bool, emitter: type[Emitter], target: Any
) -> str:
    parameters = [(f"a{number}", type_) for number, type_ in enumerate(types)]
    noalias = [name for name, type_ in parameters if apart and type_ == PTR]
    f = Function(piece.symbol, parameters, emitter(target), noalias=noalias, result=result)
    f.ret(piece.emit(f, *f.parameters.values()))
    return f.text()
