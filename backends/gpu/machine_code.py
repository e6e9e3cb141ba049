"""LLVM IR of kernels becomes SPIR-V, PTX or code for AMD, in processes of their own: LLVM ends the process where it
cannot select an instruction, and that must not be the user's.

One process waits for modules and forks for each. LLVM's SPIR-V backend remembers by address what it has seen: where
memory is used again, a module may get two things of one number (some of a hundred do in a process that has compiled
others). So every module gets a fresh process, and its numbers are checked.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO

from stablehlo_py import forks
from stablehlo_py.backends.gpu.older_llvm import for_older_llvm
from stablehlo_py.backends.gpu.target import NVPTX64, SPIRV64, GpuTarget
from stablehlo_py.errors import InternalError, ResourceError, UnsupportedError
from stablehlo_py.processes import die_with_parent, python_command

# What SPIR-V may use beyond its core, as far as LLVM asks.
SPIRV_EXTENSIONS = (
    "SPV_EXT_shader_atomic_float_add",
    "SPV_KHR_bit_instructions",
    "SPV_KHR_no_integer_wrap_decoration",
    "SPV_KHR_expect_assume",
    "SPV_INTEL_subgroups",
)
CODE_OBJECT_VERSION = 5  # of AMD's: the one that all drivers from ROCm 6.0 on take; LLVM's own may be later
ATTEMPTS = 4
_LAST_WORDS = 1 << 12  # bytes of what a process says before LLVM ends it


def machine_code(ir: str, target: GpuTarget) -> bytes:
    """SPIR-V, the text of PTX, or an object file for AMD (`code_object`). Thread-safe.

    Raises:
        UnsupportedError: LLVM has no code for something in it; the message is LLVM's own.
        InternalError: it is no LLVM IR.
        ResourceError: there can be no other process.
    """
    return _made(ir, target, target.architecture is NVPTX64)


def assembly(ir: str, target: GpuTarget) -> str:
    """The same as text. Thread-safe. Raises as `machine_code`."""
    return _made(ir, target, True).decode()


def _made(ir: str, target: GpuTarget, as_text: bool) -> bytes:
    request = pickle.dumps((for_older_llvm(ir), target.architecture.triple, target.name, target.features, as_text))
    with _lock:
        answer = _asked(request)
        if answer is None:  # somebody has ended the process, perhaps long ago
            answer = _asked(request)
    if answer is None:
        raise ResourceError(
            "the process that compiles kernels was ended twice", remedy="free memory, or compile a smaller model"
        )
    made, problem = pickle.loads(answer)
    if made is None:
        raise UnsupportedError(
            f"LLVM cannot generate code for {target.name}: {problem}", remedy="report it with the model's StableHLO"
        )
    if problem:
        raise InternalError(f"LLVM refused the generated code for {target.name}: {problem}")
    return made


_lock = forks.Lock()
_process: subprocess.Popen[bytes] | None = None  # waits for modules


def _asked(request: bytes) -> bytes | None:
    """The answer of the process that waits for modules; None where it ended without one."""
    global _process
    if _process is None:
        _process = _started()
    answer = None
    try:
        assert _process.stdin is not None and _process.stdout is not None
        _send(_process.stdin, request)
        answer = _receive(_process.stdout)
    except BrokenPipeError:
        pass
    finally:
        if answer is None:  # Ctrl-C, perhaps: the next request must not get what is left of this one's answer
            _end()
    return answer


def _started() -> subprocess.Popen[bytes]:
    # Raw pipes: they have no locks, which a forked child may find held. In a session of its own: Ctrl-C of a terminal
    # is for this process to answer.
    pipe = subprocess.PIPE
    try:
        command = python_command(f"from {__name__} import serve; serve()")
        return subprocess.Popen(command, 0, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        reason = f"cannot start the process that compiles kernels: {error.strerror}"
        raise ResourceError(reason, remedy="close other processes") from error


@atexit.register
def _end() -> None:
    """End the process, if there is one."""
    global _process
    process, _process = _process, None
    if process is not None:
        with process:
            process.kill()


def _forget() -> None:
    """In a forked child: the process is the parent's, and ends when the parent closes the pipe."""
    global _process
    if _process is not None:
        assert _process.stdin is not None and _process.stdout is not None
        _process.stdin.close()
        _process.stdout.close()
        _process.returncode = 0  # not this one's to wait for
        _process = None


os.register_at_fork(after_in_child=_forget)


# --- in the other process --------------------------------------------------------------------------------------------


def serve() -> None:
    """Compile what comes in until there is no more."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("", "--spirv-ext=" + ",".join(f"+{name}" for name in SPIRV_EXTENSIONS))
    llvm.set_option("", f"--amdhsa-code-object-version={CODE_OBJECT_VERSION}")
    with open(0, "rb", buffering=0) as requests, open(1, "wb", buffering=0) as written:
        while (request := _receive(requests)) is not None:
            said = "it gives two things one number"
            for attempt in range(ATTEMPTS):
                answer, last_words = _forked(request, attempt)
                if answer is not None:
                    break
                said = last_words or said
            _send(written, pickle.dumps((None, said)) if answer is None else answer)


def _forked(request: bytes, attempt: int) -> tuple[bytes | None, str]:
    """The answer of a process of its own, None where it ended without one; what it said of that. Every attempt has
    memory laid out in another way."""
    with tempfile.TemporaryFile() as errors:
        answer = _answer_of_child(request, attempt, errors.fileno())
        errors.seek(0)
        said = errors.read(_LAST_WORDS).decode(errors="replace")
    return answer, said.strip().removeprefix("LLVM ERROR: ")


def _answer_of_child(request: bytes, attempt: int, errors: int) -> bytes | None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        die_with_parent()
        os.dup2(errors, 2)
        unused = [bytearray(977 * attempt) for _ in range(97 * attempt)]
        with open(writing, "wb", buffering=0) as stream:
            answer = _answer(*pickle.loads(request))
            if answer is not None:
                _send(stream, answer)
        del unused
        os._exit(0)
    os.close(writing)
    with open(reading, "rb", buffering=0) as stream:
        answer = _receive(stream)
    os.waitpid(child, 0)
    return answer


def _answer(ir: str, triple: str, name: str, features: str, as_text: bool) -> bytes | None:
    """The machine code and what is wrong with the IR; None where LLVM made no proper SPIR-V."""
    try:
        made = _compiled(ir, triple, name, features, as_text)
    except RuntimeError as error:  # llvmlite's, for all that LLVM reports
        return pickle.dumps((b"", str(error)))
    if triple == SPIRV64.triple and not as_text and not _numbers_are_unique(made):
        return None
    return pickle.dumps((made, ""))


def _compiled(ir: str, triple: str, name: str, features: str, as_text: bool) -> bytes:
    import llvmlite.binding as llvm

    is_spirv = triple == SPIRV64.triple
    # For SPIR-V without LLVM's passes behind selection: they compute modulo 2^9 in integers of 9 bits, which the
    # backend takes for wider ones. The driver's compiler has such passes of its own.
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu="" if is_spirv else name, features=features, opt=0 if is_spirv else 3)
    for speed_level in (2, 0):
        module = llvm.parse_assembly(ir)
        module.triple, module.data_layout = triple, str(machine.target_data)
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=speed_level)
        tuning.loop_vectorization = tuning.slp_vectorization = False  # a thread computes scalars
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
        if not is_spirv or _odd_integers(str(module)) <= _odd_integers(ir):
            break
    return machine.emit_assembly(module).encode() if as_text else machine.emit_object(module)


def _odd_integers(ir: str) -> set[str]:
    """The integer types of a module that no machine has."""
    return set(re.findall(r"(?<![\w.%@$])i\d+\b", ir)) - {"i1", "i8", "i16", "i32", "i64"}


# SPIR-V 1.4, section 3.42: instructions whose result is their first operand; those where it is the second, behind its
# type. Others have none, or are not used.
_RESULT_FIRST = frozenset((7, 11, *range(19, 39), 248))
_SECOND = ((41, 47), (48, 53), (65, 71), (77, 85), (109, 125), (126, 206), (229, 243), (333, 367), (400, 404))
_RESULT_SECOND = frozenset((1, 12, 54, 55, 57, 59, 61, 227, 245, 5631, 6035)).union(*(range(*ends) for ends in _SECOND))


def _numbers_are_unique(spirv: bytes) -> bool:
    """Whether no two results of a module have one number."""
    numbers = list(_results(memoryview(spirv).cast("I")))
    return len(set(numbers)) == len(numbers)


def _results(words: memoryview) -> Iterator[int]:
    for code, at in _instructions(words):
        if code in _RESULT_FIRST:
            yield words[at + 1]
        elif code in _RESULT_SECOND:
            yield words[at + 2]


def _instructions(words: memoryview) -> Iterator[tuple[int, int]]:
    """What the instructions are, and where they begin."""
    at = 5  # behind the header
    while at < len(words):
        size, code = divmod(words[at], 1 << 16)
        yield code, at
        at += max(size, 1)


# Capabilities (3.31) that not every device has, by the extension of OpenCL that says so.
_EXTENSIONS = {9: "cl_khr_fp16", 10: "cl_khr_fp64", 12: "cl_khr_int64_base_atomics"}
_OP_CAPABILITY = 17


def extensions(spirv: bytes) -> tuple[str, ...]:
    """The extensions of OpenCL that a device must have to run a module."""
    words = memoryview(spirv).cast("I")
    declared = [words[at + 1] for code, at in _instructions(words) if code == _OP_CAPABILITY]
    return tuple(name for capability, name in _EXTENSIONS.items() if capability in declared)


def _send(stream: IO[bytes], content: bytes) -> None:
    rest = memoryview(struct.pack("<q", len(content)) + content)
    while rest:
        rest = rest[stream.write(rest) :]


def _receive(stream: IO[bytes]) -> bytes | None:
    """None: there is no more."""
    head = _read(stream, 8)
    return None if head is None else _read(stream, struct.unpack("<q", head)[0])


def _read(stream: IO[bytes], size: int) -> bytes | None:
    """So many bytes; None: the stream ends before."""
    content = bytearray()
    while len(content) < size:
        part = stream.read(size - len(content))
        if not part:
            return None
        content += part
    return bytes(content)
