"""CPU time to compile programs that are large in one way each: where doubling the size more than doubles the time, a
part of the compiler is superlinear.

    python benchmarks/bench_scaling.py                       # all families
    python benchmarks/bench_scaling.py 'chain*' --sizes 500 1000 2000
    python benchmarks/bench_scaling.py --sizes 1000 10000 100000 --plot docs/compile-time.svg

Prints, for each family and size, the CPU time of all threads in seconds, which the load of the machine
hardly moves, and the exponent between the last two sizes (1: linear).
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import stablehlo_py as shlo

T = "tensor<8x8xf32>"
Family = Callable[[int], str]


def chain(n: int) -> str:
    """Functions of which each calls the one before."""
    functions = [f"func.func private @f0(%0: {T}) -> {T} {{\n  return %0 : {T}\n}}"]
    for i in range(1, n + 1):
        functions.append(
            f"func.func private @f{i}(%0: {T}) -> {T} {{\n  %1 = call @f{i - 1}(%0) : ({T}) -> {T}\n"
            f"  %2 = stablehlo.add %1, %0 : {T}\n  return %2 : {T}\n}}"
        )
    body = f"  %1 = call @f{n}(%0) : ({T}) -> {T}\n  return %1 : {T}\n"
    return "\n".join([*functions, f"func.func @main(%0: {T}) -> {T} {{\n{body}}}"])


def calls(n: int) -> str:
    """Calls of one function, one after the other."""
    function = f"func.func private @f(%0: {T}) -> {T} {{\n  %1 = stablehlo.sine %0 : {T}\n  return %1 : {T}\n}}\n"
    return function + _main([f"%{i + 1} = func.call @f(%{i}) : ({T}) -> {T}" for i in range(n)])


def line(n: int) -> str:
    """Elementwise ops, one after the other."""
    return _main([f"%{i + 1} = stablehlo.add %{i}, %0 : {T}" for i in range(n)])


def products(n: int) -> str:
    """Matrix products, one after the other."""
    dot = f"stablehlo.dot_general %I, %0, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}"
    return _main([f"%{i + 1} = {dot.replace('%I', f'%{i}')}" for i in range(n)])


def reductions(n: int) -> str:
    """Sums of rows, subtracted from them, one after the other."""
    ops = ["%zero = stablehlo.constant dense<0.0> : tensor<f32>"]
    for i in range(n):
        ops += [
            f"%s{i} = stablehlo.reduce(%{i} init: %zero) applies stablehlo.add across dimensions = [1] : ({T}, "
            "tensor<f32>) -> tensor<8xf32>",
            f"%b{i} = stablehlo.broadcast_in_dim %s{i}, dims = [0] : (tensor<8xf32>) -> {T}",
            f"%{i + 1} = stablehlo.subtract %{i}, %b{i} : {T}",
        ]
    return _main(ops, n)


def loops(n: int) -> str:
    """While loops, one after the other."""
    ops = ["%zero = stablehlo.constant dense<0> : tensor<i32>", "%one = stablehlo.constant dense<1> : tensor<i32>"]
    for i in range(n):
        ops.append(
            f"%w{i}, %{i + 1} = stablehlo.while(%a = %zero, %b = %{i}) : tensor<i32>, {T} cond {{\n"
            f"  %c = stablehlo.compare LT, %a, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "  stablehlo.return %c : tensor<i1>\n} do {\n"
            f"  %d = stablehlo.add %a, %one : tensor<i32>\n  %e = stablehlo.cosine %b : {T}\n"
            f"  stablehlo.return %d, %e : tensor<i32>, {T}\n}}"
        )
    return _main(ops, n)


def nested(n: int) -> str:
    """Branches inside branches; as many as a fiftieth of the size, and no more than are not refused."""
    depth, body = min(max(n // 50, 1), 100), "%last = stablehlo.sine %0 : " + T + f"\nstablehlo.return %last : {T}"
    for i in range(depth):
        other = f"%o{i} = stablehlo.cosine %0 : {T}\nstablehlo.return %o{i} : {T}"
        body = f'%i{i} = "stablehlo.if"(%p) ({{\n{body}\n}}, {{\n{other}\n}}) : (tensor<i1>) -> {T}\n'
        body += f"stablehlo.return %i{i} : {T}"
    body = body.removesuffix(f"stablehlo.return %i{depth - 1} : {T}")
    return f"func.func @main(%0: {T}, %p: tensor<i1>) -> {T} {{\n{body}\nreturn %i{depth - 1} : {T}\n}}"


def results(n: int) -> str:
    """Many results."""
    ops = [f"%{i + 1} = stablehlo.power %0, %0 : {T}" for i in range(n)]
    types = ", ".join([T] * n)
    values = ", ".join(f"%{i + 1}" for i in range(n))
    return f"func.func @main(%0: {T}) -> ({types}) {{\n" + "\n".join(ops) + f"\nreturn {values} : {types}\n}}"


def arguments(n: int) -> str:
    """Many arguments, added up."""
    parameters = ", ".join(f"%a{i}: {T}" for i in range(n))
    ops = ["%0 = stablehlo.sine %a0 : " + T, *(f"%{i + 1} = stablehlo.add %{i}, %a{i} : {T}" for i in range(n))]
    return f"func.func @main({parameters}) -> {T} {{\n" + "\n".join(ops) + f"\nreturn %{n} : {T}\n}}"


def concatenation(n: int) -> str:
    """Many operands of one concatenation."""
    ops = [f"%s{i} = stablehlo.slice %0 [{i % 8}:{i % 8 + 1}, 0:8] : ({T}) -> tensor<1x8xf32>" for i in range(n)]
    values, types = ", ".join(f"%s{i}" for i in range(n)), ", ".join(["tensor<1x8xf32>"] * n)
    ops.append(f"%r = stablehlo.concatenate {values}, dim = 0 : ({types}) -> tensor<{n}x8xf32>")
    body = "\n".join(ops)
    return f"func.func @main(%0: {T}) -> tensor<{n}x8xf32> {{\n{body}\nreturn %r : tensor<{n}x8xf32>\n}}"


def fan(n: int) -> str:
    """One value with many users."""
    ops = [f"%u{i} = stablehlo.multiply %0, %{i} : {T}\n%{i + 1} = stablehlo.sine %u{i} : {T}" for i in range(n)]
    return _main(ops, n)


def constants(n: int) -> str:
    """Many constants that differ."""
    ops = [
        f"%c{i} = stablehlo.constant dense<{i}.5> : {T}\n%{i + 1} = stablehlo.maximum %{i}, %c{i} : {T}"
        for i in range(n)
    ]
    return _main(ops, n)


def tables(n: int) -> str:
    """Many constants that differ, whose elements differ too."""
    ops = []
    for i in range(n):
        rows = ", ".join("[" + ", ".join(f"{i}.{row}{column}" for column in range(8)) + "]" for row in range(8))
        ops += [f"%c{i} = stablehlo.constant dense<[{rows}]> : {T}", f"%{i + 1} = stablehlo.maximum %{i}, %c{i} : {T}"]
    return _main(ops, n)


def steps(n: int) -> str:
    """Constants that differ, in elementwise ops that cannot be joined: no two kernels are equal."""
    ops = ["add", "maximum"]
    return _main(
        [
            f"%c{i} = stablehlo.constant dense<{i}.5> : {T}\n%{i + 1} = stablehlo.{ops[i % 2]} %{i}, %c{i} : {T}"
            for i in range(n)
        ]
    )


def _main(ops: list[str], last: int | None = None) -> str:
    return f"func.func @main(%0: {T}) -> {T} {{\n" + "\n".join(ops) + f"\nreturn %{last or len(ops)} : {T}\n}}"


FAMILIES: tuple[Family, ...] = (
    arguments,
    calls,
    chain,
    concatenation,
    constants,
    fan,
    line,
    loops,
    nested,
    products,
    reductions,
    results,
    steps,
    tables,
)


def plot(sizes: Sequence[int], times: Mapping[str, Sequence[float]], path: Path) -> None:
    """Milliseconds an operation over operations, as an SVG: a line that does not rise is linear time."""
    matplotlib.rcParams.update({"svg.hashsalt": "scaling", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, seconds) in enumerate(times.items()):
        each = [1e3 * value / size for value, size in zip(seconds, sizes, strict=False)]
        axes.plot(sizes[: len(each)], each, marker="o", markersize=3, linestyle=("-", "--")[number % 2], label=name)
    axes.set(xscale="log", yscale="log", xlabel="operations", ylabel="milliseconds an operation")
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of families")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--opt-level", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="milliseconds an operation, as an SVG")
    options = parser.parse_args()
    print(f"{'family':14}" + "".join(f"{size:>9}" for size in options.sizes) + " exponent")
    shlo.compile(line(3))  # imports
    times: dict[str, list[float]] = {}
    for family in FAMILIES:
        if not any(fnmatch.fnmatch(family.__name__, pattern) for pattern in options.patterns):
            continue
        seconds = times[family.__name__] = []
        for size in options.sizes:
            text = family(size)
            started = time.process_time()
            # Read in this process, whose time is measured.
            shlo.compile(text, options=shlo.Options(opt_level=options.opt_level, isolate=False))
            seconds.append(time.process_time() - started)
        exponent = (
            math.log(seconds[-1] / seconds[-2]) / math.log(options.sizes[-1] / options.sizes[-2])
            if len(seconds) > 1
            else 1
        )
        print(f"{family.__name__:14}" + "".join(f"{each:9.2f}" for each in seconds) + f"{exponent:9.1f}", flush=True)
    if options.plot:
        plot(options.sizes, times, options.plot)


if __name__ == "__main__":
    main()
