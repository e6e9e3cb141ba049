"""The read-only data of a library: the table that describes its model (`shlo_model` of include/shlo_model.h) and what
that refers to. Here it is data of no language; a backend writes it in its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.common.library import ALIGNMENT, Signature
from stablehlo_py.backends.common.library_constants import KEY_COLUMNS, constant_keys
from stablehlo_py.dialect.constants import element_name
from stablehlo_py.runtime.callbacks import NUMBERS
from stablehlo_py.runtime.library import ABI, Interface
from stablehlo_py.runtime.program import CompiledProgram, DynamicLayout, Spec


@dataclass(frozen=True)
class Int32:
    """An int32_t."""

    value: int


@dataclass(frozen=True)
class Int64:
    """An int64_t."""

    value: int


@dataclass(frozen=True)
class Text:
    """The address of a text, which ends with a zero byte."""

    value: str


@dataclass(frozen=True)
class Address:
    """The address of a function or of other data, plus some bytes; None: null. `type` is C's, of a function."""

    symbol: str | None
    offset: int = 0


Word = Int32 | Int64 | Text | Address


@dataclass(frozen=True)
class Data:
    """An array of structures (of one word: of numbers or addresses) of C's type `type`.

    Attributes:
        symbol: its name. rows: its elements. public: whether others see it, then it is one structure.
    """

    symbol: str
    type: str
    rows: tuple[tuple[Word, ...], ...]
    public: bool = False


def describing_data(program: CompiledProgram, interface: Interface, hash_: str, target: str) -> list[Data]:
    """The data of a library, each behind what it refers to; `hash_` identifies the model, `target` is for people."""
    signature = Signature.of(program)
    return [*_tables(program, signature, interface), _model(program, signature, interface, hash_, target)]


def _model(program: CompiledProgram, signature: Signature, interface: Interface, hash_: str, target: str) -> Data:
    name, layout = interface.name, program.dynamic

    def function(suffix: str, exists: bool) -> Address:
        return Address(f"{name}_{suffix}" if exists else None)

    def table(suffix: str, length: int) -> Address:
        return Address(f"{name}_{suffix}" if length else None)

    own, file = interface.threads == "own", interface.constants == "file"
    words: tuple[Word, ...] = (
        Int32(ABI),
        Int32(interface.most_threads),
        Text(name),
        Text(hash_),
        Text(target),
        Int32(len(program.inputs)),
        Int32(len(program.outputs)),
        table("argument_table", len(program.inputs)),
        table("result_table", len(program.outputs)),
        Int64(layout.arena_bytes if layout else program.arena_bytes),
        Int64(ALIGNMENT),
        function("call", True),
        Int64(layout.slots + 1 if layout else 0),
        Int64(len(layout.symbols) if layout else 0),
        table("symbol_table", len(layout.symbols) if layout else 0),
        function("sizes", layout is not None),
        Int64(len(program.constants) if file else 0),
        function("constants", file),
        function("threads_start", own),
        function("threads_stop", own),
        function("parallel_for", own),
    )
    return Data(f"{name}_model", "shlo_model", (words,), public=True)


def _tables(program: CompiledProgram, signature: Signature, interface: Interface) -> Iterator[Data]:
    name = interface.name
    for which, specs, aliases in (
        ("argument", signature.inputs, {}),
        ("result", signature.outputs, signature.aliases),
    ):
        shapes = [_shape(program.dynamic, which, number, spec) for number, spec in enumerate(specs)]
        strides = [_strides(spec) for spec in specs]
        begins: dict[tuple[int, ...], int] = {}
        numbers: list[int] = []
        for each in (*shapes, *strides):
            if each not in begins:
                begins[each] = len(numbers)
                numbers += each
        if numbers:
            yield Data(f"{name}_{which}_numbers", "int64_t", tuple((Int64(number),) for number in numbers))

        def place(sizes: tuple[int, ...], which: str = which, begins: dict[tuple[int, ...], int] = begins) -> Address:
            return Address(f"{name}_{which}_numbers", 8 * begins[sizes]) if sizes else Address(None)

        rows = []
        for number, spec in enumerate(specs):
            known = None not in spec.shape
            size = math.prod(spec.shape) * spec.dtype.itemsize if known else -1  # type: ignore[arg-type]
            rows.append(
                (
                    Text(spec.name),
                    Int32(NUMBERS[element_name(spec.dtype)]),
                    Int32(len(spec.shape)),
                    place(shapes[number]),
                    place(strides[number]),
                    Int64(size),
                    Int64(aliases.get(number, -1)),
                )
            )
        if rows:
            yield Data(f"{name}_{which}_table", "shlo_tensor", tuple(rows))
    if program.dynamic is not None and program.dynamic.symbols:
        yield Data(
            f"{name}_symbol_table",
            "shlo_symbol",
            tuple(
                (Int64(each.argument), Int64(each.position), Int64(each.divisor), Int64(int(each.of_shape)))
                for each in program.dynamic.symbols
            ),
        )
    if interface.constants == "file" and program.constants:
        keys = constant_keys(program.constants).reshape(-1)
        assert len(keys) == KEY_COLUMNS * len(program.constants)
        yield Data(interface.constant_keys, "int64_t", tuple((Int64(int(key)),) for key in keys))


def _shape(layout: DynamicLayout | None, which: str, number: int, spec: Spec) -> tuple[int, ...]:
    """Sizes; of a result, one below 0 is a slot of the table; of an argument, -1 is any that fits the model."""
    if layout is not None and which == "result":
        return tuple(layout.outputs[number])
    return tuple(-1 if size is None else size for size in spec.shape)


def _strides(spec: Spec) -> tuple[int, ...]:
    """In bytes, row-major; () where the shape is not known."""
    if None in spec.shape:
        return ()
    sizes: Sequence[int] = spec.shape  # type: ignore[assignment]
    return tuple(math.prod(sizes[dimension + 1 :]) * spec.dtype.itemsize for dimension in range(len(sizes)))
