"""Results of a campaign as lines of JSON, for a run that was ended and goes on."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from stablehlo_py.errors import LoadError, ResourceError
from stablehlo_py.files import write_whole

if TYPE_CHECKING:
    from dataclasses import Field


class Record(Protocol):
    """A line: a frozen dataclass, which raises ValueError for values that it cannot have."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def key(self) -> Hashable:
        """What tells it from others."""


R = TypeVar("R", bound=Record)


class Journal(Generic[R]):
    """Results as lines of JSON. A later line replaces an earlier one of its key. Without a path nothing is kept.

    Raises:
        ResourceError: the file cannot be read or written.
        LoadError: it is no journal, or one of another target.
    """

    def __init__(self, path: Path | None, target: str, kind: type[R]) -> None:
        self._path, self._target, self._kind = path, target, kind
        self.known: dict[Hashable, R] = {result.key: result for result in self._read()}
        if path is not None:  # without a line that was cut off
            write_whole(path, "".join(map(self._line, self.known.values())))

    def add(self, results: Iterable[R]) -> None:
        """Keep results."""
        results = list(results)
        self.known.update((result.key, result) for result in results)
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(map(self._line, results)))
        except OSError as error:
            raise _no_journal(self._path, error) from error

    def _line(self, result: R) -> str:
        return json.dumps({"target": self._target, **asdict(result)}) + "\n"

    def _read(self) -> Iterator[R]:
        if self._path is None or not self._path.exists():
            return
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            raise _no_journal(self._path, error) from error
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return  # the run was ended while it wrote this
            where = f"{self._path}:{number}"
            try:
                record: dict[str, Any] = json.loads(line)
                target, result = record.pop("target"), self._kind(**record)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise LoadError("not a line of a journal", location=where, remedy="give another --journal") from None
            if target != self._target:
                reason = f"the journal is of the target '{target}', not of '{self._target}'"
                raise LoadError(reason, location=where, remedy="give another --journal")
            yield result


def _no_journal(path: Path, error: OSError | UnicodeDecodeError) -> ResourceError:
    reason = error.strerror if isinstance(error, OSError) else "it is no text"
    return ResourceError(f"the journal {path} cannot be used: {reason}", remedy="give another --journal")
