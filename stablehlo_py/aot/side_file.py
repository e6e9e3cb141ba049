"""Files of constants: safetensors, so that other tools read them too. A tensor's name is the hash of its content: equal
constants of several models are stored once, and a library finds and checks its own by it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stablehlo_py.backends.common.library_constants import content_hash
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.errors import LoadError

_TYPES = {
    "i1": "BOOL",
    "i8": "I8",
    "i16": "I16",
    "i32": "I32",
    "i64": "I64",
    "ui8": "U8",
    "ui16": "U16",
    "ui32": "U32",
    "ui64": "U64",
    "f16": "F16",
    "bf16": "BF16",
    "f32": "F32",
    "f64": "F64",
    "f8E4M3FN": "F8_E4M3",
    "f8E5M2": "F8_E5M2",
}
_ALIGNMENT = 64
_OTHER = "__metadata__"


def side_file(constants: Sequence[np.ndarray], before: bytes | None = None) -> bytes:
    """The file that holds these constants, and what was in it `before`.

    Raises:
        LoadError: what was there before is not such a file.
    """
    tensors: dict[str, tuple[str, list[int], bytes]] = {} if before is None else _read(before)
    for array in constants:
        dense = np.ascontiguousarray(array)
        content = dense.tobytes()
        type_ = _TYPES.get(element_name(dense.dtype))
        # Types that the format has not (complex, 4 bits) are bytes there.
        shape = list(dense.shape) if type_ else [len(content)]
        tensors[tensor_name(content)] = (type_ or "U8", shape, content)
    # Large elements first: then all are aligned as their elements are, with no holes, which the format forbids.
    order = sorted(tensors, key=lambda name: (-_element_bytes(*tensors[name]), name))
    header: dict[str, object] = {_OTHER: {"format": "shlo"}}
    at = 0
    for name in order:
        type_, shape, content = tensors[name]
        header[name] = {"dtype": type_, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return b"".join([struct.pack("<Q", len(text)), text, *(tensors[name][2] for name in order)])


def tensor_name(content: bytes) -> str:
    """The name of a tensor in the file."""
    return f"{content_hash(content):016x}"


def _element_bytes(type_: str, shape: list[int], content: bytes) -> int:
    """A power of two that the size of the tensor is a multiple of, up to 16: complex numbers are pairs of 8 bytes."""
    del shape
    if type_ != "U8":
        return {"BOOL": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2}.get(
            type_, 4 if type_.endswith("32") else 8
        )
    return 16 if len(content) % 16 == 0 else 8 if len(content) % 8 == 0 else 1


def _read(content: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    try:
        (size,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + size])
        found = {}
        for name, each in header.items():
            if name != _OTHER:
                begin, end = each["data_offsets"]
                data = content[8 + size + begin : 8 + size + end]
                if tensor_name(data) != name:
                    raise ValueError(f"tensor '{name}' is not named by its content")
                found[name] = (each["dtype"], each["shape"], data)
        return found
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise LoadError(
            f"the file of constants that is there already is none of ours: {error}",
            remedy="write to another path, or remove it",
        ) from error


def content_before(path: Path) -> bytes | None:
    """What is at a path; None: nothing."""
    return path.read_bytes() if path.exists() else None
