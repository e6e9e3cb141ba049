"""What shlo-bisect, shlo-reduce and shlo-fuzz share: a module with inputs, an oracle, how a command line is read."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from stablehlo_py.cli.common import add_options, options_of, read_input

if TYPE_CHECKING:
    from stablehlo_py.debug.settings import Settings
    from stablehlo_py.runtime.program import Spec

ORACLE_HELP = (
    "what is right: reference (StableHLO's interpreter), jax (XLA), hlo (the legalized program in NumPy), opt0 (this "
    "compiler without optimization), or linalg (upstream's passes); default: "
)
SUITS = "reference, or jax where that would take too long"


def tool_parser(prog: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser whose help is shown as it is written."""
    return argparse.ArgumentParser(
        prog=prog, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_case_options(parser: argparse.ArgumentParser) -> None:
    """Where a module's inputs come from, and how it is compiled."""
    group = parser.add_argument_group("inputs and compilation")
    add_options(group, "--input", "--seed", "--dim", "--entry", "--target", "--cpu", "--gpu", "--tf32", "--isolate")
    add_options(group, "--atomic-scatter", "--libraries")
    add_options(group, "--opt-level", "--disable", "--load-pass", "--timeout")


def add_oracle_options(parser: argparse.ArgumentParser, default: str | None = "reference") -> None:
    """What the answer is compared with, and how closely."""
    group = parser.add_argument_group("comparison")
    group.add_argument("--oracle", default=default, help=ORACLE_HELP + (default or SUITS))
    add_options(group, "--tolerance")


def settings(arguments: argparse.Namespace) -> Settings:
    """How our compiler runs the module."""
    from stablehlo_py.debug.settings import Settings

    options = options_of(arguments, threads=1, cache_dir=None)
    return Settings(arguments.entry, options, tuple(arguments.load_pass), target=arguments.target)


def read_case(arguments: argparse.Namespace) -> tuple[bytes, list[np.ndarray]]:
    """The module's bytes and its inputs. Raises ResourceError, LoadError, OptionError."""
    from stablehlo_py.cli.run import inputs_of
    from stablehlo_py.debug.engines import require_oracle

    if getattr(arguments, "oracle", None):
        require_oracle(arguments.oracle)
    source = read_input(arguments.module)
    return source, inputs_of(arguments, specs_of(source, arguments.entry, arguments.isolate), source)


def specs_of(source: bytes, entry: str | None, isolate: bool) -> list[Spec]:
    """Type and shape of every argument of the module. Raises LoadError, UnsupportedError."""
    from stablehlo_py.debug.engines import main_of
    from stablehlo_py.dialect.constants import numpy_dtype
    from stablehlo_py.dialect.dynamic import known_sizes
    from stablehlo_py.errors import UnsupportedError
    from stablehlo_py.frontend.load import load
    from stablehlo_py.runtime.program import Spec

    module = load(source, entry=entry, isolate=isolate)
    specs = []
    with module.context:
        for number, argument in enumerate(main_of(module).regions[0].blocks[0].arguments):
            try:
                dtype = numpy_dtype(argument.type.element_type)
                specs.append(Spec(str(number), known_sizes(argument.type), dtype))
            except (AttributeError, KeyError) as error:
                raise UnsupportedError(
                    f"argument {number} is a {argument.type}: this tool makes no inputs of that type",
                    remedy="make it a tensor of a type that NumPy or ml_dtypes has",
                ) from error
    return specs
