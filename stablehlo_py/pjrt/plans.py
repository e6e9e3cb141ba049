"""What native code needs for calls of a program (execution.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stablehlo_py.backends.base import Code
from stablehlo_py.backends.cpu import helpers
from stablehlo_py.backends.cpu.grid_memory import FAILURES
from stablehlo_py.backends.cpu.layout import BARRIER_BYTES, HEADER_BYTES, PROCESS_BYTES, RECORD_BYTES, STUCK
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.threads import ThreadPool, pool_for
from stablehlo_py.errors import CommunicationError
from stablehlo_py.pjrt.blocks import Memory, calloc
from stablehlo_py.pjrt.fields import GRID, PLAN, RESULT, SHARED_EVENTS, job_places
from stablehlo_py.runtime.memory import physical_memory
from stablehlo_py.runtime.program import CompiledProgram, GridPlan, Spec

# A program that costs less is run by the thread that asks for it: to hand it to another takes as long.
_INLINE_BYTES = 64 << 10

_LINE = 64  # of the cache
_never = calloc(64)  # a block that ends no loop


def plan_of(
    program: CompiledProgram,
    code: Code,
    types: Sequence[int],
    kinds: Sequence[int],
    orders: Sequence[Sequence[int]],
    shapes: Sequence[Sequence[int]],
    memory: Memory,
    functions: NativeCode,
    driver: int = 0,
) -> int:
    """The address of the PLAN of a program, in `memory`; 0 where its calls are not native: it calls Python, or runs as
    processes that need more than to meet, or on a GPU and not as `Asked` yet. `driver`: the DRIVER of that. Of results,
    `types`, `kinds` and `shapes` are the element types and the kinds of memory, as numbers, and the shapes. `orders`:
    where the orders of the dimensions of arguments and of results are; 0 for arguments that are row-major."""
    sizes = [_bytes(spec) for spec in program.inputs]
    results = [_bytes(spec) for spec in program.outputs]
    largest = max([program.arena_bytes, *results], default=0)
    grid = program.grid or GridPlan(1, 1)
    only_meets = not (grid.ports or grid.channels or grid.random_sites)
    if not only_meets or program.dynamic is not None:
        return 0
    here = _asked(code, driver) if driver else _entered(code, functions, program, largest)
    if here is None:
        return 0
    donated = dict(program.donations)
    words = []
    for number in range(len(results)):
        values = {
            "type": types[number],
            "rank": len(shapes[number]),
            "dims": memory.numbers(shapes[number]),
            "order": orders[1][number],
            "bytes": results[number],
            "donated": donated.get(number, -1),
            "memory": kinds[number],
        }
        words += [values[name] for name in RESULT]
    plan = {
        "workspace_bytes": 0,
        "num_inputs": len(sizes),
        "num_outputs": len(results),
        "sizes": memory.numbers(sizes),
        "orders": memory.numbers(orders[0]),
        "results": memory.numbers(words),
        "interrupt": _never,
        "inline": int(not grid.barriers and _is_cheap(program, grid.processes * (sum(sizes) + sum(results)))),
        "donates": int(bool(donated)),
        "devices": grid.processes,
        "grid": _grid(grid, memory) if grid.communicates else 0,
        "sources": 1 << (2 * len(donated)).bit_length(),
        **here,
    }
    plan |= job_places(len(sizes), len(results), plan["workspace_bytes"])
    return memory.numbers([plan.get(name, 0) for name in PLAN])


def _entered(code: Code, functions: NativeCode, program: CompiledProgram, largest: int) -> dict[str, int] | None:
    """What the plan of a program for the host has of its code; None: its calls are not native."""
    entry = code.entry if code.memory is None else None
    if entry is None or entry.workspace_bytes is None or code.calls_python or largest > physical_memory():
        return None
    here = {"entry": entry.address, "constants": entry.constants, "workspace_bytes": entry.workspace_bytes}
    processes = 1 if program.grid is None else program.grid.processes
    if program.uses_pool and program.threads > 1 and processes == 1:  # several are threads themselves
        here["parallel_for"] = functions.address("shlo_pool_try")
        here["parallel_context"] = _pool(program.threads).address
    return here


def _asked(code: Code, driver: int) -> dict[str, int] | None:
    """That of a program for a GPU."""
    asked = getattr(code, "asked", None)
    if asked is None:
        return None
    return {
        "entry": asked.entry,
        "constants": asked.constants,
        "arena": asked.workspace,
        "stream": asked.stream,
        "replay": asked.replay,
        "driver": driver,
    }


def _grid(grid: GridPlan, memory: Memory) -> int:
    """The address of the GRID of a program whose processes communicate."""
    count = grid.processes
    labels = [str(divmod(number, grid.partitions)) for number in range(count)]
    failures = [FAILURES.get(code, "the call was ended").format(label) for code in range(STUCK + 1) for label in labels]
    texts = {
        "failures": [f"error[{CommunicationError.code}]: {sentence}" for sentence in failures],
        "labels": [f"\n  process {label} was last at " for label in labels],
        "sites": [*grid.sites, "the start"],
    }
    longest = {name: max(len(text.encode()) for text in each) for name, each in texts.items()}
    sizes = {
        "events": SHARED_EVENTS + 8 * count,
        "header": HEADER_BYTES,
        "records": count * RECORD_BYTES,
        "inputs": count * PROCESS_BYTES,
        "barriers": grid.barriers * count * BARRIER_BYTES,
    }
    places, at = {}, 0
    for name, size in sizes.items():
        places[name], at = at, at + -(-size // _LINE) * _LINE
    values = {
        **places,
        "bytes": at,
        "end": helpers.code(helpers.GRID).address("shlo_grid_end"),
        "num_sites": len(grid.sites),
        "message_bytes": longest["failures"] + count * (longest["labels"] + longest["sites"]) + 1,
        **{name: memory.numbers([memory.text(text)[0] for text in each]) for name, each in texts.items()},
    }
    return memory.numbers([values[name] for name in GRID])


def _bytes(spec: Spec) -> int:
    return math.prod(size or 0 for size in spec.shape) * spec.dtype.itemsize


def _is_cheap(program: CompiledProgram, size: int) -> bool:
    """Whether a call takes less than handing it to another thread: by the compiler's estimate no part of it is worth
    more than one thread, and it goes over few bytes."""
    return not (program.loops or program.uses_pool or program.symbols) and size + program.arena_bytes <= _INLINE_BYTES


def _pool(threads: int) -> ThreadPool:
    """The pool of this platform with so many threads, which have started."""
    pool = pool_for(threads)
    pool.start()
    return pool
