"""CHLO: special functions, broadcasting arithmetic, the largest elements."""

from __future__ import annotations

import numpy as np

from stablehlo_py.debug.generate.contractions import moderate
from stablehlo_py.debug.generate.draft import Draft, found, letter, require, sizes
from stablehlo_py.debug.generate.elementwise import BINARY, DIRECTIONS, defined
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.generate.regions import orderable
from stablehlo_py.debug.ops import create
from stablehlo_py.dialect.build import AttributeValue
from stablehlo_py.mlir import ir

# Special functions by where they are drawn: anywhere, in (-1, 1), above 1, above 0.
ANYWHERE = ("asinh", "cosh", "erf", "erfc", "sinh", "square", "tan")
WITHIN_ONE = ("acos", "asin", "atanh", "erf_inv")
POSITIVE = ("bessel_i1e", "digamma", "lgamma")
COMPLEX = ("acos", "acosh", "asin", "asinh", "atanh", "conj", "cosh", "sinh", "square")


@family(3)
def special_function(d: Draft) -> Made:
    """A function of one number, mostly where it is defined."""
    x = d.value("fc")
    if letter(x) == "c":
        return d.op(f"chlo.{d.one_of(COMPLEX)}", x)
    way = d.whole(0, 5)
    if way == 0:
        return d.op(f"chlo.{d.one_of(ANYWHERE)}", x)
    x = moderate(d, x)
    if way == 1:
        x = d.op("clamp", d.splat(-0.9375, x), x, d.splat(0.9375, x))
        return d.op(f"chlo.{d.one_of(WITHIN_ONE)}", x)
    x = d.op("add", d.op("abs", x), d.splat(1.0 if way == 2 else 0.25, x))
    if way == 2:
        return d.op("chlo.acosh", x)
    if way == 3:
        return d.op(f"chlo.{d.one_of(POSITIVE)}", x)
    require(str(x.type.element_type) in ("f32", "f64"))
    shifted = d.op("add", x, d.splat(1.0, x))
    name, operands = ("zeta", (shifted, x)) if d.chance(0.5) else ("polygamma", (d.splat(d.whole(0, 3), x), shifted))
    return d.op(f"chlo.{'broadcast_' if d.chance(0.3) else ''}{name}", *operands, results=[x.type])


@family(0.3)
def next_after(d: Draft) -> Made:
    """The float beside another one."""
    x = d.value("f")
    return d.op(d.one_of(("chlo.next_after", "chlo.broadcast_next_after")), x, d.like(x), results=[x.type])


@family(3)
def broadcasting(d: Draft) -> Made:
    """Two operands of one shape but for dimensions of size 1, or of fewer dimensions."""
    x = d.value("bsuf")
    element = x.type.element_type
    shape = [1 if d.chance(0.3) else size for size in sizes(x)][d.whole(0, len(sizes(x)) + 1) :]
    y = d.fresh(shape, element)
    name = d.one_of([name for name, letters in BINARY.items() if letter(x) in letters])
    result = x.type
    attributes: dict[str, AttributeValue] = {}
    if d.chance(0.2) and name != "compare":
        name, result = "compare", d.tensor(sizes(x), ir.IntegerType.get_signless(1))
        attributes["comparison_direction"] = f"#chlo<comparison_direction {d.one_of(DIRECTIONS)}>"
    y = defined(d, name, y)
    if d.chance(0.3) and name in ("add", "multiply", "compare", "maximum") and len(shape) < len(sizes(x)):
        x, y = y, x
    return d.op(f"chlo.broadcast_{name}", x, y, results=[result], **attributes)


@family(0.1)
def broadcasting_select(d: Draft) -> Made:
    """A scalar predicate, or one for each element; one choice is a scalar."""
    x = d.value("sufc")
    bool_ = ir.IntegerType.get_signless(1)
    predicate = d.like(x, bool_)
    return d.op("chlo.broadcast_select", predicate, x, d.fresh((), x.type.element_type), results=[x.type])


@family(0.2)
def broadcasting_complex(d: Draft) -> Made:
    """A complex number of a tensor and a scalar."""
    x = found(d.pick(lambda value: str(value.type.element_type) in ("f32", "f64")))
    element = x.type.element_type
    return d.op(
        "chlo.broadcast_complex", x, d.fresh((), element), results=[d.tensor(sizes(x), ir.ComplexType.get(element))]
    )


@family(0.6)
def top_k(d: Draft) -> Made:
    """The largest elements of the last dimension, and their places."""
    x = d.value("suf", low=1)
    require(0 not in sizes(x))
    x, total = orderable(d, x)
    require(not total)
    k = d.whole(1, sizes(x)[-1] + 1)
    shape = [*sizes(x)[:-1], k]
    types = [d.tensor(shape, x.type.element_type), d.tensor(shape, d.i32)]
    return list(d.make("chlo.top_k", [x], types, {"k": k}).results)


@family(0.3)
def scan(d: Draft) -> Made:
    """Running sums (products, extrema) along a dimension: a body that is `op`, which is also its carry."""
    x = d.value("suf", low=1)
    require(0 not in sizes(x) and str(x.type.element_type) not in ("bf16", "f16"))
    axis = d.whole(0, len(sizes(x)))
    carry = [size for number, size in enumerate(sizes(x)) if number != axis]
    name = d.one_of(("add", "maximum", "minimum"))
    init = d.broadcast(d.constant(np.asarray(0), x.type.element_type), carry)
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        "resultSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        "dimension": axis,
        "is_reverse": d.chance(0.3),
    }
    made = d.make("chlo.scan", [x, init], [x.type, init.type], attributes, regions=1)
    block = made.regions[0].blocks.append(init.type, init.type)
    point = ir.InsertionPoint(block)
    total = create(name, point, *block.arguments)
    ir.Operation.create("stablehlo.return", operands=[total, total], ip=point)
    return list(made.results)
