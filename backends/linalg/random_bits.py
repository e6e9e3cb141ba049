"""Random bits: every element from its counter, in XLA's order (backends/cpu/kernels/rng_bit_generator.py has the two
functions and says which words become which elements)."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.cpu.kernels.rng_bit_generator import Layout, check, philox_4x32, three_fry
from stablehlo_py.backends.linalg.rules import RULES
from stablehlo_py.backends.linalg.tensors import Tensor, TensorFunction
from stablehlo_py.codegen.builder import I64, ScalarType, Value
from stablehlo_py.codegen.types import Known, Lanes, element, from_bits
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.types import static_shape, text
from stablehlo_py.mlir import ir


@RULES.rule("hlo.rng_bit_generator")
def _rng_bit_generator(f: TensorFunction, op: ir.OpView, tensors: Sequence[Tensor]) -> list[Tensor]:
    (state,), philox = tensors, text(op, "algorithm") != "THREE_FRY"
    check(op, philox)
    sizes, of = static_shape(op.results[1]), element(op.results[1])
    layout = Layout.of(sizes, of.bits, 4 if philox else 2)
    words: list[Known] = [f.element(state, [number]) for number in range(state.sizes[0])]
    key, low = words[:2]
    high = words[2] if len(words) == 3 else key

    def word(counter: Value, number: Value) -> Value:
        """A word of 32 bits of a counter, relative to that of the state."""
        at = f.binary("add", low, counter)
        if philox:
            carry = f.cast("zext", f.cmp("ult", at, low), I64)
            made = philox_4x32(f, key, at, f.binary("add", high, carry))
        else:
            made = three_fry(f, key, at)
        found = made[0]
        for which, other in enumerate(made[1:], 1):
            found = f.select(f.cmp("eq", number, f.const(which)), other, found)
        return found

    def body(at: list[Value]) -> Lanes:
        strides = row_major_strides(sizes)
        place = f.const(0)
        for index, stride in zip(at, strides, strict=True):
            place = f.index(f.iadd(place, f.imul(index, stride)))
        if layout.kept is None:
            size, inner = f.const(layout.size), f.const(layout.inner)
            middle, behind = f.binary("udiv", place, inner), f.binary("urem", place, inner)
            outer, row = f.binary("udiv", middle, size), f.binary("urem", middle, size)
            two = f.const(2)
            counter = f.iadd(f.imul(outer, layout.half), f.binary("udiv", row, two))
            counter = f.iadd(f.imul(counter, layout.inner), behind)
            bits = word(f.index(counter), f.binary("urem", row, two))
        elif of.bits == 64:
            first = f.imul(place, 2)
            parts = [
                f.cast("zext", word(*_split(f, f.index(f.iadd(first, number)), layout.words)), I64) for number in (0, 1)
            ]
            bits = f.binary("or", parts[0], f.binary("shl", parts[1], f.const(32)))
        else:
            bits = word(*_split(f, place, layout.words))
        if of.bits < 32:
            bits = f.cast("trunc", bits, ScalarType(f"i{of.bits}", of.bits))
        return from_bits(f, of, bits)

    drawn = f.by_index(sizes, of, body) if 0 not in sizes else f.empty(sizes, of)
    grown = f.binary("add", low, f.const(layout.counters))
    after = f.with_element(grown, f.with_element(key, f.empty(state.sizes, state.of), [0]), [1])
    if len(words) == 3:
        carry = f.cast("zext", f.cmp("ult", grown, low), I64)
        after = f.with_element(f.binary("add", high, carry), after, [2])
    return [after, drawn]


def _split(f: TensorFunction, word: Value, words: int) -> tuple[Value, Value]:
    count = f.const(words)
    return f.binary("udiv", word, count), f.binary("urem", word, count)
