"""Spellings of floats in LLVM IR: bits that go in by MLIR, or by text, are those that the older LLVM reads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llvmlite.binding as llvm
import numpy as np
import pytest

from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.common.older_llvm import for_older_llvm
from stablehlo_py.codegen.emitters.llvm import LlvmEmitter
from stablehlo_py.codegen.target import host_architecture
from stablehlo_py.codegen.values import BF16, F16, F32, F64

TYPES = {"half": F16, "bfloat": BF16, "float": F32, "double": F64}
BITS = {name: np.dtype(f"u{of.bits // 8}") for name, of in TYPES.items()}
MANTISSA = {"half": 10, "bfloat": 7, "float": 23, "double": 52}


def read_back(text: str, name: str, kind: str, count: int) -> np.ndarray:
    """The bits of a global of the older LLVM's module."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(for_older_llvm(text))
    module.triple = host_architecture().triple
    machine = llvm.Target.from_triple(module.triple).create_target_machine()
    with llvm.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        raw = ctypes.string_at(engine.get_global_value_address(name), count * BITS[kind].itemsize)
    return np.frombuffer(raw, BITS[kind])


def written(kind: str, bits: np.ndarray) -> str:
    """The module that MLIR makes of a table with these bits."""
    floats = {"half": np.float16, "float": np.float32, "double": np.float64}.get(kind)
    numbers = bits if floats is None else bits.view(floats)
    return llvm_ir(LlvmEmitter.table("table", numbers, TYPES[kind]).replace("private ", ""), host_architecture())


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_all_numbers_of_two_bytes(kind) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(read_back(written(kind, bits), "table", kind, bits.size), bits)


def special(kind: str) -> np.ndarray:
    """Bits of what is not usual: each exponent with the first and last mantissas, and quiet bits of NaN."""
    mantissa, of = MANTISSA[kind], TYPES[kind]
    highest = (1 << (of.bits - 1 - mantissa)) - 1
    last = (1 << mantissa) - 1
    mantissas = (0, 1, 2, last // 3, last // 2, last // 2 + 1, last // 2 + 2, last - 1, last)
    positive = [exponent << mantissa | each for exponent in range(highest + 1) for each in mantissas]
    return np.array([sign << (of.bits - 1) | each for each in positive for sign in (0, 1)], BITS[kind])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_numbers_of_four_and_eight_bytes(kind) -> None:
    rng, most = np.random.default_rng(0), 1 << TYPES[kind].bits
    random = rng.integers(0, most, 3000, dtype=BITS[kind], endpoint=False)
    usual = np.array([0, 1, 0.1, 1 / 3, 1e10, 1e-10, 16777217, 0.5, 3], {"float": "f4", "double": "f8"}[kind])
    bits = np.concatenate([special(kind), random, usual.view(BITS[kind])])
    np.testing.assert_array_equal(read_back(written(kind, bits), "table", kind, bits.size), bits)


SPELLINGS = [
    ("half", "1.0", 0x3C00),
    ("half", "-2.5", 0xC100),
    ("half", "f0x7E01", 0x7E01),
    ("half", "+inf", 0x7C00),
    ("half", "-inf", 0xFC00),
    ("half", "+qnan", 0x7E00),
    ("half", "-qnan", 0xFE00),
    ("half", "+nan(0x3)", 0x7E03),
    ("half", "+snan(0x3)", 0x7C03),
    ("half", "-snan(0x1)", 0xFC01),
    ("half", "5.9604644775390625e-08", 1),
    ("bfloat", "1.0", 0x3F80),
    ("bfloat", "-3.140625e+00", 0xC049),
    ("bfloat", "f0x0001", 0x0001),
    ("bfloat", "+inf", 0x7F80),
    ("bfloat", "+qnan", 0x7FC0),
    ("bfloat", "-nan(0x5)", 0xFFC5),
    ("bfloat", "+snan(0x5)", 0x7F85),
    ("float", "1.000000e+00", 0x3F800000),
    ("float", "-1.500000e+00", 0xBFC00000),
    ("float", "0.000000e+00", 0),
    ("float", "-0.000000e+00", 0x80000000),
    ("float", "1.", 0x3F800000),
    ("float", "+2.5E+1", 0x41C80000),
    ("float", "f0x3DCCCCCD", 0x3DCCCCCD),
    ("float", "f0x3dcccccd", 0x3DCCCCCD),
    ("float", "f0x00000001", 1),
    ("float", "f0x807FFFFF", 0x807FFFFF),
    ("float", "f0x00800000", 0x00800000),
    ("float", "f0x7F7FFFFF", 0x7F7FFFFF),
    ("float", "+inf", 0x7F800000),
    ("float", "-inf", 0xFF800000),
    ("float", "+qnan", 0x7FC00000),
    ("float", "-qnan", 0xFFC00000),
    ("float", "+nan(0x1234)", 0x7FC01234),
    ("float", "-snan(0x1234)", 0xFF801234),
    ("double", "1.000000e-01", 0x3FB999999999999A),
    ("double", "f0x3FB999999999999A", 0x3FB999999999999A),
    ("double", "f0x8000000000000001", 0x8000000000000001),
    ("double", "+inf", 0x7FF0000000000000),
    ("double", "-qnan", 0xFFF8000000000000),
    ("double", "+nan(0xABCDEF)", 0x7FF8000000ABCDEF),
    ("double", "+snan(0x1)", 0x7FF0000000000001),
]


@pytest.mark.parametrize(("kind", "text", "bits"), SPELLINGS, ids=str)
def test_spellings(kind, text, bits) -> None:
    """Alone, in arrays, vectors and structs."""

    def found(type_: str, value: str, count: int = 1) -> Sequence[int]:
        return read_back(f"@g = constant {type_} {value}\n", "g", kind, count).tolist()

    one = f"{kind} {text}"
    assert found(kind, text) == [bits]
    assert found(f"[3 x {kind}]", f"[{one}, {kind} 1.0, {one}]", 3)[::2] == [bits, bits]
    assert found(f"<4 x {kind}>", f"<{', '.join([one] * 4)}>", 4) == [bits] * 4
    assert found(f"{{ {kind}, [2 x {kind}] }}", f"{{ {one}, [2 x {kind}] [{one}, {one}] }}", 3) == [bits] * 3
    assert found(f"<2 x {kind}>", f"splat ({one})", 2) == [bits] * 2


def test_operands_of_instructions() -> None:
    """The second operand of an instruction has its type before the first one."""
    text = """define float @f(float %x, double %y) {
  %1 = fadd float %x, f0x3DCCCCCD
  %2 = fcmp olt double %y, +inf
  %3 = select i1 %2, float f0x7F800000, float -qnan
  %4 = fadd <2 x half> <half f0x3C01, half 1.0>, splat (half +inf)
  %5 = insertvalue { i32, double, float } { i32 1, double f0x3FB999999999999A, float 1.5 }, float -inf, 2
  br i1 %2, label %a, label %b
a:
  br label %b
b:
  %6 = phi float [ f0x3DCCCCCD, %0 ], [ +qnan, %a ]
  ret float %6
}"""
    older = for_older_llvm(text)
    assert older.splitlines()[1] == "  %1 = fadd float %x, 0x3FB99999A0000000"
    assert older.splitlines()[2] == "  %2 = fcmp olt double %y, 0x7FF0000000000000"
    assert older.splitlines()[3] == "  %3 = select i1 %2, float 0x7FF0000000000000, float 0xFFF8000000000000"
    assert "f0x" not in older and "inf" not in older and "nan" not in older
    llvm.parse_assembly(older).verify()


KEPT = """; ModuleID = 'LLVMDialectModule'
source_filename = "float 1.5"
target datalayout = "e-p6:32:32-i64:64"
@g.1.5 = constant i32 7
@"float +inf" = constant [9 x i8] c"float 1.0"
@half.1.0 = constant [4 x i32] [i32 1, i32 -2, i32 3, i32 4]
@text = constant [13 x i8] c"\\22double 2.5\\22\\00"
%float.2.5 = type { i32, half }
define void @double.1.5(ptr %float, i32 %i.1.0, i64 %inf) #0 {
  %float1.0 = add i32 %i.1.0, 10
  %nan = getelementptr inbounds nuw float, ptr %float, i64 %inf
  store i32 %float1.0, ptr %nan, align 4
  %qnan = getelementptr half, ptr %float, i32 -1
  br label %float.1.0
float.1.0:
  ret void
}
attributes #0 = { "float"="1.0" "target-cpu"="sm_9.0" }
!0 = !{!"double 1.0", i32 1}
!named = !{!0}
"""


def test_what_is_no_number_stays() -> None:
    assert for_older_llvm(KEPT) == KEPT
    llvm.parse_assembly(KEPT).verify()
