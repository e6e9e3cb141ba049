"""Code objects for AMD's GPUs: what a loader reads of them, and that they are what LLVM's linker makes, where it is."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from stablehlo_py.backends.cpu.elf import HEADER, RELOCATION, RELOCATIONS, SECTION, SEGMENT, SYMBOL, ObjectFile
from stablehlo_py.backends.gpu.code_object import (
    DYNAMIC_SEGMENT,
    LOADED,
    NOTE_SEGMENT,
    PAGE,
    READ,
    RUN,
    code_object,
)
from stablehlo_py.backends.gpu.machine_code import CODE_OBJECT_VERSION, machine_code
from stablehlo_py.backends.gpu.target import AMDGCN, NAMED
from stablehlo_py.errors import InternalError

GPUS = [name for name, target in NAMED.items() if target.architecture is AMDGCN]
KERNELS = ("first", "second")
# A table, shared memory, a function that is called, and two kernels.
IR = """
@numbers = internal addrspace(1) constant [5 x i32] [i32 3, i32 1, i32 4, i32 1, i32 5], align 16
@shared = internal addrspace(3) global [64 x i32] poison
define internal i32 @called(i32 %n) noinline {
  %at = getelementptr [5 x i32], ptr addrspace(1) @numbers, i32 0, i32 %n
  %value = load i32, ptr addrspace(1) %at
  ret i32 %value
}
define amdgpu_kernel void @first(ptr addrspace(1) %to) "amdgpu-flat-work-group-size"="64,64" {
  %thread = call i32 @llvm.amdgcn.workitem.id.x()
  %number = call i32 @called(i32 %thread)
  %to_thread = getelementptr i32, ptr addrspace(1) %to, i32 %thread
  store i32 %number, ptr addrspace(1) %to_thread
  ret void
}
define amdgpu_kernel void @second(ptr addrspace(1) %to) "amdgpu-flat-work-group-size"="64,64" {
  %thread = call i32 @llvm.amdgcn.workitem.id.x()
  %place = getelementptr [64 x i32], ptr addrspace(3) @shared, i32 0, i32 %thread
  store i32 %thread, ptr addrspace(3) %place
  call void @llvm.amdgcn.s.barrier()
  %first = load i32, ptr addrspace(3) @shared
  store i32 %first, ptr addrspace(1) %to
  ret void
}
"""
OUTSIDE = """
declare i32 @outside(i32)
define amdgpu_kernel void @first(ptr addrspace(1) %to) {
  %number = call i32 @outside(i32 1)
  store i32 %number, ptr addrspace(1) %to
  ret void
}
"""
LLD = shutil.which("ld.lld")
OLDEST_LLD = 16  # that knows this version of code objects


@cache
def made(gpu: str) -> bytes:
    """What LLVM makes of the kernels."""
    return machine_code(IR, NAMED[gpu])


class Loaded:
    """A code object as a loader has it: its segments in memory, its symbols by the table for dynamic linkers."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        (self.header,) = np.frombuffer(content, HEADER, 1)
        self.segments = self._table(SEGMENT, "segments", "segment_count")
        self.sections = self._table(SECTION, "sections", "count")
        loaded = self.segments[self.segments["type"] == LOADED]
        self.memory = bytearray(int((loaded["address"] + loaded["size"]).max()))
        for segment in loaded:
            begin, address, size = (int(segment[field]) for field in ("offset", "address", "file_size"))
            self.memory[address : address + size] = content[begin : begin + size]
        dynamic = self.segment(DYNAMIC_SEGMENT)
        pairs = np.frombuffer(self.memory, "<u8", int(dynamic["size"]) // 8, int(dynamic["address"])).reshape(-1, 2)
        self.dynamic = dict(pairs.tolist())

    def _table(self, kind: np.dtype, place: str, count: str) -> np.ndarray:
        return np.frombuffer(self.content, kind, int(self.header[count]), int(self.header[place]))

    def segment(self, kind: int) -> np.void:
        (found,) = self.segments[self.segments["type"] == kind]
        return found

    def text(self, table: int, place: int) -> str:
        begin = table + place
        return bytes(self.memory[begin : self.memory.index(b"\0", begin)]).decode()

    def symbol(self, name: str) -> np.void | None:
        """By the table of hashes (DT_HASH, 4; DT_STRTAB, 5; DT_SYMTAB, 6)."""
        hashed = 0
        for byte in name.encode():  # System V ABI, figure 5-13
            hashed = (hashed << 4) + byte
            if high := hashed & 0xF0000000:
                hashed ^= high >> 24
            hashed &= ~high
        buckets, count = np.frombuffer(self.memory, "<u4", 2, self.dynamic[4]).tolist()
        table = np.frombuffer(self.memory, "<u4", buckets + count, self.dynamic[4] + 8)
        number = int(table[hashed % buckets])
        while number:
            (found,) = np.frombuffer(self.memory, SYMBOL, 1, self.dynamic[6] + number * SYMBOL.itemsize)
            if self.text(self.dynamic[5], int(found["name"])) == name:
                return found
            number = int(table[buckets + number])
        return None

    def bytes_of(self, name: str) -> bytes:
        found = self.symbol(name)
        assert found is not None, name
        return bytes(self.memory[int(found["value"]) : int(found["value"] + found["size"])])


@pytest.mark.parametrize("gpu", GPUS)
def test_the_file_is_what_drivers_load(gpu) -> None:
    relocatable, found = ObjectFile(made(gpu)), Loaded(code_object(made(gpu)))
    identity = bytes(found.header["magic"])
    assert identity[:8] == b"\x7fELF\x02\x01\x01\x40"  # ELFOSABI_AMDGPU_HSA
    assert identity[8] == CODE_OBJECT_VERSION - 2  # ELFABIVERSION_AMDGPU_HSA_V5 is 3
    assert (found.header["type"], found.header["machine"]) == (3, 224)  # ET_DYN, EM_AMDGPU
    assert found.header["flags"] == relocatable.header["flags"] != 0  # the GPU
    # What of the file is where is also said by the table of sections, whose end is the end of the file.
    ends = found.sections["offset"] + found.sections["size"]
    assert ends.max() <= found.header["sections"]
    assert found.header["sections"] + found.sections.nbytes == len(found.content)


@pytest.mark.parametrize("gpu", GPUS)
def test_segments_have_pages_of_their_own(gpu) -> None:
    found = Loaded(code_object(made(gpu)))
    loaded = found.segments[found.segments["type"] == LOADED]
    assert loaded["flags"].tolist() == [READ, READ | RUN, READ | 2]
    assert (loaded["offset"] % PAGE == loaded["address"] % PAGE).all() and (loaded["alignment"] == PAGE).all()
    first, last = loaded["address"] // PAGE, (loaded["address"] + loaded["size"] - 1) // PAGE
    assert (first[1:] > last[:-1]).all() and loaded["address"][0] == 0
    for section in found.sections[found.sections["flags"] & 2 != 0]:
        holds = (loaded["address"] <= section["address"]) & (
            section["address"] + section["size"] <= loaded["address"] + loaded["size"]
        )
        (segment,) = loaded[holds]
        assert segment["flags"] & RUN == (section["flags"] & 4) >> 2
        assert section["address"] % section["alignment"] == 0
        assert section["address"] - segment["address"] == section["offset"] - segment["offset"]
    note = found.segment(NOTE_SEGMENT)
    assert bytes(found.memory[int(note["address"]) + 12 :]).startswith(b"AMDGPU\0\0")


@pytest.mark.parametrize("gpu", GPUS)
def test_kernels_are_found_by_name(gpu) -> None:
    """Their descriptors lead to their code: kernel_code_entry_byte_offset, at 16, is a distance."""
    found = Loaded(code_object(made(gpu)))
    for name in KERNELS:
        descriptor, code = found.symbol(f"{name}.kd"), found.symbol(name)
        assert descriptor is not None and code is not None
        assert descriptor["size"] == 64 and descriptor["value"] % 64 == code["value"] % 256 == 0
        (distance,) = struct.unpack_from("<q", found.bytes_of(f"{name}.kd"), 16)
        assert descriptor["value"] + distance == code["value"]
    assert [found.symbol(name) for name in ("called", "numbers", "third")] == [None] * 3
    tables = found.sections[np.isin(found.sections["type"], (2, 11))]  # SHT_SYMTAB too: AMD's loader reads that one
    first, second = (found.content[int(each["offset"]) :][: int(each["size"])] for each in tables)
    assert first == second


def targets(object_: bytes, found: Loaded) -> list[tuple[str, int]]:
    """Where the relocations of an object lead in what was linked of it: the name of a section, a place in it."""
    file = ObjectFile(object_)
    records = file.symbols
    names = section_places(found)
    shown = []
    for number in file.numbers(RELOCATIONS):
        base = names[file.names[int(file.sections[number]["info"])]]
        for place, kind, symbol, addend in file.table(number, RELOCATION).tolist():
            at, section = base + place, file.names[int(records[symbol]["section"])]
            size = 8 if kind == 5 else 4
            value = int.from_bytes(found.memory[at : at + size], "little", signed=True)
            if kind == 11:  # the upper half: of what lies near, it is its sign
                assert value in (0, -1)
                continue
            shown.append((section, at + value - addend - names[section]))
    return shown


def section_places(found: Loaded) -> dict[str, int]:
    texts = int(found.sections[int(found.header["names"])]["offset"])
    names = [found.content[texts + int(place) :].split(b"\0", 1)[0].decode() for place in found.sections["name"]]
    return dict(zip(names, found.sections["address"].tolist(), strict=True))


@pytest.mark.parametrize("gpu", GPUS)
def test_distances_lead_where_the_symbols_are(gpu) -> None:
    file, found = ObjectFile(made(gpu)), Loaded(code_object(made(gpu)))
    records = file.symbols
    expected = [
        (file.names[int(records[symbol]["section"])], int(records[symbol]["value"]))
        for number in file.numbers(RELOCATIONS)
        for place, kind, symbol, addend in file.table(number, RELOCATION).tolist()
        if kind != 11
    ]
    assert targets(made(gpu), found) == expected
    assert {section for section, _ in expected} == {".text", ".rodata"}


def lld_version() -> int:
    """The major version of the installed linker; 0: there is none."""
    said = subprocess.run([LLD, "--version"], capture_output=True, text=True, check=True).stdout if LLD else ""
    found = re.search(r"LLD (\d+)", said)
    return int(found[1]) if found else 0


@pytest.mark.skipif(lld_version() < OLDEST_LLD, reason=f"no LLVM linker (ld.lld) from {OLDEST_LLD} on is installed")
@pytest.mark.parametrize("gpu", GPUS)
def test_it_is_what_llvms_linker_makes(gpu, tmp_path: Path) -> None:
    """But for places, and for the second table of hashes."""
    (tmp_path / "made.o").write_bytes(made(gpu))
    assert LLD is not None
    subprocess.run([LLD, "-shared", "made.o", "-o", "linked"], cwd=tmp_path, check=True)
    own, theirs = Loaded(code_object(made(gpu))), Loaded((tmp_path / "linked").read_bytes())
    same = ("magic", "type", "machine", "version", "entry", "flags", "segment_width", "width", "header_width")
    assert all(own.header[name] == theirs.header[name] for name in same)
    assert targets(made(gpu), own) == targets(made(gpu), theirs)
    for name in KERNELS:
        descriptors = [bytearray(each.bytes_of(f"{name}.kd")) for each in (own, theirs)]
        for descriptor in descriptors:
            descriptor[16:24] = bytes(8)
        assert descriptors[0] == descriptors[1]
        one, other = own.symbol(name), theirs.symbol(name)
        assert one is not None and other is not None
        assert all(one[field] == other[field] for field in ("info", "other", "size"))
    loaded = [each.segments[each.segments["type"] == LOADED]["flags"].tolist() for each in (own, theirs)]
    assert loaded[0] == loaded[1]
    assert set(theirs.dynamic) - set(own.dynamic) == {0x6FFFFEF5}  # DT_GNU_HASH
    assert set(section_places(theirs)) >= set(section_places(own))


def test_what_cannot_be_linked() -> None:
    with pytest.raises(InternalError, match="nothing defines outside, which a code object uses"):
        code_object(machine_code(OUTSIDE, NAMED["gfx942"]))
    other = bytearray(made("gfx942"))
    other[18] = 62  # x86-64
    with pytest.raises(InternalError, match="an object file for the machine 62"):
        code_object(bytes(other))
    file, strange = ObjectFile(made("gfx942")), bytearray(made("gfx942"))
    strange[int(file.sections[file.numbers(RELOCATIONS)[0]]["offset"]) + 8] = 3  # R_AMDGPU_ABS64
    with pytest.raises(InternalError, match="no relocation of type 3 to '"):
        code_object(bytes(strange))
