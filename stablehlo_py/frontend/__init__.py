"""Front end: sources of StableHLO, and what is done to a module before legalization."""

from stablehlo_py.frontend.load import load

__all__ = ["load"]
