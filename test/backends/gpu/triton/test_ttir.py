"""Kernels of users in Triton's IR, as text that calls them with a program's own parameters."""

from __future__ import annotations

import re

import pytest
from triton_exports import KERNEL, PLAIN

from stablehlo_py.backends.gpu.triton.ttir import NoKernel, Number, Signature, along_one_axis, as_kernel

HALF = Number("f32", "0x3F000000")


def test_a_wrapper() -> None:
    """Pointers by their names, numbers as constants; what nobody uses is a pointer all the same."""
    signature = Signature(("in0", "in1", "out0"), ("in0", HALF, "out0"), (8, 1, 1))
    made = as_kernel(KERNEL, "", "fusion_0", signature).splitlines()
    assert made[1].split("(")[0] == "  tt.func public @fusion_0"
    assert re.findall(r"%(\w+): (\S+) ", made[1]) == [
        ("in0", "!tt.ptr<f32>"),
        ("in1", "!tt.ptr<i8>"),
        ("out0", "!tt.ptr<f32>"),
    ]
    assert made[1].count("tt.divisibility = 16 : i32") == 3
    assert [line.strip() for line in made[2:6]] == [
        "%number1 = arith.constant 0x3F000000 : f32",
        "tt.call @fusion_0_inner(%in0, %number1, %out0) : (!tt.ptr<f32>, f32, !tt.ptr<f32>) -> ()",
        "tt.return",
        "}",
    ]
    assert "\n".join([made[0], *made[6:]]) + "\n" == KERNEL.replace("public @scale", "private @fusion_0_inner")


def test_one_array_of_two_types() -> None:
    text = PLAIN.replace("%arg2: !tt.ptr<f32>", "%arg2: !tt.ptr<bf16>").replace("y : i32", "x : i32")
    made = as_kernel(text, "copy", "k", Signature(("out0",), ("out0", "out0"), (8, 1, 1)))
    assert "%pointer1 = tt.bitcast %out0 : !tt.ptr<f32> -> !tt.ptr<bf16>" in made
    assert "tt.call @k_inner(%out0, %pointer1)" in made


def _numbers(text: str, program: int) -> dict[str, int]:
    """What the lines of a text compute, as Python does it."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, expression = line.strip().partition(" = ")
        op, *operands = re.split(r"[ ,]+", expression.partition(" : ")[0])
        if op == "arith.constant":
            found[name] = int(operands[0])
        elif op == "tt.get_program_id":
            assert operands == ["x"]
            found[name] = program
        else:
            a, b = (found[each] for each in operands)
            found[name] = {"arith.divsi": a // b, "arith.remsi": a % b}[op]
    return found


def test_three_axes_along_one() -> None:
    """The first one runs fastest; names that the text has are not taken again."""
    grid = (3, 4, 5)
    lines = [f"  %axis_{axis} = tt.get_program_id {axis} : i32" for axis in "xyz"]
    lines += [f"  %count_{axis} = tt.get_num_programs {axis} : i32" for axis in "xyz"]
    made = along_one_axis("\n".join(lines), grid)
    for program in range(3 * 4 * 5):
        found = _numbers(made, program)
        x, y, z = (found[f"%axis_{axis}"] for axis in "xyz")
        assert x + 3 * (y + 4 * z) == program and x < 3 and y < 4
        assert tuple(found[f"%count_{axis}"] for axis in "xyz") == grid


def test_a_line_stays_as_it_is() -> None:
    assert along_one_axis(KERNEL, (8, 1, 1)) == KERNEL
    assert "tt.get_program_id y" not in along_one_axis(PLAIN, (8, 1, 1))


@pytest.mark.parametrize(
    ("text", "name", "arguments", "reason"),
    [
        (KERNEL, "other", ("in0", HALF, "out0"), "one public function other, not with scale"),
        (KERNEL + KERNEL.replace("scale", "more"), "", ("in0", HALF, "out0"), "function, not with scale, more"),
        ("module {\n}\n", "", (), "not with none"),
        (KERNEL, "", ("in0", "out0"), "a kernel of 3 parameters, of which the call gives 2"),
        (KERNEL, "", ("in0", "out0", HALF), "parameter 1 is f32, for which the call has an array"),
        (KERNEL, "", ("in0", Number("i32", "5"), "out0"), "parameter 1 is f32, for which the call has i32"),
        (KERNEL, "", (HALF, HALF, "out0"), "parameter 0 is !tt.ptr<f32>, for which the call has f32"),
        (KERNEL.replace("%arg1: f32", "%arg1: f32 loc(unknown)"), "", ("in0", HALF, "out0"), "the parameter '%arg1"),
    ],
)  # fmt: skip
def test_what_is_no_kernel(text: str, name: str, arguments: tuple[str | Number, ...], reason: str) -> None:
    with pytest.raises(NoKernel, match=re.escape(reason)):
        as_kernel(text, name, "k", Signature(("in0", "out0"), arguments, (8, 1, 1)))
