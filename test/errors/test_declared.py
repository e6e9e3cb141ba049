"""Attributes that MLIR leaves to their readers, and calls that are known by name: what does not fit is refused where
the module is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stablehlo_py
from stablehlo_py.errors import LoadError, UnsupportedError
from stablehlo_py.frontend.load import load

PROGRAM = """module @m attributes {{{module}}} {{
  func.func @main(%x: tensor<3xf32> {{{argument}}}) -> (tensor<3xf32> {{{result}}}) attributes {{{function}}} {{
    %0 = stablehlo.custom_call @f(%x) {{{call}}} : (tensor<3xf32>) -> tensor<3xf32> loc("model.py":4:2)
    "func.return"(%0) {{{end}}} : (tensor<3xf32>) -> ()
  }}
}}"""
PLACES = dict.fromkeys(("module", "argument", "result", "function", "call", "end"), "")


@pytest.mark.parametrize(
    ("place", "attribute", "message"),
    [
        ("module", 'mhlo.num_replicas = "two"', 'mhlo.num_replicas = "two", which must be a positive integer'),
        ("module", "mhlo.num_partitions = 0 : i32", "must be a positive integer"),
        ("module", "hlo.donations = array<i64: 0>", "hlo.donations, which is of this compiler's own making"),
        ("module", "hlo.replicated = 1", "must be an attribute without a value"),
        ("argument", "tf.aliasing_output = [0]", r"tf.aliasing_output = [0], which must be an integer"),
        ("argument", "jax.buffer_donor = 1.0", "which must be true or false"),
        ("argument", "jax.global_constant = 3", "which must be a string"),
        ("argument", "hlo.process", "of this compiler's own making"),
        ("result", "jax.result_info = []", "which must be a string"),
        ("function", 'hlo.fusion = "loop"', "of this compiler's own making"),
        ("call", "hlo.operand_orders = 1", "of this compiler's own making"),
        ("call", "mhlo.sharding = 1", "which must be a string"),
        ("end", "hlo.slices = array<i64: 2, 1, 0, 12>", "of this compiler's own making"),
    ],
)
def test_attributes_of_another_kind(place: str, attribute: str, message: str) -> None:
    with pytest.raises(LoadError, match=re.escape(message)) as error:
        load(PROGRAM.format(**{**PLACES, place: attribute}))
    assert error.value.op in ("builtin.module", "func.func", "func.return", "stablehlo.custom_call")


@pytest.mark.parametrize("attribute", ["hlo.slices = array<i64: 1, 0, 0, 1024>", "hlo.unread", "hlo.in_bounds"])
def test_what_backends_believe_of_any_op(attribute: str) -> None:
    """Modules may be in the hlo dialect."""
    text = """func.func @main(%x: tensor<f32>) -> tensor<3xf32> {{
      %0 = "hlo.broadcast"(%x) {{dimensions = array<i64>{}}} : (tensor<f32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }}"""
    load(text.format(""))
    with pytest.raises(LoadError, match="which is of this compiler's own making") as error:
        load(text.format(f", {attribute}"))
    assert error.value.op == "hlo.broadcast"


def test_what_loading_writes_can_be_loaded_again() -> None:
    load(PROGRAM.format(**{**PLACES, "module": "hlo.replicated, hlo.whole_windows, mhlo.num_partitions = 1 : i32"}))


FORMS = (Path(__file__).parents[1] / "conformance/forms/custom_calls.mlir").read_text().split("// -----\n")


def _with_target(target: str) -> str:
    return next(text for text in FORMS if f"@{target}(" in text)


@pytest.mark.parametrize(
    ("target", "old", "new"),
    [
        ("mhlo.erf", "f32", "i32"),
        ("mhlo.topk", "k = 2", "k = 9"),
        ("mhlo.topk", "k = 2 : i64", "k = [2]"),
        ("stablehlo.dynamic_top_k", "(%a, %c) : (tensor<4xf32>, tensor<i32>)", "(%a) : (tensor<4xf32>)"),
        ("stablehlo.dynamic_rng_bit_generator", "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>", "a = 1"),
        ("stablehlo.dynamic_reduce_window", "{called_computations = [@sum]}", "{a = 1}"),
        ("stablehlo.dynamic_reduce_window", "{called_computations = [@sum]}", "{called_computations = [@main]}"),
        ("ApproxTopK", "[@order]", "[@main]"),
        ("ApproxTopK", "reduction_dim = 1 ", "reduction_dim = 2 "),
        ("ApproxTopK", "[@order]", "[]"),
        ("dce_sink", "stablehlo.custom_call @dce_sink(%5) {has_side_effect = true} : (tensor<4x2xf32>) -> ()",
         "%9 = stablehlo.custom_call @dce_sink(%5) {has_side_effect = true} : (tensor<4x2xf32>) -> tensor<i1>"),
    ],
)  # fmt: skip
def test_calls_that_are_not_as_their_target_takes_them(target: str, old: str, new: str) -> None:
    text = _with_target(target)
    assert old in text
    load(text)
    with pytest.raises(LoadError, match=f"'{re.escape(target)}' takes ") as error:
        load(text.replace(old, new))
    assert error.value.op == "stablehlo.custom_call"


def test_lapack_is_for_its_own_element_type() -> None:
    with pytest.raises(UnsupportedError, match="lapack_strsm_ffi"):
        stablehlo_py.compile(_with_target("lapack_strsm_ffi").replace("f32", "i16"))


def test_encodings_of_known_shapes_are_refused() -> None:
    text = """func.func @main() -> tensor<ui32, #stablehlo.bounds<>> {
      %0 = "stablehlo.replica_id"() : () -> tensor<ui32, #stablehlo.bounds<>>
      return %0 : tensor<ui32, #stablehlo.bounds<>>
    }"""
    with pytest.raises(UnsupportedError, match="has an encoding, though its shape is static"):
        load(text)


def test_indices_are_integers() -> None:
    text = """func.func @main(%x: tensor<5x3xf32>, %i: tensor<2xf32>) -> tensor<2x3xf32> {
      %0 = "stablehlo.torch_index_select"(%x, %i) {dim = 0 : i64, batch_dims = 0 : i64}
        : (tensor<5x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    with pytest.raises(UnsupportedError, match="selects f32 from f32 by f32"):
        stablehlo_py.compile(text)


@pytest.mark.parametrize("size", ["?", "4"])
@pytest.mark.parametrize(
    ("target", "operands", "attributes", "results"),
    [
        ("rng_bit_generator", "%s, %n", "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>", "tensor<2xui64>, {x}"),
        ("rng_bit_generator", "%s", "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>", "tensor<2xui64>, {x}"),
        ("rng_bit_generator", "%s, %n", "", "tensor<2xui64>, {x}"),
        ("rng_bit_generator", "%s, %n", "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>", "tensor<2xui64>"),
        ("top_k", "%x", "", "{x}, {x}"),
        ("top_k", "%x, %n", "", "{x}, {x}"),
        ("top_k", "%z, %k", "", "{x}, {x}"),
        ("top_k", "%x, %k", "", "{x}"),
        ("reduce_window", "%x, %z, %n, %n, %n, %n, %n", "called_computations = [@sum]", "{x}"),
        ("reduce_window", "%x, %n, %n, %n, %n, %n", "called_computations = [@sum]", "{x}"),
        ("reduce_window", "", "called_computations = [@sum]", "{x}"),
        ("reduce_window", "%x, %z, %n, %n, %n, %n, %n", "", "{x}"),
    ],
)
def test_dynamic_calls_with_operands_that_their_op_does_not_have(
    size: str, target: str, operands: str, attributes: str, results: str
) -> None:
    """Nobody else looks at the signature of a custom call: internal errors of many kinds."""
    types = {
        "%x": f"tensor<{size}xf32>",
        "%s": "tensor<2xui64>",
        "%n": "tensor<0xi64>",
        "%z": "tensor<f32>",
        "%k": "tensor<i64>",
    }
    results = results.format(x=types["%x"])
    given = ", ".join(types[name] for name in operands.split(", ") if name)
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
    count = results.count("tensor")
    text = f"""
    func.func @main({arguments}) -> ({results}) {{
      %0:{count} = stablehlo.custom_call @stablehlo.dynamic_{target}({operands}) {{{attributes}}}
        : ({given}) -> ({results})
      return {", ".join(f"%0#{i}" for i in range(count))} : {results}
    }}
    func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
      %0 = stablehlo.add %a, %b : tensor<f32>
      return %0 : tensor<f32>
    }}"""
    with pytest.raises(LoadError, match=f"dynamic_{target}"):
        load(text)
