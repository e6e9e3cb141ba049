"""A compact print of a module, for reading: `%3 = add %1, %2 : f32[4,8]`. It cannot be parsed back.

Ops of hlo and func lose their prefix, types are written element first, attributes as plain lists and numbers, long
constants are cut. Values are numbered per function.
"""

from __future__ import annotations

from collections.abc import Iterator

from stablehlo_py.mlir import ir

_LONGEST_CONSTANT = 60
_INDENT = "  "


class _Names(dict[ir.Value, str]):
    """The names of a function's values."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def new(self) -> str:
        """The next unused name."""
        self.count += 1
        return f"%{self.count - 1}"

    def __missing__(self, value: ir.Value) -> str:
        return "%?"  # the printed op was taken out of its function


def pretty(module: ir.Module) -> str:
    """The module as text."""
    lines: list[str] = []
    for op in module.body:
        if op.operation.name == "func.func":
            lines += _function(op.operation)
        else:
            lines += _op(op.operation, _Names(), "")
    return "\n".join(lines)


def type_text(type_: ir.Type) -> str:
    """`f32[4,8]` for tensors, MLIR's text for all others."""
    if not isinstance(type_, ir.RankedTensorType):
        return str(type_)
    sizes = ("?" if type_.is_dynamic_dim(i) else str(type_.get_dim_size(i)) for i in range(type_.rank))
    return f"{type_.element_type}[{','.join(sizes)}]"


def _function(op: ir.Operation) -> list[str]:
    attributes = dict(op.attributes.items())
    name, type_ = attributes.pop("sym_name").value, attributes.pop("function_type").value
    visibility = attributes.pop("sym_visibility", None)
    head = f"func {'private ' if visibility is not None and visibility.value == 'private' else ''}@{name}"
    results = ", ".join(type_text(result) for result in type_.results)
    blocks = op.regions[0].blocks
    if not len(blocks):
        return [f"{head}({', '.join(type_text(each) for each in type_.inputs)}) -> ({results})"]
    names = _Names()
    for number, argument in enumerate(blocks[0].arguments):
        names[argument] = f"%arg{number}"
    arguments = ", ".join(f"{names[each]}: {type_text(each.type)}" for each in blocks[0].arguments)
    tail = _attributes({key: value for key, value in attributes.items() if not key.endswith("_attrs")})
    return [f"{head}({arguments}) -> ({results}){tail} {{", *_block(blocks[0], names, _INDENT), "}", ""]


def _block(block: ir.Block, names: _Names, indent: str) -> Iterator[str]:
    for op in block:
        yield from _op(op.operation, names, indent)


def _op(op: ir.Operation, names: _Names, indent: str) -> list[str]:
    operands = ", ".join(names[operand] for operand in op.operands)
    attributes = dict(op.attributes.items())
    callee = attributes.pop("callee", None)
    call = f" {callee}({operands})" if callee is not None else f" {operands}" if operands else ""
    results = list(op.results)
    left = _name_results(results, names)
    types = ", ".join(type_text(result.type) for result in results)
    line = f"{indent}{left}{op.name.removeprefix('hlo.').removeprefix('func.')}{call}{_attributes(attributes)}"
    if not len(op.regions):
        return [f"{line} : {types}" if types else line]
    lines: list[str] = []
    for number, region in enumerate(op.regions):
        opening = f"{line} {{" if number == 0 else f"{indent}}}, {{"
        for block in region:
            for argument in block.arguments:
                names[argument] = names.new()
            arguments = ", ".join(f"{names[each]}: {type_text(each.type)}" for each in block.arguments)
            lines.append(f"{opening} |{arguments}|" if arguments else opening)
            lines += _block(block, names, indent + _INDENT)
    return [*lines, f"{indent}}} : {types}" if types else f"{indent}}}"]


def _name_results(results: list[ir.Value], names: _Names) -> str:
    if not results:
        return ""
    base = names.new()
    for number, result in enumerate(results):
        names[result] = base if len(results) == 1 else f"{base}#{number}"
    return f"{base} = " if len(results) == 1 else f"{base}:{len(results)} = "


def _attributes(attributes: dict[str, ir.Attribute]) -> str:
    listed = " ".join(f"{name.removeprefix('hlo.')}={_attribute(value)}" for name, value in attributes.items())
    return f" {{{listed}}}" if listed else ""


def _attribute(attribute: ir.Attribute) -> str:
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return f"[{','.join(map(str, attribute))}]"
    if isinstance(attribute, (ir.BoolAttr, ir.IntegerAttr, ir.StringAttr)):
        return str(attribute.value).lower() if isinstance(attribute, ir.BoolAttr) else str(attribute.value)
    if isinstance(attribute, ir.UnitAttr):
        return "true"
    # A large constant is never printed whole: its text could be a thousand times what is shown.
    if (
        isinstance(attribute, ir.DenseElementsAttr)
        and not attribute.is_splat
        and len(attribute) > _LONGEST_CONSTANT // 4
    ):
        return "dense<...>"
    text = str(attribute)
    text = text.rpartition(" : ")[0] if text.startswith("dense") else text
    return text if len(text) <= _LONGEST_CONSTANT else f"{text[:_LONGEST_CONSTANT]}..."
