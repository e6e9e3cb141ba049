"""The backend of this folder is known to the tests, whether the package is installed or not; and the report of ops."""

from __future__ import annotations

import pytest

from stablehlo_py.kit.template.backend import NewnameBackend
from stablehlo_py.targets import register_backend

register_backend("newname", NewnameBackend)
_REPORT: dict[str, str] = {}


@pytest.fixture(scope="session")
def report() -> dict[str, str]:
    """What became of each op: implemented, in part, refused. It is printed at the end."""
    return _REPORT


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which ops the device has, and which are refused."""
    for status in ("implemented", "in part", "refused"):
        ops = sorted(op for op, found in _REPORT.items() if found == status)
        if ops:
            terminalreporter.write_line(f"{status}, {len(ops)} ops: {' '.join(ops)}")
