"""Small programs for drivers that are not there: test/backends/gpu."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np

from stablehlo_py.runtime.executable import Executable
from stablehlo_py.runtime.program import CompiledProgram

COUNT = 256
DONATED = "{tf.aliasing_output = 0 : i32}"
STEP = f"""func.func @main(%x: tensor<{COUNT}xi32> {DONATED}) -> tensor<{COUNT}xi32> {{
  %0 = stablehlo.add %x, %x : tensor<{COUNT}xi32>
  return %0 : tensor<{COUNT}xi32>
}}"""
SQUARE = f"tensor<{COUNT}x{COUNT}xf32>"
# Two kernels, the second of which cannot be fused with the first, nor write over what it reads.
TWO = f"""func.func @main(%x: {SQUARE}, %y: {SQUARE}) -> {SQUARE} {{
  %0 = "stablehlo.sort"(%x) ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %2 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }}) {{dimension = 1 : i64}} : ({SQUARE}) -> {SQUARE}
  %1 = stablehlo.transpose %0, dims = [1, 0] : ({SQUARE}) -> {SQUARE}
  %2 = stablehlo.add %1, %y : {SQUARE}
  return %2 : {SQUARE}
}}"""
# It ends where %p is not set. Its body is too much for one block of threads: the host starts each trip.
LARGE = 1 << 18
LOOP = f"""func.func @main(%p: tensor<i1>, %x: tensor<{LARGE}xi32>) -> tensor<{LARGE}xi32> {{
  %r:2 = stablehlo.while(%q = %p, %a = %x) : tensor<i1>, tensor<{LARGE}xi32>
  cond {{ stablehlo.return %q : tensor<i1> }}
  do {{
    %b = stablehlo.reverse %a, dims = [0] : tensor<{LARGE}xi32>
    stablehlo.return %q, %b : tensor<i1>, tensor<{LARGE}xi32>
  }}
  return %r#1 : tensor<{LARGE}xi32>
}}"""
CONSTANT = f"""func.func @main(%x: tensor<{COUNT}xi32>) -> tensor<{COUNT}xi32> {{
  %c = stablehlo.constant dense<{list(range(COUNT))}> : tensor<{COUNT}xi32>
  %0 = stablehlo.add %x, %c : tensor<{COUNT}xi32>
  return %0 : tensor<{COUNT}xi32>
}}"""
SIZES = range(100, 160, 10)  # different ones are not fused
DONATED_AS = "{tf.aliasing_output = %d : i32}"
X, MANY = (np.arange(count, dtype=np.int32) for count in (COUNT, LARGE))


def steps(copied: bool = False) -> str:
    """A kernel for each donated argument; the last argument is a result if it is `copied`, and not donated."""
    types = [f"tensor<{size}xi32>" for size in SIZES]
    arguments = [f"%x{i}: {type_} {DONATED_AS % i}" for i, type_ in enumerate(types)]
    lines = [f"%r{i} = stablehlo.add %x{i}, %x{i} : {type_}" for i, type_ in enumerate(types)]
    values = [f"%r{i}" for i in range(len(types))]
    if copied:
        arguments, types, values = [*arguments, "%y: tensor<7xi32>"], [*types, "tensor<7xi32>"], [*values, "%y"]
    body, results = "\n  ".join(lines), ", ".join(types)
    return f"""func.func @main({", ".join(arguments)}) -> ({results}) {{
  {body}
  return {", ".join(values)} : {results}
}}"""


def with_fake_kernels(program: CompiledProgram) -> CompiledProgram:
    """The same program with code of a fake driver, which is the names of the kernels."""
    (host, code), names = program.objects, " ".join(program.kernels).encode()
    signed = host.replace(sha256(code).digest(), sha256(names).digest())
    return replace(program, objects=[signed, names])


def stepped(executable: Executable, times: int = 1) -> None:
    """Call a STEP, and check what it gives."""
    (buffer,) = [executable.put(X, 0)]
    for _ in range(times):
        (buffer,) = executable.call([buffer])
    assert np.array_equal(np.asarray(buffer), X + times)
