"""What the processor of this machine has and the system lets this process use, by LLVM's names."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache

TUNING = ("prefer-", "fast-")  # how names begin that say what LLVM shall prefer, and nothing of a processor
# The registers of AMX, which a process has to ask for.
TILE_FEATURES = ("amx-tile", "amx-bf16", "amx-int8")
REQUEST_PERMISSION, TILE_DATA = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
# Where the system has other names than LLVM. Its list has what the processor and the system support.
_SYSTEM_NAMES = {
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avxvnni": "avx_vnni",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
}
_SYSTEM_NAMES |= {f"avx512{name}": f"avx512_{name}" for name in ("vbmi2", "bitalg", "vpopcntdq")}
_SYSTEM_NAMES["prfchw"] = "3dnowprefetch"
_SYSTEM_NAMES |= {name: name.replace("-", "_") for name in TILE_FEATURES}
_LIST = "/proc/cpuinfo"
AMD = "AuthenticAMD"  # `vendor` of its processors
_LINES = ("flags", "Features")  # of x86-64, of AArch64


def _listed(*names: str) -> list[str]:
    """The words of the first line of the list with one of these names, none where there is no such line."""
    try:
        with open(_LIST) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in names:
                    return value.split()
    except OSError:
        pass
    return []


@cache
def present() -> frozenset[str]:
    """The system's names of what all processors of this machine have, none where it does not say."""
    return frozenset(_listed(*_LINES))


@cache
def vendor() -> str:
    """Who made the processor, as it says itself ("GenuineIntel"); "" where the system does not say."""
    return " ".join(_listed("vendor_id"))


@cache
def tiles_permitted() -> bool:
    """Whether Linux lets this process use tiles, which it asks once: permission holds for all its threads, and for what
    it forks.

    Tiles make the record of a signal 8 KiB larger. So permission is refused where a thread has an alternate signal
    stack too small for that; once it is given, no thread gets one (Linux, Documentation/arch/x86/xstate.rst).
    """
    try:
        ask = ctypes.CDLL(None).arch_prctl
    except (OSError, AttributeError):
        return False
    ask.argtypes = (ctypes.c_int, ctypes.c_ulong)
    return ask(REQUEST_PERMISSION, TILE_DATA) == 0


def missing_features(required: Iterable[str]) -> list[str]:
    """Those of the features that this host lacks; where it has all, those that it does not let this process use."""
    required = list(required)
    absent = [name for name in required if _SYSTEM_NAMES.get(name, name) not in present()]
    return absent or [name for name in required if name in TILE_FEATURES and not tiles_permitted()]


def is_refused(features: Iterable[str]) -> bool:
    """Whether missing features are tiles, which the processor has and this process may not use."""
    return all(name in TILE_FEATURES and _SYSTEM_NAMES[name] in present() for name in features)
