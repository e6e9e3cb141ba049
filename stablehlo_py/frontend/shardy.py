"""Shardy set aside: a module with `sdy` ops or attributes -> the same program for one device.

jax.export writes sharding annotations in Shardy's dialect, at least a rule on every LAPACK call. The MLIR wheel that
compiles has no such dialect and refuses those modules. jaxlib's copy of MLIR has it: there the module is parsed and
stripped, and it is handed over as bytes (objects of the two copies never meet). Shardings stay, as text, in the form of
`dialect/sharding.py`:

    sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>  of an argument     hlo.sharding = "#sdy.sharding<@mesh, [{\\"x\\"}]>"
    sdy.sharding = #sdy.sharding_per_value<[...]> of an op           hlo.sharding = ["...", ...]
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}]>                 %1 = stablehlo.custom_call @Sharding(%0)
                                                                          {hlo.sharding = ["..."]}

A collective that names its groups by axes of a mesh (JAX since 0.11) lists them instead: the mesh goes.

Shardings say where values live, not what they are, so the program computes the same without them. Two ops hold more:
`sdy.manual_computation` (jax.shard_map) states what one device of many does; its body is inlined, between marks where
values become shards and whole again (`shards`), and the program is for a grid of processes, which all run it on whole
arrays.
`sdy.named_computation` is a call, and inlined.
"""

from __future__ import annotations

import importlib.util
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from stablehlo_py.dialect.attributes import PARTITIONS, REPLICATED, SHARDING, SHARDING_RULE
from stablehlo_py.dialect.context import ContextPool
from stablehlo_py.dialect.edit import inline_block, replace_op
from stablehlo_py.dialect.locations import describe
from stablehlo_py.dialect.sharding import declare_meshes
from stablehlo_py.dialect.sharding_text import Axis, read_mesh
from stablehlo_py.errors import LoadError, UnsupportedError
from stablehlo_py.frontend.diagnostics import load_error
from stablehlo_py.frontend.placement import groups_of_axes
from stablehlo_py.frontend.shards import TO_FULL, TO_SHARD, marked
from stablehlo_py.frontend.source import Format, Source, bytecode_version
from stablehlo_py.frontend.text import parse_text
from stablehlo_py.mlir import heard, ir, message_of, stablehlo

# One operand, one result, and on one device the same value.
_IDENTITIES = frozenset(
    {
        "sdy.all_gather",
        "sdy.all_slice",
        "sdy.all_to_all",
        "sdy.collective_permute",
        "sdy.data_flow_edge",
        "sdy.func_data_flow_edge",
        "sdy.propagation_barrier",
        "sdy.reshard",
        "sdy.sharding_constraint",
    }
)
# Where such an op says how its result is sharded.
_SAYS = ("sharding", "out_sharding")
_INLINED = frozenset({"sdy.manual_computation", "sdy.named_computation"})
_DROPPED = frozenset({"sdy.mesh", "sdy.sharding_group"})
_GROUPS, _BY_AXES = "replica_groups", "#stablehlo.replica_group_mesh_axes<mesh = @"
_RULE = "sdy.sharding_rule"
_NAMED = re.compile(rb"sdy\.\w+")  # attributes, in bytecode, which names ops otherwise
_AXIS_SIZE = re.compile(r'"([^"]+)"\s*=\s*(\d+)')
_AXIS = re.compile(r'"([^"]+)"')
_MISSING = "pip install jaxlib (only its parser is used), or export without Shardy"


@dataclass(frozen=True)
class Stripped:
    """What `strip` found in a module: meshes by name; `manual`: whether computations on shards were in it, so that a
    grid of processes runs the program, on whole arrays; `sharded`: whether it has shardings."""

    meshes: dict[str, str]
    manual: bool
    sharded: bool


def can_strip() -> bool:
    """True when jaxlib is installed."""
    return importlib.util.find_spec("jaxlib") is not None


def attach(module: ir.Module, stripped: Stripped) -> None:
    """Keep `stripped` on the module; it survives printing and bytecode."""
    if stripped.sharded:
        declare_meshes(module, stripped.meshes)
    if stripped.manual:
        with module.context:
            module.operation.attributes[REPLICATED] = ir.UnitAttr.get()


def strip(source: Source) -> tuple[Source, Stripped]:
    """Parse with jaxlib's MLIR, make text of all of Shardy, and give the module back as bytes.

    Raises LoadError when jaxlib is not there or cannot read the module, UnsupportedError for shardings of computations
    on shards that `manual` does not know.
    """
    jaxlib_ir, dialects = _import_jaxlib(source)
    with _pool.lent(len(source.data)) as context:
        # In a function of its own: no module is left when the context goes to another program.
        return _strip_in(context, source, jaxlib_ir, dialects)


def _strip_in(context: Any, source: Source, jaxlib_ir: Any, dialects: dict[str, ModuleType]) -> tuple[Source, Stripped]:
    if _may_have_rules_alone(source):
        stripped = _without_rules(context, source, jaxlib_ir)
        if stripped is not None:
            return stripped, Stripped({}, manual=False, sharded=False)
    module = _parse(source, context, jaxlib_ir, dialects)
    stripper = _Stripper(jaxlib_ir, dialects["sdy"], dialects["stablehlo"])
    with context:
        stripper.run(module)
    return _serialize(source, module, stripper, dialects), Stripped(stripper.meshes, stripper.manual, stripper.sharded)


def _import_jaxlib(source: Source) -> tuple[Any, dict[str, ModuleType]]:
    try:
        from jaxlib.mlir import ir as jaxlib_ir

        return jaxlib_ir, _dialects()
    except ImportError as error:
        raise LoadError(
            "the module carries Shardy annotations, and jaxlib, which reads them, is not installed",
            location=source.name,
            remedy=_MISSING,
        ) from error


def _dialects() -> dict[str, ModuleType]:
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy
    from jaxlib.mlir.dialects import stablehlo as jaxlib_stablehlo

    return {"chlo": chlo, "mhlo": mhlo, "sdy": sdy, "stablehlo": jaxlib_stablehlo, "upstream": _jax_mlir_ext}


def _make_context() -> Any:
    """A context of jaxlib's, which takes 8 ms."""
    from jaxlib.mlir import ir as jaxlib_ir

    dialects = _dialects()
    context = jaxlib_ir.Context()
    context.enable_multithreading(False)
    registry = jaxlib_ir.DialectRegistry()
    dialects["upstream"].register_dialects(registry)  # func among them
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for name in ("sdy", "stablehlo", "chlo"):
        dialects[name].register_dialect(context)
    dialects["mhlo"].register_mhlo_dialect(context)
    dialects["stablehlo"].register_stablehlo_passes()
    return context


_pool = ContextPool(_make_context)
_legalizations: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # passes, by contexts


def _parse(source: Source, context: Any, jaxlib_ir: Any, dialects: dict[str, ModuleType]) -> Any:
    with heard(context, _Heard.copy) as collected:
        try:
            if source.format is Format.ARTIFACT:
                return _read_artifact(source.data, context, jaxlib_ir, dialects["stablehlo"])
            if source.format is Format.TEXT:
                return parse_text(jaxlib_ir, source.data.decode(), source.name, context)
            return jaxlib_ir.Module.parse(source.data, context)
        except (jaxlib_ir.MLIRError, ValueError) as error:
            carried = [_Heard.copy(each) for each in getattr(error, "error_diagnostics", ())]
            raise load_error(source, carried + collected or [_Heard(str(error), "")]) from None


def _read_artifact(data: bytes, context: Any, jaxlib_ir: Any, stablehlo_: ModuleType) -> Any:
    """As `deserialize_portable_artifact`, which makes all of VHLO's rewrites for each module: it reads what holds ops
    of older forms."""
    if context not in _legalizations:
        from jaxlib.mlir.passmanager import PassManager

        pipeline = "builtin.module(vhlo-legalize-to-stablehlo)"
        _legalizations[context] = PassManager.parse(pipeline, context=context)
    with heard(context, _Heard.copy):  # what is wrong is found again
        try:
            module = jaxlib_ir.Module.parse(data, context)
            _legalizations[context].run(module.operation)
            return module
        except jaxlib_ir.MLIRError:
            pass
    return stablehlo_.deserialize_portable_artifact(context, data)


def _may_have_rules_alone(source: Source) -> bool:
    """Whether an artifact seems to have sharding rules, as every LAPACK call of JAX, and no more of Shardy."""
    if source.format is not Format.ARTIFACT or _GROUPS.encode() in source.data:
        return False
    return set(_NAMED.findall(source.data)) == {_RULE.encode()}


def _without_rules(context: Any, source: Source, jaxlib_ir: Any) -> Source | None:
    """An artifact with its rules as text, in VHLO as it came: legalizing it, and making an artifact again, takes twice
    the time of all the rest. None: it cannot be read so, or has ops of Shardy."""
    with heard(context, _Heard.copy):  # what is wrong is found again
        try:
            module = jaxlib_ir.Module.parse(source.data, context)
        except jaxlib_ir.MLIRError:
            return None
    ruled, others = [], []

    def sort(op: Any) -> Any:
        operation = op.operation
        if operation.name.startswith("sdy."):
            others.append(operation)
        elif _RULE in operation.attributes:
            ruled.append(operation)
        return jaxlib_ir.WalkResult.ADVANCE

    module.operation.walk(sort)
    if others:
        return None
    with context:
        for operation in ruled:
            operation.attributes[SHARDING_RULE] = jaxlib_ir.StringAttr.get(str(operation.attributes[_RULE]))
            del operation.attributes[_RULE]
    data = io.BytesIO()
    module.operation.write_bytecode(data, desired_version=bytecode_version(source.data))
    return replace(source, data=data.getvalue())


@dataclass(frozen=True)
class _Heard:
    message: str
    location: str

    @staticmethod
    def copy(diagnostic: Any) -> _Heard:
        return _Heard(message_of(diagnostic), str(diagnostic.location))


def _serialize(source: Source, module: Any, stripper: _Stripper, dialects: dict[str, ModuleType]) -> Source:
    """The module in a form that any two versions agree on: a portable artifact, or generic text when it holds CHLO or
    another dialect that artifacts do not carry. MLIR's bytecode differs between versions."""
    if stripper.dialects <= {"builtin", "func", "stablehlo"}:
        version = dialects["stablehlo"].get_smaller_version(
            dialects["stablehlo"].get_current_version(), stablehlo.get_current_version()
        )
        data = dialects["stablehlo"].serialize_portable_artifact(module, version)
        return replace(source, data=data, format=Format.ARTIFACT)
    text = module.operation.get_asm(binary=True, enable_debug_info=True, print_generic_op_form=True)
    return replace(source, data=text, format=Format.TEXT)


class _Stripper:
    """Walks one jaxlib module and removes Shardy; `meshes` are those it has, `manual` tells whether processes work on
    shards, `sharded` whether anything has a sharding, `dialects` those of the ops that stay."""

    def __init__(self, jaxlib_ir: Any, sdy: ModuleType, stablehlo_: ModuleType) -> None:
        self.ir, self.sdy, self._stablehlo = jaxlib_ir, sdy, stablehlo_
        self.meshes: dict[str, str] = {}
        self.manual = False
        self._partitions = 1
        self.sharded = False
        self.sizes: dict[str, int] = {}
        self.dialects: set[str] = set()

    def run(self, module: Any) -> None:
        """Strip the module in place."""
        operations: list[Any] = []

        def collect(op: Any) -> Any:
            operations.append(op.operation)
            return self.ir.WalkResult.ADVANCE

        # Post-order, so that a computation is stripped before it is inlined. The list is complete before anything
        # changes.
        module.operation.walk(collect, self.ir.WalkOrder.POST_ORDER)
        for op in operations:
            if op.name == "sdy.mesh":
                self._mesh(op)
        attributes = module.operation.attributes
        if PARTITIONS in attributes:
            self._partitions = attributes[PARTITIONS].value
        for op in operations:
            dialect = op.name.partition(".")[0]
            if dialect == "sdy":
                self._remove(op)
            else:
                self.dialects.add(dialect)
                self._strip_attributes(op)
        if self.manual:
            attributes[PARTITIONS] = self.ir.IntegerAttr.get(self.ir.IntegerType.get_signless(32), self._partitions)

    def _mesh(self, op: Any) -> None:
        text = str(op.attributes["mesh"])
        self.meshes[op.attributes["sym_name"].value] = text
        size = math.prod(int(number) for _, number in _AXIS_SIZE.findall(text))
        self._partitions = max(self._partitions, size)  # unless the module says how many there are
        self._note_sizes(text)

    def _note_sizes(self, text: str) -> None:
        for axis, size in _AXIS_SIZE.findall(text):
            self.sizes[axis] = max(int(size), self.sizes.get(axis, 1))

    def _remove(self, op: Any) -> None:
        same = [operand.type for operand in op.operands] == [result.type for result in op.results]
        if op.name == "sdy.return":
            return  # goes with its computation
        if op.name in _DROPPED:
            op.erase()
        elif op.name in _IDENTITIES and same:
            replace_op(op, [self._constrained(op)])
        elif op.name in _INLINED:
            self._inline(op)
        elif op.name == "sdy.constant":
            self._constant(op)
        else:
            raise UnsupportedError(
                "this op of Shardy is for several devices",
                location=describe(op.location),
                op=op.name,
                remedy="export the model before sharding propagation, or for one device",
            )

    def _inline(self, op: Any) -> None:
        manual = op.name == "sdy.manual_computation" and self._is_split(op)
        block, operands = op.regions[0].blocks[0], list(op.operands)
        if manual:
            operands = self._marked(op, TO_SHARD, operands, [each.type for each in block.arguments], "in_shardings")
        values = inline_block(block, operands, op)
        if manual:
            values = self._marked(op, TO_FULL, values, [each.type for each in op.results], "out_shardings")
        replace_op(op, values)
        self.manual = self.manual or manual

    def _marked(self, op: Any, target: str, values: Sequence[Any], types: Sequence[Any], name: str) -> list[Any]:
        """Values that go in or out of a computation on shards, marked before it."""
        axes = [str(axis).strip('"') for axis in self.sdy.ManualAxesAttr(op.attributes["manual_axes"])]
        shardings = self.sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings
        self.dialects.add("stablehlo")
        self.sharded, made = True, []
        with op.location, self.ir.InsertionPoint(op):
            for value, type_, sharding in zip(values, types, shardings, strict=True):
                if isinstance(type_, self.ir.RankedTensorType):
                    value = marked(self.ir, target, value, type_, str(sharding), axes)
                    if target == TO_FULL:
                        value.owner.attributes[SHARDING] = self._texts([sharding])
                made.append(value)
        return made

    def _is_split(self, op: Any) -> bool:
        for name in ("in_shardings", "out_shardings"):
            self._note_sizes(str(op.attributes[name]))  # a mesh may be written in place
        axes = _AXIS.findall(str(op.attributes["manual_axes"]))
        return any(self.sizes.get(axis, 1) != 1 for axis in axes)

    def _constant(self, op: Any) -> None:
        attributes = {"value": op.attributes["value"]}
        replace_op(op, [self._created(op, "stablehlo.constant", op.results[0].type, [], attributes)])

    def _constrained(self, op: Any) -> Any:
        """The operand of an op that is an identity, sharded as the op says."""
        (operand,) = op.operands
        sharding = next((op.attributes[name] for name in _SAYS if name in op.attributes), None)
        if sharding is None:
            return operand
        self.dialects.add("stablehlo")
        attributes = {"call_target_name": self.ir.StringAttr.get("Sharding"), SHARDING: self._texts([sharding])}
        return self._created(op, "stablehlo.custom_call", operand.type, [operand], attributes)

    def _created(self, op: Any, name: str, type_: Any, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """The result of a new op before another one."""
        point = self.ir.InsertionPoint(op)
        return self.ir.Operation.create(name, [type_], operands, attributes, loc=op.location, ip=point).results[0]

    def _texts(self, shardings: Sequence[Any]) -> Any:
        self.sharded = True
        return self.ir.ArrayAttr.get([self.ir.StringAttr.get(str(sharding)) for sharding in shardings])

    def _strip_attributes(self, op: Any) -> None:
        for name in self._names(op.attributes):
            if not name.startswith("sdy."):
                continue
            attribute = op.attributes[name]
            if name == "sdy.sharding":
                op.attributes[SHARDING] = self._texts(self.sdy.TensorShardingPerValueAttr(attribute).shardings)
            elif name == _RULE:  # of no use without shardings
                op.attributes[SHARDING_RULE] = self.ir.StringAttr.get(str(attribute))
            del op.attributes[name]
        if _GROUPS in op.attributes and str(op.attributes[_GROUPS]).startswith(_BY_AXES):
            op.attributes[_GROUPS] = self._listed(op.attributes[_GROUPS])
        if op.name == "func.func":
            self._strip_values(op, "arg_attrs")
            self._strip_values(op, "res_attrs")

    def _listed(self, groups: Any) -> Any:
        """The groups of a ReplicaGroupMeshAxesAttr, in rows."""
        by_axes = self._stablehlo.ReplicaGroupMeshAxesAttr(groups)
        axes = []
        for each in by_axes.axes:
            axis = self._stablehlo.AxisRefAttr(each)
            part = axis.sub_axis_info
            part = None if part is None else self._stablehlo.SubAxisInfoAttr(part)
            axes.append(Axis(axis.name, part.pre_size, part.size) if part else Axis(axis.name))
        rows = groups_of_axes(read_mesh(str(by_axes.mesh), self.meshes), axes)
        return self.ir.DenseElementsAttr.get(np.ascontiguousarray(rows, np.int64))

    def _strip_values(self, function: Any, attribute: str) -> None:
        """Per-argument or per-result attributes: an array of dictionaries."""
        if attribute not in function.attributes:
            return
        kept = []
        for each in function.attributes[attribute]:
            named = {name: each[name] for name in self._names(each)}
            for name in [name for name in named if name.startswith("sdy.")]:
                value = named.pop(name)
                if name == "sdy.sharding":
                    (named[SHARDING],) = self._texts([value])
            kept.append(self.ir.DictAttr.get(named))
        function.attributes[attribute] = self.ir.ArrayAttr.get(kept)

    @staticmethod
    def _names(attributes: Any) -> list[str]:
        # Iteration gives names or NamedAttributes, depending on jaxlib's version.
        return [getattr(each, "name", each) for each in attributes]
