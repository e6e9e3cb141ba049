"""lit's configuration: `lit test` from the repository's root (docs/shlo-opt.md).

A test is a file of MLIR with RUN lines; `shlo-opt` and `filecheck` in them are the ones of this checkout and of the
Python that runs lit. A RUN line costs about 0.3 s, most of it the import of MLIR: prefer --split-input-file to many
small files.
"""

import os
import sys
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parent.parent

config.name = "stablehlo-py"  # noqa: F821 - lit defines `config`
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["conformance", "docs", "found", "Inputs"]  # noqa: F821
config.test_source_root = str(root / "test")  # noqa: F821
config.test_exec_root = str(root / "build" / "lit")  # noqa: F821
config.environment["PYTHONPATH"] = os.pathsep.join(  # noqa: F821
    [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
)
for tool in ("opt", "compile", "run", "bench"):
    # Not where the word is part of a path or of an option.
    pattern = rf"(?<![\w./-])shlo-{tool}(?![\w./-])"
    config.substitutions.append((pattern, f"{sys.executable} -m stablehlo_py.cli.{tool}"))  # noqa: F821
config.substitutions.append((r"(?<![\w./-])filecheck(?![\w./-])", f"{sys.executable} -m filecheck"))  # noqa: F821
