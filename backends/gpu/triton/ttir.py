"""Kernels in Triton's IR as the kernels of a program: what calls them in our way is text before and around theirs.

A kernel of a program is launched with a pointer for each operand and result of its fusion, in that order, in a grid
along one axis. A kernel of a user has other parameters (numbers, one array twice) and up to three axes. So it becomes a
private function, which a public one calls that has our parameters, and which Triton inlines there:

    tt.func private @add(%arg0: !tt.ptr<f32>, %arg1: i32) { ... }
    tt.func public @fusion_0(%in0: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
      %number1 = arith.constant 5 : i32
      tt.call @add(%in0, %number1) : (!tt.ptr<f32>, i32) -> ()
      tt.return
    }

The text is as Triton itself prints it, an op in each line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT

_PUBLIC = re.compile(r'^( *)tt\.func public @("[^"\n]*"|[\w$.-]+)\((.*)\)(?: attributes \{.*\})? \{$', re.MULTILINE)
_PROGRAM = re.compile(r"^( *)(%[\w$.-]+) = tt\.get_(program_id|num_programs) ([xyz]) : i32$", re.MULTILINE)
_PARAMETER = re.compile(r"%[\w$.-]+: (!?[\w.]+(?:<.*>)?)(?: \{[^{}]*\})?")
_POINTER = "!tt.ptr<"


class NoKernel(Exception):
    """The IR is none of a kernel with these parameters; the message says why."""


@dataclass(frozen=True)
class Number:
    """A parameter that is a number: MLIR's type of it, and its value as MLIR's text has it."""

    type: str
    value: str


@dataclass(frozen=True)
class Signature:
    """How a kernel of a program is launched.

    Attributes:
        pointers: names of its parameters.
        arguments: those of the user's kernel: a pointer, by its name, or a number.
        grid: that of the user's kernel.
    """

    pointers: tuple[str, ...]
    arguments: tuple[str | Number, ...]
    grid: tuple[int, int, int]


def as_kernel(text: str, name: str, symbol: str, signature: Signature) -> str:
    """The module with a public function `symbol` that calls the function `name` (empty: the only public one). Raises
    NoKernel."""
    text = along_one_axis(text, signature.grid)
    public = list(_PUBLIC.finditer(text))
    found = [match for match in public if name in ("", match[2].strip('"'))]
    if len(found) != 1:
        listed = ", ".join(match[2] for match in public) or "none"
        raise NoKernel(f"a module with one public function {name}, not with {listed}".replace(" ,", ","))
    (function,) = found
    indent, inner = function[1], f"{symbol}_inner"
    lines = _wrapper(inner, symbol, _types(function[3]), signature)
    header = function[0].replace(f"public @{function[2]}(", f"private @{inner}(", 1)
    ours = "".join(f"{indent}{line}\n" for line in lines)
    return text[: function.start()] + ours + header + text[function.end() :]


def along_one_axis(text: str, grid: tuple[int, int, int]) -> str:
    """With the numbers of programs along three axes computed from the one along the first: that of the first axis runs
    fastest."""
    prefix = "axis"
    while f"%{prefix}" in text:
        prefix += "_"

    def computed(match: re.Match[str]) -> str:
        indent, result, what, axis = match.groups()
        place = "xyz".index(axis)
        if what == "num_programs":
            return f"{indent}{result} = arith.constant {grid[place]} : i32"
        own = f"%{prefix}{match.start()}"
        lines = [f"{own} = tt.get_program_id x : i32"]
        inner = grid[0] * grid[1] if place == 2 else grid[0] if place == 1 else 1
        lines += [f"{own}_inner = arith.constant {inner} : i32", f"{own}_size = arith.constant {grid[place]} : i32"]
        lines += [f"{own}_outer = arith.divsi {own}, {own}_inner : i32"]
        lines += [f"{result} = arith.remsi {own}_outer, {own}_size : i32"]
        return "\n".join(f"{indent}{line}" for line in lines)

    is_line = grid[1] == grid[2] == 1
    return text if is_line and not re.search(r"tt\.get_\w+ [yz]|num_programs", text) else _PROGRAM.sub(computed, text)


def _types(parameters: str) -> list[str]:
    """Those of a function's parameters."""
    found = []
    for each in re.split(r", (?=%)", parameters) if parameters else []:
        match = _PARAMETER.fullmatch(each)
        if match is None:
            raise NoKernel(f"a kernel with the parameter '{each}'")
        found.append(match[1])
    return found


def _wrapper(inner: str, symbol: str, types: Sequence[str], signature: Signature) -> list[str]:
    """The lines of the function with our parameters."""
    if len(types) != len(signature.arguments):
        raise NoKernel(f"a kernel of {len(types)} parameters, of which the call gives {len(signature.arguments)}")
    pointers = dict.fromkeys(signature.pointers, "")
    body, names = [], []
    for number, (type_, argument) in enumerate(zip(types, signature.arguments, strict=True)):
        if isinstance(argument, Number):
            if type_ != argument.type:
                raise NoKernel(f"a kernel whose parameter {number} is {type_}, for which the call has {argument.type}")
            names.append(f"%number{number}")
            literal = argument.value if type_ == "i1" else f"{argument.value} : {type_}"
            body.append(f"{names[-1]} = arith.constant {literal}")
            continue
        if not type_.startswith(_POINTER):
            raise NoKernel(f"a kernel whose parameter {number} is {type_}, for which the call has an array")
        pointers[argument] = pointers[argument] or type_
        names.append(f"%{argument}")
        if pointers[argument] != type_:
            names[-1] = f"%pointer{number}"
            body.append(f"{names[-1]} = tt.bitcast %{argument} : {pointers[argument]} -> {type_}")
    attribute = f"{{tt.divisibility = {ACCESS_ALIGNMENT} : i32}}"
    ours = ", ".join(f"%{name}: {type_ or '!tt.ptr<i8>'} {attribute}" for name, type_ in pointers.items())
    body.append(f"tt.call @{inner}({', '.join(names)}) : ({', '.join(types)}) -> ()")
    return [f"tt.func public @{symbol}({ours}) {{", *(f"  {line}" for line in (*body, "tt.return")), "}"]
