"""What native code wrote down as a program has it: blocks of steps, and conditions with the blocks behind them.

    launch, read(0), body(0, way 1 of 2), launch, end, body(0, way 0 of 2), copy, end

is a launch, what sets two conditions by the scalar 0, and two blocks, of which one runs. A loop sets its condition
before it, and at the end of its block. A way with nothing in it has no block.
"""

from __future__ import annotations

import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from stablehlo_py.backends.gpu.driver.recording import BODY, END, READ, Step, steps_of
from stablehlo_py.errors import InternalError


@dataclass(frozen=True)
class Condition:
    """It holds where the scalar is `way`; `last` is that of all greater scalars too. Numbers are from 0 on."""

    number: int
    way: int
    last: int


@dataclass
class Setting:
    """The step that reads a scalar, by which it sets conditions."""

    step: Step
    conditions: list[Condition] = field(default_factory=list)


@dataclass
class Conditional:
    """A block that runs if a condition holds, of a loop as long as it does."""

    condition: Condition
    is_loop: bool
    body: Block


@dataclass
class Block:
    """What is asked for, in order.

    Attributes:
        before: for each node, those that it waits for (dependencies.py).
    """

    nodes: list[Step | Setting | Conditional] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)

    def setting(self, scalar: int) -> Setting:
        """What has read a scalar last, here. Raises InternalError: nothing has."""
        for node in reversed(self.nodes):
            if isinstance(node, Setting) and node.step.scalar == scalar:
                return node
        raise InternalError("a branch of a graph has a condition that nothing sets")

    def forget_unused(self) -> Block:
        """The same, without what sets no condition."""
        self.nodes = [node for node in self.nodes if not isinstance(node, Setting) or node.conditions]
        return self

    def all_nodes(self) -> Iterator[Step | Setting | Conditional]:
        """Those of inner blocks, too."""
        for node in self.nodes:
            yield node
            if isinstance(node, Conditional):
                yield from node.body.all_nodes()

    @property
    def conditionals(self) -> list[Conditional]:
        """All of them."""
        return [node for node in self.all_nodes() if isinstance(node, Conditional)]


def block_of(numbers: array.array[int]) -> Block:
    """The steps that native code wrote, without edges. Raises InternalError: they are not whole."""
    outer, scalars, count = [Block()], list[int](), 0
    for step in steps_of(numbers):
        if step.kernel == READ:
            outer[-1].nodes.append(Setting(step))
        elif step.kernel == BODY:
            is_loop = step.ways == 1
            condition = Condition(count, 1 if is_loop else step.way, max(1, step.ways - 1))
            count += 1
            outer[-1].setting(step.scalar).conditions.append(condition)
            node = Conditional(condition, is_loop, Block())
            outer[-1].nodes.append(node)
            outer.append(node.body)
            scalars.append(step.scalar)
        elif step.kernel == END:
            body, scalar = outer.pop(), scalars.pop()
            last = outer[-1].nodes[-1]
            assert isinstance(last, Conditional)
            if last.is_loop:
                body.setting(scalar).conditions.append(last.condition)
            if not body.forget_unused().nodes:  # drivers want no empty graphs
                outer[-1].nodes.pop()
                outer[-1].setting(scalar).conditions.remove(last.condition)
        else:
            outer[-1].nodes.append(step)
    if len(outer) > 1:
        raise InternalError("a branch of a graph does not end")
    return outer[0].forget_unused()
