"""Programs for several devices: each runs as a process of the compiler's process grid (docs/collectives.md). Arguments
and results are the parts that a device has (frontend/partition.py). Calls are native code (processes.py), unless the
program calls Python or draws random numbers: then each process has a thread for the call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import GridCode
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.sharding import is_sharded, shardings_of_values
from stablehlo_py.dialect.sharding_text import leaves_open
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.load import load_marked
from stablehlo_py.frontend.partition import partition
from stablehlo_py.frontend.shards import expand
from stablehlo_py.frontend.source import Source
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.options import Options
from stablehlo_py.passes.propagate_shardings import PropagateShardings
from stablehlo_py.pjrt.executable import Executable
from stablehlo_py.pjrt.options import CompileOptions
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.pjrt.signature import Layouts, make_physical
from stablehlo_py.runtime.grid_call import GridCall
from stablehlo_py.runtime.program import CompiledProgram
from stablehlo_py.runtime.random_keys import RandomKeys

_random_keys = RandomKeys()


def compile_for(
    source: Source, target: str, options: CompileOptions, wanted: Options, layouts: Layouts | None = None
) -> tuple[CompiledProgram, Shardings]:
    """The program that each of several devices runs, and how its arguments and results are sharded.

    Raises:
        UnsupportedError: a sharding is not known, or the program talks to the host while it runs. Otherwise as
            `stablehlo_py.compile`.
    """
    module = load_marked(source, make_context(), isolate=False)
    choose_result_shardings(module, target)
    made = partition(module)
    if layouts is not None:
        make_physical(module, layouts)
    grid = replace(wanted, num_replicas=options.replicas, num_partitions=options.partitions)
    program = compile_program(module, target=target, options=grid)
    assert program.grid is not None
    if program.grid.ports:
        raise UnsupportedError(
            f"{program.grid.ports[0].site} talks to the host",
            remedy="compile the program with stablehlo_py.compile, whose executables have streams",
        )
    return program, Shardings.of(made.arguments, made.results)


def choose_result_shardings(module: ir.Module, target: str) -> None:
    """Say how results of `@main` are sharded where JAX leaves it open: as what they are computed from."""
    main = main_function(module).operation
    count = len(ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results)
    if not is_sharded(module) or not any(map(leaves_open, shardings_of_values(main, "res_attrs", count))):
        return
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(bytecode(module))
        expand(copy)
        run_stages(copy, "", "hlo", target=target)
        PropagateShardings().run(copy)
        described = main_function(copy).operation.attributes["res_attrs"]
        if len(described) == count:  # legalization leaves out tokens
            main.attributes["res_attrs"] = described


def run(executable: Executable, inputs: Sequence[Sequence[int]], results: Sequence[Sequence[int]]) -> None:
    """A call: the addresses of each device's arguments and results. What a device raises is raised when all others have
    returned."""
    plan = executable.program.grid
    assert plan is not None
    keys = [0] * plan.processes
    if plan.random_sites:
        keys = _random_keys.of_next_call(plan.processes, alike=plan.replicas == 1)
    call = GridCall(cast(GridCode, executable.code), plan, {}, {}, keys)
    processes = zip(range(plan.processes), inputs, results, strict=True)
    call.wait_for([threading.Thread(target=call.run, args=each, daemon=True) for each in processes], None)
