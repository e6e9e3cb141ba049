"""The choice between libraries and a program's own kernels: made for each call, once, when the program is loaded."""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from typing import Any

from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.backends.gpu.libraries.cublaslt import CublasLt
from stablehlo_py.backends.gpu.libraries.cudnn import Cudnn
from stablehlo_py.backends.gpu.libraries.cufft import Cufft
from stablehlo_py.backends.gpu.libraries.cusolver import Cusolver
from stablehlo_py.backends.gpu.libraries.plan import STATUS_BIT
from stablehlo_py.backends.gpu.libraries.vendor import Handle, found
from stablehlo_py.errors import ResourceError, ShloError, elided
from stablehlo_py.options import CUBLASLT, CUDNN, CUFFT, CUSOLVER
from stablehlo_py.runtime.library_calls import LibraryCall, counted
from stablehlo_py.runtime.memory import address_of

HANDLES: Mapping[str, type[Handle[Any, Any]]] = {CUBLASLT: CublasLt, CUFFT: Cufft, CUSOLVER: Cusolver, CUDNN: Cudnn}
_WITHOUT = "compile the model without libraries, and report it"


class LibraryChoice:
    """What libraries compute of a program; all else its own kernels do.

    Attributes:
        plans: for native code (calls.py), the address of the plan of each call, 0 where there is none.
        texts: the choices, for a person, of each library.

    Raises:
        ResourceError, InternalError: a library is there, and has failed.
    """

    def __init__(self, calls: Sequence[LibraryCall], queue: Queue) -> None:
        self._calls, self._device = calls, queue.device
        self._handles: dict[str, Handle[Any, Any]] = {}
        self.plans = array.array("q", [0] * max(1, len(calls)))
        self.texts = [self._chosen(name, queue) for name in dict.fromkeys(call.library for call in calls)]

    def _chosen(self, name: str, queue: Queue) -> str:
        """Make the plans of one library; the text."""
        mine = [number for number, call in enumerate(self._calls) if call.library == name]
        calls = [self._calls[number] for number in mine]
        assert isinstance(queue.library, CudaLibrary)
        try:
            library = found(HANDLES[name].kind, queue.library.number("cuDriverGetVersion"))
        except ResourceError as error:
            return f"our own kernels compute {counted(calls, len(mine))}: {error.reason}"
        handle = HANDLES[name](library, queue)
        if handle.refusal:
            return f"our own kernels compute {counted(calls, len(mine))}: {handle.refusal}"
        self._handles[name] = handle
        for number in mine:
            plan = self._plan(handle, self._calls[number])
            self.plans[number] = 0 if plan is None else plan
        own = [self._calls[number].kernel for number in mine if not self.plans[number]]
        refused = f"; it refuses, and our own kernels compute: {elided(own)}" if own else ""
        return f"{library.name} ({library.path}) computes {counted(calls, len(mine) - len(own))}{refused}"

    def _plan(self, handle: Handle[Any, Any], call: LibraryCall) -> int | None:
        try:
            plan = handle.plan(call)
        except ShloError as error:
            raise _at(call, error, error.remedy) from error
        return None if plan is None else address_of(plan)

    def failure(self, status: int, number: int) -> ShloError:
        """The error of a status that native code has kept of this call."""
        call, status = self._calls[number], status & (1 << STATUS_BIT) - 1
        library = self._handles[call.library].library
        error = library.failure(status, f"a call, at '{call.kernel}' by {library.name} on {self._device},")
        return _at(call, error, library.lacking.get(status, _WITHOUT))


def _at(call: LibraryCall, error: ShloError, remedy: str | None) -> ShloError:
    return type(error)(error.reason, op=call.op, location=call.location or None, remedy=remedy)
