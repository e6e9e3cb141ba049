"""Libraries with code for several CPUs of x86-64, of which a call takes the best that the machine has.

What the machine has, glibc knows (`__x86_get_cpuid_feature_leaf`, since 2.33: sys/platform/x86.h): which features there
are and the system supports. Nothing is kept: a call asks anew, which takes nanoseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from stablehlo_py.backends.common.program import ENTRY
from stablehlo_py.backends.cpu.target import NAMED, OTHERS, CpuTarget, required_features
from stablehlo_py.backends.cpu.tiles import are_permitted
from stablehlo_py.backends.cpu.triples import object_target
from stablehlo_py.codegen.builder import I1, I32, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.target import X86_64
from stablehlo_py.errors import OptionError

# Leaves as glibc numbers them (CPUID_INDEX_1, 7, 80000001, 7_ECX_1); registers eax, ebx, ecx, edx are 0 to 3.
_ONE, _SEVEN, _EXTENDED, _SEVEN_ONE = 0, 1, 2, 6
_EAX, _EBX, _ECX, _EDX = 0, 1, 2, 3
_BITS = {
    "sse3": (_ONE, _ECX, 0),
    "ssse3": (_ONE, _ECX, 9),
    "fma": (_ONE, _ECX, 12),
    "cx16": (_ONE, _ECX, 13),
    "sse4.1": (_ONE, _ECX, 19),
    "sse4.2": (_ONE, _ECX, 20),
    "movbe": (_ONE, _ECX, 22),
    "popcnt": (_ONE, _ECX, 23),
    "avx": (_ONE, _ECX, 28),
    "f16c": (_ONE, _ECX, 29),
    "bmi": (_SEVEN, _EBX, 3),
    "avx2": (_SEVEN, _EBX, 5),
    "bmi2": (_SEVEN, _EBX, 8),
    "avx512f": (_SEVEN, _EBX, 16),
    "avx512dq": (_SEVEN, _EBX, 17),
    "avx512cd": (_SEVEN, _EBX, 28),
    "avx512bw": (_SEVEN, _EBX, 30),
    "avx512vl": (_SEVEN, _EBX, 31),
    "avx512vnni": (_SEVEN, _ECX, 11),
    "avxvnni": (_SEVEN_ONE, _EAX, 4),
    "avx512bf16": (_SEVEN_ONE, _EAX, 5),
    "amx-bf16": (_SEVEN, _EDX, 22),
    "amx-tile": (_SEVEN, _EDX, 24),
    "amx-int8": (_SEVEN, _EDX, 25),
    "lzcnt": (_EXTENDED, _ECX, 5),
}
# What LLVM takes from the names of these CPUs, beside the features that their descriptions list.
_LEVEL_2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16")
_LEVEL_3 = (*_LEVEL_2, "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe")
_LEVEL_4 = (*_LEVEL_3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_OF_NAMES = {
    "x86-64": (),
    "x86-64-v2": _LEVEL_2,
    "haswell": _LEVEL_3,
    "x86-64-v3": _LEVEL_3,
    "skylake-avx512": _LEVEL_4,
    "x86-64-v4": _LEVEL_4,
    "cascadelake": (*_LEVEL_4, "avx512vnni"),
}


def version_targets(cpus: Sequence[str], triple: str | None) -> tuple[list[CpuTarget], str]:
    """The descriptions of several CPUs, and the triple of the library that has code for all of them.

    Raises:
        OptionError: one of them is not known, or is none that can be told apart at run time; or the system is not Linux
            with glibc.
    """
    found = [object_target(cpu, triple) for cpu in cpus]
    targets, full = [target for target, _ in found], found[0][1]
    if full != X86_64.triple:
        raise OptionError(
            f"a library for {full} holds code for one CPU: which one a machine has, glibc says on x86-64",
            remedy="pass one cpu, or write a library for each",
        )
    for cpu, target in zip(cpus, targets, strict=True):
        if target.architecture is not X86_64 or target.name not in _OF_NAMES:
            raise OptionError(
                f"'{cpu}' cannot be one of several CPUs of a library",
                remedy=f"use {', '.join(name for name, each in {**NAMED, **OTHERS}.items() if each.name in _OF_NAMES)}",
            )
    return targets, full


def version_symbol(number: int) -> str:
    """The name of a version's entry."""
    return f"{ENTRY}.version{number}"


def entry_of_versions(targets: Sequence[CpuTarget], emitter: Callable[[], Emitter]) -> Function:
    """The entry that calls the last version whose features the machine has, else the first."""
    f = Function(ENTRY, [("caller", PTR)], emitter(), result=I32)
    f.ret(_best(f, targets, len(targets) - 1))
    return f


def _best(f: Function, targets: Sequence[CpuTarget], number: int) -> Value:
    """What the best version up to that of a number returns."""

    def call() -> Value:
        return f.call(version_symbol(number), [f.caller], I32, external=True)

    if number == 0:
        return call()
    return f.if_(_has(f, targets[number]), call, lambda: _best(f, targets, number - 1))[0]


def _has(f: Function, target: CpuTarget) -> Value:
    """Whether this machine has the features of a CPU."""
    masks: dict[tuple[int, int], int] = defaultdict(int)
    for feature in {*required_features(target), *_OF_NAMES[target.name]}:
        leaf, register, bit = _BITS[feature]
        masks[leaf, register] |= 1 << bit
    missing = f.const(0, I32)
    for (leaf, register), mask in sorted(masks.items()):
        found = f.call("__x86_get_cpuid_feature_leaf", [f.const(leaf, I32)], PTR, external=True)
        active = f.load(I32, found, 4 + register)  # behind what cpuid says: what the system supports too
        lacks = f.binary("xor", f.binary("and", active, f.const(mask, I32)), f.const(mask, I32))
        missing = f.binary("or", missing, lacks)
    has = f.cmp("eq", missing, f.const(0, I32))
    if not target.matrix_units:
        return has
    return f.if_(has, lambda: are_permitted(f), lambda: f.const(0, I1))[0]
