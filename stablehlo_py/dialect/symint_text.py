"""Sizes as text, in types and attributes: written as they print, read back by Python's own parser."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from stablehlo_py.dialect.symint import FUNCTIONS, IntLike, symbol

_SYMBOL = re.compile(r"[duvx]\d+_\d+(_\d+)?")


def sizes_text(numbers: Sequence[IntLike]) -> str:
    """Several numbers as the text that types and attributes hold."""
    return ", ".join(map(str, numbers))


@functools.lru_cache(maxsize=1 << 12)
def parse_sizes(text: str) -> tuple[IntLike, ...]:
    """The numbers of a text that `sizes_text` wrote.

    Raises:
        TypeError: it is no such text.
    """
    if not text:
        return ()
    try:
        parsed: Any = ast.parse(f"({text},)", mode="eval").body
        return tuple(_read(element) for element in parsed.elts)
    except (SyntaxError, AttributeError, KeyError, TypeError) as error:
        raise TypeError(f"'{text}' holds no sizes") from error


def _read(node: Any) -> IntLike:
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name) and _SYMBOL.fullmatch(node.id):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp):
        return -_read(node.operand)
    if isinstance(node, ast.Call):
        name: Any = node.func
        return FUNCTIONS[name.id](*map(_read, node.args))
    return _OPERATORS[type(node.op)](_read(node.left), _read(node.right))


_OPERATORS: dict[type, Callable[[IntLike, IntLike], IntLike]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
