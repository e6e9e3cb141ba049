"""Random hlo programs in normal form, with nested loops and branches, and a machine that runs assigned programs on
real memory."""

from __future__ import annotations

import random

import numpy as np

from stablehlo_py.dialect.constants import constant_value, numpy_dtype
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.dialect.memory import FreeMemory, free_memory
from stablehlo_py.mlir import ir

FULL, FLAT, TURNED, ROW, COLUMN, COUNT = (
    f"tensor<{shape}>" for shape in ("4x8xf32", "32xf32", "8x4xf32", "4xf32", "8xf32", "i32")
)
Scope = dict[str, list[str]]


class Generator:
    """Text of a module. Every value stays between -1 and 1 or so: what grows goes through tanh."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.serial = 0

    def module(self) -> str:
        """The whole module; `@main` takes two full tensors, a row and an i32."""
        self.line('%zero = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>')
        self.line('%one = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>')
        self.line('%init = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>')
        self.line(f'%fixed = "hlo.constant"() {{value = dense<[0.1, 0.2, 0.3, 0.4]> : {ROW}}} : () -> {ROW}')
        scope = {FULL: ["%x", "%y"], ROW: ["%r", "%fixed"], FLAT: [], TURNED: [], COLUMN: [], COUNT: ["%n"]}
        self.body(scope, 14, 2)
        results = [
            self.random.choice([value for value in scope[type_] if value != "%n"]) + "|" + type_
            for type_ in (FULL, FULL, ROW)
        ]
        names, types = zip(*(result.split("|") for result in results), strict=True)
        text = "\n".join(self.lines)
        return (
            f"func.func @main(%x: {FULL}, %y: {FULL}, %r: {ROW}, %n: {COUNT}) -> ({', '.join(types)}) {{\n"
            f"{text}\n  return {', '.join(names)} : {', '.join(types)}\n}}"
        )

    def line(self, text: str) -> None:
        """Append a line."""
        self.lines.append("  " + text)

    def value(self, scope: Scope, type_: str, text: str, signature: str) -> str:
        """Append an op with one result and put that in scope."""
        self.serial += 1
        self.line(f"%v{self.serial} = {text} : {signature} -> {type_}")
        scope[type_].append(f"%v{self.serial}")
        return f"%v{self.serial}"

    def pick(self, scope: Scope, type_: str) -> str:
        """A value of that type, the newer the likelier."""
        values = scope[type_]
        return values[max(self.random.randrange(len(values)), self.random.randrange(len(values)))]

    def body(self, scope: Scope, count: int, depth: int) -> None:
        """`count` random ops."""
        for _ in range(count):
            simple = [self.binary, self.unary, self.reduce, self.spread, self.shape, self.update]
            nested = [self.loop, self.branch] if depth else []
            chosen = self.random.randrange(len(simple) + len(nested))
            if chosen < len(simple):
                simple[chosen](scope)
            else:
                nested[chosen - len(simple)](scope, depth - 1)

    def binary(self, scope: Scope) -> None:
        """Elementwise work on two values."""
        type_ = self.random.choice([type_ for type_ in (FULL, FULL, ROW, COLUMN, TURNED, FLAT) if scope[type_]])
        name = self.random.choice(["add", "multiply", "subtract", "maximum"])
        result = self.value(
            scope, type_, f'"hlo.{name}"({self.pick(scope, type_)}, {self.pick(scope, type_)})', f"({type_}, {type_})"
        )
        if name != "maximum" and self.random.random() < 0.6:
            self.value(scope, type_, f'"hlo.tanh"({result})', f"({type_})")

    def unary(self, scope: Scope) -> None:
        """Elementwise work on one value."""
        type_ = self.random.choice([type_ for type_ in (FULL, ROW, COLUMN, TURNED, FLAT) if scope[type_]])
        name = self.random.choice(["tanh", "negate", "abs", "sine"])
        self.value(scope, type_, f'"hlo.{name}"({self.pick(scope, type_)})', f"({type_})")

    def reduce(self, scope: Scope) -> None:
        """A row or a column reduction, tamed by tanh."""
        type_, dimension = self.random.choice([(ROW, 1), (COLUMN, 0)])
        kind = self.random.choice(["add", "maximum"])
        operand = (
            f'"hlo.reduce"({self.pick(scope, FULL)}, %init) {{dimensions = array<i64: {dimension}>, kind = "{kind}"}}'
        )
        result = self.value(scope, type_, operand, f"({FULL}, tensor<f32>)")
        self.value(scope, type_, f'"hlo.tanh"({result})', f"({type_})")

    def spread(self, scope: Scope) -> None:
        """A broadcast of a row or a column."""
        type_ = self.random.choice([ROW] + ([COLUMN] if scope[COLUMN] else []))
        dimension = 0 if type_ == ROW else 1
        self.value(
            scope,
            FULL,
            f'"hlo.broadcast"({self.pick(scope, type_)}) {{dimensions = array<i64: {dimension}>}}',
            f"({type_})",
        )

    def shape(self, scope: Scope) -> None:
        """A reshape or a transpose, there or back."""
        source = self.random.choice([type_ for type_ in (FULL, FLAT, TURNED) if scope[type_]])
        operand = self.pick(scope, source)
        if self.random.random() < 0.5 and source != FLAT:
            target = TURNED if source == FULL else FULL
            self.value(scope, target, f'"hlo.transpose"({operand}) {{permutation = array<i64: 1, 0>}}', f"({source})")
        else:
            target = self.random.choice([type_ for type_ in (FULL, FLAT, TURNED) if type_ != source])
            self.value(scope, target, f'"hlo.reshape"({operand})', f"({source})")

    def update(self, scope: Scope) -> None:
        """One row of a full tensor overwritten by a row made of a column."""
        if not scope[COLUMN]:
            return
        self.serial += 1
        row = f"%u{self.serial}"
        self.line(f'{row} = "hlo.reshape"({self.pick(scope, COLUMN)}) : ({COLUMN}) -> tensor<1x8xf32>')
        start = self.random.choice(scope[COUNT] + ["%one"])
        text = f'"hlo.dynamic_update_slice"({self.pick(scope, FULL)}, {row}, {start}, %zero)'
        self.value(scope, FULL, text, f"({FULL}, tensor<1x8xf32>, {COUNT}, {COUNT})")

    def loop(self, scope: Scope, depth: int) -> None:
        """A loop of up to three trips with a counter and random carries; what it yields may be carries, duplicates,
        or from outside."""
        types = [COUNT] + [self.random.choice([FULL, FULL, ROW]) for _ in range(self.random.randrange(1, 4))]
        initial = ["%zero"] + [self.pick(scope, type_) for type_ in types[1:]]
        self.serial += 1
        tag, trips = self.serial, self.random.randrange(0, 4)
        names = [f"%c{tag}_{index}" for index in range(len(types))]
        listed = ", ".join(types)
        assigned = ", ".join(f"{name} = {start}" for name, start in zip(names, initial, strict=True))
        self.line(f'%t{tag} = "hlo.constant"() {{value = dense<{trips}> : tensor<i32>}} : () -> tensor<i32>')
        self.line(f"%w{tag}:{len(types)} = scf.while ({assigned}) : ({listed}) -> ({listed}) {{")
        self.line(
            f'  %p{tag} = "hlo.compare"({names[0]}, %t{tag}) {{direction = "LT"}} : ({COUNT}, {COUNT}) -> tensor<i1>'
        )
        self.line(f"  %e{tag} = tensor.extract %p{tag}[] : tensor<i1>")
        self.line(f"  scf.condition(%e{tag}) {', '.join(names)} : {listed}")
        arguments = ", ".join(f"%a{tag}_{index}: {type_}" for index, type_ in enumerate(types))
        self.line(f"}} do {{\n  ^bb0({arguments}):")
        inner = {type_: list(values) for type_, values in scope.items()}
        for index, type_ in enumerate(types):
            inner[type_].append(f"%a{tag}_{index}")
        self.body(inner, 6, depth)
        self.line(f'  %i{tag} = "hlo.add"(%a{tag}_0, %one) : ({COUNT}, {COUNT}) -> {COUNT}')
        yielded = [f"%i{tag}"] + [self.pick(inner, type_) for type_ in types[1:]]
        self.line(f"  scf.yield {', '.join(yielded)} : {listed}\n  }}")
        for index, type_ in enumerate(types):
            scope[type_].append(f"%w{tag}#{index}")

    def branch(self, scope: Scope, depth: int) -> None:
        """An if on a comparison of the counter, both sides random."""
        types = [self.random.choice([FULL, FULL, ROW]) for _ in range(self.random.randrange(1, 3))]
        self.serial += 1
        tag = self.serial
        predicate = f'"hlo.compare"({self.pick(scope, COUNT)}, %one) {{direction = "LT"}}'
        self.line(f"%p{tag} = {predicate} : ({COUNT}, {COUNT}) -> tensor<i1>")
        self.line(f"%e{tag} = tensor.extract %p{tag}[] : tensor<i1>")
        self.line(f"%w{tag}:{len(types)} = scf.if %e{tag} -> ({', '.join(types)}) {{")
        for side in range(2):
            inner = {type_: list(values) for type_, values in scope.items()}
            self.body(inner, 4, depth)
            self.line(f"  scf.yield {', '.join(self.pick(inner, type_) for type_ in types)} : {', '.join(types)}")
            self.line("} else {" if side == 0 else "}")
        for index, type_ in enumerate(types):
            scope[type_].append(f"%w{tag}#{index}")


class Machine:
    """Runs an assigned module as compiled code would: values are bytes at `hlo.slices`, nothing else is
    remembered, and kernels write all that may be scratch."""

    def __init__(self, module: ir.Module) -> None:
        operations = [view.operation for view in module.body.operations]
        self.functions = {op.attributes["sym_name"].value: op for op in operations}
        attributes = module.operation.attributes
        self.free = free_memory(module)
        self.buffers = {(0, 0): np.full(attributes["hlo.arena_bytes"].value, 0xAB, np.uint8)}
        pairs = list(attributes["hlo.donations"]) if "hlo.donations" in attributes else []
        self.donations = dict(zip(pairs[1::2], pairs[::2], strict=True))
        self.places: dict[ir.Value, tuple[int, int, int, int]] = {}
        self.scalars: dict[ir.Value, int] = {}

    def run(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        """Results of `@main`. Raises AssertionError where an input that is not donated has changed."""
        block = self.functions["main"].regions[0].blocks[0]
        for number, (argument, array) in enumerate(zip(block.arguments, arguments, strict=True)):
            self.buffers[1, number] = np.frombuffer(array.tobytes(), np.uint8).copy()
            self.places[argument] = (1, number, 0, array.nbytes)
        terminator = block.operations[len(block.operations) - 1].operation
        for number, value in enumerate(terminator.operands):
            self.buffers[2, number] = np.full(np.prod(value.type.shape, dtype=int) * 4, 0xCD, np.uint8)
        self.block(block)
        for number, array in enumerate(arguments):
            if number not in self.donations.values():
                assert self.buffers[1, number].tobytes() == array.tobytes()
        results = []
        for number, value in enumerate(terminator.operands):
            key = (1, self.donations[number]) if number in self.donations else (2, number)
            results.append(self.buffers[key].view(numpy_dtype(value.type.element_type)).reshape(list(value.type.shape)))
        return results

    def read(self, value: ir.Value) -> np.ndarray:
        """A value's array, from its bytes."""
        space, number, offset, size = self.places[value]
        flat = self.buffers[space, number][offset : offset + size].copy()
        return flat.view(numpy_dtype(value.type.element_type)).reshape(list(value.type.shape))

    def write(self, value: ir.Value, array: np.ndarray) -> None:
        """Write a value's bytes."""
        space, number, offset, size = self.places[value]
        self.buffers[space, number][offset : offset + size] = np.frombuffer(
            np.ascontiguousarray(array).tobytes(), np.uint8
        )

    def place(self, op: ir.Operation) -> None:
        """Read the slices of an op's results."""
        if "hlo.slices" in op.attributes:
            numbers = list(op.attributes["hlo.slices"])
            for index, result in enumerate(op.results):
                self.places[result] = tuple(numbers[4 * index : 4 * index + 4])

    def block(self, block: ir.Block) -> ir.Operation:
        """Run a block; returns its terminator."""
        for view in block.operations:
            op = view.operation
            self.place(op)
            if op.name == "func.call":
                name = op.attributes["callee"].value
                arena, function = self.buffers[0, 0], self.functions[name]
                free = self.free.get(name, FreeMemory((), len(arena)))
                scratch = [*free.gaps, (free.end, len(arena))]
                for begin, end in scratch:
                    arena[begin:end] = 0xEF
                arrays = Interpreter().function(function, [self.read(value) for value in op.operands])
                for result, array in zip(op.results, arrays, strict=True):
                    self.write(result, array)
                for begin, end in scratch:
                    arena[begin:end] = 0xEF
            elif op.name == "hlo.copy":
                self.write(op.results[0], self.read(op.operands[0]))
            elif op.name == "hlo.constant":
                self.buffers.setdefault(
                    self.places[op.results[0]][:2], np.zeros(self.places[op.results[0]][3], np.uint8)
                )
                self.write(op.results[0], constant_value(op))
            elif op.name == "tensor.extract":
                self.scalars[op.results[0]] = int(self.read(op.operands[0])[()])
            elif op.name == "arith.index_cast":
                self.scalars[op.results[0]] = int(self.scalars[op.operands[0]])
            elif op.name == "scf.while":
                self.loop(op)
            elif op.name == "scf.if":
                self.block(op.regions[0 if self.scalars[op.operands[0]] else 1].blocks[0])
            elif op.name == "scf.index_switch":
                cases = list(op.attributes["cases"])
                chosen = self.scalars[op.operands[0]]
                self.block(op.regions[cases.index(chosen) + 1 if chosen in cases else 0].blocks[0])
        return op

    def loop(self, op: ir.Operation) -> None:
        """A loop: arguments lie where the results lie."""
        before, after = (region.blocks[0] for region in op.regions)
        for block in (before, after):
            for argument, result in zip(block.arguments, op.results, strict=True):
                self.places[argument] = self.places[result]
        while self.scalars[self.block(before).operands[0]]:
            self.block(after)
