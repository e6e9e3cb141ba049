"""Object files in this process: where they lie, what they call, and which are refused."""

from __future__ import annotations

import ctypes
import platform
import re
import struct
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from stablehlo_py.api import compile_program
from stablehlo_py.backends.cpu.elf import ObjectFile
from stablehlo_py.backends.cpu.helper_objects import helper_objects
from stablehlo_py.backends.cpu.linker import PAGE, Linker
from stablehlo_py.backends.cpu.listing import disassembly
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.errors import LoadError, ShloError
from stablehlo_py.options import Options

# A function that calls another one, reads a table, and a table of addresses.
TEXT = """
@numbers = constant [3 x i64] [i64 5, i64 7, i64 11]
@addresses = constant [2 x ptr] [ptr @outside, ptr @inside]

declare i64 @outside(i64)

define i64 @inside(i64 %place) noinline {
  %address = getelementptr i64, ptr @numbers, i64 %place
  %number = load i64, ptr %address
  ret i64 %number
}

define ptr @where() {
  ret ptr @outside
}

define i64 @both(i64 %place) {
  %first = call i64 @inside(i64 %place)
  %second = call i64 @outside(i64 %first)
  ret i64 %second
}
"""
WRITABLE = "@counter = global i64 5"
ADDRESS = 0x7F12_3456_0000
OUTSIDE = 0xFEDC_BA98_7654


def compiled(text: str, triple: str = "x86_64-unknown-linux-gnu", model: str = "large") -> bytes:
    """An object file by LLVM, in the code model of generated code."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(codemodel=model, jit=True, reloc="static")
    module = llvm.parse_assembly(text)
    module.triple = triple
    return machine.emit_object(module)


def linked(content: bytes, machine: str = "x86_64") -> tuple[np.ndarray, dict[str, int]]:
    image = Linker([content], machine).link(ADDRESS, {"outside": OUTSIDE}.__getitem__)
    return image.content, {name: address - ADDRESS for name, address in image.symbols.items()}


def in_this_architecture() -> str:
    return f"{platform.machine()}-unknown-linux-gnu"


def test_code_calls_and_reads_what_it_names() -> None:
    called = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda number: 100 * number)
    address = ctypes.cast(called, ctypes.c_void_p).value
    assert address is not None
    code = NativeCode([compiled(TEXT, in_this_architecture())], {"outside": address})
    both = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("both"))
    assert [both(place) for place in range(3)] == [500, 700, 1100]
    table = (ctypes.c_int64 * 2).from_address(code.address("addresses"))
    assert list(table) == [address, code.address("inside")]


def test_memory_is_written_or_executed() -> None:
    """Code is executed and not written, tables are neither."""
    code = NativeCode([compiled(TEXT, in_this_architecture())], {"outside": 1})
    protection = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end, allowed = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # type: ignore[union-attr]
        for name in ("both", "addresses"):
            if int(begin, 16) <= code.address(name) < int(end, 16):
                protection[name] = allowed
    assert protection == {"both": "r-xp", "addresses": "r--p"}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_addresses_in_tables(machine: str) -> None:
    content, symbols = linked(compiled(TEXT, f"{machine}-unknown-linux-gnu"), machine)
    assert symbols.keys() == {"inside", "both", "where", "numbers", "addresses"}
    place = symbols["addresses"]
    assert content[place : place + 16].view(np.uint64).tolist() == [OUTSIDE, ADDRESS + symbols["inside"]]


def test_addresses_in_instructions_of_arm() -> None:
    """MOVZ and MOVK give the parts of an address."""
    text = (
        "@table = private constant [2 x i64] [i64 5, i64 7]\n@at = constant ptr @table\n"
        + """
    define i64 @read(i64 %place) {
      %address = getelementptr i64, ptr @table, i64 %place
      %number = load i64, ptr %address
      ret i64 %number
    }"""
    )
    content, symbols = linked(compiled(text, "aarch64-unknown-linux-gnu"), "aarch64")
    place = symbols["at"]
    words = content[: symbols["read"] + 64].view(np.uint32).tolist()
    parts = {word >> 21 & 3: word >> 5 & 0xFFFF for word in words if word >> 23 in (0b110100101, 0b111100101)}
    made = sum(part << 16 * shift for shift, part in parts.items())
    assert len(parts) == 4 and made == int(content[place : place + 8].view(np.uint64)[0])


def test_addresses_that_arm_reads_from_memory() -> None:
    """ADRP gives a page, LDR reads the address there."""
    content, symbols = linked(compiled(TEXT, "aarch64-unknown-linux-gnu"), "aarch64")
    place = symbols["where"]
    page, load = content[place : place + 8].view(np.uint32).tolist()
    assert page >> 31 == 1 and page >> 24 & 0b11111 == 0b10000 and load >> 22 == 0b1111100101
    distance = (page >> 29 & 3) | (page >> 5 & 0x7FFFF) << 2
    slot = (place >> 12 << 12) + (distance << 12) + ((load >> 10 & 0xFFF) << 3)
    assert content[slot : slot + 8].view(np.uint64).tolist() == [OUTSIDE]


@pytest.mark.parametrize("branch", ["b", "bl"])
@pytest.mark.parametrize("called", ["inside", "outside"])
def test_branches_of_arm(branch: str, called: str) -> None:
    """To a function, or a stub in its place: ldr x16, 8 bytes further; br x16; the function's address."""
    call = {"b": "musttail call", "bl": "call"}[branch]
    text = f"""
    {"declare void @outside()" if called == "outside" else "define void @inside() noinline { ret void }"}
    define void @calls() {{
      {call} void @{called}()
      {"ret void" if branch == "b" else "unreachable"}
    }}"""
    content, symbols = linked(compiled(text, "aarch64-unknown-linux-gnu"), "aarch64")
    words = content.view(np.uint32).tolist()
    (place,) = (number for number, word in enumerate(words) if word >> 26 in (0b000101, 0b100101))
    assert words[place] >> 26 == {"b": 0b000101, "bl": 0b100101}[branch]
    target = place + (words[place] & 0x3FFFFFF) - (words[place] >> 25 & 1) * (1 << 26)
    if called == "inside":
        assert 4 * target == symbols["inside"]
    else:
        assert words[target : target + 4] == [0x58000050, 0xD61F0200, OUTSIDE & 0xFFFFFFFF, OUTSIDE >> 32]


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(LoadError, match=r"relocations of type \d+, which are not known"):
        linked(compiled(TEXT, model="small"))
    with pytest.raises(LoadError, match=r"a section \.l?data, which is not only read"):
        linked(compiled(WRITABLE))
    with pytest.raises(LoadError, match="is not for aarch64"):
        linked(compiled(TEXT), "aarch64")
    with pytest.raises(LoadError, match=r"no loader of machine code for riscv64\n.*use x86_64 or aarch64"):
        linked(compiled(TEXT), "riscv64")
    with pytest.raises(LoadError, match="calls 'outside', which this process does not have"):
        NativeCode([compiled(TEXT, in_this_architecture())])


def test_damaged_files_are_refused() -> None:
    """Whatever a byte of the header, the sections, the symbols and the relocations becomes."""
    content = compiled(TEXT)
    file = ObjectFile(content)
    (table,) = struct.unpack_from("<Q", content, 40)
    places = {*range(64), *range(table, len(content))}
    for section in file.sections:
        if section["type"] in (2, 3, 4):  # symbols, names, relocations
            places |= set(range(int(section["offset"]), int(section["offset"] + section["size"])))
    refused = 0
    for place in sorted(places):
        for value in (0xFF, content[place] ^ 1):
            damaged = bytearray(content)
            damaged[place] = value
            try:
                Linker([bytes(damaged)], "x86_64").link(ADDRESS, lambda name: OUTSIDE)
            except ShloError as error:
                assert isinstance(error, LoadError), error
                refused += 1
    assert refused > len(places) / 4
    for size in range(0, len(content), 7):
        with pytest.raises(LoadError):
            Linker([content[:size]], "x86_64").link(ADDRESS, lambda name: OUTSIDE)


def listed(objects: list[bytes]) -> str:
    listing = disassembly(objects)
    if "no objdump here" in listing:
        pytest.skip("there is no objdump")
    return listing


def test_the_runtimes_own_code_is_for_every_processor() -> None:
    """No registers of AVX, whatever this processor has."""
    listing = listed(list(helper_objects().values()))
    assert "shlo_enter" in listing and not re.search(r"[yz]mm\d", listing)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are its registers")
@pytest.mark.parametrize(("cpu", "wider"), [("x86-64", "[yz]mm"), ("generic", "[yz]mm"), ("avx2", "zmm")])
def test_code_for_a_processor_has_its_registers_alone(cpu: str, wider: str) -> None:
    """Also where the machine that compiles has wider ones."""
    text = """func.func @main(%x: tensor<99xf32>) -> tensor<99xf32> {
      %0 = stablehlo.tanh %x : tensor<99xf32>
      return %0 : tensor<99xf32>
    }"""
    listing = listed(compile_program(text, options=Options(cpu=cpu, threads=2, cache_dir=None)).objects)
    assert re.search(r"[xy]mm\d", listing) and not re.search(rf"{wider}\d", listing)


def test_small_code_takes_few_pages() -> None:
    assert Linker([compiled(TEXT)], "x86_64").size == 2 * PAGE
