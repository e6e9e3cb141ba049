"""Products of bf16 and of bytes next to PyTorch's (oneDNN), in turns, on one core: their time / ours.

python benchmarks/bench_matrix_units.py --torch PYTHON [--cpu amx] [--turns 15] [--constant] [word in the name ...]

PYTHON is an interpreter that has PyTorch; it need not be this one. Both processes run on one core, one at a time, and
measure the processor's time. Products of bf16 give bf16, of bytes i32. Packing is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

SECONDS = 0.005  # of one turn
SQUARES = [(n, n, n) for n in (512, 1024, 2048)]
OTHERS = [(256, 1024, 1024), (128, 768, 3072), (128, 3072, 768), (32, 4096, 4096), (16, 4096, 4096)]
FEW = [(8, 4096, 4096), (4, 4096, 4096), (1, 4096, 4096)]
CONVOLUTIONS = [
    (1, 56, 64, 3, 64),
    (1, 56, 64, 1, 256),
    (1, 28, 128, 3, 128),
    (1, 14, 256, 3, 256),
    (1, 7, 512, 3, 512),
]
PEER = """
import json, sys, time, os
os.sched_setaffinity(0, {int(sys.argv[1])})
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
def case(kind, type_, sizes):
    integers = type_ == "i8"
    def array(*shape):
        if integers:
            return torch.randint(-128, 128, shape, dtype=torch.int8)
        return torch.randn(shape).to(torch.bfloat16)
    if kind == "product":
        m, k, n = sizes
        a, b = array(m, k), array(k, n)
        if integers:
            return lambda: torch._int_mm(a, b)
        c = torch.empty(m, n, dtype=torch.bfloat16)
        return lambda: torch.mm(a, b, out=c)
    n, h, c, window, features = sizes
    x = array(n, c, h, h).to(memory_format=torch.channels_last)
    w = array(features, c, window, window).to(memory_format=torch.channels_last)
    return lambda: torch.nn.functional.conv2d(x, w, padding=window // 2)
for line in sys.stdin:
    kind, type_, sizes, seconds = json.loads(line)
    if type_:
        call = case(kind, type_, sizes)
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    print(sorted(times)[len(times) // 2], flush=True)
"""


def product(kind: str, type_: str, sizes: tuple[int, ...], cpu: str | None, constant: bool) -> Callable[[], object]:
    """A call of our program for a product or a convolution, whose second operand may be a constant of it."""
    import jax
    import jax.numpy as jnp
    import ml_dtypes
    import numpy as np

    import stablehlo_py as shlo

    random = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        if type_ == "i8":
            values = random.integers(-128, 128, shape).astype(np.int8)
        else:
            values = random.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)
        room = np.empty(values.nbytes + 64, np.uint8)  # where cache lines begin, as in PyTorch's and our own buffers
        room = room[-room.ctypes.data % 64 :][: values.nbytes].view(values.dtype).reshape(shape)
        room[...] = values
        return room

    result = jnp.int32 if type_ == "i8" else jnp.bfloat16
    if kind == "product":
        m, k, n = sizes
        arrays = array(m, k), array(k, n)

        def function(a: jax.Array, b: jax.Array) -> jax.Array:
            return jnp.matmul(a, b, preferred_element_type=result)
    else:
        n, h, c, window, features = sizes
        arrays = array(n, h, h, c), array(window, window, c, features)

        def function(a: jax.Array, b: jax.Array) -> jax.Array:
            layout = ("NHWC", "HWIO", "NHWC")
            return jax.lax.conv_general_dilated(
                a, b, (1, 1), "SAME", dimension_numbers=layout, preferred_element_type=result
            )

    if constant:
        a, b = arrays
        arrays, both = (a,), function

        def function(a: jax.Array) -> jax.Array:
            return both(a, b)

    text = jax.jit(function).lower(*arrays).as_text()
    executable = shlo.compile(text, options=shlo.Options(threads=1, **({"cpu": cpu} if cpu else {})))
    return lambda: executable(*arrays)


def measured(call: Callable[[], object]) -> float:
    """The median of the seconds that calls take, in one turn."""
    times = []
    end = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return statistics.median(times)


def work(kind: str, sizes: tuple[int, ...]) -> float:
    """Operations."""
    if kind == "product":
        m, k, n = sizes
        return 2.0 * m * k * n
    n, h, c, window, features = sizes
    return 2.0 * n * h * h * c * window * window * features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True, help="a Python that has PyTorch")
    parser.add_argument("--cpu", help="default: this one")
    parser.add_argument("--turns", type=int, default=41)
    parser.add_argument("--constant", action="store_true", help="the second operand is a constant of our program")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    command = [options.torch, "-c", PEER, str(core)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert peer.stdin is not None and peer.stdout is not None

    def theirs(kind: str, type_: str, sizes: tuple[int, ...]) -> float:
        peer.stdin.write(json.dumps([kind, type_, sizes, SECONDS]) + "\n")
        peer.stdin.flush()
        return float(peer.stdout.readline())

    shapes = [("product", each) for each in (*SQUARES, *OTHERS, *FEW)]
    shapes += [("convolution", each) for each in CONVOLUTIONS]
    for type_ in ("bf16", "i8"):
        for kind, sizes in shapes:
            name = f"{type_} {kind} {'x'.join(map(str, sizes))}"
            if not all(word in name for word in options.words) or (type_ == "i8" and kind == "convolution"):
                continue  # PyTorch has no convolution of bytes with sums in i32
            call = product(kind, type_, sizes, options.cpu, options.constant)
            measured(call), theirs(kind, type_, sizes)
            times = [(theirs(kind, "", sizes), measured(call)) for _ in range(options.turns)]
            them, us = (statistics.median(column) for column in zip(*times, strict=True))
            ratio = statistics.median(other / own for other, own in times)
            rate = work(kind, sizes) / us / 1e9
            quiet = min(other for other, _ in times) / min(own for _, own in times)
            print(
                f"{name:36} {us * 1e6:9.1f} us, {rate:6.0f} Gop/s; theirs {them * 1e6:9.1f} us; "
                f"ratio {ratio:.2f}, of the best turns {quiet:.2f}",
                flush=True,
            )
    peer.stdin.close()
    peer.wait()


if __name__ == "__main__":
    sys.exit(main())
