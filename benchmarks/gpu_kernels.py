"""The kernels of every model of the suite for GPUs, as assemblers describe them, with the work that each has and the
time that the machine's roofline allows. No GPU is needed; ptxas is (pip install nvidia-cuda-nvcc).

python benchmarks/gpu_kernels.py [model ...] [--gpu sm_90 ...] [--size full] [--journal FILE] [--again]
python benchmarks/gpu_kernels.py --write     docs/performance-gpu.md from the journal
python benchmarks/gpu_kernels.py --list      every kernel in the journal

A process of its own compiles each model, for one GPU after another. The journal has a line of JSON for each model and
GPU, the last of which counts; what it has already is left out, so that a run which was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JOURNAL = ROOT / "benchmarks" / "gpu_kernels.jsonl"
PAGE = ROOT / "docs" / "performance-gpu.md"
MACHINES = ("sm_80", "sm_90", "sm_100", "gfx942")
SLOWEST = 3  # kernels of a model that the page lists
#: What the journal says of a kernel.
FIELDS = "name kind calls launches registers scalars spills stack shared bytes flops microseconds".split()
Row = dict[str, Any]


def compiled(name: str, size: str, gpus: Sequence[str]) -> Iterator[Row]:
    """A line of the journal for each GPU."""
    import stablehlo_py as shlo
    from stablehlo_py.compiler import run_stages
    from stablehlo_py.errors import ShloError
    from stablehlo_py.frontend.load import load
    from stablehlo_py.mlir import ir
    from stablehlo_py.suite import registry

    module = load(registry.export(registry.build(name, size)), isolate=False)  # type: ignore[arg-type]
    options = shlo.Options(cache_dir=None)
    with module.context, ir.Location.unknown():
        # The backends of GPUs have one policy: what is fused is the same for all.
        run_stages(module, "", "scheduled", options, target="cuda")
        for gpu in gpus:
            started, line = time.perf_counter(), {"model": name, "size": size, "gpu": gpu}
            try:
                line |= facts(module, gpu, options)
            except ShloError as error:
                line["failed"] = str(error)
            yield line | {"seconds": round(time.perf_counter() - started, 1)}


def facts(module: Any, gpu: str, options: Any) -> Row:
    """Of a scheduled module's bundle for one GPU. Raises ShloError."""
    from stablehlo_py.backends.cpu.target import baseline_target
    from stablehlo_py.backends.gpu.compile import generate, program_of
    from stablehlo_py.backends.gpu.target import NAMED
    from stablehlo_py.runtime import artifact

    target = NAMED[gpu]
    generated = generate(module, target)
    backend = "cuda" if gpu.startswith("sm_") else "rocm"
    program = program_of(module, generated, backend, target, baseline_target(), options)
    return {
        "code": len(program.objects[1]),
        "bundle": len(artifact.serialize(program)),
        "arena": program.arena_bytes,
        "kernels": list(described(module, generated, target)),
    }


def described(module: Any, generated: Any, target: Any) -> Iterator[list[Any]]:
    """`FIELDS` of every fusion that starts something, and of every loop that is a kernel, with the work of a trip."""
    from stablehlo_py.backends.common.fusion import Fusion, fusions
    from stablehlo_py.backends.common.roofline import work_of
    from stablehlo_py.dialect.types import operations

    def called(op: Any) -> Counter[str]:
        return Counter(each.attributes["callee"].value for each in operations(op) if each.name == "func.call")

    each = {fusion.name: fusion for fusion in map(Fusion.read, fusions(module))}
    calls, usage = called(module.operation), generated.code().usage
    inside = [(loop.name, called(value.owner.operation)) for value, loop in generated.loops.items()]
    calls.subtract(sum((found for _, found in inside), Counter()))
    rows = [(name, fusion.kind, calls[name], Counter((name,))) for name, fusion in each.items() if calls[name]]
    for name, kind, times, parts in [*rows, *((name, "whole loop", 1, found) for name, found in inside)]:
        launches = generated.kernels[name].launches
        if not launches:
            continue
        work = [work_of(each[part]) for part in parts.elements()]
        used = [usage[launch.symbol] for launch in launches]
        yield [
            name,
            kind,
            times,
            [[launch.blocks, launch.threads] for launch in launches],
            *(max(getattr(one, field) for one in used) for field in "registers scalars spills stack shared".split()),
            sum(one.bytes for one in work),
            sum(one.flops for one in work),
            round(1e6 * sum(one.seconds(target.rates) for one in work), 4),
        ]


# --- the journal ------------------------------------------------------------------------------------------------------


def read(journal: Path, size: str) -> dict[tuple[str, str], Row]:
    """The last line of each model and GPU."""
    lines = map(json.loads, journal.read_text().splitlines()) if journal.exists() else ()
    return {(line["model"], line["gpu"]): line for line in lines if line["size"] == size}


def run(arguments: argparse.Namespace) -> None:
    """Compile what the journal does not have yet, a process for each model."""
    from stablehlo_py.suite import registry

    known = {} if arguments.again else read(arguments.journal, arguments.size)
    for name in arguments.models or registry.names():
        gpus = [gpu for gpu in arguments.gpu if "kernels" not in known.get((name, gpu), {})]
        if not gpus:
            continue
        command = [sys.executable, __file__, name, "--child", "--size", arguments.size, "--gpu", *gpus]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            made = []
            for line in child.stdout:
                read_line = json.loads(line)
                append(arguments.journal, read_line)
                made.append(read_line["gpu"])
                print(f"{name} {made[-1]}: {read_line['seconds']} s", read_line.get("failed", ""), flush=True)
        if child.returncode:
            gpu, failed = gpus[len(made)], f"the process ended with {child.returncode}"
            append(arguments.journal, {"model": name, "size": arguments.size, "gpu": gpu, "failed": failed})
            print(f"{name} {gpu}: {failed}", flush=True)


def append(journal: Path, line: Row) -> None:
    """A line more."""
    with open(journal, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


# --- the page ---------------------------------------------------------------------------------------------------------


def kernels_of(line: Row) -> list[Row]:
    """The kernels of a line by the names of `FIELDS`."""
    return [dict(zip(FIELDS, kernel, strict=True)) for kernel in line.get("kernels", ())]


def microseconds(kernels: Iterable[Row]) -> float:
    """Of all calls in the program's text."""
    return sum(kernel["calls"] * kernel["microseconds"] for kernel in kernels)


def write(found: dict[tuple[str, str], Row]) -> None:
    """The page."""
    from stablehlo_py.files import write_whole
    from stablehlo_py.markdown import table

    models = list(dict.fromkeys(model for model, _ in found))
    parts = [HEAD]
    for gpu in MACHINES:
        rows = []
        for model in models:
            line = found.get((model, gpu), {})
            kernels = kernels_of(line)
            if not kernels:
                rows.append([f"`{model}`", "failed", *[""] * (len(COLUMNS) - 2)])
                continue
            spilling = [kernel for kernel in kernels if kernel["spills"]]
            rows.append(
                [
                    f"`{model}`",
                    len(kernels),
                    sum(kernel["calls"] * len(kernel["launches"]) for kernel in kernels),
                    max(kernel["registers"] for kernel in kernels),
                    f"{len(spilling)} ({max(kernel['spills'] for kernel in spilling)} bytes)" if spilling else "none",
                    max(kernel["stack"] for kernel in kernels),
                    max(kernel["shared"] for kernel in kernels),
                    f"{sum(kernel['calls'] * kernel['bytes'] for kernel in kernels) / 1e6:.4g}",
                    f"{sum(kernel['calls'] * kernel['flops'] for kernel in kernels) / 1e6:.4g}",
                    f"{microseconds(kernels):.4g}",
                    f"{line['bundle'] / 1024:.0f}",
                ]
            )
        parts.append(f"## {gpu}\n\n{table(COLUMNS, rows)}")
    rows = []
    for model in models:
        kernels = kernels_of(found.get((model, "sm_90"), {}))
        total = microseconds(kernels)
        slowest = sorted(kernels, key=lambda kernel: -kernel["calls"] * kernel["microseconds"])[:SLOWEST]
        slowest = slowest if total else []  # of a few numbers: less than a tenth of a nanosecond
        rows += [
            [
                f"`{model}`",
                f"`{kernel['name']}`",
                kernel["kind"],
                kernel["calls"],
                threads(kernel),
                kernel["registers"],
                kernel["shared"],
                f"{kernel['bytes'] / 1e6:.4g}",
                f"{kernel['flops'] / 1e6:.4g}",
                f"{kernel['microseconds']:.4g}",
                f"{100 * kernel['calls'] * kernel['microseconds'] / total:.0f} %",
            ]
            for kernel in slowest
        ]
    parts.append(f"## The kernels with most of that time, on sm_90\n\n{table(SLOW_COLUMNS, rows)}")
    write_whole(PAGE, "\n".join(parts))


def threads(kernel: Row) -> str:
    """Blocks and threads of each of the launches."""
    return " + ".join(f"{blocks} x {size}" for blocks, size in kernel["launches"])


COLUMNS = (
    "model",
    "kernels",
    "launches",
    "registers",
    "kernels that spill",
    "stack, bytes",
    "shared memory, bytes",
    "moved, MB",
    "Mflop",
    "roofline, us",
    "bundle, KiB",
)
SLOW_COLUMNS = (
    "model",
    "kernel",
    "kind",
    "calls",
    "blocks x threads",
    "registers",
    "shared memory, bytes",
    "moved, MB",
    "Mflop",
    "roofline, us",
    "of the model",
)
HEAD = """# GPU kernels of the models

Written by `python benchmarks/gpu_kernels.py --write` from `benchmarks/gpu_kernels.jsonl`, which has every kernel
(`--list` prints them). **No GPU was used, and no time here was measured**: the models of [models.md](models.md) were
compiled at their full size, for NVIDIA by LLVM and ptxas, for AMD by LLVM.

- *kernels*: distinct fusions that start something; *launches*: of one pass over the program's text, each branch and
  each body of a loop once.
- *registers*: 32-bit ones of a thread, the most that any kernel takes; *kernels that spill*, and the most bytes a
  thread that one of them writes because registers do not suffice; *stack*, *shared memory*: the most of any kernel.
- *moved*: bytes of operands and results of all launches, each once; *Mflop*: operations, where an exponential counts as
  the instructions that it takes.
- *roofline*: for every launch the time that the machine's memory or its arithmetic allows at best, summed: what is
  slower of bytes / bandwidth and operations / rate, by the rates of `backends/gpu/target.py`. Products of f32 are at
  the rate of f32 without matrix units. What starting a kernel takes, and that a small one does not fill the machine, is
  not in it.
- *bundle*: the file that `shlo-compile` writes: code, the host's part, constants, and the text of stages.
"""


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: all")
    parser.add_argument("--gpu", nargs="+", default=list(MACHINES))
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--again", action="store_true", help="also what the journal has")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        for line in compiled(arguments.models[0], arguments.size, arguments.gpu):
            print(json.dumps(line), flush=True)
    elif arguments.write:
        write(read(arguments.journal, arguments.size))
    elif arguments.list:
        print(*FIELDS, sep="\t")
        for (model, gpu), line in read(arguments.journal, arguments.size).items():
            for kernel in kernels_of(line):
                print(
                    model, gpu, *(threads(kernel) if name == "launches" else kernel[name] for name in FIELDS), sep="\t"
                )
    else:
        run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
