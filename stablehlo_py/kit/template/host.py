"""The host's part of a program: it goes through the scheduled module and launches kernels on the device's queue.

It waits for the device only where the program branches or loops: then it reads a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

import numpy as np

from stablehlo_py.backends.common.walk import Walk
from stablehlo_py.dialect.constants import numpy_dtype
from stablehlo_py.dialect.types import element_type, static_shape
from stablehlo_py.mlir import ir

from .device import DEVICE
from .kernels import FusionKernel


class Host(Walk[int]):
    """One call. `addresses` says where each buffer of the program begins, by space and number; `launched` is what the
    queue was asked for."""

    def __init__(
        self,
        module: ir.Module,
        kernels: Mapping[str, FusionKernel],
        addresses: Mapping[tuple[int, int], int],
    ) -> None:
        super().__init__(module)
        self.kernels = kernels
        self.addresses = addresses
        self.launched: list[Future[None]] = []

    def array(self, value: ir.Value) -> np.ndarray:
        """The memory of a value: of the slice that buffer assignment chose."""
        place = self.slices[value]
        address = self.addresses[place.buffer] + int(place.offset)
        return DEVICE.array(address, static_shape(value), numpy_dtype(element_type(value)))

    def steps(self, ops: Sequence[ir.OpView]) -> None:
        """Launch kernels and copies, in order."""
        for op in ops:
            operands, results = map(self.array, op.operands), map(self.array, op.results)
            if op.operation.name == "func.call":
                work = partial(self.kernels[op.attributes["callee"].value], list(operands), list(results))
            else:
                work = partial(np.copyto, next(results), next(operands))
            self.launched.append(DEVICE.launch(work))

    def element(self, value: ir.Value) -> int:
        """The one element of a tensor, when the queue has computed it."""
        place = self.slices[value]
        scalar = np.empty((), numpy_dtype(element_type(value)))
        DEVICE.read_at(self.addresses[place.buffer] + int(place.offset), scalar)
        return int(scalar)

    def index(self, scalar: int, *, unsigned: bool) -> int:
        """NumPy's integers know their sign."""
        return scalar

    def equal(self, scalar: int, number: int) -> int:
        """Whether an index is that number."""
        return scalar == number

    def branch(self, condition: int, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        """One block or the other."""
        if condition:
            then()
        elif otherwise:
            otherwise()

    def loop(self, condition: Callable[[], int], body: Callable[[], None]) -> None:
        """The body, as long as the condition holds."""
        while condition():
            body()
