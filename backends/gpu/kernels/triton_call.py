"""Calls of Triton's kernels, which exports for CUDA hold (pallas_call, jax-triton): the Triton that is installed
compiles their IR for the program's GPU.

What a call wants besides, a kernel of ours does before: results that take the place of operands begin as copies of
these, and others are set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import (
    GpuKernel,
    Launch,
    Module,
    kernel_name,
    numbered_kernel,
    pointers_of,
)
from stablehlo_py.backends.gpu.target import NVPTX64, GpuTarget
from stablehlo_py.backends.gpu.triton.build import INSTALL, UNUSED_POINTERS, build, code_of, text_of, triton_version
from stablehlo_py.backends.gpu.triton.ttir import Number, Signature
from stablehlo_py.backends.gpu.triton.worker import IrRequest
from stablehlo_py.codegen.builder import I8, I32, Function, Value
from stablehlo_py.dialect.custom_call import aliases
from stablehlo_py.dialect.triton_calls import BYTECODE, REMEDY, TritonCall, refusal, triton_call
from stablehlo_py.dialect.types import tensor_bytes, text, user_location
from stablehlo_py.errors import ResourceError, ShloError, UnsupportedError


def emit(fusion: Fusion, target: GpuTarget) -> GpuKernel:
    """The kernel of a call.

    Raises:
        UnsupportedError: the machine is not NVIDIA's, the call is not as its target takes it, or Triton refuses it.
        ResourceError: Triton is not installed, or what reads the kernel.
    """
    op = fusion.op("stablehlo.custom_call")
    try:
        return _Called(fusion, target).emit()
    except ShloError as error:
        kind = type(error) if isinstance(error, ResourceError) else UnsupportedError
        place = user_location(op.location)
        raise kind(error.reason, op=op.operation.name, location=place, remedy=error.remedy) from error


@dataclass(frozen=True)
class _Fill:
    """What a buffer holds before the kernel starts: so many bytes of another one, or zeros."""

    pointer: str
    source: str | None
    size: int


class _Called:
    def __init__(self, fusion: Fusion, target: GpuTarget) -> None:
        self.fusion, self.target = fusion, target
        self.op = fusion.op("stablehlo.custom_call")
        self.call_target = text(self.op, "call_target_name")
        self.operands = [f"in{fusion.number(value)}" for value in self.op.operands]
        self.results = [f"out{fusion.outputs.index(value)}" for value in self.op.results]
        self.taken = {operand: result for result, operand in aliases(self.op)}

    def emit(self) -> GpuKernel:
        """The launches: of what is before, if something is, and of the kernel."""
        if self.target.architecture != NVPTX64:
            raise UnsupportedError(refusal(self.call_target), remedy=REMEDY)
        call = triton_call(self.op)
        if not triton_version():
            reason = f"calls {self.call_target!r}, the kernel {call.name!r} of Triton, which is not installed"
            raise ResourceError(reason.replace(" the kernel ''", " a kernel"), remedy=INSTALL)
        before = [each for each in self._fills(call) if each.size]
        own = [self._filling(number, each) for number, each in enumerate(before)]
        request = self._request(call)
        built = build(request)
        if built.shared_bytes > self.target.shared_bytes:
            raise UnsupportedError(
                f"a kernel of Triton takes {built.shared_bytes} bytes of shared memory, {self.target.name} has "
                f"{self.target.shared_bytes}",
                remedy="export the model with smaller blocks, or fewer stages",
            )
        launch = Launch(request.symbol, call.programs, built.threads, built.shared_bytes, True)
        module = Module(built.cubin, _commented(request), code_of(self.target)[1], UNUSED_POINTERS)
        return GpuKernel((*map(Launch.of, own), launch), {f.name: f.text() for f in own}, module=module)

    def _request(self, call: TritonCall) -> IrRequest:
        # A result that takes the place of an operand is where both are: the kernel may know it by either.
        operands = [self.results[self.taken[n]] if n in self.taken else each for n, each in enumerate(self.operands)]
        buffers = iter((*operands, *self.results))
        arguments = tuple(
            next(buffers) if each is None else Number(each.type, each.value)
            for each in call.parameters or [None] * (len(self.operands) + len(self.results))
        )
        *pointers, _ = pointers_of(self.fusion)
        signature = Signature(tuple(pointers), arguments, call.grid)
        found = text_of(call.ir) if call.ir.startswith(BYTECODE) else call.ir.decode(errors="replace")
        symbol, (capability, _) = kernel_name(self.fusion.name), code_of(self.target)
        return IrRequest(found, call.name, symbol, signature, capability, call.warps, call.stages)

    def _fills(self, call: TritonCall) -> Iterator[_Fill]:
        """In their order."""
        for operand, over in self.taken.items():
            if (self.fusion.number(self.op.operands[operand]), over) not in self.fusion.inplace:
                yield _Fill(self.results[over], self.operands[operand], self._bytes(over))
        for number, size in call.zeroed:
            behind = number - len(self.operands)
            result = behind if behind >= 0 else self.taken.get(number)
            if result is None:
                raise UnsupportedError(f"{self.call_target!r} sets an operand to zero, which no result takes over")
            whole = self._bytes(result)
            yield _Fill(self.results[result], None, whole if size is None else min(size, whole))

    def _bytes(self, result: int) -> int:
        return int(tensor_bytes(self.op.results[result]))

    def _filling(self, number: int, fill: _Fill) -> Function:
        """The kernel that fills a buffer."""
        word = I8 if fill.size % 4 else I32

        def put(f: Function, place: Value) -> None:
            zero = f.const(0, word)
            value = f.load(word, f.parameters[fill.source], place) if fill.source else zero
            f.store(value, f.parameters[fill.pointer], place)

        count = math.ceil(fill.size * 8 / word.bits)
        return numbered_kernel(self.fusion, self.target, f"{self.fusion.name}_before{number}", count, put)


def _commented(request: IrRequest) -> str:
    """The source for a person: the stage `triton` is Python, of which this is a comment."""
    signature = request.signature
    grid = " x ".join(map(str, signature.grid))
    arguments = [each if isinstance(each, str) else f"{each.value} : {each.type}" for each in signature.arguments]
    head = f"{grid} programs of {request.warps} warps, {request.stages} stages, of ({', '.join(arguments)})"
    return "\n".join(f"# {line}".rstrip() for line in (head, *request.text.splitlines()))
