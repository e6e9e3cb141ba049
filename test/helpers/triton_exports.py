"""Calls of Triton's kernels as exports hold them, for tests of these."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

SIZE, PROGRAMS = 1024, 8
# Of y = a x, element by element, in the IR that Triton prints.
KERNEL = """module {
  tt.func public @scale(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: f32, %arg2: !tt.ptr<f32>) {
    %0 = tt.get_program_id x : i32
    %c128_i32 = arith.constant 128 : i32
    %1 = arith.muli %0, %c128_i32 : i32
    %2 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %3 = tt.splat %1 : i32 -> tensor<128xi32>
    %4 = arith.addi %2, %3 : tensor<128xi32>
    %5 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %6 = tt.addptr %5, %4 : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %7 = tt.load %6 : tensor<128x!tt.ptr<f32>>
    %8 = tt.splat %arg1 : f32 -> tensor<128xf32>
    %9 = arith.mulf %7, %8 : tensor<128xf32>
    %10 = tt.splat %arg2 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %11 = tt.addptr %10, %4 : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %11, %9 : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""
# The same without a number as a parameter, in a grid of two axes.
PLAIN = (
    KERNEL.replace("@scale", "@copy")
    .replace(" %arg1: f32,", "")
    .replace("%0 = tt.get_program_id x : i32", "%0 = tt.get_program_id y : i32")
    .replace("%8 = tt.splat %arg1 : f32 -> tensor<128xf32>", "%8 = arith.addf %7, %7 : tensor<128xf32>")
)


def typed(ir: str = PLAIN, name: str = "copy", grid: Sequence[int] = (1, PROGRAMS, 1), more: str = "") -> str:
    """The attributes of a call of `__gpu$xla.gpu.triton`."""
    x, y, z = (f"grid_{axis} = {count} : i32" for axis, count in zip("xyz", grid, strict=True))
    entries = f'debug = false, {x}, {y}, {z}, ir = "{_escaped(ir.encode())}", name = "{name}"'
    return f"mhlo.backend_config = {{{entries}, num_stages = 2 : i32, num_warps = 4 : i32{more}}}"


def packed(message: bytes) -> str:
    """Those of a call of `triton_kernel_call`."""
    return f'backend_config = "{_escaped(zlib.compress(message))}"'


def model(target: str, attributes: str, results: int = 1, more: str = "") -> str:
    """A program that calls a kernel with its argument."""
    of = f"tensor<{SIZE}xf32>"
    given = ", ".join([of] * results)
    names = ", ".join(f"%0#{number}" for number in range(results))
    version = 4 if "mhlo" in attributes else 2
    return f"""func.func @main(%x: {of}) -> ({given}) {{
  %0:{results} = stablehlo.custom_call @{target}(%x) {{{attributes}{more}, api_version = {version} : i32}}
    : ({of}) -> ({given}) loc("kernels.py":7:3)
  return {names} : {given}
}}"""


# --- messages of Protocol Buffers -------------------------------------------------------------------------------------


def field(number: int, value: int | float | bytes) -> bytes:
    """A whole number, a float of 32 bits, or bytes."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value & (1 << 64) - 1)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """7 bits in each byte."""
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def kernel_call(parameters: Sequence[bytes], ir: str = KERNEL, warps: int = 4, clusters: int = 1) -> bytes:
    """A `TritonKernelCall`; `parameters` are messages of their own."""
    kernel = field(1, b"scale") + field(2, warps) + field(10, clusters) + field(4, b"// PTX") + field(5, ir.encode())
    listed = b"".join(field(5, each) for each in parameters)
    return field(1, kernel) + field(2, PROGRAMS) + field(3, 1) + field(4, 1) + listed


def array(zeroed: int = 0) -> bytes:
    """A parameter that is a pointer; how many bytes there are to be zero."""
    return field(1, field(1, zeroed) + field(2, 16))


SCALED = (array(), field(7, 2.5), array())


def _escaped(data: bytes) -> str:
    return "".join(f"\\{byte:02X}" for byte in data)
