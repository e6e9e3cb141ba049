"""`shlo-new-backend`: a package with a backend for new hardware, to begin with."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from stablehlo_py.cli.common import EXIT_STATUS_HELP, run_tool
from stablehlo_py.errors import EXIT_OK

_DESCRIPTION = """Write a Python package with a backend for new hardware.

It runs: ten ops in NumPy, on a device with a memory and a queue of its own. What it lacks is refused by name and line.
Its tests try every op of StableHLO, and list what is implemented and what is refused."""

_EPILOG = f"""examples:
  shlo-new-backend abacus                 the package shlo_abacus, in the folder abacus
  shlo-new-backend abacus src/abacus      in another folder, which is not there yet

then, in the folder:
  python -m pytest
  python -m pip install -e .              every tool knows --target abacus

{EXIT_STATUS_HELP}"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `shlo-new-backend`."""
    parser = argparse.ArgumentParser(
        prog="shlo-new-backend",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", help="the name of the backend, which `--target` takes: small letters, digits, _")
    parser.add_argument("folder", nargs="?", type=Path, help="where to write it (default: a folder of that name)")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from stablehlo_py.kit.new_backend import write_backend

    folder = arguments.folder or Path(arguments.name)
    for file in write_backend(arguments.name, folder):
        print(folder / file)
    print(f"now: cd {folder} && python -m pytest")
    return EXIT_OK


main = partial(run_tool, build_parser, _run)


if __name__ == "__main__":
    sys.exit(main())
