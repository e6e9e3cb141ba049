"""Convolutions and their gradients by cuDNN, on a library that computes what it is asked for: that results are right,
which algorithms are taken, that our own kernels run where the library is not there or refuses, what is said where it
fails, that nothing leaks; and our own kernels beside the library, on a device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from driver_programs import with_fake_kernels
from library_programs import found_in, says
from library_programs import program_of as program_with_libraries
from without_compiler import alone

import stablehlo_py as shlo
from stablehlo_py.api import compile_program
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu.kernels.base import GpuKernel
from stablehlo_py.backends.gpu.libraries import cudnn
from stablehlo_py.backends.gpu.libraries.convolution_kernels import epilogue_kernel, operand_kernel
from stablehlo_py.backends.gpu.libraries.convolutions import library_convolution
from stablehlo_py.backends.gpu.libraries.cudnn import CudnnLibrary
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import InternalError, LoadError, ResourceError
from stablehlo_py.mlir import ir
from stablehlo_py.options import Options
from stablehlo_py.runtime import artifact
from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.library_calls import FILTER, IMAGES, IN_WORKSPACE, RESULT, LibraryConvolution, StoredTensor

Function = Callable[..., Any]
Pairs = Sequence[tuple[int, int]]
BF16, F16, F32, F64 = (np.dtype(each) for each in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64))
FIRST, LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "OHWI", "NHWC")  # as the library has them
FLAX = ("NHWC", "HWIO", "NHWC")


pytestmark = pytest.mark.usefixtures("wide_types", "no_assembler")


@pytest.fixture
def built_cuda(built_dnn):
    return built_dnn


@pytest.fixture
def dnn(cuda_device, monkeypatch) -> Iterator[Any]:
    """The driver and the library of this process."""
    with found_in(cuda_device.path, monkeypatch, CudnnLibrary):
        yield cuda_device


program_of = partial(program_with_libraries, libraries=("cudnn",))


def arrays_of(*shapes: tuple[int, ...], dtype: np.dtype = F32) -> list[np.ndarray]:
    """Random eighths, which every float type has."""
    generator = np.random.default_rng(0)
    return [(generator.integers(-8, 8, shape) / 8).astype(dtype) for shape in shapes]


def conv(
    order: tuple[str, str, str] = FIRST,
    strides: Sequence[int] = (1, 1),
    padding: Pairs = ((1, 1), (1, 1)),
    holes: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    groups: int = 1,
) -> Function:
    """A convolution of images and a filter."""

    def function(x: Any, w: Any) -> Any:
        sizes = {"lhs_dilation": holes, "rhs_dilation": dilation, "feature_group_count": groups}
        return jax.lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=order, **sizes)

    return function


def wanted(function: Function, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """In f64."""
    return np.asarray(jax.jit(function)(*(array.astype(F64) for array in arrays)))


X, W = (4, 16, 16, 16), (32, 16, 3, 3)
X_LAST, W_LAST = (4, 16, 16, 16), (32, 3, 3, 16)
# As the library has them: no kernel of ours is needed.
PLAIN: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "features first": (conv(), [X, W]),
    "features last": (conv(LAST), [X_LAST, W_LAST]),
    "images last": (conv(("CHWN", "OIHW", "CHWN")), [(16, 16, 16, 4), W]),
    "features of the result elsewhere": (conv(("NHWC", "OIHW", "NCHW")), [X_LAST, W]),
    "strides": (conv(strides=(2, 1)), [(4, 16, 32, 16), W]),
    "strides that leave some pixels out": (conv(strides=(3, 3)), [(4, 16, 48, 48), W]),
    "another padding that nobody looks at": (conv(strides=(2, 2), padding=((1, 0), (1, 0))), [(4, 16, 32, 32), W]),
    "no padding": (conv(padding=((0, 0), (0, 0))), [(4, 16, 20, 20), W]),
    "dilation": (conv(padding=((2, 2), (3, 3)), dilation=(2, 3)), [X, W]),
    "groups": (conv(groups=4), [(4, 64, 16, 16), (64, 16, 3, 3)]),
    "each feature by itself": (conv(groups=256), [(8, 256, 16, 16), (256, 1, 3, 3)]),
    "patches": (conv(LAST, (16, 16), ((0, 0), (0, 0))), [(1, 224, 224, 3), (64, 16, 16, 3)]),
    "a line": (conv(("NCH", "OIH", "NCH"), (2,), ((4, 4),)), [(4, 32, 512), (32, 32, 9)]),
    "a line, features last": (conv(("NHC", "OHI", "NHC"), (1,), ((4, 4),)), [(4, 256, 32), (32, 9, 32)]),
    "space": (conv(("NCDHW", "OIDHW", "NCDHW"), (1, 1, 2), ((1, 1),) * 3), [(2, 16, 8, 8, 16), (32, 16, 3, 3, 3)]),
    "a gradient of the filter": (
        lambda x, dy: jax.vjp(conv(strides=(2, 2)), x, jnp.zeros(W, x.dtype))[1](dy)[1],
        [(4, 16, 32, 32), (4, 32, 16, 16)],
    ),
    "a gradient of the filter, features last, dilated": (
        lambda x, dy: jax.vjp(conv(LAST, dilation=(2, 2)), x, jnp.zeros(W_LAST, x.dtype))[1](dy)[1],
        [(8, 16, 16, 16), (8, 14, 14, 32)],
    ),
    "a gradient of the filter of a line": (
        lambda x, dy: jax.vjp(conv(("NCH", "OIH", "NCH"), (2,), ((4, 4),)), x, jnp.zeros((32, 32, 9), x.dtype))[1](dy)[
            1
        ],
        [(4, 32, 512), (4, 32, 256)],
    ),
}
COMPUTED = {name: FILTER if "filter" in name else RESULT for name in PLAIN}


@pytest.mark.parametrize("name", PLAIN)
def test_convolutions(dnn, name) -> None:
    function, shapes = PLAIN[name]
    arrays = arrays_of(*shapes)
    program = program_of(function, *arrays)
    assert [call.computes for call in program.convolutions] == [COMPUTED[name]]
    executable = Executable(program)
    assert says(executable, f"cuDNN 9.28.1 ({dnn.path}) computes 1 convolution")
    (found,) = executable(*arrays)
    np.testing.assert_allclose(found, wanted(function, arrays), rtol=1e-5, atol=1e-4)
    assert dnn.launches() == []


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [F64, BF16, F16], ids=str)
@pytest.mark.parametrize("order", [FIRST, LAST], ids=["first", "last"])
def test_types(dnn, dtype, order) -> None:
    function, arrays = conv(order), arrays_of(X, W if order == FIRST else W_LAST, dtype=dtype)
    program = program_of(function, *arrays)
    assert [call.dtype for call in program.convolutions] == [dtype]
    (found,) = Executable(program)(*arrays)
    exact = wanted(function, arrays)
    assert found.dtype == dtype and np.array_equal(found, exact.astype(dtype))


def turned(function: Function, *shapes: tuple[int, ...]) -> str:
    """StableHLO of a convolution whose filter is reversed in space, which JAX does by an op of its own."""
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(shape, F32) for shape in shapes)).as_text()
    assert text.count("reverse = [false, false]") == 1
    return text.replace("reverse = [false, false]", "reverse = [true, true]")


BACKWARD: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "strides": (
        conv(("NCHW", "IOHW", "NCHW"), padding=((1, 2), (1, 2)), holes=(2, 2)),
        [(4, 32, 16, 16), (32, 16, 3, 3)],
    ),
    "no strides": (conv(("NCHW", "IOHW", "NCHW")), [(4, 32, 16, 16), (32, 16, 3, 3)]),
    "dilation, features last": (
        conv(("NHWC", "IHWO", "NHWC"), padding=((4, 5), (3, 4)), holes=(2, 2), dilation=(2, 2)),
        [(4, 16, 16, 32), (32, 3, 3, 16)],
    ),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_of_images(dnn, name) -> None:
    function, shapes = BACKWARD[name]
    arrays = arrays_of(*shapes)
    options = Options(gpu="sm_90", libraries="cudnn")
    program = with_fake_kernels(compile_program(turned(function, *shapes), target="cuda", options=options))
    (call,) = program.convolutions
    assert call.computes == IMAGES and call.own_bytes == 0
    (found,) = Executable(program)(*arrays)
    axes = (1, 2) if "last" in name else (2, 3)
    exact = wanted(function, [arrays[0], np.flip(arrays[1], axes)])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)
    assert dnn.launches() == []


UNMATCHED: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "few products": (conv(), [(4, 16, 8, 8), W]),
    "less than no padding": (conv(padding=((-1, -1), (1, 1))), [X, W]),
    "both have holes": (conv(strides=(2, 2), holes=(3, 3)), [(4, 16, 16, 16), W]),
    "four dimensions": (
        conv(("NCABDE", "OIABDE", "NCABDE"), (1,) * 4, ((1, 1),) * 4),
        [(2, 16, 4, 4, 8, 8), (16, 16, 3, 3, 3, 3)],
    ),
    "a gradient of a filter in groups": (
        lambda x, dy: jax.vjp(conv(groups=4), x, jnp.zeros((64, 16, 3, 3), x.dtype))[1](dy)[1],
        [(4, 64, 16, 16), (4, 64, 16, 16)],
    ),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_what_is_left_to_our_own_kernels(name) -> None:
    function, shapes = UNMATCHED[name]
    assert program_of(function, *arrays_of(*shapes)).convolutions == ()


def test_types_that_are_left_to_our_own_kernels() -> None:
    integers = arrays_of(X, W, dtype=np.dtype(np.int8))
    assert program_of(conv(), *integers).convolutions == ()
    wider = lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME", preferred_element_type=jnp.float32)  # noqa: E731
    assert program_of(wider, *arrays_of(X, W, dtype=BF16)).convolutions == ()
    assert program_of(conv(), *arrays_of(X, W), libraries=("cublaslt", "cufft")).convolutions == ()


def test_tf32_is_asked_for(dnn) -> None:
    """Only by its own option, and only of f32."""
    x, w = (np.random.default_rng(0).standard_normal(shape).astype(F32) for shape in (X, W))
    exact = wanted(conv(), [x, w])
    for tf32, least, most in ((False, 0.0, 1e-4), (True, 1e-3, 1e-1)):
        (found,) = Executable(program_of(conv(), x, w, tf32=tf32))(x, w)
        assert least <= np.abs(found - exact).max() <= most
    (call,) = program_of(conv(), *arrays_of(X, W, dtype=BF16), tf32=True).convolutions
    assert not call.tf32


def algorithm(dnn: Any) -> int:
    """The one that was taken last."""
    return int(dnn.itself.fake_setting(b"taken")[0])


def test_algorithms(dnn) -> None:
    """Taken is the first one that is exact, the same from run to run, and has memory enough."""
    arrays = arrays_of(X, W)
    program = program_of(conv(), *arrays)
    (call,) = program.convolutions
    first = Executable(program)(*arrays)
    assert algorithm(dnn) == 1
    dnn.set(workspace=call.workspace_bytes + 1)
    second = Executable(program)(*arrays)
    assert algorithm(dnn) == 0 and np.array_equal(first, second)
    dnn.set(least=call.workspace_bytes + 1)
    assert says(Executable(program), f"0 convolutions; it refuses, and our own kernels compute: {call.kernel}")
    assert not any(dnn.live().get(kind) for kind in ("tensors", "filters", "convolutions"))


def both(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
    """A layer as the library has it, and one whose filter lies otherwise, with an epilogue."""
    hidden = conv(LAST)(x, w)
    return jax.nn.relu(conv(FLAX)(hidden, v) + 1)


BOTH = [X_LAST, W_LAST, (3, 3, 32, 32)]


def launched(dnn: Any, executable: Executable, arrays: Sequence[np.ndarray]) -> list[str]:
    """The kernels that a call starts."""
    before = len(dnn.launches())
    executable(*arrays)
    return [name for name, _ in dnn.launches()[before:]]


def test_our_kernels_run_before_and_behind_the_library(dnn) -> None:
    arrays = arrays_of(*BOTH)
    program = program_of(both, *arrays)
    first, second = program.convolutions
    assert (first.own_bytes, second.own_bytes) == (0, 3 * 3 * 32 * 32 * 4)
    executable = Executable(program)
    calls = dnn.calls("cudnnConvolutionForward")
    assert launched(dnn, executable, arrays) == [f"{second.kernel}_arranged", f"{second.kernel}_epilogue"]
    assert dnn.calls("cudnnConvolutionForward") == calls + 2
    assert "libraries: cudnn may compute 2 convolutions" in program.report


def test_a_library_that_is_not_there(dnn, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(CudnnLibrary.variable, str(tmp_path / "libcudnn.so.9"))
    arrays = arrays_of(*BOTH)
    program, without = program_of(both, *arrays), program_of(both, *arrays, libraries=())
    executable = Executable(program)
    assert says(executable, f"our own kernels compute 2 convolutions: there is no cuDNN here: {tmp_path}")
    assert launched(dnn, executable, arrays) == list(without.kernels)


def test_a_library_that_is_too_old(dnn) -> None:
    dnn.set(dnn_version=8907)
    assert says(Executable(program_of(conv(), *arrays_of(X, W))), "cuDNN 8.9.7, and 9.0 is needed")


@pytest.mark.parametrize(
    ("status", "text"), [(1001, "CUDNN_STATUS_NOT_INITIALIZED (1001)"), (3007, "NOT_SUPPORTED_ARCH_MISMATCH (3007)")]
)
def test_a_library_that_does_not_work_here(dnn, status, text) -> None:
    dnn.fail("cudnnCreate", status)
    arrays = arrays_of(X, W)
    program = program_of(conv(), *arrays)
    executable = Executable(program)
    assert says(executable, "refuses cuda:0") and says(executable, text)
    assert launched(dnn, executable, arrays) == list(program.kernels)


def test_a_library_that_refuses_one_convolution(dnn) -> None:
    dnn.set(refuses=1)
    arrays = arrays_of(*BOTH)
    program = program_of(both, *arrays)
    first, second = program.convolutions
    executable = Executable(program)
    assert says(executable, f"computes 1 convolution; it refuses, and our own kernels compute: {first.kernel}")
    names = launched(dnn, executable, arrays)
    assert names[-2:] == [f"{second.kernel}_arranged", f"{second.kernel}_epilogue"]
    assert first.kernel in names and dnn.live()["convolutions"] == 1  # the plan of the other is gone


def test_a_call_that_fails_names_the_op(dnn) -> None:
    arrays = arrays_of(X, W)
    program = program_of(conv(), *arrays)
    (call,) = program.convolutions
    executable = Executable(program)
    executable(*arrays)
    dnn.fail("cudnnConvolutionForward", 5000)
    try:
        executable(*arrays)
        raise AssertionError("it did not fail")
    except InternalError as error:
        assert "by cuDNN 9.28.1 on cuda:0, ended with CUDNN_STATUS_EXECUTION_FAILED (5000)" in error.reason
        assert (error.op, error.location) == ("hlo.convolution", call.location) and call.location
    executable(*arrays)


def three(x: jax.Array, w: jax.Array, dy: jax.Array) -> tuple[jax.Array, ...]:
    """A convolution, and both gradients."""
    result, back = jax.vjp(conv(strides=(2, 2)), x, w)
    return result, *back(dy)


def test_whatever_fails_is_an_error_of_ours_and_leaks_nothing(dnn) -> None:
    """Every call of every function of the library fails once; the next time all is well."""
    arrays = arrays_of((4, 16, 32, 32), W, (4, 32, 16, 16))
    program = program_of(three, *arrays)
    assert sorted(call.computes for call in program.convolutions) == [FILTER, IMAGES, RESULT]
    names = [name for name in cudnn.FUNCTIONS if name not in ("cudnnGetVersion", "cudnnGetErrorString")]

    def whole_day() -> list[np.ndarray]:
        return [np.asarray(each) for each in Executable(program)(*arrays)]

    first = whole_day()
    before = {name: dnn.calls(name) for name in names}
    whole_day()
    counts = {name: dnn.calls(name) - count for name, count in before.items()}
    assert all(counts.values())
    failed = 0
    for name, count in counts.items():
        for nth in range(1, count + 1):
            for status in (4003, 77):
                dnn.fail(name, status, nth)
                try:
                    whole_day()
                except (InternalError, ResourceError) as error:
                    failed += 1
                    assert "ALLOCATION_FAILED (4003)" in str(error) or "CUDNN_UNKNOWN_STATUS (77)" in str(error)
                dnn.itself.fake_forgive()
                kinds = ("handles", "tensors", "filters", "convolutions")
                assert not any(dnn.live().get(kind) for kind in kinds), (name, nth, status)
    assert all(np.array_equal(a, b) for a, b in zip(whole_day()[::2], first[::2], strict=True))
    assert failed > 60


WITHOUT_COMPILER = """
path, arrays = sys.argv[1], list(np.load(sys.argv[2]).values())
executable = shlo.load_executable(path)
print("cuDNN 9.28.1" in executable.report())
print(np.asarray(executable(*arrays)[0]).sum())
assert not compiling(), compiling()
"""


def test_programs_run_without_a_compiler(dnn, tmp_path) -> None:
    arrays, path, inputs = arrays_of(X, W), tmp_path / "model.shloexe", tmp_path / "inputs.npz"
    program = program_of(conv(), *arrays)
    artifact.save(program, path)
    assert artifact.load(path).convolutions == program.convolutions
    np.savez(inputs, *arrays)
    environment = {"SHLO_CUDA_LIBRARY": dnn.path, CudnnLibrary.variable: dnn.path}
    found, total = alone(WITHOUT_COMPILER, path, inputs, **environment).splitlines()
    assert found == "True" and np.isclose(float(total), wanted(conv(), arrays).sum(), rtol=1e-3)


def test_calls_that_were_changed_are_refused(dnn) -> None:
    program = program_of(conv(), *arrays_of(X, W))
    (call,) = program.convolutions
    for changed in (
        {"library": "mkl"},
        {"computes": "bias"},
        {"dtype": np.dtype("int8")},
        {"groups": 0},
        {"own_bytes": -1},
        {"strides": (0, 1)},
        {"padding": (1,)},
        {"filter": (32, 15, 3, 3)},
        {"filter": (32, 16, 3)},
        {"filter_place": replace(call.filter_place, pointer=-2)},
        {"images": replace(call.images, sizes=(3, 16, 16, 16))},
        {"result": replace(call.result, strides=(1, 1))},
    ):
        content = artifact.serialize(replace(program, convolutions=(replace(call, **changed),)))
        with pytest.raises(LoadError, match="is not a whole executable artifact"):
            artifact.deserialize(content)


def test_a_description_of_an_algorithm_is_the_librarys() -> None:
    """cudnnConvolutionFwdAlgoPerf_t of cudnn_cnn.h."""
    assert ctypes.sizeof(cudnn.Performance) == 48
    assert cudnn.Performance.memory.offset == 16 and cudnn.Performance.math.offset == 28


# --- our kernels beside the library, on a device ---------------------------------------------------------------------


@contextmanager
def only_fusion(text: str) -> Iterator[Fusion]:
    module = run_stages(shlo.load(text), "", "scheduled", target="cuda")
    with module.context, ir.Location.unknown():
        (function,) = fusions(module)
        yield Fusion.read(function)


class Memory:
    """The pointers of a fusion's kernels on a device: inputs, outputs, and the workspace."""

    def __init__(self, device: OpenClDevice, arrays: Sequence[np.ndarray]) -> None:
        self.device, self.arrays = device, arrays
        self.held = [device.memory.allocate(array.nbytes) for array in arrays]
        for array, block in zip(arrays, self.held, strict=True):
            device.memory.write(array, block)

    def run(self, kernel: GpuKernel) -> None:
        """Start it, and read what it has left."""
        text = "\n".join([*kernel.externals.values(), *kernel.tables.values(), *kernel.functions.values()])
        built = self.device.build(machine_code(llvm_ir(text, OPENCL.architecture), OPENCL))
        for launch in kernel.launches:
            handle = built.kernel(launch.symbol)
            for number, block in enumerate(self.held):
                self.device.queue.library.call("clSetKernelArgSVMPointer", handle, number, block.address)
            sizes, local = (np.array([each], np.uintp) for each in (launch.blocks * launch.threads, launch.threads))
            operands = (handle, 1, None, sizes.ctypes.data, local.ctypes.data, 0, None, None)
            self.device.queue.call("clEnqueueNDRangeKernel", *operands)
        for array, block in zip(self.arrays, self.held, strict=True):
            self.device.memory.read(block, array)

    def write(self) -> None:
        """What the arrays hold."""
        for array, block in zip(self.arrays, self.held, strict=True):
            self.device.memory.write(array, block)


def computed(call: LibraryConvolution, arrays: Sequence[np.ndarray]) -> None:
    """What a library does: by JAX, of the tensors that a call describes."""

    def lying(tensor: StoredTensor) -> np.ndarray:
        number, offset = tensor.place.pointer, tensor.place.offset // call.dtype.itemsize
        base = arrays[number].reshape(-1).view(call.dtype)[offset:]
        strides = [stride * call.dtype.itemsize for stride in tensor.strides]
        return np.lib.stride_tricks.as_strided(base, tensor.sizes, strides)

    sizes = call.filter
    order = (0, *range(2, len(sizes)), 1) if call.channels_last else tuple(range(len(sizes)))
    strides = np.zeros(len(sizes), int)
    strides[list(order)] = np.cumprod([1, *(sizes[each] for each in order[:0:-1])])[::-1]
    filter_ = StoredTensor(sizes, tuple(map(int, strides)), call.filter_place)
    images, weights, result = (lying(each) for each in (call.images, filter_, call.result))
    space = "HW" if len(call.strides) == 2 else "DHW"
    names, padding = (f"NC{space}", f"OI{space}", f"NC{space}"), [(each, each) for each in call.padding]
    function = conv(names, call.strides, padding, dilation=call.dilation, groups=call.groups)
    forward, back = jax.vjp(function, jnp.asarray(images), jnp.asarray(weights))
    assert forward.shape == result.shape
    of_images, of_filter = back(jnp.asarray(result)) if call.computes != RESULT else (None, None)
    target, value = {RESULT: (result, forward), IMAGES: (images, of_images), FILTER: (weights, of_filter)}[
        call.computes
    ]
    target[...] = np.asarray(value)


def descended(order: tuple[str, str, str]) -> Function:
    """A step down the gradient of a filter."""

    def function(x: Any, dy: Any, w: Any) -> Any:
        return w - 0.5 * jax.vjp(lambda w: conv(order, (2, 2))(x, w), w)[1](dy)[0]

    return function


def seen(x: Any, w: Any) -> Any:
    result = conv(FLAX)(x, w)
    return result, jax.nn.relu(result)


X2 = (4, 32, 32, 16)
BESIDE: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "another order": (conv(FLAX), [X_LAST, (3, 3, 16, 32)]),
    "a line in another order": (conv(("NHC", "HIO", "NHC"), (1,), ((4, 4),)), [(4, 256, 32), (9, 32, 32)]),
    "groups": (conv(FLAX, groups=4), [(4, 16, 16, 64), (3, 3, 16, 64)]),
    "a gradient of images": (
        conv(("NHWC", "HWOI", "NHWC"), padding=((1, 2), (1, 2)), holes=(2, 2)),
        [(4, 16, 16, 32), (3, 3, 16, 32)],
    ),
    "a gradient of images in groups": (
        conv(("NCHW", "IOHW", "NCHW"), padding=((1, 2), (1, 2)), holes=(2, 2), groups=4),
        [(4, 64, 16, 16), (16, 64, 3, 3)],
    ),
    "a gradient of images in groups, features last": (
        conv(("NHWC", "HWOI", "NHWC"), padding=((1, 2), (1, 2)), holes=(2, 2), groups=4),
        [(4, 16, 16, 64), (3, 3, 32, 16)],
    ),
    "a gradient of a filter": (
        lambda x, dy: jax.vjp(conv(FLAX, (2, 2)), x, jnp.zeros((3, 3, 16, 32), x.dtype))[1](dy)[1],
        [X2, (4, 16, 16, 32)],
    ),
    "more padding at one end": (conv(FIRST, (2, 2), ((0, 1), (0, 1))), [(4, 16, 32, 32), W]),
    "more padding at one end, another order": (conv(FLAX, (2, 1), ((1, 3), (1, 1))), [X2, (3, 3, 16, 32)]),
    "a line with more padding at one end": (
        conv(("NCH", "OIH", "NCH"), (2,), ((3, 4),)),
        [(4, 32, 512), (32, 32, 9)],
    ),
    "a gradient of images with more padding at one end": (
        conv(("NHWC", "HWOI", "NHWC"), padding=((2, 1), (1, 1)), holes=(2, 1)),
        [(4, 16, 16, 32), (3, 3, 16, 32)],
    ),
    "a gradient of a filter with more padding at one end": (
        lambda x, dy: jax.vjp(conv(FIRST, (2, 2), ((0, 1), (0, 1))), x, jnp.zeros(W, x.dtype))[1](dy)[1],
        [(4, 16, 32, 32), (4, 32, 16, 16)],
    ),
    "a step": (descended(FLAX), [X2, (4, 16, 16, 32), (3, 3, 16, 32)]),
    "relu of a bias": (lambda x, w, b: jax.nn.relu(conv(LAST)(x, w) + b), [X_LAST, W_LAST, (32,)]),
    "a residual": (lambda x, w, r: jnp.tanh(conv()(x, w) + r), [X, W, (4, 32, 16, 16)]),
    "two results": (seen, [X_LAST, (3, 3, 16, 32)]),
    "another type": (lambda x, w: (conv(FLAX)(x, w) * 3).astype(jnp.float64), [X_LAST, (3, 3, 16, 32)]),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("name", BESIDE)
def test_kernels_beside_the_library(real_device, name, dtype) -> None:
    function, shapes = BESIDE[name]
    arrays = arrays_of(*shapes, dtype=dtype)
    with only_fusion(jax.jit(function).lower(*arrays).as_text()) as fusion:
        call = library_convolution(fusion, OPENCL)
        assert call is not None
        before, behind = operand_kernel(fusion, OPENCL, call), epilogue_kernel(fusion, OPENCL, call)
        assert before or behind
        assert (call.images.place.pointer == IN_WORKSPACE) == ("more padding" in name)
    exact = [np.asarray(each) for each in jax.tree.leaves(jax.jit(function)(*arrays))]
    outputs = [np.full(each.shape, np.nan, each.dtype) for each in exact]
    workspace = np.full(call.workspace_bytes, 0xEE, np.uint8)
    memory = Memory(OpenClDevice(), [*arrays, *outputs, workspace])
    if before:
        memory.run(before)
    computed(call, memory.arrays)
    workspace[call.own_bytes :] = 0xDD
    memory.write()
    if behind:
        memory.run(behind)
    tolerance = 1e-5 if dtype == F32 else 2e-2
    for found, each in zip(outputs, exact, strict=True):
        np.testing.assert_allclose(found.astype(F64), each.astype(F64), rtol=tolerance, atol=tolerance * 10)
