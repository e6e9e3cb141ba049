"""The process that compiles a kernel with Triton: it reads a request from its standard input, and writes what came of
it to its standard output. Whatever becomes of it, the user's process goes on, which holds no second LLVM."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.processes import die_with_parent


@dataclass(frozen=True)
class Request:
    """A kernel to compile.

    Attributes:
        source: the Python file; symbol: of the kernel in it.
        pointers: Triton's types of its parameters.
        capability: of the GPU, e.g. 90; warps: of a block; stages: of loads in loops.
    """

    source: str
    symbol: str
    pointers: tuple[str, ...]
    capability: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Built:
    """A compiled kernel.

    Attributes:
        cubin: machine code of one kernel; ptx: what it was assembled from.
        shared_bytes: dynamic shared memory of a block; threads: of a block.
        scratch_bytes: memory that the kernel wants besides.
    """

    cubin: bytes
    ptx: str
    shared_bytes: int
    threads: int
    scratch_bytes: int


def serve() -> None:
    """Answer one request with a `Built`, or with a text that says what is wrong."""
    die_with_parent()
    request = pickle.load(sys.stdin.buffer)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Triton and its tools print
    with tempfile.TemporaryDirectory(prefix="shlo-triton-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            built: Built | str = _built(request, Path(folder))
        except Exception as error:  # of whatever kind: Triton documents none
            built = f"{type(error).__name__}: {error}"
    with answer:
        pickle.dump(built, answer)


def _built(request: Request, folder: Path) -> Built:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    file = folder / "kernel.py"  # Triton reads the text of a function from its file
    file.write_text(request.source)
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = getattr(module, request.symbol)
    signature = dict(zip(kernel.arg_names, request.pointers, strict=True))
    attributes = {(place,): [["tt.divisibility", ACCESS_ALIGNMENT]] for place in range(len(signature))}
    options: dict[str, Any] = {"num_warps": request.warps, "num_stages": request.stages}
    made = triton.compile(
        ASTSource(kernel, signature, attrs=attributes),
        target=GPUTarget("cuda", request.capability, 32),
        options=options | {"enable_fp_fusion": False},  # every op of an epilogue rounds
    )
    said = made.metadata
    scratch = said.global_scratch_size + said.profile_scratch_size
    return Built(made.asm["cubin"], made.asm["ptx"], said.shared, 32 * said.num_warps, scratch)
