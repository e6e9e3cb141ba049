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
from sys import getrefcount
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.dialect.alignment import ALIGNMENT
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
PAGE = 4 << 10  # sizes that differ by less share memory
# What the pool keeps for the next calls, of all sizes and of each.
KEPT_BYTES = 1 << 30
KEPT_ARRAYS = 16


class Block:
    """Aligned memory of `size` bytes at `address`; freed with the object and all arrays in it.

    Attributes:
        memory: its bytes. The base of this array is no array, so NumPy keeps it as the base of arrays that lie in it.

    Raises:
        ResourceError: the memory is not to be had.
    """

    __slots__ = ("address", "memory", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        owner: bytearray | mmap.mmap
        if size < HUGE_PAGE // 2:
            owner, unit = bytearray(size + ALIGNMENT), ALIGNMENT
        else:
            owner, unit = _huge_pages(size), HUGE_PAGE
        start = np.frombuffer(owner, np.uint8).__array_interface__["data"][0]
        self.address = -(-start // unit) * unit
        self.memory = np.ndarray(size, np.uint8, owner, self.address - start)


def _huge_pages(size: int) -> mmap.mmap:
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
    return region


def _references_of_a_variable() -> int:
    value = [object()].pop(0)
    return getrefcount(value)


# What `getrefcount` says of what one variable refers to: in some versions of Python a call has a reference of its own.
_ALONE = _references_of_a_variable()


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


class _Pool:
    """Memory of the process for results, by size. It serves an array as long as that lives, and then the next one: it
    is free while nobody but this pool refers to it. Memory is kept of sizes that somebody has claimed; of each size for
    so many arrays, and of all together KEPT_BYTES.

    Whoever takes memory holds the GIL from the look at the references until there is another one, as native code does,
    or takes it off its list for that time.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, list[np.ndarray]] = OrderedDict()  # the sizes that last grew at the end
        self._claims: Counter[int] = Counter()
        self._lock = threading.RLock()  # reentrant: the garbage collector may run, and end owners, while it is held
        # Another thread may hold the lock at the moment of a fork; in the child nobody would ever release it.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def claim(self, claimed: dict[int, None], size: int, most: int) -> None:
        """Enter a size in the claims of one owner, and keep memory of it; the owner's oldest claim ends where there are
        more than `most`."""
        with self._lock:
            if size in claimed:  # since another thread looked
                return
            claimed[size] = None
            self._claims[size] += 1
            self._kept.setdefault(size, [])
            if len(claimed) > most:
                oldest = next(iter(claimed))
                del claimed[oldest]
                self.release((oldest,))

    def release(self, sizes: Iterable[int]) -> None:
        """End a claim for each of these sizes; memory of a size that nobody claims any more goes with its arrays."""
        with self._lock:
            for size in sizes:
                self._claims[size] -= 1
                if self._claims[size] <= 0:
                    del self._claims[size]
                    self._kept.pop(size, None)

    def kept(self, size: int) -> list[np.ndarray]:
        """What is kept of a size that is claimed."""
        return self._kept[size]

    def take(self, size: int) -> np.ndarray:
        """Memory of exactly this size, free until now. Raises ResourceError."""
        kept = self._kept.get(size, [])
        for _ in range(len(kept)):
            try:
                memory = kept.pop(0)
            except IndexError:  # others have all of it in their hands at this moment
                break
            is_free = getrefcount(memory) == _ALONE
            kept.append(memory)
            if is_free:
                return memory
        memory = Block(size).memory
        with self._lock:
            if size in self._claims:
                self._keep(size, memory)
        return memory

    def _keep(self, size: int, memory: np.ndarray) -> None:
        kept = self._kept[size]
        kept.append(memory)
        if len(kept) > KEPT_ARRAYS:
            del kept[0]
        self._kept.move_to_end(size)
        excess = sum(each * len(memories) for each, memories in self._kept.items()) - KEPT_BYTES
        for each, memories in self._kept.items():
            while excess > 0 and memories:
                del memories[0]
                excess -= each


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
        """One that is worth memory of the pool."""
        rounded = self._claim(size)
        memory = self._pool.take(rounded)
        return np.ndarray(shape, dtype, memory), address_of(memory)

    def _claim(self, size: int) -> int:
        rounded = -(-size // PAGE) * PAGE
        if rounded not in self._claimed:
            self._pool.claim(self._claimed, rounded, self._most)
        return rounded

    def kept(self, size: int) -> list[np.ndarray] | None:
        """What the pool keeps for arrays of `size` bytes, which native code takes from; None: such arrays are NumPy's
        own. An owner may have so many sizes without giving one up."""
        return None if size < SMALL else self._pool.kept(self._claim(size))
