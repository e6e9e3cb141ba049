"""Models as libraries: in C and C++ programs, with the bits of the JIT."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from library_models import NAMES, library_model

import stablehlo_py as shlo
from stablehlo_py.aot import Build
from stablehlo_py.options import Options

GCC, GXX, VALGRIND = shutil.which("gcc"), shutil.which("g++"), shutil.which("valgrind")
STRICT = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
DRIVER = Path(__file__).with_name("driver.c")
needs_gcc = pytest.mark.skipif(GCC is None, reason="there is no C compiler (Debian's package gcc)")
FILES = {"transformer": "file"}  # where constants are
LAPACK = ("lapack",)


@cache
def expected(name: str, cpu: str | None = None) -> tuple[np.ndarray, ...]:
    model = library_model(name)
    return shlo.compile(model.artifact, options=Options(cpu=cpu, threads=2))(*model.inputs)


def built(name: str, emit: str, threads: str, cpu: str | None = None, **others: object) -> Build:
    constants = FILES.get(name, "embed")
    options = Options(cpu=cpu, threads=4 if threads != "off" else None)
    return shlo.aot.compile(
        library_model(name).artifact, name, emit=emit, threads=threads, constants=constants, options=options, **others
    )


def linked(build: Build, folder: Path, source: Path = DRIVER, compiler: str | None = GCC, *more: str) -> Path:
    """A program of the driver and the library."""
    build.write(folder)
    assert compiler is not None
    libraries = [*build.links[1:], "-lpthread"]
    command = [compiler, *(STRICT if compiler == GCC else ["-std=c++11", "-Wall", "-Wextra", "-Werror"]), *more]
    command += [f"-DMODEL={build.names.model}", f"-I{shlo.get_include()}", "-I.", str(source), build.links[0]]
    made = subprocess.run(
        [*command, *libraries, f"-Wl,-rpath,{folder}", "-o", "program"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder / "program"


def run(program: Path, name: str, threads: int, whose: str, *, under: tuple[str, ...] = ()) -> tuple[list[bytes], str]:
    """The bytes of the results of a call, and what the program said."""
    folder, model = program.parent, library_model(name)
    for number, array in enumerate(model.inputs):
        (folder / f"argument{number}").write_bytes(array.tobytes())
    constants = f"{name}.safetensors" if name in FILES else "-"
    symbols = [str(model.inputs[0].shape[0])] if name == "symbolic" else []
    said = subprocess.run(
        [*under, str(program), str(folder), str(threads), whose, constants, *symbols],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return [(folder / f"result{number}").read_bytes() for number in range(len(expected(name)))], said.stdout


def has_lapack() -> bool:
    return any(Path(folder).glob("**/liblapack.so") for folder in ("/usr/lib", "/usr/local/lib"))


@needs_gcc
@pytest.mark.parametrize("name", NAMES)
def test_a_c_program_has_the_bits_of_the_jit(name: str, tmp_path: Path) -> None:
    """By one thread, by 2 and 4 of the library, by 2 and 4 of the caller; no byte is touched outside of buffers."""
    if name in LAPACK and not has_lapack():
        pytest.skip("there is no LAPACK to link with (Debian's package liblapack-dev)")
    right = [array.tobytes() for array in expected(name)]
    for threads, counts in {"off": (1,), "own": (1, 2, 4), "callback": (1, 2, 4)}.items():
        folder = tmp_path / threads
        program = linked(built(name, "static" if threads == "own" else "object", threads), folder)
        for count in counts:
            results, said = run(program, name, count, threads)
            if name in LAPACK:  # another LAPACK than SciPy's
                for mine, array in zip(results, expected(name), strict=True):
                    np.testing.assert_allclose(np.frombuffer(mine, array.dtype).reshape(array.shape), array, 1e-4, 1e-4)
            else:
                assert results == right
            if threads == "callback" and name == "mlp":
                assert int(said.split()[1]) > 0, "no work was given to the caller's threads"


@needs_gcc
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_needed_but_libc_and_libm(name: str, tmp_path: Path) -> None:
    build = built(name, "object", "own")
    build.write(tmp_path)
    symbols = subprocess.run(["nm", build.links[0]], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    undefined = set(re.findall(r" U (\w+)", symbols))
    allowed = {"memcpy", "memset", "memmove", "pthread_create", "pthread_join"}
    allowed |= {"syscall", "clock_gettime", "sched_yield"}
    undefined -= set(build.library.routines)
    assert undefined <= allowed | {"sinf", "cosf", "fmodf", "fmod", "pow", "powf"}
    assert bool(build.library.routines) == (name in LAPACK)
    defined = set(re.findall(r" [TRD] (\w+)", symbols))
    assert defined == set(build.library.public)
    assert b"/tmp" not in build.library.code
    assert b"/home" not in build.library.code


def test_the_code_of_a_small_model_is_small() -> None:
    assert len(built("mlp", "object", "off").library.code) < 64 << 10


@pytest.mark.parametrize("name", ["cnn", "transformer", "symbolic"])
def test_equal_input_gives_equal_bytes(name: str) -> None:
    assert built(name, "static", "own").files == built(name, "static", "own").files


CLASS = """
#include <cstdio>
#include <cstdlib>
#include "{model}.hpp"

static void read(const char *path, void *data, std::size_t bytes) {{
  std::FILE *file = std::fopen(path, "rb");
  if (!file || std::fread(data, 1, bytes, file) != bytes) std::exit(9);
  std::fclose(file);
}}

static void write(const char *path, const void *data, std::size_t bytes) {{
  std::FILE *file = std::fopen(path, "wb");
  std::fwrite(data, 1, bytes, file);
  std::fclose(file);
}}

int main() {{
  {setup}
  {name} model{arguments};
  {reads}
  for (int time = 0; time < {times}; time++)
    if (!model.Run()) return std::puts(model.error_msg()), 1;
  {writes}
  std::printf("done %d %d %s\\n", {name}::kNumArgs, {name}::kNumResults, {name}::ArgName(0));
  return 0;
}}
"""


@pytest.mark.skipif(GXX is None, reason="there is no C++ compiler (Debian's package g++)")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LAPACK])
def test_a_cpp_program_with_the_class_has_the_bits_of_the_jit(name: str, tmp_path: Path) -> None:
    build = built(name, "static", "off", bindings=("c++",))
    model, results = library_model(name), expected(name)
    reads = [f'read("argument{n}", model.arg{n}_data(), {array.nbytes});' for n, array in enumerate(model.inputs)]
    words = dict(zip(build.names.arguments, range(len(model.inputs)), strict=True))
    reads = [
        re.sub(r"model\.arg(\d+)_data", lambda match: f"model.{build.names.arguments[int(match[1])]}_data", line)
        for line in reads
    ]
    assert len(words) == len(reads)
    writes = [
        f'write("result{n}", model.{build.names.results[n]}_data(), {array.nbytes});' for n, array in enumerate(results)
    ]
    setup, arguments = "", ""
    if name in FILES:
        size = len(build.files[f"{name}.safetensors"])
        setup = f'static char file[{size}]; read("{name}.safetensors", file, {size});'
        arguments = f"(file, {size})"
    if name == "symbolic":
        arguments = f"({model.inputs[0].shape[0]})"
    text = CLASS.format(
        model=name,
        name=name.capitalize(),
        setup=setup,
        arguments=arguments,
        reads="\n  ".join(reads),
        times=1 if build.library.program.donations else 2,  # a donated argument is gone
        writes="\n  ".join(writes),
    )
    source = tmp_path / "main.cpp"
    source.write_text(text)
    got, said = run(linked(build, tmp_path, source, GXX), name, 1, "off")
    assert got == [array.tobytes() for array in results]
    assert said.startswith(f"done {len(model.inputs)} {len(results)}")


@pytest.mark.skipif(GXX is None, reason="there is no C++ compiler (Debian's package g++)")
def test_a_cpp_class_of_sizes_that_do_not_fit(tmp_path: Path) -> None:
    """It allocates nothing, and says so when it is run."""
    build = built("symbolic", "static", "off", bindings=("c++",))
    source = tmp_path / "main.cpp"
    source.write_text(
        '#include <cstdio>\n#include "symbolic.hpp"\nint main() {\n'
        "  for (int64_t size : {INT64_C(0), INT64_C(-5), INT64_C(1) << 61}) {\n    Symbolic model(size);\n"
        "    if (model.Run()) return 1;\n    std::puts(model.error_msg());\n  }\n  return 0;\n}\n"
    )
    said = subprocess.run([str(linked(build, tmp_path, source, GXX))], check=True, capture_output=True, text=True)
    assert said.stdout == 3 * "the dimensions do not fit the model\n"


@needs_gcc
def test_several_models_go_into_one_program(tmp_path: Path) -> None:
    for name in ("mlp", "cnn"):
        built(name, "object", "own").with_test(library_model(name).inputs, expected(name)).write(tmp_path)
    (tmp_path / "both.c").write_text(
        "#define main mlp_main\n#define number mlp_number\n#define differs mlp_differs\n#define argument_0 mlp_a0\n"
        "#define expected_0 mlp_e0\n#define result_0 mlp_r0\n"
        '#include "mlp_test.c"\n#undef main\n#undef number\n#undef differs\n#undef argument_0\n#undef expected_0\n'
        '#undef result_0\n#define main cnn_main\n#include "cnn_test.c"\n#undef main\n'
        "int main(int n, char **w) { return mlp_main(n, w) + cnn_main(n, w); }\n"
    )
    command = [GCC, *STRICT, "both.c", "libmlp.o", "libcnn.o", "-lm", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said.count("the same bits") == 2


def test_the_header_says_which_argument_a_result_replaces() -> None:
    build = built("donating", "object", "off")
    assert dict(build.library.program.donations) == {0: 0}
    header = " ".join(build.files["donating.h"].decode().split()).replace("( ", "(")
    first, _ = build.names.results
    assert f"int donating(float *state /* f32[40,30], also {first} */, const float *x /* f32[30] */, float *" in header


@needs_gcc
@pytest.mark.skipif(VALGRIND is None, reason="there is no valgrind (Debian's package valgrind)")
@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "symbolic", "draws", "mixed"])
def test_valgrind_finds_nothing(name: str, tmp_path: Path) -> None:
    """Of code for AVX2: valgrind knows no AVX-512."""
    build = built(name, "object", "own", cpu="avx2")
    program = linked(build, tmp_path)
    results, _ = run(program, name, 2, "own", under=("valgrind", "-q", "--error-exitcode=9"))
    right = expected(name, "avx2") if not shlo_missing("avx2") else None
    if right is not None:
        assert results == [array.tobytes() for array in right]


def shlo_missing(cpu: str) -> list[str]:
    """What this machine lacks of a CPU description."""
    from stablehlo_py.backends.cpu.features import missing_features
    from stablehlo_py.backends.cpu.target import host_target, named_target, required_features

    return missing_features(required_features(named_target(cpu, host_target())))


PORTABLE = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.mark.every(2)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LAPACK])
def test_a_model_in_c(name: str, compiler: str, tmp_path: Path) -> None:
    """One file and its header, by compilers that are told to be strict; gcc's sanitizers find nothing in it."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} (Debian's package {compiler})")
    model = library_model(name)
    build = shlo.aot.compile(model.artifact, name, emit="c").with_test(model.inputs, expected(name))
    build.write(tmp_path)
    assert set(build.files) == {f"{name}.c", f"{name}.h", f"{name}_test.c"}
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if compiler == "gcc" else []
    command = [compiler, *PORTABLE, "-O1", *checks, f"{name}.c", f"{name}_test.c", "-lm", "-o", "program"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    said = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert len(said.stdout.splitlines()) == len(build.names.results)


@needs_gcc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="versions are for x86-64")
@pytest.mark.parametrize("threads", ["off", "own"])
def test_a_call_takes_the_best_code_that_the_machine_has(threads: str, tmp_path: Path) -> None:
    """glibc is told to see less than there is."""
    cpus = ("x86-64", "avx2", "avx512")
    build = built("mlp", "object", threads, cpus=cpus)
    assert build.library.target.startswith("x86-64, avx2, avx512 (")
    program = linked(build, tmp_path)
    hidden = {"x86-64": "-AVX2,-AVX512F", "avx2": "-AVX512F", "avx512": ""}
    here = [cpu for cpu in cpus if not shlo_missing(cpu)]
    assert len(here) == 1 or len({expected("mlp", cpu)[0].tobytes() for cpu in here}) > 1, "nothing tells them apart"
    for cpu in here:
        settings = f"glibc.cpu.hwcaps={hidden[cpu]}" if hidden[cpu] else "glibc.malloc.check=0"
        results, _ = run(program, "mlp", 2, threads, under=("env", f"GLIBC_TUNABLES={settings}"))
        assert results == [array.tobytes() for array in expected("mlp", cpu)], cpu
    symbols = subprocess.run(["nm", build.links[0]], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "U __x86_get_cpuid_feature_leaf" in symbols
    assert set(re.findall(r" [TRD] (\w+)", symbols)) == set(build.library.public)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("mlp", {"cpus": ("x86-64", "sapphirerapids")}, "'sapphirerapids' cannot be one of several CPUs"),
        ("mlp", {"cpus": ("aarch64", "neoverse-n1")}, "holds code for one CPU"),
        ("mlp", {"cpus": ("x86-64", "avx2"), "triple": "x86_64-pc-windows-msvc"}, "holds code for one CPU"),
        ("symbolic", {"cpus": ("x86-64", "avx2")}, "a model with symbolic dimensions has code for one CPU"),
    ],
)
def test_versions_that_cannot_be(name: str, arguments: dict, message: str) -> None:
    with pytest.raises(shlo.ShloError, match=message):
        built(name, "object", "off", **arguments)
