"""The whole C file: what it includes, the structure of a call, helpers, constants, kernels, and the entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from stablehlo_py.backends.c.program import constant_name
from stablehlo_py.backends.common.description import describe_constants
from stablehlo_py.backends.common.fusion import fusions
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.symbols import PREFIX
from stablehlo_py.codegen.emitters.c import CEmitter, comment, symbol
from stablehlo_py.codegen.emitters.c_helpers import helpers_of
from stablehlo_py.codegen.types import ELEMENTS
from stablehlo_py.dialect.attributes import FUSION
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.dialect.types import user_location
from stablehlo_py.mlir import ir

_PLACES = 3  # lines of the model that a comment lists
_HEAD = """// Written by stablehlo-py from a StableHLO module. C99, on its own; docs/c-backend.md says how to build it.
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this file is for machines that store the low byte first"
#endif"""
_WIDE = """#if UINTPTR_MAX != UINT64_MAX
#error "functions of users and LAPACK take structures of 64-bit words: compile for a machine with pointers of 64 bits"
#endif"""


@dataclass(frozen=True)
class Unit:
    """Functions, and the tables that they read, with a comment; `symbols` are their names in the kernel language."""

    symbols: tuple[str, ...]
    text: str
    head: str = ""

    @classmethod
    def of(cls, module: ir.Module, fusion: str, kernel: Kernel) -> Unit:
        """Of a kernel."""
        texts = [*kernel.tables.values(), *kernel.functions.values()]
        return cls((*kernel.functions, *kernel.tables), "\n\n".join(texts), _described(module, fusion))


def _described(module: ir.Module, name: str) -> str:
    """The comment before a kernel: kind, ops, lines of the model."""
    function = next(each for each in fusions(module) if each.attributes["sym_name"].value == name)
    *ops, _ = function.regions[0].blocks[0].operations
    names = dict.fromkeys(op.operation.name.partition(".")[2] for op in ops)
    lines = [f"{name}: {function.attributes[FUSION].value} ({', '.join(names)})"]
    places = list(dict.fromkeys(filter(None, (user_location(op.location) for op in ops))))
    lines += places[:_PLACES]
    if len(places) > _PLACES:
        lines.append(f"and {len(places) - _PLACES} other lines")
    return "\n".join(map(comment, lines))


@cache
def _call_structure() -> str:
    """The declarations of include/shlo_call.h, between its guards; it may be included too."""
    text = files("stablehlo_py").joinpath("include/shlo_call.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'#ifdef __cplusplus\n(extern "C" \{|\})\n#endif\n', "", text)
    text = re.sub(r"#include <.*>\n", "", text)
    return re.sub(r"[ \t]+\n", "\n", re.sub(r"\n\n+", "\n", text)).strip()


def file_of(
    module: ir.Module, units: Sequence[Unit], externals: Mapping[str, str], *, bound: bool, embedded: bool
) -> str:
    """The file of some units, the last of which are called from outside."""
    kept: list[Unit] = []
    for unit in reversed(units):  # what nobody calls, compilers warn of
        after = "\n".join(other.text for other in kept)
        if not unit.symbols or any(re.search(rf"\b{symbol(name)}\b", after) for name in unit.symbols):
            kept.insert(0, unit)
    body = "\n\n".join(f"{unit.head}\n{unit.text}" if unit.head else unit.text for unit in kept)
    declared = [
        text.replace(";", f' __asm__("{name}");') if bound and symbol(name) in body else text
        for name, text in externals.items()
        if symbol(name) in body
    ]
    constants = _constants(module, body) if embedded else []
    wide = [_WIDE] if any(name.startswith(PREFIX) for name in externals) else []
    parts = [_HEAD, *wide, _call_structure(), *helpers_of(body), "\n".join(declared), *constants, body]
    return "\n\n".join(filter(None, parts)) + "\n"


def _constants(module: ir.Module, body: str) -> list[str]:
    """The model's constants that the program reads, as arrays."""
    texts = []
    for number, array in enumerate(describe_constants(module)):
        if not re.search(rf"\b{constant_name(number)}\b", body):
            continue
        of = ELEMENTS[element_name(array.dtype)]
        stored = array.reshape(-1)
        if of.is_complex or (of.storage.is_float and of.storage.bits > 16):
            stored = stored.view(f"f{of.storage.bits // 8}")
        else:
            stored = stored.view(f"u{of.storage.bits // 8}")
        texts.append(CEmitter.table(constant_name(number), stored, of.storage))
    return texts
