"""Errors as PJRT has them: a code and a text."""

from __future__ import annotations

import traceback

from stablehlo_py.errors import (
    ArgumentError,
    CallError,
    LoadError,
    OptionError,
    ResourceError,
    ShloError,
    UnsupportedError,
)
from stablehlo_py.pjrt.blocks import Blocks, Memory, PlatformError

# Codes of errors (absl::StatusCode).
_INVALID, _EXHAUSTED, _UNIMPLEMENTED, _INTERNAL = 3, 8, 12, 13
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UnsupportedError, _UNIMPLEMENTED),
    (ResourceError, _EXHAUSTED),
    (MemoryError, _EXHAUSTED),
    (ArgumentError, _INVALID),
    (LoadError, _INVALID),
    (OptionError, _INVALID),
    (ValueError, _INVALID),
)


def error_of(failure: BaseException, blocks: Blocks) -> int:
    """A new error of the API."""
    cause = failure.__cause__ if isinstance(failure, CallError) else None
    coded = next((each for each in (failure, cause) if isinstance(each, PlatformError)), None)
    if coded is not None:
        code = coded.code
    else:
        code = next((code for kinds, code in _CODES if isinstance(failure, kinds)), _INTERNAL)
    said = str(failure) if isinstance(failure, ShloError | PlatformError) else f"{type(failure).__name__}: {failure}"
    if cause is not None and coded is None:  # a function of Python raised it
        said += "\n" + "".join(traceback.format_exception(cause))
    memory = Memory()
    message, size = memory.text(said)
    return blocks.new("error", memory, message=message, size=size, code=code)
