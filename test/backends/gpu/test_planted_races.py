"""Races that are planted in small kernels: the detector finds each of them, and none where there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from stablehlo_py.backends.common.llvm_ir import llvm_ir
from stablehlo_py.backends.gpu.machine_code import machine_code
from stablehlo_py.backends.gpu.opencl.device import OpenClDevice
from stablehlo_py.backends.gpu.races import CheckedTarget, Detector
from stablehlo_py.backends.gpu.target import OPENCL
from stablehlo_py.codegen.builder import F32, I1, I8, I16, I32, I64, PTR, Function, Index, Value, vector
from stablehlo_py.codegen.emitters.race_check import RaceChecks
from stablehlo_py.codegen.emitters.race_helpers import BLOCKS, MOST_SHARED_PLACES
from stablehlo_py.errors import InternalError

THREADS = 64
READ_WRITE = "0 read, 0 write"
Body = Callable[[Function], None]


def found_in(device: OpenClDevice, body: Body, blocks: int = 2, launches: int = 1, inside: bool = False) -> set[str]:
    """The races of a kernel of (x, y): what two threads do, in any order, as "0 read, 0 write" of shared array 0, or
    "x read, y write" of arguments; "blocks: " before those of two blocks. `inside`: y lies in x."""
    target = CheckedTarget.of(OPENCL, RaceChecks())
    f = Function("kernel", [("x", PTR), ("y", PTR)], target.emitter(THREADS, blocks))
    body(f)
    f.ret()
    text = f.text()
    built = device.build(machine_code(llvm_ir("\n".join([*f.externals.values(), text]), target.architecture), target))
    size = 8 * blocks * THREADS
    held = [device.memory.allocate(size) for _ in range(2)]
    arguments = [held[0].address, held[0].address + size // 2 if inside else held[1].address]
    detector = Detector(device, built, target.checks, 2, 2 * size)
    detector.watch([(each.address, size) for each in held])

    def launch(name: str, count: int, threads: int) -> None:
        kernel, sizes, local = built.kernel(name), np.array([count * threads], np.uintp), np.array([threads], np.uintp)
        for number, address in enumerate(arguments):
            device.queue.library.call("clSetKernelArgSVMPointer", kernel, number, address)
        places = sizes.ctypes.data, local.ctypes.data
        device.queue.call("clEnqueueNDRangeKernel", kernel, 1, None, *places, 0, None, None)

    for block in held:
        device.memory.write(np.arange(blocks * THREADS), block)
    for _ in range(launches):
        launch(target.checks.begins["kernel"], 1, 1)
        launch("kernel", blocks, THREADS)
    found = detector.found()
    assert detector.found() == []  # they are told once
    accesses = re.compile(r"(?:(read|write|update)s (?:shared array (\d)|argument (\w)|(?:shared )?(memory))|(\w+))")
    named = set()
    for race in found:
        pair = [accesses.match(each) for each in (race.later, race.earlier)]
        said = [each[5] or f"{each[2] or each[3] or each[4]} {each[1]}" for each in pair if each]
        named.add(("blocks: " if race.kind == BLOCKS else "") + ", ".join(sorted(said)))
    return named


def element(f: Function) -> Value:
    """The number of a thread among all."""
    return f.index(f.iadd(f.imul(f.block_number(), THREADS), f.thread_number()))


def mirrored(f: Function, *, first: bool = True, second: bool = True, distance: int | None = None) -> None:
    """Threads of a block change places, twice, by one array: three barriers are needed, or two."""
    place, thread = f.shared_memory(THREADS, I64), f.thread_number()
    value = f.load(I64, f.x, element(f))
    for trip in range(2):
        f.store(value, place, thread)
        if first:
            f.barrier()
        other = f.isub(THREADS - 1, thread) if distance is None else f.binary("xor", thread, f.const(distance))
        value = f.load(I64, place, other)
        if second and not trip:
            f.barrier()
    f.store(value, f.y, element(f))


def test_what_is_right_has_no_race(real_device: OpenClDevice) -> None:
    assert found_in(real_device, mirrored) == set()


def test_missing_barriers_are_found(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: mirrored(f, first=False)) == {READ_WRITE}
    assert found_in(real_device, lambda f: mirrored(f, second=False)) == {READ_WRITE}


def test_threads_of_a_subgroup_need_a_barrier(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: mirrored(f, first=False, distance=1))


@pytest.mark.parametrize("are_equal", [True, False])
def test_two_writers_are_found(real_device: OpenClDevice, are_equal: bool) -> None:
    def body(f: Function) -> None:
        place = f.shared_memory(1, I64)
        f.store(f.const(7) if are_equal else f.thread_number(), place)
        f.barrier()
        f.store(f.load(I64, place), f.y, element(f))

    assert found_in(real_device, body) == {"0 write, 0 write"}


def test_a_value_that_one_thread_writes_and_all_read(real_device: OpenClDevice) -> None:
    def body(f: Function, barrier: bool) -> None:
        other, place = f.shared_memory(3, I8), f.shared_memory(1, I64)
        f.if_(f.cmp("eq", f.thread_number(), f.const(0)), lambda: f.store(f.const(7), place))
        if barrier:
            f.barrier()
        f.store(f.load(I64, place), f.y, element(f))
        f.if_(f.cmp("eq", f.thread_number(), f.const(1)), lambda: f.store(f.const(7, I8), other, 1))

    assert found_in(real_device, lambda f: body(f, True)) == set()
    assert found_in(real_device, lambda f: body(f, False)) == {"1 read, 1 write"}


def test_more_places_than_a_token_tells_apart(real_device: OpenClDevice) -> None:
    """Those behind them have one number, and are checked like the others."""

    def body(f: Function, barrier: bool) -> None:
        places, total = [f.shared_memory(1, I64) for _ in range(MOST_SHARED_PLACES)], f.const(0)
        for thread in range(3):
            for place in places:
                f.if_(f.cmp("eq", f.thread_number(), f.const(thread)), lambda place=place: f.store(f.const(7), place))
            f.barrier()
            for place in places:
                total = f.binary("add", total, f.load(I64, place))
            if barrier:
                f.barrier()
        f.store(total, f.y, element(f))

    assert found_in(real_device, lambda f: body(f, True)) == set()
    assert found_in(real_device, lambda f: body(f, False))


def test_neighbours_in_one_word_are_no_race_and_vectors_over_them_are(real_device: OpenClDevice) -> None:
    def body(f: Function, wide: bool) -> None:
        place, thread = f.shared_memory(THREADS, I8), f.thread_number()
        f.store(f.cast("trunc", thread, I8), place, thread)
        read = f.load(vector(4 if wide else 1, I8), place, f.imul(f.idiv(thread, 4), 4) if wide else thread, align=1)
        f.store(f.cast("zext", f.extract(read, 0) if wide else read, I64), f.y, element(f))

    assert found_in(real_device, lambda f: body(f, False)) == set()
    assert found_in(real_device, lambda f: body(f, True)) == {READ_WRITE}


def test_elements_of_several_types(real_device: OpenClDevice) -> None:
    """Halves of an element are of that element, by whatever pointer."""

    def body(f: Function, half: int) -> None:
        place, thread = f.shared_memory(2 * THREADS, I64), f.thread_number()
        pointer = f.select(f.cmp("slt", thread, f.const(7)), place, f.gep(place, 2, I64))
        pointer = f.select(f.cmp("slt", thread, f.const(1)), f.gep(place, half, F32), pointer)
        writes = f.cmp("slt", thread, f.const(2))
        f.if_(writes, lambda: f.store(f.const(1, I32), f.select(writes, pointer, place)))

    assert found_in(real_device, lambda f: body(f, 0)) == {"memory write, memory write"}
    assert found_in(real_device, lambda f: body(f, 1)) == set()


def test_atomic_updates_race_with_others_only(real_device: OpenClDevice) -> None:
    def body(f: Function, barriers: int) -> None:
        place, thread = f.shared_memory(1, I32), f.thread_number()
        f.if_(f.cmp("eq", thread, f.const(0)), lambda: f.store(f.const(0, I32), place))
        for number in range(2):
            if barriers > number:
                f.barrier()
            if not number:
                f.atomic_add(place, f.const(1, I32))
        f.store(f.cast("zext", f.load(I32, place), I64), f.y, element(f))

    assert found_in(real_device, lambda f: body(f, 2)) == set()
    assert found_in(real_device, lambda f: body(f, 1)) == {"0 read, 0 update"}
    assert "0 update, 0 write" in found_in(real_device, lambda f: body(f, 0))


def test_more_barriers_than_a_token_counts(real_device: OpenClDevice) -> None:
    def body(f: Function, barrier: bool) -> None:
        place, thread = f.shared_memory(THREADS, I64), f.thread_number()
        last = f.const(THREADS - 1)

        def trip(i: Value, value: Value) -> list[Value]:
            f.store(value, place, thread)
            f.barrier()
            read = f.load(I64, place, f.isub(last, thread))
            f.barrier()
            return [read]

        (value,) = f.loop(0, 9000, 1, trip, [thread])
        f.store(value, place, thread)
        if barrier:
            f.barrier()
        f.store(f.load(I64, place, f.isub(last, thread)), f.y, element(f))

    assert found_in(real_device, lambda f: body(f, True), 1) == set()
    assert found_in(real_device, lambda f: body(f, False), 1) == {READ_WRITE}


# --- planted races in global memory ---------------------------------------------------------------------------------


def test_own_elements_are_no_race(real_device: OpenClDevice) -> None:
    """Also where one array lies in another, and from launch to launch."""

    def body(f: Function) -> None:
        f.store(f.load(I64, f.x, element(f)), f.x, element(f))
        f.store(f.load(I64, f.x, element(f)), f.y, element(f))

    def other(f: Function) -> None:
        f.store(f.load(I64, f.x, element(f)), f.y, f.isub(2 * THREADS - 1, element(f)))

    assert found_in(real_device, body) == set()
    assert found_in(real_device, other, launches=3) == set()


@pytest.mark.parametrize("barrier", [True, False])
def test_what_another_thread_of_the_block_wrote(real_device: OpenClDevice, barrier: bool) -> None:
    def body(f: Function) -> None:
        f.store(f.thread_number(), f.y, element(f))
        if barrier:
            f.barrier()
        begin = f.imul(f.block_number(), THREADS)
        found = f.load(I64, f.y, f.iadd(begin, f.isub(THREADS - 1, f.thread_number())))
        if barrier:
            f.barrier()
        f.store(found, f.y, element(f))

    assert found_in(real_device, body) == (set() if barrier else {"y read, y write"})


@pytest.mark.parametrize("barrier", [True, False])
def test_no_barrier_orders_blocks(real_device: OpenClDevice, barrier: bool) -> None:
    def read(f: Function) -> None:
        f.store(f.thread_number(), f.y, element(f))
        if barrier:
            f.barrier()
        found = f.load(I64, f.y, f.isub(2 * THREADS - 1, element(f)))
        f.store(found, f.x, element(f))

    def write(f: Function) -> None:
        is_first = f.cmp("eq", f.thread_number(), f.const(0))
        if barrier:
            f.barrier()
        f.if_(is_first, lambda: f.store(f.const(7), f.y))

    assert found_in(real_device, read) == {"blocks: y read, y write"}
    assert found_in(real_device, write) == {"blocks: y write, y write"}
    assert found_in(real_device, write, 1, launches=2) == set()


def test_arrays_that_lie_in_others(real_device: OpenClDevice) -> None:
    def body(f: Function) -> None:
        f.store(f.load(I64, f.x, element(f)), f.y, f.thread_number())

    assert found_in(real_device, body, 1, inside=False) == set()
    assert found_in(real_device, body, 2, inside=True) == {"blocks: x read, y write", "blocks: y write, y write"}


def test_neighbours_in_global_memory(real_device: OpenClDevice) -> None:
    """Parts of a word are no race, a wide access over them is one."""

    def body(f: Function, lanes: int) -> None:
        number = element(f)
        f.store(f.const(1, I8), f.y, number)
        read = f.load(vector(lanes, I8), f.y, f.imul(f.idiv(number, lanes), lanes), align=1)
        f.store(read, f.x, f.imul(number, lanes), align=1)

    assert found_in(real_device, lambda f: body(f, 1)) == set()
    assert found_in(real_device, lambda f: body(f, 4)) == {"y read, y write"}


def test_wide_accesses_that_overlap(real_device: OpenClDevice) -> None:
    def body(f: Function, distance: int) -> None:
        place = f.imul(f.thread_number(), distance)
        f.store(f.load(vector(4, I16), f.x, place, align=2), f.y, place, align=2)

    assert found_in(real_device, lambda f: body(f, 4), 1) == set()
    assert found_in(real_device, lambda f: body(f, 3), 1) == {"y write, y write"}


def test_atomic_updates_of_all_blocks(real_device: OpenClDevice) -> None:
    def body(f: Function, reads: bool) -> None:
        f.atomic_add(f.y, f.const(1))
        if reads:
            f.store(f.load(I64, f.y), f.x, element(f))

    inside, across = "y read, y update", "blocks: y read, y update"
    assert found_in(real_device, lambda f: body(f, False)) == set()
    assert found_in(real_device, lambda f: body(f, True), blocks=1) == {inside}
    found = found_in(real_device, lambda f: body(f, True))  # blocks that take turns hide the races inside of them
    assert across in found and found <= {inside, across}


@pytest.mark.parametrize("how", ["instruction", "exchange"])
def test_atomic_updates_in_any_order(real_device: OpenClDevice, how: str) -> None:
    """Those of one place are no race, by instructions or by exchanges; what writes beside them is one."""

    def body(f: Function, writes: bool) -> None:
        def attempt(old: Value, _: Value) -> Sequence[Value]:
            return f.atomic_replace(f.y, old, f.binary("add", old, f.const(1)))

        if how == "instruction":
            f.atomic_update("add", f.y, f.const(1))
        else:
            is_open = lambda _, done: f.binary("xor", done, f.const(True, I1))  # noqa: E731
            f.while_([f.atomic_load(I64, f.y, "monotonic"), f.const(False, I1)], is_open, attempt)
        if writes:
            f.if_(f.cmp("eq", f.block_number(), f.const(1)), lambda: f.store(f.thread_number(), f.y))

    assert found_in(real_device, lambda f: body(f, False)) == set()
    assert "blocks: y update, y write" in found_in(real_device, lambda f: body(f, True))


def test_more_launches_than_a_token_counts(real_device: OpenClDevice) -> None:
    """What a launch wrote is not mistaken for what one wrote whose number was the same."""

    def body(f: Function) -> None:
        f.store(f.const(1), f.y, f.isub(THREADS - 1, f.thread_number()))

    assert found_in(real_device, body, 1, launches=1200) == set()


# --- barriers that not all threads reach -----------------------------------------------------------------------------


def divergent(f: Function, otherwise: Callable[[], None] | None) -> None:
    """The first thread of a block waits for the others, which do something else."""
    is_first = f.cmp("eq", f.thread_number(), f.const(0))
    f.if_(is_first, f.barrier, otherwise)


def test_threads_that_end_while_others_wait(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: divergent(f, None), 1) == {"ends, waits"}

    def early(f: Function) -> None:
        f.ret_if(f.cmp("eq", f.thread_number(), f.const(3)))
        f.barrier()

    assert found_in(real_device, early, 1) == {"ends, waits"}


def test_threads_that_wait_elsewhere(real_device: OpenClDevice) -> None:
    assert found_in(real_device, lambda f: divergent(f, f.barrier), 1) == {"waits, waits"}


def test_threads_that_wait_more_often(real_device: OpenClDevice) -> None:
    def body(f: Function, count: Index) -> None:
        f.loop(0, count, 1, lambda _: f.barrier())

    assert found_in(real_device, lambda f: body(f, 5), 1) == set()
    assert found_in(real_device, lambda f: body(f, f.idiv(f.thread_number(), 32)), 1) == {"ends, waits"}


def test_exchanges_that_not_all_threads_reach(real_device: OpenClDevice) -> None:
    def body(f: Function) -> None:
        is_first = f.cmp("eq", f.thread_number(), f.const(0))
        f.if_(is_first, lambda: exchange(f))

    def exchange(f: Function) -> None:
        f.subgroup_shuffle(f.const(1, I32), f.const(1, I32))

    assert "ends, exchanges" in found_in(real_device, body, 1)


# --- messages --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_checked_is_said() -> None:
    f = Function("kernel", [("x", PTR)], CheckedTarget.of(OPENCL, RaceChecks()).emitter(THREADS))
    with pytest.raises(InternalError, match="copies of shared memory"):
        f.copy_memory(f.shared_memory(8, I64), f.x, 64)
    with pytest.raises(InternalError, match="races are found among 2046 threads"):
        CheckedTarget.of(OPENCL, RaceChecks()).emitter(4096)
    with pytest.raises(InternalError, match="races are found among 262142 blocks"):
        CheckedTarget.of(OPENCL, RaceChecks()).emitter(64, 1 << 18)
