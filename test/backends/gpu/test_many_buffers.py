"""Kernels with more buffers than a launch takes: their addresses are in a table, which launches before them write."""

from __future__ import annotations

import re

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py.compiler import run_stages
from stablehlo_py.errors import ResourceError
from stablehlo_py.frontend.load import load
from stablehlo_py.options import Options

from .test_faults import fake


def function(inputs: list[str], outputs: list[str], lines: list[str], results: list[str]) -> str:
    listed = ", ".join(f"%a{number}: {type_}" for number, type_ in enumerate(inputs))
    head = f"func.func @main({listed}) -> ({', '.join(outputs)}) {{"
    return "\n".join([head, *lines, f"return {', '.join(results)} : {', '.join(outputs)}", "}"])


def names(count: int) -> list[str]:
    return [f"%a{number}" for number in range(count)]


def concatenate(count: int, rows: int = 2) -> str:
    """Of many matrices of one and two columns."""
    types = [f"tensor<{rows}x{1 + number % rows}xf32>" for number in range(count)]
    result = f"tensor<{rows}x{sum(1 + number % rows for number in range(count))}xf32>"
    operands = f"{', '.join(names(count))}, dim = 1 : ({', '.join(types)}) -> {result}"
    return function(types, [result], [f"%0 = stablehlo.concatenate {operands}"], ["%0"])


def total(count: int) -> str:
    """Of many vectors: more ops than a fusion has."""
    type_ = "tensor<500xf32>"
    lines = [
        f"%s{number} = stablehlo.add {f'%s{number - 1}' if number > 1 else '%a0'}, %a{number} : {type_}"
        for number in range(1, count)
    ]
    return function([type_] * count, [type_], lines, [f"%s{count - 1}"])


def sort(count: int) -> str:
    """Of many vectors, by the first; it has scratch memory."""
    type_ = "tensor<40xf32>"
    arguments = ", ".join(f"%x{number}: tensor<f32>, %y{number}: tensor<f32>" for number in range(count))
    listed = ", ".join([type_] * count)
    lines = [
        f'%0:{count} = "stablehlo.sort"({", ".join(names(count))}) ({{',
        f"^bb0({arguments}):",
        "  %less = stablehlo.compare LT, %x0, %y0 : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "  stablehlo.return %less : tensor<i1>",
        f"}}) {{dimension = 0 : i64}} : ({listed}) -> ({listed})",
    ]
    return function([type_] * count, [type_] * count, lines, [f"%0#{number}" for number in range(count)])


def arrays_of(executable: shlo.Executable) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in executable.inputs]


@pytest.mark.parametrize("text", [concatenate(126), concatenate(600), total(140), sort(64)], ids=range(4))
def test_results(real_device, text) -> None:
    """Twice with other buffers, and with buffers that stay."""
    executable, cpus = shlo.compile(text, target="opencl"), shlo.compile(text)
    assert ("shlo_addresses" in executable._program.kernels) == (len(executable.inputs) != 126)
    arrays = arrays_of(executable)
    for _ in range(2):
        for found, expected in zip(executable(*arrays), cpus(*arrays), strict=True):
            np.testing.assert_array_equal(found, expected)
        arrays = [-array for array in arrays]
    buffers = [executable.put(array, number) for number, array in enumerate(arrays)]
    for found, expected in zip(executable.call(buffers), cpus(*arrays), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize(("gpu", "most"), [(None, 128), ("sm_90", 512), ("gfx942", 512)])
def test_parameters(gpu, most) -> None:
    """As many as every device takes, or one."""
    for pointers in (most, most + 1):
        target = {None: "opencl", "sm_90": "cuda", "gfx942": "rocm"}[gpu]
        text = run_stages(load(concatenate(pointers - 2)), "", "kernels", Options(gpu=gpu), target=target)
        kernels = dict(re.findall(r"llvm\.func \w+kernelcc @(\S+?)\(([^\n]*)\) attributes", str(text)))
        counts = {name: parameters.count("!llvm.ptr") for name, parameters in kernels.items()}
        assert counts == ({"fusion_0": most} if pointers == most else {"fusion_0": 1, "shlo_addresses": most})


def test_the_driver_is_told_what_a_kernel_reaches(fake_device) -> None:
    """Once in a call; where it has no memory for that, the call fails, and the next one does not."""
    executable = fake(concatenate(300, rows=1))  # the fake kernel writes no further than the table
    arrays = arrays_of(executable)
    for calls in (1, 2):
        executable(*arrays)
        assert fake_device.calls("clSetKernelExecInfo") == calls
        assert fake_device.calls("clEnqueueNDRangeKernel") == calls * (1 + 3)  # 302 addresses, 127 at a time
    fake_device.fail("clSetKernelExecInfo", -6)
    with pytest.raises(ResourceError, match="at kernel 'fusion_0', on opencl:0 ended with CL_OUT_OF_HOST_MEMORY"):
        executable(*arrays)
    executable(*arrays)
