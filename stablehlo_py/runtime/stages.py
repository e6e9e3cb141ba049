"""Stage texts, rendered when somebody reads them: MLIR stages are kept as bytecode (0.2 us an op, against 2 us to
print), and the late ones are derived from what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stablehlo_py.backends.base import backend_of
from stablehlo_py.boundary import public
from stablehlo_py.errors import OptionError, elided, shown
from stablehlo_py.interrupts import deferred
from stablehlo_py.passmanager.suggest import near_miss
from stablehlo_py.runtime.program import CompiledProgram


class NoSuchStage(OptionError, KeyError):
    """A stage that a program does not have. A KeyError, as of any mapping: `in` and `get` answer without it."""


class Stages(Mapping[str, str]):
    """Mapping of stage name to text, in the order of the stages."""

    def __init__(
        self, stored: Mapping[str, str | bytes], derived: Mapping[str, Callable[[], str]] | None = None
    ) -> None:
        self._stored = stored
        self._texts: dict[str, str] = {}
        self._derived = dict(derived or {})

    @public
    def __getitem__(self, name: str) -> str:
        if not isinstance(name, str) or name not in {*self._stored, *self._derived}:
            remedy = near_miss(name, self) if isinstance(name, str) else f"stages: {elided(self)}"
            raise NoSuchStage(f"there is no stage {shown(name)}", remedy=remedy)
        if name not in self._texts:
            content = self._stored[name] if name in self._stored else self._derived[name]()
            self._texts[name] = render_bytecode(content) if isinstance(content, bytes) else content
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._stored
        yield from (name for name in self._derived if name not in self._stored)

    def __repr__(self) -> str:
        return f"<stages {', '.join(self)}>"

    def __len__(self) -> int:
        return len({*self._stored, *self._derived})


def stage_texts(program: CompiledProgram) -> Stages:
    """Texts of all stages of a program, rendered when read."""
    return Stages(program.stages, backend_of(program).listings(program))


@deferred()
def render_bytecode(bytecode: bytes) -> str:
    """MLIR bytecode of one of our stages as text, large constants elided."""
    from stablehlo_py.dialect.context import make_context
    from stablehlo_py.mlir import ir

    context = make_context()
    with context:
        module = ir.Module.parse(bytecode)
        return str(module.operation.get_asm(large_elements_limit=64))
