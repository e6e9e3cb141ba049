"""Every model of the suite at its small size: exported, compiled, run, compared with JAX."""

import functools

import numpy as np
import pytest

import stablehlo_py as shlo
from stablehlo_py import suite
from stablehlo_py.errors import OptionError
from stablehlo_py.suite.peers import PEERS

OPTIONS = shlo.Options(threads=1, cache_dir=None)


@functools.lru_cache(maxsize=1)
def of_jax(name):
    """A model at its small size, exported, and its results."""
    model = suite.build(name, "small")
    return model, suite.export(model), suite.reference(model)


def check(model, exported=None, expected=None, target="cpu"):
    """The executable and the results of its first call, which are compared with JAX's."""
    executable = shlo.compile(exported or suite.export(model), target=target, options=OPTIONS)
    results = executable(*model.arrays())
    expected = expected or suite.reference(model)
    assert len(results) == len(expected)
    for number, (actual, wanted) in enumerate(zip(results, expected, strict=True)):
        difference = suite.largest_difference(actual, wanted)
        assert difference <= model.tolerance, f"output {number} is {difference:.2e} off"
    return executable, results


# The targets of a model come one after the other, so that JAX prepares it once.
@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("name", suite.names())
@pytest.mark.usefixtures("built_sooner")
def test_model_agrees_with_jax_and_gives_the_same_bits_again(name, target, request):
    if target == "opencl":
        request.getfixturevalue("real_device")
    model, exported, expected = of_jax(name)
    executable, results = check(model, exported, expected, target)
    for first, second in zip(results, executable(*model.arrays()), strict=True):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


@pytest.mark.parametrize("name", suite.names("loops"))
def test_loop_agrees_with_jax(name):
    check(suite.build(name))


@pytest.mark.parametrize("name", suite.names("operations"))
def test_operation_agrees_with_jax_and_with_the_peers_that_state_it(name):
    model = suite.build(name)
    _, results = check(model)
    for peer in ("numpy", "torch"):
        copies = [array.copy() for array in model.arrays()]
        prepared = PEERS[peer].prepare(model, copies, b"", 1) if PEERS[peer].version else None
        if prepared is not None:
            assert prepared.disagreement(model.arrays(), results, model.tolerance) is None, peer


def test_an_operation_keeps_types_of_64_bits_and_is_cut_at_the_small_size():
    small, full = (suite.build("elementwise/f64-exp", size) for size in ("small", "full"))
    assert [aval.dtype for aval in suite.export(small).in_avals] == [np.float64]
    assert (small.arrays()[0].shape, full.arrays()[0].shape) == ((15_625,), (1_000_000,))


@pytest.mark.parametrize("name", ["mlp", "resnet18", "lstm", "layer-norm"])
def test_model_with_constant_weights_agrees_with_jax(name):
    model = suite.build(name, "small", weights="constant")
    assert len(model.arrays()) == len(model.inputs)
    check(model)


@pytest.mark.parametrize("name", ["mlp", "train-convnet", "attention"])
def test_two_threads_give_the_same_bits(name):
    model = suite.build(name, "small")
    exported, arrays = suite.export(model), model.arrays()
    one = shlo.compile(exported, options=OPTIONS)(*arrays)
    two = shlo.compile(exported, options=shlo.Options(threads=2, cache_dir=None))(*arrays)
    for a, b in zip(one, two, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", suite.names())
def test_models_are_deterministic_and_export_all_their_arguments(name):
    first, second = suite.build(name, "small"), suite.build(name, "small")
    for a, b in zip(first.arrays(), second.arrays(), strict=True):
        assert np.array_equal(a, b)
    exported = suite.export(first)
    avals = [(tuple(aval.shape), aval.dtype) for aval in exported.in_avals]
    assert avals == [(array.shape, array.dtype) for array in first.arrays()]
    assert len(exported.module_kept_var_idx) == len(avals)


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(OptionError, match="mlp, "):
        suite.build("alexnet")
    with pytest.raises(OptionError, match="small or full"):
        suite.build("mlp", "medium")
    with pytest.raises(OptionError, match="argument or constant"):
        suite.build("mlp", weights="shared")


def test_the_difference_counts_what_is_not_finite():
    one = np.array([1.0, np.nan, np.inf])
    assert suite.largest_difference(one, one) == 0.0
    assert suite.largest_difference(np.array([1.0, 0.0, np.inf]), one) == float("inf")
    assert suite.largest_difference(np.array([1.0, np.nan, -np.inf]), one) == float("inf")
    assert suite.largest_difference(np.array([np.nan]), np.array([1.0])) == float("inf")
    assert suite.largest_difference(np.array([110.0]), np.array([100.0])) == pytest.approx(0.1)
    assert suite.largest_difference(np.float32([1]), np.array([1.0])) == float("inf")
