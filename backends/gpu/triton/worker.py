"""The process that compiles a kernel with Triton: it reads a request from its standard input, and writes what came of
it to its standard output. Whatever becomes of it, the user's process goes on, which holds no second LLVM."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stablehlo_py.backends.gpu.triton.ttir import Signature, as_kernel
from stablehlo_py.dialect.alignment import ACCESS_ALIGNMENT
from stablehlo_py.processes import die_with_parent

_WARP = 32  # threads


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
class IrRequest:
    """A kernel in Triton's IR to compile.

    Attributes:
        text: of the IR; name: of the kernel in it, as `as_kernel` takes it.
        symbol: of the kernel that is made of it; signature: how that is launched.
        capability, warps, stages: as of a `Request`.
    """

    text: str
    name: str
    symbol: str
    signature: Signature
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
        os.chdir(folder)  # files have relative names: machine code holds them, and is to be the same every time
        try:
            built: Built | str = _of_ir(request) if isinstance(request, IrRequest) else _of_python(request)
        except Exception as error:  # of whatever kind: Triton documents none
            built = f"{type(error).__name__}: {error}"
    with answer:
        pickle.dump(built, answer)


def _of_python(request: Request) -> Built:
    from triton.compiler import ASTSource

    file = Path("kernel.py")  # Triton reads the text of a function from its file
    file.write_text(request.source)
    module = types.ModuleType(file.stem)
    sys.modules[file.stem] = module
    exec(compile(request.source, str(file), "exec"), module.__dict__)
    kernel = getattr(module, request.symbol)
    signature = dict(zip(kernel.arg_names, request.pointers, strict=True))
    attributes = {(place,): [["tt.divisibility", ACCESS_ALIGNMENT]] for place in range(len(signature))}
    # Every op of an epilogue rounds.
    return _compiled(ASTSource(kernel, signature, attrs=attributes), request, enable_fp_fusion=False)


def _of_ir(request: IrRequest) -> Built:
    """Triton runs its passes over sources in Python only, so these are run here."""
    from triton._C.libtriton import ir
    from triton.compiler import make_backend

    file = Path("kernel.ttir")
    backend = make_backend(_target(request))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)

    def read(text: str) -> Any:
        file.write_text(text)
        module = ir.parse_mlir_module(str(file), context)
        module.context = context
        return module

    text = read(request.text).str_nodebug()
    module = read(as_kernel(text, request.name, request.symbol, request.signature))
    options = backend.parse_options({"num_warps": request.warps, "num_stages": request.stages})
    module = backend.make_ttir(module, {}, options, request.capability)
    file.write_text(module.str_nodebug())
    return _compiled(str(file), request)


def _target(request: Request | IrRequest) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", request.capability, _WARP)


def _compiled(source: Any, request: Request | IrRequest, **options: Any) -> Built:
    import triton

    taken = {"num_warps": request.warps, "num_stages": request.stages, **options}
    made = triton.compile(source, target=_target(request), options=taken)
    said = made.metadata
    scratch = said.global_scratch_size + said.profile_scratch_size
    return Built(made.asm["cubin"], made.asm["ptx"], said.shared, _WARP * said.num_warps, scratch)
