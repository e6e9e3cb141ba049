"""Which bodies of reductions are known to commute, and to choose the place of the largest element."""

import pytest

from stablehlo_py.dialect.commuting import Commutes, commutes, place_of
from stablehlo_py.frontend.load import load
from stablehlo_py.legalize import legalize

REDUCE = """
func.func @main(%x: tensor<8x{type}>, %k: tensor<8xi32>, %i: tensor<{type}>, %j: tensor<i32>)
    -> (tensor<{type}>, tensor<i32>) {{
  %0:2 = stablehlo.reduce(%x init: %i), (%k init: %j) across dimensions = [0]
      : (tensor<8x{type}>, tensor<8xi32>, tensor<{type}>, tensor<i32>) -> (tensor<{type}>, tensor<i32>)
    reducer(%a: tensor<{type}>, %b: tensor<{type}>) (%c: tensor<i32>, %d: tensor<i32>) {{
    {body}
  }}
  return %0#0, %0#1 : tensor<{type}>, tensor<i32>
}}"""
CHOOSE = """
    %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<{type}>
    %t = stablehlo.select %p, %c, %d : tensor<i1>, tensor<i32>
    stablehlo.return %s, %t : tensor<{type}>, tensor<i32>"""
GREATER = "%g = stablehlo.compare GT, %a, %b : (tensor<{type}>, tensor<{type}>) -> tensor<i1>"
NAN = "%n = stablehlo.compare NE, %a, %a : (tensor<{type}>, tensor<{type}>) -> tensor<i1>"
EQUAL = "%e = stablehlo.compare EQ, %a, %b : (tensor<{type}>, tensor<{type}>) -> tensor<i1>"
LOWER = "%l = stablehlo.compare LT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>"
ARGMAX = f"""{GREATER}
    {EQUAL}
    {LOWER}
    %m = stablehlo.and %e, %l : tensor<i1>
    %p = stablehlo.or %g, %m : tensor<i1>{CHOOSE}"""
# As JAX writes it: NaN wins, the first one.
JAX_ARGMAX = f"""{GREATER}
    {NAN}
    %q = stablehlo.or %g, %n : tensor<i1>
    {EQUAL}
    {LOWER}
    %m = stablehlo.and %e, %l : tensor<i1>
    %r = stablehlo.or %q, %m : tensor<i1>
    %u = stablehlo.select %q, %a, %b : tensor<i1>, tensor<{{type}}>
    %t = stablehlo.select %r, %c, %d : tensor<i1>, tensor<i32>
    stablehlo.return %u, %t : tensor<{{type}}>, tensor<i32>"""
TIES_TO_THE_RIGHT = f"%p = stablehlo.compare GT, %a, %b : (tensor<{{type}}>, tensor<{{type}}>) -> tensor<i1>{CHOOSE}"
LOGSUMEXP = """%m = stablehlo.maximum %a, %b : tensor<{type}>
    %s = stablehlo.subtract %a, %b : tensor<{type}>
    %t = stablehlo.abs %s : tensor<{type}>
    %u = stablehlo.negate %t : tensor<{type}>
    %v = stablehlo.exponential %u : tensor<{type}>
    %w = stablehlo.log_plus_one %v : tensor<{type}>
    %r = stablehlo.add %m, %w : tensor<{type}>
    %k2 = stablehlo.add %d, %c : tensor<i32>
    stablehlo.return %r, %k2 : tensor<{type}>, tensor<i32>"""
AFFINE = """%s = stablehlo.multiply %a, %b : tensor<{type}>
    %t = stablehlo.multiply %c, %d : tensor<i32>
    %u = stablehlo.add %t, %d : tensor<i32>
    stablehlo.return %s, %u : tensor<{type}>, tensor<i32>"""
LAST = "stablehlo.return %b, %d : tensor<{type}>, tensor<i32>"
ACROSS = f"""%f = stablehlo.convert %c : (tensor<i32>) -> tensor<{{type}}>
    %p = stablehlo.compare LT, %f, %a : (tensor<{{type}}>, tensor<{{type}}>) -> tensor<i1>{CHOOSE}"""


def body_of(body, type_):
    module = load(REDUCE.format(type=type_, body=body.format(type=type_)))
    legalize(module)
    block = module.body.operations[0].regions[0].blocks[0]
    op = next(op for op in block.operations if op.operation.name == "stablehlo.reduce")
    return module, op.regions[0].blocks[0]


@pytest.mark.parametrize(
    ("body", "type_", "known"),
    [
        (ARGMAX, "i32", Commutes.ALWAYS),
        (ARGMAX, "bf16", Commutes.UNKNOWN),  # of NaN and a number it takes the right one
        (JAX_ARGMAX, "f32", Commutes.WITHOUT_NAN),  # of two NaNs the values are the same, the places are not
        (TIES_TO_THE_RIGHT, "i32", Commutes.UNKNOWN),
        (LOGSUMEXP, "f32", Commutes.ALWAYS),
        (AFFINE, "i32", Commutes.UNKNOWN),
        (LAST, "f32", Commutes.UNKNOWN),
        (ACROSS, "f32", Commutes.UNKNOWN),
    ],
)
def test_commutes(body, type_, known):
    _, block = body_of(body, type_)
    assert commutes(block) is known


@pytest.mark.parametrize(
    ("body", "type_", "kind"),
    [
        (ARGMAX, "i32", "maximum"),
        (ARGMAX.replace("GT, %a", "LT, %a"), "ui8", "minimum"),
        (ARGMAX, "bf16", ""),  # NaN loses
        (JAX_ARGMAX, "f32", "maximum"),
        (JAX_ARGMAX.replace("GT, %a", "LT, %a"), "f32", "minimum"),
        (JAX_ARGMAX.replace("LT, %c", "GT, %c"), "f32", ""),  # the last one of equals
        (TIES_TO_THE_RIGHT, "i32", ""),
        (LAST, "f32", ""),
        (ACROSS, "f32", ""),
    ],
)
def test_place_of(body, type_, kind):
    _, block = body_of(body, type_)
    assert place_of(block) == kind
