"""Compile and run one kernel, for tests and measurements of templates."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stablehlo_py.backends.cpu.features import missing_features
from stablehlo_py.backends.cpu.kernels import emit_kernel
from stablehlo_py.backends.cpu.kernels.base import Kernel
from stablehlo_py.backends.cpu.target import NAMED, CpuTarget, required_features
from stablehlo_py.dialect.build import attribute
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.types import element_type, shape
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import capi, func_dialect, ir

ALIGNMENT = 64
GUARD = 256  # bytes around every buffer that a kernel must not touch
GUARD_BYTE = 0x5A


def here(*targets: CpuTarget) -> list[CpuTarget]:
    """Those of the targets whose code this machine can run."""
    return [target for target in targets if not missing_features(required_features(target))]


def cpus_here(*names: str) -> list[str]:
    """The same of targets by their names (`Options.cpu`)."""
    return [name for name in names if here(NAMED[name])]


@dataclass
class Compiled:
    """A kernel in this process: `run` it on buffers.

    Attributes:
        kernel: what the template gave.
        target: what for.
        inputs, outputs: (shape, dtype) of the arguments and results.
    """

    kernel: Kernel
    target: CpuTarget
    inputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    inplace: dict[int, int]
    _code: LoadedKernel

    def call(self, pointers: Sequence[int], chunks: int = 1) -> None:
        """Run all phases over raw pointers (inputs, outputs); `chunks` uneven pieces per phase."""
        if not here(self.target):
            raise InternalError(f"this machine cannot run code for {self.target.name}: choose targets with `here`")
        shared = aligned(self.kernel.shared_bytes)
        if self.kernel.loops:
            never_ends = np.zeros(2, np.int64)
            shared[:8] = np.array([never_ends.ctypes.data]).view(np.uint8)
        for phase in self.kernel.phases:
            function = self._code.functions[phase.symbol]
            for begin, end in _pieces(phase.iterations, chunks):
                private = aligned(self.kernel.private_bytes)
                function(*pointers, shared.ctypes.data, private.ctypes.data, begin, end)

    def bound(self, pointers: Sequence[int]) -> Callable[[], None]:
        """A call of all phases, again and again, for who measures how long it takes."""
        scratch = [aligned(size) for size in (self.kernel.shared_bytes, self.kernel.private_bytes)]
        addresses = [*pointers, *(memory.ctypes.data for memory in scratch)]
        calls = [(self._code.functions[phase.symbol], phase.iterations) for phase in self.kernel.phases]

        def call(scratch: Sequence[np.ndarray] = scratch) -> None:  # which lives as long as the call
            for function, iterations in calls:
                function(*addresses, 0, iterations)

        return call

    def run(self, arrays: Sequence[np.ndarray], chunks: int = 1) -> list[np.ndarray]:
        """Results as new arrays. Raises InternalError when the kernel writes elsewhere than to them."""
        inputs = [_Buffer(size, dtype, array) for (size, dtype), array in zip(self.inputs, arrays, strict=True)]
        outputs = []
        for number, (size, dtype) in enumerate(self.outputs):
            outputs.append(inputs[self.inplace[number]] if number in self.inplace else _Buffer(size, dtype, None))
        self.call([buffer.array.ctypes.data for buffer in (*inputs, *outputs)], chunks)
        for buffer in (*inputs, *outputs):
            buffer.check()
        for buffer, array in zip(inputs, arrays, strict=True):
            if (
                buffer not in outputs
                and buffer.array.tobytes() != np.ascontiguousarray(array, buffer.array.dtype).tobytes()
            ):
                raise InternalError("the kernel changed an input")
        return [buffer.array.copy() for buffer in outputs]


class _Buffer:
    """An array with guard bytes around it, aligned as the runtime aligns."""

    def __init__(self, size: tuple[int, ...], dtype: np.dtype, array: np.ndarray | None) -> None:
        count = int(np.prod(size)) * dtype.itemsize
        self._all = aligned(count + 2 * GUARD)
        self._all[:] = GUARD_BYTE
        self._count = count
        self.array = self._all[GUARD : GUARD + count].view(dtype).reshape(size)
        if array is not None:
            self.array[...] = array

    def check(self) -> None:
        around = np.concatenate([self._all[:GUARD], self._all[GUARD + self._count :]])
        if not (around == GUARD_BYTE).all():
            raise InternalError("the kernel wrote outside a buffer")


def aligned(size: int) -> np.ndarray:
    """Uninitialised bytes at an address that is a multiple of 64."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _pieces(iterations: int, chunks: int) -> list[tuple[int, int]]:
    if chunks == 1 or iterations < 2:
        return [(0, iterations)] if iterations else []
    cuts = sorted(
        {0, iterations, *(max(1, iterations * number * number // (chunks * chunks)) for number in range(1, chunks))}
    )
    pairs = list(itertools.pairwise(cuts))
    return pairs[::-1]  # any order must do


def compile_kernel(text: str, target: CpuTarget) -> Compiled:
    """Compile the one fusion function (`hlo.fusion` attribute) of a module in generic form."""
    context = make_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        function = module.body.operations[0]
        kernel = emit_kernel(function, target)
        block = function.regions[0].blocks[0]
        inputs = tuple((shape(value), numpy_dtype(element_type(value))) for value in block.arguments)
        results = list(block.operations)[-1].operands
        outputs = tuple((shape(value), numpy_dtype(element_type(value))) for value in results)
        pairs = tuple(function.attributes["hlo.inplace"]) if "hlo.inplace" in function.attributes else ()
    code = LoadedKernel(kernel, len(inputs) + len(outputs) + 2)
    inplace = dict(zip(pairs[1::2], pairs[::2], strict=True))
    return Compiled(kernel, target, inputs, outputs, inplace, code)


class LoadedKernel:
    """Machine code of a kernel's phases, freed with this object.

    Attributes:
        functions: by the symbols of the phases, functions of `pointers` pointers and two i64.
    """

    _engine = _module = None

    def __init__(self, kernel: Kernel, pointers: int) -> None:
        self._api = api = capi()
        self._context = ir.Context()
        self._context.enable_multithreading(False)
        elsewhere = {name: text for name, text in kernel.externals.items() if name not in kernel.common}
        texts = (elsewhere, kernel.functions, kernel.common, kernel.tables)
        text = "\n".join(itertools.chain.from_iterable(each.values() for each in texts)).encode()
        self._module = api.module_parse(api.handle(self._context), api.string(text))
        if not self._module:
            raise InternalError(f"generated code does not parse:\n{text.decode()}")
        self._engine = api.engine_create(self._module, 0, 0, None, True, False)
        if not self._engine:
            raise InternalError("LLVM refused the generated code")
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * pointers, ctypes.c_int64, ctypes.c_int64)
        self.functions: dict[str, Callable[..., None]] = {}
        for phase in kernel.phases:
            address = api.engine_lookup(self._engine, api.string(phase.symbol.encode()))
            if not address:
                raise InternalError(f"{phase.symbol} calls what is not linked here")
            self.functions[phase.symbol] = prototype(address)

    def __del__(self) -> None:
        if self._engine:
            self._api.engine_destroy(self._engine)
        if self._module:
            self._api.module_destroy(self._module)


def run_kernel(text: str, arrays: Sequence[np.ndarray], target: CpuTarget) -> list[np.ndarray]:
    """Results of a fusion function on arrays; run whole and in three uneven pieces, which must give the same bits."""
    compiled = compile_kernel(text, target)
    results = compiled.run(arrays)
    for one, other in zip(results, compiled.run(arrays, 3), strict=True):
        if one.tobytes() != other.tobytes():
            raise InternalError("the result depends on how the iterations are split over threads")
    return results


def build_fusion(
    kind: str,
    inputs: Sequence[str],
    body: Callable[..., ir.Value | Sequence[ir.Value]],
    attributes: dict[str, Sequence[int]] | None = None,
) -> str:
    """Text of a module with one fusion function.

    Args:
        kind: the fusion kind.
        inputs: tensor types of the parameters.
        body: builds the ops (stablehlo_py.dialect.build) from the parameters and returns the results.
        attributes: more attributes of the function, e.g. hlo.inplace.
    """
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        types = [ir.Type.parse(text) for text in inputs]
        with ir.InsertionPoint(module.body):
            function = func_dialect.FuncOp("fusion", (types, []))
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            built = body(*block.arguments)
            results = [built] if isinstance(built, ir.Value) else list(built)
            func_dialect.ReturnOp(results)
        signature = ir.FunctionType.get(types, [result.type for result in results])
        function.attributes["function_type"] = ir.TypeAttr.get(signature)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        function.attributes["hlo.fusion"] = ir.StringAttr.get(kind)
        for name, value in (attributes or {}).items():
            function.attributes[name] = attribute(value)
        return module.operation.get_asm(print_generic_op_form=True)
