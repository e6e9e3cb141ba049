"""Native code from linalg on tensors by upstream's passes: one-shot bufferization, loops, the llvm dialect.

Slow is fine here: nothing is shared with the CPU backend's kernels, fusions and plans of memory. The program is one
function of memory, `@linalg_main`, which allocates by malloc and frees what it allocates; the native entry `shlo_main`
hands it the addresses of a call.
"""

from __future__ import annotations

import re

from stablehlo_py import progress
from stablehlo_py.backends.common.description import describe
from stablehlo_py.backends.cpu import helpers
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.signature import sign
from stablehlo_py.backends.cpu.target import CpuTarget, required_features
from stablehlo_py.backends.linalg.lowering import GOES_ON, to_linalg, to_linalg_on_buffers
from stablehlo_py.codegen.builder import F32, I1, I8, I32, I64, PTR, Function, Value
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter, processor
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.types import is_tensor, operations, tensor_bytes
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import MLIRError, func_dialect, ir, linalg_copy, quiet_context, run_upstream
from stablehlo_py.options import Options
from stablehlo_py.runtime.entry import ANSWER, ASKED, ENDED, FIELDS
from stablehlo_py.runtime.memory import require
from stablehlo_py.runtime.program import CompiledProgram

ENTRY, BODY = "shlo_main", "linalg_main"
# What LLVM calls to carry a bf16 from block to block; few systems have it.
ROUND = "__truncsfbf2"
CLEAN = "cse"  # also takes away what nothing uses
BUFFERS = ",".join(
    (
        CLEAN,
        "one-shot-bufferize{allow-return-allocs-from-loops=true unknown-type-conversion=identity-layout-map}",
        "canonicalize,cse,buffer-deallocation-pipeline",
    )
)
LLVM = ",".join(
    (
        "convert-linalg-to-loops,convert-bufferization-to-memref,expand-strided-metadata,lower-affine",
        "convert-scf-to-cf,arith-expand{include-bf16=true},convert-complex-to-llvm",
        "convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm",
        "finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm",
        "reconcile-unrealized-casts,canonicalize,cse",
    )
)


def linalg_text(module: ir.Module) -> str:
    """The stage `linalg`. Raises UnsupportedError as `to_linalg`."""
    with quiet_context():
        found = _parsed(to_linalg(module))
        _run(found, CLEAN)
        return str(found)


def llvm_dialect_text(module: ir.Module, target: CpuTarget) -> str:
    """The stage `kernels`: the program in the llvm dialect, without its entry. Raises as `to_linalg`."""
    text = to_linalg_on_buffers(module, BODY)
    with quiet_context():
        lowered = _parsed(text)
        progress.at("bufferization")
        _run(lowered, BUFFERS)
        _prepare(lowered)
        _run(lowered, LLVM)
        for op in lowered.body.operations:
            if op.operation.name == "llvm.func" and len(op.regions[0].blocks):
                op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<private>")
        # Nothing is erased before: a module that does not verify is printed in another form.
        lines = [str(op) for op in lowered.body.operations if op.attributes["sym_name"].value != GOES_ON]
    own = (_goes_on(target), _round_to_bf16(target))
    return "\n".join((*(_for_processor(line, target) for line in lines), *own))


def compile_module(module: ir.Module, backend: str, target: CpuTarget, options: Options) -> CompiledProgram:
    """Everything that a call runs.

    Raises:
        UnsupportedError: as `to_linalg`.
        ResourceError: a tensor is larger than the machine's memory.
    """
    text = llvm_dialect_text(module, target)
    tensors = [value for op in operations(module.operation) for value in op.results if is_tensor(value)]
    require(max([int(tensor_bytes(value)) for value in tensors], default=0), "a tensor of this model")
    made = describe(module, backend, target.name, options)
    made.constants = []  # they are in the code
    made.features = required_features(target)
    made.stages = {"kernels": text}
    made.loops = f"llvm.call @{GOES_ON}(" in text
    made.helpers = helper_objects([helpers.CALLS] if made.loops else [])
    entry = _entry(made, target)
    defined = set(re.findall(r"llvm\.func private @(\w+)", text))
    outside = [name for name in re.findall(r"llvm\.func @(\w+)\(", text) if name not in defined]
    externals = tuple((name, "") for name in outside if name != ROUND)
    progress.at("machine code")
    unit = Unit((ENTRY, ROUND), "\n".join((sign(made), text, entry)), externals)
    made.objects = [compile_units([unit])]
    made.report = f"linalg: {len(made.objects[0]) / 1024:.0f} KiB of code in one object file"
    return made


def _parsed(text: str) -> ir.Module:
    try:
        return ir.Module.parse(text)
    except MLIRError as error:
        raise InternalError(
            f"the module of linalg does not parse: {error}", remedy="report it with the model"
        ) from error


def _run(module: ir.Module, pipeline: str) -> None:
    try:
        run_upstream(module, pipeline)
    except MLIRError as error:
        raise InternalError(
            f"upstream's passes refuse the module: {error}", remedy="report it with the model"
        ) from error


def _prepare(module: ir.Module) -> None:
    """Where upstream's lowering is not what is wanted: a memref.copy of memory that is not dense would call a function
    of MLIR's runtime, which no program has; log1p and expm1 would become log(1 + x) and exp(x) - 1."""
    declared: set[str] = set()
    for op in operations(module.operation):
        with ir.InsertionPoint(op), op.location:
            if op.name == "memref.copy":
                linalg_copy(op.operands[0], op.operands[1])
                op.erase()
            elif op.name in ("math.log1p", "math.expm1"):
                type_ = op.results[0].type
                name = op.name.removeprefix("math.") + ("f" if isinstance(type_, ir.F32Type) else "")
                if name not in declared:
                    with ir.InsertionPoint.at_block_begin(module.body):
                        declaration = func_dialect.FuncOp(name, ([type_], [type_]))
                        declaration.attributes["sym_visibility"] = ir.StringAttr.get("private")
                    declared.add(name)
                call = func_dialect.CallOp([type_], name, [op.operands[0]])
                op.results[0].replace_all_uses_with(call.results[0])
                op.erase()


def _for_processor(text: str, target: CpuTarget) -> str:
    """A function says for which processor it is."""
    head, brace, body = text.partition(" {\n")
    if not text.startswith("llvm.func") or not brace:
        return text
    known = processor(target)
    if head.endswith("}"):
        at = head.rindex("attributes {") + len("attributes {")
        return f"{head[:at]}{known}, {head[at:]}{brace}{body}"
    return f"{head} attributes {{{known}}}{brace}{body}"


def _goes_on(target: CpuTarget) -> str:
    """i1 shlo_goes_on(state): whether a loop is to go on. The state is the block of `end_if_asked`, and what it has
    answered, an i32: a loop that has ended ends those behind it."""
    f = Function(GOES_ON, [("state", I64)], LlvmEmitter(target), result=I1, private=True)
    state, zero = f.cast("inttoptr", f.parameters["state"], PTR), f.const(0, I32)
    f.ret_if(f.cmp("ne", f.load(I32, state, 2), zero), f.const(False, I1))
    block = f.load(PTR, state)
    asked = f.atomic_load(I32, f.gep(block, ASKED, I8), ordering="monotonic")
    f.ret_if(f.cmp("eq", asked, zero), f.const(True, I1))
    status = f.call_pointer(f.load(PTR, f.gep(block, ANSWER, I8)), [block], I32)
    f.store(status, state, 2)
    f.ret(f.cmp("eq", status, zero))
    return f.text()


def _round_to_bf16(target: CpuTarget) -> str:
    """The bf16 that an f32 is, in the low half of the register that it came in. Nothing is rounded: programs round
    before."""
    f = Function(ROUND, [("x", F32)], LlvmEmitter(target), result=F32)
    f.ret(f.bitcast(f.binary("lshr", f.bitcast(f.parameters["x"], I32), f.const(16, I32)), F32))
    return f.text()


def _entry(made: CompiledProgram, target: CpuTarget) -> str:
    """`int shlo_main(const shlo_call *)`: read the addresses, call the program with descriptors of memory as MLIR has
    them: address twice, offset, sizes, strides."""
    f = Function(ENTRY, [("call", PTR)], LlvmEmitter(target), result=I32)
    state = f.alloca(2, I64)
    f.store(f.load(PTR, f.parameters["call"], FIELDS.index("interrupt")), state)
    f.store(f.const(0), state, 1)
    operands: list[Value] = [f.cast("ptrtoint", state, I64)]
    for field, specs in (("inputs", made.inputs), ("outputs", made.outputs)):
        table = f.load(PTR, f.parameters["call"], FIELDS.index(field))
        for number, spec in enumerate(specs):
            address, sizes = f.load(PTR, table, number), [size or 0 for size in spec.shape]
            numbers = (0, *sizes, *row_major_strides(sizes))
            operands += [address, address, *(f.const(int(each)) for each in numbers)]
    f.call(BODY, operands)
    ended = f.cmp("ne", f.load(I32, state, 2), f.const(0, I32))
    f.ret(f.select(ended, f.const(ENDED, I32), f.const(0, I32)))
    return f.text()
