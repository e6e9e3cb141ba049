"""What a custom call of a Triton kernel says, in the forms in which JAX and jax-triton write it.

`__gpu$xla.gpu.triton` has a typed configuration, whose entry `ir` is the kernel in Triton's IR: MLIR's bytecode, or
text. `triton_kernel_call` and `triton_kernel_call_ffi` have a compressed message (jaxlib/gpu/triton.proto in
jax-ml/jax), which holds that IR as text, the PTX that was made of it, and what each parameter is.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stablehlo_py.dialect.custom_call import configuration
from stablehlo_py.dialect.types import text
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import ir

_TYPED = "__gpu$xla.gpu.triton"
_PACKED = ("triton_kernel_call", "triton_kernel_call_ffi")
TARGETS = frozenset((_TYPED, *_PACKED))
#: What bytecode of MLIR begins with.
BYTECODE = b"ML\xefR"
_MOST_BLOCKS = (1 << 31) - 1  # of a launch
_MOST_WARPS, _MOST_STAGES = 32, 64
_MOST_BYTES = 256 << 20  # of a message, so that a compressed one of any content is read
REMEDY = "export the model with the function that the kernel replaces, in terms of jax.numpy and jax.lax"


@dataclass(frozen=True)
class Scalar:
    """A number that is a parameter of a kernel: MLIR's type of it, and its value as MLIR's text has it."""

    type: str
    value: str


@dataclass(frozen=True)
class TritonCall:
    """A kernel of Triton and how it is launched.

    Attributes:
        name: of the kernel in its IR; empty: it is the only public function there.
        ir: Triton's IR, as text or as bytecode.
        grid: programs along each axis; warps: of a block; stages: of loads in loops.
        parameters: those of the kernel; None: a pointer to the next one of the call's buffers, which are its operands
            and then its results. Empty: all are pointers to these.
        zeroed: the numbers of the buffers that are 0 when the kernel starts, and how many bytes of them (None: all).
    """

    name: str
    ir: bytes
    grid: tuple[int, int, int]
    warps: int
    stages: int
    parameters: tuple[Scalar | None, ...] = ()
    zeroed: tuple[tuple[int, int | None], ...] = ()

    @property
    def programs(self) -> int:
        """How many the grid has."""
        return math.prod(self.grid)


def refusal(target: str) -> str:
    """Why a kernel of Triton has no code here."""
    return f"calls {target!r}, a kernel of Triton for NVIDIA's GPUs, for which there is code in programs for 'cuda'"


def triton_call(op: ir.OpView | ir.Operation) -> TritonCall:
    """Of a call of one of `TARGETS`; of a call that leaves the choice among several kernels to whoever times them, the
    first one. Raises UnsupportedError: the call is not as its target takes it."""
    target, entries = text(op, "call_target_name"), configuration(op)
    try:
        call = _typed(entries) if target == _TYPED else _packed(_bytes(entries))
        _check(call, len(op.operands) + len(op.results))
    except (ValueError, KeyError, struct.error, zlib.error) as error:
        what = f"without {error}" if isinstance(error, KeyError) else str(error)
        raise UnsupportedError(f"{target!r} is not as JAX writes it: {what}", remedy=REMEDY) from error
    return call


def _check(call: TritonCall, buffers: int) -> None:
    if not call.ir:
        raise ValueError("it holds no IR of its kernel")
    if min(call.grid) < 1 or call.programs > _MOST_BLOCKS:
        raise ValueError(f"a grid of {' x '.join(map(str, call.grid))} programs")
    if not (1 <= call.warps <= _MOST_WARPS and call.warps.bit_count() == 1 and 1 <= call.stages <= _MOST_STAGES):
        raise ValueError(f"{call.warps} warps and {call.stages} stages")
    pointers = sum(each is None for each in call.parameters)
    if call.parameters and pointers != buffers:
        raise ValueError(f"{pointers} parameters are pointers, and the call has {buffers} operands and results")
    if any(not 0 <= number < buffers for number, _ in call.zeroed):
        raise ValueError("what is to be zero is none of its operands and results")


# --- the typed configuration ------------------------------------------------------------------------------------------


def _typed(entries: Mapping[str, ir.Attribute]) -> TritonCall:
    if _flag(entries, "is_tma_allowed") or _number(entries, "global_scratch_memory_size", 0):
        raise ValueError("its kernel wants memory of its own")
    zeroed = entries.get("zeroed_outputs")
    if zeroed is not None and not isinstance(zeroed, ir.ArrayAttr):
        raise ValueError("zeroed_outputs is no list of numbers")
    return TritonCall(
        name=_string(entries, "name").decode(),
        ir=_string(entries, "ir"),
        grid=(_number(entries, "grid_x"), _number(entries, "grid_y"), _number(entries, "grid_z")),
        warps=_number(entries, "num_warps"),
        stages=max(1, _number(entries, "num_stages")),
        zeroed=tuple((_value("zeroed_outputs", each), None) for each in zeroed or ()),
    )


def _number(entries: Mapping[str, ir.Attribute], name: str, otherwise: int | None = None) -> int:
    return otherwise if otherwise is not None and name not in entries else _value(name, entries[name])


def _value(name: str, entry: ir.Attribute) -> int:
    if not isinstance(entry, ir.IntegerAttr):
        raise ValueError(f"{name} is no whole number")
    return int(entry.value)


def _flag(entries: Mapping[str, ir.Attribute], name: str) -> bool:
    entry = entries.get(name)
    return isinstance(entry, ir.BoolAttr) and bool(entry.value)


def _string(entries: Mapping[str, ir.Attribute], name: str) -> bytes:
    entry = entries[name]
    if not isinstance(entry, ir.StringAttr):
        raise ValueError(f"{name} is no text")
    return bytes(entry.value_bytes)


# --- the message ------------------------------------------------------------------------------------------------------


def _bytes(entries: Mapping[str, ir.Attribute]) -> bytes:
    packed = _string(entries, "opaque" if "opaque" in entries else "backend_config")
    unpack = zlib.decompressobj()
    message = unpack.decompress(packed, _MOST_BYTES)
    if not unpack.eof:
        raise ValueError("its message is cut off, or too long")
    return message


_Field = int | bytes
_Fields = Mapping[int, Sequence[_Field]]


def _fields(message: bytes) -> _Fields:
    """The fields of a message of Protocol Buffers by their numbers, each with all of its values."""
    found: dict[int, list[_Field]] = {}
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        value: _Field
        if kind == 0:
            value, place = _varint(message, place)
        else:
            size, place = _varint(message, place) if kind == 2 else ({1: 8, 5: 4}.get(kind, -1), place)
            if size < 0 or place + size > len(message):
                raise ValueError("its message is none of Protocol Buffers")
            value, place = message[place : place + size], place + size
        found.setdefault(number, []).append(value)
    return found


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A whole number of 7 bits in each byte, and where it ends."""
    value = 0
    for shift, byte in enumerate(message[place : place + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, place + shift + 1
    raise ValueError("its message is cut off")


def _whole(fields: _Fields, number: int, otherwise: int = 0) -> int:
    value = fields.get(number, (otherwise,))[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {number} is no whole number")
    return value


def _part(fields: _Fields, number: int) -> bytes:
    value = fields.get(number, (b"",))[-1]
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is no text")
    return value


def _packed(message: bytes) -> TritonCall:
    """Of `TritonAnyKernelCall`."""
    fields = _fields(message)
    if 1 in fields:
        return _kernel_call(_fields(_part(fields, 1)))
    configs = _fields(_part(fields, 2)).get(2, ())
    if not configs or not isinstance(configs[0], bytes):
        raise ValueError("its message holds no kernel")
    return _kernel_call(_fields(_part(_fields(configs[0]), 1)))


def _kernel_call(fields: _Fields) -> TritonCall:
    """Of `TritonKernelCall`."""
    kernel = _fields(_part(fields, 1))
    if _whole(kernel, 10, 1) != 1:
        raise ValueError("its blocks work in clusters")
    parameters = tuple(_parameters(fields.get(5, ())))
    zeroed = [size for each, size in parameters if each is None]
    return TritonCall(
        name="",  # of the machine code, which may be another one than in the IR
        ir=_part(kernel, 5),
        grid=(_whole(fields, 2), _whole(fields, 3), _whole(fields, 4)),
        warps=_whole(kernel, 2),
        stages=3,  # nothing says how many; Triton's own choice
        parameters=tuple(each for each, _ in parameters),
        zeroed=tuple((number, size) for number, size in enumerate(zeroed) if size),
    )


def _parameters(messages: Sequence[_Field]) -> Iterator[tuple[Scalar | None, int]]:
    """Each one (None: a pointer), and how many bytes there are to be zero."""
    for message in messages:
        fields = _fields(message) if isinstance(message, bytes) else {}
        if len(fields) != 1:
            raise ValueError("a parameter of no known kind")
        ((number, (*_, value)),) = fields.items()
        if number == 1 and isinstance(value, bytes):
            yield None, _whole(_fields(value), 1)
        elif number in _SCALARS:
            type_, read = _SCALARS[number]
            yield Scalar(type_, read(value)), 0
        else:
            raise ValueError("a parameter of no known kind")


def _signed(bits: int) -> Callable[[_Field], str]:
    def read(value: _Field) -> str:
        if not isinstance(value, int):
            raise ValueError("a parameter that is no whole number")
        number = value & ((1 << bits) - 1)
        return str(number - (1 << bits) if number >> (bits - 1) else number)

    return read


def _float(code: str, digits: int) -> Callable[[_Field], str]:
    """Of a number's bits, which MLIR takes for a float."""

    def read(value: _Field) -> str:
        if not isinstance(value, bytes):
            raise ValueError("a parameter that is no float")
        (number,) = struct.unpack(code, value)
        return f"0x{number:0{digits}X}"

    return read


def _truth(value: _Field) -> str:
    return "true" if value else "false"


# Of `TritonKernelCall.Parameter`, by the numbers of its fields.
_SCALARS: Mapping[int, tuple[str, Callable[[_Field], str]]] = {
    2: ("i1", _truth),
    3: ("i32", _signed(32)),
    4: ("i32", _signed(32)),
    5: ("i64", _signed(64)),
    6: ("i64", _signed(64)),
    7: ("f32", _float("<I", 8)),
    8: ("f64", _float("<Q", 16)),
}
