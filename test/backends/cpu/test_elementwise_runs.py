"""Loops over the vectors of functions in straight-line kernels: each vector gives what it gives by itself."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import compile_kernel, run_kernel

from stablehlo_py.backends.cpu.target import host_target

RNG = np.random.default_rng(5)
ONE = 16  # elements of a vector
DTYPES = {"f32": np.float32, "f64": np.float64}

SOFTMIN = """%1 = minimum %x, %y
    %2 = subtract %1, %x
    %3 = exponential %2
    %4 = subtract %1, %y
    %5 = exponential %4
    %6 = add %3, %5
    %7 = log %6
    %8 = subtract %1, %7"""
BODIES = {
    "softmin": (SOFTMIN, "%8 %y"),
    "function of a function": ("%1 = exponential %x\n%2 = add %1, %y\n%3 = tanh %2\n%4 = multiply %3, %1", "%4 %3"),
    "results that are read twice": ("%1 = exponential %x\n%2 = negate %1\n%3 = add %1, %2", "%1 %2"),
    "other functions between": ("%1 = exponential %x\n%2 = tanh %y\n%3 = add %1, %2\n%4 = log %1", "%3 %4"),
    "a mask that leaves": (
        "%1 = exponential %x\n%2 = compare %1, %y\n%3 = negate %y\n%4 = select %2, %x, %3\n%5 = tanh %3",
        "%4 %5",
    ),
    "a mask between": ("%1 = exponential %x\n%2 = compare %1, %y\n%3 = select %2, %1, %y\n%4 = log %3", "%4 %1"),
    "a mask that comes": ("%1 = compare %x, %y\n%2 = exponential %x\n%3 = select %1, %2, %y", "%3 %2"),
    "one number everywhere": ("%1 = exponential %s\n%2 = multiply %x, %1\n%3 = tanh %2\n%4 = add %3, %s", "%4 %1"),
    "the same vectors": ("%1 = exponential %x\n%2 = exponential %x\n%3 = add %1, %2\n%4 = tanh %3", "%4 %4"),
    "what nobody reads": ("%1 = exponential %x\n%2 = negate %x", "%2 %y"),
    "an update in between": ("%1 = exponential %x\n%2 = dynamic_update_slice %y, %x\n%3 = add %1, %y", "%3 %2"),
}


def _line(line: str, size: int, element: str) -> str:
    """One line of a body as text of the dialect."""
    result, operation = line.strip().split(" = ")
    name, *operands = operation.replace(",", "").split()
    of, mask = f"tensor<{size}x{element}>", f"tensor<{size}xi1>"
    given, made = [of] * len(operands), of
    if name == "compare":
        return f'{result} = "hlo.compare"({", ".join(operands)}) {{direction = "LT"}} : ({of}, {of}) -> {mask}'
    if name == "select":
        given[0] = mask
    if name == "dynamic_update_slice":
        operands, given = [*operands, "%zero"], [*given, "tensor<i32>"]
    return f'{result} = "hlo.{name}"({", ".join(operands)}) : ({", ".join(given)}) -> {made}'


def _kernel(body: str, yielded: str, size: int, element: str = "f32", trips: int = 3) -> str:
    """A kernel of a loop over two values."""
    of = f"tensor<{size}x{element}>"
    lines = "\n".join(_line(line, size, element) for line in body.splitlines())
    results = ", ".join(yielded.split())
    return f"""
    func.func private @fusion_0(%x0: {of}, %y0: {of}) -> ({of}, {of}) attributes {{hlo.fusion = "straight_line"}} {{
      %zero = "hlo.constant"() {{value = dense<0> : tensor<i32>}} : () -> tensor<i32>
      %one = "hlo.constant"() {{value = dense<1> : tensor<i32>}} : () -> tensor<i32>
      %trips = "hlo.constant"() {{value = dense<{trips}> : tensor<i32>}} : () -> tensor<i32>
      %half = "hlo.constant"() {{value = dense<0.5> : tensor<{element}>}} : () -> tensor<{element}>
      %s = "hlo.broadcast"(%half) {{dimensions = array<i64>}} : (tensor<{element}>) -> {of}
      %w:3 = scf.while (%i_ = %zero, %x_ = %x0, %y_ = %y0) : (tensor<i32>, {of}, {of}) -> (tensor<i32>, {of}, {of}) {{
        %more = "hlo.compare"(%i_, %trips) {{direction = "LT"}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %go = tensor.extract %more[] : tensor<i1>
        scf.condition(%go) %i_, %x_, %y_ : tensor<i32>, {of}, {of}
      }} do {{
      ^bb0(%i: tensor<i32>, %x: {of}, %y: {of}):
        %next = "hlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        {lines}
        scf.yield %next, {results} : tensor<i32>, {of}, {of}
      }}
      return %w#1, %w#2 : {of}, {of}
    }}"""


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("size", [64, 100, 128])
@pytest.mark.parametrize("name", BODIES)
def test_vectors_of_a_loop_are_what_they_are_alone(name: str, size: int, element: str) -> None:
    body, yielded = BODIES[name]
    x, y = (RNG.uniform(0.1, 1.0, size).astype(DTYPES[element]) for _ in range(2))
    results = run_kernel(_kernel(body, yielded, size, element), [x, y], host_target())
    whole = size - size % ONE
    for first in range(0, whole, ONE):
        part = slice(first, first + ONE)
        alone = run_kernel(_kernel(body, yielded, ONE, element), [x[part], y[part]], host_target())
        for ours, theirs in zip(results, alone, strict=True):
            np.testing.assert_array_equal(ours[part], theirs)


def _code(body: str, yielded: str, size: int) -> str:
    return "\n".join(compile_kernel(_kernel(body, yielded, size), host_target()).kernel.functions.values())


def test_what_reads_functions_is_there_once() -> None:
    """Sums of two functions, and the function of these, are as much code for eight vectors as for one."""
    short, long = (_code(SOFTMIN, "%8 %y", size) for size in (ONE, 8 * ONE))
    assert long.count("fadd") == short.count("fadd") > 0
    assert long.count("fma") == short.count("fma") > 0


def test_what_a_loop_makes_for_the_next_one_stays_in_memory() -> None:
    """Of eight vectors two operands are stored before the loops, and one result is loaded after them."""
    shared = "%1 = exponential %x\n%2 = tanh %y\n%3 = add %1, %2\n%4 = log %3\n"
    once = shared + "%5 = negate %4"
    added = _code(once, "%5 %y", 8 * ONE).count("load") - _code(once, "%5 %y", ONE).count("load")
    assert added == (8 - 1) * 2 + 3 + 8  # arguments; operands in loops; the result


def test_selects_by_known_masks_are_no_code() -> None:
    mask = f'%k = "hlo.constant"() {{value = dense<true> : tensor<{ONE}xi1>}} : () -> tensor<{ONE}xi1>'
    of = f"tensor<{ONE}xf32>"
    text = f"""func.func private @fusion_0(%x: {of}, %y: {of}) -> {of} attributes {{hlo.fusion = "straight_line"}} {{
      {mask}
      %z = "hlo.select"(%k, %x, %y) : (tensor<{ONE}xi1>, {of}, {of}) -> {of}
      return %z : {of}
    }}"""
    assert not any("select" in each for each in compile_kernel(text, host_target()).kernel.functions.values())
