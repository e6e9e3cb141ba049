"""The read-only data of a library as LLVM IR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from stablehlo_py.backends.common.library_data import Address, Data, Int32, Int64, Text, Word
from stablehlo_py.dialect.alignment import aligned
from stablehlo_py.errors import InternalError

_ALIGNMENT = 64


def data_text(data: Iterable[Data]) -> str:
    """Globals that hold the data."""
    texts: dict[str, str] = {}
    lines = [_global(each, texts) for each in data]
    names = (_text_global(symbol, value) for value, symbol in texts.items())
    return "\n".join([*names, *lines])


def _global(data: Data, texts: dict[str, str]) -> str:
    types = ", ".join(map(_type, data.rows[0]))
    type_ = types if len(data.rows[0]) == 1 else f"{{ {types} }}"
    rows = []
    for row in data.rows:
        words = ", ".join(f"{_type(word)} {_value(word, texts)}" for word in row)
        rows.append(words if len(row) == 1 else f"{type_} {{ {words} }}")
    kind = "constant" if data.public else "internal constant"
    if data.public:
        (only,) = rows
        return f"@{data.symbol} = {kind} {only}, align 8"
    return f"@{data.symbol} = {kind} [{len(rows)} x {type_}] [{', '.join(rows)}], align 8"


def _type(word: Word) -> str:
    return {Int32: "i32", Int64: "i64", Text: "ptr", Address: "ptr"}[type(word)]


def _value(word: Word, texts: dict[str, str]) -> str:
    if isinstance(word, (Int32, Int64)):
        return str(word.value)
    if isinstance(word, Text):
        return "@" + texts.setdefault(word.value, f"shlo.text.{len(texts)}")
    if word.symbol is None:
        return "null"
    return _place(word.symbol, word.offset)


def _place(symbol: str, offset: int) -> str:
    return f"getelementptr (i8, ptr @{symbol}, i64 {offset})" if offset else f"@{symbol}"


def _text_global(symbol: str, value: str) -> str:
    content = value.encode() + b"\0"
    return f'@{symbol} = internal constant [{len(content)} x i8] c"{_escaped(content)}"'


def _escaped(content: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in content)


# --- constants --------------------------------------------------------------------------------------------------------


class ConstantData:
    """The constants of a program in one read-only block. LLVM is given zeros, and `fill` puts the constants into the
    object file: as text they would take it minutes.

    Attributes:
        marker: the bytes that stand at the start of the block until then.
    """

    def __init__(self, table: str, constants: Sequence[np.ndarray], marker: bytes) -> None:
        assert len(marker) <= _ALIGNMENT
        self._table, self._arrays, self.marker = table, [np.ascontiguousarray(array) for array in constants], marker
        sizes = [aligned(max(array.nbytes, 1)) for array in self._arrays]
        self._offsets = np.cumsum([0, *sizes]).tolist()

    def text(self) -> str:
        """Globals: the block, and the table of the addresses of the constants."""
        block, size, start = f"{self._table}.block", self._offsets[-1], len(self.marker)
        types = f"<{{ [{start} x i8], [{size - start} x i8] }}>"
        value = f'<{{ [{start} x i8] c"{_escaped(self.marker)}", [{size - start} x i8] zeroinitializer }}>'
        places = ", ".join(f"ptr {_place(block, offset)}" for offset in self._offsets[:-1])
        return (
            f"@{block} = internal constant {types} {value}, align {_ALIGNMENT}\n"
            f"@{self._table} = internal constant [{len(self._arrays)} x ptr] [{places}]"
        )

    def fill(self, content: bytes) -> bytes:
        """The object file with the constants in their places."""
        begin = content.find(self.marker)
        if begin < 0 or content.find(self.marker, begin + 1) >= 0:
            raise InternalError("the place of the constants in the object file is not known", remedy="report it")
        filled = bytearray(content)
        filled[begin : begin + len(self.marker)] = bytes(len(self.marker))
        for array, offset in zip(self._arrays, self._offsets, strict=False):
            filled[begin + offset : begin + offset + array.nbytes] = array.tobytes()
        return bytes(filled)
