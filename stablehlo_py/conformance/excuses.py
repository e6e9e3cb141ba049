"""What differs from an oracle, or is refused, for a reason that is not the target's: ops/exceptions.txt."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

from stablehlo_py.conformance.cases import CLASSES, FOLDER, types_of
from stablehlo_py.conformance.runner import Finding

EXCEPTIONS = FOLDER / "exceptions.txt"


@dataclass(frozen=True)
class Excuse:
    """A line of exceptions.txt: `op[/function] types: reason`; the names may hold `*`."""

    op: str
    function: str
    types: tuple[str, ...]
    reason: str

    def covers(self, finding: Finding) -> bool:
        """A crash is never excused."""
        return (
            finding.status not in ("crash", "timeout")
            and finding.row.type in self.types
            and fnmatch.fnmatchcase(finding.row.op, self.op)
            and fnmatch.fnmatchcase(finding.function, self.function)
        )

    def covers_class(self, op: str, name: str) -> bool:
        """Whether a whole class of types is refused, by StableHLO's own verifier."""
        return self.function == "*" and fnmatch.fnmatchcase(op, self.op) and set(CLASSES[name]) <= set(self.types)


def excuses(path: Path = EXCEPTIONS) -> list[Excuse]:
    """The lines of exceptions.txt. Raises ValueError for one without a reason."""
    found = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        case, separator, reason = line.partition(": ")
        op, _, types = case.partition(" ")
        if not separator or not reason.strip() or not types.strip():
            raise ValueError(f"{path}: a line must read 'op[/function] types: reason': {line}")
        name, _, function = op.partition("/")
        found.append(Excuse(name, function or "*", types_of(types), reason.strip()))
    return found
