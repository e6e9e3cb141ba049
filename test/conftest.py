"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: tests of Ctrl-C
# need what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
