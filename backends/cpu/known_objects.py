"""Object files that a process keeps, of functions that several programs have in common: whatever was compiled before,
a program is made of the same files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from stablehlo_py import forks

Key = TypeVar("Key", bound=Hashable)


class KnownObjects(Generic[Key]):
    """Object files by what they were made of, as many as take `most` bytes; those that were used last. Thread-safe.

    Args:
        most: bytes.
        size: what a key takes of them.
    """

    def __init__(self, most: int, size: Callable[[Key], int]) -> None:
        self._most, self._size_of = most, size
        self._size = 0
        self._known: dict[Key, bytes] = {}
        self._lock = forks.Lock()

    def all_of(self, keys: Sequence[Key], make: Callable[[list[Key]], list[bytes]]) -> list[bytes]:
        """The files of some keys; `make` makes those that are not known."""
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            found.update(zip(missing, make(missing), strict=True))
        with self._lock:
            for key in keys:
                if self._known.pop(key, None) is None:
                    self._size += self._size_of(key) + len(found[key])
                self._known[key] = found[key]  # the one used last is the last
            while self._size > self._most:
                oldest = next(iter(self._known))
                self._size -= self._size_of(oldest) + len(self._known.pop(oldest))
        return [found[key] for key in keys]

    def forget(self) -> None:
        """Know none."""
        with self._lock:
            self._known.clear()
            self._size = 0
