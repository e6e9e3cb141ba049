"""Ahead of time: a model as a native library for programs without Python (docs/aot.md).

import stablehlo_py as shlo
shlo.aot.compile("mlp.mlirbc", "mlp", emit="static").write("out")
"""

from stablehlo_py.aot.compile import Build, compile

__all__ = ["Build", "compile"]
