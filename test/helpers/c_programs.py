"""C files of models: compiled with all warnings as errors, linked with a caller of files, and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.base import get_backend
from stablehlo_py.backends.c.compile import source
from stablehlo_py.compiler import run_stages

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
OPTIONS = shlo.Options(threads=1, cache_dir=None)

# Reads the inputs, calls the entry with a workspace and results of just the size, writes the results.
_CALLER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
{structure}
int {name}(const shlo_call *call);

int main(void) {{
  static const size_t taken[] = {{{taken} 0}}, given[] = {{{given} 0}};
  const void *inputs[{inputs} + 1];
  void *outputs[{outputs} + 1];
  char path[32];
  shlo_interrupt never;
  shlo_call call;
  for (int i = 0; i < {inputs}; i++) {{
    void *data = malloc(taken[i] + !taken[i]);
    sprintf(path, "in%d", i);
    FILE *in = fopen(path, "rb");
    if (!in || fread(data, 1, taken[i], in) != taken[i]) return 9;
    fclose(in), inputs[i] = data;
  }}
  for (int i = 0; i < {outputs}; i++) outputs[i] = malloc(given[i] + !given[i]);
  memset(&call, 0, sizeof call), memset(&never, 0, sizeof never);
  call.size = sizeof call, call.inputs = inputs, call.outputs = outputs, call.interrupt = &never;
  call.workspace = malloc({workspace} + 1);
  int status = {name}(&call);
  for (int i = 0; i < {outputs}; i++) {{
    sprintf(path, "out%d", i);
    FILE *out = fopen(path, "wb");
    fwrite(outputs[i], 1, given[i], out), fclose(out), free(outputs[i]);
  }}
  for (int i = 0; i < {inputs}; i++) free((void *)inputs[i]);
  free(call.workspace);
  return status;
}}
"""


def c_file(model: object, name: str = "shlo_main", options: shlo.Options = OPTIONS) -> str:
    """The C file of a model."""
    backend = get_backend("c")
    module = run_stages(shlo.load(model), "", "scheduled", options, target="c")
    return source(module, backend.target(options), options, name=name)


def structure(text: str) -> str:
    """The declarations of `shlo_call` in a C file."""
    guard = "#ifndef SHLO_CALL_H"
    return guard + text.partition(guard)[2].partition("#endif")[0] + "#endif"


def compiler(name: str) -> str:
    """The path of a C compiler. Skips the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} (Debian: {name})")
    return found


def build(text: str, folder: Path, name: str, flags: Sequence[str]) -> Path:
    """The object file of a C file, which a compiler takes without a warning."""
    path, made = folder / "model.c", folder / f"model-{name}.o"
    path.write_text(text)
    command = [compiler(name), *STRICT, *flags, "-c", str(path), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return made


def run(
    model: object,
    arrays: Sequence[np.ndarray],
    folder: Path,
    name: str = "gcc",
    flags: Sequence[str] = ("-O2",),
    options: shlo.Options = OPTIONS,
) -> list[np.ndarray]:
    """The results of a model's C file in a process of its own, which ends without a word on stderr."""
    executable = shlo.compile(model, target="c", options=options)
    made = build(c_file(model, options=options), folder, name, flags)
    results = [np.empty(spec.shape, spec.dtype) for spec in executable.outputs]
    described = executable.entry
    caller = _CALLER.format(
        structure=structure((folder / "model.c").read_text()),
        name="shlo_main",
        taken="".join(f"{array.nbytes}, " for array in arrays),
        given="".join(f"{result.nbytes}, " for result in results),
        inputs=len(arrays),
        outputs=len(results),
        workspace=described.workspace_bytes,
    )
    (folder / "caller.c").write_text(caller)
    command = [compiler(name), "-std=c99", *flags, "caller.c", str(made), "-o", "caller", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    for number, array in enumerate(arrays):
        (folder / f"in{number}").write_bytes(array.tobytes())
    done = subprocess.run(["./caller"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:4000]
    return [
        np.frombuffer((folder / f"out{number}").read_bytes(), result.dtype).reshape(result.shape)
        for number, result in enumerate(results)
    ]
