"""Walk README.md as a newcomer does: `python test/docs/walk.py [--without-tests]`, minutes to half an hour.

A fresh clone of the commit that is checked out; its two commands, tools/quickstart and tools/test; then an installation
in an environment of its own, and every snippet of the page in an empty folder. Ends with status 1 at the first thing
that does not work. It is no part of tools/test, which it runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = """
import shutil, sys
from pathlib import Path

root = Path(sys.argv[1])
sys.path.insert(0, str(root / "test" / "docs"))
import numpy as np
from snippets import Page, snippets

shutil.copy(root / "test" / "docs" / "files" / "model.mlir", ".")
np.save("x.npy", np.ones((8, 16), np.float32))
np.save("w.npy", np.ones((16, 4), np.float32))
page = Page(tuple)
for snippet in snippets(root / "README.md"):
    page.run(snippet)
"""


def run(folder: Path, *command: str | Path, **environment: str) -> None:
    """Run a command, shown first. Raises CalledProcessError."""
    print(f"== {' '.join(map(str, command))[:100].splitlines()[0]}", flush=True)
    # Neither this checkout nor its environment is what a newcomer has.
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([str(word) for word in command], cwd=folder, env={**inherited, **environment}, check=True)


def main() -> int:
    """Walk; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-tests", action="store_true", help="leave out tools/test")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shlo-walk-") as name:
        clone, work, environment = Path(name) / "clone", Path(name) / "work", Path(name) / "environment"
        work.mkdir()
        try:
            run(Path(name), "git", "clone", "--quiet", ROOT, clone)
            run(clone, "tools/quickstart")
            if not options.without_tests:
                run(clone, "tools/test")
            venv.create(environment, with_pip=True)
            run(clone, environment / "bin" / "pip", "install", "--quiet", "-c", "constraints.txt", ".[jax]")
            path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
            run(work, environment / "bin" / "python", "-c", SNIPPETS, clone, PATH=path)
        except subprocess.CalledProcessError as error:
            print(f"FAILED with status {error.returncode}", file=sys.stderr)
            return 1
    print("README.md is true in a fresh clone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
