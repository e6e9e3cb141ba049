"""Contexts that several programs use, one after the other."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.dialect import context
from stablehlo_py.dialect.context import lent_context
from stablehlo_py.frontend import shardy
from stablehlo_py.mlir import ir

OPTIONS = shlo.Options(cache_dir=None, isolate=False)


@pytest.fixture(autouse=True)
def _none_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context._pool, "_idle", [])


def scaled(size: int, factor: float) -> str:
    type_ = f"tensor<{size}xf32>"
    return f"""func.func @main(%x: {type_}) -> {type_} {{
      %c = stablehlo.constant dense<{factor}> : {type_}
      %y = stablehlo.multiply %x, %c : {type_}
      return %y : {type_}
    }}"""


def used(size: int) -> ir.Context:
    with lent_context(size) as one:
        return one


def test_a_context_serves_one_program_after_the_other() -> None:
    first = used(100)
    with lent_context(100) as second:
        assert second is first
        with lent_context(100) as other:
            assert other is not first


def test_it_is_given_up_after_some_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_PROGRAMS", 3)
    contexts = [used(100) for _ in range(4)]
    assert contexts[0] is contexts[1] is contexts[2]
    assert contexts[3] is not contexts[2]


def test_it_is_given_up_after_a_large_program() -> None:
    assert used(1 << 20) is not used(100)


def test_it_is_given_up_after_an_exception() -> None:
    with pytest.raises(shlo.LoadError):
        shlo.compile("func.func @main() { nonsense }", options=OPTIONS)
    assert context._pool._idle == []


def test_compiling_gives_contexts_back() -> None:
    shlo.compile(scaled(3, 2.0), options=OPTIONS)
    (kept,) = context._pool._idle
    before = ir.Context._get_live_count()
    for size in range(4, 8):
        shlo.compile(scaled(size, 2.0), options=OPTIONS)
    assert [each.context for each in context._pool._idle] == [kept.context]
    assert ir.Context._get_live_count() == before


def test_jaxlibs_contexts_serve_several_programs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardy._pool, "_idle", [])
    made = []
    monkeypatch.setattr(shardy._pool, "_make", lambda: made.append(shardy._make_context()) or made[-1])
    for size in (3, 4, 5):
        type_ = f"tensor<{size}xf32>"
        text = "sdy.mesh @mesh = <[]>\n" + scaled(size, 2.0).replace(
            f"%x: {type_}", f"%x: {type_} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}}", 1
        )
        np.testing.assert_array_equal(shlo.compile(text, options=OPTIONS)(np.ones(size, np.float32))[0], 2)
    (only,) = made
    assert only._get_live_module_count() == 0
    with pytest.raises(shlo.LoadError):
        shlo.compile("sdy.mesh @mesh = nonsense\n", options=OPTIONS)
    assert shardy._pool._idle == []


def test_the_module_of_a_caller_stays_as_it_is() -> None:
    module = shlo.load(scaled(5, 3.0), isolate=False)
    text = str(module)
    executable = shlo.compile(module, options=OPTIONS)
    np.testing.assert_array_equal(executable(np.ones(5, np.float32))[0], 3)
    assert str(module) == text


def test_threads_compile_at_once() -> None:
    wrong: list[object] = []

    def work(thread: int) -> None:
        try:
            for number in range(12):
                size, factor = 3 + number, float(thread + 10 * number)
                executable = shlo.compile(scaled(size, factor), options=OPTIONS)
                found = executable(np.ones(size, np.float32))[0]
                if not (found == factor).all():
                    wrong.append((thread, number, found))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(context._pool._idle) <= context._IDLE
