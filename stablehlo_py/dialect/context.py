"""Contexts that speak all of the compiler's dialects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from stablehlo_py.dialect.ops import Hlo
from stablehlo_py.mlir import ir, run_upstream, stablehlo

_lock = threading.Lock()
_registered = False


def make_context() -> ir.Context:
    """A context with every dialect that the compiler speaks: upstream's, StableHLO, CHLO, VHLO and hlo."""
    global _registered
    # Loading a Python-defined dialect stores state on its class: one context at a time.
    with _lock:
        if not _registered:
            stablehlo.register_stablehlo_passes()
            _registered = True
        context = ir.Context()
        context.enable_multithreading(False)
        stablehlo.register_dialect(context)
        with context, ir.Location.unknown():
            # register_dialect leaves chlo out; a pass that depends on it loads it.
            run_upstream(ir.Module.create(), "func.func(stablehlo-complex-math-expander)")
            Hlo.load()
            del Hlo._mlir_module  # the class would keep this context alive until there is the next
    return context


@dataclass
class _Kept:
    """A context, how many programs it has served, and how many bytes their sources had."""

    context: Any
    programs: int = 0
    seen: int = 0


# A context keeps every attribute, type and location that it has seen: it serves so many programs, of so many bytes.
_PROGRAMS, _BYTES = 100, 1 << 20
_IDLE = 4  # contexts of a pool that nobody uses, at most


class ContextPool:
    """Contexts that `make` makes, each of which serves some programs one after the other. Thread-safe."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._idle: list[_Kept] = []

    @contextmanager
    def lent(self, size: int) -> Iterator[Any]:
        """A context for one program, whose source has so many bytes: one that earlier programs have used, where there
        is one. At the end of the block nothing may refer to the program's IR any more.

        Nobody else has the context meanwhile. After an exception it is not kept: its traceback may refer to IR.
        """
        try:
            kept = self._idle.pop()
        except IndexError:
            kept = _Kept(self._make())
        yield kept.context
        kept.programs += 1
        kept.seen += size
        if kept.programs < _PROGRAMS and kept.seen < _BYTES and len(self._idle) < _IDLE:
            self._idle.append(kept)


_pool = ContextPool(make_context)


def lent_context(size: int) -> AbstractContextManager[ir.Context]:
    """A context like that of `make_context`, for one program: see `ContextPool.lent`."""
    return _pool.lent(size)
