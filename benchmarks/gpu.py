"""Kernels and models on a GPU, next to JAX's XLA on the same GPU.

python benchmarks/gpu.py prepare FOLDER [case ...] [--target cuda] [--gpu sm_90] [--size full] [--libraries LIST]
python benchmarks/gpu.py measure FOLDER [--rounds 11] [--json FILE]

`prepare` needs no GPU: it writes every case as an artifact of this compiler and as one of jax.export, so `measure`
compiles and builds no model: it takes this package's files, NumPy, ml_dtypes and the driver. XLA is measured where JAX
sees a GPU. Calls on buffers that stay on the device take turns with XLA's, as many in a round as take a fifth of a
second, and the last one of them is waited for. The table has medians over the rounds. "of copy" is the memory traffic
of a case (operands and results, each once) against that of the case `copy`; TFLOP/s counts a multiplication with an
addition as two. "error" is the largest difference to XLA's result, in parts of the largest number, of 1 at least.
Products of f32 are asked for with f32's precision on both sides. Without JAX on a GPU there is no peer, and nothing to
compare results with.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stablehlo_py.markdown import table

SECONDS = 0.2  # of calls in a round
KEPT_BYTES = 1 << 20  # of a model's arguments that travel with it; larger ones are drawn where they are needed


@dataclass
class Case:
    """What is measured: `flops` of a call, 0 where they are not the point."""

    name: str
    flops: float = 0.0
    seconds: float = 0.0  # of compilation


# --- on any machine ---------------------------------------------------------------------------------------------------


def kernels(size: str) -> Iterator[tuple[Case, Callable[..., Any], list[Any]]]:
    """Single kernels: their functions and the specs of their arguments; small ones are a sixteenth along each side."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    scale = 16 if size == "small" else 1

    def spec(*sizes: int, dtype: Any = "float32") -> Any:
        return jax.ShapeDtypeStruct([max(1, each // scale) if each >= 1024 else each for each in sizes], dtype)

    def norm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
        centered = x - x.mean(-1, keepdims=True)
        return centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    half, wide = jnp.bfloat16, (8192, 8192)
    yield Case("copy"), lambda x: -x, [spec(*wide)]
    yield Case("elementwise-f32"), lambda x, y: jnp.tanh(x) * y + 1, [spec(*wide), spec(8192)]
    yield Case("elementwise-bf16"), lambda x, y: jax.nn.gelu(x * y), [spec(*wide, dtype=half), spec(8192, dtype=half)]
    for columns in (1024, 8192, 65536):
        yield Case(f"softmax-{columns}"), jax.nn.softmax, [spec((1 << 26) // columns, columns)]
    yield Case("row-norm"), norm, [spec(*wide), spec(8192), spec(8192)]
    yield Case("row-sum"), lambda x: x.sum(1), [spec(*wide)]
    yield Case("column-sum"), lambda x: x.sum(0), [spec(*wide)]
    for dtype in ("float32", "bfloat16"):
        yield Case(f"transpose-{dtype}"), lambda x: x.T, [spec(*wide, dtype=dtype)]
    for side in (2048, 4096, 8192):
        yield Case(f"matmul-bf16-{side}", 2.0 * side**3), jnp.matmul, [spec(side, side, dtype=half)] * 2
    yield Case("matmul-f32-4096", 2.0 * 4096**3), jnp.matmul, [spec(4096, 4096)] * 2
    yield Case("matvec-bf16", 2.0 * 8192**2), jnp.matmul, [spec(1, 8192, dtype=half), spec(*wide, dtype=half)]
    heads = spec(4, 4096, 16, 128, dtype=half)
    yield Case("attention-bf16", 2.0 * 4 * 16 * 4096**2 * 128), attention, [heads] * 3
    image, filters = spec(64, 56, 56, 64, dtype=half), spec(3, 3, 64, 64, dtype=half)
    yield (
        Case("convolution-bf16", 2.0 * 64 * 56 * 56 * 9 * 64 * 64),
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        [image, filters],
    )


def prepare(arguments: argparse.Namespace) -> None:
    """Compile the cases into a folder."""
    import jax
    import jax.export

    import stablehlo_py as shlo
    from stablehlo_py.api import compile_program
    from stablehlo_py.backends.base import get_backend
    from stablehlo_py.runtime import artifact
    from stablehlo_py.suite import registry

    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    libraries = tuple(filter(None, arguments.libraries.split(",")))
    options = shlo.Options(cache_dir=None, gpu=arguments.gpu, libraries=libraries)
    platform = get_backend(arguments.target).platform

    def write(case: Case, function: Callable[..., Any], specs: Sequence[Any]) -> None:
        # Of leaves: models may have arguments of types that jax.export cannot write, as equinox's layers.
        leaves, tree = jax.tree.flatten(tuple(specs))

        def flat(*leaves: Any) -> list[Any]:
            return jax.tree.leaves(function(*jax.tree.unflatten(tree, leaves)))

        with jax.default_matmul_precision("highest"):  # on both sides: of f32, nothing is left out
            exported = jax.export.export(jax.jit(flat, keep_unused=True), platforms=[platform])(*leaves)
        started = time.perf_counter()
        program = compile_program(exported, target=arguments.target, options=options)
        case.seconds = time.perf_counter() - started
        case.flops *= arguments.size == "full"
        artifact.save(program, folder / f"{case.name}.shloexe")
        (folder / f"{case.name}.export").write_bytes(exported.serialize())
        (folder / f"{case.name}.json").write_text(json.dumps(asdict(case)))
        print(f"{case.name}: {case.seconds:.1f} s", flush=True)

    def wanted(name: str) -> bool:
        return not arguments.cases or name in arguments.cases

    for case, function, specs in kernels(arguments.size):
        if wanted(case.name):
            write(case, function, specs)
    for name in filter(wanted, registry.names()):
        model = registry.build(name, arguments.size)
        write(Case(name), model.callable(), model.arguments())
        arrays = model.arrays()
        if sum(array.nbytes for array in arrays) < KEPT_BYTES:
            np.savez(folder / f"{name}.npz", *arrays)


# --- on the machine with the GPU --------------------------------------------------------------------------------------


@dataclass
class Result:
    """Medians, in seconds; `theirs` 0: there is no peer. `bytes`: of operands and results."""

    name: str
    ours: float
    theirs: float
    flops: float
    bytes: int
    error: float
    compiled: float
    compiled_by_xla: float


def arguments_of(path: Path, specs: Sequence[Any]) -> list[np.ndarray]:
    """Those that were kept, else random ones: the same in every run."""
    if path.exists():
        with np.load(path) as kept:
            return [kept[f"arr_{number}"] for number in range(len(kept.files))]
    random = np.random.default_rng(0)

    def array(spec: Any) -> np.ndarray:
        if np.issubdtype(spec.dtype, np.integer) or spec.dtype == np.bool_:
            return random.integers(0, 2, spec.shape).astype(spec.dtype)
        # One sample for all of a large array: drawing it would take longer than what is measured.
        sample = (random.standard_normal(min(1 << 20, max(1, int(np.prod(spec.shape))))) * 0.1).astype(spec.dtype)
        return np.resize(sample, spec.shape)

    return [array(spec) for spec in specs]


class Peer:
    """XLA on the GPU that JAX finds."""

    def __init__(self, path: Path, arrays: Sequence[np.ndarray]) -> None:
        import jax
        import jax.export

        device = jax.devices("gpu")[0]
        exported = jax.export.deserialize(bytearray(path.read_bytes()))
        self.arguments = jax.device_put(list(arrays), device)
        started = time.perf_counter()
        self.call = jax.jit(exported.call).lower(*self.arguments).compile()
        self.seconds = time.perf_counter() - started
        self.wait = jax.block_until_ready
        self.leaves = jax.tree.leaves

    def run(self, calls: int) -> float:
        """Seconds of a call."""
        started = time.perf_counter()
        for _ in range(calls):
            results = self.call(*self.arguments)
        self.wait(results)
        return (time.perf_counter() - started) / calls

    def results(self) -> list[np.ndarray]:
        """Of a call."""
        return [np.asarray(each) for each in self.leaves(self.call(*self.arguments))]


def has_peer() -> bool:
    """Whether JAX is here, and sees a GPU."""
    try:
        import jax

        return bool(jax.devices("gpu"))
    except (ImportError, RuntimeError):
        return False


def error_of(actual: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference of all results."""
    from stablehlo_py.debug.compare import difference_of

    return max(map(difference_of, actual, wanted), default=0.0)


def measured(path: Path, rounds: int, with_peer: bool) -> Result:
    """One case."""
    import stablehlo_py as shlo

    case = Case(**json.loads(path.with_suffix(".json").read_text()))
    executable = shlo.load_executable(path)
    arrays = arguments_of(path.with_suffix(".npz"), executable.inputs)
    buffers = [executable.put(array, number) for number, array in enumerate(arrays)]

    def run(calls: int) -> float:
        started = time.perf_counter()
        for _ in range(calls):
            results = executable.call(buffers)
        for result in results:
            result.wait()
        return (time.perf_counter() - started) / calls

    results = [np.asarray(each) for each in executable.call(buffers)]
    peer = Peer(path.with_suffix(".export"), arrays) if with_peer else None
    run(2)
    calls = max(1, min(10_000, int(SECONDS / max(run(2), 1e-6))))
    ours, theirs = [], []
    for number in range(rounds):
        for turn in range(2):
            if (number + turn) % 2 == 0:
                ours.append(run(calls))
            elif peer is not None:
                theirs.append(peer.run(calls))
    moved = sum(array.nbytes for array in (*arrays, *results))
    return Result(
        case.name,
        statistics.median(ours),
        statistics.median(theirs) if theirs else 0.0,
        case.flops,
        moved,
        error_of(results, peer.results()) if peer is not None else float("nan"),
        case.seconds,
        peer.seconds if peer is not None else 0.0,
    )


def measure(arguments: argparse.Namespace) -> None:
    """Measure what is in a folder, and print the table."""
    from stablehlo_py.errors import ShloError

    with_peer = has_peer()
    results: list[Result] = []
    paths = sorted(arguments.folder.glob("*.shloexe"), key=lambda path: (path.stem != "copy", path.stem))
    columns = ("case", "us", "XLA, us", "ours / XLA", "GB/s", "of copy", "TFLOP/s", "error", "compile, s", "XLA, s")
    rows: list[list[str]] = []
    for path in paths:
        if arguments.cases and path.stem not in arguments.cases:
            continue
        try:
            results.append(found := measured(path, arguments.rounds, with_peer))
        except ShloError as error:
            rows.append([path.stem, f"failed: {error.reason}", *[""] * (len(columns) - 2)])
            continue
        copied = next((each.bytes / each.ours for each in results if each.name == "copy"), 0.0)
        rate = found.bytes / found.ours
        cells = [f"{1e6 * found.ours:.1f}"]
        cells += [f"{1e6 * found.theirs:.1f}", f"{found.ours / found.theirs:.3f}"] if found.theirs else ["", ""]
        cells += [f"{rate / 1e9:.0f}", f"{rate / copied:.2f}" if copied else ""]
        cells += [
            f"{found.flops / found.ours / 1e12:.1f}" if found.flops else "",
            f"{found.error:.1e}" if found.theirs else "",
        ]
        cells += [f"{found.compiled:.1f}", f"{found.compiled_by_xla:.1f}" if found.theirs else ""]
        rows.append([found.name, *cells])
        print(f"{found.name}: {1e6 * found.ours:.1f} us", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps([asdict(each) for each in results], indent=1))
    print(table(columns, rows))
    ratios = [each.ours / each.theirs for each in results if each.theirs]
    if ratios:
        print(f"geometric mean of ours / XLA: {statistics.geometric_mean(ratios):.3f}, largest {max(ratios):.3f}")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", help="default: all")
    parser.add_argument("--target", choices=("cuda", "rocm", "opencl"), default="cuda")
    parser.add_argument("--gpu", help="what code is for; default: the GPU of this machine")
    parser.add_argument("--libraries", default="", help="of NVIDIA's, as of shlo-compile: cublaslt,cudnn")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    {"prepare": prepare, "measure": measure}[arguments.action](arguments)


if __name__ == "__main__":
    main()
