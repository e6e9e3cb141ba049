"""What a module says in attributes that MLIR leaves to their readers, checked once for all who read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stablehlo_py.dialect.attributes import (
    ALIASING_OUTPUT,
    BUFFER_DONOR,
    GLOBAL_CONSTANT,
    IN_BOUNDS,
    MANUAL_AXES,
    MESHES,
    MHLO_SHARDING,
    OVERWRITTEN,
    PARTITIONS,
    PLACED,
    REPLICAS,
    REPLICATED,
    RESULT_INFO,
    SHARDING,
    SHARDING_RULE,
    SHARDS,
    SLICES,
    UNREAD,
    WHOLE_WINDOWS,
)
from stablehlo_py.dialect.call_signatures import what_is_wrong
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.types import entries
from stablehlo_py.errors import LoadError, Problem
from stablehlo_py.mlir import ir

_Fits = Callable[[ir.Attribute], bool]
_EXPORT = "export the model again"
_CALL = "stablehlo.custom_call"


def _is(*kinds: type) -> _Fits:
    return lambda attribute: isinstance(attribute, kinds)


def _is_count(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.IntegerAttr) and attribute.value >= 1


def _are_strings(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.ArrayAttr) and all(isinstance(each, ir.StringAttr) for each in attribute)


def _are_named_strings(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.DictAttr) and all(isinstance(each.attr, ir.StringAttr) for each in attribute)


_COUNT = ("a positive integer", _is_count)
_INTEGER = ("an integer", _is(ir.IntegerAttr))
_BOOL = ("true or false", _is(ir.BoolAttr))
_STRING = ("a string", _is(ir.StringAttr))
_UNIT = ("an attribute without a value", _is(ir.UnitAttr))
_Wanted = Mapping[str, tuple[str, _Fits]]
_OF_MODULE: _Wanted = {
    REPLICAS: _COUNT,
    PARTITIONS: _COUNT,
    # Our own, which are there when what was loaded is written and loaded again.
    REPLICATED: _UNIT,
    WHOLE_WINDOWS: _UNIT,
    MESHES: ("a dictionary of strings", _are_named_strings),
}
_OF_ARGUMENT: _Wanted = {
    ALIASING_OUTPUT: _INTEGER,
    BUFFER_DONOR: _BOOL,
    GLOBAL_CONSTANT: _STRING,
    SHARDING: _STRING,
    MHLO_SHARDING: _STRING,
}
_OF_RESULT: _Wanted = {RESULT_INFO: _STRING, SHARDING: _STRING, MHLO_SHARDING: _STRING}
_OF_OP: _Wanted = {SHARDING: ("a list of strings", _is(ir.ArrayAttr))}
_OF_CALL: _Wanted = {
    **_OF_OP,
    MHLO_SHARDING: _STRING,
    SHARDING_RULE: _STRING,
    SHARDS: _STRING,
    MANUAL_AXES: ("a list of strings", _are_strings),
}
# Ops that stay until code is made of them: passes of ours leave attributes for each other on these.
_ANNOTATED = frozenset(
    {
        *(record.name for record in records() if record.name.startswith("stablehlo.")),
        *(f"stablehlo.{name}" for name in "all_reduce collective_reduce dynamic_conv reduce_scatter return".split()),
        "func.return",
    }
)
# What backends believe of any op without a check: code that does would read or write other memory.
_BELIEVED = (SLICES, PLACED, OVERWRITTEN, UNREAD, IN_BOUNDS)


def may_declare(name: str) -> bool:
    """Whether attributes of ops of this name are read that MLIR does not check."""
    return name in _ANNOTATED or not name.startswith("stablehlo.")


def check_declared(module: ir.Module, ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Refuse attributes that are of another kind than their readers take, those by which passes of this compiler tell
    each other what they know, and calls that are not as their target takes them. `ops` are those of the module that
    `may_declare`. Returns the custom calls.

    Raises:
        LoadError: every such attribute and call is named, with its op.
    """
    problems = list(_problems(module.operation, _OF_MODULE, module.operation.attributes))
    for view in module.body.operations:
        op = view.operation
        problems += _problems(op, {}, op.attributes)
        for name, wanted in (("arg_attrs", _OF_ARGUMENT), ("res_attrs", _OF_RESULT)):
            for described in ir.ArrayAttr(op.attributes[name]) if name in op.attributes else ():
                if len(described):
                    problems += _problems(op, wanted, _described(ir.DictAttr(described), wanted))
    calls: list[ir.Operation] = []
    for op in ops:
        name = op.name
        if name not in _ANNOTATED:
            problems += _problems(op, {}, {each: op.attributes[each] for each in _BELIEVED if each in op.attributes})
        elif len(attributes := op.attributes):
            problems += _problems(op, _OF_CALL if name == _CALL else _OF_OP, attributes)
        if name == _CALL:
            calls.append(op)
            reason = what_is_wrong(op)
            if reason is not None:
                problems.append(Problem(reason, describe(op.location), op.name, _EXPORT))
    if problems:
        raise LoadError("attributes or calls of the module are not what they must be", problems=problems)
    return calls


def _described(dictionary: ir.DictAttr, wanted: _Wanted) -> dict[str, ir.Attribute]:
    """The attributes in a dictionary. Its names, which take long, are read only where there are others than these."""
    known = {name: dictionary[name] for name in wanted if name in dictionary}
    return known if len(known) == len(dictionary) else entries(dictionary)


def _problems(
    op: ir.Operation, wanted: _Wanted, attributes: Mapping[str, ir.Attribute] | ir.OpAttributeMap
) -> Iterator[Problem]:
    for name in attributes:
        what, fits = wanted.get(name, ("", None))
        if fits is None and name.startswith("hlo."):
            reason, remedy = f"has the attribute {name}, which is of this compiler's own making", "remove it"
        elif fits is not None and not fits(attributes[name]):
            reason, remedy = f"has the attribute {name} = {str(attributes[name])[:100]}, which must be {what}", _EXPORT
        else:
            continue
        yield Problem(reason, describe(op.location), op.name, remedy)
