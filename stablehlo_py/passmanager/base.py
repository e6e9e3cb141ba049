"""What a pass is: a frozen dataclass whose fields are its options, with a name and a `run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import ClassVar

from stablehlo_py.dialect.census import Contents
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
    # Whether it has nothing to do after a pass that only erases where it had nothing to do before.
    stays_settled: ClassVar[bool] = False
    # Names of the ops that it makes, beside copies of others, all of types that were there; None: any.
    makes: ClassVar[Collection[str] | None] = None
    # What runs first, where that has something to do.
    first: ClassVar[tuple[Pass, ...]] = ()

    @abstractmethod
    def run(self, module: ir.Module) -> bool | None:
        """Rewrite the module in place. The module's context and an unknown location are current; user errors are raised
        as ShloError. False says that nothing has changed."""

    def roots(self) -> Iterable[str] | None:
        """Names of ops without which the pass changes nothing, so that it need not run; None: it may change any."""
        return None

    def concerns(self, contents: Contents) -> bool:
        """Whether a pass without `roots` may change a module with such contents, which are known once it is loaded."""
        return True

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
