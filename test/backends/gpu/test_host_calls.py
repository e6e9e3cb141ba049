"""Custom calls that run on the host in programs for a device: loops and branches, what is the program's and what the
function's, LAPACK. That functions are called as in programs for the CPU: test/python/test_custom_calls.py."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py import handlers
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import ArgumentError, CallError, UnsupportedError
from stablehlo_py.mlir import ir, quiet_context

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

linalg = jax.lax.linalg
RNG = np.random.default_rng(5)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
ONCE = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  %1 = stablehlo.custom_call @test.target(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.multiply %1, %x : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}"""
# Collatz's steps: an even number is halved by a kernel, an odd one goes through the function, until it is 1.
BRANCHES = """func.func @main(%x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:2 = stablehlo.while(%n = %x, %steps = %zero) : tensor<i32>, tensor<i32>
  cond {
    %go = stablehlo.compare NE, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %rest = stablehlo.remainder %n, %two : tensor<i32>
    %even = stablehlo.compare EQ, %rest, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %next = "stablehlo.if"(%even) ({
      %half = stablehlo.divide %n, %two : tensor<i32>
      stablehlo.return %half : tensor<i32>
    }, {
      %more = stablehlo.custom_call @test.target(%n) : (tensor<i32>) -> tensor<i32>
      stablehlo.return %more : tensor<i32>
    }) : (tensor<i1>) -> tensor<i32>
    %count = stablehlo.add %steps, %one : tensor<i32>
    stablehlo.return %next, %count : tensor<i32>, tensor<i32>
  }
  return %r#0, %r#1 : tensor<i32>, tensor<i32>
}"""
DONATED = ONCE.replace("%x: tensor<2x3xf32>", "%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}")


@pytest.fixture(autouse=True)
def _device(real_device: object) -> Iterator[None]:
    """Skips where there is no device; forgets what was registered."""
    before = dict(handlers._bound)
    yield
    handlers._bound.clear()
    handlers._bound.update(before)


def register(function: Callable[..., object]) -> None:
    shlo.register_custom_call("test.target", function)


# --- where calls stand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["opencl", "opencl-races"])
def test_in_a_branch_of_a_loop(target: str) -> None:
    register(lambda n: 3 * n + 1)
    executable = shlo.compile(BRANCHES, target=target)
    assert "calls that run on the host: test.target" in executable.report()
    assert "one kernel" not in executable.report()
    for start, steps in ((27, 111), (1, 0), (8, 3), (27, 111)):
        assert executable(np.int32(start)) == (1, steps)


def test_a_loop_without_calls_is_still_one_kernel() -> None:
    """Beside one that has a call, and inside it."""
    register(lambda x: x + np.float32(1))

    def model(x: jax.Array) -> jax.Array:
        def inner(_: int, y: jax.Array) -> jax.Array:
            return jnp.sort(jnp.tanh(y) * 2)

        def outer(_: int, y: jax.Array) -> jax.Array:
            y = jax.ffi.ffi_call("test.target", jax.ShapeDtypeStruct(y.shape, y.dtype))(y)
            return jax.lax.fori_loop(0, 300, inner, y)

        return jax.lax.fori_loop(0, 5, outer, x)

    checks = [jax.export.DisabledSafetyCheck.custom_call("test.target")]
    exported = jax.export.export(jax.jit(model), platforms=["cpu"], disabled_checks=checks)(X)
    executable = shlo.compile(exported, target="opencl")
    assert "loops that are one kernel: 1" in executable.report()
    np.testing.assert_allclose(executable(X)[0], shlo.compile(exported)(X)[0], rtol=1e-5)


def test_the_same_call_many_times() -> None:
    """One function of the program for all of them, where kernels have rows of a table."""
    calls = "\n".join(
        f"""  %a{i + 1} = stablehlo.custom_call @test.target(%b{i}) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b{i + 1} = stablehlo.subtract %a{i + 1}, %x : tensor<2x3xf32>"""
        for i in range(12)
    )
    text = f"""func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %b0 = stablehlo.add %x, %x : tensor<2x3xf32>
{calls}
  return %b12 : tensor<2x3xf32>
}}"""
    seen = []

    def function(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return 2 * x

    register(function)
    (result,) = shlo.compile(text, target="opencl")(X)
    expected = 2 * X
    for each in seen:
        np.testing.assert_array_equal(each, expected)
        expected = 2 * expected - X
    np.testing.assert_array_equal(result, expected)
    assert len(seen) == 12


def test_operands_and_results_of_every_kind() -> None:
    """Several, of different types, none of them, empty ones, and one that is passed twice."""
    text = """func.func @main(%a: tensor<3xbf16>, %b: tensor<5xi1>, %c: tensor<0x4xf32>, %d: tensor<2xcomplex<f32>>)
    -> (tensor<5xi1>, tensor<2xcomplex<f32>>, tensor<0xi8>, tensor<7xbf16>) {
  %n = stablehlo.not %b : tensor<5xi1>
  %r:4 = stablehlo.custom_call @test.target(%a, %n, %c, %d, %a)
    : (tensor<3xbf16>, tensor<5xi1>, tensor<0x4xf32>, tensor<2xcomplex<f32>>, tensor<3xbf16>)
    -> (tensor<5xi1>, tensor<2xcomplex<f32>>, tensor<0xi8>, tensor<7xbf16>)
  %s = stablehlo.add %r#1, %d : tensor<2xcomplex<f32>>
  return %r#0, %s, %r#2, %r#3 : tensor<5xi1>, tensor<2xcomplex<f32>>, tensor<0xi8>, tensor<7xbf16>
}"""

    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, ...]:
        assert c.shape == (0, 4) and a.tobytes() == e.tobytes()
        return ~b, d * np.complex64(1j), np.zeros(0, np.int8), np.concatenate([a, e, a[:1]])

    register(function)
    arrays = (
        np.array([1, -2, 0.5], ml_dtypes.bfloat16),
        np.array([1, 0, 0, 1, 1], bool),
        np.zeros((0, 4), np.float32),
        np.array([1 + 2j, -3j], np.complex64),
    )
    found, expected = (shlo.compile(text, target=target)(*arrays) for target in ("opencl", "cpu"))
    for ours, right in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype, ours.tobytes()) == (right.shape, right.dtype, right.tobytes())
    np.testing.assert_array_equal(found[0], arrays[1])


@pytest.mark.parametrize("operand", ["", "%x"])
def test_without_operands_and_with_empty_ones_alone(operand: str) -> None:
    type_ = "tensor<0xf32>" if operand else ""
    text = f"""func.func @main(%x: tensor<0xf32>) -> (tensor<4xi32>, tensor<0xf32>) {{
  %0:2 = stablehlo.custom_call @test.target({operand}) {{has_side_effect = true}} : ({type_})
    -> (tensor<4xi32>, tensor<0xf32>)
  return %0#0, %0#1 : tensor<4xi32>, tensor<0xf32>
}}"""
    register(lambda *arrays: (np.arange(4, dtype=np.int32), np.zeros(0, np.float32)))
    executable = shlo.compile(text, target="opencl")
    for _ in range(2):
        first, second = executable(np.zeros(0, np.float32))
        assert first.tolist() == [0, 1, 2, 3] and second.shape == (0,)


def test_the_programs_order_is_kept() -> None:
    """Results that no kernel has read yet, when the next call takes their place in the host's memory."""
    count = 1 << 18
    lines = [f"%{i + 1} = stablehlo.custom_call @test.target(%{i}) : (tensor<{count}xi32>) -> tensor<{count}xi32>"
             for i in range(6)]  # fmt: skip
    text = f"""func.func @main(%0: tensor<{count}xi32>) -> (tensor<{count}xi32>, tensor<{count}xi32>) {{
  {chr(10).join(lines)}
  return %1, %6 : tensor<{count}xi32>, tensor<{count}xi32>
}}"""
    register(lambda x: np.roll(x, 1) + np.int32(1))
    executable, x = shlo.compile(text, target="opencl"), np.arange(count, dtype=np.int32)
    first, last = executable.call([executable.put(x, 0)])
    np.testing.assert_array_equal(np.asarray(first), np.roll(x, 1) + 1)
    np.testing.assert_array_equal(np.asarray(last), np.roll(x, 6) + 6)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failure_in_a_loop_ends_it() -> None:
    seen = []

    def function(n: np.ndarray) -> np.ndarray:
        seen.append(int(n))
        if n > 100:
            raise ValueError("too large")
        return 3 * n + 1

    register(function)
    executable = shlo.compile(BRANCHES, target="opencl")
    for start in (27, 27, 8):
        seen.clear()
        if start == 8:
            assert executable(np.int32(start)) == (1, 3)
            continue
        with pytest.raises(CallError, match="too large") as caught:
            executable(np.int32(start))
        assert caught.value.location == "<text>:16:15" and isinstance(caught.value.__cause__, ValueError)
        assert seen[-1] > 100 and all(n <= 100 for n in seen[:-1])


def test_a_donated_buffer_after_a_failure() -> None:
    """As on the processor: it is there as long as a call has not ended well."""
    fails = [True]

    def function(x: np.ndarray) -> np.ndarray:
        if fails:
            raise ValueError("no")
        return x

    register(function)
    for target in ("cpu", "opencl"):
        fails[:] = [True]
        executable = shlo.compile(DONATED, target=target)
        buffer = executable.put(X, 0)
        with pytest.raises(CallError):
            executable.call([buffer])
        assert np.asarray(buffer).shape == X.shape
        fails.clear()
        buffer = executable.put(X, 0)
        (result,) = executable.call([buffer])
        np.testing.assert_array_equal(np.asarray(result), 2 * X * X)
        with pytest.raises(ArgumentError):
            executable.call([buffer])


def test_ctrl_c_in_a_loop() -> None:
    def function(n: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    register(function)
    executable = shlo.compile(BRANCHES, target="opencl")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            executable(np.int32(27))
        assert executable(np.int32(8)) == (1, 3)


def test_an_executable_that_its_function_calls() -> None:
    """It has memory for one call; another one of the same model works, on the same device."""

    def function(x: np.ndarray) -> np.ndarray:
        return inner(x)[0] if x.flat[1] < 100 else x

    register(function)
    executable = shlo.compile(ONCE, target="opencl")
    inner = executable
    with pytest.raises(CallError, match="a function that the executable calls has called it") as caught:
        executable(X)
    assert isinstance(caught.value.__cause__, UnsupportedError)
    shlo.register_custom_call("test.inner", lambda x: x)
    inner = shlo.compile(ONCE.replace("test.target", "test.inner"), target="opencl")
    np.testing.assert_array_equal(executable(X)[0], 8 * X * X * X)


def test_nothing_is_kept() -> None:
    """What the program holds, and what a failed call has, goes with them."""

    class Function:
        def __call__(self, x: np.ndarray) -> np.ndarray:
            raise ValueError("no")

    function = Function()
    kept = weakref.ref(function)
    register(function)
    executable = shlo.compile(ONCE, target="opencl")
    for _ in range(3):
        with pytest.raises(CallError):
            executable(X)
    shlo.unregister_custom_call("test.target")
    del function
    assert kept() is not None
    del executable
    gc.collect()
    assert kept() is None


def test_other_threads_wait_for_a_call() -> None:
    """Programs on a device follow one another."""
    begun, ends = threading.Event(), threading.Event()

    def function(x: np.ndarray) -> np.ndarray:
        begun.set()
        ends.wait(10)
        return x

    register(function)
    executable = shlo.compile(ONCE, target="opencl")
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda each=each: found.append(executable(each)[0])) for each in (X, X + 1)]
    for thread in threads:
        thread.start()
    assert begun.wait(10) and not found
    ends.set()
    for thread in threads:
        thread.join()
    assert sorted(result.sum() for result in found) == sorted(float((2 * each * each).sum()) for each in (X, X + 1))


# --- artifacts and stages ---------------------------------------------------------------------------------------------


def test_where_no_compiler_is(tmp_path) -> None:
    """A saved program, in a process that has registered its function, and has neither LLVM nor SciPy."""
    register(lambda x: x)
    shlo.compile(ONCE, target="opencl").save(tmp_path / "model.shlo")
    script = """
shlo.register_custom_call("test.target", lambda x: np.flip(x))
executable = shlo.load_executable(sys.argv[1])
x = np.arange(6, dtype=np.float32).reshape(2, 3)
print(np.array_equal(executable(x)[0], np.flip(2 * x) * x), compiling())
"""
    assert alone(script, tmp_path / "model.shlo") == "True []\n"


@pytest.mark.parametrize("target, gpu", [("opencl", None), ("cuda", "sm_90"), ("rocm", "gfx942")])
def test_stages(target: str, gpu: str | None) -> None:
    """The program has the function's kernel among those of the host, and the device's code has nothing of it."""
    register(lambda x: x)
    options = shlo.Options(gpu=gpu)
    stages = shlo.api.compile_program(ONCE, target=target, options=options).stages
    text = stages["kernels"]
    assert text == run_stages(shlo.load(ONCE), "", "kernels", options, target=target)
    with quiet_context():
        module = ir.Module.parse(text)
        device, *host = (op.operation.get_asm() for op in module.body.operations)
    (kernel,) = (function for function in host if "llvm.call @shlo.call.test$2etarget(" in function)
    name = kernel.partition("@")[2].partition("(")[0]
    assert re.fullmatch(r"fusion_\d", name) and f"@{name}(" not in device
    llvm = run_stages(shlo.load(ONCE), "", "llvm", options, target=target)
    assert "test$2etarget" not in llvm and "shlo_main" not in llvm


def test_functions_are_registered_for_the_processor() -> None:
    for platform in ("opencl", "cuda", "rocm"):
        with pytest.raises(shlo.OptionError, match=r"call functions of the host\n  help: .*platform='cpu'"):
            shlo.register_custom_call("test.target", len, platform=platform)


@pytest.mark.parametrize("target, gpu", [("cuda", "sm_90"), ("rocm", "gfx942")])
def test_programs_with_calls_are_no_graphs(target: str, gpu: str) -> None:
    register(lambda x: x)
    options = shlo.Options(gpu=gpu)
    calls = shlo.api.compile_program(ONCE, target=target, options=options)
    kernels = shlo.api.compile_program(ONCE.replace("custom_call @test.target", "custom_call @mhlo.tan"), target=target,
                                       options=options)  # fmt: skip
    assert not calls.graphs and kernels.graphs
    assert calls.symbols == ("shlo.call.test$2etarget",) and calls.host_bytes


# --- LAPACK -----------------------------------------------------------------------------------------------------------


def normal(*sizes: int, dtype: type) -> np.ndarray:
    x = RNG.standard_normal(sizes)
    return (x + 1j * RNG.standard_normal(sizes) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def positive(*sizes: int, dtype: type) -> np.ndarray:
    a = normal(*sizes, dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + sizes[-1] * np.eye(sizes[-1], dtype=dtype)


def eigenvalues(a: jax.Array) -> object:
    return linalg.eig(a + 1, compute_left_eigenvectors=True)


def with_pivoting(a: jax.Array) -> object:
    return jax.scipy.linalg.qr(a + 1, pivoting=True)


def product_with_q(a: jax.Array) -> object:
    from jax._src.lax.linalg import geqrf, ormqr  # newer versions of JAX have them in `jax.lax.linalg`

    vectors, factors = geqrf(a + 1)
    return ormqr(vectors, factors, a[..., :2], left=True, transpose=True)


CALLS = {
    "geev": (eigenvalues, (5, 5)),
    "gees": (lambda a: linalg.schur(a + 1), (6, 6)),
    "gehrd": (lambda a: linalg.hessenberg(a + 1), (6, 6)),
    "geqp3": (with_pivoting, (7, 4)),
    "(or|un)mqr": (product_with_q, (7, 4)),
}


FORMS = [(np.float32, ()), (np.float64, (3,)), (np.complex64, (3,)), (np.complex128, ()), (np.float32, (0,))]
UNSTABLE = [
    jax.export.DisabledSafetyCheck.custom_call(f"lapack_{letter}{name}_ffi")
    for letter in "sdcz"
    for name in ("geqp3", "geqrf", "ormqr", "unmqr")
]


def both(function: Callable[..., object], *arrays: np.ndarray) -> tuple[shlo.Executable, list[list[np.ndarray]]]:
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(function), platforms=["cpu"], disabled_checks=UNSTABLE)(*arrays)
    executable = shlo.compile(exported, target="opencl")
    return executable, [list(each(*arrays)) for each in (executable, shlo.compile(exported))]


@pytest.mark.parametrize("dtype, batch", FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_calls_of_lapack_are_the_processors(name: str, dtype: type, batch: tuple[int, ...]) -> None:
    function, sizes = CALLS[name]
    executable, (found, right) = both(function, normal(*batch, *sizes, dtype=dtype))
    if batch != (0,):
        assert re.search(rf"calls that run on the host: .*lapack_.{name}_ffi", executable.report())
    for ours, theirs in zip(found, right, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        tolerance = 1000 * np.finfo(dtype).eps  # what is around the calls, kernels compute
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


ROW_MAJOR = """func.func @main(%a: tensor<2x5x5xf64>, %b: tensor<2x5x5xf64>)
    -> (tensor<2x5x5xf64>, tensor<2xi32>, tensor<2x5x5xf64>) {
  %l:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}}
    : (tensor<2x5x5xf64>) -> (tensor<2x5x5xf64>, tensor<2xi32>)
  %x = stablehlo.custom_call @TARGET(%l#0, %b) {
    mhlo.backend_config = {side = 82 : ui8, uplo = 76 : ui8, trans_x = 78 : ui8, diag = 78 : ui8}
  } : (tensor<2x5x5xf64>, tensor<2x5x5xf64>) -> tensor<2x5x5xf64>
  return %l#0, %l#1, %x : tensor<2x5x5xf64>, tensor<2xi32>, tensor<2x5x5xf64>
}"""


@pytest.mark.parametrize("target", ["lapack_dtrsm_ffi", "blas_dtrsm_ffi"])
def test_matrices_in_other_layouts(target: str) -> None:
    """Row by row in memory: LAPACK takes them as it finds them, transposed. Others have kernels."""
    arrays = positive(2, 5, 5, dtype=np.float64), normal(2, 5, 5, dtype=np.float64)
    executables = [shlo.compile(ROW_MAJOR.replace("TARGET", target), target=each) for each in ("opencl", "cpu")]
    assert f"calls that run on the host: lapack_dpotrf_ffi, {target}" in executables[0].report()
    found, right = (each(*arrays) for each in executables)
    for ours, theirs in zip(found, right, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    upper = np.triu(found[0])
    np.testing.assert_allclose(upper.swapaxes(1, 2) @ upper, arrays[0], rtol=1e-12)


def test_what_has_kernels_does_not_run_on_the_host() -> None:
    def model(a: jax.Array) -> object:
        return jnp.linalg.svd(a), jnp.linalg.eigh(a + a.T), jnp.linalg.qr(a), jax.scipy.linalg.lu(a)

    exported = jax.export.export(jax.jit(model), platforms=["cpu"])(normal(4, 4, dtype=np.float32))
    assert "on the host" not in shlo.compile(exported, target="opencl").report()


def test_eigenvalues_in_a_loop() -> None:
    """Each trip: the spectral radius of a matrix, by which it is divided."""

    def model(a: jax.Array) -> object:
        return jax.lax.fori_loop(0, 4, lambda _, a: a @ a / jnp.abs(linalg.eig(a)[0]).max(), a)

    _, (found, right) = both(model, normal(6, 6, dtype=np.float64))
    np.testing.assert_allclose(found[0], right[0], rtol=1e-9)


def test_wrong_calls_are_refused() -> None:
    text = """func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3xf32>, tensor<i32>) {
  %0:3 = stablehlo.custom_call @lapack_sgehrd_ffi(%x) {mhlo.backend_config = {low = 1 : i32, high = 9 : i32}}
    : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3xf32>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<4x4xf32>, tensor<3xf32>, tensor<i32>
}"""
    with pytest.raises(UnsupportedError, match="has rows 1 to 9 of matrices with 4") as caught:
        shlo.compile(text, target="opencl")
    assert caught.value.problems[0].location == "<text>:2:10"
