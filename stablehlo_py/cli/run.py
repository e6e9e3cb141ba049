"""`shlo-run`: runs a module on given or random inputs; compares, checks, saves, times."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.cli.common import (
    EXIT_STATUS_HELP,
    TARGET_OPTIONS,
    add_options,
    options_of,
    positive,
    read_input,
    refuse_compiler_options,
    run_tool,
    shown_progress,
)
from stablehlo_py.cli.grid import grid_inputs, named_results
from stablehlo_py.errors import EXIT_OK, OptionError, ResourceError
from stablehlo_py.files import whole_file
from stablehlo_py.runtime.artifact import is_artifact

if TYPE_CHECKING:
    from stablehlo_py import Executable, GridExecutable, SymbolicExecutable
    from stablehlo_py.runtime.program import Spec


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shlo-run",
        description="Run a StableHLO module, or an artifact written by shlo-compile, on inputs from .npy/.npz files or "
        "on random ones. A module that calls check.expect_eq and its like runs as a self-checking test.",
        epilog=EXIT_STATUS_HELP,
    )
    add = parser.add_argument
    add("module", help="the model's file, an artifact (.shloexe), or - for standard input")
    add_options(parser, "--entry", "--threads", "--replicas", "--partitions", *TARGET_OPTIONS)
    add_options(parser, "--device", "--graphs", "--isolate")
    add("--sha256", metavar="HEX", help="run an artifact only if its file has this digest, which shlo-compile prints")
    inputs = parser.add_argument_group("inputs")
    add_options(inputs, "--input", "--seed", "--dim")
    inputs.add_argument(
        "--process-input",
        action="append",
        nargs=2,
        default=[],
        metavar=("R,P", "FILE"),
        help="as --input, for replica R, partition P of a grid alone",
    )
    results = parser.add_argument_group("results")
    results.add_argument(
        "--print",
        dest="show",
        action="store_true",
        help="print the results (default, unless another of these is given)",
    )
    results.add_argument("--output", metavar="FILE", help="save the results: .npz, or .npy for a single one")
    results.add_argument(
        "--compare",
        default="",
        nargs="?",
        const="auto",
        metavar="WITH",
        help="compare with 'reference' (StableHLO's interpreter), 'jax' (XLA), 'hlo' (NumPy), 'opt0' (this compiler, "
        "not optimizing), 'linalg' (upstream's passes), or several: reference,jax; without a name: those that suit "
        "the model",
    )
    add_options(results, "--tolerance")
    results.add_argument(
        "--benchmark", type=positive, nargs="?", const=100, metavar="N", help="time N calls (default: 100)"
    )
    return parser


def inputs_of(
    arguments: argparse.Namespace, specs: Sequence[Spec], source: str | bytes | None = None
) -> list[np.ndarray]:
    """The arrays that --input names, else random ones, for what the module at `source` does with them where that is
    known. Raises ResourceError."""
    from stablehlo_py.debug.inputs import random_inputs

    given: list[np.ndarray] = []
    for name in arguments.input:
        given += _read_arrays(name)
    if given:
        return [_retyped(array, spec) for array, spec in zip(given, specs, strict=False)] + given[len(specs) :]
    dimensions = iter(arguments.dim)
    shapes = [tuple(next(dimensions, 4) if size is None else size for size in spec.shape) for spec in specs]
    return random_inputs(source, [spec.dtype for spec in specs], shapes, arguments.entry, arguments.seed)


def _read_arrays(name: str) -> list[np.ndarray]:
    try:
        loaded = np.load(name, allow_pickle=False)
        return [loaded] if isinstance(loaded, np.ndarray) else [loaded[key] for key in loaded.files]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ResourceError(
            f"the input file {name} cannot be read: {error}", remedy="pass .npy or .npz files"
        ) from error


def _retyped(array: np.ndarray, spec: Spec) -> np.ndarray:
    """NumPy's files keep only the size of types that are not NumPy's own, like bfloat16."""
    if array.dtype.kind == "V" and spec.dtype.kind == "V" and array.dtype.itemsize == spec.dtype.itemsize:
        return array.view(spec.dtype)
    return array


def _load(arguments: argparse.Namespace, source: str | bytes, content: bytes) -> Executable | SymbolicExecutable:
    import stablehlo_py as shlo

    if is_artifact(content):
        refuse_compiler_options(arguments)
        return shlo.load_executable(source, sha256=arguments.sha256, device=arguments.device)
    if arguments.sha256:
        raise OptionError("--sha256 is the digest of an artifact, and the module is none", remedy="leave it out")
    with shown_progress():
        return shlo.compile(source, arguments.target, arguments.entry, options_of(arguments))


def _run_grid(arguments: argparse.Namespace, executable: GridExecutable, source: str | bytes) -> int:
    if arguments.compare or arguments.benchmark or (arguments.output or "").endswith(".npy"):
        remedy = "save the results with --output FILE.npz"
        raise OptionError("--compare, --benchmark and .npy files are for one process, not for a grid", remedy=remedy)
    rows = executable.call_grid(grid_inputs(arguments, executable, partial(inputs_of, source=source)))
    if arguments.output:
        _save(arguments.output, dict(named_results(rows, _numbered(executable.outputs))))
    if arguments.show or not arguments.output:
        _print(named_results(rows, [spec.name for spec in executable.outputs]))
    return EXIT_OK


def _numbered(outputs: Sequence[Spec]) -> list[str]:
    """Names of results in files: those of specs need not differ."""
    return [f"result{number}" for number in range(len(outputs))]


def _print(results: Iterable[tuple[str, np.ndarray]]) -> None:
    for name, result in results:
        print(f"{name}: {result.dtype}{list(result.shape)}")
        print(np.array2string(result, threshold=64, edgeitems=3))


def _run(arguments: argparse.Namespace) -> int:
    import stablehlo_py as shlo
    from stablehlo_py.cli.checks import has_checks, run_checks

    if arguments.output and Path(arguments.output).suffix not in (".npy", ".npz"):
        raise OptionError(f"'{arguments.output}' does not say how to save", remedy="end its name in .npz or .npy")
    content = read_input(arguments.module)
    if has_checks(content):
        return run_checks(arguments.module, content, arguments.target, options_of(arguments))
    source: str | bytes = content if arguments.module == "-" else arguments.module
    if arguments.compare and is_artifact(content):
        raise OptionError("an artifact holds no module to compare with", remedy="run the module that it was made from")
    executable = _load(arguments, source, content)
    if isinstance(executable, shlo.GridExecutable) and executable.has_own_arguments:
        return _run_grid(arguments, executable, source)
    if arguments.process_input:
        raise OptionError("the model does not run as a grid whose processes have inputs of their own", remedy="--input")
    inputs = inputs_of(arguments, executable.inputs, None if is_artifact(content) else source)
    results = executable(*inputs)
    status = EXIT_OK
    if arguments.compare:
        from stablehlo_py.cli.compare import compare

        oracles = [name for name in arguments.compare.split(",") if name]
        status = compare(oracles, source, arguments.entry, inputs, results, arguments.tolerance)
    if arguments.output:
        _save(arguments.output, dict(zip(_numbered(executable.outputs), results, strict=True)))
    if arguments.show or not (arguments.output or arguments.benchmark or arguments.compare):
        _print((spec.name, result) for spec, result in zip(executable.outputs, results, strict=True))
    if arguments.benchmark:
        _benchmark(executable, inputs, arguments.benchmark)
    return status


def _save(path: str, results: Mapping[str, np.ndarray]) -> None:
    if path.endswith(".npy") and len(results) != 1:
        raise OptionError(f"{path} holds one array, the model has {len(results)} results", remedy="use .npz")
    with whole_file(path) as file:
        if path.endswith(".npy"):
            (single,) = results.values()
            np.save(file, single)
        else:
            np.savez(file, **results)  # type: ignore[arg-type]


def _benchmark(executable: Executable | SymbolicExecutable, inputs: Sequence[np.ndarray], calls: int) -> None:
    from stablehlo_py.runtime.buffer import wait_for

    buffers = [executable.put(array, number) for number, array in enumerate(inputs)]
    # A donated buffer serves one call: such a model is timed with its arguments' conversion.
    donates = bool(getattr(executable, "donations", ()))

    def run() -> None:
        if donates:
            executable(*inputs)
        else:
            wait_for(executable.call(buffers))

    for _ in range(max(1, calls // 10)):
        run()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    print(f"{calls} calls: median {1e6 * statistics.median(times):.1f} us, fastest {1e6 * min(times):.1f} us")


main = partial(run_tool, _parser, _run)


if __name__ == "__main__":
    sys.exit(main())
