"""Put the ops of every block in the order that needs the least memory at once.

Before and after: the same ops, with dependencies kept. Three orders are tried, and the one with the lowest peak of
live bytes stays, or of those with about the same peak the one with the fewest live bytes at all times: the order of the
program; depth first from the results; and greedy, where of all ops that could run the one goes first that frees most
and allocates least (list scheduling, with live bytes as the priority). Results of the program lie in memory of their
own and do not count.

Ops that will write in place go after the other readers of what they overwrite: an in-place update after the readers
of its operand, the producer of a loop's next value after the readers of the current one. Buffer assignment then
needs no copy. Ops with side effects stay in the program's order, also where nothing asks for it: people read what
they print.

Relies on `fusion`: values are results of fusion calls, control flow, constants and views.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

from stablehlo_py.dialect.regions import captured_values
from stablehlo_py.dialect.symint import IntLike, size_hint
from stablehlo_py.dialect.types import tensor_bytes
from stablehlo_py.mlir import ir
from stablehlo_py.passes._functions import functions
from stablehlo_py.passes._order import topological_order
from stablehlo_py.passes.buffers.inplace import in_place, updated_input
from stablehlo_py.passes.policy import policy_of
from stablehlo_py.passmanager.base import Pass
from stablehlo_py.passmanager.effects import is_pure, pure_functions
from stablehlo_py.targets import DEFAULT_TARGET

_SAME_PEAK = 1.001  # of the lowest peak: what lives at other times decides
_NO_MEMORY = ("hlo.constant", "hlo.reshape")

Pairs = Sequence[tuple[int, int]]  # operands and results of a fusion that may share memory


@dataclass(frozen=True)
class Schedule(Pass):
    """Order the ops of every block for low peak memory."""

    name: ClassVar[str] = "schedule"
    makes: ClassVar[tuple[str, ...]] = ()
    target: str = DEFAULT_TARGET

    def run(self, module: ir.Module) -> None:
        """Reorder `@main` and the regions of its control flow."""
        rules = policy_of(self.target).fusion.in_place
        programs, fusions = functions(module)
        inputs = {name: updated_input(function, rules) for name, function in fusions.items()}
        updates = {name: number for name, number in inputs.items() if number is not None}
        pairs = {name: sorted(in_place(function, rules).may) for name, function in fusions.items()}
        pure = pure_functions(module)
        for function in programs:
            for block in function.regions[0].blocks:
                _schedule(block, updates, pairs, pure)


def _schedule(block: ir.Block, updates: Mapping[str, int], pairs: Mapping[str, Pairs], pure: Collection[str]) -> None:
    ops = [view.operation for view in block.operations]
    for op in ops:
        for region in op.regions:
            for inner in region.blocks:
                _schedule(inner, updates, pairs, pure)
    graph = _Graph(block, ops, pairs)
    graph.order_effects(pure)
    graph.order_overwrites(updates)
    in_order = topological_order(graph.after)  # the original order, changed only where an overwrite asks for it
    orders = [in_order, graph.depth_first(), graph.greedy()]
    memory = [graph.memory(order) for order in orders]
    enough = _SAME_PEAK * min(peak for peak, _ in memory)
    _, best = min((total, number) for number, (peak, total) in enumerate(memory) if peak <= enough)
    if orders[best] != sorted(orders[best]):
        terminator = ops[-1]
        for number in orders[best]:
            ops[number].move_before(terminator)


class _Graph:
    """Ops of a block (without the terminator) by number; values by number. `root` of a view is the value that it
    shows."""

    def __init__(self, block: ir.Block, ops: Sequence[ir.Operation], pairs: Mapping[str, Pairs]) -> None:
        self.ops = ops[:-1]
        self.terminator = ops[-1]
        self.before: list[set[int]] = [set() for _ in self.ops]
        self.after: list[set[int]] = [set() for _ in self.ops]
        self.operands: list[list[int | None]] = []  # op -> values, None from outside
        self.reads: list[list[int]] = []  # op -> roots
        self.makes: list[list[int]] = []  # op -> roots
        self.size: list[int] = []  # root -> bytes
        self.readers: list[list[int]] = []  # root -> ops
        self.callees: list[str] = []  # op -> the function that it calls, "" where it is no call
        self.number: dict[ir.Value, int] = {}
        self.root: list[int] = []
        self.maker: list[int] = []
        self._bytes: Callable[[ir.Type], IntLike] = cache(tensor_bytes)
        for argument in block.arguments:
            self._value(argument, -1, None)
        for op in self.ops:
            self._op(op)
        returned = [self.number.get(value) for value in self.terminator.operands]
        self.returned = [number for number in returned if number is not None]  # values that the terminator reads
        self.kept = {self.root[number] for number in self.returned}
        self.over = [self._overwritten(index, pairs.get(callee, ())) for index, callee in enumerate(self.callees)]
        if self.terminator.name == "func.return":
            self._place_results()
        self.made = [sum(self.size[root] for root in roots) for roots in self.makes]  # op -> bytes

    def _overwritten(self, index: int, pairs: Pairs) -> list[tuple[int, int]]:
        """Roots of an op's operands and results that may share memory, if nobody reads the operand later."""
        found = []
        for position, output in pairs:
            operand = self.operands[index][position]
            if operand is not None:
                found.append((self.root[operand], self.makes[index][output]))
        return found

    def _place_results(self) -> None:
        """Results of the program take nothing here: they lie in memory of their own, as does what becomes one."""
        for root in self.kept:
            self.size[root] = 0
        for over in reversed(self.over):
            taken = set()
            for operand, result in over:
                if not self.size[result] and result not in taken and len(self.readers[operand]) == 1:
                    self.size[operand] = 0
                    taken.add(result)

    def _value(self, value: ir.Value, maker: int, shown: int | None, sized: bool = False) -> int:
        number = self.number[value] = len(self.root)
        self.root.append(number if shown is None else shown)
        self.maker.append(maker)
        is_tensor = sized and isinstance(type_ := value.type, ir.RankedTensorType)
        self.size.append(size_hint(self._bytes(type_)) if is_tensor else 0)
        self.readers.append([])
        return number

    def _op(self, op: ir.Operation) -> None:
        index, known = len(self.reads), self.number.get
        operands = [known(value) for value in op.operands]
        self.operands.append(operands)
        used = operands + [known(value) for value in captured_values(op)] if len(op.regions) else operands
        numbers = [number for number in dict.fromkeys(used) if number is not None]
        for number in numbers:
            if self.maker[number] >= 0:
                self._edge(self.maker[number], index)
        roots = list(dict.fromkeys([self.root[number] for number in numbers]))
        for root in roots:
            self.readers[root].append(index)
        self.reads.append(roots)
        name = op.name
        self.callees.append(op.attributes["callee"].value if name == "func.call" else "")
        shown, sized = roots[0] if name == "hlo.reshape" and roots else None, name not in _NO_MEMORY
        self.makes.append([self._value(result, index, shown, sized) for result in op.results])

    def _edge(self, first: int, second: int) -> None:
        self.before[second].add(first)
        self.after[first].add(second)

    def order_effects(self, pure: Collection[str]) -> None:
        """Ops with side effects follow each other as they do now; `pure` names functions without."""
        callees = self.callees
        impure = [index for index, op in enumerate(self.ops) if callees[index] not in pure and not is_pure(op, pure)]
        for first, second in pairwise(impure):
            self._edge(first, second)

    # --- overwrites --------------------------------------------------------------------------------------------------

    def order_overwrites(self, updates: Mapping[str, int]) -> None:
        """Readers of memory that an op will overwrite come before that op, where dependencies allow it."""
        for index, callee in enumerate(self.callees):
            if callee in updates:
                target = self.operands[index][updates[callee]]
                if target is not None:
                    self._readers_first(self.root[target], index)
        block = self.terminator.operation.block
        if self.terminator.name == "scf.yield" and self.terminator.parent.name == "scf.while":
            for argument, value in zip(block.arguments, self.terminator.operands, strict=True):
                number = self.number.get(value)
                if number is not None and self.maker[self.root[number]] >= 0:
                    self._readers_first(self.number[argument], self.maker[self.root[number]])

    def _readers_first(self, root: int, writer: int) -> None:
        for reader in self.readers[root]:
            if reader != writer and reader not in self.before[writer] and not self._reaches(writer, reader):
                self._edge(reader, writer)

    def _reaches(self, start: int, target: int) -> bool:
        stack, seen = [start], {start}
        while stack:
            index = stack.pop()
            if index == target:
                return True
            for following in self.after[index]:
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        return False

    # --- orders ------------------------------------------------------------------------------------------------------

    def depth_first(self) -> list[int]:
        """Depth first from the results: what a value needs is computed right before it."""
        order: list[int] = []
        done = [False] * len(self.ops)
        wanted = [self.maker[number] for number in self.returned]
        for start in [index for index in wanted if index >= 0] + list(range(len(self.ops))):
            stack = [(start, False)]
            while stack:
                index, ready = stack.pop()
                if ready:
                    order.append(index)
                elif not done[index]:
                    done[index] = True
                    stack.append((index, True))
                    stack += [
                        (earlier, False) for earlier in sorted(self.before[index], reverse=True) if not done[earlier]
                    ]
        return order

    def greedy(self) -> list[int]:
        """List scheduling: of the ops that could run, the one that frees most and allocates least goes first."""
        left = [len(readers) for readers in self.readers]
        waiting = [len(before) for before in self.before]
        done = [False] * len(self.ops)

        def score(index: int) -> int:
            freed = sum(self.size[root] for root in self.reads[index] if left[root] == 1 and root not in self.kept)
            return self.made[index] - freed

        ready = [(score(index), index) for index, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        order = []
        while ready:
            known, index = heapq.heappop(ready)
            if done[index]:
                continue
            now = score(index)
            if now != known:
                heapq.heappush(ready, (now, index))
                continue
            done[index] = True
            order.append(index)
            for root in self.reads[index]:
                left[root] -= 1
                if left[root] == 1:
                    last = next(reader for reader in self.readers[root] if not done[reader])
                    if not waiting[last]:
                        heapq.heappush(ready, (score(last), last))
            for following in self.after[index]:
                waiting[following] -= 1
                if not waiting[following]:
                    heapq.heappush(ready, (score(following), following))
        return order

    def memory(self, order: Sequence[int]) -> tuple[int, int]:
        """The most bytes of this block's values that are live at once in an order, and the sum over all steps."""
        left = [len(readers) for readers in self.readers]
        live = highest = total = 0
        for index in order:
            live += self.made[index]
            over = {
                result: operand
                for operand, result in self.over[index]
                if left[operand] == 1 and operand not in self.kept
            }
            shared = sum(self.size[operand] for operand in set(over.values())) if over else 0
            highest = max(highest, live - shared)
            total += live
            for root in self.reads[index]:
                left[root] -= 1
                if not left[root] and root not in self.kept:
                    live -= self.size[root]
            for root in self.makes[index]:
                if not self.readers[root] and root not in self.kept:
                    live -= self.size[root]
        return highest, total
