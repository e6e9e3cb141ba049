"""The table of sizes that a call fills before it runs: which expression is where."""

from __future__ import annotations

from stablehlo_py.dialect.symint import SymInt


class SizeTable:
    """Numbers the sizes that code reads; the slots of one program."""

    def __init__(self) -> None:
        self.slots: dict[SymInt, int] = {}

    def slot(self, size: SymInt) -> int:
        """The position of a size in the table of i64 numbers."""
        return self.slots.setdefault(size, len(self.slots))
