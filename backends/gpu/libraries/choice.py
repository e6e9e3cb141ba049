"""The choice between a library and a program's own kernels: made for each product, once, when the program is loaded."""

from __future__ import annotations

import array
from collections.abc import Sequence

from stablehlo_py.backends.gpu.cuda.library import CudaLibrary
from stablehlo_py.backends.gpu.driver.queue import Queue
from stablehlo_py.backends.gpu.libraries import cublaslt
from stablehlo_py.backends.gpu.libraries.plan import STATUS_BIT
from stablehlo_py.errors import ResourceError, ShloError, elided
from stablehlo_py.runtime.memory import address_of
from stablehlo_py.runtime.products import LibraryProduct

_WITHOUT = "compile the model without libraries, and report it"


class LibraryChoice:
    """What a library computes of the products of a program; all others its own kernels do.

    Attributes:
        plans: for native code (calls.py), the address of the plan of each product, 0 where there is none.
        text: the choice, for a person; empty where there was none to make.

    Raises:
        ResourceError, InternalError: the library is there, and has failed.
    """

    def __init__(self, products: Sequence[LibraryProduct], queue: Queue) -> None:
        self._products, self._device = products, queue.device
        self._library: cublaslt.CublasLt | None = None
        self.plans = array.array("q", [0] * max(1, len(products)))
        self.text = ""
        if products:
            reason = self._found(queue)
            if reason:
                self.text = f"our own kernels compute {_counted(len(products))}: {reason}"

    def _found(self, queue: Queue) -> str:
        """Make the plans; else the reason why there are none."""
        assert isinstance(queue.library, CudaLibrary)
        try:
            library = cublaslt.library(queue.library.number("cuDriverGetVersion"))
        except ResourceError as error:
            return error.reason
        self._library = cublaslt.CublasLt(library, queue)
        if self._library.refusal:
            return self._library.refusal
        for number, product in enumerate(self._products):
            plan = self._plan(self._library, product)
            self.plans[number] = 0 if plan is None else plan
        own = [each.kernel for each, plan in zip(self._products, self.plans, strict=True) if not plan]
        refused = f"; it refuses, and our own kernels compute: {elided(own)}" if own else ""
        count = len(self._products) - len(own)
        self.text = f"{library.name} ({library.path}) computes {_counted(count)}{refused}"
        return ""

    def _plan(self, library: cublaslt.CublasLt, product: LibraryProduct) -> int | None:
        try:
            plan = library.plan(product)
        except ShloError as error:
            raise _at(product, error, error.remedy) from error
        return None if plan is None else address_of(plan)

    def failure(self, status: int, number: int) -> ShloError:
        """The error of a status that native code has kept of this product."""
        product, status = self._products[number], status & (1 << STATUS_BIT) - 1
        assert self._library is not None
        library = self._library.library
        error = library.failure(status, f"a call, at '{product.kernel}' by {library.name} on {self._device},")
        return _at(product, error, library.lacking.get(status, _WITHOUT))


def _at(product: LibraryProduct, error: ShloError, remedy: str | None) -> ShloError:
    return type(error)(error.reason, op=product.op, location=product.location or None, remedy=remedy)


def _counted(products: int) -> str:
    return f"{products} product{'' if products == 1 else 's'}"
