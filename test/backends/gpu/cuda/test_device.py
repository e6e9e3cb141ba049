"""Devices of the fake driver of CUDA: what they say of themselves, what is refused, and modules loaded for them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stablehlo_py.backends.gpu.cuda import device as module
from stablehlo_py.backends.gpu.cuda.device import CudaDevice
from stablehlo_py.backends.gpu.cuda.library import VARIABLE, CudaLibrary, library
from stablehlo_py.backends.gpu.driver.device import Opened
from stablehlo_py.errors import ArgumentError, InternalError, LoadError, ResourceError, UnsupportedError

HEADERS = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include", Path("/usr/include")]


def test_what_a_device_says(cuda) -> None:
    (found,) = CudaDevice.descriptions(cuda.library)
    assert (found.name, found.bus, found.capability, found.architecture) == ("Fake 0", "0000:01:00.0", (9, 0), "sm_90")
    assert (found.driver_version, found.multiprocessors, found.threads, found.warp) == (12040, 132, 1024, 32)
    assert (found.shared_bytes, found.shared_opt_in_bytes, found.global_bytes) == (49152, 232448, 1 << 28)
    assert found.has_pools and found.is_unified
    found.require()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"major": 7, "minor": 5},
            r"\(driver for CUDA 12\.4\), which lacks compute capability 8\.0: .*sm_75\n",
        ),
        ({"unified": 0}, r"lacks unified addressing\n"),
    ],
)
def test_a_device_that_lacks_something_is_refused_by_name(cuda, settings, message) -> None:
    cuda.set(**settings)
    with pytest.raises(UnsupportedError, match=message):
        cuda.device()


def test_numbers_of_devices(cuda) -> None:
    cuda.set(devices=2)
    assert cuda.device(1).memory.device == "cuda:1"
    for number in (2, -1):
        with pytest.raises(ArgumentError, match=rf"no device cuda:{number}: .* finds cuda:0 Fake 0, cuda:1 Fake 1\n"):
            cuda.device(number)


def test_no_driver(tmp_path: Path, no_cuda_library) -> None:
    no_cuda_library.setenv(VARIABLE, str(tmp_path / "libcuda.so.1"))
    with pytest.raises(ResourceError, match=r"there is no CUDA here: .*cannot open(.|\n)*install NVIDIA's driver"):
        library()
    no_cuda_library.setenv(VARIABLE, "libc.so.6")
    with pytest.raises(ResourceError, match=r"undefined symbol: cu\w+: no library of CUDA 12\.0"):
        library()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (100, r"cuInit ended with CUDA_ERROR_NO_DEVICE \(100\): no CUDA-capable device is detected"),
        (34, r"CUDA_ERROR_STUB_LIBRARY"),
        (803, r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    ],
)
def test_a_driver_without_a_device(cuda, no_cuda_library, status, message) -> None:
    no_cuda_library.setenv(VARIABLE, cuda.path)
    cuda.fail("cuInit", status)
    with pytest.raises(ResourceError, match=message):
        library()
    assert library().path == cuda.path


def test_a_driver_that_is_too_old(cuda, no_cuda_library) -> None:
    no_cuda_library.setenv(VARIABLE, cuda.path)
    cuda.set(version=11080)
    with pytest.raises(ResourceError, match=r"is a driver for CUDA 11\.8, and 12\.0 is needed"):
        library()


@pytest.mark.parametrize(
    ("status", "kind", "remedy"),
    [
        (2, ResourceError, "free memory"),
        (34, ResourceError, "stub"),
        (100, ResourceError, "CUDA_VISIBLE_DEVICES"),
        (214, ResourceError, "hardware"),
        (702, ResourceError, "display"),
        (700, InternalError, "CUDA_LAUNCH_BLOCKING"),
        (999, ResourceError, "start the process anew"),
        (1, InternalError, "report it"),
    ],
)
def test_errors_say_what_ended_and_what_to_do(cuda, status, kind, remedy) -> None:
    error = cuda.library.failure(status, "a call on cuda:0")
    assert type(error) is kind and "a call on cuda:0 ended with CUDA_ERROR_" in error.reason
    assert f"({status}): " in error.reason and remedy in (error.remedy or "")
    assert cuda.library.failure(-9, "x").reason == "x ended with an unknown status (-9)"


@pytest.mark.parametrize(
    "function", ["cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemPoolCreate", "cuMemPoolSetAttribute"]
)
def test_a_device_that_cannot_be_had(cuda, function) -> None:
    cuda.fail(function, 2)
    with pytest.raises(ResourceError, match=rf"{function}.* ended with CUDA_ERROR_OUT_OF_MEMORY \(2\)"):
        cuda.device()
    assert cuda.live() == {}
    cuda.device()


def test_another_process_has_the_device(cuda) -> None:
    cuda.set(unavailable=1)
    with pytest.raises(ResourceError, match=r"CUDA_ERROR_DEVICE_UNAVAILABLE(.|\n)*another process"):
        cuda.device()


def test_modules_and_kernels(cuda) -> None:
    built = cuda.device().build(b"first second")
    assert built.kernel("first") and built.kernel("first") != built.kernel("second")
    assert cuda.calls("cuFuncSetAttribute") == 3  # dynamic shared memory
    with pytest.raises(LoadError, match="the program has no kernel 'third'"):
        built.kernel("third")
    assert cuda.live() == {"contexts": 1, "streams": 1, "modules": 1}


def test_a_module_that_is_refused(cuda) -> None:
    made = cuda.device()
    with pytest.raises(LoadError, match=r"does not compile the program for Fake 0 \(sm_90\): .*symbol 'nowhere'\n"):
        made.build(b"broken")
    with pytest.raises(LoadError, match=r"no code that the driver takes .*CUDA_ERROR_INVALID_IMAGE"):
        made.build(b"\0")
    cuda.fail("cuModuleLoadDataEx", 209)
    with pytest.raises(LoadError, match=r"the program has no machine code for Fake 0 \(sm_90\)"):
        made.build(b"whole")
    cuda.fail("cuModuleLoadDataEx", 222)
    with pytest.raises(LoadError, match=r"the driver, for CUDA 12\.4, is too old for the PTX"):
        made.build(b"whole")
    cuda.fail("cuModuleLoadDataEx", 2)
    with pytest.raises(ResourceError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        made.build(b"whole")
    assert "modules" not in cuda.live()
    assert made.build(b"whole").kernel("whole")


def test_the_device_of_the_process(cuda, no_cuda_library, monkeypatch) -> None:
    monkeypatch.setattr(module, "DEVICES", Opened(CudaDevice))
    no_cuda_library.setenv(VARIABLE, cuda.path)
    made = module.DEVICES.get()
    assert module.DEVICES.get(0) is made
    cuda.fail("cuStreamSynchronize", 719)
    with pytest.raises(InternalError, match=r"cuStreamSynchronize on cuda:0 ended with CUDA_ERROR_LAUNCH_FAILED"):
        made.queue.finish()
    calls = cuda.calls("cuStreamSynchronize")
    with pytest.raises(InternalError, match="CUDA_ERROR_LAUNCH_FAILED"):
        made.queue.finish()
    assert made.queue.is_lost and cuda.calls("cuStreamSynchronize") == calls  # without the driver
    assert module.DEVICES.get() is not made and module.DEVICES.get() is module.DEVICES.get()
    module.DEVICES.get().queue.finish()
    module.DEVICES.clear()


def test_a_fault_stays_while_others_hold_the_context(cuda, no_cuda_library, monkeypatch) -> None:
    monkeypatch.setattr(module, "DEVICES", Opened(CudaDevice))
    no_cuda_library.setenv(VARIABLE, cuda.path)
    cuda.set(held=1)
    made = module.DEVICES.get()
    cuda.fail("cuStreamSynchronize", 999)
    with pytest.raises(ResourceError, match=r"CUDA_ERROR_UNKNOWN(.|\n)*start the process anew"):
        made.queue.finish()
    for _ in range(2):
        with pytest.raises(ResourceError, match=r"CUDA_ERROR_UNKNOWN(.|\n)*start the process anew"):
            module.DEVICES.get()
    cuda.set(held=0)
    del made
    module.DEVICES.clear()
    cuda.itself.fake_reset()


def test_the_context_of_the_thread_stays(cuda) -> None:
    """The driver counts what is called without a context, and contexts that are left behind (`misuses`)."""
    made = cuda.device()
    made.queue.finish()
    with made.queue:
        made.queue.finish()
    pushed = cuda.calls("cuCtxPushCurrent")
    assert pushed == cuda.calls("cuCtxPopCurrent") > 0


@pytest.mark.skipif(not any((path / "cuda.h").exists() for path in HEADERS), reason="there is no cuda.h")
def test_functions_are_those_of_cuda_h(cuda) -> None:
    """The fake driver's functions are compared by the compiler, and it has all that are called."""
    folder = next(path for path in HEADERS if (path / "cuda.h").exists())
    source = Path(__file__).parent / "fake_driver.c"
    gcc = shutil.which("gcc") or "cc"
    subprocess.run([gcc, "-Wall", "-Werror", "-fsyntax-only", f"-I{folder}", "-include", "cuda.h", source], check=True)
    assert isinstance(cuda.library, CudaLibrary)
