"""Libraries for machines that this one is not, run there: by QEMU's emulators, and WebAssembly by Node.js."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from library_models import NAMES, library_model

import stablehlo_py as shlo
from stablehlo_py import errors
from stablehlo_py.debug.compare import difference_of
from stablehlo_py.options import Options

RUNNERS = {
    "aarch64": ("aarch64-linux-gnu", "qemu-aarch64 -cpu cortex-a53", "gcc-aarch64-linux-gnu"),
    "neoverse-v1": ("aarch64-linux-gnu", "qemu-aarch64 -cpu max,sve256=on,sve512=off", "gcc-aarch64-linux-gnu"),
    "rv64gcv": ("riscv64-linux-gnu", "qemu-riscv64 -cpu rv64,v=true,vext_spec=v1.0,vlen=128", "gcc-riscv64-linux-gnu"),
    "armv7-neon": ("arm-linux-gnueabihf", "qemu-arm -cpu cortex-a7", "gcc-arm-linux-gnueabihf"),
}
MODELS = [name for name in NAMES if name != "lapack"]
FILES = {"transformer": "file"}


@pytest.mark.every(4)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cpu", RUNNERS)
def test_a_library_runs_on_another_machine(cpu: str, name: str, tmp_path: Path) -> None:
    """Its own test program finds the results of this machine there."""
    prefix, runner, package = RUNNERS[cpu]
    if shutil.which(f"{prefix}-gcc") is None or shutil.which(runner.split()[0]) is None:
        pytest.skip(f"there is no compiler or emulator (Debian's packages {package}, qemu-user)")
    model = library_model(name)
    threads = "own" if name == "mlp" else "off"
    build = shlo.aot.compile(
        model.artifact,
        name,
        emit="static",
        threads=threads,
        constants=FILES.get(name, "embed"),
        options=Options(cpu=cpu, threads=2 if threads == "own" else None),
    )
    build.with_test(model.inputs, shlo.compile(model.artifact)(*model.inputs)).write(tmp_path)
    command = [f"{prefix}-gcc", "-static", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", f"{name}_test.c"]
    subprocess.run([*command, build.links[0], "-lm", "-lpthread", "-o", "program"], cwd=tmp_path, check=True)
    said = subprocess.run(
        [*runner.split(), "./program"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert len(said.stdout.splitlines()) == len(build.names.results)


# Calls a model through its tables, as the layout of shlo_model.h is with pointers of 4 bytes.
SCRIPT = r"""
const fs = require("fs");
const [name, symbol] = process.argv.slice(2);
const imports = {env: new Proxy({}, {get: (_, name) => () => { throw new Error("calls " + name); }})};
const module_ = new WebAssembly.Module(fs.readFileSync(name + ".wasm"));
const needed = WebAssembly.Module.imports(module_);
if (needed.length) throw new Error("needs " + needed.map(each => each.name));
const exports_ = new WebAssembly.Instance(module_, imports).exports;
const memory = exports_.memory, model = exports_[name + "_model"].value;
let top = exports_.__heap_base.value;
const view = () => new DataView(memory.buffer);
const word = at => view().getUint32(at, true), long = at => Number(view().getBigInt64(at, true));
const take = bytes => {
  const at = (top + 63) & ~63;
  top = at + Math.max(1, bytes);
  while (top > memory.buffer.byteLength) memory.grow(16);
  return at;
};
const put = (at, words) => words.forEach((value, i) => view().setUint32(at + 4 * i, value, true));
const tensor = at => ({rank: word(at + 8), shape: word(at + 12), bytes: long(at + 24), alias: long(at + 32)});
const tensors = (count, at) => Array.from({length: count}, (_, i) => tensor(at + 40 * i));
const results = tensors(word(model + 24), word(model + 32));
let table = 0;
if (symbol) {
  const symbols = take(8);
  table = take(8 * long(model + 64));
  view().setBigInt64(symbols, BigInt(symbol), true);
  exports_[name + "_sizes"](symbols, table);
}
const size = number => number >= 0 ? number : long(table + 8 * (-1 - number));
const inputs = tensors(word(model + 20), word(model + 28)).map((_, i) => {
  const content = fs.readFileSync("argument" + i), at = take(content.length);
  new Uint8Array(memory.buffer).set(content, at);
  return at;
});
const sizes = results.map(each => {
  if (each.bytes >= 0) return each.bytes;
  let bytes = 4;
  for (let d = 0; d < each.rank; d++) bytes *= size(long(each.shape + 8 * d));
  return bytes;
});
const outputs = results.map((each, i) => each.alias >= 0 ? inputs[each.alias] : take(sizes[i]));
const ins = take(4 * inputs.length), outs = take(4 * outputs.length);
put(ins, inputs), put(outs, outputs);
let constants = 0;
if (fs.existsSync(name + ".safetensors")) {
  const content = fs.readFileSync(name + ".safetensors"), at = take(content.length);
  new Uint8Array(memory.buffer).set(content, at);
  constants = take(4 * long(model + 88));
  if (exports_[name + "_constants"](at, BigInt(content.length), constants)) throw new Error("constants");
}
const workspace = take(size(long(model + 40))), call = take(44);
put(call, [44, ins, outs, workspace, constants, table, 0, 0, 0, 0, 0]);
const status = exports_[name + "_call"](call);
if (status) throw new Error("status " + status);
outputs.forEach((at, i) => fs.writeFileSync("result" + i, Buffer.from(memory.buffer, at, sizes[i])));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js (Debian's package nodejs)")
@pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="there is no linker of WebAssembly (Debian's package lld)")
@pytest.mark.parametrize("name", MODELS)
def test_a_module_of_webassembly_runs_under_node(name: str, tmp_path: Path) -> None:
    model = library_model(name)
    constants = FILES.get(name, "embed")
    build = shlo.aot.compile(model.artifact, name, emit="shared", triple="wasm32-wasi", constants=constants)
    build.write(tmp_path)
    assert build.links[0] == f"{name}.wasm"
    for number, array in enumerate(model.inputs):
        (tmp_path / f"argument{number}").write_bytes(array.tobytes())
    (tmp_path / "run.js").write_text(SCRIPT)
    symbol = [str(len(model.inputs[0]))] if name == "symbolic" else []
    command = ["node", "run.js", name, *symbol]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    for number, right in enumerate(shlo.compile(model.artifact)(*model.inputs)):
        mine = np.frombuffer((tmp_path / f"result{number}").read_bytes(), right.dtype).reshape(right.shape)
        assert difference_of(mine, right) <= 1e-5 if right.dtype.kind in "fc" else (mine == right).all()


@pytest.mark.parametrize(
    ("triple", "start"),
    [
        ("arm64-apple-darwin", b"\xcf\xfa\xed\xfe"),
        ("x86_64-apple-macosx", b"\xcf\xfa\xed\xfe"),
        ("x86_64-pc-windows-msvc", b"\x64\x86"),
        ("armv7-none-eabihf", b"\x7fELF\x01\x01"),
    ],
)
def test_objects_of_other_systems_are_written(triple: str, start: bytes) -> None:
    build = shlo.aot.compile(library_model("cnn").artifact, "cnn", triple=triple)
    assert build.library.code.startswith(start)
    only_assembled = "was only assembled, and never run" in build.files["cnn.h"].decode()
    assert only_assembled == ("none" not in triple)


@pytest.mark.parametrize(
    ("cpu", "triple", "message"),
    [
        ("pdp11", None, "there is no CPU description 'pdp11'"),
        (None, "pdp11-dec-unix", "there is no target triple 'pdp11-dec-unix'"),
        ("cortex-a72", "riscv64-linux-gnu", "the CPU 'cortex-a72' is one of aarch64"),
    ],
)
def test_targets_that_cannot_be(cpu: str | None, triple: str | None, message: str) -> None:
    with pytest.raises(errors.OptionError, match=message) as caught:
        shlo.aot.compile(library_model("mlp").artifact, "mlp", triple=triple, options=Options(cpu=cpu))
    assert "use one" in str(caught.value)


@pytest.mark.parametrize("triple", ["wasm32-wasi", "aarch64-none-elf"])
def test_a_model_with_lapack_needs_a_system(triple: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"calls LAPACK, which \S+ does not have") as caught:
        shlo.aot.compile(library_model("lapack").artifact, "lapack", triple=triple)
    assert all(problem.location for problem in caught.value.problems)
