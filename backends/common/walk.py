"""The walk over a scheduled program: what follows what in `@main`, apart from how a host does it.

Every value is a slice that buffer assignment chose. A host starts kernels, copies, reads scalars, branches and loops:
it writes code for that (program.py), or does it at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from stablehlo_py.dialect.attributes import UNREAD
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.edit import terminator
from stablehlo_py.dialect.memory import INPUT, Slice, slices_of
from stablehlo_py.dialect.types import is_tensor, user_location
from stablehlo_py.errors import InternalError, UnsupportedError
from stablehlo_py.mlir import ir

Scalar = TypeVar("Scalar")  # what the host knows a scalar by
STEPS = ("func.call", "hlo.copy")
WITHOUT_CODE = ("func.return", "hlo.constant", "hlo.reshape", "scf.condition", "scf.yield")  # their slices say all


class Walk(ABC, Generic[Scalar]):
    """A host that goes through `@main`. Blocks of loops and branches are passed to it as functions.

    Attributes:
        slices: where the values lie that were met so far. scalars: predicates and indices.
    """

    def __init__(self, module: ir.Module) -> None:
        self.main = main_function(module)
        arguments = self.main.regions[0].blocks[0].arguments
        self.slices = {argument: Slice(INPUT, number, 0, 0) for number, argument in enumerate(arguments)}
        self.scalars: dict[ir.Value, Scalar] = {}

    # --- what a host does --------------------------------------------------------------------------------------------

    @abstractmethod
    def steps(self, ops: Sequence[ir.OpView]) -> None:
        """Kernels and copies, one after the other, with nothing between them."""

    @abstractmethod
    def element(self, value: ir.Value) -> Scalar:
        """The one element of a tensor."""

    @abstractmethod
    def index(self, scalar: Scalar, *, unsigned: bool) -> Scalar:
        """An integer as an index."""

    @abstractmethod
    def equal(self, scalar: Scalar, number: int) -> Scalar:
        """Whether an index is that number."""

    @abstractmethod
    def branch(self, condition: Scalar, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        """One block or the other."""

    @abstractmethod
    def loop(self, condition: Callable[[], Scalar], body: Callable[[], None]) -> None:
        """The body, as long as the condition holds."""

    def in_one(self, op: ir.OpView) -> bool:
        """Do a loop in a way of its own, whose carries lie where `slices` says; False: there is none."""
        return False

    def may_end(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether the program may have to end after this step, which is then passed to `step_or_end`."""
        return False

    def step_or_end(self, op: ir.OpView) -> None:
        """A step, and the end of the program if it comes to that."""
        self.steps([op])

    # --- the walk ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Go through the program."""
        self._block(self.main.regions[0].blocks[0])

    def _block(self, block: ir.Block) -> None:
        steps: list[ir.OpView] = []
        for op in block.operations:
            name = op.operation.name
            if any(is_tensor(result) for result in op.operation.results):
                self._record(op)
            if name in STEPS and not self.may_end(op):
                if not self._is_idle(op):
                    steps.append(op)
            elif name not in WITHOUT_CODE:
                self.steps(steps)
                steps = []
                if name in STEPS:
                    self.step_or_end(op)
                elif name in _HANDLERS:
                    _HANDLERS[name](self, op)
                else:
                    location = user_location(op.location)
                    raise UnsupportedError(f"a program has no code for '{name}'", op=name, location=location)
        self.steps(steps)

    def _record(self, op: ir.OpView) -> None:
        places = slices_of(op)
        if not places:
            raise InternalError(f"'{op.operation.name}' has no slice", location=user_location(op.location))
        self.slices.update(zip(op.results, places, strict=True))

    def _is_idle(self, op: ir.OpView) -> bool:
        """A copy of a value to where it is; a call whose results nobody reads."""
        if UNREAD in op.operation.attributes:
            return True
        if op.operation.name != "hlo.copy":
            return False
        source, target = self.slices[op.operands[0]], self.slices[op.results[0]]
        return (source.buffer, source.offset) == (target.buffer, target.offset)

    def _extract(self, op: ir.OpView) -> None:
        self.scalars[op.results[0]] = self.element(op.operands[0])

    def _index_cast(self, op: ir.OpView) -> None:
        unsigned = op.operation.name == "arith.index_castui"
        self.scalars[op.results[0]] = self.index(self.scalars[op.operands[0]], unsigned=unsigned)

    def _while(self, op: ir.OpView) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        carried = [self.slices[result] for result in op.results]
        for block in (before, after):
            self.slices.update(zip(block.arguments, carried, strict=True))
        if self.in_one(op):
            return

        def condition() -> Scalar:
            self._block(before)
            return self.scalars[terminator(before).operands[0]]

        self.loop(condition, lambda: self._block(after))

    def _if(self, op: ir.OpView) -> None:
        branches = [lambda region=region: self._block(region.blocks[0]) for region in op.regions if len(region.blocks)]
        self.branch(self.scalars[op.operands[0]], branches[0], branches[1] if len(branches) > 1 else None)

    def _switch(self, op: ir.OpView) -> None:
        # Region 0 is the default; case i is region i + 1.
        default, *others = op.regions
        cases = list(zip(tuple(op.attributes["cases"]), others, strict=True))
        self._choose(self.scalars[op.operands[0]], cases, default)

    def _choose(self, selector: Scalar, cases: Sequence[tuple[int, ir.Region]], default: ir.Region) -> None:
        if not cases:
            self._block(default.blocks[0])
            return
        (number, region), *others = cases
        hit = self.equal(selector, number)
        self.branch(hit, lambda: self._block(region.blocks[0]), lambda: self._choose(selector, others, default))


_HANDLERS = {
    "tensor.extract": Walk._extract,
    "arith.index_cast": Walk._index_cast,
    "arith.index_castui": Walk._index_cast,
    "scf.while": Walk._while,
    "scf.if": Walk._if,
    "scf.index_switch": Walk._switch,
}
