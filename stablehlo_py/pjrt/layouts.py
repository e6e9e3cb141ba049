"""Layouts that a program asks of its arguments and results: row-major is what this platform has."""

from __future__ import annotations

from collections.abc import Iterator

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir

_MODE = "mhlo.layout_mode"  # "default", "auto", or dimensions from the fastest to the slowest: "{1,0}"


def check_layouts(source: bytes) -> None:
    """Raise UnsupportedError for a program by JAX that asks for another layout."""
    if _MODE.encode() not in source:
        return
    main = main_function(load(source, isolate=False))
    for kind, name in (("argument", "arg_attrs"), ("result", "res_attrs")):
        for number, mode in enumerate(_modes(main, name)):
            order = [int(each) for each in mode.strip("{}").partition(":")[0].split(",") if each.strip().isdecimal()]
            if order != sorted(order, reverse=True):
                raise UnsupportedError(
                    f"{kind} {number} of the program is to have the layout {mode}: arrays here are row-major",
                    remedy="ask for the default layout, or transpose the array",
                )


def _modes(main: ir.OpView, name: str) -> Iterator[str]:
    for attributes in main.attributes.get(name, ()):
        yield attributes[_MODE].value if _MODE in attributes else "default"
