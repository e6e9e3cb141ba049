"""`compiler_options` of jax.jit and of `compile`, as this package's options."""

from __future__ import annotations

import struct

from stablehlo_py.errors import OptionError, shown
from stablehlo_py.options import Options
from stablehlo_py.passmanager.suggest import near_miss
from stablehlo_py.pjrt.options import fields_of

# Fields of a CompileOptionsProto, of an entry of the map in it, and of its value.
_OVERRIDES = 7
_KEY, _VALUE = 1, 2
_STRING, _BOOL, _INTEGER, _DOUBLE = 1, 2, 3, 4
#: Those that a user may give; the others are the platform's to decide.
NAMES = (
    *("threads", "opt_level", "cache_dir", "dump_dir", "cpu", "disable", "verify", "scatter_windows"),
    *("gpu", "tf32", "atomic_scatter", "graphs", "libraries", "generators", "autotune", "plans"),
)
# Flags of XLA say how XLA compiles: none of them lets results differ from what the program says by more than XLA's
# default does, which is what this compiler keeps.
_IGNORED = "xla_"

Value = str | bool | int | float


def options_of(compile_options: bytes) -> Options:
    """Of a CompileOptionsProto.

    Raises:
        OptionError: there is no option of a name, or it has no such value.
    """
    given = {name: value for name, value in _overrides(compile_options).items() if not name.startswith(_IGNORED)}
    for name in given:
        if name not in NAMES:
            raise OptionError(f"No such compile option: {shown(name)}", remedy=near_miss(name, NAMES))
    return Options(isolate=False, **given)  # type: ignore[arg-type]


def _overrides(content: bytes) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for number, entry in fields_of(content):
        if number == _OVERRIDES and isinstance(entry, bytes):
            parts = dict(fields_of(entry))
            key, value = parts.get(_KEY, b""), parts.get(_VALUE, b"")
            if not isinstance(key, bytes) or not isinstance(value, bytes):
                raise ValueError("the compile options hold an override that is no option")
            found[key.decode()] = _value(value)
    return found


def _value(content: bytes) -> Value:
    for number, value in fields_of(content):
        if number == _STRING and isinstance(value, bytes):
            return value.decode()
        if number == _BOOL:
            return bool(value)
        if number == _INTEGER and isinstance(value, int):
            return value - (1 << 64) if value >> 63 else value
        if number == _DOUBLE and isinstance(value, bytes):
            return float(struct.unpack("<d", value)[0])
    return ""
