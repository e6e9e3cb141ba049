"""The linalg of models, compiled and run by IREE: another compiler that starts there takes it, and agrees with JAX."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.compiler import run_stages
from stablehlo_py.frontend.load import load

pytest.importorskip("iree.compiler", reason="needs iree-base-compiler: pip install 'stablehlo-py[test]'")
pytest.importorskip("iree.runtime", reason="needs iree-base-runtime: pip install 'stablehlo-py[test]'")

# A model of each kind (docs/linalg.md: all others do, too).
MODELS = (
    "mlp",
    "mlp-bfloat16",
    "softmax",
    "attention",
    "mixture-of-experts",
    "resnet18",
    "gpt2-decode",
    "lstm",
    "train-mlp",
    "train-convnet",
    "dormand-prince",
    "branches",
)


def linalg_of(model: suite.Model) -> str:
    options = shlo.Options(cache_dir=None)
    return str(run_stages(load(suite.export(model)), "", "linalg", options, target="linalg"))


def run_by_iree(text: str, arrays: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """The results of `@main`."""
    import iree.compiler
    import iree.runtime

    file = folder / "model.vmfb"
    iree.compiler.compile_str(
        text,
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
        output_file=str(file),
    )
    module = iree.runtime.load_vm_flatbuffer_file(str(file), driver="local-sync")
    results = module.main(*arrays)
    return [each.to_host() for each in (results if isinstance(results, (tuple, list)) else [results])]


@pytest.mark.parametrize("name", MODELS)
def test_iree_agrees_with_jax(name: str, tmp_path: Path) -> None:
    model = suite.build(name, "small")
    results = run_by_iree(linalg_of(model), model.arrays(), tmp_path)
    expected = suite.reference(model)
    assert len(results) == len(expected)
    for number, (actual, wanted) in enumerate(zip(results, expected, strict=True)):
        if np.asarray(wanted).dtype == ml_dtypes.bfloat16:  # IREE hands out the bits
            actual = np.asarray(actual).view(ml_dtypes.bfloat16)
        difference = suite.largest_difference(actual, wanted)
        assert difference <= model.tolerance, f"output {number} is {difference:.2e} off"
