"""Modules beside the tests, which also run as programs of their own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"grid_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """StableHLO's reference interpreter."""
    return _load("reference")


@pytest.fixture(scope="session")
def sharded() -> ModuleType:
    """JAX on four devices."""
    return _load("sharded")
