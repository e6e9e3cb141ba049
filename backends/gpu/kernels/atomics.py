"""Atomic updates: what memory holds is combined with another number, in one step to all threads of the device.

They come in no order, so sums of floats vary in their last bits from call to call. Where the machine has no instruction
for the op and the type, a thread reads what is there, combines, and writes if that is still there; else it tries again
with what has come meanwhile. Where combining changes nothing (most numbers are no new maximum), nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import apply
from stablehlo_py.codegen.builder import I1, I32, I64, Function, Index, Value
from stablehlo_py.codegen.types import PARTS, Element, Known, Lanes
from stablehlo_py.mlir import ir


def update_atomically(
    f: Function, target: GpuTarget, op: ir.Operation, of: Element, base: Value, to: Index, new: Known
) -> None:
    """Make an element of an array (`base`, `to`) the result of an op of itself and of `new`. The target can do it
    (`updates_atomically`)."""
    if of.is_complex and op.name == "hlo.add":  # each part by itself
        for number, part in enumerate(new):
            place = f.iadd(f.imul(to, 2), number)
            _update(f, target, op, PARTS[of.name], base, place, part, partial(f.binary, "fadd", part))
    else:
        _update(f, target, op, of, base, to, new, lambda old: apply(f, op, [old, new]))


def _update(
    f: Function,
    target: GpuTarget,
    op: ir.Operation,
    of: Element,
    base: Value,
    to: Index,
    new: Known,
    combine: Callable[[Known], Lanes],
) -> None:
    """By an instruction, or by `combine`, which says what `new` makes of what was there."""
    instruction = target.atomic_instruction(op.name, of)
    if instruction is not None:
        f.atomic_update(instruction, f.gep(base, to, of.storage), new)
    else:
        _replace(f, of, base, to, combine)


def _replace(f: Function, of: Element, base: Value, to: Index, combine: Callable[[Known], Lanes]) -> None:
    """By compare-and-exchange."""
    word = I64 if of.bytes == 8 else I32
    address = f.gep(base, to, word)

    def combined(old: Value) -> Value:
        return _word(f, combine(_lanes(f, of, old)))

    def goes_on(old: Value, is_done: Value) -> Value:
        is_open = f.binary("xor", is_done, f.const(True, I1))
        return f.binary("and", is_open, f.cmp("ne", combined(old), old))

    def attempt(old: Value, _: Value) -> Sequence[Value]:
        return f.atomic_replace(address, old, combined(old))

    f.while_([f.atomic_load(word, address, "monotonic"), f.const(False, I1)], goes_on, attempt)


def _word(f: Function, value: Lanes) -> Value:
    """The bits of an element of 32 or 64 bits."""
    first, *second = [_bits(f, part) for part in types.parts(value)]
    if not second:
        return first
    high = f.binary("shl", f.cast("zext", second[0], I64), f.const(32))
    return f.binary("or", high, f.cast("zext", first, I64))


def _bits(f: Function, a: Value) -> Value:
    return f.bitcast(a, I64 if a.type.bits == 64 else I32) if a.type.is_float else a


def _lanes(f: Function, of: Element, word: Value) -> Lanes:
    """The element that a word is."""
    if of.is_complex:
        halves = (f.cast("trunc", each, I32) for each in (word, f.binary("lshr", word, f.const(32))))
        real, imaginary = (f.bitcast(half, of.storage) for half in halves)
        return real, imaginary
    return f.bitcast(word, of.storage) if of.is_float else word
