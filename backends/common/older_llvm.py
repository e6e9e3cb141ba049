"""LLVM IR as MLIR's LLVM prints it, for the older LLVM that llvmlite has: floating-point constants are spelled in
another way there (LLVM Language Reference, Simple Constants)."""

from __future__ import annotations

import re

from stablehlo_py.codegen.values import BF16, F16, F32, F64, float_bits

_FLOATS = {"half": F16, "bfloat": BF16, "float": F32, "double": F64}
_MANTISSA = {"half": 10, "bfloat": 7, "float": 23, "double": 52}
_PREFIX = {"half": "0xH", "bfloat": "0xR", "float": "0x", "double": "0x"}
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|\b(?P<type>half|bfloat|float|double)\b|(?<![\w.%@$-])(?P<number>f0x[0-9A-Fa-f]+'
    r"|[+-]?\d+\.\d*(?:[eE][+-]?\d+)?|[+-]inf\b|[+-]qnan\b|[+-]s?nan\(0x[0-9A-Fa-f]+\))"
)
_NUMBER = re.compile(r"f0x|\d\.\d|[+-](?:inf|s?q?nan)\b")


def for_older_llvm(text: str) -> str:
    """The same module."""
    if not _NUMBER.search(text):
        return text
    kept = ("attributes", "source_filename")
    return "\n".join(
        line if line.startswith(kept) or not _NUMBER.search(line) else _line(line) for line in text.split("\n")
    )


def _line(line: str) -> str:
    type_ = ""

    def spelled(token: re.Match[str]) -> str:
        nonlocal type_
        type_ = token["type"] or type_
        return _spelled(type_, token["number"]) if token["number"] and type_ else token[0]

    return _TOKEN.sub(spelled, line)


def _spelled(type_: str, number: str) -> str:
    bits, of = _bits(type_, number), _FLOATS[type_]
    if of is F32:  # by the double of the same value
        bits = _as_double(bits)
    return f"{_PREFIX[type_]}{bits:0{16 if of is F32 else of.bits // 4}X}"


def _bits(type_: str, number: str) -> int:
    of, mantissa = _FLOATS[type_], _MANTISSA[type_]
    if number.startswith("f0x"):
        return int(number[3:], 16)
    body = number.lstrip("+-")
    if body[0].isdigit():
        return float_bits(float(number), of)
    sign = int(number.startswith("-")) << (of.bits - 1)
    infinity = ((1 << (of.bits - 1 - mantissa)) - 1) << mantissa
    if body == "inf":
        return sign | infinity
    payload = int(body[body.index("(") + 1 : -1], 16) if "(" in body else 0
    quiet = 0 if body.startswith("snan") else 1 << (mantissa - 1)
    return sign | infinity | quiet | payload


def _as_double(bits: int) -> int:
    """The bits of the double of the same value as those of a float; the payload of a NaN stays."""
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return sign << 63 | 0x7FF << 52 | mantissa << 29
    value = (mantissa * 2.0**-149) if exponent == 0 else (1 + mantissa / 2**23) * 2.0 ** (exponent - 127)
    return float_bits(-value if sign else value, F64)
