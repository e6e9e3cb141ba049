"""Operations of the kernel language for machines that run kernels in blocks of threads: who runs, barriers, shared
memory, exchanges in a subgroup, matrix units, copies beside other work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stablehlo_py.codegen.matrix_units import MatrixUnit, SharedMatrix
from stablehlo_py.codegen.operations import Operations
from stablehlo_py.codegen.tensor_maps import TensorMap
from stablehlo_py.codegen.values import F32, I32, I64, Index, ScalarType, Space, Value, pointer


class BlockOperations(Operations):
    """What a thread of a block can do."""

    @property
    def threads_of_block(self) -> int:
        """How many a block has, of a kernel."""
        return self.emit.threads

    @property
    def blocks_of_launch(self) -> int:
        """How many blocks a launch of a kernel has."""
        return self.emit.blocks

    def leave_room(self, blocks: int) -> None:
        """Take so few registers that a multiprocessor has room for so many blocks, where the assembler can be asked."""
        self.emit.blocks_together = blocks

    def thread_number(self, axis: int = 0) -> Value:
        """Which thread of its block runs, along an axis: i64."""
        return self._numbered(("thread", axis), self.emit.thread_number, axis, self.emit.threads)

    def block_number(self, axis: int = 0) -> Value:
        """Which block the thread belongs to, along an axis: i64."""
        return self._numbered(("block", axis), self.emit.block_number, axis, self.emit.blocks)

    def _numbered(self, key: tuple[object, ...], write: Callable[[int], str], axis: int, count: int) -> Value:
        found = self._pure(key, I64, 0, write, axis)
        if count:
            found.bounds = (0, count - 1 if axis == 0 else 0)
        return found

    def block_size(self, axis: int = 0) -> Value:
        """How many threads a block has along an axis: i64."""
        return self._value(self.emit.block_size(axis), I64)

    def shared_memory(self, count: int, element: ScalarType, align: int = 16) -> Value:
        """Memory for `count` elements that all threads of a block see, uninitialized: a pointer into its space."""
        return Value(self.emit.shared_memory(count, element, align), pointer(Space.SHARED))

    def barrier(self) -> None:
        """All threads of a block come here, and see what the others wrote before."""
        self.barriers += 1
        self.emit.barrier()

    def copy_async(self, to: Value, at: Index, source: Value, start: Index, exists: Value | None = None) -> None:
        """Copy 16 bytes from global to shared memory, offsets in words of 32 bits, both multiples of four; zeros where
        they do not exist. They are there behind `await_copies` and, for other threads, a barrier."""
        self.emit.copy_async(self.gep(to, at, I32), self.gep(source, start, I32), exists)

    def commit_copies(self) -> None:
        """End a group: the thread's copies since the last one."""
        self.emit.commit_copies()

    def await_copies(self, pending: int) -> None:
        """Wait until the copies of the thread have come, but for those of the last `pending` groups."""
        self.emit.await_copies(pending)

    def subgroup_shuffle(self, a: Value, mask: Value) -> Value:
        """The scalar `a` of that thread of the subgroup (warp) whose number is this one's xor `mask` (i32)."""
        return self._value(self.emit.subgroup_shuffle(a, mask), a.type)

    def subgroup_read(self, a: Value, number: Value) -> Value:
        """The scalar `a` (i32, f32) of the thread of the subgroup with this number (i32)."""
        return self._value(self.emit.subgroup_read(a, number), a.type)

    def matrix_multiply(
        self, unit: MatrixUnit, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums of a subgroup with the product added: registers are integers of `unit.pack` elements."""
        return [
            self._value(ref, each.type)
            for ref, each in zip(self.emit.matrix_multiply(unit, a, b, sums), sums, strict=True)
        ]

    def warpgroup_multiply(
        self, unit: MatrixUnit, a: SharedMatrix, b: SharedMatrix, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums (f32) of four subgroups with the product of matrices in shared memory added; these are there behind
        `await_warpgroup` only."""
        held = ScalarType(f"i{unit.bits}", unit.bits)
        a, b = (replace(each, base=self.gep(each.base, each.offset, held), offset=0) for each in (a, b))
        return [self._value(ref, F32) for ref in self.emit.warpgroup_multiply(unit, a, b, sums)]

    def publish_shared(self) -> None:
        """Behind the next barrier, `warpgroup_multiply` sees what this thread stored in shared memory."""
        self.emit.publish_shared()

    def begin_warpgroup(self) -> None:
        """The multiplications that follow see the sums as they are, and what was published before the last barrier."""
        self.emit.begin_warpgroup()

    def await_warpgroup(self, sums: Sequence[Value], pending: int) -> list[Value]:
        """The sums, when all multiplications have ended but for the last `pending` groups (`commit_warpgroup`)."""
        return [
            self._value(ref, each.type)
            for ref, each in zip(self.emit.await_warpgroup(sums, pending), sums, strict=True)
        ]

    def commit_warpgroup(self) -> None:
        """End a group of multiplications."""
        self.emit.commit_warpgroup()

    def load_matrices(self, base: Value, offset: Index, count: int, *, transposed: bool) -> list[Value]:
        """`count` matrices of 8 x 8 elements of 16 bits, which a subgroup of 32 loads from shared memory together. The
        thread 8 m + r says where row r of matrix m begins: at `base` + `offset` words of 32 bits, a multiple of 4. It
        gets of every matrix the elements 2 (n % 4) and 2 (n % 4) + 1 of row n / 4, n being its number, as one i32; of
        the transposed matrix where that is asked for."""
        address = self.gep(base, offset, I32)
        return [self._value(ref, I32) for ref in self.emit.load_matrices(address, count, transposed=transposed)]

    # --- copies of boxes, by an engine of the machine ----------------------------------------------------------------

    def make_tensor_map(self, of: TensorMap, source: Value, place: Value, to: Value) -> None:
        """Describe the tensor that begins at `source`, a multiple of 16 bytes, to the copy engine: at `to` in global
        memory, by way of `place` in shared memory, both `tensor_maps.BYTES` at multiples of as many. The 32 threads of
        the first subgroup come here together; each of them may copy boxes then."""
        thread = self.cast("trunc", self.thread_number(), I32)
        self.emit.make_tensor_map(of, source, place, to, thread)

    def begin_arrivals(self, counters: Value, number: int) -> None:
        """Make one of some counters of bytes in shared memory, 64 bits each. One thread comes here; others count on it
        behind a barrier."""
        self.emit.begin_arrivals(self.gep(counters, number, I64))

    def expect_bytes(self, counters: Value, number: Index, count: int) -> None:
        """The counter's phase ends when so many bytes have come; then its next one begins. One thread comes here."""
        self.emit.expect_bytes(self.gep(counters, number, I64), count)

    def await_arrivals(self, counters: Value, number: Index, phase: Index) -> None:
        """Wait until a phase of the counter has ended, by its number from 0 on, the current one or the one before it.
        What has come, the thread sees."""
        parity = self.cast("trunc", self.index(self.irem(phase, 2)), I32)
        self.emit.await_arrivals(self.gep(counters, number, I64), parity)

    def copy_box(
        self, map_: Value, shared: Value, at: Index, counters: Value, number: Index, begin: Sequence[Index]
    ) -> None:
        """Begin to copy the box of a tensor (`make_tensor_map`) whose first element has these indices, the first one
        along neighbours, to the word `at` of shared memory. A counter is told of the bytes. One thread comes here."""
        first = [self.cast("trunc", self.index(each), I32) for each in begin]
        self.emit.copy_box(map_, self.gep(shared, at, I32), self.gep(counters, number, I64), first)
