"""The late stages as text: LLVM IR and disassembly."""

from __future__ import annotations

import os
import shutil
import subprocess

from stablehlo_py.codegen.emitters.llvm import llvm_module
from stablehlo_py.codegen.target import Architecture
from stablehlo_py.interrupts import deferred
from stablehlo_py.mlir import capi, quiet_context


@deferred()
def llvm_ir(kernels: str, architecture: Architecture) -> str:
    """LLVM IR of the `kernels` stage, for an architecture."""
    api = capi()
    text = llvm_module(kernels, architecture).encode()
    context = quiet_context()
    module = api.module_parse(api.handle(context), api.string(text))
    try:
        return api.translate_to_llvm_ir(api.module_operation(module))
    finally:
        api.module_destroy(module)


def disassembly(objects: list[bytes]) -> str:
    """objdump's listing where binutils are installed, else names and sizes."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return "\n".join(
            f"object {number}: {len(content)} bytes (no objdump here)" for number, content in enumerate(objects)
        )
    listings = []
    for content in objects:
        with open(os.memfd_create("shlo-object"), "wb") as file:  # in memory: a full disk is not in the way
            file.write(content)
            file.flush()
            command = [objdump, "--disassemble", "--no-show-raw-insn", "--reloc", f"/proc/self/fd/{file.fileno()}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, pass_fds=[file.fileno()])
            listings.append(done.stdout)
    return "\n".join(listings)
