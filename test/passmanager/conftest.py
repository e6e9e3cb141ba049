"""A context per test, and modules in it."""

import pytest

from stablehlo_py.dialect.context import make_context
from stablehlo_py.mlir import ir


@pytest.fixture
def context():
    context = make_context()
    with context, ir.Location.unknown():
        yield context


@pytest.fixture
def parse(context):
    return lambda text: ir.Module.parse(text, context)
