"""Cases of the forms: valid programs of every op, in MLIR's generic form, of which one to three things are changed.

A program is a function of the per-op cases (stablehlo_py/conformance) with one of its types, one of `extremes/`, or a
module of `forms/`:
composites and calls of targets that are known. Everything follows from a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

from extreme_cases import FOLDER as DYNAMIC
from extreme_cases import PREFERRED
from form_words import ATTRIBUTES, BESIDE, ELEMENTS, ENCODINGS, NO_TENSORS, NUMBERS, ODD, OF_ARGUMENTS, OF_MODULES

from stablehlo_py.backends.cpu.kernels.custom_call import known_targets
from stablehlo_py.conformance.cases import Section, instantiate, sections
from stablehlo_py.dialect.context import make_context
from stablehlo_py.legalize.composite import known_composites
from stablehlo_py.legalize.custom_call import legalized_targets
from stablehlo_py.mlir import ir

VERSION = 1  # of the changes: a number means another program to another version
FOLDER = Path(__file__).with_name("forms")

_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*|\*x?)(.*?)(, (?:#stablehlo\.|\d).*)?>", re.DOTALL)
_LITERAL = re.compile(r"dense<([^\"<>]*)>(?= : tensor<)")
_NUMBER = re.compile(r"(?<![\w.#%\"])-?\d+\b(?!\.)")
_COMPLEX_LITERAL = re.compile(r"\(([^,()]*),[^()]*\)")
_WORD = re.compile(r"-?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\binf\b)|true|false")


@dataclass
class Op:
    """An operation; values are numbers."""

    name: str
    operands: list[int]
    results: list[int]
    attributes: dict[str, str]
    regions: list[list[Block]]


@dataclass
class Block:
    """A block of a region."""

    arguments: list[int]
    ops: list[Op]


@dataclass
class Form:
    """A module; `types` are those of its values."""

    ops: list[Op]
    types: dict[int, str]
    attributes: dict[str, str]
    in_properties: bool = False  # whether attributes are printed as `<{}>`, which inherent ones should
    of_arguments: dict[int, str] = field(default_factory=dict)

    def blocks(self) -> Iterator[Block]:
        """All blocks, outer ones first."""
        pending = list(self.ops)
        for op in pending:
            for region in op.regions:
                for block in region:
                    yield block
                    pending += block.ops

    @property
    def inner(self) -> list[Op]:
        """All ops but functions."""
        return [op for block in self.blocks() for op in block.ops]

    def value(self, type_: str) -> int:
        """A new value."""
        number = len(self.types)
        self.types[number] = type_
        return number

    def text(self) -> str:
        """The module in generic form."""
        body = "".join(self._op(op) for op in self.ops)
        return f'"builtin.module"() ({{\n{body}}}) {_dictionary(self.attributes)}: () -> ()\n'

    def _types(self, values: Sequence[int]) -> str:
        return f"({', '.join(self.types[value] for value in values)})"

    def _op(self, op: Op) -> str:
        attributes = dict(op.attributes)
        if op.name == "func.func":
            arguments = [each for block in op.regions[0][:1] for each in block.arguments]
            returned = [each for block in op.regions[0][:1] for last in block.ops[-1:] for each in last.operands]
            attributes["function_type"] = f"{self._types(arguments)} -> {self._types(returned)}"
            if any(each in self.of_arguments for each in arguments):
                attributes["arg_attrs"] = f"[{', '.join(self.of_arguments.get(each, '{}') for each in arguments)}]"
        results = ", ".join(f"%{value}" for value in op.results)
        text = f'{results}{" = " if results else ""}"{op.name}"({", ".join(f"%{each}" for each in op.operands)})'
        inside = _dictionary(attributes)
        if self.in_properties and inside:
            text, inside = f"{text} <{inside.strip()}> ", ""
        regions = ", ".join(self._region(region) for region in op.regions)
        types = f"{self._types(op.operands)} -> {self._types(op.results)}"
        return f"{text}{f' ({regions})' if regions else ''} {inside}: {types}\n"

    def _region(self, region: list[Block]) -> str:
        blocks = []
        for number, block in enumerate(region):
            arguments = ", ".join(f"%{each}: {self.types[each]}" for each in block.arguments)
            blocks.append(f"^bb{number}({arguments}):\n" + "".join(map(self._op, block.ops)))
        return f"{{\n{''.join(blocks)}}}"


def _dictionary(attributes: dict[str, str]) -> str:
    entries = (name if text == "unit" else f"{name} = {text}" for name, text in attributes.items())
    return f"{{{', '.join(entries)}}} " if attributes else ""


# --- valid programs ---------------------------------------------------------------------------------------------------


@cache
def _context() -> ir.Context:
    context = make_context()
    context.allow_unregistered_dialects = True
    return context


def form_of(text: str, replicas: int = 1) -> Form:
    """A module as it can be changed. Raises ir.MLIRError for text that is no module."""
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        form = Form([], {}, {})
        if replicas > 1:
            form.attributes["mhlo.num_replicas"] = f"{replicas} : i32"
        numbers: dict[ir.Value, int] = {}

        def known(value: ir.Value) -> int:
            if value not in numbers:
                numbers[value] = form.value(str(value.type))
            return numbers[value]

        def taken(op: ir.OpView) -> Op:
            operation = op.operation
            attributes = {name: _attribute_text(operation, name) for name in operation.attributes}
            if operation.name == "func.func":
                attributes.pop("arg_attrs", None)
                attributes.pop("res_attrs", None)
            operands, results = list(map(known, operation.operands)), list(map(known, operation.results))
            regions = [
                [Block(list(map(known, block.arguments)), list(map(taken, block.operations))) for block in region]
                for region in operation.regions
            ]
            return Op(operation.name, operands, results, attributes, regions)

        form.ops = [taken(op) for op in module.body.operations]
    return form


def _attribute_text(operation: ir.Operation, name: str) -> str:
    try:
        return str(operation.attributes[name])
    except TypeError:  # the bindings have no class for complex elements
        text = operation.get_asm(print_generic_op_form=True)
        return re.search(rf"\b{name} = (dense<[^<>]*> : tensor<[\dx]*complex<\w+>>)", text)[1]  # type: ignore[index]


@cache
def programs() -> dict[str, list[Callable[[Random], Form]]]:
    """Makers of valid programs, by what they are about."""
    found: dict[str, list[Callable[[Random], Form]]] = {}
    for section in sections().values():
        for op in section.ops:
            found.setdefault(op, []).append(lambda random, section=section, op=op: _of_section(section, op, random))
    dynamic = re.split(r"^// call: .*\n", (DYNAMIC / "dynamic.mlir").read_text(), flags=re.MULTILINE)[1:]
    for text in dynamic:
        name = re.search(r"@(\w+)\(", text)[1]  # type: ignore[index]
        found[f"dynamic {name}"] = [
            lambda random, text=text, name=name: form_of(text.replace(f"@{name}(", "@main(", 1))
        ]
    for path in sorted(FOLDER.glob("*.mlir")):
        for number, text in enumerate(path.read_text().split("// -----\n")):
            found[f"{path.stem} {number}"] = [lambda random, text=text: form_of(text)]
    return found


def _of_section(section: Section, op: str, random: Random) -> Form:
    preferred = [each for each in PREFERRED if each in section.types]
    type_ = random.choice(preferred if preferred and random.random() < 0.5 else section.types)
    functions = instantiate(section, op, type_)
    name = random.choice(sorted(functions))
    return form_of(functions[name].replace(f"@{name}(", "@main(", 1), section.replicas)


def seed(random: Random) -> Form:
    """A valid program; every op is as likely as any other."""
    makers = programs()
    return random.choice(makers[random.choice(sorted(makers))])(random)


class Forms:
    """The changed programs, as `HostileFuzzer` asks for them."""

    modules: tuple[str, ...] = ()

    def damaged(self, kind: str, number: int) -> bytes:
        """The program of a number."""
        random = Random(f"{kind} {number}")
        form = seed(random)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3))):
            random.choice(_CHANGES)(form, random)
        if random.random() < 0.1:
            form.in_properties = True
        return form.text().encode(errors="replace")


# --- types ------------------------------------------------------------------------------------------------------------


def _element(random: Random) -> str:
    return random.choice(ELEMENTS if random.random() < 0.8 else ODD)


def _elements(form: Form) -> list[str]:
    """Element types of the tensors, as often as they occur."""
    return [match[2] for each in form.types.values() if (match := _TENSOR.fullmatch(each))]


def change_element_everywhere(form: Form, random: Random) -> None:
    """One element type for another: in values, in constants, in attributes."""
    found = _elements(form)
    if not found:
        return
    old, new = random.choice(found), _element(random)
    ends = re.compile(rf"(tensor<(?:(?:\d+|\?)x)*|tensor<\*x){re.escape(old)}(?=[,>])")
    form.types = {number: ends.sub(rf"\g<1>{new}", each) for number, each in form.types.items()}
    scalar = re.compile(rf"(\S+) : {re.escape(old)}")
    for op in form.inner:
        for name, text in op.attributes.items():
            if ends.search(text):
                op.attributes[name] = ends.sub(
                    rf"\g<1>{new}", _LITERAL.sub(lambda match: literals(match[0], new), text)
                )
            elif match := scalar.fullmatch(text):
                op.attributes[name] = f"{literals(match[1], new)} : {new}"


def literals(text: str, element: str) -> str:
    """The numbers in a text as literals of an element type, or of what it stores."""
    text = _COMPLEX_LITERAL.sub(r"\1", text)
    if element.startswith("complex"):
        part = element[8:-1]
        return _WORD.sub(lambda match: f"({literals(match[0], part)}, {literals('0', part)})", text)
    integer = re.match(r"[su]?i\d|index|!quant", element)

    def literal(match: re.Match[str]) -> str:
        word = match[0]
        if element == "i1":
            return "true" if word in ("true", "1", "1.0") else "false"
        number = {"true": 1.0, "false": 0.0}.get(word)
        number = float(word) if number is None else number
        if integer:
            return str(int(number)) if abs(number) < 2**70 else "0"
        return f"{number:e}" if abs(number) < 1e300 else "0.0"

    return _WORD.sub(literal, text)


def _element_of_one(form: Form, random: Random) -> None:
    _one_type(form, random, lambda sizes, element, encoding: f"tensor<{sizes}{_element(random)}{encoding}>")


def _one_type(form: Form, random: Random, change: Callable[[str, str, str], str]) -> None:
    """Another type for one tensor: `change` takes its sizes, as `3x?x`, its element type and its encoding."""
    tensors = [number for number, each in form.types.items() if _TENSOR.fullmatch(each)]
    if tensors:
        number = random.choice(tensors)
        form.types[number] = change(*_parts(form.types[number]))


def _parts(type_: str) -> tuple[str, str, str]:
    match = _TENSOR.fullmatch(type_)
    assert match is not None
    return match[1], match[2], match[3] or ""


def _shape(sizes: str, random: Random) -> tuple[str, str]:
    """Other sizes, and an encoding or nothing."""
    kind, parts = random.randrange(7), sizes.split("x")[:-1]
    if kind == 0 or sizes.startswith("*"):
        return "*x", ""
    if kind == 1:
        parts.insert(random.randrange(len(parts) + 1), random.choice(("1", "2", "3", "0", "?")))
    elif kind == 2 and parts:
        del parts[random.randrange(len(parts))]
    elif kind == 3:
        parts = ["?"] * len(parts)
    elif kind == 4:
        dimension = random.randrange(len(parts) + 1)
        bounds = [
            str(random.choice((3, 5, 16))) if each == "?" or dimension == number else "?"
            for number, each in enumerate(parts)
        ]
        parts = [each if bound == "?" else "?" for each, bound in zip(parts, bounds, strict=True)]
        encoding = f"#stablehlo.bounds<{', '.join(bounds)}>" if random.random() < 0.7 else random.choice(ENCODINGS)
        return "".join(each + "x" for each in parts), f", {encoding}"
    elif parts:
        parts[random.randrange(len(parts))] = random.choice(("0", "1", "2", "7", "?", "?", str(2**31), str(2**62)))
    return "".join(each + "x" for each in parts), ""


def _shape_of_one(form: Form, random: Random) -> None:
    def change(sizes: str, element: str, encoding: str) -> str:
        shape, other = _shape(sizes, random)
        return f"tensor<{shape}{element}{other or encoding}>"

    _one_type(form, random, change)


def _shape_everywhere(form: Form, random: Random) -> None:
    """One shape for another, in all values that have it."""
    shapes = [_parts(each)[0] for each in form.types.values() if _TENSOR.fullmatch(each)]
    if shapes:
        old = random.choice(shapes)
        new, encoding = _shape(old, random)
        for number, each in form.types.items():
            if _TENSOR.fullmatch(each) and _parts(each)[0] == old:
                form.types[number] = f"tensor<{new}{_parts(each)[1]}{encoding}>"


def _size_everywhere(form: Form, random: Random) -> None:
    """One size for another, wherever it stands in types."""
    sizes = [
        size for each in form.types.values() if _TENSOR.fullmatch(each) for size in _parts(each)[0].split("x")[:-1]
    ]
    if sizes:
        old, new = random.choice(sizes), random.choice(("?", "?", "?", "0", "1", "2", "7", "64"))
        for number, each in form.types.items():
            if _TENSOR.fullmatch(each):
                parts = _parts(each)
                renamed = "".join((new if size == old else size) + "x" for size in parts[0].split("x")[:-1])
                form.types[number] = f"tensor<{renamed}{parts[1]}{parts[2]}>" if parts[0][:1] != "*" else each


def _no_tensor(form: Form, random: Random) -> None:
    """A value that is no tensor, or all of a type."""
    number = random.choice(sorted(form.types))
    old, new = form.types[number], random.choice(NO_TENSORS)
    everywhere = random.random() < 0.5
    form.types = {
        key: new if key == number or (everywhere and each == old) else each for key, each in form.types.items()
    }


# --- attributes -------------------------------------------------------------------------------------------------------


def _op_with(form: Form, random: Random, fits: Callable[[Op], object]) -> Op | None:
    found = [op for op in form.inner if fits(op)]
    return random.choice(found) if found else None


def _attribute(form: Form, random: Random) -> None:
    """One attribute of an op: gone, of another kind, or of another value."""
    op = _op_with(form, random, lambda op: op.attributes)
    if op is None:
        return
    name = random.choice(sorted(op.attributes))
    kind = random.randrange(8)
    if kind == 0:
        del op.attributes[name]
    elif kind == 1:
        op.attributes[name] = random.choice(ATTRIBUTES)
    elif kind == 2:
        others = [each.attributes for each in seed(random).inner if each.attributes]
        pool = [text for each in others for key, text in each.items() if key == name] or [
            text for each in others for text in each.values()
        ]
        op.attributes[name] = random.choice(pool or ATTRIBUTES)
    elif kind in (3, 4):
        op.attributes[name] = _length(op.attributes[name], random)
    else:
        op.attributes[name] = _number(op.attributes[name], random)


def _number(text: str, random: Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return {"true": "false", "false": "true"}.get(text, text)
    chosen = random.choice(found)
    return text[: chosen.start()] + random.choice(NUMBERS) + text[chosen.end() :]


_LISTS = re.compile(r"array<i\d+(?:: ([^<>]*))?>|\[([^\[\]]*)\]")


def _length(text: str, random: Random) -> str:
    """One element of a list more or less, or two in another order."""
    found = list(_LISTS.finditer(text))
    if not found:
        return _number(text, random)
    chosen = random.choice(found)
    inside = chosen[1] if chosen[1] is not None else chosen[2] or ""
    elements = [each for each in inside.split(", ") if each]
    kind = random.randrange(3)
    if kind == 0 and elements:
        del elements[random.randrange(len(elements))]
    elif kind == 1 and len(elements) > 1:
        random.shuffle(elements)
    else:
        elements.insert(random.randrange(len(elements) + 1), random.choice(elements or ["0"]))
    made = ", ".join(elements)
    if chosen[0].startswith("array"):
        width = re.match(r"array<(i\d+)", chosen[0])[1]  # type: ignore[index]
        made = f"array<{width}{': ' if made else ''}{made}>"
    else:
        made = f"[{made}]"
    return text[: chosen.start()] + made + text[chosen.end() :]


def _more_attributes(form: Form, random: Random) -> None:
    """An attribute that the op does not have, nor should; of an argument or of the module, too."""
    kind = random.randrange(4)
    text = random.choice((*ATTRIBUTES, *(f"{number} : i32" for number in NUMBERS)))
    arguments = [each for op in form.ops for region in op.regions for block in region for each in block.arguments]
    if kind == 0:
        form.attributes[random.choice(OF_MODULES)] = text
    elif kind == 1 and arguments:
        form.of_arguments[random.choice(arguments)] = f"{{{random.choice(OF_ARGUMENTS)} = {text}}}"
    elif op := _op_with(form, random, lambda op: True):
        others = seed(random).inner
        taken = random.choice(others).attributes if others and kind == 2 else {}
        name = random.choice(sorted(taken) or BESIDE)
        op.attributes[name] = taken.get(name, text)


def _known_name(form: Form, random: Random) -> None:
    """Another target of a call that is known, or another composite; else a call of a target, for another op."""
    calls = _op_with(form, random, lambda op: op.name in ("stablehlo.custom_call", "stablehlo.composite"))
    op = calls or _op_with(form, random, lambda op: op.name not in _TERMINATORS and not op.regions)
    if op is None:
        return
    if op.name == "stablehlo.composite":
        op.attributes["name"] = f'"{random.choice(sorted(known_composites()))}"'
        return
    if op.name != "stablehlo.custom_call":
        op.name = "stablehlo.custom_call"
    op.attributes["call_target_name"] = f'"{random.choice(sorted(known_targets() | legalized_targets()))}"'


# --- operands, results, regions, names --------------------------------------------------------------------------------

_TERMINATORS = ("func.return", "stablehlo.return")


def _operands(form: Form, random: Random) -> None:
    """One operand gone, twice there, of another value, or swapped with another."""
    op = _op_with(form, random, lambda op: op.operands)
    if op is None:
        return
    place, kind = random.randrange(len(op.operands)), random.randrange(5)
    if kind == 0:
        del op.operands[place]
    elif kind == 1:
        op.operands.insert(place, random.choice(op.operands))
    elif kind == 2:
        random.shuffle(op.operands)
    elif kind == 3:
        same = [value for value, type_ in form.types.items() if type_ == form.types[op.operands[place]]]
        op.operands[place] = random.choice(same)
    else:
        op.operands[place] = random.choice(sorted(form.types))


def _results(form: Form, random: Random) -> None:
    """One result more, or less: its uses have another value."""
    op = _op_with(form, random, lambda op: op.name not in _TERMINATORS)
    if op is None:
        return
    if not op.results or random.random() < 0.4:
        type_ = random.choice([form.types[each] for each in (*op.results, *op.operands)] or ["tensor<f32>"])
        op.results.insert(random.randrange(len(op.results) + 1), form.value(type_))
        return
    gone = op.results.pop(random.randrange(len(op.results)))
    for user in form.inner:
        others = op.results or op.operands or [gone]
        user.operands = [random.choice(others) if each == gone else each for each in user.operands]


def _regions(form: Form, random: Random) -> None:
    """A region's arguments, its ops, or how many regions there are."""
    op = _op_with(form, random, lambda op: op.regions)
    kind = random.randrange(6)
    if op is None or kind == 0:
        other = _op_with(form, random, lambda op: op.name not in _TERMINATORS and not op.regions)
        if other is not None and op is None:
            other.regions.append([Block([], [Op("stablehlo.return", list(other.operands), [], {}, [])])])
        return
    region = random.choice(op.regions)
    if kind == 1:
        op.regions.remove(region)
    elif kind == 2:
        region.clear()
    elif region and kind == 3:
        region[0].arguments.insert(0, form.value(random.choice(list(form.types.values()))))
    elif region and kind == 4 and region[0].arguments:
        region[0].arguments.pop(random.randrange(len(region[0].arguments)))
    elif region and region[0].ops:
        if random.random() < 0.5:
            region[0].ops.pop(random.randrange(len(region[0].ops)))
        else:
            last = region[0].ops[-1]
            last.operands.insert(0, random.choice(sorted(form.types)))


def _other_op(form: Form, random: Random) -> None:
    """Another op with as many operands, and its attributes or the old ones."""
    op = _op_with(form, random, lambda op: op.name not in _TERMINATORS)
    if op is None:
        return
    for _ in range(20):
        others = [
            each
            for each in seed(random).inner
            if len(each.operands) == len(op.operands)
            and len(each.regions) == len(op.regions)
            and each.name not in (*_TERMINATORS, op.name)
        ]
        if others:
            other = random.choice(others)
            op.name = other.name
            op.attributes = dict(other.attributes) if random.random() < 0.8 else op.attributes
            return


def _returned(form: Form, random: Random) -> None:
    """A function that returns more or less, or another value."""
    last = _op_with(form, random, lambda op: op.name in _TERMINATORS)
    if last is None:
        return
    kind = random.randrange(4)
    if kind == 0:
        last.name = random.choice(_TERMINATORS)
    elif kind == 1:
        last.operands.append(random.choice(sorted(form.types)))
    elif kind == 2 and last.operands:
        last.operands.append(random.choice(last.operands))
    elif last.operands:
        last.operands.pop()


_CHANGES: tuple[Callable[[Form, Random], None], ...] = (
    *[change_element_everywhere] * 5,
    *[_element_of_one] * 2,
    *[_shape_of_one] * 2,
    *[_shape_everywhere] * 3,
    *[_size_everywhere] * 3,
    _no_tensor,
    *[_attribute] * 5,
    *[_more_attributes] * 2,
    _known_name,
    *[_operands] * 2,
    _results,
    _regions,
    *[_other_op] * 3,
    _returned,
)
