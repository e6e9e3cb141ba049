"""Arithmetic of the kernel language as expressions of C99, lane by lane.

Signed overflow, shifts by the whole width and conversions that do not fit are undefined in C: integers are added as
unsigned ones, shifts use the low bits of how far, and conversions take the nearest number that fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.c_lines import LANES, Access, Line, c_type, lanes_of, literal, raw
from stablehlo_py.codegen.values import F16, F32, F64, I1, I64, PTR, ScalarType, Type, Value, VectorType

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<", "lshr": ">>"}
_SYMBOLS |= {"udiv": "/", "urem": "%", "sdiv": "/", "srem": "%", "ashr": ">>"}
_FLOATS = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<="}
_UNORDERED = {"ugt": "<=", "uge": "<", "ult": ">=", "ule": ">"}  # the ordered comparison that is its contrary
_INTEGERS = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_MATH = {"sqrt": "sqrt", "fabs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "roundeven": "rint"}
_MATH |= {"rint": "rint", "round": "round", "copysign": "copysign", "fma": "fma", "maxnum": "fmax", "minnum": "fmin"}
FEW = 2  # lanes that are variables of their own; more are an array
_SIGNED = frozenset(("sdiv", "srem", "ashr"))


def is_narrow(element: ScalarType) -> bool:
    """Whether a byte holds it, with bits to spare."""
    return not element.is_float and 1 < element.bits < 8


def with_sign(name: str, element: ScalarType) -> str:
    """An integer of an unsigned variable as a signed one."""
    if is_narrow(element):
        free = 8 - element.bits
        return f"((int8_t)({name} << {free}) >> {free})"
    return name if element.bits == 64 else f"-(int){name}" if element is I1 else f"(int{element.bits}_t){name}"


class CArithmetic(Emitter):
    """What computes."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._names = 0
        self._vectors: dict[str, int] = {}  # arrays that hold lanes: how many
        self._ramps: dict[str, tuple[int, int]] = {}  # expressions of the lane's number: the first, and the step
        self._inserted: dict[str, tuple[int, str]] = {}  # vectors of one lane that is known

    def _new(self, letter: str = "v") -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _define(self, expression: str, element: ScalarType, access: Access | None = None) -> str:
        """A variable with the value of an expression."""
        name = self._new()
        if element.text == PTR.text:
            self.lines.append(Line.of("", name, access, declares=expression))
        else:
            self.lines.append(Line.of(f"const {c_type(element)} {name} = {expression};", name, access))
        return name

    def _lanes(self, write: Callable[..., str], result: Type, *operands: Value) -> str:
        """One expression a lane; scalars are the same for all."""
        if result.lanes > FEW:
            return self._vector(write(*map(self._lane, operands)), result)
        listed = [self._few(operand) for operand in operands]
        listed = [each * result.lanes if len(each) == 1 else each for each in listed]
        return LANES.join(self._define(write(*lane), result.element) for lane in zip(*listed, strict=True))

    # --- vectors: arrays, and loops over their lanes -----------------------------------------------------------------

    def _lane(self, a: Value) -> str:
        """Lane `l` of a value; scalars are the same in all."""
        return f"{a.ref}[l]" if a.ref in self._vectors else a.ref

    def _few(self, a: Value) -> list[str]:
        """The lanes of a value by their names."""
        return lanes_of(a) if a.ref not in self._vectors else [self._at(a, lane) for lane in range(a.type.lanes)]

    def _at(self, a: Value, lane: int) -> str:
        """A lane as a scalar."""
        if a.ref in self._ramps:
            first, step = self._ramps[a.ref]
            return literal(first + step * lane, a.type.element)
        if a.ref in self._vectors:
            return self._define(f"{a.ref}[{lane}]", a.type.element)
        lanes = lanes_of(a)
        return lanes[lane] if len(lanes) > 1 else lanes[0]

    def _vector(self, expression: str, type_: Type, access: Access | None = None) -> str:
        """An array with the values of an expression of `l`."""
        name = self._new("w")
        self._vectors[name] = type_.lanes
        text = f"{name}[l] = {expression};"
        self.lines.append(Line.of(text, name, access, array=c_type(type_.element), lanes=type_.lanes))
        return name

    # --- constants ---------------------------------------------------------------------------------------------------

    def constant(self, number: int, type_: Type) -> str:
        if type_.lanes > FEW:
            return literal(number, type_.element)
        return LANES.join([literal(number, type_.element)] * type_.lanes)

    def constant_lanes(self, numbers: Sequence[int], type_: VectorType) -> str:
        listed = [literal(number, type_.element) for number in numbers]
        if len(listed) <= FEW:
            return LANES.join(listed)
        first, step = numbers[0], numbers[1] - numbers[0]
        if type_.text.endswith("i64>") and list(numbers) == [first + step * lane for lane in range(len(numbers))]:
            ramp = f"({first} + l * (int64_t){step})"
            self._ramps[ramp] = first, step
            return ramp
        name = self._new("w")
        self._vectors[name] = len(listed)
        text = f"static const {c_type(type_.element)} {name}[{len(listed)}] = {{{', '.join(listed)}}};"
        self.entry.append(Line.of(text, name))
        return name

    def poison(self, type_: Type) -> str:
        return self.null(type_.element) if type_.text == PTR.text else self.constant(0, type_)

    def null(self, type_: ScalarType) -> str:
        return "(char *)0"

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Value, b: Value, *, no_wrap: bool = False) -> str:
        element = a.type.element
        if element.is_float:
            return self._lanes(lambda x, y: self._float(name, x, y, element), a.type, a, b)
        plain = no_wrap or (name in ("udiv", "urem") and a.bounds is not None and a.bounds[0] >= 0)
        return self._lanes(lambda x, y: self._integer(name, x, y, element, plain), a.type, a, b)

    def _float(self, name: str, x: str, y: str, element: ScalarType) -> str:
        if name == "frem":
            return f"{self._function('fmod', element)}({x}, {y})"
        return f"{x} {_FLOATS[name]} {y}"

    def _integer(self, name: str, x: str, y: str, element: ScalarType, plain: bool) -> str:
        symbol, bits = _SYMBOLS[name], element.bits
        if name == "add" and re.fullmatch(r"-\d+", y) and bits == 64:
            name, symbol, y = "sub", "-", y[1:]
        if element is I1:
            return f"{x} {({'add': '^', 'sub': '^', 'mul': '&'}).get(name, symbol)} {y}"
        if name in ("shl", "lshr", "ashr"):
            y = self._distance(y, bits)
        if bits == 64:
            if plain or name in ("and", "or", "xor", "sdiv", "srem", "ashr"):
                return f"{x} {symbol} {y}"
            right = y if name in ("shl", "lshr") else f"(uint64_t){y}"
            return f"(int64_t)((uint64_t){x} {symbol} {right})"
        if name in _SIGNED:
            right = y if name == "ashr" else with_sign(y, element)
            return self._cut(f"{with_sign(x, element)} {symbol} {right}", element)
        if bits == 32:
            return f"{x} {symbol} {y}"
        if name in ("mul", "shl"):
            x = f"(uint32_t){x}"
        return self._cut(f"{x} {symbol} {y}", element)

    @staticmethod
    def _distance(y: str, bits: int) -> str:
        digits = y.removesuffix("u")
        if digits.isdigit() and int(digits) < bits:
            return digits
        return f"({y} & {bits - 1})" if bits in (8, 16, 32, 64) else f"({y} & 7)"

    @staticmethod
    def _cut(expression: str, element: ScalarType) -> str:
        """An integer of at least as many bits as one of a type."""
        if is_narrow(element):
            return f"(uint8_t)(({expression}) & {(1 << element.bits) - 1})"
        return f"({c_type(element)})({expression})"

    def checked(self, name: str, a: Value, b: Value) -> tuple[str, str]:
        overflows = self._define(f"shlo_{name}_overflows({a.ref}, {b.ref})", I1)
        return self._define(self._integer(name[1:], a.ref, b.ref, I64, False), I64), overflows

    def fneg(self, a: Value) -> str:
        return self._lanes(lambda x: f"-({x})" if x.startswith("-") else f"-{x}", a.type, a)

    @staticmethod
    def _function(name: str, element: ScalarType) -> str:
        return f"{name}f" if element.text == F32.text else name

    def intrinsic(self, name: str, operands: Sequence[Value], result: Type) -> str:
        element = result.element
        if name in _MATH and element.text in (F32.text, F64.text):
            function = self._function(_MATH[name], element)
            return self._lanes(lambda *each: f"{function}({', '.join(each)})", result, *operands)
        if name in ("fmuladd", "maximum", "minimum") and element.text in (F32.text, F64.text):
            function = f"shlo_{name.removeprefix('f')}_{element.text}"
            return self._lanes(lambda *each: f"{function}({', '.join(each)})", result, *operands)
        if name in ("smax", "smin", "umax", "umin"):
            above = "gt" if name.endswith("max") else "lt"
            return self._lanes(
                lambda x, y: f"{self._compared(name[0] + above, x, y, element)} ? {x} : {y}", result, *operands
            )
        write = self._bit_function(name, element)
        return self._lanes(write, result, *operands)

    def _bit_function(self, name: str, element: ScalarType) -> Callable[..., str]:
        """The expression of an intrinsic on the bits of integers."""
        bits, type_ = element.bits, c_type(element)
        if name == "ctpop":
            unsigned = "(uint64_t)" if bits == 64 else ""
            return lambda x: f"({type_})shlo_popcount({unsigned}{x})"
        if name == "ctlz":
            return lambda x: f"({type_})shlo_leading_zeros((uint64_t){x}, {bits})"
        if name == "cttz":
            mask = f" & {(1 << bits) - 1:#x}" if bits < 64 else ""
            return lambda x: f"({type_})shlo_popcount((((uint64_t){x} & -(uint64_t){x}) - 1){mask})"
        if name == "bitreverse":
            return lambda x: f"({type_})shlo_reversed((uint64_t){x}, {bits})"
        if name in ("fshl", "fshr") and bits in (8, 16, 32, 64):
            left, right = ("<<", ">>") if name == "fshl" else (">>", "<<")
            first, second = (0, 1) if name == "fshl" else (1, 0)
            unsigned = f"(uint{bits}_t)"

            def shifted(*each: str) -> str:
                by = f"({each[2]} & {bits - 1})"
                one = f"{unsigned}{each[first]} {left} {by}"
                other = f"{unsigned}{each[second]} {right} 1 {right} ({bits - 1} - {by})"
                return f"({type_})({one} | {other})"

            return shifted
        if name == "abs":
            return lambda x: (
                f"{self._compared('slt', x, '0', element)} ? {self._integer('sub', '0', x, element, False)} : {x}"
            )
        if name == "expect":
            return lambda x, _: x
        raise self.lacks(f"intrinsic {name} of {element}")

    # --- comparison --------------------------------------------------------------------------------------------------

    def cmp(self, predicate: str, a: Value, b: Value) -> str:
        result = VectorType(a.type.lanes, I1) if a.type.lanes > 1 else I1
        return self._lanes(lambda x, y: self._compared(predicate, x, y, a.type.element), result, a, b)

    def _compared(self, predicate: str, x: str, y: str, element: ScalarType) -> str:
        if element.text == PTR.text:
            return f"{raw(x)} {_INTEGERS[predicate]} {raw(y)}"
        if element.is_float:
            return self._floats_compared(predicate, x, y)
        known = self._known_comparison(predicate, x, y, element)
        if known is not None:
            return known
        if predicate in ("eq", "ne"):
            return f"{x} {_INTEGERS[predicate]} {y}"
        symbol = _INTEGERS[predicate[1:]]
        if predicate[0] == "s":
            return f"{with_sign(x, element)} {symbol} {with_sign(y, element)}"
        return f"(uint64_t){x} {symbol} (uint64_t){y}" if element.bits == 64 else f"{x} {symbol} {y}"

    @staticmethod
    def _known_comparison(predicate: str, x: str, y: str, element: ScalarType) -> str | None:
        """0 or 1 where compilers warn that it is always the same."""
        if x == y:
            return str(int(predicate in ("eq", "sge", "sle", "uge", "ule")))
        if predicate in ("eq", "ne") or element.bits >= 64:
            lowest, highest = "0", ""
        elif predicate[0] == "u":
            lowest, highest = literal(0, element), literal(-1, element)
        else:
            middle = 1 << (max(element.bits, 1) - 1)
            lowest, highest = literal(-middle, element), literal(middle - 1, element)
        if predicate[0] == "s" and element.bits == 64:
            return None
        below, above = y == lowest or x == highest, y == highest or x == lowest
        if predicate[1:] in ("lt", "ge") and below:
            return str(int(predicate[1:] == "ge"))
        if predicate[1:] in ("gt", "le") and above:
            return str(int(predicate[1:] == "le"))
        return None

    @staticmethod
    def _floats_compared(predicate: str, x: str, y: str) -> str:
        if predicate in _ORDERED:
            return f"{x} {_ORDERED[predicate]} {y}"
        if predicate in _UNORDERED:
            return f"!({x} {_UNORDERED[predicate]} {y})"
        if predicate == "une":
            return f"{x} != {y}"
        if predicate in ("uno", "ord"):
            same, other = ("!=", "isunordered") if predicate == "uno" else ("==", "!isunordered")
            return f"{x} {same} {x}" if x == y else f"{other}({x}, {y})"
        return f"{'' if predicate == 'one' else '!'}({x} < {y} || {x} > {y})"

    def select(self, condition: Value, a: Value, b: Value) -> str:
        if a.type.text == PTR.text:
            return self._lanes(lambda c, x, y: f"{c} ? {raw(x)} : {raw(y)}", a.type, condition, a, b)
        return self._lanes(lambda c, x, y: f"{c} ? {x} : {y}", a.type, condition, a, b)

    # --- conversion --------------------------------------------------------------------------------------------------

    def cast(self, name: str, a: Value, to: Type) -> str:
        if name == "bitcast":
            return self.bitcast(a, to)
        source, element = a.type.element, to.element
        return self._lanes(lambda x: self._converted(name, x, source, element), to, a)

    def _converted(self, name: str, x: str, source: ScalarType, to: ScalarType) -> str:
        type_ = c_type(to)
        if name == "trunc":
            return f"(_Bool)({x} & 1)" if to is I1 else self._cut(x, to)
        if name == "zext":
            return f"({type_}){x}"
        if name == "sext":
            return self._cut(with_sign(x, source), to)
        if name in ("fptosi", "fptoui"):
            bits, sign = (64 if to.bits == 64 else 32), "i" if name == "fptosi" else "u"
            return self._cut(f"shlo_{source.text}_to_{sign}{bits}({x})", to)
        if name == "sitofp":
            return f"({type_}){with_sign(x, source)}"
        if name == "uitofp":
            return f"({type_})(uint64_t){x}" if source.bits == 64 else f"({type_}){x}"
        if name == "fptrunc" and to.text == F16.text:
            return f"shlo_{source.text}_to_f16({x})"
        if name == "fpext" and source.text == F16.text:
            wide = f"shlo_f16_to_f32({x})"
            return wide if to.text == F32.text else f"({type_}){wide}"
        if name in ("fptrunc", "fpext") and source.bits > 16 and to.bits > 16:
            return f"({type_}){x}"
        if name == "ptrtoint":
            return f"({type_})(intptr_t){raw(x)}"
        if name == "inttoptr":
            return f"(char *)(intptr_t){x}"
        raise self.lacks(f"{name} from {source} to {to}")

    def bitcast(self, a: Value, to: Type) -> str:
        source, element = a.type.element, to.element
        if source.bits == element.bits:
            return self._lanes(lambda x: self._same_bits(x, source, element), to, a)
        if source is I1:
            return self._joined([self._at(a, lane) for lane in range(a.type.lanes)], 1, element)
        if max(a.type.lanes, to.lanes) > FEW:
            return self._copied(a, to)
        lanes = [self._same_bits(x, source, ScalarType(f"i{source.bits}", source.bits)) for x in lanes_of(a)]
        if source.bits < element.bits:
            return self._joined(lanes, source.bits, element)
        return self._split(lanes, source.bits, element)

    def _copied(self, a: Value, to: Type) -> str:
        """The bytes of a vector as others, the low one first."""
        held = a.ref if a.ref in self._vectors else self._new("w")
        if held != a.ref:
            self.lines.append(Line.of(f"{c_type(a.type.element)} {held}[{a.type.lanes}];", held))
            for lane in range(a.type.lanes):
                self.lines.append(Line.of(f"{held}[{lane}] = {self._at(a, lane)};", held))
        name = self._new("w")
        self._vectors[name] = to.lanes
        self.lines.append(Line.of(f"{c_type(to.element)} {name}[{to.lanes}];", name))
        self.lines.append(Line.of(f"memcpy({name}, {held}, sizeof {name});", name))
        if to.lanes > FEW:
            return name
        return LANES.join(self._define(f"{name}[{lane}]", to.element) for lane in range(to.lanes))

    @staticmethod
    def _same_bits(x: str, source: ScalarType, to: ScalarType) -> str:
        if source.bits > 16 and source.is_float != to.is_float:
            return f"shlo_{to.text}({x})" if to.is_float else f"shlo_{source.text}_bits({x})"
        return x

    def _joined(self, lanes: list[str], bits: int, to: ScalarType) -> str:
        """Lanes of more bits, the first one lowest."""
        count, results = to.bits // bits, []
        for first in range(0, len(lanes), count):
            parts = lanes[first : first + count]
            wide = "uint64_t" if to.bits == 64 else "uint32_t"
            masked = [f"({wide}){part}" if bits < 64 else part for part in parts]
            whole = " | ".join(f"{part} << {bits * i}" if i else part for i, part in enumerate(masked))
            integer = ScalarType(f"i{to.bits}", to.bits)
            name = self._define(self._cut(whole, integer), integer)
            results.append(self._define(self._same_bits(name, integer, to), to) if to.is_float else name)
        return LANES.join(results)

    def _split(self, lanes: list[str], bits: int, to: ScalarType) -> str:
        """Lanes of fewer bits, the lowest one first."""
        results, integer = [], ScalarType(f"i{to.bits}", to.bits)
        for lane in lanes:
            wide = f"(uint64_t){lane}" if bits == 64 else lane
            for part in range(bits // to.bits):
                cut = self._cut(f"{wide} >> {part * to.bits}" if part else wide, integer)
                name = self._define(cut, integer)
                results.append(self._define(self._same_bits(name, integer, to), to) if to.is_float else name)
        return LANES.join(results)

    # --- lanes -------------------------------------------------------------------------------------------------------

    def insert(self, into: Value, a: Value, lane: Value) -> str:
        if not isinstance(lane.constant, int):
            raise self.lacks("insert at a lane that is not known")
        number = lane.constant
        if into.type.lanes > FEW:
            name = self._vector(f"l == {number} ? {a.ref} : {self._lane(into)}", into.type)
            self._inserted[name] = number, a.ref
            return name
        lanes = self._few(into)
        lanes[number] = a.ref
        return LANES.join(lanes)

    def extract(self, a: Value, lane: Value) -> str:
        if isinstance(lane.constant, int):
            return self._at(a, lane.constant)
        if a.ref in self._vectors:
            return self._define(f"{a.ref}[{lane.ref}]", a.type.element)
        if a.ref in self._ramps:
            first, step = self._ramps[a.ref]
            return self._define(f"{first} + {step} * {lane.ref}", a.type.element)
        lanes = lanes_of(a)
        found = lanes[-1]
        for number in range(len(lanes) - 2, -1, -1):
            found = f"{lane.ref} == {number} ? {lanes[number]} : {found}"
        return self._define(found, a.type.element) if len(lanes) > 1 else found

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> str:
        count = a.type.lanes
        single = self._inserted.get(a.ref)
        if len(set(lanes)) == 1 and single is not None and single[0] == lanes[0]:
            return single[1] if len(lanes) > FEW else LANES.join([single[1]] * len(lanes))
        if len(lanes) <= FEW:
            return LANES.join(self._at(a, lane) if lane < count else self._at(b, lane - count) for lane in lanes)
        type_ = VectorType(len(lanes), a.type.element)
        step = lanes[1] - lanes[0]
        affine = all(lane == lanes[0] + step * number for number, lane in enumerate(lanes))
        source = a if max(lanes) < count else b if min(lanes) >= count else None
        if affine and source is not None:
            start = lanes[0] - (0 if source is a else count)
            if source.ref in self._vectors:
                return self._vector(f"{source.ref}[{start} + {step} * l]".replace("[0 + 1 * l]", "[l]"), type_)
            if source.ref not in self._ramps and len(lanes_of(source)) == 1:
                return source.ref
        name = self._new("w")
        self._vectors[name] = len(lanes)
        self.lines.append(Line.of(f"{c_type(type_.element)} {name}[{len(lanes)}];", name))
        for number, lane in enumerate(lanes):
            held, at = (a, lane) if lane < count else (b, lane - count)
            text = f"{held.ref}[{at}]" if held.ref in self._vectors else self._at(held, at)
            self.lines.append(Line.of(f"{name}[{number}] = {text};", name))
        return name

    def reduce_lanes(self, kind: str, a: Value, start: Value | None) -> str:
        element, lanes = a.type.element, a.type.lanes
        while lanes > 2 * FEW and a.ref in self._vectors:
            lanes //= 2
            half = VectorType(lanes, element)
            pair = self._pair_text(kind, f"{a.ref}[l]", f"{a.ref}[l + {lanes}]", element)
            a = Value(self._vector(pair, half), half)
        values = [self._at(a, lane) for lane in range(lanes)]
        while len(values) > 1:
            half_count = len(values) // 2
            pairs = zip(values[:half_count], values[half_count:], strict=True)
            values = [self._define(self._pair_text(kind, x, y, element), element) for x, y in pairs]
        return (
            values[0] if start is None else self._define(self._pair_text(kind, start.ref, values[0], element), element)
        )

    def _pair_text(self, kind: str, x: str, y: str, element: ScalarType) -> str:
        """The expression of a step of a reduction."""
        if element.is_float:
            if kind in _FLOATS:
                return self._float(kind, x, y, element)
            return f"shlo_{kind.removeprefix('f')}_{element.text}({x}, {y})"
        if kind in _SYMBOLS:
            return self._integer(kind, x, y, element, False)
        above = "gt" if kind.endswith("max") else "lt"
        return f"{self._compared(kind[0] + above, x, y, element)} ? {x} : {y}"
