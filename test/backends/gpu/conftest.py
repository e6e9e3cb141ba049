"""OpenCL, CUDA and HIP for tests: fake drivers that fail when they are told to; devices that are there are in
../../conftest.py."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from stablehlo_py.backends.gpu.cuda import device as cuda_device_module
from stablehlo_py.backends.gpu.cuda import library as cuda_library_module
from stablehlo_py.backends.gpu.cuda.device import CudaDevice
from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.driver.device import Opened
from stablehlo_py.backends.gpu.driver.library import Library
from stablehlo_py.backends.gpu.driver.stream_library import StreamLibrary
from stablehlo_py.backends.gpu.hip import device as hip_device_module
from stablehlo_py.backends.gpu.hip import library as hip_library_module
from stablehlo_py.backends.gpu.hip.device import HipDevice
from stablehlo_py.backends.gpu.hip.library import HipLibrary
from stablehlo_py.backends.gpu.opencl import device as device_module
from stablehlo_py.backends.gpu.opencl import library as library_module
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.opencl.library import OpenClLibrary

GCC = shutil.which("gcc") or shutil.which("cc")
KINDS = (
    "contexts",
    "queues",
    "streams",
    "programs",
    "modules",
    "kernels",
    "events",
    "pools",
    "blocks",
    "graphs",
    "execs",
    "hosts",
    *("handles", "products", "layouts", "preferences"),  # of cuBLASLt
    *("transforms", "solvers", "parameters"),  # of cuFFT and cuSOLVER
    *("tensors", "filters", "convolutions"),  # of cuDNN
)
L = TypeVar("L", bound=Library)
S = TypeVar("S", bound=StreamLibrary)
D = TypeVar("D")


class FakeDriver(Generic[L, D]):
    """A file fake_driver.c as a library. It is the same one for all tests of a process, and new for each."""

    def __init__(self, path: Path, library: type[L], device: Callable[[int, L], D]) -> None:
        self.path = str(path)
        self.library = library(self.path)
        self._device = device
        self.itself = ctypes.CDLL(self.path)
        self.itself.fake_setting.restype = ctypes.POINTER(ctypes.c_int64)
        for name in ("fake_live", "fake_misuses", "fake_calls"):
            getattr(self.itself, name).restype = ctypes.c_int64

    def device(self, number: int = 0) -> D:
        """A device of it, new for everyone who asks."""
        return self._device(number, self.library)

    def set(self, **settings: int) -> None:
        """Be another driver: see `settings` in the C file."""
        for name, value in settings.items():
            self.itself.fake_setting(name.encode())[0] = value

    def fail(self, function: str, status: int, nth: int = 1) -> None:
        """Let the nth call of a function from now on end with a status; "execute": the nth command."""
        self.itself.fake_fail(function.encode(), nth, status)

    def calls(self, function: str) -> int:
        """How often a function was called."""
        return self.itself.fake_calls(function.encode())

    def live(self) -> dict[str, int]:
        """What lives, by kind."""
        counts = {kind: self.itself.fake_live(kind.encode()) for kind in KINDS}
        return {kind: count for kind, count in counts.items() if count > 0}

    def misuses(self) -> int:
        """How often something was used after its end."""
        return self.itself.fake_misuses()


class FakeStreams(FakeDriver[S, D]):
    """That of CUDA, or of HIP."""

    def own(self, function: str) -> str:
        """What it calls a function that both have."""
        return self.library.own(function).removesuffix("_v2")

    def describe(self, kernel: str, read: Sequence[int], written: Sequence[int]) -> None:
        """Let a kernel write a hash of what it reads, as many bytes from each operand on as these say; the last operand
        is its scratch memory."""
        sizes = [(ctypes.c_int64 * len(each))(*each) for each in (read, written)]
        assert self.itself.fake_describe(kernel.encode(), len(read), *sizes)

    def launches(self) -> list[tuple[str, list[int]]]:
        """Kernels that were started: name; blocks, threads, bytes of shared memory, stream, bytes of parameters."""
        found, numbers = [], (ctypes.c_int64 * 6)()
        self.itself.fake_launch.restype = ctypes.c_char_p
        while name := self.itself.fake_launch(ctypes.c_int64(len(found)), numbers):
            found.append((name.decode(), list(numbers)[:5]))
        return found

    def waits(self) -> tuple[int, int]:
        """The last stream that waited for another one, and that."""
        self.itself.fake_waits.restype = ctypes.POINTER(ctypes.c_int64)
        waits = self.itself.fake_waits()
        return waits[0], waits[1]


def _built(folder: str, to: Path, name: str = "fake_driver") -> Path:
    """A fake driver as a library."""
    if GCC is None:
        pytest.skip("there is no C compiler")
    path, source = to / "libfake.so", Path(__file__).parent / folder / f"{name}.c"
    options = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([GCC, *options, "-o", path, source, "-lpthread", "-lm"], check=True)
    return path


@pytest.fixture(autouse=True)
def _sooner(built_sooner: None) -> None:
    """For all tests in this folder."""


@pytest.fixture(scope="session")
def built_driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return FakeDriver(_built("opencl", tmp_path_factory.mktemp("opencl")), OpenClLibrary, OpenClDevice)


@pytest.fixture
def driver(built_driver: FakeDriver) -> Iterator[FakeDriver]:
    """The fake driver; at the end nothing of it lives, and nothing was used after its end."""
    built_driver.itself.fake_reset()
    yield built_driver
    assert (built_driver.live(), built_driver.misuses()) == ({}, 0)


@pytest.fixture
def fake_device(driver: FakeDriver, no_library: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """The fake driver, which is that of this process."""
    no_library.setattr(device_module, "DEVICES", Opened(OpenClDevice))
    no_library.setenv(library_module.VARIABLE, driver.path)
    yield driver
    device_module.DEVICES.clear()


def _fresh(fake: FakeStreams[S, D]) -> Iterator[FakeStreams[S, D]]:
    """A fake driver, begun; at the end nothing of it lives, and nothing was used after its end."""
    fake.itself.fake_reset()
    fake.library.begin()
    yield fake
    gc.collect()
    assert (fake.live(), fake.misuses()) == ({}, 0)


def _without_library(module: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.delenv(module.VARIABLE, raising=False)
    module.library.cache_clear()
    yield monkeypatch
    module.library.cache_clear()


@pytest.fixture(scope="session")
def built_cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeStreams[CudaLibrary, CudaDevice]:
    return FakeStreams(_built("cuda", tmp_path_factory.mktemp("cuda")), CudaLibrary, CudaDevice)


@pytest.fixture(scope="session")
def built_cublaslt(tmp_path_factory: pytest.TempPathFactory) -> FakeStreams[CudaLibrary, CudaDevice]:
    """The driver and cuBLASLt in one library."""
    path = _built("cuda", tmp_path_factory.mktemp("cublaslt"), "fake_cublaslt")
    return FakeStreams(path, CudaLibrary, CudaDevice)


@pytest.fixture(scope="session")
def built_numerics(tmp_path_factory: pytest.TempPathFactory) -> FakeStreams[CudaLibrary, CudaDevice]:
    """The driver, cuFFT and cuSOLVER in one library."""
    path = _built("cuda", tmp_path_factory.mktemp("numerics"), "fake_numerics")
    return FakeStreams(path, CudaLibrary, CudaDevice)


@pytest.fixture(scope="session")
def built_dnn(tmp_path_factory: pytest.TempPathFactory) -> FakeStreams[CudaLibrary, CudaDevice]:
    """The driver and cuDNN in one library."""
    return FakeStreams(_built("cuda", tmp_path_factory.mktemp("dnn"), "fake_dnn"), CudaLibrary, CudaDevice)


@pytest.fixture(scope="session")
def built_hip(tmp_path_factory: pytest.TempPathFactory) -> FakeStreams[HipLibrary, HipDevice]:
    return FakeStreams(_built("hip", tmp_path_factory.mktemp("hip")), HipLibrary, HipDevice)


@pytest.fixture
def cuda(built_cuda: FakeStreams[CudaLibrary, CudaDevice]) -> Iterator[FakeStreams[CudaLibrary, CudaDevice]]:
    yield from _fresh(built_cuda)


@pytest.fixture
def hip(built_hip: FakeStreams[HipLibrary, HipDevice]) -> Iterator[FakeStreams[HipLibrary, HipDevice]]:
    yield from _fresh(built_hip)


@pytest.fixture(params=["cuda", "hip"])
def streams(request: pytest.FixtureRequest) -> FakeStreams[Any, Any]:
    """Each of both."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def no_cuda_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process that has not looked for its library of CUDA yet."""
    yield from _without_library(cuda_library_module, monkeypatch)


@pytest.fixture
def no_hip_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process that has not looked for its library of HIP yet."""
    yield from _without_library(hip_library_module, monkeypatch)


@pytest.fixture
def cuda_device(
    cuda: FakeStreams[CudaLibrary, CudaDevice], no_cuda_library: pytest.MonkeyPatch
) -> Iterator[FakeStreams[CudaLibrary, CudaDevice]]:
    """The fake driver of CUDA, which is that of this process."""
    no_cuda_library.setattr(cuda_device_module, "DEVICES", Opened(CudaDevice))
    no_cuda_library.setenv(cuda_library_module.VARIABLE, cuda.path)
    yield cuda
    cuda_device_module.DEVICES.clear()


@pytest.fixture
def hip_device(
    hip: FakeStreams[HipLibrary, HipDevice], no_hip_library: pytest.MonkeyPatch
) -> Iterator[FakeStreams[HipLibrary, HipDevice]]:
    """The fake driver of HIP, which is that of this process."""
    no_hip_library.setattr(hip_device_module, "DEVICES", Opened(HipDevice))
    no_hip_library.setenv(hip_library_module.VARIABLE, hip.path)
    yield hip
    hip_device_module.DEVICES.clear()


@pytest.fixture(params=["cuda", "hip"])
def streams_device(request: pytest.FixtureRequest) -> FakeStreams[Any, Any]:
    """Each of both, which is that of this process."""
    return request.getfixturevalue(f"{request.param}_device")


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process that has not looked for its library yet."""
    yield from _without_library(library_module, monkeypatch)


def _module(*arguments: str) -> bytes:
    """What increment.py writes, in a process of its own: LLVM's emitter of SPIR-V may abort it."""
    script = Path(__file__).parent / "opencl/increment.py"
    return subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True).stdout


@pytest.fixture(scope="session")
def increment() -> bytes:
    """A module in SPIR-V: the kernel `increment` adds 1 to 32-bit integers, one a work-item."""
    return _module()


@pytest.fixture(scope="session")
def unresolved() -> bytes:
    """The same, but for a function `nowhere` that it calls, and no device has."""
    return _module("nowhere")
