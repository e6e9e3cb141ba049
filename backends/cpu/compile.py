"""A scheduled module becomes object files of native code.

The order of work, as a table of contents: `compile_module` generates one kernel per distinct fusion, compiling on
other threads as it goes, then the program that calls them, and describes the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stablehlo_py import progress
from stablehlo_py.backends.cpu.kernels import emit_kernel
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.objects import ObjectCompiler, Unit, compile_units, render
from stablehlo_py.backends.cpu.program import ENTRY, Program, arena_bytes, emit_program
from stablehlo_py.backends.cpu.signature import sign
from stablehlo_py.backends.cpu.sizes import emit_sizes
from stablehlo_py.backends.cpu.symbols import outside
from stablehlo_py.backends.cpu.target import CpuTarget, required_features
from stablehlo_py.codegen.builder import Function
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.dialect.attributes import (
    BARRIERS,
    CHANNELS,
    CHECKS,
    DONATIONS,
    FUSION,
    PORTS,
    PROCESS,
    QUANTIZED,
    RANDOM_SITES,
    RESULT_INFO,
    WHOLE,
)
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.constants import constant_value, numpy_dtype
from stablehlo_py.dialect.grid import grid_of_module
from stablehlo_py.dialect.memory import CONSTANT, slices_of
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.dialect.size import SPECIALIZE, Number, is_known
from stablehlo_py.dialect.types import element_type, i64s, shape, user_location
from stablehlo_py.errors import Problem, UnsupportedError
from stablehlo_py.frontend.jax_export import leaves_of
from stablehlo_py.interrupts import checkpoint
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.passes.symbolic.checks import checks_of
from stablehlo_py.runtime.memory import require
from stablehlo_py.runtime.program import CompiledProgram, DynamicLayout, GridPlan, Port, Spec
from stablehlo_py.runtime.quantization import Quantization


def lower(module: ir.Module, stop: str, target: CpuTarget, options: Options) -> str:
    """Text of `kernels`, `llvm` or `object`."""
    from stablehlo_py.backends.cpu import listing

    sizes = _size_table(module)
    units, kernels = _kernels(module, target, sizes)
    program = emit_program(module, kernels, options.thread_count, sizes)
    units += _program_units(program, target)
    if sizes is not None:
        units.append(_sizes_unit(emit_sizes(sizes, _output_sizes(module), program.arena_bytes, [])[0]))
    text = render(units)
    if stop == "kernels":
        return text
    progress.at("LLVM")
    return listing.llvm_ir(text) if stop == "llvm" else listing.disassembly([compile_units(units)])


def compile_module(module: ir.Module, backend: str, target: CpuTarget, options: Options) -> CompiledProgram:
    """Generate and compile everything that a call will run.

    Raises:
        UnsupportedError: naming every fusion without a kernel.
        ResourceError: the arena exceeds the machine's memory.
    """
    sizes = _size_table(module)
    if sizes is not None and _is_grid(module):
        raise UnsupportedError("a grid of processes has no program for all shapes", remedy=SPECIALIZE)
    if sizes is None:
        require(arena_bytes(module), "the arena of this model")
    layout = None
    compiler = ObjectCompiler(options.thread_count)
    try:
        units, kernels = _kernels(module, target, sizes, compiler)
        program = emit_program(module, kernels, options.thread_count, sizes)
        entries = _program_units(program, target)
        if sizes is not None:
            checks = [*checks_of(module), *(check for kernel in kernels.values() for check in kernel.checks)]
            function, layout = emit_sizes(sizes, _output_sizes(module), program.arena_bytes, checks)
            entries.append(_sizes_unit(function))
        units += entries
        made = _described(module, backend, program, layout, units, target, options)
        entries[0] = replace(entries[0], text=f"{sign(made)}\n{entries[0].text}")
        for unit in entries:
            compiler.add(unit)
    except BaseException:
        compiler.abandon()
        raise
    progress.at("machine code")
    made.objects = compiler.finish()
    made.report = _report(module, kernels, program, made.objects, options)
    return made


def _described(
    module: ir.Module,
    backend: str,
    program: Program,
    layout: DynamicLayout | None,
    units: list[Unit],
    target: CpuTarget,
    options: Options,
) -> CompiledProgram:
    """The program without its object files."""
    main = main_function(module)
    return CompiledProgram(
        backend=backend,
        target=target.name,
        features=required_features(target),
        inputs=input_specs(main)[: -1 if takes_process(main) else None],
        outputs=output_specs(main),
        objects=[],
        symbols=_outside_symbols(units),
        constants=constants_of(main),
        donations=_donations(module),
        arena_bytes=0 if layout else program.arena_bytes,
        uses_pool=program.uses_pool,
        loops=program.loops,
        threads=options.thread_count,
        stages={"kernels": render(units)},
        grid=_grid_plan(module, main, program, options),
        dynamic=layout,
        leaves=leaves_of(module),
    )


def _kernels(
    module: ir.Module,
    target: CpuTarget,
    sizes: SizeTable | None = None,
    compiler: ObjectCompiler | None = None,
) -> tuple[list[Unit], dict[str, Kernel]]:
    kernels: dict[str, Kernel] = {}
    units: list[Unit] = []
    failures: dict[str, Sequence[Problem]] = {}
    fusions = [function for function in module.body.operations if FUSION in function.attributes]
    for number, function in enumerate(fusions):
        checkpoint()
        progress.at("kernels", number, len(fusions))
        name = function.attributes["sym_name"].value
        try:
            kernel = kernels[name] = emit_kernel(function, target, sizes)
        except UnsupportedError as error:
            failures[name] = error.problems
            continue
        if not kernel.functions:  # nothing to do, as in a scatter of nothing
            continue
        externals = tuple((text.split("@")[1].split("(")[0], text) for text in kernel.externals)
        # A kernel's functions travel together: phases may call helpers of the same kernel.
        symbols = tuple(_symbol(text) for text in kernel.functions)
        units.append(Unit(symbols, "\n".join(kernel.functions), externals))
        if compiler:
            compiler.add(units[-1])
    if failures:
        problems = _everywhere(module, failures)
        what = "1 part of the model has" if len(problems) == 1 else f"{len(problems)} parts of the model have"
        raise UnsupportedError(f"{what} no CPU kernel", problems=problems)
    return units, kernels


def _program_units(program: Program, target: CpuTarget) -> list[Unit]:
    text = program.text(target.function_attributes)
    return [Unit((ENTRY,), text, tuple(program.externals().items()))]


def _is_grid(module: ir.Module) -> bool:
    grid = grid_of_module(module.operation)
    return grid.replicas * grid.partitions > 1 or takes_process(main_function(module))


def _size_table(module: ir.Module) -> SizeTable | None:
    """A new table of sizes for a module with dynamic dimensions."""
    return SizeTable() if CHECKS in module.operation.attributes else None


def _sizes_unit(function: Function) -> Unit:
    return Unit((function.name,), function.text(), tuple(function.declarations().items()))


def _output_sizes(module: ir.Module) -> list[tuple[Number, ...]]:
    results = ir.FunctionType(ir.TypeAttr(main_function(module).attributes["function_type"]).value).results
    return [shape(type_) for type_ in results]


def _everywhere(module: ir.Module, failures: Mapping[str, Sequence[Problem]]) -> list[Problem]:
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


def _outside_symbols(units: list[Unit]) -> tuple[str, ...]:
    return tuple(sorted({name for unit in units for name, _ in unit.externals if outside(name)}))


def _symbol(text: str) -> str:
    return text.split("@", 1)[1].split("(", 1)[0]


def input_specs(main: ir.OpView) -> tuple[Spec, ...]:
    """Specs of the entry's arguments, named as in the model where it says."""
    specs = []
    for number, argument in enumerate(main.regions[0].blocks[0].arguments):
        name = user_location(argument.location) or ""
        name = name if name and ":" not in name else f"arg{number}"
        specs.append(Spec(name, *_shape_dtype(argument.type), _quantization(main, "arg_attrs", number)))
    return tuple(specs)


def output_specs(main: ir.OpView) -> tuple[Spec, ...]:
    """Specs of the entry's results."""
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    names = [f"result{number}" for number in range(len(results))]
    if "res_attrs" in main.attributes:
        for number, described in enumerate(main.attributes["res_attrs"]):
            info = ir.DictAttr(described)
            if RESULT_INFO in info and info[RESULT_INFO].value:
                names[number] = info[RESULT_INFO].value
    return tuple(
        Spec(name, *_shape_dtype(type_), _quantization(main, "res_attrs", number))
        for number, (name, type_) in enumerate(zip(names, results, strict=True))
    )


def _quantization(main: ir.OpView, attributes: str, number: int) -> Quantization | None:
    """How an argument or a result was quantized (legalize/quantized/driver.py keeps it)."""
    described = ir.DictAttr(main.attributes[attributes][number]) if attributes in main.attributes else {}
    quantized = quantized_of(ir.TypeAttr(described[QUANTIZED]).value) if QUANTIZED in described else None
    return Quantization.of(quantized) if quantized else None


def _shape_dtype(type_: ir.Type) -> tuple[tuple[int | None, ...], np.dtype]:
    sizes = tuple(size if is_known(size) else None for size in shape(type_))
    return sizes, numpy_dtype(element_type(type_))


def constants_of(main: ir.OpView) -> list[np.ndarray]:
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


def takes_process(main: ir.OpView) -> bool:
    """Whether the entry's last argument is the process that runs (what communicates reads it)."""
    described = list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else []
    return bool(described) and PROCESS in described[-1]


def _grid_plan(module: ir.Module, main: ir.OpView, program: Program, options: Options) -> GridPlan | None:
    grid, communicates = grid_of_module(module.operation), takes_process(main)
    asked_for = (options.num_replicas or 1) * (options.num_partitions or 1) > 1
    if not communicates and not asked_for:
        return None  # exports say for how many devices they are, also where one computes everything
    return GridPlan(
        grid.replicas,
        grid.partitions,
        communicates,
        whole=WHOLE in module.operation.attributes,
        barriers=len(main.attributes[BARRIERS]) if BARRIERS in main.attributes else 0,
        channels=len(main.attributes[CHANNELS]) if CHANNELS in main.attributes else 0,
        random_sites=main.attributes[RANDOM_SITES].value if RANDOM_SITES in main.attributes else 0,
        ports=tuple(_port(described) for described in main.attributes[PORTS]) if PORTS in main.attributes else (),
        sites=tuple(program.sites),
    )


def _port(described: ir.DictAttr) -> Port:
    read = {name: described[name].value for name in ("kind", "channel", "part", "parts", "site", "type")}
    return Port(spec=Spec(f"part {read['part']}", *_shape_dtype(read.pop("type"))), **read)


def _report(
    module: ir.Module, kernels: dict[str, Kernel], program: Program, objects: list[bytes], options: Options
) -> str:
    kinds = Counter(f.attributes[FUSION].value for f in module.body.operations if FUSION in f.attributes)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return "\n".join(
        (
            f"kernels: {len(kernels)} distinct ({listed or 'none'})",
            f"code: {sum(map(len, objects)) / 1024:.0f} KiB in {len(objects)} object files",
            f"memory: {_mebibytes(program.arena_bytes)} for a call, "
            f"{program.private_bytes} bytes of it private to each thread",
            f"threads: {options.thread_count}, "
            + ("used by some phases" if program.uses_pool else "no phase is worth more than one"),
        )
    )


def _mebibytes(size: Number) -> str:
    return f"{size / 2**20:.2f} MiB" if is_known(size) else f"{size} bytes"
