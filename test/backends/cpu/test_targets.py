"""The same programs on every CPU description, without optimization, and with each pass left out."""

from __future__ import annotations

import platform
import runpy
from pathlib import Path

import jax
import jax.export
import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.backends.cpu.features import missing_features
from stablehlo_py.backends.cpu.target import NAMED, required_features
from stablehlo_py.backends.cpu.versions import version_targets
from stablehlo_py.compiler import toggles
from stablehlo_py.debug.compare import difference_of

CASES = runpy.run_path(str(Path(__file__).parents[2] / "python" / "test_against_jax.py"))["CASES"]
CHOSEN = """add swapped zero_size gelu elementary elementary_f64 power integers unsigned bool bf16 f16 complex convert
    transpose slices concatenate pad sum_all sum_rows sum_columns sum_middle max_min argmax softmax layer_norm
    batch_norm matmul matmul_bias_relu matvec batched_matmul integer_matmul matmul_f64 attention conv
    conv_strided conv_depthwise conv_transposed pool pool_gradient gather scatter_add cache sort top_k scan
    lorenz newton switch random_bits""".split()
HERE = [name for name, target in NAMED.items() if not missing_features(required_features(target))]
MODELS = ["mlp", "resnet18", "bert", "gpt2-decode", "lstm", "train-mlp"]


def check(name: str, options: shlo.Options) -> None:
    function, arrays = CASES[name]
    wide = any(array.dtype in (np.float64, np.int64) for array in arrays)
    with jax.enable_x64(wide), jax.default_matmul_precision("highest"):
        specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        exported = jax.export.export(jax.jit(function))(*specs)
        expected = jax.tree.leaves(jax.jit(function)(*arrays))
    for ours, theirs in zip(shlo.compile(exported, options=options)(*arrays), map(np.asarray, expected), strict=True):
        assert ours.dtype == theirs.dtype
        exact = ours.dtype.kind in "iub"
        narrow = ours.dtype.itemsize == 2 and not exact
        assert difference_of(ours, theirs) <= (0 if exact else 2e-2 if narrow else 1e-4)


@pytest.mark.every(3)
@pytest.mark.parametrize("target", [name for name in HERE if name not in ("amx", "avx512vnni", "avx512", "generic")])
@pytest.mark.parametrize("name", CHOSEN)
def test_operations_on_other_targets(name: str, target: str) -> None:
    check(name, shlo.Options(cpu=target))


@pytest.mark.parametrize("name", ["gelu", "softmax", "conv", "bf16", "scan"])
def test_operations_on_the_generic_target(name: str) -> None:
    check(name, shlo.Options(cpu="generic"))


@pytest.mark.parametrize("name", CHOSEN)
def test_operations_without_optimization(name: str) -> None:
    check(name, shlo.Options(opt_level=0))


@pytest.mark.parametrize("name", ["attention", "scan", "layer_norm", "conv_gradient"])
def test_operations_with_verification_between_passes(name: str) -> None:
    check(name, shlo.Options(verify=True))


@pytest.mark.parametrize("disabled", sorted(toggles()))
def test_every_optional_pass_can_be_left_out(disabled: str) -> None:
    for name in ("attention", "scan", "conv_gradient"):
        check(name, shlo.Options(disable=(disabled,)))


@pytest.mark.skipif("avx2" not in HERE, reason="this CPU has no AVX2")
@pytest.mark.parametrize("name", MODELS)
def test_models_on_avx2(name: str) -> None:
    model = suite.build(name)
    results = shlo.compile(suite.export(model), options=shlo.Options(cpu="avx2"))(*model.arrays())
    for ours, theirs in zip(results, suite.reference(model), strict=True):
        assert suite.largest_difference(ours, theirs) <= model.tolerance


@pytest.mark.skipif(platform.machine() != "x86_64", reason="several CPUs of a library are those of x86-64")
def test_a_library_takes_all_cpus_that_its_error_names() -> None:
    with pytest.raises(shlo.OptionError, match="cannot be one of several") as caught:
        version_targets(["x86-64", "sapphirerapids"], None)
    named = str(caught.value.remedy).removeprefix("use ").split(", ")
    assert {"amx", "avx512bf16", "avxvnni", "x86-64-v3"} <= set(named)
    assert len(version_targets(named, None)[0]) == len(named)
