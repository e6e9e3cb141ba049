"""Classes of values that share one slice of memory, with live ranges that do not overlap."""

from __future__ import annotations

from stablehlo_py.passes.buffers.liveness import Program


class Classes:
    """A union-find over value numbers. A class has a space once one of its values has to lie there."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._parent = list(range(len(program.values)))
        self.members: list[list[int]] = [[number] for number in range(len(program.values))]
        self.space: list[tuple[int, int] | None] = [value.space for value in program.values]

    def of(self, value: int) -> int:
        """The class of a value."""
        parent = self._parent
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    def same(self, first: int, second: int) -> bool:
        """Do two values share memory?"""
        return self.of(first) == self.of(second)

    def unite(self, first: int, second: int, meeting: int = -1) -> bool:
        """Let two values (and all that share with them) share memory; False when that would break something.

        `meeting` is the position of an op that reads the one and writes the other in place: there, and only there,
        live ranges may touch.
        """
        a, b = self.of(first), self.of(second)
        if a == b:
            return True
        values = self.program.values
        if values[a].bytes != values[b].bytes:
            return False
        if self.space[a] is not None and self.space[b] is not None and self.space[a] != self.space[b]:
            return False
        for one in self.members[a]:
            for other in self.members[b]:
                early, late = sorted((values[one], values[other]), key=lambda value: value.first)
                touches = early.last == late.first == meeting and early.first < meeting
                if early.last >= late.first and not touches:
                    return False
        if len(self.members[a]) < len(self.members[b]):
            a, b = b, a
        self._parent[b] = a
        self.members[a] += self.members[b]
        self.members[b] = []
        self.space[a] = self.space[a] if self.space[a] is not None else self.space[b]
        return True

    def range(self, number: int) -> tuple[int, int]:
        """First and last position of a class, gaps included."""
        values = self.program.values
        members = self.members[self.of(number)]
        return min(values[member].first for member in members), max(values[member].last for member in members)
