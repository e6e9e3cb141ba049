"""Executables of modules with symbolic dimensions: one specialization per shapes they are called with."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from stablehlo_py.backends.base import get_backend
from stablehlo_py.compiler import bytecode, cache_key, compile_cached, load_cached
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.quantized import quantized_of
from stablehlo_py.dialect.types import element_type, user_location
from stablehlo_py.errors import ArgumentError
from stablehlo_py.frontend.refine import refine
from stablehlo_py.mlir import ir, make_context
from stablehlo_py.options import Options
from stablehlo_py.runtime.arguments import Handle, aligned_copy, as_array, convert, problem_with
from stablehlo_py.runtime.executable import Executable, executable
from stablehlo_py.runtime.program import Spec
from stablehlo_py.runtime.quantization import Quantization

Shapes = tuple[tuple[int, ...], ...]


class SymbolicExecutable:
    """A model whose shapes are known at call time. Each new combination of shapes is refined, compiled once, and kept.

    Attributes:
        inputs, outputs: specs whose symbolic dimensions are None.
    """

    def __init__(
        self, module: ir.Module, shapes: Sequence[tuple[int | None, ...]], target: str, options: Options
    ) -> None:
        self._bytecode = bytecode(module)
        self._target = target
        self._options = options
        self._known: dict[Shapes, Executable] = {}
        self._lock = threading.Lock()
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

    def specialize(self, *shapes: Sequence[int]) -> Executable:
        """The executable for these input shapes, compiled at the first request.

        Raises:
            ArgumentError: the shapes contradict the model's dimensions.
        """
        key: Shapes = tuple(tuple(sizes) for sizes in shapes)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._compile(key)
            return self._known[key]

    def _compile(self, shapes: Shapes) -> Executable:
        options = self._options
        backend = get_backend(self._target)
        key = None
        if options.cache_dir is not None:
            key = cache_key(self._bytecode, backend, options, repr(shapes))
            program = load_cached(key, options)
            if program is not None:
                return executable(program)
        context = make_context()
        with context, ir.Location.unknown():
            module = ir.Module.parse(self._bytecode)
            refine(module, shapes)
        return executable(compile_cached(module, backend, options, key))

    def __call__(self, *arrays: object) -> tuple[np.ndarray, ...]:
        """Run; compiles for shapes that are new.

        Raises:
            ArgumentError: the arguments do not fit the specs.
        """
        ready = convert(arrays, self.inputs)
        return self.specialize(*(array.shape for array in ready))(*ready)

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
        """Run on handles made by `put`."""
        return self.specialize(*(handle.spec.shape for handle in handles)).call(handles)  # type: ignore[arg-type]


def _spec(name: str, sizes: tuple[int | None, ...], type_: ir.Type) -> Spec:
    quantized = quantized_of(type_)
    if quantized is None:
        return Spec(name, sizes, numpy_dtype(element_type(type_)))
    return Spec(name, sizes, numpy_dtype(quantized.storage), Quantization.of(quantized))


def _name(argument: ir.Value, number: int) -> str:
    name = user_location(argument.location) or ""
    return name if name and ":" not in name else f"arg{number}"
