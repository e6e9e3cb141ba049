"""Stacks that are computed where they are read: which are, and results with and without the pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stablehlo_py.passes.recompute_stacks import RecomputeStacks

Check = Callable[..., str]
I32, ROW, PART, STACK = "tensor<i32>", "tensor<3xf32>", "tensor<1x3xf32>", "tensor<5x3xf32>"


def loop(result: str, start: str, carries: dict[str, tuple[str, str, str]], body: str) -> str:
    """A loop of five trips over %i and `carries`, each a name with its type, what it starts with and what is yielded;
    %back counts down."""
    types = ", ".join([I32, *(type_ for type_, _, _ in carries.values())])
    starts = ", ".join([f"%i = {start}", *(f"%{name} = {each[1]}" for name, each in carries.items())])
    names = ", ".join(["%i", *(f"%{name}" for name in carries)])
    arguments = ", ".join([f"%i: {I32}", *(f"%{name}: {each[0]}" for name, each in carries.items())])
    yielded = ", ".join(["%n", *(each[2] for each in carries.values())])
    return f"""
  {result}:{len(carries) + 1} = scf.while ({starts}) : ({types}) -> ({types}) {{
    %l = "hlo.compare"(%i, %c5) {{direction = "LT"}} : ({I32}, {I32}) -> tensor<i1>
    %p = tensor.extract %l[] : tensor<i1>
    scf.condition(%p) {names} : {types}
  }} do {{
  ^bb0({arguments}):
    %n = "hlo.add"(%i, %c1) : ({I32}, {I32}) -> {I32}
    %back = "hlo.subtract"(%c4, %i) : ({I32}, {I32}) -> {I32}
    {body}
    scf.yield {yielded} : {types}
  }}"""


def unary(name: str, op: str, operand: str, type_: str = ROW, result: str = "") -> str:
    return f'%{name} = "hlo.{op}"({operand}) : ({type_}) -> {result or type_}\n'


def binary(name: str, op: str, left: str, right: str, type_: str = ROW) -> str:
    return f'%{name} = "hlo.{op}"({left}, {right}) : ({type_}, {type_}) -> {type_}\n'


def cut(name: str, source: str, index: str) -> str:
    return (
        f'%{name}1 = "hlo.dynamic_slice"({source}, {index}, %c0) {{sizes = array<i64: 1, 3>}}'
        f" : ({STACK}, {I32}, {I32}) -> {PART}\n" + unary(name, "reshape", f"%{name}1", PART, ROW)
    )


def stacked(name: str, stack: str, value: str, index: str) -> str:
    return (
        unary(f"{name}r", "reshape", value, ROW, PART)
        + f'%{name} = "hlo.dynamic_update_slice"({stack}, %{name}r, {index}, %c0)'
        f" : ({STACK}, {PART}, {I32}, {I32}) -> {STACK}\n"
    )


def program(body: str, value: str, *, index: str = "%i", read: str = "%back", result: str = "%g#1") -> str:
    """A loop that stacks %x, its carry, and a `value` of its body, and one that sums up what is stacked."""
    first = cut("input", "%xs", "%i") + body + binary("y", "add", "%x", "%input")
    first += stacked("s1", "%s", "%x", index) + stacked("t1", "%t", value, index)
    carries = {"x": (ROW, "%from", "%y"), "s": (STACK, "%none", "%s1"), "t": (STACK, "%none", "%t1")}
    second = cut("a", "%r#2", read) + cut("b", "%r#3", read) + binary("ab", "subtract", "%a", "%b")
    second += binary("z", "multiply", "%w", "%ab")
    return f"""func.func @main(%xs: {STACK}, %from: {ROW}) -> {ROW if result == "%g#1" else STACK} {{
  %c0 = "hlo.constant"() {{value = dense<0> : {I32}}} : () -> {I32}
  %c1 = "hlo.constant"() {{value = dense<1> : {I32}}} : () -> {I32}
  %c4 = "hlo.constant"() {{value = dense<4> : {I32}}} : () -> {I32}
  %c5 = "hlo.constant"() {{value = dense<5> : {I32}}} : () -> {I32}
  %zero = "hlo.constant"() {{value = dense<0.0> : tensor<f32>}} : () -> tensor<f32>
  %none = "hlo.broadcast"(%zero) {{dimensions = array<i64>}} : (tensor<f32>) -> {STACK}
  {loop("%r", "%c0", carries, first)}
  {loop("%g", "%c0", {"w": (ROW, "%from", "%z")}, second)}
  return {result} : {ROW if result == "%g#1" else STACK}
}}"""


SQUARE = binary("q", "multiply", "%x", "%x")
OF_INPUT = binary("q", "multiply", "%x", "%input")
COUNTED = (
    '%f = "hlo.convert"(%i) : (tensor<i32>) -> tensor<f32>\n'
    + ('%fb = "hlo.broadcast"(%f) {dimensions = array<i64>} : (tensor<f32>) -> tensor<3xf32>\n')
    + binary("q", "add", "%x", "%fb")
)
TWICE = SQUARE + binary("k", "add", "%q", "%input")


def stacks_of(text: str) -> int:
    """How many the first loop yields."""
    return text.split("scf.yield")[1].split("\n")[0].count(STACK)


@pytest.mark.parametrize(("body", "value"), [(SQUARE, "%q"), (OF_INPUT, "%q"), (COUNTED, "%q"), (TWICE, "%k")])
@pytest.mark.parametrize("read", ["%i", "%back"])
def test_what_follows_is_computed_again(check: Check, body: str, value: str, read: str) -> None:
    assert stacks_of(check(program(body, value, read=read), RecomputeStacks().run)) == 1


def test_two_stacks_of_one_value_are_one(check: Check) -> None:
    assert stacks_of(check(program("", "%x"), RecomputeStacks().run)) == 1


def test_places_from_the_last_one_on(check: Check) -> None:
    assert stacks_of(check(program(SQUARE, "%q", index="%back"), RecomputeStacks().run)) == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (program(OF_INPUT, "%q", index="%back"), {}),  # the input is of another trip
        (program(COUNTED, "%q", index="%back"), {}),
        (program(SQUARE + unary("e", "exponential", "%q"), "%e"), {"flops": 0}),
        (program(SQUARE, "%q", read="%c4"), {}),  # one place is read again and again
        (program(SQUARE, "%q", result="%r#3"), {}),  # somebody reads all of it
    ],
)
def test_stacks_that_stay(check: Check, text: str, options: dict[str, int]) -> None:
    text = text.replace('%y = "hlo.add"(%x, %input)', '%y = "hlo.add"(%e, %input)') if options else text
    assert stacks_of(check(text, RecomputeStacks(**options).run)) == 2
