"""Devices of the fake driver of HIP: what they say of themselves, what is refused, and code objects loaded for them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from stablehlo_py.backends.gpu.code_object import code_object
from stablehlo_py.backends.gpu.hip import device as module
from stablehlo_py.backends.gpu.hip.device import HipDevice
from stablehlo_py.backends.gpu.hip.library import VARIABLE, candidates, library
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.target import NAMED
from stablehlo_py.errors import ArgumentError, InternalError, LoadError, ResourceError, UnsupportedError

HEADERS = Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "include"
IR = """
define amdgpu_kernel void @first(ptr addrspace(1) %to) {
  store i32 1, ptr addrspace(1) %to
  ret void
}
define amdgpu_kernel void @second(ptr addrspace(1) %to) {
  store i32 2, ptr addrspace(1) %to
  ret void
}
"""


@cache
def made(gpu: str = "gfx942") -> bytes:
    """What LLVM makes of two kernels."""
    return machine_code(IR, NAMED[gpu])


def test_what_a_device_says(hip) -> None:
    (found,) = HipDevice.descriptions(hip.library)
    assert (found.name, found.bus, found.architecture) == ("Fake 0", "0000:01:00.0", "gfx942:sramecc+:xnack-")
    assert (found.processor, found.version) == ("gfx942", 60342134)
    assert (found.multiprocessors, found.threads, found.warp) == (304, 1024, 64)
    assert (found.shared_bytes, found.global_bytes, found.has_pools) == (65536, 1 << 28, True)
    found.require()


def test_a_device_without_code_is_refused_by_name(hip) -> None:
    hip.set(processor=3)
    with pytest.raises(
        UnsupportedError, match=r"on Fake 0 \(HIP 6\.3\), which is gfx906: there is code for gfx90a, gfx942, gfx1100\n"
    ):
        hip.device()


def test_numbers_of_devices(hip) -> None:
    hip.set(devices=2)
    assert hip.device(1).memory.device == "rocm:1"
    with pytest.raises(ArgumentError, match=r"no device rocm:2: .* finds rocm:0 Fake 0, rocm:1 Fake 1\n"):
        hip.device(2)


def test_no_driver(tmp_path: Path, no_hip_library) -> None:
    no_hip_library.setenv(VARIABLE, str(tmp_path / "libamdhip64.so"))
    with pytest.raises(ResourceError, match=r"there is no HIP here: .*cannot open(.|\n)*install AMD's driver"):
        library()
    no_hip_library.setenv(VARIABLE, "libc.so.6")
    with pytest.raises(ResourceError, match=r"undefined symbol: hip\w+: no library of HIP 6\.0"):
        library()
    no_hip_library.delenv(VARIABLE)
    no_hip_library.setenv("ROCM_PATH", "/nowhere")
    assert candidates() == ["libamdhip64.so.7", "libamdhip64.so.6", "/nowhere/lib/libamdhip64.so"]


@pytest.mark.parametrize("status", [100, 101, 35])
def test_a_driver_without_a_device(hip, no_hip_library, status) -> None:
    no_hip_library.setenv(VARIABLE, hip.path)
    hip.fail("hipInit", status)
    with pytest.raises(ResourceError, match=rf"there is no HIP here: hipInit ended with hipError\w+ \({status}\): "):
        library()
    assert library().path == hip.path


@pytest.mark.parametrize(
    ("status", "kind", "remedy"),
    [
        (2, ResourceError, "free memory"),
        (35, ResourceError, "update"),
        (100, ResourceError, "HIP_VISIBLE_DEVICES"),
        (214, ResourceError, "hardware"),
        (702, ResourceError, "smaller batch"),
        (700, InternalError, "AMD_SERIALIZE_KERNEL"),
        (719, InternalError, "AMD_SERIALIZE_KERNEL"),
        (999, ResourceError, "start the process anew"),
        (1053, ResourceError, "start the process anew"),
        (1, InternalError, "report it"),
    ],
)
def test_errors_say_what_ended_and_what_to_do(hip, status, kind, remedy) -> None:
    error = hip.library.failure(status, "a call on rocm:0")
    assert type(error) is kind and "a call on rocm:0 ended with hipError" in error.reason
    assert f"({status}): " in error.reason and remedy in (error.remedy or "")


@pytest.mark.parametrize("function", ["hipStreamCreateWithFlags", "hipMemPoolCreate", "hipMemPoolSetAttribute"])
def test_a_device_that_cannot_be_had(hip, function) -> None:
    hip.fail(function, 2)
    with pytest.raises(ResourceError, match=rf"{function}.* ended with hipErrorOutOfMemory \(2\)"):
        hip.device()
    assert hip.live() == {}
    hip.device()


def test_modules_and_kernels(hip) -> None:
    built = hip.device().build(code_object(made()))
    assert built.kernel("first") and built.kernel("first") != built.kernel("second")
    with pytest.raises(LoadError, match="the program has no kernel 'third'"):
        built.kernel("third")
    assert hip.live() == {"streams": 1, "modules": 1}


def test_a_module_that_is_refused(hip) -> None:
    """No code at all; code that is not linked; code for another GPU."""
    device = hip.device()
    text = r"no code that the driver takes for Fake 0 \(gfx942:sramecc\+:xnack-\): hipError"
    for image in (bytes(100), made()):
        with pytest.raises(LoadError, match=f"{text}InvalidImage"):
            device.build(image)
    with pytest.raises(LoadError, match=f"{text}NoBinaryForGpu"):
        device.build(code_object(made("gfx1100")))
    hip.fail("hipModuleLoadData", 2)
    with pytest.raises(ResourceError, match="hipErrorOutOfMemory"):
        device.build(code_object(made()))
    assert "modules" not in hip.live()
    assert device.build(code_object(made())).kernel("first")


def test_the_device_of_the_process(hip_device) -> None:
    opened = module.DEVICES.get()
    assert module.DEVICES.get(0) is opened
    hip_device.fail("hipStreamSynchronize", 719)
    with pytest.raises(InternalError, match=r"hipStreamSynchronize on rocm:0 ended with hipErrorLaunchFailure"):
        opened.queue.finish()
    calls = hip_device.calls("hipStreamSynchronize")
    with pytest.raises(InternalError, match="hipErrorLaunchFailure"):
        opened.queue.finish()
    assert opened.queue.is_lost and hip_device.calls("hipStreamSynchronize") == calls  # without the driver
    assert module.DEVICES.get() is not opened and module.DEVICES.get() is module.DEVICES.get()
    module.DEVICES.get().queue.finish()


def test_a_fault_that_stays(hip_device) -> None:
    hip_device.set(sticky=1)
    opened = module.DEVICES.get()
    hip_device.fail("hipStreamSynchronize", 999)
    for work in (opened.queue.finish, module.DEVICES.get, module.DEVICES.get):
        with pytest.raises(ResourceError, match=r"hipErrorUnknown(.|\n)*start the process anew"):
            work()
    del opened, work


def test_the_device_of_the_thread_stays(hip) -> None:
    """The driver counts what is done on another device, and a thread that is left with one (`misuses`)."""
    hip.set(devices=2)
    first, second = hip.device(0), hip.device(1)
    with second.queue:
        first.queue.finish()
        second.queue.finish()
    place = ctypes.c_int32(-1)
    hip.library.call("hipGetDevice", ctypes.byref(place))
    assert place.value == 0 and hip.calls("hipSetDevice") > 0
    block = second.memory.allocate(100)
    assert second.memory.holds(block.address) and not first.memory.holds(block.address)
    changes = hip.calls("hipSetDevice")
    first.queue.finish()
    assert hip.calls("hipSetDevice") == changes  # it is the thread's already


@pytest.mark.skipif(not (HEADERS / "hip").exists(), reason="there is no hip/hip_runtime_api.h")
def test_functions_are_those_of_hip() -> None:
    """The fake driver's functions, and the numbers and layouts that are used, are compared by the compiler."""
    source, gcc = Path(__file__).parent / "fake_driver.c", shutil.which("gcc") or "cc"
    header = ["-D__HIP_PLATFORM_AMD__", f"-I{HEADERS}", "-include", "hip/hip_runtime_api.h"]
    subprocess.run([gcc, "-Wall", "-Werror", "-fsyntax-only", *header, source], check=True)
