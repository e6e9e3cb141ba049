"""Kernels as parts of another one: blocks of a kernel become trips of a loop in a kernel of one block.

A template writes what it always writes. Where the whole has several times as many threads as a block of the part, as
many blocks are worked on side by side, each with shared memory of its own. All come to the same barriers, so a template
whose barriers depend on the number of the block cannot be a part of more threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial

from stablehlo_py.backends.gpu.kernels.base import Launch
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I1, I8, Function, Index, ScalarType, Value
from stablehlo_py.codegen.emitters.gpu import GpuEmitter
from stablehlo_py.codegen.values import Space, Type
from stablehlo_py.errors import InternalError

ALIGNMENT = 64  # bytes, at least, of what parts have of shared memory


class SharedMemory:
    """Shared memory of a kernel, which its parts use one after another.

    Attributes:
        bytes: all of it.
    """

    def __init__(self, whole: Function) -> None:
        self._whole = whole
        self._arrays: list[tuple[int, int, Value]] = []  # bytes, alignment and address
        self.bytes = 0

    def array(self, size: int, alignment: int, taken: set[str]) -> Value:
        """One of at least so many bytes, whose name is not among those taken yet, and is from here on."""
        fitting = [
            (held, found)
            for held, aligned, found in self._arrays
            if held >= size and aligned >= alignment and found.ref not in taken
        ]
        if not fitting:
            fitting = [(size, self._whole.shared_memory(size, I8, alignment))]
            self._arrays.append((size, alignment, fitting[0][1]))
            self.bytes += size
        _, found = min(fitting, key=lambda each: each[0])
        taken.add(found.ref)
        return found


class Part(Function):
    """A kernel under construction, written into another one where that is written now.

    Args:
        pointers: its parameters.
        launch: how many blocks of threads it has.
        block: the number of the block.
        exists: an i1, whether there is such a block; where there is none, it stores nothing. None: there is.
    """

    def __init__(
        self,
        whole: Function,
        pointers: Mapping[str, Value],
        launch: Launch,
        block: Index,
        exists: Value | None,
        shared: SharedMemory,
    ) -> None:
        super().__init__(launch.symbol, [], whole.emit)
        self.parameters = {name: _own(value) for name, value in pointers.items()}
        self._constants = whole._constants
        self._whole, self._launch, self._shared, self._taken = whole, launch, shared, set[str]()
        self._block = self.bounded(_own(self.index(block)), 0, launch.blocks - 1)
        self._exists = None if exists is None else _own(exists)
        number, self._beside = whole.thread_number(), whole.threads_of_block // launch.threads
        self._thread = self.index(self.irem(_own(number), launch.threads) if self._beside > 1 else _own(number))
        self._group = self.idiv(_own(number), launch.threads) if self._beside > 1 else 0

    @property
    def threads_of_block(self) -> int:
        """Of the part."""
        return self._launch.threads

    @property
    def blocks_of_launch(self) -> int:
        """Of the part."""
        return self._launch.blocks

    def thread_number(self, axis: int = 0) -> Value:
        """As in a launch of the part."""
        return self._thread if axis == 0 else self.const(0)

    def block_number(self, axis: int = 0) -> Value:
        """As in a launch of the part."""
        block = self._block if axis == 0 else self.const(0)
        assert isinstance(block, Value)
        return block

    def block_size(self, axis: int = 0) -> Value:
        """As in a launch of the part."""
        return self.const(self._launch.threads if axis == 0 else 1)

    def leave_room(self, blocks: int) -> None:
        """The whole has one block."""

    def shared_memory(self, count: int, element: ScalarType, align: int = 16) -> Value:
        """That of the block, of those that are worked on side by side."""
        align = max(align, ALIGNMENT)
        size = -(-count * element.bits // 8 // align) * align
        array = self._shared.array(size * self._beside, align, self._taken)
        with self.at_level(0):
            return self.gep(array, self.imul(self._group, size), I8)

    def store(
        self,
        a: Value,
        base: Value,
        offset: Index = 0,
        mask: Value | None = None,
        *,
        align: int | None = None,
        nontemporal: bool = False,
    ) -> None:
        """In memory that other blocks see, of blocks that exist."""

        def store() -> None:
            super(Part, self).store(a, base, offset, mask, align=align, nontemporal=nontemporal)

        if self._exists is None or _is_shared(base.type):
            store()
        else:
            self.if_(self._exists, store)

    def atomic_update(self, name: str, address: Value, a: Value) -> None:
        """As `store`."""
        if self._exists is None:
            super().atomic_update(name, address, a)
        else:
            self.if_(self._exists, lambda: super(Part, self).atomic_update(name, address, a))

    def atomic_replace(self, address: Value, expected: Value, desired: Value) -> tuple[Value, Value]:
        """As `store`; where there is no block, nothing is left to do."""
        if self._exists is None:
            return super().atomic_replace(address, expected, desired)
        replace, done = partial(super().atomic_replace, address, expected, desired), self.const(True, I1)
        found, is_done = self.if_(self._exists, replace, lambda: [expected, done])
        return found, is_done

    def ret(self, value: Value | None = None) -> None:
        """The whole goes on behind it."""

    def text(self) -> str:
        """It is in that of the whole."""
        return ""


def _own(value: Value) -> Value:
    """A value of the whole, as it is known in the part: from outside."""
    return Value(value.ref, value.type, value.constant, 0, value.bounds)


def _is_shared(type_: Type) -> bool:
    return type_.element.space is Space.SHARED


@dataclass(frozen=True)
class PartTarget(GpuTarget):
    """A GPU for templates of which one kernel is to be a part of another.

    Attributes:
        of: the GPU of the whole. part: what the kernel of that launch becomes.
    """

    of: GpuTarget = field(kw_only=True, compare=False)
    part: Part = field(kw_only=True, compare=False)

    @classmethod
    def taking(cls, part: Part, of: GpuTarget) -> PartTarget:
        """For a part of a kernel for a GPU."""
        return cls(**{each.name: getattr(of, each.name) for each in fields(GpuTarget)}, of=of, part=part)

    def kernel(
        self, symbol: str, pointers: Sequence[str], blocks: int, threads: int, noalias: Sequence[str] = ()
    ) -> Function:
        """The part, if it is this kernel; others go nowhere."""
        if (symbol, blocks, threads) != (self.part.name, self.part.blocks_of_launch, self.part.threads_of_block):
            return self.of.unchecked.kernel(symbol, pointers, blocks, threads, noalias)
        if list(pointers) != list(self.part.parameters):
            raise InternalError(f"the kernel {symbol} takes {list(pointers)}, its part {list(self.part.parameters)}")
        return self.part

    def emitter(self, threads: int = 0, blocks: int = 0) -> GpuEmitter:
        """As the GPU's."""
        return self.of.emitter(threads, blocks)
