"""StableHLO to hlo: one walk, innermost ops first, each op by the rule of its name.

What the walk relies on: calls and composites are inlined (`inline`), nothing is quantized (`legalize-quantized`),
shapes are static. What it leaves is the normal form of docs/architecture.md. Everything that cannot be legalized is
collected and reported in one error.
"""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.dialect import sharding
from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.constants import scalar_constant
from stablehlo_py.dialect.locations import diagnosed
from stablehlo_py.dialect.ops import records
from stablehlo_py.dialect.sharding import is_sharded
from stablehlo_py.dialect.types import is_bool, is_tensor, op_names, operations
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.legalize import (  # noqa: F401 - these modules fill the table
    algorithms,
    batch_norm,
    chlo_structure,
    collectives,
    composite,
    contraction,
    control_flow,
    custom_call,
    einsum,
    elementwise,
    indexing,
    map,
    next_after,
    reduction,
    rng,
    scan,
    shape,
    transfers,
    tuples,
)
from stablehlo_py.legalize.conversion import Conversion, raise_problems
from stablehlo_py.legalize.rules import ON_BOOLEANS, RENAMED, RULES, Unsupported
from stablehlo_py.legalize.structure import flatten
from stablehlo_py.mlir import ir, quant, run_upstream

# What may be there before or after: our own ops, control flow that is already in normal form, terminators, calls of
# functions.
_LEGAL_DIALECTS = frozenset({"hlo", "scf", "func", "tensor", "arith"})
_COMMUTATIVE = frozenset(record.name for record in records() if record.commutative)


def legalize(module: ir.Module) -> None:
    """Rewrite a StableHLO (and CHLO) module to hlo in normal form, in place.

    Raises UnsupportedError, which lists every op that could not be legalized with its location; the module is then
    half rewritten.
    """
    with module.context, ir.Location.unknown():
        sharded = is_sharded(module)
        run = _Run(sharded)
        run.problems += _prepare(module, sharded)
        for function in _functions(module, private=False):
            run.function(function)
        if len(module.body.operations) > 1:
            run_upstream(module, "symbol-dce")  # decompositions of the composites that became hlo ops
            for function in _functions(module, private=True):
                run.function(function)
    raise_problems(run.problems)


def _functions(module: ir.Module, private: bool) -> list[ir.OpView]:
    found = []
    for op in module.body.operations:
        if op.operation.name == "func.func" and len(op.regions[0].blocks):
            visibility = "sym_visibility" in op.attributes and op.attributes["sym_visibility"].value == "private"
            if visibility == private:
                found.append(op)
    return found


def _prepare(module: ir.Module, sharded: bool) -> list[Problem]:
    """Upstream passes for what only old or unusual modules hold: CHLO ops that have no hlo twin. Then tuples, tokens
    and futures go, after which upstream's verifiers would object."""
    names = op_names(module)
    functions = [*_functions(module, private=False), *_functions(module, private=True)]
    if "stablehlo.rng" in names:  # becomes CHLO, among others
        _run_only(functions, ["stablehlo.rng"], sharded)
        names = op_names(module)
    if any(name.startswith("chlo.") for name in names):
        # Broadcasting ops stand for CHLO ops too.
        _run_only(functions, [name for name in names if name.startswith("chlo.broadcast_")], sharded)
        # The expansions of CHLO produce other CHLO ops, so ours go first and last.
        _run_only(functions, [name for name in op_names(module) if name.startswith("chlo.")], sharded)
        if any(name.startswith("chlo.") for name in op_names(module)):  # a rule may leave an op, as of complex numbers
            _expand_chlo(module, sharded)
    return flatten(module, names)


def _expand_chlo(module: ir.Module, sharded: bool) -> None:
    """Upstream's expansions. They refuse some ops, and make invalid ones of others (`chlo.ragged_dot`). They know no
    shardings, so these move behind the ops before."""
    if sharded:
        for op in operations(module.operation):
            if op.name.startswith("chlo.") and SHARDING in op.attributes:
                sharding.detach(op)
    refused = UnsupportedError("ops of CHLO cannot be expanded", remedy="let the framework lower them to StableHLO")
    with diagnosed(module.context, refused):
        run_upstream(module, "func.func(chlo-legalize-to-stablehlo)", verify=True)


def _run_only(functions: Sequence[ir.OpView], names: Sequence[str], sharded: bool) -> None:
    only = frozenset(name for name in names if name in RULES or name in RENAMED)
    if only:  # none would mean all
        run = _Run(sharded, only)
        for function in functions:
            run.function(function)
        raise_problems(run.problems)  # upstream's expansions would crash on what ours refuse


class _Run(Conversion):
    """One walk. `sharded`: whether shardings have to be carried over to what takes an op's place. `only` restricts it
    to some op names."""

    def __init__(self, sharded: bool, only: frozenset[str] = frozenset()) -> None:
        super().__init__(sharding.replace if sharded else ir.Value.replace_all_uses_with)
        self.only = only

    def function(self, function: ir.OpView) -> None:
        """Legalize the body of a function."""
        block = function.regions[0].blocks[0]
        known = len(self.problems)
        for argument in block.arguments:
            self._check_type(argument, function)
        if len(self.problems) > known:
            return  # every other op would only repeat it
        self.block(block)

    def rename(self, op: ir.Operation, name: str) -> None:
        """Put an hlo op of that name, which `RENAMED` says, in an op's place."""
        result, operands = op.result, list(op.operands)
        type_ = result.type
        if name in ON_BOOLEANS and is_bool(type_.element_type):
            name = ON_BOOLEANS[name]
        if name in _COMMUTATIVE and scalar_constant(operands[0]) and not scalar_constant(operands[1]):
            operands.reverse()
        new = ir.Operation.create(name, results=[type_], operands=operands, loc=op.location, ip=ir.InsertionPoint(op))
        self.replace(result, new.result)
        op.erase()

    def _check_type(self, value: ir.Value, op: ir.OpView) -> None:
        type_ = value.type
        if not is_tensor(value):
            reason, remedy = f"has an argument of type {type_}", "export the model without effects (callbacks, tokens)"
        elif not type_.has_static_shape and not isinstance(type_.encoding, ir.StringAttr):
            reason, remedy = f"has an argument of dynamic shape, {type_}", "load the module with concrete shapes"
        elif isinstance(type_.element_type, quant.QuantizedType):
            reason, remedy = f"has an argument of quantized type, {type_}", "run the pass legalize-quantized first"
        else:
            return
        self.report(op, Unsupported(reason, remedy))

    def block(self, block: ir.Block) -> None:
        """Legalize the ops of a block, innermost first."""
        for op in block.operations:  # as the bindings do it, this one may go
            operation = op.operation
            name = operation.name
            renamed = RENAMED.get(name)
            if renamed is not None:
                if self.only and name not in self.only:
                    continue
                self.rename(operation, renamed)
                continue
            for region in operation.regions:
                for inner in region.blocks:
                    self.block(inner)
            if self.only and name not in self.only:
                continue
            if name in RULES:
                self.apply(op, RULES[name])
            elif name.partition(".")[0] not in _LEGAL_DIALECTS:
                self.report(op, Unsupported("is not an op that this compiler knows"))
