"""MLIR text -> a module whose locations say the name of its source."""

from __future__ import annotations

from typing import Any

_SEVERAL_OPS = "source must contain a single top-level operation"
_NAMELESS = "-"  # the file in the locations of `Module.parse`


def parse_text(ir: Any, text: str, name: str, context: Any) -> Any:
    """Parse and verify text of any dialect in the context; `ir` is the bindings' module of any copy of MLIR. Raises
    that copy's MLIRError.

    The bindings let only single ops be parsed under a name. They find all errors under that name before they count the
    ops, so that text of several is parsed once more as a module, and gets the name afterwards.
    """
    try:
        op = ir.Operation.parse(text, source_name=name, context=context)
    except ir.MLIRError as error:
        if _SEVERAL_OPS not in str(error):
            raise
        module = ir.Module.parse(text, context)
        if f'"{_NAMELESS}":' not in text:  # else the text has locations of its own that look the same
            _name_locations(ir, module, name)
        return module
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


def _name_locations(ir: Any, module: Any, name: str) -> None:
    """Put the name into the locations that the parser made. They are plain; only the text itself can nest locations."""

    def named(location: Any) -> Any:
        if not isinstance(location, ir.FileLineColLoc) or location.filename != _NAMELESS:
            return location
        return ir.Location.file(name, location.start_line, location.start_col, module.context)

    def visit(op: Any) -> Any:
        op.location = named(op.location)
        for block in (block for region in op.regions for block in region):
            for argument in block.arguments:
                argument.set_location(named(argument.location))
        return ir.WalkResult.ADVANCE

    module.operation.walk(lambda op: visit(op.operation))
