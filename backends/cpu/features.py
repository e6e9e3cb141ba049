"""What the processor of this machine has, by LLVM's names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

# Where the system has other names than LLVM. Its list has what the processor and the system support.
_SYSTEM_NAMES = {"avx512vnni": "avx512_vnni", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2"}
_LIST = "/proc/cpuinfo"
_LINES = ("flags", "Features")  # of x86-64, of AArch64


@cache
def present() -> frozenset[str]:
    """The system's names of what all processors of this machine have, none where it does not say."""
    try:
        with open(_LIST) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in _LINES:
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()


def missing_features(required: Iterable[str]) -> list[str]:
    """Those of the features that this host lacks."""
    return [name for name in required if _SYSTEM_NAMES.get(name, name) not in present()]
