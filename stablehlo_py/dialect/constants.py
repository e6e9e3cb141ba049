"""Between MLIR elements attributes and NumPy arrays (ml_dtypes for the small floats and integers), without text.

The bindings read and make only the types that Python's buffer protocol knows; the C API hands out the raw elements of
all of them. Elements of i1 and of the sub-byte types take one byte. The bindings refuse complex elements attributes
altogether (TypeError when such an attribute is read from an op), so **the normal form of a complex constant** is an
`hlo.constant` whose `value` holds the interleaved parts, one more dimension of size 2, and whose result is complex.
`constant_value` and `build.constant` hide this.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from stablehlo_py.dialect.types import static_shape
from stablehlo_py.element_types import ELEMENT_TYPES
from stablehlo_py.errors import InternalError
from stablehlo_py.mlir import bytecode, capi, ir

_NAMES = {dtype: name for name, dtype in ELEMENT_TYPES.items()}
_BY_CLASS = {
    ir.F32Type: ELEMENT_TYPES["f32"],
    ir.F64Type: ELEMENT_TYPES["f64"],
    ir.BF16Type: ELEMENT_TYPES["bf16"],
}
_INTEGERS = {
    (int(name.lstrip("ui")), name[0] == "u"): dtype for name, dtype in ELEMENT_TYPES.items() if name[0] in "iu"
}
_COMMON_WIDTHS = (1, 8, 16, 32, 64)
_COMMON_FLOATS = (ir.F32Type, ir.F64Type)
_LOW_BITS = {
    np.dtype(dtype): np.uint8(mask)
    for dtype, mask in ((ml_dtypes.int2, 3), (ml_dtypes.uint2, 3), (ml_dtypes.int4, 15), (ml_dtypes.uint4, 15))
}


def numpy_dtype(element: ir.Type) -> np.dtype:
    """The NumPy (or ml_dtypes) dtype of an element type. Raises KeyError for types without one."""
    known = _BY_CLASS.get(type(element))
    if known is not None:
        return known
    if isinstance(element, ir.IntegerType):
        return _INTEGERS[element.width, element.is_unsigned]
    return ELEMENT_TYPES[str(element)]


def element_name(dtype: np.dtype) -> str:
    """The name of the element type of a NumPy (or ml_dtypes) dtype. Raises KeyError for dtypes without one."""
    return _NAMES[np.dtype(dtype)]


def element_type_of(dtype: np.dtype, context: ir.Context) -> ir.Type:
    """The MLIR element type of a NumPy (or ml_dtypes) dtype. Raises KeyError for dtypes without one."""
    return ir.Type.parse(_NAMES[np.dtype(dtype)], context)


# --- reading ---------------------------------------------------------------------------------------------------------


def to_numpy(attribute: ir.Attribute) -> np.ndarray:
    """Elements of a dense or dense_resource attribute, in its shape, read-only. Nothing is copied where the layouts
    agree, and a splat is a strided broadcast of one element. The array keeps the attribute (and so its context) alive.

    For a constant op use `constant_value`: it knows the normal form of complex constants. Raises KeyError for element
    types without a NumPy dtype.
    """
    return _elements(capi().handle(attribute), attribute, attribute.type)


def constant_value(op: ir.OpView | ir.Operation) -> np.ndarray:
    """The value of an `hlo.constant` or `stablehlo.constant`, complex ones included, in the shape of its result (as
    `to_numpy`)."""
    type_ = op.results[0].type
    element = type_.element_type
    if not isinstance(element, ir.ComplexType):
        return to_numpy(op.attributes["value"])
    if op.operation.name == "hlo.constant":
        return _complex_view(to_numpy(op.attributes["value"]), numpy_dtype(element))
    return attribute_value(op, "value", type_)


def scalar_constant(value: ir.Value) -> ir.Operation | None:
    """The constant of rank 0 that a value is, or is a broadcast of: what makes a splat."""
    # Peephole asks thousands of times of a training step: no names, no ops are asked for twice.
    op = value.owner
    name = "" if isinstance(op, ir.Block) else op.name
    if name == "hlo.broadcast":
        value = op.operands[0]
        op = value.owner
        name = "" if isinstance(op, ir.Block) else op.name
    return None if name != "hlo.constant" or value.type.rank else op.operation


def splat(value: ir.Value) -> int | float | complex | None:
    """The one element of a scalar constant, or of a scalar constant broadcast to any shape, as a Python number
    (booleans as 0 and 1); None for everything else."""
    op = scalar_constant(value)
    if op is None:
        return None
    # Reading one element through the bindings takes a tenth of the time that an array takes, but they know only the
    # common types.
    element = value.type.element_type
    attribute = op.attributes["value"]
    if isinstance(element, _COMMON_FLOATS) and isinstance(attribute, ir.DenseFPElementsAttr):
        return attribute[0]
    if isinstance(element, ir.IntegerType):
        if element.width in _COMMON_WIDTHS and isinstance(attribute, ir.DenseIntElementsAttr):
            return attribute[0]
        return int(constant_value(op)[()])
    found = constant_value(op)[()]
    return complex(found) if isinstance(element, ir.ComplexType) else float(found)


def attribute_value(op: ir.OpView | ir.Operation, name: str, type_: ir.RankedTensorType) -> np.ndarray:
    """Elements of the dense attribute `name` of an op (as `to_numpy`), also of a complex one, which the bindings
    cannot read."""
    handle = capi().inherent_attribute(capi().handle(op.operation), capi().string(name.encode()))
    return _elements(handle, capi().attribute(handle), type_)


def is_elided(attribute: ir.Attribute) -> bool:
    """Whether the text that an elements attribute was read from left its elements out."""
    return not capi().is_dense(capi().handle(attribute)) and str(attribute).startswith("dense_resource<__elided__>")


def _complex_view(parts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if 0 in parts.strides and parts.size:  # a splat of equal parts: one element stays one element
        one = np.ascontiguousarray(parts[(0,) * (parts.ndim - 1)]).view(dtype).reshape(())
        return np.broadcast_to(one, parts.shape[:-1])
    return np.ascontiguousarray(parts).view(dtype).reshape(parts.shape[:-1])


def _elements(handle: int, attribute: ir.Attribute, type_: ir.RankedTensorType) -> np.ndarray:
    sizes, dtype = static_shape(type_), numpy_dtype(type_.element_type)
    if 0 in sizes:
        return np.zeros(sizes, dtype)
    if not capi().is_dense(handle):
        flat = np.frombuffer(_resource_bytes(attribute, math.prod(sizes) * dtype.itemsize), dtype)
        return flat.reshape(sizes)
    splat = capi().dense_is_splat(handle)
    count = 1 if splat else math.prod(sizes)
    flat = np.asarray(_Elements(attribute, capi().dense_raw_data(handle), count * dtype.itemsize)).view(dtype)
    return np.broadcast_to(flat.reshape(()), sizes) if splat else flat.reshape(sizes)


class _Elements:
    """Base object of an array: the elements live in the context, which the attribute keeps alive."""

    __slots__ = ("__array_interface__", "_attribute")

    def __init__(self, attribute: ir.Attribute, address: int, size: int) -> None:
        self._attribute = attribute
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, True), "version": 3}


def _resource_bytes(attribute: ir.Attribute, size: int) -> memoryview:
    # The C API reads resources element by element only; the bytecode of a module that holds nothing else ends its
    # resource section (number 5) with the raw elements. Format: mlir.llvm.org/docs/BytecodeFormat.
    module = ir.Module.create(ir.Location.unknown(attribute.context))
    module.operation.attributes["value"] = attribute
    data = memoryview(bytecode(module))
    _, position = _varint(data, 4)
    position = bytes(data[position : position + 64]).index(0) + position + 1
    while position < len(data):
        section, (length, position) = data[position], _varint(data, position + 1)
        if section & 0x80:
            alignment, position = _varint(data, position)
            position += -position % alignment
        if section & 0x7F == 5:
            if length < size:
                raise InternalError(
                    f"the resource {attribute} holds fewer than {size} bytes", remedy="check the source file"
                )
            return data[position + length - size : position + length]
        position += length
    raise InternalError(f"the resource {attribute} has no data", remedy="check the source file")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    first = data[position]
    if first == 0:
        return int.from_bytes(data[position + 1 : position + 9], "little"), position + 9
    size = (first & -first).bit_length()
    return int.from_bytes(data[position : position + size], "little") >> size, position + size


# --- making ----------------------------------------------------------------------------------------------------------


def from_numpy(array: np.ndarray, element: ir.Type) -> ir.Attribute:
    """A dense elements attribute of `tensor<array.shape x element>`; one repeated element (bit for bit) becomes a
    splat.

    For a complex element type: the normal form's interleaved parts, `tensor<array.shape x 2 x part>`. Raises KeyError
    for element types without a NumPy dtype.
    """
    array = np.asarray(array)
    if array.ndim == 0 and array.dtype.kind == "f" and array == array and isinstance(element, _COMMON_FLOATS):
        # Most constants that passes make; by memory they take twice as long.
        return ir.DenseElementsAttr.get_splat(
            ir.RankedTensorType.get([], element), ir.FloatAttr.get(element, float(array))
        )
    dtype = numpy_dtype(element)
    array = np.ascontiguousarray(array.astype(dtype, copy=False)).reshape(array.shape)
    if dtype.kind == "c":
        element = element.element_type
        array = array.reshape(-1).view(numpy_dtype(element)).reshape(*array.shape, 2)
        dtype = array.dtype
    type_ = ir.RankedTensorType.get(list(array.shape), element)
    storage = array.reshape(-1)
    if dtype in _LOW_BITS:  # MLIR keeps the unused bits zero; attributes are equal only if those are
        storage = storage.view(np.uint8) & _LOW_BITS[dtype]
    if storage.size > 1 and _is_splat(storage):
        storage = storage[:1]
    return (
        capi()
        .attribute(capi().dense_from_raw(capi().handle(type_), storage.nbytes, storage.ctypes.data))
        .maybe_downcast()
    )


def complex_elements(array: np.ndarray, type_: ir.RankedTensorType) -> ir.Attribute:
    """A dense elements attribute of complex numbers, as `stablehlo.constant` has it; the array has the type's shape."""
    flat = np.ascontiguousarray(array.astype(numpy_dtype(type_.element_type), copy=False))
    return capi().attribute(capi().dense_from_raw(capi().handle(type_), flat.nbytes, flat.ctypes.data))


def _is_splat(flat: np.ndarray) -> bool:
    bits = flat.view(f"u{flat.dtype.itemsize}")
    # The first elements decide for almost all weights, without a pass over the data.
    return bool((bits[:64] == bits[0]).all() and (bits == bits[0]).all())
