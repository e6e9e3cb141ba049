"""Numbers in ascending order, by merging (Satish, Harris & Garland, Designing Efficient Sorting Algorithms for Manycore
GPUs, 2009): blocks sort tiles in shared memory by a bitonic network, then each element of some runs finds its place in
the merged run by binary searches in the others, which go on side by side: what each of them reads takes its time, and
so does each further kernel. All numbers differ, so any way to sort them gives the same."""

from __future__ import annotations

from collections.abc import Callable

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels.base import global_number, kernel_function
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.builder import I8, I64, Function, Index, Value

THREADS = 256
TILE = 2 * THREADS
RUNS = 8  # that are merged at once
MOST = (1 << 63) - 1


def sorted_bytes(count: int) -> int:
    """Scratch memory that `sorted_numbers` takes."""
    return (1 if count <= TILE else 2) * _padded(count) * 8


def _padded(count: int) -> int:
    return -(-count // TILE) * TILE


def sorted_numbers(
    count: int, number: Callable[[Function, Index], Value], fusion: Fusion, target: GpuTarget, offset: int = 0
) -> tuple[list[Function], int]:
    """The kernels that write so many different numbers (i64, below MOST) in ascending order to scratch memory, and
    where they lie there in the end, in bytes. `number` gives one by its place."""
    padded = _padded(count)
    places = [offset, offset + padded * 8]
    kernels, length = [_tiles(count, number, fusion, target, offset)], TILE
    while length < padded:
        name = f"{fusion.name}.merge{len(kernels)}"
        runs = min(RUNS, -(-padded // length))
        kernels.append(_merged(name, padded, length, runs, fusion, target, places))
        places, length = places[::-1], runs * length
    return kernels, places[0]


def _tiles(
    count: int, number: Callable[[Function, Index], Value], fusion: Fusion, target: GpuTarget, offset: int
) -> Function:
    """A block sorts a tile."""
    blocks = _padded(count) // TILE
    f = kernel_function(fusion, target, f"{fusion.name}.tiles", blocks, THREADS)
    to, held, thread = f.gep(f.scratch, offset, I8), f.shared_memory(TILE, I64), f.thread_number()
    for half in range(2):
        place = f.iadd(thread, half * THREADS)
        at = f.iadd(f.imul(f.block_number(), TILE), place)
        value = number(f, f.imin(at, count - 1))
        f.store(f.select(f.cmp("slt", f.index(at), f.const(count)), value, f.const(MOST)), held, place)

    def step(_: Value, *carried: Value) -> list[Value]:
        size, distance = (f.bounded(each, 1, TILE) for each in carried)
        f.barrier()
        low = f.bounded(f.binary("and", thread, f.index(f.isub(distance, 1))), 0, THREADS - 1)
        first = f.isub(f.imul(thread, 2), low)
        second = f.iadd(first, distance)
        a, b = f.load(I64, held, first), f.load(I64, held, second)
        rises = f.cmp("eq", f.binary("and", f.index(first), f.index(size)), f.const(0))
        less, more = f.intrinsic("smin", a, b), f.intrinsic("smax", a, b)
        f.store(f.select(rises, less, more), held, first)
        f.store(f.select(rises, more, less), held, second)
        is_last = f.cmp("eq", f.index(distance), f.const(1))
        grown = f.select(is_last, f.index(f.imul(size, 2)), f.index(size))
        return [grown, f.select(is_last, f.index(size), f.binary("lshr", f.index(distance), f.const(1)))]

    steps = TILE.bit_length() - 1
    f.loop(0, steps * (steps + 1) // 2, 1, step, [f.const(2), f.const(1)])
    f.barrier()
    for half in range(2):
        place = f.iadd(thread, half * THREADS)
        f.store(f.load(I64, held, place), to, f.iadd(f.imul(f.block_number(), TILE), place))
    f.ret()
    return f


def _merged(
    name: str, count: int, length: int, runs: int, fusion: Fusion, target: GpuTarget, places: list[int]
) -> Function:
    """So many runs of a length become one: a thread for an element."""
    f = kernel_function(fusion, target, name, count // THREADS, THREADS)
    source, to = (f.gep(f.scratch, place, I8) for place in places)
    at = global_number(f)
    value, run = f.load(I64, source, at), f.idiv(at, length)
    first = f.imul(f.idiv(run, runs), runs * length)  # of all of them
    others = [
        f.iadd(first, f.imul(f.irem(f.iadd(f.irem(run, runs), number), runs), length)) for number in range(1, runs)
    ]

    def halve(_: Value, *carried: Value) -> list[Value]:
        ends = [f.bounded(each, 0, length) for each in carried]
        lows, highs = ends[::2], ends[1::2]
        middles = [f.idiv(f.iadd(low, high), 2) for low, high in zip(lows, highs, strict=True)]
        found = [
            f.load(I64, source, f.imin(f.iadd(other, middle), count - 1))
            for other, middle in zip(others, middles, strict=True)
        ]
        narrowed = []
        for low, high, middle, each in zip(lows, highs, middles, found, strict=True):
            is_open = f.cmp("slt", f.index(low), f.index(high))
            is_less = f.binary("and", is_open, f.cmp("slt", each, value))
            narrowed.append(f.select(is_less, f.index(f.iadd(middle, 1)), f.index(low)))
            narrowed.append(f.select(is_less, f.index(high), f.index(f.imin(middle, high))))
        return narrowed

    start: list[Value] = []
    for other in others:
        start += [f.const(0), f.index(f.imax(0, f.imin(length, f.isub(count, other))))]
    before = f.loop(0, length.bit_length(), 1, halve, start)[::2]
    place = f.iadd(first, f.irem(at, length))
    for each in before:
        place = f.iadd(place, f.bounded(each, 0, length))
    f.store(value, to, place)
    f.ret()
    return f
