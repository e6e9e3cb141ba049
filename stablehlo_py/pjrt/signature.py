"""What a program by JAX asks of its arguments and results: their layouts, and the kinds of memory of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stablehlo_py.dialect.calls import main_function
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir

#: Kinds of memory, as on JAX's CPU: names that programs move values between. On the processor all of them are the
#: memory of the host; GPUs have the first one, which is the default.
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")

_LAYOUT = "mhlo.layout_mode"  # "default", "auto", or dimensions from the fastest to the slowest: "{1,0}"
_MEMORY = "mhlo.memory_kind"


def check_layouts(source: bytes) -> None:
    """Raise UnsupportedError for a program by JAX that asks for a layout that is not row-major."""
    for kind, name in (("argument", "arg_attrs"), ("result", "res_attrs")):
        for number, mode in enumerate(_said(source, name, _LAYOUT, "default")):
            order = [int(each) for each in mode.strip("{}").partition(":")[0].split(",") if each.strip().isdecimal()]
            if order != sorted(order, reverse=True):
                raise UnsupportedError(
                    f"{kind} {number} of the program is to have the layout {mode}: arrays here are row-major",
                    remedy="ask for the default layout, or transpose the array",
                )


def memory_kinds(source: bytes, known: Sequence[str] = MEMORY_KINDS) -> tuple[int, ...]:
    """The kind of memory of each result, as a number of those that are known; empty where a program says nothing of
    it."""
    found = []
    for number, kind in enumerate(_said(source, "res_attrs", _MEMORY, MEMORY_KINDS[0])):
        if kind not in known:
            raise UnsupportedError(
                f"result {number} of the program is to be in memory of the kind '{kind}'",
                remedy=f"use one of: {', '.join(known)}",
            )
        found.append(known.index(kind))
    return tuple(found)


def _said(source: bytes, list_: str, name: str, default: str) -> Iterator[str]:
    """An attribute of each argument or result; nothing where the program does not have it at all."""
    if name.encode() not in source:
        return
    main = main_function(load(source, isolate=False))
    for attributes in main.attributes.get(list_, ()):
        attributes = ir.DictAttr(attributes)
        yield attributes[name].value if name in attributes else default
