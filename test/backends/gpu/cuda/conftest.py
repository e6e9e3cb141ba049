"""What tests of vendors' libraries share: `pytestmark = pytest.mark.usefixtures("wide_types", "no_assembler")`."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from stablehlo_py.backends.gpu import device_code


@pytest.fixture
def wide_types() -> Iterator[None]:
    """JAX has types of 64 bits."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def no_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes its time, and what it makes is replaced here."""
    monkeypatch.setattr(device_code, "find_tool", lambda name: None)
