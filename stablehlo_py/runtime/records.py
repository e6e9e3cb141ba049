"""Dataclasses as JSON, and back: what a field may hold is what its annotation says, and nothing else.

Annotations are int, float, str, bool, a NumPy dtype, a dataclass, a tuple of those, and each of them or None.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np

from stablehlo_py.element_types import ELEMENT_TYPES

Reader = Callable[[Any, str], Any]

# The dtypes that an element type of a model can have, by name.
DTYPES = {dtype.name: dtype for dtype in ELEMENT_TYPES.values()}
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PLAIN = (int, float, str, bool, types.NoneType)


def to_json(value: Any) -> Any:
    """A dataclass as what `json.dumps` takes."""
    return write_fields(value, without=())


def write_fields(value: Any, without: Collection[str]) -> dict[str, Any]:
    """The fields of a dataclass, but for some."""
    return {name: _written(getattr(value, name)) for name in _names(typing.cast(Any, type(value)), frozenset(without))}


def from_json(type_: Any, data: Any) -> Any:
    """The inverse of `to_json`, for a dataclass or a tuple of some.

    Raises:
        ValueError: the data are not what the annotations say; the message says where.
    """
    return _reader(type_)(data, getattr(type_, "__name__", "value"))


def read_fields(type_: type, data: Any, without: Collection[str]) -> dict[str, Any]:
    """The inverse of `write_fields`. Raises ValueError as `from_json`."""
    return _fields(type_, frozenset(without))(data, type_.__name__)


def _written(value: Any) -> Any:
    kind = typing.cast(Any, type(value))
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return [each if type(each) in _PLAIN else _written(each) for each in value]
    if isinstance(value, np.dtype):
        return _DTYPE_NAMES[value]
    return {name: _written(getattr(value, name)) for name in _names(kind, frozenset())}


@cache
def _names(type_: Any, without: frozenset[str]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(type_) if field.name not in without)


@cache
def _reader(type_: Any) -> Reader:
    """The function that checks and converts data to a type; its second argument is the place that errors name."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in (types.UnionType, typing.Union):
        (other,) = (each for each in arguments if each is not types.NoneType)
        inner = _reader(other)
        return lambda data, place: None if data is None else inner(data, place)
    if origin is tuple:
        return _tuple(arguments)
    if isinstance(type_, type) and dataclasses.is_dataclass(type_):
        fields = _fields(type_, frozenset())
        return lambda data, place: type_(**fields(data, place))
    if type_ is np.dtype:
        return _dtype
    return _plain(type_)


def _plain(type_: type) -> Reader:
    accepted = (int, float) if type_ is float else (type_,)

    def read(data: Any, place: str) -> Any:
        if type(data) not in accepted:
            raise ValueError(f"{place} is {_shown(data)}, not of type {type_.__name__}")
        if type_ is int and not -(1 << 63) <= data < 1 << 63:
            raise ValueError(f"{place} is {_shown(data)}, no 64-bit integer")
        if type_ is float:
            data = float(data)
            if not math.isfinite(data):
                raise ValueError(f"{place} is {data}")
        return data

    return read


def _dtype(data: Any, place: str) -> np.dtype:
    if type(data) is not str or data not in DTYPES:
        raise ValueError(f"{place} is {_shown(data)}, no element type")
    return DTYPES[data]


def _tuple(arguments: tuple[Any, ...]) -> Reader:
    repeated = len(arguments) == 2 and arguments[1] is ...
    readers = [_reader(each) for each in (arguments[:1] if repeated else arguments)]

    def read(data: Any, place: str) -> tuple[Any, ...]:
        if type(data) is not list:
            raise ValueError(f"{place} is {_shown(data)}, not a list")
        if repeated:
            inside, one = f"{place}[]", readers[0]
            return tuple([one(each, inside) for each in data])
        if len(data) != len(readers):
            raise ValueError(f"{place} has {len(data)} parts instead of {len(readers)}")
        return tuple(
            [one(each, f"{place}[{number}]") for number, (one, each) in enumerate(zip(readers, data, strict=True))]
        )

    return read


@cache
def _fields(type_: Any, without: frozenset[str]) -> Callable[[Any, str], dict[str, Any]]:
    hints = typing.get_type_hints(type_)
    readers = [(name, _reader(hints[name])) for name in _names(type_, without)]
    known = {name for name, _ in readers}

    def read(data: Any, place: str) -> dict[str, Any]:
        if type(data) is not dict:
            raise ValueError(f"{place} is {_shown(data)}, not a mapping")
        if data.keys() != known:
            wrong = ", ".join(sorted(map(str, data.keys() ^ known)))
            raise ValueError(f"{place} lacks, or should not have: {wrong[:100]}")
        return {name: one(data[name], f"{place}.{name}") for name, one in readers}

    return read


def _shown(data: Any) -> str:
    text = repr(data) if not isinstance(data, (dict, list)) else f"a {type(data).__name__}"
    return text if len(text) <= 40 else f"{text[:40]}..."
