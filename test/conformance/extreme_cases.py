"""Cases of the extremes: valid programs in which one integer, of the text or of an argument, is an extreme.

Programs are the functions of `stablehlo_py/conformance/ops/`, one element type of each, and those of
`extremes/*.mlir`, whose sizes a call brings along. A function there follows a line with the
arguments of a call that is right:

    // call: f32[3] f32[] i64=[1] i64=[2]
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import ml_dtypes
import numpy as np

from stablehlo_py.conformance.cases import CLASS_OF, Row, instantiate, sections
from stablehlo_py.conformance.values import Spec, values_of
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir

EXTREMES = (-(2**63), -1, 0, 1, 2**31, 2**63 - 1)
FOLDER = Path(__file__).with_name("extremes")
# The first of these that a section is written for is its type.
PREFERRED = ("f32", "i32", "i64", "ui8", "i1")
LARGEST_ARGUMENTS = 1 << 22  # bytes that a call of a mutated signature may take

_SHAPE = re.compile(r"(?<=tensor<)(?:(?:\d+|\?)x)+")
_DIMENSION = re.compile(r"\d+(?=x)")
# Strings, floats, names and types, which are passed over, and integers.
_TOKEN = re.compile(r'"[^"]*"|\d+\.\d*(?:[eE][-+]?\d+)?|0x[0-9A-Fa-f]+|[%@#!^]?[A-Za-z_][\w.$]*|[%@#^]\d+|(-?\d+)')
_ARGUMENT = re.compile(r"%\w+: tensor<((?:[\d?]+x)*)([^>]*>?)>")
# The arguments of a call, a function, its name, and the private functions after it.
_CALL = re.compile(
    r"^// call: ([^\n]*)\n(func\.func @(\w+).*?^}$(?:\nfunc\.func private @.*?^}$)*)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Program:
    """A valid program.

    Attributes:
        name: where it is from. text: a module with `@main`. inputs: arguments of a call, one process after the other.
        replicas: how many processes run it. tolerance: of floats, in units in the last place; None where no oracle
            says what is right. by_largest: those of the largest element of a result.
    """

    name: str
    text: str = field(repr=False)
    inputs: tuple[np.ndarray, ...] = field(repr=False)
    replicas: int = 1
    tolerance: int | None = 0
    by_largest: bool = False


Inputs: TypeAlias = "tuple[np.ndarray, ...] | None"  # None where they would be too large


@dataclass(frozen=True)
class Case:
    """A program with one extreme: `what` it is, the text with it, and the arguments."""

    program: Program
    what: str
    text: str = field(repr=False)
    inputs: Inputs = field(repr=False)

    @property
    def name(self) -> str:
        """The same in every run."""
        return f"{self.program.name}: {self.what}"


def programs(pattern: str = "*") -> Iterator[Program]:
    """The valid programs whose name fits a pattern; making them takes most of a minute for all."""
    for section in sections().values():
        type_ = next((each for each in PREFERRED if each in section.types), section.types[0])
        for op in section.ops:
            functions = instantiate(section, op, type_)
            if section.also != ():  # one of those for the types that stand beside it
                functions = {name: text for name, text in functions.items() if not re.search(r"_[1-9]\d*$", name)}
            for row in Row(section, op, type_, functions).split():
                if fnmatch.fnmatchcase(_name(row), pattern):
                    yield _of_row(row)
    for path in sorted(FOLDER.glob("*.mlir")):
        for words, text, name in _CALL.findall(path.read_text()):
            if fnmatch.fnmatchcase(f"{path.stem} {name}", pattern):
                yield Program(
                    f"{path.stem} {name}", text.replace(f"@{name}(", "@main(", 1), _inputs(words, name), tolerance=8
                )


def _name(row: Row) -> str:
    (function,) = row.functions
    return f"{row.section.family}#{row.section.number} {row.op} {function}"


def _of_row(row: Row) -> Program:
    compared = row.section.oracles[0] == "reference" and CLASS_OF[row.type] != "quantized" and row.section.replicas == 1
    inputs = tuple(array for arguments in row.arguments for array in arguments)
    tolerance = max(row.tolerance, 8) if compared else None
    return Program(_name(row), row.module, inputs, row.section.replicas, tolerance, row.section.measure == "largest")


def _inputs(words: str, seed: str) -> tuple[np.ndarray, ...]:
    """The arrays that a `call:` line names."""
    arrays = []
    with make_context():
        for number, word in enumerate(words.split()):
            type_, sizes, values = re.fullmatch(r"(\w+)(?:\[([\d,]*)\]|=(.*))", word).groups()  # type: ignore[union-attr]
            dtype = numpy_dtype(ir.Type.parse(type_))
            if values is not None:
                arrays.append(np.array(eval(values), dtype))
            else:
                shape = tuple(map(int, filter(None, sizes.split(","))))
                arrays.append(values_of(Spec(shape, dtype, None, False, _seed(f"{seed}{number}")), "small"))
    return tuple(arrays)


def _seed(text: str) -> int:
    return zlib.crc32(text.encode())


def cases(program: Program) -> Iterator[Case]:
    """The program with each of its integers replaced by each extreme: in the text one by one, a size everywhere that it
    stands, a size left open, and the elements of integer arguments."""
    for what, text in _texts(program.text):
        yield Case(program, what, text, _fitting(program, text))
    yield from _with_values(program, "", program.text)
    if program.replicas > 1:
        return
    for size in sorted({int(each) for shape in _SHAPE.findall(program.text) for each in _DIMENSION.findall(shape)}):
        what, opened = f"size {size} open", _resized(program.text, size, "?")
        yield Case(program, what, opened, program.inputs)
        yield from _with_values(program, f"{what}, ", opened)
        for other in (0, 1):
            shapes = [tuple(other if each == size else each for each in array.shape) for array in program.inputs]
            inputs = tuple(map(_reshaped, program.inputs, shapes))
            yield Case(program, f"{what}, {other}", opened, inputs)


def _reshaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return array if array.shape == shape else np.resize(array, shape)


# --- the text ---------------------------------------------------------------------------------------------------------


def _texts(text: str) -> Iterator[tuple[str, str]]:
    """Descriptions and texts."""
    shapes = [match.span() for match in _SHAPE.finditer(text)]
    places = [
        (begin + m.start(), begin + m.end()) for begin, end in shapes for m in _DIMENSION.finditer(text[begin:end])
    ]
    blank = list(text)
    for begin, end in shapes:
        blank[begin:end] = " " * (end - begin)
    places += [match.span(1) for match in _TOKEN.finditer("".join(blank)) if match[1]]
    for number, (begin, end) in enumerate(sorted(places)):
        for value in EXTREMES:
            if text[begin:end] != str(value):
                yield f"integer {number} ({text[begin:end]}) is {value}", f"{text[:begin]}{value}{text[end:]}"
    sizes = {text[begin:end] for begin, end in places if text[end : end + 1] == "x"}
    for size, value in itertools.product(sorted(sizes), EXTREMES):
        if size != str(value):
            yield f"size {size} is {value}", _resized(text, int(size), str(value))


def _resized(text: str, size: int, to: str) -> str:
    def renamed(shape: re.Match[str]) -> str:
        return "".join((to if each == str(size) else each) + "x" for each in shape[0].split("x")[:-1])

    return _SHAPE.sub(renamed, text)


def _fitting(program: Program, text: str) -> Inputs:
    """Arguments for a mutated signature of `@main`: the old ones where their shapes are what it says."""
    signature = text.partition("@main(")[2].partition(") -> ")[0]
    shapes = [[each for each in sizes.split("x") if each] for sizes, _ in _ARGUMENT.findall(signature)]
    if len(shapes) * program.replicas != len(program.inputs):
        return program.inputs  # what is wrong with it is the compiler's to say
    arrays, total = [], 0
    for array, sizes in zip(program.inputs, shapes * program.replicas, strict=True):
        shape = tuple(old if each == "?" else int(each) for each, old in zip(sizes, array.shape, strict=False))
        total += math.prod(max(each, 1) for each in shape) * array.dtype.itemsize  # NumPy multiplies these
        if total > LARGEST_ARGUMENTS:
            return None
        arrays.append(_reshaped(array, tuple(max(each, 0) for each in shape)))
    return tuple(arrays)


# --- arguments --------------------------------------------------------------------------------------------------------


def _with_values(program: Program, prefix: str, text: str) -> Iterator[Case]:
    """Every integer argument full of each extreme that its type has, and its first and its last element alone."""
    for number, array in enumerate(program.inputs):
        if array.dtype == np.bool_ or not array.size or not _is_integer(array.dtype):
            continue
        for value in _values(array.dtype):
            for where, places in _places(array).items():
                changed = array.copy()
                changed.reshape(-1)[places] = np.array(value).astype(array.dtype)
                inputs = (*program.inputs[:number], changed, *program.inputs[number + 1 :])
                yield Case(program, f"{prefix}argument {number}{where} is {value}", text, inputs)


def _places(array: np.ndarray) -> dict[str, Sequence[int] | slice]:
    alone = {f"[{place}]": [place] for place in sorted({0, array.size - 1})} if array.size > 1 else {}
    return {"": slice(None), **alone}


def _is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" or dtype.name.lstrip("u").startswith("int")


def _values(dtype: np.dtype) -> list[int]:
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return sorted({value for value in (*EXTREMES, low, high) if low <= value <= high})
