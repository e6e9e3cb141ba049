"""Libraries in files: Python, other languages and build systems, files of constants, what is refused."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from library_models import NAMES, library_model

import stablehlo_py as shlo
from stablehlo_py import errors
from stablehlo_py.backends.cpu.symbols import library_address
from stablehlo_py.cli import compile as shlo_compile
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.options import Options
from stablehlo_py.runtime import native_library
from stablehlo_py.runtime.library import ABI, THREADS_BYTES

needs_linker = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no linker (Debian's package gcc)")


def missing(program: str, package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"there is no {program} (Debian's package {package})"
    )


def shared(name: str, folder: Path, **others: object) -> Path:
    options = Options(threads=4 if others.get("threads", "off") != "off" else None)
    build = shlo.aot.compile(library_model(name).artifact, name, emit="shared", options=options, **others)
    build.write(folder)
    return folder / f"lib{name}.so"


# --- Python -----------------------------------------------------------------------------------------------------------


@needs_linker
@pytest.mark.parametrize("name", [name for name in NAMES if name != "lapack"])
def test_python_loads_a_library(name: str, tmp_path: Path) -> None:
    model = library_model(name)
    library = shlo.load_library(shared(name, tmp_path, threads="own"), threads=2)
    executable = shlo.compile(model.artifact)
    assert [each.name for each in library.inputs] == [spec.name for spec in executable.inputs]
    assert [each.shape for each in library.outputs] == [spec.shape for spec in executable.outputs]
    for _ in range(2):
        for mine, right in zip(library(*model.inputs), executable(*model.inputs), strict=True):
            assert (mine.dtype, mine.shape, mine.tobytes()) == (right.dtype, right.shape, right.tobytes())


@needs_linker
def test_a_library_is_called_from_many_threads(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = library_model("mlp")
    library = shlo.load_library(shared("mlp", tmp_path, threads="own"), threads=2)
    right = library(*model.inputs)[0].tobytes()
    with ThreadPoolExecutor(8) as pool:
        assert {result[0].tobytes() for result in pool.map(lambda _: library(*model.inputs), range(64))} == {right}


@needs_linker
def test_threads_end_with_the_process(tmp_path: Path) -> None:
    """Also where Python can import nothing any more."""
    path = shared("mlp", tmp_path, threads="own")
    program = (
        "import types, stablehlo_py as shlo\n"
        "circle = types.SimpleNamespace()\n"
        f"circle.library, circle.circle = shlo.load_library({str(path)!r}, threads=2), circle\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@needs_linker
def test_a_library_loads_without_a_compiler(tmp_path: Path) -> None:
    """With NumPy alone, by this package or by the module that comes along."""
    path = shared("mlp", tmp_path, bindings=("python",))
    model = library_model("mlp")
    np.savez(tmp_path / "inputs.npz", *model.inputs)
    right = shlo.compile(model.artifact)(*model.inputs)[0]
    program = (
        "import sys, numpy as np\n"
        "refused = ['mlir', 'torch_mlir', 'llvmlite', 'jax', 'jaxlib', 'scipy']\n"
        "sys.modules.update(dict.fromkeys(refused))\n"
        "{load}\n"
        "inputs = np.load('inputs.npz')\n"
        "np.save('result.npy', library(*(inputs[name] for name in inputs.files))[0])\n"
        "assert not any(sys.modules[name] for name in refused)\n"
    )
    for load, python_path in (
        (f"import stablehlo_py as shlo; library = shlo.load_library({str(path)!r})", os.pathsep.join(sys.path)),
        ("import mlp; library = mlp.load()", str(tmp_path)),
    ):
        environment = {**os.environ, "PYTHONPATH": python_path}
        command = [sys.executable, "-c", program.format(load=load)]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        assert np.load(tmp_path / "result.npy").tobytes() == right.tobytes()


@needs_linker
def test_what_python_refuses(tmp_path: Path) -> None:
    path = shared("symbolic", tmp_path)
    library = shlo.load_library(path)
    with pytest.raises(errors.ArgumentError, match="got 0 arguments, the model takes 1"):
        library()
    with pytest.raises(errors.ArgumentError, match=r"has shape \(6, 21\), the model wants \('\?', 20\)"):
        library(np.zeros((6, 21), np.float32))
    with pytest.raises(errors.ArgumentError, match="is float64, the model wants float32"):
        library(np.zeros((6, 20)))
    with pytest.raises(errors.ArgumentError, match="do not fit the model"):
        library(np.zeros((0, 20), np.float32))
    with pytest.raises(errors.LoadError, match="holds no model 'other'"):
        shlo.load_library(path, "other")
    with pytest.raises(errors.LoadError, match="cannot be loaded"):
        shlo.load_library(tmp_path / "symbolic.h")


@needs_linker
def test_the_loader_knows_the_structures_of_the_header(tmp_path: Path) -> None:
    """runtime/native_library.py imports nothing of this package, and repeats what the headers say."""
    structures = {
        "shlo_call": native_library._Call,
        "shlo_tensor": native_library._Tensor,
        "shlo_symbol": native_library._Symbol,
        "shlo_model": native_library._Model,
        "shlo_error": native_library._Error,
    }
    fields = [(name, field[0]) for name, structure in structures.items() for field in structure._fields_]
    (tmp_path / "layout.c").write_text(
        '#include <stdio.h>\n#include "shlo_model.h"\nint main(void) {\n'
        '  printf("%d %d\\n", SHLO_MODEL_ABI, SHLO_THREADS_BYTES);\n'
        + "".join(f'  printf("{a} {b} %zu\\n", offsetof({a}, {b}));\n' for a, b in fields)
        + "".join(f'  printf("{name} %zu\\n", sizeof({name}));\n' for name in structures)
        + "  for (int i = 0; i < 8; i++) puts(shlo_status_text(i));\n  return 0;\n}\n"
    )
    command = ["cc", f"-I{shlo.get_include()}", "layout.c", "-o", "layout"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./layout"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.splitlines()
    assert said[0] == f"{native_library._ABI} {native_library._THREADS_BYTES}"
    assert (ABI, THREADS_BYTES) == (native_library._ABI, native_library._THREADS_BYTES)
    wanted = [f"{name} {field} {getattr(structures[name], field).offset}" for name, field in fields]
    wanted += [f"{name} {ctypes.sizeof(structure)}" for name, structure in structures.items()]
    assert said[1 : 1 + len(wanted)] == wanted
    assert len(said) == 1 + len(wanted) + len(native_library._STATUS)
    assert [dtype.name for dtype in ELEMENT_TYPES.values()] == list(native_library._DTYPES)


# --- constants in a file ----------------------------------------------------------------------------------------------


@needs_linker
def test_a_file_of_constants(tmp_path: Path) -> None:
    """Two models share it; whatever is wrong with it is an error, and never a wrong number."""
    first = shared("transformer", tmp_path, constants="file")
    side = tmp_path / "transformer.safetensors"
    content = side.read_bytes()
    model = library_model("transformer")
    right = shlo.compile(model.artifact)(*model.inputs)[0]
    assert shlo.load_library(first, constants=side)(*model.inputs)[0].tobytes() == right.tobytes()

    header = json.loads(content[8 : 8 + struct.unpack_from("<Q", content)[0]])
    spans = sorted(each["data_offsets"] for name, each in header.items() if name != "__metadata__")
    assert spans[0][0] == 0
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(spans)), "the format allows no holes"
    from stablehlo_py.aot.side_file import side_file

    both = side_file([np.arange(1000.0)], content)
    assert len(both) > len(content)
    assert side_file([np.arange(1000.0)], both) == both
    side.write_bytes(both)
    assert shlo.load_library(first, constants=side)(*model.inputs)[0].tobytes() == right.tobytes()

    damaged = bytearray(content)
    damaged[-5] ^= 1
    digits = content.index(b'"data_offsets":[', 200) + 16
    far = bytearray(content)
    far[digits : digits + 1] = b"8" if far[digits : digits + 1] == b"9" else b"9"
    huge = b"\xff" * 8 + content[8:]
    for wrong in (bytes(damaged), content[:-8], content[: len(content) // 2], content[:100], b"", bytes(far), huge):
        side.write_bytes(wrong)
        with pytest.raises(
            errors.LoadError, match="does not hold the constants of the model 'transformer', or is damaged"
        ):
            shlo.load_library(first, constants=side)
    with pytest.raises(errors.LoadError, match="has its constants in a file"):
        shlo.load_library(first)


def test_a_file_of_constants_is_added_to(tmp_path: Path) -> None:
    for name in ("cnn", "lstm"):
        build = shlo.aot.compile(library_model(name).artifact, "shared_weights", constants="file")
        build.write(tmp_path)
    size = (tmp_path / "shared_weights.safetensors").stat().st_size
    build.write(tmp_path)
    assert (
        (tmp_path / "shared_weights.safetensors").stat().st_size
        == size
        > len(build.files["shared_weights.safetensors"])
    )
    (tmp_path / "shared_weights.safetensors").write_bytes(b"something else of the user's")
    with pytest.raises(errors.LoadError, match="the file of constants that is there already is none of ours"):
        build.write(tmp_path)
    assert (tmp_path / "shared_weights.safetensors").read_bytes() == b"something else of the user's"


# --- custom calls -----------------------------------------------------------------------------------------------------

CALLING = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.custom_call @my.twice(%x) {api_version = 4 : i32, backend_config = {by = 2.0 : f32}}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""


@needs_linker
@pytest.mark.parametrize("fails", [False, True])
def test_a_custom_call_is_a_function_of_the_user(fails: bool, tmp_path: Path) -> None:
    build = shlo.aot.compile(CALLING, "calling", emit="object")
    assert dict(build.library.custom_calls) == {"my.twice": "my_twice"}
    build.write(tmp_path)
    (tmp_path / "twice.c").write_text(
        '#include "calling.h"\nint32_t my_twice(const shlo_custom_call *call) {\n'
        + ('  return shlo_fail(call, "no luck");\n' if fails else "")
        + '  const float *by = shlo_find_attribute(call, "by")->data, *x = call->operands[0].data;\n'
        "  for (int i = 0; i < 4; i++) ((float *)call->results[0].data)[i] = *by * x[i];\n  return 0;\n}\n"
    )
    command = ["cc", "-shared", "-fPIC", "twice.c", "libcalling.o", "-o", "libcalling.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = shlo.load_library(tmp_path / "libcalling.so")
    if fails:
        with pytest.raises(errors.CallError, match=r"my\.twice: no luck"):
            library(np.ones(4, np.float32))
    else:
        assert library(np.ones(4, np.float32))[0].tolist() == [2, 2, 2, 2]


@missing("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf")
def test_c_with_a_custom_call_is_for_pointers_of_64_bits(tmp_path: Path) -> None:
    """Its structures have words of 64 bits: elsewhere the compiler says so, instead of a wrong number later."""
    shlo.aot.compile(CALLING, "calling", emit="c").write(tmp_path)
    for compiler, status in (("arm-linux-gnueabihf-gcc", 1), ("cc", 0)):
        command = [compiler, "-std=c99", "-fsyntax-only", "calling.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert ("take structures of 64-bit words" in done.stderr) == bool(status)


# --- LAPACK -----------------------------------------------------------------------------------------------------------


@needs_linker
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the jumps are written for x86-64")
def test_lapack_that_the_user_links(tmp_path: Path) -> None:
    """With SciPy's LAPACK, which the JIT calls, results have its bits: each routine is a jump to that."""
    model = library_model("lapack")
    build = shlo.aot.compile(model.artifact, "lapack")
    build.write(tmp_path)
    routines = build.library.routines
    assert routines
    assert all(routine in build.files["lapack.h"].decode() for routine in routines)
    (tmp_path / "jumps.s").write_text(
        "".join(
            f".data\n.globl place_{name}\nplace_{name}: .quad 0\n.text\n.globl {name}\n.type {name}, @function\n"
            f"{name}: movq place_{name}@GOTPCREL(%rip), %r11\n  jmp *(%r11)\n"
            for name in routines
        )
        + '.section .note.GNU-stack,"",@progbits\n'
    )
    command = ["cc", "-shared", "liblapack.o", "jumps.s", "-lm", "-o", "liblapack.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = shlo.load_library(tmp_path / "liblapack.so")
    for name in routines:
        routine = name.rstrip("_")
        address = library_address("lapack", routine) or library_address("blas", routine)
        assert address
        ctypes.c_void_p.in_dll(library._library, f"place_{name}").value = address
    for mine, right in zip(library(*model.inputs), shlo.compile(model.artifact)(*model.inputs), strict=True):
        assert mine.tobytes() == right.tobytes()


# --- other languages and build systems --------------------------------------------------------------------------------


@missing("rustc", "rustc")
@pytest.mark.parametrize("name", ["mlp", "symbolic", "transformer"])
def test_a_rust_program(name: str, tmp_path: Path) -> None:
    constants = "file" if name == "transformer" else "embed"
    model = library_model(name)
    build = shlo.aot.compile(model.artifact, name, emit="static", bindings=("rust",), constants=constants)
    build.write(tmp_path)
    right = shlo.compile(model.artifact)(*model.inputs)
    for number, array in enumerate(model.inputs):
        (tmp_path / f"argument{number}").write_bytes(array.tobytes())
    types = {"float32": "f32", "int32": "i32"}
    lines = [
        f'    let a{n}: Vec<{types[a.dtype.name]}> = read("argument{n}", {types[a.dtype.name]}::from_le_bytes);'
        for n, a in enumerate(model.inputs)
    ]
    lines += [f"    let mut r{n} = vec![0 as {types[a.dtype.name]}; {a.size}];" for n, a in enumerate(right)]
    size = str(len(model.inputs[0])) if name == "symbolic" else ""
    passed = [*([size] if size else []), *(f"&a{n}" for n in range(len(model.inputs)))]
    passed += [*(f"&mut r{n}" for n in range(len(right))), "&mut work"]
    if constants == "file":
        passed.insert(-1, "&found")
        lines.append(f'    let file = std::fs::read("{name}.safetensors").unwrap();')
        lines.append(f"    let found = {name}::Constants::find(Box::leak(file.into_boxed_slice())).unwrap();")
    call = f"{name}::run({', '.join(passed)}).unwrap();"
    (tmp_path / "main.rs").write_text(
        f"#[allow(dead_code)]\nmod {name};\n"
        "fn read<T>(path: &str, number: fn([u8; 4]) -> T) -> Vec<T> {\n"
        "    std::fs::read(path).unwrap().chunks(4).map(|b| number([b[0], b[1], b[2], b[3]])).collect()\n}\n"
        "fn main() {\n"
        + "\n".join(lines)
        + f"\n    let mut work = {name}::Workspace::new({size}).unwrap();\n"
        + (f"    unsafe {{ {call} }}\n" if size else f"    {call}\n")
        + "".join(
            f"    let bytes: Vec<u8> = r{n}.iter().flat_map(|x| x.to_le_bytes()).collect();\n"
            f'    std::fs::write("result{n}", bytes).unwrap();\n'
            for n in range(len(right))
        )
        + "}\n"
    )
    command = [
        "rustc",
        "-O",
        "-D",
        "warnings",
        "main.rs",
        "-L",
        ".",
        "-l",
        f"static={name}",
        "-l",
        "m",
        "-o",
        "program",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./program"], cwd=tmp_path, check=True)
    for number, array in enumerate(right):
        assert (tmp_path / f"result{number}").read_bytes() == array.tobytes()


@missing("go", "golang-go")
@needs_linker
def test_a_go_program(tmp_path: Path) -> None:
    model = library_model("mlp")
    package = tmp_path / "mlp"
    shlo.aot.compile(model.artifact, "mlp", emit="static", bindings=("go",)).write(package)
    (tmp_path / "go.mod").write_text("module example.com/program\n\ngo 1.19\n")
    sizes = ", ".join(f"make([]float32, {array.size})" for array in model.inputs)
    (tmp_path / "main.go").write_text(
        'package main\n\nimport (\n\t"example.com/program/mlp"\n\t"fmt"\n)\n\nfunc main() {\n'
        "\twork, _ := mlp.NewWorkspace()\n\tdefer work.Close()\n\tresult := make([]float32, 320)\n"
        f"\terr := mlp.Run(work, {sizes}, result)\n\tfmt.Println(err, result[0])\n"
        f"\tfmt.Println(mlp.Run(work, {sizes}, result[1:]))\n}}\n"
    )
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "on"}
    said = subprocess.run(
        ["go", "run", "."], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert said.stdout == "<nil> 0.1\nmlp: result has to hold 320 numbers (f32[32,10])\n", said.stderr


PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include "mlp.h"
int main(void) {
  float *x = calloc(32 * 784, 4), *w1 = calloc(784 * 512, 4), *b1 = calloc(512, 4), *w2 = calloc(5120, 4), y[320];
  void *workspace = aligned_alloc(MLP_WORKSPACE_ALIGNMENT, (MLP_WORKSPACE_BYTES + 63) / 64 * 64);
  int status = mlp(x, w1, b1, w2, y, workspace, MLP_WORKSPACE_BYTES);
  printf("%s %g", shlo_status_text(status), y[0]);
  status = mlp(x, w1, b1, w2, y, workspace, MLP_WORKSPACE_BYTES - 1);
  printf(" %d", status == SHLO_WORKSPACE);
  status = mlp(x, w1, b1, w2, y, (char *)workspace + 8, MLP_WORKSPACE_BYTES);
  printf(" %d", status == SHLO_WORKSPACE);
  status = mlp(x, 0, b1, w2, y, workspace, MLP_WORKSPACE_BYTES);
  printf(" %d", status == SHLO_NULL);
  return 0;
}
"""


@missing("cmake", "cmake")
@needs_linker
@pytest.mark.parametrize("emit", ["object", "static", "shared"])
def test_cmake_finds_a_library(emit: str, tmp_path: Path) -> None:
    shlo.aot.compile(library_model("mlp").artifact, "mlp", emit=emit, bindings=("cmake",)).write(tmp_path / "model")
    (tmp_path / "main.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(program C)\nfind_package(mlp REQUIRED PATHS model)\n"
        "add_executable(program main.c)\ntarget_link_libraries(program mlp::mlp)\n"
    )
    for command in (["cmake", "-S", ".", "-B", "build"], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run(["build/program"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said == "no error 0.1 1 1 1"


@missing("pkg-config", "pkg-config")
@needs_linker
def test_pkg_config_finds_a_library(tmp_path: Path) -> None:
    shlo.aot.compile(library_model("mlp").artifact, "mlp", emit="static", bindings=("pkg-config",)).write(tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    environment = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path)}
    command = "cc main.c $(pkg-config --cflags --libs mlp) -o program && ./program"
    said = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert said == "no error 0.1 1 1 1"


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"emit": "dll"}, "emit is 'dll'"),
        ({"threads": "many"}, "threads is 'many'"),
        ({"constants": "nowhere"}, "constants is 'nowhere'"),
        ({"bindings": ("cobol",)}, "bindings is 'cobol'"),
        ({"threads": "own", "options": Options(threads=1)}, "for 1 thread"),
        ({"emit": "c", "threads": "own"}, "a model in C computes in the thread that calls"),
        ({"emit": "c", "triple": "wasm32-wasi"}, "is for any machine"),
        ({"name": "two words"}, "cannot be the name of a model in C"),
        ({"name": "class"}, "cannot be the name of a model in C"),
        ({"name": "malloc"}, "cannot be the name of a model in C"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict, message: str) -> None:
    name = arguments.pop("name", "model")
    with pytest.raises(errors.OptionError, match=message):
        shlo.aot.compile(library_model("mlp").artifact, name, **arguments)


def test_a_model_that_needs_a_runtime() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    with pytest.raises(errors.UnsupportedError, match="has no runtime by which processes meet"):
        shlo.aot.compile(text, "model", options=Options(num_replicas=2))
    with pytest.raises(errors.UnsupportedError, match="the backend 'cuda' makes no libraries"):
        shlo.aot.compile(library_model("mlp").artifact, "model", target="cuda", options=Options(gpu="sm_90"))


# --- the tool ---------------------------------------------------------------------------------------------------------


@needs_linker
@pytest.mark.parametrize("threads", ["off", "own:2", "callback:3"])
@pytest.mark.parametrize("name", ["cnn", "symbolic", "transformer"])
def test_the_tool_writes_a_library_with_a_test(
    name: str, threads: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    source = tmp_path / "model.jax"
    source.write_bytes(library_model(name).artifact)
    constants = ["--constants=file"] if name == "transformer" else []
    arguments = [str(source), "--emit=static", f"--threads={threads}", "-o", str(tmp_path / "out" / f"lib{name}")]
    assert shlo_compile.main([*arguments, *constants, "--emit-test", "--size-report"]) == 0
    said = capsys.readouterr().out
    assert f"link with: lib{name}.a -lm" in said
    assert "workspace of a call" in said
    command = f"cc -std=c99 -Wall -Wextra -Werror -pedantic -O1 {name}_test.c lib{name}.a -lm -lpthread -o t && ./t"
    result = subprocess.run(command, shell=True, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == [
        line for line in result.stdout.splitlines() if line.endswith(": the same bits")
    ]


def test_what_the_tool_refuses(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    source = tmp_path / "model.jax"
    source.write_bytes(library_model("mlp").artifact)
    for arguments, message in (
        (["--emit=object", "--threads=4"], "write --threads own:4 or callback:4"),
        (["--emit=object", "--threads=own:x"], "--threads is 'x'"),
        (["--threads=own"], "--threads is 'own'"),
        (["--constants=file"], "--constants is for libraries"),
        (["--emit=exe"], "emit is 'exe'"),
        (["--emit=object", "-o", str(tmp_path / "model.jax" / "libmlp")], "directory"),
    ):
        assert shlo_compile.main([str(source), *arguments]) == 2 + ("directory" in message)
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.jax"]
