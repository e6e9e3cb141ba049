"""CHLO ops whose types or dimensions upstream's verifier lets pass, though they mean nothing: refused at their line."""

from __future__ import annotations

import pytest

import stablehlo_py as shlo

OPTIONS = shlo.Options(opt_level=0, threads=1)


def program(name: str, lhs: str, rhs: str, result: str, attributes: str = "") -> str:
    return f"""func.func @main(%a: tensor<{lhs}>, %b: tensor<{rhs}>) -> tensor<{result}> {{
  %0 = "chlo.{name}"(%a, %b) {{{attributes}}} : (tensor<{lhs}>, tensor<{rhs}>) -> tensor<{result}>
  return %0 : tensor<{result}>
}}"""


@pytest.mark.parametrize(
    ("name", "element", "words"),
    [
        ("broadcast_shift_left", "f64", "not defined for elements of type f64"),
        ("broadcast_shift_right_logical", "i1", "not defined for elements of type i1"),
        ("broadcast_next_after", "ui8", "not defined for elements of type ui8"),
        ("broadcast_next_after", "complex<f32>", "not defined for elements of type complex"),
        ("broadcast_polygamma", "complex<f64>", "not defined for elements of type complex"),
        ("broadcast_divide", "i1", "not defined for elements of type i1"),
    ],
)
def test_elements_that_a_broadcasting_op_is_not_defined_for(name: str, element: str, words: str) -> None:
    type_ = f"3x{element}"
    with pytest.raises(shlo.UnsupportedError, match=words) as caught:
        shlo.compile(program(name, type_, type_, type_), options=OPTIONS)
    assert caught.value.location == "<text>:2:8" and caught.value.op == f"chlo.{name}" and caught.value.remedy


@pytest.mark.parametrize("dimensions", ["", ": 1, 2", ": 5", ": 0, 1, 2", ": 0"])
@pytest.mark.parametrize("name", ["broadcast_add", "broadcast_zeta"])
def test_broadcast_dimensions_that_name_no_dimensions(name: str, dimensions: str) -> None:
    attributes = f"broadcast_dimensions = array<i64{dimensions}>"
    with pytest.raises(shlo.ShloError) as caught:
        shlo.compile(program(name, "2x3xf32", "3xf32", "2x3xf32", attributes), options=OPTIONS)
    assert not isinstance(caught.value, shlo.InternalError) and caught.value.location == "<text>:2:8"


@pytest.mark.parametrize("element", ["i1", "i4", "ui8", "f8E5M2FNUZ", "f32", "complex<f32>"])
@pytest.mark.parametrize("name", "atan2 complex maximum power remainder shift_left subtract xor".split())
def test_every_type_compiles_or_is_refused(name: str, element: str) -> None:
    type_ = f"3x{element}"
    try:
        shlo.compile(program(f"broadcast_{name}", type_, type_, type_), options=OPTIONS)
    except shlo.ShloError as error:
        assert not isinstance(error, shlo.InternalError), error


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("module {\n}", "<text>:1:1"),
        ("\nfunc.func private @f()\n", "<text>"),
        ("\nfunc.func @a() { return }\nfunc.func @b() { return }", "<text>:2:1"),
    ],
)
def test_errors_about_functions_have_a_place(text: str, location: str) -> None:
    with pytest.raises(shlo.ShloError) as caught:
        shlo.load(text)
    assert (caught.value.location or "").startswith(location)
