"""Custom calls of Triton's kernels, as they are read: the typed configuration, and the compressed message."""

from __future__ import annotations

import pytest
from triton_exports import (
    KERNEL,
    PLAIN,
    PROGRAMS,
    SCALED,
    array,
    field,
    kernel_call,
    model,
    packed,
    typed,
)

import stablehlo_py as shlo
from stablehlo_py.compiler import run_stages
from stablehlo_py.dialect.calls import main_function
from stablehlo_py.dialect.triton_calls import Scalar, TritonCall, triton_call
from stablehlo_py.errors import UnsupportedError

TYPED, PACKED = '"__gpu$xla.gpu.triton"', "triton_kernel_call"


def read(text: str) -> TritonCall:
    """The only call of a program, legalized."""
    module = run_stages(shlo.load(text), "", "hlo", target="cuda")
    with module.context:
        operations = main_function(module).regions[0].blocks[0].operations
        (op,) = (op for op in operations if op.operation.name == "stablehlo.custom_call")
        return triton_call(op)


def test_typed() -> None:
    call = read(model(TYPED, typed()))
    assert call == TritonCall("copy", PLAIN.encode(), (1, PROGRAMS, 1), 4, 2)
    assert call.programs == PROGRAMS


def test_what_is_to_be_zero() -> None:
    more = ", zeroed_outputs = [1 : i64]"
    assert read(model(TYPED, typed(more=more))).zeroed == ((1, None),)
    parameters = (array(), field(7, 1.0), array(zeroed=512))
    assert read(model(PACKED, packed(field(1, kernel_call(parameters))))).zeroed == ((1, 512),)


@pytest.mark.parametrize("target", [PACKED, "triton_kernel_call_ffi"])
def test_packed(target: str) -> None:
    attributes = packed(field(1, kernel_call(SCALED)))
    if target.endswith("ffi"):
        attributes = attributes.replace('backend_config = "', 'mhlo.backend_config = {name = "a", opaque = "') + "}"
    call = read(model(target, attributes))
    parameters = (None, Scalar("f32", "0x40200000"), None)
    assert call == TritonCall("", KERNEL.encode(), (PROGRAMS, 1, 1), 4, 3, parameters)


@pytest.mark.parametrize(
    ("parameter", "wanted"),
    [
        (field(2, 1), Scalar("i1", "true")),
        (field(3, -5), Scalar("i32", "-5")),
        (field(4, 0xFFFFFFFF), Scalar("i32", "-1")),
        (field(5, -(1 << 40)), Scalar("i64", str(-(1 << 40)))),
        (field(6, 7), Scalar("i64", "7")),
        (bytes([8 << 3 | 1]) + b"\0\0\0\0\0\0\xf0?", Scalar("f64", "0x3FF0000000000000")),
    ],
)
def test_numbers(parameter: bytes, wanted: Scalar) -> None:
    call = read(model(PACKED, packed(field(1, kernel_call((array(), parameter, array()))))))
    assert call.parameters[1] == wanted


def test_the_first_of_several_kernels() -> None:
    """A call that leaves the choice to whoever times them."""
    configs = [field(1, kernel_call(SCALED, warps=warps)) + field(2, b"config") for warps in (8, 4)]
    message = field(2, field(1, b"tuned") + b"".join(field(2, config) for config in configs))
    assert read(model(PACKED, packed(message))).warps == 8


WHOLE = field(1, kernel_call(SCALED))
BAD = {
    "no whole number": typed().replace("4 : i32", '"four"'),
    "without 'ir'": typed().replace("ir =", "it ="),
    "a grid of 0 x 1 x 1 programs": typed(grid=(0, 1, 1)),
    "a grid of 65536 x 65536 x 2 programs": typed(grid=(65536, 65536, 2)),
    "3 warps": typed().replace("num_warps = 4", "num_warps = 3"),
    "wants memory of its own": typed(more=", global_scratch_memory_size = 128 : i64"),
    "none of its operands and results": typed(more=", zeroed_outputs = [2 : i64]"),
    "it holds no IR": typed(ir=""),
    "incorrect header check": packed(b"").replace("\\78", "\\00", 1),
    "its message is cut off$": packed(WHOLE + b"\x80"),
    "cut off, or too long": packed(WHOLE)[:-16] + '"',
    "holds no kernel": packed(field(4, b"a name")),
    "work in clusters": packed(field(1, kernel_call(SCALED, clusters=2))),
    "1 parameters are pointers, and the call has 2": packed(field(1, kernel_call(SCALED[:2]))),
    "a parameter of no known kind": packed(field(1, kernel_call((*SCALED, field(9, 1))))),
    "none of Protocol Buffers": packed(field(1, kernel_call(SCALED)) + b"\x0f"),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_is_not_as_jax_writes_it(reason: str) -> None:
    target = TYPED if "mhlo" in BAD[reason] else PACKED
    with pytest.raises(UnsupportedError, match=rf"(?m)is not as JAX writes it: (.*){reason}"):
        read(model(target, BAD[reason]))


def test_every_cut_is_refused() -> None:
    """A message that ends anywhere is an error, or a smaller one; nothing else is raised."""
    refused = 0
    for end in range(0, len(WHOLE), 7):
        try:
            read(model(PACKED, packed(WHOLE[:end])))
        except UnsupportedError:
            refused += 1
    assert refused > len(WHOLE) // 7 - 2
