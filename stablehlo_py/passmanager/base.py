"""What a pass is: a frozen dataclass whose fields are its options, with a name and a `run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import ClassVar

from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Pass(ABC):
    """Base of all passes. Subclasses set `name` (kebab-case; file `passes/<name with underscores>.py`), declare
    options as dataclass fields with defaults, and implement `run`. The class docstring's first line is what
    `--list-passes` shows. Without a pass that is `required` no program comes out: `Options(disable=...)` refuses it."""

    name: ClassVar[str]
    required: ClassVar[bool] = False
    # Whether a second run, right after the first one, changes nothing.
    idempotent: ClassVar[bool] = False
    # Whether all that it does is to erase ops, of which none leaves another one without uses that had some.
    only_erases: ClassVar[bool] = False

    @abstractmethod
    def run(self, module: ir.Module) -> bool | None:
        """Rewrite the module in place. The module's context and an unknown location are current; user errors are raised
        as ShloError. False says that nothing has changed."""

    def roots(self) -> Iterable[str] | None:
        """Names of ops without which the pass changes nothing, so that it need not run; None: it may change any."""
        return None

    def settles(self, module: ir.Module) -> Collection[str]:
        """Names of other passes that would change nothing after this one."""
        return ()

    @classmethod
    def switches(cls) -> dict[str, str]:
        """What `Options(disable=...)` may turn off in the pass: the names of its switches, and their fields."""
        return {each.metadata["switch"]: each.name for each in fields(cls) if "switch" in each.metadata}


def switch(name: str) -> bool:
    """A field of a pass that is on unless `Options(disable=(name,))` turns it off: how a part of a pass is left out
    that as a whole is required."""
    return field(default=True, metadata={"switch": name})
