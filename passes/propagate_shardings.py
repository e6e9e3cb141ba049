"""Shardings go from operands to results: forwards, along the dimensions that correspond.

Before::

    func.func @main(%x: tensor<8x4xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{\\"d\\"}, {}]>"}) -> tensor<4x8xf32> {
      %0 = "hlo.tanh"(%x) : ...
      %1 = "hlo.transpose"(%0) {permutation = array<i64: 1, 0>} : ...

After::

    func.func @main(%x: ... {hlo.sharding = "#sdy.sharding<@mesh, [{\\"d\\"}, {}]>"})
        -> (tensor<4x8xf32> {hlo.sharding = "#sdy.sharding<@mesh, [{}, {\\"d\\"}]>"}) {
      %0 = "hlo.tanh"(%x) {hlo.sharding = ["#sdy.sharding<@mesh, [{\\"d\\"}, {}]>"]} : ...
      %1 = "hlo.transpose"(%0) {hlo.sharding = ["#sdy.sharding<@mesh, [{}, {\\"d\\"}]>"], ...} : ...

Which dimensions correspond, the factors of an op say (dialect/ops/factors.py). What an op or a result of `@main` says
already stays, but for dimensions that it leaves open (`{?}`): these are sharded further. Where operands disagree the
first has its way, and an axis goes along one dimension only. A dimension whose size the devices do not divide is not
sharded. Nothing goes backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.dialect.attributes import SHARDING
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.ops.factors import Dimension, Factors, factors_of
from stablehlo_py.dialect.sharding import annotate, is_sharded, meshes_of, shardings_of, shardings_of_values
from stablehlo_py.dialect.sharding_text import Axes, Sharding, filled, leaves_open, read_mesh, read_sharding
from stablehlo_py.dialect.types import entries
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.base import Pass

_CONTROL_FLOW = ("scf.while", "scf.if", "scf.index_switch")


@dataclass(frozen=True)
class PropagateShardings(Pass):
    """Let values that say nothing be sharded as what they are computed from."""

    name: ClassVar[str] = "propagate-shardings"

    def run(self, module: ir.Module) -> None:
        """Nothing to do for a module without any."""
        if not is_sharded(module):
            return
        main = main_function(module).operation
        block = main.regions[0].blocks[0]
        meshes = meshes_of(module)
        known: dict[ir.Value, Sharding] = {}
        texts = shardings_of_values(main, "arg_attrs", len(block.arguments))
        _note(known, block.arguments, texts)
        last = _follow(block, known, meshes)
        _annotate_results(main, last, known, meshes)


def _follow(block: ir.Block, known: dict[ir.Value, Sharding], meshes: Mapping[str, str]) -> ir.Operation:
    """Note and write the shardings of a block's values; its terminator."""
    *ops, last = [view.operation for view in block.operations]
    for op in ops:
        said = shardings_of(op)
        found = said
        if any(map(leaves_open, said)):
            proposed = (
                _of_control_flow(op, known, meshes) if op.name in _CONTROL_FLOW else _of_results(op, known, meshes)
            )
            found = [_chosen(*each) for each in zip(said, proposed, strict=True)]
        if any(found):
            annotate(op, found)
            _note(known, op.results, found)
    return last


def _of_control_flow(
    op: ir.Operation, known: dict[ir.Value, Sharding], meshes: Mapping[str, str]
) -> list[Sharding | None]:
    """Results of a loop are what its operands were in the beginning, or else what the body gives; those of branches
    what the first one gives that says something."""
    found: list[Sharding | None] = [None] * len(op.results)
    if op.name == "scf.while":
        found = [known.get(operand) for operand in op.operands]
    for region in op.regions:
        (block,) = region.blocks
        for argument, sharding in zip(block.arguments, found, strict=False):
            if sharding is not None:
                known[argument] = sharding
        last = _follow(block, known, meshes)
        if last.name == "scf.yield":
            found = [each or known.get(value) for each, value in zip(found, last.operands, strict=True)]
    return found


def _chosen(text: str, proposed: Sharding | None) -> str:
    sharding = filled(text, proposed)
    return text if sharding is None or sharding == read_sharding(text) else str(sharding)


def _note(known: dict[ir.Value, Sharding], values: Iterable[ir.Value], texts: Iterable[str]) -> None:
    for value, text in zip(values, texts, strict=True):
        sharding = read_sharding(text)
        if sharding is not None and sharding.is_split:
            known[value] = sharding


def _of_results(
    op: ir.Operation, known: Mapping[ir.Value, Sharding], meshes: Mapping[str, str]
) -> list[Sharding | None]:
    """The shardings of results that follow from those of operands."""
    nothing: list[Sharding | None] = [None] * len(op.results)
    given = [known.get(operand) for operand in op.operands]
    mesh = next((each.mesh for each in given if each is not None), None)
    if mesh is None:
        return nothing
    factors = factors_of(op)
    if factors is None:
        return nothing
    count = read_mesh(mesh, meshes).count
    along: dict[int, Axes] = {}  # by factor
    used: set[str] = set()
    for tensor, sharding in zip(factors.operands, given, strict=True):
        if sharding is None or sharding.mesh != mesh:
            continue
        for dimension, axes in zip(tensor, sharding.dimensions, strict=True):
            number, names = _outermost(factors, dimension), {axis.name for axis in axes}
            if axes and number is not None and number not in along and not used & names:
                size = factors.factors[number].size
                if isinstance(size, int) and size % count(axes) == 0:
                    along[number] = axes
                    used |= names
    for position, tensor in enumerate(factors.results):
        dimensions = []
        for dimension, size in zip(tensor, op.results[position].type.shape, strict=True):
            number = _outermost(factors, dimension)
            axes = along.get(number, ()) if number is not None else ()
            dimensions.append(axes if size % count(axes) == 0 else ())
        if any(dimensions):
            nothing[position] = Sharding(mesh, tuple(dimensions))
    return nothing


def _outermost(factors: Factors, dimension: Dimension) -> int | None:
    """The slowest of the factors of a dimension that are loops at all."""
    return next((number for number in dimension if factors.factors[number].size != 1), None)


def _annotate_results(
    main: ir.Operation, last: ir.Operation, known: Mapping[ir.Value, Sharding], meshes: Mapping[str, str]
) -> None:
    """Say how the results of `@main` are sharded, unless that is said, or parts would be of different sizes."""
    described = list(main.attributes["res_attrs"]) if "res_attrs" in main.attributes else []
    described = described or [ir.DictAttr.get({})] * len(last.operands)
    texts = shardings_of_values(main, "res_attrs", len(last.operands))
    for number, value in enumerate(last.operands):
        text = _chosen(texts[number], known.get(value))
        sharding = read_sharding(text)
        if text != texts[number] and sharding is not None and _divides(sharding, value.type.shape, meshes):
            said = entries(described[number])
            described[number] = ir.DictAttr.get(said | {SHARDING: ir.StringAttr.get(text)})
    main.attributes["res_attrs"] = ir.ArrayAttr.get(described)


def _divides(sharding: Sharding, sizes: Sequence[int], meshes: Mapping[str, str]) -> bool:
    count = read_mesh(sharding.mesh, meshes).count
    return all(size % count(axes) == 0 for size, axes in zip(sizes, sharding.dimensions, strict=True))
