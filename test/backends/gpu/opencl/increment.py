"""Writes a module in SPIR-V to the standard output: see ../conftest.py. `increment.py FUNCTION` asks another function
for the number of a work-item."""

import sys

import llvmlite.binding as llvm

TEXT = """
target triple = "spirv64-unknown-unknown"
declare spir_func i64 @_Z13get_global_idj(i32)
define spir_kernel void @increment(ptr addrspace(1) %x) {
  %i = call spir_func i64 @_Z13get_global_idj(i32 0)
  %p = getelementptr i32, ptr addrspace(1) %x, i64 %i
  %a = load i32, ptr addrspace(1) %p
  %b = add i32 %a, 1
  store i32 %b, ptr addrspace(1) %p
  ret void
}
"""

if len(sys.argv) > 1:
    TEXT = TEXT.replace("_Z13get_global_idj", sys.argv[1])
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple("spirv64-unknown-unknown").create_target_machine()
sys.stdout.buffer.write(machine.emit_object(llvm.parse_assembly(TEXT)))
