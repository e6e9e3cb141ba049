"""Memory of calls: aligned blocks, and a pool that result arrays return to when they die.

Fresh pages are what a large elementwise result costs most (three quarters of XLA's time on a big softmax goes to
page faults), so blocks are reused, and large ones ask for huge pages.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ctypes import Array, addressof, c_char
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.dialect.alignment import ALIGNMENT, aligned
from stablehlo_py.errors import ResourceError
from stablehlo_py.foreign import memory_at

if TYPE_CHECKING:
    from stablehlo_py.runtime.program import Spec

#: Of each of several arrays: shape, dtype, bytes.
Layouts = Sequence[tuple[tuple[int, ...], np.dtype, int]]

_at_start_of = c_char.from_buffer
HUGE_PAGE = 2 << 20
# Below this NumPy's own allocation is faster, and its pages are warm.
SMALL = 32 << 10
# What the pool keeps for the next call.
KEPT_BYTES = 1 << 30


class Block:
    """Aligned memory of at least `size` bytes at `address`; freed with the object.

    Raises:
        ResourceError: the memory is not to be had.
    """

    __slots__ = ("_owner", "address", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        if size < HUGE_PAGE // 2:
            owner = np.empty(size + ALIGNMENT, np.uint8)
            start = owner.__array_interface__["data"][0]
            self.address = aligned(start)
            self._owner: object = owner
            return
        try:
            # Private: mmap's default is memory shared with forked children, which huge pages do not serve either.
            region = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError) as error:
            raise ResourceError(
                f"{size} bytes of memory are not to be had: {error}", remedy="free memory, or run a smaller batch"
            ) from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            # Kernels without transparent huge pages refuse the hint; ordinary pages serve as well.
            with suppress(OSError):
                region.madvise(mmap.MADV_HUGEPAGE)
        start = np.frombuffer(region, np.uint8).__array_interface__["data"][0]
        self.address = -(-start // HUGE_PAGE) * HUGE_PAGE
        self._owner = region


def address_of(array: np.ndarray) -> int:
    """Where the elements of an array lie. The buffer protocol says it four times as fast as `__array_interface__`, but
    does not know read-only and empty arrays, nor the dtypes of ml_dtypes."""
    if array.flags.writeable and array.dtype.isbuiltin == 1:
        try:
            return addressof(_at_start_of(array))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # strided, empty
            pass
    return array.__array_interface__["data"][0]


def addresses_of(arrays: Iterable[np.ndarray]) -> list[int]:
    """Where the elements of each lie."""
    return [address_of(array) for array in arrays]


def array_at(address: int, spec: Spec) -> np.ndarray:
    """The memory at an address as the array that a spec describes; its owner has to outlive it."""
    sizes = [size for size in spec.shape if size is not None]
    assert len(sizes) == len(spec.shape)
    return np.ndarray(sizes, spec.dtype, memory_at(address, math.prod(sizes) * spec.dtype.itemsize))


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require(size: int, what: str) -> None:
    """Refuse before allocating what this machine cannot hold.

    Raises:
        ResourceError: `size` exceeds the machine's memory.
    """
    available = physical_memory()
    if size > available:
        raise ResourceError(
            f"{what} needs {size / 2**30:.1f} GiB, this machine has {available / 2**30:.1f} GiB",
            remedy="compile the model for a smaller batch, or use a machine with more memory",
        )


class _Lease:
    """Base object of a result array: gives the block back when the last view of the array dies."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, pool: _Pool, block: Block, shape: tuple[int, ...], typestr: str) -> None:
        self._pool = pool
        self._block = block
        self.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (block.address, False), "version": 3}

    def __del__(self) -> None:
        self._pool.give_back(self._block)


class _Pool:
    """Blocks of the process, by size, for the next arrays; thread-safe. Blocks are kept of sizes that somebody has
    claimed, those last used first, and no more than KEPT_BYTES of them."""

    def __init__(self) -> None:
        self._free: OrderedDict[int, list[Block]] = OrderedDict()  # the sizes last used at the end
        self._claims: Counter[int] = Counter()
        self._kept = 0
        self._limit = KEPT_BYTES  # an attribute, since globals are gone when the last arrays die at exit
        self._lock = threading.RLock()  # reentrant: the garbage collector may run, and end arrays, while it is held
        # Another thread may hold the lock at the moment of a fork; in the child nobody would ever release it.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def claim(self, claimed: dict[int, None], size: int, most: int) -> None:
        """Enter a size in the claims of one owner, and keep blocks of it; the owner's oldest claim ends where there are
        more than `most`."""
        with self._lock:
            if size in claimed:  # since another thread looked
                return
            claimed[size] = None
            self._claims[size] += 1
            if len(claimed) > most:
                oldest = next(iter(claimed))
                del claimed[oldest]
                self.release((oldest,))

    def release(self, sizes: Iterable[int]) -> None:
        """End a claim for each of these sizes; blocks of a size that nobody claims any more are freed."""
        with self._lock:
            for size in sizes:
                self._claims[size] -= 1
                if self._claims[size] <= 0:
                    del self._claims[size]
                    self._kept -= size * len(self._free.pop(size, ()))

    def take(self, size: int) -> Block:
        """A block of exactly this size. Raises ResourceError."""
        with self._lock:
            blocks = self._free.get(size)
            if blocks:
                block = blocks.pop()
                self._kept -= size
                return block
        return Block(size)

    def give_back(self, block: Block) -> None:
        """Keep a block for the next array of its size, if that is claimed."""
        size = block.size
        with self._lock:
            if size not in self._claims:
                return
            blocks = self._free.pop(size, None) or []
            blocks.append(block)
            self._free[size] = blocks  # the last one now
            self._kept += size
            while self._kept > self._limit:
                oldest, blocks = next(iter(self._free.items()))
                if blocks:
                    blocks.pop()
                    self._kept -= oldest
                else:
                    del self._free[oldest]


_POOL = _Pool()


class _TinyBlocks(dict[int, type[Array[c_char]]]):
    def __missing__(self, size: int) -> type[Array[c_char]]:
        self[size] = made = c_char * size
        return made


#: By size: what makes a block of ctypes, filled with zeros. NumPy takes four times as long to make an array and to say
#: where it lies; from TINY bytes on, the zeros take longer.
tiny_blocks = _TinyBlocks()
TINY = 4 << 10


class ArrayMemory:
    """Memory for the arrays of one owner, an executable as a rule. Arrays that die leave theirs to the next ones of
    the same size, also to those of other owners, as long as the owner lives; arrays outlive it. Thread-safe.

    Args:
        sizes: of how many sizes of large arrays memory is left to the next ones; the oldest is given up for a new one.
    """

    def __init__(self, sizes: int) -> None:
        self._pool = _POOL
        self._most = sizes
        self._claimed: dict[int, None] = {}

    def __del__(self) -> None:
        self._pool.release(self._claimed)

    def array(self, shape: tuple[int, ...], dtype: np.dtype, size: int) -> np.ndarray:
        """An uninitialized array of `size` bytes. Raises ResourceError."""
        ((array, _),) = self.arrays(((shape, dtype, size),))
        return array

    def arrays(self, layouts: Layouts) -> list[tuple[np.ndarray, int]]:
        """Uninitialized arrays, and where their elements lie. Raises ResourceError."""
        made = []
        for shape, dtype, size in layouts:
            if size >= SMALL:
                made.append(self._large(shape, dtype, size))
                continue
            array = np.empty(shape, dtype)
            # As `address_of`, for an array that is known to be dense.
            known = dtype.isbuiltin == 1 and size
            made.append((array, addressof(_at_start_of(array)) if known else address_of(array)))  # type: ignore[arg-type]
        return made

    def _large(self, shape: tuple[int, ...], dtype: np.dtype, size: int) -> tuple[np.ndarray, int]:
        """One that is worth a block of the pool."""
        rounded = -(-size // 4096) * 4096
        if rounded not in self._claimed:
            self._pool.claim(self._claimed, rounded, self._most)
        block = self._pool.take(rounded)
        if dtype.kind == "V" or dtype.isbuiltin != 1:  # ml_dtypes types have no type string of their own
            raw = np.asarray(_Lease(self._pool, block, (size,), "|u1"))
            return raw.view(dtype).reshape(shape), block.address
        return np.asarray(_Lease(self._pool, block, shape, dtype.str)), block.address
