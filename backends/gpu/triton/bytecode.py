"""The process that reads bytecode of Triton's IR. What JAX exports is jaxlib's, where attributes have the places that
its own version of Triton gives them: jaxlib reads it and prints it as text, which other versions read."""

from __future__ import annotations

import os
import pickle
import sys

from stablehlo_py.processes import die_with_parent


def serve() -> None:
    """Answer the bytecode on standard input with `(text, "")`, or with `("", what is wrong)`."""
    die_with_parent()
    bytecode = sys.stdin.buffer.read()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        said = _text(bytecode), ""
    except Exception as error:  # of whatever kind: the bindings document none
        said = "", f"{type(error).__name__}: {error}"
    with answer:
        pickle.dump(said, answer)


def _text(bytecode: bytes) -> str:
    from jaxlib.mlir import ir
    from jaxlib.triton import dialect

    with ir.Context() as context:
        dialect.register_dialect(context)
        context.load_all_available_dialects()
        return str(ir.Module.parse(bytecode).operation.get_asm(enable_debug_info=False))
