"""MLIR text -> a module whose locations say the name of its source."""

from __future__ import annotations

import re
from typing import Any

_SEVERAL_OPS = "source must contain a single top-level operation"
# Aliases and resources are legal at the top of a file only, so such text cannot be put inside `module { }`.
_TOP_LEVEL_ONLY = re.compile(r"^\s*([#!][\w.]+\s*=|\{-#)", re.MULTILINE)


def parse_text(ir: Any, text: str, name: str, context: Any) -> Any:
    """Parse and verify text of any dialect in the context; `ir` is the bindings' module of any copy of MLIR. Raises
    that copy's MLIRError.

    The bindings let only single ops be parsed under a name. A file of several top-level ops is put into a module
    first, on its first line, so that line numbers stay.
    """
    try:
        op = ir.Operation.parse(text, source_name=name, context=context)
    except ir.MLIRError as error:
        if _SEVERAL_OPS not in str(error):
            raise
        if _TOP_LEVEL_ONLY.search(text):
            return ir.Module.parse(text, context)
        op = ir.Operation.parse(f"module {{ {text}\n}}", source_name=name, context=context)
    with op.context:
        module = ir.Module.create(op.location)
        if op.operation.name != "builtin.module":
            module.body.append(op)
            return module
        for key, value in op.attributes.items():
            module.operation.attributes[key] = value
        for inner in list(op.regions[0].blocks[0]):
            module.body.append(inner)
    return module
