"""Kernels as LLVM IR."""

from __future__ import annotations

from stablehlo_py.codegen.emitters.llvm import llvm_module
from stablehlo_py.codegen.target import Architecture
from stablehlo_py.errors import InternalError
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import capi, quiet_context


@deferred()
def llvm_ir(kernels: str, architecture: Architecture) -> str:
    """LLVM IR of the `kernels` stage, for an architecture."""
    api = capi()
    text = llvm_module(kernels, architecture).encode()
    context = quiet_context()
    module = api.module_parse(api.handle(context), api.string(text))
    if not module:
        raise InternalError(
            "generated code does not parse", remedy="this is a defect of the kernel generator; report it with the model"
        )
    try:
        return api.translate_to_llvm_ir(api.module_operation(module))
    finally:
        api.module_destroy(module)
