"""How often loops run, as it is known before the program runs: next to counting."""

from __future__ import annotations

import pytest

import stablehlo_py as shlo
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.calls import functions_of
from stablehlo_py.dialect.trips import trip_count
from stablehlo_py.dialect.types import operations

OPTIONS = shlo.Options(cache_dir=None, disable=("unroll-loops",))


def counted(start: str, limit: str, direction: str, step: str, of: str = "i32", more: str = "add") -> str:
    """for (i = start; i <direction> limit; i = i <more> step); it returns i and the trips. `start` may be an argument,
    "%s"."""
    constant = "" if start == "%s" else f"%s = stablehlo.constant dense<{start}> : tensor<{of}>"
    argument = f"%s: tensor<{of}>" if start == "%s" else ""
    return f"""func.func @main({argument}) -> (tensor<{of}>, tensor<i64>) {{
      {constant}
      %zero = stablehlo.constant dense<0> : tensor<i64>
      %r:2 = stablehlo.while(%i = %s, %n = %zero) : tensor<{of}>, tensor<i64>
      cond {{
        %limit = stablehlo.constant dense<{limit}> : tensor<{of}>
        %p = stablehlo.compare {direction}, %i, %limit : (tensor<{of}>, tensor<{of}>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %step = stablehlo.constant dense<{step}> : tensor<{of}>
        %j = stablehlo.{more} %i, %step : tensor<{of}>
        %one = stablehlo.constant dense<1> : tensor<i64>
        %m = stablehlo.add %n, %one : tensor<i64>
        stablehlo.return %j, %m : tensor<{of}>, tensor<i64>
      }}
      return %r#0, %r#1 : tensor<{of}>, tensor<i64>
    }}"""


def known(text: str) -> int | None:
    """What is known of the loop of a scheduled program."""
    module = run_stages(shlo.load(text), "", "scheduled", OPTIONS, target="opencl")
    assert not isinstance(module, str)
    with module.context:
        (loop,) = [op for op in operations(module.operation) if op.name == "scf.while"]
        return trip_count(loop.opview, functions_of(module))


@pytest.mark.parametrize(
    ("start", "limit", "direction", "step"),
    [
        ("0", "20", "LT", "1"),
        ("0", "20", "LE", "1"),
        ("3", "20", "LT", "7"),
        ("3", "17", "LT", "7"),
        ("3", "17", "LE", "7"),
        ("20", "-2", "GT", "-3"),
        ("20", "-1", "GE", "-3"),
        ("5", "50", "NE", "5"),
        ("50", "5", "NE", "-9"),
        ("-7", "7", "LT", "2"),
    ],
)
@pytest.mark.parametrize("of", ["i8", "i32", "i64"])
def test_counters(start: str, limit: str, direction: str, step: str, of: str) -> None:
    text = counted(start, limit, direction, step, of)
    (_, trips) = shlo.compile(text, options=OPTIONS)()
    assert known(text) == trips > 0


def test_backwards() -> None:
    text = counted("20", "0", "GT", "4", more="subtract")
    assert known(text) == shlo.compile(text, options=OPTIONS)()[1] == 5


@pytest.mark.parametrize(
    "loop",
    [
        ("%s", "20", "LT", "1"),  # it begins anywhere
        ("0", "127", "LE", "1", "i8"),  # it never ends
        ("100", "120", "LT", "50", "i8"),  # it wraps around before it ends
        ("0", "20", "LT", "-1", "i8"),
        ("0", "20", "NE", "3"),
        ("1", "100", "LT", "2", "i32", "multiply"),
        ("0.0", "5.0", "LT", "1.0", "f32"),
        ("0", "20", "EQ", "1"),
    ],
)
def test_others_are_not_known(loop: tuple[str, ...]) -> None:
    assert known(counted(*loop)) is None
