"""Models as C: GCC and Clang take them without a warning, sanitizers find nothing, and the results are the CPU's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import c_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import stablehlo_py as shlo

R = np.random.default_rng(0)
OPTIONS = c_programs.OPTIONS


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return R.standard_normal(shape).astype(dtype)


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return R.integers(low, high, size=shape, dtype=dtype)


def until(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 1.5 + 1, x)


def scanned(x: jax.Array) -> Any:
    return lax.scan(lambda carry, row: (carry * 0.9 + row, carry), jnp.zeros(7, jnp.float32), x)


def normalized(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def narrow(kind: Any) -> Callable[..., jax.Array]:
    return lambda x, y: jnp.tanh(x.astype(kind) @ y.astype(kind))


CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "elementwise": (lambda x, y: (jnp.exp(x) - y / 3, x > y), [floats(33, 20), floats(33, 20)]),
    "row": (normalized, [floats(40, 130)]),
    "column": (lambda x: x.max(0) - x.sum(0), [floats(70, 33)]),
    "dot": (lambda x, y: jax.nn.gelu(x @ y + 1), [floats(130, 257), floats(257, 100)]),
    "vector": (lambda x, y: x @ y, [floats(300, 257), floats(257)]),
    "convolution": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), [floats(2, 8, 20, 20), floats(16, 8, 3, 3)]),
    "depthwise": (
        lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME", feature_group_count=8),
        [floats(2, 8, 20, 20), floats(8, 1, 3, 3)],
    ),
    "window": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "SAME"), [floats(3, 11, 13)]),
    "while": (until, [np.abs(floats(5, 300))]),
    "scan": (scanned, [floats(20, 7)]),
    "branch": (lambda x: lax.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, x), [floats(50, 50)]),
    "sort": (lambda x: lax.sort((x, jnp.arange(3000, dtype=jnp.int32)), num_keys=1), [floats(3000)]),
    "top_k": (lambda x: lax.top_k(x, 7), [floats(4, 500)]),
    "fft": (jnp.fft.rfft, [floats(4, 100)]),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + 20 * jnp.eye(20, dtype=x.dtype)), [floats(20, 20)]),
    "random": (lambda x: x + jax.random.normal(jax.random.key(1), (100,)), [floats(100)]),
    "scatter": (lambda x, i: x.at[i].add(1.5), [floats(50), integers(0, 50, 30)]),
    "gather": (lambda x, i: x[i], [floats(50, 9), integers(0, 50, 30)]),
    "bfloat16": (narrow(jnp.bfloat16), [floats(33, 17), floats(17, 40)]),
    "float16": (narrow(jnp.float16), [floats(33, 17), floats(17, 40)]),
    "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32) * 2, [floats(300)]),
    "int4": (lambda x: (x.astype(jnp.int4) * jnp.int4(3)).astype(jnp.int32), [integers(-8, 8, 100)]),
    "int8": (
        lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
        [integers(-128, 127, 30, 40, dtype=np.int8), integers(-128, 127, 40, 50, dtype=np.int8)],
    ),
    "integers": (
        lambda x, y: (x // y, x % y, lax.shift_left(x, y), x * x * x),
        [integers(-(2**31), 2**31 - 1, 100), integers(-4, 40, 100)],
    ),
    "to-integers": (lambda x: (x.astype(jnp.int8), x.astype(jnp.uint32)), [floats(100) * np.float32(1e9)]),
    "complex": (lambda x: jnp.exp(x + 1j * x[::-1]) * jnp.sqrt(x.astype(jnp.complex64)), [floats(300)]),
    "update": (lambda x: lax.fori_loop(0, 10, lambda i, c: c.at[i].set(c[i - 1] + i), x), [floats(12)]),
    "constant": (lambda x: x @ np.linspace(-1, 1, 24 * 9, dtype=np.float32).reshape(24, 9), [floats(5, 24)]),
}


def text_of(name: str) -> str:
    function, arrays = CASES[name]
    return jax.jit(function).lower(*arrays).as_text()


def check(results: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 2e-5) -> None:
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        if wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(result, wanted)
        else:
            wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
            narrowed = tolerance if wanted.dtype.itemsize >= 4 else 1e-2
            np.testing.assert_allclose(result.astype(wide), wanted.astype(wide), rtol=narrowed, atol=narrowed)


def of_cpu(text: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return list(shlo.compile(text, options=OPTIONS)(*arrays))


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_cpu(name: str) -> None:
    c_programs.compiler("gcc")
    text, arrays = text_of(name), CASES[name][1]
    check(list(shlo.compile(text, target="c", options=OPTIONS)(*arrays)), of_cpu(text, arrays))


# Lane by lane, and loops over the lanes of vectors of 256 and of 512 bits. Any machine runs them.
MACHINES = {"lanes-1": "generic", "lanes-8": "avx2", "lanes-16": "avx512"}


def options_of(machine: str) -> shlo.Options:
    return replace(OPTIONS, cpu=MACHINES[machine])


@pytest.mark.every(2)
@pytest.mark.parametrize("machine", ["lanes-1", "lanes-16"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", CASES)
def test_compilers_warn_of_nothing(name: str, compiler: str, machine: str, tmp_path: Path) -> None:
    c_programs.build(c_programs.c_file(text_of(name), options=options_of(machine)), tmp_path, compiler, ["-O1"])


SANITIZED = ["elementwise", "row", "dot", "convolution", "while", "sort", "random", "float16", "integers", "constant"]


@pytest.mark.every(2)
@pytest.mark.parametrize("machine", ["lanes-1", "lanes-8"])
@pytest.mark.parametrize("name", SANITIZED)
def test_sanitizers_find_nothing(name: str, machine: str, tmp_path: Path) -> None:
    text, arrays = text_of(name), CASES[name][1]
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    check(c_programs.run(text, arrays, tmp_path, flags=flags, options=options_of(machine)), of_cpu(text, arrays))


def test_symbolic_dimensions() -> None:
    c_programs.compiler("gcc")
    (batch,) = export.symbolic_shape("b")

    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        return (jax.nn.softmax(jnp.tanh(x @ w) + x.sum(1, keepdims=True))).cumsum(0)

    shapes = jax.ShapeDtypeStruct((batch, 16), jnp.float32), jax.ShapeDtypeStruct((16, 5), jnp.float32)
    exported = export.export(jax.jit(function))(*shapes)
    w = floats(16, 5)
    executable = shlo.compile(exported, target="c", options=shlo.Options(cache_dir=None, dynamic="once"))
    for size in (1, 7, 130):
        x = floats(size, 16)
        check(list(executable(x, w)), [np.asarray(function(x, w))])


@pytest.mark.parametrize("function", [jnp.linalg.svd, jnp.linalg.eigh, jnp.linalg.qr])
def test_lapack(function: Callable[..., Any], tmp_path: Path) -> None:
    """Declared as Fortran's compilers name it; in this process SciPy's is called."""
    x = floats(6, 6)
    text = jax.jit(function).lower(x @ x.T).as_text()
    written = c_programs.c_file(text)
    assert "extern void s" in written and "shlo.lapack" not in written
    c_programs.build(written, tmp_path, "gcc", ["-O2"])
    check(list(shlo.compile(text, target="c", options=OPTIONS)(x @ x.T)), of_cpu(text, [x @ x.T]))


def test_a_saved_program_runs_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c_programs.compiler("gcc")
    text, arrays = text_of("dot"), CASES["dot"][1]
    executable = shlo.compile(text, target="c", options=OPTIONS)
    executable.save(tmp_path / "model.shlo")
    monkeypatch.setenv("CC", "no-such-compiler")
    (again,) = shlo.load_executable(tmp_path / "model.shlo")(*arrays)
    assert again.tobytes() == executable(*arrays)[0].tobytes()
    with pytest.raises(shlo.ResourceError, match=r"'no-such-compiler' is not here.*\n.*apt-get install gcc"):
        shlo.compile(text, target="c", options=OPTIONS)


def test_equal_models_give_equal_files() -> None:
    """Also in another process, whose hashes differ."""
    text = text_of("convolution")
    code = "import sys, c_programs; sys.stdout.write(c_programs.c_file(sys.stdin.read()))"
    paths = [str(Path(c_programs.__file__).parent), *filter(None, sys.path)]
    for seed in ("1", "2"):
        environment = {"PYTHONPATH": ":".join(paths), "PYTHONHASHSEED": seed, "PATH": ""}
        done = subprocess.run([sys.executable, "-c", code], input=text, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == c_programs.c_file(text)


def test_an_entry_of_another_name(tmp_path: Path) -> None:
    written = c_programs.c_file(text_of("row"), name="normalize")
    assert "int normalize(const shlo_call *call) {" in written and "shlo_main" not in written
    made = c_programs.build(written, tmp_path, "gcc", ["-O2"])
    listed = subprocess.run(["nm", "--defined-only", "-g", str(made)], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["normalize"]


def test_only_three_headers_and_the_mathematics_library() -> None:
    for name in ("dot", "sort", "fft", "random"):
        included = [line for line in c_programs.c_file(text_of(name)).splitlines() if line.startswith("#include")]
        assert included == ["#include <math.h>", "#include <stdint.h>", "#include <string.h>"]
