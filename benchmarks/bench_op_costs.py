"""What a vector of each op takes on this core, next to what phases are estimated by: alone, and what it adds to eight
additions and multiplications, which is what `CpuTarget.op_ns` holds.

python benchmarks/bench_op_costs.py [f32 | f64] [op ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "test" / "helpers"))

import numpy as np
from one_kernel import aligned, build_fusion, compile_kernel

from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import host_target
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir

BYTES = 16 << 10  # of an operand
BINARY = "add multiply divide maximum power remainder atan2 zeta".split()
UNARY = """sqrt rsqrt cbrt exponential exponential_minus_one log log_plus_one logistic tanh sine cosine tan sinh cosh
    asin acos asinh acosh atanh erf erfc erf_inv lgamma digamma bessel_i1e floor sign abs""".split()


def vector_ns(name: str, dtype: str, before: int) -> float:
    """Of a loop that computes the op, if it has a name, after so many others."""
    bytes_ = int(dtype[1:]) // 8
    count = BYTES // bytes_

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        value = x
        for number in range(before):
            value = build.like("add" if number % 2 else "multiply", value, y)
        if not name:
            return value
        return build.like(name, value, y) if name in BINARY else build.like(name, value)

    kernel = compile_kernel(build_fusion("loop", [f"tensor<{count}x{dtype}>"] * 2, body), host_target())
    arrays = [aligned(BYTES).view(f"f{bytes_}") for _ in range(3)]
    low, high = (1.2, 2.0) if name in ("acosh", "zeta") else (0.2, 0.45)
    for array in arrays:
        array[...] = np.random.default_rng(0).uniform(low, high, count)
    call, best = kernel.bound([array.ctypes.data for array in arrays]), float("inf")
    for _ in range(300):
        started = time.perf_counter()
        for _ in range(10):
            call()
        best = min(best, (time.perf_counter() - started) / 10)
    return best * 1e9 / (BYTES / (host_target().vector_bits // 8))


def main() -> None:
    dtype, *names = sys.argv[1:] or ["f32"]
    wide = dtype == "f64"
    alone, beside = (vector_ns("", dtype, before) for before in (1, 8))
    for name in names or [*BINARY, *UNARY]:
        measured = host_target().op_ns.get(f"hlo.{name}")
        estimate = measured[wide] if measured else COSTS.op_ns(f"hlo.{name}") * host_target().flop_share
        first, added = vector_ns(name, dtype, 1) - alone, vector_ns(name, dtype, 8) - beside
        print(f"{dtype} {name:24} adds {first:7.2f} ns to one, {added:7.2f} to eight; estimate {estimate:7.2f}")


if __name__ == "__main__":
    main()
