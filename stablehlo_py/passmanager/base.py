"""What a pass is: a frozen dataclass whose fields are its options, with a name and a `run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stablehlo_py.mlir import ir


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Subclasses set `name` (kebab-case; file `passes/<name with underscores>.py`), declare
    options as dataclass fields with defaults, and implement `run`. The class docstring's first line is what
    `--list-passes` shows."""

    name: ClassVar[str]

    def run(self, module: ir.Module) -> None:
        """Rewrite the module in place. The module's context and an unknown location are current; user errors are raised
        as ShloError."""
        raise NotImplementedError
