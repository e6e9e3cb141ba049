"""What a loaded module holds, in one walk: of 9,000 ops it takes 13 ms, half of that for their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stablehlo_py.dialect.types import inside
from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Contents:
    """The names of ops, and the types of results and of arguments of functions, that a module may have: all others it
    has not. Refers to no op, so that it stays when these go."""

    names: frozenset[str]
    types: frozenset[ir.Type]


@dataclass
class Census:
    """Types and ops of a module.

    Attributes:
        types: those of results and of arguments of functions, each with the first op that has it.
        ops: those of the names that were asked for.
        names: those of all ops.
    """

    types: dict[ir.Type, ir.Operation] = field(default_factory=dict)
    ops: list[ir.Operation] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    @property
    def contents(self) -> Contents:
        """What does not refer to the ops."""
        return Contents(frozenset(self.names), frozenset(self.types))

    @staticmethod
    def of(module: ir.Module, asked: Callable[[str], bool] = lambda name: False) -> Census:
        """Of a module; ops of the names for which `asked` is true are listed."""
        census = Census()
        types, ops, names = census.types, census.ops, dict[str, bool]()
        for name, op in inside(module.operation):
            listed = names.get(name)
            if listed is None:
                listed = names[name] = asked(name)
            if listed:
                ops.append(op)
            for type_ in op.results.types if name != "func.func" else _types_of_arguments(op):
                if type_ not in types:
                    types[type_] = op
        census.names.update(names)
        return census


def _types_of_arguments(op: ir.Operation) -> Sequence[ir.Type]:
    return ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs
