"""Integers of 2 and 4 bits, which SPIR-V has not: every value, or pair of values, through every integer op, by itself
and with ops behind it that read its result as a register holds it; the CPU's answers are right."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo

TYPES = ["i2", "ui2", "i4", "ui4"]
OTHERS = ["i1", "i2", "ui2", "i4", "ui4", "i8", "ui8", "i32", "ui64", "f16", "f32", "bf16", "f8E4M3FN", "f4E2M1FN"]
BINARY = ["add", "and", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift_left"]
BINARY += ["shift_right_arithmetic", "shift_right_logical", "subtract", "xor"]
UNARY = ["abs", "count_leading_zeros", "negate", "not", "popcnt", "sign"]
REDUCTIONS = ["add", "and", "maximum", "minimum", "multiply", "or", "xor"]
DIRECTIONS = ["EQ", "GE", "GT", "LE", "LT", "NE"]


def values(of: str) -> np.ndarray:
    """All of a type."""
    dtype = np.dtype(getattr(ml_dtypes, of.replace("ui", "uint") if of[0] == "u" else of.replace("i", "int")))
    bits = int(of.strip("ui"))
    low = 0 if of[0] == "u" else -(1 << (bits - 1))
    return np.arange(low, low + (1 << bits)).astype(dtype)


def pairs(of: str) -> tuple[np.ndarray, np.ndarray]:
    every = values(of)
    return np.repeat(every, every.size), np.tile(every, every.size)


def module(lines: list[str], inputs: list[str], outputs: dict[str, str]) -> str:
    """A function of %x, %y that returns values by their names and types."""
    listed = ", ".join(f"%{name}: {type_}" for name, type_ in zip("xyz", inputs, strict=False))
    head = f"func.func @main({listed}) -> ({', '.join(outputs.values())}) {{"
    return "\n".join([head, *lines, f"return {', '.join(outputs)} : {', '.join(outputs.values())}", "}"])


def check(text: str, *calls: tuple[np.ndarray, ...]) -> None:
    ours, cpus = shlo.compile(text, target="opencl"), shlo.compile(text)
    for arrays in calls:
        for number, (found, right) in enumerate(zip(ours(*arrays), cpus(*arrays), strict=True)):
            assert found.tobytes() == right.tobytes(), f"result {number}: {found} instead of {right}"


@pytest.mark.parametrize("of", TYPES)
def test_elementwise(real_device, of) -> None:
    """Of each result its sum with y is compared, divided, shifted and converted, in one kernel with it."""
    x, y = pairs(of)
    t, p, w = (f"tensor<{x.size}x{element}>" for element in (of, "i1", "i32"))
    lines, outputs = [], {}
    for name in [*BINARY, *UNARY]:
        if name in ("abs", "sign") and of[0] == "u":
            continue
        r, operands = f"%{name}", "%x, %y" if name in BINARY else "%x"
        lines += [
            f"{r} = stablehlo.{name} {operands} : {t}",
            f"{r}_sum = stablehlo.add {r}, %y : {t}",
            f"{r}_less = stablehlo.compare LT, {r}_sum, %x : ({t}, {t}) -> {p}",
            f"{r}_quotient = stablehlo.divide {r}_sum, %y : {t}",
            f"{r}_moved = stablehlo.shift_right_arithmetic {r}_sum, %y : {t}",
            f"{r}_chosen = stablehlo.select {r}_less, {r}_quotient, {r}_moved : {p}, {t}",
            f"{r}_wide = stablehlo.convert {r}_chosen : ({t}) -> {w}",
        ]
        outputs |= {r: t, f"{r}_less": p, f"{r}_wide": w}
    for direction in DIRECTIONS:
        lines.append(f"%{direction} = stablehlo.compare {direction}, %x, %y : ({t}, {t}) -> {p}")
        outputs[f"%{direction}"] = p
    lines.append(f"%clamped = stablehlo.clamp %y, %x, %not : {t}")
    check(module(lines, [t, t], {**outputs, "%clamped": t}), (x, y))


@pytest.mark.parametrize("of", TYPES)
def test_conversions(real_device, of) -> None:
    """To every type and from it: what another type holds beside is cut, or saturates."""
    x, bits = values(of), of.strip("ui")
    t, wide = f"tensor<{x.size}x{of}>", np.array([*range(-300, 300), 2**31 - 1, -(2**31)], np.int32)
    floats = np.concatenate([wide[:600] / 4, [np.inf, -np.inf, np.nan, -0.0, 1e30]]).astype(np.float32)
    u, v = f"tensor<{wide.size}xi32>", f"tensor<{floats.size}xf32>"
    lines, outputs = [], {}

    def convert(to: str, operand: str, type_: str) -> None:
        shape = type_[: type_.index("x") + 1]
        name = f"%{to}_of{operand[1:]}"
        lines.append(f"{name} = stablehlo.convert {operand} : ({type_}) -> {shape}{to}>")
        lines.append(f"{name}_back = stablehlo.convert {name} : ({shape}{to}>) -> {shape}{of}>")
        outputs.update({name: f"{shape}{to}>", f"{name}_back": f"{shape}{of}>"})

    for other in OTHERS:
        if other != of:
            convert(other, "%x", t)
    convert(of, "%y", u)
    convert(of, "%z", v)
    for other in (f"i{bits}", f"ui{bits}", *(["f4E2M1FN"] if bits == "4" else [])):
        name, to = f"%{other}_bits", f"tensor<{x.size}x{other}>"
        lines.append(f"{name} = stablehlo.bitcast_convert %x : ({t}) -> {to}")
        lines.append(f"{name}_back = stablehlo.bitcast_convert {name} : ({to}) -> {t}")
        outputs |= {name: to, f"{name}_back": t}
    check(module(lines, [t, u, v], outputs), (x, wide, floats))


def reduction(name: str, kind: str, dimensions: list[int], of: str, sizes: list[int]) -> tuple[str, str]:
    """A reduction of %x from %c, and the type of its result."""
    source = "x".join(map(str, sizes))
    target = "".join(f"{size}x" for axis, size in enumerate(sizes) if axis not in dimensions)
    types = f"(tensor<{source}x{of}>, tensor<{of}>) -> tensor<{target}{of}>"
    how = f"applies stablehlo.{kind} across dimensions = {dimensions}"
    return f"{name} = stablehlo.reduce(%x init: %c) {how} : {types}", f"tensor<{target}{of}>"


@pytest.mark.every(2)
@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("sizes", [[40, 300], [3, 5]], ids=str)
def test_reductions(real_device, of, sizes) -> None:
    every = values(of)
    x = every[np.random.default_rng(3).integers(0, every.size, sizes)]
    lines, outputs = [f"%c = stablehlo.constant dense<1> : tensor<{of}>"], {}
    for kind, dimensions in itertools.product(REDUCTIONS, ([0], [1], [0, 1])):
        name = f"%{kind}_{len(outputs)}"
        line, outputs[name] = reduction(name, kind, dimensions, of, sizes)
        lines.append(line)
    check(module(lines, [f"tensor<{'x'.join(map(str, sizes))}x{of}>"], outputs), (x,))


OTHER_OPS = """
%table = stablehlo.constant dense<[1, 0, -1, -2]> : tensor<4xT>
%start = stablehlo.constant dense<-1> : tensor<T>
%zero = stablehlo.constant dense<0> : tensor<i32>
%count = stablehlo.iota dim = 0 : tensor<Nxi32>
%iota = stablehlo.convert %count : (tensor<Nxi32>) -> tensor<NxT>
%sorted = "stablehlo.sort"(%x) ({
^bb0(%a: tensor<T>, %b: tensor<T>):
  %gt = stablehlo.compare GT, %a, %b : (tensor<T>, tensor<T>) -> tensor<i1>
  stablehlo.return %gt : tensor<i1>
}) {dimension = 0 : i64} : (tensor<NxT>) -> tensor<NxT>
%dot = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<NxT>, tensor<NxT>) -> tensor<T>
%outer = stablehlo.dot_general %table, %y, contracting_dims = [] x [] : (tensor<4xT>, tensor<NxT>) -> tensor<4xNxT>
%window = "stablehlo.reduce_window"(%x, %start) ({
^bb0(%a: tensor<T>, %b: tensor<T>):
  %max = stablehlo.maximum %a, %b : tensor<T>
  %sum = stablehlo.add %max, %b : tensor<T>
  stablehlo.return %sum : tensor<T>
}) {window_dimensions = array<i64: 3>} : (tensor<NxT>, tensor<T>) -> tensor<MxT>
%slice = stablehlo.dynamic_slice %y, %first, sizes = [3] : (tensor<NxT>, tensor<T>) -> tensor<3xT>
%at = stablehlo.reshape %count : (tensor<Nxi32>) -> tensor<Nx1xi32>
%scattered = "stablehlo.scatter"(%table, %at, %x) <{scatter_dimension_numbers = #stablehlo.scatter<
  inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
^bb0(%a: tensor<T>, %b: tensor<T>):
  %product = stablehlo.multiply %a, %b : tensor<T>
  %less = stablehlo.subtract %product, %b : tensor<T>
  stablehlo.return %less : tensor<T>
}) : (tensor<4xT>, tensor<Nx1xi32>, tensor<NxT>) -> tensor<4xT>
%loop:2 = stablehlo.while(%n = %zero, %carry = %x) : tensor<i32>, tensor<NxT>
  cond {
    %most = stablehlo.constant dense<5> : tensor<i32>
    %more = stablehlo.compare LT, %n, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %n, %one : tensor<i32>
    %quotient = stablehlo.divide %carry, %y : tensor<NxT>
    %carried = stablehlo.subtract %quotient, %x : tensor<NxT>
    stablehlo.return %next, %carried : tensor<i32>, tensor<NxT>
  }
"""


@pytest.mark.parametrize("of", TYPES)
def test_other_ops(real_device, of) -> None:
    """Sorts, products, windows, scatters, loops; a number as a place; constants."""
    x, y = pairs(of)
    t, text = f"tensor<{x.size}x{of}>", OTHER_OPS
    if of[0] == "u":
        text = text.replace("-1", str(values(of).size - 1)).replace("-2", str(values(of).size - 2))
    text = text.replace("Nx", f"{x.size}x").replace("Mx", f"{x.size - 2}x").replace("xT>", f"x{of}>")
    text = text.replace("%first", "%z").replace("<T>", f"<{of}>")
    outputs = dict.fromkeys(("%iota", "%sorted", "%loop#1"), t) | {
        "%table": f"tensor<4x{of}>",
        "%dot": f"tensor<{of}>",
        "%outer": f"tensor<4x{x.size}x{of}>",
        "%window": f"tensor<{x.size - 2}x{of}>",
        "%slice": f"tensor<3x{of}>",
        "%scattered": f"tensor<4x{of}>",
    }
    check(module([text], [t, t, f"tensor<{of}>"], outputs), *((x, y, np.array(start)) for start in values(of)))
