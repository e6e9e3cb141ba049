"""What generated code knows of the machine that runs it stands in a description: the compiling machine is not asked."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from stablehlo_py.backends.cpu import channels, grid, interrupt, pool
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.objects import Unit, compile_units
from stablehlo_py.backends.cpu.target import GENERIC, CpuTarget
from stablehlo_py.backends.gpu.target import AMDGCN, NVPTX64, SPIRV64
from stablehlo_py.codegen.builder import I32, I64, PTR, Function
from stablehlo_py.codegen.target import AARCH64, ARCHITECTURES, ARMV7, RISCV64, WASM32, X86_64, Architecture
from stablehlo_py.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]
# Code for the process that compiles, and what it loads.
ASKING = ("stablehlo_py/codegen/target.py", "backends/c/compiler.py", "backends/cpu/native.py")
# What makes or reads whole modules of LLVM, and names of LLVM's own instructions.
OF_LLVM = (
    "stablehlo_py/codegen/emitters/llvm.py",
    "stablehlo_py/codegen/emitters/llvm_ir.py",
    "stablehlo_py/codegen/emitters/gpu.py",
    "stablehlo_py/codegen/emitters/tensor_copies.py",
    "stablehlo_py/codegen/emitters/race_check.py",
    "stablehlo_py/codegen/emitters/race_helpers.py",
    "backends/cpu/objects.py",
    "backends/cpu/signature.py",
    "backends/gpu/launches.py",
    "backends/linalg/native.py",
)


def lines_with(pattern: str, allowed: tuple[str, ...]) -> list[str]:
    files = [*(ROOT / "stablehlo_py/codegen").rglob("*.py"), *(ROOT / "backends").rglob("*.py")]
    assert len(files) > 80
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        if path.relative_to(ROOT).as_posix() not in allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_nobody_else_asks_this_machine() -> None:
    asks = r"platform\.\w|sys\.byteorder|get_process_triple|get_default_triple|get_host_cpu|sizeof\(ctypes\.c_void_p"
    assert lines_with(asks, ASKING) == []


def test_nobody_else_writes_the_llvm_dialect() -> None:
    assert lines_with(r"""!llvm\.|["'][^"']*\bllvm\.(?!x86|py)[a-z_.]+[ @{(]""", OF_LLVM) == []


@pytest.mark.parametrize(
    "architecture",
    [*ARCHITECTURES.values(), WASM32, ARMV7, SPIRV64, NVPTX64, AMDGCN],
    ids=lambda architecture: architecture.name,
)
def test_data_layouts_are_those_of_llvm(architecture: Architecture) -> None:
    llvm.initialize_all_targets()
    machine = llvm.Target.from_triple(architecture.triple).create_target_machine()
    assert str(machine.target_data) == architecture.data_layout
    pointer_bits = 32 if architecture in (WASM32, ARMV7) else 64
    assert (architecture.pointer_bits, architecture.byte_order) == (pointer_bits, "little")


def on(architecture: Architecture) -> CpuTarget:
    return replace(GENERIC, architecture=architecture)


@pytest.mark.parametrize(
    ("architecture", "number", "hint"),
    [(X86_64, 202, "llvm.x86.sse2.pause"), (AARCH64, 98, "llvm.aarch64.hint"), (RISCV64, 98, None)],
)
def test_threads_of_any_architecture(architecture: Architecture, number: int, hint: str | None) -> None:
    """Pool, grid and interrupts take the numbers of system calls, and the hint of spin loops, from the description."""
    target = on(architecture)
    pooled = "".join(f.text() for f in pool.functions(target))
    assert f"llvm.mlir.constant({number} : i64)" in pooled
    assert "inline_asm" not in pooled  # LLVM needs an assembler for that, which not every process has
    assert hint is None or f'llvm.call_intrinsic "{hint}"' in pooled
    for module in (grid, interrupt, channels):
        assert "syscall" in "".join(f.text() for f in module.functions(target))


def test_system_calls_take_numbers_as_wide_as_pointers() -> None:
    """`long` of C; of another width, numbers would be passed in other registers."""
    texts = ["".join(f.text() for f in pool.functions(on(architecture))) for architecture in (ARMV7, AARCH64)]
    for text, number in zip(texts, ("i32", "i64"), strict=True):
        (declared,) = set(re.findall(r"llvm.call @syscall\(.*?\) : (.*)", text))
        assert declared == f"({number}, !llvm.ptr, {number}, {number}, !llvm.ptr, !llvm.ptr, {number}) -> {number}"


def test_pointers_are_as_wide_as_the_target_says() -> None:
    narrow = replace(X86_64, data_layout="e-m:e-p:32:32-i64:64-n32:64-S128")
    big = replace(X86_64, data_layout="E-m:e-i64:64-n32:64")
    assert (narrow.pointer_bits, narrow.byte_order) == (32, "little")
    assert (big.pointer_bits, big.byte_order) == (64, "big")
    texts = []
    for architecture in (narrow, big):
        f = Function("second", [("x", PTR)], on(architecture).emitter(), result=PTR)
        f.ret(f.load(PTR, f.x, 1))
        texts.append(f.text())
    assert "alignment = 4 : i64" in texts[0]
    assert "alignment = 8 : i64" in texts[1]


def test_what_a_description_lacks() -> None:
    with pytest.raises(InternalError, match="the system call getpid is not known for riscv64-unknown-linux-gnu"):
        RISCV64.system_call("getpid")
    f = Function("anywhere", [("x", PTR)])
    with pytest.raises(InternalError, match="anywhere is for no machine in particular"):
        pool.futex(f, f.x, pool.WAKE, f.const(1, I32))


def test_checked_products_call_no_library() -> None:
    """Of narrow machines: LLVM calls `__multi3` for the overflow of a product of two i64 on WebAssembly."""
    edges = [
        0,
        1,
        -1,
        3,
        -7,
        1 << 31,
        -(1 << 31),
        1 << 32,
        (1 << 63) - 1,
        -(1 << 63),
        3037000499,
        3037000500,
        -3037000500,
    ]
    narrow = on(replace(X86_64, data_layout="e-m:e-p:32:32-i64:64-n32:64-S128"))
    f = Function("product", [("x", PTR), ("y", PTR)], narrow.emitter())
    product, overflows = f.checked("smul", f.load(I64, f.x, 0), f.load(I64, f.x, 1))
    f.store(product, f.y, 0)
    f.store(f.cast("zext", overflows, I64), f.y, 1)
    f.ret()
    assert "with.overflow" not in f.text()
    code = NativeCode([compile_units([Unit.of(f)])])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("product"))
    given, found = (ctypes.c_int64 * 2)(), (ctypes.c_int64 * 2)()
    for a in edges:
        for b in edges:
            given[:] = [a, b]
            call(given, found)
            wrapped = (a * b + (1 << 63)) % (1 << 64) - (1 << 63)
            assert list(found) == [wrapped, int(wrapped != a * b)], (a, b)
