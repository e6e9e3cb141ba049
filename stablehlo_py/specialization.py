"""Modules with dynamic dimensions: one program for all shapes, and static ones for the shapes that are asked for
(docs/dynamic-shapes.md). The runtime calls them (runtime/symbolic.py); only this module compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py import forks
from stablehlo_py.backends.base import get_backend
from stablehlo_py.compiler import cache_entry, compile_cached, load_cached
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import lent_context
from stablehlo_py.dialect.dynamic import symbolic_inputs
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.dialect.types import element_type, user_location
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.frontend.jax_export import leaves_of
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.options import Options
from stablehlo_py.passes.symbolic.specialize import specialize
from stablehlo_py.runtime.buffer import Buffer, MemorySpace
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.loading import executable
from stablehlo_py.runtime.program import CompiledProgram, Spec
from stablehlo_py.runtime.quantization import Quantization
from stablehlo_py.runtime.random_keys import RandomKeys
from stablehlo_py.runtime.symbolic import Shapes, SymbolicExecutable

Values = tuple[tuple[int, int], ...]


def symbolic_executable(module: ir.Module, target: str, options: Options) -> SymbolicExecutable:
    """Compile a module with dynamic dimensions as options ask.

    Raises:
        UnsupportedError: they insist on one program for all shapes, and it cannot be had.
    """
    source = bytecode(module)
    program, reason = None, "Options(dynamic='specialize')"
    if options.dynamic != "specialize":
        try:
            program = compile_once(source, target, options)
        except UnsupportedError as error:
            if options.dynamic == "once":
                raise
            reason = str(error)
    specializations = Specializations(source, target, options)
    return SymbolicExecutable(*_specs(module), program, specializations, reason, leaves_of(module), options.device)


def compile_once(source: bytes, target: str, options: Options) -> CompiledProgram:
    """One program for all shapes of a module, from its bytecode.

    Raises:
        UnsupportedError: it cannot be had; every reason is named.
    """
    program = _compile(source, target, options, "all shapes", None)
    if program.dynamic is None:
        raise UnsupportedError(
            f"the backend '{target}' makes no programs for dynamic dimensions",
            remedy="leave out Options(dynamic='once'), or export the model with concrete shapes",
        )
    return program


@deferred()
def _compile(
    source: bytes, target: str, options: Options, variant: str, specialized: tuple[Shapes, Values] | None
) -> CompiledProgram:
    backend = get_backend(target)
    entry = cache_entry(source, backend, options, variant)
    program = load_cached(entry, options)
    if program is not None:
        return program
    with lent_context(len(source)) as context:
        return compile_cached(_module(source, context, specialized), backend, options, entry)


def _module(source: bytes, context: ir.Context, specialized: tuple[Shapes, Values] | None) -> ir.Module:
    with context:
        module = ir.Module.parse(source)
    if specialized is not None:
        shapes, values = specialized
        specialize(module, shapes, dict(values))
    return module


class Specializations:
    """The executables that were made; `len` of it is their number, loads from the cache included. They share
    `random_keys`."""

    def __init__(self, source: bytes, target: str, options: Options) -> None:
        self._source = source  # MLIR bytecode
        self._target = target
        self._options = options
        self._known: dict[tuple[Shapes, Values], Executable] = {}
        self._dimension_arguments: list[int] | None = None  # known once a specialization was made
        self._lock = forks.Lock()
        self.random_keys = RandomKeys()

    def __reduce__(self) -> tuple[object, ...]:
        return Specializations, (self._source, self._target, self._options)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, shapes: Shapes, values: Mapping[int, int]) -> Executable:
        """The executable for these input shapes, compiled at the first request. `values` are those of integer scalar
        arguments that hold dimensions, by argument number.

        Raises:
            ArgumentError: the shapes contradict the model's dimensions.
            UnsupportedError: shapes depend on data.
        """
        key = shapes, tuple(sorted(values.items()))
        with self._lock:
            if key not in self._known:
                program = _compile(self._source, self._target, self._options, repr(key), key)
                self._known[key] = executable(program, self._options.device)
                self._known[key].random_keys = self.random_keys
            return self._known[key]

    def memory(self) -> MemorySpace | None:
        """Where their inputs and results are, None: in the host's memory. Raises ResourceError."""
        return get_backend(self._target).memory(self._options.device)

    def for_call(self, arrays: Sequence[np.ndarray | Buffer]) -> Executable:
        """The executable for a call with these arguments, of which only integer scalars are read. Raises as `of`."""
        shapes = tuple(array.shape for array in arrays)
        if self._dimension_arguments is None:
            try:
                specialized = self.of(shapes, {})
            except UnsupportedError:
                scalars = [n for n, array in enumerate(arrays) if array.shape == () and array.dtype.kind in "iu"]
                if not scalars:
                    raise
                self._dimension_arguments = scalars
            else:
                self._dimension_arguments = []
                return specialized
        return self.of(shapes, {n: int(np.asarray(arrays[n])) for n in self._dimension_arguments})


def _specs(module: ir.Module) -> tuple[tuple[Spec, ...], tuple[Spec, ...]]:
    """Inputs and outputs of a module that was just loaded."""
    main = main_function(module)
    arguments = main.regions[0].blocks[0].arguments
    inputs = tuple(
        _spec(_name(argument, number), sizes, argument.type)
        for number, (argument, sizes) in enumerate(zip(arguments, symbolic_inputs(module), strict=True))
    )
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    outputs = tuple(
        _spec(f"result{number}", tuple(None if size < 0 else size for size in type_.shape), type_)
        for number, type_ in enumerate(results)
    )
    return inputs, outputs


def _spec(name: str, sizes: tuple[int | None, ...], type_: ir.Type) -> Spec:
    quantized = quantized_of(type_)
    if quantized is None:
        return Spec(name, sizes, numpy_dtype(element_type(type_)))
    return Spec(name, sizes, numpy_dtype(quantized.storage), Quantization.of(quantized))


def _name(argument: ir.Value, number: int) -> str:
    name = user_location(argument.location) or ""
    return name if name and ":" not in name else f"arg{number}"
