"""Programs for CPUs that this machine does not have: their code and description, and WebAssembly under Node.js."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.export
import numpy as np

import stablehlo_py as shlo
from stablehlo_py.backends.base import get_backend
from stablehlo_py.backends.common.description import describe
from stablehlo_py.backends.common.kernels import kernels_of
from stablehlo_py.backends.cpu.compile import lower
from stablehlo_py.backends.cpu.kernels import emit_kernel
from stablehlo_py.backends.cpu.program import CpuProgram
from stablehlo_py.backends.cpu.target import CpuTarget, named_target
from stablehlo_py.compiler import module_stages, run_stages
from stablehlo_py.frontend.load import load
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.program import CompiledProgram, Spec


@dataclass(frozen=True)
class CrossProgram:
    """A model's LLVM IR for a CPU, and what its caller has to know."""

    target: CpuTarget
    llvm_ir: str
    described: CompiledProgram


def cross_program(source: jax.export.Exported | str, cpu: str) -> CrossProgram:
    """A model without dynamic dimensions, for one thread."""
    options = shlo.Options(cpu=cpu, threads=1, cache_dir=None)
    module = load(source)
    backend = get_backend("cpu")
    with module.context, ir.Location.unknown():
        run_stages(module, "", module_stages(backend)[-1], options)
        target = named_target(cpu, named_target("generic", None))  # type: ignore[arg-type]
        kernels = dict(kernels_of(module, lambda function: emit_kernel(function, target, None), "CPU"))
        described = describe(module, "cpu", target.name, options)
        described.arena_bytes = int(CpuProgram(module, kernels, target, 1).arena_bytes)
        return CrossProgram(target, lower(module, "llvm", target, options), described)


NODE, LINKER = shutil.which("node"), shutil.which("wasm-ld")
_RUN = r"""
const fs = require("fs");
const {inputs, constants, outputs, workspace} = JSON.parse(process.argv[2]);
let memory_bytes;
const from = {env: {memcpy: (to, at, size) => (memory_bytes().copyWithin(to, at, at + size), to)}};
const instance = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync("model.wasm")), from);
const {memory, shlo_main, __heap_base} = instance.exports;
memory_bytes = () => new Uint8Array(memory.buffer);
let top = __heap_base.value;
const take = bytes => { const at = (top + 63) & ~63; top = at + bytes; return at; };
const places = sizes => sizes.map(take);
const [ins, cs, outs] = [inputs, constants, outputs].map(places);
const tables = [ins, cs, outs].map(list => take(4 * list.length + 4));
const room = take(workspace), interrupt = take(16), call = take(44);
memory.grow(Math.max(0, Math.ceil((top - memory.buffer.byteLength) / 65536)) + 1);
const bytes = new Uint8Array(memory.buffer), words = new Uint32Array(memory.buffer);
const content = fs.readFileSync("in");
let read = 0;
[...ins.map((at, i) => [at, inputs[i]]), ...cs.map((at, i) => [at, constants[i]])].forEach(([at, size]) => {
  bytes.set(content.subarray(read, read + size), at); read += size; });
[ins, cs, outs].forEach((list, i) => list.forEach((at, j) => words[tables[i] / 4 + j] = at));
words.set([44, tables[0], tables[2], room, tables[1], 0, interrupt, 0, 0, 0, 0], call / 4);
const status = shlo_main(call);
if (status) process.exit(10 + status);
fs.writeFileSync("out", Buffer.concat(outs.map((at, i) => Buffer.from(memory.buffer, at, outputs[i]))));
"""


def missing_for_wasm() -> str:
    """The packages to install where a tool is not there, else nothing."""
    packages = [name for name, found in (("nodejs", NODE), ("lld", LINKER)) if not found]
    return f"install {' '.join(packages)}" if packages else ""


def run_under_node(
    content: bytes,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[Spec],
    constants: Sequence[np.ndarray],
    workspace_bytes: int,
    folder: Path,
) -> list[np.ndarray]:
    """The results of the `shlo_main` of an object file of WebAssembly, which is linked with nothing; JavaScript has a
    memcpy for it."""
    (folder / "model.o").write_bytes(content)
    command = [
        str(LINKER),
        "--no-entry",
        "--import-undefined",
        "--export=shlo_main",
        "--export=__heap_base",
        "model.o",
        "-o",
        "model.wasm",
    ]
    subprocess.run(command, cwd=folder, check=True)
    (folder / "in").write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in (*inputs, *constants)))
    shapes = [tuple(size or 0 for size in spec.shape) for spec in outputs]
    sizes = [int(np.prod(shape)) * spec.dtype.itemsize for shape, spec in zip(shapes, outputs, strict=True)]
    described = {
        "inputs": [array.nbytes for array in inputs],
        "constants": [array.nbytes for array in constants],
        "outputs": sizes,
        "workspace": workspace_bytes,
    }
    (folder / "run.js").write_text(_RUN)
    subprocess.run([str(NODE), "run.js", json.dumps(described)], cwd=folder, check=True, timeout=120)
    found, at, results = (folder / "out").read_bytes(), 0, []
    for spec, shape, size in zip(outputs, shapes, sizes, strict=True):
        results.append(np.frombuffer(found[at : at + size], spec.dtype).reshape(shape))
        at += size
    return results
