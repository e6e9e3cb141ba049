"""Fusions of kind `dot` and `convolution`: one product (product.py), whatever its operands are made of, and an
elementwise epilogue on its result.

Where there are many rows and columns, blocks of threads compute tiles of the result (tiled.py), by matrix units
(matrix.py) or without them (scalar.py). Where there are few, the threads of a block share out the products of some
results (narrow.py). Of integers that no matrix unit takes, and of short sums, a thread computes one result. Operands
are evaluated where they are read, so transposes, slices and conversions cost no copy. The order of a sum depends on
shapes and the machine alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from stablehlo_py.backends.common.fusion import Fusion
from stablehlo_py.backends.gpu.kernels import boxes, loop, matrix, scalar
from stablehlo_py.backends.gpu.kernels.base import Candidate
from stablehlo_py.backends.gpu.kernels.narrow import THREADS, NarrowProduct
from stablehlo_py.backends.gpu.kernels.product import ConvolutionProduct, DotProduct, Product
from stablehlo_py.backends.gpu.kernels.tiled import TiledProduct, fastest, ranked
from stablehlo_py.backends.gpu.target import GpuTarget
from stablehlo_py.backends.gpu.triton import product as triton
from stablehlo_py.codegen.types import element
from stablehlo_py.dialect.types import num_elements
from stablehlo_py.options import TRITON

LEAST_ELEMENTS, LEAST_SIDE, LEAST_DEPTH = 1024, 16, 8  # of a product in tiles
MANY = 128  # batches: then tiles may be as empty as they are with the least sides, for neighbours read neighbours
LONG_SUM = 64  # products from which on several threads add up one result
VERY_LONG_SUM = 1 << 14  # and from which on several blocks may
MORE_THREADS = (128, 64)  # of a block, where there are no tiles: that are tried


def candidates(fusion: Fusion, target: GpuTarget) -> Iterator[Candidate]:
    """The kernels of a `dot` or `convolution` fusion."""
    product = (DotProduct if fusion.kind == "dot" else ConvolutionProduct)(fusion, target)
    rows, columns, depth = product.rows, product.columns, product.depth
    as_loop = iter([Candidate("", partial(loop.emit, fusion, target))])
    if not num_elements(product.result) or depth < LEAST_DEPTH:
        return as_loop
    is_wide = min(rows, columns) >= LEAST_SIDE and (rows * columns >= LEAST_ELEMENTS or product.batch >= MANY)
    # Of few results with long sums, tiles have parts, though most of a tile is empty.
    several = depth >= VERY_LONG_SUM and not NarrowProduct(product).fills_machine
    if (is_wide or several) and (kernels := _tiled(product)):
        own = ranked(fastest(kernels), partial(_tiled, product, more=True))
        return chain([next(own)], _generated(product), own)
    if not is_wide and product.of.kind in ("int", "float") and depth >= LONG_SUM:
        return _narrow(product)
    return as_loop


def _tiled(product: Product, *, more: bool = False) -> list[TiledProduct]:
    """The kernels in tiles that a product may have, and `more` to be tried."""
    target, (left, right) = product.target, (element(operand.value).name for operand in (product.a, product.b))
    fitting = [
        unit
        for unit in target.units_for(left, right, product.of.name)
        if product.depth >= unit.depth and (product.takes_short_sums or not unit.sum_bits)
    ]
    if fitting:
        units = [unit for unit in fitting if unit.operands == fitting[0].operands]
        # Boxes first: of two kernels that are estimated alike, theirs is the faster one.
        by_boxes = boxes.kernels(product, units, more=more) if target.maps else []
        return by_boxes + matrix.kernels(product, units, more=more)
    if not product.of.is_float:
        return []
    splits = target.splits_f32 and {left, right} == {product.of.name} == {"f32"}
    return scalar.kernels(product, more=more) + (matrix.split_kernels(product, more=more) if splits else [])


def _generated(product: Product) -> Iterator[Candidate]:
    """Those of other generators, which are few: they come before what our templates could do otherwise."""
    if TRITON not in product.target.generators:
        return iter(())
    return (Candidate(kernel.plan, kernel.emit) for kernel in triton.kernels(product))


def _narrow(product: Product) -> Iterator[Candidate]:
    kernels = {
        kernel.plan: kernel for kernel in (NarrowProduct(product, threads) for threads in (THREADS, *MORE_THREADS))
    }
    return (Candidate(plan, kernel.emit) for plan, kernel in kernels.items())
