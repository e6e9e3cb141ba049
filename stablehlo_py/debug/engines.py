"""What can run a module: this compiler, StableHLO's reference interpreter, and XLA through JAX.

An engine is a function of (module, inputs, settings) that returns the results of `@main`, or raises. Engines may end
their process (the interpreter does, where it cannot go on): `workers.py` runs them in child processes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from stablehlo_py.debug.ops import create
from stablehlo_py.debug.parts import run_in_parts
from stablehlo_py.debug.promotions import convert_all_operands
from stablehlo_py.debug.rewrites import rewrite_for_reference
from stablehlo_py.debug.settings import Settings, Source, context
from stablehlo_py.dialect.calls import MAIN, functions_of, new_function
from stablehlo_py.dialect.elements import complex_
from stablehlo_py.errors import ArgumentError, OptionError
from stablehlo_py.mlir import ir, run_upstream, stablehlo
from stablehlo_py.options import Options
from stablehlo_py.rules import Rules
from stablehlo_py.targets import DEFAULT_TARGET

Engine = Callable[[Source, Sequence[np.ndarray], Settings], list[np.ndarray]]
ENGINES: Rules[Engine] = Rules()
engine = ENGINES.rule
# Ops of programs that may take for ever and be right: they count, or wait for the host.
MAY_LAST = re.compile(r"stablehlo\.(while|infeed|outfeed|recv|send)\b")
# What `caller` asks for: elements of all arguments, processes, seconds that these wait for each other.
MOST_ELEMENTS, MOST_PROCESSES, GRID_S = 1 << 20, 16, 1.0
ORACLES = ("reference", "jax", "hlo", "opt0", "linalg")


def require_oracle(name: str) -> str:
    """The name, if it is that of an oracle. Raises OptionError otherwise."""
    if name not in ORACLES:
        raise OptionError(f"there is no oracle '{name}'", remedy=f"use {' or '.join(ORACLES)}")
    return name


def static_module(source: Source, inputs: Sequence[np.ndarray], entry: str | None = None) -> ir.Module:
    """The loaded module, its symbolic dimensions taken from the inputs. Raises what `load` and `specialize` raise."""
    from stablehlo_py.dialect.dynamic import is_symbolic
    from stablehlo_py.frontend.load import load
    from stablehlo_py.passes.symbolic.specialize import specialize

    module = load(source, entry=entry, context=context(), isolate=False)
    if is_symbolic(module):
        specialize(module, [array.shape for array in inputs])
    return module


@engine("ours")
def ours(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """This compiler."""
    for file in settings.pass_files:
        load_passes(file)
    executable = _compiled(settings.source or source, settings.entry, settings.target, settings.options)
    if settings.grid is None:
        return [result.copy() for result in executable(*inputs)]
    if not hasattr(executable, "call_grid"):
        raise ArgumentError("the program is one process, and no grid", remedy="run it without a grid")
    replicas, partitions = settings.grid
    each = len(inputs) // (replicas * partitions)
    parts = iter([inputs[begin : begin + each] for begin in range(0, each * replicas * partitions, each or 1)])
    arguments = [[next(parts, ()) for _ in range(partitions)] for _ in range(replicas)]
    rows = executable.call_grid(arguments)
    return [result.copy() for row in rows for results in row for result in results]


@lru_cache(maxsize=1)
def _compiled(source: Source, entry: str | None, target: str, options: Options) -> Any:
    """The executable of a source, the last one of which is kept: it may be called with other shapes."""
    import stablehlo_py
    from stablehlo_py.frontend.load import load

    return stablehlo_py.compile(
        load(source, entry=entry, context=context(), isolate=False), target=target, options=options
    )


@engine("compiler")
def compiler(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """This compiler as the API runs it by default, on a source that may be damaged; it gives no results."""
    import stablehlo_py

    stablehlo_py.compile(source, entry=settings.entry, options=settings.options)
    return []


@engine("caller")
def caller(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """`compiler`, and a call with random arguments, where few elements are asked for and nothing may last for ever. It
    gives no results, either."""
    import stablehlo_py
    from stablehlo_py.debug.random_arrays import random_array
    from stablehlo_py.runtime.grid import GridExecutable

    executable = stablehlo_py.compile(source, entry=settings.entry, options=settings.options)
    shapes = [tuple(3 if size is None else size for size in spec.shape) for spec in executable.inputs]
    may_last = MAY_LAST.search(source if isinstance(source, str) else source.decode(errors="replace"))
    if may_last or sum(math.prod(sizes) for sizes in shapes) > MOST_ELEMENTS:
        return []
    generator = np.random.default_rng(len(shapes))
    arrays = [random_array(generator, spec.dtype, sizes) for spec, sizes in zip(executable.inputs, shapes, strict=True)]
    if not isinstance(executable, GridExecutable):
        executable(*arrays)
    elif executable.num_replicas * executable.num_partitions <= MOST_PROCESSES:
        row = [arrays] * executable.num_partitions
        executable.call_grid([row] * executable.num_replicas, timeout=GRID_S)
    return []


@engine("opt0")
def opt0(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """This compiler at opt_level 0: nothing but what lowering needs."""
    options = Options(threads=1, opt_level=0, cache_dir=None)
    return ours(source, inputs, Settings(settings.entry, options))


@engine("linalg")
def linalg(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """Linalg, and upstream's passes behind it: nothing of our fusions, kernels and plans of memory."""
    options = Options(threads=1, opt_level=0, cache_dir=None)
    return ours(source, inputs, Settings(settings.entry, options, target="linalg"))


@engine("kernel")
def kernel(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """This compiler from the stage of fusions on (see `at_stage`): the source is a module at that stage."""
    from stablehlo_py.backends.base import get_backend
    from stablehlo_py.compiler import run_stages
    from stablehlo_py.runtime.loading import executable

    for file in settings.pass_files:
        load_passes(file)
    with context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        backend = get_backend(settings.target)
        run_stages(module, backend.module_stages[0], backend.module_stages[-1], settings.options, target=backend.name)
        program = backend.compile(module, settings.options)
    return [result.copy() for result in executable(program)(*inputs)]


@cache
def load_passes(file: str) -> None:
    """Make the passes of a Python file known to this process, once. Raises OptionError."""
    from stablehlo_py.passmanager.registry import load_pass_file

    load_pass_file(file)


# Stages whose program the interpreter of hlo can follow.
INTERPRETED_STAGES = ("hlo", "optimized", "fused")
# Iterations after which a loop of such a stage is given up.
MAX_STEPS = 1_000_000


def interpreted(stage: str) -> Engine:
    """An engine that compiles up to a stage, and evaluates that op by op in NumPy."""

    def run(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
        from stablehlo_py.debug.disturbed import Disturbed
        from stablehlo_py.dialect.interpret import Interpreter

        shapes = tuple(array.shape for array in inputs)
        module = at_stage(stage, source, shapes, settings.entry, settings.options, settings.pass_files, settings.target)
        with module.context, ir.Location.unknown(), np.errstate(all="ignore"):
            noise = settings.noise
            machine = Interpreter(module, MAX_STEPS) if noise is None else Disturbed(module, noise, MAX_STEPS)
            return [np.asarray(result) for result in machine.function(machine.functions["main"], inputs)]

    return run


@lru_cache(maxsize=1)
def at_stage(
    stage: str,
    source: Source,
    shapes: tuple[tuple[int, ...], ...],
    entry: str | None,
    options: Options,
    pass_files: tuple[str, ...],
    target: str = DEFAULT_TARGET,
) -> ir.Module:
    """A module of arguments of these shapes at a stage, the last one of which is kept for other inputs and errors.
    "fused" is the first stage of the backend's own, in which its fusions are."""
    from stablehlo_py.backends.base import get_backend
    from stablehlo_py.compiler import run_stages

    for file in pass_files:
        load_passes(file)
    module = static_module(source, [np.broadcast_to(np.int8(0), sizes) for sizes in shapes], entry)
    with module.context, ir.Location.unknown():
        stage = get_backend(target).module_stages[0] if stage == "fused" else stage
        run_stages(module, "", stage, options, target=target)
    return module


for _stage in INTERPRETED_STAGES:
    ENGINES[_stage] = interpreted(_stage)


@engine("reference")
def reference(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """StableHLO's reference interpreter. What it does not know is expanded by upstream's rules, or computed in NumPy
    (`numpy_ops.py`); what it gets wrong: `rewrites.py`."""
    module = static_module(source, inputs, settings.entry)
    with module.context, ir.Location.unknown():
        if "!quant" in str(module):
            run_upstream(module, "func.func(stablehlo-legalize-quant-to-math)")
        rewrite_for_reference(module)
        return run_in_parts(module, main_of(module), inputs, _interpret)


def _interpret(module: ir.Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """`@main` in the interpreter. Complex inputs and results, which its bindings cannot pass, travel as their parts."""
    from stablehlo_py.dialect.constants import element_type_of, from_numpy, to_numpy

    whole = split_complex_results(module)
    parts = split_complex_arguments(module)
    arrays = [array for array, split in zip(inputs, parts, strict=True) if not split]
    arrays += [
        np.array(part, order="C")
        for array, split in zip(inputs, parts, strict=True)
        if split
        for part in (array.real, array.imag)
    ]
    arguments = [from_numpy(array, element_type_of(array.dtype, module.context)) for array in arrays]
    results = iter([np.array(to_numpy(result)) for result in stablehlo.eval_module(module, arguments)])
    return [next(results) if not is_complex else complex_(next(results), next(results)) for is_complex in whole]


def _is_complex(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and isinstance(type_.element_type, ir.ComplexType)


def main_of(module: ir.Module) -> Any:
    """The function that runs: `@main`, or the only one."""
    functions = functions_of(module)
    return functions.get(MAIN) or next(iter(functions.values()))


def run_on_grid(module: ir.Module, replicas: int, partitions: int) -> int:
    """Give a module a `@main` that is its program on every process of a grid, for the interpreter: the arguments and
    results of one process after the other. Returns how many results a process has."""
    # Every process is a thread, and makes types: a context that is told of no threads takes no locks.
    module.context.enable_multithreading(True)
    program = main_of(module)
    program.attributes["sym_name"] = ir.StringAttr.get("program")
    signature = ir.FunctionType(ir.TypeAttr(program.attributes["function_type"]).value)
    count = replicas * partitions
    arguments, results = list(signature.inputs) * count, list(signature.results) * count
    block = new_function(MAIN, arguments, results, ir.InsertionPoint(module.body))
    row = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get("program")] * partitions)
    with ir.InsertionPoint(block):
        parallel = ir.Operation.create(
            "interpreter.run_parallel",
            results=results,
            operands=list(block.arguments),
            attributes={"programs": ir.ArrayAttr.get([row] * replicas)},
        )
        ir.Operation.create("func.return", operands=list(parallel.results))
    return len(signature.results)


def set_signature(main: Any) -> None:
    """Make the function's type that of its block's arguments and its terminator's operands."""
    block = main.regions[0].blocks[0]
    returned = list(block.operations)[-1].operands
    types = [argument.type for argument in block.arguments], [value.type for value in returned]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    for name in ("arg_attrs", "res_attrs"):
        if name in main.attributes:
            del main.attributes[name]


def split_complex_results(module: ir.Module) -> list[bool]:
    """Return a complex result of `@main` as its real and imaginary parts; says which results were complex."""
    main = main_of(module)
    last = list(main.regions[0].blocks[0].operations)[-1]
    split = [_is_complex(value.type) for value in last.operands]
    if any(split):
        values: list[ir.Value] = []
        point = ir.InsertionPoint(last)
        for value, is_complex in zip(last.operands, split, strict=True):
            if not is_complex:
                values.append(value)
                continue
            for part in ("real", "imag"):
                values.append(create(part, point, value))
        ir.Operation.create("func.return", operands=values, ip=point)
        last.operation.erase()
        set_signature(main)
    return split


def split_complex_arguments(module: ir.Module) -> list[bool]:
    """Take complex arguments of `@main` as their parts, after all other arguments; says which were complex."""
    main = main_of(module)
    block = main.regions[0].blocks[0]
    split = [_is_complex(argument.type) for argument in block.arguments]
    for argument in [each for each, is_complex in zip(block.arguments, split, strict=True) if is_complex]:
        part = ir.RankedTensorType.get(list(argument.type.shape), argument.type.element_type.element_type)
        parts = [block.add_argument(part, argument.location) for _ in range(2)]
        whole = create("complex", ir.InsertionPoint.at_block_begin(block), *parts)
        argument.replace_all_uses_with(whole)
    for number in reversed(range(len(split))):
        if split[number]:
            block.erase_argument(number)
    if any(split):
        set_signature(main)
    return split


# XLA may keep more bits between ops than their types have; the specification gives every op its own rounding.
_XLA_FLAGS = "--xla_allow_excess_precision=false"


@cache
def _xla() -> tuple[Any, Any, Any]:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_XLA_FLAGS}".strip()
    import jax
    from jaxlib import _jax as bindings
    from jaxlib import lapack, xla_client

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    lapack._lapack.initialize()  # without it a LAPACK call of a raw module ends the process
    device = jax.devices("cpu")[0]
    return device, bindings.DeviceList((device,)), xla_client.CompileOptions()


@engine("jax")
def jax_cpu(source: Source, inputs: Sequence[np.ndarray], settings: Settings) -> list[np.ndarray]:
    """XLA:CPU as jaxlib ships it, which like the interpreter knows no promotion in ops."""
    device, devices, options = _xla()
    import jax

    module = static_module(source, inputs, settings.entry)
    with module.context, ir.Location.unknown():
        convert_all_operands(module)
    text = str(module)
    executable = device.client.compile_and_load(text, devices, options)
    buffers = [jax.device_put(array, device) for array in inputs]
    shards = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(shard[0]) for shard in shards]
