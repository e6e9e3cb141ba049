"""What native code needs for calls of a program (execution.py)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from stablehlo_py import forks
from stablehlo_py.backends.base import Code
from stablehlo_py.backends.cpu.native import NativeCode
from stablehlo_py.backends.cpu.threads import ThreadPool
from stablehlo_py.pjrt.blocks import Memory, calloc
from stablehlo_py.pjrt.fields import PLAN, RESULT, job_places
from stablehlo_py.runtime.memory import physical_memory
from stablehlo_py.runtime.program import CompiledProgram, Spec

# A program that costs less is run by the thread that asks for it: to hand it to another takes as long.
_INLINE_BYTES = 64 << 10

_lock = forks.Lock()
_pools: dict[int, ThreadPool] = {}
_never = calloc(64)  # a block that ends no loop


def plan_of(
    program: CompiledProgram,
    code: Code,
    types: Sequence[int],
    kinds: Sequence[int],
    memory: Memory,
    functions: NativeCode,
) -> int:
    """The address of the PLAN of a program, in `memory`; 0 where its calls are not native: it calls Python, runs as
    several processes, or not on the host. `types` and `kinds` are the element types and the kinds of memory of the
    results, as numbers."""
    sizes = [_bytes(spec) for spec in program.inputs]
    results = [_bytes(spec) for spec in program.outputs]
    largest = max([program.arena_bytes, *results], default=0)
    entry = code.entry if program.grid is None and program.dynamic is None and code.memory is None else None
    if entry is None or entry.workspace_bytes is None or code.calls_python or largest > physical_memory():
        return 0
    donated = dict(program.donations)
    words = []
    for number, spec in enumerate(program.outputs):
        shape = [size or 0 for size in spec.shape]
        values = {
            "type": types[number],
            "rank": len(shape),
            "dims": memory.numbers(shape),
            "bytes": results[number],
            "donated": donated.get(number, -1),
            "memory": kinds[number],
        }
        words += [values[name] for name in RESULT]
    plan = {
        "entry": entry.address,
        "constants": entry.constants,
        "workspace_bytes": entry.workspace_bytes,
        "num_inputs": len(sizes),
        "num_outputs": len(results),
        "sizes": memory.numbers(sizes),
        "results": memory.numbers(words),
        "parallel_for": 0,
        "parallel_context": 0,
        "interrupt": _never,
        "inline": int(_is_cheap(program, sum(sizes) + sum(results))),
        "donates": int(bool(donated)),
        **job_places(len(sizes), len(results), entry.workspace_bytes),
    }
    if program.uses_pool and program.threads > 1:
        plan["parallel_for"] = functions.address("shlo_pool_try")
        plan["parallel_context"] = _pool(program.threads).address
    return memory.numbers([plan[name] for name in PLAN])


def _bytes(spec: Spec) -> int:
    return math.prod(size or 0 for size in spec.shape) * spec.dtype.itemsize


def _is_cheap(program: CompiledProgram, size: int) -> bool:
    """Whether a call takes less than handing it to another thread: by the compiler's estimate no part of it is worth
    more than one thread, and it goes over few bytes."""
    return not (program.loops or program.uses_pool or program.symbols) and size + program.arena_bytes <= _INLINE_BYTES


def _pool(threads: int) -> ThreadPool:
    """The pool of this platform with so many threads. Native code lends it to one call at a time (`shlo_pool_try`), so
    it is taken once, and for good."""
    with _lock:
        if threads not in _pools:
            made = ThreadPool(threads)
            made.acquire()
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # its threads work until the process ends
            _pools[threads] = made
        return _pools[threads]
