"""Kernels of dots and convolutions next to jax.jit, interleaved, on one core: GFLOP/s, and our time as a share of
XLA's.

python benchmarks/bench_dot.py [--cpu avx2] [word in the name ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "test" / "helpers"))
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before jax counts its threads

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from one_kernel import Compiled, aligned, compile_kernel  # noqa: E402

from stablehlo_py.backends.cpu.target import NAMED, host_target  # noqa: E402
from stablehlo_py.dialect import build  # noqa: E402
from stablehlo_py.dialect.context import make_context  # noqa: E402
from stablehlo_py.mlir import func_dialect, ir  # noqa: E402

ROUNDS = 7
MILLISECONDS = 60


@dataclass(frozen=True)
class Problem:
    """A fusion, the same as a jax function, and its work in floating-point operations."""

    name: str
    kind: str
    shapes: tuple[tuple[int, ...], ...]
    body: Callable[..., ir.Value]
    function: Callable[..., jax.Array]
    flops: float


def matmul(batch: int, m: int, k: int, n: int, transposed: bool = False) -> Problem:
    """Row-major times row-major; `transposed`: times the transpose of a row-major matrix."""
    lead = (batch,) if batch > 1 else ()
    right = (*lead, n, k) if transposed else (*lead, k, n)
    first = len(lead)

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        result = build.tensor((*lead, m, n), ir.F32Type.get())
        axes = list(range(first))
        contract = [first + (1 if transposed else 0)]
        return build.value(
            "dot", result, x, y, lhs_batch=axes, rhs_batch=axes, lhs_contract=[first + 1], rhs_contract=contract
        )

    name = f"{f'{batch} x ' if batch > 1 else ''}{m}x{k}x{n}{' (transposed)' if transposed else ''}"
    function = (lambda x, y: x @ jnp.swapaxes(y, -1, -2)) if transposed else (lambda x, y: x @ y)
    return Problem(name, "dot", ((*lead, m, k), right), body, function, 2.0 * batch * m * k * n)


def convolution(
    name: str,
    lhs: Sequence[int],
    rhs: Sequence[int],
    stride: int = 1,
    groups: int = 1,
    layout: str = "NHWC",
    **more: object,
) -> Problem:
    """A convolution with SAME padding."""
    kernel = "HWIO" if layout == "NHWC" else "OIHW"
    spatial = [layout.index(d) for d in "HW"]
    dilation = tuple(more.get("lhs_dilation", (1, 1)))

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, y, (stride, stride), edges, dilation, (1, 1), (layout, kernel, layout), groups
        )

    window = [rhs[kernel.index(d)] for d in "HW"]
    sizes = [(lhs[d] - 1) * grow + 1 for d, grow in zip(spatial, dilation, strict=True)]
    if "padding" in more:
        edges = more["padding"]
    else:
        totals = [max(0, (-(-size // stride) - 1) * stride + w - size) for size, w in zip(sizes, window, strict=True)]
        edges = [(total // 2, total - total // 2) for total in totals]
    out = jax.eval_shape(function, *(jax.ShapeDtypeStruct(tuple(s), np.float32) for s in (lhs, rhs))).shape

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        return build.value(
            "convolution",
            build.tensor(out, ir.F32Type.get()),
            x,
            y,
            strides=[stride, stride],
            padding=[edge for pair in edges for edge in pair],
            lhs_dilation=dilation,
            rhs_dilation=[1, 1],
            reversal=[0, 0],
            input_dims=[layout.index(d) for d in "NCHW"],
            kernel_dims=[kernel.index(d) for d in "IOHW"],
            output_dims=[layout.index(d) for d in "NCHW"],
            feature_groups=groups,
            batch_groups=1,
        )

    useful = 2.0 * np.prod(out) * np.prod(window) * rhs[kernel.index("I")] / np.prod(dilation)
    return Problem(name, "convolution", (tuple(lhs), tuple(rhs)), body, function, useful)


PROBLEMS = [
    matmul(1, 128, 128, 128),
    matmul(1, 512, 512, 512),
    matmul(1, 1024, 1024, 1024),
    matmul(1, 128, 768, 768),
    matmul(1, 128, 768, 768, True),
    matmul(1, 128, 768, 3072),
    matmul(1, 128, 3072, 768),
    matmul(1, 8, 768, 3072),
    matmul(1, 8, 768, 3072, True),
    matmul(1, 1, 4096, 4096),
    matmul(1, 1, 4096, 4096, True),
    matmul(1, 4096, 4096, 1),
    matmul(12, 128, 64, 128, True),
    matmul(12, 128, 128, 64),
    matmul(10000, 6, 6, 6),
    convolution("conv 56x56x64 3x3", (1, 56, 56, 64), (3, 3, 64, 64)),
    convolution("conv 28x28x128 3x3", (1, 28, 28, 128), (3, 3, 128, 128)),
    convolution("conv 14x14x256 3x3", (1, 14, 14, 256), (3, 3, 256, 256)),
    convolution("conv 7x7x512 3x3", (1, 7, 7, 512), (3, 3, 512, 512)),
    convolution("conv 56x56x64 1x1 256", (1, 56, 56, 64), (1, 1, 64, 256)),
    convolution("conv first layer", (1, 224, 224, 3), (7, 7, 3, 64), 2),
    convolution("conv stride 2", (1, 56, 56, 128), (3, 3, 128, 128), 2),
    convolution("depthwise 112x112x32", (1, 112, 112, 32), (3, 3, 1, 32), 1, 32),
    convolution("grouped 28x28x128/32", (1, 28, 28, 128), (3, 3, 4, 128), 1, 32),
    convolution("nchw 56x56x64", (1, 64, 56, 56), (64, 64, 3, 3), layout="NCHW"),
    convolution("nchw 14x14x256 stride 2", (1, 256, 14, 14), (256, 256, 3, 3), 2, layout="NCHW"),
    convolution("transposed, stride 2", (1, 28, 28, 64), (4, 4, 64, 64), lhs_dilation=(2, 2), padding=[(2, 2), (2, 2)]),
    convolution(
        "transposed, stride 16", (1, 16, 16, 32), (16, 16, 32, 16), lhs_dilation=(16, 16), padding=[(15, 15), (15, 15)]
    ),
]


def compiled(problem: Problem, cpu: str | None) -> tuple[Compiled, float]:
    """Our kernel, and the seconds that generating and compiling it took."""
    context = make_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [build.tensor(sizes, ir.F32Type.get()) for sizes in problem.shapes]
        with ir.InsertionPoint(module.body):
            function = func_dialect.FuncOp("fusion_0", (inputs, []), visibility="private")
            function.attributes["hlo.fusion"] = ir.StringAttr.get(problem.kind)
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            value = problem.body(*block.arguments)
            func_dialect.ReturnOp([value])
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [value.type]))
        text = str(module)
    start = time.perf_counter()
    result = compile_kernel(text, NAMED[cpu] if cpu else host_target())
    return result, time.perf_counter() - start


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call, over as many as fill a short time."""
    start = time.perf_counter()
    call()
    count = max(1, int(MILLISECONDS / 1e3 / max(time.perf_counter() - start, 1e-7)))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measure(problem: Problem, cpu: str | None) -> None:
    """Print one line."""
    kernel, build_time = compiled(problem, cpu)
    arrays = []
    for size, dtype in (*kernel.inputs, *kernel.outputs):
        array = aligned(int(np.prod(size)) * dtype.itemsize).view(dtype).reshape(size)
        array[...] = np.random.default_rng(0).standard_normal(size)
        arrays.append(array)
    scratch = [aligned(kernel.kernel.shared_bytes + 64), aligned(kernel.kernel.private_bytes + 64)]
    pointers = [array.ctypes.data for array in (*arrays, *scratch)]
    calls = [(kernel._functions[phase.symbol], phase.iterations) for phase in kernel.kernel.phases]

    def ours() -> None:
        for function, iterations in calls:
            function(*pointers, 0, iterations)

    reference = jax.jit(problem.function)
    arguments = [jnp.asarray(array) for array in arrays[:2]]
    ours()
    expected = np.asarray(reference(*arguments))
    error = np.abs(arrays[2] - expected).max() / np.abs(expected).max()
    times = [(seconds(ours), seconds(lambda: reference(*arguments).block_until_ready())) for _ in range(ROUNDS)]
    mine, theirs = (float(np.median(column)) for column in zip(*times, strict=True))
    ratio = float(np.median([one / other for one, other in times]))
    print(
        f"{problem.name:28} ours {problem.flops / mine / 1e9:7.1f}  xla {problem.flops / theirs / 1e9:7.1f} GFLOP/s  "
        f"ratio {ratio:5.2f}  {mine * 1e6:9.1f} us  error {error:.0e}  compile {build_time * 1e3:5.1f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", choices=sorted(NAMED), help="default: this one")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    for problem in PROBLEMS:
        if all(word in problem.name for word in options.words):
            measure(problem, options.cpu)


if __name__ == "__main__":
    main()
