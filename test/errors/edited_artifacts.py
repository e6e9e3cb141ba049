"""Loads and runs an artifact again and again, each time with one value of its metadata changed and its digest made
anew. Prints a JSON line for each: the change, and what became of it. A process of its own: what is wrongly accepted may
end it."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stablehlo_py as shlo

HEAD = 8 + 4 + 32
DTYPES = ("float64", "int32", "bfloat16", "object", "O", "V8", "U3", "float128", "datetime64[s]", "no such type")
NUMBERS = (-1, 0, 1, 2, 3, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 70)
OTHERS: tuple[Any, ...] = (None, True, False, 1.5, float("nan"), "", "x", "../x", "a\0b", "\ud800", [], [[]], {})


def metadata_of(content: bytes) -> tuple[list[Any], bytes]:
    """Description and contents, and the parts."""
    one, two = (int.from_bytes(content[HEAD + at : HEAD + at + 8], "little") for at in (0, 8))
    start = HEAD + 16
    return [json.loads(content[start : start + one]), json.loads(content[start + one : start + one + two])], content[
        start + one + two :
    ]


def signed(content: bytes, metadata: list[Any], parts: bytes) -> bytes:
    """An artifact that says what it is given, with the digest that belongs to it."""
    encoded = [json.dumps(each).encode() for each in metadata]
    body = b"".join([*(len(each).to_bytes(8, "little") for each in encoded), *encoded, parts])
    return content[: HEAD - 32] + hashlib.sha256(body).digest() + body


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield from places(value[number], (*path, number))


def instead(value: Any) -> Iterator[Any]:
    """What may stand in the place of a value."""
    yield from OTHERS
    if type(value) is int:
        yield from (*NUMBERS, value + 1, value - 1, 2 * value, value // 2, float(value), str(value))
    elif isinstance(value, str):
        yield from (*DTYPES, value + "x", value[:-1], 7)
    elif isinstance(value, list):
        yield from (value[1:], value[:-1], value[::-1], value + value, [value], {"0": value})
        yield from ([*value, each] for each in (0, None, "x", *value[:1]))
    elif isinstance(value, dict):
        yield from ({k: v for k, v in value.items() if k != key} for key in value)
        yield {**value, "more": 1}


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value in a place."""
    if not path:
        return new
    result = copy.copy(value)
    result[path[0]] = changed(value[path[0]], path[1:], new)
    return result


def run(executable: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results of every process."""
    if isinstance(executable, shlo.GridExecutable):
        arguments = [[arrays] * executable.num_partitions] * executable.num_replicas
        rows = executable.call_grid(arguments, timeout=20)
        return [array for row in rows for results in row for array in results]
    return list(executable(*arrays))


def outcome(content: bytes, arrays: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """ "refused" with an error that says so, "right", or what is wrong."""
    try:
        results = run(shlo.load_executable(content), arrays)
    except (shlo.LoadError, shlo.ResourceError) as error:
        return "refused" if str(error).startswith("error[") else f"message: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    same = len(results) == len(expected) and all(map(np.array_equal, results, expected))
    return "right" if same else "wrong"


def main(path: str, inputs: str, report: Callable[[str], object] = sys.stdout.write) -> None:
    """Every change to every value."""
    content = Path(path).read_bytes()
    with np.load(inputs) as loaded:
        arrays = [loaded[name] for name in loaded.files]
    expected = run(shlo.load_executable(content), arrays)
    metadata, parts = metadata_of(content)
    assert outcome(signed(content, metadata, parts), arrays, expected) == "right"
    for place in [(part, *path) for part in (0, 1) for path in places(metadata[part])]:
        value = metadata
        for step in place:
            value = value[step]
        for new in instead(value):
            if type(new) is type(value) and new == value:
                continue
            name = (
                f"{'.'.join(map(str, (('description', 'contents')[place[0]], *place[1:])))} = {json.dumps(new)[:100]}"
            )
            report(json.dumps([name, None]) + "\n")  # the last line, where this one ends the process
            sys.stdout.flush()
            made = signed(content, changed(metadata, place, new), parts)
            report(json.dumps([name, outcome(made, arrays, expected)]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
