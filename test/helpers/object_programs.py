"""Object files of programs, linked with a caller in C by a compiler that is installed, and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stablehlo_py as shlo
from stablehlo_py.runtime.program import Spec

# Reads the arguments and constants from one file, aligned to 64 bytes each, and writes the results into another.
CALLER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "shlo_call.h"

int shlo_main(const shlo_call *call);

static char *memory(size_t bytes) {
  uintptr_t address = (uintptr_t)malloc(bytes + 128);
  if (!address) exit(8);
  return (char *)((address + 63) / 64 * 64);
}

static void *part(FILE *in, size_t bytes) {
  char *data = memory(bytes);
  if (fread(data, 1, bytes, in) != bytes) exit(9);
  return data;
}

int main(int count, char **names) {
  static const size_t input_bytes[] = {INPUT_BYTES 0}, constant_bytes[] = {CONSTANT_BYTES 0};
  static const size_t output_bytes[] = {OUTPUT_BYTES 0};
  const void *inputs[INPUTS + 1], *constants[CONSTANTS + 1];
  void *outputs[OUTPUTS + 1];
  FILE *in = fopen(names[1], "rb");
  for (int i = 0; i < INPUTS; i++) inputs[i] = part(in, input_bytes[i]);
  for (int i = 0; i < CONSTANTS; i++) constants[i] = part(in, constant_bytes[i]);
  for (int i = 0; i < OUTPUTS; i++) outputs[i] = memory(output_bytes[i]);
  shlo_interrupt never = {0};
  shlo_call call = {sizeof call};
  call.inputs = inputs, call.outputs = outputs, call.constants = constants, call.interrupt = &never;
  call.workspace = memory(WORKSPACE_BYTES);
  int status = shlo_main(&call);
  if (status) return 10 + status;
  FILE *out = fopen(names[2], "wb");
  for (int i = 0; i < OUTPUTS; i++)
    if (fwrite(outputs[i], 1, output_bytes[i], out) != output_bytes[i]) return 7;
  return fclose(out) ? 7 : 0;
}
"""


@dataclass(frozen=True)
class Tools:
    """How object files become results.

    Attributes:
        compiler: the command that compiles and links C for the machine.
        runner: the command in front of a program for it; empty: this machine runs it.
        packages: Debian's packages that have them.
    """

    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()
    packages: tuple[str, ...] = ("gcc",)

    @property
    def missing(self) -> str:
        """The packages to install where a tool is not there, else nothing."""
        commands = [self.compiler[0], *self.runner[:1]]
        return "" if all(map(shutil.which, commands)) else f"install {' '.join(self.packages)}"


HOST = Tools(("gcc",))


def run(
    objects: Sequence[bytes],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[Spec],
    constants: Sequence[np.ndarray],
    workspace_bytes: int,
    folder: Path,
    tools: Tools = HOST,
) -> list[np.ndarray]:
    """The results of the `shlo_main` of some object files."""
    shapes = [tuple(size or 0 for size in spec.shape) for spec in outputs]
    sizes = [int(np.prod(shape)) * spec.dtype.itemsize for shape, spec in zip(shapes, outputs, strict=True)]
    lists = {
        "INPUT_BYTES": [array.nbytes for array in inputs],
        "CONSTANT_BYTES": [array.nbytes for array in constants],
        "OUTPUT_BYTES": sizes,
    }
    numbers = {"INPUTS": len(inputs), "CONSTANTS": len(constants), "OUTPUTS": len(outputs)}
    numbers["WORKSPACE_BYTES"] = workspace_bytes
    macros = [f"#define {name} {''.join(f'{size},' for size in found)}" for name, found in lists.items()]
    macros += [f"#define {name} {number}" for name, number in numbers.items()]
    (folder / "caller.c").write_text("\n".join([*macros, CALLER]))
    (folder / "in").write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in (*inputs, *constants)))
    names = [f"{number}.o" for number in range(len(objects))]
    for name, content in zip(names, objects, strict=True):
        (folder / name).write_bytes(content)
    command = [*tools.compiler, "-O1", "-Wall", f"-I{shlo.get_include()}", "caller.c", *names, "-lm", "-o", "caller"]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run([*tools.runner, "./caller", "in", "out"], cwd=folder, check=True, timeout=120)
    content, at, results = (folder / "out").read_bytes(), 0, []
    for spec, shape, size in zip(outputs, shapes, sizes, strict=True):
        results.append(np.frombuffer(content[at : at + size], spec.dtype).reshape(shape))
        at += size
    return results
