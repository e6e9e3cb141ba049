"""`shlo-bisect` and `shlo-run --compare` on models of the suite, which are right: neither may accuse anybody.

    python test/debug/innocent_models.py                         # all models, small
    python test/debug/innocent_models.py --size full --journal full.jsonl --seed 1 bert vit

A line per model and tool; with a journal, a line of JSON as well, and what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stablehlo_py import suite
from stablehlo_py.suite.registry import names

TOOLS = {"bisect": ("bisect",), "compare": ("run", "--compare")}


def run(model: str, size: Any, tool: str, seed: int, timeout_s: float) -> dict[str, object]:
    """One tool on one model: its exit status, its seconds, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{model}.mlirbc")
        path.write_bytes(suite.export(suite.build(model, size)).mlir_module_serialized)
        module, *options = TOOLS[tool]
        command = [sys.executable, "-m", f"stablehlo_py.cli.{module}", str(path), *options, "--seed", str(seed)]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    return {
        "model": model,
        "size": size,
        "tool": tool,
        "seed": seed,
        "status": done.returncode,
        "seconds": round(time.monotonic() - started, 1),
        "said": (done.stdout + done.stderr).strip().splitlines(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Returns how many runs accused somebody, or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: all")
    parser.add_argument("--size", default="small", choices=("small", "full"))
    parser.add_argument("--tool", action="append", choices=tuple(TOOLS), help="default: both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S")
    arguments = parser.parse_args(argv)
    lines = arguments.journal.read_text().splitlines() if arguments.journal and arguments.journal.exists() else []
    done = {tuple(json.loads(line)[key] for key in ("model", "size", "tool", "seed")) for line in lines}
    accusations = 0
    for model in arguments.models or names():
        for tool in arguments.tool or TOOLS:
            if (model, arguments.size, tool, arguments.seed) in done:
                continue
            found = run(model, arguments.size, tool, arguments.seed, arguments.timeout)
            accusations += found["status"] != 0
            said = found["said"]
            assert isinstance(said, list)
            print(
                f"{model:26} {tool:8} {found['status']} {found['seconds']:>6} s  {said[-1] if said else ''}", flush=True
            )
            if arguments.journal:
                with arguments.journal.open("a") as journal:
                    print(json.dumps(found), file=journal)
    return accusations


if __name__ == "__main__":
    sys.exit(main())
