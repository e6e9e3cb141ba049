"""Kernels of kind `straight_line`: straight-line code and whole loops in registers, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
from one_kernel import Compiled, compile_kernel, here, run_kernel

from stablehlo_py.backends.cpu.target import AVX2, AVX512, CpuTarget, host_target
from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import element_type_of
from stablehlo_py.dialect.context import make_context
from stablehlo_py.dialect.rounding import cast
from stablehlo_py.errors import ShloError
from stablehlo_py.mlir import func_dialect, ir

RNG = np.random.default_rng(3)
TARGETS = here(AVX512, AVX2)
Body = Callable[..., ir.Value | Sequence[ir.Value]]
SIZES = [(), (1,), (3,), (8,), (9,), (2, 8), (17,), (4, 5), (64,), (3, 5, 4)]


def random(*sizes: int, dtype: object = np.float32) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.integers(0, 2, sizes).astype(bool)
    if dtype.kind in "iu":
        return RNG.integers(-50 if dtype.kind == "i" else 0, 50, sizes).astype(dtype)
    if dtype.kind == "c":
        return np.asarray(RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)).astype(dtype)
    return np.asarray(RNG.standard_normal(sizes)).astype(dtype)


def straight(arrays: Sequence[np.ndarray], body: Body, target: CpuTarget | None = None) -> list[np.ndarray]:
    """Results of a register-resident fusion that `body` builds over inputs like `arrays`."""
    context = make_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [build.tensor(array.shape, element_type_of(array.dtype, context)) for array in arrays]
        with ir.InsertionPoint(module.body):
            function = func_dialect.FuncOp("fusion_0", (inputs, []), visibility="private")
            function.attributes["hlo.fusion"] = ir.StringAttr.get("straight_line")
            block = function.add_entry_block()
        with ir.InsertionPoint(block):
            made = body(*block.arguments)
            results = [made] if isinstance(made, ir.Value) else list(made)
            func_dialect.ReturnOp(results)
        types = [result.type for result in results]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, types))
        assert module.operation.verify()
        text = str(module)
    return run_kernel(text, arrays, target or host_target())


def shaped(value: ir.Value, *sizes: int) -> ir.RankedTensorType:
    return build.tensor(sizes, value.type.element_type)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_elementwise(sizes: tuple[int, ...], target: CpuTarget) -> None:
    x, y = random(*sizes), random(*sizes)
    (result,) = straight([x, y], lambda a, b: build.like("add", build.like("multiply", a, b), a), target)
    np.testing.assert_array_equal(result, x * y + x)


@pytest.mark.parametrize(
    "dtype",
    [
        np.int8,
        np.uint16,
        np.int32,
        np.int64,
        np.uint64,
        np.float16,
        ml_dtypes.bfloat16,
        np.float64,
        np.complex64,
        np.complex128,
    ],
)
@pytest.mark.parametrize("sizes", [(3,), (5, 7)], ids=str)
def test_element_types(dtype: object, sizes: tuple[int, ...]) -> None:
    x, y = random(*sizes, dtype=dtype), random(*sizes, dtype=dtype)
    (result,) = straight([x, y], lambda a, b: build.like("multiply", build.like("add", a, b), b))
    expected = (x + y) * y
    if np.dtype(dtype).kind == "c":
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


def test_booleans_and_select() -> None:
    x, y, p = random(19), random(19), random(19, dtype=bool)

    def body(a: ir.Value, b: ir.Value, c: ir.Value) -> list[ir.Value]:
        less = build.value("compare", c.type, a, b, direction="LT")
        both = build.like("and", less, c)
        return [both, build.value("select", a.type, both, a, b)]

    both, chosen = straight([x, y, p], body)
    np.testing.assert_array_equal(both, (x < y) & p)
    np.testing.assert_array_equal(chosen, np.where((x < y) & p, x, y))


def test_results_that_are_inputs_and_results_twice() -> None:
    x, y = random(5), random(20)

    def body(a: ir.Value, b: ir.Value) -> list[ir.Value]:
        negated = build.like("negate", b)
        return [b, a, negated, negated, build.constant(np.arange(9, dtype=np.int32), ir.IntegerType.get_signless(32))]

    results = straight([x, y], body)
    for ours, expected in zip(results, [y, x, -y, -y, np.arange(9)], strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn", "int4"])
def test_an_iota_is_rounded_to_its_type(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))

    def body(a: ir.Value) -> list[ir.Value]:
        counted = build.value("iota", build.tensor((40,), a.type.element_type), dimension=0)
        return [counted, build.value("convert", build.tensor((40,), ir.F32Type.get()), counted)]

    narrow, wide = straight([np.zeros(1, dtype)], body)
    expected = cast(np.arange(40.0), dtype) if name != "int4" else np.arange(40).astype(dtype)
    for result in (narrow, wide):
        np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int8])
def test_rearrangements(dtype: object) -> None:
    x, row = random(4, 5, dtype=dtype), random(5, dtype=dtype)

    def body(a: ir.Value, b: ir.Value) -> list[ir.Value]:
        wide = build.broadcast(b, (4, 5), [1])
        turned = build.transpose(a, [1, 0])
        part = build.value("slice", shaped(a, 2, 2), a, start=[1, 0], limit=[4, 4], strides=[2, 3])
        zero = build.constant(np.array(7, dtype), a.type.element_type)
        padded = build.value("pad", shaped(a, 6, 13), a, zero, low=[3, -1], high=[-1, 5], interior=[0, 1])
        flipped = build.like("reverse", a, dimensions=[1])
        joined = build.op("stablehlo.concatenate", [shaped(a, 4, 15)], [a, wide, flipped], {"dimension": 1}).result
        return [wide, turned, part, padded, flipped, joined, build.reshape(turned, [10, 2])]

    results = straight([x, row], body)
    wide, flipped = np.broadcast_to(row, (4, 5)), x[:, ::-1]
    padded = np.full((6, 13), 7, dtype)
    spread = np.full((4, 9), 7, dtype)
    spread[:, ::2] = x
    padded[3:6, 0:8] = spread[:3, 1:]
    expected = [wide, x.T, x[1:4:2, 0:4:3], padded, flipped, np.concatenate([x, wide, flipped], 1), x.T.reshape(10, 2)]
    for ours, theirs in zip(results, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_iota_and_constants() -> None:
    i32 = ir.IntegerType.get_signless

    def body(a: ir.Value) -> list[ir.Value]:
        rows = build.value("iota", build.tensor((3, 4), i32(32)), dimension=0)
        columns = build.value("iota", build.tensor((3, 40), a.type.element_type), dimension=1)
        table = build.constant(np.arange(20, dtype=np.float32).reshape(4, 5) ** 2, a.type.element_type)
        return [rows, columns, table]

    rows, columns, table = straight([random(1)], body)
    np.testing.assert_array_equal(rows, np.broadcast_to(np.arange(3)[:, None], (3, 4)))
    np.testing.assert_array_equal(columns, np.broadcast_to(np.arange(40), (3, 40)))
    np.testing.assert_array_equal(table, np.arange(20).reshape(4, 5) ** 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_constants_keep_the_signs_of_zeros(dtype: object) -> None:
    signs = np.where(np.arange(20) % 3, 0.0, -0.0).astype(dtype)
    (result,) = straight([random(20, dtype=dtype)], lambda a: build.constant(signs, a.type.element_type))
    assert result.tobytes() == signs.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
@pytest.mark.parametrize("dimensions", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_reductions(dimensions: tuple[int, ...], dtype: object) -> None:
    x, start = RNG.integers(-5, 6, (3, 5, 4)).astype(dtype), np.array(3, dtype)

    def body(a: ir.Value, s: ir.Value) -> ir.Value:
        kept = [size for d, size in enumerate((3, 5, 4)) if d not in dimensions]
        return build.value("reduce", shaped(a, *kept), a, s, kind="add", dimensions=list(dimensions))

    (result,) = straight([x, start], body)
    np.testing.assert_array_equal(result, x.sum(dimensions) + 3)


@pytest.mark.parametrize("kind", ["maximum", "minimum", "multiply"])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 15, 16, 17, 33, 64, 0])
def test_reduction_kinds(kind: str, size: int) -> None:
    x = RNG.choice([-2.0, -1.0, 1.0, 2.0], size).astype(np.float32)
    start = np.array(-1.0, np.float32)
    (result,) = straight([x, start], lambda a, s: build.value("reduce", shaped(a), a, s, kind=kind, dimensions=[0]))
    function = {"maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}[kind]
    assert result == function.reduce(x, initial=np.float32(-1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
def test_dot(dtype: object) -> None:
    x, y = RNG.integers(-5, 6, (2, 3, 4)).astype(dtype), RNG.integers(-5, 6, (2, 5, 4)).astype(dtype)
    numbers = {"lhs_batch": [0], "rhs_batch": [0], "lhs_contract": [2], "rhs_contract": [2]}
    (result,) = straight([x, y], lambda a, b: build.value("dot", shaped(a, 2, 3, 5), a, b, **numbers))
    np.testing.assert_array_equal(result, np.einsum("bik,bjk->bij", x, y))


@pytest.mark.every(3)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128, np.uint8])
@pytest.mark.parametrize("size", [5, 12, 60])
@pytest.mark.parametrize("at", [0, 2, -3, 1000])
def test_dynamic_slices(size: int, at: int, dtype: object) -> None:
    x, update = random(size, 4, dtype=dtype), random(3, 2, dtype=dtype)
    start, zero = np.array(at, np.int32), np.array(1, np.int32)

    def body(a: ir.Value, u: ir.Value, i: ir.Value, j: ir.Value) -> list[ir.Value]:
        return [
            build.value("dynamic_slice", shaped(a, 3, 2), a, i, j, sizes=[3, 2]),
            build.like("dynamic_update_slice", a, u, i, j),
        ]

    part, updated = straight([x, update, start, zero], body)
    low = min(max(at, 0), size - 3)
    np.testing.assert_array_equal(part, x[low : low + 3, 1:3])
    expected = x.copy()
    expected[low : low + 3, 1:3] = update
    np.testing.assert_array_equal(updated, expected)


def test_nothing_of_nothing() -> None:
    x, i = random(0, 3), np.array(0, np.int32)

    def body(a: ir.Value, i: ir.Value) -> list[ir.Value]:
        zero = build.constant(np.array(0, np.float32), a.type.element_type)
        return [
            build.like("add", a, a),
            build.value("slice", shaped(a, 0, 2), a, start=[0, 0], limit=[0, 2], strides=[1, 1]),
            build.transpose(a, [1, 0]),
            build.value("dynamic_slice", shaped(a, 0, 1), a, i, i, sizes=[0, 1]),
            build.reshape(build.splat(1.0, shaped(a, 4)), [4]),
            build.value("reduce", shaped(a, 0), a, zero, kind="add", dimensions=[1]),
            build.value("reduce", shaped(a, 3), a, zero, kind="add", dimensions=[0]),
            build.value("reverse", a.type, a, dimensions=[1]),
            build.made("pad", a, zero, low=[1, 0], high=[0, 0], interior=[0, 0]),
            build.op("stablehlo.concatenate", [shaped(a, 0, 6)], [a, a], {"dimension": 1}).result,
            build.broadcast(a, [2, 0, 3], [1, 2]),
        ]

    results = straight([x, i], body)
    shapes = [(0, 3), (0, 2), (3, 0), (0, 1), (4,), (0,), (3,), (0, 3), (1, 3), (0, 6), (2, 0, 3)]
    assert [result.shape for result in results] == shapes


# --- loops -----------------------------------------------------------------------------------------------------------


def counted(carried: str, body: str, results: str, trips: int = 10) -> str:
    """`results = scf.while (carried)`: an i32 counter %i and what `carried` says; `body` ends by naming what it
    yields."""
    names, types, starts = zip(*(part.split("|") for part in carried.split(";")), strict=True)
    arguments = ", ".join(f"%{name}: {type_}" for name, type_ in zip(names, types, strict=True))
    inputs = ", ".join(f"%{name}_ = {start}" for name, start in zip(names, starts, strict=True))
    listed = ", ".join(types)
    forwarded = ", ".join(f"%{name}_" for name in names)
    count = len(names) + 1
    return f"""
      %zero = "hlo.constant"() {{value = dense<0> : tensor<i32>}} : () -> tensor<i32>
      %one = "hlo.constant"() {{value = dense<1> : tensor<i32>}} : () -> tensor<i32>
      %trips = "hlo.constant"() {{value = dense<{trips}> : tensor<i32>}} : () -> tensor<i32>
      %w:{count} = scf.while (%i_ = %zero, {inputs}) : (tensor<i32>, {listed}) -> (tensor<i32>, {listed}) {{
        %more = "hlo.compare"(%i_, %trips) {{direction = "LT"}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %go = tensor.extract %more[] : tensor<i1>
        scf.condition(%go) %i_, {forwarded} : tensor<i32>, {listed}
      }} do {{
      ^bb0(%i: tensor<i32>, {arguments}):
        %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        {body.replace("YIELD", "scf.yield %next,")} : tensor<i32>, {listed}
      }}
      {results}"""


def loop(signature: str, content: str, arrays: Sequence[np.ndarray], attributes: str = "") -> list[np.ndarray]:
    attributes = f'{{hlo.fusion = "straight_line"{attributes}}}'
    text = f"func.func private @fusion_0{signature} attributes {attributes} {{{content}\n}}"
    return run_kernel(text, arrays, host_target())


def test_a_loop_in_registers() -> None:
    x = random(3)
    body = """%y = "hlo.multiply"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        %z = "hlo.sine"(%y) : (tensor<3xf32>) -> tensor<3xf32>
        YIELD %z"""
    text = counted("x|tensor<3xf32>|%x0", body, "return %w#1, %w#0 : tensor<3xf32>, tensor<i32>")
    result, trips = loop("(%x0: tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>)", text, [x])
    for _ in range(10):
        x = np.sin(x * x)
    np.testing.assert_allclose(result, x, rtol=1e-5)
    assert trips == 10


def test_long_code_for_many_vectors_of_a_loop_is_written_once() -> None:
    """Exponentials of eight vectors: the numbers are those of one vector, and there is no more code for one of them."""
    body = """%y = "hlo.exponential"(%x) : (tensor<SIZExf32>) -> tensor<SIZExf32>
        %z = "hlo.negate"(%y) : (tensor<SIZExf32>) -> tensor<SIZExf32>
        YIELD %z"""
    x, lines = random(128), []
    results = []
    for part in (x[:16], x):
        size = str(len(part))
        text = counted(f"x|tensor<{size}xf32>|%x0", body.replace("SIZE", size), "return %w#1 : tensor<SIZExf32>")
        text = text.replace("SIZE", size)
        signature = f"(%x0: tensor<{size}xf32>) -> tensor<{size}xf32>"
        results.append(loop(signature, text, [part])[0])
        attributes = '{hlo.fusion = "straight_line"}'
        whole = f"func.func private @fusion_0{signature} attributes {attributes} {{{text}\n}}"
        lines.append(
            sum(kernel.count("fma") for kernel in compile_kernel(whole, host_target()).kernel.functions.values())
        )
    assert results[1][:16].tobytes() == results[0].tobytes()
    assert lines[1] == lines[0] > 0


def test_swapped_carries() -> None:
    x, y = random(20), random(20)
    text = counted(
        "x|tensor<20xf32>|%x0;y|tensor<20xf32>|%y0",
        "YIELD %y, %x",
        "return %w#1, %w#2 : tensor<20xf32>, tensor<20xf32>",
        3,
    )
    a, b = loop("(%x0: tensor<20xf32>, %y0: tensor<20xf32>) -> (tensor<20xf32>, tensor<20xf32>)", text, [x, y])
    np.testing.assert_array_equal(a, y)
    np.testing.assert_array_equal(b, x)


def test_no_trips() -> None:
    x = random(4)
    text = counted("x|tensor<4xf32>|%x0", "YIELD %x", "return %w#1 : tensor<4xf32>", 0)
    np.testing.assert_array_equal(loop("(%x0: tensor<4xf32>) -> tensor<4xf32>", text, [x])[0], x)


def test_a_loop_in_a_loop() -> None:
    inner = """
        %v:2 = scf.while (%j = %zero, %a = %x) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>) {
          %m = "hlo.compare"(%j, %i) {direction = "LT"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %g = tensor.extract %m[] : tensor<i1>
          scf.condition(%g) %j, %a : tensor<i32>, tensor<f32>
        } do {
        ^bb0(%j: tensor<i32>, %a: tensor<f32>):
          %k = "hlo.add"(%j, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
          %b = "hlo.add"(%a, %step) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          scf.yield %k, %b : tensor<i32>, tensor<f32>
        }
        YIELD %v#1"""
    text = counted("x|tensor<f32>|%x0", inner, "return %w#1 : tensor<f32>", 7)
    x, step = np.array(1, np.float32), np.array(0.5, np.float32)
    (result,) = loop("(%x0: tensor<f32>, %step: tensor<f32>) -> tensor<f32>", text, [x, step])
    assert result == 1 + 0.5 * sum(range(7))


@pytest.mark.parametrize("value", [3.0, -3.0])
def test_a_branch(value: float) -> None:
    text = """
      %zero = "hlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
      %p = "hlo.compare"(%s, %zero) {direction = "GT"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = tensor.extract %p[] : tensor<i1>
      %r:2 = scf.if %c -> (tensor<10xf32>, tensor<f32>) {
        %y = "hlo.negate"(%x) : (tensor<10xf32>) -> tensor<10xf32>
        scf.yield %y, %s : tensor<10xf32>, tensor<f32>
      } else {
        scf.yield %x, %zero : tensor<10xf32>, tensor<f32>
      }
      return %r#0, %r#1 : tensor<10xf32>, tensor<f32>"""
    x = random(10)
    y, s = loop(
        "(%x: tensor<10xf32>, %s: tensor<f32>) -> (tensor<10xf32>, tensor<f32>)", text, [x, np.array(value, np.float32)]
    )
    np.testing.assert_array_equal(y, -x if value > 0 else x)
    assert s == max(value, 0)


SCAN = """%r = "hlo.dynamic_slice"(%big, %i, %zero) {sizes = array<i64: 1, 8>} : (tensor<50x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
        %s = "hlo.reshape"(%r) : (tensor<1x8xf32>) -> tensor<8xf32>
        %t = "hlo.add"(%total, %s) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        %u = "hlo.reshape"(%t) : (tensor<8xf32>) -> tensor<1x8xf32>
        %stack2 = "hlo.dynamic_update_slice"(%stack, %u, %i, %zero) : (tensor<50x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<50x8xf32>
        YIELD %t, %stack2"""  # noqa: E501


def test_a_scan_stacks_its_outputs_in_memory() -> None:
    fill = """
      %f = "hlo.constant"() {value = dense<9.0> : tensor<f32>} : () -> tensor<f32>
      %stack0 = "hlo.broadcast"(%f) {dimensions = array<i64>} : (tensor<f32>) -> tensor<50x8xf32>"""
    carried = "total|tensor<8xf32>|%total0;stack|tensor<50x8xf32>|%stack0"
    text = fill + counted(carried, SCAN, "return %w#1, %w#2 : tensor<8xf32>, tensor<50x8xf32>", 40)
    big, start = RNG.integers(-9, 9, (50, 8)).astype(np.float32), np.zeros(8, np.float32)
    signature = "(%big: tensor<50x8xf32>, %total0: tensor<8xf32>) -> (tensor<8xf32>, tensor<50x8xf32>)"
    total, stack = loop(signature, text, [big, start])
    np.testing.assert_array_equal(total, big[:40].sum(0))
    np.testing.assert_array_equal(stack[:40], big[:40].cumsum(0))
    np.testing.assert_array_equal(stack[40:], np.full((10, 8), 9))


@pytest.mark.parametrize("inplace", [True, False])
def test_a_big_carry_is_updated_in_place(inplace: bool) -> None:
    carried = "total|tensor<8xf32>|%total0;stack|tensor<50x8xf32>|%stack0"
    text = counted(carried, SCAN, "return %w#1, %w#2 : tensor<8xf32>, tensor<50x8xf32>", 40)
    big, start, stack0 = (RNG.integers(-9, 9, sizes).astype(np.float32) for sizes in ((50, 8), (8,), (50, 8)))
    inputs = "(%big: tensor<50x8xf32>, %total0: tensor<8xf32>, %stack0: tensor<50x8xf32>)"
    signature = f"{inputs} -> (tensor<8xf32>, tensor<50x8xf32>)"
    attributes = ", hlo.inplace = array<i64: 2, 1>" if inplace else ""
    total, stack = loop(signature, text, [big, start, stack0], attributes)
    np.testing.assert_array_equal(total, start + big[:40].sum(0))
    np.testing.assert_array_equal(stack[:40], start + big[:40].cumsum(0))
    np.testing.assert_array_equal(stack[40:], stack0[40:])


INDEXED = """%one_of = "hlo.dynamic_slice"(%table, %i) {sizes = array<i64: 1>} : (tensor<40xf32>, tensor<i32>) -> tensor<1xf32>
        %one_so_far = "hlo.dynamic_slice"(%seen, %at) {sizes = array<i64: 1>} : (tensor<40xf32>, tensor<i32>) -> tensor<1xf32>
        %sum = "hlo.add"(%one_of, %one_so_far) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
        %seen2 = "hlo.dynamic_update_slice"(%seen, %sum, %i) : (tensor<40xf32>, tensor<1xf32>, tensor<i32>) -> tensor<40xf32>
        YIELD %i, %seen2"""  # noqa: E501


def compiled_loop(signature: str, content: str) -> Compiled:
    text = f'func.func private @fusion_0{signature} attributes {{hlo.fusion = "straight_line"}} {{{content}\n}}'
    return compile_kernel(text, host_target())


def test_values_that_a_loop_indexes_are_stored_before_it() -> None:
    carried = "at|tensor<i32>|%zero;seen|tensor<40xf32>|%start"
    content = f"""%table = "hlo.negate"(%x) : (tensor<40xf32>) -> tensor<40xf32>
      {counted(carried, INDEXED, "return %w#2 : tensor<40xf32>", 40)}"""
    x, start = random(40), random(40)
    signature = "(%x: tensor<40xf32>, %start: tensor<40xf32>) -> tensor<40xf32>"
    compiled = compiled_loop(signature, content)
    (result,) = compiled.run([x, start])
    expected = start.copy()
    for i in range(40):
        expected[i] = expected[max(0, i - 1)] - x[i]
    np.testing.assert_array_equal(result, expected)
    (code,) = compiled.kernel.functions.values()
    (body,) = (block for block in code.split("\n^") if "llvm.fadd" in block)
    assert body.count("llvm.store") == 1


HALVES = """%low = "hlo.slice"(%seen) {limit = array<i64: 20>, start = array<i64: 0>, strides = array<i64: 1>} : (tensor<40xf32>) -> tensor<20xf32>
        %more = "hlo.add"(%low, %x) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
        %seen2 = "hlo.dynamic_update_slice"(%seen, %more, %at) : (tensor<40xf32>, tensor<20xf32>, tensor<i32>) -> tensor<40xf32>
        YIELD %seen2"""  # noqa: E501


@pytest.mark.parametrize("at", [3, 17, 20, 25])
def test_what_is_written_at_a_known_place_stays_in_registers(at: int) -> None:
    content = f"""%at = "hlo.constant"() {{value = dense<{at}> : tensor<i32>}} : () -> tensor<i32>
      {counted("seen|tensor<40xf32>|%start", HALVES, "return %w#1 : tensor<40xf32>", 3)}"""
    x, start = random(20), random(40)
    signature = "(%x: tensor<20xf32>, %start: tensor<40xf32>) -> tensor<40xf32>"
    compiled = compiled_loop(signature, content)
    (result,) = compiled.run([x, start])
    expected = start.copy()
    for _ in range(3):
        expected[min(at, 20) :][:20] = expected[:20] + x
    np.testing.assert_array_equal(result, expected)
    assert not any("llvm.alloca" in code for code in compiled.kernel.functions.values())


def test_a_fill_that_nobody_reads_is_not_written() -> None:
    fill = """
      %f = "hlo.constant"() {value = dense<9.0> : tensor<f32>} : () -> tensor<f32>
      %start = "hlo.broadcast"(%f) {dimensions = array<i64>, hlo.unread} : (tensor<f32>) -> tensor<400xf32>"""
    body = """%a2 = "hlo.dynamic_update_slice"(%a, %p, %i) : (tensor<400xf32>, tensor<1xf32>, tensor<i32>)
          -> tensor<400xf32>
        YIELD %a2"""
    content = fill + counted("a|tensor<400xf32>|%start", body, "return %w#1 : tensor<400xf32>", 400)
    signature = "(%p: tensor<1xf32>) -> tensor<400xf32>"
    compiled = compiled_loop(signature, content)
    p = random(1)
    (result,) = compiled.run([p])
    np.testing.assert_array_equal(result, np.repeat(p, 400))
    assert "9.0" not in str(compiled.kernel.functions)


def test_two_carries_that_start_from_one_fill() -> None:
    body = """%a2 = "hlo.dynamic_update_slice"(%a, %p, %i) : (tensor<400xf32>, tensor<1xf32>, tensor<i32>)
          -> tensor<400xf32>
        %b2 = "hlo.dynamic_update_slice"(%b, %q, %i) : (tensor<400xf32>, tensor<1xf32>, tensor<i32>)
          -> tensor<400xf32>
        YIELD %a2, %b2"""
    fill = """
      %f = "hlo.constant"() {value = dense<9.0> : tensor<f32>} : () -> tensor<f32>
      %start = "hlo.broadcast"(%f) {dimensions = array<i64>} : (tensor<f32>) -> tensor<400xf32>"""
    carried = "a|tensor<400xf32>|%start;b|tensor<400xf32>|%start"
    text = fill + counted(carried, body, "return %w#1, %w#2 : tensor<400xf32>, tensor<400xf32>", 5)
    p, q = random(1), random(1)
    signature = "(%p: tensor<1xf32>, %q: tensor<1xf32>) -> (tensor<400xf32>, tensor<400xf32>)"
    a, b = loop(signature, text, [p, q])
    for result, value in ((a, p), (b, q)):
        np.testing.assert_array_equal(result, np.concatenate([np.repeat(value, 5), np.full(395, 9)]))


@pytest.mark.parametrize(("count", "mark", "loops"), [(403, "", 2), (5, "", 0), (403, ", hlo.unread", 0)])
def test_only_what_is_read_is_filled(count: int, mark: str, loops: int) -> None:
    body = f"""%a2 = "hlo.dynamic_update_slice"(%a, %p, %i) : (tensor<{count}xf32>, tensor<1xf32>, tensor<i32>)
          -> tensor<{count}xf32>
        YIELD %a2"""
    content = f"""%f = "hlo.constant"() {{value = dense<9.0> : tensor<f32>}} : () -> tensor<f32>
      %start = "hlo.broadcast"(%f) {{dimensions = array<i64>{mark}}} : (tensor<f32>) -> tensor<{count}xf32>
      {counted(f"a|tensor<{count}xf32>|%start", body, f"return %w#1 : tensor<{count}xf32>", 5)}"""
    signature = f"(%p: tensor<1xf32>) -> tensor<{count}xf32>"
    text = f'func.func private @fusion_0{signature} attributes {{hlo.fusion = "straight_line"}} {{{content}\n}}'
    compiled, p = compile_kernel(text, host_target()), random(1)
    (result,), (code,) = compiled.run([p]), compiled.kernel.functions.values()
    np.testing.assert_array_equal(result[:5], np.repeat(p, 5))
    assert mark or (result[5:] == 9).all()
    assert code.count("llvm.cond_br") == 3 + loops  # the loop's own, and whether the call is to end


def test_a_value_that_is_read_after_it_was_updated_in_place_is_refused() -> None:
    body = """%u = "hlo.dynamic_update_slice"(%stack, %row, %i) : (tensor<400xf32>, tensor<1xf32>, tensor<i32>)
          -> tensor<400xf32>
        %r = "hlo.dynamic_slice"(%stack, %i) {sizes = array<i64: 1>} : (tensor<400xf32>, tensor<i32>) -> tensor<1xf32>
        %s = "hlo.add"(%r, %row) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
        YIELD %s, %u"""
    carried = "row|tensor<1xf32>|%row0;stack|tensor<400xf32>|%stack0"
    text = counted(carried, body, "return %w#1, %w#2 : tensor<1xf32>, tensor<400xf32>", 5)
    signature = "(%row0: tensor<1xf32>, %stack0: tensor<400xf32>) -> (tensor<1xf32>, tensor<400xf32>)"
    with pytest.raises(ShloError, match="in place"):
        loop(signature, text, [random(1), random(400)])


def test_big_carries_that_change_places_are_refused() -> None:
    carried = "x|tensor<400xf32>|%x0;y|tensor<400xf32>|%y0"
    text = counted(carried, "YIELD %y, %x", "return %w#1, %w#2 : tensor<400xf32>, tensor<400xf32>", 3)
    signature = "(%x0: tensor<400xf32>, %y0: tensor<400xf32>) -> (tensor<400xf32>, tensor<400xf32>)"
    with pytest.raises(ShloError, match="place"):
        loop(signature, text, [random(400), random(400)])


def test_sums_of_small_floats_are_rounded_once() -> None:
    x = np.array([[256.0, 1, 1, 1, 1, 1, 1, 1], [1.0, 1, 1, 1, 1, 1, 1, 256]]).astype(ml_dtypes.bfloat16)

    def body(a: ir.Value) -> list[ir.Value]:
        zero = build.constant(np.zeros((), x.dtype), a.type.element_type)
        row = build.value("slice", shaped(a, 1, 8), a, start=[0, 0], limit=[1, 8], strides=[1, 1])
        return [
            build.value("reduce", shaped(a, *sizes), value, zero, kind="add", dimensions=dimensions)
            for value, sizes, dimensions in ((a, [2], [1]), (row, [1], [1]), (row, [], [0, 1]))
        ]

    for result in straight([x], body):
        np.testing.assert_array_equal(result.astype(np.float32), np.full(result.shape, 264))
