"""What takes space in a library."""

from __future__ import annotations

from stablehlo_py.backends.cpu.elf import CONTENT, EXECUTE, ObjectFile
from stablehlo_py.errors import LoadError
from stablehlo_py.runtime.library import Library

_SHOWN = 12  # of functions


def size_report(library: Library) -> str:
    """Sections, the largest functions, constants, workspace; a line each."""
    program = library.program
    lines = [f"{library.interface.name}: {_size(len(library.code))} for {library.target}"]
    lines += _parts(library.code)
    where = "in the library" if library.interface.constants == "embed" else "in their file"
    held = sum(array.nbytes for array in program.constants)
    lines.append(f"  constants: {_size(held)} {where}, {len(program.constants)} tensors")
    workspace = "depends on the dimensions" if program.dynamic else _size(program.arena_bytes)
    lines.append(f"  workspace of a call: {workspace}")
    return "\n".join(lines)


def _parts(code: bytes) -> list[str]:
    """Sections and functions of an object file of ELF for 64 bits; nothing of another one."""
    try:
        file = ObjectFile(code)
    except LoadError:
        return []
    kinds = {"code": 0, "read-only data": 0}
    for number in file.numbers(CONTENT):
        flags = int(file.sections[number]["flags"])
        name = "code" if flags & EXECUTE else "read-only data"
        if file.names[number].startswith((".text", ".rodata", ".data.rel.ro")):
            kinds[name] += int(file.sections[number]["size"])
    records, names = file.symbols, file.symbol_names
    functions = sorted(
        ((int(record["size"]), name) for record, name in zip(records, names, strict=True) if record["info"] & 15 == 2),
        reverse=True,
    )
    lines = [f"  {name}: {_size(size)}" for name, size in kinds.items()]
    lines += [f"    {name}: {_size(size)}" for size, name in functions[:_SHOWN]]
    rest = functions[_SHOWN:]
    if rest:
        lines.append(f"    {len(rest)} smaller functions: {_size(sum(size for size, _ in rest))}")
    return lines


def _size(size: int) -> str:
    for unit, limit in (("bytes", 1 << 10), ("KiB", 1 << 20)):
        if size < limit:
            return f"{size} {unit}" if unit == "bytes" else f"{size / 1024:.1f} {unit}"
    return f"{size / 2**20:.1f} MiB"
