"""A program in MLIR's gpu dialect: one module holds the kernels (`gpu.module`) and the host's part, functions of the
llvm dialect with a `gpu.launch_func` for each launch. Here these become calls of the driver.

    gpu.launch_func <%caller : !llvm.ptr> @kernels::@fusion_0 blocks in (%4, %1, %1) threads in (%256, %1, %1) : i64
        args(%x : !llvm.ptr, %y : !llvm.ptr, %scratch : !llvm.ptr)

    llvm.store %x, %operands[0] ...
    llvm.call @shlo_launch(%caller, %operands, number of @fusion_0, 4, 256, 0, 3)        (driver/calls.py)

What the dialect calls the stream is the caller (`shlo_call`) here, which knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stablehlo_py.backends.gpu.driver.calls import LAUNCH
from stablehlo_py.backends.gpu.target import AMDGCN, NVPTX64, GpuTarget
from stablehlo_py.codegen.emitters.llvm import module_attributes
from stablehlo_py.errors import InternalError
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import capi, ir, quiet_context

KERNELS = "kernels"  # the name of the module of our own kernels
_TARGETS = {NVPTX64: "nvvm", AMDGCN: "rocdl"}  # dialects whose attribute names a GPU
_OP = "gpu.launch_func"


def program_module(kernels: str, target: GpuTarget, foreign: Sequence[str], host: str) -> str:
    """The text of a program: the kernels of a GPU, names of those that another generator made, functions of the
    host."""
    dialect = _TARGETS.get(target.architecture)
    chip = f' [#{dialect}.target<chip = "{target.name}">]' if dialect else ""
    attributes = f"attributes {{{module_attributes(target.architecture)}}}"
    device = f"gpu.module @{KERNELS}{chip} {attributes} {{\n{kernels}\n}}"
    return _whole([device, *(_declared(symbol, [symbol]) for symbol in foreign), host])


def _declared(name: str, symbols: Sequence[str]) -> str:
    """A module of kernels without their code."""
    declared = "\n".join(f"llvm.func @{symbol}() attributes {{gpu.kernel}}" for symbol in symbols)
    return f"gpu.module @{name} {{\n{declared}\n}}"


def _whole(parts: Sequence[str]) -> str:
    return "\n".join(["module attributes {gpu.container_module} {", *filter(None, parts), "}"])


@deferred()
def device_ir(program: str) -> str:
    """LLVM IR of the kernels of a program."""
    with quiet_context(), ir.Location.unknown():
        module = ir.Module.parse(program)
        device = ir.SymbolTable(module.operation)[KERNELS]
        return capi().translate_to_llvm_ir(capi().handle(device.operation))


@deferred()
def native_host(
    host: str, symbols: Sequence[str], foreign: Sequence[str], externals: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The host's functions in the llvm dialect alone: launches are calls, in which `symbols` number the kernels.
    `foreign`: those among them that are modules of their own; `externals`: declarations of what the functions call
    elsewhere, by name, which are not in the text."""
    own = [symbol for symbol in symbols if symbol not in foreign]
    modules = [_declared(KERNELS, own), *(_declared(symbol, [symbol]) for symbol in foreign)]
    text = _whole([*modules, *externals.values(), host])
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    with quiet_context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise InternalError(f"the host's part of a program does not parse: {error}") from error
        functions = [op for op in module.body.operations if not _is_module(op) and _name(op) not in externals]
        for function in functions:
            _lower(function, numbers)
        return "\n".join(function.operation.get_asm(assume_verified=True) for function in functions)


def _name(op: ir.OpView) -> str:
    return str(op.attributes["sym_name"].value)


def _is_module(op: ir.OpView) -> bool:
    return op.operation.name == "gpu.module"


def _lower(function: ir.OpView, numbers: Mapping[str, int]) -> None:
    """Launches of a function become calls, with one array on its stack for the operands of all."""
    launches = list[_Launch]()

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name == _OP:
            launches.append(_Launch(op))
        return ir.WalkResult.ADVANCE

    function.operation.walk(collect)
    if not launches:
        return
    with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
        operands = _stack(max(len(launch.operands) for launch in launches))
    for launch in launches:
        with ir.InsertionPoint(launch.op):
            launch.lower(operands, numbers)
        launch.op.erase()


class _Launch:
    """A `gpu.launch_func`.

    Attributes:
        operands: of the kernel.
    """

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        values, segments = list(op.operands), list(op.attributes["operandSegmentSizes"])
        # The dialect's order: dependencies; blocks and threads along three axes; a cluster's axes; bytes of shared
        # memory; the kernel's operands; the stream.
        _, *axes, shared, operands, _ = segments
        (self._blocks, _, _, self._threads), at = values[:4], sum(axes)
        self._shared = values[at] if shared else None
        self.operands = values[at + shared : at + shared + operands]
        self._caller = values[-1]

    def lower(self, places: ir.Value, numbers: Mapping[str, int]) -> None:
        """Write the call in front of it."""
        for position, operand in enumerate(self.operands):
            _store(operand, _at(places, position))
        symbol = self.op.attributes["kernel"].value[-1]
        shared = _constant(0) if self._shared is None else _widened(self._shared)
        numbered = [_constant(numbers[symbol]), self._blocks, self._threads, shared, _constant(len(self.operands))]
        _call(LAUNCH, [self._caller, places, *numbered])


# --- ops of the llvm dialect -----------------------------------------------------------------------------------------


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


def _constant(number: int) -> ir.Value:
    value = ir.IntegerAttr.get(_i64(), number)
    return ir.Operation.create("llvm.mlir.constant", [_i64()], attributes={"value": value}).result


def _widened(value: ir.Value) -> ir.Value:
    return ir.Operation.create("llvm.zext", [_i64()], [value]).result


def _stack(count: int) -> ir.Value:
    """Room for so many pointers."""
    attributes = {"elem_type": ir.TypeAttr.get(_pointer()), "alignment": ir.IntegerAttr.get(_i64(), 64)}
    return ir.Operation.create("llvm.alloca", [_pointer()], [_constant(count)], attributes=attributes).result


def _at(places: ir.Value, position: int) -> ir.Value:
    attributes = {
        "elem_type": ir.TypeAttr.get(_pointer()),
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([position]),
    }
    return ir.Operation.create("llvm.getelementptr", [_pointer()], [places], attributes=attributes).result


def _store(value: ir.Value, place: ir.Value) -> None:
    ir.Operation.create("llvm.store", [], [value, place])


def _call(name: str, operands: Sequence[ir.Value]) -> None:
    attributes = {
        "callee": ir.FlatSymbolRefAttr.get(name),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    ir.Operation.create("llvm.call", [], operands, attributes=attributes)
