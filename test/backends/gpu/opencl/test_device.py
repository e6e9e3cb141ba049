"""Devices of the fake driver: what they say of themselves, what is refused, and programs built for them."""

from __future__ import annotations

import threading

import pytest

from stablehlo_py.backends.gpu.driver.device import Opened
from stablehlo_py.backends.gpu.opencl import device as module
from stablehlo_py.backends.gpu.opencl.description import Svm
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.opencl.library import VARIABLE
from stablehlo_py.errors import ArgumentError, InternalError, LoadError, ResourceError, UnsupportedError


def test_what_a_device_says(driver) -> None:
    (found,) = OpenClDevice.descriptions(driver.library)
    assert (found.name, found.vendor, found.driver_version, found.kind) == ("Fake 0", "Nobody", "1.2.3", "gpu")
    assert (found.version, found.spirv_versions) == ((3, 0), ("1.0", "1.2"))
    assert (found.compute_units, found.work_group_size, found.alignment) == (3, 256, 128)
    assert (found.local_bytes, found.global_bytes, found.largest_allocation) == (32 << 10, 1 << 30, 1 << 28)
    assert found.sub_group_sizes == () and found.svm == Svm.COARSE_GRAIN_BUFFER
    assert found.extensions == {"cl_khr_fp16", "cl_khr_icd"} and found.has_f16 and not found.has_f64
    found.require()


def test_gpus_come_first(driver) -> None:
    driver.set(devices=2, kind=2, kind1=4)
    assert [(each.name, each.kind) for each in OpenClDevice.descriptions(driver.library)] == [
        ("Fake 1", "gpu"),
        ("Fake 0", "cpu"),
    ]
    assert driver.device(1).memory.device == "opencl:1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spirv": 0}, r"on Fake 0 \(driver 1\.2\.3\), which lacks programs in SPIR-V \(clCreateProgramWithIL\)\n"),
        ({"svm": 0}, r"lacks shared virtual memory \(coarse-grained buffers\)\n"),
        ({"parameters": 256}, r"lacks kernels with 1024 bytes of parameters: it has 256\n"),
        ({"version": 12}, r"lacks OpenCL 2\.1: it has 1\.2; programs in SPIR-V .*; shared virtual memory"),
    ],
)
def test_a_device_that_lacks_something_is_refused_by_name(driver, settings, message) -> None:
    driver.set(**settings)
    with pytest.raises(UnsupportedError, match=message):
        driver.device()


def test_numbers_of_devices(driver) -> None:
    driver.set(devices=2)
    for number in (2, -1):
        with pytest.raises(
            ArgumentError, match=rf"no device opencl:{number}: .* finds opencl:0 Fake 0, opencl:1 Fake 1\n"
        ):
            driver.device(number)
    driver.set(devices=0)
    with pytest.raises(ResourceError, match="finds none"):
        driver.device()


def test_programs_and_kernels(driver) -> None:
    built = driver.device().build(b"first second")
    assert built.kernel("first") == built.kernel("first") != built.kernel("second")
    with pytest.raises(LoadError, match="the program has no kernel 'third'"):
        built.kernel("third")
    assert driver.live() == {"contexts": 1, "queues": 1, "programs": 1, "kernels": 2}  # as long as the program


def test_threads_ask_for_a_kernel_at_once(driver) -> None:
    built = driver.device().build(b"first")
    found = []
    threads = [threading.Thread(target=lambda: found.append(built.kernel("first"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and driver.live()["kernels"] == 1


def test_a_failed_build_says_what_the_driver_says(driver) -> None:
    made = driver.device()
    try:
        made.build(b"broken")
    except LoadError as error:
        short, whole = str(error), error.reason
    assert whole.startswith("Fake 0 does not build the program: kernel 'broken': undefined symbol xxx")
    assert len(short) < 1500 and len(whole) > 4000
    assert "programs" not in driver.live()
    assert made.build(b"whole").kernel("whole")


def test_what_is_no_program_is_refused(driver) -> None:
    with pytest.raises(LoadError, match="no SPIR-V that Fake 0 takes"):
        driver.device().build(b"\0")


@pytest.mark.parametrize(
    ("function", "status", "kind"),
    [
        ("clCreateContext", -6, ResourceError),
        ("clCreateContext", -2, ResourceError),
        ("clCreateCommandQueueWithProperties", -5, ResourceError),
        ("clCreateCommandQueueWithProperties", -30, InternalError),
        ("clGetDeviceInfo", -5, ResourceError),
    ],
)
def test_a_device_that_cannot_be_had(driver, function, status, kind) -> None:
    driver.fail(function, status)
    with pytest.raises(kind, match=rf"{function} ended with CL_\w+ \({status}\)"):
        driver.device()
    assert driver.live() == {}
    driver.device()


def test_the_device_of_the_process(driver, no_library, monkeypatch) -> None:
    monkeypatch.setattr(module, "DEVICES", Opened(OpenClDevice))
    no_library.setenv(VARIABLE, driver.path)
    made = module.DEVICES.get()
    assert module.DEVICES.get(0) is made
    driver.set(lost=1)
    with pytest.raises(ResourceError, match=r"clFinish on opencl:0 ended with CL_DEVICE_NOT_AVAILABLE"):
        made.queue.finish()
    assert made.queue.is_lost
    with pytest.raises(ResourceError, match="clCreateContext ended with CL_DEVICE_NOT_AVAILABLE"):
        module.DEVICES.get()
    driver.set(lost=0)
    assert module.DEVICES.get() is not made and module.DEVICES.get() is module.DEVICES.get()
    module.DEVICES.clear()
