"""Where the library is found, and what is said when it is not."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stablehlo_py.backends.gpu.opencl.library import FUNCTIONS, STATUS_NAMES, VARIABLE, OpenClLibrary, library
from stablehlo_py.errors import InternalError, ResourceError


def test_statuses_have_the_names_of_cl_h() -> None:
    known = {
        -1: "CL_DEVICE_NOT_FOUND",
        -5: "CL_OUT_OF_RESOURCES",
        -11: "CL_BUILD_PROGRAM_FAILURE",
        -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        -19: "CL_KERNEL_ARG_INFO_NOT_AVAILABLE",
        -30: "CL_INVALID_VALUE",
        -46: "CL_INVALID_KERNEL_NAME",
        -52: "CL_INVALID_KERNEL_ARGS",
        -63: "CL_INVALID_GLOBAL_WORK_SIZE",
        -71: "CL_INVALID_SPEC_ID",
        -72: "CL_MAX_SIZE_RESTRICTION_EXCEEDED",
    }
    assert {number: STATUS_NAMES[number] for number in known} == known


def test_errors_say_what_ended_and_what_to_do(driver) -> None:
    memory = driver.library.failure(-4, "clEnqueueSVMMemcpy on opencl:0")
    assert isinstance(memory, ResourceError) and memory.remedy == "free memory, or run a smaller batch"
    assert memory.reason == "clEnqueueSVMMemcpy on opencl:0 ended with CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"
    assert isinstance(driver.library.failure(-2, "clFinish"), ResourceError)
    assert isinstance(driver.library.failure(-52, "clEnqueueNDRangeKernel"), InternalError)
    assert driver.library.failure(-9999, "clFinish").reason == "clFinish ended with an unknown status (-9999)"


def test_a_path_with_nothing(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"lib\.so: cannot open(.|\n)*install an OpenCL driver"):
        OpenClLibrary(str(tmp_path / "lib.so"))


def test_files_that_are_no_library_of_opencl(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(ResourceError, match=r"text\.so"):
        OpenClLibrary(str(tmp_path / "text.so"))
    with pytest.raises(ResourceError, match=r"undefined symbol: cl\w+: no library of OpenCL 2\.1"):
        OpenClLibrary("libc.so.6")


def test_a_library_that_needs_another_one(tmp_path: Path, driver) -> None:
    """The linker names what is missing, and not what needs it."""
    subprocess.run(
        [shutil.which("gcc") or "cc", "-shared", "-o", tmp_path / "libgone.so", "-xc", "/dev/null"], check=True
    )
    command = [
        "-shared",
        "-Wl,--no-as-needed",
        "-o",
        tmp_path / "lib.so",
        "-xc",
        "/dev/null",
        f"-L{tmp_path}",
        "-lgone",
    ]
    subprocess.run([shutil.which("gcc") or "cc", *command], check=True)
    with pytest.raises(ResourceError, match=r"/lib\.so: libgone\.so: cannot open"):
        OpenClLibrary(str(tmp_path / "lib.so"))


def test_the_environment_names_the_library(driver, no_library) -> None:
    no_library.setenv(VARIABLE, driver.path)
    assert library().path == driver.path
    assert library() is library()


def test_a_library_that_the_environment_names_is_the_only_one(tmp_path: Path, no_library) -> None:
    no_library.setenv(VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(ResourceError, match=r"there is no OpenCL here: [^;]*none\.so: cannot open[^;]*\n"):
        library()


def test_the_python_package_is_found_where_the_loader_is_missing(driver, no_library, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libintelocl.so").symlink_to(driver.path)
    no_library.setattr(sys, "prefix", str(tmp_path))
    no_library.setattr(ctypes, "CDLL", _without("libOpenCL.so.1"))
    assert library().path == str(tmp_path / "lib/libintelocl.so")
    no_library.setattr(sys, "prefix", str(tmp_path / "other"))
    library.cache_clear()
    with pytest.raises(ResourceError, match=r"libOpenCL\.so\.1: not here; .*libintelocl\.so: cannot open"):
        library()


def _without(name: str):
    whole = ctypes.CDLL

    def open_library(path: str) -> ctypes.CDLL:
        if path == name:
            raise OSError(f"{name}: not here")
        return whole(path)

    return open_library


def test_no_platform(driver, no_library) -> None:
    driver.set(platforms=0)
    no_library.setenv(VARIABLE, driver.path)
    with pytest.raises(ResourceError, match="finds no platform of OpenCL"):
        library()
    driver.set(platforms=1)
    assert library().platforms()


def test_a_driver_that_fails_is_told_from_one_without_platforms(driver, no_library) -> None:
    driver.fail("clGetPlatformIDs", -6)
    no_library.setenv(VARIABLE, driver.path)
    with pytest.raises(ResourceError, match="clGetPlatformIDs ended with CL_OUT_OF_HOST_MEMORY"):
        library()


def test_every_function_has_an_address(driver) -> None:
    addresses = {driver.library.address(name) for name in FUNCTIONS}
    assert 0 not in addresses and len(addresses) == len(FUNCTIONS)
    finish = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(driver.library.address("clFinish"))
    driver.fail("clFinish", -36)
    handle = driver.library.make("clCreateContext", None, 1, None, None, None)
    queue = driver.library.make("clCreateCommandQueueWithProperties", handle, None, None)
    assert (finish(queue), finish(queue)) == (-36, 0)
    driver.library.release("clReleaseCommandQueue", queue)
    driver.library.release("clReleaseContext", handle)


def in_a_child(work) -> str:
    """What a forked child says of the error that it gets."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = f"no error: {work()}"
        except ResourceError as error:
            said = error.reason
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


def test_a_forked_child_is_refused(driver, no_library) -> None:
    no_library.setenv(VARIABLE, driver.path)
    assert library().platforms()
    assert "forked from one that uses OpenCL" in in_a_child(lambda: library().platforms())
    assert library().platforms()
