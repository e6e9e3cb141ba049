"""A backend of another machine: NumPy, one call for an operation, nothing between them but arrays.

It fuses elementwise work only and calls that "map"; everything else is a kernel of its own op. Nothing is shared out,
written in place, unrolled or split, and there is no plan of memory, so it has one stage of its own, "maps". Its machine
code is that module, and its text a listing of the kernels. It has a memory of its own, at addresses that no process
has, and does what it is asked for one after another, in a thread of its own.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from stablehlo_py.backends.base import Backend, Code, require_only_device
from stablehlo_py.backends.common.description import describe
from stablehlo_py.backends.common.fusion import Fusion, fusions
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.interpret import Interpreter
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.mlir import bytecode, ir
from stablehlo_py.options import Options
from stablehlo_py.passes.policy import Costs, FusionPolicy
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.registry import register_pass
from stablehlo_py.runtime.program import CompiledProgram, Spec

MOVES = frozenset(("concatenate", "dynamic_slice", "gather", "pad", "reverse", "transpose"))
NO_KERNEL = frozenset(("custom_call", "infeed", "outfeed", "send", "recv"))
STAGES = {"listing": "lst"}


@register_pass
@dataclass(frozen=True)
class ToyOrder(Pass):
    """Number the kernels in the order in which they are called first: `toy.number`."""

    name: ClassVar[str] = "toy-order"
    required: ClassVar[bool] = True

    def run(self, module: ir.Module) -> None:
        """Mark every fusion."""
        functions = {f.attributes["sym_name"].value: f.operation for f in module.body.operations}
        numbers: dict[str, int] = {}

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "func.call":
                numbers.setdefault(op.attributes["callee"].value, len(numbers))
            return ir.WalkResult.ADVANCE

        functions["main"].walk(visit, ir.WalkOrder.PRE_ORDER)
        for name, number in numbers.items():
            functions[name].attributes["toy.number"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


class ToyBackend(Backend):
    """NumPy as a machine."""

    name = "toy"
    platform = "cpu"  # what JAX exports for it
    module_stages = ("maps",)
    stages = STAGES
    # A call of NumPy's costs more than any arithmetic in it: what is cheap is done again rather than kept.
    costs = Costs(expensive_flops=30, duplicate_flops=12)
    fusion = FusionPolicy(names={"loop": "map"}, apart={"loop": MOVES}, body_ops=12, outputs=2)

    def pipeline(self, stage: str, options: Options) -> list[str]:
        """One stage: fusions, numbered."""
        fusion = "fusion{target=toy}" if options.opt_level else "fusion{fuse=false target=toy}"
        return ["drop-shardings", fusion, "toy-order"]

    def describe(self, options: Options) -> str:
        """There is one version of NumPy in a process."""
        return np.__version__

    def lower(self, module: ir.Module, stop: str, options: Options) -> str:
        """The listing."""
        return listing(module)

    def compile(self, module: ir.Module, options: Options) -> CompiledProgram:
        """Any module of ops that have a value in NumPy."""
        kinds = Counter(kernel.kind for kernel in kernels(module))
        for kind in NO_KERNEL & set(kinds):
            raise UnsupportedError(f"NumPy has no kernel of kind '{kind}'", op=kind)
        program = describe(module, self.name, "numpy", options)
        program.objects = [bytecode(module)]
        program.stages = {"listing": listing(module)}
        program.report = f"kernels: {dict(sorted(kinds.items()))}"
        return program

    def memory(self, device: int = 0) -> ToyMemory:
        """The machine's."""
        return MEMORY

    def load(self, program: CompiledProgram, device: int = 0) -> ToyCode:
        """The program in this process."""
        require_only_device(self.name, device)
        return ToyCode(program)

    def listings(self, program: CompiledProgram) -> Mapping[str, Callable[[], str]]:
        """Machine code in hexadecimal digits."""
        return {"bytes": partial(bytes.hex, program.objects[0])}

    def custom_calls(self) -> frozenset[str]:
        """None."""
        return frozenset()


class ToyEvent:
    """Work that the machine has been asked for."""

    def __init__(self, work: Future[None]) -> None:
        self.is_ready = work.done
        self.wait = work.result


class ToyAllocation:
    """Bytes of the machine's memory."""

    def __init__(self, address: int) -> None:
        self.address = address


class ToyMemory:
    """The machine's memory: arrays by their address there. It counts copies, by direction."""

    device, name = "toy:0", "scratchpad"

    def __init__(self) -> None:
        self.copies: Counter[str] = Counter()
        self.content: dict[int, np.ndarray] = {}
        self._addresses = itertools.count(1 << 60, 1 << 40)
        self._queue = ThreadPoolExecutor(1)

    def ask(self, work: Callable[[], object]) -> ToyEvent:
        """Do it behind everything before."""
        return ToyEvent(self._queue.submit(work))

    def allocate(self, size: int) -> ToyAllocation:
        """So many bytes."""
        made = ToyAllocation(next(self._addresses))
        self.content[made.address] = np.zeros(size, np.uint8)
        weakref.finalize(made, self.ask, partial(self.content.pop, made.address)).atexit = False
        return made

    def write(self, source: np.ndarray, target: ToyAllocation) -> ToyEvent:
        """Copy there."""
        self.copies["to the device"] += 1
        data, address = source.copy(), target.address
        return self.ask(lambda: np.copyto(self.content[address], data.reshape(-1).view(np.uint8)))

    def read(self, source: ToyAllocation, target: np.ndarray) -> None:
        """Copy from there."""
        self.copies["to the host"] += 1
        self.ask(lambda: np.copyto(target.reshape(-1).view(np.uint8), self.content[source.address])).wait()

    def array(self, address: int, spec: Spec) -> np.ndarray:
        """What lies there, for the machine."""
        return self.content[address].view(spec.dtype).reshape(spec.shape)


MEMORY = ToyMemory()


class ToyCode(Code):
    """A program that NumPy runs."""

    memory = MEMORY

    def __init__(self, program: CompiledProgram) -> None:
        self.program = program
        with make_context():
            self.module = ir.Module.parse(program.objects[0])
        self.interpreter = Interpreter(self.module)

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> ToyEvent:
        """One call."""

        def work() -> None:
            arrays = [MEMORY.array(at, spec) for at, spec in zip(inputs, self.program.inputs, strict=True)]
            results = self.interpreter.function(main_function(self.module), arrays)
            for at, spec, result in zip(outputs, self.program.outputs, results, strict=True):
                MEMORY.array(at, spec)[...] = result

        return MEMORY.ask(work)


def kernels(module: ir.Module) -> list[Fusion]:
    """The fusions, in the order of their numbers."""
    return sorted(map(Fusion.read, fusions(module)), key=lambda fusion: fusion.attributes["toy.number"].value)


def listing(module: ir.Module) -> str:
    """A line for every kernel: number, kind, ops."""
    lines = []
    for number, kernel in enumerate(kernels(module)):
        ops = [op.operation.name.rpartition(".")[2] for op in kernel.ops]
        lines.append(f"{number} {kernel.kind}: {' '.join(ops)}")
    return "\n".join(lines)
