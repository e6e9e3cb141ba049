"""Fusions of few elements: every value in registers, whole loops included.

Values are scalars or packed vectors (registers.py), so broadcast, reshape, transpose, slice and concatenate cost a
shuffle or nothing: they rearrange registers while code is generated. `scf.while` carries them as block arguments: a
Lorenz system's thousand steps never touch memory. Values too big for that stay in memory (`Memory`) and are read by
dynamic_slice and written in place by dynamic_update_slice, as a scan reads its inputs and stacks its outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.loops import end_if_asked, pack, tree, unpack
from stablehlo_py.backends.cpu.kernels import registers
from stablehlo_py.backends.cpu.kernels.base import Kernel, finished, phase_function
from stablehlo_py.backends.cpu.kernels.elementwise_runs import Run, is_long, runs
from stablehlo_py.backends.cpu.kernels.registers import Pick, Registers
from stablehlo_py.backends.cpu.policy_costs import COSTS
from stablehlo_py.backends.cpu.target import CpuTarget
from stablehlo_py.codegen import types
from stablehlo_py.codegen.arith import ARITH, RealFunction, apply, combine, rounded
from stablehlo_py.codegen.builder import I64, PTR, Function, Index, Value
from stablehlo_py.codegen.conversions import as_index
from stablehlo_py.codegen.shared import Row, shared_code
from stablehlo_py.codegen.types import Element, Known, Lanes, element
from stablehlo_py.dialect.attributes import UNREAD
from stablehlo_py.dialect.carries import kept_in_place
from stablehlo_py.dialect.constants import constant_value
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.evaluate import evaluate_op
from stablehlo_py.dialect.index_map import row_major_strides
from stablehlo_py.dialect.regions import captured_values
from stablehlo_py.dialect.symint import IntLike, IntT, always_at_most
from stablehlo_py.dialect.types import i64s, num_elements, shape, static_shape, symints, text, user_location
from stablehlo_py.errors import InternalError, UnsupportedError
from stablehlo_py.mlir import ir
from stablehlo_py.passmanager.rewrite import defining

# Values of more elements live in memory.
MAX_REGISTERS = 256


@dataclass(frozen=True)
class Memory:
    """A value held in memory, dense and row-major."""

    shape: tuple[IntLike, ...]
    element: Element
    pointer: Value


Held = Registers | Memory
Place = tuple[int, ...]


def emit(fusion: Fusion, target: CpuTarget) -> Kernel:
    """One serial phase of straight-line code and loops."""
    f = phase_function(fusion, target)
    # In a light program a call of a function would be 3 % of its time.
    emitter = _Emitter(f, fusion, calls=not target.is_light)
    emitter.run()
    loops = emitter.block is not None
    if loops:
        f.store(f.null(), f.shared)
    cost = COSTS.instruction_ns * f.length
    return replace(Kernel.of(finished(f, cost=cost), shared_bytes=8 if loops else 0), loops=loops)


def _places(sizes: Sequence[int]) -> itertools.product[Place]:
    return itertools.product(*(range(size) for size in sizes))


class _Emitter:
    def __init__(self, f: Function, fusion: Fusion, *, calls: bool) -> None:
        self.f = f
        self.fusion = fusion
        self.calls = calls  # functions for long code
        self.held: dict[ir.Value, Held] = {}
        self.overwritten: set[ir.Value] = set()
        self.indices: dict[ir.Value, Value] = {}
        self.output_of: dict[ir.Value, int] = {value: number for number, value in enumerate(fusion.outputs)}
        self.inplace = fusion.inplace
        self.block: Value | None = None  # that may end loops, where there are any
        self.spilled: dict[ir.Value, Memory] = {}  # values in registers that a loop indexes at run time
        self.stack: set[str] = set()  # pointers to carries that are indexed at run time

    def run(self) -> None:
        for number, value in enumerate(self.fusion.inputs):
            pointer, of = self.f.parameters[f"in{number}"], element(value)
            if not always_at_most(num_elements(value), MAX_REGISTERS):
                self.held[value] = Memory(shape(value), of, pointer)
            else:
                self.held[value] = registers.load(self.f, static_shape(value), of, pointer)
        self._sequence(self.fusion.ops, self.fusion.outputs)
        for number, value in enumerate(self.fusion.outputs):
            held, pointer = self.holding(value), self.f.parameters[f"out{number}"]
            if isinstance(held, Registers):
                registers.store(self.f, held, pointer)
            elif held.pointer.ref != pointer.ref:
                self.f.copy_memory(pointer, held.pointer, math.prod(held.shape) * held.element.bytes)

    def _sequence(self, ops: Sequence[ir.OpView], outputs: Sequence[ir.Value]) -> None:
        """Ops one after the other; `outputs`: what is read after them. Where there are loops, runs are, too."""
        found: Mapping[int, Run] | None = None
        first, rows = 0, dict[ir.Value, Row]()
        for place, op in enumerate(ops):
            if found is None and self.block is not None:
                found, first = runs(ops[place:], outputs), place
            run = found.get(place - first) if found else None
            if run is None:
                self._op(op)
                continue
            for operand in op.operands:
                if operand in run.operands:  # now: memory may be written before the run is made
                    run.inputs[operand] = rows.get(operand) or self.registers(operand)
            if place - first == run.last:
                self.held |= run.emit(self.f, rows)

    def _op(self, op: ir.OpView) -> None:
        name = op.operation.name
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, op)
        elif name.removeprefix("hlo.") in ARITH:
            result = op.results[0]
            operands = [self.registers(operand) for operand in op.operands]
            rule = partial(self._elementwise, op)
            self.held[result] = registers.together(static_shape(result), element(result), operands, rule)
        else:
            raise UnsupportedError(
                f"a register-resident kernel cannot hold '{name}'", op=name, location=user_location(op.location)
            )

    def _elementwise(self, op: ir.OpView, rows: Sequence[tuple[Lanes, ...]]) -> Sequence[Lanes]:
        """What an elementwise op makes of chunks. Long code for several chunks is a function."""
        f = self.f
        function = RealFunction.of(op) if len(rows) > 1 and is_long(op) else None
        is_shared = function is not None and self.calls and self.block is None
        if function is not None and is_shared and all(types.lane_count(chunk) > 1 for chunk in rows[0]):
            vectors = cast("Sequence[tuple[Value, ...]]", rows)
            return [shared_code(f, f"shlo_{function.name}", function, *row)[0] for row in vectors]
        return [apply(f, op, row) for row in rows]

    def holding(self, value: ir.Value) -> Held:
        """Where a value is.

        Raises:
            InternalError: it was in memory that has been written since, which the passes that form fusions must not let
                happen.
        """
        if value in self.overwritten:
            location = user_location(value.location)
            raise InternalError("a value in memory is read after it was updated in place", location=location)
        return self.held[value]

    def _overwrite(self, memory: Memory) -> None:
        """Every value in this memory, or in an input that shares it, is lost."""
        pointers = {memory.pointer.ref}
        names = self.f.parameters
        pointers |= {names[f"in{input_}"].ref for input_, out in self.inplace if names[f"out{out}"].ref in pointers}
        self.overwritten.update(
            value for value, held in self.held.items() if isinstance(held, Memory) and held.pointer.ref in pointers
        )

    def registers(self, value: ir.Value) -> Registers:
        """A value in registers, loaded from memory where it lives there."""
        held = self.holding(value)
        if isinstance(held, Registers):
            return held
        return registers.load(self.f, tuple(map(int, held.shape)), held.element, held.pointer)

    def scalar(self, value: ir.Value) -> Known:
        """The one element of a value."""
        return registers.scalar_at(self.f, self.registers(value), 0)

    def _collect(self, op: ir.OpView, picks: Sequence[Pick]) -> None:
        result = op.results[0]
        self.held[result] = registers.collect(self.f, static_shape(result), element(result), picks)

    # --- ops ---------------------------------------------------------------------------------------------------------

    def _constant(self, op: ir.OpView) -> None:
        self._hold_known(op, constant_value(op))

    def _iota(self, op: ir.OpView) -> None:
        (numbers,) = evaluate_op(op.operation, [])
        self._hold_known(op, numbers)

    def _hold_known(self, op: ir.OpView, numbers: np.ndarray) -> None:
        result = op.results[0]
        of, flat = element(result), [number.item() for number in numbers.reshape(-1)]
        width = registers.chunk_width(len(flat))
        parts = [flat[start : start + width] for start in range(0, len(flat), width)]
        chunks = [types.constants(self.f, of, part + part[-1:] * (width - len(part))) for part in parts]
        self.held[result] = Registers(static_shape(result), of, tuple(chunks))

    def _broadcast(self, op: ir.OpView) -> None:
        result = op.results[0]
        if not always_at_most(num_elements(result), MAX_REGISTERS):
            self._fill(op)
            return
        source = self.registers(op.operands[0])
        if source.elements == 1:
            self.held[result] = registers.splat(self.f, static_shape(result), source.element, source.chunks[0])
            return
        self._move(op)

    def _move(self, op: ir.OpView) -> None:
        """An op whose result holds elements of its operands: what it makes of their numbers says which go where."""
        sources = [self.registers(operand) for operand in op.operands]
        elements = [(source, position) for source in sources for position in range(source.elements)]
        numbers, first = [], 0
        for source in sources:
            numbers.append(_numbered(source, first))
            first += source.elements
        (moved,) = evaluate_op(op.operation, numbers)
        self._collect(op, [elements[number] for number in moved.reshape(-1)])

    def _fill(self, op: ir.OpView) -> None:
        """A big splat: materialized in the output memory that a loop will update, where anybody reads it."""
        result = op.results[0]
        of, pointer = element(result), self._home(result)
        scalar = self.scalar(op.operands[0])
        if UNREAD not in op.operation.attributes:
            count, part = num_elements(result), registers.splat(self.f, (registers.WIDTH,), of, scalar)
            whole = count - count % registers.WIDTH
            self.f.loop(0, whole, registers.WIDTH, lambda i: registers.store(self.f, part, pointer, i))
            self.f.loop(whole, count, 1, lambda i: types.store(self.f, of, scalar, pointer, i))
        self.held[result] = Memory(shape(result), of, pointer)

    def _reshape(self, op: ir.OpView) -> None:
        self.held[op.results[0]] = _shaped(self.holding(op.operands[0]), shape(op.results[0]))

    def _slice(self, op: ir.OpView) -> None:
        start, strides, held = symints(op, "start"), symints(op, "strides"), self.holding(op.operands[0])
        sizes, distances = static_shape(op.results[0]), row_major_strides(held.shape)
        offsets = [
            _dot([low + i * step for low, i, step in zip(start, place, strides, strict=True)], distances)
            for place in _places(sizes)
        ]
        self._pick_offsets(op, held, 0, offsets)

    def _pick_offsets(self, op: ir.OpView, held: Held, base: Index, offsets: Sequence[IntLike]) -> None:
        """The elements at base + offsets of a value; registers need a base of 0."""
        result = op.results[0]
        if isinstance(held, Registers):
            self._collect(op, [(held, int(offset)) for offset in offsets])
            return
        if offsets and list(offsets) == list(range(offsets[0], offsets[0] + len(offsets))):
            at = self.f.iadd(base, offsets[0])
            self.held[result] = registers.load(self.f, static_shape(result), held.element, held.pointer, at)
            return
        ones = [
            Registers((), held.element, (types.load(self.f, held.element, held.pointer, self.f.iadd(base, offset)),))
            for offset in offsets
        ]
        self._collect(op, [(one, 0) for one in ones])

    def _base(self, values: Sequence[ir.Value], sizes: Sequence[IntLike], window: Sequence[int]) -> Index:
        """Element offset of clamped start indices."""
        base: Index = 0
        for value, size, width, stride in zip(values, sizes, window, row_major_strides(sizes), strict=True):
            if size != width:
                known = _constant_index(value)
                wide = as_index(self.f, element(value), self.scalar(value)) if known is None else known
                base = self.f.iadd(base, self.f.imul(self.f.imax(0, self.f.imin(wide, size - width)), stride))
        return base

    def _spilled(self, value: ir.Value) -> Memory:
        """A value in memory: registers cannot be indexed at run time, so they go to the stack."""
        held = self.spilled.get(value) or self.holding(value)
        return held if isinstance(held, Memory) else self._on_stack(held)

    def _on_stack(self, held: Registers) -> Memory:
        per_element = 2 if held.element.is_complex else 1
        pointer = self.f.alloca((held.elements + registers.WIDTH) * per_element, held.element.storage)
        registers.store(self.f, held, pointer)
        return Memory(held.shape, held.element, pointer)

    def _dynamic_slice(self, op: ir.OpView) -> None:
        held, sizes = self.holding(op.operands[0]), static_shape(op.results[0])
        base = self._base(list(op.operands)[1:], held.shape, sizes)
        strides = row_major_strides(held.shape)
        offsets = [_dot(place, strides) for place in _places(sizes)]
        if isinstance(base, int):
            self._pick_offsets(op, held, 0, [base + offset for offset in offsets])
        else:
            self._pick_offsets(op, self._spilled(op.operands[0]), base, offsets)

    def _dynamic_update_slice(self, op: ir.OpView) -> None:
        held, update, result = self.holding(op.operands[0]), self.registers(op.operands[1]), op.results[0]
        base = self._base(list(op.operands)[2:], held.shape, update.shape)
        strides = row_major_strides(held.shape)
        offsets = [_dot(place, strides) for place in _places(update.shape)]
        if isinstance(held, Registers) and isinstance(base, int):
            picks = _picks(held, _numbered(held))
            for number, offset in enumerate(offsets):
                picks[base + offset] = (update, number)
            self._collect(op, picks)
            return
        target = self._own(held, op) if isinstance(held, Memory) else self._on_stack(held)
        if offsets == list(range(len(offsets))):
            registers.store(self.f, update, target.pointer, base)
        else:
            for number, offset in enumerate(offsets):
                scalar = registers.scalar_at(self.f, update, number)
                types.store(self.f, target.element, scalar, target.pointer, self.f.iadd(base, offset))
        if isinstance(held, Memory):
            self._overwrite(target)
            self.held[result] = target
        else:
            self.held[result] = registers.load(self.f, held.shape, held.element, target.pointer)

    def _reduce(self, op: ir.OpView) -> None:
        source, dimensions, result = self.registers(op.operands[0]), i64s(op, "dimensions"), op.results[0]
        start = self.scalar(op.operands[1])
        of = source.element
        rule = partial(combine, self.f, text(op, "kind"), of)
        if num_elements(result) == 1:
            total = registers.reduce_all(self.f, source, start, rule)
            self.held[result] = Registers(static_shape(result), of, (rounded(self.f, of, total),))
            return
        kept = [d for d in range(len(source.shape)) if d not in dimensions]
        counts = [math.prod(source.shape[d] for d in each) for each in (dimensions, kept)]
        layers = [registers.splat(self.f, static_shape(result), of, start)]
        for numbers in _numbered(source).transpose(*dimensions, *kept).reshape(counts):
            layers.append(registers.collect(self.f, static_shape(result), of, _picks(source, numbers)))
        chunks = [
            rounded(self.f, of, tree(list(column), rule))
            for column in zip(*(layer.chunks for layer in layers), strict=True)
        ]
        self.held[result] = Registers(static_shape(result), of, tuple(chunks))

    def _dot(self, op: ir.OpView) -> None:
        sides = [self.registers(operand) for operand in op.operands]
        batch = i64s(op, "lhs_batch"), i64s(op, "rhs_batch")
        contract = i64s(op, "lhs_contract"), i64s(op, "rhs_contract")
        result = op.results[0]
        of, sizes = element(result), static_shape(result)
        total: Registers | None = None
        for numbers in zip(*map(_by_role, sides, batch, contract), strict=True):
            both = np.broadcast_arrays(numbers[0][:, :, None], numbers[1][:, None, :])
            factors = [
                registers.collect(self.f, sizes, side.element, _picks(side, of_side))
                for side, of_side in zip(sides, both, strict=True)
            ]
            product = registers.elementwise(sizes, of, factors, partial(combine, self.f, "multiply", of))
            if total is None:
                total = product
            else:
                total = registers.elementwise(sizes, of, [total, product], partial(combine, self.f, "add", of))
        if total is None:
            total = registers.splat(self.f, sizes, of, types.constant(self.f, of, 0))
        self.held[result] = replace(total, chunks=tuple(rounded(self.f, of, chunk) for chunk in total.chunks))

    # --- control flow ------------------------------------------------------------------------------------------------

    def _extract(self, op: ir.OpView) -> None:
        scalar = self.scalar(op.operands[0])
        self.indices[op.results[0]] = scalar

    def _index_cast(self, op: ir.OpView) -> None:
        unsigned = op.operation.name.endswith("ui")
        self.indices[op.results[0]] = self.f.cast("zext" if unsigned else "sext", self.indices[op.operands[0]], I64)

    def _while(self, op: ir.OpView) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        initial: list[Held] = []
        for operand, result in zip(op.operands, op.results, strict=True):
            held = self.holding(operand)
            initial.append(self._own(held, op, result) if isinstance(held, Memory) else held)
        for number, held in enumerate(initial):
            if isinstance(held, Registers) and _is_indexed(op, number):
                initial[number] = memory = self._on_stack(held)
                self.stack.add(memory.pointer.ref)
        outer, self.spilled = self.spilled, self._spilled_for(op)
        for held, argument, value in zip(initial, after.arguments, terminator(after).operands, strict=True):
            if isinstance(held, Memory) and value != argument:
                self._overwrite(held)  # by the body, or by a later trip

        def bind(block: ir.Block, scalars: Sequence[Value]) -> None:
            for argument, held in zip(block.arguments, _rebuilt(initial, scalars), strict=True):
                self.held[argument] = held
                self.overwritten.discard(argument)

        def condition(*scalars: Value) -> Value:
            bind(before, scalars)
            *ops, terminator = before.operations
            self._sequence(ops, terminator.operands)
            return self.indices[terminator.operands[0]]

        def body(*scalars: Value) -> list[Value]:
            bind(after, scalars)
            yielded = self._yielded(after)
            for before_trip, after_trip in zip(initial, yielded, strict=True):
                if isinstance(before_trip, Memory) and before_trip != _shaped(after_trip, before_trip.shape):
                    raise InternalError("a carry in memory changes its place", location=user_location(op.location))
            assert self.block is not None
            end_if_asked(self.f, self.block)
            return pack(_chunks(yielded))

        if self.block is None:
            with self.f.at_level(0):
                self.block = self.f.load(PTR, self.f.shared)
        results = self.f.while_(pack(_chunks(initial)), condition, body)
        self.spilled = outer
        for result, held in zip(op.results, _rebuilt(initial, results), strict=True):
            self.held[result] = held
            if isinstance(held, Memory) and held.pointer.ref in self.stack:
                self.held[result] = self.registers(result)

    def _spilled_for(self, op: ir.OpView) -> dict[ir.Value, Memory]:
        """What is on the stack while a loop runs: values from outside, which it would store in each trip otherwise."""
        found = dict(self.spilled)
        for value in captured_values(op):
            held = self.held.get(value)
            if value not in found and isinstance(held, Registers) and any(map(_is_index, value.uses)):
                found[value] = self._on_stack(held)
        return found

    def _yielded(self, block: ir.Block) -> list[Held]:
        *ops, terminator = block.operations
        self._sequence(ops, terminator.operands)
        return [self.holding(value) for value in terminator.operands]

    def _if(self, op: ir.OpView) -> None:
        template: list[Held] = []

        def branch(region: ir.Region) -> list[Value]:
            template[:] = self._yielded(region.blocks[0])
            if any(isinstance(held, Memory) for held in template):
                raise InternalError("a branch yields a value in memory", location=user_location(op.location))
            return pack(_chunks(template))

        merged = self.f.if_(self.indices[op.operands[0]], lambda: branch(op.regions[0]), lambda: branch(op.regions[1]))
        for result, held in zip(op.results, _rebuilt(template, merged), strict=True):
            self.held[result] = held

    # --- memory ------------------------------------------------------------------------------------------------------

    def _home(self, value: ir.Value) -> Value:
        """Where a big value that ends in an output belongs: follow in-place uses to the output."""
        seen = value
        while seen not in self.output_of:
            follower = next((use for use in seen.uses if _keeps_memory(use.owner, use.operand_number)), None)
            if follower is None:
                raise UnsupportedError(
                    "a big value of a register-resident kernel reaches no output", location=str(value.location)
                )
            seen = _followed(follower.owner, follower.operand_number)
        return self.f.parameters[f"out{self.output_of[seen]}"]

    def _own(self, held: Memory, op: ir.OpView, result: ir.Value | None = None) -> Memory:
        """`held` in memory that may be written: its output's, copied there first where it is not there already."""
        if held.pointer.ref in self.stack:
            return held
        pointer = self._home(result if result is not None else op.results[0])
        if held.pointer.ref == pointer.ref:
            return held
        inputs = [n for n in range(len(self.fusion.inputs)) if self.f.parameters[f"in{n}"].ref == held.pointer.ref]
        outputs = [self.f.parameters[f"out{n}"].ref for n in range(len(self.fusion.outputs))]
        number = outputs.index(pointer.ref)
        if not (inputs and (inputs[0], number) in self.inplace):
            self.f.copy_memory(pointer, held.pointer, math.prod(held.shape) * held.element.bytes)
        return Memory(held.shape, held.element, pointer)


def _constant_index(value: ir.Value) -> int | None:
    op = defining(value, "hlo.constant")
    return None if op is None else int(constant_value(op))


def _is_index(use: ir.OpOperand) -> bool:
    """Does an op read a value at a place that is known at run time?"""
    return use.owner.operation.name == "hlo.dynamic_slice" and use.operand_number == 0


def _at_run_time(value: ir.Value) -> bool:
    """Does an op read or write part of a value, or of what updates make of it, at a place that is known at run time?"""
    for use in value.uses:
        op = use.owner.operation
        if _is_index(use):
            return True
        updates = op.name == "hlo.dynamic_update_slice" and use.operand_number == 0
        if updates and any(_constant_index(index) is None for index in list(op.operands)[2:]):
            return True
        if updates and _at_run_time(op.results[0]):
            return True
    return False


def _is_indexed(loop: ir.OpView, number: int) -> bool:
    """Does each trip of a loop read and write parts of a carry, at places that are known at run time?"""
    blocks = [region.blocks[0] for region in loop.regions]
    before, after = (block.arguments[number] for block in blocks)
    return (
        num_elements(after) > registers.SCALARS
        and terminator(blocks[1]).operands[number] != after
        and all(kept_in_place(block, value, number) for block, value in zip(blocks, (before, after), strict=True))
        and any(map(_at_run_time, (before, after)))
    )


def _keeps_memory(owner: ir.OpView, operand: int) -> bool:
    name = owner.operation.name
    return (
        name in ("hlo.reshape", "scf.while")
        or (name == "hlo.dynamic_update_slice" and operand == 0)
        or (name == "scf.yield" and owner.operation.parent.name == "scf.while")
    )


def _followed(owner: ir.OpView, operand: int) -> ir.Value:
    if owner.operation.name == "scf.yield":
        return owner.operation.parent.results[operand]
    return owner.results[operand if owner.operation.name == "scf.while" else 0]


def _shaped(held: Held, sizes: tuple[IntLike, ...]) -> Held:
    if isinstance(held, Memory):
        return replace(held, shape=sizes)
    return replace(held, shape=tuple(map(int, sizes)))


def _dot(place: Sequence[IntT], strides: Sequence[IntT]) -> IntT:
    return sum(i * stride for i, stride in zip(place, strides, strict=True))


def _numbered(held: Registers, first: int = 0) -> np.ndarray:
    """The numbers of a value's elements, in its shape, from `first` on."""
    return np.arange(first, first + held.elements).reshape(held.shape)


def _picks(source: Registers, numbers: np.ndarray) -> list[Pick]:
    return [(source, int(number)) for number in numbers.reshape(-1)]


def _by_role(side: Registers, batch: Sequence[int], contract: Sequence[int]) -> np.ndarray:
    """The numbers of the elements of a product's operand, by contracted, batch and free place."""
    free = [d for d in range(len(side.shape)) if d not in batch and d not in contract]
    counts = [math.prod(side.shape[d] for d in dimensions) for dimensions in (contract, batch, free)]
    return _numbered(side).transpose(*contract, *batch, *free).reshape(counts)


def _chunks(held: Sequence[Held]) -> list[Lanes]:
    """What is in registers, in order."""
    return [chunk for one in held if isinstance(one, Registers) for chunk in one.chunks]


def _rebuilt(template: Sequence[Held], values: Sequence[Value]) -> list[Held]:
    """`template` with its registers replaced by `values`, which are packed."""
    chunks = iter(unpack(values, _chunks(template)))
    return [
        one if isinstance(one, Memory) else replace(one, chunks=tuple(next(chunks) for _ in one.chunks))
        for one in template
    ]


_HANDLERS: dict[str, Callable[[_Emitter, ir.OpView], None]] = {
    "hlo.constant": _Emitter._constant,
    "hlo.iota": _Emitter._iota,
    "hlo.broadcast": _Emitter._broadcast,
    "hlo.reshape": _Emitter._reshape,
    "hlo.transpose": _Emitter._move,
    "hlo.slice": _Emitter._slice,
    "hlo.pad": _Emitter._move,
    "hlo.reverse": _Emitter._move,
    "stablehlo.concatenate": _Emitter._move,
    "hlo.dynamic_slice": _Emitter._dynamic_slice,
    "hlo.dynamic_update_slice": _Emitter._dynamic_update_slice,
    "hlo.reduce": _Emitter._reduce,
    "hlo.dot": _Emitter._dot,
    "tensor.extract": _Emitter._extract,
    "arith.index_cast": _Emitter._index_cast,
    "arith.index_castui": _Emitter._index_cast,
    "scf.while": _Emitter._while,
    "scf.if": _Emitter._if,
}
