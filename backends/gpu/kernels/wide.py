"""Accesses of 16 bytes: which neighbours a thread takes at once. LLVM joins their accesses where they lie side by side,
and the alignment of the first one is known."""

from __future__ import annotations

from collections.abc import Sequence

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.common.iteration import unknown_value
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.codegen.elemental import Elemental
from stablehlo_py.codegen.index import Affine, Delinearized, DryRun, Variable, digits, known_multiple
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.symint import IntLike
from stablehlo_py.mlir import ir

MOST_BYTES = 16  # of an access


def widest(values: Sequence[ir.Value], count: IntLike) -> int:
    """How many neighbours of the widest of some tensors 16 bytes hold: a power of two that divides `count`."""
    wide = max(1, MOST_BYTES // max(element(value).bytes for value in values))
    while count % wide:
        wide //= 2
    return wide


def power_of_two(number: int) -> int:
    """The smallest that is not less."""
    return 1 << (number - 1).bit_length()


class Neighbours:
    """A dry run over `wide` neighbours, which differ in the last of some loops.

    Attributes:
        variables: one for each loop; that of the last one counts groups of neighbours.
        loads: (tensor, element number) of every access, in terms of `variables`.
    """

    def __init__(
        self,
        fusion: Fusion,
        target: GpuTarget,
        values: Sequence[ir.Value],
        sizes: Sequence[int],
        wide: int,
        bound: Sequence[ir.Value] = (),
    ) -> None:
        dry = DryRun()
        e = Elemental(dry, fusion, target, wide)
        for value in bound:
            e.bind(value, unknown_value(dry, element(value)))
        counts = [*sizes[:-1], sizes[-1] // wide]
        self.wide = wide
        self.variables = [Variable(dry.unknown(dry.index(0).type), 0, count - 1) for count in counts]
        indices = [Affine(0, ((each, 1),)) for each in self.variables[:-1]]
        place: Delinearized = digits(
            zip(sizes, [*indices, Affine(0, ((self.variables[-1], wide),), 1 if wide > 1 else 0)], strict=True)
        )
        for value in values:
            e.value(value, place)
        self.loads = dry.loads

    @property
    def side_by_side(self) -> bool:
        """Whether neighbours read one element, or what lies side by side from a multiple of their number on."""
        return all(
            offset.uniform or (offset.contiguous and known_multiple(offset) % self.wide == 0)
            for _, offset in self.loads
        )

    def differs(self, offset: Affine) -> bool:
        """Whether an access reads another element in every iteration of the loops."""
        moving = {variable for variable, _ in offset.terms}
        return all(variable in moving for variable in self.variables if variable.high)
