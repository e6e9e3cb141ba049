"""A scheduled module becomes one C file with the public functions of a library (backends/common/library.py), for one
thread. They are written in C as a person would: those of machine code come from the kernel language."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from stablehlo_py.backends.c.compile import Generated
from stablehlo_py.backends.c.target import CTarget
from stablehlo_py.backends.common.c_types import c_type
from stablehlo_py.backends.common.description import describe
from stablehlo_py.backends.common.library import Signature, dimension_of, holds_anything, value_symbols
from stablehlo_py.backends.common.library_data import Address, Data, Int32, Int64, Text, Word, describing_data
from stablehlo_py.backends.cpu.symbols import calls_registered, outside_symbols, target_of
from stablehlo_py.dialect.attributes import LINKED
from stablehlo_py.errors import OptionError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.library import Interface, Library
from stablehlo_py.runtime.program import CompiledProgram, DynamicSymbol

_TARGET = "any machine (C99)"


def library(module: ir.Module, backend: str, target: CTarget, options: Options, interface: Interface) -> Library:
    """The C file of a model, which includes its header.

    Raises:
        OptionError: threads, constants in a file, or a machine are asked for: C code has none of them.
        UnsupportedError: as `compile.Generated`.
    """
    if interface.threads != "off" or interface.constants != "embed" or interface.cpus or interface.triple:
        raise OptionError(
            "a model in C computes in the thread that calls, has its constants in the file, and is for any machine",
            remedy="leave out threads, constants, cpus and triple, or write an object file",
        )
    module.operation.attributes[LINKED] = ir.UnitAttr.get(module.context)
    name = interface.name
    generated = Generated(module, target, f"{name}_call", embedded=True)
    program = describe(module, backend, target.processor.name, options, generated.program.sites)
    program.symbols = outside_symbols(generated.externals)
    program.dynamic, program.loops = generated.layout, generated.program.loops
    program.arena_bytes = 0 if generated.layout else int(generated.program.arena_bytes)
    text = generated.text()
    hash_ = hashlib.sha256(text.encode()).hexdigest()
    signature = Signature.of(program)
    parts = [
        f'#include "{name}.h"',
        text,
        *map(_data, describing_data(program, interface, hash_, _TARGET)),
        _workspace_bytes(program, signature, name),
        _plain(program, signature, name),
    ]
    calls = {target_of(symbol): _outside(symbol) for symbol in program.symbols if calls_registered([symbol])}
    routines = tuple(_outside(symbol) for symbol in program.symbols if not calls_registered([symbol]))
    public = (name, *(f"{name}_{each}" for each in ("call", "workspace_bytes", "model")))
    public += (f"{name}_sizes",) if program.dynamic else ()
    code = "\n\n".join(parts).encode() + b"\n"
    return Library(interface, code, program, hash_, _TARGET, "c", public, calls, routines)


def _outside(symbol: str) -> str:
    if calls_registered([symbol]):
        return re.sub(r"\W", "_", target_of(symbol), flags=re.ASCII)
    return f"{symbol.rpartition('.')[2]}_"


# --- data -------------------------------------------------------------------------------------------------------------


def _data(data: Data) -> str:
    rows = [", ".join(map(_word, row)) for row in data.rows]
    if data.public:
        return f"const {data.type} {data.symbol} = {{{rows[0]}}};"
    listed = ",\n    ".join(row if len(data.rows[0]) == 1 else f"{{{row}}}" for row in rows)
    return f"static const {data.type} {data.symbol}[] = {{\n    {listed}}};"


def _word(word: Word) -> str:
    if isinstance(word, Int32):
        return str(word.value)
    if isinstance(word, Int64):
        return str(word.value) if abs(word.value) < 1 << 31 else f"INT64_C({word.value})"
    if isinstance(word, Text):
        return f'"{_escaped(word.value)}"'
    assert isinstance(word, Address)
    if word.symbol is None:
        return "0"
    return f"{word.symbol} + {word.offset // 8}" if word.offset else word.symbol


def _escaped(text: str) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())


# --- functions --------------------------------------------------------------------------------------------------------


def _function(result: str, name: str, parameters: Sequence[str], lines: Iterable[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{result} {name}({', '.join(parameters) or 'void'}) {{\n{body}\n}}"


def _workspace_bytes(program: CompiledProgram, signature: Signature, name: str) -> str:
    values = value_symbols(program)
    parameters = [f"int64_t d{number}" for number in range(len(signature.dimensions))]
    parameters += [f"int64_t v{number}" for number in range(len(values))]
    if program.dynamic is None:
        return _function("int64_t", f"{name}_workspace_bytes", parameters, [f"return {program.arena_bytes};"])

    def term(symbol: DynamicSymbol) -> str:
        if symbol.of_shape:
            return f"d{dimension_of(signature, symbol)}"
        return f"v{values.index((symbol.argument, symbol.position))}"

    terms = list(map(term, program.dynamic.symbols))
    lines = [*_table(program, name, terms), f"return fits ? {_needed(program)} : -1;"]
    return _function("int64_t", f"{name}_workspace_bytes", parameters, lines)


def _table(program: CompiledProgram, name: str, terms: Sequence[str]) -> list[str]:
    """Lines that fill the table of sizes: `fits` says whether the model takes them."""
    layout = program.dynamic
    assert layout is not None
    divided = [
        term if symbol.divisor == 1 else f"{term} / {symbol.divisor}"
        for term, symbol in zip(terms, layout.symbols, strict=True)
    ]
    listed = [f"symbols[{number}] = {term};" for number, term in enumerate(divided)]
    return [
        f"int64_t symbols[{max(1, len(divided))}], table[{layout.slots + 1}];",
        "int fits;",
        *listed,
        f"{name}_sizes(symbols, table);",
        f"fits = table[{layout.slots}] == 1;",
    ]


def _needed(program: CompiledProgram) -> str:
    layout = program.dynamic
    if layout is None:
        return str(program.arena_bytes)
    return str(layout.arena_bytes) if layout.arena_bytes >= 0 else f"table[{-1 - layout.arena_bytes}]"


def _term(signature: Signature, symbol: DynamicSymbol) -> str:
    """The value of a symbol, by the parameters of the plain function."""
    return f"d{dimension_of(signature, symbol)}" if symbol.of_shape else f"a{symbol.argument}[{symbol.position}]"


def _plain(program: CompiledProgram, signature: Signature, name: str) -> str:
    written = set(signature.aliases.values())
    parameters = [f"int64_t d{number}" for number in range(len(signature.dimensions))]
    parameters += [
        f"{'' if number in written else 'const '}{c_type(spec.dtype)} *a{number}"
        for number, spec in enumerate(signature.inputs)
    ]
    parameters += [f"{c_type(signature.outputs[number].dtype)} *r{number}" for number in signature.own_results]
    parameters += ["void *workspace", "int64_t workspace_bytes"]
    inputs = [f"a{number}" for number in range(len(signature.inputs))]
    outputs = [f"a{signature.aliases[n]}" if n in signature.aliases else f"r{n}" for n in range(len(signature.outputs))]
    needed = [f"!a{number}" for number, spec in enumerate(signature.inputs) if holds_anything(spec)]
    needed += [f"!r{number}" for number in signature.own_results if holds_anything(signature.outputs[number])]
    lines = [
        f"const void *inputs[{max(1, len(inputs))}];",
        f"void *outputs[{max(1, len(outputs))}];",
        "shlo_call call = {0};",
    ]
    if program.dynamic is not None:
        lines += _table(program, name, [_term(signature, each) for each in program.dynamic.symbols])
    if needed:
        lines.append(f"if ({' || '.join(needed)}) return SHLO_NULL;")
    if program.dynamic is not None:
        lines.append("if (!fits) return SHLO_SIZES;")
    room = _needed(program)
    wrong = f"workspace_bytes < {room} || !workspace || (uintptr_t)workspace % 64"
    lines.append(f"if ({room} > 0 && ({wrong})) return SHLO_WORKSPACE;")
    lines += [f"inputs[{number}] = {word};" for number, word in enumerate(inputs)]
    lines += [f"outputs[{number}] = {word};" for number, word in enumerate(outputs)]
    lines += ["call.size = sizeof call, call.inputs = inputs, call.outputs = outputs, call.workspace = workspace;"]
    if program.dynamic is not None:
        lines.append("call.sizes = table;")
    return _function("int", name, parameters, [*lines, f"return {name}_call(&call);"])
