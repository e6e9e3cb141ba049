"""From what JAX passes to a program: compiled for the platform, and what JAX said of its arguments and results."""

from __future__ import annotations

from dataclasses import replace

from stablehlo_py.api import compile_program
from stablehlo_py.backends.base import get_backend
from stablehlo_py.dialect.context import make_context
from stablehlo_py.frontend.load import load_source
from stablehlo_py.frontend.source import Source, read
from stablehlo_py.mlir import ir
from stablehlo_py.pjrt import grid
from stablehlo_py.pjrt.compiler_options import options_of
from stablehlo_py.pjrt.executable import Compiled
from stablehlo_py.pjrt.ffi import adopt
from stablehlo_py.pjrt.options import CompileOptions
from stablehlo_py.pjrt.places import Place
from stablehlo_py.pjrt.shardings import Shardings
from stablehlo_py.pjrt.signature import Layouts, asked_layouts, make_physical, memory_kinds, row_major


def compile_given(content: bytes, options: CompileOptions, target: str, place: Place) -> Compiled:
    """Compile StableHLO for the devices of the options, of which `place` is the first. Raises as
    `stablehlo_py.compile`; UnsupportedError: it asks for what arrays of the platform are not."""
    layouts = asked_layouts(content)
    source = replace(read(content), tokens=True)
    wanted = replace(options_of(options.content), device=place.number)
    adopt(get_backend(target).calls_functions_of)
    if options.processes > 1:
        program, shardings = grid.compile_for(source, target, options, wanted, layouts)
    else:
        given: Source | ir.Module = source
        if layouts is not None:
            given = load_source(source, make_context(), isolate=False).module
            make_physical(given, layouts)
        program, shardings = compile_program(given, target=target, options=wanted), Shardings()
    kinds = memory_kinds(content, place.memory_kinds) or (0,) * len(program.outputs)
    if layouts is None:
        ranks = ([len(spec.shape) for spec in specs] for specs in (program.inputs, program.outputs))
        layouts = Layouts(*(tuple(map(row_major, each)) for each in ranks))
    return Compiled(program, options, shardings, kinds, layouts)
