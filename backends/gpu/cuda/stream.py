"""The stream of a device of CUDA."""

from __future__ import annotations

import ctypes

from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.driver.stream import Stream


class CudaStream(Stream):
    """A stream in the primary context of one device, which all libraries of a process share. As a context manager it
    makes that context the thread's.

    A fault takes the context with it, and all that was made in it. The context is made anew once all libraries have
    given it back.

    Attributes:
        place: the handle of the context.
    """

    fields = (*Stream.fields, "context")
    library: CudaLibrary

    def __init__(self, cuda: CudaLibrary, device_handle: int, device: str) -> None:
        super().__init__(cuda, device)
        self._device_handle = device_handle
        self.place = cuda.number("cuDevicePrimaryCtxRetain", device_handle, of=ctypes.c_void_p)
        self._create()

    def _entered(self) -> int:
        return self.library.status("cuCtxPushCurrent_v2", self.place)

    def _left(self) -> None:
        self.library.status("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def abandon(self) -> None:
        """Give the context back."""
        if self.place:
            self.place = 0
            self.library.status("cuDevicePrimaryCtxRelease_v2", self._device_handle)

    def native(self) -> dict[str, int]:
        """The context besides."""
        return super().native() | {"context": self.place}
