"""Loops and branches: results before and after licm, simplify-loops and unroll-loops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stablehlo_py.passes.licm import Licm
from stablehlo_py.passes.peephole import Peephole
from stablehlo_py.passes.simplify_loops import SimplifyLoops
from stablehlo_py.passes.unroll_loops import UnrollLoops

Check = Callable[..., str]

CONSTANTS = """
  %c0 = "hlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %c1 = "hlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %limit = "hlo.constant"() {value = dense<LIMIT> : tensor<i32>} : () -> tensor<i32>
"""


def counted(
    carries: str, types: str, body: str, limit: int = 5, inputs: str = "%x: tensor<4xf32>", step: str = "%c1"
) -> str:
    """A counted loop; `carries` is "%a = %init, ...", `body` ends with %next and yields named %a_ for carry %a."""
    names = [part.split("=")[0].strip() for part in carries.split(",")]
    kinds = types.split()
    all_types = ", ".join(["tensor<i32>", *kinds])
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    yielded = ", ".join(f"{name}_" for name in names)
    results = ", ".join(f"%r#{i + 1}" for i in range(len(names)))
    initial = ", ".join(f"%in{i} = {part.split('=')[1].strip()}" for i, part in enumerate(carries.split(",")))
    return f"""func.func @main({inputs}) -> ({", ".join(kinds)}) {{
  {CONSTANTS.replace("LIMIT", str(limit))}
  %r:{len(names) + 1} = scf.while (%i0 = %c0, {initial}) : ({all_types}) -> ({all_types}) {{
    %less = "hlo.compare"(%i0, %limit) {{direction = "LT"}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %p = tensor.extract %less[] : tensor<i1>
    scf.condition(%p) %i0, {", ".join(f"%in{i}" for i in range(len(names)))} : {all_types}
  }} do {{
  ^bb0(%i: tensor<i32>, {arguments}):
    %next = "hlo.add"(%i, {step}) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    {body}
    scf.yield %next, {yielded} : {all_types}
  }}
  return {results} : {", ".join(kinds)}
}}"""


F = "tensor<4xf32>"
ADD = f'%a_ = "hlo.add"(%a, %a) : ({F}, {F}) -> {F}\n'


def test_invariant_carry(check: Check) -> None:
    body = f'%a_ = "hlo.add"(%a, %w) : ({F}, {F}) -> {F}\n%w_ = "hlo.reshape"(%w) : ({F}) -> {F}'
    text = counted("%a = %x, %w = %y", f"{F} {F}", body, inputs=f"%x: {F}, %y: {F}")
    after = check(text, lambda module: (Peephole().run(module), SimplifyLoops().run(module)))
    assert "scf.while (%arg2 = %0, %arg3 = %arg0)" in after
    assert "return %3#1, %arg1" in after


def test_equal_carries(check: Check) -> None:
    text = counted("%a = %x, %d = %x", f"{F} {F}", ADD + '%d_ = "hlo.copy"(%a_) : (tensor<4xf32>) -> tensor<4xf32>')
    same = text.replace("%next, %a_, %d_", "%next, %a_, %a_")
    after = check(same, SimplifyLoops().run)
    assert after.count("%arg0") == 2
    assert "return %3#1, %3#1" in after


def test_dead_carries(check: Check) -> None:
    body = ADD + f'%d_ = "hlo.add"(%d, %e) : ({F}, {F}) -> {F}\n%e_ = "hlo.multiply"(%e, %d) : ({F}, {F}) -> {F}'
    text = counted("%a = %x, %d = %x, %e = %x", f"{F} {F} {F}", body)
    text = text.replace(
        "return %r#1, %r#2, %r#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>", "return %r#1 : tensor<4xf32>"
    )
    text = text.replace(f"-> ({F}, {F}, {F}) {{\n  \n", f"-> ({F}) {{\n  \n")
    after = check(text, SimplifyLoops().run)
    assert "hlo.multiply" not in after
    assert after.count("hlo.add") == 2


def test_carry_that_feeds_a_live_one_stays(check: Check) -> None:
    body = f'%a_ = "hlo.add"(%a, %d) : ({F}, {F}) -> {F}\n%d_ = "hlo.multiply"(%d, %d) : ({F}, {F}) -> {F}'
    text = counted("%a = %x, %d = %x", f"{F} {F}", body).replace(f"return %r#1, %r#2 : {F}, {F}", f"return %r#1 : {F}")
    after = check(text.replace(f"-> ({F}, {F}) {{\n  \n", f"-> ({F}) {{\n  \n"), SimplifyLoops().run)
    assert "hlo.multiply" in after


@pytest.mark.parametrize(
    ("limit", "step", "left"), [(5, "%c1", False), (0, "%c1", False), (100, "%c1", True), (2**31 - 1, "%limit", False)]
)
def test_unroll(check: Check, limit: int, step: str, left: bool) -> None:
    text = counted("%a = %x", F, ADD, limit=limit, step=step)
    after = check(text, lambda module: (UnrollLoops().run(module), Peephole().run(module)))
    assert ("scf.while" in after) == left
    if limit == 5:
        assert after.count("hlo.add") == 5


def test_unroll_leaves_big_contractions(check: Check) -> None:
    m = "tensor<80x80xf32>"
    numbers = (
        "lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>"
    )
    body = f'%a_ = "hlo.dot"(%a, %a) {{{numbers}}} : ({m}, {m}) -> {m}'
    text = counted("%a = %x", m, body, inputs=f"%x: {m}")
    assert "scf.while" in check(text, UnrollLoops().run, 1e-5)
    assert "scf.while" not in check(text, UnrollLoops(max_expensive_elements=6400).run, 1e-5)


def test_unroll_rolled_rotations(check: Check) -> None:
    """The shape of JAX's threefry loop: a carry that swaps two tables, rotations read from one."""
    u = "tensor<2xui32>"
    body = f"""%one = "hlo.slice"(%t) {{start = array<i64: 0>, limit = array<i64: 1>, strides = array<i64: 1>}}
        : ({u}) -> tensor<1xui32>
      %amount = "hlo.reshape"(%one) : (tensor<1xui32>) -> tensor<ui32>
      %spread = "hlo.broadcast"(%amount) {{dimensions = array<i64>}} : (tensor<ui32>) -> tensor<4xui32>
      %a_ = "hlo.shift_left"(%a, %spread) : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xui32>
      %t_ = "hlo.copy"(%s) : ({u}) -> {u}
      %s_ = "hlo.copy"(%t) : ({u}) -> {u}"""
    text = counted("%a = %x, %t = %t0, %s = %s0", f"tensor<4xui32> {u} {u}", body, inputs="%x: tensor<4xui32>")
    tables = "\n".join(
        f'%{name}0 = "hlo.constant"() {{value = dense<{values}> : {u}}} : () -> {u}'
        for name, values in (("t", "[1, 2]"), ("s", "[3, 4]"))
    )
    text = (
        text.replace("%r:4 =", tables + "\n%r:4 =")
        .replace("%t_, %s_", "%s, %t")
        .replace(f'%t_ = "hlo.copy"(%s) : ({u}) -> {u}', "")
        .replace(f'%s_ = "hlo.copy"(%t) : ({u}) -> {u}', "")
    )
    after = check(text, lambda module: (UnrollLoops().run(module), Peephole().run(module)))
    assert "scf.while" not in after
    assert "hlo.slice" not in after
    assert "dense<9>" in after  # 1 + 3 + 1 + 3 + 1: the shifts became one


def test_licm_hoists_work_and_leaves_free_ops(check: Check) -> None:
    body = f"""%one = "hlo.constant"() {{value = dense<1.0> : tensor<f32>}} : () -> tensor<f32>
      %ones = "hlo.broadcast"(%one) {{dimensions = array<i64>}} : (tensor<f32>) -> {F}
      %w = "hlo.add"(%y, %ones) : ({F}, {F}) -> {F}
      %q = "hlo.exponential"(%w) : ({F}) -> {F}
      %free = "hlo.broadcast"(%one) {{dimensions = array<i64>}} : (tensor<f32>) -> {F}
      %m = "hlo.multiply"(%a, %free) : ({F}, {F}) -> {F}
      %a_ = "hlo.add"(%m, %q) : ({F}, {F}) -> {F}"""
    text = counted("%a = %x", F, body, inputs=f"%x: {F}, %y: {F}")
    after = check(text, Licm().run)
    before_loop, inside = after.split("scf.while")
    assert "hlo.exponential" in before_loop
    assert "hlo.exponential" not in inside
    assert inside.count("hlo.broadcast") == 1


def test_licm_leaves_what_grows_memory(check: Check) -> None:
    big = "tensor<4x64xf32>"
    body = f"""%rows = "hlo.broadcast"(%y) {{dimensions = array<i64: 0>}} : ({F}) -> {big}
      %q = "hlo.exponential"(%rows) : ({big}) -> {big}
      %a_ = "hlo.add"(%a, %q) : ({big}, {big}) -> {big}"""
    text = counted("%a = %x", big, body, inputs=f"%x: {big}, %y: {F}")
    assert "hlo.exponential" in check(text, Licm().run).split("scf.while")[1]
    assert "hlo.exponential" not in check(text, Licm(max_growth=64).run).split("scf.while")[1]


def test_licm_through_nested_loops(check: Check) -> None:
    inner = f"""%q:2 = scf.while (%j0 = %c0, %s0 = %a) : (tensor<i32>, {F}) -> (tensor<i32>, {F}) {{
        %l = "hlo.compare"(%j0, %limit) {{direction = "LT"}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %pp = tensor.extract %l[] : tensor<i1>
        scf.condition(%pp) %j0, %s0 : tensor<i32>, {F}
      }} do {{
      ^bb0(%j: tensor<i32>, %s: {F}):
        %jn = "hlo.add"(%j, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %e = "hlo.abs"(%y) : ({F}) -> {F}
        %sn = "hlo.add"(%s, %e) : ({F}, {F}) -> {F}
        scf.yield %jn, %sn : tensor<i32>, {F}
      }}"""
    text = counted("%a = %x", F, inner, inputs=f"%x: {F}, %y: {F}", limit=2).replace("%next, %a_ :", "%next, %q#1 :")
    assert "hlo.abs" in check(text, Licm().run).split("scf.while")[0]


BRANCH = """func.func @main(%x: tensor<4xf32>, %q: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %t = "hlo.constant"() {value = dense<VALUE> : tensor<i1>} : () -> tensor<i1>
  %p = tensor.extract PREDICATE[] : tensor<i1>
  %r:3 = scf.if %p -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a = "hlo.negate"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %a, %x, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  } else {
    %b = "hlo.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %b, %x, %b : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}"""


@pytest.mark.parametrize(("value", "gone"), [("true", "hlo.abs"), ("false", "hlo.negate")])
def test_decided_branch(check: Check, value: str, gone: str) -> None:
    after = check(BRANCH.replace("VALUE", value).replace("PREDICATE", "%t"), SimplifyLoops().run)
    assert "scf.if" not in after
    assert gone not in after


def test_branch_results(check: Check) -> None:
    after = check(BRANCH.replace("VALUE", "true").replace("PREDICATE", "%q"), SimplifyLoops().run)
    assert "scf.if %extracted -> (tensor<4xf32>) {" in after


def test_decided_switch(check: Check) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %t = "hlo.constant"() {value = dense<NUMBER> : tensor<i32>} : () -> tensor<i32>
      %e = tensor.extract %t[] : tensor<i32>
      %i = arith.index_cast %e : i32 to index
      %r = scf.index_switch %i -> tensor<4xf32>
      case 0 { scf.yield %x : tensor<4xf32> }
      case 1 { %n = "hlo.negate"(%x) : (tensor<4xf32>) -> tensor<4xf32>
        scf.yield %n : tensor<4xf32> }
      default { %a = "hlo.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
        scf.yield %a : tensor<4xf32> }
      return %r : tensor<4xf32>
    }"""
    for number, kept in (("1", "hlo.negate"), ("7", "hlo.abs")):
        after = check(text.replace("NUMBER", number), SimplifyLoops().run)
        assert "scf.index_switch" not in after
        assert kept in after
