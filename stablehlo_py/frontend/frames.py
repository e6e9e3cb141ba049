"""What `isolate` and its child send each other: a description in JSON and a payload, each behind its length."""

from __future__ import annotations

import json
import struct
from typing import Any

LENGTH = struct.Struct("<Q")
LIFE = 3  # number of the pipe that ends with the parent, in a child that was spawned; its standard input is the socket


def frame(header: dict[str, Any], payload: bytes) -> bytes:
    """A request or a reply as it travels: a JSON header and a payload, each after its length."""
    encoded = json.dumps(header).encode()
    return b"".join((LENGTH.pack(len(encoded)), encoded, LENGTH.pack(len(payload)), payload))
