"""LLVM IR of kernels becomes SPIR-V, PTX or assembly for AMD, in processes of their own: LLVM ends the process where it
cannot select an instruction, and that must not be the user's.

One process waits for modules and forks for each. LLVM's SPIR-V backend remembers by address what it has seen: where
memory is used again, a module may get two things of one number (some of a hundred do in a process that has compiled
others). So every module gets a fresh process, and its numbers are checked.
"""

from __future__ import annotations

import itertools
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO

from stablehlo_py.backends.gpu.older_llvm import for_older_llvm
from stablehlo_py.backends.gpu.target import SPIRV64, GpuTarget
from stablehlo_py.errors import InternalError, UnsupportedError

# What SPIR-V may use beyond its core, as far as LLVM asks.
SPIRV_EXTENSIONS = (
    "SPV_EXT_shader_atomic_float_add",
    "SPV_KHR_bit_instructions",
    "SPV_KHR_no_integer_wrap_decoration",
    "SPV_KHR_expect_assume",
    "SPV_INTEL_subgroups",
)
ATTEMPTS = 4


def machine_code(ir: str, target: GpuTarget) -> bytes:
    """SPIR-V, else the text of PTX or of AMD's assembly. Thread-safe.

    Raises:
        UnsupportedError: LLVM has no code for something in it.
        InternalError: it is no LLVM IR.
    """
    request = pickle.dumps((for_older_llvm(ir), target.architecture.triple, target.name, target.features))
    with _lock:
        process = _server()
        assert process.stdin is not None and process.stdout is not None
        try:
            _send(process.stdin, request)
            answer = _receive(process.stdout)
        except BrokenPipeError:
            answer = None
    made, problem = pickle.loads(answer) if answer else (None, "")
    if problem:
        raise InternalError(f"LLVM refused the generated code for {target.name}: {problem}")
    if made is None:
        raise UnsupportedError(
            f"LLVM cannot generate code for {target.name} for a part of this model",
            remedy="report it with the model's StableHLO",
        )
    return made


_lock = threading.Lock()
_process: subprocess.Popen[bytes] | None = None


def _server() -> subprocess.Popen[bytes]:
    """The process that waits for modules; it ends with this one."""
    global _process
    if _process is None or _process.poll() is not None:
        command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
        _process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return _process


# --- in the other process --------------------------------------------------------------------------------------------


def serve() -> None:
    """Compile what comes in until there is no more."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("", "--spirv-ext=" + ",".join(f"+{name}" for name in SPIRV_EXTENSIONS))
    while (request := _receive(sys.stdin.buffer)) is not None:
        answers = (_forked(request, attempt) for attempt in range(ATTEMPTS))
        _send(sys.stdout.buffer, next((answer for answer in answers if answer), b""))


def _forked(request: bytes, attempt: int) -> bytes | None:
    """The answer of a process of its own, None where it ended without one. Every attempt has memory laid out in another
    way."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        unused = [bytearray(977 * attempt) for _ in range(97 * attempt)]
        with open(writing, "wb") as stream:
            answer = _answer(*pickle.loads(request))
            if answer is not None:
                _send(stream, answer)
        os._exit(len(unused) * 0)
    os.close(writing)
    with open(reading, "rb") as stream:
        answer = _receive(stream)
    os.waitpid(child, 0)
    return answer


def _answer(ir: str, triple: str, name: str, features: str) -> bytes | None:
    """The machine code and what is wrong with the IR; None where LLVM made no proper SPIR-V."""
    try:
        made = _compiled(ir, triple, name, features)
    except RuntimeError as error:  # llvmlite's, for all that LLVM reports
        return pickle.dumps((b"", str(error)))
    if triple == SPIRV64.triple and not _numbers_are_unique(made):
        return None
    return pickle.dumps((made, ""))


def _compiled(ir: str, triple: str, name: str, features: str) -> bytes:
    import llvmlite.binding as llvm

    cpu = "" if triple == SPIRV64.triple else name
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=3)
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = triple, str(machine.target_data)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = False  # a thread computes scalars
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    if triple == SPIRV64.triple:
        return machine.emit_object(module)
    return machine.emit_assembly(module).encode()


# SPIR-V 1.4, section 3.42: instructions whose result is their first operand; those where it is the second, behind its
# type. Others have none, or are not used.
_RESULT_FIRST = frozenset((7, 11, *range(19, 39), 248))
_RESULT_SECOND = frozenset(
    itertools.chain(
        (1, 12, 54, 55, 57, 59, 61, 245),
        *(range(*ends) for ends in ((41, 47), (48, 53), (65, 71), (77, 85), (109, 125), (126, 206), (227, 243))),
    )
)


def _numbers_are_unique(spirv: bytes) -> bool:
    """Whether no two results of a module have one number."""
    numbers = list(_results(memoryview(spirv).cast("I")))
    return len(set(numbers)) == len(numbers)


def _results(words: memoryview) -> Iterator[int]:
    at = 5  # behind the header
    while at < len(words):
        size, code = divmod(words[at], 1 << 16)
        if code in _RESULT_FIRST:
            yield words[at + 1]
        elif code in _RESULT_SECOND:
            yield words[at + 2]
        at += max(size, 1)


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(struct.pack("<q", len(content)) + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """None: there is no more."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<q", head)
    content = stream.read(size)
    return content if len(content) == size else None
