"""Executables of modules with dynamic dimensions: one program for all shapes, specializations where that cannot be
(docs/dynamic-shapes.md)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from stablehlo_py.backends.base import get_backend
from stablehlo_py.compiler import bytecode, cache_key, compile_cached, load_cached
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.dialect.types import element_type, user_location
from stablehlo_py.errors import ArgumentError, UnsupportedError
from stablehlo_py.frontend.refine import refine
from stablehlo_py.mlir import ir, make_context
from stablehlo_py.options import Options
from stablehlo_py.runtime.arguments import Handle, aligned_copy, as_array, convert, problem_with
from stablehlo_py.runtime.dynamic import DynamicProgram
from stablehlo_py.runtime.executable import Executable, executable
from stablehlo_py.runtime.program import Spec
from stablehlo_py.runtime.quantization import Quantization

Shapes = tuple[tuple[int, ...], ...]


class SymbolicExecutable:
    """A model whose shapes are known at call time.

    Attributes:
        inputs, outputs: specs whose symbolic dimensions are None.
        compilations: how often it was compiled, loads from the cache included.

    Raises:
        UnsupportedError: options ask for one program for all shapes, and it cannot be had.
    """

    def __init__(
        self, module: ir.Module, shapes: Sequence[tuple[int | None, ...]], target: str, options: Options
    ) -> None:
        self._bytecode = bytecode(module)
        self._target = target
        self._options = options
        self._known: dict[tuple[Shapes, tuple[tuple[int, int], ...]], Executable] = {}
        self._dimension_arguments: list[int] | None = None  # known once a specialization was made
        self._lock = threading.Lock()
        self.compilations = 0
        self._once: DynamicProgram | None = None
        self._reason = "Options(dynamic='specialize')"
        if options.dynamic != "specialize":
            try:
                self._once = self._compile_once()
            except UnsupportedError as error:
                if options.dynamic == "once":
                    raise
                self._reason = str(error)
        main = next(
            op
            for op in module.body.operations
            if op.operation.name == "func.func" and op.attributes["sym_name"].value == "main"
        )
        arguments = main.regions[0].blocks[0].arguments
        self.inputs = tuple(
            _spec(_name(argument, number), sizes, argument.type)
            for number, (argument, sizes) in enumerate(zip(arguments, shapes, strict=True))
        )
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        self.outputs = tuple(
            _spec(f"result{number}", tuple(None if size < 0 else size for size in type_.shape), type_)
            for number, type_ in enumerate(results)
        )

    def _compile_once(self) -> DynamicProgram:
        options, backend = self._options, get_backend(self._target)
        key = None
        self.compilations += 1
        if options.cache_dir is not None:
            key = cache_key(self._bytecode, backend, options, "all shapes")
            program = load_cached(key, options)
            if program is not None:
                return DynamicProgram(program)
        context = make_context()
        with context, ir.Location.unknown():
            module = ir.Module.parse(self._bytecode)
        try:
            return DynamicProgram(compile_cached(module, backend, options, key))
        except UnsupportedError:
            self.compilations -= 1
            raise

    def specialize(self, *shapes: Sequence[int], values: Mapping[int, int] | None = None) -> Executable:
        """The executable for these input shapes, compiled at the first request. `values` are those of integer scalar
        arguments that hold dimensions, by argument number.

        Raises:
            ArgumentError: the shapes contradict the model's dimensions.
            UnsupportedError: shapes depend on data.
        """
        fixed = tuple(sorted((values or {}).items()))
        key = tuple(tuple(sizes) for sizes in shapes), fixed
        with self._lock:
            if key not in self._known:
                self._known[key] = self._compile(*key)
            return self._known[key]

    def _compile(self, shapes: Shapes, values: tuple[tuple[int, int], ...]) -> Executable:
        options = self._options
        backend = get_backend(self._target)
        key = None
        self.compilations += 1
        if options.cache_dir is not None:
            key = cache_key(self._bytecode, backend, options, repr((shapes, values)))
            program = load_cached(key, options)
            if program is not None:
                return executable(program)
        context = make_context()
        with context, ir.Location.unknown():
            module = ir.Module.parse(self._bytecode)
            refine(module, shapes, dict(values))
        return executable(compile_cached(module, backend, options, key))

    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run; a model that has no program for all shapes is compiled for those that are new.

        Raises:
            ArgumentError: the arguments do not fit the specs, or the model's dimensions.
        """
        return self._run(convert(arrays, self.inputs))

    def _run(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        results = self._once.run(arrays) if self._once is not None else None
        return self._specialized(arrays)(*arrays) if results is None else results

    def _specialized(self, arrays: Sequence[np.ndarray]) -> Executable:
        shapes = [array.shape for array in arrays]
        if self._dimension_arguments is None:
            try:
                specialized = self.specialize(*shapes)
            except UnsupportedError:
                scalars = [n for n, array in enumerate(arrays) if array.shape == () and array.dtype.kind in "iu"]
                if not scalars:
                    raise
                self._dimension_arguments = scalars
            else:
                self._dimension_arguments = []
                return specialized
        return self.specialize(*shapes, values={n: int(arrays[n]) for n in self._dimension_arguments})

    def put(self, array: object, position: int | None = None) -> Handle:
        """Prepare an input once, for many calls; see `Executable.put`.

        Raises:
            ArgumentError: it fits no input, or not the one at `position`.
        """
        for spec in self.inputs if position is None else (self.inputs[position],):
            candidate = as_array(array, spec)
            if problem_with(candidate, spec) is None:
                owned = aligned_copy(candidate)
                return Handle(owned, Spec(spec.name, owned.shape, owned.dtype))
        raise ArgumentError("the array fits no input", remedy=f"inputs: {', '.join(map(str, self.inputs))}")

    def call(self, handles: Sequence[Handle]) -> tuple[np.ndarray, ...]:
        """Run on handles made by `put`.

        Raises:
            ArgumentError: wrong number of handles, or shapes that do not fit the model's dimensions.
        """
        if len(handles) != len(self.inputs):
            raise ArgumentError(f"got {len(handles)} handles, the model takes {len(self.inputs)}")
        arrays = [handle.array for handle in handles if handle.array is not None]
        if len(arrays) != len(handles):
            raise ArgumentError("a handle was donated to an earlier call", remedy="put() a new array")
        results = self._once.run(arrays) if self._once is not None else None
        return self._specialized(arrays).call(handles) if results is None else results

    def report(self) -> str:
        """Which road was taken, and why; what was compiled."""
        if self._once is not None:
            return f"one program for all shapes\n{self._once.program.report}"
        return f"one program for each shapes ({len(self._known)} so far), because:\n{self._reason}"


def _spec(name: str, sizes: tuple[int | None, ...], type_: ir.Type) -> Spec:
    quantized = quantized_of(type_)
    if quantized is None:
        return Spec(name, sizes, numpy_dtype(element_type(type_)))
    return Spec(name, sizes, numpy_dtype(quantized.storage), Quantization.of(quantized))


def _name(argument: ir.Value, number: int) -> str:
    name = user_location(argument.location) or ""
    return name if name and ":" not in name else f"arg{number}"
