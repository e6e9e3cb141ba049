"""The C header of a library: all that a C or C++ program needs, in one file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from importlib.resources import files

from stablehlo_py.aot.names import Names, described
from stablehlo_py.backends.common.c_types import c_type
from stablehlo_py.backends.common.library import ALIGNMENT, Signature
from stablehlo_py.errors import clipped
from stablehlo_py.runtime.library import Library
from stablehlo_py.runtime.program import Spec

_WIDTH = 110  # of lines, where there is a choice


def header(library: Library, names: Names, links: Sequence[str]) -> str:
    """The text of the header; `links` says what a program is linked with."""
    guard = f"SHLO_LIBRARY_{names.upper}_H"
    included = [_included("shlo_call.h"), _included("shlo_model.h")]
    if library.custom_calls:
        included.append(_included("shlo_custom_call.h"))
    return "\n".join(
        [
            _comment(library, names, links),
            f"#ifndef {guard}\n#define {guard}\n",
            *included,
            '#ifdef __cplusplus\nextern "C" {\n#endif\n',
            _constants(library, names),
            *_functions(library, names),
            "#ifdef __cplusplus\n}\n#endif\n#endif",
            "",
        ]
    )


def _included(name: str) -> str:
    """A header of ours without the comment at its start: its guard lets others include it too."""
    text = files("stablehlo_py").joinpath("include", name).read_text()
    text = re.sub(r'^#include "shlo_\w+\.h"\n', "", text[text.index("#ifndef") :], flags=re.MULTILINE)
    return f"/* --- {name} --- */\n{text}"


def _comment(library: Library, names: Names, links: Sequence[str]) -> str:
    interface, program = library.interface, library.program
    lines = [f"{names.model}: a model compiled by stablehlo-py for {library.target}."]
    if interface.triple is not None and re.search(r"darwin|apple|windows", interface.triple):
        lines.append("Code for this system was only assembled, and never run by those who made the compiler.")
    lines.append("")
    for kind, words, specs in (
        ("argument", names.arguments, program.inputs),
        ("result", names.results, program.outputs),
    ):
        for number, (word, spec) in enumerate(zip(words, specs, strict=True)):
            name = "" if spec.name == word else f"   {clipped(spec.name, 60)}"
            lines.append(f"  {kind} {number}: {word}  {described(spec)}{name}".replace("*/", "* /"))
    lines += ["", "Tensors are dense and row-major. Link with:", f"  {' '.join(links)}"]
    if library.routines:
        lines.append(f"LAPACK and BLAS (OpenBLAS, MKL, Accelerate ...) have to define {', '.join(library.routines)}.")
    if library.custom_calls:
        lines.append(f"You have to define {', '.join(library.custom_calls.values())}: see the end.")
    return "/* " + "\n".join(f" * {line}".rstrip() if number else line for number, line in enumerate(lines)) + "\n */"


def _constants(library: Library, names: Names) -> str:
    interface, program, upper = library.interface, library.program, names.upper
    lines = [
        f'#define {upper}_HASH "{library.hash}"',
        f"#define {upper}_ARGUMENTS {len(program.inputs)}",
        f"#define {upper}_RESULTS {len(program.outputs)}",
        f"#define {upper}_THREADS {interface.most_threads} /* a call uses no more */",
        f"#define {upper}_WORKSPACE_ALIGNMENT {ALIGNMENT}",
    ]
    if interface.constants == "file":
        lines.append(f"#define {upper}_CONSTANTS {len(program.constants)} /* in the file of constants */")
    if program.dynamic is None:
        lines.append(f"#define {upper}_WORKSPACE_BYTES {program.arena_bytes}")
        for word, spec in (
            *zip(names.arguments, program.inputs, strict=True),
            *zip(names.results, program.outputs, strict=True),
        ):
            lines.append(f"#define {upper}_{word.upper()}_BYTES {_bytes(spec)}")
    return "\n".join(lines) + "\n"


def _bytes(spec: Spec) -> int:
    return math.prod(spec.shape) * spec.dtype.itemsize  # type: ignore[arg-type]


def _functions(library: Library, names: Names) -> list[str]:
    model, interface, program = names.model, library.interface, library.program
    dimensions = [f"int64_t {name}" for name in names.dimensions]
    sizes = [*dimensions, *(f"int64_t {name}" for name in names.values)]
    found = [
        "/* Its tables: names, types, shapes. */",
        f"extern const shlo_model {model}_model;\n",
        "/* The entry that all models have. `constants` and `interrupt` of the call may be null. */",
        f"int {model}_call(const shlo_call *call);\n",
        "/* Bytes of workspace that a call needs"
        + ("" if not sizes else "; -1: the model takes no such sizes")
        + ". */",
        f"{_declaration('int64_t', f'{model}_workspace_bytes', sizes)}\n",
    ]
    if program.dynamic is not None:
        slots = program.dynamic.slots + 1
        found += [
            f"/* Fills the table of sizes, {slots} numbers, for the field `sizes` of a call. */",
            f"void {model}_sizes(const int64_t *symbols, int64_t *table);\n",
        ]
    if interface.constants == "file":
        found += [
            "/* Finds the constants in the content of their file (mapped into memory, say), of so many bytes, and",
            f" * fills a table of {len(program.constants)} addresses. Checks every byte: once, then the table serves",
            " * all calls. Returns SHLO_OK or SHLO_CONSTANTS. */",
            f"int {model}_constants(const void *file, int64_t bytes, const void **table);\n",
        ]
    if interface.threads == "own":
        found += [
            "/* Threads of its own: up to `threads`, the calling one included, on SHLO_THREADS_BYTES zeroed bytes",
            " * aligned to 64. Returns how many there are. One call at a time has them; others work alone. For a call:",
            f" *   shlo_threads threads = {{{model}_parallel_for, memory}}; */",
            f"int64_t {model}_threads_start(void *memory, int64_t threads);",
            f"void {model}_threads_stop(void *memory);",
            f"void {model}_parallel_for(void *memory, shlo_task task, void *context, int64_t iterations,",
            "    int64_t chunk);\n",
        ]
    found += [
        "/* One call. May be made from any number of threads at once, each with a workspace of its own. Returns",
        " * SHLO_OK or another status of shlo_call.h, whose text is shlo_status_text(status). */",
        _declaration("int", model, _parameters(library, names)) + "\n",
    ]
    for target, function in library.custom_calls.items():
        found += [
            f"/* Yours to define: the custom call '{clipped(target, 60)}'.".replace("*/", "* /") + " */",
            f"int32_t {function}(const shlo_custom_call *call);\n",
        ]
    return found


def _parameters(library: Library, names: Names) -> list[str]:
    """Of the plain function, in the order of backends/common/library.py."""
    program = library.program
    signature = Signature.of(program)
    written = set(signature.aliases.values())
    found = [f"int64_t {name}" for name in names.dimensions]
    for number, (word, spec) in enumerate(zip(names.arguments, program.inputs, strict=True)):
        both = ", also " + " ".join(names.results[r] for r, a in signature.aliases.items() if a == number)
        constant = "" if number in written else "const "
        note = f"{described(spec)}{both if number in written else ''}"
        found.append(f"{constant}{c_type(spec.dtype)} *{word} /* {note} */")
    for number in signature.own_results:
        spec = program.outputs[number]
        found.append(f"{c_type(spec.dtype)} *{names.results[number]} /* {described(spec)} */")
    found += ["void *workspace", "int64_t workspace_bytes"]
    if program.constants and library.interface.constants == "file":
        found.append("const void *const *constants")
    if library.interface.threads != "off":
        found.append("const shlo_threads *threads /* null: this thread alone */")
    return found


def _declaration(result: str, name: str, parameters: Sequence[str]) -> str:
    line = f"{result} {name}({', '.join(parameters) or 'void'});"
    if len(line) <= _WIDTH:
        return line
    return f"{result} {name}(\n    " + ",\n    ".join(parameters) + ");"
