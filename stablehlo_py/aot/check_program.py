"""A C program that tests a library: inputs, the results that this machine has for them, and a comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stablehlo_py.aot.names import Names
from stablehlo_py.backends.common.library import Signature, value_symbols
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.runtime.library import Library

MOST_BYTES = 16 << 20  # of data in the source: C compilers take a second for a megabyte


def check_program(
    library: Library, names: Names, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> tuple[str, str]:
    """`NAME_test.c`, which prints a line for each result and ends with 0 where all are right: equal, or, floats,
    within 1e-4 of the largest number.

    Raises:
        UnsupportedError: so much data does not go into a C program.
    """
    held = sum(array.nbytes for array in (*inputs, *outputs))
    if held > MOST_BYTES:
        raise UnsupportedError(
            f"a test of this model holds {held >> 20} MiB of inputs and results, and C compilers take it slowly",
            remedy=f"leave out --emit-test, or use a smaller batch (up to {MOST_BYTES >> 20} MiB)",
        )
    program, model, signature = library.program, names.model, Signature.of(library.program)
    parts = [_HEAD.format(model=model)]
    if library.interface.constants == "file" and program.constants:
        parts.append(_FILE)
    for number, array in enumerate(inputs):
        parts.append(_array(f"argument_{number}", array))
    for number, array in enumerate(outputs):
        parts.append(_array(f"expected_{number}", array, constant=True))
        if number not in signature.aliases:
            parts.append(
                f"static union {{ uint64_t align; unsigned char bytes[{max(1, array.nbytes)}]; }} result_{number};"
            )
    parts.append(_main(library, names, signature, inputs, outputs))
    return f"{model}_test.c", "\n".join(parts)


def _array(name: str, array: np.ndarray, *, constant: bool = False) -> str:
    content = np.ascontiguousarray(array).tobytes() or b"\0"
    words = np.frombuffer(content.ljust(-(-len(content) // 8) * 8, b"\0"), "<u8")
    listed = ",".join(f"0x{word:x}u" if word < 1 << 31 else f"0x{word:x}ull" for word in words.tolist())
    return f"static {'const ' if constant else ''}uint64_t {name}[] = {{{listed}}};"


def _main(
    library: Library,
    names: Names,
    signature: Signature,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
) -> str:
    program, model = library.program, names.model
    sizes = [str(inputs[each.argument].shape[each.position]) for each in signature.dimensions]
    values = [str(int(inputs[number].flat[at])) for number, at in value_symbols(program)]
    passed = [*sizes, *(f"(void *)argument_{number}" for number in range(len(inputs)))]
    passed += [f"(void *)result_{number}.bytes" for number in signature.own_results]
    passed += ["workspace", "bytes"]
    lines = [
        "int main(int count, char **words) {",
        f"  int64_t bytes = {model}_workspace_bytes({', '.join([*sizes, *values])});",
        "  void *block = malloc((size_t)bytes + 128);",
        "  void *workspace = (void *)(((uintptr_t)block + 63) / 64 * 64);",
        "  int wrong = 0, status;",
    ]
    if library.interface.constants == "file" and program.constants:
        number = len(program.constants)
        lines += [
            f"  const void *constants[{number}];",
            "  int64_t size;",
            f'  void *file = content(count > 1 ? words[1] : "{model}.safetensors", &size);',
            f"  status = {model}_constants(file, size, constants);",
            '  if (status) return printf("constants: %s\\n", shlo_status_text(status)), 1;',
        ]
        passed.append("constants")
    else:
        lines.append("  (void)count, (void)words;")
    if library.interface.threads == "own":
        lines += [
            "  static union { char bytes[SHLO_THREADS_BYTES + 64]; void *align; } pool;",
            "  void *memory = (void *)(((uintptr_t)pool.bytes + 63) / 64 * 64);",
            f"  shlo_threads threads = {{{model}_parallel_for, memory}};",
            f"  {model}_threads_start(memory, {library.interface.most_threads});",
        ]
        passed.append("&threads")
    elif library.interface.threads == "callback":
        passed.append("0")
    lines += [
        f"  status = {model}({', '.join(passed)});",
        '  if (status) return printf("%s\\n", shlo_status_text(status)), 1;',
    ]
    if library.interface.threads == "own":
        lines.append(f"  {model}_threads_stop(memory);")
    for number, array in enumerate(outputs):
        alias = signature.aliases.get(number)
        place = f"result_{number}.bytes" if alias is None else f"argument_{alias}"
        kind = _KINDS.get(array.dtype.name, 0)
        lines.append(
            f'  wrong += differs("{names.results[number]}", {place}, expected_{number}, {array.nbytes}, {kind});'
        )
    lines += ["  free(block);", "  return wrong != 0;", "}", ""]
    return "\n".join(lines)


# How numbers are compared: as floats, doubles, or 16-bit floats of both kinds; else as bytes.
_KINDS = {"float32": 1, "complex64": 1, "float64": 2, "complex128": 2, "float16": 3, "bfloat16": 4}

_HEAD = """/* Tests {model}: prints how far each result is from what the compiling machine computed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "{model}.h"

/* The number at a place: of kind 1 float, 2 double, 3 float16, 4 bfloat16. */
static double number(const void *data, size_t i, int kind) {{
  uint16_t half;
  uint32_t bits;
  float single;
  if (kind == 1) return ((const float *)data)[i];
  if (kind == 2) return ((const double *)data)[i];
  memcpy(&half, (const char *)data + 2 * i, 2);
  if (kind == 4) {{
    bits = (uint32_t)half << 16;
  }} else {{
    uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 0) return (half >> 15 ? -1.0 : 1.0) * mantissa / 16777216.0;
    bits = (uint32_t)(half >> 15) << 31 | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
  }}
  memcpy(&single, &bits, 4);
  return single;
}}

static int differs(const char *name, const void *is, const void *expected, size_t bytes, int kind) {{
  double largest = 1, difference = 0;
  size_t i, count = kind == 0 ? 0 : bytes / (kind == 1 ? 4 : kind == 2 ? 8 : 2);
  if (memcmp(is, expected, bytes) == 0) return printf("%s: the same bits\\n", name), 0;
  if (kind == 0) return printf("%s: WRONG\\n", name), 1;
  for (i = 0; i < count; i++) {{
    double a = number(is, i, kind), b = number(expected, i, kind), d = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    if (a != a && b != b) continue;
    if (a == b) continue;
    if (!(d <= difference)) difference = d;
    if (size > largest && size < 1e300) largest = size;
  }}
  printf("%s: differs by %g of %g\\n", name, difference, largest);
  return !(difference <= (kind > 2 ? 1e-2 : 1e-4) * largest);
}}
"""

_FILE = """static void *content(const char *path, int64_t *bytes) {
  FILE *file = fopen(path, "rb");
  void *data;
  if (!file) exit(2);
  fseek(file, 0, SEEK_END), *bytes = ftell(file), rewind(file);
  data = malloc((size_t)*bytes + 64);
  data = (void *)(((uintptr_t)data + 63) / 64 * 64);
  if (fread(data, 1, (size_t)*bytes, file) != (size_t)*bytes) exit(2);
  fclose(file);
  return data;
}
"""
