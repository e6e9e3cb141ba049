"""Random damage to modules: text and bytecode that is almost right, which is where readers and compilers fail.

A corpus is the modules of a folder of `.mlir` files. Everything follows from the corpus and a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import AnyStr

from stablehlo_py.errors import ResourceError, ShloError
from stablehlo_py.frontend.load import load
from stablehlo_py.frontend.source import is_text
from stablehlo_py.mlir import bytecode, diagnostics, ir, stablehlo

VERSION = 1  # of the mutations: a number means another input to another version
KINDS = ("text", "bytecode", "none")
_LARGEST = 20_000  # bytes of a module
_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%@#!]?[A-Za-z_][\w.$]*|-?\d+(?:\.\d+(?:[eE][-+]?\d+)?)?|0x[0-9a-fA-F]+|\s+|->|.'
)
_NUMBER = re.compile(r"(?<![\w.%@#])-?\d+")
_OP = re.compile(r"\b(?:stablehlo|chlo|func|shape|tensor|arith)\.[a-z_0-9]+\b")
_TYPE = re.compile(r"\b(?:[su]?i\d+|b?f\d+\w*|index|complex<\w+>)\b")
_DIMENSION = re.compile(r"(?<=[<x])(?:\d+|\?)(?=x)")
_ATTRIBUTE = re.compile(
    r"\w+\s*=\s*(?:#\w[\w.]*(?:<[^<>{}]*>)?|array<[^<>]*>|dense<[^<>]*>|\[[^\[\]]*\]|\w+)(?:\s*:\s*\w+)?\s*,?"
)
_EDGES = [each for power in (7, 8, 31, 32, 62, 63, 64) for each in (2**power - 1, 2**power, -(2**power))]
_NUMBERS = (*map(str, (*_EDGES, 0, -1, 1, 2, 3, 10**6, 10**40)), "1e400", "0x7FC00000", "0x", "-0.0")
_TYPES = tuple(
    "f32 f64 f16 bf16 i1 i2 i4 i8 i32 i64 ui8 ui64 si32 i128 index none token complex<f32> complex<i8> f8E4M3FN "
    "f4E2M1FN tuple<> tuple<f32> tensor<f32> !stablehlo.token !quant.uniform<i8:f32,0.5:1> "
    "!quant.uniform<u8:f32:0,{0.5,2.0}> vector<4xf32> memref<4xf32>".split(" ")
)
_BRACKETS = ("()", "[]", "{}", "<>")


@dataclass(frozen=True)
class Corpus:
    """The modules that are damaged, in the order of their files' names."""

    modules: tuple[str, ...]

    @staticmethod
    def of(folder: Path) -> Corpus:
        """The modules of all `.mlir` files below a folder: parts between `// -----` lines. Raises ResourceError."""
        modules = []
        for file in sorted(folder.rglob("*.mlir")):
            data = file.read_bytes()
            if is_text(data):
                modules += [part for part in _SEPARATOR.split(data.decode()) if part.strip() and len(part) < _LARGEST]
        if not modules:
            raise ResourceError(f"{folder} holds no modules", remedy="name a folder of .mlir files")
        return Corpus(tuple(modules))

    def damaged(self, kind: str, number: int) -> bytes:
        """The input of a number: text, bytecode, or (`none`) the corpus itself, module by module."""
        if kind == "none":
            return self.modules[number % len(self.modules)].encode()
        random = Random(f"{kind} {number}")
        if kind == "text":
            text, other = self._readable(random), random.choice(self.modules)
            for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
                text = random.choice(_TEXT)(text, other, random)
            return text.encode(errors="replace")
        data, second = self._bytecode(random), self._bytecode(random)
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            data = random.choice(_BYTES)(data, second, random) or b"ML"
        return data

    def _readable(self, random: Random) -> str:
        """A module: most often one that is right, since what is wrong already is refused early."""
        text = random.choice(self.modules)
        while random.random() < 0.9 and _encoded(text, False) is None:
            text = random.choice(self.modules)
        return text

    def _bytecode(self, random: Random) -> bytes:
        """Bytecode or an artifact of a module that is right."""
        while True:
            found = _encoded(random.choice(self.modules), random.random() < 0.5)
            if found is not None:
                return found


@lru_cache(maxsize=4096)
def _encoded(text: str, artifact: bool) -> bytes | None:
    """A module as bytecode, or as an artifact; None if it cannot be read or, by an artifact, held."""
    try:
        module = load(text)
        if artifact:
            with diagnostics(module.context):  # they would be printed
                return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
    except (ShloError, ValueError, ir.MLIRError):
        return None
    return bytecode(module)


# --- text ------------------------------------------------------------------------------------------------------------


def _on_tokens(change: Callable[[list[str], int, Random], None]) -> Callable[[str, str, Random], str]:
    """A mutation of the tokens, at the place of one of them."""

    def mutate(text: str, other: str, random: Random) -> str:
        tokens = _TOKEN.findall(text)
        places = [place for place, token in enumerate(tokens) if not token.isspace()]
        if places:
            change(tokens, random.choice(places), random)
        return "".join(tokens)

    return mutate


def _delete(tokens: list[str], place: int, random: Random) -> None:
    del tokens[place : place + random.choice((1, 1, 2, 5))]


def _duplicate(tokens: list[str], place: int, random: Random) -> None:
    tokens[place:place] = tokens[place : place + random.choice((1, 2, 5, 20))]


def _swap(tokens: list[str], place: int, random: Random) -> None:
    other = random.randrange(len(tokens))
    tokens[place], tokens[other] = tokens[other], tokens[place]


def _nest(tokens: list[str], place: int, random: Random) -> None:
    brackets, depth = random.choice(_BRACKETS), random.choice((1, 2, 10, 100, 1500, 20_000))
    name = random.choice(("", "", "tuple", "dense", "array", "complex", "tensor"))
    tokens[place] = f"{name}{brackets[0]}" * depth + tokens[place] + brackets[1] * depth


def _insert_odd(tokens: list[str], place: int, random: Random) -> None:
    odd = ('"', "\\", "//", "\x01", "\x7f", "é", "\U0001f600", '"\\FF"', "%", "@", "#", "!", "?", "*", "loc(unknown)")
    tokens.insert(place, random.choice(odd))


def _replacing(pattern: re.Pattern[str], choices: Callable[[str, Random], str]) -> Callable[[str, str, Random], str]:
    """A mutation that replaces one match of a pattern; `choices` makes the replacement from the other module."""

    def mutate(text: str, other: str, random: Random) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        chosen = random.choice(found)
        return text[: chosen.start()] + choices(other, random) + text[chosen.end() :]

    return mutate


def _found_in_other(pattern: re.Pattern[str]) -> Callable[[str, Random], str]:
    def choose(other: str, random: Random) -> str:
        return random.choice(pattern.findall(other) or [""])

    return choose


def _on_lines(text: str, other: str, random: Random) -> str:
    lines, others = text.split("\n"), other.split("\n")
    place, many = random.randrange(len(lines)), random.choice((1, 1, 2, 5))
    kind = random.randrange(4)
    if kind == 0:
        del lines[place : place + many]
    elif kind == 1:
        lines[place:place] = lines[place : place + many]
    elif kind == 2:
        start = random.randrange(len(others))
        lines[place:place] = others[start : start + many]
    else:
        to = random.randrange(len(lines))
        lines[place], lines[to] = lines[to], lines[place]
    return "\n".join(lines)


def _cut(data: AnyStr, other: AnyStr, random: Random) -> AnyStr:
    return data[: random.randrange(len(data) + 1)]


_TEXT: tuple[Callable[[str, str, Random], str], ...] = (
    _on_tokens(_delete),
    _on_tokens(_duplicate),
    _on_tokens(_swap),
    _on_tokens(_nest),
    _on_tokens(_insert_odd),
    _replacing(_NUMBER, lambda other, random: random.choice(_NUMBERS)),
    _replacing(_NUMBER, lambda other, random: random.choice(_NUMBERS)),
    _replacing(_NUMBER, lambda other, random: str(random.randrange(-2, 9))),
    _replacing(_DIMENSION, lambda other, random: random.choice(("?", "0", "1", "7", *_NUMBERS))),
    _replacing(_TYPE, lambda other, random: random.choice(_TYPES)),
    _replacing(_TYPE, lambda other, random: random.choice(_TYPES)),
    _replacing(_OP, _found_in_other(_OP)),
    _replacing(_ATTRIBUTE, lambda other, random: ""),
    _replacing(_ATTRIBUTE, _found_in_other(_ATTRIBUTE)),
    _on_lines,
    _cut,
)


# --- bytes -----------------------------------------------------------------------------------------------------------


def _on_byte(change: Callable[[int, Random], bytes]) -> Callable[[bytes, bytes, Random], bytes]:
    """A mutation that puts other bytes in the place of one."""

    def mutate(data: bytes, other: bytes, random: Random) -> bytes:
        place = random.randrange(len(data))
        return data[:place] + change(data[place], random) + data[place + 1 :]

    return mutate


_flip = _on_byte(lambda byte, random: bytes([byte ^ (1 << random.randrange(8))]))
_set = _on_byte(lambda _, random: bytes([random.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256)))]))
# The next odd number: MLIR's bytecode writes small n as the byte 2n + 1.
_step = _on_byte(lambda byte, random: bytes([(byte + random.choice((-2, 2))) % 256]))


@_on_byte
def _large(_: int, random: Random) -> bytes:
    """A number of nine bytes, as MLIR's bytecode writes large ones."""
    number = random.choice((2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1, random.getrandbits(64)))
    return b"\0" + number.to_bytes(8, "little")


def _move(data: bytes, other: bytes, random: Random) -> bytes:
    """Bytes left out, repeated, or taken from another module."""
    place, many = random.randrange(len(data)), random.choice((1, 2, 8, 64))
    kind = random.randrange(3)
    if kind == 0:
        return data[:place] + data[place + many :]
    if kind == 1:
        return data[: place + many] + data[place:]
    start = random.randrange(len(other))
    return data[:place] + other[start : start + many] + data[place + many :]


_BYTES: tuple[Callable[[bytes, bytes, Random], bytes], ...] = (
    _flip,
    _flip,
    _set,
    _set,
    _step,
    _step,
    _large,
    _move,
    _cut,
)
