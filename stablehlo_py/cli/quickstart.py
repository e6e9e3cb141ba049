"""The tour that tools/quickstart gives: export a flax model with JAX, compile it, run it, compare with JAX."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tour; exit status 1 when the results differ by more than the model allows."""
    parser = argparse.ArgumentParser(prog="quickstart", description=__doc__)
    parser.add_argument("--model", default="mlp", help="a model of the suite (see shlo-bench --list)")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of the timing")
    options = parser.parse_args(argv)
    console = Console()

    console.print(
        f"[bold]1.[/bold] build the model {options.model!r} ({options.size}) in flax and export it with jax.export"
    )
    import jax

    import stablehlo_py as shlo
    from stablehlo_py import suite
    from stablehlo_py.errors import EXIT_MISMATCH, EXIT_OK, ShloError
    from stablehlo_py.runtime.buffer import wait_for
    from stablehlo_py.suite.measure import interleaved

    try:
        model = suite.build(options.model, options.size)
        artifact = suite.export(model).mlir_module_serialized
        arrays = model.arrays()
        console.print(f"   {len(artifact):,} bytes of StableHLO, {len(arrays)} arguments")

        console.print("[bold]2.[/bold] compile it to native code: stablehlo_py.compile(artifact)")
        start = time.perf_counter()
        executable = shlo.compile(artifact)
        milliseconds = 1e3 * (time.perf_counter() - start)
        assert isinstance(executable, shlo.Executable)  # only symbolic dimensions give another class
        console.print(f"   {milliseconds:.0f} ms (a first compilation: imports and loads included)")
    except ShloError as error:
        print(error, file=sys.stderr)
        return error.exit_status

    console.print("[bold]3.[/bold] run it and compare with JAX")
    results = executable(*arrays)
    pairs = zip(results, suite.reference(model), strict=True)
    difference = max(suite.largest_difference(actual, expected) for actual, expected in pairs)
    correct = difference <= model.tolerance
    verdict = "within" if correct else "ABOVE"
    console.print(f"   largest difference {difference:.1e}, {verdict} the {model.tolerance:.0e} that this model allows")

    console.print("[bold]4.[/bold] time it next to jax.jit, the calls interleaved")
    jitted = jax.jit(model.callable())
    on_device = jax.block_until_ready(jax.device_put(model.arguments()))
    buffers = [executable.put(array, position) for position, array in enumerate(arrays)]
    calls = [lambda: wait_for(executable.call(buffers)), lambda: jax.block_until_ready(jitted(*on_device))]
    (ours, theirs), (_, speedup) = interleaved(calls, options.rounds)
    console.print(f"   stablehlo-py {1e3 * ours:.3g} ms, jax.jit {1e3 * theirs:.3g} ms: {speedup:.2f} times its speed")

    console.print("[bold]5.[/bold] the stages that it went through (executable.stages)")
    table = Table("stage", "lines of text")
    for stage in executable.stages:
        table.add_row(stage, f"{executable.stages[stage].count(chr(10)):,}")
    console.print(table)
    return EXIT_OK if correct else EXIT_MISMATCH


if __name__ == "__main__":
    sys.exit(main())
