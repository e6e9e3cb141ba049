"""The walk: every value gets its storage type, then every op on values that were quantized is rewritten by its rule."""

from __future__ import annotations

from stablehlo_py.dialect import sharding
from stablehlo_py.dialect.attributes import QUANTIZED
from stablehlo_py.dialect.quantized import Quantized, quantized_of, storage_type
from stablehlo_py.dialect.regions import defined_values
from stablehlo_py.dialect.types import entries
from stablehlo_py.legalize.conversion import Conversion, raise_problems
from stablehlo_py.legalize.quantized import elementwise, movement, products, reductions  # noqa: F401 - fill the table
from stablehlo_py.legalize.quantized.rules import RULES
from stablehlo_py.legalize.rules import Results, Unsupported
from stablehlo_py.legalize.structure import make_synchronous
from stablehlo_py.mlir import ir

_REMEDY = "dequantize its operands with stablehlo.uniform_dequantize, and quantize the result"


def legalize_quantized(module: ir.Module) -> bool:
    """Rewrite the ops on quantized tensors in place. A module without any is left alone: False.

    Raises UnsupportedError, which lists every op that has no rule or that the specification refuses; the module is then
    half rewritten.
    """
    with module.context, ir.Location.unknown():
        if not _has_quantized(module):
            return False
        run = _Run()
        functions = [function for function in module.body.operations if function.operation.name == "func.func"]
        for function in functions:
            run.problems += make_synchronous(function)  # futures of quantized tensors are no types of the storage
        for function in functions:
            run.retype(function)
        for function in functions:
            _retype_signature(function)
            for region in function.regions:
                run.rewrite(region)
    raise_problems(run.problems, " on quantized tensors")
    return True


def is_quantized(type_: ir.Type) -> bool:
    """Whether values of a type, or their parts, are quantized."""
    return storage_type(type_) != type_


# Where quantized values come from. Every other op that has one as a result has one as an operand.
_SOURCES = frozenset(
    f"stablehlo.{name}"
    for name in "bitcast_convert constant custom_call dynamic_iota infeed iota recv uniform_quantize".split()
)


def _has_quantized(module: ir.Module) -> bool:
    """Whether any value is quantized: at 0.5 us an op, what a module without any pays."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        name = op.name
        if name in _SOURCES:
            types = op.results.types
        elif name == "func.func":
            types = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs
        else:
            return ir.WalkResult.ADVANCE
        found = any(map(is_quantized, types))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _retype_signature(function: ir.OpView) -> None:
    """The function type on storage; what its quantized arguments and results were is kept in attributes of theirs."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for name, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
        found = [quantized_of(each) for each in types]
        if not any(found):
            continue
        known = list(function.attributes[name]) if name in function.attributes else [ir.DictAttr.get({})] * len(types)
        described = [
            attributes
            if quantized is None
            else ir.DictAttr.get(entries(attributes) | {QUANTIZED: ir.TypeAttr.get(quantized.type)})
            for attributes, quantized in zip(known, found, strict=True)
        ]
        function.attributes[name] = ir.ArrayAttr.get(described)
    on_storage = ir.FunctionType.get(list(map(storage_type, type_.inputs)), list(map(storage_type, type_.results)))
    function.attributes["function_type"] = ir.TypeAttr.get(on_storage)


class _Run(Conversion):
    """One walk over a module."""

    def __init__(self) -> None:
        super().__init__(self._take_place)
        self.quantized: dict[ir.Value, Quantized] = {}

    def retype(self, function: ir.OpView) -> None:
        """Give every value its storage type, and remember how it was quantized."""
        for value in defined_values(function):
            type_ = value.type
            quantized = quantized_of(type_)
            if quantized is not None:
                self.quantized[value] = quantized
            if quantized is not None or isinstance(type_, ir.TupleType):
                value.set_type(storage_type(type_))

    def rewrite(self, region: ir.Region) -> None:
        """Apply the rules, outermost ops first: the rule of a reduction reads the body as it was written."""
        for block in region.blocks:
            for op in list(block.operations):
                operation = op.operation
                known = any(value in self.quantized for value in (*operation.operands, *operation.results))
                if known and self.apply(op, self._rule):
                    continue
                for inner in operation.regions:
                    self.rewrite(inner)

    def _rule(self, op: ir.OpView) -> Results:
        if op.operation.name not in RULES:
            raise Unsupported("has no meaning on quantized tensors that this compiler knows", _REMEDY)
        return RULES[op.operation.name](op, self.quantized.get)

    def _take_place(self, result: ir.Value, replacement: ir.Value) -> None:
        quantized = self.quantized.pop(result, None)
        if quantized is not None:
            self.quantized[replacement] = quantized
        sharding.replace(result, replacement)

    def erase(self, op: ir.Operation) -> None:
        """Values are known by their address, which an op made later may get: they are forgotten."""
        for value in defined_values(op):
            self.quantized.pop(value, None)
        op.erase()
