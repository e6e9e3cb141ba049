"""Object files of whole programs by LLVM's target machine, for the machine that runs the tests: same bits as the
JIT's, the same bytes whenever they are asked for, no names but the public ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu.target import AVX2, BASELINE, NAMED
from stablehlo_py.backends.cpu.target_machine import assembly, emit_object
from stablehlo_py.errors import InternalError, UnsupportedError
from test.helpers.object_programs import HOST, run
from test.helpers.small_models import MODELS, exported

ENTRY = ["shlo_main"]
HERE = pytest.mark.skipif(bool(HOST.missing), reason=HOST.missing)


def ir_of(name: str, cpu: str = "avx2") -> str:
    text = shlo.compile(exported(name), options=shlo.Options(cpu=cpu, threads=1)).stages["llvm"]
    assert isinstance(text, str)
    return text


def symbols(content: bytes, folder: Path) -> list[tuple[str, str]]:
    """(kind, name) of each, as nm says them."""
    (folder / "named.o").write_bytes(content)
    said = subprocess.run(["nm", "named.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return [(line.split()[-2], line.split()[-1]) for line in said.splitlines()]


@HERE
@pytest.mark.parametrize(("cpu", "name"), [*(("avx2", name) for name in MODELS), ("x86-64", "attention")])
def test_same_bits_as_in_this_process(name: str, cpu: str, tmp_path: Path) -> None:
    options = shlo.Options(cpu=cpu, threads=1)
    program, arrays = compile_program(exported(name), options=options), MODELS[name][1]
    content = emit_object(ir_of(name, cpu), NAMED[cpu], public=ENTRY)
    found = run([content], arrays, program.outputs, program.constants, program.arena_bytes, tmp_path)
    for ours, right in zip(found, shlo.compile(exported(name), options=options)(*arrays), strict=True):
        assert ours.tobytes() == right.tobytes()


@HERE
def test_only_public_names_are_seen(tmp_path: Path) -> None:
    found = symbols(emit_object(ir_of("mlp"), AVX2, public=ENTRY), tmp_path)
    assert [name for kind, name in found if kind.isupper()] == ENTRY
    assert ("t", "fusion_0") in found
    both = symbols(emit_object(ir_of("mlp"), AVX2, public=["fusion_0", *ENTRY]), tmp_path)
    assert sorted(name for kind, name in both if kind.isupper()) == ["fusion_0", *ENTRY]


def test_what_nothing_public_needs_is_dropped() -> None:
    whole = emit_object(ir_of("mlp"), AVX2, public=ENTRY)
    part = emit_object(ir_of("mlp"), AVX2, public=["fusion_1"])
    assert len(part) < len(whole) / 2
    assert b"shlo_main" not in part and b"fusion_0" not in part


@HERE
def test_into_a_shared_library_and_an_executable_without_warnings(tmp_path: Path) -> None:
    """Position-independent: the linker writes nothing into code. No stack is executable."""
    (tmp_path / "model.o").write_bytes(emit_object(ir_of("sorting"), AVX2, public=ENTRY))
    command = ["gcc", "-shared", "-Wl,-z,text,-z,defs,--fatal-warnings", "model.o", "-lm", "-o", "libmodel.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    flags = subprocess.run(["readelf", "-lW", "libmodel.so"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert re.search(r"GNU_STACK .* RW ", flags.stdout)


def test_equal_bytes_in_any_process() -> None:
    ir = ir_of("convolution")
    first = emit_object(ir, AVX2, public=ENTRY)
    assert emit_object(ir, AVX2, public=ENTRY) == first
    code = (
        "import sys, hashlib\n"
        "from stablehlo_py.backends.cpu.target import AVX2\n"
        "from stablehlo_py.backends.cpu.target_machine import emit_object\n"
        "sys.stdout.buffer.write(emit_object(sys.stdin.read(), AVX2, public=['shlo_main']))"
    )
    again = subprocess.run([sys.executable, "-c", code], input=ir.encode(), capture_output=True, check=True, cwd="/")
    assert again.stdout == first


def test_nothing_of_the_compiling_process_is_in_it() -> None:
    content = emit_object(ir_of("mlp"), AVX2, public=ENTRY)
    for text in (str(Path(__file__).parents[3]), sys.prefix, "python", "clang", "llvmlite"):
        assert text.encode() not in content


def test_code_is_for_the_target_that_is_asked_for() -> None:
    """Also where the text says another."""
    ir = ir_of("mlp")
    assert "ymm" in assembly(ir, AVX2, public=ENTRY) and "vfmadd" in assembly(ir, AVX2, public=ENTRY)
    older = assembly(ir, BASELINE, public=ENTRY)
    assert "ymm" not in older and not re.search(r"\tv[a-z]+ps", older)


@pytest.mark.parametrize(
    ("triple", "start"),
    [
        ("x86_64-unknown-linux-gnu", b"\x7fELF"),
        ("x86_64-apple-macosx13.0", b"\xcf\xfa\xed\xfe"),
        ("x86_64-pc-windows-msvc", b"\x64\x86"),
    ],
)
def test_triples_choose_the_format(triple: str, start: bytes) -> None:
    assert emit_object(ir_of("mlp"), AVX2, public=ENTRY, triple=triple).startswith(start)


def test_static_code() -> None:
    """It has absolute addresses of 32 bits."""
    ir = """@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
define i64 @shlo_main(i64 %x) {
  %1 = getelementptr i64, ptr @table, i64 %x
  %2 = load i64, ptr %1
  ret i64 %2
}"""
    assert "table(%rip)" in assembly(ir, AVX2, public=ENTRY)
    assert "table(,%rdi,8)" in assembly(ir, AVX2, public=ENTRY, position_independent=False)


def test_what_the_program_does_not_define() -> None:
    with pytest.raises(InternalError, match="the program's code does not define missing_one, other"):
        emit_object("@other = external global i64\n" + ir_of("mlp"), AVX2, public=["other", *ENTRY, "missing_one"])


def test_what_is_no_ir() -> None:
    with pytest.raises(InternalError, match=r"LLVM refused the generated code for haswell: .*\n.*expected"):
        emit_object("define void @shlo_main() {\n  nothing\n}", AVX2, public=ENTRY)


def test_what_has_no_code() -> None:
    """LLVM ends its process; this one goes on."""
    ir = "declare i64 @llvm.read_register.i64(metadata)\ndefine i64 @shlo_main() {\n"
    ir += '  %1 = call i64 @llvm.read_register.i64(metadata !{!"none"})\n  ret i64 %1\n}'
    with pytest.raises(UnsupportedError, match=r"LLVM cannot generate code for haswell: .*invalid register"):
        emit_object(ir, AVX2, public=ENTRY)
    assert emit_object("define void @shlo_main() {\n  ret void\n}", AVX2, public=ENTRY)
