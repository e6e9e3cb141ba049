"""Lists of a thousand names in errors and reports: a message shows the first ones, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

import stablehlo_py as shlo
from stablehlo_py.backends.cpu import code
from stablehlo_py.runtime.grid import GridExecutable

MANY = [f"name{number}" for number in range(1000)]
LONGEST = 700
T = "tensor<4xf32>"


def recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    call = "func.func private @f{0}(%0: {2}) -> {2} {{\n  %1 = call @f{1}(%0) : ({2}) -> {2}\n  return %1 : {2}\n}}"
    functions = [call.format(n, (n + 1) % 1000, T) for n in range(1000)]
    main = f"func.func @main(%0: {T}) -> {T} {{\n  %1 = call @f0(%0) : ({T}) -> {T}\n  return %1 : {T}\n}}"
    shlo.compile("\n".join([*functions, main]))


def missing_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code.cpu_features, "missing_features", lambda features: MANY)
    shlo.compile(f"func.func @main(%0: {T}) -> {T} {{ return %0 : {T} }}")


def channels(monkeypatch: pytest.MonkeyPatch) -> None:
    GridExecutable.channel(SimpleNamespace(_channels=dict.fromkeys(range(1000))), 1000)  # type: ignore[arg-type]


PLACES: list[Callable[[pytest.MonkeyPatch], None]] = [recursion, missing_features, channels]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_list_in_a_message_is_elided(
    place: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(shlo.ShloError, match=r"and 99\d more") as caught:
        place(monkeypatch)
    assert not isinstance(caught.value, shlo.InternalError)
    assert len(str(caught.value)) < LONGEST
    assert all(len(each.reason) < LONGEST for each in caught.value.problems)


@pytest.mark.parametrize("source", [T, "tensor<?xf32>"])
def test_lines_of_a_report_are_as_wide_as_the_terminal(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = shlo.compile(f"func.func @main(%0: {source}) -> {source} {{ return %0 : {source} }}")
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = exe.report()
    monkeypatch.setenv("COLUMNS", "30")
    narrow = exe.report()
    assert max(map(len, narrow.splitlines())) <= 30 < max(map(len, whole.splitlines()))
    assert narrow.split() == whole.split()
