"""What a machine is like is known by its backend alone: passes, the compiler around them and what backends share name
no processor, no cache line, no number of registers and no length of vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = re.compile(
    r"\bcpus?\b|\b(?:avx\w*|sse\d*|neon|x86|amx|vnni|simd)\b|\bcache lines?\b|\bl[123]\b"
    r"|\b(?:in|of|few|many) registers\b"
    r"|\bregister[- ]resident\b|\bvector (?:registers?|lanes?|lengths?|width|bits|instructions?)\b"
)
IN_PASSES = re.compile(rf"{WORDS.pattern}|\blanes?\b|\bregisters?\b(?! (?:a|the|function))|\bkernels?/")
# Folders that are about code of a machine, or measure it, or debug it.
ASIDE = ("accuracy", "aot", "backends", "codegen", "conformance", "debug", "kit", "passes", "pjrt", "suite")
EXCEPTIONS = {
    "targets.py": "the default target",
    "options.py": "the option `cpu`, which is the default target's, and the number of processors that may be used",
    "custom_calls.py": "what JAX calls the platform of the default target",
    "handlers.py": "what JAX calls the platform of the default target",
    "legalize/custom_call.py": "names that JAX gives to custom calls",
    "legalize/gpu_libraries.py": "the platform that a remedy names",
    "runtime/library.py": "the option of libraries that hold code for several processors",
    "frontend/isolate.py": "processor time, which is limited",
    "frontend/worker.py": "processor time, which is limited",
    "cli/accuracy.py": "a tool that measures the default target",
    "cli/bench.py": "a tool that measures",
    "cli/compile.py": "the option --cpu of libraries",
    "cli/common.py": "the option --cpu of the default target",
    "cli/debugging.py": "the option --cpu of tools that debug",
    "cli/fuzz.py": "the option --cpu of a tool that debugs",
    "cli/version.py": "says what code is generated for",
}


def found(path: Path, words: re.Pattern[str]) -> Iterator[str]:
    """The lines of a file that name what they should not know."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = words.search(line.replace("_", " ").lower())
        if match:
            yield f"{path.relative_to(ROOT)}:{number}: '{match[0]}': {line.strip()}"


def test_passes_name_no_machine() -> None:
    sources = sorted((ROOT / "passes").rglob("*.py"))
    assert len(sources) > 40
    assert [line for path in sources for line in found(path, IN_PASSES)] == []


def test_the_compiler_names_no_machine() -> None:
    folder = ROOT / "stablehlo_py"
    sources = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.py"))}
    mine = {name: path for name, path in sources.items() if name.partition("/")[0] not in ASIDE}
    assert len(mine) > 80
    assert [line for name, path in mine.items() if name not in EXCEPTIONS for line in found(path, WORDS)] == []
    assert [name for name in EXCEPTIONS if name not in mine or not list(found(mine[name], WORDS))] == []


def test_what_backends_share_names_no_machine() -> None:
    sources = sorted((ROOT / "backends/common").rglob("*.py"))
    assert len(sources) > 8
    assert [line for path in sources for line in found(path, WORDS)] == []


@pytest.mark.parametrize(
    "line",
    [
        "if options.cpu == 'haswell':",
        "# a tile is a few cache lines",
        "MAX_CPU = 3",
        "VECTOR_LANES = 16",
        "values that are kept in registers",
        "from stablehlo_py.backends.cpu import target",
    ],
)
def test_names_are_found(line: str, tmp_path: Path) -> None:
    assert IN_PASSES.search(line.replace("_", " ").lower())
