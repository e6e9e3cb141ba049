"""Constants of every element type go to NumPy and back unchanged."""

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from stablehlo_py.dialect import build
from stablehlo_py.dialect.constants import (
    constant_value,
    element_type_of,
    from_numpy,
    numpy_dtype,
    to_numpy,
)
from stablehlo_py.dialect.context import make_context
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.mlir import ir

SHAPES = [(), (1,), (3,), (2, 3), (0, 2), (70,)]


@pytest.fixture(scope="module")
def context() -> Iterator[ir.Context]:
    made = make_context()
    with made, ir.Location.unknown():
        yield made


def _array(name: str, sizes: tuple[int, ...], element: ir.Type) -> np.ndarray:
    random = np.random.default_rng(0)
    values = random.normal(size=sizes) * 2
    if "complex" in name:
        values = values + 1j * random.normal(size=sizes)
    return np.asarray(values).astype(numpy_dtype(element))


def _value(text: str) -> np.ndarray:
    module = ir.Module.parse(text)  # an op does not keep its module alive
    return constant_value(module.body.operations[0])


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_round_trip(context, name, sizes):
    element = ir.Type.parse(name)
    for array in (_array(name, sizes, element), np.ones(sizes).astype(numpy_dtype(element))):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            op = build.constant(array, element).owner
        assert module.operation.verify()
        value = constant_value(op)
        assert (value.dtype, value.shape) == (array.dtype, array.shape)
        assert value.tobytes() == array.tobytes()
        # The attribute is the one that MLIR's own parser makes, so that equal constants are equal attributes.
        printed = op.attributes["value"]
        assert ir.Attribute.parse(str(printed)) == printed


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_element_types_and_dtypes(context, name):
    element = ir.Type.parse(name)
    assert element_type_of(numpy_dtype(element), context) == element


def test_types_without_a_dtype(context):
    with pytest.raises(KeyError):
        numpy_dtype(ir.IndexType.get())
    with pytest.raises(KeyError):
        element_type_of(np.dtype("datetime64[s]"), context)


def test_splats_hold_one_element(context):
    attribute = from_numpy(np.full((4, 5), 7, np.int32), ir.Type.parse("i32"))
    assert str(attribute) == "dense<7> : tensor<4x5xi32>"
    assert to_numpy(attribute).strides == (0, 0)
    assert (to_numpy(attribute) == 7).all()


def test_equal_bits_not_equal_values_make_a_splat(context):
    f32 = ir.F32Type.get()
    assert not from_numpy(np.array([0.0, -0.0], np.float32), f32).is_splat
    assert from_numpy(np.array([np.nan, np.nan], np.float32), f32).is_splat


def test_a_difference_after_the_first_elements_is_seen(context):
    array = np.zeros(1000, np.float32)
    array[-1] = 1
    assert (to_numpy(from_numpy(array, ir.F32Type.get())) == array).all()


def test_arrays_are_read_only(context):
    with pytest.raises(ValueError, match="read-only"):
        to_numpy(from_numpy(np.arange(3.0), ir.F64Type.get()))[0] = 1


def test_other_orders_and_dtypes_are_converted(context):
    array = np.arange(6, dtype=np.int64).reshape(2, 3).T
    assert (to_numpy(from_numpy(array, ir.F32Type.get())) == array).all()


def test_the_array_keeps_its_elements_alive():
    with make_context() as context, ir.Location.unknown():
        array = to_numpy(from_numpy(np.arange(1000, dtype=np.int64), ir.Type.parse("i64")))
    del context
    gc.collect()
    assert (array == np.arange(1000)).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dense<(1.0, 2.0)> : tensor<complex<f32>>", np.complex64(1 + 2j)),
        ("dense<(1.0, 2.0)> : tensor<3xcomplex<f64>>", np.full(3, 1 + 2j)),
        (
            "dense<[(1.0, 2.0), (0x7FC00000, -4.0)]> : tensor<2xcomplex<f32>>",
            np.array([1 + 2j, complex(np.nan, -4)], "c8"),
        ),
        ("dense<> : tensor<0xcomplex<f32>>", np.zeros(0, np.complex64)),
    ],
)
def test_complex_stablehlo_constants(context, text, expected):
    value = _value(f"%0 = stablehlo.constant {text}")
    assert value.dtype == expected.dtype and value.shape == expected.shape
    assert np.array_equal(value, expected, equal_nan=True)


def test_complex_constants_in_normal_form(context):
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        op = build.constant(np.array([1 + 2j, 3 - 4j], np.complex64), ir.Type.parse("complex<f32>")).owner
    # Every other reader of attributes can read it, which the bindings refuse for complex elements.
    assert to_numpy(op.attributes["value"]).tolist() == [[1, 2], [3, -4]]
    assert op.results[0].type == ir.Type.parse("tensor<2xcomplex<f32>>")


def test_a_complex_splat_with_equal_parts(context):
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        op = build.constant(np.full((2, 2), 1 + 1j, np.complex64), ir.Type.parse("complex<f32>")).owner
    assert (constant_value(op) == np.full((2, 2), 1 + 1j)).all()


RESOURCES = """
module {
  %%0 = stablehlo.constant dense_resource<weights> : tensor<%s>
}
{-# dialect_resources: { builtin: { other: "0x0400000001020304", weights: "0x%s" } } #-}
"""


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("2x3xf32", np.arange(6, dtype=np.float32).reshape(2, 3)),
        ("3xi1", np.array([True, False, True])),
        ("2xcomplex<f32>", np.array([1 + 2j, 3 - 1j], np.complex64)),
        ("2xi64", np.array([-1, 5])),
    ],
)
def test_resources(context, type_, array):
    value = _value(RESOURCES % (type_, "04000000" + array.tobytes().hex()))
    assert value.dtype == array.dtype and np.array_equal(value, array)


def test_a_large_constant_is_not_copied_when_read(context):
    array = np.random.default_rng(0).random(1 << 20, np.float32)
    attribute = from_numpy(array, ir.F32Type.get())
    first, second = to_numpy(attribute), to_numpy(attribute)
    assert first.ctypes.data == second.ctypes.data
    assert np.array_equal(first, array)
