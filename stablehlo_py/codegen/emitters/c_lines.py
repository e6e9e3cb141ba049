"""The lines of a C function under construction, and what is known at its end only: which variables nothing reads, and
what type the memory behind a pointer has.

A value of several lanes is the list of its lanes: its name is theirs, between bars."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.codegen.values import BF16, F16, F32, F64, I1, PTR, ScalarType, Value

LANES = "|"  # between the names of lanes
POINTER = "char *"
_NAME = re.compile(r"\b[a-z]\d+\b")  # of variables; parameters are longer
_NUMBER = re.compile(r"-?\d+")
_RAW = re.compile("«(\\w+)»")
_ACCESS = "\0"  # stands where a line reads or writes memory


def sum_of(terms: Sequence[str]) -> str:
    """The sum of variables and numbers."""
    known = sum(int(term) for term in terms if _NUMBER.fullmatch(term))
    unknown = [term for term in terms if not _NUMBER.fullmatch(term)]
    return " + ".join([*unknown, str(known)] if known or not unknown else unknown).replace("+ -", "- ")


@dataclass(frozen=True)
class Access:
    """Elements of a type behind a pointer: `root[terms]`, at addresses that are multiples of their size or not."""

    root: str
    element: str
    terms: tuple[str, ...] = ()
    is_aligned: bool = True
    is_store: bool = False

    @property
    def index(self) -> str:
        """The number of the element."""
        return sum_of(self.terms)


class Line(str):
    """A line of code.

    Attributes:
        defines: the variable that it declares or assigns; it may be left out where nothing reads that.
        access: the memory that it reads or writes.
        declares: of a pointer that is computed: its expression, as bytes.
        array: of an array: the type of its elements.
        lanes: of a line that is done for each lane `l`, how many there are; else 0.
    """

    defines: str = ""
    access: Access | None = None
    declares: str = ""
    array: str = ""
    lanes: int = 0

    @classmethod
    def of(
        cls,
        text: str,
        defines: str = "",
        access: Access | None = None,
        declares: str = "",
        array: str = "",
        lanes: int = 0,
    ) -> Line:
        """A line with its attributes."""
        made = cls(text)
        made.defines, made.access, made.declares, made.array = defines, access, declares, array
        made.lanes = lanes
        return made

    @property
    def names(self) -> list[str]:
        """The variables that it reads."""
        text = f"{self} {self.declares}"
        if self.access:
            text += f" {self.access.root} {self.access.index}"
        return [name for name in _NAME.findall(text) if name != self.defines]


def lanes_of(a: Value) -> list[str]:
    """The names of a value's lanes."""
    return a.ref.split(LANES)


def raw(name: str) -> str:
    """A pointer as the address of bytes."""
    return f"«{name}»" if re.fullmatch(r"\w+", name) else name


def c_type(element: ScalarType) -> str:
    """The type of a variable. Integers have no sign, so that arithmetic wraps; but those of 64 bits, which are indices,
    have one."""
    if element.text == PTR.text:
        return POINTER
    if element is I1 or element.text == I1.text:
        return "_Bool"
    if element.is_float and element.bits > 16:
        return "float" if element.bits == 32 else "double"
    return "int64_t" if element.bits == 64 else f"uint{max(8, element.bits)}_t"


def literal(number: int, element: ScalarType) -> str:
    """A constant: floats by their bits, integers signed."""
    bits = element.bits
    if element.text == F32.text:
        return _float(np.uint32(number).view(np.float32), f"shlo_f32(0x{number:08x}u)", "f")
    if element.text == F64.text:
        return _float(np.uint64(number).view(np.float64), f"shlo_f64(INT64_C({number - (number >> 63 << 64)}))", "")
    if element.text in (F16.text, BF16.text):
        return f"0x{number:04x}"
    if bits == 64:
        if number == -(1 << 63):
            return "INT64_MIN"
        return str(number) if abs(number) < 1 << 31 else f"INT64_C({number})"
    number &= (1 << bits) - 1
    if bits == 32:
        return f"{number}u" if number < 1 << 12 else f"0x{number:x}u"
    return str(number)


def _float(number: np.floating, by_bits: str, suffix: str) -> str:
    if np.isnan(number):
        return by_bits
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = repr(number.item()) if suffix == "" else str(number)
    return f"{text if '.' in text or 'e' in text else f'{text}.0'}{suffix}"


def live(lines: Iterable[str]) -> list[Line]:
    """Without the definitions of what nothing reads."""
    kept = [line if isinstance(line, Line) else Line(line) for line in lines]
    reads: Counter[str] = Counter()
    by_name: defaultdict[str, list[Line]] = defaultdict(list)
    for line in kept:
        reads.update(line.names)
        if line.defines:
            by_name[line.defines].append(line)
    dropped: set[int] = set()
    dead = [name for name in by_name if not reads[name]]
    while dead:
        for line in by_name.pop(dead.pop(), ()):
            dropped.add(id(line))
            for name in line.names:
                reads[name] -= 1
                if not reads[name] and name in by_name:
                    dead.append(name)
    return [line for line in kept if id(line) not in dropped]


class Memory:
    """What the pointers of a function point to, from all accesses to it. Where those have one type, the pointer has
    it; else elements are copied out of bytes."""

    def __init__(self, parameters: Iterable[str], lines: Sequence[Line]) -> None:
        types: defaultdict[str, set[str]] = defaultdict(set)
        declared = {*parameters, *(line.defines for line in lines if line.declares)}
        self.stored: set[str] = set()
        for line in lines:
            if line.access:
                types[line.access.root].add(line.access.element if line.access.is_aligned else "")
                if line.access.is_store:
                    self.stored.add(line.access.root)
        self._uniform = {
            root: next(iter(found)) for root, found in types.items() if len(found) == 1 and "" not in found
        }
        # Arrays keep the type that they are declared with.
        self._arrays = {line.defines: line.array for line in lines if line.array and not line.lanes}
        self._uniform = {root: found for root, found in self._uniform.items() if self._arrays.get(root, found) == found}
        self._typed = {root: found for root, found in self._uniform.items() if root in declared} | self._arrays

    def pointee(self, pointer: str) -> str:
        """The type that a pointer is declared with."""
        return self._typed.get(pointer, "char")

    def render(self, line: Line) -> str:
        """A line as C."""
        text = str(line)
        if line.declares:
            type_ = self.pointee(line.defines)
            value = line.declares if type_ == "char" else f"({type_} *)({line.declares})"
            text = f"{type_} *const {line.defines} = {value};".replace("* *", "**")
        if line.access:
            text = self._accessed(text, line.access)
        return _RAW.sub(self._raw, text)

    def _raw(self, match: re.Match[str]) -> str:
        name = match[1]
        return name if self.pointee(name) == "char" else f"(char *){name}"

    def _accessed(self, text: str, access: Access) -> str:
        if access.root in self._uniform:
            root = access.root if access.root in self._typed else f"(({access.element} *)({access.root}))"
            return text.replace(_ACCESS, f"{root}[{access.index}]")
        name = {"char *": "pointer", "uint8_t": "u8", "float": "f32", "double": "f64"}.get(access.element)
        name = name or access.element.removesuffix("_t").replace("uint", "u").replace("int", "i")
        size = "(int64_t)sizeof(char *)" if name == "pointer" else str(int(name[1:]) // 8)
        root = f"(char *){access.root}" if access.root in self._arrays else access.root
        address = root if not access.terms else f"{root} + {size} * ({access.index})"
        if access.is_store:
            left, _, value = text.partition(" = ")
            return left.replace(_ACCESS, f"shlo_store_{name}({address}, {value.removesuffix(';')});")
        return text.replace(_ACCESS, f"shlo_load_{name}({address})")


def renumbered(lines: Iterable[str]) -> list[str]:
    """Variables numbered as they come, each letter by itself."""
    numbers: Counter[str] = Counter()
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        if name not in names:
            numbers[name[0]] += 1
            names[name] = f"{name[0]}{numbers[name[0]]}"
        return names[name]

    return [_NAME.sub(renamed, line) for line in lines]


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Lines moved to the right by the blocks that they are in."""
    result = []
    for line in lines:
        depth -= line.startswith("}")
        result.append(f"{'  ' * depth}{line}")
        depth += line.endswith("{")
    return result


def parameters_read(names: Mapping[str, Value], lines: Sequence[str]) -> set[str]:
    """Those parameters that the lines name."""
    words = set(re.findall(r"\b[A-Za-z_]\w*", "\n".join(lines)))
    return {name for name in names if name in words}
