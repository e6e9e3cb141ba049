"""What a module says of the program that a backend makes of it: specs, constants, donations, the process grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stablehlo_py.dialect.attributes import (
    BARRIERS,
    CHANNELS,
    DONATIONS,
    PORTS,
    PROCESS,
    QUANTIZED,
    RANDOM_SITES,
    REPLICATED,
    RESULT_INFO,
)
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.constants import constant_value, numpy_dtype
from stablehlo_py.dialect.grid import grid_of_module
from stablehlo_py.dialect.memory import CONSTANT, slices_of
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.dialect.types import element_type, i64s, shape, user_location
from stablehlo_py.errors import Problem
from stablehlo_py.frontend.jax_export import leaves_of
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime.program import CompiledProgram, GridPlan, Port, Spec
from stablehlo_py.runtime.quantization import Quantization


def describe(
    module: ir.Module, backend: str, target: str, options: Options, sites: Sequence[str] = ()
) -> CompiledProgram:
    """The program of a module without its code, for one thread and without memory of its own; `sites` are the ops that
    communicate, as messages call them. What buffer assignment decides is there once it has."""
    main = main_function(module)
    return CompiledProgram(
        backend=backend,
        target=target,
        inputs=_inputs(main),
        outputs=_outputs(main),
        objects=[],
        constants=_constants(main),
        donations=_donations(module),
        arena_bytes=0,
        uses_pool=False,
        threads=1,
        grid=_grid_plan(module, main, options, sites),
        leaves=leaves_of(module),
    )


def results_of(main: ir.OpView) -> list[ir.Type]:
    """The types of the entry's results."""
    return list(ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results)


def takes_process(main: ir.OpView) -> bool:
    """Whether the entry's last argument is the process that runs (what communicates reads it)."""
    if "arg_attrs" not in main.attributes:
        return False
    described = main.attributes["arg_attrs"]
    return len(described) > 0 and PROCESS in described[len(described) - 1]


def is_grid(module: ir.Module) -> bool:
    """Whether the program runs as several processes, or exchanges data while it runs."""
    return grid_of_module(module.operation).processes > 1 or takes_process(main_function(module))


def everywhere(module: ir.Module, failures: Mapping[str, Sequence[Problem]]) -> list[Problem]:
    """A problem for every call of the fusions that failed, at the user's line: equal fusions are one function."""
    problems: dict[Problem, None] = {}
    seen: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.attributes["callee"].value if op.name == "func.call" else ""
        if name in failures:
            place = user_location(op.location)
            for problem in failures[name]:
                # The op's own line is the finer one, but it is that of the first of equal fusions.
                first = name not in seen and problem.location is not None
                problems[problem if first else replace(problem, location=place)] = None
            seen.add(name)
        return ir.WalkResult.ADVANCE

    main_function(module).operation.walk(visit)
    return list(problems)


def _inputs(main: ir.OpView) -> tuple[Spec, ...]:
    """Specs of the arguments of a call, named as in the model where it says."""
    specs = []
    arguments = list(main.regions[0].blocks[0].arguments)
    described = _described(main, "arg_attrs", len(arguments))
    for number, (argument, attributes) in enumerate(zip(arguments, described, strict=True)):
        name = user_location(argument.location) or ""
        name = name if name and ":" not in name else f"arg{number}"
        specs.append(Spec(name, *_shape_dtype(argument.type), _quantization(attributes)))
    return tuple(specs[: -1 if takes_process(main) else None])


def _outputs(main: ir.OpView) -> tuple[Spec, ...]:
    """Specs of the results of a call."""
    results, specs = results_of(main), []
    for number, (type_, described) in enumerate(zip(results, _described(main, "res_attrs", len(results)), strict=True)):
        name = (described[RESULT_INFO].value if RESULT_INFO in described else "") or f"result{number}"
        specs.append(Spec(name, *_shape_dtype(type_), _quantization(described)))
    return tuple(specs)


def _described(main: ir.OpView, name: str, count: int) -> Sequence[Mapping[str, ir.Attribute]]:
    """What a function says of each of its arguments, or of its results."""
    return list(main.attributes[name]) if name in main.attributes else [{}] * count


def _quantization(described: Mapping[str, ir.Attribute]) -> Quantization | None:
    """How an argument or a result was quantized (legalize/quantized/driver.py keeps it)."""
    quantized = quantized_of(ir.TypeAttr(described[QUANTIZED]).value) if QUANTIZED in described else None
    return Quantization.of(quantized) if quantized else None


def _shape_dtype(type_: ir.Type) -> tuple[tuple[int | None, ...], np.dtype]:
    sizes = tuple(size if isinstance(size, int) else None for size in shape(type_))
    return sizes, numpy_dtype(element_type(type_))


def describe_constants(module: ir.Module) -> list[np.ndarray]:
    """The constants that a program of the module reads, by number."""
    return _constants(main_function(module))


def _constants(main: ir.OpView) -> list[np.ndarray]:
    """Arrays of the constant space, by number."""
    found: dict[int, np.ndarray] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        places = slices_of(op) if op.name == "hlo.constant" else []
        found.update(
            {at.number: constant_value(op) for at in places if at.space == CONSTANT and at.number not in found}
        )
        return ir.WalkResult.ADVANCE

    main.operation.walk(visit)
    return [found.get(number, np.zeros(0, np.uint8)) for number in range(max(found, default=-1) + 1)]


def _donations(module: ir.Module) -> tuple[tuple[int, int], ...]:
    if DONATIONS not in module.operation.attributes:
        return ()
    numbers = i64s(module.operation, DONATIONS)
    return tuple((numbers[i + 1], numbers[i]) for i in range(0, len(numbers), 2))


def _grid_plan(module: ir.Module, main: ir.OpView, options: Options, sites: Sequence[str]) -> GridPlan | None:
    grid, communicates = grid_of_module(module.operation), takes_process(main)
    asked_for = (options.num_replicas or 1) * (options.num_partitions or 1) > 1
    if not communicates and not asked_for:
        return None  # exports say for how many devices they are, also where one computes everything
    return GridPlan(
        grid.replicas,
        grid.partitions,
        communicates,
        whole=REPLICATED in module.operation.attributes,
        barriers=len(main.attributes[BARRIERS]) if BARRIERS in main.attributes else 0,
        channels=len(main.attributes[CHANNELS]) if CHANNELS in main.attributes else 0,
        random_sites=main.attributes[RANDOM_SITES].value if RANDOM_SITES in main.attributes else 0,
        ports=tuple(map(_port, main.attributes[PORTS])) if PORTS in main.attributes else (),
        sites=tuple(sites),
    )


def _port(described: ir.DictAttr) -> Port:
    read = {name: described[name].value for name in ("kind", "channel", "part", "parts", "site", "type")}
    return Port(spec=Spec(f"part {read['part']}", *_shape_dtype(read.pop("type"))), **read)
