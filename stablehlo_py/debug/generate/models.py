"""Ops of whole models: batch normalization, random bits."""

from __future__ import annotations

from stablehlo_py.debug.generate.contractions import moderate
from stablehlo_py.debug.generate.draft import Draft, elements, require, sizes
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.dialect.attributes import MHLO_SHARDING
from stablehlo_py.mlir import ir


@family(0.4, in_regions=False)
def batch_norm(d: Draft) -> Made:
    """Inference, training, or its gradient, of moderate numbers."""
    x = d.value("f", low=1)
    require(0 not in sizes(x))
    x = moderate(d, x)
    axis = d.whole(0, len(sizes(x)))
    element, features = x.type.element_type, [sizes(x)[axis]]
    require(elements(x) >= 2 * features[0])
    scale, offset, mean = (moderate(d, d.fresh(features, element)) for _ in range(3))
    variance = d.op("add", d.op("abs", moderate(d, d.fresh(features, element))), d.splat(0.5, scale))
    f32, i64 = ir.F32Type.get(), ir.IntegerType.get_signless(64)
    attributes = {"epsilon": ir.FloatAttr.get(f32, 0.125), "feature_index": ir.IntegerAttr.get(i64, axis)}
    kind = d.whole(0, 3)
    if kind == 0:
        return d.op("batch_norm_inference", x, scale, offset, mean, variance, **attributes)
    if kind == 1:
        return list(d.make("batch_norm_training", [x, scale, offset], None, attributes).results)
    operands = [x, scale, mean, variance, moderate(d, d.like(x))]
    return list(d.make("batch_norm_grad", operands, None, attributes).results)


@family(0.25, in_regions=False)
def rng_bit_generator(d: Draft) -> Made:
    """The bits of Threefry and Philox, of any integer type."""
    three_fry = d.chance(0.5)
    state = d.fresh([2 if three_fry else d.whole(2, 4)], ir.Type.parse("ui64"))
    element = ir.Type.parse(d.one_of(("ui8", "ui16", "ui32", "ui32", "ui64")))
    types = [state.type, d.tensor(d.shape(d.whole(0, 4)), element)]
    algorithm = f"#stablehlo<rng_algorithm {'THREE_FRY' if three_fry else 'PHILOX'}>"
    made = d.make("rng_bit_generator", [state], types, {"rng_algorithm": algorithm})
    return list(made.results)


@family(0.2, in_regions=False)
def annotation(d: Draft) -> Made:
    """A custom call that says where a value should lie: the value itself."""
    x = d.value("sufc")
    attributes = {
        "call_target_name": ir.StringAttr.get("Sharding"),
        "has_side_effect": False,
        "backend_config": ir.StringAttr.get(""),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        MHLO_SHARDING: ir.StringAttr.get("{replicated}"),
    }
    return d.op("custom_call", x, results=[x.type], **attributes)
