"""What a CompileOptionsProto says (xla/pjrt/proto/compile_options.proto), as far as this platform needs it: the wire
format of protocol buffers is read here, for no package that we depend on has its classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_EXECUTABLE_BUILD_OPTIONS, _NUM_REPLICAS, _NUM_PARTITIONS, _DEVICE_ASSIGNMENT = 3, 4, 5, 9
_COMPUTATION_DEVICES, _REPLICA_DEVICE_IDS = 3, 1


@dataclass(frozen=True)
class CompileOptions:
    """The size of the grid, and the numbers of its devices, row-major by replica (none: the first ones); `content` is
    the message."""

    replicas: int = 1
    partitions: int = 1
    devices: tuple[int, ...] = ()
    content: bytes = field(default=b"", compare=False)

    @property
    def processes(self) -> int:
        """How many devices run the program."""
        return self.replicas * self.partitions

    @property
    def assigned(self) -> tuple[int, ...]:
        """The numbers of its devices."""
        return self.devices or tuple(range(self.processes))

    @classmethod
    def of(cls, content: bytes) -> CompileOptions:
        """Read them. Raises ValueError: it is no such message."""
        for number, value in fields_of(content):
            if number == _EXECUTABLE_BUILD_OPTIONS and isinstance(value, bytes):
                return cls(*_grid(value), content)
        return cls(content=content)


def _grid(build_options: bytes) -> tuple[int, int, tuple[int, ...]]:
    replicas, partitions = 1, 1
    devices: tuple[int, ...] = ()
    for number, value in fields_of(build_options):
        if number == _NUM_REPLICAS and isinstance(value, int):
            replicas = value
        elif number == _NUM_PARTITIONS and isinstance(value, int):
            partitions = value
        elif number == _DEVICE_ASSIGNMENT and isinstance(value, bytes):
            devices = _devices(value)
    return max(1, replicas), max(1, partitions), devices


def _devices(content: bytes) -> tuple[int, ...]:
    """The numbers of a DeviceAssignmentProto, which lists the replicas' devices for each partition."""
    columns = [
        [each for number, value in fields_of(column) if number == _REPLICA_DEVICE_IDS for each in _numbers(value)]
        for number, column in fields_of(content)
        if number == _COMPUTATION_DEVICES and isinstance(column, bytes)
    ]
    return tuple(number for row in zip(*columns, strict=True) for number in row)


def _numbers(value: int | bytes) -> list[int]:
    """Of a repeated field, which may be packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def fields_of(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, and bytes of what has a length or eight bytes of its own."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(content, at)
            yield number, value
        elif kind == 2:
            size, at = _varint(content, at)
            if at + size > len(content):
                raise ValueError("a field of the compile options ends too early")
            yield number, content[at : at + size]
            at += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, content[at : at + size]
            at += size
        else:
            raise ValueError(f"the compile options hold a field of the unknown kind {kind}")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content):
            raise ValueError("the compile options end too early")
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def device_assignment(devices: Sequence[int], replicas: int = 1) -> bytes:
    """A DeviceAssignmentProto of devices, row-major by replica."""
    partitions = len(devices) // replicas
    columns = b""
    for partition in range(partitions):
        column = packed(_REPLICA_DEVICE_IDS, devices[partition::partitions])
        columns += b"\x1a" + _written(len(column)) + column
    return b"\x08" + _written(replicas) + b"\x10" + _written(partitions) + columns


def numeric(number: int, value: int) -> bytes:
    """A field of a number."""
    return _written(number << 3) + _written(value)


def packed(number: int, numbers: Sequence[int]) -> bytes:
    """A repeated field of numbers."""
    content = b"".join(map(_written, numbers))
    return _written(number << 3 | 2) + _written(len(content)) + content


def _written(number: int) -> bytes:
    """A varint."""
    found = bytearray()
    while True:
        number, low = number >> 7, number & 127
        found.append(low | 128 if number else low)
        if not number:
            return bytes(found)
