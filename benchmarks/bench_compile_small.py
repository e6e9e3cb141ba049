"""Compile time of small programs, as JAX's eager mode makes them: 50 kinds of one operation, next to XLA's.

    python benchmarks/bench_compile_small.py               # a row a kind, medians, and where the time went
    python benchmarks/bench_compile_small.py --kinds sort,add --rounds 20

Each program is compiled and loaded in a warm process, without a cache, from the bytes that a platform of JAX gets. In
a round one compiler compiles all kinds, as in a process that runs JAX eagerly, then JAX's CPU backend does. A kind's
time is the median of the rounds. The stages are those of our compilations: where the medians of all kinds went. Kernels
are compiled in every round, though the process knows their machine code; that of entries, which most programs share, is
known.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib import _jax
from jaxlib.mlir.dialects import stablehlo as dialect

import stablehlo_py as shlo
from stablehlo_py import api, compiler
from stablehlo_py.backends.base import get_backend
from stablehlo_py.backends.cpu import compile
from stablehlo_py.backends.cpu.backend import CpuBackend
from stablehlo_py.backends.cpu.light_objects import known_objects_of, object_of
from stablehlo_py.backends.cpu.objects import ObjectCompiler
from stablehlo_py.backends.cpu.signature import SYMBOL
from stablehlo_py.mlir import stablehlo

OPTIONS = shlo.Options(isolate=False, cache_dir=None)


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    """An argument of that shape."""
    return jax.ShapeDtypeStruct(shape, np.float32)


def i32(*shape: int) -> jax.ShapeDtypeStruct:
    """The same of integers."""
    return jax.ShapeDtypeStruct(shape, np.int32)


def c64(*shape: int) -> jax.ShapeDtypeStruct:
    """The same of complex numbers."""
    return jax.ShapeDtypeStruct(shape, np.complex64)


def b1(*shape: int) -> jax.ShapeDtypeStruct:
    """The same of truth values."""
    return jax.ShapeDtypeStruct(shape, np.bool_)


KINDS: dict[str, tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]]] = {
    "abs": (jnp.abs, (i32(7),)),
    "add": (jnp.add, (f32(3, 4), f32(3, 4))),
    "add a scalar": (lambda x: x + 1, (f32(12),)),
    "all": (jnp.all, (b1(3, 5),)),
    "argmax": (lambda x: jnp.argmax(x, 1), (f32(4, 9),)),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (f32(6),)),
    "broadcast": (lambda x: jnp.broadcast_to(x, (8, 5)), (f32(5),)),
    "cholesky": (jnp.linalg.cholesky, (f32(4, 4),)),
    "clip": (lambda x: lax.clamp(0.0, x, 1.0), (f32(33),)),
    "compare": (jnp.less, (f32(4, 4), f32(4, 4))),
    "complex multiply": (jnp.multiply, (c64(3, 3), c64(3, 3))),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), (f32(3, 4), f32(2, 4))),
    "conjugate": (jnp.conj, (c64(5),)),
    "convert": (lambda x: x.astype(jnp.int32), (f32(4, 3),)),
    "convert to bf16": (lambda x: x.astype(jnp.bfloat16), (f32(16, 16),)),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (f32(1, 8, 8, 3), f32(3, 3, 3, 4)),
    ),
    "cumsum": (lambda x: jnp.cumsum(x, 0), (f32(10),)),
    "divide": (jnp.divide, (f32(5, 2), f32(5, 2))),
    "dot": (jnp.matmul, (f32(8, 16), f32(16, 4))),
    "dynamic slice": (lambda x, i: lax.dynamic_slice(x, (i,), (3,)), (f32(10), i32())),
    "dynamic update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)), (f32(10), f32(2), i32())),
    "erf": (lax.erf, (f32(9),)),
    "exponential": (jnp.exp, (f32(3, 4),)),
    "floor": (jnp.floor, (f32(4),)),
    "gather": (lambda x, i: x[i], (f32(10, 3), i32(4))),
    "integer divide": (jnp.floor_divide, (i32(6), i32(6))),
    "iota": (lambda: jnp.arange(12), ()),
    "iota in two dimensions": (lambda: lax.broadcasted_iota(jnp.float32, (4, 4), 1), ()),
    "logarithm": (jnp.log, (f32(20),)),
    "logical and": (jnp.logical_and, (b1(5), b1(5))),
    "maximum": (lambda x: jnp.max(x, 0), (f32(6, 8),)),
    "mean": (jnp.mean, (f32(4, 5),)),
    "negate": (jnp.negative, (f32(3),)),
    "pad": (lambda x: jnp.pad(x, 2), (f32(4, 4),)),
    "population count": (lax.population_count, (i32(8),)),
    "power": (jnp.power, (f32(4), f32(4))),
    "product": (lambda x: jnp.prod(x, 1), (f32(3, 3),)),
    "random bits": (
        lambda k: jax.random.bits(jax.random.wrap_key_data(k), (8,)),
        (jax.ShapeDtypeStruct((2,), "uint32"),),
    ),
    "reshape": (lambda x: x.reshape(4, 3), (f32(3, 4),)),
    "reverse": (lambda x: x[::-1], (f32(7, 2),)),
    "scatter": (lambda x, i, u: x.at[i].set(u), (f32(10), i32(3), f32(3))),
    "scatter add": (lambda x, i, u: x.at[i].add(u), (f32(10, 2), i32(3), f32(3, 2))),
    "select": (jnp.where, (b1(4, 4), f32(4, 4), f32(4, 4))),
    "sine": (jnp.sin, (f32(8),)),
    "slice": (lambda x: x[1:3], (f32(6, 2),)),
    "softmax": (jax.nn.softmax, (f32(4, 10),)),
    "sort": (jnp.sort, (f32(20),)),
    "sum": (jnp.sum, (f32(3, 4),)),
    "tanh": (jnp.tanh, (f32(16, 8),)),
    "transpose": (jnp.transpose, (f32(3, 4),)),
}


def program_of(
    function: Callable[..., Any], arguments: tuple[jax.ShapeDtypeStruct, ...], committed: bool = False
) -> tuple[bytes, Any]:
    """What a platform of JAX gets, and the module of JAX's own; of arguments that are `committed` to a device."""
    if committed:
        place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        arguments = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=place) for each in arguments)
    module = jax.jit(function).lower(*arguments).compiler_ir("stablehlo")
    version = dialect.get_smaller_version(dialect.get_current_version(), stablehlo.get_current_version())
    return _jax.mlir.serialize_portable_artifact(module, version, True), module


def ours(program: bytes) -> object:
    """Compile and load it, as the platform does."""
    made = api.compile_program(program, options=OPTIONS)
    return get_backend(made.backend).load(made)


def made_of(texts: Sequence[str]) -> list[bytes]:
    """Object files of kernels, as of ones that were never compiled before; those of entries where they are known."""
    return [object_of(text) if SYMBOL in text else known_objects_of([text])[0] for text in texts]


def xlas(module: Any) -> object:
    """The same by XLA."""
    client = jax.devices("cpu")[0].client
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    return client.compile_and_load(module, executable_devices=devices, compile_options=_jax.CompileOptions())


# --- where the time goes ---------------------------------------------------------------------------------------------

TIMES: dict[str, float] = {}
clock = time.perf_counter


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Count the time inside as that of a stage, and as no other's."""
    global _inner
    outer, _inner = _inner, 0.0
    started = clock()
    try:
        yield
    finally:
        passed = clock() - started
        TIMES[what] = TIMES.get(what, 0.0) + passed - _inner
        _inner = outer + passed


_inner = 0.0


def watch(home: Any, name: str, stage: Callable[..., str]) -> None:
    """Count the calls of a function as a stage, which the arguments may name."""
    function = getattr(home, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        with timed(stage(*arguments)):
            return function(*arguments, **named)

    setattr(home, name, watched)


def main() -> None:
    """Print a row for each kind, and the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of the kinds, with commas between them")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--committed", action="store_true", help="arguments on a device, which JAX writes in Shardy")
    parser.add_argument("--processor", action="store_true", help="our processor time, for a machine that does more")
    arguments = parser.parse_args()
    global clock
    clock = time.thread_time if arguments.processor else time.perf_counter
    jax.config.update("jax_platforms", "cpu")
    compile.known_objects_of = made_of
    programs = {name: program_of(*KINDS[name], arguments.committed) for name in arguments.kinds.split(",")}
    for program, module in programs.values():  # imports
        ours(program)
        xlas(module)
    watch(api, "module_for", lambda *_: "reading")
    watch(compiler, "_run_module_stages", lambda *_: "passes")
    watch(CpuBackend, "compile", lambda *_: "kernels")
    watch(ObjectCompiler, "finish", lambda *_: "machine code")
    watch(compile, "_light_objects", lambda *_: "machine code")
    watch(CpuBackend, "load", lambda *_: "loading")
    rows = measured(programs, arguments.rounds)
    print(f"{'kind':24} {'ours, ms':>9} {'XLA, ms':>9}")
    for name, (mine, its, _) in rows.items():
        print(f"{name:24} {1e3 * mine:9.2f} {1e3 * its:9.2f}")
    own, other, _ = zip(*rows.values(), strict=True)
    print(f"{'median':24} {1e3 * median(own):9.2f} {1e3 * median(other):9.2f}")
    print("\nstage, median of the kinds, ms")
    for stage in dict.fromkeys(stage for *_, stages in rows.values() for stage in stages):
        print(f"{stage:24} {1e3 * median(row[2].get(stage, 0.0) for row in rows.values()):9.2f}")


Row = tuple[float, float, dict[str, float]]  # seconds: ours, XLA's, and of our stages


def measured(programs: dict[str, tuple[bytes, Any]], rounds: int) -> dict[str, Row]:
    """Medians of each kind."""
    own, other = ({name: list[float]() for name in programs} for _ in range(2))
    stages: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, (program, _) in programs.items():
            TIMES.clear()
            started = clock()
            with timed("all else"):
                ours(program)
            own[name].append(clock() - started)
            stages[name].append(dict(TIMES))
        for name, (_, module) in programs.items():
            started = time.perf_counter()
            xlas(module)
            other[name].append(time.perf_counter() - started)
    return {name: (median(own[name]), median(other[name]), _medians(stages[name])) for name in programs}


def _medians(stages: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in stages for name in each)
    return {name: median(each.get(name, 0.0) for each in stages) for name in names}


if __name__ == "__main__":
    main()
