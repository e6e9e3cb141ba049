"""One module of several functions: `@main` calls all of them. Complex and quantized values are taken apart there."""

from __future__ import annotations

import zlib
from functools import cache

from stablehlo_py.conformance.values import Spec
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir


@cache
def _context() -> ir.Context:
    """One for all modules: making one takes as long as most of them."""
    context = make_context()
    context.allow_unregistered_dialects = True
    return context


def assemble(functions: dict[str, str]) -> tuple[str, list[Spec], dict[str, list[bool]]]:
    """The module, its arguments, and of every function which of its results are parts of a complex number."""
    with _context(), ir.Location.unknown():
        module = ir.Module.parse("\n".join(functions.values()))
        arguments: list[str] = []
        specs: list[Spec] = []
        body: list[str] = []
        returned: list[tuple[str, str]] = []
        flags: dict[str, list[bool]] = {}
        for function in list(module.body.operations):
            name = function.attributes["sym_name"].value
            if name not in functions:
                continue
            types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            attributes = _take_attributes(function, len(types.inputs))
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
            operands = [
                _argument(type_, limits, f"{name} {number}", arguments, specs, body)
                for number, (type_, limits) in enumerate(zip(types.inputs, attributes, strict=True))
            ]
            results = [f"%{name}_{number}" for number in range(len(types.results))]
            inputs, outputs = (", ".join(map(str, each)) for each in (types.inputs, types.results))
            call = f"func.call @{name}({', '.join(operands)}) : ({inputs}) -> ({outputs})"
            body.append(f"{', '.join(results)} = {call}" if results else call)
            flags[name] = []
            for result, type_ in zip(results, types.results, strict=True):
                taken = _result(result, type_, body)
                returned += taken
                flags[name] += [len(taken) == 2] * len(taken)
        signature = ", ".join(arguments), ", ".join(type_ for _, type_ in returned)
        values = ", ".join(value for value, _ in returned)
        lines = [f"func.func @main({signature[0]}) -> ({signature[1]}) {{", *body]
        lines.append(f"return {values} : {signature[1]}\n}}" if returned else "return\n}")
        text = "\n".join([*lines, *map(str, module.body.operations)])
        return text, specs, flags


def _take_attributes(function: ir.OpView, count: int) -> list[tuple[int, int] | None]:
    if "arg_attrs" not in function.attributes:
        return [None] * count
    found: list[tuple[int, int] | None] = []
    for each in function.attributes["arg_attrs"]:
        if "case.range" in each:
            low, high = each["case.range"]
            found.append((low.value, high.value))
        else:
            found.append(None)
    del function.attributes["arg_attrs"]
    return found


def _argument(
    type_: ir.Type,
    limits: tuple[int, int] | None,
    where: str,
    arguments: list[str],
    specs: list[Spec],
    body: list[str],
) -> str:
    """The value to pass for an argument of a function; declares the arguments of `@main` that make it."""
    sizes, element = tuple(type_.shape), type_.element_type

    def declare(text: str, part: str = "") -> str:
        name = f"%a{len(specs)}"
        specs.append(
            Spec(sizes, numpy_dtype(ir.Type.parse(text)), limits, bool(part), zlib.crc32(f"{where}{part}".encode()))
        )
        arguments.append(f"{name}: {_tensor(sizes, text)}")
        return name

    if isinstance(element, ir.ComplexType):
        part = str(element.element_type)
        real, imag = declare(part, "re"), declare(part, "im")
        body.append(f"{real}_c = stablehlo.complex {real}, {imag} : {_tensor(sizes, str(element))}")
        return f"{real}_c"
    if "!quant" in str(element):
        name = declare("f32")
        body.append(f"{name}_q = stablehlo.uniform_quantize {name} : ({_tensor(sizes, 'f32')}) -> {type_}")
        return f"{name}_q"
    return declare(str(element))


def _result(name: str, type_: ir.Type, body: list[str]) -> list[tuple[str, str]]:
    sizes, element = tuple(type_.shape), type_.element_type
    if isinstance(element, ir.ComplexType):
        part = _tensor(sizes, str(element.element_type))
        body.append(f"{name}_re = stablehlo.real {name} : ({type_}) -> {part}")
        body.append(f"{name}_im = stablehlo.imag {name} : ({type_}) -> {part}")
        return [(f"{name}_re", part), (f"{name}_im", part)]
    if "!quant" in str(element):
        body.append(f"{name}_f = stablehlo.uniform_dequantize {name} : ({type_}) -> {_tensor(sizes, 'f32')}")
        return [(f"{name}_f", _tensor(sizes, "f32"))]
    return [(name, str(type_))]


def _tensor(sizes: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' if size >= 0 else '?x' for size in sizes)}{element}>"
