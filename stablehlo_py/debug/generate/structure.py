"""What holds programs together: functions, composites, tuples; and ops that older exporters write."""

from __future__ import annotations

from stablehlo_py.debug.generate.draft import Draft, letter, require, sizes, small
from stablehlo_py.debug.generate.families import Made, family
from stablehlo_py.debug.generate.shapes import ANY
from stablehlo_py.debug.ops import create
from stablehlo_py.dialect.calls import new_function
from stablehlo_py.mlir import ir


@family(0.5)
def tuples(d: Draft) -> Made:
    """Values through a tuple."""
    values = d.values(ANY)
    types = [value.type for value in values]
    made = d.op("tuple", *values, results=[ir.TupleType.get_tuple(types)])
    return [
        d.op("get_tuple_element", made, results=[type_], index=ir.IntegerAttr.get(d.i32, number))
        for number, type_ in enumerate(types)
    ]


def _function(d: Draft, x: ir.Value) -> str:
    """A private function of two values like `x`: a chain of sums, extrema and selections. Its name."""
    names = ("add", "multiply", "maximum") if letter(x) not in "bc8" else ("add", "multiply")
    block = d.block
    module = block.owner.operation.parent.operation.regions[0].blocks[0]
    name = f"part{sum(1 for op in module.operations if op.operation.name == 'func.func')}"
    body = new_function(name, [x.type, x.type], [x.type], ir.InsertionPoint(module), private=True)
    point = ir.InsertionPoint(body)
    left, right = body.arguments
    value: ir.Value = left
    for _ in range(d.whole(1, 4)):
        operands = [value, right if d.chance(0.7) else left]
        value = create(d.one_of(names), point, *operands)
    ir.Operation.create("func.return", operands=[value], ip=point)
    return name


@family(0.5, in_regions=False)
def call(d: Draft) -> Made:
    """A function that is called, perhaps twice."""
    x = d.value("bsufc")
    callee = ir.FlatSymbolRefAttr.get(_function(d, x))
    first = d.op("func.call", x, d.like(x), results=[x.type], callee=callee)
    return [first, d.op("func.call", first, x, results=[x.type], callee=callee)] if d.chance(0.4) else first


@family(0.4, in_regions=False)
def composite(d: Draft) -> Made:
    """A composite that nobody knows, so that its decomposition counts."""
    x = d.value("bsufc")
    return d.op(
        "composite",
        x,
        d.like(x),
        results=[x.type],
        name=ir.StringAttr.get("fuzz.part"),
        decomposition=ir.FlatSymbolRefAttr.get(_function(d, x)),
        composite_attributes="{alpha = 1.0 : f32}",
    )


# --- ops of older exporters ------------------------------------------------------------------------------------------


@family(0.3)
def broadcast_old(d: Draft) -> Made:
    """`broadcast`: dimensions in front."""
    x = d.value(ANY, high=3)
    return small(d.op("broadcast", x, broadcast_sizes=d.shape(d.whole(0, 3))))


@family(0.3)
def dot_old(d: Draft) -> Made:
    """`dot`: vectors and matrices."""
    x = d.value("suf", low=1, high=2)
    y = d.fresh([sizes(x)[-1], *(d.whole(1, 6) for _ in range(d.whole(0, 2)))], x.type.element_type)
    shape = [*sizes(x)[:-1], *sizes(y)[1:]]
    return d.op("dot", x, y, results=[d.tensor(shape, x.type.element_type)])


@family(0.3)
def einsum(d: Draft) -> Made:
    """Matrix products, outer products, with and without a batch."""
    x = d.value("f", low=2, high=2)
    require(str(x.type.element_type) not in ("bf16", "f16"))
    m, k = sizes(x)
    n, element = d.whole(1, 6), x.type.element_type
    equation, other, result = (("ab,bc->ac", [k, n], [m, n]), ("ab,cb->ac", [n, k], [m, n]), ("ab,ab->a", [m, k], [m]))[
        d.whole(0, 3)
    ]
    return d.op(
        "einsum",
        x,
        d.fresh(other, element),
        results=[d.tensor(result, element)],
        einsum_config=ir.StringAttr.get(equation),
    )


@family(0.2)
def unary_einsum(d: Draft) -> Made:
    """Sums and transposes of a matrix."""
    x = d.value("f", low=2, high=2)
    require(str(x.type.element_type) not in ("bf16", "f16"))
    m, k = sizes(x)
    equation, shape = (("ab->a", [m]), ("ab->ba", [k, m]), ("ab->", []))[d.whole(0, 3)]
    return d.op(
        "unary_einsum",
        x,
        results=[d.tensor(shape, x.type.element_type)],
        einsum_config=ir.StringAttr.get(equation),
    )


@family(0.3)
def torch_index_select(d: Draft) -> Made:
    """Rows at given places, all of them within bounds."""
    x = d.value("suf", low=1)
    require(0 not in sizes(x))
    axis = d.whole(0, len(sizes(x)))
    count = d.whole(1, 5)
    index = d.constant(d.random.integers(0, sizes(x)[axis], count), d.i32)
    shape = [count if number == axis else size for number, size in enumerate(sizes(x))]
    return d.op("torch_index_select", x, index, results=[d.tensor(shape, x.type.element_type)], dim=axis, batch_dims=0)
