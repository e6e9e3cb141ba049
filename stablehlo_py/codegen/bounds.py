"""Between which numbers the results of index arithmetic are."""

from __future__ import annotations

from stablehlo_py.codegen.values import Bounds


def fits(a: Bounds | None, bits: int) -> bool:
    """Whether signed integers of so many bits have all the numbers."""
    return a is not None and -(1 << (bits - 1)) <= a[0] and a[1] < 1 << (bits - 1)


def bounds_of(name: str, a: Bounds | None, b: Bounds | None) -> Bounds | None:
    """Of add, sub, mul, udiv, urem, xor, smin or smax of two integers; None: nothing is known."""
    if name == "urem" and b is not None and b[0] > 0:
        return (0, b[1] - 1 if a is None or a[0] < 0 else min(a[1], b[1] - 1))
    if a is None or b is None:
        return None
    if name == "udiv":
        return (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else None
    if name in ("smin", "smax"):
        choose = min if name == "smin" else max
        return choose(a[0], b[0]), choose(a[1], b[1])
    if name == "xor":
        return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if a[0] >= 0 and b[0] >= 0 else None
    if name == "add":
        return a[0] + b[0], a[1] + b[1]
    if name == "sub":
        return a[0] - b[1], a[1] - b[0]
    if name == "mul":
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    return None
