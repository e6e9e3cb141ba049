"""What rows of a loop kernel have in common."""

from __future__ import annotations

import numpy as np
import pytest
from one_kernel import build_fusion, compile_kernel, here

from stablehlo_py.backends.cpu.target import AVX512
from stablehlo_py.dialect import build
from stablehlo_py.mlir import ir


@pytest.mark.skipif(not here(AVX512), reason="needs AVX-512")
@pytest.mark.parametrize(("columns", "loops"), [(64, 1), (128, 1), (72, 2), (256, 2)])
def test_it_stays_in_registers(columns: int, loops: int) -> None:
    def body(x: ir.Value, a: ir.Value) -> ir.Value:
        return build.like("add", x, build.broadcast(a, [40, columns], [1]))

    random = np.random.default_rng(0)
    x, a = (random.standard_normal(sizes).astype(np.float32) for sizes in ((40, columns), (columns,)))
    types = [f"tensor<40x{columns}xf32>", f"tensor<{columns}xf32>"]
    compiled = compile_kernel(build_fusion("loop", types, body), AVX512)
    np.testing.assert_array_equal(compiled.run([x, a])[0], x + a)
    assert "".join(compiled.kernel.functions.values()).count("llvm.cond_br") == loops
