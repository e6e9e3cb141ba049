"""Work of a thread of its own: what it makes or raises comes to the one that waits, who answers signals."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from stablehlo_py.backends.common.meanwhile import Meanwhile
from stablehlo_py.errors import UnsupportedError
from stablehlo_py.interrupts import deferred


def test_results_and_errors() -> None:
    assert Meanwhile(threading.get_ident).result() != threading.get_ident()

    def fail() -> None:
        raise UnsupportedError("no", remedy="none")

    failing = Meanwhile(fail)
    for _ in range(2):
        with pytest.raises(UnsupportedError):
            failing.result()


def test_signals_are_answered_while_it_waits() -> None:
    answered = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: answered.set())
    try:
        with deferred():
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not answered.is_set()
            assert Meanwhile(lambda: answered.wait(60)).result()
    finally:
        signal.signal(signal.SIGUSR1, before)
