"""The native entry as include/shlo_call.h describes it: called from C, and through ctypes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.runtime import callbacks, entry
from stablehlo_py.runtime.memory import Block

GCC = shutil.which("gcc") or shutil.which("cc")
TEXT = """
func.func @main(%x: tensor<700x300xf32>, %w: tensor<300x40xf32>) -> (tensor<700x40xf32>, tensor<300xf32>) {
  %c = stablehlo.constant dense<"0x{constant}"> : tensor<300xf32>
  %b = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<300xf32>) -> tensor<700x300xf32>
  %y = stablehlo.tanh %x : tensor<700x300xf32>
  %z = stablehlo.add %y, %b : tensor<700x300xf32>
  %p = stablehlo.dot_general %z, %w, contracting_dims = [1] x [0]
      : (tensor<700x300xf32>, tensor<300x40xf32>) -> tensor<700x40xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%z init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<700x300xf32>, tensor<f32>) -> tensor<300xf32>
  return %p, %s : tensor<700x40xf32>, tensor<300xf32>
}
"""
RNG = np.random.default_rng(0)
CONSTANT = RNG.standard_normal(300).astype(np.float32)
X, W = RNG.standard_normal((700, 300)).astype(np.float32), RNG.standard_normal((300, 40)).astype(np.float32)

# A caller with threads of its own: thread t does every second piece.
CALLER = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "shlo_call.h"

int shlo_main(const shlo_call *call);

typedef struct { shlo_task task; void *context; int64_t iterations, chunk, thread; } job;
static int shared;

static void *work(void *argument) {
  job *j = argument;
  for (int64_t begin = j->thread * j->chunk; begin < j->iterations; begin += 2 * j->chunk)
    j->task(j->context, begin, begin + j->chunk < j->iterations ? begin + j->chunk : j->iterations, j->thread);
  return 0;
}

static void parallel_for(void *own, shlo_task task, void *context, int64_t iterations, int64_t chunk) {
  job jobs[2] = {{task, context, iterations, chunk, 0}, {task, context, iterations, chunk, 1}};
  pthread_t thread;
  (*(int *)own)++;
  pthread_create(&thread, 0, work, &jobs[1]);
  work(&jobs[0]);
  pthread_join(thread, 0);
}

static void *file(const char *path, size_t bytes) {
  void *data = malloc(bytes);
  FILE *in = fopen(path, "rb");
  if (!in || fread(data, 1, bytes, in) != bytes) exit(9);
  fclose(in);
  return data;
}

int main(int count, char **names) {  /* x w constant result sums */
  const void *inputs[] = {file(names[1], X_BYTES), file(names[2], W_BYTES)};
  const void *constants[] = {file(names[3], CONSTANT_BYTES)};
  void *outputs[] = {malloc(RESULT_BYTES), malloc(SUMS_BYTES)};
  shlo_call call = {sizeof call};
  call.inputs = inputs, call.outputs = outputs, call.constants = constants;
  call.workspace = aligned_alloc(64, WORKSPACE_BYTES);
  call.parallel_for = parallel_for, call.parallel_context = &shared;
  int status = shlo_main(&call);
  FILE *out = fopen(names[4], "wb");
  fwrite(outputs[0], 1, RESULT_BYTES, out), fclose(out);
  out = fopen(names[5], "wb");
  fwrite(outputs[1], 1, SUMS_BYTES, out), fclose(out);
  call.size -= 8;
  printf("%d %d %d", status, shlo_main(&call), shared);
  return 0;
}
"""


def _text() -> str:
    return TEXT.replace("{constant}", CONSTANT.tobytes().hex().upper())


@pytest.mark.skipif(GCC is None, reason="there is no C compiler")
def test_a_c_program_calls_it_without_python(tmp_path: Path) -> None:
    options = shlo.Options(threads=2, cpu="x86-64")
    program = compile_program(_text(), options=options)
    expected = shlo.compile(_text(), options=options)(X, W)
    sizes = {
        "X_BYTES": X.nbytes,
        "W_BYTES": W.nbytes,
        "CONSTANT_BYTES": program.constants[0].nbytes,
        "RESULT_BYTES": expected[0].nbytes,
        "SUMS_BYTES": expected[1].nbytes,
        "WORKSPACE_BYTES": -(-program.arena_bytes // 64) * 64,
    }
    files = {"x": X, "w": W, "constant": program.constants[0]}
    for name, array in files.items():
        (tmp_path / name).write_bytes(array.tobytes())
    (tmp_path / "caller.c").write_text(CALLER)
    objects = []
    for number, content in enumerate(program.objects):
        objects.append(tmp_path / f"{number}.o")
        objects[-1].write_bytes(content)
    defined = [f"-D{name}={size}" for name, size in sizes.items()]
    command = [GCC, "-Wall", "-Werror", "-pthread", f"-I{shlo.get_include()}", *defined, "caller.c", *objects]
    subprocess.run([*command, "-lm", "-o", "caller"], cwd=tmp_path, check=True)
    said = subprocess.run(
        ["./caller", *files, "result", "sums"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    assert said[:2] == [str(entry.OK), str(entry.OLD_CALL)]
    assert int(said[2]) > 0, "no phase was given to the caller's threads"
    for name, right in zip(("result", "sums"), expected, strict=True):
        assert np.fromfile(tmp_path / name, right.dtype).tobytes() == right.tobytes()


def test_an_executable_says_how_it_is_called() -> None:
    executable = shlo.compile(_text(), options=shlo.Options(threads=1))
    described = executable.entry
    assert described.workspace_bytes is not None
    workspace, results = Block(max(64, described.workspace_bytes)), [np.empty((700, 40), "f"), np.empty(300, "f")]
    inputs = (ctypes.c_void_p * 2)(X.ctypes.data, W.ctypes.data)
    outputs = (ctypes.c_void_p * 2)(*(result.ctypes.data for result in results))
    call = entry.Call(
        ctypes.sizeof(entry.Call),
        ctypes.addressof(inputs),
        ctypes.addressof(outputs),
        workspace.address,
        described.constants,
    )
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(described.address)
    assert function(ctypes.addressof(call)) == entry.OK
    for mine, right in zip(results, executable(X, W), strict=True):
        assert mine.tobytes() == right.tobytes()


@pytest.mark.parametrize("asks", [True, False])
def test_a_custom_call_that_fails(asks: bool) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = stablehlo.custom_call @test.entry(%x) {api_version = 4 : i32, backend_config = {}}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    fail = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda call: 1)
    shlo.register_custom_call("test.entry", ctypes.cast(fail, ctypes.c_void_p).value)
    try:
        executable = shlo.compile(text, options=shlo.Options(cache_dir=None))
        described, x, y = executable.entry, np.ones(4, np.float32), np.ones(4, np.float32)
        assert described.workspace_bytes is not None
        workspace, error = Block(max(64, described.workspace_bytes)), ctypes.c_void_p()
        inputs, outputs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
        call = entry.Call(ctypes.sizeof(entry.Call), ctypes.addressof(inputs), ctypes.addressof(outputs))
        call.workspace, call.constants = workspace.address, described.constants
        call.error = ctypes.addressof(error) if asks else None
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(described.address)
        assert function(ctypes.addressof(call)) == entry.FAILED
        if asks:
            assert error.value is not None
            where = ctypes.c_char_p.from_address(error.value).value or b""
            assert where.startswith(b"test.entry\n")
    finally:
        shlo.unregister_custom_call("test.entry")


def test_a_program_of_dynamic_size_says_where_its_table_is() -> None:
    text = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %y = stablehlo.exponential %x : tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }"""
    executable = shlo.compile(text)
    described, x, result = executable.entry, np.ones((5, 3), np.float32), np.empty((5, 3), np.float32)
    table, symbols = (ctypes.c_int64 * described.table_slots)(), (ctypes.c_int64 * 1)(5)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(described.sizes)(symbols, table)
    bytes_ = described.workspace_bytes
    workspace = Block(max(64, table[described.workspace_slot] if bytes_ is None else bytes_))
    inputs, outputs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(result.ctypes.data)
    call = entry.Call(ctypes.sizeof(entry.Call), ctypes.addressof(inputs), ctypes.addressof(outputs), workspace.address)
    call.sizes = ctypes.addressof(table)
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(described.address)(ctypes.addressof(call)) == entry.OK
    np.testing.assert_array_equal(result, executable(x)[0])


def test_the_header_says_what_the_structure_is() -> None:
    header = (Path(shlo.get_include()) / "shlo_call.h").read_text()
    body = re.search(r"typedef struct shlo_call \{(.*?)\} shlo_call;", header, re.DOTALL)
    assert body is not None
    declared = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body[1]))
    assert declared == [name for name, _ in entry.Call._fields_]
    codes = {name: int(number) for name, number in re.findall(r"SHLO_(\w+) = (\d+)", header)}
    names = ("OK", "FAILED", "ENDED", "OLD_CALL", "WORKSPACE", "SIZES", "CONSTANTS", "NULL", "NO_TILES")
    assert codes == {name: getattr(entry, name) for name in names}
    message = re.search(r"char message\[(\d+)\]", header)
    assert message is not None
    assert int(message[1]) == callbacks.MESSAGE_BYTES


@pytest.mark.skipif(GCC is None, reason="there is no C compiler")
def test_a_c_compiler_lays_the_structure_out_alike(tmp_path: Path) -> None:
    names = [name for name, _ in entry.Call._fields_]
    listed = ", ".join(f"offsetof(shlo_call, {name})" for name in names)
    (tmp_path / "layout.c").write_text(
        '#include <stdio.h>\n#include "shlo_call.h"\n'
        f"int main(void) {{ size_t all[] = {{{listed}, sizeof(shlo_call)}};\n"
        f'  for (int i = 0; i <= {len(names)}; i++) printf("%zu ", all[i]); return 0; }}\n'
    )
    subprocess.run([GCC, f"-I{shlo.get_include()}", "layout.c", "-o", "layout"], cwd=tmp_path, check=True)
    said = subprocess.run(["./layout"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    width = ctypes.sizeof(ctypes.c_void_p)  # fields are as wide as pointers, and code reads them by their number
    assert list(map(int, said)) == [width * number for number in range(len(entry.FIELDS) + 1)]
