"""What holds of every program: a description that was read from a file is refused where it contradicts itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np

from stablehlo_py.dialect.symint import symbols
from stablehlo_py.dialect.symint_text import parse_sizes
from stablehlo_py.options import LIBRARIES, MAX_PROCESSES, MAX_THREADS
from stablehlo_py.runtime.library_calls import (
    ACTIVATIONS,
    CONVOLVED,
    FACTORIZATIONS,
    IN_WORKSPACE,
    LibraryConvolution,
    LibraryFactorization,
    LibraryProduct,
    LibraryTransform,
    Place,
)
from stablehlo_py.runtime.program import CompiledProgram, DynamicLayout, GridPlan, Leaves, Port, Spec
from stablehlo_py.runtime.quantization import Quantization
from stablehlo_py.runtime.records import DTYPES

Findings = Iterator[str]

MAX_RANK = 64  # NumPy's
_SYMBOL = re.compile(r"shlo\.[a-z]+\.[A-Za-z0-9_.$]+")
_STAGE = re.compile(r"[A-Za-z0-9_-]+")
_DIMENSION = re.compile(r"[a-z]\d+_\d+(_\d+)?")
_PORTS = ("infeed", "outfeed", "send", "recv")
_KINDS = ("argument", "memory", "assumption")


def require_consistent(program: CompiledProgram) -> None:
    """Raises ValueError, which says what contradicts what."""
    for finding in _findings(program):
        raise ValueError(finding)


def _findings(program: CompiledProgram) -> Findings:
    static = program.dynamic is None
    for what, specs in (("input", program.inputs), ("output", program.outputs)):
        for number, spec in enumerate(specs):
            yield from (f"{what} {number}: {finding}" for finding in _spec(spec, static))
    if not 1 <= program.threads <= MAX_THREADS:
        yield f"it runs on {program.threads} threads"
    if min(program.arena_bytes, program.host_bytes) < 0:
        yield f"its memory is {program.arena_bytes} bytes, {program.host_bytes} on the host"
    for name in program.symbols:
        if not _SYMBOL.fullmatch(name):
            yield f"no function can be called {name!r}"
    for name in program.stages:  # which becomes part of the name of a file
        if not _STAGE.fullmatch(name):
            yield f"no stage can be called {name!r}"
    yield from _donations(program)
    yield from _accesses(program)
    if not set(program.modules) <= set(program.kernels) or len(program.modules) > max(0, len(program.objects) - 2):
        yield f"{len(program.modules)} kernels have objects of their own"
    for call in program.library_calls:
        if call.library not in LIBRARIES:
            yield f"there is no library {call.library!r}"
        if call.workspace_bytes < 0:
            yield f"a library works in {call.workspace_bytes} bytes"
    for product in program.products:
        yield from _product(product)
    for transform in program.transforms:
        yield from _transform(transform)
    for factorization in program.factorizations:
        yield from _factorization(factorization)
    for convolution in program.convolutions:
        yield from _convolution(convolution)
    if program.leaves is not None:
        yield from _leaves(program.leaves, program)
    if program.grid is not None:
        yield from _grid(program.grid)
    if program.dynamic is not None:
        yield from _dynamic(program.dynamic, program)


def _spec(spec: Spec, static: bool) -> Findings:
    sizes = [size for size in spec.shape if size is not None]
    if len(sizes) < len(spec.shape) and static:
        yield "a dimension of a static program is open"
    if len(spec.shape) > MAX_RANK:
        yield f"it has {len(spec.shape)} dimensions"
    if min(sizes, default=0) < 0 or math.prod(sizes) * spec.dtype.itemsize >= 1 << 63:
        yield f"its shape is {spec.shape}"
    if spec.quantization is not None:
        yield from _quantization(spec.quantization, spec)


def _quantization(quantization: Quantization, spec: Spec) -> Findings:
    expressed, count = DTYPES.get(quantization.expressed), len(quantization.scales)
    if quantization.storage != spec.dtype.name or spec.dtype.name.lstrip("u")[:3] != "int":
        yield f"{quantization.storage} is stored as {spec.dtype}"
    if expressed is None or "float" not in expressed.name:
        yield f"integers stand for {quantization.expressed}"
    if quantization.minimum > quantization.maximum:
        yield "no stored value is in use"
    if min(quantization.scales, default=0) <= 0 or len(quantization.zero_points) != count:
        yield "scales and zero points do not belong together"
    dimension = quantization.dimension
    if dimension is None:
        if count != 1:
            yield f"there are {count} scales"
    elif not 0 <= dimension < len(spec.shape) or spec.shape[dimension] not in (None, count):
        yield f"dimension {dimension} has no {count} scales"


def _donations(program: CompiledProgram) -> Findings:
    inputs, outputs = program.inputs, program.outputs
    for position in (0, 1):
        numbers = [pair[position] for pair in program.donations]
        if len(set(numbers)) < len(numbers):
            yield "a buffer is donated twice"
    for output, input_ in program.donations:
        if not (0 <= output < len(outputs) and 0 <= input_ < len(inputs)):
            yield f"output {output} lies in input {input_}"
        elif (outputs[output].shape, outputs[output].dtype) != (inputs[input_].shape, inputs[input_].dtype):
            yield f"output {output} lies in input {input_}, which is another kind of array"


def _accesses(program: CompiledProgram) -> Findings:
    if len(program.accesses) != (len(program.kernels) if program.graphs else 0):
        yield f"it says what {len(program.accesses)} of {len(program.kernels)} kernels access"
    for accesses in program.accesses:
        if accesses is None:
            continue
        if len(accesses.read) != len(accesses.written) or min((*accesses.read, *accesses.written), default=0) < 0:
            yield f"a kernel reads {accesses.read} bytes and writes {accesses.written}"


def _product(product: LibraryProduct) -> Findings:
    a, b, result = product.a, product.b, product.result
    if product.activation not in ACTIVATIONS:
        yield f"no library has the activation {product.activation!r}"
    if len(product.places) != 3 or min(place.pointer for place in _places(product)) < 0:
        yield f"a product lies at {product.places}"
    if (a.rows, a.columns, b.columns) != (result.rows, b.rows, result.columns):
        yield f"a product of {a.rows} x {a.columns} and {b.rows} x {b.columns} is {result.rows} x {result.columns}"
    for matrix in (a, b, result):
        along = matrix.rows if matrix.by_columns else matrix.columns
        if min(product.batch, matrix.rows, matrix.columns) < 1 or matrix.stride < along or matrix.batch_stride < 0:
            yield f"a product has {product.batch} matrices of {matrix.rows} x {matrix.columns}"


def _places(product: LibraryProduct) -> Iterator[Place]:
    yield from (each for each in (*product.places, product.addend, product.bias) if each is not None)


def _transform(transform: LibraryTransform) -> Findings:
    of = transform.operand.kind, transform.result.kind
    if of not in (("c", "c"), ("f", "c")) or transform.result.itemsize not in (8, 16):
        yield f"a Fourier transform is of {transform.operand} to {transform.result}"
    if not 1 <= len(transform.lengths) <= 3 or min(*transform.lengths, transform.batch, 1) < 1:
        yield f"there are {transform.batch} Fourier transforms of {transform.lengths}"


def _factorization(call: LibraryFactorization) -> Findings:
    of = f"{call.batch} factorizations of {call.rows} x {call.columns} {call.dtype}"
    if call.routine not in FACTORIZATIONS or call.vectors not in ("A", "S", "V", "N"):
        yield f"no library has the factorization {call.routine!r} with {call.vectors!r} vectors"
    if call.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        yield f"there are {of}"
    if min(call.rows, call.columns, call.batch) < 1 or not 0 <= call.factors <= min(call.rows, call.columns):
        yield f"there are {of} with {call.factors} factors"
    if call.routine in ("potrf", "syevd") and call.rows != call.columns:
        yield f"there are {of}, by {call.routine}"


def _convolution(call: LibraryConvolution) -> Findings:
    images, result, space = call.images, call.result, len(call.strides)
    if call.computes not in CONVOLVED or call.dtype.name not in ("float64", "float32", "float16", "bfloat16"):
        yield f"a convolution computes {call.computes!r} of {call.dtype}"
    for numbers, count in (
        *((each.sizes, 2) for each in (images, result)),
        *((each.strides, 2) for each in (images, result)),
        (call.filter, 2),
        (call.strides, 0),
        (call.dilation, 0),
    ):
        if not 2 <= space <= 3 or len(numbers) != space + count or min(numbers, default=0) < 1:
            yield f"a convolution of {space} spatial dimensions has {numbers}"
            return
    if len(call.padding) != space or min(call.padding) < 0 or min(call.groups, 1 + call.own_bytes) < 1:
        yield f"a convolution has the padding {call.padding}, {call.groups} groups and {call.own_bytes} bytes"
        return
    features = images.sizes[1], result.sizes[1]
    if features != (call.groups * call.filter[1], call.filter[0]) or images.sizes[0] != result.sizes[0]:
        yield f"a convolution of {images.sizes} with {call.filter} is {result.sizes}"
    if min(place.pointer for place in call.places.values()) < IN_WORKSPACE:
        yield f"a convolution lies at {images.place}, {call.filter_place} and {result.place}"


def _leaves(leaves: Leaves, program: CompiledProgram) -> Findings:
    ordered = all(a < b for a, b in zip(leaves.kept, leaves.kept[1:], strict=False))
    outside = any(not 0 <= position < leaves.count for position in leaves.kept)
    if not ordered or outside or len(leaves.kept) != len(program.inputs):
        yield f"of {leaves.count} arguments it takes {leaves.kept}"


def _grid(grid: GridPlan) -> Findings:
    if min(grid.replicas, grid.partitions) < 1 or grid.processes > MAX_PROCESSES:
        yield f"the grid is {grid.replicas} x {grid.partitions}"
    if min(grid.barriers, grid.channels, grid.random_sites) < 0:
        yield "the grid has fewer than no barriers, channels or random ops"
    following: dict[tuple[str, int], int] = {}  # the part that comes next
    for port in grid.ports:
        yield from _port(port, following)
    yield from ("an op of the host is cut off" for part in following.values() if part)


def _port(port: Port, following: dict[tuple[str, int], int]) -> Findings:
    place = port.kind, port.channel
    if port.kind not in _PORTS or port.part != following.get(place, 0) or not port.part < max(port.parts, 1):
        yield f"part {port.part} of {port.parts} passes a {port.kind!r}"
    following[place] = port.part + 1 if port.part + 1 < port.parts else 0
    yield from _spec(port.spec, static=True)


def _dynamic(layout: DynamicLayout, program: CompiledProgram) -> Findings:
    if layout.slots < 0:
        yield f"a table of {layout.slots} slots"
    for symbol in layout.symbols:
        known = 0 <= symbol.argument < len(program.inputs)
        if not known or symbol.divisor < 1 or not _DIMENSION.fullmatch(symbol.name):
            yield f"the dimension {symbol.name!r} is that of argument {symbol.argument}, by {symbol.divisor}"
        elif not 0 <= symbol.position < _positions(program.inputs[symbol.argument], symbol.of_shape):
            yield f"the dimension {symbol.name!r} is at {symbol.position} of argument {symbol.argument}"
    if len(layout.outputs) != len(program.outputs):
        yield f"{len(layout.outputs)} shapes of {len(program.outputs)} results"
    for sizes, spec in zip(layout.outputs, program.outputs, strict=False):
        if tuple(None if size < 0 else size for size in sizes) != spec.shape:
            yield f"the result {spec} has the shape {sizes}"
    numbers: Iterable[int] = (
        layout.arena_bytes,
        *(size for sizes in layout.outputs for size in sizes),
    )
    for number in numbers:
        if number < -layout.slots:
            yield f"slot {-1 - number} of {layout.slots}"
    names = {name for symbol in layout.symbols for name in (symbol.name, symbol.name.replace("v", "x", 1))}
    for check in layout.checks:
        try:
            expressions = parse_sizes(check.sizes)
        except TypeError as error:
            yield str(error)
            continue
        if (
            not expressions
            or check.kind not in _KINDS
            or not {name for size in expressions for name in symbols(size)} <= names
        ):
            yield f"a check of the {check.kind} says {check.sizes!r}"


def _positions(spec: Spec, of_shape: bool) -> int:
    """How many numbers an argument brings along: its dimensions, or its elements."""
    if of_shape:
        return len(spec.shape)
    sizes = [size for size in spec.shape if size is not None]
    return math.prod(sizes) if len(sizes) == len(spec.shape) and np.issubdtype(spec.dtype, np.integer) else 0
