"""Small models compiled for machines that this one is not, and run there: by QEMU's emulators, linked by Debian's cross
compilers, and WebAssembly by Node.js. Results are compared with this machine's."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu.target import NAMED, OTHERS
from stablehlo_py.backends.cpu.target_machine import assembly, emit_object
from stablehlo_py.backends.cpu.triples import TRIPLES, cpus_of, object_target
from stablehlo_py.codegen.target import AARCH64, ARMV7, RISCV64, WASM32, X86_64
from stablehlo_py.debug.compare import difference_of
from stablehlo_py.errors import OptionError
from test.helpers.cross_programs import CrossProgram, cross_program, missing_for_wasm, run_under_node
from test.helpers.object_programs import HOST, Tools, run
from test.helpers.small_models import MODELS, exported

ENTRY = ["shlo_main"]
AARCH64_GCC = ("aarch64-linux-gnu-gcc", "-static")
RISCV64_GCC = ("riscv64-linux-gnu-gcc", "-static")
VECTORS = "rv64,v=true,vext_spec=v1.0,vlen={}"
PACKAGES = {
    AARCH64: ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"),
    RISCV64: ("gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross", "qemu-user"),
    ARMV7: ("gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross", "qemu-user"),
}
TOOLS = {
    "aarch64": Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "cortex-a53"), PACKAGES[AARCH64]),
    "cortex-a72": Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "cortex-a72"), PACKAGES[AARCH64]),
    "neoverse-n1": Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "neoverse-n1"), PACKAGES[AARCH64]),
    "neoverse-n2": Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "max"), PACKAGES[AARCH64]),
    "neoverse-v1": Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "max,sve256=on,sve512=off"), PACKAGES[AARCH64]),
    "a64fx": Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "a64fx"), PACKAGES[AARCH64]),
    "rv64gc": Tools(RISCV64_GCC, ("qemu-riscv64", "-cpu", "rv64"), PACKAGES[RISCV64]),
    "rv64gcv": Tools(RISCV64_GCC, ("qemu-riscv64", "-cpu", VECTORS.format(128)), PACKAGES[RISCV64]),
    "rv64gcv-zvl256b": Tools(RISCV64_GCC, ("qemu-riscv64", "-cpu", VECTORS.format(256)), PACKAGES[RISCV64]),
    "armv7": Tools(("arm-linux-gnueabihf-gcc", "-static"), ("qemu-arm", "-cpu", "cortex-a9"), PACKAGES[ARMV7]),
    "armv7-neon": Tools(("arm-linux-gnueabihf-gcc", "-static"), ("qemu-arm", "-cpu", "cortex-a7"), PACKAGES[ARMV7]),
    "cortex-a9": Tools(("arm-linux-gnueabihf-gcc", "-static"), ("qemu-arm", "-cpu", "cortex-a9"), PACKAGES[ARMV7]),
    "x86-64-v2": HOST,
}
WASM = ("wasm32", "wasm32-mvp")
# All models on one CPU of each architecture and kind of vectors; on others, those that differ most.
WHOLLY = ("aarch64", "neoverse-v1", "rv64gcv", "armv7-neon", "wasm32")
SOME = ("convolution", "attention", "narrow", "sorting", "byte_products")
CASES = [(cpu, name) for cpu in (*TOOLS, *WASM) for name in (MODELS if cpu in WHOLLY else SOME)]


@cache
def made(cpu: str, name: str) -> CrossProgram:
    return cross_program(exported(name), cpu)


def text_of(cpu: str, name: str) -> str:
    program = made(cpu, name)
    return assembly(program.llvm_ir, program.target, public=ENTRY)


@cache
def expected(name: str) -> list[np.ndarray]:
    return list(shlo.compile(exported(name), options=shlo.Options(threads=1))(*MODELS[name][1]))


def allowed(array: np.ndarray) -> float:
    """What sums in other orders, and no fused multiply-add, may change."""
    if array.dtype.kind not in "fV":
        return 0
    return {8: 1e-13, 4: 1e-5}.get(array.dtype.itemsize, 2e-3)


@pytest.mark.parametrize(("cpu", "name"), CASES)
def test_results_are_those_of_this_machine(cpu: str, name: str, tmp_path: Path) -> None:
    missing = missing_for_wasm() if cpu in WASM else TOOLS[cpu].missing
    if missing:
        pytest.skip(missing)
    program = made(cpu, name)
    described, arrays = program.described, MODELS[name][1]
    content = emit_object(program.llvm_ir, program.target, public=ENTRY)
    called = (arrays, described.outputs, described.constants, described.arena_bytes, tmp_path)
    found = run_under_node(content, *called) if cpu in WASM else run([content], *called, TOOLS[cpu])
    assert len(found) == len(expected(name))
    for ours, right in zip(found, expected(name), strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        assert difference_of(ours, right) <= allowed(right)


# The library functions that object files may need: of C, and of compilers for what a processor lacks (libgcc).
LIBRARIES = {
    "aarch64": {"memcpy"},
    "neoverse-v1": {"memcpy"},
    "rv64gc": {"memcpy"},
    "rv64gcv": {"memcpy"},
    "x86-64": {"memcpy"},
    "x86-64-v2": {"memcpy"},
    "armv7-neon": {
        "memcpy",
        *("__aeabi_uldivmod", "__aeabi_ldivmod", "__aeabi_idivmod", "__aeabi_l2f", "__aeabi_l2d", "__aeabi_d2lz"),
    },
    "wasm32": set(),
    "wasm32-mvp": {"memcpy"},
}


@pytest.mark.parametrize(("cpu", "number"), zip(LIBRARIES, range(len(LIBRARIES)), strict=True))
def test_what_else_is_needed(cpu: str, number: int) -> None:
    """Of a third of the models, another one for each CPU in turn, on CPUs that do not run all of them."""
    needed = set()
    for name in MODELS if cpu in WHOLLY else list(MODELS)[number % 3 :: 3]:
        text = text_of(cpu, name)
        called = re.findall(r"^\s+(?:callq?|bl|jmp|b|tail|jal)\s+([A-Za-z_][\w.]*)(?:@PLT|\(PLT\))?$", text, re.M)
        defined = set(re.findall(r"^([A-Za-z_][\w.]*):", text, re.M))
        needed |= {symbol for symbol in called if symbol not in defined}
    assert needed <= LIBRARIES[cpu]


INSTRUCTIONS = {
    "x86-64-v3": ("bytes", r"vpmaddwd.*ymm"),
    "x86-64-v4": ("mlp", r"vfmadd231ps.*zmm"),
    "sapphirerapids": ("bytes", r"vpdpbusd.*zmm"),
    "avxvnni": ("bytes", r"vpdpbusd\s+%ymm|\{vex\}\s+vpdpbusd.*ymm"),
    "aarch64": ("mlp", r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s"),
    "cortex-a72": ("bytes", r"smull2?\s+v\d+\.4s, v\d+\.[48]h"),
    "neoverse-n1": ("byte_products", r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.16b"),
    "apple-m1": ("byte_products", r"udot\.4s\s+v\d+, v\d+|udot\s+v\d+\.4s, v\d+\.16b, v\d+\.16b"),
    "neoverse-v1": ("mlp", r"fm(?:la|ad)\s+z\d+\.s, p\d/m"),
    "a64fx": ("mlp", r"fm(?:la|ad)\s+z\d+\.s, p\d/m"),
    "rv64gcv": ("mlp", r"vfmacc\.vf\s+v\d+"),
    "armv7-neon": ("mlp", r"vfma\.f32\s+q\d+, q\d+"),
    "wasm32": ("mlp", r"f32x4\.mul"),
}


@pytest.mark.parametrize("cpu", INSTRUCTIONS)
def test_vector_instructions(cpu: str) -> None:
    name, pattern = INSTRUCTIONS[cpu]
    assert re.search(pattern, text_of(cpu, name))


@pytest.mark.parametrize("cpu", ["rv64gc", "armv7", "wasm32-mvp"])
def test_no_vector_instructions_where_there_are_none(cpu: str) -> None:
    text = text_of(cpu, "attention")
    assert not re.search(r"vsetv?i?vli|\bv(?:mla|mul|add)\.f32\s+q\d|\b(?:f32x4|v128|i8x16)\.", text)


def test_products_of_bytes_in_webassembly() -> None:
    assert "i32x4.dot_i16x8_s" in text_of("wasm32", "bytes")


def test_products_of_bf16_by_instructions_of_vectors() -> None:
    text = """func.func @main(%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
      return %0 : tensor<64x64xbf16>
    }"""
    program = cross_program(text, "znver4")
    assert re.search(r"vdpbf16ps.*zmm", assembly(program.llvm_ir, program.target, public=ENTRY))


@pytest.mark.parametrize("signs", [("ui8", "i8"), ("i8", "ui8")])
def test_products_of_signed_with_unsigned_bytes(signs: tuple[str, str], tmp_path: Path) -> None:
    """No model of JAX has them: it widens both first."""
    tools = TOOLS["neoverse-n2"]
    if tools.missing:
        pytest.skip(tools.missing)
    types = f"tensor<19x51x{signs[0]}>", f"tensor<51x26x{signs[1]}>"
    text = f"""func.func @main(%a: {types[0]}, %b: {types[1]}) -> tensor<19x26xi32> {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({", ".join(types)}) -> tensor<19x26xi32>
      return %0 : tensor<19x26xi32>
    }}"""
    program, random = cross_program(text, "neoverse-n2"), np.random.default_rng(0)
    a, b = (
        random.integers(0, 256, shape).astype(sign.replace("i8", "int8"))
        for shape, sign in zip(((19, 51), (51, 26)), signs, strict=True)
    )
    assert re.search(r"usdot\s+v\d+\.4s", assembly(program.llvm_ir, program.target, public=ENTRY))
    content, described = emit_object(program.llvm_ir, program.target, public=ENTRY), program.described
    (found,) = run([content], [a, b], described.outputs, [], described.arena_bytes, tmp_path, tools)
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


def test_code_for_vectors_of_sve_is_right_on_longer_ones(tmp_path: Path) -> None:
    tools = Tools(AARCH64_GCC, ("qemu-aarch64", "-cpu", "max,sve512=on"), PACKAGES[AARCH64])
    if tools.missing:
        pytest.skip(tools.missing)
    program = made("neoverse-v1", "mlp")
    content = emit_object(program.llvm_ir, program.target, public=ENTRY)
    described = program.described
    called = (MODELS["mlp"][1], described.outputs, described.constants, described.arena_bytes, tmp_path)
    assert difference_of(run([content], *called, tools)[0], expected("mlp")[0]) <= 1e-5


def test_calling_conventions_of_arm(tmp_path: Path) -> None:
    """Numbers in integer registers, where the triple says so: the linker compares what files say of themselves."""
    program = made("armv7-neon", "mlp")
    found = [
        emit_object(program.llvm_ir, program.target, public=ENTRY, triple=triple)
        for triple in (ARMV7.triple, "armv7-unknown-linux-gnueabi")
    ]
    assert found[0] != found[1]


FORMATS = {"linux": b"\x7fELF", "none": b"\x7fELF", "apple": b"\xcf\xfa\xed\xfe", "wasm32": b"\0asm"}
FORMATS |= {"x86_64-pc-windows": b"\x64\x86", "aarch64-pc-windows": b"\x64\xaa"}


@pytest.mark.parametrize("triple", [triple for each in TRIPLES.values() for triple in each])
def test_every_triple_has_its_object_format(triple: str) -> None:
    target, full = object_target(None, triple)
    assert full == triple
    cpu = next(name for name, each in (NAMED | OTHERS).items() if each == target)
    content = emit_object(made(cpu, "rounding").llvm_ir, target, public=ENTRY, triple=full)
    start = next(start for part, start in FORMATS.items() if part in triple)
    assert content.startswith(start)
    assert b"/work" not in content and b"shlo_main" in content


@pytest.mark.parametrize("cpu", OTHERS)
def test_every_cpu_has_code(cpu: str) -> None:
    """Equal whenever it is asked for."""
    program = cross_program(exported("mlp"), cpu)
    content = emit_object(program.llvm_ir, program.target, public=ENTRY)
    assert content == emit_object(program.llvm_ir, program.target, public=ENTRY)


@pytest.mark.parametrize(
    ("spelled", "full"),
    [
        ("aarch64-linux-gnu", "aarch64-unknown-linux-gnu"),
        ("arm64-apple-macos14.0", "aarch64-apple-macosx14.0"),
        ("arm64-apple-darwin23", "aarch64-apple-darwin23"),
        ("x86_64-windows-msvc", "x86_64-pc-windows-msvc"),
        ("wasm32-wasi", "wasm32-unknown-wasi"),
        ("wasm32", "wasm32-unknown-unknown"),
        ("arm-none-eabi", "armv7-unknown-none-eabi"),
        ("arm-linux-gnueabihf", "armv7-unknown-linux-gnueabihf"),
        ("riscv64-none-elf", "riscv64-unknown-none-elf"),
        ("x86_64-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("aarch64-linux-android34", "aarch64-unknown-linux-android34"),
    ],
)
def test_other_spellings_of_triples(spelled: str, full: str) -> None:
    assert object_target(None, spelled)[1] == full


def test_a_cpu_says_its_triple_and_a_triple_its_cpu() -> None:
    assert object_target("a64fx", None) == (OTHERS["a64fx"], AARCH64.triple)
    assert object_target(None, "riscv64-linux-gnu")[0] == OTHERS["rv64gcv"]
    assert object_target("cortex-a72", "aarch64-apple-darwin")[0] == OTHERS["cortex-a72"]
    assert object_target(None, None)[0] in NAMED.values()


@pytest.mark.parametrize(
    ("cpu", "triple", "said"),
    [
        ("z80", None, r"(?s)there is no CPU description 'z80'\n.*avx2.*cortex-a72.*rv64gcv.*wasm32.*armv7"),
        (None, "mips-linux-gnu", r"there is no target triple 'mips-linux-gnu'\n.*aarch64-unknown-linux-gnu, riscv64"),
        (None, "x86_64-linux-gnux32", r"no target triple 'x86_64-linux-gnux32'\n.*x86_64-unknown-linux-musl"),
        (None, "", r"there is no target triple ''\n"),
        (
            "cortex-a72",
            "x86_64-linux-gnu",
            r"the CPU 'cortex-a72' is one of aarch64, and the triple .* of x86_64\n.*v4",
        ),
        ("avx2", "wasm32-wasi", r"the CPU 'avx2' is one of x86_64, .* of wasm32\n.*use one of wasm32, wasm32-mvp;"),
    ],
)
def test_what_cannot_be(cpu: str | None, triple: str | None, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        object_target(cpu, triple)


@pytest.mark.parametrize("cpu", OTHERS)
def test_this_process_takes_no_program_for_another_cpu(cpu: str) -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    for make in (shlo.compile, compile_program):
        with pytest.raises(
            OptionError, match=rf"the CPU '{cpu}' is not this one: only object .*\n.*avx512, avxvnni, znver3, avx2"
        ):
            make(text, options=shlo.Options(cpu=cpu))


@pytest.mark.parametrize(
    ("cpu", "triple"), [("wasm32", None), ("aarch64", "aarch64-apple-darwin"), ("avx2", "x86_64-pc-windows-msvc")]
)
def test_libraries_have_threads_of_their_own_on_linux_only(cpu: str, triple: str | None) -> None:
    said = r"library for \S+ can have no threads of its own: they .* Linux's futex\n.*callback"
    with pytest.raises(OptionError, match=said):
        shlo.aot.compile(
            exported("layers"), "m", threads="own", triple=triple, options=shlo.Options(cpu=cpu, threads=2)
        )


def test_every_architecture_has_cpus() -> None:
    for architecture in (X86_64, AARCH64, RISCV64, WASM32, ARMV7):
        assert cpus_of(architecture)


def test_the_stage_object_of_another_machine(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %0 = stablehlo.add %x, %x : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}"
    )
    command = ["shlo-opt", "--compile-to", "object", "--cpu", "cortex-a72", "model.mlir"]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert re.search(r"\.globl\s+shlo_main", said) and re.search(r"\.globl\s+shlo_sizes", said)
    assert re.search(r"fadd\s+v\d+\.4s", said)
