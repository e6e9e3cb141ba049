"""Attention next to XLA's and PyTorch's: `python benchmarks/bench_attention.py [--python PATH] [--gradient] [NAME ..]`

Processor time of one thread, in milliseconds: medians of calls in turns, each peer in a process of its own. PyTorch is
that of another Python (`--python`), or is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ROUNDS, LEAST_SECONDS = 5, 0.05


@dataclass(frozen=True)
class Case:
    """Shapes [batch, positions, heads, depth] of queries, and how they differ for keys."""

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    depth: int
    causal: bool = True
    dtype: str = "float32"


CASES = {
    "512": Case(1, 512, 512, 8, 8, 64),
    "1024": Case(1, 1024, 1024, 8, 8, 64),
    "2048": Case(1, 2048, 2048, 8, 8, 64),
    "4096": Case(1, 4096, 4096, 8, 8, 64),
    "full-512": Case(1, 512, 512, 8, 8, 64, causal=False),
    "full-1024": Case(1, 1024, 1024, 8, 8, 64, causal=False),
    "full-2048": Case(1, 2048, 2048, 8, 8, 64, causal=False),
    "wide-1024": Case(1, 1024, 1024, 8, 8, 128),
    "grouped-1024": Case(1, 1024, 1024, 8, 2, 64),
    "bert-128": Case(1, 128, 128, 12, 12, 64, causal=False),
    "vit-197": Case(1, 197, 197, 12, 12, 64, causal=False),
    "small-64": Case(1, 64, 64, 4, 4, 32, causal=False),
    "tiny-32": Case(1, 32, 32, 4, 4, 16),
    "decode-1024": Case(1, 1, 1024, 12, 12, 64, causal=False),
    "bf16-1024": Case(1, 1024, 1024, 8, 8, 64, dtype="bfloat16"),
}


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of processor time of a call."""
    call()
    calls, start = 0, time.process_time()
    while True:
        call()
        calls += 1
        spent = time.process_time() - start
        if spent > LEAST_SECONDS:
            return spent / calls * 1e3


def jax_call(case: Case, gradient: bool, ours: bool) -> Callable[[], object]:
    """A call by JAX's XLA, or by us."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(0)

    def numbers(positions: int, heads: int) -> jax.Array:
        array = random.standard_normal((case.batch, positions, heads, case.depth)).astype("f4")
        return jnp.asarray(array, case.dtype)

    arguments = [numbers(case.queries, case.heads), *(numbers(case.keys, case.key_heads) for _ in range(2))]

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=case.causal)

    def total(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return (attend(q, k, v) * q).sum()

    function = jax.jit(jax.grad(total, (0, 1, 2)) if gradient else attend)
    if not ours:
        return lambda: jax.block_until_ready(function(*arguments))
    import stablehlo_py as shlo

    options = shlo.Options(cache_dir=None, threads=1)
    executable = shlo.compile(function.lower(*arguments).as_text(), options=options)
    arrays = [np.asarray(each) for each in arguments]
    print(executable.report().splitlines()[0], file=sys.stderr)
    return lambda: executable(*arrays)


def torch_call(case: Case, gradient: bool) -> Callable[[], object]:
    """A call by PyTorch, whose arrays are [batch, heads, positions, depth]."""
    import torch  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    shapes = [(case.queries, case.heads), *[(case.keys, case.key_heads)] * 2]
    arguments = [
        torch.randn(case.batch, heads, positions, case.depth, requires_grad=gradient).to(getattr(torch, case.dtype))
        for positions, heads in shapes
    ]
    grouped = case.heads != case.key_heads
    attend = torch.nn.functional.scaled_dot_product_attention

    def call() -> object:
        result = attend(*arguments, is_causal=case.causal, enable_gqa=grouped)
        if gradient:
            return torch.autograd.grad((result * arguments[0]).sum(), arguments)
        return result

    return call


def serve(peer: str, name: str, gradient: bool) -> None:
    """The process of a peer: a time for each line that comes in."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before libraries count their threads
    case = CASES[name]
    call = torch_call(case, gradient) if peer == "torch" else jax_call(case, gradient, peer == "ours")
    call()
    for _ in sys.stdin:
        print(timed(call), flush=True)


def compare(name: str, gradient: bool, python: str | None) -> None:
    """Measure a case, and print a row."""
    pythons = {"ours": sys.executable, "xla": sys.executable} | ({"torch": python} if python else {})
    environment = {**os.environ, **THREADS}
    workers = {}
    for peer, executable in pythons.items():
        command = [executable, __file__, "--serve", peer, name, *["--gradient"] * gradient]
        pipe = subprocess.PIPE
        workers[peer] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    times: dict[str, list[float]] = {peer: [] for peer in workers}
    for _ in range(ROUNDS):
        for peer, worker in workers.items():
            assert worker.stdin and worker.stdout
            worker.stdin.write("\n")
            worker.stdin.flush()
            times[peer].append(float(worker.stdout.readline()))
    for worker in workers.values():
        worker.communicate()
    medians = {peer: statistics.median(each) for peer, each in times.items()}
    ratios = " ".join(f"/{peer} {medians['ours'] / each:.2f}" for peer, each in medians.items() if peer != "ours")
    print(f"{name:14}", " ".join(f"{peer} {each:9.3f}" for peer, each in medians.items()), ratios, flush=True)


def main() -> None:
    """Measure the named cases, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", help="a Python that has PyTorch")
    parser.add_argument("--gradient", action="store_true", help="of the sum of queries times results")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.names[0], options.gradient)
        return
    for name in options.names or CASES:
        compare(name, options.gradient, options.python)


if __name__ == "__main__":
    main()
