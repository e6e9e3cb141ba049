"""LLVM IR of kernels becomes SPIR-V, PTX or code for AMD, in processes of their own (backends/common/llvm_process.py).

LLVM's SPIR-V backend remembers by address what it has seen: where memory is used again, a module may get two things of
one number (some of a hundred do in a process that has compiled others). So every module gets a fresh process, and its
numbers are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stablehlo_py.backends.common.llvm_process import in_process_of_llvm
from stablehlo_py.backends.common.older_llvm import for_older_llvm
from stablehlo_py.backends.gpu.target import NVPTX64, SPIRV64, GpuTarget

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
    arguments = (for_older_llvm(ir), target.architecture.triple, target.name, target.features, as_text)
    return in_process_of_llvm(target.name, _compiled, *arguments, attempts=ATTEMPTS)


# --- in the other process --------------------------------------------------------------------------------------------


def _compiled(ir: str, triple: str, name: str, features: str, as_text: bool) -> bytes | None:
    """The machine code; None where LLVM made no proper SPIR-V."""
    import llvmlite.binding as llvm

    llvm.set_option("", "--spirv-ext=" + ",".join(f"+{extension}" for extension in SPIRV_EXTENSIONS))
    llvm.set_option("", f"--amdhsa-code-object-version={CODE_OBJECT_VERSION}")
    made = _generated(ir, triple, name, features, as_text)
    return None if triple == SPIRV64.triple and not as_text and not _numbers_are_unique(made) else made


def _generated(ir: str, triple: str, name: str, features: str, as_text: bool) -> bytes:
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
