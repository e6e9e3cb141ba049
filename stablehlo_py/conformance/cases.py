"""The per-op cases: files of StableHLO functions with the element type left open, tried with every element type.

A file of `ops/` is sections between `// -----` lines:

    // ops: stablehlo.add stablehlo.multiply
    // types: i1 small-int int small-uint uint small-float half float complex quantized none
    // values: special
    // tolerance: 0
    func.func @vector(%x: tensor<7x$T>, %y: tensor<7x$T>) -> tensor<7x$T> {
      %0 = "$OP"(%x, %y) : (tensor<7x$T>, tensor<7x$T>) -> tensor<7x$T>
      return %0 : tensor<7x$T>
    }

`ops` are the ops that the section is about, one after the other in place of `$OP`. `types` are the types, classes of
types (see `CLASSES`) or groups of them for which StableHLO accepts the functions; that its verifier accepts no others
is a test. `none` is for ops that have no element type. `values` says what the arguments hold (see `values_of`), and an
argument's attribute `case.range = [low, high]` what it alone does. `tolerance` is in units in the last place of the
results (of a complex number's modulus; with `measure: largest` of the largest element), `8 half=2` where classes
differ. `oracle` names what says the right results, in order (see `oracles.py`). `replicas` is how many processes run
the module, each on arguments of its own. Further words: `$P` the part of a complex type (else the type itself), `$C`
the complex type of a float, `$U` the unsigned type of the width, `$0` and `$1` the literals of zero and one, `$S` (with
a line `also: TYPES...`) all of those types; `also: promotable` is all types that bodies may compute in for this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from stablehlo_py.conformance.assembly import assemble
from stablehlo_py.conformance.values import Spec, values_of
from stablehlo_py.mlir import ir

FOLDER = Path(__file__).with_name("ops")
CLASSES = {
    "i1": ("i1",),
    "small-int": ("i2", "i4"),
    "int": ("i8", "i16", "i32", "i64"),
    "small-uint": ("ui2", "ui4"),
    "uint": ("ui8", "ui16", "ui32", "ui64"),
    "small-float": (
        "f4E2M1FN",
        "f6E2M3FN",
        "f6E3M2FN",
        "f8E3M4",
        "f8E4M3",
        "f8E4M3B11FNUZ",
        "f8E4M3FN",
        "f8E4M3FNUZ",
        "f8E5M2",
        "f8E5M2FNUZ",
        "f8E8M0FNU",
    ),
    "half": ("bf16", "f16"),
    "float": ("f32", "f64"),
    "complex": ("complex<f32>", "complex<f64>"),
    "quantized": ("!quant.uniform<i8:f32, 5.000000e-01:3>",),
    "none": ("none",),
}
TYPES = tuple(type_ for types in CLASSES.values() for type_ in types)
CLASS_OF = {type_: name for name, types in CLASSES.items() for type_ in types}
# One type of every class.
REPRESENTATIVES = (
    "i1",
    "i4",
    "i32",
    "ui4",
    "ui8",
    "f8E4M3FN",
    "bf16",
    "f32",
    "complex<f32>",
    CLASSES["quantized"][0],
    "none",
)
GROUPS = {
    "integer": ("small-int", "int", "small-uint", "uint"),
    "signed": ("small-int", "int"),
    "real": ("small-float", "half", "float"),
    "number": ("small-int", "int", "small-uint", "uint", "small-float", "half", "float", "complex"),
    "any": tuple(name for name in CLASSES if name not in ("quantized", "none")),
}
_HEADER = re.compile(r"^// (\w+): (.*)$", re.MULTILINE)
PROMOTABLE = "promotable"
# A function and the private ones after it, which it uses.
_FUNCTION = re.compile(r"^func\.func @(\w+).*?^}$(?:\nfunc\.func private @.*?^}$)*", re.MULTILINE | re.DOTALL)
# What these do with numbers of another type says nothing: it depends on codes, or on a rounding in every step.
_NOT_WIDENED = frozenset(("chlo.broadcast_next_after", "chlo.next_after", "chlo.scan", "stablehlo.bitcast_convert"))
_KNOWN_HEADERS = {"ops", "types", "also", "values", "tolerance", "measure", "oracle", "replicas"}


def types_of(words: str) -> tuple[str, ...]:
    """The types that words name: types, classes, groups of classes. Raises KeyError."""
    found: dict[str, None] = {}
    for word in words.split():
        classes = GROUPS.get(word) or ((word,) if word in CLASSES else ())
        if not classes and word not in CLASS_OF:
            raise KeyError(f"no type and no class of types is named {word!r}")
        found |= dict.fromkeys(type_ for name in classes for type_ in CLASSES[name])
        if not classes:
            found[word] = None
    return tuple(found)


@dataclass(frozen=True)
class Section:
    """A part of a file: functions, and what they are tried with."""

    family: str
    number: int  # in its file: an op may have several
    ops: tuple[str, ...]
    types: tuple[str, ...]
    also: tuple[str, ...] | None  # None: those that the type may be promoted to
    values: str
    tolerances: dict[str, int]  # by class; "" is any other
    measure: str
    oracles: tuple[str, ...]
    replicas: int
    functions: dict[str, str] = field(repr=False)


@dataclass(frozen=True)
class Row:
    """Functions of a section for one op and one element type: one module, `@main` calls all of them.

    Complex and quantized arguments and results of `@main` are taken apart: parts, and expressed values.
    """

    section: Section = field(repr=False)
    op: str
    type: str
    functions: dict[str, str] = field(repr=False)

    @property
    def tolerance(self) -> int:
        """In units in the last place."""
        tolerances = self.section.tolerances
        return tolerances.get(CLASS_OF[self.type], tolerances[""])

    @property
    def oracles(self) -> tuple[str, ...]:
        """Those of the section; of many quantized ops only what shares our legalization says something. Small floats
        are computed with in wider ones first, as the interpreter has its own idea of some of them (docs/types.md) and
        XLA lacks others."""
        first: tuple[str, ...] = ()
        last: tuple[str, ...] = ("evaluate",)  # whoever has no JAX has this
        if CLASS_OF[self.type] == "quantized":
            last = ("evaluate", "integers")
        elif CLASS_OF[self.type] == "small-float":
            # Nor does a body's type of its own, which stays.
            can_widen = self.op not in _NOT_WIDENED and self.section.also is not None
            first = ("wide",) if can_widen and self.section.oracles[0] in ("reference", "jax") else ()
        return tuple(dict.fromkeys((*first, *self.section.oracles, *last)))

    @property
    def name(self) -> str:
        return f"{self.section.family}#{self.section.number} {self.op} {self.type}"

    def split(self) -> Iterator[Row]:
        """One row per function, for when they do not all run."""
        for name, text in self.functions.items():
            yield replace(self, functions={name: text})

    @cached_property
    def _assembled(self) -> tuple[str, list[Spec], dict[str, list[bool]]]:
        return assemble(self.functions)

    @property
    def module(self) -> str:
        """The text of the module."""
        return self._assembled[0]

    @property
    def arguments(self) -> list[list[np.ndarray]]:
        """Arguments of `@main` for each process; the same ones every time."""
        specs = self._assembled[1]
        return [
            [values_of(replace(spec, seed=spec.seed + process), self.section.values) for spec in specs]
            for process in range(self.section.replicas)
        ]

    @property
    def dtypes(self) -> list[np.dtype]:
        """Those of the arguments."""
        return [spec.dtype for spec in self._assembled[1]]

    def of_type(self, type_: str) -> Row:
        """The same functions for another element type."""
        functions = instantiate(self.section, self.op, type_)
        return Row(self.section, self.op, type_, {name: functions[name] for name in self.functions})

    @property
    def part_flags(self) -> dict[str, list[bool]]:
        """For every function, which of its results of `@main` are parts of a complex number (they come in pairs)."""
        return self._assembled[2]


# --- reading the files ------------------------------------------------------------------------------------------------


def sections(folder: Path = FOLDER) -> dict[tuple[str, int], Section]:
    """The sections of all files, by file name and number. Raises ValueError for one that cannot be read."""
    return {
        (path.stem, number): _section(path, number, text)
        for path in sorted(folder.glob("*.mlir"))
        for number, text in enumerate(path.read_text().split("// -----\n"))
        if _FUNCTION.search(text)
    }


def _section(path: Path, number: int, text: str) -> Section:
    header = dict(_HEADER.findall(text))
    if unknown := set(header) - _KNOWN_HEADERS:
        raise ValueError(f"{path}: unknown header {', '.join(sorted(unknown))}")
    functions = {match[1]: match[0] for match in _FUNCTION.finditer(text)}
    if len(functions) != text.count("func.func @"):
        raise ValueError(f"{path}: a function's name is not unique in its section, or its last line is not '}}'")
    return Section(
        path.stem,
        number,
        tuple(header["ops"].split()),
        types_of(header["types"]),
        None if header.get("also") == PROMOTABLE else types_of(header.get("also", "")),
        header.get("values", "small"),
        _tolerances(header.get("tolerance", "0")),
        header.get("measure", "element"),
        tuple(header.get("oracle", "reference jax").split()),
        int(header.get("replicas", "1")),
        functions,
    )


def _tolerances(text: str) -> dict[str, int]:
    first, *others = text.split()
    return {"": int(first)} | {name: int(number) for name, number in (word.split("=") for word in others)}


_COMPLEX = re.compile(r"complex<(\w+)>")
_WIDTH = {type_: int(re.findall(r"\d+", type_)[0]) for type_ in TYPES if re.match(r"[a-z]*\d", type_) and type_ != "i1"}


def _words(op: str, type_: str) -> dict[str, str]:
    part = _COMPLEX.match(type_)
    kind = ("c" if part else "b") if part or type_ == "i1" else "i" if re.match(r"u?i\d", type_) else "f"
    zero, one = {"c": ("(0.0, 0.0)", "(1.0, 0.0)"), "b": ("false", "true"), "i": ("0", "1"), "f": ("0.0", "1.0")}[kind]
    return {
        "$OP": op,
        "$T": type_,
        "$P": part[1] if part else type_,
        "$C": type_ if part else f"complex<{type_}>",
        "$U": f"ui{_WIDTH[type_]}" if type_ in _WIDTH else "",
        "$0": zero,
        "$1": one,
    }


def promotions(type_: str) -> tuple[str, ...]:
    """The types that a body may compute in whose operands are of this one: StableHLO's verifier takes all floats for
    each other, where the specification (`is_promotable`) asks for as many bits, as of integers."""
    if type_ == "i1":
        return types_of("i1 integer")
    if type_ == "f8E8M0FNU":  # whose values are positive: their sums round in some order in the narrowest types
        return tuple(other for other in types_of("real") if bits(other) >= 8)
    if type_ in types_of("real"):  # but that one, which has neither zero nor negative numbers
        return tuple(other for other in types_of("real") if other != "f8E8M0FNU")
    group = types_of("complex" if CLASS_OF[type_] == "complex" else "integer")
    return tuple(other for other in group if bits(other) >= bits(type_))


def bits(type_: str) -> int:
    """Those of an element, or of a part of a complex one."""
    return int(re.findall(r"\d+", type_)[0])


def instantiate(section: Section, op: str, type_: str) -> dict[str, str]:
    """The functions of a section with the words filled in."""
    others = (promotions(type_) if section.also is None else section.also) or ("",)
    filled = {}
    for name, text in section.functions.items():
        for number, other in enumerate(others if "$S" in text else [""]):
            own = f"{name}_{number}" if "$S" in text else name
            words = {**_words(op, type_), "$S": other, f"@{name}(": f"@{own}("}
            filled[own] = _filled(text, words)
    return filled


def _filled(text: str, words: Mapping[str, str]) -> str:
    return re.sub("|".join(map(re.escape, words)), lambda match: words[match[0]], text)


def rows(folder: Path = FOLDER) -> Iterator[Row]:
    """Every op with every type that its sections accept."""
    for section in sections(folder).values():
        for op in section.ops:
            for type_ in section.types:
                yield Row(section, op, type_, instantiate(section, op, type_))


def specified(path: Path = FOLDER / "specification.txt") -> dict[str, frozenset[str]]:
    """Every op of the specification, and the classes of types that it takes."""
    found: dict[str, frozenset[str]] = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            types, _, ops = line.partition(": ")
            classes = frozenset(CLASS_OF[type_] for type_ in types_of(types))
            found |= dict.fromkeys((f"stablehlo.{op}" for op in ops.split()), classes)
    return found


def verifies(functions: dict[str, str], context: ir.Context) -> bool:
    """Whether StableHLO's verifier accepts functions."""
    with context:
        try:
            return ir.Module.parse("\n".join(functions.values())).operation.verify()
        except (ir.MLIRError, ValueError):
            return False
