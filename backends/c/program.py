"""The entry of a program in C: `int NAME(const shlo_call *call)` calls the kernels in order. Where buffers lie is read
from the call by name, so that pointers may have any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stablehlo_py.backends.c.target import CTarget
from stablehlo_py.backends.common.program import ENTRY, repeated
from stablehlo_py.backends.cpu.kernels.base import Kernel, Phase
from stablehlo_py.backends.cpu.program import CpuProgram
from stablehlo_py.codegen.builder import I8, PTR, Function, Value
from stablehlo_py.codegen.emitter import Emitter
from stablehlo_py.codegen.emitters.c import CEmitter
from stablehlo_py.codegen.emitters.c_lines import Line, Memory, c_type
from stablehlo_py.codegen.size_table import SizeTable
from stablehlo_py.codegen.values import Type
from stablehlo_py.dialect.memory import ARENA, CONSTANT, INPUT
from stablehlo_py.mlir import ir
from stablehlo_py.runtime.entry import OLD_CALL


class PublicEmitter(CEmitter):
    """A function that callers see, by a name of their choice."""

    def __init__(self, target: CTarget | None, name: str) -> None:
        super().__init__(target)
        self._public = name

    def parameter(self, name: str) -> str:
        return {"caller": "call"}.get(name, name)

    def field(self, name: str) -> str:
        """A pointer that the call brings along."""
        ref = self._new("p")
        self.lines.append(Line.of("", ref, declares=f"(char *)call->{name}"))
        return ref

    def require_size(self) -> None:
        """Return where the caller knows an older structure."""
        self.lines.append(Line.of(f"if (call->size < sizeof(shlo_call)) return {OLD_CALL};"))

    def _head(
        self,
        name: str,
        parameters: Mapping[str, Value],
        result: Type | None,
        noalias: frozenset[str],
        memory: Memory,
    ) -> str:
        if "call" in parameters:
            return f"int {self._public}(const shlo_call *call)"
        listed = super()._head(name, parameters, result, noalias, memory).partition("(")[2]
        return f"{c_type(result.element) if result else 'void'} {self._public}({listed}"


@dataclass(frozen=True)
class _Entry(CTarget):
    """The target of the entry, which is the one function that a program consists of."""

    public: str = ENTRY

    def emitter(self) -> Emitter:
        return PublicEmitter(self, self.public)


class CProgram(CpuProgram):
    """The entry of a scheduled module; `embedded` constants are tables of the file, others come with the call."""

    def __init__(
        self,
        module: ir.Module,
        kernels: Mapping[str, Kernel],
        target: CTarget,
        sizes: SizeTable | None,
        name: str,
        *,
        embedded: bool,
    ) -> None:
        self._embedded = embedded
        machine = target.vector_bits, target.registers, target.architecture
        entry = _Entry(target.name, target.features, *machine, processor=target.processor, public=name)
        super().__init__(module, kernels, entry, 1, sizes)

    def require_size(self) -> None:
        """As the structure's own size says."""
        assert isinstance(self.f.emit, PublicEmitter)
        self.f.emit.require_size()

    def given(self, field: str) -> Value:
        """A pointer of the call, by its name."""
        assert isinstance(self.f.emit, PublicEmitter)
        return Value(self.f.emit.field(field), PTR, None, self.f.level)

    def pointer(self, value: ir.Value) -> Value:
        """The address of a tensor value, spelled where it is used."""
        place = self.slices[value]
        if place.space == ARENA:
            return self.f.gep(self.arena, place.offset, I8)
        if place.space == CONSTANT and self._embedded:
            base = f"(char *){constant_name(place.number)}"
        else:
            table = {INPUT: "inputs", CONSTANT: "constants"}.get(place.space, "outputs")
            base = f"(char *)call->{table}[{place.number}]"
        return self.f.gep(Value(base, PTR, None, 0), place.offset, I8)

    def start(self, f: Function, kernel: str, pointers: Sequence[Value], arena: Value) -> None:
        """A call for each phase; memory that a kernel does not have is null, as two pointers may not be one."""
        code, places = self.kernels[kernel], self.scratch[kernel]
        sizes = code.shared_bytes, code.private_bytes
        offsets = places.shared, places.private
        scratch = [
            f.gep(arena, offset, I8) if size != 0 else f.null() for size, offset in zip(sizes, offsets, strict=True)
        ]

        def run(phase: Phase) -> None:
            operands = [*pointers, *self.sizes, *scratch, f.const(0), f.index(phase.iterations)]
            f.call(phase.symbol, operands, external=True)

        repeated(f, [phase for phase in code.phases if phase.iterations != 0], run)

    def _survey(self) -> None:
        """All kernels are called by their names: a table of places would depend on how wide pointers are."""


def constant_name(number: int) -> str:
    """What a constant of the file is called."""
    return f"constant_{number}"
